// Goal: every sentence of emulator.h about when work runs, and about what it refuses, is true.
// Method: raw driver calls under many seeds, and one misuse per refusal.

#include "coppice/runtime/emulator.h"

#include "tests/runtime/emulator_machine.h"

namespace coppice {
namespace {

// The order in which one host function on each of eight streams runs, as digits.
std::string OrderOfStreams(const Emulator::Options& options) {
  struct Step {
    std::string* order;
    char name;
  };
  Machine machine(options);
  std::string order;
  std::vector<Step> steps;
  for (char name = '0'; name < '8'; ++name)
    steps.push_back({&order, name});
  for (Step& step : steps) {
    const auto run = [](void* data) {
      static_cast<Step*>(data)->order->push_back(static_cast<Step*>(data)->name);
    };
    EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.NewStream(), run, &step));
  }
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  return order;
}

Emulator::Options WithSeed(uint64_t seed) {
  Emulator::Options options;
  options.seed = seed;
  return options;
}

// When and in which order work runs.

TEST(EmulatorOrderTest, WorkWaitsForACallThatWaits) {
  Machine machine(OptionsToLook());
  const DeviceAddress address = machine.Allocate(8);
  EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(address, 0, 8, machine.stream));
  EXPECT_EQ(*PointerAt<unsigned char>(address), 0xCB);
  EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(machine.stream));
  EXPECT_EQ(*PointerAt<unsigned char>(address), 0);
}

TEST(EmulatorOrderTest, WorkRunsOnTheThreadThatWaits) {
  Machine machine;
  std::thread::id ran_on;
  const auto note = [](void* data) {
    *static_cast<std::thread::id*>(data) = std::this_thread::get_id();
  };
  EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.stream, note, &ran_on));
  std::thread waiter([&] {
    EXPECT_CU(kSuccess, machine.cu.CtxSetCurrent(machine.context));
    EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(machine.stream));
  });
  const std::thread::id waiter_id = waiter.get_id();
  waiter.join();
  EXPECT_EQ(ran_on, waiter_id);
}

TEST(EmulatorOrderTest, QueueLimitForcesExecution) {
  Machine machine({.queue_limit = 3});
  int runs = 0;
  for (int queued = 1; queued <= 5; ++queued) {
    EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.stream, Machine::Count, &runs));
    EXPECT_EQ(runs, std::max(0, queued - 3));
  }
}

TEST(EmulatorOrderTest, EagerEmulatorRunsWorkAtEnqueue) {
  Machine machine({.eager_permille = 1000});
  int runs = 0;
  EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.stream, Machine::Count, &runs));
  EXPECT_EQ(runs, 1);
}

TEST(EmulatorOrderTest, EqualSeedsGiveEqualOrders) {
  for (uint64_t seed = 1; seed <= 5; ++seed)
    EXPECT_EQ(OrderOfStreams(WithSeed(seed)), OrderOfStreams(WithSeed(seed))) << "seed " << seed;
}

TEST(EmulatorOrderTest, SeedsGiveDifferentOrders) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    orders.insert(OrderOfStreams(WithSeed(seed)));
  EXPECT_GT(orders.size(), 10U);
}

TEST(EmulatorOrderTest, SequentialEmulatorKeepsTheOrderOfEnqueue) {
  Emulator::Options options = WithSeed(7);
  options.sequential = true;
  EXPECT_EQ(OrderOfStreams(options), "01234567");
}

TEST(EmulatorOrderTest, UnorderedNodesOfAGraphRunInADrawnOrder) {
  struct Step {
    std::string* order;
    char name;
  };
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine(WithSeed(seed));
    std::string order;
    Step steps[] = {{&order, 'a'}, {&order, 'b'}, {&order, 'c'}};
    const CuGraph graph = machine.NewGraph();
    CuGraphNode node = nullptr;
    for (Step& step : steps) {
      const CuHostNodeParams params{
          .function =
              [](void* data) {
                static_cast<Step*>(data)->order->push_back(static_cast<Step*>(data)->name);
              },
          .user_data = &step};
      ASSERT_CU(kSuccess, machine.cu.GraphAddHostNode(&node, graph, nullptr, 0, &params));
    }
    const CuGraphExec exec = machine.Instantiate(graph);
    EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
    EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(machine.stream));
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 6U);
}

// Writes its block index into the next free place, so that the order of blocks shows.
struct BlockOrder {
  std::vector<unsigned>* order;
};
const HostKernel kBlockOrderKernel{
    .name = "BlockOrder",
    .run =
        [](const void* parameters, const HostBlock& block) {
          static_cast<const BlockOrder*>(parameters)->order->push_back(block.index[0]);
        },
    .parameter_bytes = sizeof(BlockOrder),
    .block_threads = 1};
const HostKernel* const kBlockOrderKernels[] = {&kBlockOrderKernel};
const KernelImage kBlockOrderImage{.kernel_count = 1, .kernels = kBlockOrderKernels};

TEST(EmulatorOrderTest, BlocksRunInADrawnOrder) {
  std::set<std::vector<unsigned>> orders;
  std::set<unsigned> firsts;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Machine machine(WithSeed(seed));
    const CuFunction kernel = machine.Load(kBlockOrderImage, "BlockOrder");
    std::vector<unsigned> order;
    BlockOrder params{&order};
    void* arguments[] = {&params};
    ASSERT_CU(kSuccess, machine.cu.LaunchKernel(reinterpret_cast<CuFunction>(kernel), 5, 1, 1, 1, 1,
                                                1, 0, machine.stream, arguments, nullptr));
    ASSERT_CU(kSuccess, machine.cu.CtxSynchronize());
    ASSERT_EQ(order.size(), 5U);
    EXPECT_EQ(std::set<unsigned>(order.begin(), order.end()).size(), 5U);
    firsts.insert(order[0]);
    orders.insert(order);
  }
  EXPECT_EQ(firsts.size(), 5U);
  EXPECT_GT(orders.size(), 5U);
}

TEST(EmulatorOrderTest, QueriesSeeBothAnswersAndComeToAnEnd) {
  std::set<int> queries_seen;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine(WithSeed(seed));
    for (int i = 0; i < 4; ++i)
      EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(
                              machine.stream, [](void*) {}, nullptr));
    int queries = 1;
    while (machine.cu.StreamQuery(machine.stream) == CuResult::kNotReady)
      ++queries;
    queries_seen.insert(queries);
  }
  EXPECT_GT(queries_seen.size(), 1U);
  EXPECT_GT(*queries_seen.begin(), 1) << "four operations are more than one query runs";
}

TEST(EmulatorOrderTest, ThreadsShareTheWork) {
  const Machine machine;
  constexpr int kRounds = 50;
  const auto work = [&machine] {
    EXPECT_CU(kSuccess, machine.cu.CtxSetCurrent(machine.context));
    const CuStream stream = machine.NewStream();
    const DeviceAddress word = machine.Allocate(8);
    for (int round = 1; round <= kRounds; ++round) {
      EXPECT_CU(kSuccess, machine.Store(stream, word, round));
      int64_t read = 0;
      EXPECT_CU(kSuccess, machine.cu.MemcpyDtoHAsync(&read, word, 8, stream));
      EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(stream));
      EXPECT_EQ(read, round);
    }
    EXPECT_CU(kSuccess, machine.cu.StreamDestroy(stream));
    EXPECT_CU(kSuccess, machine.cu.MemFree(word));
  };
  std::thread threads[] = {std::thread(work), std::thread(work), std::thread(work),
                           std::thread(work)};
  for (std::thread& thread : threads)
    thread.join();
}

// Two threads: this one waits for an event; in the last work before it, another one does `meddle`.
template <typename Meddle>
void WaitWhile(const Machine& machine, CuEvent event, Meddle meddle) {
  struct Shared {
    const Machine& machine;
    Meddle& meddle;
  } shared{machine, meddle};
  const auto run = [](void* data) {
    const auto& [its_machine, its_meddle] = *static_cast<Shared*>(data);
    std::thread([&its_machine = its_machine, &its_meddle = its_meddle] {
      EXPECT_CU(kSuccess, its_machine.cu.CtxSetCurrent(its_machine.context));
      its_meddle();
    }).join();
  };
  EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.stream, run, &shared));
  EXPECT_CU(kSuccess, machine.cu.EventRecord(event, machine.stream));
  EXPECT_CU(kSuccess, machine.cu.EventSynchronize(event));
}

TEST(EmulatorOrderTest, EventMayBeDestroyedWhileAThreadWaitsForIt) {
  const Machine machine;
  const CuEvent event = machine.NewEvent(0);
  WaitWhile(machine, event, [&] { EXPECT_CU(kSuccess, machine.cu.EventDestroy(event)); });
}

TEST(EmulatorOrderTest, WaitIsForTheRecordThatItFound) {
  const Machine machine;
  const CuStream other = machine.NewStream();
  CuEvent event = nullptr;
  int runs = 0;
  ASSERT_CU(kSuccess, machine.cu.EventCreate(&event, 0));
  WaitWhile(machine, event, [&] {
    EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(other, Machine::Count, &runs));
    EXPECT_CU(kSuccess, machine.cu.EventRecord(event, other));
  });
  EXPECT_EQ(runs, 0) << "waited for a later record";
}

// Refusals.

TEST(EmulatorRefusalTest, DestroyedHandlesAreRefused) {
  Machine machine;
  const DriverTable& cu = machine.cu;
  CuEvent event = nullptr;
  CuGraph graph = nullptr;
  CuGraphNode node = nullptr;
  CuGraphNodeType type{};
  ASSERT_CU(kSuccess, cu.EventCreate(&event, 0));
  ASSERT_CU(kSuccess, cu.GraphCreate(&graph, 0));
  ASSERT_CU(kSuccess, cu.GraphAddEmptyNode(&node, graph, nullptr, 0));
  const CuGraphExec exec = machine.Capture([](CuStream) {});
  const CuFunction function = machine.Function("Store");
  const CuStream stream = machine.NewStream();
  EXPECT_CU(kSuccess, cu.EventDestroy(event));
  EXPECT_CU(kSuccess, cu.GraphDestroy(graph));
  EXPECT_CU(kSuccess, cu.GraphExecDestroy(exec));
  EXPECT_CU(kSuccess, cu.LibraryUnload(machine.library));
  EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
  EXPECT_CU(kInvalidHandle, cu.EventDestroy(event));
  EXPECT_CU(kInvalidHandle, cu.EventRecord(event, machine.stream));
  EXPECT_CU(kInvalidHandle, cu.GraphDestroy(graph));
  EXPECT_CU(kInvalidHandle, cu.GraphNodeGetType(node, &type));
  EXPECT_CU(kInvalidHandle, cu.GraphLaunch(exec, machine.stream));
  EXPECT_CU(kInvalidHandle, cu.LibraryUnload(machine.library));
  EXPECT_CU(kInvalidHandle, cu.StreamDestroy(stream));
  void* arguments[] = {&event};
  EXPECT_CU(kInvalidHandle, cu.LaunchKernel(function, 1, 1, 1, kTestThreads, 1, 1, 0,
                                            machine.stream, arguments, nullptr));
}

TEST(EmulatorRefusalTest, LaunchOfAnExecWhoseLibraryIsGoneIsRefused) {
  Machine machine;
  const DeviceAddress address = machine.Allocate(8);
  const CuGraphExec exec = machine.Capture(
      [&](CuStream stream) { EXPECT_CU(kSuccess, machine.Store(stream, address, 1)); });
  EXPECT_CU(kSuccess, machine.cu.LibraryUnload(machine.library));
  EXPECT_CU(kInvalidHandle, machine.cu.GraphLaunch(exec, machine.stream));
}

TEST(EmulatorRefusalTest, LaunchTakesTheKernelsOwnShapeOnly) {
  Machine machine;
  const DeviceAddress address = machine.Allocate(8);
  StoreParams params{.target = PointerAt<int64_t>(address), .value = 1};
  void* arguments[] = {&params};
  const auto launch = [&](unsigned block_x, unsigned block_y, unsigned shared_bytes,
                          void** kernel_params, void** extra) {
    return machine.cu.LaunchKernel(machine.Function("Store"), 1, 1, 1, block_x, block_y, 1,
                                   shared_bytes, machine.stream, kernel_params, extra);
  };
  EXPECT_CU(kInvalidValue, launch(kTestThreads / 2, 1, 0, arguments, nullptr));
  EXPECT_CU(kInvalidValue, launch(kTestThreads, 2, 0, arguments, nullptr));
  EXPECT_CU(kInvalidValue, launch(kTestThreads, 1, 48 * 1024 + 1, arguments, nullptr));
  EXPECT_CU(kInvalidValue, launch(kTestThreads, 1, 0, nullptr, arguments));
  EXPECT_CU(kInvalidValue, launch(kTestThreads, 1, 0, nullptr, nullptr));
  EXPECT_CU(kSuccess, launch(kTestThreads, 1, 16, arguments, nullptr));
}

TEST(EmulatorRefusalTest, AttributesThatItDoesNotExecuteAreNotSupported) {
  Machine machine;
  const DeviceAddress address = machine.Allocate(8);
  StoreParams params{.target = PointerAt<int64_t>(address), .value = 1};
  void* arguments[] = {&params};
  const CuFunction store = machine.Function("Store");
  const auto launch = [&](unsigned blocks, std::vector<CuLaunchAttribute> attributes) {
    const CuLaunchConfig config{.grid_x = blocks,
                                .block_x = kTestThreads,
                                .stream = machine.stream,
                                .attributes = attributes.data(),
                                .attribute_count = static_cast<unsigned>(attributes.size())};
    return machine.cu.LaunchKernelEx(&config, store, arguments, nullptr);
  };
  constexpr auto kPriority = static_cast<CuLaunchAttributeId>(8);
  CuLaunchAttribute cooperative{.id = CuLaunchAttributeId::kCooperative};
  cooperative.value.cooperative = 1;
  CuLaunchAttribute cluster{.id = CuLaunchAttributeId::kClusterDimension};
  cluster.value.cluster = {2, 1, 1};
  EXPECT_CU(kNotSupported, launch(1, {{.id = kPriority}}));
  EXPECT_CU(kNotSupported, launch(4, {cooperative, cluster}));
  EXPECT_CU(kSuccess, launch(132, {cooperative}));
  EXPECT_CU(kCooperativeLaunchTooLarge, launch(133, {cooperative}))
      << "registers are not known, so that one block has a multiprocessor to itself";
  cluster.value.cluster = {16, 1, 1};
  EXPECT_CU(kInvalidClusterSize, launch(16, {cluster}));
  EXPECT_CU(kSuccess, machine.cu.FuncSetAttribute(
                          store, CuFunctionAttribute::kNonPortableClusterSizeAllowed, 1));
  EXPECT_CU(kNotSupported, launch(16, {cluster}));
}

TEST(EmulatorRefusalTest, CooperativeNodeStaysSoAndHasToFit) {
  Machine machine;
  const DeviceAddress address = machine.Allocate(8);
  StoreParams params{.target = PointerAt<int64_t>(address), .value = 1};
  void* arguments[] = {&params};
  CuLaunchAttribute cooperative{.id = CuLaunchAttributeId::kCooperative};
  cooperative.value.cooperative = 1;
  const CuLaunchConfig config{.block_x = kTestThreads,
                              .stream = machine.stream,
                              .attributes = &cooperative,
                              .attribute_count = 1};
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, machine.cu.StreamBeginCapture(machine.stream, CuCaptureMode::kRelaxed));
  ASSERT_CU(kSuccess,
            machine.cu.LaunchKernelEx(&config, machine.Function("Store"), arguments, nullptr));
  ASSERT_CU(kSuccess, machine.cu.StreamEndCapture(machine.stream, &graph));
  CuGraphNode node = nullptr;
  size_t count = 1;
  ASSERT_CU(kSuccess, machine.cu.GraphGetNodes(graph, &node, &count));
  const CuGraphExec exec = machine.Instantiate(graph);
  CuKernelNodeParams changed;
  ASSERT_CU(kSuccess, machine.cu.GraphKernelNodeGetParams(node, &changed));
  changed.grid_x = 133;
  EXPECT_CU(kCooperativeLaunchTooLarge,
            machine.cu.GraphExecKernelNodeSetParams(exec, node, &changed));
  changed.grid_x = 132;
  EXPECT_CU(kSuccess, machine.cu.GraphExecKernelNodeSetParams(exec, node, &changed));
}

TEST(EmulatorOrderTest, SharedMemoryIsFilledForEachBlock) {
  struct Seen {
    std::vector<unsigned char>* first_bytes;
  };
  static const HostKernel kernel{
      .name = "Look",
      .run =
          [](const void* parameters, const HostBlock& block) {
            static_cast<const Seen*>(parameters)
                ->first_bytes->push_back(std::to_integer<unsigned char>(block.shared[0]));
            block.shared[0] = std::byte{7};
          },
      .parameter_bytes = sizeof(Seen),
      .block_threads = 1};
  static const HostKernel* const kernels[] = {&kernel};
  const KernelImage image{.kernel_count = 1, .kernels = kernels};
  Machine machine;
  const CuFunction look = machine.Load(image, "Look");
  std::vector<unsigned char> first_bytes;
  Seen params{&first_bytes};
  void* arguments[] = {&params};
  ASSERT_CU(kSuccess, machine.cu.LaunchKernel(reinterpret_cast<CuFunction>(look), 3, 1, 1, 1, 1, 1,
                                              1, machine.stream, arguments, nullptr));
  ASSERT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_EQ(first_bytes, (std::vector<unsigned char>{0xCB, 0xCB, 0xCB}));
}

TEST(EmulatorRefusalTest, NodesThatAreNotOneDimensionalOrMappedAreRefused) {
  Machine machine;
  const DeviceAddress address = machine.Allocate(64);
  const CuGraph graph = machine.NewGraph();
  CuGraphNode node = nullptr;
  const auto copy = [&](const CuMemcpyParams& params) {
    return machine.cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &params, machine.context);
  };
  const auto fill = [&](const CuMemsetNodeParams& params) {
    return machine.cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &params, machine.context);
  };
  EXPECT_CU(kInvalidValue, copy({.source_device = address,
                                 .target_device = address + 32,
                                 .width_bytes = 8,
                                 .height = 2}));
  EXPECT_CU(kInvalidValue,
            copy({.source_device = address, .target_device = address + 60, .width_bytes = 8}));
  EXPECT_CU(kInvalidValue, copy({.source_type = CuMemoryType::kHost,
                                 .source_host = PointerAt<void>(address),
                                 .target_device = address + 32,
                                 .width_bytes = 8}));
  EXPECT_CU(kInvalidValue, fill({.target = address, .width = 8, .height = 2}));
  EXPECT_CU(kInvalidValue, fill({.target = address, .width = 65}));
  EXPECT_CU(kSuccess, fill({.target = address, .width = 64}));
}

TEST(EmulatorRefusalTest, CapturingStreamsAndGraphsAreNotDestroyed) {
  Machine machine;
  const DriverTable& cu = machine.cu;
  CuCaptureStatus status{};
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(machine.stream, CuCaptureMode::kRelaxed));
  ASSERT_CU(kSuccess, cu.StreamGetCaptureInfo(machine.stream, &status, nullptr, &graph, nullptr,
                                              nullptr, nullptr));
  EXPECT_CU(kInvalidHandle, cu.GraphDestroy(graph));
  EXPECT_CU(kInvalidValue, cu.GraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_EQ(machine.emulator->live().captures, 1);
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamDestroy(machine.stream));
  EXPECT_CU(kInvalidHandle, cu.GraphGetNodes(graph, nullptr, nullptr)) << "destroyed with it";
  CuGraph ended = nullptr;
  EXPECT_CU(kStreamCaptureInvalidated, cu.StreamEndCapture(machine.stream, &ended));
  EXPECT_EQ(machine.emulator->live().captures, 0);
  EXPECT_EQ(machine.emulator->live().graphs, 0);
  EXPECT_CU(kSuccess, cu.StreamDestroy(machine.stream));
}

TEST(EmulatorRefusalTest, CaptureWaitsForNoEventThatWasNeverRecorded) {
  Machine machine;
  const CuEvent event = machine.NewEvent(0);
  ASSERT_CU(kSuccess, machine.cu.StreamBeginCapture(machine.stream, CuCaptureMode::kRelaxed));
  EXPECT_CU(kStreamCaptureIsolation, machine.cu.StreamWaitEvent(machine.stream, event, 0));
}

// A launch, from another thread, of the exec that this thread is inside the launch of.
struct NestedLaunch {
  explicit NestedLaunch(bool strict)
      : machine({.eager_permille = 1000, .strictness = Emulator::Strictness::All(strict)}) {}

  Machine machine;
  CuGraphExec exec = nullptr;

  void Run() {
    const auto launch_elsewhere = [](void* data) {
      auto& self = *static_cast<NestedLaunch*>(data);
      std::thread([&self] {
        self.machine.cu.CtxSetCurrent(self.machine.context);
        self.machine.cu.GraphLaunch(self.exec, self.machine.stream);
      }).join();
    };
    exec = machine.Capture([&](CuStream stream) {
      EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(stream, launch_elsewhere, this));
    });
    machine.cu.GraphLaunch(exec, machine.stream);  // Eager: the host function runs inside.
  }
};

TEST(EmulatorRefusalDeathTest, TwoThreadsInsideOneExecAbort) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(NestedLaunch(true).Run(), "two threads use the same graph or graph exec");
  NestedLaunch(false).Run();
}

}  // namespace
}  // namespace coppice
