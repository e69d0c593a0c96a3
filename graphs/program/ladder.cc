// What a spec says about a symbol's extents, made ready for calls.

#include "graphs/program/ladder.h"

#include <utility>
#include <vector>

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice::internal {

Ladder LadderOf(const SymbolSpec& symbol) {
  Ladder ladder{.policy = symbol.policy, .observer = nullptr, .recorded_ns = {}};
  if (symbol.observe_half_life == 0) return ladder;
  absl::StatusOr<DecayingHistogram> observer = DecayingHistogram::Create(
      {.limit = symbol.policy.maximum(), .half_life = symbol.observe_half_life});
  COPPICE_CHECK(observer.ok(), "the half-life must be above 0");
  ladder.observer = std::make_unique<DecayingHistogram>(*std::move(observer));
  return ladder;
}

namespace {

absl::Status CheckExtents(const char* where,
                          const ProgramSpec& spec,
                          const SymbolSpec& symbol,
                          const std::vector<int64_t>& buckets) {
  for (const int64_t bucket : buckets) {
    if (bucket < symbol.min) continue;  // No extent is padded to it.
    if (bucket > symbol.max || bucket % symbol.multiple_of != 0)
      return InvalidArgument(
          "{}: program {}: symbol {} has the bucket {}, but its max is {} and its multiple_of is "
          "{}; choose buckets that the program accepts",
          where, spec.name, symbol.name, bucket, symbol.max, symbol.multiple_of);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBuckets(const char* where,
                          const ProgramSpec& spec,
                          const SymbolSpec& symbol,
                          const PaddingPolicy& policy) {
  return CheckExtents(where, spec, symbol, policy.buckets());
}

absl::Status CheckJointBuckets(const ProgramSpec& spec, int symbol, const JointSpec& joint) {
  const SymbolSpec& named = spec.symbols[static_cast<size_t>(symbol)];
  const bool first = symbol == joint.a;
  std::vector<int64_t> extents;
  if (joint.policy.is_grid()) {
    // Every rung has a bucket: the rule leaves one to the maximum of either axis.
    extents = joint.policy.axes()[first ? 0 : 1].buckets();
  } else {
    for (const JointSize& bucket : joint.policy.buckets())
      extents.push_back(first ? bucket.a : bucket.b);
  }
  return CheckExtents("ValidateSpec", spec, named, extents);
}

}  // namespace coppice::internal
