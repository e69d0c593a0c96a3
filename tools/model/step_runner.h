// Runs steps of a served model in a session of its own, on a cache of its own, and brings the
// results to the host.
//
// The replayed run and the reference are two of these: one records and replays padded graphs, the
// other runs eagerly at real extents.
//
// Units: tokens, nanoseconds. Threads: one at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/session.h"
#include "coppice/runtime/stream.h"

#include "tools/ledger/driver_ledger.h"
#include "tools/model/served_model.h"

namespace coppice {

// What came back; rows are in the order of the inputs' slots.
struct StepResult {
  RunKind path = RunKind::kReplay;
  int64_t host_ns = 0;               // Inside Session::Run, ...
  int64_t driver_ns = 0;             // ... and there inside the driver; 0 without a ledger.
  std::vector<int32_t> next_tokens;  // One per row.
  std::vector<float> logits;         // `vocab` per row; empty unless asked for.

  std::span<const float> RowLogits(size_t row) const {
    const size_t vocab = logits.size() / next_tokens.size();
    return std::span(logits).subspan(row * vocab, vocab);
  }
};

class StepRunner {
 public:
  struct Options {
    PaddingPolicy prefill_policy;
    PaddingPolicy decode_policy;
    SessionOptions session;
    // Of lengths and batches that are padded, as SymbolSpec has it. Above 0 the runner has one more
    // cache, for what Rebucket runs.
    double observe_half_life = 0;
    // Times the calls of the driver (Options::time_calls), and outlives the runner; null: none.
    const DriverLedger* ledger = nullptr;
  };

  // `context` and `model` must outlive the runner. Errors: the driver's, as Session::Create, and
  // ServedModel::Register.
  static absl::StatusOr<std::unique_ptr<StepRunner>> Create(const Context& context,
                                                            const ServedModel& model,
                                                            const Options& options);

  // Runs one step and waits for its results. Errors: as Session::Run.
  absl::Status Run(const StepInputs& inputs, Poison poison, bool want_logits, StepResult& result);

  // Records one bucket of a program ahead of traffic; the warm-up run writes to the cache of
  // `scratch`, which must outlive this runner. Errors: as SessionWarming::Warm.
  absl::Status Warm(bool prefill, int64_t bucket, const StepRunner& scratch);

  // Learns the buckets of a program anew, and swaps them in if that pays; graphs of a minute are
  // counted by `now_ns`. What runs meanwhile writes to a cache that no request has. Requires: a
  // policy that is not exact, and an observe_half_life (checked). Errors: as
  // SessionPolicies::Rebucket.
  absl::StatusOr<RebucketReport> Rebucket(bool prefill, int64_t now_ns);

  // Writes the keys (or values) that the cache holds for the first `length` tokens of a slot, all
  // layers, to `rows`. Waits for the device.
  absl::Status ReadCache(bool keys, int64_t slot, int64_t length, std::vector<float>& rows) const;
  // Writes what ReadCache gave, of this runner or another. Waits for the device.
  absl::Status WriteCache(bool keys, int64_t slot, int64_t length, std::span<const float> rows);

  const Session& session() const { return *session_; }
  absl::Status NoteRequest(const RequestTimes& times) {
    return session_->trace().NoteRequest(times);
  }
  // That in force.
  const PaddingPolicy& policy(bool prefill) const {
    return prefill ? prefill_policy_ : decode_policy_;
  }
  // What the policy pads, by its name in the program.
  const std::string& symbol_name(bool prefill) const {
    return registered(prefill).served.symbol_name;
  }
  // How equal the program's live outputs are in a bucket.
  const Equality& claimed(bool prefill) const { return registered(prefill).served.claimed; }
  static const char* ProgramName(bool prefill) { return prefill ? "prefill" : "decode"; }

 private:
  StepRunner(const Context& context,
             const ServedModel& model,
             const Options& options,
             Stream stream,
             std::pair<KvCache, DeviceMemory> memory);

  absl::Status Register(double observe_half_life);
  absl::Status Read(const Lease& lease, bool want_logits, StepResult& result);
  // Copies `array` to its place in the input memory and describes it as a tensor.
  absl::StatusOr<Tensor> Upload(int place, const StepArray& array);
  // Where the cache holds the first `length` tokens of a slot in a layer.
  DeviceAddress CacheRows(bool keys, int64_t layer, int64_t slot) const;
  size_t LayerFloats(int64_t length) const;

  struct Registered {
    ServedProgram served;
    const Binding* binding = nullptr;
    const Binding* spare = nullptr;  // On the spare cache; null: there is none.
  };
  const Registered& registered(bool prefill) const { return prefill ? prefill_ : decode_; }

  int64_t driver_ns() const { return ledger_ == nullptr ? 0 : ledger_->driver_ns(); }

  const Context& context_;
  const ServedModel& model_;
  const DriverLedger* const ledger_;
  const ModelSizes sizes_;
  PaddingPolicy prefill_policy_;
  PaddingPolicy decode_policy_;
  const Stream stream_;
  const KvCache cache_;
  std::optional<KvCache> spare_cache_;
  const DeviceMemory inputs_;  // An array of `input_capacity_` int32 for each input.
  const int64_t input_capacity_;
  std::unique_ptr<Session> session_;
  Registered prefill_;
  Registered decode_;
};

}  // namespace coppice
