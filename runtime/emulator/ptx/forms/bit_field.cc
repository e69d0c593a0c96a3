// Fields of bits, counts of bits, permutations of bytes.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};  // No bit was found.

template <typename T>
uint32_t Popc(T a) {
  return static_cast<uint32_t>(std::popcount(a));
}

template <typename T>
uint32_t Clz(T a) {
  return static_cast<uint32_t>(std::countl_zero(a));
}

// The highest bit that is not as the sign; of unsigned numbers, that is set. `shift`: by how much
// to shift it to the top.
template <typename T, bool shift>
uint32_t Bfind(T a) {
  using U = std::make_unsigned_t<T>;
  const U bits = std::is_signed_v<T> && a < 0 ? static_cast<U>(~a) : static_cast<U>(a);
  if (bits == 0) return kNone;
  const uint32_t zeros = Clz(bits);
  return shift ? zeros : static_cast<uint32_t>(8 * sizeof(T)) - 1 - zeros;
}

template <typename T>
T Brev(T a) {
  T reversed = 0;
  for (size_t i = 0; i < 8 * sizeof(T); ++i)
    reversed |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
  return reversed;
}

// The lowest `count` bits, of any count.
template <typename T>
T Low(uint32_t count) {
  return count < 8 * sizeof(T) ? static_cast<T>((T{1} << count) - 1) : static_cast<T>(~T{0});
}

// Bits from `position` on, `length` of them; position and length are bytes. Behind the top bit, and
// behind the field, a signed number goes on with the field's last bit that there is.
template <typename T>
T Bfe(T a, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(T);
  position &= 0xff;
  length &= 0xff;
  const U field = position < kBits ? static_cast<U>(a) >> position : 0;
  if constexpr (!std::is_signed_v<T>) {
    return field & Low<U>(length);
  } else {
    if (length == 0) return 0;
    const uint32_t last = position + length - 1 < kBits ? position + length - 1 : kBits - 1;
    const bool sign = (static_cast<U>(a) >> last & 1) != 0;
    const uint32_t there = position < kBits ? kBits - position : 0;  // Bits of `a` in the field.
    const U kept = Low<U>(length < there ? length : there);
    return static_cast<T>((field & kept) | (sign ? static_cast<U>(~kept) : 0));
  }
}

template <typename T>
T Bfi(T a, T b, uint32_t position, uint32_t length) {
  position &= 0xff;
  length &= 0xff;
  if (position >= 8 * sizeof(T)) return b;
  const T field = static_cast<T>(Low<T>(length) << position);
  return (b & ~field) | (static_cast<T>(a << position) & field);
}

// `width` ones from bit `position` on.
uint32_t BmskClamp(uint32_t position, uint32_t width) {
  return position < 32 ? Low<uint32_t>(width) << position : 0;
}

uint32_t BmskWrap(uint32_t position, uint32_t width) {
  return BmskClamp(position & 31, width & 31);
}

// `a` extended from its lowest `width` bits.
template <typename T>
T SzextClamp(T a, uint32_t width) {
  return Bfe<T>(a, 0, width < 32 ? width : 32);
}

template <typename T>
T SzextWrap(T a, uint32_t width) {
  return Bfe<T>(a, 0, width & 31);
}

// The n-th set bit from bit `base` on: upwards for positive n, downwards for negative n.
uint32_t Fns(uint32_t mask, uint32_t base, int32_t n) {
  if (n == 0) return base < 32 && (mask >> base & 1) != 0 ? base : kNone;
  const int64_t step = n > 0 ? 1 : -1;
  int64_t left = n > 0 ? int64_t{n} : -int64_t{n};
  for (int64_t bit = base; bit >= 0 && bit < 32; bit += step) {
    left -= mask >> bit & 1;
    if (left == 0) return static_cast<uint32_t>(bit);
  }
  return kNone;
}

// Byte i of the result is the byte of [b:a] that nibble i of the selector names; the nibble's top
// bit repeats that byte's sign instead.
uint32_t Prmt(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t nibble = selector >> (4 * i);
    const auto byte = static_cast<uint8_t>(both >> (8 * (nibble & 7)));
    const auto signs = static_cast<uint8_t>(static_cast<int8_t>(byte) >> 7);
    result |= uint32_t{(nibble & 8) != 0 ? signs : byte} << (8 * i);
  }
  return result;
}

// The named modes: the selector for each value of c's lowest two bits.
struct PrmtMode {
  const char* name;
  std::array<uint32_t, 4> selectors;
};
constexpr std::array<PrmtMode, 6> kPrmtModes = {{
    {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}},   // Four bytes forward.
    {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},   // Backward.
    {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}},   // One byte four times.
    {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},   // Clamped at the left edge ...
    {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}},   // ... at the right.
    {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}},  // Two bytes twice.
}};

template <size_t mode>
uint32_t PrmtBy(uint32_t a, uint32_t b, uint32_t c) {
  return Prmt(a, b, kPrmtModes[mode].selectors[c & 3]);
}

template <typename U>
void AddFieldRows(FormTable& table, const std::string& bits) {
  using S = std::make_signed_t<U>;
  table.Each<Popc<U>>("popc.b" + bits);
  table.Each<Clz<U>>("clz.b" + bits);
  table.Each<Brev<U>>("brev.b" + bits);
  table.Each<Bfind<U, false>>("bfind.u" + bits);
  table.Each<Bfind<S, false>>("bfind.s" + bits);
  table.Each<Bfind<U, true>>("bfind.shiftamt.u" + bits);
  table.Each<Bfind<S, true>>("bfind.shiftamt.s" + bits);
  table.Each<Bfe<U>>("bfe.u" + bits);
  table.Each<Bfe<S>>("bfe.s" + bits);
  table.Each<Bfi<U>>("bfi.b" + bits);
}

template <size_t... mode>
void AddPrmtRows(FormTable& table, std::index_sequence<mode...>) {
  (table.Each<PrmtBy<mode>>("prmt.b32." + std::string(kPrmtModes[mode].name)), ...);
}

FormTable MakeBitFieldTable() {
  FormTable table;
  AddFieldRows<uint32_t>(table, "32");
  AddFieldRows<uint64_t>(table, "64");
  table.Each<BmskClamp>("bmsk.clamp.b32");
  table.Each<BmskWrap>("bmsk.wrap.b32");
  table.Each<SzextClamp<uint32_t>>("szext.clamp.u32");
  table.Each<SzextClamp<int32_t>>("szext.clamp.s32");
  table.Each<SzextWrap<uint32_t>>("szext.wrap.u32");
  table.Each<SzextWrap<int32_t>>("szext.wrap.s32");
  table.Each<Fns>("fns.b32");
  table.Each<Prmt>("prmt.b32");
  AddPrmtRows(table, std::make_index_sequence<kPrmtModes.size()>());
  return table;
}

}  // namespace

std::span<const Form> BitFieldForms() {
  static const FormTable table = MakeBitFieldTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
