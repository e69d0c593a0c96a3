// Goal: programs with breaks, with random state and with static inputs that move do what program.h
// and session.h say. Method: small programs on the emulator; values against the host, graphs and
// launches by the ledger.

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class PiecesTest : public SessionFixture {
 protected:
  // Affine whose hook is a step of host code between two graphs, which adds to `steps_`.
  Affine MakeBroken(int breaks, const SessionOptions& options = {}) {
    return MakeAffine(options, AffineCallable([this, breaks](CallContext& context) -> absl::Status {
                        for (int i = 0; i < breaks; ++i) {
                          COPPICE_RETURN_IF_ERROR(context.Break([this](CuStream stream) {
                            ++steps_;
                            return device_.driver().Call<&DriverTable::StreamSynchronize>(stream);
                          }));
                        }
                        return absl::OkStatus();
                      }));
  }

  int steps_ = 0;
};

TEST_F(PiecesTest, BreakRunsItsStepOncePerCallWhateverThePath) {
  const Affine affine = MakeBroken(1);
  int calls = 0;
  for (const RunKind path :
       {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
    ExpectRun(affine, 4, path);
    EXPECT_EQ(steps_, ++calls);
  }
  EXPECT_EQ(Call(affine, 70)->kind(), RunKind::kEager);
  EXPECT_EQ(steps_, 5);
  EXPECT_EQ(Executions(), 5);
}

TEST_F(PiecesTest, OneGraphMoreForEachBreak) {
  const Affine affine = MakeBroken(1);
  CallTimes(2, affine, 4);
  EXPECT_EQ(affine.session->nodes()[0].graphs, 2);
  EXPECT_EQ(affine.session->nodes()[0].graph_nodes, 3);
  const int64_t before = device_.ledger().calls(&DriverTable::GraphLaunch);
  ASSERT_OK(Call(affine, 4).status());
  EXPECT_EQ(device_.ledger().calls(&DriverTable::GraphLaunch) - before, 2);
}

TEST_F(PiecesTest, PieceWithoutWorkIsNotLaunched) {
  const Affine affine = MakeBroken(3);
  CallTimes(2, affine, 4);
  const int64_t before = device_.ledger().calls(&DriverTable::GraphLaunch);
  ASSERT_OK(Call(affine, 4).status());
  EXPECT_EQ(device_.ledger().calls(&DriverTable::GraphLaunch) - before, 2);
  EXPECT_EQ(steps_, 9);
}

TEST_F(PiecesTest, FailingStepIsTheCallsError) {
  bool fail = false;
  const Affine affine = MakeAffine({}, AffineCallable([&](CallContext& context) {
                                     return context.Break([&](CuStream) {
                                       return fail ? absl::DataLossError("step") : absl::OkStatus();
                                     });
                                   }));
  CallTimes(2, affine, 4);
  fail = true;
  EXPECT_THAT(Call(affine, 4), StatusIs(absl::StatusCode::kDataLoss));
  fail = false;
  EXPECT_EQ(Read(*Call(affine, 4)), Expected(4));
}

// y[i] = words[random word]: shows the random state that a call saw.
class RandomTest : public SessionFixture {
 protected:
  static constexpr int64_t kNumbers = 100;

  RandomTest() {
    ProgramSpec spec{.name = "random", .random_numbers_per_call = kNumbers};
    spec.outputs = {{.name = "state", .dtype = DType::kInt64, .dims = {Dim::Fixed(2)}}};
    session_ = MakeSession();
    program_ = *session_->Register(spec, [spec](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor state, context.AllocateOutput(0));
      return context.driver().Call<&DriverTable::MemcpyDtoDAsync>(
          state.data,
          context.parameters() + static_cast<DeviceAddress>(RandomWord(spec)) * sizeof(int64_t),
          2 * sizeof(int64_t), context.stream());
    });
  }

  std::vector<int64_t> Draw() {
    const absl::StatusOr<Lease> lease = session_->Run(
        {.program = program_, .inputs = {}, .scalars = {}, .stream = device_.stream()});
    EXPECT_OK(lease);
    const absl::StatusOr<ReadScope> scope = lease->Read(device_.stream());
    EXPECT_OK(scope);
    return device_.Download<int64_t>(scope->output(0).data, 2);
  }

  std::unique_ptr<Session> session_;
  const Program* program_ = nullptr;
};

TEST_F(RandomTest, SetSeedRestartsTheSequence) {
  for (int i = 0; i < 3; ++i)
    Draw();
  session_->SetSeed(42);
  EXPECT_EQ(Draw(), (std::vector<int64_t>{42, 0}));
  EXPECT_EQ(Draw(), (std::vector<int64_t>{42, kNumbers}));
}

class MovesTest : public SessionFixture {
 protected:
  // Affine with `one` at another address each time.
  absl::StatusOr<Lease> CallWithOneAt(const Affine& affine, DeviceAddress one) {
    const int64_t dims[] = {1};
    const Binding* binding = *affine.session->Bind(
        *affine.program,
        std::vector<Tensor>{Tensor::Dense(one, DType::kFloat32, dims),
                            Tensor::Dense(counter_.address(), DType::kFloat32, dims)});
    return Call(affine, 4, 2, [&](coppice::Call& call) { call.binding = binding; });
  }
};

TEST_F(MovesTest, MovedStaticInputIsRecordedAgainWithoutAWarmUpAndFoundAgain) {
  const Affine affine = MakeAffine();
  const DeviceMemory other = *device_.Upload(std::vector<float>{1});
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    EXPECT_EQ(CallWithOneAt(affine, one_.address())->kind(), path);
  const absl::StatusOr<Lease> moved = CallWithOneAt(affine, other.address());
  EXPECT_EQ(moved->kind(), RunKind::kRecord);
  EXPECT_EQ(moved->reason(), Reason::kStaticInputMoved);
  EXPECT_EQ(CallWithOneAt(affine, one_.address())->kind(), RunKind::kReplay);
  EXPECT_EQ(CallWithOneAt(affine, other.address())->kind(), RunKind::kReplay);
}

TEST_F(MovesTest, InputThatMovedInFourReRecordsIsCopiedFromThenOn) {
  std::vector<std::string> lines;
  const Affine affine =
      MakeAffine({.limits = {.static_moves_max = 4},
                  .log = [&](const std::string& line) { lines.push_back(line); }});
  std::vector<DeviceMemory> ones;
  std::vector<RunKind> paths;
  for (int i = 0; i < 10; ++i) {
    ones.push_back(*device_.Upload(std::vector<float>{1}));
    const absl::StatusOr<Lease> lease = CallWithOneAt(affine, ones.back().address());
    ASSERT_OK(lease);
    EXPECT_EQ(Read(*lease), Expected(4));
    paths.push_back(lease->kind());
  }
  using enum RunKind;
  // One warm-up, one recording, four re-records, one for the copied input; then only replays.
  EXPECT_THAT(paths, ElementsAre(kWarmUp, kRecord, kRecord, kRecord, kRecord, kRecord, kRecord,
                                 kReplay, kReplay, kReplay));
  EXPECT_EQ(affine.session->stats().inputs_demoted, 1);
  EXPECT_THAT(lines, testing::Contains(HasSubstr("'one'")));
  EXPECT_EQ(Executions(), 10);
}

TEST_F(MovesTest, InputThatIsWrittenIsNeverCopiedHoweverOftenItMoves) {
  const Affine affine = MakeAffine({.limits = {.static_moves_max = 0}});
  std::vector<DeviceMemory> counters;
  for (int i = 0; i < 6; ++i) {
    counters.push_back(*device_.Upload(std::vector<float>{0}));
    const Binding* binding =
        *affine.session->Bind(*affine.program, AffineStatics(counters.back().address()));
    ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.binding = binding; }));
    EXPECT_EQ(device_.Download<float>(counters.back().address(), 1)[0], 1);
  }
  EXPECT_EQ(affine.session->stats().inputs_demoted, 0);
}

TEST_F(MovesTest, EvictionDropsAnotherGraphThatNobodyLeases) {
  const Affine affine =
      MakeAffine({.limits = {.graphs_per_program_max = 2, .on_limit = OnLimit::kEvict}});
  for (const int64_t n : {4, 4, 8, 8, 16, 16, 16}) {
    const absl::StatusOr<Lease> lease = Call(affine, n);
    ASSERT_OK(lease);
    EXPECT_EQ(Read(*lease), Expected(n));
  }
  const SessionStats stats = affine.session->stats();
  EXPECT_EQ(stats.evictions, 1);
  EXPECT_EQ(stats.runs[static_cast<size_t>(RunKind::kReplay)], 1);
  // One of the first two went; what it is worth depends on what its recording took.
  const bool first = Call(affine, 4)->reason() == Reason::kEvicted;
  EXPECT_TRUE(first || Call(affine, 8)->reason() == Reason::kEvicted);
}

TEST_F(MovesTest, EvictDropsEveryGraphButThoseWithLeasedOutputs) {
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 8);
  ASSERT_OK(Call(affine, 4).status());
  const Lease kept = *Call(affine, 4);
  EXPECT_EQ(*affine.session->Evict(nullptr), 1);
  EXPECT_EQ(Read(kept), Expected(4));
  EXPECT_EQ(*affine.session->Evict(affine.program), 0);
}

}  // namespace
}  // namespace coppice
