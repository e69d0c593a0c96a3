// Text of one instruction, and its registers.

#include "tests/ptx/one_form.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/parser.h"
#include "tests/ptx/upper_halves.h"

namespace coppice::ptx {
namespace {

// No variables, no functions.
class EmptyScope : public Scope {
 public:
  std::optional<uint64_t> AddressOf(std::string_view) const override { return std::nullopt; }
  const Code* FindFunction(std::string_view) const override { return nullptr; }
};

constexpr char kRegisters[] =
    ".reg .b16 %h<9>; .reg .b32 %w<9>; .reg .b64 %d<9>; .reg .pred %p<9>;";

std::string OperandTexts(std::string_view letters, uint64_t immediate) {
  std::string text;
  int number = 0;
  for (size_t i = 0; i < letters.size(); ++i) {
    const char letter = static_cast<char>(letters[i] | 0x20);
    if (letters[i] == '|') {
      text += fmt::format("|%p{}", number++);
      ++i;
    } else if (letter == 'i') {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", immediate);
    } else if (letter != 'k') {
      text += fmt::format("{}%{}{}", text.empty() ? "" : ", ", letter, number++);
    }
  }
  return text;
}

}  // namespace

std::vector<FormOperand> PlacesOf(std::string_view letters) {
  std::vector<FormOperand> places;
  for (const char letter : letters) {
    if (letter == '|') continue;
    const bool written = (letter & 0x20) == 0;
    places.push_back({.letter = static_cast<char>(letter | 0x20),
                      .written = written || letter == 'k',
                      .read = !written});
  }
  return places;
}

TestWarp::TestWarp(const Code& code)
    : frame_(static_cast<size_t>(code.frame_bytes) / sizeof(Line) + 1),
      constants_(code.constants.size() / sizeof(Line) + 1),
      special_(64) {
  if (!code.constants.empty())
    std::memcpy(constants_.data(), code.constants.data(), code.constants.size());
  areas_ = {frame_.data()->bytes.data(), constants_.data()->bytes.data(),
            special_.data()->bytes.data()};
  slots_ = code.slots.data();
}

uint64_t TestWarp::Get(const FormOperand& place, int lane) const {
  switch (place.bits()) {
    case 16:
      return From<uint16_t>(place.slot)[lane];
    case 32:
      return From<uint32_t>(place.slot)[lane];
    case 64:
      return From<uint64_t>(place.slot)[lane];
    default:
      return Predicate(place.slot) >> lane & 1;
  }
}

void TestWarp::Set(const FormOperand& place, int lane, uint64_t value) {
  switch (place.bits()) {
    case 16:
      To<uint16_t>(place.slot)[lane] = static_cast<uint16_t>(value);
      return;
    case 32:
      To<uint32_t>(place.slot)[lane] = static_cast<uint32_t>(value);
      return;
    case 64:
      To<uint64_t>(place.slot)[lane] = value;
      return;
    default: {
      uint32_t& bits = *To<uint32_t>(place.slot);
      bits = (bits & ~(uint32_t{1} << lane)) | static_cast<uint32_t>(value & 1) << lane;
    }
  }
}

OneForm::OneForm(std::string_view opcode,
                 std::string_view letters,
                 uint64_t immediate,
                 std::string_view text) {
  static const EmptyScope scope;
  const std::string operands = text.empty() ? OperandTexts(letters, immediate) : std::string(text);
  absl::StatusOr<Module> module =
      Parse(fmt::format(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() "
                        "{{\n{}\n{} {};\nret;\n}}\n",
                        kRegisters, opcode, operands));
  if (!module.ok()) {
    error_ = module.status().ToString();
    return;
  }
  module_ = *std::move(module);
  decoder_ = std::make_unique<FunctionDecoder>(module_.functions.front(), scope, code_);
  // The `ret` behind it has no form where the families of control are not linked.
  std::vector<Refusal> refused;
  const absl::Status status = decoder_->Decode(&refused);
  for (const Refusal& refusal : refused) {
    if (refusal.opcode == opcode) error_ = "refused: " + refusal.opcode;
  }
  if (!status.ok()) error_ = status.ToString();
  if (!error_.empty()) return;
  warp_ = std::make_unique<TestWarp>(code_);
  places_ = PlacesOf(letters);
  const Slot near[] = {instr().d, instr().a, instr().b, instr().c};
  size_t next = 0;
  for (FormOperand& place : places_) {
    if (place.letter == 'i') continue;
    place.slot = next < 4 ? near[next] : code_.slots[instr().more + next - 4];
    ++next;
  }
}

void OneForm::Run(const Form& row, uint32_t mask) {
  Instr& instr = code_.instrs.front();
  if (row.decode != nullptr) {
    instr.flags = row.flags;
    row.decode(*decoder_, module_.functions.front().body.front(), instr);
  } else {
    instr.handler = row.handler;
  }
  warp_->SetMask(mask);
  instr.handler(*warp_, instr);
  EXPECT_FALSE(AreUpperHalvesInUse()) << row.name;
}

}  // namespace coppice::ptx
