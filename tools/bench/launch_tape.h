// A tape of replays: notes what a session asks of its driver for them, to be asked again without
// the session. What that costs is the part of a call that no runtime can save.
//
// The tape's driver is another driver that has two entries replaced while the tape notes. At any
// other time its table is the other driver's own, so a session on it pays nothing for the tape.
//
// Threads: one tape per process notes at a time, because a driver entry is a plain function, and
// nobody else is inside the tape's driver when it begins or ends.

#pragma once

#include <array>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/driver.h"

namespace coppice {

// One launch of a graph, or of the staging kernel.
struct TapedLaunch {
  CuStream stream = nullptr;
  CuGraphExec exec = nullptr;  // Null: the kernel below.
  CuFunction function = nullptr;
  std::array<unsigned, 3> grid{};
  std::array<unsigned, 3> block{};
  unsigned shared_bytes = 0;
  std::vector<int64_t> staging;  // Words of its parameters.
};

class LaunchTape {
 public:
  // Wraps `inner`, which must outlive the tape.
  explicit LaunchTape(const Driver& inner) : inner_(inner), driver_(inner) {}
  LaunchTape(const LaunchTape&) = delete;
  LaunchTape& operator=(const LaunchTape&) = delete;

  const Driver& driver() const { return driver_; }

  // Runs `work` and returns the launches that it made through driver() and that succeeded, in
  // order. Requires: `work` launches no kernel but the staging kernel; it may launch graphs of any.
  // Errors: those of `work`.
  absl::StatusOr<std::vector<TapedLaunch>> Note(const std::function<absl::Status()>& work);

 private:
  const Driver& inner_;
  Driver driver_;
};

// Makes the launches again. What they use must still be there. A staging kernel copies from and to
// the same places again. Errors: the driver's, of the first launch that fails. Cost: the launches;
// no allocation.
absl::Status Repeat(const Driver& driver, const std::vector<TapedLaunch>& launches);

}  // namespace coppice
