// Exact replay: one executable graph for many sizes, which computes nothing for padding.
//
//   call of 5 rows ─► bucket of 8: its plan ─► the executable, set to 5 rows ─► launch
//   call of 6 rows ─► bucket of 8: its plan ─► the same, set to 6 rows ─► launch
//   call of 6 rows ─────────────────────────────────────────────────────► launch
//
// Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

// Whether replays compute at the sizes of their call. The plan is still that of the bucket. Before
// the launch, the executable is set to the call's grids, arguments and addresses. Buckets with the
// same graph nodes share one executable. If the executable already has the sizes of a call, the
// call is one launch, as without this option. Sizes that need other graph nodes run at their
// bucket.
enum class ExactReplay : uint8_t {
  kNever,   // Replays compute at the bucket's sizes.
  kAuto,    // At the call's own sizes if they are equal to those of the call before it.
  kAlways,  // Always at the call's own sizes.
};
const char* NameOf(ExactReplay exact);

}  // namespace coppice
