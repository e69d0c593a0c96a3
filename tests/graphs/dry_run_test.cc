// Goal: a callable that is registered with a dry run needs no warm-up, as session.h says. Method: a
// program whose calls are counted, with dry runs that are right, and others that are not.

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

const std::vector<std::vector<int64_t>> kOneBucket = {{4}};

class DryRunTest : public SessionFixture {
 protected:
  // Affine with a dry run.
  Affine MakeDry(Callable callable, Callable dry_run) const {
    Affine affine{.session = MakeSession()};
    affine.program =
        *affine.session->Register(AffineSpec(), std::move(callable), std::move(dry_run));
    affine.binding = *affine.session->Bind(*affine.program, AffineStatics(counter_.address()));
    return affine;
  }
};

// What AffineCallable requests.
absl::Status RequestAffine(CallContext& context) {
  EXPECT_EQ(context.phase(), Phase::kWarmUp);
  EXPECT_EQ(context.stream(), CuStream{});
  COPPICE_ASSIGN_OR_RETURN(
      const DeviceAddress scaled,
      context.Allocate(context.extent(0) * static_cast<int64_t>(sizeof(float))));
  COPPICE_RETURN_IF_ERROR(context.AllocateOutput(0).status());
  return context.Free(scaled);
}

TEST_F(DryRunTest, TakesThePlaceOfTheWarmUp) {
  ExpectRun(MakeAffine(), 4, RunKind::kWarmUp);  // A capture must not load kernels.
  std::vector<Phase> phases;
  const Affine affine = MakeDry(AffineCallable([&](CallContext& run) {
                                  phases.push_back(run.phase());
                                  return absl::OkStatus();
                                }),
                                RequestAffine);
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const std::vector<PlannedBucket> planned,
      affine.session->warming().Plan(*affine.program, kOneBucket, {&scalar, 1}));
  ExpectRun(affine, 4, RunKind::kRecord);
  ExpectRun(affine, 3, RunKind::kReplay);
  EXPECT_EQ(phases, std::vector<Phase>{Phase::kRecord});
  EXPECT_EQ(affine.session->nodes().at(0).plan_height, planned.at(0).plan_height);
  // Its static input is counted up; a warm-up ahead would need scratch ones.
  const std::vector<std::vector<int64_t>> buckets = {{8}};
  EXPECT_OK(
      affine.session->warming().Warm(*affine.program, affine.binding, buckets, {&scalar, 1}, {}));
  ExpectRun(affine, 8, RunKind::kReplay);
  EXPECT_EQ(Executions(), 4);
}

TEST_F(DryRunTest, WhatRunsOtherwiseIsWarmedUp) {
  const Affine affine = MakeDry(
      AffineCallable(), [](CallContext& context) { return context.AllocateOutput(0).status(); });
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease departed, Call(affine, 4));
  EXPECT_EQ(departed.kind(), RunKind::kWarmUp);
  EXPECT_EQ(departed.reason(), Reason::kNotCapturable);
  EXPECT_EQ(Read(departed), Expected(4));
}

TEST_F(DryRunTest, WarmRunsThatOnScratchInputs) {
  const Affine affine = MakeDry(
      AffineCallable(), [](CallContext& context) { return context.AllocateOutput(0).status(); });
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  EXPECT_THAT(
      affine.session->warming().Warm(*affine.program, affine.binding, kOneBucket, {&scalar, 1}, {}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("dry_run")));
  const DeviceMemory scratch = *device_.Upload(std::vector<float>{0});
  const Binding* const on_scratch =
      *affine.session->Bind(*affine.program, AffineStatics(scratch.address()));
  EXPECT_OK(affine.session->warming().Warm(*affine.program, affine.binding, kOneBucket,
                                           {&scalar, 1}, {.scratch = on_scratch}));
  ExpectRun(affine, 4, RunKind::kReplay);
  EXPECT_EQ(Executions(), 1);
}

TEST_F(DryRunTest, DropsTheStepsOfItsBreaks) {
  ExpectRun(MakeAffine(), 4, RunKind::kWarmUp);  // A capture must not load kernels.
  int steps = 0;
  const auto count = [&steps](CallContext& context) {
    return context.Break([&steps](CuStream) {
      ++steps;
      return absl::OkStatus();
    });
  };
  const Affine affine = MakeDry(AffineCallable(count), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(
        const DeviceAddress scaled,
        context.Allocate(context.extent(0) * static_cast<int64_t>(sizeof(float))));
    COPPICE_RETURN_IF_ERROR(count(context));
    COPPICE_RETURN_IF_ERROR(context.AllocateOutput(0).status());
    return context.Free(scaled);
  });
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  EXPECT_OK(affine.session->warming().Plan(*affine.program, kOneBucket, {&scalar, 1}));
  EXPECT_EQ(steps, 0);
  ExpectRun(affine, 4, RunKind::kRecord);
  EXPECT_EQ(steps, 1) << "the replay of what was recorded";
}

TEST_F(DryRunTest, SeesTheWorkspaceOfTheSession) {
  SessionOptions options;
  options.memory.workspace_bytes = 4096;
  const std::unique_ptr<Session> session = MakeSession(options);
  int64_t seen = 0;
  const Program* const program =
      *session->Register(AffineSpec(), AffineCallable(), [&seen](CallContext& context) {
        seen = context.workspace_bytes();
        return RequestAffine(context);
      });
  const int64_t scalar = 0;
  EXPECT_OK(session->warming().Plan(*program, kOneBucket, {&scalar, 1}));
  EXPECT_EQ(seen, 4096);
}

TEST_F(DryRunTest, NoneIsRefused) {
  const std::unique_ptr<Session> session = MakeSession();
  EXPECT_THAT(session->Register(AffineSpec(), AffineCallable(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace coppice
