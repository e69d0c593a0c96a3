// Goal: what PyTorch tests of static inputs - that move, that are swapped, that change under a
// graph or miss their alignment - holds here too; PEERS.md says which test answers which.
// Method: programs that add a weight, bound at one address or another; recordings, values and log.

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

class TorchStaticTest : public TorchFixture {
 protected:
  // A tensor of kCount floats that begins 4 bytes after an aligned address.
  Tensor Misaligned(float value) {
    Floats values = Constant(value, kCount + 1);
    return FloatsAt(Upload(values).data + sizeof(float));
  }

  // state += 1 and y = x + state.
  const Program* AddStateful(const std::string& name) {
    ProgramSpec spec = SpecOf(name);
    spec.inputs.push_back({.name = "state",
                           .dims = {Dim::Fixed(kCount)},
                           .role = InputRole::kStatic,
                           .mutated = true});
    return Add(spec, [this, ones = Upload(1).data](CallContext& context) -> absl::Status {
      const DeviceAddress state = context.input(1).data;
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      COPPICE_RETURN_IF_ERROR(AddOnto(context, state, ones, state, kCount));
      return AddOnto(context, context.input(0).data, state, y.data, kCount);
    });
  }

  // Three chains of f, then g, whose statics are bound as given; checks what g returns.
  void RunChains(const std::pair<const Program*, const Binding*>& f,
                 const std::pair<const Program*, const Binding*>& g,
                 float expected) {
    const Tensor x = Upload(1);
    for (int round = 0; round < 3; ++round) {
      const ChainScope chain = *session_->Chain();
      const Lease first = Run(f.first, {x}, {.binding = f.second});
      const Lease second = Run(g.first, {At(first)}, {.binding = g.second});
      EXPECT_EQ(ValuesOf(second), Constant(expected));
    }
  }
};

TEST_F(TorchStaticTest, MisalignedStaticInputWithoutAChainIsRightAndCostsNoCallBeyondStaging) {
  const Program* f = AddWeighted("f");
  const Binding* binding = Bind(f, {Misaligned(10)});
  const Tensor x = Upload(1);
  for (const RunKind path :
       {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
    const int64_t before = device_.ledger().calls();
    const Lease lease = Run(f, {x}, {.binding = binding});
    if (path == RunKind::kReplay) {
      EXPECT_EQ(device_.ledger().calls() - before, 2);
    }
    EXPECT_EQ(lease.kind(), path);
    EXPECT_EQ(ValuesOf(lease), Constant(11));
  }
}

TEST_F(TorchStaticTest, MessageAboutMovedStaticInputsListsEachWithBothAddresses) {
  ProgramSpec spec = WeightedSpec("f");
  spec.inputs.push_back({.name = "same", .dims = {Dim::Fixed(1)}, .role = InputRole::kStatic});
  spec.inputs.push_back({.name = "bias", .dims = {Dim::Fixed(kCount)}, .role = InputRole::kStatic});
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(
        AddOnto(context, context.input(0).data, context.input(1).data, y.data, kCount));
    return AddOnto(context, y.data, context.input(3).data, y.data, kCount);
  });
  const Tensor same = Upload(Constant(0, 1));
  const Tensor before[] = {Upload(10), Upload(100)};
  const Tensor after[] = {Upload(20), Upload(200)};
  const Binding* first = Bind(f, {before[0], same, before[1]});
  const Binding* moved = Bind(f, {after[0], same, after[1]});
  const Tensor x = Upload(1);
  Paths(2, f, {x}, {.binding = first});
  const std::string list =
      fmt::format("static_input_moved: 'w' from {:#x} to {:#x}, 'bias' from {:#x} to {:#x}",
                  before[0].data, after[0].data, before[1].data, after[1].data);
  const std::vector<Tensor> inputs = {x};
  const RestOfCall rest = {.binding = moved};
  EXPECT_THAT(session_->Explain(CallOf(f, inputs, rest)).text, HasSubstr(list));
  session_->SetStance(Stance::kStrict);
  EXPECT_THAT(MessageOf(TryRun(f, inputs, rest).status()), HasSubstr(list));
  session_->SetStance(Stance::kRecord);
  EXPECT_EQ(ValuesOf(Run(f, inputs, rest)), Constant(221));
  EXPECT_EQ(Lines({"program 'f'", list}), 1);
  EXPECT_EQ(Lines({"'same'"}), 0);
}

TEST_F(TorchStaticTest, StatesOfAChainSwappedAndBackAreRecordedOnceEachAndFoundAgain) {
  const Program* f = AddStateful("f");
  const Program* g = AddStateful("g");
  const Tensor states[] = {Upload(0), Upload(100)};
  float steps[] = {0, 100};
  const Tensor x = Upload(1);
  for (const int version : {0, 0, 0, 1, 1, 1, 0, 1, 0}) {
    const ChainScope chain = *session_->Chain();
    const Lease first = Run(f, {x}, {.binding = Bind(f, {states[version]})});
    const float after_first = steps[version] += 1;
    const Lease second = Run(g, {At(first)}, {.binding = Bind(g, {states[version]})});
    const float after_second = steps[version] += 1;
    EXPECT_EQ(ValuesOf(second), Constant(1 + after_first + after_second));
  }
  EXPECT_EQ(Recorded().size(), 4U);
  EXPECT_EQ(session_->stats().recordings, 4);
}

TEST_F(TorchStaticTest, OtherWeightsOfTheFirstProgramLeaveThePathBehindItAsItIs) {
  const Program* f = AddWeighted("f");
  const Program* g = AddWeighted("g");
  const Binding* of_g = Bind(g, {Upload(10)});
  const Tensor weights[] = {Upload(20), Upload(30)};
  for (const int version : {0, 1, 0, 1})
    RunChains({f, Bind(f, {weights[version]})}, {g, of_g}, version == 0 ? 31 : 41);
  EXPECT_THAT(AroundOf("f"), ElementsAre(0, 0));
  EXPECT_THAT(AroundOf("g"), ElementsAre(1)) << "what lies before it has not changed";
  EXPECT_EQ(session_->stats().recordings, 3);
}

TEST_F(TorchStaticTest, ConstantThatIsMutatedBetweenCallsIsReadAsItIs) {
  const Program* f = AddWeighted("f");
  const Tensor weight = Upload(10);
  const Binding* binding = Bind(f, {weight});
  const Tensor x = Upload(1);
  for (int call = 0; call < 5; ++call) {
    const auto value = static_cast<float>(100 * call);
    ASSERT_OK(device_.Write(weight.data, Constant(value)));
    EXPECT_EQ(ValuesOf(Run(f, {x}, {.binding = binding})), Constant(value + 1));
  }
  EXPECT_EQ(session_->stats().recordings, 1);
}

TEST_F(TorchStaticTest, SetsOfWeightsThatTakeTurnsEachReplayTheirOwnGraph) {
  const Program* f = AddWeighted("f");
  std::vector<const Binding*> sets;
  for (int set = 0; set < 8; ++set)
    sets.push_back(Bind(f, {Upload(static_cast<float>(10 * set))}));
  const Tensor x = Upload(1);
  for (int round = 0; round < 4; ++round) {
    for (size_t set = 0; set < sets.size(); ++set) {
      const Lease lease = Run(f, {x}, {.binding = sets[set]});
      EXPECT_EQ(ValuesOf(lease), Constant(static_cast<float>(10 * set + 1)));
      if (round > 1) {
        EXPECT_EQ(lease.kind(), RunKind::kReplay);
      }
    }
  }
  EXPECT_EQ(session_->stats().inputs_demoted, 0);
}

TEST_F(TorchStaticTest, GraphsOfWeightsThatAreCopiedFromThenOnGo) {
  Open({.limits = {.static_moves_max = 2}});
  const Program* f = AddWeighted("f");
  const Tensor x = Upload(1);
  for (int move = 0; move < 6; ++move) {
    const Binding* binding = Bind(f, {Upload(static_cast<float>(move))});
    for (int call = 0; call < 3; ++call)
      EXPECT_EQ(ValuesOf(Run(f, {x}, {.binding = binding})),
                Constant(static_cast<float>(move + 1)));
  }
  EXPECT_EQ(session_->stats().inputs_demoted, 1);
  EXPECT_EQ(Recorded().size(), 1U);
}

}  // namespace
}  // namespace coppice
