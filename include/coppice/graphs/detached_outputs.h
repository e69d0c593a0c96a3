// Outputs that have left their session: what Lease::Detach makes of a lease.
//
// Each output was copied into memory that this object owns, which is in no budget, or lies in the
// caller's own buffer (OutputMode::kWriteInto), which has moved to him already and is not copied.
//
// Units: elements. Threads: one at a time. Lifetime: may outlive the session and the stream, not
// the context.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"

namespace coppice {

// Where copies go, if not to memory of cuMemAlloc. Neither may call the session, whose lane is
// locked while `allocate` runs.
struct DetachMemory {
  // Returns an address that is a multiple of kBufferAlignment. Its error is Detach's.
  std::function<absl::StatusOr<DeviceAddress>(int64_t bytes)> allocate;
  // Called once, when the copies have been made, by whoever ends the outputs.
  std::function<void(DeviceAddress address, int64_t bytes)> free;
};

namespace internal {
struct DetachedMemory;  // What was copied, and when that has been done.
}  // namespace internal

class [[nodiscard]] DetachedOutputs {
 public:
  // How an output came here.
  enum class Way : uint8_t {
    kCopied,  // Into memory of this object's own.
    kMoved,   // Not at all: it lies in Call::targets, whose bytes are the caller's.
  };
  struct Output {
    Tensor tensor;
    Way way = Way::kCopied;
  };

  // Made by Lease::Detach, of a lease or of the part of output `part`. `memory` may be null.
  DetachedOutputs(std::unique_ptr<internal::DetachedMemory> memory,
                  std::vector<Output> outputs,
                  int part);
  DetachedOutputs(DetachedOutputs&& other) noexcept;
  DetachedOutputs& operator=(DetachedOutputs&& other) noexcept;
  // Waits until the copies have been made, and frees them. Requires: the context is current; work
  // that reads them has run.
  ~DetachedOutputs();

  int output_count() const { return static_cast<int>(outputs_.size()); }  // 0 once moved from.

  // Output `index` at the call's real extents, with the strides that ReadScope::output showed. Work
  // queued behind Detach on its stream sees it. Requires: 0 <= index < output_count, and
  // the output of the lease if that was a part (checked).
  const Tensor& output(int index) const { return At(index).tensor; }
  Way way(int index) const { return At(index).way; }

 private:
  const Output& At(int index) const;

  std::unique_ptr<internal::DetachedMemory> memory_;
  std::vector<Output> outputs_;
  int part_ = -1;
};

}  // namespace coppice
