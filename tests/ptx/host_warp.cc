// Decodes the text, and gives it memory.

#include "tests/ptx/host_warp.h"

#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/memory.h"
#include "runtime/emulator/ptx/parser.h"
#include "tests/ptx/upper_halves.h"

namespace coppice::ptx {
namespace {

constexpr size_t kSharedBytes = 16384;
constexpr int64_t kFurtherBytes = 65536;
constexpr char kHead[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n"
    ".reg .b16 %h<20>; .reg .b32 %r<80>; .reg .f32 %f<80>; .reg .b64 %d<20>; .reg .b128 %q<9>;"
    ".reg .pred %p<9>; .shared .align 16 .b8 sm[1024];\n";

// Of names, it knows the variable sm.
class SharedScope : public Scope {
 public:
  std::optional<uint64_t> AddressOf(std::string_view name) const override {
    return name == "sm" ? std::optional<uint64_t>(0) : std::nullopt;
  }
  const Code* FindFunction(std::string_view) const override { return nullptr; }
};

}  // namespace

HostWarp::HostWarp(std::string_view body) : shared(kSharedBytes) {
  static const SharedScope scope;
  absl::StatusOr<Module> module = Parse(fmt::format("{}{}\nret;\n}}\n", kHead, body));
  if (!module.ok()) {
    error_ = module.status().ToString();
    return;
  }
  module_ = *std::move(module);
  decoder_ = std::make_unique<FunctionDecoder>(module_.functions.front(), scope, code_);
  std::vector<Refusal> refused;
  const absl::Status status = decoder_->Decode(&refused);
  if (!status.ok()) error_ = status.ToString();
  for (const Refusal& refusal : refused)
    error_ += "refused: " + refusal.opcode;
  // Registers that no instruction names get a slot when a test does.
  frame_.resize(static_cast<size_t>(code_.frame_bytes + kFurtherBytes) / sizeof(Line));
  constants_.resize(code_.constants.size() / sizeof(Line) + 1);
  if (!code_.constants.empty())
    std::memcpy(constants_.data(), code_.constants.data(), code_.constants.size());
  areas_ = {frame_.data()->bytes, constants_.data()->bytes, nullptr};
  slots_ = code_.slots.data();
  live_ = active_ = mask_ = kAllLanes;
  memory_ = this;
  control_ = this;
  async_ = &own_async_;
}

HostWarp::~HostWarp() = default;

void HostWarp::Join(HostWarp& other) {
  async_ = &other.own_async_;
  owner_ = &other;
}

Slot HostWarp::SlotOf(std::string_view name, size_t bytes) {
  const std::string& kept = *names_.emplace(name).first;
  const Operand operand{.kind = Operand::Kind::kName, .name = kept};
  const std::optional<Slot> slot = bytes == 0 ? decoder_->ReadPredicate(operand)
                                              : decoder_->Read(operand, static_cast<int>(bytes));
  return slot.value();
}

Step HostWarp::Run(size_t i, const Form* row) {
  Instr instr = code_.instrs[i];
  if (row != nullptr) instr.handler = row->handler;
  if (row != nullptr && row->handler == nullptr) {
    row->decode(*decoder_, module_.functions.front().body[i], instr);
    slots_ = code_.slots.data();
  }
  const Step step = instr.handler(*this, instr);
  EXPECT_FALSE(AreUpperHalvesInUse());
  return step;
}

Step HostWarp::RunAll() {
  for (size_t i = 0; i < module_.functions.front().body.size() - 1; ++i) {
    const Step step = Run(i);
    if (step != Step::kNext) return step;
  }
  return Step::kNext;
}

std::byte* HostWarp::At(
    Warp&, Space space, uint64_t address, int64_t bytes, AccessKind kind, int lane) {
  accesses.push_back({space, address, bytes, kind, lane});
  const bool window = space == Space::kGeneric && (address & kWindowMask) == kSharedWindow;
  if (space != Space::kShared && !window)
    return address == 0 ? nullptr : std::bit_cast<std::byte*>(address);
  const uint64_t offset = window ? address - kSharedWindow : address;
  const bool inside = offset + static_cast<uint64_t>(bytes) <= kSharedBytes;
  const bool aligned = offset % static_cast<uint64_t>(bytes) == 0;
  return inside && aligned ? owner_->shared.data() + offset : nullptr;
}

bool HostWarp::FindLanes(
    Warp& warp, Space space, uint32_t lanes, int64_t bytes, AccessKind kind, LaneWords& addresses) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    uint64_t& address = addresses[static_cast<size_t>(lane)];
    std::byte* const host = At(warp, space, address, bytes, kind, lane);
    if (host == nullptr) return false;
    address = std::bit_cast<uint64_t>(host);
  }
  return true;
}

bool HostWarp::Gather(Warp&, uint32_t members, Step& step) {
  gathered.push_back(members);
  step = Step::kStop;
  if ((mask_ & ~members) != 0) return false;
  step = Step::kChoose;
  if ((members & live_ & ~(mask_ | arriving)) != 0) return false;
  Execute(members & live_);
  step = Step::kNext;
  return true;
}

}  // namespace coppice::ptx
