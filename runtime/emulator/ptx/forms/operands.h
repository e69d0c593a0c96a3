// Operands of forms without letters: those with addresses, and with some that may be missing.
//
// Threads: as FunctionDecoder and Warp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/syntax.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

// The operands of one instruction, one after the other. After the first that is not what was asked
// for, everything is the slot 0, and ok() is false.
class OperandReader {
 public:
  // Requires from `least` to `most` operands.
  OperandReader(FunctionDecoder& decoder, const Instruction& from, size_t least, size_t most);

  bool ok() const { return ok_; }
  // Whether there is another one.
  bool more() const { return next_ < from_.operands.size(); }
  // The next one, which is not taken yet; requires more().
  const Operand& next() const { return from_.operands[next_]; }
  void Skip() { ++next_; }

  Slot Read(int bytes) { return Take(&FunctionDecoder::Read, bytes); }
  Slot Write(int bytes) { return Take(&FunctionDecoder::Write, bytes); }
  Slot WritePredicate();
  // A predicate that may be negated.
  Slot ReadPredicate(bool& negated);
  FunctionDecoder::Address Address();
  // The one address of an instruction, into its `a`, `immediate` and `flags`.
  void Address(Instr& to);
  uint64_t Integer();

  // The slots of {a, b, ...}, behind those that are there.
  void ReadVector(size_t count, int bytes, std::vector<Slot>& slots);
  void WriteVector(size_t count, int bytes, std::vector<Slot>& slots);

  // Notes an error, if it is the first.
  void Fail(const char* what);

 private:
  using SlotOf = std::optional<Slot> (FunctionDecoder::*)(const Operand&, int);

  // Null, and an error, if there is no operand left.
  const Operand* Take();
  Slot Take(SlotOf slot_of, int bytes);
  void TakeVector(SlotOf slot_of, size_t count, int bytes, std::vector<Slot>& slots);
  Slot Kept(std::optional<Slot> slot);

  FunctionDecoder& decoder_;
  const Instruction& from_;
  size_t next_ = 0;
  bool ok_ = true;
};

// What Instr::flags says of the one address that an instruction has: bit 0 that its register has 32
// bits, bits 1 to 3 its state space. kFormFlag and kFormFlag2 are the form's own.
inline constexpr uint8_t kNarrowAddress = 1;
inline constexpr uint8_t kFormFlag = 16;
inline constexpr uint8_t kFormFlag2 = 32;
constexpr uint8_t SpaceFlags(Space space) {
  return static_cast<uint8_t>(static_cast<uint8_t>(space) << 1);
}
inline Space SpaceOf(const Instr& instr) {
  return static_cast<Space>(instr.flags >> 1 & 7);
}

// The addresses that lanes name with it.
class LaneAddresses {
 public:
  LaneAddresses(const Warp& warp, const Instr& instr)
      : LaneAddresses(warp, instr.a, (instr.flags & kNarrowAddress) != 0, instr.immediate) {}
  LaneAddresses(const Warp& warp, Slot base, bool narrow, uint64_t offset)
      : narrow_(narrow ? warp.From<uint32_t>(base) : nullptr),
        wide_(narrow ? nullptr : warp.From<uint64_t>(base)),
        offset_(offset) {}

  uint64_t operator[](int lane) const {
    if (narrow_ != nullptr) return static_cast<uint32_t>(narrow_[lane] + offset_);
    return wide_[lane] + offset_;
  }

 private:
  const uint32_t* narrow_;
  const uint64_t* wide_;
  uint64_t offset_;
};

// Whether an offset fits into 32 bits with its sign.
constexpr bool FitsOffset(uint64_t offset) {
  const auto value = static_cast<int64_t>(offset);
  return value == static_cast<int32_t>(value);
}

// Of instructions that have no operands, and of those whose operands mean nothing here.
bool DecodeNothing(FunctionDecoder& decoder, const Instruction& from, Instr& to);
bool DecodeAnything(FunctionDecoder& decoder, const Instruction& from, Instr& to);
Step RunNothing(Warp& warp, const Instr& instr);

}  // namespace coppice::ptx
