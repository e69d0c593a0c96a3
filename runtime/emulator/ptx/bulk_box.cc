// The rows of a box, and what of each is in bounds.

#include "runtime/emulator/ptx/bulk_box.h"

#include <algorithm>

#include "fmt/format.h"

#include "runtime/emulator/ptx/swizzle.h"

namespace coppice::ptx {
namespace {

constexpr uint64_t kBoxAlignment = 128;
constexpr int64_t kBoxBytesMax = 1 << 18;  // No block has as much shared memory.

// What a device would not take, and what is not executed here; empty: neither.
std::string WhyNot(const TensorMap& map, int rank) {
  const unsigned element = TensorMap::BytesOf(map.type);
  if (map.last_dimension + 1 != rank || element == 0 || map.swizzle >= kSwizzleModes ||
      map.fill > 1)
    return fmt::format("is not a valid {}-dimensional tensor map", rank);
  if (map.interleave != 0) return "has an interleaved layout, which the emulator does not support";
  const uint32_t row = (map.last_in_box[0] + 1U) * element;
  if (row % kSwizzleUnit != 0)
    return fmt::format("has rows of {} bytes, not a multiple of {}", row, kSwizzleUnit);
  if (map.swizzle != 0 && row > kSwizzleUnit << map.swizzle)
    return fmt::format("has rows of {} bytes, more than its swizzle of {} bytes", row,
                       kSwizzleUnit << map.swizzle);
  if (map.address % kSwizzleUnit != 0)
    return fmt::format("has global address {:#x}, not a multiple of {}", map.address, kSwizzleUnit);
  for (int i = 1; i < rank; ++i) {
    if (map.strides[i - 1] % kSwizzleUnit != 0)
      return fmt::format("has a stride of {} bytes, not a multiple of {}", map.strides[i - 1],
                         kSwizzleUnit);
    if (map.element_strides[i] == 0) return "has an element stride of 0";
  }
  return {};
}

}  // namespace

std::optional<BulkBox> BoxOf(const TensorMap& map,
                             int rank,
                             const BoxCoordinates& at,
                             std::string& why) {
  why = WhyNot(map, rank);
  if (!why.empty()) return std::nullopt;
  const auto element = static_cast<int64_t>(TensorMap::BytesOf(map.type));
  const int64_t columns = map.last_in_box[0] + 1;
  BulkBox box{.row_bytes = static_cast<uint32_t>(columns * element),
              .alignment = kBoxAlignment,
              .swizzle = map.swizzle,
              .type = map.type,
              .fills_nan = map.fill != 0};
  const auto size = [&map](int i) { return int64_t{map.last[i]} + 1; };
  const int64_t first = std::clamp<int64_t>(-int64_t{at[0]}, 0, columns);
  const int64_t end = std::clamp<int64_t>(size(0) - at[0], first, columns);
  std::array<int64_t, TensorMap::kRankMax> counts = {1, 1, 1, 1, 1};
  int64_t rows = 1;
  for (int i = 1; i < rank; ++i) {
    const int64_t stride = map.element_strides[i];
    counts[i] = (map.last_in_box[i] + stride) / stride;
    rows *= counts[i];
  }
  if (rows * box.row_bytes > kBoxBytesMax) {
    why = fmt::format("has boxes of more than {} bytes", kBoxBytesMax);
    return std::nullopt;
  }
  for (int64_t row = 0; row < rows; ++row) {
    BulkBox::Row added{.address = map.address + static_cast<uint64_t>((at[0] + first) * element),
                       .first = static_cast<uint32_t>(first * element),
                       .bytes = static_cast<uint32_t>((end - first) * element)};
    int64_t rest = row;
    for (int i = 1; i < rank; ++i) {
      const int64_t index = at[i] + rest % counts[i] * map.element_strides[i];
      rest /= counts[i];
      if (index < 0 || index >= size(i)) added.bytes = 0;
      added.address += static_cast<uint64_t>(index) * map.strides[i - 1];
    }
    box.rows.push_back(added.bytes == 0 ? BulkBox::Row{} : added);
  }
  return box;
}

BulkBox RowOf(uint64_t address, uint32_t bytes) {
  return {.row_bytes = bytes, .rows = {{.address = address, .bytes = bytes}}};
}

}  // namespace coppice::ptx
