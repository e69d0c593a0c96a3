// Goal: the mistakes that other graph runtimes have made cannot be made here; PEERS.md lists
// them, with the reports. Method: each mistake's scene, played by programs of one kernel, with the
// driver failing or other threads working where that is the scene.

#include <initializer_list>

#include "graphs/node/node_key.h"
#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

class PitfallTest : public TorchFixture {
 protected:
  // y = x + what the workspace holds, which the program first fills with `value`.
  const Program* AddWithWorkspace(const std::string& name, float value) {
    return Add(SpecOf(name), [this, name, value](CallContext& context) -> absl::Status {
      workspaces_[name].push_back(context.workspace());
      COPPICE_RETURN_IF_ERROR(LaunchFill(context, context.workspace(), kCount, value));
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return AddOnto(context, context.input(0).data, context.workspace(), y.data, kCount);
    });
  }

  // A program that uses `units` temporaries at once.
  const Program* AddHigh(const std::string& name, int units) {
    return Add(SpecOf(name), [this, units](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress high,
                               context.Allocate(units * kBufferAlignment));
      const auto last = static_cast<DeviceAddress>((units - 1) * kBufferAlignment);
      COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, high + last, 2));
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return Scale(context, high + last, y.data, 3);
    });
  }

  std::map<std::string, std::vector<DeviceAddress>> workspaces_;
};

TEST_F(PitfallTest, DestroyingOneNodeChangesNoResultOfAnotherThatUsesTheSameWorkspace) {
  Open({.memory = {.workspace_bytes = kBufferAlignment}});
  const Program* f = AddWithWorkspace("f", 10);
  const Program* g = AddWithWorkspace("g", 20);
  const Tensor x = Upload(1);
  Paths(3, f, {x});
  Paths(3, g, {x});
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(*session_->Evict(f), 1);
    EXPECT_EQ(ValuesOf(Run(g, {x})), Constant(21));
    EXPECT_EQ(ValuesOf(Run(f, {x})), Constant(11));
    EXPECT_EQ(ValuesOf(Run(g, {x})), Constant(21));
  }
}

TEST_F(PitfallTest, WorkspaceFirstSeenInACaptureIsOneThatNoReplayWritesOver) {
  Open({.memory = {.workspace_bytes = kBufferAlignment}});
  DeviceAddress cached = 0;  // What a library keeps from its first call, here a capture.
  std::vector<DeviceAddress> temporaries;
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress temporary, context.Allocate(kBufferAlignment));
    if (context.phase() == Phase::kRecord) {
      cached = context.workspace();
      temporaries.push_back(temporary);
    }
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, temporary, 2));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Scale(context, temporary, y.data, 1);
  });
  const Program* high = AddHigh("high", 8);
  const Tensor x = Upload(1);
  Paths(3, f, {x});
  Paths(3, high, {x});
  ASSERT_NE(cached, 0U);
  const std::optional<WindowInfo> place = session_->memory().Locate(cached);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->kind, MemoryKind::kWorkspace);
  ASSERT_OK(device_.Write(cached, Constant(7)));
  for (int call = 0; call < 4; ++call) {
    Run(f, {x}).Release();
    Run(high, {x}).Release();
    EXPECT_EQ(device_.Download<float>(cached, kCount), Constant(7));
  }
  // Bytes of the plan are not seen outside it: no tensor may name them.
  for (const DeviceAddress temporary : temporaries) {
    EXPECT_TRUE(session_->memory().Locate(temporary).has_value());
    EXPECT_THAT(TryRun(f, {FloatsAt(temporary)}), StatusIs(kRefused));
  }
}

TEST_F(PitfallTest, PoolThatGrowsBetweenRecordingsLeavesEarlierNodesAsTheyAre) {
  const Program* f = AddHigh("f", 2);
  const Program* g = AddScale("g", 5);
  const Tensor x = Upload(1);
  Paths(3, f, {x});
  const DeviceAddress place = At(Run(f, {x})).data;
  const int64_t mapped = session_->memory().usage().of(MemoryKind::kPlan);
  // Far beyond what is mapped, and behind a live output of f.
  const auto units = static_cast<int>(2 * mapped / kBufferAlignment);
  const Program* high = AddHigh("high", units);
  for (int round = 0; round < 3; ++round) {
    const ChainScope chain = *session_->Chain();
    const Lease kept = Run(f, {x});
    const Lease above = Run(high, {At(kept)});
    EXPECT_EQ(ValuesOf(above), Constant(36));
    EXPECT_EQ(ValuesOf(kept), Constant(6)) << "round " << round;
    EXPECT_EQ(ValuesOf(Run(g, {At(kept)})), Constant(30));
  }
  EXPECT_GT(session_->memory().usage().of(MemoryKind::kPlan), mapped);
  const Lease again = Run(f, {x});
  EXPECT_EQ(again.kind(), RunKind::kReplay);
  EXPECT_EQ(At(again).data, place);
  EXPECT_EQ(ValuesOf(again), Constant(6));
}

TEST_F(PitfallTest, AliasIsFoundByWhoseBytesTheyAreAndNotByAnEqualAddress) {
  const Program* f = AddScale("f", 2);
  const Program* g = AddScale("g", 3);
  const Tensor x = Upload(1);
  Paths(2, f, {x});
  Paths(2, g, {x});
  Lease old = Run(f, {x});
  const Tensor gone = At(old);
  old.Release();
  const Lease other = Run(g, {x});
  const Tensor there = At(other);
  ASSERT_EQ(there.data, gone.data);
  EXPECT_THAT(TryRun(f, {gone}), StatusIs(kRefused));
  EXPECT_EQ(ValuesOf(Run(f, {there})), Constant(6));
  // The same in the eager window, whose bytes are handed out again as well.
  session_->SetStance(Stance::kEager);
  old = Run(f, {x});
  const Tensor eager_gone = At(old);
  old.Release();
  const Lease eager_other = Run(g, {x});
  ASSERT_EQ(At(eager_other).data, eager_gone.data);
  EXPECT_THAT(TryRun(f, {eager_gone}), StatusIs(kRefused));
  EXPECT_EQ(ValuesOf(Run(f, {At(eager_other)})), Constant(6));
}

TEST_F(PitfallTest, GraphsOfOneTopologyKeepTheirOwnFunctions) {
  // One launch with parameters of the same size, and a name that only the variant tells apart.
  static_assert(sizeof(AddParams) == sizeof(ScaleParams));
  ProgramSpec spec = SpecOf("f");
  spec.variant = "sum";
  const Program* sum = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return AddOnto(context, context.input(0).data, context.input(0).data, y.data, kCount);
  });
  spec.variant = "product";
  const Program* product = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return Scale(context, context.input(0).data, y.data, 5);
  });
  for (int call = 0; call < 5; ++call) {
    const auto value = static_cast<float>(call);
    EXPECT_EQ(ValuesOf(Run(sum, {Upload(value)})), Constant(2 * value));
    EXPECT_EQ(ValuesOf(Run(product, {Upload(value)})), Constant(5 * value));
  }
  EXPECT_EQ(Recorded().size(), 2U);
}

TEST_F(PitfallTest, GraphWhoseFunctionDependsOnWhatIsNotInItsKeyIsRefused) {
  Open({.checks = {.audit_keys = true}});
  ProgramSpec spec = SpecOf("f");
  spec.scalars = {{.name = "which", .device_resident = true}};
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    const DeviceAddress x = context.input(0).data;
    return context.scalar(0) == 0 ? Scale(context, x, y.data, 2)
                                  : AddOnto(context, x, x, y.data, kCount);
  });
  // The audit is the first to have the other kernel, in a capture.
  ASSERT_OK(Launch(device_.driver(), kernels_.add, device_.stream(), AddParams(), 1));
  const Tensor x = Upload(1);
  EXPECT_EQ(ValuesOf(Run(f, {x}, {.scalars = {0}})), Constant(2));
  EXPECT_THAT(TryRun(f, {x}, {.scalars = {0}}),
              StatusIs(kWrongArgument, HasSubstr("node 0 of graph 0 differs")));
  EXPECT_TRUE(Recorded().empty());
}

TEST_F(PitfallTest, RecordingThatFailsAtAnyStepLeavesNothingAndTheNextOneWorks) {
  const int entries[] = {DriverLedger::IndexOf(&DriverTable::StreamBeginCapture),
                         DriverLedger::IndexOf(&DriverTable::LaunchKernel),
                         DriverLedger::IndexOf(&DriverTable::StreamEndCapture),
                         DriverLedger::IndexOf(&DriverTable::GraphInstantiateWithFlags),
                         DriverLedger::IndexOf(&DriverTable::GraphUpload)};
  for (const int entry : entries) {
    SCOPED_TRACE(DriverEntryAt(entry).symbol);
    Open();
    const Program* f = AddScale("f", 2);
    const Tensor x = Upload(1);
    Run(f, {x}).Release();
    const Emulator::Live before = device_.emulator().live();
    device_.ledger().Inject({.entry = entry, .result = CuResult::kOutOfMemory});
    (void)TryRun(f, {x}).status();
    device_.ledger().ClearFaults();
    EXPECT_TRUE(Recorded().empty());
    EXPECT_EQ(LiveEager(), 0);
    const Emulator::Live after = device_.emulator().live();
    EXPECT_EQ(after.captures, 0);
    EXPECT_EQ(after.graphs, before.graphs);
    EXPECT_EQ(after.execs, before.execs);
    EXPECT_EQ(Run(f, {x}).kind(), RunKind::kRecord);
    const Lease lease = Run(f, {x});
    EXPECT_EQ(lease.kind(), RunKind::kReplay);
    EXPECT_EQ(ValuesOf(lease), Constant(2));
  }
}

TEST_F(PitfallTest, OthersMayAllocateAndFreeAndRecordDuringARecording) {
  const std::unique_ptr<Session> other = MakeSession();
  const Program* elsewhere = *other->Register(SpecOf("elsewhere"), [this](CallContext& context) {
    const absl::StatusOr<Tensor> y = context.AllocateOutput(0);
    return y.ok() ? Scale(context, context.input(0).data, y->data, 7) : y.status();
  });
  const Tensor x = Upload(1);
  const std::vector<Tensor> inputs = {x};
  int worked = 0;
  const auto work = [&] {
    ASSERT_OK(device_.context().MakeCurrent());
    for (int i = 0; i < 4; ++i) {
      const DeviceMemory memory = *DeviceMemory::Create(device_.driver(), kMiB);
      coppice::Call call = CallOf(elsewhere, inputs, {});
      call.stream = side_.handle();
      const absl::StatusOr<Lease> lease = other->Run(call);
      ASSERT_OK(lease);
      ASSERT_OK(side_.Synchronize());
      worked += lease->kind() == (i == 0   ? RunKind::kWarmUp
                                  : i == 1 ? RunKind::kRecord
                                           : RunKind::kReplay);
    }
  };
  const Program* f = Add(SpecOf("f"), [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 2));
    if (context.phase() == Phase::kRecord) std::thread(work).join();
    return Scale(context, y.data, y.data, 3);
  });
  EXPECT_THAT(Paths(3, f, inputs),
              ElementsAre(RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay));
  EXPECT_EQ(worked, 4);
  EXPECT_EQ(ValuesOf(Run(f, inputs)), Constant(6));
  EXPECT_EQ(session_->stats().captures_retried, 0);
  EXPECT_EQ(other->stats().captures_retried, 0);
}

TEST_F(PitfallTest, OutputsOfAnEagerRunLiveAsLongAsTheirLeaseWhateverIsCalledNext) {
  const Program* f = AddScale("f", 2);
  const Program* high = AddHigh("high", 8);
  const Tensor x = Upload(1);
  session_->SetStance(Stance::kEager);
  Lease reader = Run(f, {x});
  session_->SetStance(Stance::kRecord);
  for (int call = 0; call < 10; ++call) {
    Run(f, {Upload(static_cast<float>(call))}).Release();
    Run(high, {x}).Release();
    ASSERT_OK(session_->memory().Trim());
    ASSERT_OK(session_->Evict(nullptr));
    EXPECT_EQ(ValuesOf(reader), Constant(2)) << "call " << call;
  }
  EXPECT_EQ(LiveEager(), 1);
  reader.Release();
  EXPECT_EQ(LiveEager(), 0);
}

TEST_F(PitfallTest, KeysOfEqualHashesAreToldApart) {
  const auto hash_of = [](std::initializer_list<int64_t> words) {
    internal::BucketKey key;
    key.word_count = static_cast<int>(words.size());
    std::copy(words.begin(), words.end(), key.words.begin());
    return static_cast<int64_t>(internal::KeyHash()(key));
  };
  ProgramSpec spec{.name = "f"};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(kCount)}}};
  spec.scalars = {{.name = "value"}, {.name = "salt"}};
  const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return LaunchFill(context, y.data, kCount, static_cast<float>(context.scalar(0)));
  });
  // What the second word adds to is the hash of the first, so it can undo a difference.
  const auto salt_of = [&](int64_t value) { return hash_of({value}) ^ hash_of({0}); };
  for (const int64_t value : {1, 2, 3})
    ASSERT_EQ(hash_of({value, salt_of(value)}), hash_of({0, 0}));
  for (int round = 0; round < 4; ++round) {
    for (const int64_t value : {0, 1, 2, 3}) {
      const Lease lease = Run(f, {}, {.scalars = {value, salt_of(value)}});
      EXPECT_EQ(ValuesOf(lease), Constant(static_cast<float>(value)));
      EXPECT_EQ(lease.kind() == RunKind::kReplay, round > 1);
    }
  }
  EXPECT_EQ(Recorded().size(), 4U);
}

TEST_F(PitfallTest, ScalarInTheArgumentsAndNotInTheKeyIsRefusedByKernelParameterAndBytes) {
  Open({.checks = {.audit_keys = true}});
  for (const bool in_key : {true, false}) {
    ProgramSpec spec = SpecOf(in_key ? "good" : "bad");
    spec.scalars = {{.name = "factor", .device_resident = !in_key}};
    const Program* f = Add(spec, [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      const auto factor = static_cast<float>(context.scalar(0));
      return Scale(context, context.input(0).data, y.data, factor);
    });
    const Tensor x = Upload(1);
    Run(f, {x}, {.scalars = {3}}).Release();
    const absl::Status recorded = TryRun(f, {x}, {.scalars = {3}}).status();
    if (in_key) {
      EXPECT_OK(recorded);
      EXPECT_EQ(ValuesOf(Run(f, {x}, {.scalars = {3}})), Constant(3));
      continue;
    }
    EXPECT_THAT(recorded, StatusIs(kWrongArgument));
    const auto begin = offsetof(ScaleParams, factor);
    EXPECT_THAT(MessageOf(recorded),
                AllOf(HasSubstr("program 'bad'"), HasSubstr("parameter 0 of kernel '"),
                      HasSubstr("Scale"), HasSubstr(fmt::format("bytes [{}, ", begin))));
    EXPECT_THAT(TryRun(f, {x}, {.scalars = {3}}), StatusIs(kWrongArgument));
  }
  EXPECT_EQ(Recorded().size(), 1U);
}

TEST_F(PitfallTest, SessionClosedUnderLeasesIsOpenedAgainAndTheLeasesStaySafeToDrop) {
  const Tensor x = Upload(1);
  std::vector<Lease> left;
  for (int round = 0; round < 4; ++round) {
    Open();
    const Program* f = AddScale("f", 2);
    for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
      left.push_back(Run(f, {x}));
      EXPECT_EQ(left.back().kind(), path);
    }
    EXPECT_EQ(ValuesOf(left.back()), Constant(2));
    EXPECT_EQ(LiveEager(), 1) << "its own, whatever the sessions before it left";
    if (round == 2) left.erase(left.begin(), left.begin() + 5);
    EXPECT_EQ(ValuesOf(left.back()), Constant(2));
  }
  Close();
  for (const Lease& lease : left)
    EXPECT_FALSE(Readable(lease));
  left.clear();
}

TEST_F(PitfallTest, NodesShareTheWindowOnWhateverStreamsTheyWereRecorded) {
  const Tensor x = Upload(1);
  const Stream third = *Stream::Create(device_.driver());
  const CuStream streams[] = {device_.stream(), side_.handle(), third.handle()};
  int64_t highest = 0;
  for (const int units : {4, 9, 6}) {
    const std::string name = fmt::format("{} units", units);
    const Program* f = AddHigh(name, units);
    for (const CuStream stream : streams)
      EXPECT_EQ(ValuesOf(Run(f, {x}, {.stream = stream})), Constant(6));
    for (const NodeInfo& node : Recorded())
      highest = std::max(highest, node.plan_height);
    EXPECT_EQ(session_->memory().usage().height, highest);
  }
  EXPECT_EQ(highest, 10 * kBufferAlignment);
  Close();
}

}  // namespace
}  // namespace coppice
