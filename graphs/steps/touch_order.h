// Which steps must wait for which, by the bytes that they touch. Private to graphs/.
//
// A step that reads bytes comes after the step that wrote them last; one that writes comes after
// that step and after all that have read them since. Addresses are all that counts, so that buffers
// of a plan which share bytes at different times are kept apart by the same rule. An order that
// follows from others is left out.
//
// Units: bytes; steps by number, from 0. Threads: one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coppice/runtime/driver.h"

#include "graphs/program/step_source.h"

namespace coppice::internal {

class TouchOrder {
 public:
  // Adds the next step and returns the earlier ones that it has to wait for, ascending, none of
  // which waits for another of them; valid until the next one is added. Cost: per range touched,
  // O(log(ranges)), and a move of those behind it where it is divided; per step waited for,
  // O(steps / 64).
  const std::vector<int>& Add(std::span<const Touch> touched);

  int steps() const { return steps_; }

 private:
  struct Range {
    DeviceAddress begin = 0;
    DeviceAddress end = 0;
    int writer = -1;
    int readers = -1;  // The latest since it was written, of readers_.
  };
  // Lists that share their ends, so that a range that is divided copies none.
  struct Reader {
    int step = 0;
    int before = -1;  // The reader before it.
  };

  // Makes ranges begin and end at these addresses, and covers what lies between. Returns the first
  // of them.
  size_t Cover(DeviceAddress begin, DeviceAddress end);
  // Whether `later` waits for `step`, perhaps through others.
  bool IsBehind(int later, int step) const;
  void DropImplied();
  void NoteAncestors(int step);

  int steps_ = 0;
  std::vector<Range> ranges_;  // Disjoint, ascending.
  std::vector<Reader> readers_;
  std::vector<uint64_t> ancestors_;  // Per step, a bit for each one before it.
  std::vector<int> after_;           // What Add returns.
};

}  // namespace coppice::internal
