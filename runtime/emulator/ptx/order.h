// What is ordered before what inside a block, and between blocks.
//
// A block has a time, which passes where its threads meet. Of each access a *stamp* is kept: who,
// and at which time. For each warp it is known up to when it has seen each other: a barrier or an
// atomic operation told it. Lanes of one warp share what they know. All of it may take accesses for
// ordered that are not, and never the other way round.
//
// An access may be *together*: all lanes of a warp are at its instruction, and none has gone a way
// of its own since they met. What a warp does later is ordered after it.
//
// Threads: one thread runs a launch.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/emulator/ptx/code.h"

namespace coppice::ptx {

// Who accessed something, and when: in a block. 0: nobody.
class Stamp {
 public:
  static constexpr int kThreadBits = 12;
  static constexpr uint32_t kSeveral = 1024;   // Of threads: more than one.
  static constexpr uint32_t kUnderWay = 1025;  // A copy that has not landed.
  // Added to the thread's number; to kSeveral, if warps did it that were each together.
  static constexpr uint32_t kTogether = 2048;
  static constexpr uint32_t kTimeMax = (uint32_t{1} << (32 - kThreadBits)) - 1;

  constexpr Stamp() = default;
  constexpr explicit Stamp(uint32_t bits) : bits_(bits) {}
  constexpr Stamp(uint32_t time, uint32_t thread) : bits_(time << kThreadBits | thread) {}
  // Of bytes that a copy is about to write: later than everything.
  static constexpr Stamp UnderWay() { return {kTimeMax, kUnderWay}; }

  uint32_t bits() const { return bits_; }
  uint32_t time() const { return bits_ >> kThreadBits; }
  uint32_t thread() const { return bits_ & (kTogether - 1); }
  bool is_together() const { return (bits_ & kTogether) != 0; }
  bool is_under_way() const { return thread() == kUnderWay; }

 private:
  uint32_t bits_ = 0;
};

class BlockOrder {
 public:
  static constexpr int kWarps = 32;
  using Times = std::array<uint32_t, kWarps>;  // By warp.
  // What those who arrive at a barrier know: up to when they have seen each warp, and up to when
  // what it did is ordered before what the async proxy does later. All was fenced that was done
  // before `fenced_floor`.
  struct Knowledge {
    Times seen = {};
    Times fenced = {};
    uint32_t fenced_floor = 0;
  };

  void Start();

  // The time of an access that is made now; none of before is ordered after it.
  uint32_t Now() {
    if (told_ >= time_) Pass();
    return time_;
  }
  // Whether what has this stamp is ordered before what a thread of a warp does now.
  bool IsBefore(Stamp stamp, uint32_t warp, uint32_t thread) const {
    const uint32_t time = stamp.time();
    if (time < floor_ || stamp.thread() == thread || lost_) return true;
    if (stamp.is_under_way()) return false;
    if (stamp.thread() == Stamp::kSeveral) return time <= met_[warp];
    if (stamp.is_together() && stamp.thread() / kLanes == warp) return true;
    return time <= known_[warp].seen[stamp.thread() / kLanes];
  }
  // A time after which nothing is ordered before what the warp does now, but what its own thread
  // did.
  uint32_t KnownTo(uint32_t warp) const {
    return std::max(met_[warp], *std::ranges::max_element(known_[warp].seen));
  }
  // Stamps below are ordered before everything.
  uint32_t floor_bits() const { return lost_ ? ~uint32_t{0} : floor_ << Stamp::kThreadBits; }
  uint32_t time() const { return time_; }

  // All threads of the block have met.
  void MeetAll();
  // Some have: each tells what it knows, and those that wait learn it.
  void Arrive(uint32_t warp, Knowledge& barrier);
  void Depart(uint32_t warp, const Knowledge& barrier);
  void MeetInWarp(uint32_t warp);
  // What the warp did, and knows of, is ordered before what the async proxy does for those that
  // know of this. IsFenced: whether what has a stamp is, for a warp.
  void FenceProxy(uint32_t warp);
  bool IsFenced(Stamp stamp, uint32_t warp) const;
  // An operation that others may see, and one that may see those of others.
  void Release(uint32_t warp);
  void Acquire(uint32_t warp);

 private:
  void Pass();

  uint32_t time_ = 1;
  uint32_t told_ = 0;                         // What was done up to then, somebody knows.
  uint32_t floor_ = 1;                        // What was done before, all know.
  bool lost_ = false;                         // More time has passed than stamps can say.
  std::array<Knowledge, kWarps> known_ = {};  // By warp: up to when it knows each other.
  Times met_ = {};                            // When each met somebody last.
  Knowledge released_ = {};
  bool fenced_ = false;  // Some warp has fenced the async proxy.
};

// Of blocks: each releases what it did, and acquires what others have released before.
class GridOrder {
 public:
  explicit GridOrder(uint64_t blocks) : blocks_(blocks) {}

  // Requires `time` to be that of the block's order.
  void Release(uint64_t block, uint32_t time);
  // The argument of IsBefore for what the block does from now on.
  uint64_t Acquire() const { return releases_; }
  uint64_t releases() const { return releases_; }
  // Whether what `block` did at `time` is ordered before what one does that has acquired.
  bool IsBefore(uint64_t block, uint32_t time, uint64_t acquired) const {
    if (records_.empty()) return false;
    const Record& record = records_[block];
    return record.first != 0 && record.first <= acquired && time <= record.last_time;
  }

 private:
  struct Record {
    uint64_t first = 0;      // Which release was the block's first.
    uint32_t last_time = 0;  // Of its last.
  };

  uint64_t blocks_;
  uint64_t releases_ = 0;
  std::vector<Record> records_;  // Empty until the first release.
};

}  // namespace coppice::ptx
