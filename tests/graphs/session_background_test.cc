// Goal: recording in the background and inclusion in a caller's capture do what session.h says.
// Method: affine on the emulator; the recording thread is waited for, never slept for.

#include <exception>
#include <latch>

#include "coppice/runtime/graph.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class BackgroundTest : public SessionFixture {
 protected:
  // Something that a library may throw: an exception of the standard library's, or anything.
  static void Throw(bool known) {
    if (known) (void)std::vector<int>().at(1);
    std::rethrow_exception(std::make_exception_ptr(1));
  }

  Affine MakeThreadSafe(const SessionOptions& options) {
    ProgramSpec spec = AffineSpec();
    spec.thread_safe = true;
    return MakeAffine(options, nullptr, spec);
  }
};

TEST_F(BackgroundTest, CallsRunEagerlyUntilTheGraphIsThere) {
  const Affine affine = MakeThreadSafe({.record_in_background = true});
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kEager);
  EXPECT_TRUE(affine.session->stats().reasons[static_cast<size_t>(Reason::kNewBucket)] >= 2);
  affine.session->WaitForRecordings();
  ExpectRun(affine, 4, RunKind::kReplay);
  EXPECT_EQ(Executions(), 3);
  EXPECT_EQ(affine.session->stats().recordings, 1);
}

TEST_F(BackgroundTest, ProgramThatIsNotThreadSafeIsRecordedInline) {
  const Affine affine = MakeAffine({.record_in_background = true});
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kRecord);
}

TEST_F(BackgroundTest, CallableThatThrowsIsNotCapturable) {
  for (const bool known : {true, false}) {
    std::vector<std::string> lines;
    ProgramSpec spec = AffineSpec();
    spec.thread_safe = true;
    const Affine affine =
        MakeAffine({.record_in_background = true,
                    .log = [&](const std::string& line) { lines.push_back(line); }},
                   AffineCallable([known](CallContext& context) {
                     if (context.phase() == Phase::kRecord) Throw(known);
                     return absl::OkStatus();
                   }),
                   spec);
    ExpectRun(affine, 4, RunKind::kWarmUp);
    ExpectRun(affine, 4, RunKind::kEager);
    affine.session->WaitForRecordings();
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
    EXPECT_EQ(lease.reason(), Reason::kNotCapturable);
    EXPECT_EQ(Read(lease), Expected(4));
    EXPECT_EQ(device_.emulator().live().captures, 0);
    EXPECT_THAT(lines, testing::Contains(HasSubstr(known ? "vector" : "threw under capture")));
  }
}

TEST_F(BackgroundTest, SessionMayEndWhileRecordingsAreQueued) {
  for (int round = 0; round < 20; ++round) {
    const Affine affine = MakeThreadSafe({.record_in_background = true});
    for (const int64_t n : {4, 4, 8, 8, 16, 16})
      ASSERT_OK(Call(affine, n).status());
  }
}

TEST_F(BackgroundTest, WarmTakesTheLargestBucketFirstAndReportsProgress) {
  ProgramSpec spec = AffineSpec();
  spec.inputs[2].mutated = false;  // As far as Warm needs to know: it has a counter of its own.
  std::vector<int64_t> extents;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext& context) -> absl::Status {
                                     extents.push_back(context.extent(0));
                                     return absl::OkStatus();
                                   }),
                                   spec);
  std::vector<int64_t> progress;
  const std::vector<std::vector<int64_t>> buckets = {{4}, {64}, {16}};
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  ASSERT_OK(affine.session->warming().Warm(
      *affine.program, affine.binding, buckets, {&scalar, 1},
      {.progress = [&](int64_t done, int64_t total) { progress.push_back(done * 10 + total); }}));
  EXPECT_THAT(extents, ElementsAre(64, 64, 16, 16, 4, 4));
  EXPECT_THAT(progress, ElementsAre(13, 23, 33));
}

class IncludeTest : public SessionFixture {
 protected:
  // A graph of the caller's that includes affine at extent `n`, and the lease of its outputs.
  absl::StatusOr<Lease> Include(const Affine& affine, int64_t n, std::optional<GraphExec>& exec) {
    auto x = device_.Upload(Ramp(n));
    uploads_.push_back(*std::move(x));
    const Tensor input = FloatsAt(uploads_.back().address(), n);
    const int64_t scalar = std::bit_cast<int64_t>(2.0);
    COPPICE_ASSIGN_OR_RETURN(Capture capture, Capture::Begin(device_.driver(), device_.stream()));
    absl::StatusOr<Lease> lease = affine.session->Include({.program = affine.program,
                                                           .binding = affine.binding,
                                                           .inputs = {&input, 1},
                                                           .scalars = {&scalar, 1},
                                                           .stream = device_.stream()});
    COPPICE_ASSIGN_OR_RETURN(const Graph graph, capture.End());
    COPPICE_ASSIGN_OR_RETURN(GraphExec made, GraphExec::Instantiate(device_.driver(), graph));
    exec.emplace(std::move(made));
    return lease;
  }
  absl::Status Launch(const GraphExec& exec) {
    return device_.driver().Call<&DriverTable::GraphLaunch>(exec.handle(), device_.stream());
  }
};

TEST_F(IncludeTest, WarmProgramBecomesAChildGraphWithAWindowOfItsOwn) {
  const Affine affine = MakeAffine();
  ASSERT_OK(Call(affine, 5).status());
  std::optional<GraphExec> exec;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease included, Include(affine, 5, exec));
  EXPECT_EQ(included.kind(), RunKind::kInclude);
  EXPECT_EQ(Executions(), 1) << "a capture ran the program";
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_OK(Launch(*exec));
    EXPECT_EQ(Read(included), Expected(5));
    // Calls of the session do not touch its window, nor it theirs.
    EXPECT_EQ(Read(*Call(affine, 6)), Expected(6));
    EXPECT_EQ(Read(included), Expected(5));
  }
  EXPECT_EQ(Executions(), 7);
}

TEST_F(IncludeTest, EachInclusionHasAWorkspaceOfItsOwnWhichASuspensionLeaves) {
  std::vector<DeviceAddress> workspaces;
  const auto write = [&](CallContext& context) {
    workspaces.push_back(context.workspace());
    return coppice::Launch(
        device_.driver(), kernels_.fill, context.stream(),
        FillParams{.target = PointerAt<float>(context.workspace()), .count = 1, .value = 7}, 1);
  };
  const Affine affine = MakeAffine({.memory = {.workspace_bytes = 1024}}, AffineCallable(write));
  ASSERT_OK(Call(affine, 5).status());
  std::optional<GraphExec> first;
  std::optional<GraphExec> second;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease included, Include(affine, 5, first));
  ASSERT_OK(Include(affine, 5, second).status());
  ASSERT_EQ(workspaces.size(), 3U);
  EXPECT_TRUE(affine.session->memory().Locate(workspaces[0]).has_value());
  EXPECT_FALSE(affine.session->memory().Locate(workspaces[1]).has_value());
  EXPECT_NE(workspaces[1], workspaces[2]);
  ASSERT_OK(affine.session->memory().Suspend({}));
  ASSERT_OK(Launch(*first));
  EXPECT_EQ(device_.Download<float>(workspaces[1], 1), std::vector<float>{7});
  ASSERT_OK(affine.session->memory().Resume());
  EXPECT_EQ(Read(included), Expected(5));
}

TEST_F(IncludeTest, InclusionThatDepartsLeavesTheBucketToTheRecordingUnderWay) {
  std::latch began(1);
  std::latch may_end(1);
  bool departs = false;
  const std::thread::id caller = std::this_thread::get_id();
  ProgramSpec spec = AffineSpec();
  spec.thread_safe = true;
  const Affine affine =
      MakeAffine({.record_in_background = true}, AffineCallable([&](CallContext& context) {
                   if (std::this_thread::get_id() == caller)
                     return departs ? context.Allocate(4096).status() : absl::OkStatus();
                   began.count_down();
                   may_end.wait();
                   return absl::OkStatus();
                 }),
                 spec);
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kEager);
  began.wait();
  departs = true;
  std::optional<GraphExec> exec;
  EXPECT_THAT(Include(affine, 4, exec), StatusIs(kRefused));
  departs = false;
  for (int i = 0; i < 2; ++i)
    ExpectRun(affine, 4, RunKind::kEager);
  may_end.count_down();
  affine.session->WaitForRecordings();
  ExpectRun(affine, 4, RunKind::kReplay);
  EXPECT_EQ(affine.session->stats().recordings, 1);
  EXPECT_EQ(affine.session->nodes().size(), 1U);
}

TEST_F(IncludeTest, FailedInclusionsLeaveNoMemoryBehind) {
  const Affine affine =
      MakeAffine({.memory = {.workspace_bytes = 1024}}, AffineCallable([](CallContext& context) {
                   return context.Break([](CuStream) { return absl::OkStatus(); });
                 }));
  ASSERT_OK(Call(affine, 5).status());
  const int64_t allocated = device_.ledger().allocated_bytes();
  for (int i = 0; i < 5; ++i) {
    std::optional<GraphExec> exec;
    EXPECT_THAT(Include(affine, 5, exec), StatusIs(kRefused));
    uploads_.pop_back();
  }
  EXPECT_EQ(affine.session->memory().usage().of(MemoryKind::kIncluded), 0);
  EXPECT_EQ(device_.ledger().allocated_bytes(), allocated);
}

TEST_F(IncludeTest, ColdProgramAndStreamThatDoesNotCaptureAreRefused) {
  const Affine affine = MakeAffine();
  std::optional<GraphExec> exec;
  EXPECT_THAT(Include(affine, 5, exec), StatusIs(kRefused, HasSubstr("never warmed up")));
  ASSERT_OK(Call(affine, 5).status());
  const Tensor x = FloatsAt(uploads_.back().address(), 5);
  const int64_t scalar = 0;
  EXPECT_THAT(affine.session->Include({.program = affine.program,
                                       .binding = affine.binding,
                                       .inputs = {&x, 1},
                                       .scalars = {&scalar, 1},
                                       .stream = device_.stream()}),
              StatusIs(kRefused));
}

}  // namespace
}  // namespace coppice
