// Which steps must wait for which, by the bytes that they touch. Private to graphs/.
//
// A step that reads bytes comes after the step that wrote them last; one that writes comes after
// that step and after all that have read them since. Addresses are all that counts, so that buffers
// of a plan which share bytes at different times are kept apart by the same rule. An order that
// follows from others is left out.
//
// Units: bytes; steps by number, from 0. Threads: one.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"

#include "coppice/runtime/driver.h"

#include "graphs/program/step_source.h"

namespace coppice::internal {

class TouchOrder {
 public:
  // Adds the next step and returns the earlier ones that it has to wait for, ascending, none of
  // which waits for another of them. Cost: O(touched * log(ranges)) and, per step waited for,
  // O(steps / 64); allocates.
  std::vector<int> Add(std::span<const Touch> touched);

  int steps() const { return static_cast<int>(ancestors_.size()); }

 private:
  // Bytes from a key of the map to `end`.
  struct Range {
    DeviceAddress end = 0;
    int writer = -1;
    absl::InlinedVector<int, 2> readers;  // Since it was written, ascending.
  };
  using Ranges = std::map<DeviceAddress, Range>;

  // Makes ranges begin and end at these addresses, and covers what lies between.
  void Cover(DeviceAddress begin, DeviceAddress end);
  void SplitAt(DeviceAddress address);
  std::vector<int> WithoutImplied(std::vector<int> after) const;

  Ranges ranges_;                                 // Disjoint.
  std::vector<std::vector<uint64_t>> ancestors_;  // Per step, a bit for each one before it.
};

}  // namespace coppice::internal
