// Arithmetic, counting and bitwise reductions.

#include "runtime/emulator/ptx/forms/bulk_reduce.h"

#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "runtime/emulator/ptx/forms/atomic_operations.h"

namespace coppice::ptx {
namespace {

template <typename T, typename Op>
void ReduceElement(std::byte* to, const std::byte* from) {
  T a;
  T b;
  std::memcpy(&a, to, sizeof(T));
  std::memcpy(&b, from, sizeof(T));
  a = Op::Of(a, b);
  std::memcpy(to, &a, sizeof(T));
}

// Of the bits of a half.
template <typename Format, typename Op>
struct OfHalves {
  static uint16_t Of(uint16_t old, uint16_t b) {
    return static_cast<uint16_t>(Narrow<Format>(Op::Of(Widen<Format>(old), Widen<Format>(b))));
  }
};

template <typename Op>
BulkCopies::Reduce ArithmeticOf(TensorMap::Type type) {
  using Type = TensorMap::Type;
  constexpr bool kAdds = std::is_same_v<Op, AtomicAdd>;
  switch (type) {
    case Type::kUint32:
      return ReduceElement<uint32_t, Op>;
    case Type::kInt32:
      return ReduceElement<int32_t, Op>;
    case Type::kUint64:
      return ReduceElement<uint64_t, Op>;
    case Type::kInt64:
      return kAdds ? ReduceElement<uint64_t, Op> : ReduceElement<int64_t, Op>;
    case Type::kFloat16:
      return ReduceElement<uint16_t, OfHalves<F16, Op>>;
    case Type::kBFloat16:
      return ReduceElement<uint16_t, OfHalves<BF16, Op>>;
    case Type::kFloat32:
    case Type::kFloat32Flushed:
      return kAdds ? ReduceElement<float, AtomicAddFlushed> : nullptr;
    case Type::kFloat64:
      return kAdds ? ReduceElement<double, Op> : nullptr;
    default:
      return nullptr;
  }
}

template <typename Op>
BulkCopies::Reduce BitwiseOf(TensorMap::Type type) {
  const unsigned bytes = TensorMap::BytesOf(type);
  if (type > TensorMap::Type::kInt64) return nullptr;
  if (bytes == 4) return ReduceElement<uint32_t, Op>;
  return bytes == 8 ? ReduceElement<uint64_t, Op> : nullptr;
}

template <typename Op>
BulkCopies::Reduce CountingOf(TensorMap::Type type) {
  return type == TensorMap::Type::kUint32 ? ReduceElement<uint32_t, Op> : nullptr;
}

constexpr BulkReduction kReductions[] = {
    {"add", ArithmeticOf<AtomicAdd>}, {"min", ArithmeticOf<AtomicMin>},
    {"max", ArithmeticOf<AtomicMax>}, {"inc", CountingOf<AtomicInc>},
    {"dec", CountingOf<AtomicDec>},   {"and", BitwiseOf<AtomicAnd>},
    {"or", BitwiseOf<AtomicOr>},      {"xor", BitwiseOf<AtomicXor>},
};
static_assert(std::size(kReductions) == kBulkReductions);

}  // namespace

const BulkReduction* BulkReductions() {
  return kReductions;
}

}  // namespace coppice::ptx
