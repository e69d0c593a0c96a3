// Tensor maps: the documented limits of cuTensorMapEncodeTiled.
//
// Kernels read maps as ptx/tensor_map.h has them.

#include <algorithm>
#include <span>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/entries.h"
#include "runtime/emulator/ptx/tensor_map.h"
#include "runtime/emulator/state.h"

namespace coppice::emulator {
namespace {

constexpr int kCapability = 90;  // The first device with a TMA.
constexpr uint64_t kDimensionMax = uint64_t{1} << 32;
constexpr uint64_t kStrideEnd = uint64_t{1} << 40;

using ptx::TensorMap;
static_assert(TensorMap::kBytes == sizeof(CuTensorMap));

bool IsFraction(CuTensorMapDataType type) {
  return type >= CuTensorMapDataType::kFloat16 && type <= CuTensorMapDataType::kBFloat16;
}

template <typename Mode>
bool IsOneOf(Mode mode, Mode last) {
  return static_cast<int>(mode) >= 0 && mode <= last;
}

bool AreModes(CuTensorMapDataType type,
              CuTensorMapInterleave interleave,
              CuTensorMapSwizzle swizzle,
              CuTensorMapL2Promotion promotion,
              CuTensorMapFloatOobFill fill) {
  if (!IsOneOf(interleave, CuTensorMapInterleave::k32Bytes) ||
      !IsOneOf(swizzle, CuTensorMapSwizzle::k128Bytes) ||
      !IsOneOf(promotion, CuTensorMapL2Promotion::k256Bytes) ||
      !IsOneOf(fill, CuTensorMapFloatOobFill::kNanRequestZeroFma))
    return false;
  if (interleave == CuTensorMapInterleave::k32Bytes && swizzle != CuTensorMapSwizzle::k32Bytes)
    return false;
  return fill == CuTensorMapFloatOobFill::kNone || IsFraction(type);
}

// The rows of a box that is not interleaved.
bool IsRow(uint64_t bytes, CuTensorMapSwizzle swizzle) {
  constexpr uint64_t kUnit = 16;
  const uint64_t swizzled = kUnit << static_cast<int>(swizzle);
  return bytes % kUnit == 0 && (swizzle == CuTensorMapSwizzle::kNone || bytes <= swizzled);
}

bool AreStrides(std::span<const uint64_t> strides, uint64_t unit) {
  return std::ranges::all_of(strides, [unit](uint64_t stride) {
    return stride != 0 && stride < kStrideEnd && stride % unit == 0;
  });
}

}  // namespace

CuResult TensorMapEncodeTiled(CuTensorMap* map,
                              CuTensorMapDataType type,
                              unsigned rank,
                              void* address,
                              const uint64_t* dims,
                              const uint64_t* strides,
                              const unsigned* box,
                              const unsigned* element_strides,
                              CuTensorMapInterleave interleave,
                              CuTensorMapSwizzle swizzle,
                              CuTensorMapL2Promotion promotion,
                              CuTensorMapFloatOobFill fill) {
  if (TheState().options.limits.capability < kCapability) return CuResult::kNotSupported;
  const uint64_t bytes = TensorMap::BytesOf(static_cast<TensorMap::Type>(type));
  const bool interleaves = interleave != CuTensorMapInterleave::kNone;
  const auto at = reinterpret_cast<uint64_t>(address);
  if (map == nullptr || reinterpret_cast<uintptr_t>(map) % alignof(CuTensorMap) != 0 ||
      bytes == 0 || rank < (interleaves ? 3 : 1) || rank > TensorMap::kRankMax ||
      address == nullptr || dims == nullptr || (rank > 1 && strides == nullptr) || box == nullptr ||
      element_strides == nullptr || !AreModes(type, interleave, swizzle, promotion, fill))
    return CuResult::kInvalidValue;
  const uint64_t unit = interleave == CuTensorMapInterleave::k32Bytes ? 32 : 16;
  if (at % unit != 0 || !AreStrides({strides, rank - 1}, unit) ||
      (!interleaves && !IsRow(box[0] * bytes, swizzle)))
    return CuResult::kInvalidValue;
  TensorMap content{.address = at,
                    .last_dimension = static_cast<uint8_t>(rank - 1),
                    .type = static_cast<TensorMap::Type>(type),
                    .interleave = static_cast<uint8_t>(interleave),
                    .swizzle = static_cast<uint8_t>(swizzle),
                    .promotion = static_cast<uint8_t>(promotion),
                    .fill = static_cast<uint8_t>(fill)};
  std::copy_n(strides, rank - 1, content.strides);
  for (unsigned i = 0; i < rank; ++i) {
    if (dims[i] == 0 || dims[i] > kDimensionMax || box[i] == 0 || box[i] > TensorMap::kBoxMax ||
        element_strides[i] == 0 || element_strides[i] > TensorMap::kElementStrideMax)
      return CuResult::kInvalidValue;
    content.last[i] = static_cast<uint32_t>(dims[i] - 1);
    content.last_in_box[i] = static_cast<uint8_t>(box[i] - 1);
    content.element_strides[i] = static_cast<uint8_t>(element_strides[i]);
  }
  content.Store(reinterpret_cast<std::byte*>(map->opaque));
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
