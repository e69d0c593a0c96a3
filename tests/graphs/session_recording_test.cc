// Goal: recording and warming ahead do what session.h and program.h say, and every way in which a
// recording can go wrong ends in an eager run with a reason. Method: callables that misbehave.

#include <latch>

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class RecordingTest : public SessionFixture {
 protected:
  RecordingTest() : SessionFixture(DriverLedger::Options{.trace = true}) {}

  static absl::Status SynchronizeContext(CallContext& context) {
    (void)context.driver().table().CtxSynchronize();
    return absl::OkStatus();
  }

  static std::vector<std::vector<int64_t>> Buckets(std::initializer_list<int64_t> extents) {
    std::vector<std::vector<int64_t>> buckets;
    for (const int64_t extent : extents)
      buckets.push_back({extent});
    return buckets;
  }

  // Warms affine ahead on a scratch counter.
  absl::Status Warm(const Affine& affine,
                    const std::vector<std::vector<int64_t>>& buckets,
                    std::function<void(int64_t, int64_t)> progress = nullptr) {
    if (!scratch_) scratch_.emplace(*device_.Upload(std::vector<float>{0}));
    const Binding* scratch =
        *affine.session->Bind(*affine.program, AffineStatics(scratch_->address()));
    const int64_t scalar = std::bit_cast<int64_t>(2.0);
    return affine.session->warming().Warm(*affine.program, affine.binding, buckets, {&scalar, 1},
                                          {.scratch = scratch, .progress = std::move(progress)});
  }

  std::optional<DeviceMemory> scratch_;
};

TEST_F(RecordingTest, RecordingsAreTimedByTheClockOfTheOptions) {
  int64_t now = 1000;
  SessionOptions options;
  options.now_ns = [&now] { return now; };
  const Affine affine = MakeAffine(options, AffineCallable([&now](CallContext& context) {
                                     now += context.phase() == Phase::kRecord ? 77 : 1;
                                     return absl::OkStatus();
                                   }));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kRecord);
  EXPECT_EQ(affine.session->nodes().at(0).record_ns, 77);
}

TEST_F(RecordingTest, BrokenFromOutsideRunsEagerlyAndIsRetriedOnce) {
  int breaks_left = 1;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext& context) {
                                     if (context.phase() != Phase::kRecord || breaks_left == 0)
                                       return absl::OkStatus();
                                     --breaks_left;
                                     return SynchronizeContext(context);
                                   }));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease broken, Call(affine, 4));
  EXPECT_EQ(broken.kind(), RunKind::kEager);
  EXPECT_EQ(broken.reason(), Reason::kCaptureInvalidated);
  EXPECT_EQ(Read(broken), Expected(4));
  EXPECT_EQ(affine.session->stats().captures_retried, 1);
  ExpectRun(affine, 4, RunKind::kRecord);
  ExpectRun(affine, 4, RunKind::kReplay);
  EXPECT_EQ(Executions(), 4);
}

TEST_F(RecordingTest, BrokenTwiceIsNotCapturable) {
  const Affine affine = MakeAffine(
      {}, AffineCallable([](CallContext& context) {
        return context.phase() == Phase::kRecord ? SynchronizeContext(context) : absl::OkStatus();
      }));
  std::vector<Reason> reasons;
  for (int i = 0; i < 5; ++i)
    reasons.push_back(Call(affine, 4)->reason());
  EXPECT_THAT(reasons, ElementsAre(Reason::kNewBucket, Reason::kCaptureInvalidated,
                                   Reason::kCaptureInvalidated, Reason::kNotCapturable,
                                   Reason::kNotCapturable));
  EXPECT_EQ(affine.session->stats().captures_retried, 1);
  EXPECT_EQ(Executions(), 5);
}

TEST_F(RecordingTest, FailureUnderCaptureIsNotCapturable) {
  const Affine affine = MakeAffine({}, AffineCallable([](CallContext& context) {
                                     return context.phase() == Phase::kRecord
                                                ? absl::InternalError("not now")
                                                : absl::OkStatus();
                                   }));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  EXPECT_EQ(lease.reason(), Reason::kNotCapturable);
  EXPECT_EQ(Read(lease), Expected(4));
  EXPECT_EQ(device_.emulator().live().captures, 0);
}

TEST_F(RecordingTest, FailureOutsideACaptureIsTheCallsErrorAndLeavesNothing) {
  bool fail = true;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext&) {
                                     return fail ? absl::InternalError("no") : absl::OkStatus();
                                   }));
  EXPECT_THAT(Call(affine, 4), StatusIs(absl::StatusCode::kInternal));
  EXPECT_TRUE(affine.session->nodes().empty());
  EXPECT_EQ(affine.session->memory().usage().eager_live, 0);
  fail = false;
  ExpectRun(affine, 4, RunKind::kWarmUp);
}

// Each departs from its warm-up's requests under capture, and only there.
TEST_F(RecordingTest, DepartureFromTheTraceIsNotCapturable) {
  const std::vector<std::function<absl::Status(CallContext&)>> departures = {
      [](CallContext& context) { return context.Allocate(64).status(); },
      [](CallContext& context) { return context.AllocateOutput(0).status(); },
      [](CallContext& context) { return context.Free(1); },
  };
  for (const auto& departure : departures) {
    const Affine affine = MakeAffine({}, AffineCallable([&](CallContext& context) {
                                       if (context.phase() == Phase::kRecord)
                                         (void)departure(context);
                                       return absl::OkStatus();
                                     }));
    ExpectRun(affine, 4, RunKind::kWarmUp);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
    EXPECT_EQ(lease.reason(), Reason::kNotCapturable);
    EXPECT_EQ(Read(lease), Expected(4));
  }
}

// As a library does that tries its algorithms in the first run.
TEST_F(RecordingTest, TrialsInTheFirstRunCostASecondWarmUp) {
  std::vector<std::string> lines;
  bool chosen = false;
  const Affine affine =
      MakeAffine({.log = [&](const std::string& line) { lines.push_back(line); }},
                 AffineCallable([&](CallContext& context) -> absl::Status {
                   if (std::exchange(chosen, true)) return absl::OkStatus();
                   COPPICE_ASSIGN_OR_RETURN(const DeviceAddress trial, context.Allocate(4096));
                   return context.Free(trial);
                 }));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease departed, Call(affine, 4));
  EXPECT_EQ(departed.kind(), RunKind::kWarmUp);
  EXPECT_EQ(departed.reason(), Reason::kNotCapturable);
  EXPECT_EQ(Read(departed), Expected(4));
  ExpectRun(affine, 4, RunKind::kRecord);
  ExpectRun(affine, 4, RunKind::kReplay);
  EXPECT_THAT(lines, testing::Contains(HasSubstr("at request")));
  EXPECT_EQ(Executions(), 4);
}

TEST_F(RecordingTest, FourthDepartureIsFinalUntilEvictOrWarm) {
  bool departs = true;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext& context) -> absl::Status {
                                     if (!departs || context.phase() != Phase::kRecord)
                                       return absl::OkStatus();
                                     return context.Allocate(8).status();
                                   }));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  for (int departure = 0; departure < 3; ++departure)
    ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kEager);
  departs = false;
  ExpectRun(affine, 4, RunKind::kEager);
  ASSERT_OK(affine.session->Evict(affine.program));
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kRecord);
  departs = true;
  CallTimes(6, affine, 8);
  ExpectRun(affine, 8, RunKind::kEager);
  EXPECT_THAT(Warm(affine, Buckets({8})), StatusIs(kRefused));
  departs = false;
  ASSERT_OK(Warm(affine, Buckets({8})));
  ExpectRun(affine, 8, RunKind::kReplay);
}

TEST_F(RecordingTest, ExplainNamesTheFailureOfTheRecording) {
  const Affine affine = MakeAffine({}, AffineCallable([](CallContext& context) {
                                     return context.phase() == Phase::kRecord
                                                ? absl::InternalError("the library said so")
                                                : absl::OkStatus();
                                   }));
  ASSERT_OK(Call(affine, 4));
  ASSERT_OK(Call(affine, 4));
  const Tensor x = FloatsAt(uploads_.back().address(), 4);
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  const Explanation explanation = affine.session->Explain({.program = affine.program,
                                                           .binding = affine.binding,
                                                           .inputs = {&x, 1},
                                                           .scalars = {&scalar, 1},
                                                           .stream = device_.stream()});
  EXPECT_THAT(explanation.text, HasSubstr("the library said so"));
}

TEST_F(RecordingTest, RequestsThatCannotBeServedAreErrors) {
  const std::vector<std::function<absl::Status(CallContext&)>> requests = {
      [](CallContext& context) { return context.Allocate(0).status(); },
      [](CallContext& context) { return context.Free(12345); },
      [](CallContext& context) { return context.AllocateOutput(1).status(); },
      [](CallContext& context) { return context.AllocateOutput(-1).status(); },
  };
  for (const auto& request : requests) {
    const Affine affine = MakeAffine({}, AffineCallable(request));
    EXPECT_THAT(Call(affine, 4), StatusIs(kWrongArgument));
  }
}

TEST_F(RecordingTest, RecordsWithoutADeviceWideWaitOrGrowthUnderCapture) {
  const Affine affine = MakeAffine();
  ASSERT_OK(Call(affine, 64).status());
  uploads_.push_back(*device_.Upload(Ramp(64)));
  (void)device_.ledger().TakeTrace();
  const Tensor x = FloatsAt(uploads_.back().address(), 64);
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  ASSERT_OK(affine.session->Run({.program = affine.program,
                                 .binding = affine.binding,
                                 .inputs = {&x, 1},
                                 .scalars = {&scalar, 1},
                                 .stream = device_.stream()}));
  bool capturing = false;
  bool grew = false;
  for (const DriverLedger::TracedCall& call : device_.ledger().TakeTrace()) {
    const std::string name = DriverEntryAt(call.entry).symbol;
    EXPECT_NE(name, "cuCtxSynchronize");
    EXPECT_NE(name, "cuStreamSynchronize");
    EXPECT_NE(name, "cuMemFree");
    if (name == "cuStreamBeginCapture") capturing = true;
    if (name == "cuStreamEndCapture") capturing = false;
    if (name == "cuMemMap") grew = true;
    if (capturing) {
      EXPECT_NE(name, "cuMemMap");
      EXPECT_NE(name, "cuMemCreate");
    }
  }
  EXPECT_TRUE(grew);
}

TEST_F(RecordingTest, PlanThatDoesNotFitTheDeviceRunsEagerly) {
  const Affine affine = MakeAffine();
  ASSERT_OK(Call(affine, 4).status());
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_OK(device_.driver().Call<&DriverTable::MemGetInfo>(&free_bytes, &total_bytes));
  std::optional<DeviceMemory> hog =
      *DeviceMemory::Create(device_.driver(), static_cast<int64_t>(free_bytes));
  const Tensor x = FloatsAt(uploads_.back().address(), 4);
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  const coppice::Call call{.program = affine.program,
                           .binding = affine.binding,
                           .inputs = {&x, 1},
                           .scalars = {&scalar, 1},
                           .stream = device_.stream()};
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, affine.session->Run(call));
    EXPECT_EQ(lease.reason(), Reason::kByteLimit);
    EXPECT_EQ(Read(lease), Expected(4));
  }
  hog.reset();
  ExpectRun(affine, 4, RunKind::kRecord);
}

TEST_F(RecordingTest, ForkedGraphsArePlannedAlongTheirEdges) {
  // Two temporaries that are disjoint in host order, used on two streams at the same time.
  const Stream side = *Stream::Create(device_.driver());
  const Event fork = *Event::Create(device_.driver());
  const Event join = *Event::Create(device_.driver());
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "fork"};
  const int n = spec.AddSymbol("n", *PaddingPolicy::Exact(64));
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(n)}}};
  spec.outputs = {{.name = "a", .dims = {Dim::Symbol(n)}}, {.name = "b", .dims = {Dim::Symbol(n)}}};
  const auto branch = [&](CallContext& context, CuStream stream, int output,
                          float factor) -> absl::Status {
    const int64_t count = context.extent(0);
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress temporary, context.Allocate(count * 4));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(output));
    for (const auto& [from, to, scale] : {std::tuple{context.input(0).data, temporary, factor},
                                          std::tuple{temporary, y.data, 1.0F}}) {
      COPPICE_RETURN_IF_ERROR(Launch(context.driver(), kernels_.scale, stream,
                                     ScaleParams{.x = PointerAt<float>(from),
                                                 .y = PointerAt<float>(to),
                                                 .count = count,
                                                 .factor = scale},
                                     GridFor(count)));
    }
    return context.Free(temporary);
  };
  const Program* program = *session->Register(spec, [&](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(fork.Record(context.stream()));
    COPPICE_RETURN_IF_ERROR(fork.MakeWait(side.handle()));
    COPPICE_RETURN_IF_ERROR(branch(context, side.handle(), 0, 2));
    COPPICE_RETURN_IF_ERROR(branch(context, context.stream(), 1, 3));
    COPPICE_RETURN_IF_ERROR(join.Record(side.handle()));
    return join.MakeWait(context.stream());
  });
  const DeviceMemory memory = *device_.Upload(Ramp(64));
  const Tensor x = FloatsAt(memory.address(), 64);
  for (int i = 0; i < 50; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const Lease lease,
        session->Run({.program = program, .inputs = {&x, 1}, .stream = device_.stream()}));
    EXPECT_EQ(lease.kind(), i == 0   ? RunKind::kWarmUp
                            : i == 1 ? RunKind::kRecord
                                     : RunKind::kReplay);
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    for (const int output : {0, 1}) {
      std::vector<float> expected = Ramp(64);
      for (float& value : expected)
        value *= output == 0 ? 2.0F : 3.0F;
      EXPECT_EQ(device_.Download<float>(scope.output(output).data, 64), expected) << "call " << i;
    }
  }
  // Both temporaries and both outputs are live at once: 4 x 256 bytes.
  EXPECT_EQ(session->nodes()[0].plan_height, 4 * kBufferAlignment);
  EXPECT_EQ(session->nodes()[0].graph_nodes, 4);
}

TEST_F(RecordingTest, LaunchesOfEveryShapeReplayAsTheyRan) {
  const LaunchShape shapes[] = {{.grid = {2, 3, 4}},
                                {.grid = {4, 6}, .shared_bytes = 80},
                                {.grid = {8, 3}, .cooperative = true},
                                {.grid = {24}, .programmatic = true, .cluster = {8}}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device_.driver(), test_kernels_image));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel cube, library.Get("Cube"));
  const std::unique_ptr<Session> session = MakeSession({.checks = {.audit_keys = true}});
  ProgramSpec spec{.name = "cubes"};
  for (const char* const name : {"a", "b", "c", "d"})
    spec.outputs.push_back({.name = name, .dtype = DType::kInt64, .dims = {Dim::Fixed(24)}});
  const Program* program = *session->Register(spec, [&](CallContext& context) -> absl::Status {
    for (int i = 0; i < 4; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
      COPPICE_RETURN_IF_ERROR(Launch(context.driver(), cube, context.stream(),
                                     CubeParams{.target = PointerAt<int64_t>(y.data),
                                                .shared_words = shapes[i].shared_bytes / 8},
                                     shapes[i]));
    }
    return absl::OkStatus();
  });
  for (const RunKind kind :
       {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease,
                                 session->Run({.program = program, .stream = device_.stream()}));
    EXPECT_EQ(lease.kind(), kind);
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    for (int i = 0; i < 4; ++i) {
      std::vector<int64_t> expected(24);
      std::iota(expected.begin(), expected.end(), shapes[i].shared_bytes > 0 ? 45 : 0);
      EXPECT_EQ(device_.Download<int64_t>(scope.output(i).data, 24), expected) << "output " << i;
    }
  }
}

TEST_F(RecordingTest, ForkAfterAPromiseOfOneStreamIsNotCapturable) {
  const Stream side = *Stream::Create(device_.driver());
  const Event fork = *Event::Create(device_.driver());
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "fork", .outputs = {{.name = "y", .dims = {Dim::Fixed(1)}}}};
  spec.one_stream = true;
  const Program* program = *session->Register(spec, [&](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress temporary, context.Allocate(4));
    COPPICE_RETURN_IF_ERROR(fork.Record(context.stream()));
    COPPICE_RETURN_IF_ERROR(fork.MakeWait(side.handle()));
    COPPICE_RETURN_IF_ERROR(AddOnto(context, one_.address(), one_.address(), y.data, 1));
    COPPICE_RETURN_IF_ERROR(Launch(context.driver(), kernels_.fill, side.handle(),
                                   FillParams{.target = PointerAt<float>(temporary), .count = 1},
                                   1));
    COPPICE_RETURN_IF_ERROR(fork.Record(side.handle()));
    return fork.MakeWait(context.stream());
  });
  const coppice::Call call{.program = program, .stream = device_.stream()};
  ASSERT_OK(session->Run(call).status());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session->Run(call));
  EXPECT_EQ(lease.reason(), Reason::kNotCapturable);
}

TEST_F(RecordingTest, PromiseOfOneStreamLetsEagerRunsReuseFreedBytes) {
  for (const bool one_stream : {false, true}) {
    const std::unique_ptr<Session> session = MakeSession();
    ProgramSpec spec{.name = "temporaries", .outputs = {{.name = "y", .dims = {Dim::Fixed(1)}}}};
    spec.one_stream = one_stream;
    const Program* program = *session->Register(spec, [](CallContext& context) -> absl::Status {
      for (int i = 0; i < 4; ++i) {
        COPPICE_ASSIGN_OR_RETURN(const DeviceAddress temporary, context.Allocate(1024));
        COPPICE_RETURN_IF_ERROR(context.Free(temporary));
      }
      return context.AllocateOutput(0).status();
    });
    ASSERT_OK(session->Run({.program = program, .stream = device_.stream()}).status());
    EXPECT_EQ(session->memory().usage().eager_peak,
              one_stream ? 1024 : 4 * 1024 + kBufferAlignment);
  }
}

TEST_F(RecordingTest, WarmRecordsAheadOfTrafficWithoutTouchingTheRealInputs) {
  const Affine affine = MakeAffine();
  std::vector<std::pair<int64_t, int64_t>> progress;
  ASSERT_OK(Warm(affine, Buckets({64, 4}),
                 [&](int64_t done, int64_t total) { progress.emplace_back(done, total); }));
  EXPECT_THAT(progress,
              ElementsAre(std::pair<int64_t, int64_t>(1, 2), std::pair<int64_t, int64_t>(2, 2)));
  EXPECT_EQ(Executions(), 0);
  ExpectRun(affine, 4, RunKind::kReplay);
  ExpectRun(affine, 50, RunKind::kReplay);
  EXPECT_EQ(affine.session->memory().usage().of(MemoryKind::kEager), 0);
}

// A capture in the strictest mode, which another thread has open while the scope lives.
class CaptureElsewhere {
 public:
  explicit CaptureElsewhere(const Context& context)
      : stream_(*Stream::Create(context.driver())), thread_([this, &context] {
          const Driver& driver = context.driver();
          EXPECT_OK(context.MakeCurrent());
          EXPECT_OK(driver.Call<&DriverTable::StreamBeginCapture>(stream_.handle(),
                                                                  CuCaptureMode::kGlobal));
          begun_.count_down();
          over_.wait();
          CuGraph graph = nullptr;
          EXPECT_OK(driver.Call<&DriverTable::StreamEndCapture>(stream_.handle(), &graph));
          EXPECT_OK(driver.Call<&DriverTable::GraphDestroy>(graph));
        }) {
    begun_.wait();
  }
  ~CaptureElsewhere() {
    over_.count_down();
    thread_.join();
  }

 private:
  const Stream stream_;
  std::latch begun_{1};
  std::latch over_{1};
  std::thread thread_;
};

TEST_F(RecordingTest, SessionFromOpenToCloseDoesNotBreakACaptureOfAnotherThread) {
  const CaptureElsewhere capture(device_.context());
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  ExpectRun(affine, 4, RunKind::kRecord);
  ExpectRun(affine, 4, RunKind::kReplay);
  ExpectRun(affine, kLargest + 1, RunKind::kEager);
  ASSERT_OK(Warm(affine, Buckets({64})));
  EXPECT_OK(affine.session->memory().Trim());
}

TEST_F(RecordingTest, WarmSkipsRecordedBuckets) {
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 4);
  const int64_t before = device_.ledger().calls(&DriverTable::StreamBeginCapture);
  ASSERT_OK(Warm(affine, Buckets({4, 4})));
  EXPECT_EQ(device_.ledger().calls(&DriverTable::StreamBeginCapture), before);
}

TEST_F(RecordingTest, WarmRecordsABucketThatIsWarmAlready) {
  const Affine affine = MakeAffine();
  ASSERT_OK(Call(affine, 4).status());
  ASSERT_OK(Warm(affine, Buckets({4})));
  ExpectRun(affine, 4, RunKind::kReplay);
}

TEST_F(RecordingTest, WarmRefusesWhatItCannotDo) {
  const Affine affine = MakeAffine();
  for (const int64_t extent : {0, 3, 128, -4}) {
    EXPECT_THAT(Warm(affine, Buckets({extent})), StatusIs(kWrongArgument));
  }
  const int64_t scalar = 0;
  EXPECT_THAT(affine.session->warming().Warm(*affine.program, affine.binding, Buckets({4}),
                                             {&scalar, 1}, {}),
              StatusIs(kRefused))
      << "affine mutates its counter and there is no scratch";
  EXPECT_THAT(affine.session->warming().Warm(*affine.program, affine.binding, Buckets({4}),
                                             {&scalar, 1}, {.scratch = affine.binding}),
              StatusIs(kRefused))
      << "the scratch is the real counter";
  EXPECT_THAT(affine.session->warming().Warm(*affine.program, affine.binding, Buckets({4}), {},
                                             {.scratch = affine.binding}),
              StatusIs(kWrongArgument));
  const Affine eager = MakeAffine({.stance = Stance::kEager});
  EXPECT_THAT(Warm(eager, Buckets({4})), StatusIs(kRefused));
}

TEST_F(RecordingTest, WarmSaysWhatTheLimitOfGraphsDidNotKeep) {
  for (const OnLimit on_limit : {OnLimit::kEager, OnLimit::kEvict}) {
    const Affine affine =
        MakeAffine({.limits = {.graphs_per_program_max = 2, .on_limit = on_limit}});
    EXPECT_THAT(Warm(affine, Buckets({8, 16, 4})), StatusIs(kExhausted));
    std::vector<int64_t> recorded;
    for (const NodeInfo& node : affine.session->nodes()) {
      if (node.recorded) recorded.push_back(node.bucket[0]);
    }
    ASSERT_THAT(recorded, SizeIs(2));
    EXPECT_THAT(recorded, testing::Contains(on_limit == OnLimit::kEvict ? 4 : 16));
    EXPECT_OK(Warm(affine, Buckets({recorded[0], recorded[1]})));
  }
}

TEST_F(RecordingTest, WarmRefusesAScratchBindingOfAnotherProgramAndOneThatHasEnded) {
  ProgramSpec spec = AffineSpec();
  spec.inputs[2].mutated = false;  // So that none is needed.
  const Affine affine = MakeAffine({}, nullptr, spec);
  ProgramSpec other{.name = "other"};
  const Program* program =
      *affine.session->Register(other, [](CallContext&) { return absl::OkStatus(); });
  const Binding* foreign = *affine.session->Bind(*program, {});
  const Binding* ended = *affine.session->Bind(*affine.program, AffineStatics(one_.address()));
  ASSERT_OK(affine.session->Unbind(*ended));
  const int64_t scalar = 0;
  for (const Binding* scratch : {foreign, ended}) {
    EXPECT_THAT(affine.session->warming().Warm(*affine.program, affine.binding, Buckets({4}),
                                               {&scalar, 1}, {.scratch = scratch}),
                StatusIs(kWrongArgument));
  }
}

TEST_F(RecordingTest, WarmReportsABucketThatCannotBeRecorded) {
  const Affine affine = MakeAffine(
      {}, AffineCallable([](CallContext& context) {
        return context.phase() == Phase::kRecord ? absl::InternalError("never") : absl::OkStatus();
      }));
  EXPECT_THAT(Warm(affine, Buckets({4})), StatusIs(kRefused));
}

TEST_F(RecordingTest, TrimReleasesTheEagerWindowOnceNoLeaseHoldsIt) {
  const Affine affine = MakeAffine();
  std::optional<Lease> lease = *Call(affine, 70);
  ASSERT_OK(affine.session->memory().Trim());
  EXPECT_GT(affine.session->memory().usage().of(MemoryKind::kEager), 0);
  EXPECT_EQ(Read(*lease), Expected(70));
  lease.reset();
  ASSERT_OK(affine.session->memory().Trim());
  EXPECT_EQ(affine.session->memory().usage().of(MemoryKind::kEager), 0);
  ExpectRun(affine, 70, RunKind::kEager);
}

TEST_F(RecordingTest, RecordingThatCapturedNoWorkSaysSoOnceAndIsCounted) {
  std::vector<std::string> lines;
  const Stream other = *Stream::Create(device_.driver());
  const Affine affine =
      MakeAffine({.log = [&](const std::string& line) { lines.push_back(line); }},
                 [&](CallContext& context) -> absl::Status {
                   COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
                   return Launch(context.driver(), kernels_.fill, other.handle(),
                                 FillParams{.target = PointerAt<float>(y.data), .count = 0}, 1);
                 });
  for (const int64_t n : {4, 4, 8, 8})
    ASSERT_OK(Call(affine, n));
  EXPECT_EQ(affine.session->stats().recordings, 2);
  EXPECT_EQ(affine.session->stats().recordings_empty, 2);
  std::erase_if(lines, [](const std::string& line) {
    return line.find("captured no work") == std::string::npos;
  });
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], HasSubstr("program 'affine' captured no work in bucket [4]"));
}

TEST_F(RecordingTest, RecordingOfBreaksAloneHasCapturedWhatItIsTo) {
  const Affine affine = MakeAffine({}, [](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(context.AllocateOutput(0).status());
    return context.Break([](CuStream) { return absl::OkStatus(); });
  });
  CallTimes(2, affine, 4);
  EXPECT_EQ(affine.session->stats().recordings, 1);
  EXPECT_EQ(affine.session->stats().recordings_empty, 0);
}

TEST_F(RecordingTest, WarmAndTheBackgroundSayThatNothingWasCapturedToo) {
  for (const bool background : {false, true}) {
    int said = 0;
    ProgramSpec spec{.name = "nothing", .thread_safe = true};
    spec.outputs = {{.name = "y", .dims = {Dim::Fixed(4)}}};
    const std::unique_ptr<Session> session =
        MakeSession({.record_in_background = background, .log = [&](const std::string& line) {
                       said += line.find("captured no work") != std::string::npos ? 1 : 0;
                     }});
    const Program* program = *session->Register(
        spec, [](CallContext& context) { return context.AllocateOutput(0).status(); });
    const coppice::Call call{.program = program, .inputs = {}, .stream = device_.stream()};
    const std::vector<int64_t> buckets[] = {{}};
    if (background) {
      for (int i = 0; i < 2; ++i)
        ASSERT_OK(session->Run(call));
      session->WaitForRecordings();
    } else {
      ASSERT_OK(session->warming().Warm(*program, nullptr, buckets, {}, {}));
    }
    EXPECT_EQ(session->stats().recordings_empty, 1);
    EXPECT_EQ(said, 1);
  }
}

}  // namespace
}  // namespace coppice
