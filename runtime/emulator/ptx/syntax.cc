// Sizes of what is written.

#include "runtime/emulator/ptx/syntax.h"

#include <algorithm>

namespace coppice::ptx {

int64_t SizeOf(Type type) {
  switch (type) {
    case Type::kPred:
      return 0;
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
      return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBF16:
      return 2;
    case Type::kB32:
    case Type::kU32:
    case Type::kS32:
    case Type::kF16x2:
    case Type::kBF16x2:
    case Type::kTF32:
    case Type::kF32:
      return 4;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
      return 8;
    case Type::kB128:
      return 16;
  }
  return 0;
}

int64_t Variable::aligned_to() const {
  return std::max({alignment, SizeOf(type) * vector, int64_t{1}});
}

int64_t Variable::elements() const {
  int64_t count = vector;
  for (const int64_t dim : dims)
    count *= dim;
  return count;
}

}  // namespace coppice::ptx
