// Outputs that have left their session: the result of Lease::Detach.
//
// Each output was copied into memory that this object owns. No budget counts that memory. An output
// that lies in the caller's own buffer (OutputMode::kWriteInto) is not copied.
//
// Units: elements. Threads: one at a time. Lifetime: may outlive the session and the stream, but
// not the context.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"

namespace coppice {

// Functions that replace cuMemAlloc for the copies. They must not call the session, because its
// lane is locked while `allocate` runs.
struct DetachMemory {
  // Returns an address that is a multiple of kBufferAlignment. Detach returns its error.
  std::function<absl::StatusOr<DeviceAddress>(int64_t bytes)> allocate;
  // Called once, after the copies are made, on the thread that destroys the outputs.
  std::function<void(DeviceAddress address, int64_t bytes)> free;
};

namespace internal {
struct DetachedMemory;  // The copies, and an event that says when they are complete.
}  // namespace internal

class [[nodiscard]] DetachedOutputs {
 public:
  // How an output left the session.
  enum class Way : uint8_t {
    kCopied,  // Copied into memory of this object.
    kMoved,   // Not copied: it lies in the caller's Call::targets.
  };
  struct Output {
    Tensor tensor;
    Way way = Way::kCopied;
  };

  // Made by Lease::Detach, from a lease or from the part for output `part`. `memory` may be null.
  DetachedOutputs(std::unique_ptr<internal::DetachedMemory> memory,
                  std::vector<Output> outputs,
                  int part);
  DetachedOutputs(DetachedOutputs&& other) noexcept;
  DetachedOutputs& operator=(DetachedOutputs&& other) noexcept;
  // Waits until the copies are complete, and frees them. Requires: the context is current; work
  // that reads them is complete.
  ~DetachedOutputs();

  int output_count() const { return static_cast<int>(outputs_.size()); }  // 0 once moved from.

  // Output `index` at the call's real extents, with the strides that ReadScope::output showed. Work
  // queued after Detach on its stream sees it. Requires: 0 <= index < output_count, and `index` is
  // the lease's own output if it was a part (checked).
  const Tensor& output(int index) const { return At(index).tensor; }
  Way way(int index) const { return At(index).way; }

 private:
  const Output& At(int index) const;

  std::unique_ptr<internal::DetachedMemory> memory_;
  std::vector<Output> outputs_;
  int part_ = -1;
};

}  // namespace coppice
