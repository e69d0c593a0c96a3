// Steps launched on a stream, one behind the other. Private to graphs/.
//
// Threads: as the stream.

#pragma once

#include <span>

#include "absl/status/status.h"

#include "coppice/runtime/driver.h"

#include "graphs/program/step_source.h"

namespace coppice::internal {

class StreamSink final : public StepSink {
 public:
  // Both outlive it. The stream may capture.
  StreamSink(const Driver& driver, CuStream stream) : driver_(driver), stream_(stream) {}

  absl::Status Launch(const KernelLaunch& launch, std::span<const Touch> touched) override;
  absl::Status Fill(const MemoryFill& fill, std::span<const Touch> touched) override;
  absl::Status Copy(const MemoryCopy& copy, std::span<const Touch> touched) override;
  absl::Status Work(LibraryWork work, std::span<const Touch> touched) override;

 private:
  const Driver& driver_;
  const CuStream stream_;
};

}  // namespace coppice::internal
