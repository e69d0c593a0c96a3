// Declares every option once, with its check and its help.

#include "tools/coppice/command_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/coppice/bench_command_line.h"
#include "tools/coppice/export_command_line.h"
#include "tools/coppice/info.h"
#include "tools/coppice/package_command_line.h"
#include "tools/coppice/tune_command_line.h"
#include "tools/coppice/watch_command_line.h"
#include "tools/plan/plan_command.h"
#include "tools/prof/html/prof_html.h"
#include "tools/prof/prof.h"
#include "tools/prof/whatif/whatif_command.h"
#include "tools/ptx/ptx.h"
#include "tools/run/run.h"
#include "tools/soak/soak.h"
#include "tools/support/byte_text.h"
#include "tools/support/command.h"
#include "tools/support/console.h"

namespace coppice {
namespace {

constexpr const char* kSummary =
    "CUDA graphs with dynamic shapes: one graph per shape bucket, one pool for all.\n"
    "With a GPU and without: where there is no CUDA driver, an emulator of it takes its place.";

constexpr const char* kRunExamples =
    "A trace is a CSV file with the header arrival_seconds,input_tokens,output_tokens; further\n"
    "columns are ignored; if every arrival is empty, arrivals are a Poisson process. Time is a\n"
    "virtual clock, so that batches depend on the trace and the seed only. Policies: exact,\n"
    "linear:STEP, pow2, geometric:RATIO:ALIGN, ramp:MINIMUM:STEP, or a list of buckets.\n"
    "\n"
    "Examples:\n"
    "  coppice run                                  2000 generated requests, 20 of them verified\n"
    "  coppice run trace.csv --limit 200 --verify all --poison\n"
    "  coppice run --order random:7 --json          record every bucket ahead, shuffled\n"
    "  coppice run --trace-out run.trace            keep every call, recording and byte\n"
    "  coppice run --dump-graphs graphs             then: dot -Tsvg -O graphs/*.dot\n"
    "  coppice run --package samples/torch_decoder.zip --requests 20\n"
    "  coppice run --generate code --prefill-policy pow2 --decode-policy 1,2,4,8,16,32\n"
    "  coppice run trace.csv --policy vllm --relearn=500\n";

constexpr const char* kPlanNotes =
    "A file has a header and one buffer per row. Columns, in any order:\n"
    "  id, or buffer, buffer_id       unique\n"
    "  lower, or begin, start         the first step that needs the buffer\n"
    "  upper, or end                  the step after the last one; end: the last one\n"
    "  size                           bytes\n"
    "  alignment                      optional power of two, default 1\n"
    "  gaps                           optional steps without need of it: 3-5 8-9\n"
    "  offset                         optional: where the buffer must lie; empty: anywhere\n"
    "Other columns, hint and out among them, are kept and change nothing.\n"
    "\n"
    "Each file is planned on its own; together they share one arena, as high as the highest. With\n"
    "several files, --output and --svg name folders, in which each file gets its own.\n"
    "\n"
    "Examples:\n"
    "  coppice plan model.csv                         height, bound, and what found the plan\n"
    "  coppice plan model.csv --capacity 1048576 -o plan.csv --svg plan.svg\n"
    "  coppice plan buckets/*.csv -o plans --json     one row per bucket, and the arena\n";

struct ProfExample {
  std::string_view command;
  std::string_view meaning;
};

constexpr std::array kProfExamples = {
    ProfExample{"summary t.trace", "bytes by kind, calls, top buckets"},
    ProfExample{"buckets t.trace --sort exclusive", "whose plans use most that no other does"},
    ProfExample{"map t.trace", "who uses which bytes, as t.svg"},
    ProfExample{"map t.trace --bucket 3 --ascii", "one plan, time across, address up"},
    ProfExample{"why t.trace --program decode", "what did not replay, and why"},
    ProfExample{"diff a.trace b.trace --fail-over 2", "what grew, what is new; for CI"},
    ProfExample{"diff a.trace b.trace --html d.html", "the same as a page for a browser"},
    ProfExample{"policy t.trace", "padding per size, and by other ladders"},
    ProfExample{"drop t.trace", "which bucket to give up under pressure"},
    ProfExample{"marks t.trace", "calls and bytes from mark to mark"},
    ProfExample{"check t.trace", "leaks, overlaps, stale uses, wrong sums"},
    ProfExample{"export chrome t.trace -o t.json", "for Perfetto; or PyTorch's viewer, RMM"},
    ProfExample{"watch t.trace", "a session while it runs; or by its process"},
    ProfExample{"import memory-viz s.pickle", "what PyTorch allocated, planned in one pool"},
    ProfExample{"whatif t.trace --drop decode:24", "the same calls, had it been otherwise"},
    ProfExample{"html t.trace", "all of it as a page, t.html"},
    ProfExample{"html t.trace --what-if", "with sliders over what could be changed"}};

// Of one subcommand, or of all of them where it is empty.
std::string ProfNotes(std::string_view subcommand) {
  std::string notes =
      "Reads the trace file of a session (SessionOptions::trace; coppice run --trace-out T).\n"
      "\n"
      "Examples:\n";
  for (const ProfExample& example : kProfExamples)
    if (subcommand.empty() || example.command.substr(0, example.command.find(' ')) == subcommand)
      notes += fmt::format("  coppice prof {:<36}{}\n", example.command, example.meaning);
  notes += "\nExit codes: 0 success";
  if (subcommand.empty() || subcommand == "check") notes += "; 1 check found something";
  if (subcommand.empty() || subcommand == "diff") notes += "; 1 too much grew by diff --fail-over";
  return notes +
         ";\n2 a wrong option, or a file that is no trace; 4 the output cannot be written; 6 host\n"
         "memory ran out.";
}

constexpr const char* kSoakNotes =
    "Calls of any extent, each checked bit for bit by the host: over all buckets, whose graphs\n"
    "are all there; then over twice as many buckets as there may be graphs, so that graphs are\n"
    "dropped and recorded, with rounds in which bindings, buckets of other key scalars, and\n"
    "inclusions come and go, of which 1,100 are run before; then as at first. What the session,\n"
    "the device and the process hold is read at the start and after each twentieth of the work;\n"
    "flat means that they do not hold more in the last quarter than in the first: the session to\n"
    "the byte; the device to the byte on the emulator, and 2 MiB on CUDA; the process 8 MiB; its\n"
    "heap 64 KiB, and 8 MiB on CUDA. Traffic that does not replay is an error as well.\n"
    "\n"
    "Examples:\n"
    "  coppice soak                                 a million replays on CUDA, 20000 on the host\n"
    "  coppice soak --replays 50000000 --seed 7     for an afternoon\n"
    "  coppice soak --buckets 8 --records 100000    mostly evictions\n";

constexpr const char* kPtxNotes =
    "Kernels run on the emulator's executor, which also looks for what is wrong with them; no\n"
    "driver is asked.\n"
    "\n"
    "Examples:\n"
    "  coppice ptx check softmax.ptx\n"
    "  coppice ptx run softmax.ptx RowSoftmax --grid 64 --block 256 --arg in:x.npy \\\n"
    "      --arg out:y.npy:f32:64x1000 --arg i32:1000\n"
    "\n"
    "Exit codes: 0 success; 1 check found what would be refused; 2 a wrong option, or a file or "
    "an\n"
    "argument that does not fit; 3 run found something wrong with the kernel; 4 the output cannot\n"
    "be written; 6 host memory ran out.";

constexpr const char* kPtxRunNotes =
    "One --arg per parameter, in order:\n"
    "  in:x.npy              an array that the kernel reads, and may not write\n"
    "  out:y.npy:f32:64x64   one that it writes: file, type and shape; before, all bits are 1\n"
    "  inout:q.npy:r.npy     one that it reads from a file; another gets what is there at the end\n"
    "  i32:1000, f32:0.125   a value: i8, i16, i32, i64, u8, u16, u32, u64, f32 or f64\n"
    "  null                  a null pointer\n"
    "Types of arrays are f16, bf16 (in files: its bits as u16), f32, f64, bool, and the integers.\n"
    "\n"
    "Checks, all of them on unless --checks says otherwise; bounds and alignment always are:\n"
    "  races                 accesses of several threads that nothing orders\n"
    "  uninitialized         reads of shared memory that nobody wrote\n"
    "  record                which bytes of each array were read and written\n"
    "\n"
    "What the kernel prints goes to standard output, and with --json to standard error. Outputs "
    "are\n"
    "written whatever was found.\n";

constexpr int64_t kCountMax = 10'000'000;

absl::StatusOr<uint64_t> ParseSeed(const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size()) return seed;
  return InvalidArgument("'{}' is no seed; give a whole number from 0 to 2^64 - 1", text);
}

void AddPlan(Command& command, PlanCommandOptions& options) {
  command.SetFooter(std::string(kPlanNotes) + "\n" + kExitCodes);
  command.AddTexts("files", options.files, "FILE.csv", "Lifetimes, one file per program",
                   Command::Presence::kRequired);
  command.AddParsed(
      "--capacity", &ParseBytes, options.capacity,
      "Bytes that each plan has to fit into, as 1MiB: the first that does is taken; without "
      "it, as low\n"
      "as can be found");
  command.AddSeconds("--time-limit", options.time_limit_ns,
                     "Seconds to search per file, default 10");
  command.AddParsed("--seed", &ParseSeed, options.seed, "Seed of the search, default 1");
  command.AddText("-o,--output", options.output, "OUT.csv",
                  "Write the rows with a column offset here");
  command.AddText("--svg", options.svg, "MAP.svg", "Draw the plan here: time across, address up");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddRun(Command& command, RunOptions& options) {
  command.SetFooter(std::string(kRunExamples) + "\n" + kExitCodes);
  command.AddText("trace", options.trace, "TRACE.csv", "Trace file; without it, generate");
  command.AddParsed("--generate", &ParseTraceKind, options.generate,
                    "Generate conv, code or mix (the default), after the Azure traces of 2023");
  command.Exclude("--generate", "trace");
  command.AddCount("--requests", options.requests, kCountMax,
                   "Requests to generate, default 2000, or 20 with a package:\nthe emulator takes "
                   "about 4 s for each of its requests");
  command.Exclude("--requests", "trace");
  command.AddCount("--limit", options.limit, kCountMax, "Run only the first N requests");
  command.AddParsed("--device", &ParseDeviceChoice, options.device,
                    "auto (the default: cuda where there is a device), host or cuda");
  command.AddParsed("--kernels", &ParseKernelChoice, options.kernels,
                    "What the emulator runs: host, their host code (the default), or ptx, what "
                    "nvcc\nmade of them, instruction by instruction and checked");
  command.AddCount(
      "--shrink", options.shrink, 1024,
      "Divide lengths by N, default 8 on the host and 1 on CUDA; with a package, so that"
      "\n8192 tokens fit its context");
  command.AddText("--package", options.package, "PKG",
                  "Serve the decoder of this kernel package, as samples/torch_decoder.py exports "
                  "one;\nits slots and its context bound those of the run");
  command.AddCount("--slots", options.slots, 1024,
                   "Requests that run at once, default 32, or as many as the package has");
  command.AddText("--policy", options.policy, "TEXT",
                  "Padding policy of both programs: a ladder, a list, a preset as vllm, or\n"
                  "POLICY.json of coppice tune; of buckets, each takes what fits");
  command.AddText("--prefill-policy", options.prefill_policy, "TEXT",
                  "Policy of prompt lengths, default geometric:1.25:16, or the package's");
  command.AddText("--decode-policy", options.decode_policy, "TEXT",
                  "Policy of batch sizes, default ramp:1:4, or the package's");
  command.AddOptionalCount(
      "--relearn", options.relearn_period, kRelearnPeriod, kCountMax,
      "Learn the buckets of both programs again every N steps of a program, default 1000, of\n"
      "which one weighs half after 4 N more; policies are what it begins with. A swap has to\n"
      "save a point of padding, brings 4 new buckets at most, and records their graphs before:\n"
      "16 at most, and 64 in a minute of the virtual clock; those of buckets that are gone go");
  command.AddParsed("--order", &ParseRecordingOrder, options.order,
                    "Record every bucket ahead: asc, desc or random:SEED");
  command.AddParsed("--seed", &ParseSeed, options.seed, "Seed of everything drawn, default 1");
  command.AddParsed(
      "--verify", &ParseVerifyScope, options.verify,
      "Compare with eager unpadded steps: all, none or sample:N requests, default sample:20");
  command.AddParsed(
      "--budget", &ParseBytes, options.budget_bytes,
      "Bytes that the session may hold, as 4GiB; default any number; graphs that do not fit\n"
      "are dropped");
  command.AddText("--trace-out", options.trace_out, "FILE",
                  "Write what happened to FILE, for coppice prof; loses no event");
  command.AddText("--dump-graphs", options.dump_graphs, "DIR",
                  "Draw every graph that is there at the end into a file of DIR, for Graphviz");
  command.AddText("--dump-steps", options.dump_steps, "DIR",
                  "Write what every step took and gave into files of DIR (tools/run/step_log.h)");
  command.AddFlag("--poison", options.poison,
                  "Run each step twice, with two poisons in the padding");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
  command.AddFlag("--quiet", options.quiet, "No notes and no progress bar");
}

void AddSoak(Command& command, SoakOptions& options) {
  constexpr int64_t kCallsMax = 1'000'000'000'000;
  command.SetFooter(std::string(kSoakNotes) + "\n" + kExitCodes);
  command.AddCount("--replays", options.replays, kCallsMax,
                   "Calls that replay, default 1000000 on CUDA and 20000 on the host");
  command.AddCount("--records", options.records, kCallsMax,
                   "Graphs to record over evicted ones, default 10000 on CUDA and 500 on the host");
  command.AddCount("--buckets", options.buckets, 1024, "Buckets, and graphs, default 64");
  command.AddCount("--rounds", options.rounds, kCallsMax,
                   "Bindings, key scalars and inclusions that come and go, default 1000");
  command.AddParsed("--seed", &ParseSeed, options.seed, "Seed of everything drawn, default 1");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
  command.AddFlag("--quiet", options.quiet, "No notes and no progress bar");
}

struct ProfCommand {
  const char* name;
  const char* help;
  ExitCode (*run)(const ProfOptions& options, const Console& console);
};

constexpr std::array kProfCommands = {
    ProfCommand{"summary", "Device, calls, bytes by kind and the top buckets", &ProfSummary},
    ProfCommand{"buckets", "What each bucket costs and earns", &ProfBuckets},
    ProfCommand{"map", "Which bytes the plan of each bucket uses", &ProfMap},
    ProfCommand{"why", "Which calls did not replay, and why", &ProfWhy},
    ProfCommand{"diff", "What changed from one trace to another; exit 1 if too much grew",
                &ProfDiff},
    ProfCommand{"policy", "What each size's padding costs, and other ladders would", &ProfPolicy},
    ProfCommand{"drop", "What dropping each bucket would free, and cost", &ProfDrop},
    ProfCommand{"marks", "What happened between the marks of the application", &ProfMarks},
    ProfCommand{"check", "Leaks, overlaps, stale uses and wrong sums; exit 1 if any", &ProfCheck},
    ProfCommand{"html", "All of it as one page for a browser, which needs no network", &ProfHtml}};

void AddProf(Command& command, ProfOptions& options) {
  command.SetFooter(ProfNotes(""));
  std::map<std::string, Command*> parts;
  for (const ProfCommand& each : kProfCommands) {
    Command& part = command.AddSubcommand(each.name, each.help);
    part.SetFooter(ProfNotes(each.name));
    part.AddText("trace", options.trace, "TRACE", "Trace file", Command::Presence::kRequired);
    part.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
    parts[each.name] = &part;
  }
  parts["buckets"]->AddParsed(
      "--sort", &ParseBucketOrder, options.sort,
      "First the largest in calls (the default), replays, eager, padding, height,\n"
      "exclusive, shared, exec or record, or the smallest id");
  parts["map"]->AddParsed("--bucket", &ParseBucketId, options.bucket,
                          "Only this bucket: its highest plan over its steps");
  parts["map"]->AddText("-o,--out", options.out, "FILE.svg",
                        "Write the map to this file, as SVG; - is standard output, the default a\n"
                        "name beside the trace");
  parts["map"]->AddFlag("--ascii", options.ascii, "Print the map as text");
  parts["html"]->AddText("-o,--out", options.out, "FILE.html",
                         "Write the page to this file; - is standard output, the default a name\n"
                         "beside the trace");
  parts["html"]->AddFlag(
      "--what-if", options.what_if,
      "Add a view of what other policies, budgets, dropped buckets, suspensions\n"
      "and copied outputs would have come to. All calls are made again for each\n"
      "of some 30 changes, a few microseconds a call: seconds for 10,000 calls, a\n"
      "minute for 250,000, which are the most");
  parts["diff"]->AddText("other", options.other, "OTHER", "Trace file of the other session",
                         Command::Presence::kRequired);
  parts["diff"]->AddText("--html", options.page, "FILE.html",
                         "Write what changed to this file as a page; - is standard output");
  parts["diff"]->AddParsed(
      "--fail-over", &ParsePercent, options.fail_over,
      "Exit 1 if a figure of memory or padding that both traces have grew by more\n"
      "than this percent");
  parts["check"]->AddFlag("--strict", options.strict,
                          "Dropped events and a missing end are findings, not notes");
  for (const char* name : {"buckets", "why", "policy", "drop"}) {
    parts[name]->AddText("--program", options.program, "TEXT",
                         "Only this program: NAME or NAME/VARIANT");
  }
  for (const char* name : {"why", "marks", "check", "diff"})
    parts[name]->AddCount("--limit", options.limit, kCountMax, "Lines to print, default 50");
}

ExitCode RunProf(const Command& command,
                 const ProfOptions& options,
                 const ProfExchangeOptions& exchange,
                 const ProfWatchOptions& watch,
                 const WhatIfOptions& whatif,
                 const Console& console) {
  if (command.Given("whatif")) return WhatIfCommand(whatif, console);
  if (command.Given("export") || command.Given("import"))
    return RunProfExchange(command, exchange, console);
  if (command.Given("watch")) return ProfWatch(watch, console);
  const auto* const given =
      std::find_if(kProfCommands.begin(), kProfCommands.end(),
                   [&](const ProfCommand& each) { return command.Given(each.name); });
  return given->run(options, console);
}

struct PtxOptions {
  PtxCheckOptions check;
  PtxRunOptions run;
};

void AddPtx(Command& command, PtxOptions& options) {
  command.SetFooter(kPtxNotes);
  Command& check = command.AddSubcommand(
      "check", "List kernels, parameters and opcodes; exit 1 if some would be refused");
  check.AddText("file", options.check.file, "FILE.ptx", "PTX text", Command::Presence::kRequired);
  check.AddFlag("--json", options.check.json, "Print JSON and nothing else on standard output");
  Command& run = command.AddSubcommand("run", "Run one kernel; exit 3 if something is wrong");
  run.SetFooter(std::string(kPtxRunNotes) + "\n" + kPtxNotes);
  run.AddText("file", options.run.file, "FILE.ptx", "PTX text", Command::Presence::kRequired);
  run.AddText("kernel", options.run.kernel, "KERNEL", "Its name, as `coppice ptx check` lists it",
              Command::Presence::kRequired);
  run.AddParsed("--grid", &ParseLaunchExtents, options.run.grid, "Blocks: X, X,Y or X,Y,Z");
  run.AddParsed("--block", &ParseLaunchExtents, options.run.block, "Threads of each, as X,Y,Z");
  run.AddParsed("--shared", &ParseSharedBytes, options.run.shared_bytes,
                "Bytes of dynamic shared memory, default 0");
  run.AddRepeated("--arg", options.run.arguments, "ARG", "The next argument; see below");
  run.AddParsed("--checks", &ParseChecks, options.run.checks,
                "all (the default), none, or some, as races,record");
  run.AddParsed("--seed", &ParseSeed, options.run.seed,
                "Seed of the order in which blocks and warps run, default 1");
  run.AddFlag("--cooperative", options.run.cooperative, "All blocks are there at once");
  run.AddFlag("--json", options.run.json, "Print JSON and nothing else on standard output");
}

ExitCode RunPtx(const Command& command, const PtxOptions& options, const Console& console) {
  return command.Given("check") ? PtxCheck(options.check, console) : PtxRun(options.run, console);
}

ExitCode RunParsed(int argument_count,
                   const char* const* arguments,
                   const std::string& program,
                   const Console& console) {
  RunOptions run_options;
  InfoOptions info_options;
  BenchOptions bench_options;
  PlanCommandOptions plan_options;
  ProfOptions prof_options;
  ProfExchangeOptions exchange_options;
  ProfWatchOptions watch_options;
  WhatIfOptions whatif_options;
  SoakOptions soak_options;
  PtxOptions ptx_options;
  PackageCommandOptions package_options;
  TuneCommandOptions tune_options;
  bench_options.dispatch.program = program;

  Command command("coppice", kSummary, "coppice " COPPICE_VERSION);
  command.SetFooter(kExitCodes);
  Command& run = command.AddSubcommand("run", "Replay a request trace through recorded graphs");
  AddRun(run, run_options);
  Command& plan = command.AddSubcommand("plan", "Plan memory from lifetimes in CSV files");
  AddPlan(plan, plan_options);
  Command& info = command.AddSubcommand("info", "Show the driver, the device and the build");
  info.SetFooter(kExitCodes);
  info.AddParsed("--device", &ParseDeviceChoice, info_options.device, "auto, host or cuda");
  info.AddFlag("--json", info_options.json, "Print JSON");
  Command& bench = command.AddSubcommand("bench", "Measure what coppice itself costs");
  AddBench(bench, bench_options);
  Command& prof = command.AddSubcommand("prof", "Look inside a session through its trace file");
  AddProf(prof, prof_options);
  AddProfExchange(prof, exchange_options);
  AddProfWatch(prof, watch_options);
  AddWhatIf(prof, whatif_options);
  Command& ptx = command.AddSubcommand("ptx", "Look at kernels of a PTX file, and run one");
  AddPtx(ptx, ptx_options);
  Command& package = command.AddSubcommand(
      "package", "Look at a kernel package, find what is wrong with it, and run its programs");
  AddPackage(package, package_options);
  Command& tune = command.AddSubcommand("tune", "Learn buckets from traffic, and score any");
  AddTune(tune, tune_options);
  Command& soak =
      command.AddSubcommand("soak", "Run one session for long: calls right, memory flat");
  AddSoak(soak, soak_options);

  if (const std::optional<ExitCode> end = command.Parse(argument_count, arguments, console))
    return *end;
  if (command.Given("run")) return RunCommand(run_options, console);
  if (command.Given("plan")) return PlanCommand(plan_options, console);
  if (command.Given("info")) return InfoCommand(info_options, console);
  if (command.Given("prof"))
    return RunProf(prof, prof_options, exchange_options, watch_options, whatif_options, console);
  if (command.Given("ptx")) return RunPtx(ptx, ptx_options, console);
  if (command.Given("package")) return RunPackage(package, package_options, console);
  if (command.Given("tune")) return RunTune(tune, tune_options, console);
  if (command.Given("soak")) return SoakCommand(soak_options, console);
  return RunBench(bench, bench_options, console);
}

}  // namespace

ExitCode RunCommandLine(int argument_count,
                        const char* const* arguments,
                        const std::string& program,
                        const Console& console) {
  return RunTool("coppice", console,
                 [&] { return RunParsed(argument_count, arguments, program, console); });
}

}  // namespace coppice
