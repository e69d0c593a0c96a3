// What the opcode of a load or store says: ld.volatile.shared.v2.u16.
//
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

struct AccessOpcode {
  Space space = Space::kGeneric;
  Type type = Type::kB32;
  int elements = 1;     // Of .v2, .v4 and .v8.
  bool strong = false;  // Orders what is accessed around it: volatile, relaxed, acquire, ...

  // Nothing: a part is none of those of an access.
  static std::optional<AccessOpcode> Parse(std::string_view opcode);
};

// The flags of their instructions.
struct AccessFlags {
  static constexpr uint8_t kElements = 0x03;  // The logarithm.
  static constexpr uint8_t kNarrow = 0x04;    // The base is a register of 32 bits.
  static constexpr uint8_t kStrong = 0x08;
  static constexpr int kSpaceShift = 4;  // A Space.
  static constexpr uint8_t kSpace = 0x70;
};

// Types of loads and stores, and their names in opcodes.
struct AccessType {
  std::string_view name;
  Type type;
  bool sign_extended = false;
};
std::span<const AccessType> AccessTypes();

// Rows of other files that are of the same families.
std::span<const Form> AddressForms();
std::span<const Form> CallForms();

}  // namespace coppice::ptx
