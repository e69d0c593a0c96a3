// Taking operands in order, and saying what is missing.

#include "runtime/emulator/ptx/forms/operands.h"

#include "fmt/format.h"

namespace coppice::ptx {

OperandReader::OperandReader(FunctionDecoder& decoder,
                             const Instruction& from,
                             size_t least,
                             size_t most)
    : decoder_(decoder), from_(from) {
  const size_t count = from.operands.size();
  if (count >= least && count <= most) return;
  const std::string wanted =
      least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  ok_ = decoder_.Fail(fmt::format("{} takes {} operands, not {}", from.opcode, wanted, count));
}

void OperandReader::Fail(const char* what) {
  if (ok_) ok_ = decoder_.Fail(fmt::format("{}: {}", from_.opcode, what));
}

const Operand* OperandReader::Take() {
  if (!ok_) return nullptr;
  if (more()) return &from_.operands[next_++];
  Fail("an operand is missing");
  return nullptr;
}

Slot OperandReader::Kept(std::optional<Slot> slot) {
  ok_ = ok_ && slot.has_value();  // The decoder has noted why not.
  return slot.value_or(Slot{});
}

Slot OperandReader::Take(SlotOf slot_of, int bytes) {
  const Operand* const operand = Take();
  return operand == nullptr ? Slot{} : Kept((decoder_.*slot_of)(*operand, bytes));
}

Slot OperandReader::WritePredicate() {
  const Operand* const operand = Take();
  return operand == nullptr ? Slot{} : Kept(decoder_.WritePredicate(*operand));
}

Slot OperandReader::ReadPredicate(bool& negated) {
  const Operand* const operand = Take();
  if (operand == nullptr) return {};
  negated = operand->negated;
  Operand plain = *operand;
  plain.negated = false;
  return Kept(decoder_.ReadPredicate(plain));
}

uint64_t OperandReader::Integer() {
  const Operand* const operand = Take();
  if (operand == nullptr) return 0;
  const std::optional<uint64_t> value = decoder_.Integer(*operand);
  ok_ = value.has_value();
  return value.value_or(0);
}

void OperandReader::TakeVector(SlotOf slot_of, size_t count, int bytes, std::vector<Slot>& slots) {
  const Operand* const operand = Take();
  if (operand == nullptr) return;
  if (operand->kind != Operand::Kind::kVector || operand->elements.size() != count) {
    ok_ = decoder_.Fail(
        fmt::format("{}: an operand must be a vector of length {}", from_.opcode, count));
    return;
  }
  for (const Operand& element : operand->elements)
    slots.push_back(Kept((decoder_.*slot_of)(element, bytes)));
}

void OperandReader::ReadVector(size_t count, int bytes, std::vector<Slot>& slots) {
  TakeVector(&FunctionDecoder::Read, count, bytes, slots);
}

void OperandReader::WriteVector(size_t count, int bytes, std::vector<Slot>& slots) {
  TakeVector(&FunctionDecoder::Write, count, bytes, slots);
}

FunctionDecoder::Address OperandReader::Address() {
  const Operand* const operand = Take();
  if (operand == nullptr) return {};
  const auto address = decoder_.ReadAddress(*operand);
  ok_ = address.has_value();
  return address.value_or(FunctionDecoder::Address{});
}

void OperandReader::Address(Instr& to) {
  const FunctionDecoder::Address address = Address();
  to.a = address.base;
  to.immediate = address.offset;
  if (address.narrow) to.flags |= kNarrowAddress;
}

bool DecodeNothing(FunctionDecoder& decoder, const Instruction& from, Instr&) {
  return OperandReader(decoder, from, 0, 0).ok();
}

bool DecodeAnything(FunctionDecoder&, const Instruction&, Instr&) {
  return true;
}

Step RunNothing(Warp&, const Instr&) {
  return Step::kNext;
}

}  // namespace coppice::ptx
