// What a policy does to sizes, and policies learned from sizes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/coppice.h"
#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/policy_document.h"
#include "coppice/padding/size_histogram.h"

#include "capi/answer.h"
#include "capi/policies.h"

namespace coppice::capi {
namespace {

// Writes as many buckets as have room, and returns how many there are. Of `exact`, which has one
// per size, only those that are written are made.
int64_t WriteBuckets(const PaddingPolicy& policy, std::span<int64_t> room) {
  if (policy.is_exact()) {
    room = room.first(std::min<size_t>(room.size(), static_cast<size_t>(policy.maximum())));
    std::iota(room.begin(), room.end(), 1);
    return policy.maximum();
  }
  const std::vector<int64_t> buckets = policy.buckets();
  std::copy_n(buckets.begin(), std::min(buckets.size(), room.size()), room.begin());
  return static_cast<int64_t>(buckets.size());
}

absl::StatusOr<SizeHistogram> HistogramOf(const int64_t* sizes,
                                          const double* counts,
                                          int64_t size_count) {
  if (size_count < 0)
    return InvalidArgument("sizes: their count is {}; give 0 or more", size_count);
  if (sizes == nullptr && size_count > 0)
    return InvalidArgument("sizes: null, but their count is {}", size_count);
  const std::span given(sizes, static_cast<size_t>(size_count));
  if (counts == nullptr) return SizeHistogram::FromSizes(given);
  std::vector<SizeCount> pairs;
  pairs.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i)
    pairs.push_back({.size = given[i], .count = counts[i]});
  return SizeHistogram::From(pairs);
}

absl::StatusOr<LearnOptions> OptionsOf(const coppice_learn_options* pointer,
                                       const SizeHistogram& histogram) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_learn_options given, ReadOptions(pointer));
  COPPICE_RETURN_IF_ERROR(CheckArray(given.forced, given.forced_count, "learn: forced"));
  LearnOptions options;
  options.limit = given.limit == 0 ? std::max<int64_t>(histogram.largest(), 1) : given.limit;
  options.count = given.bucket_count;
  options.price = given.price;
  options.align = given.align == 0 ? 1 : given.align;
  options.forced.assign(given.forced, given.forced + given.forced_count);
  if (given.prior != 0) options.prior = std::max(given.prior, 0.0);
  options.max_ratio = given.max_ratio;
  options.max_gap = given.max_gap;
  return options;
}

absl::StatusOr<std::string> LearnPolicy(const SizeHistogram& histogram,
                                        const LearnOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(const LearnedBuckets learned, LearnBuckets(histogram, options));
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy,
                           PaddingPolicy::List(learned.buckets, options.limit));
  return WritePolicyDocument(
      {.policy = std::move(policy),
       .learned = LearnedFrom{
           .waste_pct = learned.waste_pct, .mass = learned.mass, .limit = options.limit}});
}

absl::StatusOr<int64_t> WriteBuckets(const JointPolicy& policy, std::span<int64_t> room) {
  const int64_t all = policy.count();
  const size_t written = std::min(room.size() / 2, static_cast<size_t>(all));
  if (written > 0 && all > kElementsMax)
    return InvalidArgument("joint policy {}: {} buckets, but at most {} can be written",
                           policy.name(), all, kElementsMax);
  if (written == 0) return all;
  const std::vector<JointSize> buckets = policy.buckets();
  for (size_t i = 0; i < written; ++i) {
    room[2 * i] = buckets[i].a;
    room[2 * i + 1] = buckets[i].b;
  }
  return all;
}

// Errors: kInvalidArgument as many buckets cannot lie there.
absl::Status CheckRoom(const int64_t* buckets, int64_t capacity) {
  if (capacity >= 0 && (buckets != nullptr || capacity == 0)) return absl::OkStatus();
  return InvalidArgument("policy: buckets is null, or its capacity, {}, is negative", capacity);
}

}  // namespace

extern "C" {

coppice_status coppice_policy_buckets(const coppice_policy* policy,
                                      int64_t* buckets,
                                      int64_t capacity,
                                      int64_t* out) {
  return AnswerTo(out, [&]() -> absl::StatusOr<int64_t> {
    COPPICE_ASSIGN_OR_RETURN(const coppice_policy given, ReadStruct(policy));
    COPPICE_RETURN_IF_ERROR(CheckRoom(buckets, capacity));
    COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy read, PolicyOf(given));
    return WriteBuckets(read, std::span(buckets, static_cast<size_t>(capacity)));
  });
}

coppice_status coppice_joint_policy_buckets(const coppice_joint_policy* policy,
                                            int64_t* buckets,
                                            int64_t capacity,
                                            int64_t* out) {
  return AnswerTo(out, [&]() -> absl::StatusOr<int64_t> {
    COPPICE_ASSIGN_OR_RETURN(const coppice_joint_policy given, ReadStruct(policy));
    COPPICE_RETURN_IF_ERROR(CheckRoom(buckets, capacity));
    COPPICE_ASSIGN_OR_RETURN(const JointPolicy read, PolicyOf(given));
    return WriteBuckets(read, std::span(buckets, 2 * static_cast<size_t>(capacity)));
  });
}

coppice_status coppice_learn_policy(const int64_t* sizes,
                                    const double* counts,
                                    int64_t size_count,
                                    const coppice_learn_options* options,
                                    char* buffer,
                                    size_t buffer_bytes,
                                    size_t* text_bytes) {
  return AnswerTo(TextOut{buffer, buffer_bytes, text_bytes}, [&]() -> absl::StatusOr<std::string> {
    COPPICE_ASSIGN_OR_RETURN(const SizeHistogram histogram, HistogramOf(sizes, counts, size_count));
    COPPICE_ASSIGN_OR_RETURN(const LearnOptions read, OptionsOf(options, histogram));
    return LearnPolicy(histogram, read);
  });
}

}  // extern "C"
}  // namespace coppice::capi
