// What is recorded, or planned, ahead of calls.

#include <cstdint>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "capi/answer.h"
#include "capi/here.h"

namespace coppice::capi {
namespace {

using Buckets = std::vector<std::vector<int64_t>>;

absl::StatusOr<Buckets> BucketsOf(const int64_t* extents, int64_t count, int64_t symbols) {
  if (symbols < 0 || symbols > kSymbolsMax)
    return InvalidArgument("buckets: {} symbols; give a number from 0 to {}", symbols, kSymbolsMax);
  const bool has_extents = symbols > 0;
  COPPICE_RETURN_IF_ERROR(CheckArray(has_extents ? extents : &symbols, count, "buckets"));
  Buckets buckets;
  for (int64_t i = 0; i < count; ++i, extents += symbols)
    buckets.emplace_back(extents, extents + symbols);
  return buckets;
}

// The options, but for what a step has of its own.
absl::StatusOr<WarmOptions> OptionsOf(const coppice_session& session,
                                      const coppice_warm_options& given) {
  COPPICE_RETURN_IF_ERROR(CheckLane(session, given.lane));
  WarmOptions options;
  options.lane = given.lane;
  options.progress = CallbackOf(given.progress, given.user, session);
  return options;
}

absl::Status WarmBuckets(coppice_session& session,
                         const Program& program,
                         const Buckets& buckets,
                         const coppice_warm_options* pointer) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_warm_options given, ReadOptions(pointer));
  COPPICE_ASSIGN_OR_RETURN(WarmOptions options, OptionsOf(session, given));
  COPPICE_ASSIGN_OR_RETURN(options.scratch, BindingOf(session, given.scratch));
  COPPICE_ASSIGN_OR_RETURN(const Binding* const binding, BindingOf(session, given.binding));
  COPPICE_ASSIGN_OR_RETURN(const auto scalars,
                           SpanOf(given.scalars, given.scalar_count, "scalars"));
  return session.session->warming().Warm(program, binding, buckets, scalars, options);
}

absl::StatusOr<std::vector<WarmStep::Feed>> FeedsOf(const coppice_feed* given,
                                                    int64_t count,
                                                    const char* what) {
  COPPICE_ASSIGN_OR_RETURN(const auto read, ReadArray(given, count));
  std::vector<WarmStep::Feed> feeds;
  for (const coppice_feed& feed : read) {
    if (feed.input < 0 || feed.step < 0 || feed.output < 0)
      return InvalidArgument("{}: input {}, step {}, output {}; give 0 or more for each", what,
                             feed.input, feed.step, feed.output);
    feeds.push_back({.input = static_cast<size_t>(feed.input),
                     .step = static_cast<size_t>(feed.step),
                     .output = static_cast<size_t>(feed.output)});
  }
  return feeds;
}

absl::StatusOr<WarmStep> StepOf(const coppice_session& session, const coppice_warm_step& given) {
  WarmStep step;
  COPPICE_ASSIGN_OR_RETURN(step.program, ProgramOf(session, given.program));
  COPPICE_ASSIGN_OR_RETURN(step.binding, BindingOf(session, given.binding));
  COPPICE_ASSIGN_OR_RETURN(step.scratch, BindingOf(session, given.scratch));
  if (given.symbol_count > kSymbolsMax)
    return InvalidArgument("bucket: {} symbols; give a number from 0 to {}", given.symbol_count,
                           kSymbolsMax);
  COPPICE_ASSIGN_OR_RETURN(const auto bucket, SpanOf(given.bucket, given.symbol_count, "bucket"));
  step.bucket.assign(bucket.begin(), bucket.end());
  COPPICE_ASSIGN_OR_RETURN(const auto scalars,
                           SpanOf(given.scalars, given.scalar_count, "scalars"));
  step.scalars.assign(scalars.begin(), scalars.end());
  COPPICE_ASSIGN_OR_RETURN(step.feeds, FeedsOf(given.feeds, given.feed_count, "feeds"));
  COPPICE_ASSIGN_OR_RETURN(step.counts, FeedsOf(given.counts, given.count_count, "counts"));
  return step;
}

absl::Status WarmSteps(coppice_session& session,
                       const coppice_warm_step* given,
                       int64_t count,
                       const coppice_warm_options* pointer) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_warm_options read, ReadOptions(pointer));
  COPPICE_ASSIGN_OR_RETURN(const WarmOptions options, OptionsOf(session, read));
  COPPICE_ASSIGN_OR_RETURN(const auto array, ReadArray(given, count));
  std::vector<WarmStep> steps;
  for (const coppice_warm_step& step : array) {
    COPPICE_ASSIGN_OR_RETURN(WarmStep next, StepOf(session, step));
    steps.push_back(std::move(next));
  }
  return session.session->warming().Warm(steps, options);
}

void WritePlanned(const std::vector<PlannedBucket>& planned, coppice_planned_bucket* out) {
  if (planned.empty()) return;
  const uint32_t stride = out->struct_size;
  auto* at = reinterpret_cast<std::byte*>(out);
  for (const PlannedBucket& bucket : planned) {
    WriteStruct({.struct_size = 0,
                 .reserved = 0,
                 .plan_height = bucket.plan_height,
                 .live_bytes = bucket.live_bytes,
                 .plan_method = bucket.plan_method},
                reinterpret_cast<coppice_planned_bucket*>(at));
    at += stride;
  }
}

}  // namespace

extern "C" {

coppice_status coppice_warm(coppice_session* session,
                            coppice_program* program,
                            const int64_t* buckets,
                            int64_t bucket_count,
                            int64_t symbol_count,
                            const coppice_warm_options* options) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Program* const of, ProgramOf(*session, program));
    COPPICE_ASSIGN_OR_RETURN(const Buckets rows, BucketsOf(buckets, bucket_count, symbol_count));
    return WarmBuckets(*session, *of, rows, options);
  });
}

coppice_status coppice_warm_steps(coppice_session* session,
                                  const coppice_warm_step* steps,
                                  int64_t step_count,
                                  const coppice_warm_options* options) {
  return AnswerOn(session, [&] { return WarmSteps(*session, steps, step_count, options); });
}

coppice_status coppice_plan(coppice_session* session,
                            coppice_program* program,
                            const int64_t* buckets,
                            int64_t bucket_count,
                            int64_t symbol_count,
                            const int64_t* scalars,
                            int64_t scalar_count,
                            coppice_planned_bucket* out) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Program* const of, ProgramOf(*session, program));
    COPPICE_ASSIGN_OR_RETURN(const Buckets rows, BucketsOf(buckets, bucket_count, symbol_count));
    COPPICE_ASSIGN_OR_RETURN(const auto values, SpanOf(scalars, scalar_count, "scalars"));
    COPPICE_RETURN_IF_ERROR(ReadArray(out, bucket_count).status());
    const std::shared_lock looking(session->looking);
    COPPICE_ASSIGN_OR_RETURN(const std::vector<PlannedBucket> planned,
                             session->session->warming().Plan(*of, rows, values));
    WritePlanned(planned, out);
    return absl::OkStatus();
  });
}

}  // extern "C"
}  // namespace coppice::capi
