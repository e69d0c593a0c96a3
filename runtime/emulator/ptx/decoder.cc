// What operands are: registers, constants, addresses.

#include "runtime/emulator/ptx/decoder.h"

#include <bit>
#include <cstddef>

#include "fmt/format.h"

#include "runtime/emulator/ptx/decoder_state.h"
#include "runtime/emulator/ptx/special.h"

namespace coppice::ptx {
namespace {

constexpr int kBitsPerByte = 8;

// What a register of so many bytes has, and what an instruction wants of one; 0: a predicate.
std::string HasText(int bytes) {
  return bytes == 0 ? "is a predicate" : fmt::format("has {} bits", bytes * kBitsPerByte);
}
std::string WantedText(int bytes) {
  return bytes == 0 ? "a predicate" : fmt::format("{} bits", bytes * kBitsPerByte);
}

// The bits of a float as a register of `bytes` has them; nothing: no float has so many.
std::optional<uint64_t> FloatConstantBits(const Operand& operand, int bytes) {
  const bool wide = operand.kind == Operand::Kind::kFloat64;
  if (bytes == (wide ? 8 : 4)) return operand.bits;
  if (bytes == 4)
    return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
  if (bytes == 8)
    return std::bit_cast<uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(operand.bits))));
  return std::nullopt;
}

constexpr Slot kThreadMemory = Slot::At(Area::kSpecial, offsetof(SpecialRegisters, thread_memory));
constexpr Slot kWideZero = Slot::At(Area::kSpecial, offsetof(SpecialRegisters, wide_zero));

}  // namespace

FunctionDecoder::FunctionDecoder(const Function& function, const Scope& scope, Code& code)
    : function_(function),
      scope_(scope),
      code_(code),
      state_(std::make_unique<DecoderState>(function, code)) {}

FunctionDecoder::~FunctionDecoder() = default;

bool FunctionDecoder::Fail(const std::string& what) {
  if (state_->error.empty()) state_->error = fmt::format("line {}: {}", state_->line, what);
  return false;
}

const Register* FunctionDecoder::FindRegister(const Operand& operand, Slot* slot) {
  if (operand.kind != Operand::Kind::kName) return nullptr;
  const Register* found = state_->registers.Find(operand.name);
  if (found == nullptr) return nullptr;
  const int element = operand.component == 0
                          ? 0
                          : static_cast<int>(std::string_view("xyzw").find(operand.component));
  if (element >= found->vector) return nullptr;
  *slot = Slot::At(Area::kFrame,
                   found->slot.offset + static_cast<size_t>(element * found->bytes * kLanes));
  return found;
}

bool FunctionDecoder::IsPredicate(const Operand& operand) {
  Slot slot;
  const Register* found = FindRegister(operand, &slot);
  return found != nullptr && found->bytes == 0;
}

int FunctionDecoder::WidthOf(const Operand& operand) {
  Slot slot;
  const Register* found = FindRegister(operand, &slot);
  return found == nullptr ? 0 : found->bytes;
}

std::optional<Slot> FunctionDecoder::Read(const Operand& operand, int bytes) {
  switch (operand.kind) {
    case Operand::Kind::kInteger:
      return state_->constants.Find(operand.bits, bytes);
    case Operand::Kind::kFloat32:
    case Operand::Kind::kFloat64:
      if (const auto bits = FloatConstantBits(operand, bytes); bits.has_value())
        return state_->constants.Find(*bits, bytes);
      Fail(fmt::format("a floating-point constant cannot have {} bits", bytes * kBitsPerByte));
      return std::nullopt;
    case Operand::Kind::kName:
      return ReadName(operand, bytes);
    default:
      Fail("an operand must be a register or a constant");
      return std::nullopt;
  }
}

std::optional<Slot> FunctionDecoder::ReadName(const Operand& operand, int bytes) {
  const auto check = [&](const Slot& slot, int has) -> std::optional<Slot> {
    if (has == bytes && !operand.negated) return slot;
    Fail(has == bytes ? fmt::format("'{}' must not be negated", operand.name)
                      : fmt::format("'{}' {}, but the instruction reads {}", operand.name,
                                    HasText(has), WantedText(bytes)));
    return std::nullopt;
  };
  Slot slot;
  if (const Register* found = FindRegister(operand, &slot); found != nullptr)
    return check(slot, found->bytes);
  if (operand.name == "WARP_SZ") return state_->constants.Find(kLanes, bytes);
  if (const auto special = FindSpecial(operand.name, operand.component); special.has_value())
    return check(special->slot, special->bytes);

  // The address of a variable; its space may have fewer than 64 bits.
  if (const DecoderState::Placed* variable = state_->FindVariable(operand.name);
      variable != nullptr) {
    if (variable->in_bank)
      return state_->constants.Find(static_cast<uint64_t>(variable->place.offset) + operand.bits,
                                    bytes);
    Fail(fmt::format("the address of '{}' depends on the call, so only mov can read it",
                     operand.name));
    return std::nullopt;
  }
  const auto address = scope_.AddressOf(operand.name);
  const bool relocated = address.has_value() && scope_.Relocated(operand.name);
  if (!address.has_value() || bytes == 0) {
    Fail(fmt::format("'{}' is not defined", operand.name));
    return std::nullopt;
  }
  if (relocated && bytes != kAddressBytes) {
    Fail(fmt::format("the address of '{}' has 64 bits, so the instruction must read 64 bits",
                     operand.name));
    return std::nullopt;
  }
  return state_->constants.Find(*address + operand.bits, bytes, relocated);
}

std::optional<Slot> FunctionDecoder::Write(const Operand& operand, int bytes) {
  if (operand.kind == Operand::Kind::kSink) return state_->registers.Sink(bytes);
  Slot slot;
  const Register* found = FindRegister(operand, &slot);
  if (found == nullptr) {
    Fail(operand.name.empty() ? "the instruction writes to an operand that is not a register"
                              : fmt::format("'{}' is not a register", operand.name));
    return std::nullopt;
  }
  if (found->bytes == bytes) return slot;
  Fail(fmt::format("'{}' {}, but the instruction writes {}", operand.name, HasText(found->bytes),
                   WantedText(bytes)));
  return std::nullopt;
}

std::optional<Slot> FunctionDecoder::ReadPredicate(const Operand& operand) {
  if (operand.kind == Operand::Kind::kName || operand.kind == Operand::Kind::kInteger)
    return Read(operand, 0);
  Fail("an operand must be a predicate");
  return std::nullopt;
}

std::optional<Slot> FunctionDecoder::WritePredicate(const Operand& operand) {
  return Write(operand, 0);
}

std::optional<uint64_t> FunctionDecoder::Integer(const Operand& operand) {
  if (operand.kind == Operand::Kind::kInteger) return operand.bits;
  if (operand.kind == Operand::Kind::kName && operand.name == "WARP_SZ") return kLanes;
  Fail("an operand must be an integer constant");
  return std::nullopt;
}

std::optional<FunctionDecoder::Address> FunctionDecoder::ReadAddress(const Operand& operand) {
  if (operand.kind != Operand::Kind::kAddress) {
    Fail("an operand must be an address");
    return std::nullopt;
  }
  if (operand.name.empty()) return Address{.base = kWideZero, .offset = operand.bits};
  if (const Register* found = state_->registers.Find(operand.name); found != nullptr) {
    if (found->bytes == 4 || found->bytes == kAddressBytes)
      return Address{
          .base = found->slot, .narrow = found->bytes != kAddressBytes, .offset = operand.bits};
    Fail(fmt::format("'{}' is not an address", operand.name));
    return std::nullopt;
  }
  if (const DecoderState::Placed* variable = state_->FindVariable(operand.name);
      variable != nullptr)
    return Address{.base = variable->in_bank ? kWideZero : kThreadMemory,
                   .offset = static_cast<uint64_t>(variable->place.offset) + operand.bits};
  const auto address = scope_.AddressOf(operand.name);
  if (!address.has_value()) {
    Fail(fmt::format("'{}' is not defined", operand.name));
    return std::nullopt;
  }
  if (!scope_.Relocated(operand.name))
    return Address{.base = kWideZero, .offset = *address + operand.bits};
  return Address{.base = state_->constants.Find(*address, kAddressBytes, true),
                 .offset = operand.bits};
}

uint32_t FunctionDecoder::Append(std::span<const Slot> slots) {
  const auto first = static_cast<uint32_t>(code_.slots.size());
  code_.slots.insert(code_.slots.end(), slots.begin(), slots.end());
  return first;
}

}  // namespace coppice::ptx
