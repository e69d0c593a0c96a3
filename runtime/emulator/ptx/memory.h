// The memory that a launch sees: addresses of state spaces become host bytes.
//
// A generic address is one of global memory, which is the host's, or of a window, which its highest
// byte tells:
//
//   0x01  shared memory of the block     0x02  memory of the thread     0x03  the parameter bank
//
// In the .shared space an address is an offset. In .local it is the generic one; in .param too if
// it is of the thread, and else an offset in the bank.
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

#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/launch_state.h"
#include "runtime/emulator/ptx/observer.h"
#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {

inline constexpr int kWindowShift = 56;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << kWindowShift;
inline constexpr uint64_t kThreadWindow = uint64_t{2} << kWindowShift;
inline constexpr uint64_t kBankWindow = uint64_t{3} << kWindowShift;
inline constexpr uint64_t kWindowMask = uint64_t{0xff} << kWindowShift;

class Memory final : public Warp::MemoryAccess {
 public:
  // What is accessed is told to `observer`, if that is not null.
  Memory(LaunchState& state, AccessObserver* observer)
      : state_(state), ranges_(state.environment.memory), observer_(observer) {}

  // That of a warp of a resident block.
  static Memory& Of(ResidentWarp& warp) { return static_cast<Memory&>(warp.memory()); }

  std::byte* At(
      Warp& warp, Space space, uint64_t address, int64_t bytes, AccessKind kind, int lane) override;

  // The addresses of `space` in `reach` become those of the host, where the lanes that execute
  // access `bytes` bytes each: a power of two. What is accessed is not told yet. Returns false
  // after it has noted a fault.
  bool Resolve(ResidentWarp& warp, Space space, int64_t bytes, AccessKind kind, Reach& reach);

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
  static bool Shift(Reach& reach,
                    uint64_t begin,
                    uint64_t end,
                    int64_t bytes,
                    const std::byte* host,
                    int64_t stride);
  // The host bytes, aligned and inside; not told.
  std::byte* Find(Space space, const Access& access);
  std::byte* FindGlobal(const Access& access);
  std::byte* Refuse(const Access& access, Finding::Kind kind, std::string_view why);
  std::string Nearest(const Access& access) const;

  LaunchState& state_;
  std::span<const MemoryRange> ranges_;
  // The range that was accessed last, by reads and by others; empty at first.
  std::array<MemoryRange, 2> last_ = {};
  AccessObserver* observer_;
};

}  // namespace coppice::ptx
