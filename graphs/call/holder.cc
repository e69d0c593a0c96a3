// Comparing tensors with the outputs that slots show.

#include "graphs/call/holder.h"

#include <algorithm>

namespace coppice::internal {

std::optional<ByteSpan> SpanOf(const Tensor& tensor) {
  const auto rank = static_cast<size_t>(tensor.rank);
  if (std::find(tensor.sizes.begin(), tensor.sizes.begin() + rank, 0) !=
      tensor.sizes.begin() + rank) {
    return ByteSpan{.low = tensor.data, .high = tensor.data};
  }
  // Elements below and above the first; each axis goes one way.
  int64_t below = 0;
  int64_t above = 1;
  for (size_t axis = 0; axis < static_cast<size_t>(tensor.rank); ++axis) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.sizes[axis] - 1, tensor.strides[axis], &reach))
      return std::nullopt;
    int64_t& side = reach < 0 ? below : above;
    if (__builtin_add_overflow(side, reach, &side)) return std::nullopt;
  }
  ByteSpan span;
  const int64_t element = SizeOf(tensor.dtype);
  if (__builtin_mul_overflow(below, element, &below) ||
      __builtin_mul_overflow(above, element, &above) ||
      __builtin_add_overflow(tensor.data, below, &span.low) ||
      __builtin_add_overflow(tensor.data, above, &span.high)) {
    return std::nullopt;
  }
  return span;
}

bool Holds(const Tensor& output, const Tensor& tensor) {
  const std::optional<ByteSpan> inner = SpanOf(tensor);
  const std::optional<ByteSpan> outer = SpanOf(output);
  return output.data != 0 && inner && outer && inner->low >= outer->low &&
         inner->high <= outer->high;
}

bool Overlap(const Tensor& a, const Tensor& b) {
  const std::optional<ByteSpan> of_a = SpanOf(a);
  const std::optional<ByteSpan> of_b = SpanOf(b);
  return of_a && of_b && of_a->bytes() > 0 && of_b->bytes() > 0 && of_a->low < of_b->high &&
         of_b->low < of_a->high;
}

bool StridesMatch(const Tensor& tensor, const Tensor& dense) {
  for (size_t axis = 0; axis < static_cast<size_t>(tensor.rank); ++axis) {
    if (dense.sizes[axis] > 1 && tensor.strides[axis] != dense.strides[axis]) return false;
  }
  return true;
}

const Slot* FindHolder(const std::vector<Slot*>& slots,
                       const Tensor& tensor,
                       const Tensor** holder) {
  for (const Slot* slot : slots) {
    if (slot->outputs == nullptr || slot->expired() || !slot->leased()) continue;
    if (tensor.made_by != 0 && tensor.made_by != slot->call) continue;
    for (size_t i = 0; i < slot->outputs->tensors.size(); ++i) {
      const Tensor& output = slot->outputs->tensors[i];
      if (!slot->keeps(i) || !Holds(output, tensor)) continue;
      if (holder != nullptr) *holder = &output;
      return slot;
    }
  }
  return nullptr;
}

bool IsReadOn(const Slot& slot, const Tensor& tensor, CuStream stream) {
  return std::any_of(slot.scopes.begin(), slot.scopes.end(), [&](const Slot::Scope& scope) {
    if (scope.stream != stream) return false;
    for (size_t i = 0; i < slot.outputs->tensors.size(); ++i) {
      if (slot.Shows(scope, i) && Holds(slot.outputs->tensors[i], tensor)) return true;
    }
    return false;
  });
}

const Slot* FindReader(const std::vector<Slot*>& slots, const Tensor& tensor) {
  for (const Slot* slot : slots) {
    for (const Slot::Scope& scope : slot->scopes) {
      for (size_t i = 0; i < slot->outputs->tensors.size(); ++i) {
        if (slot->Shows(scope, i) && Overlap(slot->outputs->tensors[i], tensor)) return slot;
      }
    }
  }
  return nullptr;
}

}  // namespace coppice::internal
