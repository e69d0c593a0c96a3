// A tensor map, as the 128 bytes that it is here: what cuTensorMapEncodeTiled writes and
// tensormap.replace changes. The layout is that of the emulator alone.
//
// Numbers are those of the driver's enumerations; tensormap.replace numbers element types in
// another way.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace coppice::ptx {

struct TensorMap {
  static constexpr unsigned kRankMax = 5;
  static constexpr size_t kBytes = 128;
  static constexpr uint32_t kBoxMax = 256;
  static constexpr uint32_t kElementStrideMax = 8;

  enum class Type : uint8_t {
    kUint8,
    kUint16,
    kUint32,
    kInt32,
    kUint64,
    kInt64,
    kFloat16,
    kFloat32,
    kFloat64,
    kBFloat16,
    kFloat32Flushed,  // Denormals become 0.
    kTFloat32,
    kTFloat32Flushed,
  };

  uint64_t address = 0;
  uint64_t strides[kRankMax - 1] = {};  // Of dimensions 1 and up.
  uint32_t last[kRankMax] = {};         // Dimensions less one.
  uint8_t last_in_box[kRankMax] = {};
  uint8_t element_strides[kRankMax] = {};
  uint8_t last_dimension = 0;
  Type type = Type::kUint8;
  uint8_t interleave = 0;
  uint8_t swizzle = 0;  // Of rows of 16 << swizzle bytes; 0: none.
  uint8_t promotion = 0;
  uint8_t fill = 0;  // 1: what is out of bounds is NaN, else 0.
  uint8_t zeros[4] = {};

  // 0: there is no such type.
  static unsigned BytesOf(Type type) {
    constexpr uint8_t kOfTypes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    const auto index = static_cast<size_t>(type);
    return index < sizeof(kOfTypes) ? kOfTypes[index] : 0;
  }

  static TensorMap Load(const std::byte* from) {
    TensorMap map;
    std::memcpy(&map, from, sizeof(map));
    return map;
  }
  void Store(std::byte* to) const {
    std::memcpy(to, this, sizeof(*this));
    std::memset(to + sizeof(*this), 0, kBytes - sizeof(*this));
  }
};
static_assert(sizeof(TensorMap) <= TensorMap::kBytes);
// Equal maps are equal bytes.
static_assert(std::has_unique_object_representations_v<TensorMap>);

}  // namespace coppice::ptx
