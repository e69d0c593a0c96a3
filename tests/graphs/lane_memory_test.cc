// Goal: every sentence of graphs/lane/window_map.h and lane_memory.h. Method: a pool on an
// emulator, with a budget that has no room, and a maker of room that notes what it is asked for.

#include "graphs/lane/lane_memory.h"

#include "tests/graphs/lane_scene.h"

namespace coppice::internal {
namespace {

constexpr auto kNoRoom = absl::StatusCode::kResourceExhausted;

TEST(WindowMapTest, WindowsOfALaneLieInOrderOneBehindTheOther) {
  const PoolScene scene;
  const auto size = static_cast<DeviceAddress>(scene.pool->window_bytes());
  DeviceAddress next = scene.pool->base(0);
  for (int lane = 0; lane < 2; ++lane) {
    for (int kind = 0; kind < kLaneWindowCount; ++kind, next += size) {
      const auto window = static_cast<MemoryKind>(kind);
      EXPECT_EQ(scene.pool->base(WindowMap::WindowOf(lane, window)), next);
      for (const DeviceAddress address : {next, next + size - 1}) {
        const std::optional<WindowMap::Place> place = scene.windows.Locate(address);
        ASSERT_TRUE(place.has_value());
        EXPECT_EQ(place->lane, lane);
        EXPECT_EQ(place->kind, window);
        EXPECT_TRUE(scene.windows.Contains(address));
        EXPECT_FALSE(scene.windows.HoldsConstants(address));
      }
    }
  }
  EXPECT_EQ(scene.pool->base(WindowMap::ConstantsWindow(2)), next);
  EXPECT_TRUE(scene.windows.HoldsConstants(next));
  EXPECT_FALSE(scene.windows.Contains(next));
  EXPECT_EQ(scene.windows.Locate(next), std::nullopt);
  EXPECT_EQ(scene.windows.Locate(scene.pool->base(0) - 1), std::nullopt);
}

TEST(WindowMapTest, MeetsWhoeverSharesAByteWithALane) {
  const PoolScene scene;
  const DeviceAddress begin = scene.pool->base(0);
  EXPECT_FALSE(scene.windows.Meets(begin - 4, 4));
  EXPECT_TRUE(scene.windows.Meets(begin - 4, 5));
  EXPECT_FALSE(scene.windows.Meets(begin, 0));
}

TEST(WindowMapTest, WindowsAreChargedToTheAccountsOfTheirKinds) {
  EXPECT_EQ(WindowMap::Accounts(2), (std::vector<int>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5}));
}

class LaneMemoryTest : public testing::Test {
 protected:
  // Room for two granules.
  PoolScene scene_{/*limit=*/2 * kGranule};
  LaneMemory memory_{scene_.device.driver(), *scene_.pool, scene_.windows, 0};

  // Notes every need, and has `status` to say of it.
  Room::Maker Note(absl::Status status = absl::OkStatus()) {
    return [this, status](int64_t bytes, MemoryKind need) {
      asked_.emplace_back(bytes, need);
      return status;
    };
  }
  // Gives back what the test holds as external bytes.
  Room::Maker Discharge(int64_t held) {
    return [this, held](int64_t, MemoryKind) {
      scene_.budget.Discharge(static_cast<int>(MemoryKind::kExternal), held);
      return absl::OkStatus();
    };
  }
  void Hold(int64_t bytes) {
    ASSERT_TRUE(scene_.budget.Charge(static_cast<int>(MemoryKind::kExternal), bytes).admitted());
  }

  std::vector<std::pair<int64_t, MemoryKind>> asked_;
};

TEST_F(LaneMemoryTest, ReservedBytesAreMappedAndBookedByKind) {
  ASSERT_OK(memory_.Reserve(MemoryKind::kStaging, 1));
  EXPECT_EQ(memory_.mapped_bytes(MemoryKind::kStaging), kGranule);
  EXPECT_EQ(scene_.Booked(MemoryKind::kStaging), kGranule);
  EXPECT_EQ(memory_.base(MemoryKind::kStaging), scene_.pool->base(2));
  EXPECT_THAT(memory_.Reserve(MemoryKind::kStaging, scene_.pool->window_bytes() + 1),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_FALSE(memory_.room().refused());
}

TEST_F(LaneMemoryTest, NobodyIsAskedForRoomWithoutAMaker) {
  EXPECT_THAT(memory_.room().Make(1, MemoryKind::kPlan), StatusIs(kNoRoom));
  EXPECT_THAT(memory_.Reserve(MemoryKind::kPlan, 3 * kGranule), StatusIs(kNoRoom));
  EXPECT_TRUE(memory_.room().refused());
  EXPECT_EQ(memory_.mapped_bytes(MemoryKind::kPlan), 0);
  ASSERT_OK(memory_.Reserve(MemoryKind::kPlan, kGranule));
  EXPECT_FALSE(memory_.room().refused());
}

TEST_F(LaneMemoryTest, RoomIsAskedForAsMuchAsIsLackingAndThenTakenAgain) {
  Hold(kGranule);
  memory_.room().SetMaker([this](int64_t bytes, MemoryKind need) {
    const absl::Status noted = Note()(bytes, need);
    return Discharge(kGranule)(bytes, need);
  });
  ASSERT_OK(memory_.Reserve(MemoryKind::kPlan, 2 * kGranule));
  EXPECT_EQ(asked_, (std::vector<std::pair<int64_t, MemoryKind>>{{kGranule, MemoryKind::kPlan}}));
  EXPECT_FALSE(memory_.room().refused());
}

TEST_F(LaneMemoryTest, MakerThatFindsNothingRefuses) {
  memory_.room().SetMaker(Note(absl::InternalError("")));
  EXPECT_THAT(memory_.Charge(MemoryKind::kGraphs, 3 * kGranule, memory_.room()), StatusIs(kNoRoom));
  EXPECT_TRUE(memory_.room().refused());
  EXPECT_EQ(asked_.size(), 1U);
}

TEST_F(LaneMemoryTest, RoomThatOthersTakeIsNotAskedForForEver) {
  memory_.room().SetMaker(Note());
  EXPECT_THAT(memory_.AllocateEager(3 * kGranule), StatusIs(kNoRoom));
  EXPECT_TRUE(memory_.room().refused());
  EXPECT_GT(asked_.size(), 1U);
  EXPECT_EQ(asked_[0].second, MemoryKind::kEager);
}

TEST_F(LaneMemoryTest, EagerBytesComeAndGo) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress address, memory_.AllocateEager(3));
  EXPECT_EQ(scene_.windows.Locate(address)->kind, MemoryKind::kEager);
  EXPECT_EQ(memory_.eager().live_bytes(), kUnit);
  memory_.FreeEager(address);
  EXPECT_EQ(scene_.Booked(MemoryKind::kEager), kGranule);
  ASSERT_OK(memory_.TrimEager());
  EXPECT_EQ(scene_.Booked(MemoryKind::kEager), 0);
}

TEST_F(LaneMemoryTest, ChargeIsGivenBackUnlessItIsKept) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const BudgetCharge charge,
                                 memory_.Charge(MemoryKind::kGraphs, 7, memory_.room()));
    EXPECT_EQ(charge.bytes(), 7);
    EXPECT_EQ(scene_.Booked(MemoryKind::kGraphs), 7);
  }
  EXPECT_EQ(scene_.Booked(MemoryKind::kGraphs), 0);
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(BudgetCharge charge,
                                 memory_.Charge(MemoryKind::kGraphs, 7, memory_.room()));
    charge.Keep();
  }
  EXPECT_EQ(scene_.Booked(MemoryKind::kGraphs), 7);
}

TEST_F(LaneMemoryTest, HeapsOfThePoolAllocateUnderTheBudgetToo) {
  WindowHeap constants(*scene_.pool, WindowMap::ConstantsWindow(2));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress address,
                               memory_.AllocateIn(constants, MemoryKind::kConstants, 5));
  EXPECT_TRUE(scene_.windows.HoldsConstants(address));
  constants.Free(address);
  EXPECT_THAT(memory_.AllocateIn(constants, MemoryKind::kConstants, 3 * kGranule),
              StatusIs(kNoRoom));
}

TEST_F(LaneMemoryTest, IncludedMemoryIsKeptAsLongAsTheLane) {
  {
    LaneMemory lane(scene_.device.driver(), *scene_.pool, scene_.windows, 1);
    COPPICE_ASSERT_OK_AND_ASSIGN(BudgetCharge charge,
                                 lane.Charge(MemoryKind::kIncluded, 11, lane.room()));
    COPPICE_ASSERT_OK_AND_ASSIGN(DeviceMemory memory,
                                 DeviceMemory::Create(scene_.device.driver(), 11));
    std::list<OwnMemory> own;
    own.push_back({.charge = std::move(charge), .memory = std::move(memory)});
    lane.Keep(own);
    EXPECT_TRUE(own.empty());
    EXPECT_EQ(scene_.Booked(MemoryKind::kIncluded), 11);
    EXPECT_EQ(scene_.device.ledger().allocated_bytes(), 11);
  }
  EXPECT_EQ(scene_.Booked(MemoryKind::kIncluded), 0);
  EXPECT_EQ(scene_.device.ledger().allocated_bytes(), 0);
}

TEST_F(LaneMemoryTest, WhoHasNoLockBringsItsOwnMaker) {
  memory_.room().SetMaker([](int64_t, MemoryKind) { return absl::InternalError("the lane's"); });
  Room own(Note(absl::InternalError("")));
  EXPECT_THAT(memory_.ReservePlan(3 * kGranule, own), StatusIs(kNoRoom));
  EXPECT_TRUE(own.refused());
  EXPECT_FALSE(memory_.room().refused());
  EXPECT_EQ(asked_, (std::vector<std::pair<int64_t, MemoryKind>>{{kGranule, MemoryKind::kPlan}}));
  Hold(2 * kGranule);
  own.SetMaker(Discharge(2 * kGranule));
  EXPECT_OK(memory_.Charge(MemoryKind::kGraphs, 9, own));
  EXPECT_FALSE(own.refused());
  ASSERT_OK(memory_.ReservePlan(kGranule, own));
  EXPECT_EQ(memory_.present_bytes(), 0);  // Until somebody with the lock looks.
  memory_.FindPresent();
  EXPECT_EQ(memory_.present_bytes(), kGranule);
}

TEST_F(LaneMemoryTest, PresentIsWhatIsMappedOfThePlanWindow) {
  EXPECT_EQ(memory_.present_bytes(), 0);
  for (const int64_t bytes : {int64_t{1}, kGranule + 1})  // What grows at once goes at once.
    ASSERT_OK(memory_.Reserve(MemoryKind::kPlan, bytes));
  EXPECT_EQ(memory_.present_bytes(), 2 * kGranule);
  ASSERT_OK(memory_.UnmapAbove(1));
  EXPECT_EQ(memory_.present_bytes(), kGranule);
}

TEST_F(LaneMemoryTest, SaysWhatUnmappingGivesBackAndWhatThePlanWindowLacks) {
  ASSERT_OK(memory_.Reserve(MemoryKind::kStaging, 1));
  EXPECT_EQ(memory_.LackingPlanBytes(kGranule), 0);
  EXPECT_EQ(memory_.LackingPlanBytes(kGranule + 1), kGranule);
  ASSERT_OK(memory_.Reserve(MemoryKind::kPlan, 1));
  EXPECT_EQ(memory_.LackingPlanBytes(kGranule), 0);
  EXPECT_EQ(memory_.IdleBytes(MemoryKind::kPlan, 1), 0);
  EXPECT_EQ(memory_.IdleBytes(MemoryKind::kPlan, 0), kGranule);
  ASSERT_OK(memory_.UnmapAbove(0));
  EXPECT_EQ(memory_.LackingPlanBytes(kGranule), 0);  // The spare handle does.
}

TEST(UnboundedLaneMemoryTest, LacksNothing) {
  const PoolScene scene;
  const LaneMemory memory(scene.device.driver(), *scene.pool, scene.windows, 0);
  EXPECT_EQ(memory.LackingPlanBytes(INT64_MAX / 2), 0);
}

TEST_F(LaneMemoryTest, SuspendedMemoryIsAbsent) {
  ASSERT_OK(memory_.Reserve(MemoryKind::kPlan, 1));
  EXPECT_OK(memory_.CheckPresent(""));
  memory_.SetSuspended(true);
  EXPECT_EQ(memory_.absence(), LaneMemory::Absence::kSuspended);
  EXPECT_EQ(memory_.present_bytes(), LaneMemory::kAbsent);
  EXPECT_THAT(memory_.CheckPresent(""), StatusIs(kRefused));
  memory_.FindPresent();
  EXPECT_EQ(memory_.present_bytes(), LaneMemory::kAbsent);
  memory_.SetSuspended(false);
  EXPECT_EQ(memory_.present_bytes(), kGranule);
}

TEST_F(LaneMemoryTest, LentMemoryIsAbsentUntilTheLoanEnds) {
  ASSERT_OK(memory_.Reserve(MemoryKind::kPlan, 1));
  EXPECT_EQ(memory_.Lend(), kGranule);
  EXPECT_EQ(memory_.absence(), LaneMemory::Absence::kLent);
  EXPECT_EQ(memory_.present_bytes(), LaneMemory::kAbsent);
  EXPECT_THAT(memory_.CheckPresent(""), StatusIs(kRefused));
  memory_.EndLoan();
  EXPECT_EQ(memory_.absence(), LaneMemory::Absence::kNone);
  EXPECT_EQ(memory_.present_bytes(), kGranule);
  EXPECT_OK(memory_.CheckPresent(""));
}

TEST_F(LaneMemoryTest, ScrubZeroesAllThatIsMapped) {
  for (const MemoryKind kind : {MemoryKind::kPlan, MemoryKind::kStaging})
    ASSERT_OK(memory_.Reserve(kind, 1));
  ASSERT_OK(memory_.Scrub(scene_.device.stream()));
  for (const MemoryKind kind : {MemoryKind::kPlan, MemoryKind::kStaging}) {
    const DeviceAddress last = memory_.base(kind) + static_cast<DeviceAddress>(kGranule - 4);
    EXPECT_EQ(scene_.device.Download<int32_t>(memory_.base(kind), 1), std::vector<int32_t>{0});
    EXPECT_EQ(scene_.device.Download<int32_t>(last, 1), std::vector<int32_t>{0});
  }
}

TEST_F(LaneMemoryTest, RegionsAreWholeUnitsOfThePlanWindow) {
  const auto at = [&](MemoryKind kind, int64_t offset, int64_t count) {
    return memory_.RegionOf(Tensor::Dense(memory_.base(kind) + static_cast<DeviceAddress>(offset),
                                          DType::kFloat32, std::vector<int64_t>{count}));
  };
  EXPECT_EQ(at(MemoryKind::kPlan, 0, 1), (Region{.offset = 0, .bytes = kUnit}));
  EXPECT_EQ(at(MemoryKind::kPlan, kUnit - 4, 2), (Region{.offset = 0, .bytes = 2 * kUnit}));
  EXPECT_EQ(at(MemoryKind::kPlan, kUnit, 1), (Region{.offset = kUnit, .bytes = kUnit}));
  EXPECT_EQ(at(MemoryKind::kPlan, 0, 0), std::nullopt);
  EXPECT_EQ(at(MemoryKind::kEager, 0, 1), std::nullopt);
  EXPECT_EQ(at(MemoryKind::kPlan, -4, 1), std::nullopt);
}

}  // namespace
}  // namespace coppice::internal
