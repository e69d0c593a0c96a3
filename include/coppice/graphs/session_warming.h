// Before traffic, a session plans and records buckets that calls will use. A profile says which
// buckets earlier traffic used.
//
// Units: bytes, nanoseconds, elements where a name says so. Threads: any method from any thread; a
// method holds the lane's lock while it records.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/profile.h"
#include "coppice/graphs/program.h"

namespace coppice {

namespace internal {
struct SessionParts;
}  // namespace internal

class Binding;
class Program;

// The plan of a bucket as a root (see session.h, Paths), before anything is recorded.
struct PlannedBucket {
  std::vector<int64_t> bucket;   // Padded extent of each symbol.
  int64_t plan_height = 0;       // Bytes.
  int64_t live_bytes = 0;        // As NodeInfo::live_bytes.
  const char* plan_method = "";  // As NodeInfo::plan_method.
};

struct WarmOptions {
  // Static inputs of the same program for the warm-up runs. Required if the program mutates a
  // static input. The inputs that it mutates must share no byte with the binding that is warmed.
  const Binding* scratch = nullptr;
  int lane = 0;
  // Called after each bucket with (done, total); may be null. Must not call the session.
  std::function<void(int64_t done, int64_t total)> progress;
};

// One call of a sequence to warm, in which outputs of earlier calls are inputs of later ones.
struct WarmStep {
  // Element `input` of Call::inputs is output `output` of step `step`, from its first element on.
  // That step is an earlier one, or this one. A step that names itself reads the output of its own
  // previous run; its first run reads that output of the step before it.
  struct Feed {
    size_t input = 0;
    size_t step = 0;
    size_t output = 0;
  };

  const Program* program = nullptr;
  const Binding* binding = nullptr;  // Null only if the program binds nothing.
  std::vector<int64_t> bucket;       // One padded extent per symbol.
  std::vector<int64_t> scalars;      // All scalars, in spec order.
  std::vector<Feed> feeds;           // Other inputs are the caller's own memory.
  std::vector<Feed> counts{};  // The same for Call::counts; `input` is then an index into these.
  const Binding* scratch = nullptr;  // Replaces WarmOptions::scratch for this step.
};

class SessionWarming {
 public:
  // Records `buckets` (each has one padded extent per symbol) before traffic, as roots, on inputs
  // of zeros; the bucket with the most elements comes first. Buckets that are already recorded are
  // skipped. The value of a scalar that a symbol is bound to is ignored. Waits for the device;
  // trims the eager window.
  //
  // Errors: kInvalidArgument    an extent, or a pair of extents, is not a bucket; at a bucket an
  //                             expression is negative or has no value, or elements overlap;
  //                             scalars or a binding do not fit;
  //         kFailedPrecondition a callable mutates static inputs and there is no scratch; the
  //                             stance forbids recording; a bucket could not be recorded, or is
  //                             being recorded in the background; the session is suspended, or the
  //                             lane is lent;
  //         kResourceExhausted  no room for a bucket, or for its graph; a tensor of a bucket is
  //                             larger than any device; graphs_per_program_max is reached; the
  //                             budget cannot hold all graphs at once (the message says how many
  //                             it can).
  absl::Status Warm(const Program& program,
                    const Binding* binding,
                    std::span<const std::vector<int64_t>> buckets,
                    std::span<const int64_t> scalars,
                    const WarmOptions& options);

  // Plans `buckets` of a program of a package, or of one with a dry run, as Warm would record them,
  // in this order, with all inputs staged. Maps and runs nothing. Errors: kFailedPrecondition only
  // a run shows what the program allocates; otherwise as Warm.
  absl::StatusOr<std::vector<PlannedBucket>> Plan(const Program& program,
                                                  std::span<const std::vector<int64_t>> buckets,
                                                  std::span<const int64_t> scalars) const;

  // Records, before traffic, the graphs of calls that read each other's outputs, such as a prefill,
  // a decode step, and that step again on its own output. It does not run the calls; only a bucket
  // that was never warmed runs once, on zeros. It goes through the steps in order, and records the
  // graph of each step around the outputs that are leased at that point. It assumes that each lease
  // is held until the last step that reads it has run, and repeats a step that feeds itself until
  // no new graph is needed. The graphs are for calls outside a ChainScope, with extents up to those
  // of the bucket, no matter whether the host or the device decides the extents. Graphs that exist
  // are skipped. Waits for the device; trims the eager window. `options.progress` gets (step,
  // steps) when a step is first reached; `options.scratch` is ignored, because each step has its
  // own.
  //
  // Errors: as the other Warm; also
  //         kInvalidArgument     a step has no program; a feed names an input or a count that does
  //                              not exist or that another feed has; a feed names an output that
  //                              does not exist, is static, has another dtype or rank, or is too
  //                              small; a feed names a later step, or a feed of the first step
  //                              names that step;
  //         kFailedPrecondition  a ChainScope is open on the lane.
  absl::Status Warm(std::span<const WarmStep> steps, const WarmOptions& options);

  // Writes to `path` how often each bucket of the session's programs was launched. The counts are
  // of all lanes since the session began, by graphs that exist or were evicted, and include those
  // of loaded profiles. Programs that were reset or unregistered lose their counts. The file
  // replaces an earlier one only when it is complete. May run while calls run; the calls of a lane
  // wait while that lane is read.
  //
  // Errors: the code for the errno if the file cannot be written; otherwise the driver's.
  absl::Status SaveProfile(const std::string& path) const;

  // Records the buckets of a profile before traffic, as roots, as Warm would, one after another;
  // the lane's lock is held for one bucket at a time. The bucket that saves most comes first, by
  // launches times graph nodes. (A run without a graph costs the host about the same for each node,
  // and a replay costs one launch for any graph. Unlike times, this product is the same on every
  // machine.) Buckets with equal savings come in the order of the file. A bucket that cannot be
  // recorded is left out, and the result says why; existing graphs stay. A bucket that would exceed
  // a limit is left out, but smaller ones after it are not. If the bytes in the profile are right,
  // no other graph is dropped for a bucket; if one is dropped nevertheless, recording ends. Waits
  // for the device; trims the eager window. SaveProfile adds to the counts of the profile.
  //
  // Errors: the code for the errno if the file cannot be read;
  //         kInvalidArgument     it is not a profile (the message has the JSON pointer of the
  //                              error), has more than 64 MiB, or nests too deeply; an option is
  //                              wrong: there is no such lane, a limit is negative, or a binding
  //                              belongs to no program of the session;
  //         kUnimplemented       another major version;
  //         kFailedPrecondition  the session is suspended, or the lane is lent;
  //         otherwise the driver's, if the device is lost. Only then may something have changed.
  absl::StatusOr<LoadedProfile> LoadProfile(const std::string& path,
                                            const LoadProfileOptions& options);

 private:
  friend class Session;
  explicit SessionWarming(internal::SessionParts& parts) : parts_(parts) {}

  internal::SessionParts& parts_;
};

}  // namespace coppice
