// mov: copies, and vectors packed into a register or taken out of one.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

template <typename T>
T Copy(T a) {
  return a;
}

Step CopyPredicate(Warp& warp, const Instr& instr) {
  warp.SetPredicate(instr.d, warp.Predicate(instr.a));
  return Step::kNext;
}

__extension__ typedef unsigned __int128 Whole128;

// Element i of a vector: the first has the lowest bits. Those of 8 bits are in registers of 16.
template <typename Whole, typename Part>
constexpr size_t kParts = sizeof(Whole) / sizeof(Part);
template <typename Part>
using PartRegister = std::conditional_t<sizeof(Part) == 1, uint16_t, Part>;

template <typename Whole, typename Part>
Step Pack(Warp& warp, const Instr& instr) {
  constexpr size_t kCount = kParts<Whole, Part>;
  std::array<const PartRegister<Part>*, kCount> parts;
  for (size_t k = 0; k < kCount; ++k)
    parts[k] = warp.From<PartRegister<Part>>(warp.More(instr, static_cast<uint32_t>(k)));
  KeepLanes(warp.mask(), warp.To<Whole>(instr.d), [&](int i) {
    Whole whole = 0;
    for (size_t k = 0; k < kCount; ++k) {
      const auto part = static_cast<Part>(parts[k][i]);
      whole |= static_cast<Whole>(Whole{part} << (8 * sizeof(Part) * k));
    }
    return whole;
  });
  return Step::kNext;
}

template <typename Whole, typename Part>
Step Unpack(Warp& warp, const Instr& instr) {
  const Whole* whole = warp.From<Whole>(instr.a);
  std::array<Whole, kLanes> copy;
  if constexpr (sizeof(PartRegister<Part>) == sizeof(Whole)) {
    // A part may be in the register itself.
    std::copy_n(whole, kLanes, copy.begin());
    whole = copy.data();
  }
  for (size_t k = 0; k < kParts<Whole, Part>; ++k) {
    KeepLanes(warp.mask(), warp.To<PartRegister<Part>>(warp.More(instr, static_cast<uint32_t>(k))),
              [=](int i) {
                const auto shifted = static_cast<Whole>(whole[i] >> (8 * sizeof(Part) * k));
                return PartRegister<Part>{static_cast<Part>(shifted)};
              });
  }
  return Step::kNext;
}

bool AppendParts(FunctionDecoder& decoder,
                 const std::vector<Operand>& parts,
                 int bytes,
                 bool written,
                 Instr& to) {
  std::vector<Slot> slots;
  for (const Operand& part : parts) {
    const std::optional<Slot> slot =
        written ? decoder.Write(part, bytes) : decoder.Read(part, bytes);
    if (!slot.has_value()) return false;
    slots.push_back(*slot);
  }
  to.more = decoder.Append(slots);
  return true;
}

// Chooses the handler of a vector whose elements have `bytes`, if they may; the registers of the
// elements.
template <typename Whole, typename Part>
bool ChooseParts(size_t bytes, bool unpacks, Instr& to, int* register_bytes) {
  if (bytes != sizeof(Part)) return false;
  to.handler = unpacks ? Unpack<Whole, Part> : Pack<Whole, Part>;
  *register_bytes = sizeof(PartRegister<Part>);
  return true;
}

template <typename Whole, typename... Parts>
bool DecodeMov(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  constexpr int kBytes = sizeof(Whole);
  if (from.operands.size() != 2) return decoder.Fail("mov takes two operands");
  const Operand& d = from.operands[0];
  const Operand& a = from.operands[1];
  const bool unpacks = d.kind == Operand::Kind::kVector;
  const bool packs = a.kind == Operand::Kind::kVector;
  const std::vector<Operand>& parts = unpacks ? d.elements : a.elements;
  const size_t part_bytes = parts.empty() ? kBytes : kBytes / parts.size();
  if (unpacks && packs) return decoder.Fail("mov takes at most one vector");
  if ((unpacks || packs) && parts.size() * part_bytes != kBytes)
    return decoder.Fail("the elements of the vector do not fill the register");
  if (!unpacks) {
    const std::optional<Slot> slot = decoder.Write(d, kBytes);
    if (!slot.has_value()) return false;
    to.d = *slot;
  }
  if (!packs) {
    const std::optional<Slot> slot = decoder.Read(a, kBytes);
    if (!slot.has_value()) return false;
    to.a = *slot;
  }
  if (!unpacks && !packs) {
    to.handler = EachLane<Copy<Whole>>::Run;
    return true;
  }
  to.target = static_cast<uint32_t>(parts.size());
  if (unpacks) to.flags |= kFormFlag;
  int register_bytes = 0;
  if (!(ChooseParts<Whole, Parts>(part_bytes, unpacks, to, &register_bytes) || ...))
    return decoder.Fail("the emulator does not support vector elements of this width");
  return AppendParts(decoder, parts, register_bytes, unpacks, to);
}

FormTable MakeMoveTable() {
  FormTable table;
  for (const char* const type : {"u16", "s16"})
    table.Each<Copy<uint16_t>>(std::string("mov.") + type);
  for (const char* const type : {"u32", "s32", "f32"})
    table.Each<Copy<uint32_t>>(std::string("mov.") + type);
  for (const char* const type : {"u64", "s64", "f64"})
    table.Each<Copy<uint64_t>>(std::string("mov.") + type);
  table.Add("mov.pred", "Pp", CopyPredicate);
  table.Decoded("mov.b16", DecodeMov<uint16_t, uint8_t>);
  table.Decoded("mov.b32", DecodeMov<uint32_t, uint16_t, uint8_t>);
  table.Decoded("mov.b64", DecodeMov<uint64_t, uint32_t, uint16_t>);
  table.Decoded("mov.b128", DecodeMov<Whole128, uint64_t, uint32_t>);
  return table;
}

}  // namespace

std::span<const Form> MoveForms() {
  static const FormTable table = MakeMoveTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
