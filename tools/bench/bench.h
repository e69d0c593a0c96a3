// `coppice bench`: what coppice costs. `dispatch`, `plan`, `pool`, `ptx` and `tune` need no
// device and say what is coppice's own part; the others measure on a device, and on the emulator
// they show only that they work.
//
// Units: bytes; nanoseconds, microseconds and milliseconds as named. Threads: one at a time per
// process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/support/console.h"
#include "tools/support/device.h"

namespace coppice {

struct BenchDispatchOptions {
  int64_t iterations = 200'000;  // Calls timed per case. >= 1.
  bool json = false;
  // This program, to be run again under valgrind where instructions cannot be counted otherwise;
  // empty: do not.
  std::string program;
  // "CASE:run:COUNT" or "CASE:raw:COUNT": makes COUNT calls and prints nothing; what valgrind sees.
  std::string probe;
};

// `bench dispatch`: Session::Run minus the same raw driver calls, on a driver that returns at once.
ExitCode BenchDispatch(const BenchDispatchOptions& options, const Console& console);

struct BenchRecordOptions {
  int64_t iterations = 64;  // Graphs recorded. In [1, 1024].
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// `bench record`: recording a graph of 100 kernels, and the driver's part in it.
ExitCode BenchRecord(const BenchRecordOptions& options, const Console& console);

struct BenchPoolOptions {
  std::string families;  // A folder of families; empty: the built-in ones.
  bool json = false;
};

// `bench pool`: how high an arena becomes that every bucket of a family shares, in each of several
// orders of recording, and how long planning takes.
ExitCode BenchPool(const BenchPoolOptions& options, const Console& console);

// The planner is tuned on some instances and judged on others.
enum class PlanSeeds : uint8_t { kTuning, kScoring };

// "tuning" or "scoring". Errors: kInvalidArgument.
absl::StatusOr<PlanSeeds> ParsePlanSeeds(const std::string& text);

struct BenchPlanOptions {
  int64_t instances = 60;  // Of each kind. >= 1.
  PlanSeeds seeds = PlanSeeds::kScoring;
  int64_t time_limit_ns = 10'000'000'000;  // Per instance, of host time.
  bool json = false;
};

// `bench plan`: how often and how soon the planner finds a plan of a height that is known to be
// reachable, by kind of instance (tools/plan/tight_instances.h).
ExitCode BenchPlan(const BenchPlanOptions& options, const Console& console);

struct BenchStepsOptions {
  std::vector<int64_t> kernels = {10, 100, 300, 1000};  // Of each step; each in [1, 10000].
  int64_t samples = 101;                                // Of each way. >= 1.
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// `bench steps`: host and device time of a step of many small kernels, launched in every way. A way
// that cannot be set up is left out, with a line that says why, and the others go on; one that
// fails while they are sampled takes the step's others with it.
ExitCode BenchSteps(const BenchStepsOptions& options, const Console& console);

// The decoder that the benches of a model run.
enum class ModelSize : uint8_t {
  kAuto,   // On a device kRun where time is measured and kSmall where bytes are; else kTiny.
  kTiny,   // The least there is, for an emulator.
  kRun,    // That of `coppice run`.
  kSmall,  // As wide as a small language model's, so that figures of bytes mean something.
};

struct BenchBucketsOptions {
  ModelSize model = ModelSize::kAuto;
  int64_t beside_ms = 200;  // How long the other stream is watched while nothing is recorded; >= 1.
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// `bench buckets`: 67 batch sizes of decode recorded into one pool: its bytes in every order, the
// time it takes, and how long work on another stream waits for it. What fails alone is left out of
// the report, with its reason, and the rest is printed.
ExitCode BenchBuckets(const BenchBucketsOptions& options, const Console& console);

struct BenchDecodeOptions {
  std::vector<int64_t> batches = {1, 2, 4, 8, 16, 32, 64, 128, 256};  // Each in [1, 512].
  // "eager" or "replay": that way alone, `samples` steps, for a profiler; empty: both ways.
  std::string only;
  int64_t samples = 101;  // Of each way. >= 1.
  ModelSize model = ModelSize::kAuto;
  bool cublas = false;  // Projections by cuBLAS.
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// `bench decode`: a decode step of each batch size, eager against replayed, and what the gate says.
// A batch size that fails is left out, with a line that says why; the others go on.
ExitCode BenchDecode(const BenchDecodeOptions& options, const Console& console);

struct BenchSuspendOptions {
  int64_t graphs = 64;   // Of the smallest batch sizes. In [1, 67].
  int64_t rounds = 101;  // >= 1.
  ModelSize model = ModelSize::kAuto;
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// `bench suspend`: giving the memory of many graphs back, and taking it again.
ExitCode BenchSuspend(const BenchSuspendOptions& options, const Console& console);

struct BenchPtxOptions {
  int64_t samples = 7;  // Of each kernel, with checks and without. >= 1.
  bool json = false;
};

// `bench ptx`: how fast the emulator reads PTX and executes it, on the kernels of tools/bench/ptx.
ExitCode BenchPtx(const BenchPtxOptions& options, const Console& console);

struct BenchPythonOptions {
  int64_t batches = 201;  // Of 100 calls. >= 1.
  std::string python;     // An interpreter that has the package; empty: the one that runs this
                          // command, or python3.
  bool json = false;
};

// `bench python`: a replayed call from Python beside the same call from C.
ExitCode BenchPython(const BenchPythonOptions& options, const Console& console);

struct BenchTuneOptions {
  std::vector<int64_t> sizes = {512, 8192, 131'072, 1'000'000};  // Each in [64, 1000000].
  bool json = false;
};

// `bench tune`: how long learning 64 buckets takes, by how many sizes there are, and one look-up.
ExitCode BenchTune(const BenchTuneOptions& options, const Console& console);

}  // namespace coppice
