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

// Times of rounds, evenly thinned out once there are too many, but never without the longest.
class RoundTimes {
 public:
  // Keeps at most `kept_max` values. Requires: >= 2 (checked).
  explicit RoundTimes(size_t kept_max = 2'000);

  void Add(double us);

  int64_t rounds() const { return rounds_; }  // Added so far.
  double max_us() const { return max_us_; }   // Of all of them; 0 if there are none.
  // In the order of adding; the longest is last if its round was thinned out.
  std::vector<double> Values() const;

 private:
  size_t kept_max_;
  int64_t stride_ = 1;  // One round of so many is kept.
  int64_t rounds_ = 0;
  double max_us_ = 0;
  std::vector<double> kept_;
};

class KernelWatch {
 public:
  // Loads the kernel and makes the stream. `context` must outlive the watch. Errors: as
  // KernelLibrary::Load; the driver's.
  static absl::StatusOr<std::unique_ptr<KernelWatch>> Create(const Context& context);

  // Runs `work` on the calling thread and watches meanwhile: from before its start, when a first
  // round has run, until after its end. At least one round. Errors: work's, else the driver's.
  absl::StatusOr<RoundTimes> Watch(const std::function<absl::Status()>& work) const;

  // Watches for `milliseconds` while the calling thread does nothing else. At least one round.
  // Errors: the driver's.
  absl::StatusOr<RoundTimes> WatchFor(int64_t milliseconds) const;

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
  absl::Status RunRounds(const std::function<bool()>& ended, RoundTimes& times) const;

  const Context& context_;
  const KernelLibrary library_;
  const Kernel kernel_;
  const Stream stream_;
  const DeviceMemory memory_;
};

}  // namespace coppice
