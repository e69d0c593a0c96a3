// Goal: what PyTorch tests of whose bytes a tensor is - aliases, constants, empty and expanded
// tensors, inputs that are written to - holds here too; PEERS.md says which test answers
// which. Method: programs that return what they were given, or write into it; addresses, values and
// what later nodes are planned around.

#include <vector>

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class TorchAliasTest : public TorchFixture {
 protected:
  // A program with outputs "y0", "y1", ... of kCount floats.
  static ProgramSpec SpecWithOutputs(const std::string& name, int outputs) {
    ProgramSpec spec = WeightedSpec(name);
    spec.outputs.clear();
    for (int i = 0; i < outputs; ++i)
      spec.outputs.push_back({.name = fmt::format("y{}", i), .dims = {Dim::Fixed(kCount)}});
    return spec;
  }

  // x += w, and y is a copy of what x became.
  const Program* AddAccumulate(const std::string& name, InputRole role) {
    ProgramSpec spec{.name = name};
    spec.inputs = {{.name = "x", .dims = {Dim::Fixed(kCount)}, .role = role, .mutated = true},
                   {.name = "w", .dims = {Dim::Fixed(kCount)}, .role = InputRole::kStatic}};
    spec.outputs = {{.name = "y", .dims = {Dim::Fixed(kCount)}}};
    return Add(spec, [this](CallContext& context) -> absl::Status {
      const DeviceAddress x = context.input(0).data;
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      COPPICE_RETURN_IF_ERROR(AddOnto(context, x, context.input(1).data, x, kCount));
      return ScaleOn(context.stream(), x, y.data, 1);
    });
  }

  Floats ValuesAt(const Tensor& tensor) {
    return device_.Download<float>(tensor.data, tensor.element_count());
  }
};

TEST_F(TorchAliasTest, OutputThatIsAConstantOrAStaticInputKeepsItsValueOverLaterCalls) {
  const Tensor constant = Upload(5);
  const Program* f = Add(SpecWithOutputs("f", 2), [&](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(context.AliasOutput(0, constant.data));
    return context.AliasOutput(1, context.input(1).data);
  });
  const Tensor weight = Upload(10);
  const Binding* binding = Bind(f, {weight});
  const Program* other = AddScale("other", 2);
  const Tensor x = Upload(1);
  Paths(3, other, {x});
  std::vector<Lease> held;
  for (int call = 0; call < 4; ++call) {
    held.push_back(Run(f, {x}, {.binding = binding}));
    Run(other, {x}).Release();
    for (const Lease& lease : held) {
      EXPECT_EQ(ValuesOf(lease, 0), Constant(5));
      EXPECT_EQ(ValuesOf(lease, 1), Constant(10));
    }
  }
  EXPECT_EQ(At(held.back(), 1).data, weight.data);
}

TEST_F(TorchAliasTest, FiveOutputsThatAliasEachOtherAreTwoRegionsAndNoneAfterRelease) {
  const Program* f = Add(SpecWithOutputs("f", 5), [this](CallContext& context) -> absl::Status {
    for (const int output : {0, 3}) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(output));
      COPPICE_RETURN_IF_ERROR(
          Scale(context, context.input(0).data, y.data, static_cast<float>(output + 2)));
      for (int alias = output + 1; alias < (output == 0 ? 3 : 5); ++alias)
        COPPICE_RETURN_IF_ERROR(context.AliasOutput(alias, y.data));
    }
    return absl::OkStatus();
  });
  const Binding* binding = Bind(f, {Upload(0)});
  const Program* probe = AddScale("probe", 1);
  const Tensor x = Upload(1);
  Lease warm = Run(f, {x}, {.binding = binding});
  EXPECT_EQ(LiveEager(), 2);
  warm.Release();
  EXPECT_EQ(LiveEager(), 0);
  Run(probe, {x}).Release();
  const ChainScope chain = *session_->Chain();
  Lease lease = Run(f, {x}, {.binding = binding});
  EXPECT_EQ(Recorded()[0].plan_height, 2 * kBufferAlignment);
  for (int output = 0; output < 5; ++output)
    EXPECT_EQ(ValuesOf(lease, output), Constant(output < 3 ? 2 : 5)) << output;
  Run(probe, {x}).Release();
  lease.Release();
  Run(probe, {x}).Release();
  EXPECT_THAT(AroundOf("probe"), ElementsAre(2, 0));
}

TEST_F(TorchAliasTest, OutputThatAliasesAStaticInputIsItsBytesAlsoIfALaterNodeMadeTheAlias) {
  const Program* f = AddWeighted("f");
  const Program* g = Add(WeightedSpec("g"), [](CallContext& context) {
    return context.AliasOutput(0, context.input(1).data);
  });
  const Tensor weight = Upload(10);
  const Binding* of_f = Bind(f, {weight});
  const Binding* of_g = Bind(g, {weight});
  const Tensor x = Upload(1);
  for (int round = 0; round < 4; ++round) {
    const ChainScope chain = *session_->Chain();
    const Lease first = Run(f, {x}, {.binding = of_f});
    const Lease second = Run(g, {At(first)}, {.binding = of_g});
    EXPECT_EQ(At(second).data, weight.data);
    EXPECT_EQ(ValuesOf(first), Constant(11));
    ASSERT_OK(device_.Write(weight.data, Constant(20)));
    EXPECT_EQ(ValuesOf(second), Constant(20));
    ASSERT_OK(device_.Write(weight.data, Constant(10)));
  }
}

TEST_F(TorchAliasTest, ViewOfAStaticInputNeverCountsAsPoolMemory) {
  ProgramSpec spec = WeightedSpec("f");
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(kCount / 2)}}};
  const Program* f = Add(spec, [](CallContext& context) {
    return context.AliasOutput(0, context.input(1).data + sizeof(float) * kCount / 2);
  });
  const Binding* binding = Bind(f, {Upload(Ramp(kCount))});
  const Program* probe = AddScale("probe", 1);
  const Tensor x = Upload(1);
  const Floats ramp = Ramp(kCount);
  const ChainScope chain = *session_->Chain();
  std::vector<Lease> held;
  for (int call = 0; call < 3; ++call) {
    held.push_back(Run(f, {x}, {.binding = binding}));
    EXPECT_EQ(LiveEager(), 0);
    EXPECT_EQ(ValuesOf(held.back()), Floats(ramp.begin() + kCount / 2, ramp.end()));
  }
  EXPECT_EQ(Recorded()[0].plan_height, 0);
  Paths(2, probe, {x});
  EXPECT_THAT(AroundOf("probe"), ElementsAre(0));
}

TEST_F(TorchAliasTest, OfOutputsOnlyThoseThatAliasNoStaticInputAreLive) {
  const Program* f = Add(SpecWithOutputs("f", 3), [this](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(context.AliasOutput(0, context.input(1).data));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(1));
    COPPICE_RETURN_IF_ERROR(context.AliasOutput(2, context.input(1).data));
    return Scale(context, context.input(0).data, y.data, 2);
  });
  const Binding* binding = Bind(f, {Upload(10)});
  const Program* probe = AddScale("probe", 1);
  const Tensor x = Upload(1);
  const Lease warm = Run(f, {x}, {.binding = binding});
  EXPECT_EQ(LiveEager(), 1);
  Run(probe, {x}).Release();
  const ChainScope chain = *session_->Chain();
  const Lease lease = Run(f, {x}, {.binding = binding});
  Run(probe, {x}).Release();
  EXPECT_THAT(AroundOf("probe"), ElementsAre(1));
  EXPECT_EQ(ValuesOf(lease, 0), Constant(10));
  EXPECT_EQ(ValuesOf(lease, 1), Constant(2));
  EXPECT_EQ(ValuesOf(lease, 2), Constant(10));
}

TEST_F(TorchAliasTest, StagedInputAndItsViewReturnedAreOneRegion) {
  ProgramSpec spec = SpecWithOutputs("f", 2);
  spec.outputs[1].dims = {Dim::Fixed(kCount / 2)};
  const Program* f = Add(spec, [](CallContext& context) -> absl::Status {
    const DeviceAddress x = context.input(0).data;
    COPPICE_RETURN_IF_ERROR(context.AliasOutput(0, x));
    return context.AliasOutput(1, x + sizeof(float) * kCount / 2);
  });
  const Binding* binding = Bind(f, {Upload(0)});
  const auto expect = [&](const Lease& lease, float value) {
    EXPECT_EQ(At(lease, 1).data, At(lease, 0).data + sizeof(float) * kCount / 2);
    EXPECT_EQ(ValuesOf(lease, 0), Constant(value));
    EXPECT_EQ(ValuesOf(lease, 1), Constant(value, kCount / 2));
  };
  {
    const Lease warm = Run(f, {Upload(3)}, {.binding = binding});
    EXPECT_EQ(LiveEager(), 1);
    for (const RunKind path : {RunKind::kRecord, RunKind::kReplay}) {
      const Lease lease = Run(f, {Upload(4)}, {.binding = binding});
      EXPECT_EQ(lease.kind(), path);
      expect(lease, 4);
    }
    expect(warm, 3);
  }
  EXPECT_EQ(Recorded()[0].plan_height, kBufferAlignment);
  EXPECT_EQ(LiveEager(), 0);
  const Program* probe = AddScale("probe", 1);
  Run(probe, {Upload(Constant(1, kCount / 2))}).Release();
  const ChainScope chain = *session_->Chain();
  const Lease lease = Run(f, {Upload(5)}, {.binding = binding});
  const Lease probed = Run(probe, {At(lease, 1)});
  EXPECT_EQ(Recorded().back().around_bytes, kBufferAlignment);
  EXPECT_EQ(ValuesOf(probed), Constant(5, kCount / 2));
  expect(lease, 5);
}

TEST_F(TorchAliasTest, AliasingOutputsAreGivenBackOnceWhenTheyAreReleased) {
  const Program* f = Add(SpecWithOutputs("f", 2), [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(context.AliasOutput(1, y.data));
    return Scale(context, context.input(0).data, y.data, 2);
  });
  const Binding* binding = Bind(f, {Upload(0)});
  const Tensor x = Upload(1);
  // Eager runs beside each other: a region given back twice would be two runs' at once.
  session_->SetStance(Stance::kEager);
  for (int round = 0; round < 3; ++round) {
    Lease gone = Run(f, {x}, {.binding = binding});
    gone.Release();
    const Lease one = Run(f, {x}, {.binding = binding});
    const Lease two = Run(f, {x}, {.binding = binding});
    EXPECT_EQ(LiveEager(), 2);
    EXPECT_NE(At(one).data, At(two).data);
  }
  EXPECT_EQ(LiveEager(), 0);
}

TEST_F(TorchAliasTest, EmptyOutputDoesNotKeepAProgramFromItsGraph) {
  ProgramSpec spec = SpecWithOutputs("f", 2);
  spec.outputs[1].dims = {Dim::Fixed(0)};
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(context.AliasOutput(1, 0));
    return Scale(context, context.input(0).data, y.data, 2);
  });
  const Binding* binding = Bind(f, {Upload(0)});
  const Tensor x = Upload(1);
  EXPECT_THAT(Paths(3, f, {x}, {.binding = binding}),
              ElementsAre(RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay));
  const Lease lease = Run(f, {x}, {.binding = binding});
  EXPECT_EQ(ValuesOf(lease, 0), Constant(2));
  EXPECT_EQ(At(lease, 1).element_count(), 0);
}

TEST_F(TorchAliasTest, TensorsOfZeroBytesAreNeverLive) {
  ProgramSpec spec = SpecOf("f");
  spec.inputs.push_back({.name = "nothing", .dims = {Dim::Symbol(0), Dim::Fixed(0)}});
  spec.outputs = {{.name = "y", .dims = {Dim::Symbol(0), Dim::Fixed(0)}}};
  const Program* f =
      Add(spec, [](CallContext& context) { return context.AllocateOutput(0).status(); });
  const Program* probe = AddScale("probe", 1);
  const Tensor x = Upload(1);
  const int64_t dims[] = {kCount, 0};
  const Tensor nothing = Tensor::Dense(0, DType::kFloat32, dims);
  Run(probe, {x}).Release();
  for (int round = 0; round < 3; ++round) {
    const ChainScope chain = *session_->Chain();
    const Lease lease = Run(f, {x, nothing});
    EXPECT_EQ(At(lease).element_count(), 0);
    Run(probe, {x}).Release();
    const Lease again = Run(f, {x, At(lease)});
    EXPECT_EQ(At(again).element_count(), 0);
    EXPECT_TRUE(Readable(lease)) << "there is nothing to write over";
  }
  EXPECT_THAT(AroundOf("f"), ElementsAre(0));
  EXPECT_THAT(AroundOf("probe"), ElementsAre(0));
}

TEST_F(TorchAliasTest, InputsWithStrideZeroAreRecordedAndReplayed) {
  const Program* f = AddScale("f", 2);
  for (int call = 0; call < 4; ++call) {
    Tensor x = Upload(Constant(static_cast<float>(call), 1));
    x.sizes[0] = kCount;
    x.strides[0] = 0;
    EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(2 * static_cast<float>(call)));
  }
  EXPECT_EQ(Count(RunKind::kReplay), 2);
}

TEST_F(TorchAliasTest, StridesAreNoPartOfTheKeyBecauseStagingReadsThem) {
  ProgramSpec spec{.name = "f"};
  spec.inputs = {{.name = "x", .dims = {Dim::Fixed(8), Dim::Fixed(8)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(8), Dim::Fixed(8)}}};
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return ScaleOn(context.stream(), context.input(0).data, y.data, 1);
  });
  Tensor x = Upload(Ramp(kCount));
  x.rank = 2;
  x.sizes = {8, 8};
  Floats transposed = Ramp(kCount);
  for (int i = 0; i < kCount; ++i)
    transposed[static_cast<size_t>(i)] = static_cast<float>((i % 8) * 8 + i / 8 + 1);
  for (int call = 0; call < 6; ++call) {
    const bool turned = call % 2 == 1;
    x.strides = turned ? std::array<int64_t, kRankMax>{1, 8} : std::array<int64_t, kRankMax>{8, 1};
    EXPECT_EQ(ValuesOf(Run(f, {x})), turned ? transposed : Ramp(kCount));
  }
  EXPECT_EQ(Recorded().size(), 1U);
  EXPECT_EQ(Count(RunKind::kReplay), 4);
}

TEST_F(TorchAliasTest, InputOfWhichOnlyTheShapeIsReadNeedsNoBytesAndGetsItsGraph) {
  ProgramSpec spec{.name = "f"};
  const int n = spec.AddSymbol("n", *PaddingPolicy::Exact(kCount));
  spec.inputs = {{.name = "shape", .dims = {Dim::Symbol(n), Dim::Fixed(0)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Symbol(n)}}};
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Launch(context.driver(), kernels_.fill, context.stream(),
                  FillParams{.target = PointerAt<float>(y.data),
                             .count = context.extent(0),
                             .value = static_cast<float>(context.extent(0))},
                  GridFor(context.extent(0)));
  });
  for (const int64_t count : {8, 16}) {
    const int64_t dims[] = {count, 0};
    const Tensor shape = Tensor::Dense(0, DType::kFloat32, dims);
    EXPECT_THAT(Paths(3, f, {shape}),
                ElementsAre(RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay));
    EXPECT_EQ(ValuesOf(Run(f, {shape})), Constant(static_cast<float>(count), count));
  }
}

TEST_F(TorchAliasTest, OutputWrittenIntoAnInputIsGraphedAndReachesTheCaller) {
  ProgramSpec spec = SpecOf("f");
  spec.inputs[0].mutated = true;
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    const DeviceAddress x = context.input(0).data;
    COPPICE_RETURN_IF_ERROR(Scale(context, x, x, 2));
    return context.AliasOutput(0, x);
  });
  const Tensor x = Upload(1);
  float expected = 1;
  for (const RunKind path :
       {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
    const Lease lease = Run(f, {x});
    expected *= 2;
    EXPECT_EQ(lease.kind(), path);
    EXPECT_EQ(ValuesOf(lease), Constant(expected));
    EXPECT_EQ(ValuesAt(x), Constant(expected));
  }
  Tensor repeated = x;
  repeated.strides[0] = 0;
  const absl::Status refused = TryRun(f, {repeated}).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(MessageOf(refused), HasSubstr("input 'x' of program 'f'"));
}

TEST_F(TorchAliasTest, MutatedInputsBothStagedAndStaticAreRightInEachOfThreeCalls) {
  const Tensor weight = Upload(10);
  const Program* staged = AddAccumulate("staged", InputRole::kCopy);
  const Program* bound = AddAccumulate("bound", InputRole::kStatic);
  const Tensor own = Upload(1);
  const Tensor state = Upload(1);
  const Binding* of_staged = Bind(staged, {weight});
  const Binding* of_bound = Bind(bound, {state, weight});
  float expected = 1;
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
    expected += 10;
    const Lease first = Run(staged, {own}, {.binding = of_staged});
    EXPECT_EQ(first.kind(), path);
    EXPECT_EQ(ValuesOf(first), Constant(expected));
    EXPECT_EQ(ValuesAt(own), Constant(expected));
    const Lease second = Run(bound, {}, {.binding = of_bound});
    EXPECT_EQ(second.kind(), path);
    EXPECT_EQ(ValuesOf(second), Constant(expected));
    EXPECT_EQ(ValuesAt(state), Constant(expected));
  }
}

TEST_F(TorchAliasTest, MutatingProgramThatIsFlaggedOffIsCountedOnceAsNotGraphed) {
  ProgramSpec spec = SpecOf("f");
  spec.inputs[0].mutated = true;
  spec.gate = GateMode::kAlwaysEager;
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, context.input(0).data, 2));
    return context.AliasOutput(0, context.input(0).data);
  });
  const Tensor x = Upload(1);
  EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(2));
  EXPECT_EQ(ValuesAt(x), Constant(2));
  EXPECT_EQ(Count(Reason::kUserDisabled), 1);
}

TEST_F(TorchAliasTest, EarlierOutputIsMutatedWhereItLiesAndACopyMadeOutsideIsWrittenBack) {
  const Program* f = AddScale("f", 2);
  const Program* accumulate = AddAccumulate("accumulate", InputRole::kCopy);
  const Binding* binding = Bind(accumulate, {Upload(10)});
  const Tensor x = Upload(1);
  for (int round = 0; round < 4; ++round) {
    const ChainScope chain = *session_->Chain();
    const Lease first = Run(f, {x});
    const Lease second = Run(accumulate, {At(first)}, {.binding = binding});
    EXPECT_EQ(ValuesOf(second), Constant(12));
    EXPECT_EQ(ValuesOf(first), Constant(12)) << "round " << round;
  }
  EXPECT_EQ(session_->stats().inputs_in_place, 3);
  for (int round = 0; round < 3; ++round) {
    const Lease first = Run(f, {x});
    const Tensor copy = Upload(ValuesOf(first));
    const Lease second = Run(accumulate, {copy}, {.binding = binding});
    EXPECT_EQ(ValuesOf(second), Constant(12));
    EXPECT_EQ(ValuesAt(copy), Constant(12));
  }
  EXPECT_EQ(session_->stats().inputs_in_place, 3);
}

TEST_F(TorchAliasTest, MutationThatKeepsAMovedInputFromItsGraphIsReportedOnce) {
  Open({.limits = {.rerecords_per_bucket_max = 1}});
  const Program* bound = AddAccumulate("bound", InputRole::kStatic);
  const Tensor weight = Upload(10);
  for (int move = 0; move < 6; ++move) {
    const Tensor state = Upload(1);
    const Binding* binding = Bind(bound, {state, weight});
    for (int call = 1; call <= 3; ++call) {
      const Lease lease = Run(bound, {}, {.binding = binding});
      EXPECT_EQ(ValuesOf(lease), Constant(1 + 10 * static_cast<float>(call)));
      EXPECT_EQ(lease.reason() == Reason::kGraphLimit, move > 1);
    }
  }
  EXPECT_EQ(Count(Reason::kGraphLimit), 12);
  EXPECT_EQ(Lines({"'bound'", "graph_limit"}), 1);
  EXPECT_EQ(session_->stats().inputs_demoted, 0) << "what is mutated cannot be copied";
}

TEST_F(TorchAliasTest, TensorOfTheHostIsRefusedByNameWhereAddressesAreChecked) {
  Open({.checks = {.addresses = true}});
  const Program* f = AddWeighted("f");
  const Binding* binding = Bind(f, {Upload(10)});
  const Tensor x = Upload(1);
  Floats host = Constant(1);
  const Tensor on_host = FloatsAt(reinterpret_cast<DeviceAddress>(host.data()));
  EXPECT_FALSE(session_->Bind(*f, {{on_host}}).ok());
  Paths(3, f, {x}, {.binding = binding});
  const absl::Status refused =
      TryRun(f, {x},
             {.binding = binding, .output_mode = OutputMode::kWriteInto, .targets = {on_host}})
          .status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(MessageOf(refused), AllOf(HasSubstr("output 'y'"), HasSubstr("program 'f'")));
  EXPECT_THAT(host, Each(1.0F));
}

}  // namespace
}  // namespace coppice
