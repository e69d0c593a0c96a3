// Runs each step on the main runner, then what is followed on the reference.

#include "tools/run/replayer.h"

#include <algorithm>

#include "coppice/base/status.h"

namespace coppice {
namespace {

// Mixes bits so that equal inputs give equal tokens on every machine (SplitMix64).
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replayer>> Replayer::Create(const Context& context,
                                                           const ServedModel& model,
                                                           const Options& options) {
  std::unique_ptr<Replayer> replayer(new Replayer(model, options));
  replayer->next_tokens_.resize(options.followed.size());
  const int64_t calls_per_step = options.poison ? 2 : 1;
  const auto half_life =
      static_cast<double>(kRelearnHalfLives * options.relearn_period * calls_per_step);
  COPPICE_ASSIGN_OR_RETURN(replayer->main_,
                           StepRunner::Create(context, model,
                                              {.prefill_policy = options.prefill_policy,
                                               .decode_policy = options.decode_policy,
                                               .session = options.session,
                                               .observe_half_life = half_life,
                                               .ledger = options.ledger}));
  if (options.relearn_period > 0)
    replayer->relearning_ = std::make_unique<Relearning>(*replayer->main_, options.relearn_period);
  for (const bool prefill : {true, false}) {
    COPPICE_ASSIGN_OR_RETURN(replayer->pow2_[prefill],
                             PaddingPolicy::Pow2(replayer->main_->policy(prefill).maximum()));
  }
  const ModelSizes sizes = model.sizes();
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy prompts, PaddingPolicy::Exact(sizes.max_context));
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy batches, PaddingPolicy::Exact(sizes.slots));
  SessionOptions eager;
  eager.stance = Stance::kEager;
  COPPICE_ASSIGN_OR_RETURN(
      replayer->reference_,
      StepRunner::Create(context, model,
                         {.prefill_policy = prompts, .decode_policy = batches, .session = eager}));
  return replayer;
}

absl::Status Replayer::Warm(const RecordingOrder& order,
                            const std::function<void(int64_t, int64_t)>& progress) {
  const std::vector<ProgramBucket> buckets =
      OrderBuckets(options_.prefill_policy, options_.decode_policy, order);
  for (size_t i = 0; i < buckets.size(); ++i) {
    // The reference's cache is scratch memory until the first step.
    COPPICE_RETURN_IF_ERROR(main_->Warm(buckets[i].prefill, buckets[i].extent, *reference_));
    progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(buckets.size()));
  }
  return absl::OkStatus();
}

absl::Status Replayer::Replay(const Step& step) {
  const bool verify = std::any_of(step.rows.begin(), step.rows.end(), [&](const StepRow& row) {
    return options_.followed[static_cast<size_t>(row.request)];
  });
  const bool want_logits = verify || options_.poison || options_.log != nullptr;
  inputs_ = MakeInputs(step, /*followed_only=*/false);
  padding_[step.prefill].served.Add(ExtentOf(step), main_->policy(step.prefill));
  padding_[step.prefill].pow2.Add(ExtentOf(step), *pow2_[step.prefill]);
  if (options_.poison) COPPICE_RETURN_IF_ERROR(RunMain(step, Poison::kNan, want_logits, poisoned_));
  const Poison poison = options_.poison ? Poison::kPattern : Poison::kOff;
  COPPICE_RETURN_IF_ERROR(RunMain(step, poison, want_logits, result_));
  if (options_.poison) ComparePoisoned(step, poisoned_, result_);
  if (verify) COPPICE_RETURN_IF_ERROR(Verify(step));
  if (options_.log != nullptr) options_.log->Add(step, inputs_, result_);

  for (size_t row = 0; row < step.rows.size(); ++row)
    next_tokens_[static_cast<size_t>(step.rows[row].request)] = result_.next_tokens[row];
  ++steps_;
  return relearning_ == nullptr ? absl::OkStatus() : relearning_->Add(step);
}

absl::Status Replayer::RunMain(const Step& step,
                               Poison poison,
                               bool want_logits,
                               StepResult& result) {
  COPPICE_RETURN_IF_ERROR(main_->Run(inputs_, poison, want_logits, result));
  if (result.path != RunKind::kReplay) return absl::OkStatus();
  replay_host_ns_.push_back(result.host_ns);
  replay_driver_ns_.push_back(result.driver_ns);
  (step.prefill ? replayed_prefill_ : replayed_decode_).insert(BucketOf(step));
  return absl::OkStatus();
}

StepInputs Replayer::MakeInputs(const Step& step, bool followed_only) const {
  StepInputs inputs;
  inputs.prefill = step.prefill;
  for (const StepRow& row : step.rows) {
    const size_t request = static_cast<size_t>(row.request);
    if (followed_only && !options_.followed[request]) continue;
    inputs.slots.push_back(static_cast<int32_t>(row.slot));
    if (step.prefill) {
      for (int64_t position = 0; position < row.tokens; ++position)
        inputs.tokens.push_back(PromptToken(row.request, position));
    } else {
      inputs.tokens.push_back(next_tokens_[request]);
      inputs.positions.push_back(static_cast<int32_t>(row.position));
    }
  }
  return inputs;
}

int32_t Replayer::PromptToken(int64_t request, int64_t position) const {
  const uint64_t bits = Mix(Mix(Mix(options_.seed) ^ static_cast<uint64_t>(request)) ^
                            static_cast<uint64_t>(position));
  return static_cast<int32_t>(bits % static_cast<uint64_t>(sizes_.vocab));
}

absl::Status Replayer::Verify(const Step& step) {
  const StepInputs inputs = MakeInputs(step, /*followed_only=*/true);
  COPPICE_RETURN_IF_ERROR(reference_->Run(inputs, Poison::kOff, /*want_logits=*/true, expected_));
  size_t expected_row = 0;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const StepRow& row = step.rows[i];
    if (!options_.followed[static_cast<size_t>(row.request)]) continue;
    const std::span<const float> logits = expected_.RowLogits(expected_row);
    verifier_.CompareFloats(Describe(step, row, "logits"), logits, result_.RowLogits(i));
    verifier_.CompareToken(Describe(step, row, "next token"), logits,
                           expected_.next_tokens[expected_row], result_.next_tokens[i]);
    ++expected_row;
    const bool adopt = step.prefill && !main_->claimed(/*prefill=*/true).bits;
    if (row.last || adopt) COPPICE_RETURN_IF_ERROR(VerifyCache(step, row, adopt));
  }
  ++verified_steps_;
  return absl::OkStatus();
}

absl::Status Replayer::VerifyCache(const Step& step, const StepRow& row, bool adopt) {
  std::vector<float> expected;
  std::vector<float> actual;
  for (const bool keys : {true, false}) {
    const int64_t length = row.position + row.tokens;
    COPPICE_RETURN_IF_ERROR(reference_->ReadCache(keys, row.slot, length, expected));
    COPPICE_RETURN_IF_ERROR(main_->ReadCache(keys, row.slot, length, actual));
    verifier_.CompareFloats(Describe(step, row, keys ? "keys" : "values"), expected, actual);
    if (adopt) COPPICE_RETURN_IF_ERROR(reference_->WriteCache(keys, row.slot, length, actual));
  }
  return absl::OkStatus();
}

void Replayer::ComparePoisoned(const Step& step,
                               const StepResult& first,
                               const StepResult& second) {
  for (size_t i = 0; i < step.rows.size(); ++i) {
    Comparison comparison = Describe(step, step.rows[i], "logits under the two poisons");
    comparison.exact = true;
    // Either is as near as claimed to the result at the real size.
    comparison.claimed = Joined(comparison.claimed, comparison.claimed);
    verifier_.CompareFloats(comparison, first.RowLogits(i), second.RowLogits(i));
    comparison.what = "next token under the two poisons";
    verifier_.CompareToken(comparison, first.RowLogits(i), first.next_tokens[i],
                           second.next_tokens[i]);
  }
}

int64_t Replayer::BucketOf(const Step& step) const {
  return main_->policy(step.prefill).Find(ExtentOf(step)).value_or(0);
}

Comparison Replayer::Describe(const Step& step, const StepRow& row, const char* what) const {
  return {.step = steps_,
          .request = row.request,
          .program = StepRunner::ProgramName(step.prefill),
          .bucket = BucketOf(step),
          .what = what,
          .claimed = main_->claimed(step.prefill)};
}

}  // namespace coppice
