// The order in which buckets are recorded ahead of traffic.
//
// Threads: pure functions and plain values.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/padding_policy.h"

namespace coppice {

struct RecordingOrder {
  enum class Kind : uint8_t { kAscending, kDescending, kRandom };
  Kind kind = Kind::kAscending;
  uint64_t seed = 0;  // For kRandom.
  friend bool operator==(const RecordingOrder&, const RecordingOrder&) = default;
};

// Reads `asc`, `desc` or `random:SEED`. Errors: kInvalidArgument quoting the text.
absl::StatusOr<RecordingOrder> ParseRecordingOrder(const std::string& text);
std::string NameOf(const RecordingOrder& order);  // What ParseRecordingOrder reads.

// Puts what is in ascending order into `order`.
template <typename T>
void Arrange(const RecordingOrder& order, std::vector<T>& ascending) {
  if (order.kind == RecordingOrder::Kind::kDescending)
    std::reverse(ascending.begin(), ascending.end());
  if (order.kind == RecordingOrder::Kind::kRandom) {
    std::mt19937_64 random(order.seed);
    for (size_t i = ascending.size(); i > 1; --i)
      std::swap(ascending[i - 1], ascending[random() % i]);
  }
}

// A bucket of one of the decoder's programs.
struct ProgramBucket {
  bool prefill = false;
  int64_t extent = 0;
  friend bool operator==(const ProgramBucket&, const ProgramBucket&) = default;
};

// Every bucket of both policies, in one order by extent.
std::vector<ProgramBucket> OrderBuckets(const PaddingPolicy& prefill,
                                        const PaddingPolicy& decode,
                                        const RecordingOrder& order);

}  // namespace coppice
