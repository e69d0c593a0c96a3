// Which window of a session's pool is whose: five of every lane, one behind the other, then the
// constants'. Private to graphs/.
//
//   | plan | eager | staging | copy_out | workspace |  ... of lane 1 ... | ... | constants |
//
// A window is charged to the account of its kind. Programs may bind constants, which lie in no
// lane.
//
// Units: bytes. Threads: immutable.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coppice/allocator/pool.h"
#include "coppice/graphs/memory_usage.h"

namespace coppice::internal {

inline constexpr int kLaneWindowCount = 5;  // kPlan to kWorkspace.

class WindowMap {
 public:
  // Of a pool made with these windows.
  WindowMap(const Pool& pool, int lanes)
      : window_bytes_(pool.window_bytes()),
        lanes_(pool.Range(0, lanes * kLaneWindowCount)),
        constants_(pool.Range(lanes * kLaneWindowCount, 1)) {}

  static constexpr int WindowOf(int lane, MemoryKind kind) {
    return lane * kLaneWindowCount + static_cast<int>(kind);
  }
  static constexpr int ConstantsWindow(int lanes) { return lanes * kLaneWindowCount; }
  // The account of every window, as Pool::Options wants them.
  static std::vector<int> Accounts(int lanes) {
    std::vector<int> accounts;
    for (int lane = 0; lane < lanes; ++lane) {
      for (int kind = 0; kind < kLaneWindowCount; ++kind)
        accounts.push_back(kind);
    }
    accounts.push_back(static_cast<int>(MemoryKind::kConstants));
    return accounts;
  }

  // Whether [address, address + bytes) shares a byte with a lane's window.
  bool Meets(DeviceAddress address, int64_t bytes) const { return lanes_.Meets(address, bytes); }
  bool Contains(DeviceAddress address) const { return lanes_.Meets(address, 1); }
  const AddressSpan& lanes() const { return lanes_; }  // All of these windows.
  // The same of the constants' window.
  bool MeetsConstants(DeviceAddress address, int64_t bytes) const {
    return constants_.Meets(address, bytes);
  }
  bool HoldsConstants(DeviceAddress address) const { return constants_.Meets(address, 1); }

  // The lane's window that holds `address`; nullopt outside the lanes.
  struct Place {
    int lane = 0;
    MemoryKind kind = MemoryKind::kPlan;
  };
  std::optional<Place> Locate(DeviceAddress address) const {
    if (!Contains(address)) return std::nullopt;
    const auto window =
        static_cast<int>((address - lanes_.start) / static_cast<DeviceAddress>(window_bytes_));
    return Place{.lane = window / kLaneWindowCount,
                 .kind = static_cast<MemoryKind>(window % kLaneWindowCount)};
  }

 private:
  int64_t window_bytes_;
  AddressSpan lanes_;
  AddressSpan constants_;
};

}  // namespace coppice::internal
