// Medians by bucket.

#include "tools/prof/whatif/host_times.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace coppice {
namespace {

double SizeOfBucket(const std::vector<int64_t>& bucket) {
  double size = 1;
  for (const int64_t extent : bucket)
    size *= static_cast<double>(std::max<int64_t>(extent, 1));
  return size;
}

}  // namespace

std::vector<int64_t> PaddedBy(const ProgramSpec& spec, std::span<const int32_t> extents) {
  std::vector<int64_t> padded(extents.begin(), extents.end());
  for (size_t i = 0; i < padded.size() && i < spec.symbols.size(); ++i) {
    const int symbol = static_cast<int>(i);
    if (!MayPad(spec, symbol)) continue;
    if (const JointSpec* const joint = spec.JointOf(symbol)) {
      const auto a = static_cast<size_t>(joint->a);
      const auto b = static_cast<size_t>(joint->b);
      if (a >= padded.size() || b >= padded.size()) continue;
      const std::optional<JointSize> found = joint->policy.Find(extents[a], extents[b]);
      if (found) padded[i] = joint->a == symbol ? found->a : found->b;
      continue;
    }
    padded[i] = spec.symbols[i].policy.Find(padded[i]).value_or(padded[i]);
  }
  return padded;
}

HostTimes::HostTimes(const TracedCalls& traced, const std::vector<ProgramSpec>& specs) {
  std::map<std::pair<int, RunKind>, std::map<std::vector<int64_t>, std::vector<int64_t>>> measured;
  for (const TracedCall& call : traced.calls) {
    if (call.host_ns < 0) continue;
    const auto extents = call.extents.values();
    measured[{call.program, call.path}][PaddedBy(specs[static_cast<size_t>(call.program)], extents)]
        .push_back(call.host_ns);
  }
  for (auto& [key, buckets] : measured) {
    for (auto& [bucket, times] : buckets) {
      const auto middle = times.begin() + std::ssize(times) / 2;
      std::ranges::nth_element(times, middle);
      times_[key][bucket] = *middle;
    }
  }
}

HostTimes::Time HostTimes::Of(int program, RunKind path, const std::vector<int64_t>& bucket) const {
  const auto found = times_.find({program, path});
  if (found == times_.end() && path == RunKind::kEager) {
    Time time = Of(program, RunKind::kWarmUp, bucket);
    time.measured = false;
    return time;
  }
  if (found == times_.end()) return {};
  if (const auto own = found->second.find(bucket); own != found->second.end())
    return {.ns = own->second, .measured = true};
  Time nearest;
  double distance = 0;
  for (const auto& [other, ns] : found->second) {
    const double apart = std::abs(std::log(SizeOfBucket(other) / SizeOfBucket(bucket)));
    if (nearest.ns > 0 && apart >= distance) continue;
    nearest.ns = ns;
    distance = apart;
  }
  return nearest;
}

}  // namespace coppice
