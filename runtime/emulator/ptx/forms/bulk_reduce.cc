// Arithmetic, counting and bitwise reductions.

#include "runtime/emulator/ptx/forms/bulk_reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "runtime/emulator/ptx/forms/narrow_format.h"

namespace coppice::ptx {
namespace {

struct ReduceAdd {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct ReduceMin {
  template <typename T>
  static T Of(T a, T b) {
    return std::min(a, b);
  }
};
struct ReduceMax {
  template <typename T>
  static T Of(T a, T b) {
    return std::max(a, b);
  }
};
struct ReduceInc {
  static uint32_t Of(uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }
};
struct ReduceDec {
  static uint32_t Of(uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }
};
struct ReduceAnd {
  template <typename T>
  static T Of(T a, T b) {
    return a & b;
  }
};
struct ReduceOr {
  template <typename T>
  static T Of(T a, T b) {
    return a | b;
  }
};
struct ReduceXor {
  template <typename T>
  static T Of(T a, T b) {
    return a ^ b;
  }
};

template <typename T, typename Op>
void ReduceElement(std::byte* to, const std::byte* from) {
  T a;
  T b;
  std::memcpy(&a, to, sizeof(T));
  std::memcpy(&b, from, sizeof(T));
  a = Op::Of(a, b);
  std::memcpy(to, &a, sizeof(T));
}

// Numbers too small for a normal one are 0, as of atom.global.
void AddFlushed(std::byte* to, const std::byte* from) {
  float a;
  float b;
  std::memcpy(&a, to, sizeof(a));
  std::memcpy(&b, from, sizeof(b));
  a = Flush(Flush(a) + Flush(b));
  std::memcpy(to, &a, sizeof(a));
}

template <typename Format, typename Op>
void ReduceHalf(std::byte* to, const std::byte* from) {
  uint16_t a;
  uint16_t b;
  std::memcpy(&a, to, sizeof(a));
  std::memcpy(&b, from, sizeof(b));
  a = static_cast<uint16_t>(Narrow<Format>(Op::Of(Widen<Format>(a), Widen<Format>(b))));
  std::memcpy(to, &a, sizeof(a));
}

template <typename Op>
BulkCopies::Reduce ArithmeticOf(TensorMap::Type type) {
  using Type = TensorMap::Type;
  constexpr bool kAdds = std::is_same_v<Op, ReduceAdd>;
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
      return ReduceHalf<F16, Op>;
    case Type::kBFloat16:
      return ReduceHalf<BF16, Op>;
    case Type::kFloat32:
    case Type::kFloat32Flushed:
      return kAdds ? AddFlushed : nullptr;
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
    {"add", ArithmeticOf<ReduceAdd>}, {"min", ArithmeticOf<ReduceMin>},
    {"max", ArithmeticOf<ReduceMax>}, {"inc", CountingOf<ReduceInc>},
    {"dec", CountingOf<ReduceDec>},   {"and", BitwiseOf<ReduceAnd>},
    {"or", BitwiseOf<ReduceOr>},      {"xor", BitwiseOf<ReduceXor>},
};
static_assert(std::size(kReductions) == kBulkReductions);

}  // namespace

const BulkReduction* BulkReductions() {
  return kReductions;
}

}  // namespace coppice::ptx
