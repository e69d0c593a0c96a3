// An mbarrier, as the 64-bit word that it is in shared memory.
//
//   bits   0..19  arrivals that the phase waits for
//         20..39  arrivals that the next phase waits for
//         40..60  bytes that the phase waits for, two's complement: the ISA's tx-count
//             61  parity of the phase
//
// A phase is complete when it waits for nothing. What mbarrier.arrive returns, the state, is the
// word before the arrival.
//
// Threads: plain functions.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace coppice::ptx {

class Mbarrier {
 public:
  static constexpr uint32_t kCountMax = (uint32_t{1} << 20) - 1;

  explicit Mbarrier(uint64_t word) : word_(word) {}
  static Mbarrier Of(uint32_t count) { return Mbarrier((count & kCounts) * (kOne + kNextOne)); }

  uint64_t word() const { return word_; }
  uint32_t pending() const { return static_cast<uint32_t>(word_ & kCounts); }
  bool parity() const { return (word_ >> 61 & 1) != 0; }

  void Arrive(uint32_t count) {
    word_ = (word_ & ~kCounts) | ((word_ - count) & kCounts);
    CompletePhase();
  }
  // One arrival more in this phase.
  void Expect() { word_ = (word_ & ~kCounts) | ((word_ + kOne) & kCounts); }
  // Arrives, and is not waited for in later phases.
  void Drop(uint32_t count) {
    word_ = (word_ & ~(kCounts << 20)) | ((word_ - count * kNextOne) & (kCounts << 20));
    Arrive(count);
  }
  // The phase waits for so many bytes more, or fewer.
  void ExpectBytes(uint32_t bytes) { AddBytes(bytes); }
  void CompleteBytes(uint32_t bytes) {
    AddBytes(0 - uint64_t{bytes});
    CompletePhase();
  }

 private:
  static constexpr uint64_t kCounts = kCountMax;
  static constexpr uint64_t kOne = 1;
  static constexpr uint64_t kNextOne = uint64_t{1} << 20;
  static constexpr uint64_t kBytes = ((uint64_t{1} << 21) - 1) << 40;

  void AddBytes(uint64_t bytes) { word_ = (word_ & ~kBytes) | ((word_ + (bytes << 40)) & kBytes); }
  void CompletePhase() {
    if ((word_ & (kCounts | kBytes)) != 0) return;
    word_ = (word_ ^ uint64_t{1} << 61) | (word_ >> 20 & kCounts);
  }

  uint64_t word_;
};

// Which words of a block's shared memory are mbarriers, by offset: those that threads have
// initialized and not invalidated. No other word may be used as one.
class Mbarriers {
 public:
  void Init(uint64_t offset) {
    if (!Has(offset)) offsets_.push_back(offset);
  }
  void Inval(uint64_t offset) { std::erase(offsets_, offset); }
  bool Has(uint64_t offset) const {
    return std::find(offsets_.begin(), offsets_.end(), offset) != offsets_.end();
  }
  void Drop() { offsets_.clear(); }

 private:
  std::vector<uint64_t> offsets_;
};

}  // namespace coppice::ptx
