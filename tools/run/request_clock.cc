// From steps to times of requests.

#include "tools/run/request_clock.h"

#include <cmath>

namespace coppice {

RequestClock::RequestClock(const std::vector<Request>& requests)
    : requests_(requests), first_token_ns_(requests.size()) {}

std::vector<RequestTimes> RequestClock::Add(const Step& step, double end_seconds) {
  std::vector<RequestTimes> left;
  for (const StepRow& row : step.rows) {
    const auto place = static_cast<size_t>(row.request);
    if (step.prefill) first_token_ns_[place] = SinceArrival(row.request, end_seconds);
    if (!row.last) continue;
    left.push_back({.id = row.request,
                    .first_token_ns = first_token_ns_[place],
                    .last_token_ns = SinceArrival(row.request, end_seconds),
                    .input_tokens = static_cast<int32_t>(requests_[place].input_tokens),
                    .output_tokens = static_cast<int32_t>(requests_[place].output_tokens)});
  }
  return left;
}

int64_t RequestClock::SinceArrival(int64_t request, double seconds) const {
  constexpr double kNsPerSecond = 1e9;
  return std::llround((seconds - requests_[static_cast<size_t>(request)].arrival_seconds) *
                      kNsPerSecond);
}

}  // namespace coppice
