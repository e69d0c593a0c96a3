// Finds out how long work on another stream has to wait, while something goes on in this process.
//
// A thread with a stream of its own launches a tiny kernel and waits for it, over and over, and
// times each round. What holds up the driver or the device for long shows as one long round.
//
// Units: microseconds. Threads: one watch at a time per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

namespace coppice {

class KernelWatch {
 public:
  // Loads the kernel and makes the stream. `context` must outlive the watch. Errors: as
  // KernelLibrary::Load; the driver's.
  static absl::StatusOr<std::unique_ptr<KernelWatch>> Create(const Context& context);

  // Runs `work` on the calling thread and watches meanwhile: from before its start, when a first
  // round has run, until after its end. At least one round. Errors: work's, else the driver's.
  absl::StatusOr<std::vector<double>> Watch(const std::function<absl::Status()>& work) const;

  // Watches for `milliseconds` while the calling thread does nothing else. At least one round.
  // Errors: the driver's.
  absl::StatusOr<std::vector<double>> WatchFor(int64_t milliseconds) const;

 private:
  KernelWatch(const Context& context,
              KernelLibrary library,
              const Kernel& kernel,
              Stream stream,
              DeviceMemory memory)
      : context_(context),
        library_(std::move(library)),
        kernel_(kernel),
        stream_(std::move(stream)),
        memory_(std::move(memory)) {}

  absl::Status RunRound() const;
  absl::Status RunRounds(const std::function<bool()>& ended, std::vector<double>& times) const;

  const Context& context_;
  const KernelLibrary library_;
  const Kernel kernel_;
  const Stream stream_;
  const DeviceMemory memory_;
};

}  // namespace coppice
