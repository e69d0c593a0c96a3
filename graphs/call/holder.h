// Whose output a tensor is. Private to graphs/.
//
// Threads: what takes slots under the lock of their lane; the rest are pure functions.

#pragma once

#include <optional>
#include <vector>

#include "coppice/base/tensor.h"

#include "graphs/lane/slot.h"

namespace coppice::internal {

// The bytes [low, high) from a tensor's lowest element to its highest; empty if it has none.
// Strides may be negative. Nothing if an address does not hold them.
struct ByteSpan {
  DeviceAddress low = 0;
  DeviceAddress high = 0;
  int64_t bytes() const { return static_cast<int64_t>(high - low); }
};
std::optional<ByteSpan> SpanOf(const Tensor& tensor);

// Where it begins; its address if it has no span.
inline DeviceAddress LowOf(const Tensor& tensor) {
  const std::optional<ByteSpan> span = SpanOf(tensor);
  return span.has_value() ? span->low : tensor.data;
}

// Whether `tensor` lies within `output`; whether both share bytes. One without a span does neither.
bool Holds(const Tensor& output, const Tensor& tensor);
bool Overlap(const Tensor& a, const Tensor& b);

// True if `tensor` has the strides of `dense`, where that matters.
bool StridesMatch(const Tensor& tensor, const Tensor& dense);

// The slot among `slots` of which `tensor` is a leased output, and which output; null if none.
const Slot* FindHolder(const std::vector<Slot*>& slots,
                       const Tensor& tensor,
                       const Tensor** holder = nullptr);

// Whether an open scope on this stream shows an output of `slot` in which `tensor` lies, or what
// such an output counts.
bool IsReadOn(const Slot& slot, const Tensor& tensor, CuStream stream);

// The slot among `slots` under whose open scopes lie bytes of `tensor`; null if none.
const Slot* FindReader(const std::vector<Slot*>& slots, const Tensor& tensor);

}  // namespace coppice::internal
