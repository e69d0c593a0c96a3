// Declares every option of the benches once, with its check and its help.

#include "tools/coppice/bench_command_line.h"

#include <string>

#include "absl/status/statusor.h"

#include "coppice/base/status.h"

#include "tools/bench/bench_model.h"
#include "tools/support/command.h"

namespace coppice {
namespace {

constexpr const char* kDispatchNotes =
    "Times Session::Run with default options and, interleaved, the same raw driver calls, on a\n"
    "driver that returns at once; the overhead is the difference. heap_allocs counts 1000 calls.\n"
    "instructions come from perf, or from valgrind, or are null where there is neither.\n";

constexpr const char* kTightNotes =
    "Draws programs of 150 to 450 buffers that fill a window of 1 MiB nearly or wholly, and asks\n"
    "for a plan of that height:\n"
    "  cut      the window cut in two, over and over, across time or address\n"
    "  thinned  the same, without 2 to 10 % of the pieces\n"
    "  woven    some pieces are cut in five instead that no straight cut parts\n"
    "  mixed    buffers that live through several phases, the rest cut up phase by phase\n"
    "  even     always the largest piece, cut near its middle, without up to 25 % of the pieces\n"
    "Times are processor time, but for the limit. An instance that is not solved is named and is\n"
    "no failure. The planner may be tuned on `tuning` alone; `scoring` has other seeds.\n";

constexpr const char* kPoolNotes =
    "Every bucket of a family of programs is recorded into one arena that only grows: in "
    "ascending\n"
    "order of what they need, descending, and five random orders. A model of a caching allocator\n"
    "(512-byte rounding, segments of 2 and 20 MiB, best fit) serves the same requests. The bound "
    "is\n"
    "the most bytes live at once in any bucket. Planning is timed with each bucket alone,\n"
    "in processor time.\n"
    "\n"
    "A folder of families has one sub-folder per family and in it one CSV file per bucket, as\n"
    "`coppice plan` reads them; files in train and random are programs of their own.\n";

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
    "Records the decode step of the smallest batch sizes and then, over and over, gives the\n"
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
    "Runs python3 -m coppice.bench: the same replay of two inputs from Python and from C, in "
    "turns,\n"
    "on the emulator, whose launches are queued. Figures are medians of batches.\n";

constexpr const char* kStepsNotes =
    "A step is a chain of kernels that each add 1 to 4096 floats. The ways:\n"
    "  launch            cuGraphLaunch of the graph that the session recorded, and nothing else\n"
    "  run               Session::Run, the input static: that one driver call\n"
    "  run_staged        Session::Run, 3000 floats copied and padded to 4096: two driver calls\n"
    "  run_staged_calls  those two driver calls, and nothing else\n"
    "  eager             Session::Run without graphs: a driver call per kernel\n"
    "A sample is 10 calls, or fewer if they would launch more than 1000 kernels; beyond that, a\n"
    "launch may wait for room. Afterwards each way's result is checked; exit code 1 if one is "
    "wrong.\n"
    "\n"
    "Example:\n"
    "  coppice bench steps --kernels 10,1000 --json > steps.json\n";

constexpr const char* kDecodeNotes =
    "A step is one token of every row of a batch, the same in every step. Eager steps and\n"
    "replays are sampled in turns; a sample is as many steps as fill 2 ms, at most 10, and at\n"
    "most 1000 kernels. Then a session with a gate runs steps, waiting for each, until all go\n"
    "one way: that is its choice. Exits with 1 if a replay predicts other tokens than an eager\n"
    "step.\n"
    "\n"
    "--only is for a profiler: after two steps, of which one warms up and one records, it runs\n"
    "as many steps as --samples says, of that way and nothing else, and prints as JSON how many\n"
    "kernels a step launches, the one that stages its inputs included.\n"
    "\n"
    "Examples:\n"
    "  coppice bench decode --batches 1,16,256\n"
    "  ncu coppice bench decode --only eager --batches 1 --samples 3\n";

constexpr int64_t kIterationsMax = 1'000'000'000;

void AddDispatch(Command& command, BenchDispatchOptions& options) {
  command.SetFooter(std::string(kDispatchNotes) + "\n" + kExitCodes);
  command.AddCount("--iterations", options.iterations, kIterationsMax,
                   "Calls timed per case, default 200000");
  command.AddFlag("--json", options.json, "Print JSON");
  command.AddHidden("--probe", options.probe);
}

void AddRecord(Command& command, BenchRecordOptions& options) {
  command.SetFooter(kExitCodes);
  command.AddCount("--iterations", options.iterations, 1024, "Graphs to record, default 64");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddFlag("--json", options.json, "Print JSON");
}

void AddPlan(Command& command, BenchPlanOptions& options) {
  command.SetFooter(std::string(kTightNotes) + "\n" + kExitCodes);
  command.AddCount("--instances", options.instances, 1'000'000, "Of each kind, default 60");
  command.AddParsed("--seeds", &ParsePlanSeeds, options.seeds, "scoring, the default, or tuning");
  command.AddSeconds("--time-limit", options.time_limit_ns,
                     "Seconds that an instance may take, default 10");
  command.AddFlag("--json", options.json, "Print JSON");
}

void AddPool(Command& command, BenchPoolOptions& options) {
  command.SetFooter(std::string(kPoolNotes) + "\n" + kExitCodes);
  command.AddText("--families", options.families, "DIR", "Read families, in place of the built-in");
  command.AddFlag("--json", options.json, "Print JSON");
}

void AddTune(Command& command, BenchTuneOptions& options) {
  command.SetFooter(std::string(kTuneNotes) + "\n" + kExitCodes);
  command.AddCounts("--sizes", options.sizes, 1'000'000,
                    "Limits, each from 64, default 512,8192,131072,1000000");
  command.AddFlag("--json", options.json, "Print JSON");
}

// What every bench of the model takes.
void AddModel(Command& command, ModelSize& model, DeviceChoice& device, bool& json) {
  command.AddParsed(
      "--model", &ParseModelSize, model,
      "tiny, run (that of coppice run), small, or auto, which is tiny on the emulator and on\n"
      "a device run in `bench decode` and small elsewhere");
  command.AddParsed("--device", &ParseDeviceChoice, device, "auto, host or cuda");
  command.AddFlag("--json", json, "Print JSON");
}

void AddBuckets(Command& command, BenchBucketsOptions& options) {
  command.SetFooter(std::string(kBucketsNotes) + "\n" + kExitCodes);
  command.AddCount("--beside-ms", options.beside_ms, 600'000,
                   "How long the other stream is watched while nothing is recorded, default 200");
  AddModel(command, options.model, options.device, options.json);
}

void AddSuspend(Command& command, BenchSuspendOptions& options) {
  command.SetFooter(std::string(kSuspendNotes) + "\n" + kExitCodes);
  command.AddCount("--graphs", options.graphs, 67, "Graphs to record, default 64");
  command.AddCount("--rounds", options.rounds, 1'000'000, "Times to suspend, default 101");
  AddModel(command, options.model, options.device, options.json);
}

void AddPtx(Command& command, BenchPtxOptions& options) {
  command.SetFooter(std::string(kBenchPtxNotes) + "\n" + kExitCodes);
  command.AddCount("--samples", options.samples, 1'000'000, "Runs of each kernel, default 7");
  command.AddFlag("--json", options.json, "Print JSON");
}

absl::StatusOr<std::string> ParseInterpreter(const std::string& text) {
  if (!text.empty() && text.find('\'') == std::string::npos) return text;
  return InvalidArgument("'{}' is no path of an interpreter", text);
}

void AddPython(Command& command, BenchPythonOptions& options) {
  command.SetFooter(std::string(kBenchPythonNotes) + "\n" + kExitCodes);
  command.AddCount("--batches", options.batches, 1'000'000, "Batches of 100 calls, default 201");
  command.AddParsed("--python", &ParseInterpreter, options.python,
                    "An interpreter that has the package; default: its own, or python3");
  command.AddFlag("--json", options.json, "Print JSON");
}

void AddSteps(Command& command, BenchStepsOptions& options) {
  command.SetFooter(std::string(kStepsNotes) + "\n" + kExitCodes);
  command.AddCounts("--kernels", options.kernels, 10'000,
                    "Kernels per step, default 10,100,300,1000");
  command.AddCount("--samples", options.samples, 1'000'000, "Samples of each way, default 101");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddFlag("--json", options.json, "Print JSON");
}

absl::StatusOr<std::string> ParseWay(const std::string& text) {
  if (text == "eager" || text == "replay") return text;
  return InvalidArgument("'{}' is no way to run a step; give eager or replay", text);
}

void AddDecode(Command& command, BenchDecodeOptions& options) {
  command.SetFooter(std::string(kDecodeNotes) + "\n" + kExitCodes);
  command.AddCounts("--batches", options.batches, 512, "Batch sizes, default 1,2,4,...,256");
  command.AddCount("--samples", options.samples, 1'000'000, "Samples of each way, default 101");
  command.AddParsed("--only", &ParseWay, options.only, "This way alone: eager or replay");
  command.AddFlag("--cublas", options.cublas, "Projections by cuBLAS; on a device only");
  AddModel(command, options.model, options.device, options.json);
}

}  // namespace

void AddBench(Command& command, BenchOptions& options) {
  AddDispatch(command.AddSubcommand("dispatch", "What a replay costs beyond its driver calls"),
              options.dispatch);
  AddRecord(command.AddSubcommand("record", "What recording a graph of 100 kernels costs"),
            options.record);
  AddPlan(
      command.AddSubcommand("plan", "How often a plan of a known height is found, and how soon"),
      options.plan);
  AddPool(command.AddSubcommand("pool", "How high an arena that many buckets share becomes"),
          options.pool);
  AddBuckets(command.AddSubcommand("buckets", "Bytes and times of 67 batch sizes in one pool"),
             options.buckets);
  AddSuspend(command.AddSubcommand("suspend", "What giving memory back and taking it again costs"),
             options.suspend);
  AddPtx(command.AddSubcommand("ptx", "How fast PTX is read and executed without a GPU"),
         options.ptx);
  AddPython(command.AddSubcommand("python", "What a replay costs from Python, beside C"),
            options.python);
  AddDecode(command.AddSubcommand("decode", "A decode step of each batch size, eager and replayed"),
            options.decode);
  AddSteps(
      command.AddSubcommand("steps", "What launching a step of small kernels costs, every way"),
      options.steps);
  AddTune(command.AddSubcommand("tune", "How long learning buckets takes"), options.tune);
}

ExitCode RunBench(const Command& command, const BenchOptions& options, const Console& console) {
  if (command.Given("dispatch")) return BenchDispatch(options.dispatch, console);
  if (command.Given("plan")) return BenchPlan(options.plan, console);
  if (command.Given("pool")) return BenchPool(options.pool, console);
  if (command.Given("buckets")) return BenchBuckets(options.buckets, console);
  if (command.Given("suspend")) return BenchSuspend(options.suspend, console);
  if (command.Given("decode")) return BenchDecode(options.decode, console);
  if (command.Given("ptx")) return BenchPtx(options.ptx, console);
  if (command.Given("python")) return BenchPython(options.python, console);
  if (command.Given("steps")) return BenchSteps(options.steps, console);
  if (command.Given("tune")) return BenchTune(options.tune, console);
  return BenchRecord(options.record, console);
}

}  // namespace coppice
