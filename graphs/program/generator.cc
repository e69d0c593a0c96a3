// What a generator does off the replay path.

#include "coppice/graphs/generator.h"

#include "coppice/base/status.h"

namespace coppice {

absl::Status Generator::SetState(const State& state) {
  if (state.offset < 0 || state.offset % kRound != 0) {
    return InvalidArgument(
        "Generator::SetState: the offset is {}; use a multiple of {} that is 0 or more",
        state.offset, kRound);
  }
  seed_.store(state.seed, kRelaxed);
  offset_.store(state.offset, kRelaxed);
  return absl::OkStatus();
}

void Generator::Seed(uint64_t seed) {
  seed_.store(seed, kRelaxed);
  offset_.store(0, kRelaxed);
}

std::unique_ptr<Generator> Generator::Clone() const {
  const State state = GetState();
  auto clone = std::make_unique<Generator>(state.seed);
  clone->offset_.store(state.offset, kRelaxed);
  return clone;
}

void Generator::GiveBack(const State& taken, int64_t numbers) {
  int64_t behind = taken.offset + RoundsOf(numbers);
  offset_.compare_exchange_strong(behind, taken.offset, kRelaxed);
}

}  // namespace coppice
