// Goal: every sentence of graphs/call/decide.h. Method: a lane whose buckets and nodes are set up
// by hand; one call of rows; every stance, limit and state of its bucket.

#include "graphs/call/decide.h"

#include "tests/graphs/lane_scene.h"

namespace coppice::internal {
namespace {

class DecideTest : public testing::Test {
 protected:
  DecideTest() {
    request_.shape.real[0] = 7;
    request_.shape.padded[0] = 8;
  }

  Decision Ask(Stance stance = Stance::kRecord) {
    return Decide({.options = options_, .stance = stance}, request_, scene_.lane,
                  FindNode(request_, scene_.lane));
  }
  Bucket& bucket(int64_t n = 8) {
    return scene_.lane.nodes().Of(scene_.program).BucketFor(KeyOf(n));
  }
  void WarmUp() { bucket().NoteWarmUp({}); }
  void ExpectRun(RunKind kind, Reason reason, Stance stance = Stance::kRecord) {
    const Decision decision = Ask(stance);
    EXPECT_OK(decision.status);
    EXPECT_EQ(decision.outcome.kind, kind);
    EXPECT_EQ(decision.outcome.reason, reason);
  }

  LaneScene scene_;
  SessionOptions options_;
  Call call_{.program = &scene_.program};
  Request request_{call_};
};

TEST_F(DecideTest, NodeAndBucketAreFoundByTheCallsKey) {
  EXPECT_EQ(FindNode(request_, scene_.lane), nullptr);
  EXPECT_EQ(FindBucket(request_, scene_.lane), nullptr);
  Node& node = scene_.AddNode(scene_.program, {.n = 8});
  EXPECT_EQ(FindNode(request_, scene_.lane), &node);
  EXPECT_EQ(FindBucket(request_, scene_.lane), &bucket());
  request_.known_place = false;
  EXPECT_EQ(FindNode(request_, scene_.lane), nullptr);
  request_.shape.unbucketed = true;
  EXPECT_EQ(FindBucket(request_, scene_.lane), nullptr);
}

TEST_F(DecideTest, BucketIsWarmedUpThenRecordedThenReplayed) {
  options_.warmup_runs = 2;
  ExpectRun(RunKind::kWarmUp, Reason::kNewBucket);
  WarmUp();
  ExpectRun(RunKind::kWarmUp, Reason::kNewBucket);
  WarmUp();
  ExpectRun(RunKind::kRecord, Reason::kNewBucket);
  scene_.AddNode(scene_.program, {.n = 8});
  ExpectRun(RunKind::kReplay, Reason::kNone);
  ExpectRun(RunKind::kReplay, Reason::kNone, Stance::kReplayOnly);
  ExpectRun(RunKind::kReplay, Reason::kNone, Stance::kStrict);
}

TEST_F(DecideTest, StanceForbidsRecordingAndGraphs) {
  ExpectRun(RunKind::kEager, Reason::kUserDisabled, Stance::kReplayOnly);
  scene_.AddNode(scene_.program, {.n = 8});
  ExpectRun(RunKind::kEager, Reason::kUserDisabled, Stance::kEager);
}

TEST_F(DecideTest, StrictRefusesWhatCannotReplay) {
  EXPECT_THAT(Ask(Stance::kStrict).status, StatusIs(kRefused));
}

TEST_F(DecideTest, WhatCannotBeRecordedRunsEagerly) {
  bucket().BeginRecording();
  ExpectRun(RunKind::kEager, Reason::kNewBucket);
  bucket().NoteNotCapturable("why");
  ExpectRun(RunKind::kEager, Reason::kNotCapturable);
  request_.shape.unbucketed = true;
  ExpectRun(RunKind::kEager, Reason::kUnpaddedExtent);
  request_.shape.real[0] = 100;
  ExpectRun(RunKind::kEager, Reason::kOverLargestBucket);
}

TEST_F(DecideTest, RefusedBucketRefusesItsCallsWithANodeOrWithout) {
  bucket().Refuse(absl::DataLossError(""));
  EXPECT_THAT(Ask().status, StatusIs(absl::StatusCode::kDataLoss));
  scene_.AddNode(scene_.program, {.n = 8});
  EXPECT_THAT(Ask().status, StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(DecideTest, GraphTooManyIsDroppedRefusedOrRunWithout) {
  options_.limits.graphs_per_program_max = 1;
  const Node& other = scene_.AddNode(scene_.program, {.n = 16});
  WarmUp();
  ExpectRun(RunKind::kEager, Reason::kGraphLimit);
  options_.limits.on_limit = OnLimit::kError;
  EXPECT_THAT(Ask().status, StatusIs(kExhausted));
  options_.limits.on_limit = OnLimit::kEvict;
  ExpectRun(RunKind::kRecord, Reason::kNewBucket);
  EXPECT_TRUE(Ask().evict);
  scene_.lane.nodes().Of(scene_.program).Remove(other);
  EXPECT_FALSE(Ask().evict);
}

TEST_F(DecideTest, WarmBucketCountsAsAGraphUnlessAnotherMakesRoom) {
  options_.limits.graphs_per_program_max = 1;
  bucket(16);
  ExpectRun(RunKind::kEager, Reason::kGraphLimit);
  options_.limits.on_limit = OnLimit::kEvict;
  ExpectRun(RunKind::kWarmUp, Reason::kNewBucket);
}

TEST_F(DecideTest, ReasonSaysWhyNoNodeServes) {
  EXPECT_EQ(ReasonForRecording(request_, nullptr), Reason::kNewBucket);
  EXPECT_EQ(ReasonForRecording(request_, &bucket()), Reason::kNewBucket);
  const StaticVersion elsewhere;
  const Node& moved = scene_.AddNode(scene_.program, {.n = 8, .statics = &elsewhere});
  EXPECT_EQ(ReasonForRecording(request_, &bucket()), Reason::kStaticInputMoved);
  const Surroundings around;
  request_.surroundings = &around;
  EXPECT_EQ(ReasonForRecording(request_, &bucket()), Reason::kOtherLiveRegions);
  scene_.lane.nodes().Of(scene_.program).Remove(moved);
  EXPECT_EQ(ReasonForRecording(request_, &bucket()), Reason::kEvicted);
}

// When it does go depends on the device, and Explain must say what Run does.
TEST_F(DecideTest, RetiredGraphCountsAsDroppedWhetherItIsOrNot) {
  const StaticVersion elsewhere;
  const Surroundings around;
  options_.limits.graphs_per_program_max = 2;
  const Node& moved = scene_.AddNode(scene_.program, {.n = 8, .statics = &elsewhere});
  WarmUp();
  for (const Surroundings* surroundings : {static_cast<const Surroundings*>(nullptr), &around}) {
    request_.surroundings = surroundings;
    EXPECT_NE(ReasonForRecording(request_, &bucket()), Reason::kEvicted);
    elsewhere.retired = true;
    EXPECT_EQ(ReasonForRecording(request_, &bucket()), Reason::kEvicted);
    EXPECT_EQ(DescribeReason(request_, scene_.lane, Reason::kStaticInputMoved),
              "static_input_moved");
    elsewhere.retired = false;
  }
  scene_.AddNode(scene_.program, {.n = 16});
  ExpectRun(RunKind::kEager, Reason::kGraphLimit);
  elsewhere.retired = true;
  ExpectRun(RunKind::kRecord, Reason::kEvicted);
  EXPECT_EQ(scene_.lane.nodes().CountDroppable(&scene_.program).nodes, 1);
  scene_.lane.nodes().Of(scene_.program).Remove(moved);
  ExpectRun(RunKind::kRecord, Reason::kEvicted);
}

TEST_F(DecideTest, InputThatMovesTooOftenIsOverTheLimit) {
  options_.limits.rerecords_per_bucket_max = 1;
  const StaticVersion first;
  const StaticVersion second;
  scene_.AddNode(scene_.program, {.n = 8, .statics = &first});
  WarmUp();
  ExpectRun(RunKind::kRecord, Reason::kStaticInputMoved);
  scene_.AddNode(scene_.program,
                 {.n = 8, .statics = &second, .made_for = Reason::kStaticInputMoved});
  ExpectRun(RunKind::kEager, Reason::kGraphLimit);
}

TEST_F(DecideTest, DescriptionNamesTheReasonAndHowManyGraphsThereAre) {
  EXPECT_EQ(DescribeReason(request_, scene_.lane, Reason::kNewBucket), "new_bucket");
  scene_.AddNode(scene_.program, {.n = 16});
  EXPECT_EQ(DescribeReason(request_, scene_.lane, Reason::kGraphLimit),
            "graph_limit: 1 graph in 1 bucket on lane 0");
}

TEST_F(DecideTest, DescriptionNamesTheExtentsThatAreTooLarge) {
  request_.shape.real[0] = 100;
  request_.shape.unbucketed = true;
  EXPECT_EQ(DescribeReason(request_, scene_.lane, Reason::kOverLargestBucket),
            "over_largest_bucket: n = 100 (at most 64)");
}

TEST_F(DecideTest, DescriptionNamesTheLeasesThatLieAroundTheCall) {
  SlotTable& slots = scene_.lane.slots();
  std::vector<Slot*> taken;
  for (const int64_t n : {8, 16, 8}) {
    bucket(n).Describe({.program = "rows", .bucket = {n}}, -1);
    const NodeKey key = [n] {
      NodeKey of;
      of.bucket = KeyOf(n);
      return of;
    }();
    Node* node = scene_.lane.nodes().Of(scene_.program).Find(key);
    if (node == nullptr) node = &scene_.AddNode(scene_.program, {.n = n});
    slots.Reserve();
    taken.push_back(&slots.TakeWindow(scene_.BeginCall(), *node));
  }
  const auto describe = [this] {
    return DescribeReason(request_, scene_.lane, Reason::kOtherLiveRegions);
  };
  EXPECT_EQ(describe(), "other_live_regions: no output on its path is leased");
  const Surroundings as_child;
  request_.around = &as_child;
  EXPECT_EQ(
      describe(),
      "other_live_regions: leases on its path: 2 of program 'rows' in bucket [8], 1 of program "
      "'rows' in bucket [16]");
  slots.EndPath();
  EXPECT_EQ(describe(), "other_live_regions: no output on its path is leased");
  for (Slot* slot : taken)
    DropLease(slot);
}

}  // namespace
}  // namespace coppice::internal
