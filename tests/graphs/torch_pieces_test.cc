// Goal: what PyTorch tests of programs with stretches that cannot be captured - what crosses the
// edges, what the plan reuses, what is held - holds here too; PEERS.md says which test answers
// which. Method: programs with breaks whose host code computes on the device.

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

class TorchPiecesTest : public TorchFixture {
 protected:
  int64_t GraphCount() const {
    int64_t graphs = 0;
    for (const NodeInfo& node : Recorded())
      graphs += node.graphs;
    return graphs;
  }
};

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
