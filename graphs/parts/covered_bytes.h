// How many bytes tensors cover together, where some lie on others. Private to graphs/.
//
// Units: bytes, device addresses. Threads: one at a time. Cost: O(log n) per stretch, and O(n) of
// those that lie in it; holds as many as have not been uncovered.

#pragma once

#include <cstdint>
#include <map>

#include "coppice/base/tensor.h"

namespace coppice::internal {

class CoveredBytes {
 public:
  // The bytes [begin, end) are covered once more. Requires: begin <= end.
  void Cover(DeviceAddress begin, DeviceAddress end);
  // ... once less. Allocates nothing. Requires: they were covered as this stretch.
  void Uncover(DeviceAddress begin, DeviceAddress end);

  // Bytes that are covered at least once.
  int64_t bytes() const { return bytes_; }
  // Places at which the count may change.
  size_t cuts() const { return cuts_.size(); }

 private:
  struct Cut {
    int64_t covers = 0;  // Of the bytes up to the next cut.
    int64_t ends = 0;    // Of stretches that are covered, and begin or end here.
  };
  using Cuts = std::map<DeviceAddress, Cut>;

  // The cut at `address`, made if there is none.
  Cuts::iterator CutAt(DeviceAddress address);
  // Counts the bytes between two cuts `by` more times.
  void Count(Cuts::iterator begin, Cuts::iterator end, int64_t by);
  void Drop(Cuts::iterator cut);  // If nothing ends there any more.

  Cuts cuts_;
  int64_t bytes_ = 0;
};

}  // namespace coppice::internal
