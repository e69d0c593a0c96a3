// A plan: an offset from the start of a window for each buffer of a program.
//
// A buffer is a rectangle: time across (the steps during which its bytes are needed), address up.
// A plan gives each rectangle an offset above zero so that no two overlap. The plan's height is the
// top of the highest rectangle. No plan can be lower than the most bytes live at one step, the
// bound.
//
//   address
//    height  ┌────┐ ┌─────────┐
//            │ b  │ │    d    │          time: steps 0, 1, 2, ...; lifetimes are half-open
//            ├────┴─┴─┬───────┤
//            │   a    │   c   │
//         0  └────────┴───────┘ time
//
// The result of an in-place operation begins at the address of its operand. Chains and trees of
// such buffers are a group. The members of a group have the same offset and may be live at the same
// steps; at each step, the group needs as many bytes as its largest live member.
//
// The validator in this file checks every plan before a graph uses it. It shares no code with the
// planner.
//
// Units: bytes and steps. Threads: pure functions and plain values; no device.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"

#include "coppice/base/units.h"

namespace coppice {

// Steps [lower, upper).
struct Interval {
  int64_t lower = 0;  // >= 0.
  int64_t upper = 0;  // > lower.
  friend bool operator==(const Interval&, const Interval&) = default;
};

struct Buffer {
  absl::InlinedVector<Interval, 1> lifetime;  // Sorted, disjoint, none empty; at least one.
  int64_t bytes = 0;                          // >= 1.
  int64_t alignment = kBufferAlignment;       // Power of two.
  std::optional<int64_t> fixed_offset;        // Where it must lie; multiple of the alignment, >= 0.
  std::optional<size_t> in_place_with;  // Must begin at the offset of that buffer; may share steps
                                        // with it.
  bool low = false;  // Placed at the bottom if possible, because its bytes stay in use.
};

struct Plan {
  std::vector<int64_t> offsets;  // One per buffer, same order.
  int64_t height = 0;            // Max of offset + bytes; 0 without buffers.
};

// The order of steps that do not simply run one after another. An edge says that step `from` runs
// before step `to`.
struct StepOrder {
  int64_t step_count = 0;
  std::vector<std::pair<int64_t, int64_t>> edges;  // (from, to), both in [0, step_count).
};

// Checks that `buffers` are well formed: fields are in their ranges, no sum overflows, and no group
// is fixed at two offsets, or at an offset that is misaligned for a member. Errors:
// kInvalidArgument naming the first offender by index.
absl::Status ValidateBuffers(std::span<const Buffer> buffers);

// The most bytes live at any one step: no plan is lower. Sizes are not rounded up; a group counts
// as its largest live member. Requires: well-formed buffers. Cost: O(n log n).
int64_t MaxLiveBytes(std::span<const Buffer> buffers);

// Checks a plan against the definition, without the planner's help: it has an offset per buffer;
// offsets are not negative, are aligned, and equal the fixed ones; the members of a group have one
// offset; the height is exact; two buffers of different groups share a byte only if no step needs
// both.
//
// With `order`, steps run in any order that respects its edges. Two buffers of different groups may
// then share a byte only if the edges put every step of one before every step of the other.
//
// Errors: kInvalidArgument  the plan is wrong, `buffers` are malformed, or `order` has a cycle or a
//                           step out of range; the message names the buffers.
// Cost: O(n log n); with order O((edges + uses + pairs) * steps / 64), where uses is the sum of all
// lifetimes' lengths and pairs the number of pairs that share bytes.
absl::Status ValidatePlan(std::span<const Buffer> buffers,
                          const Plan& plan,
                          const StepOrder* order = nullptr);

// Lengthens each lifetime up to its join: from that step on, every step comes after all steps that
// use the buffer. A plan that is valid for the longer lifetimes with steps in sequence is then
// valid for the original ones under `order`. If the steps form a chain, nothing changes.
//
// Steps must be numbered in a topological order. Lifetimes become single intervals, from the first
// use to the join. On an error the buffers are unchanged.
// Errors: kInvalidArgument as ValidatePlan; also an edge from a later step to an earlier one.
// Cost: O(steps * edges / 64 + n * steps).
absl::Status ExtendToJoins(const StepOrder& order, std::vector<Buffer>& buffers);

}  // namespace coppice
