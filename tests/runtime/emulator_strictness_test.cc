// Goal: every flag of Emulator::Strictness finds what it says, and nothing of it when it is off.
// Method: the same few raw calls with the flag on and off; what is in order beside what is not.

#include "coppice/runtime/emulator.h"

#include "tests/runtime/emulator_machine.h"

namespace coppice {
namespace {

using Strictness = Emulator::Strictness;

Emulator::Options With(bool Strictness::*flag, bool on) {
  Emulator::Options options = TestEmulatorOptions();
  options.strictness = Strictness::All(false);
  options.strictness.*flag = on;
  return options;
}

std::vector<std::string> ReportsOf(const Machine& machine) {
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  return machine.emulator->reports();
}

// Unordered accesses.

TEST(UnorderedAccessTest, IsReportedWithBothNamesOnlyIfAskedFor) {
  for (const bool on : {true, false}) {
    const Machine machine(With(&Strictness::unordered_access, on));
    const DeviceAddress word = machine.Allocate(8);
    EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 1));
    EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(word + 4, 0, 4, machine.NewStream()));
    const std::vector<std::string> reports = ReportsOf(machine);
    ASSERT_EQ(reports.size(), on ? 1U : 0U);
    if (!on) continue;
    EXPECT_NE(reports[0].find("memset writes 4 bytes that Store writes"), std::string::npos)
        << reports[0];
  }
}

// What two streams do to the bytes of one allocation, and whether it may be unordered.
struct Pair {
  DeviceAddress first_offset;
  bool first_writes;
  DeviceAddress second_offset;
  bool second_writes;
  bool conflicts;
};

TEST(UnorderedAccessTest, NeedsSharedBytesAndAWrite) {
  constexpr size_t kBytes = 16;
  for (const Pair& pair : {Pair{0, true, 0, true, true}, Pair{0, true, 0, false, true},
                           Pair{0, false, 0, true, true}, Pair{0, false, 0, false, false},
                           Pair{0, true, 15, true, true}, Pair{15, true, 0, false, true},
                           Pair{0, true, 16, true, false}, Pair{16, true, 0, false, false}}) {
    const Machine machine;
    const DeviceAddress shared = machine.Allocate(64);
    const auto touch = [&](CuStream stream, DeviceAddress offset, bool writes) {
      const DeviceAddress own = machine.Allocate(kBytes);
      const DeviceAddress address = shared + offset;
      EXPECT_CU(kSuccess, machine.cu.MemcpyDtoDAsync(writes ? address : own, writes ? own : address,
                                                     kBytes, stream));
    };
    touch(machine.stream, pair.first_offset, pair.first_writes);
    touch(machine.NewStream(), pair.second_offset, pair.second_writes);
    EXPECT_EQ(!ReportsOf(machine).empty(), pair.conflicts)
        << pair.first_offset << pair.first_writes << pair.second_offset << pair.second_writes;
  }
}

TEST(UnorderedAccessTest, StreamsEventsAndTheWaitingHostOrder) {
  const Machine machine;
  const DeviceAddress word = machine.Allocate(8);
  const CuStream second = machine.NewStream();
  const CuStream third = machine.NewStream();
  const CuEvent event = machine.NewEvent();
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 1));
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 2));
  EXPECT_CU(kSuccess, machine.cu.EventRecord(event, machine.stream));
  EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(second, event, 0));
  EXPECT_CU(kSuccess, machine.Store(second, word, 3));
  EXPECT_CU(kSuccess, machine.cu.EventRecord(event, second));
  EXPECT_CU(kSuccess, machine.cu.EventSynchronize(event));
  EXPECT_CU(kSuccess, machine.Store(third, word, 4));
  EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(third));
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 5));
  while (machine.cu.StreamQuery(machine.stream) == CuResult::kNotReady) {
  }
  EXPECT_CU(kSuccess, machine.Store(second, word, 6));
  EXPECT_CU(kSuccess, machine.cu.StreamDestroy(second));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_CU(kSuccess, machine.Store(third, word, 7));
  EXPECT_EQ(ReportsOf(machine), std::vector<std::string>());
}

TEST(UnorderedAccessTest, WorkOfADestroyedStreamIsNotOrdered) {
  const Machine machine;
  const DeviceAddress word = machine.Allocate(8);
  const CuStream gone = machine.NewStream();
  EXPECT_CU(kSuccess, machine.Store(gone, word, 1));
  EXPECT_CU(kSuccess, machine.cu.StreamDestroy(gone));
  EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(machine.stream));
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 2));
  EXPECT_EQ(ReportsOf(machine).size(), 1U);
}

TEST(UnorderedAccessTest, WaitForAnEarlierRecordDoesNotOrderWhatCameAfterIt) {
  const Machine machine;
  const DeviceAddress word = machine.Allocate(8);
  const CuStream second = machine.NewStream();
  const CuEvent event = machine.NewEvent();
  EXPECT_CU(kSuccess, machine.cu.EventRecord(event, machine.stream));
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 1));
  EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(second, event, 0));
  EXPECT_CU(kSuccess, machine.Store(second, word, 2));
  EXPECT_EQ(ReportsOf(machine).size(), 1U);
}

TEST(UnorderedAccessTest, LaunchesOfOneExecAreOrderedAndOfTwoAreNot) {
  const Machine machine;
  const DeviceAddress word = machine.Allocate(8);
  const auto record = [&](CuStream stream) { EXPECT_CU(kSuccess, machine.Store(stream, word, 1)); };
  const CuGraphExec first = machine.Capture(record);
  const CuGraphExec second = machine.Capture(record);
  const CuStream other = machine.NewStream();
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(first, machine.stream));
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(first, other));
  EXPECT_EQ(ReportsOf(machine).size(), 0U);
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(first, machine.stream));
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(second, other));
  EXPECT_EQ(ReportsOf(machine).size(), 1U);
}

TEST(UnorderedAccessTest, LaunchIsBehindAnUploadOfItsStreamAndElsewhereOnlyIfOrdered) {
  enum class Between { kNothing, kEvent, kHost };
  for (const Between between : {Between::kNothing, Between::kEvent, Between::kHost}) {
    const Machine machine;
    const DeviceAddress word = machine.Allocate(8);
    const CuGraphExec exec = machine.Capture(
        [&](CuStream stream) { EXPECT_CU(kSuccess, machine.Store(stream, word, 1)); });
    const CuStream other = machine.NewStream();
    EXPECT_CU(kSuccess, machine.cu.GraphUpload(exec, machine.stream));
    if (between == Between::kEvent) {
      const CuEvent event = machine.NewEvent();
      EXPECT_CU(kSuccess, machine.cu.EventRecord(event, machine.stream));
      EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(other, event, 0));
    }
    if (between == Between::kHost) {
      EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(machine.stream));
    }
    EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, other));
    EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
    EXPECT_EQ(ReportsOf(machine).size(), between == Between::kNothing ? 1U : 0U);
  }
}

TEST(UnorderedAccessTest, MappingsOfOneHandleAreTheSameBytes) {
  const Machine machine;
  const CuMemoryHandle handle = machine.CreateGranules();
  const DeviceAddress one = machine.MapGranule(handle, CuMemAccessFlags::kReadWrite);
  const DeviceAddress two = machine.MapGranule(handle, CuMemAccessFlags::kReadWrite);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, one, 1));
  EXPECT_CU(kSuccess, machine.Store(machine.NewStream(), two + 8, 1));
  EXPECT_EQ(ReportsOf(machine).size(), 0U);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, one, 1));
  EXPECT_CU(kSuccess, machine.Store(machine.NewStream(), two, 1));
  EXPECT_EQ(ReportsOf(machine).size(), 1U);
}

TEST(UnorderedAccessTest, BranchesOfAGraphMeetInTwoMappingsOfOneHandle) {
  const Machine machine;
  const CuMemoryHandle handle = machine.CreateGranules();
  const CuGraph graph = machine.NewGraph();
  for (int node = 0; node < 2; ++node)
    machine.AddFill(graph, {}, machine.MapGranule(handle, CuMemAccessFlags::kReadWrite));
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(machine.Instantiate(graph), machine.stream));
  EXPECT_EQ(ReportsOf(machine).size(), 1U);
}

// What a host function that runs says to the host is known to all its threads.
TEST(UnorderedAccessTest, HostFunctionTellsTheHostWhatCameBeforeIt) {
  struct Shared {
    Machine machine;
    CuStream other = machine.NewStream();
    DeviceAddress word = machine.Allocate(8);
  } shared;
  const Machine& machine = shared.machine;
  const auto store_on_another_thread = [](void* data) {
    const auto& [its_machine, other, word] = *static_cast<Shared*>(data);
    std::thread([&its_machine = its_machine, other = other, word = word] {
      EXPECT_CU(kSuccess, its_machine.cu.CtxSetCurrent(its_machine.context));
      EXPECT_CU(kSuccess, its_machine.Store(other, word, 2));
    }).join();
  };
  EXPECT_CU(kSuccess, machine.Store(machine.stream, shared.word, 1));
  EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.stream, store_on_another_thread, &shared));
  EXPECT_EQ(ReportsOf(machine).size(), 0U);
}

TEST(UnorderedAccessTest, ContextThatIsReleasedTakesItsAccessesAlong) {
  Machine machine;
  int64_t word = 0;
  EXPECT_CU(kSuccess, machine.cu.MemcpyDtoHAsync(&word, machine.Allocate(8), 8, machine.stream));
  EXPECT_CU(kSuccess, machine.cu.DevicePrimaryCtxRelease(0));
  EXPECT_CU(kSuccess, machine.cu.DevicePrimaryCtxRetain(&machine.context, 0));
  EXPECT_CU(kSuccess, machine.cu.CtxSetCurrent(machine.context));
  EXPECT_CU(kSuccess,
            machine.cu.MemcpyDtoHAsync(&word, machine.Allocate(8), 8, machine.NewStream()));
  EXPECT_EQ(ReportsOf(machine).size(), 0U);
}

TEST(UnorderedAccessTest, BranchesOfAGraphMeetAtTheirJoin) {
  const Machine machine;
  const DeviceAddress words = machine.Allocate(64);
  const CuGraph graph = machine.NewGraph();
  const CuGraphNode first = machine.AddFill(graph, {}, words);
  const CuGraphNode branches[] = {machine.AddFill(graph, {first}, words),
                                  machine.AddFill(graph, {first}, words + 8)};
  machine.AddFill(graph, {branches[0], branches[1]}, words + 4);
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(machine.Instantiate(graph), machine.stream));
  EXPECT_EQ(ReportsOf(machine).size(), 0U);
}

// Kernels whose first launch is captured.

TEST(CapturedLoadingTest, IsReportedUnlessTheKernelWasLaunchedBefore) {
  for (const bool on : {true, false}) {
    for (const bool launched : {true, false}) {
      const Machine machine(With(&Strictness::captured_loading, on));
      const DeviceAddress word = machine.Allocate(8);
      if (launched) {
        EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 2));
      }
      machine.Capture(
          [&](CuStream stream) { EXPECT_CU(kSuccess, machine.Store(stream, word, 1)); });
      const std::vector<std::string> reports = ReportsOf(machine);
      ASSERT_EQ(reports.size(), on && !launched ? 1U : 0U);
      if (reports.empty()) continue;
      EXPECT_NE(reports[0].find("kernel Store is captured"), std::string::npos) << reports[0];
    }
  }
}

// The list of reports.

TEST(ReportsTest, HoldEachTextOnceAndAtMostAHundred) {
  const Machine machine;
  const CuStream other = machine.NewStream();
  const auto race_on = [&](DeviceAddress word) {
    EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 1));
    EXPECT_CU(kSuccess, machine.Store(other, word, 2));
    return ReportsOf(machine).size();
  };
  const DeviceAddress word = machine.Allocate(8);
  EXPECT_EQ(race_on(word), 1U);
  EXPECT_EQ(race_on(word), 1U);
  for (size_t round = 2; round <= 110; ++round)
    EXPECT_EQ(race_on(machine.Allocate(8)), std::min<size_t>(round, 100));
}

TEST(ReportsTest, AreCountedEachTimeAndToldOfThoseThatCameBehindANumber) {
  const Machine machine;
  const CuStream other = machine.NewStream();
  const DeviceAddress words[] = {machine.Allocate(8), machine.Allocate(8)};
  const auto race_on = [&](DeviceAddress word) {
    EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 1));
    EXPECT_CU(kSuccess, machine.Store(other, word, 2));
    EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  };
  const Emulator& emulator = *machine.emulator;
  for (int round = 1; round <= 200; ++round) {
    const int64_t before = emulator.finding_count();
    race_on(words[0]);
    EXPECT_EQ(emulator.finding_count(), before + 1);
    EXPECT_EQ(emulator.FindingsSince(before).size(), 1U) << round;
    EXPECT_EQ(emulator.FindingsSince(before + 1).size(), 0U);
  }
  const int64_t before = emulator.finding_count();
  race_on(words[1]);
  EXPECT_EQ(emulator.FindingsSince(before).size(), 1U);
  EXPECT_EQ(emulator.FindingsSince(before - 1).size(), 2U);
  EXPECT_EQ(emulator.reports(), emulator.FindingsSince(0));
}

TEST(ReportsTest, NewTextsTakeThePlaceOfThoseThatCameLongAgo) {
  const Machine machine;
  for (int number = 0; number < 150; ++number) {
    machine.emulator->Report("one that comes again");
    const int64_t before = machine.emulator->finding_count();
    machine.emulator->Report("number " + std::to_string(number));
    EXPECT_EQ(machine.emulator->FindingsSince(before),
              std::vector<std::string>{"number " + std::to_string(number)});
  }
  const std::vector<std::string> reports = machine.emulator->reports();
  EXPECT_EQ(reports.size(), 100U);
  EXPECT_EQ(reports.front(), "one that comes again");
  EXPECT_EQ(reports.back(), "number 149");
}

TEST(ReportsTest, AGraphThatIsNotInOrderIsReportedAtEachLaunch) {
  const Machine machine;
  const DeviceAddress word = machine.Allocate(8);
  const CuGraph graph = machine.NewGraph();
  for (int node = 0; node < 2; ++node)
    machine.AddFill(graph, {}, word);
  const CuGraphExec exec = machine.Instantiate(graph);
  for (int launch = 0; launch < 3; ++launch) {
    const int64_t before = machine.emulator->finding_count();
    EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
    EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
    EXPECT_EQ(machine.emulator->FindingsSince(before).size(), 1U) << launch;
  }
  EXPECT_EQ(machine.emulator->reports().size(), 1U);
}

// Sources that change.

TEST(ChangedSourceTest, IsReportedOnlyIfAskedForAndOnlyIfItChanged) {
  for (const bool on : {true, false}) {
    for (const bool changes : {true, false}) {
      const Machine machine(With(&Strictness::changed_source, on));
      const DeviceAddress word = machine.Allocate(8);
      int64_t source = 1;
      EXPECT_CU(kSuccess, machine.cu.MemcpyHtoDAsync(word, &source, 8, machine.stream));
      if (changes) source = 2;
      EXPECT_EQ(ReportsOf(machine).size(), on && changes ? 1U : 0U);
    }
  }
}

TEST(ChangedSourceTest, SourceThatCannotBeReadIsAFaultOfTheCopy) {
  const Machine machine;
  const DeviceAddress word = machine.Allocate(8);
  const void* const nowhere = reinterpret_cast<const void*>(uintptr_t{4096});
  EXPECT_CU(kSuccess, machine.cu.MemcpyHtoDAsync(word, nowhere, 8, machine.stream));
  EXPECT_CU(kIllegalAddress, machine.cu.StreamSynchronize(machine.stream));
}

TEST(ChangedSourceTest, CopiesOfAGraphMayReadWhatChangedBeforeItsLaunch) {
  const Machine machine;
  const DeviceAddress word = machine.Allocate(8);
  int64_t source = 1;
  const CuGraphExec exec = machine.Capture([&](CuStream stream) {
    EXPECT_CU(kSuccess, machine.cu.MemcpyHtoDAsync(word, &source, 8, stream));
  });
  source = 2;
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
  EXPECT_EQ(ReportsOf(machine).size(), 0U);
}

// Host code that touches device memory.

void TouchDeviceMemory(bool strict) {
  const Machine machine(With(&Strictness::host_access, strict));
  const DeviceAddress word = machine.Allocate(8);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 7));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_EQ(*PointerAt<volatile int64_t>(word), 7);
}

TEST(HostAccessDeathTest, EndsTheProcessOnlyIfAskedFor) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(TouchDeviceMemory(true), "host code touched device memory");
  TouchDeviceMemory(false);
}

void TouchDeviceMemoryInAHostFunction() {
  const Machine machine;
  DeviceAddress word = machine.Allocate(8);
  const auto touch = [](void* data) {
    *PointerAt<volatile int64_t>(*static_cast<DeviceAddress*>(data)) = 1;
  };
  EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.stream, touch, &word));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
}

TEST(HostAccessDeathTest, CoversHostFunctions) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(TouchDeviceMemoryInAHostFunction(), "host code touched device memory");
}

TEST(HostAccessTest, CopiesStillWork) {
  const Machine machine(With(&Strictness::host_access, true));
  const DeviceAddress mapped =
      machine.MapGranule(machine.CreateGranules(), CuMemAccessFlags::kReadWrite);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, mapped, 7));
  int64_t word = 0;
  EXPECT_CU(kSuccess, machine.cu.MemcpyDtoHAsync(&word, mapped, 8, machine.stream));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_EQ(word, 7);
}

// Addresses of freed memory.

TEST(QuarantineTest, KeepsAddressesOfFreedMemoryFromComingBack) {
  const Machine machine(With(&Strictness::quarantine, true));
  const DeviceAddress first = machine.Allocate(64);
  EXPECT_CU(kSuccess, machine.cu.MemFree(first));
  for (int round = 0; round < 50; ++round)
    EXPECT_NE(machine.Allocate(64), first);
}

TEST(QuarantineTest, KeepsAddressesOfFreedReservationsFromComingBack) {
  const Machine machine(With(&Strictness::quarantine, true));
  const DeviceAddress first = machine.Reserve(1);
  EXPECT_CU(kSuccess, machine.cu.MemAddressFree(first, kGranule));
  for (int round = 0; round < 20; ++round) {
    const DeviceAddress next = machine.Reserve(1);
    EXPECT_NE(next, first);
  }
}

TEST(QuarantineTest, ReservationsNeverRunOutOfAddresses) {
  const Machine machine(With(&Strictness::quarantine, true));
  constexpr size_t kBytes = size_t{4} << 40;  // A host has 128 TiB, of which 47 bits are addresses.
  for (int round = 0; round < 1000; ++round) {
    DeviceAddress address = 0;
    ASSERT_CU(kSuccess, machine.cu.MemAddressReserve(&address, kBytes, 0, 0, 0)) << round;
    ASSERT_CU(kSuccess, machine.cu.MemAddressFree(address, kBytes));
  }
}

TEST(QuarantineTest, WithoutItFreedAddressesMayComeBack) {
  const Machine machine(With(&Strictness::quarantine, false));
  const DeviceAddress first = machine.Allocate(64);
  EXPECT_CU(kSuccess, machine.cu.MemFree(first));
  EXPECT_EQ(machine.Allocate(64), first);
}

// Events of captures.

TEST(CapturedEventTest, CountsAsNeverRecordedOnceTheCaptureHasEnded) {
  for (const bool on : {true, false}) {
    const Machine machine(With(&Strictness::captured_event, on));
    const CuEvent event = machine.NewEvent();
    machine.Capture(
        [&](CuStream stream) { EXPECT_CU(kSuccess, machine.cu.EventRecord(event, stream)); });
    const CuResult expected = on ? CuResult::kCapturedEvent : CuResult::kSuccess;
    EXPECT_EQ(machine.cu.EventQuery(event), expected);
    EXPECT_EQ(machine.cu.EventSynchronize(event), expected);
    EXPECT_EQ(machine.cu.StreamWaitEvent(machine.stream, event, 0), expected);
  }
}

// Kernels that touch host memory; no flag, since a device cannot.

TEST(ForeignAccessTest, KernelThatDeclaresHostMemoryFaults) {
  const Machine machine;
  int64_t host = 0;
  EXPECT_CU(kSuccess, machine.Store(machine.stream, reinterpret_cast<DeviceAddress>(&host), 1));
  EXPECT_CU(kIllegalAddress, machine.cu.CtxSynchronize());
  EXPECT_NE(machine.emulator->fault().find("Store touched address"), std::string::npos);
  EXPECT_EQ(host, 0);
}

}  // namespace
}  // namespace coppice
