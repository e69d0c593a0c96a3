// Logic, shifts, fields of bits, selections: bit by bit, as the PTX ISA's pseudo code has them.

#include <algorithm>
#include <map>
#include <string>

#include "tests/ptx/oracle.h"

namespace coppice::ptx {
namespace {

constexpr uint64_t kNone = 0xffffffff;

bool Bit(uint64_t bits, int i) {
  return (bits >> i & 1) != 0;
}

template <typename Of>
Oracle BitWise(int bits, const Of& of) {
  return {.of = [=](const Inputs& in) -> Outputs {
    uint64_t result = 0;
    for (int i = 0; i < bits; ++i)
      result |= uint64_t{of(Bit(in[0], i), Bit(in[1], i))} << i;
    return {result};
  }};
}

Oracle Of(std::function<uint64_t(const Inputs&)> of) {
  return {.of = [of = std::move(of)](const Inputs& in) -> Outputs { return {of(in)}; }};
}

Oracle Shift(const Opcode& opcode, IntegerType type) {
  const bool left = opcode.base() == "shl";
  return Of([=](const Inputs& in) {
    const int amount =
        static_cast<int>(std::min<uint64_t>(in[1], static_cast<uint64_t>(type.bits)));
    uint64_t result = 0;
    for (int i = 0; i < type.bits; ++i) {
      const int from = left ? i - amount : i + amount;
      const bool outside = type.is_signed && Bit(in[0], type.bits - 1) && from >= type.bits;
      const bool bit = from >= 0 && from < type.bits ? Bit(in[0], from) : outside;
      result |= uint64_t{bit} << i;
    }
    return result;
  });
}

Oracle Funnel(const Opcode& opcode) {
  const bool left = opcode.Has("l");
  const bool wraps = opcode.Has("wrap");
  return Of([=](const Inputs& in) {
    const uint64_t amount = wraps ? in[2] % 32 : std::min<uint64_t>(in[2], 32);
    uint64_t words = in[1] << 32 | in[0];
    for (uint64_t i = 0; i < amount; ++i)
      words = left ? words << 1 : words >> 1;
    return left ? words >> 32 : words & 0xffffffff;
  });
}

uint64_t Lop3(const Inputs& in) {
  uint64_t result = 0;
  for (int i = 0; i < 32; ++i) {
    const int row = Bit(in[0], i) * 4 + Bit(in[1], i) * 2 + Bit(in[2], i);
    result |= uint64_t{Bit(in[3], row)} << i;
  }
  return result;
}

// lop3.and.b32: whether the result is not 0, with a predicate.
Outputs Lop3AndTest(const Inputs& in, bool conjunction) {
  const uint64_t result = Lop3(in);
  const bool test = result != 0;
  const bool read = in[4] != 0;
  return {result, conjunction ? test && read : test || read};
}

uint64_t ExtractField(const Inputs& in, IntegerType type) {
  const int top = type.bits - 1;
  const int position = static_cast<int>(in[1] & 0xff);
  const int length = static_cast<int>(in[2] & 0xff);
  const bool sign =
      type.is_signed && length > 0 && Bit(in[0], std::min(position + length - 1, top));
  uint64_t result = 0;
  for (int i = 0; i <= top; ++i) {
    const bool inside = i < length && position + i <= top;
    result |= uint64_t{inside ? Bit(in[0], position + i) : sign} << i;
  }
  return result;
}

uint64_t InsertField(const Inputs& in, int bits) {
  const int position = static_cast<int>(in[2] & 0xff);
  const int length = static_cast<int>(in[3] & 0xff);
  uint64_t result = in[1];
  for (int i = 0; i < length && position + i < bits; ++i) {
    result &= ~(uint64_t{1} << (position + i));
    result |= uint64_t{Bit(in[0], i)} << (position + i);
  }
  return result;
}

uint64_t FindLeading(const Inputs& in, IntegerType type, bool shift_amount) {
  const bool unlike = !(type.is_signed && Bit(in[0], type.bits - 1));
  for (int i = type.bits - 1; i >= 0; --i) {
    if (Bit(in[0], i) == unlike) return static_cast<uint64_t>(shift_amount ? type.bits - 1 - i : i);
  }
  return kNone;
}

uint64_t Mask(const Inputs& in, bool wraps) {
  const uint64_t first = wraps ? in[0] % 32 : in[0];
  const uint64_t width = wraps ? in[1] % 32 : in[1];
  uint64_t result = 0;
  for (uint64_t i = 0; i < 32; ++i)
    result |= uint64_t{i >= first && i - first < width} << i;
  return result;
}

uint64_t ExtendFrom(const Inputs& in, bool is_signed, bool wraps) {
  const uint64_t width = wraps ? in[1] % 32 : in[1];
  if (width >= 32) return in[0];
  if (width == 0) return 0;
  const bool sign = is_signed && Bit(in[0], static_cast<int>(width) - 1);
  uint64_t result = 0;
  for (int i = 0; i < 32; ++i)
    result |= uint64_t{static_cast<uint64_t>(i) < width ? Bit(in[0], i) : sign} << i;
  return result;
}

uint64_t FindNth(const Inputs& in) {
  const auto offset = static_cast<int32_t>(in[2]);
  const auto base = static_cast<int64_t>(in[1]);
  if (offset == 0) return base < 32 && Bit(in[0], static_cast<int>(base)) ? in[1] : kNone;
  int64_t count = (offset < 0 ? -int64_t{offset} : offset) - 1;
  for (int64_t at = base; at >= 0 && at<32; at += offset> 0 ? 1 : -1) {
    if (!Bit(in[0], static_cast<int>(at))) continue;
    if (count == 0) return static_cast<uint64_t>(at);
    --count;
  }
  return kNone;
}

// The bytes that the modes of prmt take, from the highest to the lowest, for c = 0, 1, 2, 3.
const std::map<std::string, std::array<const char*, 4>>& PermuteModes() {
  static const std::map<std::string, std::array<const char*, 4>> modes = {
      {"f4e", {"3210", "4321", "5432", "6543"}}, {"b4e", {"5670", "6701", "7012", "0123"}},
      {"rc8", {"0000", "1111", "2222", "3333"}}, {"ecl", {"3210", "3211", "3222", "3333"}},
      {"ecr", {"0000", "1110", "2210", "3210"}}, {"rc16", {"1010", "3232", "1010", "3232"}},
  };
  return modes;
}

Oracle Permute(const Opcode& opcode) {
  const auto mode = PermuteModes().find(opcode.type());
  return Of([=](const Inputs& in) {
    uint64_t result = 0;
    for (int i = 0; i < 4; ++i) {
      uint64_t choice = in[2] >> (4 * i) & 15;
      if (mode != PermuteModes().end())
        choice = static_cast<uint64_t>(mode->second[in[2] & 3][3 - i] - '0');
      uint64_t byte = (in[1] << 32 | in[0]) >> (8 * (choice & 7)) & 0xff;
      if ((choice & 8) != 0) byte = byte >= 0x80 ? 0xff : 0;
      result |= byte << (8 * i);
    }
    return result;
  });
}

uint64_t Reverse(uint64_t bits, int count) {
  uint64_t result = 0;
  for (int i = 0; i < count; ++i)
    result |= uint64_t{Bit(bits, i)} << (count - 1 - i);
  return result;
}

uint64_t Count(uint64_t bits, int count) {
  uint64_t result = 0;
  for (int i = 0; i < count; ++i)
    result += Bit(bits, i) ? 1 : 0;
  return result;
}

uint64_t LeadingZeros(uint64_t bits, int count) {
  uint64_t result = 0;
  for (int i = count - 1; i >= 0 && !Bit(bits, i); --i)
    ++result;
  return result;
}

// slct.f64.f32: the type of what chooses is the last word.
Oracle Choose(const Opcode& opcode) {
  if (opcode.type() == "s32")
    return Of([](const Inputs& in) { return (in[2] >> 31 & 1) == 0 ? in[0] : in[1]; });
  const bool ftz = opcode.Has("ftz");
  return Of([=](const Inputs& in) {
    const Exact c = FromFormat(kFormatF32, ftz ? Flushed(kFormatF32, in[2]) : in[2]);
    const int order = Order(c, Exact());
    return order == 0 || order == 1 ? in[0] : in[1];
  });
}

std::optional<Oracle> LogicOracle(const Opcode& opcode, IntegerType type) {
  const std::string& base = opcode.base();
  if (base == "and") return BitWise(type.bits, [](bool a, bool b) { return a && b; });
  if (base == "or") return BitWise(type.bits, [](bool a, bool b) { return a || b; });
  if (base == "xor") return BitWise(type.bits, [](bool a, bool b) { return a != b; });
  if (base == "not") return BitWise(type.bits, [](bool a, bool) { return !a; });
  if (base == "cnot") return Of([](const Inputs& in) { return uint64_t{in[0] == 0}; });
  if (base == "shl" || base == "shr") return Shift(opcode, type);
  return std::nullopt;
}

std::optional<Oracle> FieldOracle(const Opcode& opcode, IntegerType type) {
  const std::string& base = opcode.base();
  const int bits = type.bits;
  const bool wraps = opcode.Has("wrap");
  const bool shift_amount = opcode.Has("shiftamt");
  if (base == "popc") return Of([=](const Inputs& in) { return Count(in[0], bits); });
  if (base == "clz") return Of([=](const Inputs& in) { return LeadingZeros(in[0], bits); });
  if (base == "brev") return Of([=](const Inputs& in) { return Reverse(in[0], bits); });
  if (base == "bfind")
    return Of([=](const Inputs& in) { return FindLeading(in, type, shift_amount); });
  if (base == "bfe") return Of([=](const Inputs& in) { return ExtractField(in, type); });
  if (base == "bfi") return Of([=](const Inputs& in) { return InsertField(in, bits); });
  if (base == "bmsk") return Of([=](const Inputs& in) { return Mask(in, wraps); });
  if (base == "szext")
    return Of([=](const Inputs& in) { return ExtendFrom(in, type.is_signed, wraps); });
  if (base == "fns") return Of(FindNth);
  return std::nullopt;
}

}  // namespace

std::optional<Oracle> BitOracle(const Opcode& opcode) {
  const std::string& base = opcode.base();
  if (base == "prmt") return Permute(opcode);
  if (base == "lop3" && opcode.words.size() > 2) {
    const bool conjunction = opcode.Has("and");
    return Oracle{.of = [=](const Inputs& in) { return Lop3AndTest(in, conjunction); }};
  }
  if (base == "lop3") return Of(Lop3);
  if (base == "shf") return Funnel(opcode);
  if (base == "slct") return Choose(opcode);
  if (base == "selp") return Of([](const Inputs& in) { return in[2] != 0 ? in[0] : in[1]; });
  if (base == "mov") return Of([](const Inputs& in) { return in[0]; });
  const IntegerType predicate = {.bits = 1};
  const std::optional<IntegerType> type =
      opcode.type() == "pred" ? predicate : IntegerTypeOf(opcode.type());
  if (!type.has_value()) return std::nullopt;
  if (std::optional<Oracle> oracle = LogicOracle(opcode, *type); oracle.has_value()) return oracle;
  return FieldOracle(opcode, *type);
}

}  // namespace coppice::ptx
