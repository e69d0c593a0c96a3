// Where a program's copied inputs lie in its lane's staging window, and what one call puts there.
// Private to graphs/.
//
//   window  | parameter block | input 0, padded | input 1, padded | ...
//
// Units: bytes and elements. Threads: pure functions.

#pragma once

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

// Bytes of a dense tensor, rounded up to kBufferAlignment; at least that much.
int64_t RoundedBytes(const Tensor& tensor);

// Lays the copied inputs out from `base` at `extents`, with the spec's fills and no sources.
// Returns the bytes that takes.
int64_t LayOutStaging(const Program& program,
                      DeviceAddress base,
                      std::span<const int64_t> extents,
                      StagingParams& params);

// Fills in what differs from call to call: the words and the sources. Returns the real elements.
int64_t FillStaging(const Call& call, const CallShape& shape, StagingParams& params);

// Overrides every fill that the program's claim lets it: masked programs read no padding at all,
// row-independent ones may use a padded integer as an index.
void ApplyPoison(const Program& program, Poison poison, StagingParams& params);

// Replaces every input by zeros, at full extents.
void ApplyZeros(StagingParams& params);

// Elements of all targets.
int64_t PaddedElements(const StagingParams& params);

}  // namespace coppice::internal
