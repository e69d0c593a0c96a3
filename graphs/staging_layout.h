// Where a program's copied inputs lie in its lane's staging window, and what one call puts there.
// Private to graphs/.
//
//   window  | parameter block | input 0, padded | input 1, padded | ...
//
// Units: bytes and elements. Threads: pure functions.

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "coppice/graphs/session.h"
#include "coppice/graphs/staging.h"

#include "graphs/call_shape.h"
#include "graphs/node.h"

namespace coppice::internal {

// The dense tensor of a spec's dims at `extents`.
Tensor DenseTensor(DeviceAddress data,
                   DType dtype,
                   const Dims& dims,
                   std::span<const int64_t> extents);

// `tensor`, of these dims, with the sizes that it has at `extents` and the strides it had.
Tensor AtExtents(Tensor tensor, const Dims& dims, std::span<const int64_t> extents);

// Bytes of a dense tensor, rounded up to kBufferAlignment; at least that much.
int64_t RoundedBytes(const Tensor& tensor);

// Where a run's memory begins.
struct LayoutBases {
  DeviceAddress staging = 0;
  DeviceAddress nodes = 0;  // For inputs in place.
};

// Lays out the inputs of a run at `extents`: copied ones from `bases.staging` on, with the spec's
// fills and no sources, but for those that `in_place` puts into the node window (offsets per copied
// input, or -1; empty: all are staged); bound ones where they are, or staged if `statics` says so.
InputLayout LayOutInputs(const Program& program,
                         const Binding* binding,
                         const StaticVersion* statics,
                         std::span<const int64_t> in_place,
                         std::span<const int64_t> extents,
                         const LayoutBases& bases);

// The words of the random state of one call.
struct RandomState {
  uint64_t seed = 0;
  int64_t offset = 0;
};

// Fills in what differs from call to call: the words, the sources and the real elements.
void FillStaging(const Call& call,
                 const CallShape& shape,
                 const RandomState& random,
                 InputLayout& layout);

// Overrides every fill that the program's claim lets it: masked programs read no padding at all,
// row-independent ones may use a padded integer as an index.
void ApplyPoison(const Program& program,
                 Poison poison,
                 std::span<const InputLayout::Source> sources,
                 StagingParams& params);

// Replaces every input of the call by zeros, at full extents; bound ones come from `binding`.
void ApplyZeros(const Binding* binding,
                std::span<const InputLayout::Source> sources,
                StagingParams& params);

// Whether padding of this input may hold anything at all.
bool PaddingIsFree(const Program& program, const InputSpec& input);

}  // namespace coppice::internal
