// One request to a session, and where its outputs go.
//
// Units: elements where named so. Threads: plain values.

#pragma once

#include <cstdint>
#include <span>

#include "coppice/base/tensor.h"
#include "coppice/graphs/lease.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/driver.h"

namespace coppice {

// A registered program, and one set of its static inputs and outputs; made by a session, valid
// while it lives.
class Program;
class Binding;

// Where a call's outputs go.
enum class OutputMode : uint8_t {
  kBorrow,     // They stay in the lane's window; see lease.h.
  kCopyOut,    // Copied behind the graph to memory of the lane's own; needs copy_out_bytes.
  kWriteInto,  // Copied behind the graph into Call::targets.
};
inline constexpr int kOutputModeCount = 3;

// "borrow", "copy_out", "write_into".
constexpr const char* NameOf(OutputMode mode) {
  switch (mode) {
    case OutputMode::kBorrow:
      return "borrow";
    case OutputMode::kCopyOut:
      return "copy_out";
    case OutputMode::kWriteInto:
      return "write_into";
  }
  return "?";
}

// One request. The spans are read during Run only.
struct Call {
  const Program* program = nullptr;
  const Binding* binding = nullptr;  // Null only if the program binds nothing.
  // The copied inputs, in spec order, at real extents; each at a multiple of its element's bytes,
  // with strides that stay within the addresses there are.
  std::span<const Tensor> inputs{};
  std::span<const int64_t> scalars{};  // All scalars, in spec order.
  std::span<const int64_t> extents{};  // Of the symbols that are `given`, in spec order; >= 0.
  // Of the symbols that are `counted`, in spec order, or none: where the device finds the extent,
  // one i32 or i64 of its memory each, such as ReadScope::count gives; at address 0: the host's
  // extent counts, as without. What the call has for the symbol otherwise (inputs as long as
  // ReadScope::output shows them) is its capacity then, which chooses the bucket. The count is read
  // in the order of the stream, before the program runs, and the host waits for nothing. Held to
  // [0, capacity], it is what the parameter block says; padding begins behind it, and nothing
  // behind it is written back. Outputs of that symbol are shown at the capacity.
  // In the session's memory it must be leased, as an input must, of another lane under a read
  // scope; by itself it makes the call no child (session.h, Paths).
  std::span<const Tensor> counts{};
  CuStream stream = nullptr;  // Any stream of the context but the legacy one; not capturing.
  int lane = 0;
  // For tests of padding: overrides the fill of each staged input as the claims of the symbols
  // allow that pad it in this call. An element may be padding of several, so that the claim of one
  // symbol alone shows where the others have the extents of a bucket.
  Poison poison = Poison::kOff;
  OutputMode output_mode = OutputMode::kBorrow;
  // For kWriteInto: one tensor per output, at real extents, at a multiple of its element's bytes
  // and outside the session's memory; of any strides >= 0, if no two elements of one share a
  // byte, nor what lies from the first to the last of two. Those of static outputs are not read.
  std::span<const Tensor> targets{};
  // Leases, or parts of split ones, that the call may use up: once its graph was launched, or it
  // has run otherwise, they are empty; a call that failed before leaves them as they were. An input
  // that is read in place in such an output gives its bytes to the plan from where the program
  // frees it (CallContext::Free). Of this session and lane, not empty and under no read scope.
  // Not for Include. With checks.fill_expired they are gone once the fill is queued.
  std::span<Lease> donated{};
};

}  // namespace coppice
