// Goal: what PyTorch tests of whose bytes a tensor is - aliases, strides, inputs that are written
// to - holds here too; PEERS.md says which test answers which. Method: programs that return what
// they were given, or write into it; addresses, values and what is live.

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

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
  const Program* AddAccumulate(const std::string& name) {
    ProgramSpec spec{.name = name};
    spec.inputs = {
        {.name = "x", .dims = {Dim::Fixed(kCount)}, .role = InputRole::kStatic, .mutated = true},
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
  EXPECT_THAT(TryRun(f, {repeated}),
              StatusIs(kWrongArgument, HasSubstr("input 'x' of program 'f'")));
}

TEST_F(TorchAliasTest, MutationThatKeepsAMovedInputFromItsGraphIsReportedOnce) {
  Open({.limits = {.rerecords_per_bucket_max = 1}});
  const Program* bound = AddAccumulate("bound");
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
  EXPECT_THAT(
      TryRun(f, {x},
             {.binding = binding, .output_mode = OutputMode::kWriteInto, .targets = {on_host}}),
      StatusIs(kRefused, AllOf(HasSubstr("output 'y'"), HasSubstr("program 'f'"))));
  EXPECT_THAT(host, Each(1.0F));
}

}  // namespace
}  // namespace coppice
