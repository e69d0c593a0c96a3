// `coppice bench`: what coppice costs. `dispatch`, `plan`, `pool`, `ptx` and `tune` need no
// device and say what is coppice's own part; the others measure on a device, and on the emulator
// they show only that they work.
//
// A bench returns what it has measured, also when it is to stop; one function prints it, as JSON or
// for people, and ends the command.
//
// Units: bytes; nanoseconds, microseconds and milliseconds as named. Threads: one at a time per
// process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "tools/support/command.h"
#include "tools/support/console.h"
#include "tools/support/device.h"

namespace coppice {

// What the benches take; each uses some of it.
struct BenchOptions {
  std::vector<int64_t> sizes;  // What is measured at, as kernels of a step; empty: its own.
  int64_t repetitions = 0;     // As samples of each way; 0: its own.
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
  // `decode`: "eager" or "replay", that way alone for a profiler; empty: both ways.
  std::string only;
  // `dispatch`: this program, to be run again under valgrind where instructions cannot be counted
  // otherwise; and "CASE:run:COUNT" or "CASE:raw:COUNT", which makes COUNT calls and prints
  // nothing: what valgrind sees.
  std::string program;
  std::string probe;
  bool time_only = false;  // Of dispatch: no instructions are counted.
};

struct BenchReport {
  nlohmann::ordered_json json;      // Null: nothing is to be printed.
  std::string text;                 // The same for people.
  std::vector<std::string> wrong;   // What was computed is not right, a line each.
  std::vector<std::string> failed;  // What could not be measured.
};

// Declares all benches as subcommands of `bench`.
void AddBenches(Command& bench, BenchOptions& options);

// Runs the bench that was given.
ExitCode RunBench(const Command& bench, const BenchOptions& options, const Console& console);

// The benches. Errors: what spoils every figure; kInvalidArgument: an option.

// Session::Run minus the same raw driver calls, on a driver that returns at once.
absl::StatusOr<BenchReport> BenchDispatch(const BenchOptions& options, const Console& console);
// Recording a graph of 100 kernels, and the driver's part in it.
absl::StatusOr<BenchReport> BenchRecord(const BenchOptions& options, const Console& console);
// How often and how soon the planner finds a plan of a height that is known to be reachable, by
// kind of instance (tools/plan/tight_instances.h).
absl::StatusOr<BenchReport> BenchPlan(const BenchOptions& options, const Console& console);
// How high an arena becomes that every bucket of a family shares, in each of several orders of
// recording, and how long planning takes.
absl::StatusOr<BenchReport> BenchPool(const BenchOptions& options, const Console& console);
// Host and device time of a step of many small kernels, launched in every way. A way that cannot be
// set up is left out, and the others go on; one that fails while they are sampled takes the step's
// others with it.
absl::StatusOr<BenchReport> BenchSteps(const BenchOptions& options, const Console& console);
// 67 batch sizes of decode recorded into one pool: its bytes in every order, the time it takes, and
// how long work on another stream waits for it. What fails alone is left out.
absl::StatusOr<BenchReport> BenchBuckets(const BenchOptions& options, const Console& console);
// A decode step of each batch size, eager against replayed, and what the gate says. A batch size
// that fails is left out.
absl::StatusOr<BenchReport> BenchDecode(const BenchOptions& options, const Console& console);
// Giving the memory of 64 graphs back, and taking it again.
absl::StatusOr<BenchReport> BenchSuspend(const BenchOptions& options, const Console& console);
// How fast the emulator reads PTX and executes it, on the kernels of tools/bench/ptx.
absl::StatusOr<BenchReport> BenchPtx(const BenchOptions& options, const Console& console);
// A replayed call from Python beside the same call from C.
absl::StatusOr<BenchReport> BenchPython(const BenchOptions& options, const Console& console);
// How long learning 64 buckets takes, by how many sizes there are, and one look-up.
absl::StatusOr<BenchReport> BenchTune(const BenchOptions& options, const Console& console);

}  // namespace coppice
