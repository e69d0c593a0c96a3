// Slots of registers and constants, places of variables.

#include "runtime/emulator/ptx/decoder_state.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"

#include "runtime/emulator/ptx/form_table.h"

namespace coppice::ptx {
namespace {

constexpr int64_t kOwnMemoryMax = 512 << 10;  // As on a GPU.

constexpr int64_t RoundUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Of a register: those of 8 bits are as wide as those of 16.
int LaneBytes(Type type) {
  return type == Type::kPred ? 0 : std::max(2, static_cast<int>(SizeOf(type)));
}

}  // namespace

const Register* Registers::Find(std::string_view name) {
  const auto known = placed_.find(name);
  if (known != placed_.end()) return &known->second;
  const auto found = declared_.Find(name);
  if (found.value == nullptr) return nullptr;
  return &placed_.emplace(name, Place(**found.value)).first->second;
}

Register Registers::Place(const Variable& variable) {
  const int bytes = LaneBytes(variable.type);
  return {.slot = bytes == 0 ? PlacePredicate() : PlaceLanes(bytes, variable.vector),
          .bytes = bytes,
          .vector = variable.vector};
}

Slot Registers::PlaceLanes(int bytes, int vector) {
  frame_bytes_ = RoundUp(frame_bytes_, kLaneAlignment);
  const Slot slot = Slot::At(Area::kFrame, static_cast<size_t>(frame_bytes_));
  frame_bytes_ += int64_t{kLanes} * bytes * vector;
  return slot;
}

Slot Registers::PlacePredicate() {
  const Slot slot = Slot::At(Area::kFrame, static_cast<size_t>(frame_bytes_));
  frame_bytes_ += sizeof(uint32_t);
  return slot;
}

Slot Registers::Sink(int bytes) {
  const auto [sink, added] = sinks_.try_emplace(bytes);
  if (added) sink->second = bytes == 0 ? PlacePredicate() : PlaceLanes(bytes, 1);
  return sink->second;
}

Slot Registers::Carry() {
  if (!carry_.has_value()) carry_ = PlacePredicate();
  return *carry_;
}

Slot Constants::Find(uint64_t bits, int bytes, bool relocated) {
  if (bytes == 0) bits = bits != 0 ? kAllLanes : 0;
  if (bytes > 0 && bytes < 8) bits &= (uint64_t{1} << (bytes * 8)) - 1;
  const auto [known, added] = known_.try_emplace(Key{bits, bytes, relocated});
  if (!added) return known->second;
  const size_t offset = code_.constants.size();
  known->second = Slot::At(Area::kConstants, offset);
  if (relocated) code_.relocations.push_back(static_cast<uint32_t>(offset));
  // A predicate takes as much as a lane's alignment.
  code_.constants.resize(offset +
                         (bytes == 0 ? kLaneAlignment : static_cast<size_t>(bytes) * kLanes));
  if (bytes == 0) {
    std::memcpy(code_.constants.data() + offset, &bits, sizeof(uint32_t));
    return known->second;
  }
  const auto width = static_cast<size_t>(bytes);
  for (size_t lane = 0; lane < kLanes; ++lane)
    std::memcpy(code_.constants.data() + offset + lane * width, &bits,
                std::min(width, sizeof(bits)));
  return known->second;
}

DecoderState::DecoderState(const Function& function, Code& code) : constants(code) {
  code.name = std::string(function.name);
  const bool in_bank = function.entry;
  int64_t bank_end = 0;
  int64_t& parameters_end = in_bank ? bank_end : code.thread_bytes;
  for (const Variable& result : function.type.returns)
    code.results.push_back(Append(result, false, &code.thread_bytes));
  for (const Variable& parameter : function.type.parameters)
    code.parameters.push_back(Append(parameter, in_bank, &parameters_end));
  for (const Variable& variable : function.variables) {
    if (variable.space == Space::kReg) registers.Declare(variable);
    if (variable.space == Space::kParam || variable.space == Space::kLocal)
      Append(variable, false, &code.thread_bytes);
  }
}

Place DecoderState::Append(const Variable& variable, bool in_bank, int64_t* end) {
  if (variable.space == Space::kReg && unplaced == nullptr) unplaced = &variable;
  *end = RoundUp(*end, variable.aligned_to());
  Place place{std::string(variable.name), *end, variable.bytes()};
  if (place.bytes > kOwnMemoryMax - *end) {
    if (error.empty())
      error = fmt::format(
          "line {}: '{}' does not fit; the .local and .param variables of a function may take at "
          "most {} bytes",
          variable.line, variable.name, kOwnMemoryMax);
    place.bytes = 0;
  }
  *end += place.bytes;
  variables_.insert_or_assign(variable.name, Placed{place, in_bank});
  return place;
}

const DecoderState::Placed* DecoderState::FindVariable(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

const DecoderState::Opcode& DecoderState::FindOpcode(std::string_view text) {
  const auto [known, added] = opcodes_.try_emplace(text);
  if (!added) return known->second;
  const std::string canonical = CanonicalOpcode(text);
  Opcode& opcode = known->second;
  opcode.form = FindForm(canonical);
  if (canonical == "bra") opcode.kind = Kind::kBranch;
  if (canonical == "brx.idx") opcode.kind = Kind::kIndexedBranch;
  if (canonical == "call") opcode.kind = Kind::kCall;
  if (canonical.starts_with("mov.")) opcode.kind = Kind::kMove;
  return opcode;
}

}  // namespace coppice::ptx
