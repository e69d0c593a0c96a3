// Goal: every sentence of detached_outputs.h and of Lease::Detach. Method: affine on the emulator,
// in every way that a call can leave its outputs; sessions, streams and leases that go first.

#include "coppice/graphs/detached_outputs.h"

#include "coppice/allocator/pool.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

using Way = DetachedOutputs::Way;

class DetachTest : public SessionFixture {
 protected:
  // The first output, read on the device's stream.
  std::vector<float> ValuesOf(const DetachedOutputs& outputs) const {
    const Tensor& y = outputs.output(0);
    return device_.Download<float>(y.data, y.element_count());
  }
  // Affine with the bucket of 4 recorded.
  Affine Recorded(const SessionOptions& options = {}) {
    Affine affine = MakeAffine(options);
    CallTimes(2, affine, 4);
    return affine;
  }
};

TEST_F(DetachTest, BorrowedAndEagerOutputsAreCopiedAndOutliveTheirSession) {
  Affine affine = Recorded({.memory = {.copy_out_bytes = 4096}});
  std::vector<DetachedOutputs> detached;
  const std::vector<int64_t> sizes = {4, 70, 4};
  for (size_t i = 0; i < sizes.size(); ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, sizes[i], 2, [i](coppice::Call& call) {
                                   if (i == 2) call.output_mode = OutputMode::kCopyOut;
                                 }));
    COPPICE_ASSERT_OK_AND_ASSIGN(DetachedOutputs outputs, lease.Detach(device_.stream()));
    EXPECT_EQ(lease.output_count(), 0) << "the lease is empty";
    detached.push_back(std::move(outputs));
  }
  const WindowInfo plan = affine.session->memory().window(0, MemoryKind::kPlan);
  const AddressSpan windows{.start = plan.base,
                            .size = static_cast<DeviceAddress>(5 * plan.window_bytes)};
  affine.session.reset();
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(detached[i].output_count(), 1);
    EXPECT_EQ(detached[i].way(0), Way::kCopied);
    EXPECT_FALSE(windows.Meets(detached[i].output(0).data, 1));
    EXPECT_EQ(ValuesOf(detached[i]), Expected(sizes[i]));
  }
}

TEST_F(DetachTest, LaterCallsDoNotChangeIt) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, lease.Detach(device_.stream()));
  ASSERT_OK(Call(affine, 4, 5));
  EXPECT_EQ(ValuesOf(outputs), Expected(4));
}

TEST_F(DetachTest, OutputsInTheCallersBufferHaveMovedAndAreNotCopied) {
  const Affine affine = Recorded();
  const DeviceMemory buffer = *device_.Upload(std::vector<float>(4));
  const Tensor target = FloatsAt(buffer.address(), 4);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4, 2, [&](coppice::Call& call) {
                                 call.output_mode = OutputMode::kWriteInto;
                                 call.targets = {&target, 1};
                               }));
  const int64_t before = device_.ledger().calls(&DriverTable::MemAlloc);
  COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, lease.Detach(device_.stream()));
  EXPECT_EQ(device_.ledger().calls(&DriverTable::MemAlloc), before);
  EXPECT_EQ(outputs.way(0), Way::kMoved);
  EXPECT_EQ(outputs.output(0), target);
  EXPECT_EQ(ValuesOf(outputs), Expected(4));
}

TEST_F(DetachTest, CopiesLieInTheCallersMemoryUntilTheyEnd) {
  const Affine affine = Recorded();
  const DeviceMemory buffer = *DeviceMemory::Create(device_.driver(), 1024);
  std::vector<int64_t> asked;
  std::vector<DeviceAddress> freed;
  const auto memory_at = [&](DeviceAddress address) {
    return DetachMemory{.allocate =
                            [&asked, address](int64_t bytes) {
                              asked.push_back(bytes);
                              return address;
                            },
                        .free = [&freed](DeviceAddress at, int64_t) { freed.push_back(at); }};
  };
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
  EXPECT_EQ(lease.Detach(device_.stream(), memory_at(buffer.address() + 128)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(freed, std::vector<DeviceAddress>{buffer.address() + 128});
  EXPECT_EQ(lease.output_count(), 1) << "the lease is as it was";
  const int64_t before = device_.ledger().calls(&DriverTable::MemAlloc);
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs,
                                 lease.Detach(device_.stream(), memory_at(buffer.address())));
    EXPECT_EQ(outputs.output(0).data, buffer.address());
    EXPECT_EQ(outputs.way(0), Way::kCopied);
    EXPECT_EQ(ValuesOf(outputs), Expected(4));
    EXPECT_EQ(freed.size(), 1U);
  }
  EXPECT_EQ(device_.ledger().calls(&DriverTable::MemAlloc), before);
  EXPECT_EQ(asked, (std::vector<int64_t>{256, 256}));
  EXPECT_EQ(freed.back(), buffer.address());
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease other, Call(affine, 4));
  const auto none = [](int64_t) -> absl::StatusOr<DeviceAddress> {
    return absl::ResourceExhaustedError("no room");
  };
  EXPECT_EQ(other.Detach(device_.stream(), {.allocate = none}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(DetachTest, StaticOutputsAreCopiedBecauseTheNextCallWritesThem) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "fixed"};
  spec.inputs = {{.name = "x", .dims = {Dim::Fixed(4)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(4)}, .role = OutputRole::kStatic}};
  const Program* program = *session->Register(spec, [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return AddOnto(context, context.input(0).data, context.input(0).data, y.data, 4);
  });
  const DeviceMemory bound = *device_.Upload(std::vector<float>(4));
  const DeviceMemory x = *device_.Upload(Ramp(4));
  const int64_t dims[] = {4};
  const Tensor y = Tensor::Dense(bound.address(), DType::kFloat32, dims);
  const Binding* binding = *session->Bind(*program, {&y, 1});
  const Tensor input = Tensor::Dense(x.address(), DType::kFloat32, dims);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run({.program = program,
                                                          .binding = binding,
                                                          .inputs = {&input, 1},
                                                          .stream = device_.stream()}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, lease.Detach(device_.stream()));
  EXPECT_EQ(outputs.way(0), Way::kCopied);
  EXPECT_NE(outputs.output(0).data, bound.address());
  EXPECT_EQ(ValuesOf(outputs), (std::vector<float>{2, 4, 6, 8}));
}

TEST_F(DetachTest, HasTheRealExtentsAndTheStridesOfAReader) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 3));
  Tensor shown;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    shown = scope.output(0);
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, lease.Detach(device_.stream()));
  const Tensor& y = outputs.output(0);
  EXPECT_EQ(y.sizes, shown.sizes);
  EXPECT_EQ(y.strides, shown.strides);
  EXPECT_EQ(y.made_by, 0U) << "no call's output any more";
  EXPECT_EQ(ValuesOf(outputs), Expected(3));
  EXPECT_DEATH((void)outputs.output(1), "no such output");
  EXPECT_DEATH((void)outputs.way(-1), "no such output");
}

TEST_F(DetachTest, CopiesAreBehindTheCallAndBeforeTheNextOnAnyStream) {
  const Affine affine = Recorded();
  const Stream reader = *Stream::Create(device_.driver());
  for (int round = 0; round < 20; ++round) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
    COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, lease.Detach(reader.handle()));
    ASSERT_OK(Call(affine, 4, 3));
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(ValuesOf(outputs), Expected(4)) << "round " << round;
  }
  EXPECT_THAT(device_.emulator().reports(), IsEmpty());
}

TEST_F(DetachTest, ItsMemoryIsItsOwnAndInNoBudget) {
  const Affine affine = Recorded();
  const int64_t allocations = device_.emulator().live().allocations;
  const int64_t events = device_.emulator().live().events;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
    const int64_t uploads = device_.emulator().live().allocations - allocations;
    const int64_t total = affine.session->memory().usage().total;
    COPPICE_ASSERT_OK_AND_ASSIGN(DetachedOutputs outputs, lease.Detach(device_.stream()));
    EXPECT_EQ(device_.emulator().live().allocations, allocations + uploads + 1);
    EXPECT_EQ(affine.session->memory().usage().total, total);
    // Dropped before the copy needs to have been made.
    DetachedOutputs moved = std::move(outputs);
    EXPECT_EQ(outputs.output_count(), 0);  // NOLINT(bugprone-use-after-move): it says so.
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease next, Call(affine, 4));
    COPPICE_ASSERT_OK_AND_ASSIGN(DetachedOutputs other, next.Detach(device_.stream()));
    moved = std::move(other);
    EXPECT_EQ(ValuesOf(moved), Expected(4));
  }
  EXPECT_EQ(device_.emulator().live().allocations, allocations + 2) << "the inputs of two calls";
  EXPECT_EQ(device_.emulator().live().events, events);
}

TEST_F(DetachTest, OutputWithoutElementsTakesNoMemory) {
  const Affine affine = MakeAffine();
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 0));
  const int64_t before = device_.ledger().calls(&DriverTable::MemAlloc);
  COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, lease.Detach(device_.stream()));
  EXPECT_EQ(device_.ledger().calls(&DriverTable::MemAlloc), before);
  EXPECT_EQ(outputs.output(0).element_count(), 0);
  EXPECT_EQ(outputs.way(0), Way::kCopied);
}

TEST_F(DetachTest, LeaseThatCannotBeReadCannotBeDetached) {
  const CuStream stream = device_.stream();
  Lease empty;
  EXPECT_THAT(empty.Detach(stream), StatusIs(kRefused));
  Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
  EXPECT_THAT(lease.Detach(nullptr), StatusIs(kWrongArgument));
  ASSERT_OK(affine.session->memory().Suspend({}));
  EXPECT_THAT(lease.Detach(stream), StatusIs(kRefused));
  ASSERT_OK(affine.session->memory().Resume());
  EXPECT_EQ(Read(lease), Expected(4)) << "after an error it is as it was";
  ASSERT_OK(Call(affine, 4));
  EXPECT_THAT(lease.Detach(stream), StatusIs(kRefused, HasSubstr("was overwritten by call")));
  affine.session.reset();
  EXPECT_THAT(lease.Detach(stream), StatusIs(kRefused));
}

TEST_F(DetachTest, StreamThatCapturesIsRefusedAlsoIfItIsTheLanesLast) {
  const Affine affine = Recorded();
  const Driver& driver = device_.driver();
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
  ASSERT_OK(
      driver.Call<&DriverTable::StreamBeginCapture>(device_.stream(), CuCaptureMode::kRelaxed));
  EXPECT_THAT(lease.Detach(device_.stream()), StatusIs(kRefused));
  CuGraph graph = nullptr;
  ASSERT_OK(driver.Call<&DriverTable::StreamEndCapture>(device_.stream(), &graph));
  ASSERT_OK(driver.Call<&DriverTable::GraphDestroy>(graph));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, lease.Detach(device_.stream()));
  EXPECT_EQ(ValuesOf(outputs), Expected(4));
}

TEST_F(DetachTest, NoRoomOnTheDeviceLeavesTheLeaseAsItWas) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 4));
  device_.ledger().Inject(
      {.entry = DriverLedger::IndexOf(&DriverTable::MemAlloc), .result = CuResult::kOutOfMemory});
  EXPECT_THAT(lease.Detach(device_.stream()), StatusIs(kExhausted));
  EXPECT_EQ(Read(lease), Expected(4));
}

TEST_F(DetachTest, ConstantsAreCopiedAsTheyGoWithTheSession) {
  std::unique_ptr<Session> session = MakeSession();
  const int64_t four[] = {4};
  const Tensor constant =
      *session->memory().AddConstant(DType::kFloat32, four, [](std::span<std::byte> bytes) {
        const std::vector<float> values = Ramp(4);
        std::ranges::copy(std::as_bytes(std::span(values)), bytes.begin());
        return absl::OkStatus();
      });
  ProgramSpec spec{.name = "alias"};
  spec.inputs = {{.name = "w", .dims = {Dim::Fixed(4)}, .role = InputRole::kStatic}};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(4)}}};
  const Program* program = *session->Register(
      spec, [](CallContext& context) { return context.AliasOutput(0, context.input(0).data); });
  const Binding* binding = *session->Bind(*program, {&constant, 1});
  COPPICE_ASSERT_OK_AND_ASSIGN(
      Lease lease,
      session->Run({.program = program, .binding = binding, .stream = device_.stream()}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, lease.Detach(device_.stream()));
  session.reset();
  EXPECT_EQ(outputs.way(0), Way::kCopied);
  EXPECT_EQ(ValuesOf(outputs), Ramp(4));
}

TEST_F(DetachTest, PartTakesItsOwnOutputAlone) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "two"};
  spec.inputs = {{.name = "x", .dims = {Dim::Fixed(4)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(4)}}, {.name = "z", .dims = {Dim::Fixed(4)}}};
  const Program* program = *session->Register(spec, [&](CallContext& context) -> absl::Status {
    const DeviceAddress x = context.input(0).data;
    for (int i = 0; i < 2; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
      COPPICE_RETURN_IF_ERROR(AddOnto(context, x, x, y.data, 4));
    }
    return absl::OkStatus();
  });
  const DeviceMemory x = *device_.Upload(Ramp(4));
  const Tensor input = FloatsAt(x.address(), 4);
  COPPICE_ASSERT_OK_AND_ASSIGN(
      Lease lease,
      session->Run({.program = program, .inputs = {&input, 1}, .stream = device_.stream()}));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  COPPICE_ASSERT_OK_AND_ASSIGN(const DetachedOutputs outputs, parts[1].Detach(device_.stream()));
  const Tensor& z = outputs.output(1);
  EXPECT_EQ(device_.Download<float>(z.data, 4), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(outputs.way(1), Way::kCopied);
  EXPECT_DEATH((void)outputs.output(0), "did not hold this output");
  EXPECT_OK(parts[0].Read(device_.stream())) << "the other part is as it was";
}

}  // namespace
}  // namespace coppice
