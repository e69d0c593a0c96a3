// Clocks of warps.

#include "runtime/emulator/ptx/order.h"

#include <algorithm>

namespace coppice::ptx {
namespace {

using Times = BlockOrder::Times;
using Knowledge = BlockOrder::Knowledge;

void Learn(Times& times, const Times& more) {
  for (size_t i = 0; i < times.size(); ++i)
    times[i] = std::max(times[i], more[i]);
}

void LearnFences(Knowledge& known, const Knowledge& more) {
  Learn(known.fenced, more.fenced);
  known.fenced_floor = std::max(known.fenced_floor, more.fenced_floor);
}

void Learn(Knowledge& known, const Knowledge& more) {
  Learn(known.seen, more.seen);
  LearnFences(known, more);
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
  if (!fenced_) return;
  Knowledge all;
  for (const Knowledge& known : known_)
    LearnFences(all, known);
  for (Knowledge& known : known_)
    LearnFences(known, all);
}

void BlockOrder::Arrive(uint32_t warp, Knowledge& barrier) {
  known_[warp].seen[warp] = time_;
  Learn(barrier, known_[warp]);
  told_ = time_;
}

void BlockOrder::Depart(uint32_t warp, const Knowledge& barrier) {
  Learn(known_[warp], barrier);
  met_[warp] = time_;
  told_ = time_;
}

void BlockOrder::MeetInWarp(uint32_t warp) {
  known_[warp].seen[warp] = time_;
  met_[warp] = time_;
  told_ = time_;
}

void BlockOrder::Release(uint32_t warp) {
  known_[warp].seen[warp] = time_;
  Learn(released_, known_[warp]);
  told_ = time_;
}

void BlockOrder::Acquire(uint32_t warp) {
  Learn(known_[warp], released_);
  met_[warp] = time_;
  told_ = time_;
}

void BlockOrder::FenceProxy(uint32_t warp) {
  Knowledge& known = known_[warp];
  Learn(known.fenced, known.seen);
  known.fenced[warp] = time_;
  known.fenced_floor = floor_;
  fenced_ = true;
  told_ = time_;
}

bool BlockOrder::IsFenced(Stamp stamp, uint32_t warp) const {
  const Knowledge& known = known_[warp];
  const uint32_t time = stamp.time();
  if (time < known.fenced_floor || lost_) return true;
  if (stamp.thread() == Stamp::kSeveral) return time <= *std::ranges::max_element(known.fenced);
  return time <= known.fenced[stamp.thread() / kLanes];
}

void GridOrder::Release(uint64_t block, uint32_t time) {
  if (records_.empty()) records_.resize(blocks_);
  ++releases_;
  Record& record = records_[block];
  if (record.first == 0) record.first = releases_;
  record.last_time = time;
}

}  // namespace coppice::ptx
