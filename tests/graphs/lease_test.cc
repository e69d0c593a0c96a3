// Goal: leases and read scopes do what lease.h says: epochs, scopes, order between streams, and who
// owns which bytes. Method: the affine program on the emulator, which runs streams out of order.

#include "coppice/graphs/lease.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class LeaseTest : public SessionFixture {
 protected:
  // Affine with the bucket of 4 recorded.
  Affine Recorded() {
    Affine affine = MakeAffine();
    CallTimes(2, affine, 4);
    return affine;
  }

  // Options of a session in which each call drops `lease`, on another thread, as soon as it knows
  // where its inputs lie.
  static SessionOptions Dropping(Lease& lease, const MemoryOptions& memory = {}) {
    SessionOptions options{.stance = Stance::kEager, .memory = memory};
    options.ranks.vote = [&lease](RankVote&) {
      std::thread([&lease] { lease.Release(); }).join();
      return absl::OkStatus();
    };
    return options;
  }

  // The first output, for a call to read; needs its lease, no scope.
  Tensor At(const Lease& lease) {
    const absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? scope->output(0) : Tensor{};
  }
};

TEST_F(LeaseTest, DefaultLeaseHasNoOutputsAndCannotBeRead) {
  const Lease lease;
  EXPECT_EQ(lease.output_count(), 0);
  EXPECT_THAT(lease.Read(device_.stream()), StatusIs(kRefused));
}

TEST_F(LeaseTest, ReadingOnTheLegacyStreamIsRejected) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  EXPECT_THAT(lease.Read(nullptr), StatusIs(kWrongArgument));
}

TEST_F(LeaseTest, OutputIsAViewAtTheCallsRealExtents) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 3));
  EXPECT_EQ(lease.output_count(), 1);
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
  const Tensor y = scope.output(0);
  EXPECT_EQ(y.rank, 1);
  EXPECT_EQ(y.sizes[0], 3);
  EXPECT_EQ(y.strides[0], 1);
  const SessionMemory& memory = affine.session->memory();
  const DeviceAddress base = memory.window(0, MemoryKind::kPlan).base;
  EXPECT_GE(y.data, base);
  EXPECT_LT(y.data, base + static_cast<DeviceAddress>(memory.usage().height));
}

TEST_F(LeaseTest, StridesAreThoseOfThePaddedTensor) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec{.name = "columns", .claim = PaddingContents::kRowIndependent};
  const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(8));
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(n)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(2), Dim::Symbol(n)}}};
  const Program* program = *session->Register(
      spec, [](CallContext& context) { return context.AllocateOutput(0).status(); });
  const DeviceMemory memory = *device_.Upload(Ramp(3));
  const Tensor x = FloatsAt(memory.address(), 3);
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Lease lease,
      session->Run({.program = program, .inputs = {&x, 1}, .stream = device_.stream()}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
  EXPECT_EQ(scope.output(0).sizes[1], 3);
  EXPECT_EQ(scope.output(0).strides[0], 4);
  EXPECT_DEATH(scope.output(1), "no such output");
}

TEST_F(LeaseTest, ReadingAfterALaterCallOnTheLaneIsAnError) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  EXPECT_EQ(Read(lease), Expected(4));
  ASSERT_OK(Call(affine, 4).status());
  EXPECT_THAT(lease.Read(device_.stream()), StatusIs(kRefused, HasSubstr("affine")));
}

TEST_F(LeaseTest, EagerOutputsOutliveLaterCalls) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease eager, Call(affine, 70));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease warm, Call(affine, 30));
  CallTimes(3, affine, 4);
  EXPECT_EQ(Read(eager), Expected(70));
  EXPECT_EQ(Read(warm), Expected(30));
}

TEST_F(LeaseTest, DroppingAnEagerLeaseFreesItsBytes) {
  const Affine affine = MakeAffine();
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 70));
    EXPECT_GT(affine.session->memory().usage().eager_live, 0);
  }
  EXPECT_EQ(affine.session->memory().usage().eager_live, 0);
}

TEST_F(LeaseTest, ReleaseEmptiesTheLease) {
  const Affine affine = MakeAffine();
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 70));
  lease.Release();
  EXPECT_EQ(lease.output_count(), 0);
  EXPECT_EQ(affine.session->memory().usage().eager_live, 0);
  lease.Release();
}

TEST_F(LeaseTest, MovingALeaseMovesTheRight) {
  const Affine affine = MakeAffine();
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, Call(affine, 70));
  Lease other = std::move(lease);
  EXPECT_EQ(Read(other), Expected(70));
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease third, Call(affine, 66));
  other = std::move(third);
  EXPECT_EQ(Read(other), Expected(66));
  other.Release();
  EXPECT_EQ(affine.session->memory().usage().eager_live, 0);
}

TEST_F(LeaseTest, OpenScopeRefusesTheCallThatWouldReuseTheBytes) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    EXPECT_THAT(Call(affine, 4), StatusIs(kRefused));
    EXPECT_OK(Call(affine, 70).status()) << "an eager run reuses nothing";
    EXPECT_EQ(device_.Download<float>(scope.output(0).data, 4), Expected(4));
  }
  EXPECT_OK(Call(affine, 4).status());
}

TEST_F(LeaseTest, OpenScopeOfAnEagerRunRefusesNothing) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 70));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
  EXPECT_OK(Call(affine, 4).status());
  EXPECT_EQ(device_.Download<float>(scope.output(0).data, 70), Expected(70));
}

TEST_F(LeaseTest, ScopeMovedFromEndsNothing) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  COPPICE_ASSERT_OK_AND_ASSIGN(ReadScope scope, lease.Read(device_.stream()));
  {
    const ReadScope other = std::move(scope);
    EXPECT_THAT(Call(affine, 4), StatusIs(kRefused));
  }
  EXPECT_OK(Call(affine, 4).status());
}

TEST_F(LeaseTest, ReadingOnAnotherStreamIsOrderedAfterTheCallAndBeforeTheNext) {
  const Affine affine = Recorded();
  const Stream reader = *Stream::Create(device_.driver());
  const DeviceMemory copy = *device_.Upload(std::vector<float>(4));
  for (int round = 1; round <= 20; ++round) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
    {
      COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(reader.handle()));
      ASSERT_OK(device_.driver().Call<&DriverTable::MemcpyDtoDAsync>(
          copy.address(), scope.output(0).data, size_t{16}, reader.handle()));
    }
    // Other values in the same bytes, on the lane's stream: they must wait for the reader.
    uploads_.push_back(*device_.Upload(std::vector<float>{9, 9, 9, 9}));
    ASSERT_OK(Call(affine, 4, 2, [&](coppice::Call& call) {
                static Tensor x;
                x = call.inputs[0];
                x.data = uploads_[uploads_.size() - 2].address();
                call.inputs = {&x, 1};
              }).status());
    ASSERT_OK(device_.Synchronize());
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(device_.Download<float>(copy.address(), 4), Expected(4)) << "round " << round;
  }
}

TEST_F(LeaseTest, ReadingOnTheLanesStreamCostsNoDriverCall) {
  const Affine affine = Recorded();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  const int64_t before = device_.ledger().calls();
  { COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream())); }
  EXPECT_EQ(device_.ledger().calls(), before);
}

TEST_F(LeaseTest, ReadingOnAnotherStreamCostsFourDriverCalls) {
  const Affine affine = Recorded();
  const Stream reader = *Stream::Create(device_.driver());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 4));
  const int64_t before = device_.ledger().calls();
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(reader.handle()));
  EXPECT_EQ(device_.ledger().calls() - before, 4);
}

// The last element of the first output of 64 after a call of 1, which is too small to reach it.
TEST_F(LeaseTest, ExpiredOutputsArePoisonedIfAskedFor) {
  for (const bool poisons : {false, true}) {
    const Affine affine = MakeAffine({.checks = {.fill_expired = poisons}});
    for (const int64_t n : {1, 1, 64, 64})
      ASSERT_OK(Call(affine, n));
    DeviceAddress last = 0;
    {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 64));
      COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
      last = scope.output(0).data + 63 * sizeof(float);
    }
    const std::vector<float> made = device_.Download<float>(last, 1);
    EXPECT_EQ(made[0], Expected(64)[63]);
    ExpectRun(affine, 1, RunKind::kReplay);
    const std::vector<uint32_t> left = device_.Download<uint32_t>(last, 1);
    EXPECT_EQ(left[0], poisons ? 0xCBCBCBCB : std::bit_cast<uint32_t>(made[0]));
  }
}

TEST_F(LeaseTest, ExpiredOutputsMayBeInputsOfTheCallThatExpiresThem) {
  const Affine affine = MakeAffine({.checks = {.fill_expired = true}});
  CallTimes(2, affine, 4);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease first, Call(affine, 4));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::optional<ReadScope> scope, first.Read(device_.stream()));
  const Tensor y = scope->output(0);
  scope.reset();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second, Call(affine, 4, 2, [&](coppice::Call& call) {
                                 call.inputs = {&y, 1};
                               }));
  EXPECT_EQ(Read(second), (std::vector<float>{9, 18, 27, 36}));
}

TEST_F(LeaseTest, DroppedDuringACallItKeepsWhatThatReadsAndWritesBack) {
  ProgramSpec spec = AffineSpec();
  spec.inputs[0].mutated = true;
  Lease first;
  const Affine affine = MakeAffine(Dropping(first), nullptr, std::move(spec));
  COPPICE_ASSERT_OK_AND_ASSIGN(first, Call(affine, 4));
  const Tensor y = At(first);
  // An output in the bytes of the input would get what is copied back there.
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease second, Call(affine, 4, 2, [&](coppice::Call& call) {
                                 call.inputs = {&y, 1};
                               }));
  EXPECT_EQ(first.output_count(), 0);
  EXPECT_EQ(Read(second), (std::vector<float>{9, 18, 27, 36}));
  EXPECT_EQ(affine.session->memory().usage().eager_live, kBufferAlignment);
}

TEST_F(LeaseTest, DroppedDuringACallItMakesNoRoomForThat) {
  constexpr int64_t kStagedBytes = 2 * kMiB;
  Lease first;
  // The first call leaves a granule staged and one of outputs; the second stages two more.
  const Affine affine = MakeAffine(Dropping(first, {.budget_bytes = 3 * kStagedBytes}));
  ProgramSpec spec = AffineSpec("wide");
  const int64_t more_count = 2 * kStagedBytes / static_cast<int64_t>(sizeof(float));
  spec.inputs.push_back({.name = "more", .dims = {Dim::Fixed(more_count)}});
  const Program* wide = *affine.session->Register(std::move(spec), AffineCallable());
  const Binding* binding = *affine.session->Bind(*wide, AffineStatics(counter_.address()));
  const DeviceMemory more = *device_.Upload(std::vector<float>(static_cast<size_t>(more_count)));
  COPPICE_ASSERT_OK_AND_ASSIGN(first, Call(affine, 4));
  const Tensor inputs[] = {
      At(first), Tensor::Dense(more.address(), DType::kFloat32, std::vector<int64_t>{more_count})};
  const auto run = [&] {
    return Call(affine, 4, 2, [&](coppice::Call& call) {
      call.program = wide;
      call.binding = binding;
      call.inputs = inputs;
    });
  };
  EXPECT_THAT(run(), StatusIs(kExhausted));
  EXPECT_EQ(first.output_count(), 0);
  EXPECT_OK(device_.Synchronize());
  ExpectRun(affine, 4, RunKind::kEager);
}

TEST_F(LeaseTest, MayOutliveItsSessionButNotBeRead) {
  Affine affine = MakeAffine();
  Lease eager = *Call(affine, 70);
  Lease borrowed;
  for (int i = 0; i < 3; ++i)
    borrowed = *Call(affine, 4);
  affine.session.reset();
  EXPECT_EQ(eager.output_count(), 0);
  EXPECT_THAT(eager.Read(device_.stream()).status(), StatusIs(kRefused));
  EXPECT_THAT(borrowed.Read(device_.stream()).status(), StatusIs(kRefused));
}

}  // namespace
}  // namespace coppice
