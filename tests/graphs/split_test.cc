// Goal: what lease.h says of parts of a lease. Method: what the next call's plan went around, what
// memory is live, and values by the host, in every way to run.

#include "tests/graphs/lifetimes_fixture.h"

namespace coppice {
namespace {

class SplitTest : public LifetimesTest {
 protected:
  // A call of forward's two outputs, of which the second is static.
  coppice::Call BoundCall(Session& session, const Tensor& x) {
    const Program* bound = AddForward(session, 2, OutputRole::kStatic);
    const Tensor place = Upload(0);
    coppice::Call call = CallOf(bound, {&x, 1});
    call.binding = *session.Bind(*bound, {&place, 1});
    return call;
  }
};

TEST_F(SplitTest, EachPartShowsItsOutputAndIsKeptByItself) {
  const Program* forward = AddForward(*session_, 3);
  const Tensor x = Upload(5);
  Lease lease = Replayed(*session_, CallOf(forward, {&x, 1}));
  EXPECT_EQ(lease.part(), -1);
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_EQ(lease.call_number(), 0U) << "it is empty";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(parts[static_cast<size_t>(i)].part(), i);
    EXPECT_EQ(parts[static_cast<size_t>(i)].kind(), RunKind::kReplay);
    ExpectValues(parts[static_cast<size_t>(i)], i, static_cast<float>(5 * (i + 1)));
  }
  const Lease moved = std::move(parts[2]);
  EXPECT_EQ(moved.part(), 2);
  parts.clear();
  ExpectValues(moved, 2, 15);
}

TEST_F(SplitTest, BytesOfADroppedPartServeTheNextCallAndOthersAreLeftAlone) {
  const Program* forward = AddForward(*session_, 4);
  const Program* backward = AddBackward(*session_, 1);
  const Tensor x = Upload(5);
  for (int i = 0; i < 4; ++i) {
    Lease lease = Replayed(*session_, CallOf(forward, {&x, 1}));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    parts[1].Release();
    parts[2].Release();
    const Tensor read = OutputOf(parts[0], 0);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(CallOf(backward, {&read, 1})));
    ExpectValues(made, 0, 10);
    ExpectValues(parts[0], 0, 5);
    ExpectValues(parts[3], 3, 20);
  }
  const NodeInfo node = NodeOf(*session_, "backward");
  EXPECT_EQ(node.around_bytes, 2 * kTensorBytes);
  EXPECT_EQ(node.plan_height, 4 * kTensorBytes) << "the output lies where a part was dropped";
}

TEST_F(SplitTest, OutputOfADroppedPartIsStaleAsAnInput) {
  const Program* forward = AddForward(*session_, 2);
  const Tensor x = Upload(5);
  Lease lease = Replayed(*session_, CallOf(forward, {&x, 1}));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  const std::vector<Tensor> outputs = OutputsOf(parts);
  parts[1].Release();
  EXPECT_THAT(session_->Run(CallOf(forward, {&outputs[1], 1})).status(), StatusIs(kRefused));
  EXPECT_OK(session_->Run(CallOf(forward, {outputs.data(), 1})));
}

TEST_F(SplitTest, OutputsOfARunWithoutAGraphAreGivenBackOneByOne) {
  const Program* forward = AddForward(*session_, 3);
  const Tensor x = Upload(5);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
  EXPECT_EQ(lease.kind(), RunKind::kWarmUp);
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  EXPECT_EQ(session_->memory().usage().eager_live, 3 * kTensorBytes);
  parts[0].Release();
  parts[1].Release();
  session_->SetStance(Stance::kEager);
  { COPPICE_ASSERT_OK_AND_ASSIGN(const Lease sweeps, session_->Run(CallOf(forward, {&x, 1}))); }
  ASSERT_OK(session_->Run(CallOf(AddBackward(*session_, 0), {})));
  EXPECT_EQ(session_->memory().usage().eager_live, kTensorBytes);
  std::vector<Lease> later;
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease next, session_->Run(CallOf(forward, {&x, 1})));
    later.push_back(std::move(next));
    ExpectValues(parts[2], 2, 15);
  }
  for (const Lease& each : later)
    ExpectValues(each, 1, 10);
}

TEST_F(SplitTest, StaticOutputKeepsNoBytesOfARunWithoutAGraph) {
  const Tensor x = Upload(5);
  const coppice::Call call = BoundCall(*session_, x);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(call));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  EXPECT_EQ(session_->memory().usage().eager_live, kTensorBytes);
  parts[0].Release();
  EXPECT_EQ(session_->memory().usage().eager_live, 0);
  ExpectValues(parts[1], 1, 10);
}

TEST_F(SplitTest, PartThatKeepsNoMemoryOfTheSessionStandsInNobodysWay) {
  const Tensor x = Upload(5);
  const coppice::Call call = BoundCall(*session_, x);
  Lease lease = Replayed(*session_, call);
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  ASSERT_OK(device_.Synchronize());
  EXPECT_THAT(session_->memory().Suspend({.refuse_leases = true}), StatusIs(kRefused));
  parts[0].Release();
  ASSERT_OK(session_->memory().Suspend({.refuse_leases = true}));
  ASSERT_OK(session_->memory().Resume());
}

TEST_F(SplitTest, NextReplayBehindDroppedPartsHasALeaseOfItsOwn) {
  const Program* forward = AddForward(*session_, 2);
  const Tensor x = Upload(5);
  Lease lease = Replayed(*session_, CallOf(forward, {&x, 1}));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  parts.clear();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease kept, session_->Run(CallOf(forward, {&x, 1})));
  const Tensor read = OutputOf(kept, 1);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease child, session_->Run(CallOf(forward, {&read, 1})));
  ExpectValues(kept, 0, 5);
  ExpectValues(kept, 1, 10);
  ExpectValues(child, 1, 20);
}

TEST_F(SplitTest, OfAnEmptyLeaseOrAPartOrBehindItsSessionIsRefused) {
  std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 2);
  const Tensor x = Upload(5);
  Lease empty;
  EXPECT_THAT(empty.Split(), StatusIs(kRefused));
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  EXPECT_THAT(parts[0].Split(), StatusIs(kRefused));
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease late, session->Run(CallOf(forward, {&x, 1})));
  session.reset();
  EXPECT_THAT(late.Split(), StatusIs(kRefused));
  parts.clear();  // Behind their session.
}

TEST_F(SplitTest, PartsAreDroppedOnAnyThread) {
  const Program* forward = AddForward(*session_, 4);
  const Tensor x = Upload(5);
  for (int round = 0; round < 20; ++round) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    std::vector<std::thread> threads;
    for (Lease& part : parts)
      threads.emplace_back([part = std::move(part)]() mutable { part.Release(); });
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease meanwhile, session_->Run(CallOf(forward, {&x, 1})));
    ExpectValues(meanwhile, 3, 20);
    for (std::thread& thread : threads)
      thread.join();
  }
}

TEST_F(SplitTest, ScopeThatIsOpenKeepsWhatItShows) {
  const Program* forward = AddForward(*session_, 2);
  const Program* backward = AddBackward(*session_, 1);
  const Tensor x = Upload(3);
  for (int i = 0; i < 4; ++i) {
    Lease lease = Replayed(*session_, CallOf(forward, {&x, 1}));
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    parts[0].Release();
    Tensor read = scope.output(1);
    ASSERT_OK(session_->Run(CallOf(backward, {&read, 1})));
    const Tensor shown = scope.output(0);
    EXPECT_EQ(device_.Download<float>(shown.data, kTensorElements),
              std::vector<float>(kTensorElements, 3));
  }
}

TEST_F(SplitTest, ScopeOfAPartOrdersAnotherLaneForItsOutputAlone) {
  const std::unique_ptr<Session> session = MakeSession({.lanes = 2});
  const Program* forward = AddForward(*session, 2);
  const Tensor x = Upload(3);
  Lease lease = Replayed(*session, CallOf(forward, {&x, 1}));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  const std::vector<Tensor> outputs = OutputsOf(parts);
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, parts[1].Read(device_.stream()));
  for (const size_t index : {size_t{0}, size_t{1}}) {
    coppice::Call call = CallOf(forward, {&outputs[index], 1});
    call.lane = 1;
    EXPECT_EQ(session->Run(call).ok(), index == 1);
  }
}

TEST_F(SplitTest, ScopeOfAPartShowsNoOtherOutput) {
  const Program* forward = AddForward(*session_, 2);
  const Tensor x = Upload(5);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<Lease> parts, lease.Split());
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, parts[1].Read(device_.stream()));
  EXPECT_EQ(scope.output(1).rank, 1);
  EXPECT_DEATH((void)scope.output(0), "does not hold this output");
}

}  // namespace
}  // namespace coppice
