// Declares every bench once, and prints what each returns.

#include "tools/bench/bench.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr const char* kDispatchNotes =
    "Times Session::Run with default options and, interleaved, the same raw driver calls, on a\n"
    "driver that returns at once; the overhead is the difference. heap_allocs counts 1000 calls.\n"
    "instructions come from perf, or from valgrind, or are null where there is neither.\n";

constexpr const char* kTightNotes =
    "Draws programs of 150 to 450 buffers that fill a window of 1 MiB nearly or wholly, and asks\n"
    "for a plan of that height within ten seconds:\n"
    "  cut      the window cut in two, over and over, across time or address\n"
    "  thinned  the same, without 2 to 10 % of the pieces\n"
    "  woven    some pieces are cut in five instead that no straight cut parts\n"
    "  mixed    buffers that live through several phases, the rest cut up phase by phase\n"
    "  even     always the largest piece, cut near its middle, without up to 25 % of the pieces\n"
    "Times are processor time, but for the limit. An instance that is not solved is named and is\n"
    "no failure.\n";

constexpr const char* kPoolNotes =
    "Every bucket of a family of programs is recorded into one arena that only grows: ascending\n"
    "by what they need, descending, and in five random orders. A model of a caching allocator\n"
    "(512-byte rounding, segments of 2 and 20 MiB, best fit) serves the same requests. The bound\n"
    "is the most bytes live at once in any bucket. Planning is timed with each bucket alone, in\n"
    "processor time.\n";

constexpr const char* kTuneNotes =
    "Draws 200,000 calls of sizes up to each limit, and learns 64 buckets with the default prior,\n"
    "without a cap and with one of 1.25 on padding. Then looks the sizes up in 1,024 learned\n"
    "buckets behind a guard. Times are processor time, the least of five runs.\n";

constexpr const char* kBucketsNotes =
    "Records the decode step of 67 batch sizes, 1 to 512, in ascending, descending and random\n"
    "order, each time in a pool of its own: once dropping every result at once, once holding all\n"
    "of them, copied out. Bytes are those after trimming: by the pool's books, which hold an\n"
    "estimate for graphs, and by what the driver has less than before the first case. A driver\n"
    "may keep memory of graphs that are gone: left_bytes. record_ms is the host time of the call\n"
    "that records and launches what it recorded.\n"
    "\n"
    "Then a thread launches a small kernel on a stream of its own and waits for it, over and\n"
    "over, while nothing is recorded and while all 67 buckets, warm before, are.\n"
    "\n"
    "Exits with 1 if any step predicts other tokens than without graphs. On the emulator, which\n"
    "runs work on the threads that wait for it, times say nothing.\n";

constexpr const char* kSuspendNotes =
    "Records the decode step of the 64 smallest batch sizes and then, over and over, gives the\n"
    "session's memory back, takes it again, and replays the smallest of the graphs: once as the\n"
    "first replay after it, and once more for comparison. Both are timed until the step has run.\n"
    "Bytes are those of the last round; graphs themselves stay. Exits with 1 if any step predicts\n"
    "other tokens than before.\n";

constexpr const char* kBenchPtxNotes =
    "Runs kernels that nvcc compiled for sm_80 (tools/bench/ptx) on the emulator's executor, in\n"
    "turns without checks and with all of them: SiLU of 512 x 1024 floats with a bias, softmax of\n"
    "512 rows of 1024, and a product of f16 matrices of 512 x 512 by mma.sync, ldmatrix and\n"
    "cp.async. Reading is parsing and decoding all of their PTX. Figures are medians, in "
    "processor\n"
    "time. Exits with 1 if a result is wrong, or anything is found to be.\n";

constexpr const char* kBenchPythonNotes =
    "Runs python3 -m coppice.bench (another interpreter: COPPICE_PYTHON): the same replay of two\n"
    "inputs from Python and from C, in turns, on the emulator, whose launches are queued. Figures\n"
    "are medians of batches.\n";

constexpr const char* kStepsNotes =
    "A step is a chain of kernels that each add 1 to 4096 floats. The ways:\n"
    "  launch            cuGraphLaunch of the graph that the session recorded, and nothing else\n"
    "  run               Session::Run, the input static: that one driver call\n"
    "  run_staged        Session::Run, 3000 floats copied and padded to 4096: two driver calls\n"
    "  run_staged_calls  those two driver calls, and nothing else\n"
    "  eager             Session::Run without graphs: a driver call per kernel\n"
    "A sample is 10 calls, or fewer if they would launch more than 1000 kernels; beyond that, a\n"
    "launch may wait for room. Afterwards each way's result is checked; exit code 1 if one is\n"
    "wrong.\n";

constexpr const char* kDecodeNotes =
    "A step is one token of every row of a batch, the same in every step. Eager steps and\n"
    "replays are sampled in turns; a sample is as many steps as fill 2 ms, at most 10, and at\n"
    "most 1000 kernels. Then a session with a gate runs steps, waiting for each, until all go\n"
    "one way: that is its choice. Exits with 1 if a replay predicts other tokens than an eager\n"
    "step.\n"
    "\n"
    "--only is for a profiler: after two steps, of which one warms up and one records, it runs as\n"
    "many steps as --repetitions says, of that way and nothing else, and prints how many kernels "
    "a\n"
    "step launches, the one that stages its inputs included.\n"
    "\n"
    "Example:\n"
    "  ncu coppice bench decode --only eager --sizes 1 --repetitions 3\n";

// Numbers that a bench takes, and what it takes unless it is told.
struct Counts {
  const char* what = nullptr;  // Null: it takes none.
  int64_t largest = 0;
  std::vector<int64_t> values;
};

struct Bench {
  const char* name = "";
  const char* summary = "";
  const char* notes = "";
  absl::StatusOr<BenchReport> (*run)(const BenchOptions& options, const Console& console) = nullptr;
  bool on_device = false;
  Counts repetitions;
  Counts sizes;
};

const std::vector<Bench>& Benches() {
  static const auto* const benches = new std::vector<Bench>{
      {.name = "dispatch",
       .summary = "What a replay costs beyond its driver calls",
       .notes = kDispatchNotes,
       .run = &BenchDispatch,
       .repetitions = {"Calls timed per case", 1'000'000'000, {200'000}}},
      {.name = "record",
       .summary = "What recording a graph of 100 kernels costs",
       .run = &BenchRecord,
       .on_device = true,
       .repetitions = {"Graphs to record", 1024, {64}}},
      {.name = "plan",
       .summary = "How often a plan of a known height is found, and how soon",
       .notes = kTightNotes,
       .run = &BenchPlan,
       .repetitions = {"Instances of each kind", 1'000'000, {60}}},
      {.name = "pool",
       .summary = "How high an arena that many buckets share becomes",
       .notes = kPoolNotes,
       .run = &BenchPool},
      {.name = "steps",
       .summary = "What launching a step of small kernels costs, every way",
       .notes = kStepsNotes,
       .run = &BenchSteps,
       .on_device = true,
       .repetitions = {"Samples of each way", 1'000'000, {101}},
       .sizes = {"Kernels of each step", 10'000, {10, 100, 300, 1000}}},
      {.name = "buckets",
       .summary = "Bytes and times of 67 batch sizes in one pool",
       .notes = kBucketsNotes,
       .run = &BenchBuckets,
       .on_device = true},
      {.name = "decode",
       .summary = "A decode step of each batch size, eager and replayed",
       .notes = kDecodeNotes,
       .run = &BenchDecode,
       .on_device = true,
       .repetitions = {"Samples of each way", 1'000'000, {101}},
       .sizes = {"Batch sizes", 512, {1, 2, 4, 8, 16, 32, 64, 128, 256}}},
      {.name = "suspend",
       .summary = "What giving memory back and taking it again costs",
       .notes = kSuspendNotes,
       .run = &BenchSuspend,
       .on_device = true,
       .repetitions = {"Times to suspend", 1'000'000, {101}}},
      {.name = "ptx",
       .summary = "How fast PTX is read and executed without a GPU",
       .notes = kBenchPtxNotes,
       .run = &BenchPtx,
       .repetitions = {"Runs of each kernel", 1'000'000, {7}}},
      {.name = "python",
       .summary = "What a replay costs from Python, beside C",
       .notes = kBenchPythonNotes,
       .run = &BenchPython,
       .repetitions = {"Batches of 100 calls", 1'000'000, {201}}},
      {.name = "tune",
       .summary = "How long learning buckets takes",
       .notes = kTuneNotes,
       .run = &BenchTune,
       .sizes = {"Limits of sizes, each from 64", 1'000'000, {512, 8192, 131'072, 1'000'000}}}};
  return *benches;
}

absl::StatusOr<std::string> ParseWay(const std::string& text) {
  if (text == "eager" || text == "replay") return text;
  return InvalidArgument("'{}' is no way to run a step; give eager or replay", text);
}

std::string HelpOf(const Counts& counts) {
  return fmt::format("{}, default {}", counts.what, fmt::join(counts.values, ","));
}

// Prints what there is; what went wrong is a line each on `console.err`.
ExitCode PrintReport(const Bench& bench,
                     const BenchOptions& options,
                     BenchReport report,
                     const Console& console) {
  const bool stopped = console.stopped();
  if (!report.json.is_null()) {
    report.json["stopped"] = stopped;
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    Print(console.out, "{}",
          options.json ? report.json.dump(2, ' ', false, replace) + "\n" : report.text);
  }
  for (const auto* lines : {&report.failed, &report.wrong}) {
    for (const std::string& line : *lines)
      Print(console.err, "coppice bench {}: {}\n", bench.name, line);
  }
  if (stopped) return kExitStopped;
  return !report.failed.empty() ? kExitDevice : report.wrong.empty() ? kExitOk : kExitMismatch;
}

}  // namespace

void AddBenches(Command& bench, BenchOptions& options) {
  for (const Bench& each : Benches()) {
    Command& command = bench.AddSubcommand(each.name, each.summary);
    command.SetFooter(
        fmt::format("{}{}{}", each.notes, *each.notes == '\0' ? "" : "\n", kExitCodes));
    if (each.sizes.what != nullptr)
      command.AddCounts("--sizes", options.sizes, each.sizes.largest, HelpOf(each.sizes));
    if (each.repetitions.what != nullptr)
      command.AddCount("--repetitions", options.repetitions, each.repetitions.largest,
                       HelpOf(each.repetitions));
    if (each.on_device)
      command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
    if (each.run == &BenchDecode)
      command.AddParsed("--only", &ParseWay, options.only, "This way alone: eager or replay");
    if (each.run == &BenchDispatch) command.AddHidden("--probe", options.probe);
    command.AddFlag("--json", options.json, "Print JSON");
  }
}

ExitCode RunBench(const Command& bench, const BenchOptions& options, const Console& console) {
  const auto found = std::find_if(Benches().begin(), Benches().end(),
                                  [&](const Bench& each) { return bench.Given(each.name); });
  COPPICE_CHECK(found != Benches().end(), "one of the benches is given");
  BenchOptions own = options;
  if (own.sizes.empty()) own.sizes = found->sizes.values;
  if (own.repetitions == 0 && found->repetitions.what != nullptr)
    own.repetitions = found->repetitions.values.front();
  absl::StatusOr<BenchReport> report = found->run(own, console);
  if (report.ok()) return PrintReport(*found, options, *std::move(report), console);
  Print(console.err, "coppice bench {}: {}\n", found->name, MessageOf(report.status()));
  return absl::IsInvalidArgument(report.status()) ? kExitUsage : kExitDevice;
}

}  // namespace coppice
