// A stream of random numbers that programs share, like torch.Generator for CUDA: a Philox4x32-10
// key and an offset into its numbers.
//
// A call takes its numbers when it runs, and its kernels read seed and offset from the parameter
// block, so a recorded graph draws different numbers in every replay. Two calls never draw the same
// numbers, even if they are of different programs. A call that is refused, or fails before all its
// work is launched, gives its numbers back, unless another call has taken numbers since.
//
// Units: an offset counts 32-bit numbers. Every call advances it by a multiple of four (one round
// of Philox), as PyTorch does (CUDAGeneratorImpl). Threads: any; calls that overlap take their
// numbers in some order. Call SetState and Seed only while no running call draws from the
// generator.

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
    int64_t offset = 0;  // Numbers used so far; a multiple of 4.
    friend bool operator==(const State&, const State&) = default;
  };

  static constexpr int64_t kRound = 4;  // Numbers.

  explicit Generator(uint64_t seed = 0) : seed_(seed) {}

  State GetState() const { return {seed_.load(kRelaxed), offset_.load(kRelaxed)}; }
  // Errors: kInvalidArgument  the offset is negative or not a multiple of 4.
  absl::Status SetState(const State& state);
  // Restarts at offset 0.
  void Seed(uint64_t seed);
  // An independent generator with this state.
  std::unique_ptr<Generator> Clone() const;

  // Takes `numbers` numbers, rounded up to whole rounds, and returns the state before them. Cost:
  // one atomic addition.
  State Take(int64_t numbers) {
    return {seed_.load(kRelaxed), offset_.fetch_add(RoundsOf(numbers), kRelaxed)};
  }
  // Undoes a Take of `numbers` numbers, if it was the last Take.
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
