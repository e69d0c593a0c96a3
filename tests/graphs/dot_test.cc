// Goal: Session::Dump and graphs/record/dot.h draw what was recorded: graph nodes, edges, breaks,
// tensors and buffers. Method: the affine program on the emulator; lines of its drawings, compared
// with what leases, windows and the ledger say of the same node.

#include "graphs/record/dot.h"

#include "tests/graphs/session_fixture.h"
#include "tests/support/text_count.h"

namespace coppice {
namespace {

using testing::StartsWith;

class DotTest : public SessionFixture {
 protected:
  static SessionOptions Drawing() { return {.keep_drawings = true}; }

  // The drawing of the session's node of this place in nodes().
  static std::string Dot(const Session& session, size_t node = 0) {
    absl::StatusOr<std::string> dot = session.Dump(session.nodes()[node]);
    EXPECT_OK(dot);
    return dot.ok() ? *dot : "";
  }

  // Affine, of this spec and with this hook, with the bucket of 4 recorded.
  Affine Recorded(const SessionOptions& options,
                  std::function<absl::Status(CallContext&)> hook = nullptr,
                  ProgramSpec spec = AffineSpec()) {
    Affine affine = MakeAffine(options, AffineCallable(std::move(hook)), std::move(spec));
    CallTimes(2, affine, 4);
    return affine;
  }

  // Where calls of that bucket write their output.
  DeviceAddress OutputAddress(const Affine& affine) {
    const Lease lease = *Call(affine, 4);
    return lease.Read(device_.stream())->output(0).data;
  }
};

TEST_F(DotTest, KernelsAreNamedWithGridBlockAndSharedBytesInOneCluster) {
  const Affine affine = Recorded(Drawing());
  const std::string dot = Dot(*affine.session);
  EXPECT_THAT(dot, AllOf(StartsWith("digraph \"affine\" {\n"), HasSubstr("subgraph cluster_0 {")));
  const std::string shape =
      fmt::format("\\ngrid 1 x 1 x 1, block {} x 1 x 1\\n0 shared bytes\"];\n", kTestThreads);
  EXPECT_THAT(dot, HasSubstr("    g0n0 [label=\"Scale" + shape));
  EXPECT_THAT(dot, HasSubstr("    g0n1 [label=\"Add" + shape));
  EXPECT_THAT(dot, HasSubstr("    g0n2 [label=\"Add" + shape));
  EXPECT_EQ(CountOf(dot, "subgraph"), 1);
}

TEST_F(DotTest, EdgesAreThoseOfTheGraph) {
  const Affine affine = Recorded(Drawing());
  const std::string dot = Dot(*affine.session);
  EXPECT_THAT(dot, HasSubstr("    g0n0 -> g0n1;\n    g0n1 -> g0n2;\n  }\n"));
  EXPECT_EQ(CountOf(dot, " -> "), 2);
}

TEST_F(DotTest, OtherNodesAreNamedByTheirKind) {
  const Affine affine = Recorded(Drawing(), [this](CallContext& context) -> absl::Status {
    const Driver& driver = context.driver();
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress bytes, context.Allocate(16));
    COPPICE_RETURN_IF_ERROR(
        driver.Call<&DriverTable::MemsetD8Async>(bytes, uint8_t{0}, size_t{16}, context.stream()));
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemcpyDtoDAsync>(
        bytes, one_.address(), size_t{4}, context.stream()));
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LaunchHostFunc>(
        context.stream(), [](void*) {}, static_cast<void*>(nullptr)));
    return context.Free(bytes);
  });
  const std::string dot = Dot(*affine.session);
  EXPECT_THAT(dot, HasSubstr("g0n1 [label=\"memset\"];\n    g0n2 [label=\"memcpy\"];\n"
                             "    g0n3 [label=\"host\"];\n"));
}

TEST_F(DotTest, BreaksLieBetweenTheClustersOfTheirGraphs) {
  const Affine affine = Recorded(Drawing(), [](CallContext& context) -> absl::Status {
    const auto nothing = [](CuStream) { return absl::OkStatus(); };
    COPPICE_RETURN_IF_ERROR(context.Break(nothing));
    return context.Break(nothing);
  });
  const std::string dot = Dot(*affine.session);
  EXPECT_EQ(CountOf(dot, "subgraph"), 3);
  EXPECT_THAT(dot, HasSubstr("  subgraph cluster_1 {\n    label=\"graph 1\";\n"
                             "    g1n0 [label=\"no work\", style=dashed];\n  }\n"));
  EXPECT_THAT(dot, HasSubstr("  break0 [label=\"host code of a break\", shape=ellipse];\n"
                             "  g0n0 -> break0;\n  break0 -> g1n0;\n"));
  EXPECT_THAT(dot, HasSubstr("  g1n0 -> break1;\n  break1 -> g2n0;\n"));
  EXPECT_THAT(dot, HasSubstr("    g2n0 -> g2n1;\n"));
  EXPECT_THAT(dot, HasSubstr("graphs: 3, graph nodes: 3"));
}

TEST_F(DotTest, TensorsAreNotedWithAddressesAndBytes) {
  const Affine affine = Recorded(Drawing());
  const std::string dot = Dot(*affine.session);
  const DeviceAddress staging = affine.session->memory().window(0, MemoryKind::kStaging).base;
  EXPECT_THAT(dot, HasSubstr(fmt::format("parameter block at {:#x}, 1 words\\l", staging)));
  EXPECT_THAT(dot, HasSubstr("input 'x', f32 [4] at 0x"));
  EXPECT_THAT(dot, HasSubstr(", 16 bytes, staged\\l"));
  EXPECT_THAT(dot, HasSubstr(fmt::format("input 'one', f32 [1] at {:#x}, 4 bytes, static\\l",
                                         one_.address())));
  EXPECT_THAT(dot, HasSubstr(fmt::format("output 'y', f32 [4] at {:#x}, 16 bytes\\l",
                                         OutputAddress(affine))));
}

TEST_F(DotTest, EveryBufferOfThePlanIsNotedWithOffsetBytesAndSteps) {
  const Affine affine = Recorded(Drawing());
  const DeviceAddress window = affine.session->memory().window(0, MemoryKind::kPlan).base;
  const auto y = static_cast<int64_t>(OutputAddress(affine) - window);
  const int64_t other = affine.session->nodes()[0].plan_height - kBufferAlignment - y;
  const std::string dot = Dot(*affine.session);
  EXPECT_THAT(dot, HasSubstr(fmt::format("plan window at {:#x}\\l", window)));
  // The script: allocate the temporary, ask for the output, free the temporary.
  EXPECT_THAT(dot, HasSubstr(fmt::format("offset {}, {} bytes, steps 0 to 1: temporary\\l", other,
                                         kBufferAlignment)));
  EXPECT_THAT(dot, HasSubstr(fmt::format("offset {}, {} bytes, steps 1 to 3: output 'y'\\l", y,
                                         kBufferAlignment)));
}

TEST_F(DotTest, TemporariesAreCalledAsTheirProgramCallsThem) {
  std::unique_ptr<Session> session = MakeSession(Drawing());
  const absl::StatusOr<const Program*> program =
      session->Register({.name = "f"}, [](CallContext& context) {
        return context.Allocate(kBufferAlignment, "query \"q\"").status();
      });
  ASSERT_OK(program);
  for (int i = 0; i < 2; ++i)
    ASSERT_OK(session->Run({.program = *program, .stream = device_.stream()}));
  EXPECT_THAT(Dot(*session), HasSubstr("steps 0 to 1: temporary 'query \\\"q\\\"'\\l"));
}

TEST_F(DotTest, LabelSaysWhichNodeItIsAndWhatItHolds) {
  ProgramSpec spec = AffineSpec();
  spec.variant = "small";
  const Affine affine = Recorded(Drawing(), nullptr, std::move(spec));
  const NodeInfo node = affine.session->nodes()[0];
  EXPECT_THAT(Dot(*affine.session),
              HasSubstr(fmt::format(
                  "label=\"program 'affine' of variant 'small' in bucket [n = 4] on lane 0\\l"
                  "recorded for new_bucket; graphs: 1, graph nodes: 3, about {} bytes\\l"
                  "plan of {} bytes, at most {} live at once, 0 of these leased\\l\"",
                  node.exec_bytes, node.plan_height, node.live_bytes)));
}

TEST_F(DotTest, WhatItWasPlannedAroundAndReadsInPlaceIsNoted) {
  const Affine affine = MakeAffine(Drawing());
  for (const int64_t n : {4, 4})
    ASSERT_OK(Call(affine, n));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, Call(affine, 4));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::optional<ReadScope> scope, first.Read(device_.stream()));
  const Tensor y = scope->output(0);
  scope.reset();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second, Call(affine, 4, 2, [&](coppice::Call& call) {
                                 call.inputs = {&y, 1};
                               }));
  ASSERT_EQ(second.kind(), RunKind::kRecord);
  const std::string dot = Dot(*affine.session, 1);
  const DeviceAddress window = affine.session->memory().window(0, MemoryKind::kPlan).base;
  EXPECT_THAT(dot,
              HasSubstr(fmt::format("input 'x', f32 [4] at {:#x}, 16 bytes, in place\\l", y.data)));
  EXPECT_THAT(dot, HasSubstr(fmt::format("offset {}, {} bytes: leased, avoided by the plan\\l",
                                         y.data - window, kBufferAlignment)));
  EXPECT_THAT(dot, HasSubstr("recorded for other_live_regions"));
}

TEST_F(DotTest, StaticInputThatIsCopiedIsNotedAsStaged) {
  ProgramSpec spec = AffineSpec();
  spec.inputs[1].alignment = int64_t{1} << 40;
  const Affine affine = Recorded(Drawing(), nullptr, std::move(spec));
  EXPECT_THAT(Dot(*affine.session), HasSubstr("4 bytes, static, staged\\l"));
}

TEST_F(DotTest, NamesCannotLeaveTheirQuotes) {
  ProgramSpec spec = AffineSpec("a\"b\\c\nd\x7F");
  spec.outputs[0].name = "y\"];}";
  const Affine affine = Recorded(Drawing(), nullptr, std::move(spec));
  const std::string dot = Dot(*affine.session);
  EXPECT_THAT(dot, StartsWith("digraph \"a\\\"b\\\\c d \" {\n"));
  EXPECT_THAT(dot, HasSubstr("program 'a\\\"b\\\\c d ' in bucket"));
  EXPECT_THAT(dot, HasSubstr("output 'y\\\"];}', f32"));
}

TEST_F(DotTest, NodesAreNumberedInOrderOfRecordingOnTheirLane) {
  const Affine affine = MakeAffine({.lanes = 2, .keep_drawings = true});
  for (const int64_t n : {8, 8, 4, 4, 2})
    ASSERT_OK(Call(affine, n));
  for (int i = 0; i < 2; ++i)
    ASSERT_OK(Call(affine, 16, 2, [](coppice::Call& call) { call.lane = 1; }));
  const std::vector<NodeInfo> nodes = affine.session->nodes();
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0].number, 1);
  EXPECT_EQ(nodes[1].number, 2);
  EXPECT_EQ(nodes[2].number, 0) << "a bucket without a graph";
  EXPECT_EQ(nodes[3].number, 1) << "the first of lane 1";
  EXPECT_THAT(Dot(*affine.session, 0), HasSubstr("[n = 8] on lane 0"));
  EXPECT_THAT(Dot(*affine.session, 1), HasSubstr("[n = 4] on lane 0"));
  EXPECT_THAT(Dot(*affine.session, 3), HasSubstr("[n = 16] on lane 1"));
}

TEST_F(DotTest, ExplainTellsOfTheSameNode) {
  const Affine affine = Recorded(Drawing());
  std::optional<NodeInfo> explained;
  ASSERT_OK(Call(affine, 3, 2,
                 [&](coppice::Call& call) { explained = affine.session->Explain(call).node; }));
  ASSERT_TRUE(explained.has_value());
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string dot, affine.session->Dump(*explained));
  EXPECT_EQ(dot, Dot(*affine.session));
}

TEST_F(DotTest, BackgroundRecordingsAreDrawnAsWell) {
  ProgramSpec spec = AffineSpec();
  spec.thread_safe = true;
  const Affine affine =
      Recorded({.record_in_background = true, .keep_drawings = true}, nullptr, std::move(spec));
  affine.session->WaitForRecordings();
  EXPECT_THAT(Dot(*affine.session), HasSubstr("label=\"Scale"));
}

TEST_F(DotTest, SessionKeepsNoDrawingsUnlessAskedTo) {
  const Affine affine = Recorded({});
  EXPECT_THAT(affine.session->Dump(affine.session->nodes()[0]), StatusIs(kRefused));
}

TEST_F(DotTest, NodeThatIsNotThereIsNotFound) {
  const Affine affine = MakeAffine(Drawing());
  const auto not_found = StatusIs(absl::StatusCode::kNotFound);
  ASSERT_OK(Call(affine, 4));
  EXPECT_THAT(affine.session->Dump(affine.session->nodes()[0]), not_found) << "warmed up only";
  ASSERT_OK(Call(affine, 4));
  NodeInfo node = affine.session->nodes()[0];
  EXPECT_OK(affine.session->Dump(node));
  node.lane = 1;
  EXPECT_THAT(affine.session->Dump(node), not_found) << "no such lane";
  node.lane = 0;
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t dropped, affine.session->Evict(nullptr));
  EXPECT_EQ(dropped, 1);
  EXPECT_THAT(affine.session->Dump(node), not_found) << "dropped";
  ASSERT_OK(Call(affine, 4));
  EXPECT_THAT(affine.session->Dump(node), not_found) << "recorded anew, under another number";
  EXPECT_THAT(affine.session->nodes()[0].number, 2);
}

TEST_F(DotTest, DrawingTakesAboutAHundredBytesPerThing) {
  const Affine affine = Recorded(Drawing(), [](CallContext& context) -> absl::Status {
    for (int i = 0; i < 200; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress bytes, context.Allocate(512));
      COPPICE_RETURN_IF_ERROR(context.driver().Call<&DriverTable::MemsetD8Async>(
          bytes, uint8_t{0}, size_t{512}, context.stream()));
    }
    return absl::OkStatus();
  });
  // 203 graph nodes, 202 edges, 4 tensors, 202 buffers.
  EXPECT_LT(Dot(*affine.session).size(), 611U * 100U);
}

TEST_F(DotTest, RecordingMakesUpToFourDriverCallsMorePerGraphAndGraphNode) {
  int64_t calls[2] = {0, 0};
  for (const bool draws : {false, true}) {
    const Affine affine = MakeAffine({.keep_drawings = draws});
    ASSERT_OK(Call(affine, 4));
    const int64_t before = device_.ledger().calls();
    ASSERT_OK(Call(affine, 4));
    calls[draws ? 1 : 0] = device_.ledger().calls() - before;
  }
  EXPECT_GT(calls[1], calls[0]);
  EXPECT_LE(calls[1], calls[0] + 4 + 3 * 4);
}

}  // namespace
}  // namespace coppice
