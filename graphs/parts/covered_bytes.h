// How many bytes tensors cover together, where some lie on others. Private to graphs/.
//
// Units: bytes, device addresses. Threads: one at a time. Cost: O(log n) per stretch, and O(n) of
// those that lie in it.

#pragma once

#include <cstdint>
#include <map>

#include "coppice/base/tensor.h"

namespace coppice::internal {

class CoveredBytes {
 public:
  // The bytes [begin, end) are covered once more. Requires: begin <= end.
  void Cover(DeviceAddress begin, DeviceAddress end) { Change(begin, end, 1); }
  // ... once less. Requires: they were covered.
  void Uncover(DeviceAddress begin, DeviceAddress end) { Change(begin, end, -1); }

  // Bytes that are covered at least once.
  int64_t bytes() const { return bytes_; }

 private:
  using Counts = std::map<DeviceAddress, int64_t>;

  void Change(DeviceAddress begin, DeviceAddress end, int64_t by);
  // The stretch that begins at `address`, cut from the one around it.
  Counts::iterator CutAt(DeviceAddress address);
  // Drops a stretch that continues the one before it.
  void Join(Counts::iterator stretch);

  Counts counts_;  // How often bytes are covered, from each key to the next; 0 before the first.
  int64_t bytes_ = 0;
};

}  // namespace coppice::internal
