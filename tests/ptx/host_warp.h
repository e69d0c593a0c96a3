// A warp by itself, for tests that call handlers: registers and memory are arrays of the test.
//
// Global addresses are those of the host. Shared memory begins at address 0 of .shared, and at
// kSharedWindow of generic addresses. Lanes that a Gather wants are there, unless the test took
// them away.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx/async_copies.h"
#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
inline constexpr size_t kSharedBytes = 16384;

class HostWarp : public Warp, public Warp::MemoryAccess, public Warp::Control {
 public:
  struct Access {
    Space space;
    uint64_t address;
    int64_t bytes;
    AccessKind kind;
    int lane;
    bool operator==(const Access&) const = default;
  };

  HostWarp() : frame_(kFrameBytes), constants_(kFrameBytes), shared(kSharedBytes) {
    areas_[0] = Aligned(frame_);
    areas_[1] = Aligned(constants_);
    live_ = active_ = mask_ = kAllLanes;
    memory_ = this;
    control_ = this;
    copies_ = &own_copies_;
  }
  HostWarp(const HostWarp&) = delete;
  HostWarp& operator=(const HostWarp&) = delete;

  void Execute(uint32_t mask) { mask_ = active_ = mask; }
  void SetLive(uint32_t live) { live_ = live; }
  void ShareCopies(HostWarp& with) { copies_ = &with.own_copies_; }

  // A register of so many bytes a lane; 0: a predicate.
  Slot Register(size_t bytes) { return Allocate(Area::kFrame, bytes); }
  template <typename T>
  Slot With(std::span<const T> lanes) {
    const Slot slot = Register(sizeof(T));
    std::memcpy(To<T>(slot), lanes.data(), sizeof(T) * kLanes);
    return slot;
  }
  template <typename T>
  Slot Constant(T value) {
    const Slot slot = Allocate(Area::kConstants, sizeof(T));
    for (int lane = 0; lane < kLanes; ++lane)
      To<T>(slot)[lane] = value;
    return slot;
  }
  Slot Bits(uint32_t predicate) {
    const Slot slot = Register(0);
    *To<uint32_t>(slot) = predicate;
    return slot;
  }

  // An instruction of a form, whose registers are these.
  Instr Make(const Form& form, std::initializer_list<Slot> slots) {
    return Make(form, std::vector<Slot>(slots));
  }
  Instr Make(const Form& form, const std::vector<Slot>& slots) {
    Instr instr;
    instr.handler = form.handler;
    instr.flags = form.flags;
    Slot* const own[] = {&instr.d, &instr.a, &instr.b, &instr.c};
    instr.more = static_cast<uint32_t>(further_.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      if (i < 4)
        *own[i] = slots[i];
      else
        further_.push_back(slots[i]);
    }
    slots_ = further_.data();
    return instr;
  }
  Step Run(const Instr& instr) { return instr.handler(*this, instr); }

  std::byte* At(
      Warp&, Space space, uint64_t address, int64_t bytes, AccessKind kind, int lane) override {
    accesses.push_back({space, address, bytes, kind, lane});
    if (space == Space::kGlobal) {
      return address == 0 ? nullptr : std::bit_cast<std::byte*>(address);
    }
    if (space == Space::kGeneric && address < kSharedWindow)
      return std::bit_cast<std::byte*>(address);
    const uint64_t offset = space == Space::kGeneric ? address - kSharedWindow : address;
    if (offset + static_cast<uint64_t>(bytes) > shared.size()) return nullptr;
    return shared.data() + offset;
  }

  bool Gather(Warp&, uint32_t members, Step& step) override {
    gathered.push_back(members);
    step = Step::kStop;
    if ((mask_ & ~members) != 0) return false;
    if ((members & live_ & ~(mask_ | arriving)) != 0) {
      step = Step::kChoose;
      return false;
    }
    Execute(members & live_);
    return true;
  }

 private:
  static constexpr size_t kFrameBytes = 32768;

  static std::byte* Aligned(std::vector<std::byte>& bytes) {
    const auto address = std::bit_cast<uintptr_t>(bytes.data());
    return bytes.data() + (64 - address % 64) % 64;
  }

  Slot Allocate(Area area, size_t bytes) {
    size_t& used = used_[static_cast<size_t>(area)];
    Slot slot;
    slot.area = static_cast<uint32_t>(area) & 3;
    slot.offset = static_cast<uint32_t>(used) & ((1U << 30) - 1);
    used += bytes == 0 ? 64 : bytes * kLanes;
    return slot;
  }

  std::vector<std::byte> frame_;
  std::vector<std::byte> constants_;
  size_t used_[kAreas] = {};
  std::vector<Slot> further_;
  AsyncCopies own_copies_;

 public:
  std::vector<std::byte> shared;
  std::vector<Access> accesses;
  std::vector<uint32_t> gathered;
  uint32_t arriving = 0;  // Lanes that come when they are waited for.
};

// The row of this name; fails the test, and ends it, if there is none.
inline const Form& RowOf(std::span<const Form> rows, std::string_view name) {
  for (const Form& form : rows) {
    if (form.name == name) return form;
  }
  ADD_FAILURE() << "no row " << name;
  return rows.front();
}

}  // namespace coppice::ptx
