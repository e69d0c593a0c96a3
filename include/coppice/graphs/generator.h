// A stream of random numbers that programs share, as torch.Generator is for CUDA: a Philox4x32-10
// key and how far its counter has come.
//
// A call takes its numbers when it runs and reads seed and offset from its parameter block, so a
// recorded graph draws other numbers with every replay. Two calls never draw the same ones, be they
// of one program or of several; a call that is refused or fails before its work is all launched
// gives back what it took, unless another has taken numbers since.
//
// Units: an offset counts 32-bit numbers. Every call advances it by a multiple of four, one round
// of Philox, as PyTorch does (CUDAGeneratorImpl). Threads: any; calls that overlap take theirs in
// some order. SetState and Seed while no call under way draws from it.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"

namespace coppice {

class Generator {
 public:
  struct State {
    uint64_t seed = 0;
    int64_t offset = 0;  // Numbers that are used up; a multiple of 4.
    friend bool operator==(const State&, const State&) = default;
  };

  static constexpr int64_t kRound = 4;  // Numbers.

  explicit Generator(uint64_t seed = 0) : seed_(seed) {}

  State GetState() const { return {seed_.load(kRelaxed), offset_.load(kRelaxed)}; }
  // Errors: kInvalidArgument  an offset that is negative or no multiple of 4.
  absl::Status SetState(const State& state);
  // Restarts at offset 0.
  void Seed(uint64_t seed);
  // One that goes on from this state by itself.
  std::unique_ptr<Generator> Clone() const;

  // The state of a call that uses up so many numbers, rounded up to whole rounds. Cost: one atomic
  // addition.
  State Take(int64_t numbers) {
    return {seed_.load(kRelaxed), offset_.fetch_add(RoundsOf(numbers), kRelaxed)};
  }
  // Undoes a Take of as many numbers, if it was the last one.
  void GiveBack(const State& taken, int64_t numbers);

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

  static constexpr int64_t RoundsOf(int64_t numbers) {
    return (numbers + kRound - 1) / kRound * kRound;
  }

  std::atomic<uint64_t> seed_;
  std::atomic<int64_t> offset_ = 0;
};

}  // namespace coppice
