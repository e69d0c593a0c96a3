// Steps launched on a stream, with events around the kernels that have several variants. Private to
// graphs/.
//
// Units: microseconds. Threads: as the stream.

#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/stream.h"

#include "graphs/program/step_source.h"
#include "graphs/steps/stream_sink.h"

namespace coppice::internal {

class TimingSink final : public StepSink {
 public:
  // Both outlive it. The stream does not capture.
  TimingSink(const Driver& driver, CuStream stream)
      : driver_(driver), stream_(stream), plain_(driver, stream) {}

  absl::Status Launch(const KernelLaunch& launch, std::span<const Touch> touched) override;
  absl::Status Fill(const MemoryFill& fill, std::span<const Touch> touched) override {
    return plain_.Fill(fill, touched);
  }
  absl::Status Copy(const MemoryCopy& copy, std::span<const Touch> touched) override {
    return plain_.Copy(copy, touched);
  }
  absl::Status Work(LibraryWork work, std::span<const Touch> touched) override {
    return plain_.Work(work, touched);
  }

  // Waits for what was launched since the last time, and returns how long each choice took in all:
  // `count` of them; 0 for one that was not launched. Errors: the driver's.
  absl::StatusOr<std::vector<double>> TakeTimes(size_t count);

 private:
  struct Timed {
    Event begin;
    Event end;
    size_t choice = 0;
  };

  const Driver& driver_;
  const CuStream stream_;
  StreamSink plain_;
  std::vector<Timed> timed_;  // Kept from run to run.
  size_t used_ = 0;           // Of them, in this run.
};

}  // namespace coppice::internal
