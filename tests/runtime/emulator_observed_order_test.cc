// Goal: compiled kernels that declare nothing are held to the order between operations.
// Method: raw driver calls under several seeds, in order and not, since what is found may not
// depend on what runs first.

#include "tests/runtime/compiled_machine.h"

namespace coppice {
namespace {

constexpr uint64_t kSeeds = 12;

Emulator::Options Drawn(uint64_t seed) {
  Emulator::Options options = OptionsToLook();
  options.seed = seed;
  options.eager_permille = seed % 3 == 0 ? 500 : 0;
  return options;
}

// Runs `submit` under several seeds, each time in a fresh machine with two streams and words, and
// returns what all of them reported, which has to be the same.
std::vector<std::string> ReportsOfEverySeed(
    const std::function<void(const CompiledMachine&, CuStream, CuStream, DeviceAddress)>& submit) {
  std::vector<std::vector<std::string>> all;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const CompiledMachine machine(Drawn(seed));
    const CuStream other = machine.NewStream();
    const DeviceAddress words = machine.Allocate(64);
    EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 0, 64, machine.stream));
    EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
    submit(machine, machine.stream, other, words);
    std::vector<std::string> reports = machine.Reports();
    for (std::string& report : reports)
      report = report.substr(0, report.find(" on streams"));
    all.push_back(reports);
  }
  for (const std::vector<std::string>& reports : all)
    EXPECT_EQ(reports, all[0]);
  return all[0];
}

TEST(ObservedOrderTest, TwoStreamsThatTouchTheSameWordAreFoundWhicheverRunsFirst) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words + 16, words));
      }),
      ElementsAre("unordered accesses"));
}

TEST(ObservedOrderTest, WordsThatOnlyReadersShareAreNoMatter) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words + 16, words + 8));
      }),
      IsEmpty());
}

TEST(ObservedOrderTest, DeclaredWorkThatIsSubmittedLaterIsFoundToo) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
      }),
      ElementsAre("unordered accesses"));
}

TEST(ObservedOrderTest, WorkBehindAnEventIsInOrder) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        const CuEvent event = machine.NewEvent();
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.EventRecord(event, a));
        EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(b, event, 0));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words, words + 8));
      }),
      IsEmpty());
}

TEST(ObservedOrderTest, OnlyWhatIsBehindTheWaitIsInOrder) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        const CuEvent event = machine.NewEvent();
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.EventRecord(event, a));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
        EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(b, event, 0));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words + 16, 1, 8, b));
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words + 24, words + 16));
      }),
      ElementsAre("unordered accesses", "unordered accesses"));
}

TEST(ObservedOrderTest, AnEventOrdersThroughAThirdStream) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        const CuStream between = machine.NewStream();
        const CuEvent event = machine.NewEvent();
        const CuEvent other = machine.NewEvent();
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.EventRecord(event, a));
        EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(between, event, 0));
        EXPECT_CU(kSuccess, machine.cu.EventRecord(other, between));
        EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(b, other, 0));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
      }),
      IsEmpty());
}

TEST(ObservedOrderTest, WorkOfOneStreamIsInOrder) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, a));
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words));
      }),
      IsEmpty());
}

TEST(ObservedOrderTest, AWaitAfterTheSubmissionOrdersNothing) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words + 16, words));
        EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(a));
      }),
      ElementsAre("unordered accesses"));
}

TEST(ObservedOrderTest, AWaitBeforeTheSubmissionOrders) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(a));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words + 16, words));
      }),
      IsEmpty());
}

// A graph of two nodes that do "Add" on the same word, the second behind the first if `ordered`.
CuGraphExec GraphOfTwo(const CompiledMachine& machine, DeviceAddress words, bool ordered) {
  const CuGraph graph = machine.NewGraph();
  std::vector<CuGraphNode> nodes;
  for (const int i : {0, 1}) {
    DeviceAddress target = words;
    DeviceAddress source = words + 8 + static_cast<DeviceAddress>(i) * 8;
    void* arguments[] = {&target, &source};
    const CuKernelNodeParams params{.function = machine.Compiled("Add"),
                                    .grid_x = 1,
                                    .grid_y = 1,
                                    .grid_z = 1,
                                    .block_x = 1,
                                    .block_y = 1,
                                    .block_z = 1,
                                    .kernel_params = arguments};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, machine.cu.GraphAddKernelNode(&node, graph, nodes.data(),
                                                      ordered ? nodes.size() : 0, &params));
    nodes.push_back(node);
  }
  const CuGraphExec exec = machine.Instantiate(graph);
  return exec;
}

TEST(ObservedOrderTest, NodesOfAGraphMeetUnlessAnEdgeOrdersThem) {
  for (const bool ordered : {false, true}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const CompiledMachine machine(Drawn(seed));
      const CuGraphExec exec = GraphOfTwo(machine, machine.Allocate(64), ordered);
      EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
      EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
      const std::vector<std::string> reports = machine.Reports();
      ASSERT_EQ(reports.size(), ordered ? 0U : 1U);
      if (!ordered) {
        EXPECT_THAT(reports[0], HasSubstr("of one graph"));
      }
    }
  }
}

TEST(ObservedOrderTest, LaunchesOfTwoGraphsOnTwoStreamsMeet) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.cu.GraphLaunch(GraphOfTwo(machine, words, true), a));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
      }),
      ElementsAre("unordered accesses"));
}

}  // namespace
}  // namespace coppice
