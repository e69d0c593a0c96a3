// cvt between integers.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/resize.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

template <typename D, typename S>
D Cvt(S a) {
  return static_cast<D>(a);
}

template <typename D, typename S>
D CvtSat(S a) {
  constexpr D kMin = std::numeric_limits<D>::min();
  constexpr D kMax = std::numeric_limits<D>::max();
  if (std::cmp_less(a, kMin)) return kMin;
  if (std::cmp_greater(a, kMax)) return kMax;
  return static_cast<D>(a);
}

// Two words, or two and the lower bits of a third, as fields: the first above the second.
template <typename Field>
uint32_t Saturated(int32_t a) {
  return static_cast<std::make_unsigned_t<Field>>(CvtSat<Field>(a));
}

template <typename Field>
uint32_t Pack(int32_t a, int32_t b) {
  return Saturated<Field>(a) << 16 | Saturated<Field>(b);
}

template <typename Field>
uint32_t PackBelow(int32_t a, int32_t b, uint32_t c) {
  return c << 16 | Saturated<Field>(a) << 8 | Saturated<Field>(b);
}

// Fields of 2 or 4 bits: from `least` on.
template <int bits, int32_t least>
uint32_t PackBits(int32_t a, int32_t b, uint32_t c) {
  constexpr int32_t kMost = least + (1 << bits) - 1;
  constexpr uint32_t kField = (uint32_t{1} << bits) - 1;
  const uint32_t high = static_cast<uint32_t>(std::clamp(a, least, kMost)) & kField;
  const uint32_t low = static_cast<uint32_t>(std::clamp(b, least, kMost)) & kField;
  return c << (2 * bits) | high << bits | low;
}

template <typename T>
struct Integer {
  const char* name;
};

template <typename D, typename... S>
void AddSources(FormTable& table, const char* to, Integer<S>... from) {
  (AddResized<Cvt<D, S>>(table, std::string("cvt") + to + from.name), ...);
  (AddResized<CvtSat<D, S>>(table, std::string("cvt.sat") + to + from.name), ...);
}

template <typename... T>
void AddPairs(FormTable& table, Integer<T>... types) {
  (AddSources<T>(table, types.name, types...), ...);
}

FormTable MakeConvertTable() {
  FormTable table;
  AddPairs(table, Integer<uint8_t>{".u8"}, Integer<uint16_t>{".u16"}, Integer<uint32_t>{".u32"},
           Integer<uint64_t>{".u64"}, Integer<int8_t>{".s8"}, Integer<int16_t>{".s16"},
           Integer<int32_t>{".s32"}, Integer<int64_t>{".s64"});
  table.Each<Pack<uint16_t>>("cvt.pack.sat.u16.s32");
  table.Each<Pack<int16_t>>("cvt.pack.sat.s16.s32");
  table.Each<PackBelow<uint8_t>>("cvt.pack.sat.u8.s32.b32");
  table.Each<PackBelow<int8_t>>("cvt.pack.sat.s8.s32.b32");
  table.Each<PackBits<4, 0>>("cvt.pack.sat.u4.s32.b32");
  table.Each<PackBits<4, -8>>("cvt.pack.sat.s4.s32.b32");
  table.Each<PackBits<2, 0>>("cvt.pack.sat.u2.s32.b32");
  table.Each<PackBits<2, -2>>("cvt.pack.sat.s2.s32.b32");
  return table;
}

}  // namespace

std::span<const Form> ConvertForms() {
  static const FormTable table = MakeConvertTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
