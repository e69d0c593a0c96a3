// The order in which buckets are recorded ahead of traffic.
//
// Threads: pure functions and plain values.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/graphs/padding_policy.h"

namespace coppice {

struct RecordingOrder {
  enum class Kind : uint8_t { kAscending, kDescending, kRandom };
  Kind kind = Kind::kAscending;
  uint64_t seed = 0;  // For kRandom.
  friend bool operator==(const RecordingOrder&, const RecordingOrder&) = default;
};

// Reads `asc`, `desc` or `random:SEED`. Errors: kInvalidArgument quoting the text.
absl::StatusOr<RecordingOrder> ParseRecordingOrder(const std::string& text);

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
