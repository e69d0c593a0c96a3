// Goal: what PyTorch tests of its trees - roots, children, seeds, recordings, what a program may do
// - holds here too; PEERS.md says which test answers which. Method: programs of one kernel,
// counted in nodes, runs and values.

#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TorchCoreTest : public TorchFixture {
 protected:
  static constexpr RunKind kWarm = RunKind::kWarmUp;
  static constexpr RunKind kRec = RunKind::kRecord;
  static constexpr RunKind kRep = RunKind::kReplay;

  // y is the seed and the offset that the program was given.
  const Program* AddRandom(const std::string& name) {
    ProgramSpec spec{.name = name};
    spec.inputs = {{.name = "x", .dims = {Dim::Fixed(kCount)}}};
    spec.outputs = {{.name = "y", .dtype = DType::kInt64, .dims = {Dim::Fixed(2)}}};
    spec.random_numbers_per_call = 3;
    const int word = RandomWord(spec);
    return Add(spec, [word](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return context.driver().Call<&DriverTable::MemcpyDtoDAsync>(
          y.data, context.parameters() + 8 * static_cast<DeviceAddress>(word), size_t{16},
          context.stream());
    });
  }

  using Words = std::vector<int64_t>;
};

TEST_F(TorchCoreTest, TwoExtentsOfOneProgramMakeTwoRootsAndNothingBehindThem) {
  const Program* f = AddScale("f", 2);
  for (const int64_t count : {8, 16}) {
    const Tensor x = Upload(Constant(1, count));
    EXPECT_THAT(Paths(3, f, {x}), ElementsAre(kWarm, kRec, kRep));
    EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(2, count));
  }
  EXPECT_THAT(AroundOf("f"), ElementsAre(0, 0));
}

TEST_F(TorchCoreTest, SeedSetAgainRepeatsTheNumbersOfAChainInWarmUpRecordAndReplay) {
  const Program* f = AddRandom("f");
  const Program* g = AddRandom("g");
  const Tensor x = Upload(1);
  for (const RunKind path : {kWarm, kRec, kRep, kRep}) {
    session_->SetSeed(7);
    const ChainScope chain = *session_->Chain();
    const Lease first = Run(f, {x});
    const Lease second = Run(g, {x});
    EXPECT_EQ(first.kind(), path);
    EXPECT_EQ(second.kind(), path);
    EXPECT_EQ(ValuesOf<int64_t>(first), (Words{7, 0}));
    EXPECT_EQ(ValuesOf<int64_t>(second), (Words{7, 4}));
  }
}

TEST_F(TorchCoreTest, SeedSetAgainRepeatsTheNumbersWithoutAChainAndOnlyThen) {
  const Program* f = AddRandom("f");
  const Tensor x = Upload(1);
  for (const RunKind path : {kWarm, kRec, kRep, kRep}) {
    session_->SetSeed(9);
    const Lease lease = Run(f, {x});
    EXPECT_EQ(lease.kind(), path);
    EXPECT_EQ(ValuesOf<int64_t>(lease), (Words{9, 0}));
  }
  EXPECT_EQ(ValuesOf<int64_t>(Run(f, {x})), (Words{9, 4}));
  EXPECT_EQ(ValuesOf<int64_t>(Run(f, {x})), (Words{9, 8}));
}

TEST_F(TorchCoreTest, NumbersOfAChainAreThoseOfEagerRunsThoughItsProgramsRunUnequallyOften) {
  std::vector<std::vector<Words>> numbers;
  for (const Stance stance : {Stance::kEager, Stance::kRecord}) {
    Open({.stance = stance});
    session_->SetSeed(5);
    const Program* f = AddRandom("f");
    const Program* g = AddRandom("g");
    const Tensor x = Upload(1);
    std::vector<Words>& drawn = numbers.emplace_back();
    for (int step = 0; step < 12; ++step) {
      const ChainScope chain = *session_->Chain();
      const Lease first = Run(f, {x});
      drawn.push_back(ValuesOf<int64_t>(first));
      if (step % 3 == 1) continue;
      const Lease second = Run(g, {x});
      drawn.push_back(ValuesOf<int64_t>(second));
    }
    EXPECT_EQ(Count(kRep), stance == Stance::kRecord ? 16 : 0);
  }
  EXPECT_EQ(numbers[0], numbers[1]);
}

TEST_F(TorchCoreTest, ProgramCalledAgainInAChainIsOneRootAndTwoNodesBehindIt) {
  const Program* f = AddScale("f", 2);
  const Tensor x = Upload(1);
  for (int round = 0; round < 6; ++round) {
    const ChainScope chain = *session_->Chain();
    const Lease first = Run(f, {x});
    const Lease second = Run(f, {At(first)});
    const Lease third = Run(f, {At(second)});
    EXPECT_EQ(ValuesOf(third), Constant(8));
    EXPECT_EQ(ValuesOf(first), Constant(2));
  }
  EXPECT_THAT(AroundOf("f"), testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(Run(f, {x}).kind(), kRep);
}

TEST_F(TorchCoreTest, CallAfterAllOutputsOfAChainAreReleasedIsARootOfItsOwn) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Tensor x = Upload(1);
  for (int round = 0; round < 4; ++round) {
    const ChainScope chain = *session_->Chain();
    Run(f, {x}).Release();
    EXPECT_EQ(ValuesOf(Run(g, {x})), Constant(3));
  }
  EXPECT_THAT(AroundOf("f"), ElementsAre(0));
  EXPECT_THAT(AroundOf("g"), ElementsAre(0));
}

TEST_F(TorchCoreTest, ChainWhoseLastProgramIsNotCalledDoesNotBlockTheNextOne) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Program* h = AddScale("h", 5);
  const Tensor x = Upload(1);
  for (int round = 0; round < 8; ++round) {
    const ChainScope chain = *session_->Chain();
    const Lease first = Run(f, {x});
    const Lease second = Run(g, {At(first)});
    if (round % 2 == 0) continue;
    const Lease third = Run(h, {At(second)});
    EXPECT_EQ(ValuesOf(third), Constant(30));
    if (round < 5) continue;
    for (const Lease* lease : {&first, &second, &third})
      EXPECT_EQ(lease->kind(), kRep);
  }
  EXPECT_EQ(Recorded().size(), 3U);
}

TEST_F(TorchCoreTest, CallableRunsTwicePerBucketAndNotInReplays) {
  const Program* f = AddScale("f", 2);
  for (const int64_t count : {8, 16, 32}) {
    runs_["f"] = 0;
    const Tensor x = Upload(Constant(1, count));
    for (int call = 0; call < 10; ++call)
      EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(2, count));
    EXPECT_EQ(runs_["f"], 2);
  }
}

TEST_F(TorchCoreTest, ChainsBegunAnewReplayWhoeverStillHoldsLeases) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Tensor x = Upload(1);
  std::vector<Lease> held;
  for (int round = 0; round < 10; ++round) {
    const ChainScope chain = *session_->Chain();
    held.push_back(Run(f, {x}));
    held.push_back(Run(g, {At(held.back())}));
    EXPECT_EQ(ValuesOf(held.back()), Constant(6));
  }
  EXPECT_EQ(Count(kRep), 16) << "all but one warm-up and one record of each";
  EXPECT_EQ(Recorded().size(), 2U);
}

TEST_F(TorchCoreTest, SessionToldToRecordNothingMoreRecordsNothingMore) {
  const Program* f = AddScale("f", 2);
  const Tensor x = Upload(1);
  Paths(3, f, {x});
  session_->SetStance(Stance::kReplayOnly);
  const Tensor other = Upload(Constant(1, 8));
  for (int call = 0; call < 4; ++call) {
    EXPECT_EQ(Run(f, {x}).kind(), kRep);
    EXPECT_EQ(ValuesOf(Run(f, {other})), Constant(2, 8));
  }
  EXPECT_EQ(session_->stats().recordings, 1);
  EXPECT_EQ(Count(Reason::kUserDisabled), 4);
}

TEST_F(TorchCoreTest, StrictModeMakesACallThatWouldNotReplayAnError) {
  const Program* f = AddScale("f", 2);
  const Tensor x = Upload(1);
  Paths(3, f, {x});
  session_->SetStance(Stance::kStrict);
  EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(2));
  const int before = runs_["f"];
  const absl::StatusOr<Lease> refused = TryRun(f, {Upload(Constant(1, 8))});
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr("new_bucket"));
  EXPECT_EQ(runs_["f"], before);
}

TEST_F(TorchCoreTest, ProgramFlaggedOffAlwaysRunsEagerly) {
  ProgramSpec spec = SpecOf("f");
  spec.gate = GateMode::kAlwaysEager;
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Scale(context, context.input(0).data, y.data, 2);
  });
  const Tensor x = Upload(1);
  for (int call = 0; call < 4; ++call)
    EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(2));
  EXPECT_EQ(Count(RunKind::kEager), 4);
  EXPECT_EQ(Count(Reason::kUserDisabled), 4);
  EXPECT_EQ(Lines({"'f'", "user_disabled"}), 1);
}

// Four programs in a chain, of which every choice is flagged off once.
TEST_F(TorchCoreTest, ProgramsOfAChainAreFlaggedOffEachByItself) {
  const Tensor x = Upload(1);
  for (unsigned off = 0; off < 16; ++off) {
    SCOPED_TRACE(off);
    Open();
    const auto is_off = [off](int program) { return (off >> program & 1U) != 0; };
    std::vector<const Program*> programs;
    for (int i = 0; i < 4; ++i) {
      ProgramSpec spec = SpecOf(fmt::format("f{}", i));
      if (is_off(i)) spec.gate = GateMode::kAlwaysEager;
      programs.push_back(Add(spec, [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
        return Scale(context, context.input(0).data, y.data, 2);
      }));
    }
    for (const RunKind path : {kWarm, kRec, kRep, kRep}) {
      const ChainScope chain = *session_->Chain();
      std::vector<Lease> held;
      for (int i = 0; i < 4; ++i) {
        held.push_back(Run(programs[static_cast<size_t>(i)], {i == 0 ? x : At(held.back())}));
        EXPECT_EQ(held.back().kind(), is_off(i) ? RunKind::kEager : path) << i;
      }
      EXPECT_EQ(ValuesOf(held.back()), Constant(16));
    }
    EXPECT_EQ(Recorded().size(), 4U - static_cast<unsigned>(std::popcount(off)));
  }
}

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

TEST_F(TorchCoreTest, ScalarsOfTheHostShareOneLaunchAndNeedNoGraphOfTheirOwn) {
  ProgramSpec spec{.name = "f"};
  spec.outputs = {{.name = "y", .dtype = DType::kInt64, .dims = {Dim::Fixed(2)}}};
  spec.scalars = {{.name = "a", .device_resident = true}, {.name = "b", .device_resident = true}};
  const int word = ScalarWord(spec, 0);
  const Program* f = Add(spec, [word](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return context.driver().Call<&DriverTable::MemcpyDtoDAsync>(
        y.data, context.parameters() + 8 * static_cast<DeviceAddress>(word), size_t{16},
        context.stream());
  });
  for (int64_t call = 0; call < 6; ++call) {
    const int64_t before = device_.ledger().calls();
    const Lease lease = Run(f, {}, {.scalars = {call, -call}});
    if (lease.kind() == kRep) {
      EXPECT_EQ(device_.ledger().calls() - before, 2);
    }
    EXPECT_EQ(ValuesOf<int64_t>(lease), (Words{call, -call}));
  }
  EXPECT_EQ(Count(kRep), 4);
}

TEST_F(TorchCoreTest, SecondRecordingSaysWhyAndOnce) {
  const Program* f = AddWeighted("f");
  const Tensor x = Upload(1);
  const Binding* first = Bind(f, {Upload(10)});
  const Binding* second = Bind(f, {Upload(20)});
  Paths(3, f, {x}, {.binding = first});
  for (int call = 0; call < 3; ++call)
    EXPECT_EQ(ValuesOf(Run(f, {x}, {.binding = second})), Constant(21));
  EXPECT_EQ(Count(Reason::kStaticInputMoved), 1);
  EXPECT_EQ(Lines({"'f'", "static_input_moved"}), 1);
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

TEST_F(TorchCoreTest, MemoryOfALaneIsOrderedByOneStreamAtATime) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Tensor x = Upload(1);
  for (int call = 0; call < 8; ++call) {
    // The emulator reports every access that no order covers.
    const CuStream stream = call % 2 == 0 ? device_.stream() : side_.handle();
    const Lease lease = Run(call % 4 < 2 ? f : g, {x}, {.stream = stream});
    EXPECT_EQ(ValuesOf(lease), Constant(call % 4 < 2 ? 2 : 3));
  }
  EXPECT_EQ(session_->stats().stream_switches, 7);
  EXPECT_EQ(session_->memory().usage().height, kBufferAlignment);
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
    EXPECT_THAT(other->Run(CallOf(f, {x}, {})), StatusIs(absl::StatusCode::kInvalidArgument))
        << "a program of another session";
    uploads_.clear();
  }
  Emulator::Live after = device_.emulator().live();
  after.nodes_executed = before.nodes_executed;
  EXPECT_EQ(after, before);
}

TEST_F(TorchCoreTest, SessionClosedUnderHeldLeasesGivesEverythingBack) {
  const Program* f = AddScale("f", 2);
  const Tensor x = Upload(1);
  std::vector<Lease> held;
  for (int call = 0; call < 3; ++call)
    held.push_back(Run(f, {x}));
  held.push_back(Run(f, {At(held.back())}));
  Close();
  for (const Lease& lease : held)
    EXPECT_FALSE(Readable(lease));
}

// y = (x, 2 * x), and of its gradient dx = dy's first half + dy's second half.
TEST_F(TorchCoreTest, InputJoinedToItselfAndItsBackwardAreRightAtEveryExtent) {
  const auto half = [](const Tensor& twice, int64_t extent) {
    return twice.data + sizeof(float) * static_cast<DeviceAddress>(extent);
  };
  ProgramSpec spec = SpecOf("forward");
  spec.outputs[0].dims = {spec.AddExtent("2*n")};
  const Program* forward = Add(spec, [&](CallContext& context) -> absl::Status {
    const DeviceAddress x = context.input(0).data;
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Scale(context, x, y.data, 1));
    return Scale(context, x, half(y, context.extent(0)), 2);
  });
  spec = SpecOf("backward", 2);
  spec.inputs[1].dims = {spec.AddExtent("2*n")};
  const Program* backward = Add(spec, [&](CallContext& context) -> absl::Status {
    const Tensor& dy = context.input(1);
    COPPICE_ASSIGN_OR_RETURN(const Tensor dx, context.AllocateOutput(0));
    return AddOnto(context, dy.data, half(dy, context.extent(0)), dx.data, context.extent(0));
  });
  for (const int64_t n : {2, 3}) {
    Floats joined = Constant(5, n);
    joined.resize(static_cast<size_t>(2 * n), 10);
    const Tensor x = Upload(Constant(5, n));
    for (const RunKind path : {kWarm, kRec, kRep, kRep}) {
      const ChainScope chain = *session_->Chain();
      const Lease y = Run(forward, {x});
      const Lease dx = Run(backward, {x, At(y)});
      EXPECT_EQ(dx.kind(), path);
      EXPECT_EQ(ValuesOf(y), joined);
      EXPECT_EQ(ValuesOf(dx), Constant(15, n));
    }
  }
}

TEST_F(TorchCoreTest, EveryResultIsThatOfAnEagerRunFromRecordOverAnotherShapeAndBack) {
  const Program* f = AddWeighted("f");
  const Binding* binding = Bind(f, {Upload(10)});
  ProgramSpec spec = SpecOf("g", 2);
  const Program* g = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return AddOnto(context, context.input(0).data, context.input(1).data, y.data,
                   context.extent(0));
  });
  float value = 0;
  for (const int64_t count : {64, 64, 64, 16, 16, 16, 64, 16, 64}) {
    value += 1;
    const Tensor x = Upload(Constant(value, count));
    EXPECT_EQ(ValuesOf(Run(f, {x}, {.binding = binding})), Constant(value + 10, count));
    EXPECT_EQ(ValuesOf(Run(g, {x, x})), Constant(2 * value, count));
  }
  EXPECT_EQ(Count(kRep), 10);
}

}  // namespace
}  // namespace coppice
