// The parts of opcodes of loads and stores.

#include "runtime/emulator/ptx/forms/access.h"

#include <algorithm>

namespace coppice::ptx {
namespace {

constexpr AccessType kAccessTypes[] = {
    {"b8", Type::kB8},   {"b16", Type::kB16}, {"b32", Type::kB32},   {"b64", Type::kB64},
    {"u8", Type::kU8},   {"u16", Type::kU16}, {"u32", Type::kU32},   {"u64", Type::kU64},
    {"s8", Type::kS8},   {"s16", Type::kS16}, {"s32", Type::kS32},   {"s64", Type::kS64},
    {"f32", Type::kF32}, {"f64", Type::kF64}, {"b128", Type::kB128},
};

struct SpaceName {
  std::string_view name;
  Space space;
};

constexpr SpaceName kSpaceNames[] = {
    {"global", Space::kGlobal},      {"shared", Space::kShared},
    {"shared::cta", Space::kShared}, {"shared::cluster", Space::kShared},
    {"local", Space::kLocal},        {"param", Space::kParam},
    {"param::entry", Space::kParam}, {"param::func", Space::kParam},
    {"const", Space::kConst},
};

constexpr std::string_view kStrongParts[] = {"volatile", "relaxed", "acquire", "release", "mmio"};

}  // namespace

std::span<const AccessType> AccessTypes() {
  return kAccessTypes;
}

std::optional<AccessOpcode> AccessOpcode::Parse(std::string_view opcode) {
  AccessOpcode parsed;
  bool typed = false;
  for (size_t begin = opcode.find('.'); begin != std::string_view::npos;) {
    const size_t end = opcode.find('.', begin + 1);
    const std::string_view part = opcode.substr(begin + 1, end - begin - 1);
    begin = end;
    if (part.size() == 2 && part[0] == 'v') {
      parsed.elements = part[1] - '0';
    } else if (std::ranges::find(kStrongParts, part) != std::end(kStrongParts)) {
      parsed.strong = true;
    } else if (const auto space = std::ranges::find(kSpaceNames, part, &SpaceName::name);
               space != std::end(kSpaceNames)) {
      parsed.space = space->space;
    } else if (const auto type = std::ranges::find(kAccessTypes, part, &AccessType::name);
               type != std::end(kAccessTypes)) {
      parsed.type = type->type;
      typed = true;
    }
  }
  if (!typed) return std::nullopt;
  return parsed;
}

}  // namespace coppice::ptx
