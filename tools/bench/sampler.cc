// One round after the other, one sample of each way per round.

#include "tools/bench/sampler.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/support/stopwatch.h"

namespace coppice {
namespace {

struct Marks {
  Event start;
  Event end;
};

absl::Status TakeSample(const Stream& stream,
                        const Marks& marks,
                        const Way& way,
                        WaySamples& samples) {
  COPPICE_RETURN_IF_ERROR(marks.start.Record(stream.handle()));
  Stopwatch stopwatch;
  for (int64_t i = 0; i < samples.calls; ++i)
    COPPICE_RETURN_IF_ERROR(way.call());
  const double host_us = stopwatch.Lap();
  COPPICE_RETURN_IF_ERROR(marks.end.Record(stream.handle()));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  COPPICE_ASSIGN_OR_RETURN(const double device_us, marks.end.ElapsedUs(marks.start));
  samples.host_us.push_back(host_us / static_cast<double>(samples.calls));
  samples.device_us.push_back(device_us / static_cast<double>(samples.calls));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<WaySamples>> SampleWays(const Driver& driver,
                                                   const Stream& stream,
                                                   std::span<const Way> ways,
                                                   const SamplePlan& plan) {
  COPPICE_ASSIGN_OR_RETURN(Event start, Event::Create(driver, Event::Timing::kOn));
  COPPICE_ASSIGN_OR_RETURN(Event end, Event::Create(driver, Event::Timing::kOn));
  const Marks marks = {std::move(start), std::move(end)};
  std::vector<WaySamples> all;
  for (const Way& way : ways) {
    all.push_back(
        {.name = way.name, .calls = way.calls_per_sample, .host_us = {}, .device_us = {}});
    for (int64_t i = 0; i < plan.warmup_calls; ++i)
      COPPICE_RETURN_IF_ERROR(way.call());
    COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  }
  std::vector<size_t> order(ways.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random;  // The same orders in every run.
  for (int64_t round = 0; round < plan.samples; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order)
      COPPICE_RETURN_IF_ERROR(TakeSample(stream, marks, ways[i], all[i]));
    if (plan.stop && plan.stop()) break;
  }
  return all;
}

nlohmann::ordered_json ToJson(const std::vector<WaySamples>& ways) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const WaySamples& way : ways)
    json.push_back({{"name", way.name},
                    {"calls", way.calls},
                    {"host_us", way.host_us},
                    {"gpu_us", way.device_us}});
  return json;
}

}  // namespace coppice
