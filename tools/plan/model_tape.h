// Writes down when a program requests and releases memory, and turns that into lifetimes.
//
// Every request and every release is a step of its own, so that the inputs of an operation overlap
// with its outputs. What is never released lives to the end of the program.
//
// Units: bytes and steps. Threads: one at a time per tape.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "coppice/allocator/plan.h"

namespace coppice {

// Of one value.
inline constexpr int64_t kHalfBytes = 2;
inline constexpr int64_t kFloatBytes = 4;
inline constexpr int64_t kLongBytes = 8;

class ModelTape {
 public:
  using Id = int64_t;
  static constexpr Id kNone = -1;  // May be released, to no effect.

  Id New(int64_t bytes) {
    buffers_.push_back({.lifetime = {Interval{.lower = step_++, .upper = 0}},
                        .bytes = std::max<int64_t>(bytes, 1)});
    return static_cast<Id>(buffers_.size()) - 1;
  }

  // Releases one after the other.
  template <typename... Ids>
  void Free(Ids... ids) {
    (FreeOne(ids), ...);
  }

  int64_t bytes(Id id) const { return buffers_[static_cast<size_t>(id)].bytes; }

  // The buffers in order of request. The tape is empty afterwards.
  std::vector<Buffer> Finish() {
    const int64_t end = step_ + 1;
    step_ = 0;
    for (Buffer& buffer : buffers_)
      if (buffer.lifetime[0].upper == 0) buffer.lifetime[0].upper = end;
    return std::exchange(buffers_, {});
  }

 private:
  void FreeOne(Id id) {
    if (id != kNone) buffers_[static_cast<size_t>(id)].lifetime[0].upper = step_++;
  }

  std::vector<Buffer> buffers_;
  int64_t step_ = 0;
};

}  // namespace coppice
