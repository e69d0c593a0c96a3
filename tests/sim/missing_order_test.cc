// Goal: order that somebody forgot is found, under every seed, and order that is there is not
// taken for missing.
// Method: each mistake once with the order it lacks and once without, under a hundred seeds; what
// the emulator reports is the finding.

#include "coppice/runtime/emulator.h"

#include "tests/runtime/emulator_machine.h"

namespace coppice {
namespace {

constexpr int kOrderSeeds = 100;
constexpr size_t kBytes = 512;

void WaitFor(const Machine& machine, CuStream earlier, CuStream later) {
  CuEvent event = nullptr;
  EXPECT_CU(kSuccess, machine.cu.EventCreate(&event, kEventDisableTiming));
  EXPECT_CU(kSuccess, machine.cu.EventRecord(event, earlier));
  EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(later, event, 0));
}

// One stream produces, another consumes.
void ReadOnAnotherStream(const Machine& machine, bool ordered) {
  const CuStream other = machine.NewStream();
  const DeviceAddress produced = machine.Allocate(8);
  const DeviceAddress consumed = machine.Allocate(8);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, produced, 1));
  if (ordered) WaitFor(machine, machine.stream, other);
  EXPECT_CU(kSuccess, machine.cu.MemcpyDtoDAsync(consumed, produced, 8, other));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
}

// A graph whose second node reads what the first writes.
void LeaveOutAnEdge(const Machine& machine, bool ordered) {
  const DriverTable& cu = machine.cu;
  const DeviceAddress word = machine.Allocate(8);
  const DeviceAddress copy = machine.Allocate(8);
  CuGraph graph = nullptr;
  CuGraphNode writer = nullptr;
  CuGraphNode reader = nullptr;
  CuGraphExec exec = nullptr;
  EXPECT_CU(kSuccess, cu.GraphCreate(&graph, 0));
  const CuMemsetNodeParams fill{.target = word, .value = 1, .element_size = 4, .width = 2};
  const CuMemcpyParams move{.source_device = word, .target_device = copy, .width_bytes = 8};
  EXPECT_CU(kSuccess, cu.GraphAddMemsetNode(&writer, graph, nullptr, 0, &fill, machine.context));
  EXPECT_CU(kSuccess, cu.GraphAddMemcpyNode(&reader, graph, &writer, ordered ? 1 : 0, &move,
                                            machine.context));
  EXPECT_CU(kSuccess, cu.GraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, machine.stream));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
}

// The host prepares its next input while a replay that reads the last one is queued.
void WriteUnderAReplay(const Machine& machine, bool ordered) {
  const DeviceAddress staged = machine.Allocate(8);
  int64_t input = 1;
  const CuGraphExec exec = machine.Capture([&](CuStream stream) {
    EXPECT_CU(kSuccess, machine.cu.MemcpyHtoDAsync(staged, &input, 8, stream));
  });
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
  const CuStream awaited = ordered ? machine.stream : machine.NewStream();
  EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(awaited));
  input = 2;
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
}

// Bytes that a replay uses are given to the work of another stream.
void ReuseBytes(const Machine& machine, bool ordered) {
  const DeviceAddress bytes =
      machine.MapGranule(machine.CreateGranules(), CuMemAccessFlags::kReadWrite);
  const CuStream other = machine.NewStream();
  const CuGraphExec exec = machine.Capture([&](CuStream stream) {
    EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(bytes, 1, kBytes, stream));
    EXPECT_CU(kSuccess, machine.cu.MemcpyDtoDAsync(bytes + kBytes, bytes, kBytes, stream));
  });
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
  if (ordered) WaitFor(machine, machine.stream, other);
  EXPECT_CU(kSuccess, machine.Store(other, bytes + kBytes / 2, 1));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
}

struct Mistake {
  const char* name;
  void (*make)(const Machine& machine, bool ordered);
  const char* report;  // In each of the reports.
};

constexpr Mistake kMistakes[] = {
    {"a missing event wait", ReadOnAnotherStream, "memcpy reads 8 bytes that Store writes"},
    {"a missing graph edge", LeaveOutAnEdge, "memcpy reads 8 bytes that memset writes"},
    {"a host write under a replay", WriteUnderAReplay, "host memory changed under a queued copy"},
    {"a reuse without a dependency", ReuseBytes, "Store writes 8 bytes that memset writes"},
};

int SeedCount() {
  return std::max(1, kOrderSeeds / static_cast<int>(TestShare()));
}

// Seeds under which the emulator has something to report, which then has to be about the mistake.
int CountFindings(const Mistake& mistake, bool ordered) {
  int found = 0;
  for (int seed = 1; seed <= SeedCount(); ++seed) {
    Emulator::Options options;
    options.seed = static_cast<uint64_t>(seed);
    const Machine machine(options);
    mistake.make(machine, ordered);
    const std::vector<std::string> reports = machine.emulator->reports();
    found += reports.empty() ? 0 : 1;
    for (const std::string& report : reports)
      EXPECT_NE(report.find(mistake.report), std::string::npos) << report << "; seed " << seed;
  }
  return found;
}

TEST(MissingOrderTest, EveryMistakeIsFoundAndNothingElseIs) {
  for (const Mistake& mistake : kMistakes) {
    const int found = CountFindings(mistake, false);
    std::printf("%s: found under %d of %d seeds\n", mistake.name, found, SeedCount());
    EXPECT_GE(100 * found, 99 * SeedCount()) << mistake.name;
    EXPECT_EQ(CountFindings(mistake, true), 0) << mistake.name << ", put right";
  }
}

}  // namespace
}  // namespace coppice
