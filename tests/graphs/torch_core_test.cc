// Goal: what PyTorch tests of recordings, streams and forks, and torch.compile cannot be asked,
// holds here too; PEERS.md says which test answers which. Method: programs of one kernel, counted
// in nodes and values.

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

class TorchCoreTest : public TorchFixture {
 protected:
  static constexpr RunKind kWarm = RunKind::kWarmUp;
  static constexpr RunKind kRec = RunKind::kRecord;
  static constexpr RunKind kRep = RunKind::kReplay;
};

TEST_F(TorchCoreTest, EvictedProgramRecordsWhatItsCallableDoesByThen) {
  float factor = 2;
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Scale(context, context.input(0).data, y.data, factor);
  });
  const Tensor x = Upload(1);
  Paths(2, f, {x});
  factor = 5;
  EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(2)) << "the graph is the old one";
  EXPECT_EQ(*session_->Evict(f), 1);
  for (const RunKind path : {kRec, kRep, kRep}) {
    const Lease lease = Run(f, {x});
    EXPECT_EQ(lease.kind(), path);
    EXPECT_EQ(ValuesOf(lease), Constant(5));
  }
  EXPECT_EQ(Count(Reason::kEvicted), 1);
}

TEST_F(TorchCoreTest, CallerOnAStreamOfItsOwnGetsRightValuesFromTheFirstCallOn) {
  const Program* f = AddScale("f", 2);
  const Tensor x = Upload(1);
  for (int call = 0; call < 6; ++call) {
    ASSERT_OK(ScaleOn(side_.handle(), Upload(static_cast<float>(call)).data, x.data, 1));
    const Lease lease = Run(f, {x}, {.stream = side_.handle()});
    EXPECT_EQ(ValuesOf(lease), Constant(2 * static_cast<float>(call))) << "call " << call;
  }
}

TEST_F(TorchCoreTest, AllocationsOnAForkedStreamLieInThePlanAndThreeCallsMakeOneGraph) {
  const Event fork = *Event::Create(device_.driver());
  const Event join = *Event::Create(device_.driver());
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(fork.Record(context.stream()));
    COPPICE_RETURN_IF_ERROR(fork.MakeWait(side_.handle()));
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress aside, context.Allocate(kBufferAlignment));
    const DeviceAddress x = context.input(0).data;
    COPPICE_RETURN_IF_ERROR(Scale(context, x, aside, 2, side_.handle()));
    COPPICE_RETURN_IF_ERROR(Scale(context, x, y.data, 3));
    COPPICE_RETURN_IF_ERROR(join.Record(side_.handle()));
    COPPICE_RETURN_IF_ERROR(join.MakeWait(context.stream()));
    return AddOnto(context, aside, y.data, y.data, kCount);
  });
  const Tensor x = Upload(1);
  for (const RunKind path : {kWarm, kRec, kRep}) {
    const Lease lease = Run(f, {x});
    EXPECT_EQ(lease.kind(), path);
    EXPECT_EQ(ValuesOf(lease), Constant(5));
  }
  ASSERT_EQ(Recorded().size(), 1U);
  EXPECT_EQ(Recorded()[0].plan_height, 2 * kBufferAlignment) << "the output and what lies aside";
}

// `data` is read on forked streams when it is freed. What is asked for before the join lies
// elsewhere (the emulator reports the two accesses else), and what is asked for behind it there.
TEST_F(TorchCoreTest, BytesReadOnForkedStreamsAreReusedBehindTheirJoinAndNotBefore) {
  for (const size_t forks : {1, 3}) {
    Open();
    const Event fork = *Event::Create(device_.driver());
    std::vector<Stream> streams;
    std::vector<Event> joins;
    for (size_t i = 0; i < forks; ++i) {
      streams.push_back(*Stream::Create(device_.driver()));
      joins.push_back(*Event::Create(device_.driver()));
    }
    const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
      const DeviceAddress x = context.input(0).data;
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress data, context.Allocate(kBufferAlignment));
      COPPICE_RETURN_IF_ERROR(Scale(context, x, data, 2));
      COPPICE_RETURN_IF_ERROR(fork.Record(context.stream()));
      std::vector<DeviceAddress> copies;
      for (const Stream& stream : streams) {
        COPPICE_RETURN_IF_ERROR(fork.MakeWait(stream.handle()));
        COPPICE_ASSIGN_OR_RETURN(copies.emplace_back(), context.Allocate(kBufferAlignment));
        COPPICE_RETURN_IF_ERROR(Scale(context, data, copies.back(), 1, stream.handle()));
      }
      COPPICE_RETURN_IF_ERROR(context.Free(data));
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress before, context.Allocate(kBufferAlignment));
      COPPICE_RETURN_IF_ERROR(Scale(context, x, before, 10));
      for (size_t i = 0; i < forks; ++i) {
        COPPICE_RETURN_IF_ERROR(joins[i].Record(streams[i].handle()));
        COPPICE_RETURN_IF_ERROR(joins[i].MakeWait(context.stream()));
      }
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      COPPICE_RETURN_IF_ERROR(Scale(context, before, y.data, 1));
      for (const DeviceAddress copy : copies)
        COPPICE_RETURN_IF_ERROR(AddOnto(context, copy, y.data, y.data, kCount));
      return absl::OkStatus();
    });
    const Tensor x = Upload(1);
    for (const RunKind path : {kWarm, kRec, kRep, kRep}) {
      const Lease lease = Run(f, {x});
      EXPECT_EQ(lease.kind(), path);
      EXPECT_EQ(ValuesOf(lease), Constant(static_cast<float>(10 + 2 * forks)));
    }
    EXPECT_EQ(Recorded()[0].plan_height, static_cast<int64_t>(forks + 2) * kBufferAlignment)
        << "the copies, what was asked for before, and the data, whose bytes the output has";
    Close();
  }
}

TEST_F(TorchCoreTest, LibraryThatTriesKernelsDuringWarmUpLeavesTheRecordingAlone) {
  const Stream trial_stream = *Stream::Create(device_.driver());
  const DeviceMemory trial = *device_.Upload(Constant(0));
  float chosen = 0;
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    if (context.phase() == Phase::kWarmUp) {
      for (const float candidate : {5.0F, 3.0F, 2.0F}) {
        COPPICE_RETURN_IF_ERROR(
            ScaleOn(trial_stream.handle(), trial.address(), trial.address(), candidate));
        COPPICE_RETURN_IF_ERROR(trial_stream.Synchronize());
        chosen = candidate;
      }
    }
    return Scale(context, context.input(0).data, y.data, chosen);
  });
  const Tensor x = Upload(1);
  for (const RunKind path : {kWarm, kRec, kRep, kRep}) {
    const Lease lease = Run(f, {x});
    EXPECT_EQ(lease.kind(), path);
    EXPECT_EQ(ValuesOf(lease), Constant(2));
  }
  EXPECT_EQ(Recorded()[0].graph_nodes, 1);
}

TEST_F(TorchCoreTest, SessionTouchesNothingButItsContextAndLeavesNothingBehind) {
  const Emulator::Live before = device_.emulator().live();
  {
    const std::unique_ptr<Session> other = MakeSession();
    EXPECT_EQ(device_.emulator().live().contexts, before.contexts);
    const Program* f = AddScale("f", 2);
    const Tensor x = Upload(1);
    EXPECT_THAT(other->Run(CallOf(f, {x}, {})), StatusIs(kWrongArgument))
        << "a program of another session";
    uploads_.clear();
  }
  Emulator::Live after = device_.emulator().live();
  after.nodes_executed = before.nodes_executed;
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace coppice
