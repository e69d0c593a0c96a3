// Instructions: letters of forms, and what the decoder knows by itself: branches, calls, moves.

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/decoder_state.h"
#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/forms/warpgroup.h"
#include "runtime/emulator/ptx/special.h"

namespace coppice::ptx {
namespace {

constexpr int64_t kFrameBytesMax = int64_t{1} << 30;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// A letter, with the elements of its vector and the letter of what may be missing behind it.
struct Letter {
  char letter = 0;
  size_t elements = 0;  // 0: no vector.
  char second = 0;      // "P|P"
};

Letter TakeLetter(std::string_view& letters) {
  Letter taken{.letter = letters.front()};
  letters.remove_prefix(1);
  for (; !letters.empty() && IsDigit(letters.front()); letters.remove_prefix(1))
    taken.elements = taken.elements * 10 + static_cast<size_t>(letters.front() - '0');
  if (letters.size() > 1 && letters.front() == '|') {
    taken.second = letters[1];
    letters.remove_prefix(2);
  }
  return taken;
}

uint16_t IndexOf(const Form& form) {
  return static_cast<uint16_t>(&form - AllForms().data());
}

}  // namespace

absl::Status FunctionDecoder::Decode(std::vector<Refusal>* refused) {
  if (state_->unplaced != nullptr) refused->push_back({".reg parameter", state_->unplaced->line});
  const size_t count = function_.body.size();
  // Who runs past the last instruction returns.
  const Instruction end{.opcode = "ret",
                        .line = count == 0 ? function_.line : function_.body.back().line};
  code_.instrs.resize(count + 1);
  code_.sources.reserve(count + 1);
  FindRegistersOfProducts();
  for (size_t i = 0; i <= count && state_->error.empty(); ++i) {
    const Instruction& from = i == count ? end : function_.body[i];
    Instr& to = code_.instrs[i];
    state_->line = to.line = from.line;
    code_.sources.push_back(from.source);
    if (!DecodeInstruction(from, to, refused) || !DecodeGuard(from, to)) break;
    Watch(from, i);
  }
  constexpr int64_t kAlignment = 64;
  code_.frame_bytes = (state_->registers.frame_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  if (code_.frame_bytes > kFrameBytesMax || code_.constants.size() > size_t{kFrameBytesMax})
    Fail("the registers or the constants of the function take more than 1 GiB");
  return state_->error.empty() ? absl::OkStatus() : absl::InvalidArgumentError(state_->error);
}

void FunctionDecoder::FindRegistersOfProducts() {
  for (const Instruction& instruction : function_.body) {
    if (!instruction.opcode.starts_with("wgmma.mma_async")) continue;
    for (const Operand& operand : instruction.operands)
      for (const Operand& element : operand.elements)
        state_->of_products.insert(element.name);
  }
}

void FunctionDecoder::Watch(const Instruction& from, size_t index) {
  Instr& instr = code_.instrs[index];
  if (state_->of_products.empty() || instr.handler == nullptr || from.opcode.starts_with("wgmma."))
    return;
  Watched watched{.instr = static_cast<uint32_t>(index),
                  .handler = instr.handler,
                  .moves = from.opcode.starts_with("mov.")};
  const auto add = [&](const Operand& operand) {
    Slot slot;
    if (state_->of_products.contains(operand.name) && FindRegister(operand, &slot) != nullptr)
      watched.registers.push_back(slot);
  };
  for (const Operand& operand : from.operands) {
    add(operand);
    std::ranges::for_each(operand.elements, add);
  }
  if (watched.registers.empty()) return;
  instr.handler = RunWatched;
  code_.watched.push_back(std::move(watched));
}

bool FunctionDecoder::DecodeInstruction(const Instruction& from,
                                        Instr& to,
                                        std::vector<Refusal>* refused) {
  const DecoderState::Opcode opcode = state_->FindOpcode(from.opcode);
  if (opcode.kind == DecoderState::Kind::kCall) return DecodeCall(from, to, refused);
  if (opcode.kind == DecoderState::Kind::kMove && from.operands.size() == 2 &&
      from.operands[1].kind == Operand::Kind::kName)
    if (const auto moved = DecodeMove(from, to, refused); moved.has_value()) return *moved;
  if (opcode.form == nullptr) {
    refused->push_back({std::string(from.opcode), from.line});
    return true;
  }
  if (!DecodeForm(*opcode.form, from, to)) return false;
  switch (opcode.kind) {
    case DecoderState::Kind::kBranch:
      return DecodeBranch(from, to);
    case DecoderState::Kind::kIndexedBranch:
      return DecodeIndexedBranch(from, to);
    default:
      return true;
  }
}

bool FunctionDecoder::DecodeGuard(const Instruction& from, Instr& to) {
  if (from.guard.empty()) return true;
  const Register* guard = state_->registers.Find(from.guard);
  if (guard == nullptr || guard->bytes != 0)
    return Fail(fmt::format("'{}' is not a predicate", from.guard));
  to.guard = guard->slot.offset;
  to.guard_negated = from.guard_negated;
  return true;
}

bool FunctionDecoder::DecodeForm(const Form& form, const Instruction& from, Instr& to) {
  to.handler = form.handler;
  to.form = IndexOf(form);
  to.flags = form.flags;
  if (form.operands[0] != '\0' && !DecodeLetters(form, from, to)) return false;
  return form.decode == nullptr || form.decode(*this, from, to);
}

bool FunctionDecoder::DecodeLetters(const Form& form, const Instruction& from, Instr& to) {
  static const Operand kMissing{.kind = Operand::Kind::kSink};
  std::vector<Slot>& slots = state_->slots;
  slots.clear();
  size_t next = 0;
  for (std::string_view letters = form.operands; !letters.empty();) {
    const Letter letter = TakeLetter(letters);
    if ((letter.letter | 0x20) == 'k') {
      slots.push_back(state_->registers.Carry());
      continue;
    }
    if (next == from.operands.size())
      return Fail(fmt::format("{} takes more than {} operands", from.opcode, next));
    const Operand& operand = from.operands[next++];
    const bool pair = letter.second != 0 && operand.kind == Operand::Kind::kPair;
    if (letter.elements > 0) {
      if (!DecodeVector(letter.letter, letter.elements, operand, to)) return false;
    } else if (!DecodeLetter(letter.letter, pair ? operand.elements[0] : operand, to)) {
      return false;
    }
    if (letter.second != 0 &&
        !DecodeLetter(letter.second, pair ? operand.elements[1] : kMissing, to))
      return false;
  }
  if (next != from.operands.size())
    return Fail(
        fmt::format("{} takes {} operands, not {}", from.opcode, next, from.operands.size()));
  Slot* const places[] = {&to.d, &to.a, &to.b, &to.c};
  const size_t near = std::min(slots.size(), std::size(places));
  for (size_t i = 0; i < near; ++i)
    *places[i] = slots[i];
  if (slots.size() > near) to.more = Append(std::span(slots).subspan(near));
  return true;
}

bool FunctionDecoder::DecodeLetter(char letter, const Operand& operand, Instr& to) {
  std::optional<Slot> slot;
  if (letter == 'i') {
    const auto integer = Integer(operand);
    to.immediate = integer.value_or(0);
    return integer.has_value();
  }
  const bool written = (letter & 0x20) == 0;
  if (written) {
    slot = Write(operand, BytesOfLetter(letter));
  } else if (letter == 'p' && operand.negated) {
    Operand plain = operand;
    plain.negated = false;
    slot = ReadPredicate(plain);
    to.flags |= Instr::kNegated;
  } else {
    slot = letter == 'p' ? ReadPredicate(operand) : Read(operand, BytesOfLetter(letter));
  }
  if (!slot.has_value()) return false;
  state_->slots.push_back(*slot);
  return true;
}

// {a, b, c, d}, or a register that is a vector.
bool FunctionDecoder::DecodeVector(char letter,
                                   size_t elements,
                                   const Operand& operand,
                                   Instr& to) {
  constexpr std::string_view kComponents = "xyzw";
  if (operand.kind == Operand::Kind::kVector && operand.elements.size() == elements)
    return std::all_of(operand.elements.begin(), operand.elements.end(),
                       [&](const Operand& element) { return DecodeLetter(letter, element, to); });
  Slot slot;
  const Register* found = FindRegister(operand, &slot);
  if (found == nullptr || static_cast<size_t>(found->vector) != elements ||
      elements > kComponents.size())
    return Fail(fmt::format("an operand must be a vector of length {}", elements));
  for (size_t i = 0; i < elements; ++i) {
    Operand element = operand;
    element.component = kComponents[i];
    if (!DecodeLetter(letter, element, to)) return false;
  }
  return true;
}

// A move from a clock, or of an address that depends on the call; nothing: another move.
std::optional<bool> FunctionDecoder::DecodeMove(const Instruction& from,
                                                Instr& to,
                                                std::vector<Refusal>* refused) {
  const Operand& source = from.operands[1];
  const char* const clock = FindClockForm(source.name);
  const DecoderState::Placed* const variable = state_->FindVariable(source.name);
  const bool in_memory = variable != nullptr && !variable->in_bank;
  if (clock == nullptr && !in_memory) return std::nullopt;
  const int bytes = WidthOf(from.operands[0]);
  const bool narrow = bytes == sizeof(uint32_t);
  const Form* const form = FindForm(!in_memory ? clock : narrow ? "add.s32" : "add.s64");
  if (form == nullptr) {
    refused->push_back({fmt::format("{} of {}", from.opcode, source.name), from.line});
    return true;
  }
  if (!in_memory) {
    Instruction read = from;
    read.operands.pop_back();
    return DecodeForm(*form, read, to);
  }
  const int address_bytes = narrow ? bytes : kAddressBytes;
  const auto written = Write(from.operands[0], address_bytes);
  if (!written.has_value()) return false;
  to.handler = form->handler;
  to.form = IndexOf(*form);
  to.flags = form->flags;
  to.d = *written;
  to.a = Slot::At(Area::kSpecial, narrow ? offsetof(SpecialRegisters, thread_memory_low)
                                         : offsetof(SpecialRegisters, thread_memory));
  to.b = state_->constants.Find(static_cast<uint64_t>(variable->place.offset) + source.bits,
                                address_bytes);
  return true;
}

std::optional<uint32_t> FunctionDecoder::FindLabel(std::string_view name) {
  const auto label = function_.labels.find(name);
  if (label != function_.labels.end()) return static_cast<uint32_t>(label->second);
  Fail(fmt::format("there is no label '{}'", name));
  return std::nullopt;
}

bool FunctionDecoder::DecodeBranch(const Instruction& from, Instr& to) {
  if (from.operands.size() != 1) return Fail("bra takes one operand");
  const auto target = FindLabel(from.operands[0].name);
  to.target = target.value_or(0);
  return target.has_value();
}

bool FunctionDecoder::DecodeIndexedBranch(const Instruction& from, Instr& to) {
  if (from.operands.size() != 2) return Fail("brx.idx takes two operands");
  const auto index = Read(from.operands[0], 4);
  const auto list = function_.target_lists.find(from.operands[1].name);
  if (!index.has_value()) return false;
  if (list == function_.target_lists.end())
    return Fail(fmt::format("there is no .branchtargets list '{}'", from.operands[1].name));
  std::vector<uint32_t> targets;
  for (const std::string_view name : list->second) {
    const auto target = FindLabel(name);
    if (!target.has_value()) return false;
    targets.push_back(*target);
  }
  to.a = *index;
  to.target = static_cast<uint32_t>(code_.target_lists.size());
  code_.target_lists.push_back(std::move(targets));
  return true;
}

bool FunctionDecoder::AppendPlaces(const Operand& list, std::vector<Place>* places) {
  for (const Operand& element : list.elements) {
    const DecoderState::Placed* variable = state_->FindVariable(element.name);
    if (element.kind != Operand::Kind::kName || variable == nullptr || variable->in_bank)
      return Fail("an argument or result of a call must be a .param variable of the caller");
    places->push_back(variable->place);
  }
  return true;
}

// "call (result), function, (a, b)" and "call (result), %rd1, (a, b), prototype".
bool FunctionDecoder::DecodeCall(const Instruction& from,
                                 Instr& to,
                                 std::vector<Refusal>* refused) {
  const auto is_list = [](const Operand& operand) { return operand.kind == Operand::Kind::kList; };
  const std::vector<Operand>& operands = from.operands;
  CallSite site;
  size_t next = 0;
  if (!operands.empty() && is_list(operands[0]) && !AppendPlaces(operands[next++], &site.results))
    return false;
  if (next == operands.size() || operands[next].kind != Operand::Kind::kName)
    return Fail("the call does not name a function");
  const Operand& callee = operands[next++];
  if (next < operands.size() && is_list(operands[next]) &&
      !AppendPlaces(operands[next++], &site.arguments))
    return false;

  std::string name = "call";
  if (const int bytes = WidthOf(callee); bytes != 0) {
    const auto address = Read(callee, kAddressBytes);
    if (!address.has_value()) return false;
    to.a = *address;
  } else if (site.callee = scope_.FindFunction(callee.name); site.callee == nullptr) {
    name = fmt::format("call.{}", callee.name);
  } else if (site.callee->parameters.size() != site.arguments.size() ||
             site.callee->results.size() != site.results.size()) {
    return Fail(
        fmt::format("'{}' is called with the wrong number of arguments or results", callee.name));
  }
  const Form* const form = FindForm(name);
  if (form == nullptr) {
    refused->push_back({fmt::format("call of {}", callee.name), from.line});
    return true;
  }
  to.target = static_cast<uint32_t>(code_.calls.size());
  code_.calls.push_back(std::move(site));
  return DecodeForm(*form, from, to);
}

}  // namespace coppice::ptx
