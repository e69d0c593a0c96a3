// Envelopes of lines: a hull that grows at one end, and one that is undone line by line.

#include "graphs/padding/line_envelope.h"

namespace coppice {

LineEnvelope::LineEnvelope(const std::vector<double>& slope, const std::vector<double>& height)
    : slope_(slope), height_(height) {
  later_.reserve(slope.size());
}

bool LineEnvelope::IsHidden(int32_t low, int32_t middle, int32_t high) const {
  return (height_[high] - height_[low]) * (slope_[middle] - slope_[low]) <=
         (height_[middle] - height_[low]) * (slope_[high] - slope_[low]);
}

void LineEnvelope::Push(int32_t index) {
  end_ = index + 1;
  if (later_.size() > later_head_ && slope_[later_.back()] == slope_[index]) {
    if (height_[later_.back()] < height_[index]) return;
    later_.pop_back();
  }
  while (later_.size() > later_head_ + 1 &&
         IsHidden(later_[later_.size() - 2], later_.back(), index))
    later_.pop_back();
  later_.push_back(index);
}

void LineEnvelope::DropBelow(int32_t index) {
  if (index > later_from_) return Rebuild(index);
  for (; first_ < index; ++first_)
    Uncover(first_);
}

void LineEnvelope::Uncover(int32_t index) {
  const Hidden& hidden = hidden_[static_cast<size_t>(later_from_ - 1 - index)];
  if (hidden.size < 0) return;
  earlier_[static_cast<size_t>(hidden.position)] = hidden.index;
  earlier_size_ = hidden.size;
}

void LineEnvelope::Rebuild(int32_t first) {
  first_ = first;
  later_from_ = end_;
  later_.clear();
  later_head_ = 0;
  const auto lines = static_cast<size_t>(end_ - first);
  hidden_.clear();
  earlier_size_ = 0;
  if (earlier_.size() < lines) earlier_.resize(lines);
  for (int32_t index = end_ - 1; index >= first; --index)
    PushEarlier(index);
}

void LineEnvelope::PushEarlier(int32_t index) {
  const auto line = [this](int32_t at) { return earlier_[static_cast<size_t>(at)]; };
  int32_t kept = earlier_size_;
  if (kept > 0 && slope_[line(kept - 1)] == slope_[index]) {
    // Hidden as long as it is here, because the other leaves later.
    if (height_[line(kept - 1)] <= height_[index]) {
      hidden_.push_back({});
      return;
    }
    --kept;
  }
  // How many from the end of the envelope it hides: all up to a place.
  int32_t low = kept < 1 ? kept : 1;
  int32_t high = kept;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (IsHidden(index, line(middle), line(middle - 1)))
      high = middle;
    else
      low = middle + 1;
  }
  hidden_.push_back({.position = low,
                     .index = low < static_cast<int32_t>(earlier_.size()) ? line(low) : 0,
                     .size = earlier_size_});
  earlier_[static_cast<size_t>(low)] = index;
  earlier_size_ = low + 1;
}

int32_t LineEnvelope::Find(double x) {
  int32_t best = -1;
  if (first_ < later_from_) {
    // Lines further back in the envelope are the least at smaller places.
    int32_t low = 0;
    int32_t high = earlier_size_ - 1;
    while (low < high) {
      const int32_t middle = low + (high - low) / 2;
      if (At(earlier_[static_cast<size_t>(middle)], x) <
          At(earlier_[static_cast<size_t>(middle) + 1], x))
        high = middle;
      else
        low = middle + 1;
    }
    best = earlier_[static_cast<size_t>(low)];
  }
  if (later_head_ < later_.size()) {
    while (later_head_ + 1 < later_.size() &&
           At(later_[later_head_ + 1], x) < At(later_[later_head_], x))
      ++later_head_;
    const int32_t later = later_[later_head_];
    if (best < 0 || At(later, x) < At(best, x)) best = later;
  }
  return best;
}

}  // namespace coppice
