// One request to a session, and where its outputs go.
//
// Units: elements where a name says so. Threads: plain values.

#pragma once

#include <cstdint>
#include <span>

#include "coppice/base/tensor.h"
#include "coppice/graphs/lease.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/driver.h"

namespace coppice {

// A registered program, and one set of its static inputs and outputs. A session makes them; they
// are valid as long as it lives.
class Program;
class Binding;

// Where a call's outputs go.
enum class OutputMode : uint8_t {
  kBorrow,     // They stay in the lane's window; see lease.h.
  kCopyOut,    // Copied after the graph to memory of the lane; needs copy_out_bytes.
  kWriteInto,  // Copied after the graph into Call::targets.
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

// Whether the outputs are copied to the lane's own memory, which needs copy_out_bytes.
constexpr bool NeedsCopyOutBytes(OutputMode mode) {
  return mode == OutputMode::kCopyOut;
}

// One request. The spans are read during Run only.
struct Call {
  const Program* program = nullptr;
  const Binding* binding = nullptr;  // Null only if the program binds nothing.
  // The copied inputs, in spec order, at real extents. The address of each is a multiple of its
  // element's bytes, and its strides stay within valid addresses.
  std::span<const Tensor> inputs{};
  std::span<const int64_t> scalars{};  // All scalars, in spec order.
  std::span<const int64_t> extents{};  // One per `given` symbol, in spec order; >= 0.
  // The counts of the symbols that are `counted`, in spec order, or an empty span. Each is one i32
  // or i64 in device memory that holds the extent, such as the result of ReadScope::count. If its
  // address is 0, the host's extent is used, as if there were no count. With a count, the extent
  // that the call itself gives is the capacity, which chooses the bucket; inputs may be as long as
  // ReadScope::output shows them. The count is read in stream order, before the program runs, and
  // the host does not wait. Clamped to [0, capacity], it is the extent in the parameter block.
  // Padding begins after it, and nothing after it is written back. Outputs with that symbol are
  // shown at the capacity. A count in the session's memory must be leased, like an input. If it
  // belongs to another lane, a read scope must be open on it. A count alone does not make the call
  // a child (session.h, Paths).
  std::span<const Tensor> counts{};
  CuStream stream = nullptr;  // A stream of the context, or 1, its legacy stream. It does not
                              // capture.
  int lane = 0;
  // For tests of padding: replaces the fill of each staged input by values that are allowed by the
  // claims of all symbols that pad it in this call. An element may be padding of several symbols.
  // To test the claim of one symbol alone, give the others the extents of a bucket.
  Poison poison = Poison::kOff;
  OutputMode output_mode = OutputMode::kBorrow;
  // For kWriteInto: one tensor per output, at real extents, outside the session's memory, and at an
  // address that is a multiple of its element's bytes. Strides are >= 0, and no two elements of a
  // target share a byte. The ranges from the first to the last byte of two targets must not
  // overlap. Targets of static outputs are ignored.
  std::span<const Tensor> targets{};
  // Leases, or parts of split ones, that the call may use up. They are empty after its graph was
  // launched, or it ran in another way. A call that fails before that leaves them unchanged. If an
  // input is such an output and is read in place, the plan may reuse its bytes as soon as the
  // program frees it (CallContext::Free). The leases must belong to this session and lane, must not
  // be empty, and must have no open read scope. Not for Include. With checks.fill_expired they are
  // empty once the fill is queued.
  std::span<Lease> donated{};
};

}  // namespace coppice
