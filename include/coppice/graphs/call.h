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

// One request. The spans are read during Run only.
struct Call {
  const Program* program = nullptr;
  const Binding* binding = nullptr;  // Null only if the program binds nothing.
  // The copied inputs, in spec order, at real extents; each at a multiple of its element's bytes,
  // with strides that stay within the addresses there are.
  std::span<const Tensor> inputs{};
  std::span<const int64_t> scalars{};  // All scalars, in spec order.
  std::span<const int64_t> extents{};  // Of the symbols that are `given`, in spec order; >= 0.
  // Of the symbols that are `counted`, in spec order, or none: one i32 or i64 of device memory
  // each, read in the order of the stream before the program runs, such as ReadScope::count gives;
  // at address 0: the host's extent counts. What the call has for the symbol otherwise is its
  // capacity then, which chooses the bucket; the parameter block gets the count, held to [0,
  // capacity], padding begins behind it, and nothing behind it is written back. Outputs of that
  // symbol are shown at the capacity. The host waits for nothing.
  std::span<const Tensor> counts{};
  CuStream stream = nullptr;  // Any stream of the context but the legacy one; not capturing.
  int lane = 0;
  Poison poison = Poison::kOff;  // For tests of padding: overrides every fill.
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
