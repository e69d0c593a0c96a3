// Clocks of warps.

#include "runtime/emulator/ptx/order.h"

#include <algorithm>

namespace coppice::ptx {
namespace {

void Learn(BlockOrder::Knowledge& known, const BlockOrder::Knowledge& more) {
  for (size_t i = 0; i < known.size(); ++i)
    known[i] = std::max(known[i], more[i]);
}

}  // namespace

void BlockOrder::Start() {
  *this = {};
}

void BlockOrder::Pass() {
  if (time_ == Stamp::kTimeMax) {
    lost_ = true;
    return;
  }
  ++time_;
}

void BlockOrder::MeetAll() {
  floor_ = time_ + 1;
  told_ = time_;
}

void BlockOrder::Arrive(uint32_t warp, Knowledge& barrier) {
  known_[warp][warp] = time_;
  Learn(barrier, known_[warp]);
  told_ = time_;
}

void BlockOrder::Depart(uint32_t warp, const Knowledge& barrier) {
  Learn(known_[warp], barrier);
  met_[warp] = time_;
  told_ = time_;
}

void BlockOrder::MeetInWarp(uint32_t warp) {
  known_[warp][warp] = time_;
  met_[warp] = time_;
  told_ = time_;
}

void BlockOrder::Release(uint32_t warp) {
  known_[warp][warp] = time_;
  Learn(released_, known_[warp]);
  told_ = time_;
}

void BlockOrder::Acquire(uint32_t warp) {
  Learn(known_[warp], released_);
  met_[warp] = time_;
  told_ = time_;
}

void BlockOrder::FenceProxy(uint32_t warp) {
  if (fences_.empty()) fences_.resize(kWarps);
  fences_[warp] = {.time = time_, .floor = floor_, .known = known_[warp]};
  told_ = time_;
}

bool BlockOrder::IsBehind(const Fence& fence, uint32_t of, Stamp stamp) const {
  const uint32_t time = stamp.time();
  if (time < fence.floor) return true;
  const uint32_t warp = stamp.thread() / kLanes;
  if (stamp.thread() == Stamp::kSeveral || warp == of) return time <= fence.time;
  return time <= fence.known[warp];
}

bool BlockOrder::IsFenced(Stamp stamp, uint32_t warp) const {
  if (lost_) return true;
  if (fences_.empty()) return false;
  const auto fenced_by = [&](uint32_t other) {
    const Fence& fence = fences_[other];
    return fence.time != 0 && IsBehind(fence, other, stamp);
  };
  if (fenced_by(warp)) return true;
  for (uint32_t other = 0; other < kWarps; ++other) {
    const uint32_t time = fences_[other].time;
    if ((time < floor_ || time <= known_[warp][other]) && fenced_by(other)) return true;
  }
  return false;
}

void GridOrder::Release(uint64_t block, uint32_t time) {
  if (records_.empty()) records_.resize(blocks_);
  ++releases_;
  Record& record = records_[block];
  if (record.first == 0) record.first = releases_;
  record.last_time = time;
}

}  // namespace coppice::ptx
