// Declares every option once, with its check and its help.

#include "tools/coppice/command_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "CLI/CLI.hpp"

#include "coppice/base/status.h"

#include "tools/coppice/bench_command_line.h"
#include "tools/coppice/info.h"
#include "tools/plan/plan_command.h"
#include "tools/prof/prof.h"
#include "tools/run/run.h"
#include "tools/soak/soak.h"
#include "tools/support/byte_text.h"
#include "tools/support/console.h"
#include "tools/support/options.h"

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
    "  coppice run --generate code --prefill-policy pow2 --decode-policy 1,2,4,8,16,32\n";

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

constexpr const char* kProfNotes =
    "Reads the trace file of a session (SessionOptions::trace; coppice run --trace-out T).\n"
    "\n"
    "Examples:\n"
    "  coppice prof summary t.trace                   bytes by kind, calls, top buckets\n"
    "  coppice prof buckets t.trace --sort exclusive  what dropping a bucket would free\n"
    "  coppice prof map t.trace -o map.svg            who uses which bytes; shared ones hatched\n"
    "  coppice prof map t.trace --bucket 3 --ascii    one plan, time across, address up\n"
    "  coppice prof why t.trace --program decode      what did not replay, and why\n"
    "  coppice prof check t.trace                     leaks, overlaps, stale uses, wrong sums\n"
    "\n"
    "Exit codes: 0 success, and check found nothing; 1 check found something; 2 a wrong option, "
    "or\n"
    "a file that is no trace; 4 the output cannot be written.";

constexpr const char* kSoakNotes =
    "Calls of any extent, each checked bit for bit by the host: over all buckets, whose graphs\n"
    "are all there; then over twice as many buckets as there may be graphs, so that graphs are\n"
    "dropped and recorded; then as at first. What the session, the device and the process hold\n"
    "is read at the start and after every 20th part; flat means that they do not hold more in\n"
    "the last quarter than in the first: the session to the byte, and the device to the byte on\n"
    "the emulator and 2 MiB on CUDA, the process 8 MiB, its heap 64 KiB, on CUDA 8 MiB.\n"
    "\n"
    "Examples:\n"
    "  coppice soak                                 a million replays on CUDA, 20000 on the host\n"
    "  coppice soak --replays 50000000 --seed 7     for an afternoon\n"
    "  coppice soak --buckets 8 --records 100000    mostly evictions\n";

constexpr int64_t kCountMax = 10'000'000;

absl::StatusOr<uint64_t> ParseSeed(const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size()) return seed;
  return InvalidArgument("'{}' is no seed; give a whole number from 0 to 2^64 - 1", text);
}

absl::StatusOr<int64_t> ParseSeconds(const std::string& text) {
  constexpr double kSecondsMax = 1e6;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && seconds > 0 && seconds <= kSecondsMax) return static_cast<int64_t>(seconds * 1e9);
  return InvalidArgument("'{}' is no time; give seconds above 0, up to {}", text, kSecondsMax);
}

void AddPlan(CLI::App& app, PlanCommandOptions& options) {
  app.footer(std::string(kPlanNotes) + "\n" + kExitCodes);
  app.add_option("files", options.files, "Lifetimes, one file per program")
      ->type_name("FILE.csv")
      ->required()
      ->check(RefuseEmpty);
  AddParsed(app, "--capacity", &ParseBytes, options.capacity,
            "Bytes that each plan has to fit into, as 1MiB: the first that does is taken; without "
            "it, as low\n"
            "as can be found");
  AddParsed(app, "--time-limit", &ParseSeconds, options.time_limit_ns,
            "Seconds to search per file, default 10");
  AddParsed(app, "--seed", &ParseSeed, options.seed, "Seed of the search, default 1");
  app.add_option("-o,--output", options.output, "Write the rows with a column offset here")
      ->type_name("OUT.csv")
      ->check(RefuseEmpty);
  app.add_option("--svg", options.svg, "Draw the plan here: time across, address up")
      ->type_name("MAP.svg")
      ->check(RefuseEmpty);
  app.add_flag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddRun(CLI::App& app, RunOptions& options) {
  app.footer(std::string(kRunExamples) + "\n" + kExitCodes);
  CLI::Option* trace = app.add_option("trace", options.trace, "Trace file; without it, generate");
  trace->type_name("TRACE.csv")->check(RefuseEmpty);
  AddParsed(app, "--generate", &ParseTraceKind, options.generate,
            "Generate conv, code or mix (the default), after the Azure traces of 2023");
  app.get_option("--generate")->excludes(trace);
  AddCount(app, "--requests", options.requests, kCountMax, "Requests to generate, default 2000");
  app.get_option("--requests")->excludes(trace);
  AddCount(app, "--limit", options.limit, kCountMax, "Run only the first N requests");
  AddParsed(app, "--device", &ParseDeviceChoice, options.device,
            "auto (the default: cuda where there is a device), host or cuda");
  AddCount(app, "--shrink", options.shrink, 1024,
           "Divide lengths by N, default 8 on the host and 1 on CUDA");
  AddCount(app, "--slots", options.slots, 1024, "Requests that run at once, default 32");
  app.add_option("--policy", options.policy,
                 "Padding policy of both programs; of a list, each takes what fits")
      ->check(RefuseEmpty);
  app.add_option("--prefill-policy", options.prefill_policy,
                 "Policy of prompt lengths, default geometric:1.25:16")
      ->check(RefuseEmpty);
  app.add_option("--decode-policy", options.decode_policy,
                 "Policy of batch sizes, default ramp:1:4")
      ->check(RefuseEmpty);
  AddParsed(app, "--order", &ParseRecordingOrder, options.order,
            "Record every bucket ahead: asc, desc or random:SEED");
  AddParsed(app, "--seed", &ParseSeed, options.seed, "Seed of everything drawn, default 1");
  AddParsed(app, "--verify", &ParseVerifyScope, options.verify,
            "Compare with eager unpadded steps: all, none or sample:N requests, default sample:20");
  AddParsed(app, "--budget", &ParseBytes, options.budget_bytes,
            "Bytes that the session may hold, as 4GiB; default any number; graphs that do not fit\n"
            "are dropped");
  app.add_option("--trace-out", options.trace_out,
                 "Write what happened to FILE, for coppice prof; loses no event")
      ->type_name("FILE")
      ->check(RefuseEmpty);
  app.add_flag("--poison", options.poison, "Run each step twice, with two poisons in the padding");
  app.add_flag("--json", options.json, "Print JSON and nothing else on standard output");
  app.add_flag("--quiet", options.quiet, "No notes and no progress bar");
}

void AddSoak(CLI::App& app, SoakOptions& options) {
  constexpr int64_t kCallsMax = 1'000'000'000'000;
  app.footer(std::string(kSoakNotes) + "\n" + kExitCodes);
  AddCount(app, "--replays", options.replays, kCallsMax,
           "Calls that replay, default 1000000 on CUDA and 20000 on the host");
  AddCount(app, "--records", options.records, kCallsMax,
           "Graphs to record over evicted ones, default 10000 on CUDA and 500 on the host");
  AddCount(app, "--buckets", options.buckets, 1024, "Buckets, and graphs, default 64");
  AddParsed(app, "--seed", &ParseSeed, options.seed, "Seed of everything drawn, default 1");
  AddParsed(app, "--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  app.add_flag("--json", options.json, "Print JSON and nothing else on standard output");
  app.add_flag("--quiet", options.quiet, "No notes and no progress bar");
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
    ProfCommand{"check", "Leaks, overlaps, stale uses and wrong sums; exit 1 if any", &ProfCheck}};

void AddProf(CLI::App& app, ProfOptions& options) {
  app.require_subcommand(1);
  app.footer(kProfNotes);
  for (const ProfCommand& command : kProfCommands) {
    CLI::App& part = *app.add_subcommand(command.name, command.help);
    part.footer(kProfNotes);
    part.add_option("trace", options.trace, "Trace file")
        ->required()
        ->type_name("TRACE")
        ->check(RefuseEmpty);
    part.add_flag("--json", options.json, "Print JSON and nothing else on standard output");
  }
  CLI::App& buckets = *app.get_subcommand("buckets");
  AddParsed(buckets, "--sort", &ParseBucketOrder, options.sort,
            "First the largest in calls (the default), replays, eager, padding, height,\n"
            "exclusive, shared, exec or record, or the smallest id");
  CLI::App& map = *app.get_subcommand("map");
  AddParsed(map, "--bucket", &ParseBucketId, options.bucket,
            "Only this bucket: its highest plan over its steps");
  map.add_option("-o,--out", options.out, "Write the map to this file, as SVG")
      ->type_name("FILE.svg")
      ->check(RefuseEmpty);
  map.add_flag("--ascii", options.ascii, "Print the map as text");
  CLI::App& check = *app.get_subcommand("check");
  check.add_flag("--strict", options.strict,
                 "Dropped events and a missing end are findings, not notes");
  for (CLI::App* part : {&buckets, app.get_subcommand("why")}) {
    part->add_option("--program", options.program, "Only this program: NAME or NAME/VARIANT")
        ->check(RefuseEmpty);
  }
  for (CLI::App* part : {app.get_subcommand("why"), &check})
    AddCount(*part, "--limit", options.limit, kCountMax, "Lines to print, default 50");
}

ExitCode RunProf(const CLI::App& app, const ProfOptions& options, const Console& console) {
  const auto* const command =
      std::find_if(kProfCommands.begin(), kProfCommands.end(),
                   [&](const ProfCommand& each) { return app.got_subcommand(each.name); });
  return command->run(options, console);
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
  SoakOptions soak_options;
  bench_options.dispatch.program = program;

  CLI::App app(kSummary, "coppice");
  app.set_version_flag("--version", "coppice " COPPICE_VERSION);
  app.footer(kExitCodes);
  app.require_subcommand(1);
  CLI::App& run = *app.add_subcommand("run", "Replay a request trace through recorded graphs");
  AddRun(run, run_options);
  CLI::App& plan = *app.add_subcommand("plan", "Plan memory from lifetimes in CSV files");
  AddPlan(plan, plan_options);
  CLI::App& info = *app.add_subcommand("info", "Show the driver, the device and the build");
  info.footer(kExitCodes);
  AddParsed(info, "--device", &ParseDeviceChoice, info_options.device, "auto, host or cuda");
  info.add_flag("--json", info_options.json, "Print JSON");
  CLI::App& bench = *app.add_subcommand("bench", "Measure what coppice itself costs");
  AddBench(bench, bench_options);
  CLI::App& prof = *app.add_subcommand("prof", "Look inside a session through its trace file");
  AddProf(prof, prof_options);
  CLI::App& soak =
      *app.add_subcommand("soak", "Run one session for long: calls right, memory flat");
  AddSoak(soak, soak_options);

  if (const std::optional<ExitCode> end = Parse(app, argument_count, arguments, console))
    return *end;
  if (run.parsed()) return RunCommand(run_options, console);
  if (plan.parsed()) return PlanCommand(plan_options, console);
  if (info.parsed()) return InfoCommand(info_options, console);
  if (prof.parsed()) return RunProf(prof, prof_options, console);
  if (soak.parsed()) return SoakCommand(soak_options, console);
  return RunBench(bench, bench_options, console);
}

}  // namespace

ExitCode RunCommandLine(int argument_count,
                        const char* const* arguments,
                        const std::string& program,
                        const Console& console) {
  return CloseReport(RunParsed(argument_count, arguments, program, console), "coppice", console);
}

}  // namespace coppice
