// Goal: captures and graphs of a C caller's own go together with programs, as coppice.h says.
// Method: graphs of small PTX kernels that are made by the driver's entries, on the emulator, put
// into runs of callables, and programs put into captures, against products computed here.

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

using BeginCapture = int(void* stream, int mode);
using EndCapture = int(void* stream, void** graph);
using Instantiate = int(void** exec, void* graph, unsigned long long flags);
using LaunchGraph = int(void* exec, void* stream);
using Destroy = int(void* handle);

class GraphsTest : public CallableFixture {
 protected:
  void SetUp() override {
    CallableFixture::SetUp();
    LoadKernels();
  }

  // A graph that writes factor * x to y, and once more as much to z.
  void* GraphOf(uint64_t x, uint64_t y, uint64_t z, uint32_t count, float factor) {
    EXPECT_EQ(Entry<BeginCapture>("cuStreamBeginCapture")(stream_, 1), 0);
    EXPECT_C_OK(LaunchScale(x, y, count, factor, stream_));
    EXPECT_C_OK(LaunchScale(y, z, count, factor, stream_));
    void* graph = nullptr;
    EXPECT_EQ(Entry<EndCapture>("cuStreamEndCapture")(stream_, &graph), 0);
    return graph;
  }
};

TEST_F(GraphsTest, AWarmProgramGoesIntoACaptureOfTheCallers) {
  program_ =
      RegisterBody("twice", [this](coppice_context* context) { return ScaleInput(context, 2); });
  const DLTensor x = Upload(Ramp(20));
  const DLTensor* const inputs[] = {&x};
  const coppice_call call = CallOf(inputs);
  coppice_lease* lease = nullptr;
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "", coppice_include(session_, &call, &lease));
  RunOn(Ramp(20));
  ASSERT_EQ(Entry<BeginCapture>("cuStreamBeginCapture")(stream_, 1), 0);
  ASSERT_C_OK(coppice_include(session_, &call, &lease));
  void* graph = nullptr;
  ASSERT_EQ(Entry<EndCapture>("cuStreamEndCapture")(stream_, &graph), 0);
  EXPECT_EQ(InfoOf(lease).kind, COPPICE_RUN_INCLUDE);
  void* exec = nullptr;
  ASSERT_EQ(Entry<Instantiate>("cuGraphInstantiateWithFlags")(&exec, graph, 0), 0);
  for (const float factor : {1.0F, 4.0F}) {
    const std::vector<float> values = Ramp(20, factor);
    ASSERT_C_OK(coppice_copy_to_device(device_, AddressOf(x), values.data(), 80, stream_));
    ASSERT_EQ(Entry<LaunchGraph>("cuGraphLaunch")(exec, stream_), 0);
    EXPECT_EQ(Read(lease), Ramp(20, 2 * factor));
  }
  EXPECT_EQ(Entry<Destroy>("cuGraphExecDestroy")(exec), 0);
  EXPECT_EQ(Entry<Destroy>("cuGraphDestroy")(graph), 0);
  coppice_lease_release(lease);
}

TEST_F(GraphsTest, AGraphOfTheCallersIsPartOfEveryRun) {
  const DLTensor x = Upload(Ramp(300, 0));
  const DLTensor y = Upload(Ramp(300, 0));
  const DLTensor z = Upload(Ramp(300, 0));
  void* graph = GraphOf(AddressOf(x), AddressOf(y), AddressOf(z), 300, 3);
  int runs = 0;
  program_ = RegisterBody("around", [&](coppice_context* context) -> coppice_status {
    ++runs;
    void* const stream = InfoOf(context).stream;
    const uint32_t n = ExtentOf(context);
    EXPECT_C_OK(LaunchScale(InputOf(context), AddressOf(x), n, 2, stream));
    EXPECT_C_OK(coppice_context_add_graph(context, graph));
    return LaunchScale(AddressOf(z), OutputOf(context), n, 5, stream);
  });
  for (const int32_t kind : {COPPICE_RUN_WARM_UP, COPPICE_RUN_RECORD, COPPICE_RUN_REPLAY}) {
    int32_t ran = -1;
    EXPECT_EQ(RunOn(Ramp(200), &ran), Ramp(200, 90));
    EXPECT_EQ(ran, kind);
  }
  EXPECT_EQ(Buckets()[0]["graph_nodes"], 3) << "the child is one node";
  int32_t ran = -1;
  EXPECT_EQ(RunOn(Ramp(290), &ran), Ramp(290, 90));
  EXPECT_EQ(ran, COPPICE_RUN_EAGER);
  ASSERT_EQ(Entry<Destroy>("cuGraphDestroy")(graph), 0);
  EXPECT_EQ(RunOn(Ramp(130), &ran), Ramp(130, 90)) << "the recording has a copy";
  EXPECT_EQ(ran, COPPICE_RUN_REPLAY);
  EXPECT_EQ(runs, 3);
}

// What a break's host code does, and how often it did and came to its end.
struct Between {
  coppice_status answer = COPPICE_OK;
  int calls = 0;
  int released = 0;
  std::function<void(void* stream)> work;
};

class BreaksTest : public GraphsTest {
 protected:
  // y = 30 x, in two graphs: the host multiplies by five between them.
  void RegisterPieces() {
    program_ = RegisterBody("pieces", [this](coppice_context* context) -> coppice_status {
      const uint32_t n = ExtentOf(context);
      uint64_t twice = 0;
      EXPECT_C_OK(coppice_context_allocate(context, int64_t{4} * n, &twice));
      EXPECT_C_OK(LaunchScale(InputOf(context), twice, n, 2, InfoOf(context).stream));
      between_.work = [this, twice, n](void* stream) {
        EXPECT_C_OK(LaunchScale(twice, twice, n, 5, stream));
        EXPECT_C_OK(coppice_stream_synchronize(device_, stream));
      };
      const coppice_status broken = coppice_context_break(context, &Step, &between_, &CountRelease);
      ++breaks_;
      if (broken != COPPICE_OK) return broken;
      return LaunchScale(twice, OutputOf(context), n, 3, InfoOf(context).stream);
    });
  }
  static coppice_status Step(void* user, void* stream) {
    auto& between = *static_cast<Between*>(user);
    ++between.calls;
    if (between.answer != COPPICE_OK) coppice_set_error("the host is tired");
    between.work(stream);
    return between.answer;
  }
  static void CountRelease(void* user) { ++static_cast<Between*>(user)->released; }

  Between between_;
  int breaks_ = 0;
};

TEST_F(BreaksTest, HostCodeRunsBetweenTwoGraphsInEveryRun) {
  RegisterPieces();
  int calls = 0;
  for (const int32_t kind :
       {COPPICE_RUN_WARM_UP, COPPICE_RUN_RECORD, COPPICE_RUN_REPLAY, COPPICE_RUN_REPLAY}) {
    int32_t ran = -1;
    EXPECT_EQ(RunOn(Ramp(200), &ran), Ramp(200, 30));
    EXPECT_EQ(ran, kind);
    EXPECT_EQ(between_.calls, ++calls);
  }
  EXPECT_EQ(breaks_, 2) << "replays do not run the callable";
  EXPECT_EQ(between_.released, 1) << "the recording has one";
  EXPECT_EQ(Buckets()[0]["graph_nodes"], 2);
  coppice_kernels_release(kernels_);
  kernels_ = nullptr;
  LoadKernels();
  EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 30)) << "the session keeps what graphs launch";
  ASSERT_C_OK(coppice_unregister(session_, program_));
  EXPECT_EQ(between_.released, breaks_);
}

TEST_F(BreaksTest, WhatAStepFailsWithIsTheCalls) {
  RegisterPieces();
  // Without a graph, where the callable passes it on, then in a replay.
  for (const char* const part : {"program pieces failed", "a break of program pieces failed"}) {
    between_.answer = COPPICE_UNAVAILABLE;
    EXPECT_C_ERROR(COPPICE_UNAVAILABLE,
                   std::string(part) + " with 6 (unavailable): the host is tired",
                   Refused(Upload(Ramp(200))));
    between_.answer = COPPICE_OK;
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 30));
  }
}

TEST_F(BreaksTest, AStepAsksNothingOfItsSession) {
  RegisterPieces();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 30));
  between_.work = [this, work = between_.work](void* stream) {
    EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "of its own", coppice_trim(session_));
    work(stream);
  };
  EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 30));
}

TEST_F(BreaksTest, ABreakWithoutAStepIsRefusedAndLetsGo) {
  int released = 0;
  program_ = RegisterBody("none", [&](coppice_context* context) -> coppice_status {
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "Break: there is no step",
                   coppice_context_break(context, nullptr, &released,
                                         [](void* user) { ++*static_cast<int*>(user); }));
    return ScaleInput(context, 2);
  });
  EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 2));
  EXPECT_EQ(released, 1);
}

TEST_F(GraphsTest, AProgramMayNeverBeRecorded) {
  program_ = RegisterBody(
      "eager", [this](coppice_context* context) { return ScaleInput(context, 2); }, {"y"},
      [](Spec& spec) { spec.program.gate = COPPICE_GATE_ALWAYS_EAGER; });
  for (int i = 0; i < 3; ++i) {
    int32_t ran = -1;
    EXPECT_EQ(RunOn(Ramp(200), &ran), Ramp(200, 2));
    EXPECT_EQ(ran, COPPICE_RUN_EAGER);
  }
}

TEST_F(GraphsTest, WhatIsNoGraphIsRefused) {
  program_ = RegisterBody("none", [this](coppice_context* context) -> coppice_status {
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "graph: null",
                   coppice_context_add_graph(context, nullptr));
    EXPECT_NE(coppice_context_add_graph(context, context), COPPICE_OK);
    return ScaleInput(context, 2);
  });
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(RunOn(Ramp(200)), Ramp(200, 2));
}

}  // namespace
}  // namespace coppice
