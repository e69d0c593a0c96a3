// Goal: what PyTorch tests of live outputs - how long one counts, what is planned around it, and
// what a read of a stale one says - holds here too; PEERS.md says which test answers which.
// Method: chains of programs of one kernel. What the session takes for live is what it plans the
// next recording around, so a probe is recorded after each release.

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

class TorchLivenessTest : public TorchFixture {
 protected:
  // y is x itself.
  const Program* AddView(const std::string& name) {
    return Add(SpecOf(name),
               [](CallContext& context) { return context.AliasOutput(0, context.input(0).data); });
  }

  // A program of so many buffers that live to its end: the i-th is (i + 1) * x, and those at
  // `outputs` are its outputs.
  const Program* AddTemporaries(const std::string& name, std::vector<int> outputs, int buffers) {
    ProgramSpec spec = SpecOf(name);
    spec.outputs.clear();
    for (const int output : outputs)
      spec.outputs.push_back({.name = fmt::format("y{}", output), .dims = {Dim::Fixed(kCount)}});
    return Add(spec, [this, outputs = std::move(outputs), buffers](CallContext& context) {
      absl::Status status;
      for (int i = 0; i < buffers && status.ok(); ++i) {
        const auto place = std::find(outputs.begin(), outputs.end(), i);
        DeviceAddress address = 0;
        if (place == outputs.end()) {
          address = *context.Allocate(kBufferAlignment);
        } else {
          address = context.AllocateOutput(static_cast<int>(place - outputs.begin()))->data;
        }
        status = Scale(context, context.input(0).data, address, static_cast<float>(i + 1));
      }
      return status;
    });
  }

  // Warms up, records and replays `programs`, each on the output before it.
  void SettleChain(const std::vector<const Program*>& programs, const Tensor& x) {
    for (int round = 0; round < 3; ++round) {
      const ChainScope chain = *session_->Chain();
      std::vector<Lease> held;
      for (const Program* program : programs)
        held.push_back(Run(program, {held.empty() ? x : At(held.back())}));
    }
  }

  // Records the probe where the chain stands, and returns what it was planned around.
  int64_t ProbeAround(const Program* probe, const Tensor& x) {
    const Lease lease = Run(probe, {x});
    EXPECT_EQ(lease.kind(), RunKind::kRecord);
    return AroundOf("probe").back();
  }

  std::string StaleMessage(const Lease& lease) {
    const absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_THAT(scope, StatusIs(kRefused));
    return MessageOf(scope.status());
  }
};

TEST_F(TorchLivenessTest, OutputsOfSeveralNodesCountUntilTheLastOfThemIsReleased) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Program* h = AddScale("h", 5);
  const Program* probe = AddScale("probe", 1);
  const Tensor x = Upload(1);
  SettleChain({f, g, h}, x);
  Run(probe, {x}).Release();
  const ChainScope chain = *session_->Chain();
  std::vector<Lease> held;
  held.push_back(Run(f, {x}));
  held.push_back(Run(g, {At(held[0])}));
  held.push_back(Run(h, {At(held[1])}));
  EXPECT_EQ(ProbeAround(probe, x), 3);
  for (const int64_t left : {2, 1, 0}) {
    held.pop_back();
    EXPECT_EQ(ProbeAround(probe, x), left);
  }
}

TEST_F(TorchLivenessTest, PlaceOfAnOutputIsTheSameInEveryReplayUntilABranchMovesIt) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Program* h = AddScale("h", 5);
  const Tensor x = Upload(1);
  SettleChain({f, g}, x);
  std::vector<DeviceAddress> places;
  for (int round = 0; round < 5; ++round) {
    const ChainScope chain = *session_->Chain();
    Lease first = Run(f, {x});
    Lease second = Run(g, {At(first)});
    places.push_back(At(second).data);
    EXPECT_EQ(places.back(), places.front());
    EXPECT_EQ(Live({&first, &second}), 2);
    second.Release();
    EXPECT_EQ(Live({&first, &second}), 1);
    first.Release();
    EXPECT_EQ(Live({&first, &second}), 0);
  }
  Run(h, {x}).Release();
  const ChainScope chain = *session_->Chain();
  const Lease first = Run(f, {x});
  const Lease between = Run(h, {At(first)});
  const Lease second = Run(g, {At(first)});
  EXPECT_NE(At(second).data, places.front());
  EXPECT_EQ(ValuesOf(second), Constant(6));
  EXPECT_EQ(ValuesOf(between), Constant(10));
}

TEST_F(TorchLivenessTest, InputThatComesFromElsewhereMakesOneSiblingBehindTheSameParent) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Tensor x = Upload(1);
  const Tensor foreign = Upload(7);
  SettleChain({f, g}, x);
  for (int round = 0; round < 4; ++round) {
    const ChainScope chain = *session_->Chain();
    const Lease first = Run(f, {x});
    const Lease second = Run(g, {round % 2 == 0 ? foreign : At(first)});
    EXPECT_EQ(ValuesOf(second), Constant(round % 2 == 0 ? 21 : 6));
    EXPECT_EQ(second.kind(), round == 0 ? RunKind::kRecord : RunKind::kReplay);
  }
  EXPECT_THAT(AroundOf("g"), ElementsAre(1, 1));
  EXPECT_EQ(Count(Reason::kOtherLiveRegions), 1);
}

TEST_F(TorchLivenessTest, ReadingAfterTheNextCallReusedTheBytesIsAnErrorThatNamesBothCalls) {
  const Program* f = AddScale("f", 2);
  const Tensor x = Upload(1);
  Paths(3, f, {x});
  for (int step = 0; step < 5; ++step) {
    const Lease stale = Run(f, {x});
    const Lease later = Run(f, {x});
    EXPECT_THAT(StaleMessage(stale),
                AllOf(HasSubstr(fmt::format("(call {} on", stale.call_number())),
                      HasSubstr(fmt::format("by call {}", later.call_number()))));
    EXPECT_TRUE(Readable(later));
  }
}

TEST_F(TorchLivenessTest, StaleReadThroughAnAliasSaysWhereTheAliasWasMade) {
  const Program* f = AddScale("f", 2);
  const Program* view = AddView("view");
  const Tensor x = Upload(1);
  SettleChain({f, view}, x);
  std::optional<ChainScope> chain = *session_->Chain();
  Lease first = Run(f, {x});
  const Lease alias = Run(view, {At(first)});
  ASSERT_EQ(At(alias).data, At(first).data);
  first.Release();
  chain.reset();
  EXPECT_EQ(ValuesOf(alias), Constant(2));
  const Lease later = Run(f, {x});
  EXPECT_THAT(
      StaleMessage(alias),
      HasSubstr(fmt::format("'y' of program 'view' (call {} on lane 0)", alias.call_number())));
}

TEST_F(TorchLivenessTest, MessageOfAStaleReadNamesTheOutputAsItsSpecDoes) {
  ProgramSpec spec = SpecOf("model");
  spec.outputs = {{.name = "the next token", .dims = {Dim::Symbol(0)}},
                  {.name = "the hidden state", .dims = {Dim::Symbol(0)}}};
  const Program* model = Add(spec, [this](CallContext& context) -> absl::Status {
    for (const int output : {0, 1}) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(output));
      COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 2));
    }
    return absl::OkStatus();
  });
  const Program* f = AddScale("f", 2);
  const Tensor x = Upload(1);
  Paths(2, model, {x});
  Paths(2, f, {x});
  const Lease lease = Run(model, {x});
  // One output of f fits over one of the two: the one at the start of the window.
  const bool token_first = At(lease, 0).data < At(lease, 1).data;
  Run(f, {x}).Release();
  EXPECT_THAT(StaleMessage(lease), HasSubstr(token_first ? "'the next token' of program 'model'"
                                                         : "'the hidden state' of program"));
}

TEST_F(TorchLivenessTest, ChainGivenUpHalfWayDoesNotHideAStaleReadLater) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Tensor x = Upload(1);
  SettleChain({f, g}, x);
  std::optional<ChainScope> chain = *session_->Chain();
  const Lease half = Run(f, {x});
  chain.reset();
  for (int step = 0; step < 3; ++step) {
    Run(g, {x}).Release();
    const Lease later = Run(f, {x});
    EXPECT_FALSE(Readable(half));
    EXPECT_EQ(ValuesOf(later), Constant(2));
    Run(f, {x}).Release();
    EXPECT_FALSE(Readable(later));
  }
  EXPECT_THAT(TryRun(g, {FloatsAt(session_->memory().window(0, MemoryKind::kPlan).base)}),
              StatusIs(kRefused));
}

TEST_F(TorchLivenessTest, RegionOfTwoViewsIsFreeWhenBothAreReleasedAndNotBefore) {
  const Program* f = AddScale("f", 2);
  const Program* view = AddView("view");
  const Program* probe = AddScale("probe", 1);
  const Tensor x = Upload(1);
  SettleChain({f, view}, x);
  Run(probe, {x}).Release();
  for (const bool first_goes_first : {true, false}) {
    const ChainScope chain = *session_->Chain();
    Lease whole = Run(f, {x});
    Lease one = Run(view, {At(whole)});
    Lease two = Run(view, {At(whole)});
    whole.Release();
    Lease& gone = first_goes_first ? one : two;
    Lease& left = first_goes_first ? two : one;
    gone.Release();
    Run(probe, {x}).Release();
    EXPECT_EQ(ValuesOf(left), Constant(2)) << "the probe wrote around it";
    left.Release();
    const Lease probed = Run(probe, {x});
    EXPECT_EQ(At(probed).data, session_->memory().window(0, MemoryKind::kPlan).base);
  }
  EXPECT_THAT(AroundOf("probe"), ElementsAre(1, 0)) << "the second round replays both";
}

TEST_F(TorchLivenessTest, ReadersOfTwoOutputsAreRightInEitherOrder) {
  const Program* f = AddTemporaries("f", {0, 1}, 2);
  const Program* of_first = AddScale("of first", 10);
  const Program* of_second = AddScale("of second", 100);
  const Tensor x = Upload(1);
  for (int round = 0; round < 8; ++round) {
    const ChainScope chain = *session_->Chain();
    const Lease both = Run(f, {x});
    std::vector<Lease> held;
    for (const int output : {round % 2, 1 - round % 2}) {
      held.push_back(Run(output == 0 ? of_first : of_second, {At(both, output)}));
      EXPECT_EQ(ValuesOf(held.back()), Constant(output == 0 ? 10 : 200)) << "round " << round;
    }
    EXPECT_EQ(ValuesOf(held.front()), Constant(round % 2 == 0 ? 10 : 200));
    if (round < 4) continue;
    for (const Lease& lease : held)
      EXPECT_EQ(lease.kind(), RunKind::kReplay);
  }
}

// The others are written over by the next recording, which is planned around these.
TEST_F(TorchLivenessTest, OutputsBetweenTemporariesSurviveTheNextRecording) {
  constexpr int kBuffers = 11;
  const std::vector<std::vector<int>> choices = {{5}, {5, 8}, {5, 6}};
  const Tensor x = Upload(1);
  for (const std::vector<int>& outputs : choices) {
    Open();
    const Program* f = AddTemporaries("f", outputs, kBuffers);
    const Program* next = AddTemporaries("next", {0}, kBuffers);
    Run(next, {x}).Release();
    SettleChain({f}, x);
    for (const RunKind path : {RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
      const ChainScope chain = *session_->Chain();
      const Lease lease = Run(f, {x});
      EXPECT_EQ(lease.kind(), RunKind::kReplay);
      const Lease after = Run(next, {x});
      EXPECT_EQ(after.kind(), path);
      EXPECT_EQ(ValuesOf(after), Constant(1));
      for (size_t i = 0; i < outputs.size(); ++i) {
        EXPECT_EQ(ValuesOf(lease, static_cast<int>(i)),
                  Constant(static_cast<float>(outputs[i] + 1)));
      }
    }
    EXPECT_THAT(AroundOf("next"), ElementsAre(outputs.size()));
    EXPECT_EQ(session_->memory().usage().height,
              static_cast<int64_t>(kBuffers + outputs.size()) * kBufferAlignment);
  }
}

TEST_F(TorchLivenessTest, ResultThatWasCopiedOutOutlivesItsGraph) {
  Open({.memory = {.copy_out_bytes = kMiB}});
  const Program* f = AddScale("f", 2);
  const Tensor x = Upload(3);
  Paths(2, f, {x});
  const Lease result = Run(f, {x}, {.output_mode = OutputMode::kCopyOut});
  EXPECT_EQ(result.kind(), RunKind::kReplay);
  EXPECT_EQ(*session_->Evict(f), 1);
  ASSERT_OK(session_->memory().Trim());
  const MemoryUsage usage = session_->memory().usage();
  EXPECT_EQ(usage.of(MemoryKind::kPlan), 0);
  EXPECT_EQ(usage.of(MemoryKind::kGraphs), 0);
  EXPECT_EQ(ValuesOf(result), Constant(6));
  EXPECT_THAT(Paths(2, f, {Upload(5)}), ElementsAre(RunKind::kRecord, RunKind::kReplay));
  EXPECT_EQ(ValuesOf(result), Constant(6));
}

TEST_F(TorchLivenessTest, MemoryThatALibraryKeepsFromAWindowIsFoundAndBlamed) {
  DeviceAddress kept = 0;
  const Program* f = Add(SpecOf("library"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(kept, context.Allocate(kBufferAlignment));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, kept, 2));
    return Scale(context, kept, y.data, 1);
  });
  const Program* weighted = AddWeighted("weighted");
  const Program* alias =
      Add(SpecOf("alias"), [&](CallContext& context) { return context.AliasOutput(0, kept); });
  const Tensor x = Upload(1);
  for (int call = 0; call < 3; ++call) {
    Run(f, {x}).Release();
    EXPECT_THAT(session_->Bind(*weighted, {{FloatsAt(kept)}}),
                StatusIs(kWrongArgument, AllOf(HasSubstr("'w' of program 'weighted'"),
                                               HasSubstr("a window of this session"))));
    EXPECT_THAT(TryRun(f, {FloatsAt(kept)}),
                StatusIs(kRefused, HasSubstr("input 'x' of program 'library'")));
    EXPECT_THAT(TryRun(alias, {x}),
                StatusIs(kWrongArgument, HasSubstr("output 'y' of program 'alias'")));
  }
}

TEST_F(TorchLivenessTest, StaleInputIsBlamedOnTheCallThatMadeItAndTheOneThatWroteOverIt) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Tensor x = Upload(1);
  Paths(2, f, {x});
  Paths(2, g, {x});
  const Lease stale = Run(f, {x});
  const Tensor y = At(stale);
  const Lease later = Run(g, {x});
  EXPECT_THAT(
      TryRun(f, {y}),
      StatusIs(kRefused,
               AllOf(HasSubstr(fmt::format("program 'f' (call {}", stale.call_number())),
                     HasSubstr(fmt::format("call {} (program 'g')", later.call_number())))));
}

}  // namespace
}  // namespace coppice
