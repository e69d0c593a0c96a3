// A map by offset.

#include "tools/prof/export/viz_window.h"

#include <iterator>
#include <utility>

namespace coppice {

void VizWindow::Map(int64_t time, int64_t bytes) {
  if (bytes == bytes_) return;
  const auto put = [&](VizAction action, int64_t of) {
    events().push_back({.action = action, .address = kAddress, .bytes = of, .time_us = time});
  };
  if (bytes_ > 0) put(VizAction::kSegmentFree, bytes_);
  if (bytes > 0) put(VizAction::kSegmentAlloc, bytes);
  bytes_ = bytes;
}

void VizWindow::Alloc(int64_t offset, VizEvent event) {
  auto at = uses_.lower_bound(offset);
  if (at != uses_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second.bytes > offset) at = before;
  }
  while (at != uses_.end() && at->first < offset + event.bytes) {
    const auto next = std::next(at);
    End(event.time_us, at);
    at = next;
  }
  event.action = VizAction::kAlloc;
  event.address = kAddress + offset;
  uses_[offset] = {event.bytes, ++token_, event.frame, event.stream};
  events().push_back(event);
}

void VizWindow::Free(int64_t time, int64_t offset, int64_t token) {
  const auto at = uses_.find(offset);
  if (at != uses_.end() && at->second.token == token) End(time, at);
}

int64_t VizWindow::TokenAt(int64_t offset) const {
  const auto at = uses_.find(offset);
  return at == uses_.end() ? 0 : at->second.token;
}

bool VizWindow::IsFree(int64_t begin, int64_t end) const {
  const auto next = uses_.lower_bound(begin);
  if (next != uses_.end() && next->first < end) return false;
  return next == uses_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= begin;
}

void VizWindow::End(int64_t time, Uses::iterator at) {
  events().push_back({.action = VizAction::kFree,
                      .stream = at->second.stream,
                      .address = kAddress + at->first,
                      .bytes = at->second.bytes,
                      .time_us = time});
  uses_.erase(at);
}

void VizWindow::Close(int pool) {
  if (bytes_ == 0) return;
  VizSegment segment = {.device = device_, .pool = pool, .address = kAddress};
  int64_t top = 0;
  for (const auto& [offset, used] : uses_) {
    if (offset > top) segment.blocks.push_back({.bytes = offset - top});
    segment.blocks.push_back({used.bytes, true, used.frame});
    top = offset + used.bytes;
  }
  if (bytes_ > top) segment.blocks.push_back({.bytes = bytes_ - top});
  snapshot_.segments.push_back(std::move(segment));
}

}  // namespace coppice
