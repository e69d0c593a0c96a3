// Replays the steps of a batcher through recorded graphs, and compares them with a reference.
//
//   step ──► main runner: padded, recorded, replayed ──► next tokens, logits, KV cache
//       └──► reference runner: eager, unpadded, its own KV cache ──► the same, compared
//
// The reference follows some of the requests: it prefills them, decodes just their rows of every
// batch, and compares their keys and values when they leave. Under poison, every step of the main
// runner runs twice, with the padding full of NaN and then full of another pattern (writing the
// same keys and values twice changes nothing), and the two results must agree as closely as two
// such runs do by the claims.
//
// A claim is about equal inputs, and the cache is one. Where a prefill claims no more than a
// tolerance, what it wrote is compared at once, and the reference goes on from there: so decode is
// held to its own claim, however long the answer.
//
// Threads: one at a time.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/stream.h"

#include "tools/model/served_model.h"
#include "tools/model/step_runner.h"
#include "tools/run/batcher.h"
#include "tools/run/padded_sum.h"
#include "tools/run/relearning.h"
#include "tools/run/step_log.h"
#include "tools/run/verifier.h"
#include "tools/support/recording_order.h"

namespace coppice {

class Replayer {
 public:
  struct Options {
    PaddingPolicy prefill_policy;
    PaddingPolicy decode_policy;
    std::vector<bool> followed;  // By request: whether the reference runs it too.
    bool poison = false;
    uint64_t seed = 1;       // Of the prompts.
    double bound = 0;        // Of the verifier.
    SessionOptions session;  // Of the main runner.
    StepLog* log = nullptr;  // Gets every step; null: nobody. Must outlive the replayer.
    // Steps of a program after which its buckets are learned again; 0: they stay. Requires: one of
    // the policies is not exact.
    int64_t relearn_period = 0;
    const DriverLedger* ledger = nullptr;  // Of the main runner.
  };

  // What the steps of a program were padded to, and what powers of two would have made of them.
  struct Padding {
    PaddedSum served;
    PaddedSum pow2;
  };

  // `context` and `model` must outlive the replayer.
  static absl::StatusOr<std::unique_ptr<Replayer>> Create(const Context& context,
                                                          const ServedModel& model,
                                                          const Options& options);

  // Records every bucket of both programs ahead of traffic, in the order given by bucket size.
  // `progress` is called after each with (done, total).
  absl::Status Warm(const RecordingOrder& order,
                    const std::function<void(int64_t done, int64_t total)>& progress);

  // Runs one step. A mismatch is no error; see verifier().
  absl::Status Replay(const Step& step);

  const Session& session() const { return main_->session(); }
  // Tells the main runner's trace, if it has one.
  absl::Status NoteRequest(const RequestTimes& times) { return main_->NoteRequest(times); }
  const Verifier& verifier() const { return verifier_; }
  // How equal the program's live outputs are in a bucket, as it claims.
  const Equality& claimed(bool prefill) const { return main_->claimed(prefill); }
  // Null: buckets stay.
  const Relearning* relearning() const { return relearning_.get(); }
  int64_t steps() const { return steps_; }
  int64_t verified_steps() const { return verified_steps_; }
  // Of each replay: inside Session::Run, and there inside the driver.
  const std::vector<int64_t>& replay_host_ns() const { return replay_host_ns_; }
  const std::vector<int64_t>& replay_driver_ns() const { return replay_driver_ns_; }
  const Padding& padding(bool prefill) const { return padding_[prefill]; }
  // Buckets of a program that at least one call replayed.
  int64_t replayed_buckets(bool prefill) const {
    return static_cast<int64_t>((prefill ? replayed_prefill_ : replayed_decode_).size());
  }

 private:
  Replayer(const ServedModel& model, const Options& options)
      : sizes_(model.sizes()), options_(options), verifier_(options.bound) {}

  absl::Status RunMain(const Step& step, Poison poison, bool want_logits, StepResult& result);
  StepInputs MakeInputs(const Step& step, bool followed_only) const;
  int32_t PromptToken(int64_t request, int64_t position) const;
  int64_t BucketOf(const Step& step) const;
  // The reference's rows of the step against the main runner's.
  absl::Status Verify(const Step& step);
  absl::Status VerifyCache(const Step& step, const StepRow& row, bool adopt);
  // The first result of a poisoned step against the second.
  void ComparePoisoned(const Step& step, const StepResult& first, const StepResult& second);
  Comparison Describe(const Step& step, const StepRow& row, const char* what) const;

  const ModelSizes sizes_;
  const Options options_;
  std::unique_ptr<StepRunner> main_;
  std::unique_ptr<StepRunner> reference_;
  std::unique_ptr<Relearning> relearning_;
  Verifier verifier_;
  std::vector<int32_t> next_tokens_;  // By request: what its next decode step feeds.
  std::vector<int64_t> replay_host_ns_;
  std::vector<int64_t> replay_driver_ns_;
  std::array<Padding, 2> padding_;                    // By whether it is prefill.
  std::array<std::optional<PaddingPolicy>, 2> pow2_;  // The same.
  std::set<int64_t> replayed_prefill_;
  std::set<int64_t> replayed_decode_;
  StepInputs inputs_;
  StepResult result_;
  StepResult poisoned_;
  StepResult expected_;
  int64_t steps_ = 0;
  int64_t verified_steps_ = 0;
};

}  // namespace coppice
