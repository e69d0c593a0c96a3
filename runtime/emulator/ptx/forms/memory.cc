// Loads and stores.
//
// Slots: a is the base of the address, `immediate` is added to it; d is the register, or those from
// `more` on are the elements.

#include "runtime/emulator/ptx/memory.h"

#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <span>
#include <type_traits>
#include <utility>

#include "fmt/format.h"

#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/access.h"
#include "runtime/emulator/ptx/lanes.h"
#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {
namespace {

struct Wide128 {
  uint64_t low;
  uint64_t high;
};

// T is in memory, R in a register of at least its bytes.
template <typename R, typename T>
R Extend(T value) {
  if constexpr (std::is_same_v<R, T>) {
    return value;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<R>(static_cast<std::make_signed_t<R>>(value));
  } else {
    return static_cast<R>(value);
  }
}

template <typename T, typename R>
T Truncate(R value) {
  return static_cast<T>(value);
}

template <typename T>
T LoadAt(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Elements of an access, and where they are in registers.
class Elements {
 public:
  Elements(const Warp& warp, const Instr& instr)
      : warp_(warp), instr_(instr), count_(1 << (instr.flags & AccessFlags::kElements)) {}
  int count() const { return count_; }
  Slot operator[](int i) const {
    return count_ == 1 ? instr_.d : warp_.More(instr_, static_cast<uint32_t>(i));
  }

 private:
  const Warp& warp_;
  const Instr& instr_;
  int count_;
};

[[gnu::always_inline]] inline void ReadAddresses(ResidentWarp& warp,
                                                 const Instr& instr,
                                                 Reach& reach) {
  const LaneAccess& lanes = Memory::Of(warp).lanes();
  if ((instr.flags & AccessFlags::kNarrow) != 0) {
    lanes.add_narrow(warp.From<uint32_t>(instr.a), instr.immediate, reach.address);
  } else {
    lanes.add_wide(warp.From<uint64_t>(instr.a), instr.immediate, reach.address);
  }
}

Space AccessSpace(const Instr& instr) {
  return static_cast<Space>((instr.flags & AccessFlags::kSpace) >> AccessFlags::kSpaceShift);
}

bool IsStrong(const Instr& instr) {
  return (instr.flags & AccessFlags::kStrong) != 0;
}

int64_t LanesIn(uint32_t mask) {
  return mask == kAllLanes ? kLanes : std::popcount(mask);
}

uint64_t SumOf(const Warp& warp, const Reach& reach, size_t bytes) {
  LaneSum sum(warp.mask());
  for (uint32_t left = warp.mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, reach.at(lane) + at, std::min(bytes - at, sizeof(word)));
      sum.Add(reach.address[static_cast<size_t>(lane)], word);
    }
  }
  return sum.sum();
}

// Of one element, the usual case.
template <typename T, typename R>
[[gnu::always_inline]] inline void LoadElement(ResidentWarp& warp, const Reach& reach, R* d) {
  const LaneAccess& lanes = Memory::Of(warp).lanes();
  constexpr bool kWhole = sizeof(T) == sizeof(R) && sizeof(T) <= sizeof(uint64_t);
  if (reach.contiguous) {
    const std::byte* const from = reach.at(0);
    if constexpr (kWhole) {
      lanes.copy(from, reinterpret_cast<std::byte*>(d), sizeof(R) * kLanes);
    } else {
      for (size_t i = 0; i < kLanes; ++i)
        d[i] = Extend<R>(LoadAt<T>(from + i * sizeof(T)));
    }
  } else if (warp.mask() == kAllLanes && kWhole && sizeof(R) >= sizeof(uint32_t)) {
    if constexpr (sizeof(R) == sizeof(uint32_t)) lanes.gather32(reach.address, d);
    if constexpr (sizeof(R) == sizeof(uint64_t)) lanes.gather64(reach.address, d);
  } else {
    KeepLanes(warp.mask(), d, [&](int i) { return Extend<R>(LoadAt<T>(reach.at(i))); });
  }
}

template <typename T, typename R>
Step Load(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const Elements elements(warp, instr);
  const int64_t bytes = elements.count() * static_cast<int64_t>(sizeof(T));
  Reach reach;
  ReadAddresses(warp, instr, reach);
  if (!Memory::Of(warp).Resolve(warp, warp.mask(), AccessSpace(instr), bytes, AccessKind::kRead,
                                reach))
    return Step::kStop;
  warp.state().counts.loads += LanesIn(warp.mask());
  if (AccessObserver* const observer = warp.observer(); observer != nullptr)
    observer->Read(warp, reach, bytes, IsStrong(instr));
  const bool polls = IsStrong(instr);
  const uint64_t given = polls ? SumOf(warp, reach, static_cast<size_t>(bytes)) : 0;
  if (elements.count() == 1) {
    LoadElement<T>(warp, reach, warp.To<R>(instr.d));
    return polls ? warp.Poll(instr, reach.space, given) : Step::kNext;
  }
  for (int element = 0; element < elements.count(); ++element) {
    const size_t offset = static_cast<size_t>(element) * sizeof(T);
    KeepLanes(warp.mask(), warp.To<R>(elements[element]),
              [&](int i) { return Extend<R>(LoadAt<T>(reach.at(i) + offset)); });
  }
  return polls ? warp.Poll(instr, reach.space, given) : Step::kNext;
}

// Of a kernel's parameter: the same for all lanes.
template <typename T, typename R>
Step LoadParameter(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const Elements elements(warp, instr);
  const std::byte* from =
      warp.state().bank.data() + warp.From<uint64_t>(instr.a)[0] + instr.immediate;
  warp.state().counts.loads += LanesIn(warp.mask());
  for (int i = 0; i < elements.count(); ++i, from += sizeof(T)) {
    const R value = Extend<R>(LoadAt<T>(from));
    KeepLanes(warp.mask(), warp.To<R>(elements[i]), [value](int) { return value; });
  }
  return Step::kNext;
}

template <typename T, typename R>
Step Store(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const Elements elements(warp, instr);
  const size_t bytes = static_cast<size_t>(elements.count()) * sizeof(T);
  Reach reach;
  ReadAddresses(warp, instr, reach);
  if (!Memory::Of(warp).Resolve(warp, warp.mask(), AccessSpace(instr), static_cast<int64_t>(bytes),
                                AccessKind::kWrite, reach))
    return Step::kStop;
  warp.state().counts.stores += LanesIn(warp.mask());
  if (AccessObserver* const observer = warp.observer(); observer != nullptr) {
    constexpr size_t kElementsMax = 8;
    alignas(64) std::array<std::byte, kLanes * kElementsMax * sizeof(T)> values;
    for (int element = 0; element < elements.count(); ++element) {
      const R* const from = warp.From<R>(elements[element]);
      std::byte* const to = values.data() + static_cast<size_t>(element) * sizeof(T);
      for (size_t i = 0; i < kLanes; ++i) {
        const T value = Truncate<T>(from[i]);
        std::memcpy(to + i * bytes, &value, sizeof(value));
      }
    }
    observer->Write(warp, reach, static_cast<int64_t>(bytes), values.data(), IsStrong(instr));
    return Step::kNext;
  }
  for (int element = 0; element < elements.count(); ++element) {
    const size_t offset = static_cast<size_t>(element) * sizeof(T);
    const R* const from = warp.From<R>(elements[element]);
    const auto store = [&](size_t i, std::byte* to) {
      const T value = Truncate<T>(from[i]);
      std::memcpy(to, &value, sizeof(value));
    };
    if (reach.contiguous && elements.count() == 1) {
      std::byte* const to = reach.at(0);
      for (size_t i = 0; i < kLanes; ++i)
        store(i, to + i * sizeof(T));
    } else {
      for (uint32_t left = warp.mask(); left != 0; left &= left - 1) {
        const int lane = std::countr_zero(left);
        store(static_cast<size_t>(lane), reach.at(lane) + offset);
      }
    }
  }
  return Step::kNext;
}

struct Handlers {
  Handler load = nullptr;
  Handler load_parameter = nullptr;
  Handler store = nullptr;
};

template <typename T, typename R>
constexpr Handlers HandlersOf() {
  return {Load<T, R>, LoadParameter<T, R>, Store<T, R>};
}

// For a type in memory, in a register of so many bytes; none if the register is too small.
template <typename T>
Handlers InRegister(int bytes) {
  if constexpr (sizeof(T) == sizeof(Wide128)) {
    if (bytes == 16) return HandlersOf<T, Wide128>();
  } else {
    if constexpr (sizeof(T) <= 2)
      if (bytes == 2) return HandlersOf<T, uint16_t>();
    if constexpr (sizeof(T) <= 4)
      if (bytes == 4) return HandlersOf<T, uint32_t>();
    if (bytes == 8) return HandlersOf<T, uint64_t>();
  }
  return {};
}

Handlers HandlersFor(Type type, int register_bytes) {
  switch (type) {
    case Type::kS8:
      return InRegister<int8_t>(register_bytes);
    case Type::kS16:
      return InRegister<int16_t>(register_bytes);
    case Type::kS32:
      return InRegister<int32_t>(register_bytes);
    default:
      break;
  }
  switch (SizeOf(type)) {
    case 1:
      return InRegister<uint8_t>(register_bytes);
    case 2:
      return InRegister<uint16_t>(register_bytes);
    case 4:
      return InRegister<uint32_t>(register_bytes);
    case 8:
      return InRegister<uint64_t>(register_bytes);
    case 16:
      return InRegister<Wide128>(register_bytes);
    default:
      return {};
  }
}

// The width of the registers of an access: that of those that are registers.
int RegisterBytes(FunctionDecoder& decoder, std::span<const Operand> operands, Type type) {
  int bytes = static_cast<int>(std::max<int64_t>(SizeOf(type), sizeof(uint16_t)));
  for (const Operand& operand : operands)
    bytes = std::max(bytes, decoder.WidthOf(operand));
  return bytes;
}

bool DecodeAccess(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  const std::optional<AccessOpcode> opcode = AccessOpcode::Parse(from.opcode);
  // A policy for caches stands behind the others, and nothing here depends on it.
  const size_t policies = from.opcode.find("cache_hint") != std::string_view::npos ? 1 : 0;
  if (!opcode.has_value() || from.operands.size() != 2 + policies)
    return decoder.Fail("expected an address and a register");
  const bool loads = !from.opcode.starts_with("st");
  const Operand& value = from.operands[loads ? 0 : 1];
  // A vector of one element is that element.
  const std::span<const Operand> elements =
      value.kind == Operand::Kind::kVector ? std::span(value.elements) : std::span(&value, 1);
  if (elements.size() != static_cast<size_t>(opcode->elements))
    return decoder.Fail(fmt::format("expected {} elements", opcode->elements));

  const auto address = decoder.ReadAddress(from.operands[loads ? 1 : 0]);
  if (!address.has_value()) return false;
  const int bytes = RegisterBytes(decoder, elements, opcode->type);
  std::vector<Slot> slots;
  for (const Operand& element : elements) {
    const auto slot = loads ? decoder.Write(element, bytes) : decoder.Read(element, bytes);
    if (!slot.has_value()) return false;
    slots.push_back(*slot);
  }
  const Handlers handlers = HandlersFor(opcode->type, bytes);
  if (handlers.load == nullptr)
    return decoder.Fail("a register has the wrong width for the type of the instruction");

  const bool of_bank = opcode->space == Space::kParam && !address->narrow &&
                       address->base.area == static_cast<uint32_t>(Area::kConstants);
  to.handler = !loads ? handlers.store : of_bank ? handlers.load_parameter : handlers.load;
  to.a = address->base;
  to.immediate = address->offset;
  to.flags = static_cast<uint8_t>(std::countr_zero(static_cast<unsigned>(opcode->elements)) |
                                  (address->narrow ? AccessFlags::kNarrow : 0) |
                                  (opcode->strong ? AccessFlags::kStrong : 0) |
                                  static_cast<int>(opcode->space) << AccessFlags::kSpaceShift);
  to.target = static_cast<uint32_t>(bytes);
  to.d = slots[0];
  if (slots.size() > 1) to.more = decoder.Append(slots);
  return true;
}

std::vector<Form> MakeRows() {
  static std::deque<std::string> names;
  std::vector<Form> rows;
  for (const char* const operation : {"ld", "ldu", "st"}) {
    for (const char* const space : {"", ".global", ".shared", ".local", ".param", ".const"}) {
      for (const char* const vector : {"", ".v2", ".v4", ".v8"}) {
        for (const AccessType& type : AccessTypes()) {
          names.push_back(fmt::format("{}{}{}.{}", operation, space, vector, type.name));
          rows.push_back({.name = names.back().c_str(), .decode = DecodeAccess});
        }
      }
    }
  }
  return rows;
}

}  // namespace

std::span<const Form> MemoryForms() {
  static const std::vector<Form> rows = [] {
    std::vector<Form> all = MakeRows();
    const std::span<const Form> addresses = AddressForms();
    all.insert(all.end(), addresses.begin(), addresses.end());
    return all;
  }();
  return rows;
}

}  // namespace coppice::ptx
