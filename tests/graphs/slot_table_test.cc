// Goal: every sentence of graphs/lane/slot.h and slot_table.h. Method: a lane whose nodes nobody
// recorded; the test is the lease, and drops slots as a lease does.

#include "graphs/lane/slot_table.h"

#include "coppice/graphs/lease.h"

#include "tests/graphs/lane_scene.h"
#include "tests/support/host_allocations.h"

namespace coppice::internal {
namespace {

using Slots = std::vector<Slot*>;

class SlotTableTest : public testing::Test {
 protected:
  // Two nodes whose outputs share no byte.
  Node& Low() { return Get(low_, 8, {.offset = 0, .bytes = kUnit}); }
  Node& High() { return Get(high_, 16, {.offset = 4 * kUnit, .bytes = kUnit}); }

  Slot& TakeWindow(Node& node) {
    slots_.Reserve();
    return slots_.TakeWindow(scene_.BeginCall(), node);
  }
  Slot& TakeEager(std::vector<DeviceAddress> allocations = {}) {
    slots_.Reserve();
    return slots_.TakeParked(scene_.BeginCall(), Slot::Kind::kEager,
                             {.spec = &scene_.program.spec, .tensors = {}}, std::move(allocations));
  }
  Slot* TakeRing(int64_t bytes) {
    const std::optional<Region> region = slots_.AllocateRing(bytes);
    if (!region) return nullptr;
    slots_.Reserve();
    return &slots_.TakeCopies(scene_.BeginCall(), *region);
  }

  LaneScene scene_{/*ring_bytes=*/8 * kUnit + 1};
  SlotTable& slots_ = scene_.lane.slots();

 private:
  Node& Get(Node*& node, int64_t n, Region output) {
    if (node == nullptr)
      node = &scene_.AddNode(scene_.program, {.n = n, .writes = {output}, .output = output});
    return *node;
  }
  Node* low_ = nullptr;
  Node* high_ = nullptr;
};

TEST_F(SlotTableTest, TakenSlotIsHeldByLaneAndLeaseAndShowsTheCall) {
  Slot& slot = TakeWindow(Low());
  EXPECT_TRUE(slot.leased());
  EXPECT_TRUE(slot.in_lane());
  EXPECT_FALSE(slot.expired());
  EXPECT_TRUE(slot.in_path);
  EXPECT_EQ(slot.lane, &scene_.lane);
  EXPECT_EQ(slot.program, &scene_.program);
  EXPECT_EQ(slot.call, 1U);
  EXPECT_EQ(slot.extents[0], scene_.extent);
  EXPECT_EQ(slot.outputs, &Low().outputs());
  EXPECT_EQ(Low().leases(), 1);
  EXPECT_EQ(slots_.ListOf(MemoryKind::kPlan), Slots{&slot});
  DropLease(&slot);
}

TEST_F(SlotTableTest, DroppedSlotsAreTakenBackAtTheNextSweepAndUsedAgain) {
  Slot& slot = TakeWindow(Low());
  DropLease(&slot);
  EXPECT_EQ(slots_.ListOf(MemoryKind::kPlan), Slots{&slot});
  slots_.SweepWindow();
  EXPECT_TRUE(slots_.ListOf(MemoryKind::kPlan).empty());
  EXPECT_EQ(Low().leases(), 0);
  Slot& again = TakeWindow(High());
  EXPECT_EQ(&again, &slot);
  DropLease(&again);
}

TEST_F(SlotTableTest, ReserveUsesParkedSlotsThatWereDropped) {
  Slot& kept = TakeEager();
  Slot& dropped = TakeEager();
  DropLease(&dropped);
  Slot& again = TakeEager();
  EXPECT_EQ(&again, &dropped);
  EXPECT_EQ(slots_.ListOf(MemoryKind::kEager), (Slots{&kept, &again}));
  DropLease(&kept);
  DropLease(&again);
}

TEST_F(SlotTableTest, TakingForTheWindowOrTheRingAllocatesNothing) {
  Node& node = Low();
  for (int i = 0; i < 40; ++i) {
    const SlotTable::Owner owner = scene_.BeginCall();
    slots_.Reserve();
    host_allocations.count = 0;
    Slot* slot = nullptr;
    {
      const CountingScope counting(true);
      slot = i % 2 == 0 ? &slots_.TakeWindow(owner, node)
                        : &slots_.TakeCopies(owner, {.offset = 0, .bytes = kUnit});
      slots_.EndPath();
    }
    EXPECT_EQ(host_allocations.count, 0);
    DropLease(slot);
  }
}

TEST_F(SlotTableTest, SweepTakesBackWhatWasParkedAndFreesItsAllocations) {
  LaneMemory& memory = scene_.lane.memory();
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress address, memory.AllocateEager(kUnit));
  DropLease(&TakeEager({address}));
  slots_.SweepWindow();
  EXPECT_EQ(memory.eager().live_bytes(), kUnit);
  slots_.Sweep();
  EXPECT_EQ(memory.eager().live_bytes(), 0);
  EXPECT_TRUE(slots_.ListOf(MemoryKind::kEager).empty());
}

TEST_F(SlotTableTest, WhatACallReadsStaysUntilItsReadsEnd) {
  LaneMemory& memory = scene_.lane.memory();
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress address, memory.AllocateEager(kUnit));
  Slot& window = TakeWindow(Low());
  Slot& parked = TakeEager({address});
  Slot* const ring = TakeRing(8 * kUnit);
  for (Slot* slot : {&window, &parked, ring}) {
    slots_.NoteRead(*slot);
    DropLease(slot);
  }
  slots_.Sweep();
  Slot& other = TakeEager();
  EXPECT_EQ(slots_.ListOf(MemoryKind::kPlan), Slots{&window});
  EXPECT_EQ(slots_.ListOf(MemoryKind::kEager), (Slots{&parked, &other}));
  EXPECT_EQ(slots_.FindRing(kUnit), std::nullopt);
  EXPECT_EQ(Low().leases(), 1);
  EXPECT_EQ(memory.eager().live_bytes(), kUnit);
  slots_.EndReads();
  slots_.Sweep();
  EXPECT_TRUE(slots_.ListOf(MemoryKind::kPlan).empty());
  EXPECT_EQ(slots_.ListOf(MemoryKind::kEager), Slots{&other});
  EXPECT_TRUE(slots_.FindRing(kUnit).has_value());
  EXPECT_EQ(memory.eager().live_bytes(), 0);
  DropLease(&other);
}

TEST_F(SlotTableTest, PartsOfWhatACallReadsStayAsWell) {
  for (const MemoryKind kind : {MemoryKind::kPlan, MemoryKind::kEager}) {
    Slot& slot = kind == MemoryKind::kPlan ? TakeWindow(Low()) : TakeEager();
    slots_.Split(slot);
    slots_.NoteRead(slot);
    slot.parts->dropped[0].store(true);
    slots_.Sweep();
    EXPECT_TRUE(slot.parts->kept[0]);
    slots_.EndReads();
    slots_.Sweep();
    EXPECT_FALSE(slot.parts->kept[0]);
    DropLease(&slot);
  }
}

TEST_F(SlotTableTest, SweepOfTheWindowTakesBackWhatACallReads) {
  Slot& slot = TakeWindow(Low());
  slots_.NoteRead(slot);
  DropLease(&slot);
  slots_.SweepWindow();
  EXPECT_TRUE(slots_.ListOf(MemoryKind::kPlan).empty());
  slots_.EndReads();
}

constexpr CuStream kReader = nullptr;

TEST_F(SlotTableTest, OnlyTheLoneDroppedSlotOfTheNodeIsFound) {
  EXPECT_EQ(slots_.FindDropped(Low()), nullptr);
  Slot& slot = TakeWindow(Low());
  EXPECT_EQ(slots_.FindDropped(Low()), nullptr);
  DropLease(&slot);
  EXPECT_EQ(slots_.FindDropped(High()), nullptr);
  EXPECT_EQ(slots_.FindDropped(Low()), &slot);
  slot.OpenScope(kReader);
  EXPECT_EQ(slots_.FindDropped(Low()), nullptr);
  slot.CloseScope(kReader);
  Slot& second = TakeWindow(High());
  EXPECT_EQ(slots_.FindDropped(Low()), nullptr);
  DropLease(&second);
}

TEST_F(SlotTableTest, ReusedSlotIsTheOtherCalls) {
  Slot& slot = TakeWindow(Low());
  slots_.EndPath();
  DropLease(&slot);
  scene_.extent = 5;
  slots_.Reuse(slot, scene_.BeginCall());
  EXPECT_TRUE(slot.leased());
  EXPECT_TRUE(slot.in_path);
  EXPECT_EQ(slot.call, 2U);
  EXPECT_EQ(slot.extents[0], 5);
  EXPECT_EQ(Low().leases(), 1);
  DropLease(&slot);
}

TEST_F(SlotTableTest, HeldIsWhatAScopeIsOpenOnAndWouldBeWrittenOver) {
  Slot& low = TakeWindow(Low());
  Slot& high = TakeWindow(High());
  EXPECT_EQ(slots_.FindHeld(Low().footprint()), nullptr);
  high.OpenScope(kReader);
  EXPECT_EQ(slots_.FindHeld(Low().footprint()), nullptr);
  EXPECT_EQ(slots_.FindHeld(High().footprint()), &high);
  low.OpenScope(kReader);
  EXPECT_EQ(slots_.FindHeld({{.offset = 0, .bytes = 8 * kUnit}}), &low);
  low.CloseScope(kReader);
  high.CloseScope(kReader);
  DropLease(&low);
  DropLease(&high);
}

TEST_F(SlotTableTest, WrittenOverSlotsExpireAndAreParked) {
  Slot& low = TakeWindow(Low());
  Slot& high = TakeWindow(High());
  const Program other = ProgramOf(RowsSpec("other"), 1);
  slots_.Expire(Low().footprint(), 9, other);
  EXPECT_TRUE(low.expired());
  EXPECT_EQ(low.overwritten_by, 9U);
  EXPECT_EQ(low.overwriter, &other);
  EXPECT_EQ(low.overwritten_output, 0);
  EXPECT_EQ(low.overwritten_regions, Low().output_regions());
  EXPECT_EQ(low.node, nullptr);
  EXPECT_FALSE(low.in_path);
  EXPECT_TRUE(low.leased());
  EXPECT_EQ(Low().leases(), 0);
  EXPECT_EQ(slots_.ListOf(MemoryKind::kEager), Slots{&low});
  EXPECT_EQ(slots_.ListOf(MemoryKind::kPlan), Slots{&high});
  EXPECT_FALSE(high.expired());
  DropLease(&low);
  DropLease(&high);
}

TEST_F(SlotTableTest, EndedPathLeavesNobodyInIt) {
  Slot& low = TakeWindow(Low());
  Slot& high = TakeWindow(High());
  slots_.EndPath();
  EXPECT_FALSE(low.in_path || high.in_path);
  EXPECT_EQ(slots_.ListOf(MemoryKind::kPlan), (Slots{&low, &high}));
  DropLease(&low);
  DropLease(&high);
}

TEST_F(SlotTableTest, RingHasWholeUnitsAndGivesThemInOrder) {
  EXPECT_EQ(slots_.ring_bytes(), 8 * kUnit);
  Slot* const first = TakeRing(3 * kUnit);
  Slot* const second = TakeRing(3 * kUnit);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->ring, (Region{.offset = 0, .bytes = 3 * kUnit}));
  EXPECT_EQ(second->ring, (Region{.offset = 3 * kUnit, .bytes = 3 * kUnit}));
  EXPECT_EQ(first->kind, Slot::Kind::kCopyOut);
  EXPECT_EQ(TakeRing(3 * kUnit), nullptr);  // Two are left.
  for (int look = 0; look < 2; ++look)
    EXPECT_EQ(slots_.FindRing(2 * kUnit), (Region{.offset = 6 * kUnit, .bytes = 2 * kUnit}));
  EXPECT_EQ(slots_.FindRing(3 * kUnit), std::nullopt);
  // Bytes come back in order of allocation only: the second's are behind the first's.
  DropLease(second);
  EXPECT_EQ(TakeRing(3 * kUnit), nullptr);
  DropLease(first);
  Slot* const all = TakeRing(8 * kUnit);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(slots_.AllocateRing(kUnit), std::nullopt);
  DropLease(all);
}

TEST_F(SlotTableTest, RingWrapsAround) {
  Slot* const first = TakeRing(3 * kUnit);
  Slot* const second = TakeRing(3 * kUnit);
  DropLease(first);
  Slot* const third = TakeRing(3 * kUnit);  // Not in the last two units: in a row, from the start.
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(third->ring.offset, 0);
  EXPECT_EQ(slots_.AllocateRing(kUnit), std::nullopt);
  DropLease(second);
  DropLease(third);
  EXPECT_EQ(slots_.AllocateRing(8 * kUnit + 1), std::nullopt);
}

TEST_F(SlotTableTest, CopiesWithoutBytesOfTheRingAreParked) {
  slots_.Reserve();
  Slot& slot = slots_.TakeCopies(scene_.BeginCall(), {});
  EXPECT_EQ(slot.kind, Slot::Kind::kForeign);
  EXPECT_EQ(slots_.ListOf(MemoryKind::kEager), Slots{&slot});
  const Tensor copy = Tensor::Dense(0, DType::kFloat32, std::vector<int64_t>{0});
  slot.AddOutput(copy);
  EXPECT_EQ(slot.outputs->tensors, std::vector<Tensor>{copy});
  DropLease(&slot);
}

TEST_F(SlotTableTest, OutputsInAWindowHaveTheirSlotsInItsList) {
  Slot& window = TakeWindow(Low());
  Slot& eager = TakeEager();
  Slot* const copies = TakeRing(kUnit);
  EXPECT_EQ(slots_.ListOf(MemoryKind::kPlan), Slots{&window});
  EXPECT_EQ(slots_.ListOf(MemoryKind::kEager), Slots{&eager});
  EXPECT_EQ(slots_.ListOf(MemoryKind::kCopyOut), Slots{copies});
  for (Slot* slot : {&window, &eager, copies})
    DropLease(slot);
}

TEST_F(SlotTableTest, ForEachVisitsAllButTheFreeUntilAnError) {
  Slot& window = TakeWindow(Low());
  Slot& eager = TakeEager();
  Slot* const copies = TakeRing(kUnit);
  DropLease(&TakeWindow(High()));
  slots_.Sweep();
  std::vector<const Slot*> seen;
  const auto note = [&seen](const Slot& slot) {
    seen.push_back(&slot);
    return absl::OkStatus();
  };
  EXPECT_OK(slots_.ForEach(note));
  EXPECT_EQ(seen, (std::vector<const Slot*>{&window, &eager, copies}));
  int visits = 0;
  const auto fail = [&visits](const Slot&) {
    ++visits;
    return absl::InternalError("");
  };
  EXPECT_THAT(slots_.ForEach(fail), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(visits, 1);
  for (Slot* slot : {&window, &eager, copies})
    DropLease(slot);
}

TEST_F(SlotTableTest, LeasesOutliveTheTable) {
  Slot* slot = nullptr;
  {
    SlotTable table(scene_.lane, 0, scene_.lane.memory(), nullptr, 0);
    table.Reserve();
    slot = &table.TakeParked(scene_.BeginCall(), Slot::Kind::kForeign, {}, {});
  }
  EXPECT_FALSE(slot->in_lane());
  EXPECT_TRUE(slot->leased());
  DropLease(slot);  // Deletes it, which a sanitizer sees if it does not.
}

}  // namespace
}  // namespace coppice::internal
