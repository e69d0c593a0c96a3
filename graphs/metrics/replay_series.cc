// First come, first labelled.

#include "graphs/metrics/replay_series.h"

#include <algorithm>

#include "fmt/format.h"

#include "coppice/graphs/metrics.h"

namespace coppice::internal {
namespace {

constexpr const char* kOther = "other";

std::string TextOf(const ProgramSpec& spec, std::span<const int64_t> extents) {
  std::string text;
  for (size_t i = 0; i < std::min(extents.size(), spec.symbols.size()); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", spec.symbols[i].name, extents[i]);
  return text.empty() ? "fixed" : text;
}

}  // namespace

int32_t ReplaySeries::NumberOf(const ProgramSpec& spec, std::span<const int64_t> extents) {
  BucketName name{spec.name, spec.variant, TextOf(spec, extents)};
  const std::lock_guard lock(mutex_);
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  const ProgramName program{spec.name, spec.variant};
  auto counted = buckets_.find(program);
  if (counted == buckets_.end()) {
    if (buckets_.size() >= static_cast<size_t>(kMetricsProgramsMax))
      return Add({kOther, std::string(), kOther});
    counted = buckets_.emplace(program, 0).first;
  }
  if (counted->second >= kMetricsBucketsMax) return Add({spec.name, spec.variant, kOther});
  ++counted->second;
  return Add(std::move(name));
}

int32_t ReplaySeries::Add(BucketName name) {
  const auto [at, added] = numbers_.try_emplace(name, static_cast<int32_t>(labels_.size()));
  if (added) {
    auto& [program, variant, bucket] = name;
    labels_.push_back({std::move(program), std::move(variant), std::move(bucket)});
  }
  return at->second;
}

std::vector<const ReplaySeries::Labels*> ReplaySeries::labels() const {
  const std::lock_guard lock(mutex_);
  std::vector<const Labels*> all;
  all.reserve(labels_.size());
  for (const Labels& labels : labels_)
    all.push_back(&labels);
  return all;
}

}  // namespace coppice::internal
