// Goal: a session is used from many threads at once, while others do on the same device what they
// like, and every output is right or its reading refused; a capture here breaks none elsewhere.
// Method: eight threads call 25 programs a hundred times each on four lanes, in all output modes
// and with outputs as inputs, and pass their leases on; an intruder allocates, frees, waits,
// captures in global mode and records in a session of its own meanwhile. Bindings and programs end,
// graphs go and all memory is given back and taken again under calls that need them.
// ThreadSanitizer finds what values do not show.

#include <deque>
#include <latch>

#include "tests/graphs/sketch.h"

namespace coppice {
namespace {

constexpr int kThreads = 8;
constexpr int kProgramCount = 25;
constexpr int kLanes = 4;

// What each thread makes of each program; fewer where another test has made most of them.
int64_t CallsPerProgram(bool in_background) {
  return std::max<int64_t>((in_background ? 25 : 100) / TestShare(), 4);
}

// Threads that start together and end together.
void RunThreads(int count, const std::function<void(int thread)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back(body, i);
  for (std::thread& thread : threads)
    thread.join();
}

class ThreadsTest : public testing::TestWithParam<bool>, protected SketchDevice {
 protected:
  // Leases on their way from one thread to another.
  class Exchange {
   public:
    void Put(Made made) {
      const std::lock_guard<std::mutex> lock(mutex_);
      made_.push_back(std::move(made));
    }
    std::optional<Made> Take() {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (made_.empty()) return std::nullopt;
      Made made = std::move(made_.back());
      made_.pop_back();
      return made;
    }

   private:
    std::mutex mutex_;
    std::vector<Made> made_;
  };

  // One thread: its stream, its choices, its targets to write into.
  class Worker {
   public:
    Worker(ThreadsTest& test, int index)
        : test_(test),
          random_(TestSeed() + static_cast<uint64_t>(index)),
          stream_(*Stream::Create(test.device_.driver())),
          memory_(*DeviceMemory::Create(test.device_.driver(), 2 * kTargetBytes)) {}

    void CallEveryProgram() {
      ASSERT_OK(test_.device_.context().MakeCurrent());
      for (int64_t calls = 0; calls < CallsPerProgram(GetParam()); ++calls) {
        for (int program = 0; program < kProgramCount && !HasFatalFailure(); ++program)
          CallOnce(test_.programs_[static_cast<size_t>((program + Below(3)) % kProgramCount)]);
      }
    }

   private:
    static constexpr int64_t kTargetBytes = 4 * kKiB;

    int64_t Below(int64_t end) {
      return std::uniform_int_distribution<int64_t>(0, end - 1)(random_);
    }

    void CallOnce(const Sketched& program) {
      const Input& x =
          test_.inputs_[static_cast<size_t>(Below(static_cast<int64_t>(test_.inputs_.size())))];
      const auto mode = static_cast<OutputMode>(Below(3));
      const int lane = static_cast<int>(Below(kLanes));
      std::optional<Made> made = Call(program, x, mode, lane);
      if (!made) return;
      Check(*made, mode == OutputMode::kBorrow);
      if (!made->outputs.empty() && Below(3) == 0) {
        std::optional<Made> child =
            Call(AnyProgram(), InputFrom(*made), OutputMode::kBorrow, lane, /*may_fail=*/true);
        if (child) Check(*child, /*may_be_stale=*/true);
      }
      // What was written into this thread's memory is for this thread to read.
      if (mode == OutputMode::kWriteInto || Below(2) == 0) return;
      test_.exchange_.Put(*std::move(made));
      if (std::optional<Made> other = test_.exchange_.Take()) Check(*other, /*may_be_stale=*/true);
    }

    const Sketched& AnyProgram() {
      return test_.programs_[static_cast<size_t>(Below(kProgramCount))];
    }

    // Runs once; again as long as somebody else's scope or a full ring refuses the call. An input
    // that is an output may be stale by then.
    std::optional<Made> Call(
        const Sketched& program, const Input& x, OutputMode mode, int lane, bool may_fail = false) {
      std::vector<Tensor> targets;
      for (size_t i = 0; i < OutputsOf(program); ++i)
        targets.push_back(FloatsAt(memory_.address() + i * kTargetBytes, x.tensor.element_count()));
      while (true) {
        absl::StatusOr<Lease> lease = test_.session_->Run(
            {.program = program.program,
             .inputs = {&x.tensor, 1},
             .stream = stream_.handle(),
             .lane = lane,
             .output_mode = mode,
             .targets = mode == OutputMode::kWriteInto ? std::span<const Tensor>(targets)
                                                       : std::span<const Tensor>()});
        if (lease.ok()) {
          Made made{.sketched = &program,
                    .lease = *std::move(lease),
                    .values = ModelOf(program.sketch, x.values)};
          return made;
        }
        const absl::StatusCode code = lease.status().code();
        EXPECT_TRUE(code == kRefused || code == absl::StatusCode::kResourceExhausted)
            << lease.status();
        if (may_fail || HasFailure()) return std::nullopt;
        (void)test_.exchange_.Take();
      }
    }

    static size_t OutputsOf(const Sketched& program) { return ModelOf(program.sketch, {0}).size(); }

    // Reads all outputs on this thread's stream, and keeps their tensors.
    void Check(Made& made, bool may_be_stale) {
      const absl::StatusOr<ReadScope> scope = made.lease.Read(stream_.handle());
      if (!scope.ok()) {
        EXPECT_TRUE(may_be_stale && scope.status().code() == kRefused) << scope.status();
        return;
      }
      made.outputs.clear();
      for (size_t i = 0; i < made.values.size(); ++i) {
        const Tensor y = scope->output(static_cast<int>(i));
        made.outputs.push_back(y);
        EXPECT_EQ(test_.DownloadOn(stream_, y), made.values[i])
            << "output " << i << " of " << made.sketched->sketch.name;
      }
    }

    ThreadsTest& test_;
    std::mt19937_64 random_;
    const Stream stream_;
    const DeviceMemory memory_;
  };

  void Open(SessionOptions options) {
    options.lanes = kLanes;
    options.memory.copy_out_bytes = 64 * kKiB;
    session_ = MakeSession(options);
    const std::vector<std::vector<SketchStep>> kinds = {
        {Output()},
        {Temporary(), Output(), Free(0)},
        {Output(), Output()},
        {Temporary(), Temporary(), Free(0), Output(), Free(1), Output()},
        {Output(), Temporary(2 * kKiB), Free(0)},
    };
    for (int i = 0; i < kProgramCount; ++i) {
      Sketched sketched{.session = session_.get(),
                        .sketch = {.name = "p" + std::to_string(i),
                                   .steps = kinds[static_cast<size_t>(i) % kinds.size()],
                                   .number = 1000 * i}};
      ProgramSpec spec = SpecOf(sketched.sketch);
      spec.thread_safe = true;
      sketched.program = *session_->Register(spec, CallableOf(sketched.sketch));
      programs_.push_back(std::move(sketched));
    }
    int first = 0;
    for (const int64_t n : {5, 8, 60, 64, 200, 256, 600})
      inputs_.push_back(Upload(n, first += 10000));
  }

  // What other code on the device does, until told to stop: nothing of it may fail.
  void Intrude(const std::atomic<bool>& stop) {
    const Driver& driver = device_.driver();
    ASSERT_OK(device_.context().MakeCurrent());
    COPPICE_ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(driver));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Event event, Event::Create(driver));
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                                 Session::Create(device_.context(), {}));
    const Sketched own = Draw(*session, {.name = "own", .steps = {Output()}});
    const auto fill = [&](const DeviceMemory& memory) {
      constexpr unsigned char kValue = 1;
      return driver.Call<&DriverTable::MemsetD8Async>(memory.address(), kValue, size_t{64},
                                                      stream.handle());
    };
    do {
      COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, DeviceMemory::Create(driver, kKiB));
      ASSERT_OK(stream.Synchronize());
      ASSERT_OK(event.Record(stream.handle()));
      ASSERT_OK(event.Synchronize());
      CuGraph graph = nullptr;
      ASSERT_OK(
          driver.Call<&DriverTable::StreamBeginCapture>(stream.handle(), CuCaptureMode::kGlobal));
      ASSERT_OK(fill(memory));
      std::this_thread::yield();
      ASSERT_OK(fill(memory));
      ASSERT_OK(driver.Call<&DriverTable::StreamEndCapture>(stream.handle(), &graph));
      ASSERT_OK(driver.Call<&DriverTable::GraphDestroy>(graph));
      ASSERT_OK(session->Evict(nullptr));
      for (int i = 0; i < 2; ++i) {
        ASSERT_OK(session->Run({.program = own.program,
                                .inputs = {&inputs_[0].tensor, 1},
                                .stream = stream.handle()}));
      }
      ASSERT_OK(stream.Synchronize());
    } while (!stop.load());
  }

  std::unique_ptr<Session> session_;
  std::vector<Sketched> programs_;
  std::vector<Input> inputs_;
  Exchange exchange_;
};

// With recordings inline, or in the background.
TEST_P(ThreadsTest, EveryOutputIsRightAndNobodyIsBroken) {
  Open({.record_in_background = GetParam()});
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < kThreads; ++i)
    workers.push_back(std::make_unique<Worker>(*this, i));
  std::atomic<bool> stop = false;
  std::thread intruder([&] { Intrude(stop); });
  RunThreads(kThreads,
             [&](int thread) { workers[static_cast<size_t>(thread)]->CallEveryProgram(); });
  stop.store(true);
  intruder.join();
  session_->WaitForRecordings();
  const SessionStats stats = session_->stats();
  EXPECT_GE(stats.calls, kThreads * kProgramCount * CallsPerProgram(GetParam()));
  EXPECT_EQ(stats.captures_retried, 0);
  EXPECT_EQ(stats.reasons[static_cast<size_t>(Reason::kNotCapturable)], 0);
  EXPECT_GT(stats.recordings, 0);
  EXPECT_GT(stats.runs[static_cast<size_t>(RunKind::kReplay)], 0);
  while (exchange_.Take()) {
  }
}

// Bindings that end while others run and warm them, and whose memory goes then, by themselves or
// with their program; graphs and memory of the session, which others take from under the calls.
class UnbindThreadsTest : public testing::TestWithParam<bool>, protected SketchDevice {
 protected:
  static constexpr int64_t kWeights = 64;
  static constexpr int kShakeEvery = 25;  // Rounds.

  struct Bound {
    const Program* program;
    const Binding* binding;
  };

  UnbindThreadsTest()
      : session_(MakeSession({.lanes = kLanes, .record_in_background = GetParam()})) {
    for (int lane = 0; lane < kLanes; ++lane)
      streams_.push_back(*Stream::Create(device_.driver()));
  }

  const Program* Register() {
    return Define(
               *session_,
               [this](CallContext& context) -> absl::Status {
                 COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
                 return AddOnto(context, context.input(0).data, context.input(1).data, y.data,
                                context.extent(0));
               },
               1,
               [](ProgramSpec& spec) {
                 spec.thread_safe = true;
                 spec.inputs.push_back(
                     {.name = "w", .dims = {Dim::Fixed(kWeights)}, .role = InputRole::kStatic});
               })
        .program;
  }

  // Calls with whatever is bound until told to stop: right, or refused because it ended.
  void Run(int lane, const std::atomic<bool>& stop) {
    ASSERT_OK(device_.context().MakeCurrent());
    const Stream& stream = streams_[static_cast<size_t>(lane)];
    const Values expected = Sum(x_.values, 5);
    while (!stop.load()) {
      const Bound& bound = *bound_.load();
      const absl::StatusOr<Lease> lease = session_->Run({.program = bound.program,
                                                         .binding = bound.binding,
                                                         .inputs = {&x_.tensor, 1},
                                                         .stream = stream.handle(),
                                                         .lane = lane});
      EXPECT_TRUE(lease.ok() || lease.status().code() == kRefused) << lease.status();
      if (!lease.ok() || suspending_.load()) {
        std::this_thread::yield();
        continue;
      }
      // The memory stays as long as the scope is open, but may have gone before.
      const absl::StatusOr<ReadScope> scope = lease->Read(stream.handle());
      EXPECT_TRUE(scope.ok() || scope.status().code() == kRefused) << scope.status();
      if (!scope.ok()) continue;
      EXPECT_EQ(DownloadOn(stream, scope->output(0)), expected);
      ++runs_;
    }
  }
  void Ask() {
    ++asked_;
    asked_.notify_one();
  }
  // Takes from the others what they run with, as often as it is asked for: graphs, idle memory, all
  // memory for a while.
  void Shake(const std::atomic<bool>& stop) {
    ASSERT_OK(device_.context().MakeCurrent());
    SessionMemory& memory = session_->memory();
    while (true) {
      asked_.wait(suspensions_.load());
      if (stop.load()) return;
      EXPECT_OK(session_->Evict(nullptr));
      EXPECT_OK(memory.Trim());
      // Refused while somebody reads, so nobody begins to.
      suspending_.store(true);
      absl::Status suspended;
      do {
        suspended = memory.Suspend({.drop_graphs = suspensions_.load() % 2 == 0});
        EXPECT_TRUE(suspended.ok() || suspended.code() == kRefused) << suspended;
      } while (!suspended.ok() && !HasFailure());
      suspending_.store(false);
      EXPECT_OK(memory.Resume());
      ++suspensions_;
    }
  }
  void Warm(const std::atomic<bool>& stop) {
    ASSERT_OK(device_.context().MakeCurrent());
    const std::vector<int64_t> buckets[] = {{32}, {64}};
    while (!stop.load()) {
      session_->WaitForRecordings();
      const Bound& bound = *bound_.load();
      const absl::StatusCode code =
          session_->warming().Warm(*bound.program, bound.binding, buckets, {}, {.lane = 1}).code();
      EXPECT_TRUE(code == absl::StatusCode::kOk || code == kRefused || code == kWrongArgument)
          << absl::StatusCodeToString(code);
    }
  }

  DeviceMemory BindAnew(const Program* program) {
    DeviceMemory memory = *device_.Upload(Values(kWeights, 5));
    const Tensor w = FloatsAt(memory.address(), kWeights);
    const absl::StatusOr<const Binding*> binding = session_->Bind(*program, {&w, 1});
    EXPECT_OK(binding);
    bindings_.push_back({.program = program, .binding = *binding});
    bound_.store(&bindings_.back());
    return memory;
  }

  std::vector<Stream> streams_;  // Of the lanes.
  const std::unique_ptr<Session> session_;
  const Input x_ = Upload(20, 100);
  std::deque<Bound> bindings_;  // Threads may hold any of them.
  std::atomic<const Bound*> bound_ = nullptr;
  std::atomic<int64_t> runs_ = 0;
  std::atomic<bool> suspending_ = false;
  std::atomic<int64_t> asked_ = 0;
  std::atomic<int64_t> suspensions_ = 0;
};

TEST_P(UnbindThreadsTest, MemoryMayGoOnceUnbindOrUnregisterReturnsWhateverElseGoesMeanwhile) {
  const Program* program = Register();
  std::optional<DeviceMemory> memory = BindAnew(program);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kLanes; ++lane)
    threads.emplace_back([this, lane, &stop] { Run(lane, stop); });
  threads.emplace_back([this, &stop] { Warm(stop); });
  threads.emplace_back([this, &stop] { Shake(stop); });
  const int rounds = std::max(5, 200 / static_cast<int>(TestShare()));
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const int64_t ran = runs_.load();
    if (round % kShakeEvery == 0) Ask();
    const int64_t asked = asked_.load();
    while ((runs_.load() < ran + 3 || suspensions_.load() < asked) && !HasFailure())
      std::this_thread::yield();
    if (round % 3 == 0) {
      EXPECT_OK(session_->Reset(*program));
    }
    if (round % 3 == 1) {
      EXPECT_OK(session_->Unregister(*program));
      program = Register();
    } else {
      EXPECT_OK(session_->Unbind(*bound_.load()->binding));
    }
    memory.reset();
    memory.emplace(BindAnew(program));
  }
  stop.store(true);
  Ask();
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_OK(session_->Unbind(*bound_.load()->binding));
  for (const NodeInfo& node : session_->nodes())
    EXPECT_FALSE(node.recorded);
  for (const Stream& stream : streams_)
    EXPECT_OK(stream.Synchronize());
  EXPECT_OK(session_->Unregister(*program));
  EXPECT_THAT(session_->nodes(), SizeIs(0));
  EXPECT_EQ(device_.emulator().live().execs, 0);
}

INSTANTIATE_TEST_SUITE_P(Recording,
                         UnbindThreadsTest,
                         testing::Bool(),
                         [](const auto& in_background) {
                           return std::string(in_background.param ? "InTheBackground" : "Inline");
                         });

// Two lanes whose recordings meet in the middle.
class MeetingTest : public testing::Test, protected SketchDevice {
 protected:
  struct Meeting {
    std::latch recording{2};
    std::latch over{1};
  };

  MeetingTest() {
    const Sketch sketch{.name = "met", .steps = {Temporary(), Output(), Free(0)}};
    met_ = {.session = session_.get(), .sketch = sketch};
    met_.program =
        *session_->Register(SpecOf(sketch), [this, sketch](CallContext& context) -> absl::Status {
          COPPICE_RETURN_IF_ERROR(RunSteps(context, sketch));
          if (context.phase() != Phase::kRecord || meeting_ == nullptr) return absl::OkStatus();
          meeting_->recording.count_down();
          meeting_->over.wait();
          return absl::OkStatus();
        });
    for (int lane = 0; lane < kLanes; ++lane)
      streams_.push_back(*Stream::Create(device_.driver()));
  }

  // Any thread whose context is current.
  void ExpectCall(const Sketched& program, const Input& x, int lane, RunKind path) {
    const Stream& stream = streams_[static_cast<size_t>(lane)];
    COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, RunSketch(program, x, [&](coppice::Call& call) {
                                   call.lane = lane;
                                   call.stream = stream.handle();
                                 }));
    EXPECT_EQ(made.lease.kind(), path) << "lane " << lane;
    EXPECT_EQ(DownloadOn(stream, made.outputs[0]), made.values[0]);
  }

  const std::unique_ptr<Session> session_ = MakeSession({.lanes = kLanes});
  Sketched met_;
  std::unique_ptr<Meeting> meeting_;  // Null: nobody waits.
  std::vector<Stream> streams_;
};

TEST_F(MeetingTest, AWaitForTheWholeContextCostsEachRecordingOneRetryAndNothingElse) {
  const Sketched plain = Draw(*session_, {.name = "plain", .steps = {Output()}});
  const Input small = Upload(3, 1);
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord})
    ExpectCall(plain, small, 2, path);
  int64_t retried = 0;
  for (int64_t n = 1; n <= Sketch::kLargest && !HasFailure(); n *= 2) {
    SCOPED_TRACE(testing::Message() << "bucket " << n);
    const Input x = Upload(n, static_cast<int>(1000 * n));
    for (const int lane : {0, 1})
      ExpectCall(met_, x, lane, RunKind::kWarmUp);
    meeting_ = std::make_unique<Meeting>();
    std::vector<std::thread> threads;
    for (const int lane : {0, 1}) {
      threads.emplace_back([&, lane] {
        ASSERT_OK(device_.context().MakeCurrent());
        ExpectCall(met_, x, lane, RunKind::kEager);
      });
    }
    meeting_->recording.wait();
    ExpectCall(plain, small, 2, RunKind::kReplay);
    EXPECT_EQ(device_.driver().table().CtxSynchronize(), CuResult::kStreamCaptureUnsupported);
    meeting_->over.count_down();
    for (std::thread& thread : threads)
      thread.join();
    meeting_.reset();
    retried += 2;
    const SessionStats stats = session_->stats();
    EXPECT_EQ(stats.captures_retried, retried);
    EXPECT_EQ(stats.reasons[static_cast<size_t>(Reason::kCaptureInvalidated)], retried);
    for (const RunKind path : {RunKind::kRecord, RunKind::kReplay}) {
      for (const int lane : {0, 1})
        ExpectCall(met_, x, lane, path);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(,
                         ThreadsTest,
                         testing::Bool(),
                         [](const testing::TestParamInfo<bool>& background) {
                           return background.param ? "InTheBackground" : "Inline";
                         });

}  // namespace
}  // namespace coppice
