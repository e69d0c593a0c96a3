// Times several ways to do the same work against each other.
//
// A sample is a few calls back to back on a stream that was idle: its host time is that of the
// calls, its device time that between an event before the first and one after the last, both per
// call. The ways take turns, one sample each per round, so that what drifts (clocks, caches,
// neighbours) drifts for all of them alike. Every round has an order of its own, drawn at random
// but the same in every run: a way that always followed the same other one would be charged for
// what that leaves behind in caches and heaps.
//
// Units: microseconds. Threads: one at a time; the driver's context is current.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "coppice/runtime/stream.h"

namespace coppice {

// Calls of a sample: few, but the first one's start on an idle stream counts little.
inline constexpr int64_t kCallsPerSample = 10;

// The same where each call launches so many kernels, >= 1: together no more than the thousand or so
// that a stream takes before the next launch waits for room.
constexpr int64_t CallsPerSample(int64_t kernels) {
  return std::clamp<int64_t>(1000 / kernels, 1, kCallsPerSample);
}

// One way: `call` queues the work once on the stream that is sampled.
struct Way {
  std::string name;
  std::function<absl::Status()> call;
  int64_t calls_per_sample = kCallsPerSample;  // >= 1.
};

struct SamplePlan {
  int64_t samples = 101;      // Of each way. >= 1.
  int64_t warmup_calls = 20;  // Of each way, not timed.
  // Whether to return the samples that there are, asked after each round; null: never.
  std::function<bool()> stop;
};

struct WaySamples {
  std::string name;
  int64_t calls = 0;            // Of each sample.
  std::vector<double> host_us;  // Per call, one value per sample.
  std::vector<double> device_us;
};

// Samples every way; the result is in the order of `ways`. Waits for the stream before and after
// every sample. Errors: the first of a call or of the driver.
absl::StatusOr<std::vector<WaySamples>> SampleWays(const Driver& driver,
                                                   const Stream& stream,
                                                   std::span<const Way> ways,
                                                   const SamplePlan& plan);

// [{"name", "calls", "host_us", "gpu_us"}, ...]
nlohmann::ordered_json ToJson(const std::vector<WaySamples>& ways);

}  // namespace coppice
