// How long calls and requests took: percentiles of all of them, and bins for a picture.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "tools/prof/html/report_document.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBinsPerDoubling = 4;

int BinOf(int64_t ns) {
  return static_cast<int>(
      std::floor(kBinsPerDoubling * std::log2(static_cast<double>(std::max<int64_t>(ns, 1)))));
}

// Of sorted values, the least that so many percent do not exceed.
int64_t AtPercent(const std::vector<int64_t>& sorted, double pct) {
  const double rank = std::ceil(pct / 100 * static_cast<double>(sorted.size()));
  return sorted[std::min(static_cast<size_t>(std::max(rank, 1.0)), sorted.size()) - 1];
}

}  // namespace

Json DurationsOf(std::vector<int64_t> values) {
  if (values.empty()) return {{"count", 0}};
  std::sort(values.begin(), values.end());
  const int first = BinOf(values.front());
  std::vector<int64_t> bins(static_cast<size_t>(BinOf(values.back()) - first + 1));
  double sum = 0;
  for (const int64_t value : values) {
    ++bins[static_cast<size_t>(BinOf(value) - first)];
    sum += static_cast<double>(value);
  }
  return {{"count", values.size()},
          {"mean_ns", sum / static_cast<double>(values.size())},
          {"min_ns", values.front()},
          {"p50_ns", AtPercent(values, 50)},
          {"p90_ns", AtPercent(values, 90)},
          {"p99_ns", AtPercent(values, 99)},
          {"max_ns", values.back()},
          {"first_bin", first},
          {"bins", bins}};
}

Json TimesOf(const ReportFacts& facts) {
  std::array<std::vector<int64_t>, kRunKindCount> timed;
  std::array<int64_t, kRunKindCount> calls{};
  for (const ReportCall& call : facts.calls) {
    const auto path = static_cast<size_t>(call.path);
    ++calls[path];
    if (call.host_ns >= 0) timed[path].push_back(call.host_ns);
  }
  Json paths = Json::array();
  for (size_t i = 0; i < timed.size(); ++i) {
    if (timed[i].empty()) continue;
    Json path = {{"path", NameOf(static_cast<RunKind>(i))}, {"calls", calls[i]}};
    path.update(DurationsOf(std::move(timed[i])));
    paths.push_back(std::move(path));
  }
  return {{"paths", std::move(paths)}};
}

Json RequestsOf(const ReportFacts& facts, const ReportLimits& limits, Json& left_out) {
  std::vector<int64_t> first;
  std::vector<int64_t> per_token;  // Behind the first one.
  for (const ReportRequest& request : facts.requests) {
    first.push_back(request.first_token_ns);
    if (request.output_tokens > 1)
      per_token.push_back(std::max<int64_t>(request.last_token_ns - request.first_token_ns, 0) /
                          (request.output_tokens - 1));
  }
  // The slowest to begin are what one looks for.
  std::vector<size_t> chosen(facts.requests.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  if (chosen.size() > limits.requests) {
    std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
      return facts.requests[a].first_token_ns > facts.requests[b].first_token_ns;
    });
    chosen.resize(limits.requests);
    std::sort(chosen.begin(), chosen.end());
    left_out["requests"] = {{"shown", chosen.size()}, {"of", facts.requests.size()}};
  }
  Json rows = Json::array();  // [id, time, first token, last token, tokens read, tokens written].
  for (const size_t i : chosen) {
    const ReportRequest& request = facts.requests[i];
    rows.push_back({request.id, request.time_ns, request.first_token_ns, request.last_token_ns,
                    request.input_tokens, request.output_tokens});
  }
  return {{"count", facts.requests.size()},
          {"first_token", DurationsOf(std::move(first))},
          {"per_output_token", DurationsOf(std::move(per_token))},
          {"rows", std::move(rows)}};
}

}  // namespace coppice
