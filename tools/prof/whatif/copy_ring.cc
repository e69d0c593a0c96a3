// The ring of a lane's slots, without the slots.

#include "tools/prof/whatif/copy_ring.h"

#include <deque>
#include <unordered_set>

namespace coppice {
namespace {

class CopyRing {
 public:
  explicit CopyRing(int64_t bytes) : bytes_(bytes) {}

  bool Take(int call, int64_t bytes) {
    while (!copies_.empty() && dropped_.erase(copies_.front().call) > 0)
      copies_.pop_front();
    if (copies_.empty()) head_ = 0;
    const int64_t tail = copies_.empty() ? bytes_ : copies_.front().offset;
    const bool wrapped = !copies_.empty() && head_ <= tail;
    int64_t offset = head_;
    if (!wrapped && offset + bytes > bytes_) {
      if (copies_.empty() || bytes > tail) return false;
      offset = 0;
    } else if (wrapped && offset + bytes > tail) {
      return false;
    }
    copies_.push_back({.call = call, .offset = offset});
    head_ = offset + bytes;
    return true;
  }
  void Drop(int call) { dropped_.insert(call); }

 private:
  struct Copy {
    int call = 0;
    int64_t offset = 0;
  };

  const int64_t bytes_;
  int64_t head_ = 0;
  std::deque<Copy> copies_;
  std::unordered_set<int> dropped_;
};

bool Holds(const std::vector<CopyStep>& steps, int64_t bytes) {
  CopyRing ring(bytes);
  for (const CopyStep& step : steps) {
    if (step.bytes < 0)
      ring.Drop(step.call);
    else if (step.bytes > 0 && !ring.Take(step.call, step.bytes))
      return false;
  }
  return true;
}

}  // namespace

int64_t LeastRing(const std::vector<CopyStep>& steps, int64_t granularity) {
  int64_t most = 1;  // Granules.
  while (!Holds(steps, most * granularity))
    most *= 2;
  int64_t least = most / 2;  // Too few, unless it is 0.
  while (most - least > 1) {
    const int64_t middle = least + (most - least) / 2;
    (Holds(steps, middle * granularity) ? most : least) = middle;
  }
  return most * granularity;
}

}  // namespace coppice
