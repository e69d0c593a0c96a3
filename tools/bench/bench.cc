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
    "Alternates between Session::Run with default options and the same driver calls without\n"
    "coppice, and times both, on a driver that returns at once. The overhead is the difference.\n"
    "heap_allocs is the number of heap allocations in 1000 calls. instructions come from perf or\n"
    "valgrind, and are null if neither is available.\n";

constexpr const char* kTightNotes =
    "Makes random programs of 150 to 450 buffers that fill a window of 1 MiB completely or\n"
    "nearly so. Searches for a plan no higher than the window, at most ten seconds per program.\n"
    "The kinds of programs are:\n"
    "  cut      the window is cut in two, over and over, across time or address\n"
    "  thinned  the same, without 2 to 10 % of the pieces\n"
    "  woven    some pieces are cut into five parts that no straight cut separates\n"
    "  mixed    buffers that live through several phases; the rest is cut up phase by phase\n"
    "  even     the largest piece is always cut near its middle; up to 25 % of pieces are omitted\n"
    "Times are processor time, but the limit of ten seconds is wall-clock time. The report lists\n"
    "the seeds of programs without such a plan; they are not failures.\n";

constexpr const char* kPoolNotes =
    "Records every bucket of a family of programs into one arena that only grows. The buckets\n"
    "come in ascending and descending order of memory, and in five random orders. A model of a\n"
    "caching allocator (512-byte rounding, segments of 2 and 20 MiB, best fit) serves the same\n"
    "requests. The bound is the largest number of bytes that are live at once in any bucket.\n"
    "Planning is timed with each bucket alone, in processor time.\n";

constexpr const char* kTuneNotes =
    "Draws 200,000 random call sizes up to each limit, and learns 64 buckets with the default\n"
    "prior: once without a cap, and once with a cap of 1.25 on padding. It also looks up 200,000\n"
    "sizes in 1,024 learned buckets with a guard. Times are the processor time of the fastest of\n"
    "five runs.\n";

constexpr const char* kBucketsNotes =
    "Records the decode step of 67 batch sizes, 1 to 512, in ascending, descending and random\n"
    "order, each time in a new pool: first with every result dropped immediately, then with\n"
    "copies of all results held. Bytes are measured after trimming, in two ways. One is the\n"
    "pool's own count, which estimates the memory of graphs. The other is how much the driver's\n"
    "free memory has dropped since before the first case. A driver may keep the memory of\n"
    "destroyed graphs; left_bytes counts it. record_ms is the host time of the call that records\n"
    "and launches a graph.\n"
    "\n"
    "Then a thread launches a small kernel on a stream of its own and waits for it, over and\n"
    "over: first while nothing is recorded, then while all 67 buckets, already warmed up, are\n"
    "recorded.\n"
    "\n"
    "Exits with 1 if any step predicts different tokens than a step without graphs. Times on\n"
    "the emulator mean nothing: a thread that waits for work also executes that work.\n";

constexpr const char* kSuspendNotes =
    "Records the decode step of the 64 smallest batch sizes. Then, over and over, it releases\n"
    "the session's memory, takes it back, and replays the smallest graph twice. The second\n"
    "replay is for comparison. Each replay is timed until the step has run. Bytes are from the\n"
    "last round; the graphs themselves stay. Exits with 1 if any step predicts different tokens\n"
    "than before.\n";

constexpr const char* kBenchPtxNotes =
    "Runs kernels that nvcc compiled for sm_80 (tools/bench/ptx) on the emulator's executor,\n"
    "alternately without checks and with all checks: SiLU of 512 x 1024 floats with a bias,\n"
    "softmax of 512 rows of 1024, and a product of f16 matrices of 512 x 512 by mma.sync,\n"
    "ldmatrix and cp.async. Also times parsing and decoding of all their PTX. Figures are\n"
    "medians, in processor time. Exits with 1 if a result is wrong, or if the checks find\n"
    "anything.\n";

constexpr const char* kBenchPythonNotes =
    "Runs python3 -m coppice.bench (COPPICE_PYTHON names another interpreter). It times the\n"
    "same replay with two inputs, alternately from Python and from C, on the emulator, which\n"
    "queues the launches. Figures are medians of batches.\n";

constexpr const char* kStepsNotes =
    "A step is a chain of kernels; each of them increments 4096 floats by 1. Ways to run it:\n"
    "  launch            cuGraphLaunch of the graph that the session recorded, and nothing else\n"
    "  run               Session::Run with a static input: that one driver call\n"
    "  run_staged        Session::Run, 3000 floats copied and padded to 4096: two driver calls\n"
    "  run_staged_calls  those two driver calls, and nothing else\n"
    "  eager             Session::Run without graphs: a driver call per kernel\n"
    "A sample is 10 calls, or fewer if they would launch more than 1000 kernels, because a\n"
    "launch may then wait for room in the stream. Afterwards the result of each way is checked;\n"
    "exits with 1 if one is wrong.\n";

constexpr const char* kDecodeNotes =
    "A step computes one token per row of a batch, always from the same inputs. Samples\n"
    "alternate between eager steps and replays. A sample has as many steps as fit into 2 ms,\n"
    "but at most 10 steps and 1000 kernels. Then a session with a gate runs steps, waiting for\n"
    "each, until the gate has chosen and all steps run the same way. Exits with 1 if a replay\n"
    "and an eager step predict different tokens.\n"
    "\n"
    "--only is for a profiler. After one step that warms up and one that records, the command\n"
    "runs --repetitions steps in the given way and nothing else, and prints how many kernels a\n"
    "step launches, including the one that stages its inputs.\n"
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
       .summary = "How often and how fast a plan of a known height is found",
       .notes = kTightNotes,
       .run = &BenchPlan,
       .repetitions = {"Instances of each kind", 1'000'000, {60}}},
      {.name = "pool",
       .summary = "Height of an arena that many buckets share",
       .notes = kPoolNotes,
       .run = &BenchPool},
      {.name = "steps",
       .summary = "What it costs to launch a step of small kernels, in several ways",
       .notes = kStepsNotes,
       .run = &BenchSteps,
       .on_device = true,
       .repetitions = {"Samples for each way of launching", 1'000'000, {101}},
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
       .repetitions = {"Samples for each way of launching", 1'000'000, {101}},
       .sizes = {"Batch sizes", 512, {1, 2, 4, 8, 16, 32, 64, 128, 256}}},
      {.name = "suspend",
       .summary = "What it costs to release memory and take it back",
       .notes = kSuspendNotes,
       .run = &BenchSuspend,
       .on_device = true,
       .repetitions = {"Number of suspensions", 1'000'000, {101}}},
      {.name = "ptx",
       .summary = "How fast PTX is read and executed without a GPU",
       .notes = kBenchPtxNotes,
       .run = &BenchPtx,
       .repetitions = {"Runs of each kernel", 1'000'000, {7}}},
      {.name = "python",
       .summary = "What a replay costs from Python, compared with C",
       .notes = kBenchPythonNotes,
       .run = &BenchPython,
       .repetitions = {"Batches of 100 calls", 1'000'000, {201}}},
      {.name = "tune",
       .summary = "How long learning buckets takes",
       .notes = kTuneNotes,
       .run = &BenchTune,
       .sizes = {"Size limits, each at least 64", 1'000'000, {512, 8192, 131'072, 1'000'000}}}};
  return *benches;
}

absl::StatusOr<std::string> ParseWay(const std::string& text) {
  if (text == "eager" || text == "replay") return text;
  return InvalidArgument("'{}' is not a way to run a step; give eager or replay", text);
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
      command.AddParsed("--only", &ParseWay, options.only, "Run only this way: eager or replay");
    if (each.run == &BenchDispatch) {
      command.AddHidden("--probe", options.probe);
      command.AddFlag("--time-only", options.time_only,
                      "Do not count instructions; counting takes a minute with valgrind");
    }
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
