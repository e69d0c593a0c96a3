// From syntax to code: registers become slots, labels indices, opcodes the handlers of their forms.
//
// Threads: one decoder per function.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

struct Register;
class DecoderState;  // decoder_state.h

// An opcode that is not executed, and where a function has it. Its module is refused if a kernel
// reaches it.
struct Refusal {
  std::string opcode;
  int line = 0;
};

// Where the variables of a module lie, and what its functions are called; made before any function
// is decoded.
class Scope {
 public:
  virtual ~Scope() = default;
  // The address of a variable of module scope in its space, of a .shared one of the function, or of
  // a function, as code sees it.
  virtual std::optional<uint64_t> AddressOf(std::string_view name) const = 0;
  virtual const Code* FindFunction(std::string_view name) const = 0;
  // Whether that address counts from where the program's global bytes will be linked.
  virtual bool Relocated(std::string_view /*name*/) const { return false; }
};

// What hooks of forms ask of the function that is decoded. Each returns nothing after it has noted
// an error. Requires `function`, `scope` and `code` to outlive it; the constructor lays out the
// function's parameters, its results and its own memory, so that others can call it.
class FunctionDecoder {
 public:
  FunctionDecoder(const Function& function, const Scope& scope, Code& code);
  ~FunctionDecoder();

  // The slot of what an operand reads: a register, a constant of `bytes`, a special register, or
  // the address of a variable.
  std::optional<Slot> Read(const Operand& operand, int bytes);
  // The slot of the register that an operand writes; "_" gives one that nobody reads.
  std::optional<Slot> Write(const Operand& operand, int bytes);
  std::optional<Slot> ReadPredicate(const Operand& operand);  // Not a negated one.
  std::optional<Slot> WritePredicate(const Operand& operand);
  // An integer that is known now.
  std::optional<uint64_t> Integer(const Operand& operand);
  // What the register that an operand names is: a predicate, or so many bytes of each lane; 0 if it
  // is neither.
  bool IsPredicate(const Operand& operand);
  int WidthOf(const Operand& operand);

  // [register + offset], [variable + offset] or [offset]. A variable in a thread's own memory is
  // SpecialRegisters::thread_memory and its place there; a kernel's parameter, its place in the
  // bank.
  struct Address {
    Slot base;  // A 64-bit register or constant, or a 32-bit one if `narrow`.
    bool narrow = false;
    uint64_t offset = 0;
  };
  std::optional<Address> ReadAddress(const Operand& operand);

  // Slots of Code::slots, in a row; returns the index of the first.
  uint32_t Append(std::span<const Slot> slots);

  // Notes an error of the instruction that is decoded. Returns false.
  bool Fail(const std::string& what);

  Code& code() { return code_; }

  // Decodes all of the function. Errors: kInvalidArgument  "line 12: ..."
  absl::Status Decode(std::vector<Refusal>* refused);

 private:
  // Registers of products of warpgroups, and what else names them.
  void FindRegistersOfProducts();
  void Watch(const Instruction& from, size_t index);
  bool DecodeInstruction(const Instruction& from, Instr& to, std::vector<Refusal>* refused);
  bool DecodeForm(const Form& form, const Instruction& from, Instr& to);
  bool DecodeLetters(const Form& form, const Instruction& from, Instr& to);
  // Appends the slots of an operand, of which a letter says what it is.
  bool DecodeLetter(char letter, const Operand& operand, Instr& to);
  bool DecodeVector(char letter, size_t elements, const Operand& operand, Instr& to);
  std::optional<bool> DecodeMove(const Instruction& from, Instr& to, std::vector<Refusal>* refused);
  bool DecodeGuard(const Instruction& from, Instr& to);
  bool DecodeBranch(const Instruction& from, Instr& to);
  bool DecodeIndexedBranch(const Instruction& from, Instr& to);
  bool DecodeCall(const Instruction& from, Instr& to, std::vector<Refusal>* refused);
  bool AppendPlaces(const Operand& list, std::vector<Place>* places);
  std::optional<uint32_t> FindLabel(std::string_view name);

  const Register* FindRegister(const Operand& operand, Slot* slot);
  std::optional<Slot> ReadName(const Operand& operand, int bytes);

  const Function& function_;
  const Scope& scope_;
  Code& code_;
  std::unique_ptr<DecoderState> state_;
};

}  // namespace coppice::ptx
