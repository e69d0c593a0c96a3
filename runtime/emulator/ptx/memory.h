// The memory that a launch sees: addresses of state spaces become host bytes.
//
// Generic addresses have windows for what is not global memory: windows.h.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/emulator/ptx/lane_access.h"
#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/launch_state.h"
#include "runtime/emulator/ptx/observer.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {

class Memory final : public Warp::MemoryAccess {
 public:
  // What is accessed is told to `observer`, if that is not null.
  Memory(LaunchState& state, AccessObserver* observer)
      : state_(state), ranges_(state.environment.memory), observer_(observer) {}

  // That of a warp of a resident block.
  static Memory& Of(ResidentWarp& warp) { return static_cast<Memory&>(warp.memory()); }

  std::byte* At(
      Warp& warp, Space space, uint64_t address, int64_t bytes, AccessKind kind, int lane) override;

  bool FindLanes(Warp& warp,
                 Space space,
                 uint32_t lanes,
                 int64_t bytes,
                 AccessKind kind,
                 LaneWords& addresses) override;
  void Tell(
      Warp& warp, uint32_t lanes, const LaneWords& hosts, int64_t bytes, AccessKind kind) override;
  bool IsTold() const override { return observer_ != nullptr; }
  bool MayChange(Warp& warp, const std::byte* host, uint32_t bits, int lane) override;
  const LaneAccess& lanes() const { return lanes_; }

  // The addresses of `space` in `reach` become those of the host, where `lanes`, one at least,
  // access `bytes` bytes each: a power of two. What is accessed is not told yet. Returns false
  // after it has noted a fault.
  bool Resolve(ResidentWarp& warp,
               uint32_t lanes,
               Space space,
               int64_t bytes,
               AccessKind kind,
               Reach& reach);

  // A text that ends with 0 at a generic address. Nothing: the lane may not read it, which has been
  // noted.
  std::optional<std::string> TextAt(ResidentWarp& warp, uint64_t address, int lane);

 private:
  // An access of one lane.
  struct Access {
    ResidentWarp& warp;
    uint64_t address;
    int64_t bytes;
    AccessKind kind;
    int lane;
  };

  // Moves addresses that are all in [begin, end) to `host`, and those of lane i by `stride` * i.
  // Returns false if they are not, or not aligned.
  bool Shift(Reach& reach,
             uint64_t begin,
             uint64_t end,
             int64_t bytes,
             const std::byte* host,
             int64_t stride) const;
  // The host bytes, aligned and inside; not told.
  std::byte* Find(Space space, const Access& access);
  std::byte* FindGlobal(const Access& access);
  // Compilers make atomics of 16 bits from loads and swaps of the 32 around them, of which the
  // others, behind an odd number of elements say, may belong to nobody. Whether the access may be
  // one of these.
  bool IsSharedWord(const Access& access) const;
  // A range that has a part of the word; null: there is none.
  const MemoryRange* RangeInWord(uint64_t address) const;
  // The range that has all of it; null: none.
  const MemoryRange* RangeOf(uint64_t address, int64_t bytes) const;
  void Count(AccessKind kind, int64_t lanes);
  std::byte* Refuse(const Access& access, Finding::Kind kind, std::string_view why);
  // Where the access lies beside what it might have meant.
  std::string Nearest(const Access& access) const;
  std::string NearestArgument(const Access& access) const;

  LaunchState& state_;
  const LaneAccess& lanes_ = HostLaneAccess();
  std::span<const MemoryRange> ranges_;
  // The range that was accessed last, by reads and by others; empty at first.
  std::array<MemoryRange, 2> last_ = {};
  AccessObserver* observer_;
};

}  // namespace coppice::ptx
