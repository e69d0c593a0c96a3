// Declares every option once, with its check and its help.

#include "tools/coppice/command_line.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/bench/bench.h"
#include "tools/coppice/export_command_line.h"
#include "tools/coppice/fit_command_line.h"
#include "tools/coppice/info.h"
#include "tools/coppice/package_command_line.h"
#include "tools/coppice/tune_command_line.h"
#include "tools/coppice/watch_command_line.h"
#include "tools/plan/plan_command.h"
#include "tools/prof/export/prof_json.h"
#include "tools/prof/export/prof_kernels.h"
#include "tools/prof/html/prof_html.h"
#include "tools/prof/prof.h"
#include "tools/prof/whatif/whatif_command.h"
#include "tools/ptx/ptx.h"
#include "tools/replay/replay_command_line.h"
#include "tools/run/run_command_line.h"
#include "tools/soak/soak.h"
#include "tools/support/byte_text.h"
#include "tools/support/command.h"
#include "tools/support/console.h"
#include "tools/support/subcommand.h"

namespace coppice {
namespace {

constexpr const char* kPlanNotes =
    "A file has a header and one buffer per row. Columns, in any order:\n"
    "  id (or buffer, buffer_id)      unique\n"
    "  lower (or begin, start)        the first step that needs the buffer\n"
    "  upper                          the step after the last step that needs the buffer\n"
    "  end                            in place of upper: the last step that needs the buffer\n"
    "  size                           bytes\n"
    "  alignment                      optional power of two, default 1\n"
    "  gaps                           optional: steps that do not need it, such as 3-5 8-9\n"
    "  offset                         optional: where the buffer must lie; empty: anywhere\n"
    "Other columns, such as `hint` and `out`, are kept, and have no effect.\n"
    "\n"
    "Each file is planned on its own. All plans share one arena, which is as high as the\n"
    "highest plan. With several files, --output and --svg name folders, which get one file for\n"
    "each input.\n"
    "\n"
    "Examples:\n"
    "  coppice plan model.csv                         height, lower bound, and the method of the "
    "plan\n"
    "  coppice plan model.csv --capacity 1048576 -o plan.csv --svg plan.svg\n"
    "  coppice plan buckets/*.csv -o plans --json     one row per bucket, and the arena\n";

struct ProfExample {
  std::string_view command;
  std::string_view meaning;
};

constexpr std::array kProfExamples = {
    ProfExample{"summary t.trace", "bytes by kind, calls, top buckets"},
    ProfExample{"buckets t.trace --sort exclusive", "sorted by exclusive bytes, the largest first"},
    ProfExample{"map t.trace", "which bucket uses which bytes, as t.svg"},
    ProfExample{"map t.trace --bucket 3 --ascii", "one plan, time across, address up"},
    ProfExample{"why t.trace --program decode", "what did not replay, and why"},
    ProfExample{"diff a.trace b.trace --fail-over 2", "what grew, what is new; for CI"},
    ProfExample{"diff a.trace b.trace --html d.html", "the same as a page for a browser"},
    ProfExample{"policy t.trace", "padding per size, now and with other ladders"},
    ProfExample{"drop t.trace", "which bucket to drop if memory is short"},
    ProfExample{"kernels t.trace --package p.zip", "which steps compute padding, and how much"},
    ProfExample{"marks t.trace", "calls and bytes from mark to mark"},
    ProfExample{"check t.trace", "leaks, overlaps, stale uses, wrong sums"},
    ProfExample{"export chrome t.trace -o t.json", "for Perfetto; `export dot` is for Graphviz"},
    ProfExample{"json t.trace", "a line per node and event, for scripts"},
    ProfExample{"watch t.trace", "a session while it runs; TRACE may be a process ID"},
    ProfExample{"whatif t.trace --drop decode:24", "the same calls after a change"},
    ProfExample{"html t.trace", "the whole trace as a page, t.html"},
    ProfExample{"html t.trace --what-if", "the same, with sliders for possible changes"}};

// Of one subcommand, or of all of them where it is empty.
std::string ProfNotes(std::string_view subcommand) {
  std::string notes =
      "Reads the trace file of a session (SessionOptions::trace; coppice run --trace-out T).\n";
  if (subcommand.empty())
    notes +=
        "`python -m coppice.prof export` and `import` convert to and from the formats of "
        "PyTorch's\n"
        "viewer, Perfetto and RMM; `timeline` joins a GPU's timeline with a trace.\n";
  notes += "\nExamples:\n";
  for (const ProfExample& example : kProfExamples)
    if (subcommand.empty() || example.command.substr(0, example.command.find(' ')) == subcommand)
      notes += fmt::format("  coppice prof {:<36}{}\n", example.command, example.meaning);
  notes += "\nExit codes: 0 success";
  if (subcommand.empty() || subcommand == "check") notes += "; 1 `check` found a problem";
  if (subcommand.empty() || subcommand == "diff")
    notes += "; 1 `diff --fail-over`: a figure grew too much";
  return notes +
         ";\n2 a wrong option, or a file that is not a trace; 4 the output cannot be written; 6\n"
         "host memory ran out.";
}

constexpr const char* kSoakNotes =
    "Makes calls of random sizes, and checks each result on the host, bit for bit. Phase 1 uses\n"
    "a set of buckets that all have a graph. Phase 2 uses twice as many buckets as there may be\n"
    "graphs, so graphs are dropped and recorded. Phase 3 repeats phase 1. Phase 2 also has\n"
    "rounds that create and drop bindings, buckets with other key scalars, and captured graphs\n"
    "that include calls. A warm-up runs 1,100 such rounds. The memory of the session, the device\n"
    "and the process is read after the warm-up and after each twentieth of the work. Memory is\n"
    "flat if the highest reading of the last quarter exceeds the highest reading of the first\n"
    "quarter by at most this: for the session, 0; for the device, 0 on the emulator and 2 MiB on\n"
    "CUDA; for the process, 8 MiB; for its heap, 64 KiB, or 8 MiB on CUDA. A call that does not\n"
    "replay although its graph exists is also an error.\n"
    "\n"
    "Examples:\n"
    "  coppice soak                                 a million replays on CUDA, 20000 on the host\n"
    "  coppice soak --replays 50000000 --seed 7     for an afternoon\n"
    "  coppice soak --buckets 8 --records 100000    mostly evictions\n";

constexpr const char* kPtxNotes =
    "Kernels run on the emulator's executor, which also looks for errors in them. No driver is\n"
    "needed.\n"
    "\n"
    "Examples:\n"
    "  coppice ptx check softmax.ptx\n"
    "  coppice ptx run softmax.ptx RowSoftmax --grid 64 --block 256 --arg in:x.npy \\\n"
    "      --arg out:y.npy:f32:64x1000 --arg i32:1000\n"
    "\n"
    "Exit codes: 0 success; 1 `check` found a kernel that the emulator would refuse; 2 a wrong\n"
    "option, or a file or an argument that does not match the kernel; 3 `run` found something\n"
    "wrong with the kernel; 4 the output cannot be written; 6 host memory ran out.";

constexpr const char* kPtxRunNotes =
    "One --arg per parameter, in order:\n"
    "  in:x.npy              an array that the kernel reads, and must not write\n"
    "  out:y.npy:f32:64x64   an array that it writes: file, type, shape; all bits are 1 at first\n"
    "  inout:q.npy:r.npy     an array that it reads from one file; the result goes to the other\n"
    "  i32:1000, f32:0.125   a value: i8, i16, i32, i64, u8, u16, u32, u64, f32 or f64\n"
    "  null                  a null pointer\n"
    "Types of arrays are f16, bf16 (files hold its bits as u16), f32, f64, bool, and the\n"
    "integers.\n"
    "\n"
    "Checks: `all` selects all of these except harmless_races. Bounds and alignment are always\n"
    "checked.\n"
    "  races                 unordered accesses by several threads to the same bytes\n"
    "  harmless_races        also races that do not change what the kernel writes\n"
    "  uninitialized         reads of shared memory that no thread has written\n"
    "  record                which bytes of each array were read and written\n"
    "\n"
    "--padding follows padding through the kernel. The other elements of that argument are live.\n"
    "The result says how many elements of each output padding reaches, and by which line first.\n"
    "An element that no padding reaches cannot depend on it, unless something cannot be followed;\n"
    "the result lists that, too.\n"
    "\n"
    "What the kernel prints goes to standard output, or with --json to standard error. Outputs\n"
    "are written even if something was found.\n";

constexpr int64_t kCountMax = 10'000'000;
constexpr int64_t kTriesMax = 1'000'000'000'000;

void AddPlan(Command& command, PlanCommandOptions& options) {
  command.SetFooter(std::string(kPlanNotes) + "\n" + kExitCodes);
  command.AddTexts("files", options.files, "FILE.csv", "Lifetimes, one file per program",
                   Command::Presence::kRequired);
  command.AddParsed(
      "--capacity", &ParseBytes, options.capacity,
      "Bytes that each plan must fit into, such as 1MiB; the search stops at the first plan that\n"
      "fits. Without --capacity, the search keeps the lowest plan that it finds");
  command.AddSeconds("--time-limit", options.time_limit_ns,
                     "Seconds to search per file, default 10");
  command.AddCount(
      "--tries", options.tries, kTriesMax,
      "Placements that the search may try per file, default: no limit. If the search reaches N\n"
      "before --time-limit, the same file and seed always give the same plan");
  command.AddParsed("--seed", &ParseSeed, options.seed, "Seed of the search, default 1");
  command.AddText("-o,--output", options.output, "OUT.csv",
                  "Write the rows here, with the column `offset` added");
  command.AddText("--svg", options.svg, "MAP.svg", "Draw the plan here: time across, address up");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddSoak(Command& command, SoakOptions& options) {
  constexpr int64_t kCallsMax = 1'000'000'000'000;
  command.SetFooter(std::string(kSoakNotes) + "\n" + kExitCodes);
  command.AddCount("--replays", options.replays, kCallsMax,
                   "Calls that replay, default 1000000 on CUDA and 20000 on the host");
  command.AddCount(
      "--records", options.records, kCallsMax,
      "Recordings that evict another graph, default 10000 on CUDA and 500 on the host");
  command.AddCount("--buckets", options.buckets, 1024,
                   "Number of buckets, each with a graph, default 64");
  command.AddParsed("--seed", &ParseSeed, options.seed, "Seed for all random numbers, default 1");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

struct ProfCommand {
  const char* name;
  const char* help;
  ExitCode (*run)(const ProfOptions& options, const Console& console);
};

constexpr std::array kProfCommands = {
    ProfCommand{"summary", "Device, calls, bytes by kind and the top buckets", &ProfSummary},
    ProfCommand{"buckets", "What each bucket costs, and how often it replays", &ProfBuckets},
    ProfCommand{"map", "Which bytes the plan of each bucket uses", &ProfMap},
    ProfCommand{"why", "Which calls did not replay, and why", &ProfWhy},
    ProfCommand{"diff", "Compare two traces; with --fail-over, exit 1 if a figure grew too much",
                &ProfDiff},
    ProfCommand{"policy", "What padding costs for each size, now and with other ladders",
                &ProfPolicy},
    ProfCommand{"drop", "What dropping each bucket would free and cost", &ProfDrop},
    ProfCommand{"kernels", "Which kernels the graphs launch, and how many blocks compute padding",
                &ProfKernels},
    ProfCommand{"marks", "What happened between the marks of the application", &ProfMarks},
    ProfCommand{"check", "Leaks, overlaps, stale uses and wrong sums; exit 1 if any", &ProfCheck},
    ProfCommand{"html", "The whole trace as one page for a browser; it needs no network",
                &ProfHtml},
    ProfCommand{"json", "The trace as JSON, a line per node and event, for scripts", &ProfJson}};

void AddProf(Command& command, ProfOptions& options) {
  command.SetFooter(ProfNotes(""));
  std::map<std::string, Command*> parts;
  for (const ProfCommand& each : kProfCommands) {
    Command& part = command.AddSubcommand(each.name, each.help);
    part.SetFooter(ProfNotes(each.name));
    part.AddText("trace", options.trace, "TRACE", "Trace file", Command::Presence::kRequired);
    if (each.run != &ProfJson)
      part.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
    parts[each.name] = &part;
  }
  parts["buckets"]->AddParsed(
      "--sort", &ParseBucketOrder, options.sort,
      "Order by calls (the default), replays, eager, padding, height, exclusive,\n"
      "shared, exec or record, the largest first; or by id");
  parts["map"]->AddParsed("--bucket", &ParseBucketId, options.bucket,
                          "Draw only the highest plan of this bucket, over its steps");
  parts["map"]->AddText("-o,--out", options.out, "FILE.svg",
                        "Write the map to this file, as SVG; - is standard output;\n"
                        "default: next to the trace");
  parts["map"]->AddFlag("--ascii", options.ascii, "Print the map as text");
  parts["html"]->AddText("-o,--out", options.out, "FILE.html",
                         "Write the page to this file; - is standard output;\n"
                         "default: next to the trace");
  parts["html"]->AddFlag(
      "--what-if", options.what_if,
      "Add a view that shows the effect of other policies, other budgets, dropped buckets,\n"
      "suspensions and copied outputs. It repeats all calls for each of about 30 changes, at a\n"
      "few microseconds per call: 10,000 calls take seconds. The limit is 250,000 calls, which\n"
      "take a minute");
  parts["diff"]->AddText("other", options.other, "OTHER", "Trace file of the other session",
                         Command::Presence::kRequired);
  parts["diff"]->AddText("--html", options.page, "FILE.html",
                         "Write the changes as a page to this file; - is standard output");
  parts["diff"]->AddParsed(
      "--fail-over", &ParsePercent, options.fail_over,
      "Exit 1 if a memory or padding figure grew by more than this percentage; figures that only\n"
      "one trace has do not count");
  parts["check"]->AddFlag(
      "--strict", options.strict,
      "Treat dropped events and a trace without an end as findings, not as notes");
  parts["kernels"]->AddText(
      "--package", options.package, "PACKAGE",
      "The package of the programs, a folder or a zip file: it has the step and the source line\n"
      "of each kernel, and says how many blocks the sizes of the calls need");
  for (const char* name : {"buckets", "why", "policy", "drop", "kernels"}) {
    parts[name]->AddText("--program", options.program, "TEXT",
                         "Only this program: NAME or NAME/VARIANT");
  }
  for (const char* name : {"why", "marks", "check", "diff"})
    parts[name]->AddCount("--limit", options.limit, kCountMax, "Lines to print, default 50");
}

struct ProfCommandOptions {
  ProfOptions look;
  ProfExportOptions exported;
  ProfWatchOptions watch;
  WhatIfOptions whatif;
};

void AddAllOfProf(Command& command, ProfCommandOptions& options) {
  AddProf(command, options.look);
  AddProfExport(command, options.exported);
  AddProfWatch(command, options.watch);
  AddWhatIf(command, options.whatif);
}

ExitCode RunProf(const Command& command,
                 const ProfCommandOptions& options,
                 const Console& console) {
  if (command.Given("whatif")) return WhatIfCommand(options.whatif, console);
  if (command.Given("export")) return ProfExport(options.exported, console);
  if (command.Given("watch")) return ProfWatch(options.watch, console);
  const auto* const given =
      std::find_if(kProfCommands.begin(), kProfCommands.end(),
                   [&](const ProfCommand& each) { return command.Given(each.name); });
  return given->run(options.look, console);
}

struct PtxOptions {
  PtxCheckOptions check;
  PtxRunOptions run;
};

void AddPtx(Command& command, PtxOptions& options) {
  command.SetFooter(kPtxNotes);
  Command& check = command.AddSubcommand(
      "check",
      "List kernels, parameters and opcodes; exit 1 if the emulator would refuse a kernel");
  check.AddText("file", options.check.file, "FILE.ptx", "PTX text", Command::Presence::kRequired);
  check.AddFlag("--json", options.check.json, "Print JSON and nothing else on standard output");
  Command& run = command.AddSubcommand("run", "Run one kernel; exit 3 if something is wrong");
  run.SetFooter(std::string(kPtxRunNotes) + "\n" + kPtxNotes);
  run.AddText("file", options.run.file, "FILE.ptx", "PTX text", Command::Presence::kRequired);
  run.AddText("kernel", options.run.kernel, "KERNEL", "A name that `coppice ptx check` lists",
              Command::Presence::kRequired);
  run.AddParsed("--grid", &ParseLaunchExtents, options.run.grid, "Blocks: X, X,Y or X,Y,Z");
  run.AddParsed("--block", &ParseLaunchExtents, options.run.block,
                "Threads per block: X, X,Y or X,Y,Z");
  run.AddParsed("--shared", &ParseSharedBytes, options.run.shared_bytes,
                "Bytes of dynamic shared memory, default 0");
  run.AddRepeated("--arg", options.run.arguments, "ARG", "The next argument; see below");
  run.AddParsed("--checks", &ParseChecks, options.run.checks,
                "all (the default), none, or some, such as races,record");
  run.AddParsed("--seed", &ParseSeed, options.run.seed,
                "Seed of the order in which blocks and warps run, default 1");
  run.AddFlag("--cooperative", options.run.cooperative, "All blocks run at the same time");
  run.AddRepeated("--padding", options.run.padding, "INDEX=MASK.npy",
                  "Which elements of argument INDEX are padding: bools, of its shape");
  run.AddText("--reached", options.run.reached, "FOLDER",
              "Write to FOLDER/INDEX.npy which elements of each output padding reached");
  run.AddFlag("--json", options.run.json, "Print JSON and nothing else on standard output");
}

ExitCode RunPtx(const Command& command, const PtxOptions& options, const Console& console) {
  return command.Given("check") ? PtxCheck(options.check, console) : PtxRun(options.run, console);
}

void AddInfo(Command& command, InfoOptions& options) {
  command.SetFooter(kExitCodes);
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddFlag("--json", options.json, "Print JSON");
}

Subcommand::Action DeclareBench(Command& command, const std::string& program) {
  auto options = std::make_shared<BenchOptions>();
  options->program = program;
  AddBenches(command, *options);
  return
      [options, &command](const Console& console) { return RunBench(command, *options, console); };
}

const std::array kSubcommands = {
    kRunSubcommand,
    Subcommand{"plan", "Plan memory from lifetimes in CSV files",
               &Declared<&AddPlan, &PlanCommand>::On},
    Subcommand{"info", "Show the driver, the device and the build",
               &Declared<&AddInfo, &InfoCommand>::On},
    Subcommand{"bench", "Measure what coppice itself costs", &DeclareBench},
    Subcommand{"prof", "Look inside a session through its trace file",
               &Declared<&AddAllOfProf, &RunProf>::On},
    Subcommand{"ptx", "List the kernels of a PTX file, and run one",
               &Declared<&AddPtx, &RunPtx>::On},
    Subcommand{"package", "Look at a kernel package, find errors in it, and run its programs",
               &Declared<&AddPackage, &RunPackage>::On},
    kReplaySubcommand,
    Subcommand{"tune", "Learn buckets from traffic, and score policies",
               &Declared<&AddTune, &RunTune>::On},
    Subcommand{"fit",
               "Show how much GPU memory the graphs of a package take, and how much they leave",
               &Declared<&AddFit, &Fit>::On},
    Subcommand{"soak",
               "Run one session for a long time, and check that results are right and memory does "
               "not grow",
               &Declared<&AddSoak, &SoakCommand>::On}};

}  // namespace

ExitCode RunCommandLine(int argument_count,
                        const char* const* arguments,
                        const std::string& program,
                        const Console& console) {
  return RunSubcommands(kSubcommands, argument_count, arguments, program, console);
}

}  // namespace coppice
