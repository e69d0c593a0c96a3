// Goal: every sentence of graphs/parts/reach.h. Method: the parts of a session of two lanes, whose
// windows are mapped and whose nodes are made by hand.

#include "graphs/parts/reach.h"

#include "tests/graphs/lane_scene.h"

namespace coppice::internal {
namespace {

class ReachTest : public testing::Test {
 protected:
  std::unique_ptr<SessionParts> MakeParts(OnLimit on_budget) const {
    return *SessionParts::Create(
        device_.context(),
        {.lanes = 2, .memory = {.budget_bytes = 16 * kGranule, .on_budget = on_budget}});
  }

  TestDevice device_;
};

TEST_F(ReachTest, LanesAreTheOneThatLacksRoomAndThoseThatNobodyHasLocked) {
  const std::unique_ptr<SessionParts> parts = MakeParts(OnLimit::kEvict);
  Lane& lane = parts->lane(1);
  const std::lock_guard own(lane.mutex);
  EXPECT_THAT(Reach(*parts, lane).lanes(), ElementsAre(&lane, &parts->lane(0)));
  const std::lock_guard other(parts->lane(0).mutex);
  std::thread([&] { EXPECT_THAT(Reach(*parts, lane).lanes(), ElementsAre(&lane)); }).join();
}

TEST_F(ReachTest, PlansOfTheLaneItselfStayForItsGraphs) {
  const std::unique_ptr<SessionParts> parts = MakeParts(OnLimit::kEvict);
  const Reach reach(*parts, parts->lane(0));
  for (const MemoryKind need : {MemoryKind::kPlan, MemoryKind::kGraphs}) {
    EXPECT_FALSE(reach.TakesPlans(parts->lane(0), need));
    EXPECT_TRUE(reach.TakesPlans(parts->lane(1), need));
  }
  EXPECT_TRUE(reach.TakesPlans(parts->lane(0), MemoryKind::kEager));
}

TEST_F(ReachTest, CountsIdleWindowsAndGraphsIfTheyMayGo) {
  for (const OnLimit on_budget : {OnLimit::kEvict, OnLimit::kEager}) {
    const std::unique_ptr<SessionParts> parts = MakeParts(on_budget);
    for (const auto& lane : parts->lanes) {
      for (const MemoryKind window : {MemoryKind::kPlan, MemoryKind::kEager, MemoryKind::kStaging})
        ASSERT_OK(lane->memory().Reserve(window, 1));
    }
    const Reach reach(*parts, parts->lane(0));
    EXPECT_EQ(reach.ReclaimableBytes(MemoryKind::kPlan), 3 * kGranule);
    EXPECT_EQ(reach.ReclaimableBytes(MemoryKind::kEager), 4 * kGranule);
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress held,
                                 parts->lane(1).memory().AllocateEager(1));
    EXPECT_EQ(reach.ReclaimableBytes(MemoryKind::kPlan), 2 * kGranule);
    parts->lane(1).memory().FreeEager(held);
    parts->lane(1).BeginRecording();
    EXPECT_EQ(reach.ReclaimableBytes(MemoryKind::kPlan), 2 * kGranule);
    parts->lane(1).EndRecording();
    (void)parts->lane(1).memory().Lend();
    EXPECT_EQ(reach.ReclaimableBytes(MemoryKind::kPlan), kGranule);
    parts->lane(1).memory().EndLoan();
  }
}

TEST_F(ReachTest, CountsGraphsThatMayGo) {
  for (const OnLimit on_budget : {OnLimit::kEvict, OnLimit::kEager}) {
    const std::unique_ptr<SessionParts> parts = MakeParts(on_budget);
    Lane& lane = parts->lane(0);
    const Program program = ProgramOf(RowsSpec());
    const int account = static_cast<int>(MemoryKind::kGraphs);
    ASSERT_TRUE(parts->budget->Charge(account, 70).admitted());
    NodeDraft draft;
    draft.key.bucket = KeyOf(8);
    draft.bucket = &lane.nodes().Of(program).BucketFor(draft.key.bucket);
    NodeRecording recording{.charge = BudgetCharge(*parts->budget, account, 70)};
    lane.nodes().Publish(program, std::make_unique<Node>(std::move(draft), std::move(recording)));
    EXPECT_EQ(Reach(*parts, parts->lane(1)).ReclaimableBytes(MemoryKind::kPlan),
              on_budget == OnLimit::kEvict ? 70 : 0);
  }
}

}  // namespace
}  // namespace coppice::internal
