// A device whose memory and work weigh nothing, for sessions that are repeated for their books
// alone.
//
// It is the emulator with entries replaced: addresses are given out and never mapped, what is
// launched outside of a capture does nothing, and all of it is done when the host asks. Captures,
// graphs and their nodes are the emulator's own. So a pool of any size fits on any machine, and a
// replay costs what coppice itself costs.
//
// Units: bytes. Threads: one at a time per process, as the emulator, and on the thread that opened
// it.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/emulator.h"
#include "coppice/runtime/launch.h"
#include "coppice/runtime/stream.h"

namespace coppice {

class WeightlessDevice {
 public:
  // Physical memory comes in `granularity` bytes: a power of two. Errors: as Emulator::Create, such
  // as kFailedPrecondition if the process has an emulator.
  static absl::StatusOr<std::unique_ptr<WeightlessDevice>> Open(int64_t granularity);
  ~WeightlessDevice();

  const Context& context() const { return *context_; }
  // A stream per lane. Requires: lane >= 0.
  absl::StatusOr<CuStream> StreamOf(int lane);
  // Adds kernels that do nothing to the capture of `stream`. Errors: the driver's.
  absl::Status Launch(CuStream stream, int64_t kernels) const;

  // Addresses of `bytes` bytes that nobody else has, a multiple of 2 MiB. There is no end of them.
  static uint64_t TakeAddresses(int64_t bytes);

 private:
  WeightlessDevice() = default;

  std::unique_ptr<Emulator> emulator_;
  std::optional<Driver> driver_;
  std::optional<Context> context_;
  std::vector<Stream> streams_;
};

}  // namespace coppice
