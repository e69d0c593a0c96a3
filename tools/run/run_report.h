// What `coppice run` found out, as a table for people and as JSON for programs.
//
// Units: bytes and nanoseconds unless a name says otherwise. Threads: plain values, pure functions.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "coppice/base/padding_claim.h"
#include "coppice/graphs/session.h"

#include "tools/run/batcher.h"
#include "tools/run/relearning.h"
#include "tools/run/replayer.h"

namespace coppice {

struct RunReport {
  // The job.
  std::string trace;   // A path, or what was generated.
  std::string device;  // "host" or "cuda".
  std::string device_name;
  std::string kernels;                     // What ran of them: "host", "ptx" or "cuda".
  std::string package;                     // A path; empty: the decoder of tools/model.
  std::map<std::string, int64_t> targets;  // Of a package: kernels by the code that ran.
  int64_t shrink = 1;
  int64_t slots = 0;
  int64_t max_context = 0;  // Tokens.
  std::string prefill_policy;
  std::string decode_policy;
  std::string order;  // Empty: as traffic meets the buckets.
  uint64_t seed = 0;
  bool poison = false;
  int64_t requests = 0;
  int64_t requests_cut = 0;  // Longer than the context.
  StepCost cost;
  double virtual_seconds = 0;
  int64_t prefill_steps = 0;
  int64_t decode_steps = 0;

  // The session.
  SessionStats stats;
  std::vector<NodeInfo> nodes;
  MemoryUsage pool;
  int64_t pool_mapped_bytes = 0;  // Under the lanes' plan windows, by the ledger.
  int64_t prefill_buckets = 0;    // That at least one call replayed.
  int64_t decode_buckets = 0;
  std::optional<int64_t> caching_allocator_bytes;  // As ServedModel tells it.
  std::vector<int64_t> replay_host_ns;             // As Replayer has them.
  std::vector<int64_t> replay_driver_ns;
  Replayer::Padding prefill_padding;
  Replayer::Padding decode_padding;
  std::optional<RelearnReport> relearned;  // None: buckets stayed.

  // All calls that reached the driver, by the ledger; those of the reference are among them.
  int64_t driver_calls = 0;
  double modelled_driver_us = 0;  // What they cost the host, by the latency model.
  std::string latency_table;      // The model's name.

  // The verification.
  std::string verify;
  double bound = 0;  // On top of what the programs claim.
  Equality prefill_claimed;
  Equality decode_claimed;
  int64_t verified_requests = 0;
  int64_t verified_steps = 0;
  int64_t comparisons = 0;
  int64_t mismatches = 0;
  std::vector<std::string> mismatch_lines;    // The first few.
  std::vector<std::string> emulator_reports;  // Empty on CUDA.

  absl::Status trace_status;  // Of the session's trace, if it has one.
  absl::Status dump_status;   // Of the drawings of its graphs, if they were asked for.
  absl::Status steps_status;  // Of the log of steps, the same.

  double wall_seconds = 0;
};

// An aligned table that ends in a newline.
std::string FormatTable(const RunReport& report);

// One object, which ends in a newline. Its keys are stable; some of them:
//
//   eager             calls that launched no graph, warm-ups included
//   graphs            buckets with a graph
//   executables       that these graphs are launched by: one each, but for those of a family
//   families          executables that are set to the sizes of calls
//   exact_replays     replays at the sizes of their call; patched_nodes: what was set for them
//   pad_computed_pct  elements that kernels computed for padding, in % of the real ones
//   relearn           null if buckets stayed
std::string FormatJson(const RunReport& report);

}  // namespace coppice
