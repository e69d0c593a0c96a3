// What a decoder keeps of its function: where registers, constants and variables lie.
//
// Units: bytes. Threads: as FunctionDecoder.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/declared_names.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

// A register's slot and bytes of a lane; 0: a predicate. The elements of a vector follow each
// other.
struct Register {
  Slot slot;
  int bytes = 0;
  int vector = 1;
};

inline constexpr uint32_t kLaneAlignment = 32;
inline constexpr int kAddressBytes = 8;

// Places registers of a function in its frame, in the order in which they are first asked for.
class Registers {
 public:
  // `variable` outlives this.
  void Declare(const Variable& variable) {
    declared_.Add(variable.name, variable.registers, &variable);
  }
  // Null: no register of this name.
  const Register* Find(std::string_view name);
  // A slot of `bytes` that no instruction reads, and the carry flag.
  Slot Sink(int bytes);
  Slot Carry();
  int64_t frame_bytes() const { return frame_bytes_; }

 private:
  Register Place(const Variable& variable);
  Slot PlaceLanes(int bytes, int vector);
  Slot PlacePredicate();

  DeclaredNames<const Variable*> declared_;
  std::unordered_map<std::string_view, Register> placed_;
  std::unordered_map<int, Slot> sinks_;
  std::optional<Slot> carry_;
  int64_t frame_bytes_ = 0;
};

// The constants of a function: each value once, in all lanes.
class Constants {
 public:
  explicit Constants(Code& code) : code_(code) {}

  // `bytes` of a lane; 0: a predicate, all of whose bits are that of `bits`.
  Slot Find(uint64_t bits, int bytes, bool relocated = false);

 private:
  struct Key {
    uint64_t bits;
    int bytes;
    bool relocated;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return std::hash<uint64_t>()(key.bits * 0x9e3779b97f4a7c15u + static_cast<size_t>(key.bytes) +
                                   (key.relocated ? 1 : 0));
    }
  };

  Code& code_;
  std::unordered_map<Key, Slot, Hash> known_;
};

class DecoderState {
 public:
  // Lays out the parameters, results and variables of `function`.
  DecoderState(const Function& function, Code& code);

  struct Placed {
    Place place;
    bool in_bank = false;  // Of a kernel's parameters, else in the thread's memory.
  };
  // Null: no .param or .local variable of this name.
  const Placed* FindVariable(std::string_view name) const;

  // What an opcode is to the decoder.
  enum class Kind : uint8_t { kForm, kMove, kBranch, kIndexedBranch, kCall };
  struct Opcode {
    Kind kind = Kind::kForm;
    const Form* form = nullptr;
  };
  const Opcode& FindOpcode(std::string_view text);

  Registers registers;
  Constants constants;
  std::vector<Slot> slots;                           // Of the instruction that is decoded.
  int line = 0;                                      // Of that.
  std::string error;                                 // The first.
  std::unordered_set<std::string_view> of_products;  // Registers of wgmma.mma_async.
  // A parameter in a register: the function cannot be called.
  const Variable* unplaced = nullptr;

 private:
  // Appends a variable to memory whose first `end` bytes are taken.
  Place Append(const Variable& variable, bool in_bank, int64_t* end);

  std::unordered_map<std::string_view, Placed> variables_;
  std::unordered_map<std::string_view, Opcode> opcodes_;
};

}  // namespace coppice::ptx
