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

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "coppice/runtime/stream.h"

namespace coppice {

// One way: `call` queues the work once on the stream that is sampled.
struct Way {
  std::string name;
  std::function<absl::Status()> call;
};

struct SamplePlan {
  int64_t samples = 101;          // Of each way. >= 1.
  int64_t calls_per_sample = 10;  // >= 1; few, so that no launch waits for room in a queue.
  int64_t warmup_calls = 20;      // Of each way, not timed.
};

struct WaySamples {
  std::string name;
  std::vector<double> host_us;  // Per call, one value per sample.
  std::vector<double> device_us;
};

// Samples every way; the result is in the order of `ways`. Waits for the stream before and after
// every sample. Errors: the first of a call or of the driver.
absl::StatusOr<std::vector<WaySamples>> SampleWays(const Driver& driver,
                                                   const Stream& stream,
                                                   std::span<const Way> ways,
                                                   const SamplePlan& plan);

// [{"name", "host_us", "gpu_us"}, ...]
nlohmann::ordered_json ToJson(const std::vector<WaySamples>& ways);

}  // namespace coppice
