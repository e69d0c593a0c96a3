// Goal: what PyTorch tests of programs with stretches that cannot be captured - how many graphs
// there are, what crosses the edges, what is in the key - holds here too; PEERS.md says
// which test answers which. Method: programs with breaks whose host code computes on the device.

#include <memory>
#include <utility>
#include <vector>

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

using testing::ElementsAre;

class TorchPiecesTest : public TorchFixture {
 protected:
  // y = factor^(breaks + 1) * x, with a break between each two steps; every buffer between them is
  // freed as soon as it was read, beyond the break that it crosses.
  const Program* AddBroken(const std::string& name, int breaks, float factor) {
    return Add(SpecOf(name), [this, name, breaks, factor](CallContext& context) -> absl::Status {
      ++runs_[name];
      const int64_t bytes = context.extent(0) * static_cast<int64_t>(sizeof(float));
      DeviceAddress last = context.input(0).data;
      for (int i = 0; i < breaks; ++i) {
        COPPICE_ASSIGN_OR_RETURN(const DeviceAddress next, context.Allocate(bytes));
        COPPICE_RETURN_IF_ERROR(Scale(context, last, next, factor));
        COPPICE_RETURN_IF_ERROR(context.Break([this](CuStream) {
          ++steps_;
          return absl::OkStatus();
        }));
        if (i > 0) COPPICE_RETURN_IF_ERROR(context.Free(last));
        last = next;
      }
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return Scale(context, last, y.data, factor);
    });
  }

  int64_t GraphCount() const {
    int64_t graphs = 0;
    for (const NodeInfo& node : Recorded())
      graphs += node.graphs;
    return graphs;
  }

  // The calls of a program that scales by `factor`, three per extent.
  void CallOnEach(const Program* program, const std::vector<int64_t>& extents, float factor) {
    for (const int64_t count : extents) {
      const Tensor x = Upload(Constant(1, count));
      for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
        const Lease lease = Run(program, {x});
        EXPECT_EQ(lease.kind(), path);
        EXPECT_EQ(ValuesOf(lease), Constant(factor, count));
      }
    }
  }

  int steps_ = 0;  // Stretches between graphs that ran.
};

TEST_F(TorchPiecesTest, ThreeExtentsMakeThreeGraphs) {
  CallOnEach(AddScale("f", 2), {8, 16, 32}, 2);
  EXPECT_EQ(GraphCount(), 3);
}

TEST_F(TorchPiecesTest, TwoExtentsOfAProgramWithHostCodeInItsMiddleMakeFourGraphs) {
  CallOnEach(AddBroken("f", 1, 2), {8, 16}, 4);
  EXPECT_EQ(GraphCount(), 4);
  EXPECT_EQ(steps_, 6) << "once in every call, and not while recording";
}

TEST_F(TorchPiecesTest, TwoUncapturableStretchesMakeThreeGraphs) {
  CallOnEach(AddBroken("f", 2, 2), {kCount}, 8);
  EXPECT_EQ(GraphCount(), 3);
  EXPECT_EQ(steps_, 6);
  EXPECT_EQ(runs_["f"], 2);
}

TEST_F(TorchPiecesTest, TwoUncapturableStretchesAtTwoExtentsMakeSixGraphs) {
  CallOnEach(AddBroken("f", 2, 2), {8, 16}, 8);
  EXPECT_EQ(GraphCount(), 6);
}

TEST_F(TorchPiecesTest, StaticInputThatOneGraphWritesIsSeenByTheNextAcrossEagerCode) {
  ProgramSpec spec = WeightedSpec("f");
  spec.inputs[1].mutated = true;
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    const DeviceAddress x = context.input(0).data;
    const DeviceAddress state = context.input(1).data;
    COPPICE_RETURN_IF_ERROR(AddOnto(context, x, state, state, kCount));
    COPPICE_RETURN_IF_ERROR(
        context.Break([this, state](CuStream stream) { return ScaleOn(stream, state, state, 2); }));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return AddOnto(context, x, state, y.data, kCount);
  });
  const Binding* binding = Bind(f, {Upload(0)});
  const Tensor x = Upload(1);
  float state = 0;
  for (int call = 0; call < 5; ++call) {
    state = 2 * (state + 1);
    EXPECT_EQ(ValuesOf(Run(f, {x}, {.binding = binding})), Constant(state + 1)) << "call " << call;
  }
  EXPECT_EQ(GraphCount(), 2);
}

TEST_F(TorchPiecesTest, InputsMutatedInAnUncapturableStretchCarryTheirValuesOverItsEdges) {
  ProgramSpec spec = SpecOf("f", 2);
  spec.inputs[0].mutated = true;
  spec.inputs[1].mutated = true;
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    const DeviceAddress a = context.input(0).data;
    const DeviceAddress b = context.input(1).data;
    COPPICE_RETURN_IF_ERROR(Scale(context, a, a, 2));
    EagerStep step = [this, a, b](CuStream stream) -> absl::Status {
      COPPICE_RETURN_IF_ERROR(ScaleOn(stream, a, b, 3));
      return ScaleOn(stream, b, a, 5);
    };
    COPPICE_RETURN_IF_ERROR(context.Break(std::move(step)));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return AddOnto(context, a, b, y.data, kCount);
  });
  const Tensor a = Upload(1);
  const Tensor b = Upload(0);
  for (int call = 0; call < 7; ++call) {
    ASSERT_OK(device_.Write(a.data, Constant(static_cast<float>(call))));
    const Lease lease = Run(f, {a, b});
    const auto value = static_cast<float>(call);
    EXPECT_EQ(ValuesOf(lease), Constant(36 * value));
    EXPECT_EQ(device_.Download<float>(a.data, kCount), Constant(30 * value));
    EXPECT_EQ(device_.Download<float>(b.data, kCount), Constant(6 * value));
  }
  EXPECT_EQ(Count(RunKind::kReplay), 5);
}

TEST_F(TorchPiecesTest, PlanReusesBytesFromOneStretchToTheNextAlsoUnderTheHeadOfAStaticInput) {
  constexpr int kBreaks = 4;
  ProgramSpec spec = SpecOf("f");
  spec.inputs.push_back(
      {.name = "head", .dims = {Dim::Fixed(kCount / 2)}, .role = InputRole::kStatic});
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 1));
    const DeviceAddress head = context.input(1).data;
    for (int i = 0; i < kBreaks; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress part, context.Allocate(kBufferAlignment));
      COPPICE_RETURN_IF_ERROR(ScaleOn(context.stream(), head, part, 2, kCount / 2));
      COPPICE_RETURN_IF_ERROR(context.Break([](CuStream) { return absl::OkStatus(); }));
      COPPICE_RETURN_IF_ERROR(AddOnto(context, part, y.data, y.data, kCount / 2));
      COPPICE_RETURN_IF_ERROR(context.Free(part));
    }
    return absl::OkStatus();
  });
  // The input is the head of a longer tensor whose tail stays as it is.
  const Tensor whole = Upload(10);
  const Binding* binding = Bind(f, {FloatsAt(whole.data, kCount / 2)});
  const Tensor x = Upload(1);
  Floats expected = Constant(1);
  std::fill_n(expected.begin(), kCount / 2, 1.0F + kBreaks * 20);
  for (int call = 0; call < 4; ++call)
    EXPECT_EQ(ValuesOf(Run(f, {x}, {.binding = binding})), expected);
  EXPECT_EQ(Recorded()[0].plan_height, 2 * kBufferAlignment) << "the output and one part";
  EXPECT_EQ(device_.Download<float>(whole.data, kCount), Constant(10));
}

TEST_F(TorchPiecesTest, BufferThatALaterStretchFreesStaysRightUntilThen) {
  const Program* f = Add(SpecOf("f"), [this](CallContext& context) -> absl::Status {
    const DeviceAddress x = context.input(0).data;
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress early, context.Allocate(kBufferAlignment));
    COPPICE_RETURN_IF_ERROR(Scale(context, x, early, 2));
    COPPICE_RETURN_IF_ERROR(context.Break([](CuStream) { return absl::OkStatus(); }));
    // Fills whatever the plan takes for free here.
    for (int i = 0; i < 3; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress noise, context.Allocate(kBufferAlignment));
      COPPICE_RETURN_IF_ERROR(Scale(context, x, noise, 1000));
      COPPICE_RETURN_IF_ERROR(context.Free(noise));
    }
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress late, context.Allocate(kBufferAlignment));
    COPPICE_RETURN_IF_ERROR(context.Break(
        [this, early, late](CuStream stream) { return ScaleOn(stream, early, late, 3); }));
    COPPICE_RETURN_IF_ERROR(context.Free(early));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Scale(context, late, y.data, 1);
  });
  for (int call = 0; call < 5; ++call) {
    const auto value = static_cast<float>(call);
    EXPECT_EQ(ValuesOf(Run(f, {Upload(value)})), Constant(6 * value));
  }
  EXPECT_EQ(Recorded()[0].plan_height, 2 * kBufferAlignment) << "the early one and another";
}

TEST_F(TorchPiecesTest, ExtentThatOnlyHostCodeReadsIsNoPartOfTheKey) {
  int64_t rows_of_the_host = 0;
  std::vector<int64_t> seen;
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(context.Break([&](CuStream) {
      seen.push_back(rows_of_the_host);
      return absl::OkStatus();
    }));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Scale(context, context.input(0).data, y.data, 2);
  });
  const Tensor x = Upload(1);
  for (rows_of_the_host = 5; rows_of_the_host < 10; ++rows_of_the_host)
    EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(2));
  EXPECT_THAT(seen, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_EQ(session_->stats().recordings, 1);
  EXPECT_EQ(Count(RunKind::kReplay), 3);
}

TEST_F(TorchPiecesTest, HostCodeBetweenTwoGraphsDecidesByWhatTheFirstMadeInThisCall) {
  std::vector<float> read;
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress first, context.Allocate(kBufferAlignment));
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress second, context.Allocate(kBufferAlignment));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, first, 2));
    COPPICE_RETURN_IF_ERROR(context.Break([this, &read, first, second](CuStream stream) {
      read.push_back(device_.Download<float>(first, 1)[0]);
      return ScaleOn(stream, first, second, read.back() > 10 ? -1.0F : 1.0F);
    }));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Scale(context, second, y.data, 3);
  });
  for (const float value : {1.0F, 6.0F, 7.0F, 2.0F, 8.0F, 3.0F}) {
    const float sign = value > 5 ? -1 : 1;
    EXPECT_EQ(ValuesOf(Run(f, {Upload(value)})), Constant(sign * 6 * value));
  }
  EXPECT_THAT(read, ElementsAre(2, 12, 14, 4, 16, 6));
  EXPECT_EQ(GraphCount(), 2);
  EXPECT_EQ(Count(RunKind::kReplay), 4);
}

// The host code of f makes what g reads where it lies.
TEST_F(TorchPiecesTest, ChainOfAProgramInTwoPiecesAndAnotherMakesThreeGraphs) {
  ProgramSpec spec = SpecOf("f");
  spec.outputs.push_back({.name = "saved", .dims = {Dim::Symbol(0)}});
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_ASSIGN_OR_RETURN(const Tensor saved, context.AllocateOutput(1));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 2));
    EagerStep step = [this, from = y.data, to = saved.data](CuStream stream) {
      return ScaleOn(stream, from, to, 3);
    };
    COPPICE_RETURN_IF_ERROR(context.Break(std::move(step)));
    return Scale(context, saved.data, y.data, 5);
  });
  const Program* g = AddScale("g", 7);
  for (int round = 0; round < 5; ++round) {
    const auto value = static_cast<float>(round);
    const ChainScope chain = *session_->Chain();
    const Lease first = Run(f, {Upload(value)});
    const Lease second = Run(g, {At(first, 1)});
    EXPECT_EQ(ValuesOf(first), Constant(30 * value));
    EXPECT_EQ(ValuesOf(second), Constant(42 * value));
  }
  EXPECT_EQ(GraphCount(), 3);
  EXPECT_EQ(session_->stats().recordings, 2);
  EXPECT_EQ(session_->stats().inputs_in_place, 4) << "in all but the warm-up";
}

TEST_F(TorchPiecesTest, BytesOfOneDtypeAreThoseOfAnotherAcrossABreak) {
  ProgramSpec spec = SpecOf("f");
  spec.outputs.push_back(
      {.name = "view", .dtype = DType::kFloat8E4M3, .dims = {Dim::Fixed(4 * kCount)}});
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(context.AliasOutput(1, y.data));
    EagerStep step = [this, from = context.input(0).data, to = y.data](CuStream stream) {
      return ScaleOn(stream, from, to, 2);
    };
    COPPICE_RETURN_IF_ERROR(context.Break(std::move(step)));
    return Scale(context, y.data, y.data, 3);
  });
  for (int call = 0; call < 4; ++call) {
    const auto value = static_cast<float>(call);
    const Lease lease = Run(f, {Upload(value)});
    const Tensor view = At(lease, 1);
    EXPECT_EQ(view.dtype, DType::kFloat8E4M3);
    EXPECT_EQ(view.element_count(), 4 * kCount);
    EXPECT_EQ(device_.Download<float>(view.data, kCount), Constant(6 * value));
  }
  EXPECT_EQ(Count(RunKind::kReplay), 2);
}

TEST_F(TorchPiecesTest, EventsThatBreaksRecordTimeTheGraphBetweenThem) {
  const Event start = *Event::Create(device_.driver(), Event::Timing::kOn);
  const Event end = *Event::Create(device_.driver(), Event::Timing::kOn);
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 1));
    COPPICE_RETURN_IF_ERROR(
        context.Break([&start](CuStream stream) { return start.Record(stream); }));
    for (int i = 0; i < 5; ++i)
      COPPICE_RETURN_IF_ERROR(Scale(context, y.data, y.data, 2));
    return context.Break([&end](CuStream stream) { return end.Record(stream); });
  });
  const Tensor x = Upload(1);
  for (int call = 0; call < 5; ++call) {
    EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(32));
    ASSERT_OK(device_.Synchronize());
    EXPECT_GT(*end.ElapsedUs(start), 0) << "call " << call;
  }
  EXPECT_EQ(Count(RunKind::kReplay), 3);
}

// Each writes what the other reads, on lanes and streams of their own: the emulator reports what
// the events do not order.
TEST_F(TorchPiecesTest, GraphsOfTwoLanesWaitForEventsThatBreaksRecord) {
  Open({.lanes = 2});
  const Event written = *Event::Create(device_.driver());
  const Event read = *Event::Create(device_.driver());
  const Tensor board = Upload(0);
  const Program* writer = Add(SpecOf("writer"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 2));
    COPPICE_RETURN_IF_ERROR(context.Break([&](CuStream stream) { return read.MakeWait(stream); }));
    COPPICE_RETURN_IF_ERROR(Scale(context, y.data, board.data, 1));
    return context.Break([&](CuStream stream) { return written.Record(stream); });
  });
  const Program* reader = Add(SpecOf("reader"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 1));
    COPPICE_RETURN_IF_ERROR(
        context.Break([&](CuStream stream) { return written.MakeWait(stream); }));
    COPPICE_RETURN_IF_ERROR(Scale(context, board.data, y.data, 3));
    return context.Break([&](CuStream stream) { return read.Record(stream); });
  });
  const std::vector<Tensor> nothing = {Upload(0)};
  for (int round = 0; round < 5; ++round) {
    const auto value = static_cast<float>(round);
    Run(writer, {Upload(value)}).Release();
    coppice::Call call = CallOf(reader, nothing, {.stream = side_.handle()});
    call.lane = 1;
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(call));
    EXPECT_EQ(ValuesOf(lease), Constant(6 * value));
  }
  EXPECT_EQ(Count(RunKind::kReplay), 6);
}

// What the host code of a break captures, counted while it lives.
class Counted {
 public:
  explicit Counted(int* count) : count_(count) { ++*count_; }
  Counted(Counted&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (count_ != nullptr) --*count_;
  }

 private:
  int* count_;
};

TEST_F(TorchPiecesTest, NothingIsHeldAfterAPiecewiseProgramGoes) {
  int kept = 0;
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(
        context.Break([counted = Counted(&kept)](CuStream) { return absl::OkStatus(); }));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Scale(context, context.input(0).data, y.data, 2);
  });
  for (const int64_t count : {8, 16})
    Paths(3, f, {Upload(Constant(1, count))});
  EXPECT_EQ(kept, 2) << "one for each graph that has a break";
  EXPECT_EQ(*session_->Evict(f), 2);
  EXPECT_EQ(kept, 0);
  Paths(3, f, {Upload(Constant(1, 8))});
  EXPECT_EQ(kept, 1);
  Close();
  EXPECT_EQ(kept, 0);
}

}  // namespace
}  // namespace coppice
