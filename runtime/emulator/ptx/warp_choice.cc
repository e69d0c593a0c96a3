// Which fragment runs, and for how long.

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {
namespace {

// In executed instructions: how long the usual choice holds while there are several fragments, and
// how long the one that waited longest runs then. Critical sections are short, and lanes that run
// ahead meet the others late.
constexpr int64_t kTurn = 2048;
constexpr int64_t kFairTurn = 256;
// The last instructions of a quantum, which may end between any two of them.
constexpr int64_t kExactEnd = 512;

// A fragment is watched after so many instructions, for so many choices at most.
constexpr int64_t kWatchPause = 512;
constexpr int64_t kWatchPauseMax = 1 << 16;
constexpr int kWatchChances = 64;
constexpr int kWatchCompares = 3;

constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // Spreads bits over a word.

}  // namespace

void ResidentWarp::BeginRun(int64_t instructions) {
  end_at_ = executed_ + instructions;
  turn_end_ = executed_ + kTurn;
  fair_turn_ = false;
  WatchLater(kWatchPause);
  check_at_ = 0;
  for (int i = 0; i < count_; ++i)
    fragments_[static_cast<size_t>(i)].resting = false;
  running_ = -1;
}

void ResidentWarp::Enter(int index, const Instr* stop) {
  running_ = index;
  stop_ = stop;
  Fragment& fragment = Running();
  active_ = mask_ = fragment.mask;
  active_lanes_ = active_ == kAllLanes ? kLanes : std::popcount(active_);
  if (fragment.frame != frame_) EnterFrame(*fragment.frame);
  run_begin_ = frame_->code->instrs.data() + fragment.pc;
}

bool ResidentWarp::ChooseOfMany() {
  if (executed_ >= end_at_) {
    rest_ = count_ == 0 ? Rest::kDone : Rest::kQuantum;
    return false;
  }
  JoinReady();
  if (running_ >= 0 && executed_ >= watch_.from) LookForSpinning();
  const int chosen = PickReady();
  if (chosen < 0) {
    rest_ = WhyNoneRuns();
    return false;
  }
  Fragment& fragment = fragments_[static_cast<size_t>(chosen)];
  fragment.last_turn = executed_;
  const int64_t left = end_at_ - executed_;
  check_at_ = left <= kExactEnd ? 0 : std::min(end_at_, watch_.from);
  Enter(chosen, StopOf(fragment, left));
  return true;
}

Rest ResidentWarp::WhyNoneRuns() {
  if (count_ == 0) return Rest::kDone;
  bool ready = false;
  for (int i = 0; i < count_; ++i) {
    const Fragment& fragment = fragments_[static_cast<size_t>(i)];
    if (fragment.state != Fragment::State::kReady) continue;
    if (!fragment.spinning) return Rest::kSlept;
    ready = true;
  }
  if (!ready) return Rest::kWaiting;
  // A lane may have left its loop and come back to it; then a register of it tells.
  const uint64_t now = StateFingerprint();
  const bool seen = std::find(seen_.begin(), seen_.end(), now) != seen_.end();
  seen_[seen_count_++ % seen_.size()] = now;
  return seen ? Rest::kSpinning : Rest::kSlept;
}

uint64_t ResidentWarp::StateFingerprint() const {
  uint64_t sum = 0;  // Of parts in any order: fragments change places.
  for (int i = 0; i < count_; ++i) {
    const Fragment& fragment = fragments_[static_cast<size_t>(i)];
    const uint64_t where = uint64_t{fragment.mask} << 32 | fragment.pc;
    sum += (where ^ reinterpret_cast<uint64_t>(fragment.frame)) * kFactor;
    const auto same_frame = [&fragment](const Fragment& before) {
      return before.frame == fragment.frame;
    };
    if (std::none_of(fragments_.begin(), fragments_.begin() + i, same_frame))
      sum += Fingerprint(*fragment.frame);
  }
  return sum;
}

void ResidentWarp::JoinReady() {
  for (int i = 0; i < count_; ++i) {
    Fragment& kept = fragments_[static_cast<size_t>(i)];
    if (kept.state != Fragment::State::kReady) continue;
    for (int j = count_ - 1; j > i; --j) {
      const Fragment& other = fragments_[static_cast<size_t>(j)];
      if (other.state != Fragment::State::kReady || other.pc != kept.pc ||
          other.frame != kept.frame)
        continue;
      kept.mask |= other.mask;
      kept.resting = kept.resting && other.resting;
      kept.spinning = kept.spinning && other.spinning;
      if (running_ == j) running_ = i;
      Remove(j);
    }
  }
}

int ResidentWarp::PickReady() {
  const auto runs = [this](int i) {
    const Fragment& fragment = fragments_[static_cast<size_t>(i)];
    return fragment.state == Fragment::State::kReady && !fragment.resting;
  };
  const bool turn_ends = executed_ >= turn_end_;
  if (turn_ends) {
    fair_turn_ = !fair_turn_;
    turn_end_ = executed_ + (fair_turn_ ? kFairTurn : kTurn);
  } else if (fair_turn_ && running_ >= 0 && runs(running_)) {
    return running_;
  }
  int best = -1;
  // Ascending: the fragment with the least is chosen.
  std::pair<int64_t, uint32_t> best_rank;
  for (int i = 0; i < count_; ++i) {
    if (!runs(i)) continue;
    const Fragment& fragment = fragments_[static_cast<size_t>(i)];
    const std::pair<int64_t, uint32_t> rank =
        turn_ends && fair_turn_ ? std::pair(fragment.last_turn, fragment.pc)
                                : std::pair(-int64_t{fragment.frame->depth}, fragment.pc);
    if (best >= 0 && rank >= best_rank) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}

const Instr* ResidentWarp::StopOf(const Fragment& fragment, int64_t left) const {
  uint32_t stop = std::numeric_limits<uint32_t>::max();
  if (left <= kExactEnd && left < std::ssize(fragment.frame->code->instrs) - fragment.pc)
    stop = fragment.pc + static_cast<uint32_t>(left);
  for (int i = 0; i < count_; ++i) {
    const Fragment& other = fragments_[static_cast<size_t>(i)];
    if (other.frame == fragment.frame && other.pc > fragment.pc) stop = std::min(stop, other.pc);
  }
  if (stop == std::numeric_limits<uint32_t>::max()) return nullptr;
  return fragment.frame->code->instrs.data() + stop;
}

// Registers that are the same when the same lanes come by again have nothing new to tell: what they
// read has not changed. Counters and clocks do change; what spins with them runs for its quantum.
void ResidentWarp::LookForSpinning() {
  Fragment& fragment = Running();
  if (fragment.state != Fragment::State::kReady || fragment.resting) return;
  if (watch_.chances == 0) {
    watch_.chances = kWatchChances;
    watch_.compares = kWatchCompares;
    watch_.fragment = fragment;
    watch_.fingerprint = Fingerprint(*fragment.frame);
    return;
  }
  --watch_.chances;
  const Fragment& seen = watch_.fragment;
  if (fragment.pc == seen.pc && fragment.frame == seen.frame && fragment.mask == seen.mask) {
    const uint64_t fingerprint = Fingerprint(*fragment.frame);
    if (fingerprint == watch_.fingerprint) {
      fragment.resting = fragment.spinning = true;
      WatchLater(kWatchPause);
      return;
    }
    watch_.fingerprint = fingerprint;
    if (--watch_.compares == 0) watch_.chances = 0;
  }
  if (watch_.chances != 0) return;
  WatchLater(std::min(2 * watch_.pause, kWatchPauseMax));
}

void ResidentWarp::WatchLater(int64_t pause) {
  watch_.pause = pause;
  watch_.from = executed_ + pause;
  watch_.chances = 0;
}

uint64_t ResidentWarp::Fingerprint(const Frame& frame) const {
  std::array<uint64_t, 4> sums = {1, 2, 3, 4};
  const int64_t bytes = frame.code->frame_bytes & ~int64_t{31};
  for (int64_t at = 0; at < bytes; at += 32) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), frame.registers + at, sizeof(words));
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = (sums[i] ^ words[i]) * kFactor;
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums)
    sum = (sum ^ part ^ (part >> 29)) * kFactor;
  for (int64_t at = bytes; at < frame.code->frame_bytes; at += 4) {
    uint32_t word;
    std::memcpy(&word, frame.registers + at, sizeof(word));
    sum = (sum ^ word) * kFactor;
  }
  return sum;
}

}  // namespace coppice::ptx
