// The least of a window of lines, asked at rising places. Private to graphs/padding/.
//
// Line i is height[i] - slope[i] * x. Lines come in at the end, their slopes not falling, and leave
// at the beginning; x does not fall. The window is two envelopes: the later one grows at its end
// only, as lines come; the earlier one was built from its end to its beginning, each line noting
// what it hid, so that leaving lines uncover that again.
//
// Threads: one at a time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace coppice {

class LineEnvelope {
 public:
  // Requires: both live, with an entry for every line that is pushed, written before.
  LineEnvelope(const std::vector<double>& slope, const std::vector<double>& height);

  // Takes line `index` in: the one after the last. Cost: O(1) amortised.
  void Push(int32_t index);
  // Lets go of the lines below `index`, which is in the window. Cost: O(log lines) amortised.
  void DropBelow(int32_t index);
  // The line that is least at `x`. Cost: O(log lines) if lines have been dropped, else O(1)
  // amortised.
  int32_t Find(double x);

 private:
  struct Hidden {
    int32_t position = 0;
    int32_t index = 0;
    int32_t size = -1;  // -1: the line hid nothing, as it is hidden itself.
  };

  double At(int32_t index, double x) const { return height_[index] - slope_[index] * x; }
  // Whether `middle` is nowhere the least of three lines of rising slope.
  bool IsHidden(int32_t low, int32_t middle, int32_t high) const;
  void Uncover(int32_t index);
  void Rebuild(int32_t first);
  void PushEarlier(int32_t index);

  const std::vector<double>& slope_;
  const std::vector<double>& height_;
  int32_t first_ = 0;       // Of the window.
  int32_t end_ = 0;         // Behind the last line.
  int32_t later_from_ = 0;  // The first line of the later envelope.
  std::vector<int32_t> later_;
  size_t later_head_ = 0;
  std::vector<int32_t> earlier_;  // From the last line to the first; what is behind size is stale.
  int32_t earlier_size_ = 0;
  std::vector<Hidden> hidden_;  // By line of the earlier one, from its last to its first.
};

}  // namespace coppice
