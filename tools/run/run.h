// `coppice run`: a request trace through recorded graphs, verified and reported.
//
// Threads: one run at a time per process.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "coppice/graphs/exact_replay.h"

#include "tools/run/request_trace.h"
#include "tools/run/run_report.h"
#include "tools/support/console.h"
#include "tools/support/device.h"
#include "tools/support/recording_order.h"

namespace coppice {

// Which requests the reference runs too.
struct VerifyScope {
  enum class Kind : uint8_t { kNone, kSample, kAll };
  Kind kind = Kind::kSample;
  int64_t sample = 20;  // Requests for kSample, spread evenly over the trace. >= 1.
  friend bool operator==(const VerifyScope&, const VerifyScope&) = default;
};

// Reads `all`, `sample:N` or `none`. Errors: kInvalidArgument quoting the text.
absl::StatusOr<VerifyScope> ParseVerifyScope(const std::string& text);

struct RunOptions {
  std::string trace;  // Path; empty: generate.
  TraceKind generate = TraceKind::kMix;
  int64_t requests = 0;  // To generate; 0: 2000, or 20 with a package.
  int64_t limit = 0;     // Runs the first requests only; 0: all.
  DeviceChoice device = DeviceChoice::kAuto;
  KernelChoice kernels = KernelChoice::kHost;  // kPtx: on the host only.
  int64_t shrink = 0;                          // Divides lengths; 0: 8 on the host, 1 on CUDA.
  int64_t slots = 0;                           // Requests that run at once; 0: 32, or as many as
                                               // the package has.
  std::string policy;                          // Of both programs, unless ...
  std::string prefill_policy;                  // ... given apart.
  std::string decode_policy;
  std::optional<RecordingOrder> order;  // Unset: as traffic meets the buckets.
  uint64_t seed = 1;
  VerifyScope verify;
  int64_t budget_bytes = 0;  // Of the session; 0: none.
  std::string trace_out;     // Where the session's trace goes; empty: nowhere.
  std::string dump_graphs;   // The folder where drawings of its graphs go; empty: nowhere.
  std::string dump_steps;    // The folder where every step goes (step_log.h); empty: nowhere.
  std::string package;       // A decoder to serve (package_decoder.h); empty: that of tools/model.
  ExactReplay exact = ExactReplay::kNever;  // Of the package's programs.
  int64_t relearn_period = 0;  // Steps of a program, as Replayer has it; 0: buckets stay.
  bool poison = false;
  bool json = false;
  bool quiet = false;
};

// Reads `never`, `auto` or `always`. Errors: kInvalidArgument quoting the text.
absl::StatusOr<ExactReplay> ParseExactReplay(const std::string& text);

// Runs the job and reports it on `console`. An error is one line on `console.err`.
ExitCode RunCommand(const RunOptions& options, const Console& console);

}  // namespace coppice
