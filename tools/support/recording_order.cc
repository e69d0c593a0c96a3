// Sorts or shuffles buckets.

#include "tools/support/recording_order.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "fmt/format.h"

#include "coppice/base/status.h"

namespace coppice {

absl::StatusOr<RecordingOrder> ParseRecordingOrder(const std::string& text) {
  if (text == "asc") return RecordingOrder{.kind = RecordingOrder::Kind::kAscending};
  if (text == "desc") return RecordingOrder{.kind = RecordingOrder::Kind::kDescending};
  constexpr std::string_view kRandom = "random:";
  if (text.starts_with(kRandom)) {
    RecordingOrder order = {.kind = RecordingOrder::Kind::kRandom};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + kRandom.size(), last, order.seed);
    if (error == std::errc() && end == last) return order;
  }
  return InvalidArgument("'{}' is not a recording order; give asc, desc or random:SEED", text);
}

std::string NameOf(const RecordingOrder& order) {
  switch (order.kind) {
    case RecordingOrder::Kind::kAscending:
      return "asc";
    case RecordingOrder::Kind::kDescending:
      return "desc";
    case RecordingOrder::Kind::kRandom:
      return fmt::format("random:{}", order.seed);
  }
  return "?";
}

std::vector<ProgramBucket> OrderBuckets(const PaddingPolicy& prefill,
                                        const PaddingPolicy& decode,
                                        const RecordingOrder& order) {
  std::vector<ProgramBucket> buckets;
  for (const int64_t extent : prefill.buckets())
    buckets.push_back({.prefill = true, .extent = extent});
  for (const int64_t extent : decode.buckets())
    buckets.push_back({.prefill = false, .extent = extent});
  std::stable_sort(
      buckets.begin(), buckets.end(),
      [](const ProgramBucket& a, const ProgramBucket& b) { return a.extent < b.extent; });
  Arrange(order, buckets);
  return buckets;
}

}  // namespace coppice
