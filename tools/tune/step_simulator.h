// What sizes a server's steps have, for a trace of requests: continuous batching with chunked
// prefill, on a virtual clock.
//
// As vLLM schedules: each step, every running request gets a token, or of its prompt as many as the
// step's budget leaves; then waiting requests begin, in order of arrival, while there are budget,
// sequences and room in the KV cache. Where the cache overflows, the request that began last waits
// again and computes everything anew. A step in which every request gets one token is a decode
// step, of so many rows; any other is mixed, of so many tokens.
//
// Load is offered work over capacity. Capacity is what the server does when all requests are there
// at once; arrivals are stretched to it and begin anew when the trace ends, jittered by a mean gap.
// Loads follow one another without a break.
//
// Units: seconds of the virtual clock, tokens. Threads: one at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace coppice {

struct TimedRequest {
  double arrival_seconds = 0;
  int64_t input_tokens = 1;   // >= 1.
  int64_t output_tokens = 1;  // >= 1.
};

// What a step takes: overhead + max(weights, tokens x token) + context x kv + pairs x pair, where
// context is what the KV cache holds of its requests, and pairs those of tokens and what they look
// back at. The defaults are near a dense model of 8B on an H100, flat up to 214 rows.
struct StepModel {
  double overhead_s = 500e-6;
  double weights_s = 4800e-6;
  double token_s = 22.4e-6;
  double kv_s = 39e-9;
  double pair_s = 0.73e-9;
};

struct SimulatorOptions {
  int64_t budget_tokens = 8192;  // Of a step. >= 1.
  int64_t sequences_max = 512;   // That run at once. >= 1.
  int64_t kv_tokens = 440'000;   // That the cache holds; a request alone may exceed it. >= 1.
  StepModel model;
  std::vector<double> loads = {0.7};  // Each > 0.
  int64_t decode_steps = 60'000;      // Of each load. >= 1.
  uint64_t seed = 1;
};

struct SimulatedStep {
  int64_t size = 0;     // Rows of a decode step, tokens of a mixed one.
  bool decode = false;  // Otherwise mixed.
  int32_t load = 0;     // Index into the loads.
  double start_s = 0;
};

struct SimulatedSteps {
  std::vector<SimulatedStep> steps;
  double capacity = 0;      // Requests per second.
  int64_t finished = 0;     // Requests.
  int64_t preemptions = 0;  // Requests that waited again.
};

// `requests` in order of arrival; where all arrive at once, arrivals are drawn as a Poisson
// process. A load ends after its decode steps, or ten times as many of both kinds. `progress` hears
// of decode steps done, of how many, and returns whether to go on. There is no step where arrivals
// cannot be stretched to a load: where steps take no time, so that the capacity is infinite, or
// times are too small or too large to add them up. Requires: requests and options in range
// (checked).
SimulatedSteps SimulateSteps(const std::vector<TimedRequest>& requests,
                             const SimulatorOptions& options,
                             const std::function<bool(int64_t done, int64_t total)>& progress);

}  // namespace coppice
