// Goal: what program.h says of JointSpec, and what sessions then do with two symbols: pad, refuse,
// explain, warm, keep profiles. Method: a program of a batch and a length that doubles its input,
// on the emulator; buckets are read from nodes() and explanations, and compared with
// JointPolicy::Find, also for policies and sizes that are drawn.

#include "fmt/ranges.h"

#include "coppice/graphs/program.h"

#include "tests/graphs/extents_fixture.h"
#include "tests/package/package_builder.h"

namespace coppice {
namespace {

using absl::StatusCode;

// As the header's example, with a limit above both of its buckets.
constexpr char kBuckets[] = "1x512,4x128";
constexpr JointSize kLimit = {8, 512};
// The bucket at the limit is in the list, asked for or not.
const std::vector<Sizes> all_buckets = {{1, 512}, {4, 128}, {8, 512}};

class JointSymbolsTest : public ExtentsFixture {
 protected:
  static JointPolicy PolicyOf(const std::string& text, JointSize limit = kLimit) {
    return *JointPolicy::Parse(text, limit);
  }

  // x [batch, length] gives 2*x.
  static ProgramSpec PairSpec(JointPolicy policy, std::string name = "pair") {
    ProgramSpec spec{.name = std::move(name), .claim = PaddingContents::kRowIndependent};
    const std::pair<int, int> symbols = spec.AddJoint("batch", "length", std::move(policy));
    const Dims dims = {Dim::Symbol(symbols.first), Dim::Symbol(symbols.second)};
    spec.inputs = {{.name = "x", .dims = dims}};
    spec.outputs = {{.name = "y", .dims = dims}};
    return spec;
  }
  static ProgramSpec PairSpec(const std::string& text = kBuckets) {
    return PairSpec(PolicyOf(text));
  }

  static void ExpectInvalid(const std::function<void(ProgramSpec&)>& change,
                            const std::string& words) {
    ProgramSpec spec = PairSpec();
    change(spec);
    const absl::Status status = ValidateSpec(spec);
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument)) << words;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("pair"), HasSubstr(words)));
  }

  // Runs a call of this size, and expects its values.
  Lease Serve(int64_t batch, int64_t length, const Beside& beside = {}) {
    absl::StatusOr<Lease> lease = Run({{batch, length}}, beside);
    EXPECT_OK(lease);
    if (!lease.ok()) return Lease();
    EXPECT_EQ(last_.kind, lease->kind()) << last_.text;
    ExpectOutputs(*lease, {{batch, length}});
    return *std::move(lease);
  }
  void ExpectBucket(int64_t batch, int64_t length, const Sizes& bucket) {
    const Lease lease = Serve(batch, length);
    EXPECT_NE(lease.kind(), RunKind::kEager) << last_.text;
    EXPECT_THAT(last_.text, HasSubstr(fmt::format("in bucket [{}]", fmt::join(bucket, ", "))));
  }
  void ExpectEager(int64_t batch, int64_t length, Reason reason) {
    const Lease lease = Serve(batch, length);
    EXPECT_EQ(lease.kind(), RunKind::kEager) << batch << " x " << length;
    EXPECT_EQ(lease.reason(), reason) << batch << " x " << length;
    EXPECT_EQ(last_.reason, reason) << last_.text;
  }

  absl::Status Warm(const std::vector<Sizes>& buckets, int lane = 0) {
    return session_->warming().Warm(*program_, nullptr, buckets, {}, {.lane = lane});
  }
};

TEST_F(JointSymbolsTest, ASpecSaysWhichPolicyASymbolIsIn) {
  ProgramSpec spec = PairSpec();
  const int other = spec.AddSymbol("other", *PaddingPolicy::Pow2(8));
  EXPECT_EQ(spec.JointOf(0), spec.joint.data());
  EXPECT_EQ(spec.JointOf(1), spec.joint.data());
  EXPECT_EQ(spec.JointOf(other), nullptr);
  const Sizes extents = {3, 100, 5};
  EXPECT_EQ(spec.joint[0].SizeIn(extents), (JointSize{3, 100}));
  std::swap(spec.joint[0].a, spec.joint[0].b);
  EXPECT_EQ(spec.joint[0].SizeIn(extents), (JointSize{100, 3}));
}

TEST_F(JointSymbolsTest, SymbolsOfAJointPolicyArePadded) {
  ProgramSpec spec = PairSpec();
  EXPECT_TRUE(MayPad(spec, 0));
  EXPECT_TRUE(MayPad(spec, 1));
  spec.symbols[1].claim = PaddingClaim{.equal = {.bits = false, .absolute = 0.5}};
  EXPECT_EQ(EqualityOf(spec).absolute, 0.5);
}

TEST_F(JointSymbolsTest, ACallableSeesTheExtentsOfTheBucket) {
  std::vector<Sizes> seen;
  Open(PairSpec(), {}, DoubleAll([&seen](CallContext& context) {
         seen.push_back({context.extent(0), context.extent(1)});
         return absl::OkStatus();
       }));
  ExpectBucket(3, 100, {4, 128});
  ExpectEager(9, 100, Reason::kOverLargestBucket);
  EXPECT_THAT(seen, ElementsAre(Sizes{4, 128}, Sizes{9, 100}));
}

TEST_F(JointSymbolsTest, ExtentZeroIsInTheSmallestBucket) {
  Open(PairSpec());
  const Sizes none = {0, 5};
  const absl::StatusOr<Lease> lease = RunOn({Tensor::Dense(0, DType::kFloat32, none)});
  ASSERT_OK(lease);
  EXPECT_THAT(last_.text, HasSubstr("in bucket [1, 512]"));
  ExpectOutputs(*lease, {none});
}

TEST_F(JointSymbolsTest, MaybeDynamicSymbolsArePaddedToo) {
  ProgramSpec spec = PairSpec();
  spec.symbols[0].kind = spec.symbols[1].kind = SymbolKind::kMaybeDynamic;
  Open(std::move(spec));
  ExpectBucket(3, 100, {4, 128});
}

TEST_F(JointSymbolsTest, TheFirstExtentOfABucketIsThatOfSymbolA) {
  ProgramSpec spec = PairSpec(PolicyOf("128x4,512x1", {512, 8}));
  std::swap(spec.joint[0].a, spec.joint[0].b);
  std::swap(spec.symbols[0].policy, spec.symbols[1].policy);
  Open(std::move(spec));
  ExpectBucket(3, 100, {4, 128});
  EXPECT_THAT(Buckets(), ElementsAre(Sizes{4, 128}));
}

TEST_F(JointSymbolsTest, EitherSymbolMakesASizeBeyondAnError) {
  for (const size_t symbol : {size_t{0}, size_t{1}}) {
    const JointPolicy policy = PolicyOf("pow2/pow2/budget:1024");
    ProgramSpec spec = PairSpec(*policy.WithGuard({.max_ratio = 1.5}));
    spec.symbols[symbol].over_maximum = OverMaximum::kError;
    Open(std::move(spec));
    ExpectBucket(8, 128, {8, 128});
    for (const Sizes& beyond : std::vector<Sizes>{{8, 129}, {9, 2}, {1, 513}}) {
      const absl::Status status = Run({beyond}).status();
      EXPECT_THAT(status, StatusIs(StatusCode::kOutOfRange,
                                   HasSubstr(fmt::format("batch = {}, length = {} fit no bucket of "
                                                         "pow2/pow2/budget:1024",
                                                         beyond[0], beyond[1]))));
      EXPECT_EQ(MessageOf(last_.status), AsExplained(MessageOf(status)));
    }
    ExpectEager(5, 65, Reason::kPaddedTooMuch);
  }
}

// Buckets, a rule and a guard, all drawn, up to 8x64.
JointPolicy DrawPolicy(std::mt19937_64& random) {
  const auto draw = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  constexpr JointSize kMost = {8, 64};
  const std::string rule = draw(0, 1) == 0 ? "" : fmt::format("/budget:{}", draw(128, 512));
  std::string text = draw(0, 1) == 0 ? "pow2/linear:16" : "1,3,8/pow2";
  if (draw(0, 2) > 0) {
    text = draw(0, 1) == 0 ? "" : "ordered:";
    for (int64_t i = 0, count = draw(1, 12); i < count; ++i)
      text += fmt::format("{}{}x{}", i == 0 ? "" : ",", draw(1, 8), draw(1, 16));
  }
  const JointPolicy policy = *JointPolicy::Parse(text + rule, kMost);
  if (draw(0, 1) == 0) return policy;
  return *policy.WithGuard(
      {.max_ratio = static_cast<double>(draw(2, 6)) / 2, .min_replay_elements = draw(0, 64)});
}

TEST_F(JointSymbolsTest, CallsGoToTheBucketThatThePolicyFinds) {
  std::mt19937_64 random(TestSeed());
  const int policies = static_cast<int>(std::max<int64_t>(2, 12 / TestShare()));
  for (int i = 0; i < policies; ++i) {
    const JointPolicy policy = DrawPolicy(random);
    SCOPED_TRACE(testing::Message() << policy.name() << ", guard " << policy.guard().max_ratio);
    Open(PairSpec(policy));
    for (int call = 0; call < 25; ++call) {
      const int64_t batch = std::uniform_int_distribution<int64_t>(1, 9)(random);
      const int64_t length = std::uniform_int_distribution<int64_t>(1, 66)(random);
      const std::optional<JointSize> bucket = policy.Find(batch, length);
      if (bucket) {
        ExpectBucket(batch, length, {bucket->a, bucket->b});
      } else {
        ExpectEager(batch, length,
                    policy.WhyNone(batch, length) == NoBucket::kBeyondMaximum
                        ? Reason::kOverLargestBucket
                        : Reason::kPaddedTooMuch);
      }
    }
  }
}

TEST_F(JointSymbolsTest, AJointPolicyNamesTwoSymbolsThatThereAre) {
  for (const auto& [a, b] : std::vector<std::pair<int, int>>{{0, 2}, {2, 1}, {-1, 1}, {0, -1}}) {
    ExpectInvalid(
        [a = a, b = b](ProgramSpec& spec) {
          spec.joint[0].a = a;
          spec.joint[0].b = b;
        },
        fmt::format("joint[0] pads symbols {} and {}, but the program has 2", a, b));
  }
  ExpectInvalid([](ProgramSpec& spec) { spec.joint[0].b = 0; }, "joint[0] pads symbols 0 and 0");
}

TEST_F(JointSymbolsTest, ASymbolIsInOneJointPolicy) {
  ExpectInvalid(
      [](ProgramSpec& spec) {
        const int other = spec.AddSymbol("other", *PaddingPolicy::Exact(8));
        spec.inputs[0].dims.push_back(Dim::Symbol(other));
        spec.joint.push_back({.a = other, .b = 1, .policy = PolicyOf(kBuckets)});
      },
      "symbol length is in two joint policies");
}

TEST_F(JointSymbolsTest, ASymbolOfAJointPolicyHasNoLadderOfItsOwn) {
  const auto with = [](const PaddingPolicy& policy) {
    return [policy](ProgramSpec& spec) { spec.symbols[1].policy = policy; };
  };
  ExpectInvalid(with(*PaddingPolicy::Pow2(512)),
                "symbol length is in a joint policy, but has its own policy pow2 up to 512");
  ExpectInvalid(with(*PaddingPolicy::Exact(511)), "give it exact up to 512");
}

TEST_F(JointSymbolsTest, ASymbolOfAJointPolicyIsDynamic) {
  for (const SymbolKind kind : {SymbolKind::kStatic, SymbolKind::kAuto})
    ExpectInvalid([kind](ProgramSpec& spec) { spec.symbols[0].kind = kind; },
                  "symbol batch is in a joint policy, but is static");
}

TEST_F(JointSymbolsTest, BothSymbolsHaveAClaim) {
  for (const size_t claimed : {size_t{0}, size_t{1}}) {
    ExpectInvalid(
        [claimed](ProgramSpec& spec) {
          spec.claim = std::nullopt;
          spec.symbols[claimed].claim = PaddingClaim{.padding = PaddingContents::kAny};
        },
        fmt::format("symbol {} is in a joint policy, but has no claim",
                    claimed == 0 ? "length" : "batch"));
  }
  ProgramSpec spec = PairSpec();
  spec.claim = std::nullopt;
  spec.symbols[0].claim = spec.symbols[1].claim = PaddingClaim{.padding = PaddingContents::kAny};
  EXPECT_OK(ValidateSpec(spec));
}

TEST_F(JointSymbolsTest, WhatAJointPolicyDoesNotHeedIsRefused) {
  ExpectInvalid([](ProgramSpec& spec) { spec.symbols[0].counted = true; }, "counted");
  ExpectInvalid([](ProgramSpec& spec) { spec.symbols[1].exclude_01 = true; }, "excludes 0 and 1");
  ExpectInvalid([](ProgramSpec& spec) { spec.symbols[0].observe_half_life = 10; }, "observed");
}

TEST_F(JointSymbolsTest, BucketsOfBothAreWithinTheBoundsOfEach) {
  for (const char* buckets : {kBuckets, "pow2/pow2"}) {
    ProgramSpec spec = PairSpec(buckets);
    spec.symbols[1].max = 511;
    EXPECT_THAT(ValidateSpec(spec), StatusIs(StatusCode::kInvalidArgument));
    spec = PairSpec(buckets);
    spec.symbols[0].multiple_of = 3;
    EXPECT_THAT(ValidateSpec(spec), StatusIs(StatusCode::kInvalidArgument));
    spec = PairSpec(buckets);
    spec.symbols[0].multiple_of = 4;
    spec.symbols[0].min = 4;  // Nothing is padded to a batch below.
    EXPECT_OK(ValidateSpec(spec));
  }
}

TEST_F(JointSymbolsTest, OtherSymbolsKeepTheirLadders) {
  ProgramSpec spec = PairSpec();
  const int other = spec.AddSymbol("other", *PaddingPolicy::Pow2(16));
  spec.symbols[2].observe_half_life = 100;
  spec.inputs.push_back({.name = "w", .dims = {Dim::Symbol(other)}});
  spec.outputs.push_back({.name = "z", .dims = {Dim::Symbol(other)}});
  Open(std::move(spec));
  ExpectCall(RunKind::kWarmUp, {{3, 100}, {5}}, {{3, 100}, {5}});
  EXPECT_THAT(Buckets(), ElementsAre(Sizes{4, 128, 8}));
  ExpectCall(RunKind::kEager, {{3, 100}, {17}}, {{3, 100}, {17}});
  EXPECT_THAT(last_.text, HasSubstr("over_largest_bucket: other = 17 (at most 16)"));
  ExpectCall(RunKind::kEager, {{9, 100}, {17}}, {{9, 100}, {17}});
  EXPECT_THAT(last_.text,
              HasSubstr("other = 17 (at most 16), batch = 9, length = 100 fit no bucket"));
  ASSERT_OK(session_->policies().SetPolicy(*program_, other, *PaddingPolicy::Linear(8, 16)));
  EXPECT_EQ(session_->policies().GetPolicy(*program_, other)->name(), "linear:8");
  EXPECT_THAT(*session_->policies().GetObserved(*program_, other), HasSubstr("\"beyond\": 2"));
  ExpectCall(RunKind::kRecord, {{3, 100}, {5}}, {{3, 100}, {5}});
}

TEST_F(JointSymbolsTest, TwoPairsArePaddedEachByItsPolicy) {
  ProgramSpec spec = PairSpec();
  const std::pair<int, int> more = spec.AddJoint("rows", "columns", PolicyOf("2x4,1x8", {2, 8}));
  const Dims dims = {Dim::Symbol(more.first), Dim::Symbol(more.second)};
  spec.inputs.push_back({.name = "w", .dims = dims});
  spec.outputs.push_back({.name = "z", .dims = dims});
  Open(std::move(spec));
  ExpectCall(RunKind::kWarmUp, {{3, 100}, {1, 5}}, {{3, 100}, {1, 5}});
  ExpectCall(RunKind::kWarmUp, {{3, 100}, {2, 3}}, {{3, 100}, {2, 3}});
  EXPECT_THAT(Buckets(), UnorderedElementsAre(Sizes{4, 128, 1, 8}, Sizes{4, 128, 2, 4}));
}

TEST_F(JointSymbolsTest, GivenAndBoundExtentsArePaddedJointly) {
  for (const bool given : {true, false}) {
    ProgramSpec spec = PairSpec();
    for (Dims* dims : {&spec.inputs[0].dims, &spec.outputs[0].dims})
      *dims = {Dim::Symbol(0)};
    spec.outputs.push_back({.name = "of_length", .dims = {Dim::Symbol(1)}});
    spec.symbols[1].given = given;
    if (!given) {
      spec.scalars = {{.name = "k"}};
      spec.symbols[1].scalar = 0;
    }
    Open(std::move(spec));
    const auto expect = [&](RunKind kind, int64_t batch, int64_t length) {
      Beside beside;
      (given ? beside.extents : beside.scalars) = {length};
      ExpectCall(kind, {{batch}}, {{batch}, {length}}, beside);
    };
    expect(RunKind::kWarmUp, 3, 100);
    expect(RunKind::kRecord, 2, 128);
    expect(RunKind::kReplay, 4, 1);
    expect(RunKind::kEager, 4, 513);
    EXPECT_THAT(Buckets(), ElementsAre(Sizes{4, 128}));
  }
}

TEST_F(JointSymbolsTest, ExpressionsArePaddedToWhatTheyAreInTheBucket) {
  ProgramSpec spec = PairSpec();
  const Dim tokens = spec.AddExtent("batch * length");
  spec.inputs.push_back({.name = "tokens", .dims = {tokens}});
  spec.outputs.push_back({.name = "z", .dims = {tokens}});
  Open(std::move(spec));
  ExpectCall(RunKind::kWarmUp, {{3, 100}, {300}}, {{3, 100}, {300}});
  ExpectCall(RunKind::kRecord, {{4, 2}, {8}}, {{4, 2}, {8}});
  ExpectCall(RunKind::kEager, {{9, 2}, {18}}, {{9, 2}, {18}});
  EXPECT_THAT(Buckets(), ElementsAre(Sizes{4, 128}));
}

TEST_F(JointSymbolsTest, GuardsSeeTheRealExtentsOfBoth) {
  ProgramSpec spec = PairSpec();
  spec.guards = {"batch * length <= 300"};
  Open(std::move(spec));
  ExpectBucket(3, 100, {4, 128});
  EXPECT_THAT(Run({{3, 101}}), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(JointSymbolsTest, ExplainCountsTheBucketsOfALongList) {
  std::string text;
  for (int64_t batch = 1; batch <= 30; ++batch)
    text += fmt::format("{}{}x{}", batch == 1 ? "" : ",", batch, 301 - batch * 10);
  Open(PairSpec(PolicyOf(text, {30, 300})));
  ExpectEager(31, 5, Reason::kOverLargestBucket);
  EXPECT_THAT(last_.text, HasSubstr("batch = 31, length = 5 fit no bucket of the 31 up to 30x300"));
}

TEST_F(JointSymbolsTest, ExplainSaysWhatAGuardRefusedAndStrictWhatHelps) {
  Open(PairSpec(*PolicyOf(kBuckets).WithGuard({.max_ratio = 2})));
  ExpectEager(3, 512, Reason::kPaddedTooMuch);
  EXPECT_THAT(last_.text, HasSubstr("padded_too_much: batch = 3, length = 512 in a bucket of 8x512,"
                                    " which the policy's guard refuses"));
  session_->SetStance(Stance::kStrict);
  EXPECT_THAT(Run({{3, 512}}), StatusIs(StatusCode::kFailedPrecondition,
                                        HasSubstr("a smaller bucket or a wider guard")));
  EXPECT_THAT(Run({{9, 1}}), StatusIs(StatusCode::kFailedPrecondition,
                                      HasSubstr("give the policy larger buckets")));
}

TEST_F(JointSymbolsTest, WarmRecordsTheBucketsThatAreListed) {
  Open(PairSpec());
  std::vector<Sizes> listed;
  for (const JointSize& bucket : session_->SpecOf(*program_).joint[0].policy.buckets())
    listed.push_back({bucket.a, bucket.b});
  EXPECT_EQ(listed, all_buckets);
  ASSERT_OK(Warm(listed));
  EXPECT_THAT(Buckets(), testing::UnorderedElementsAreArray(all_buckets));
  session_->SetStance(Stance::kStrict);
  for (const Sizes& size : std::vector<Sizes>{{3, 100}, {1, 300}, {8, 512}, {1, 1}})
    EXPECT_EQ(Serve(size[0], size[1]).kind(), RunKind::kReplay) << last_.text;
}

TEST_F(JointSymbolsTest, WarmRefusesTwoExtentsThatAreNoBucketTogether) {
  Open(PairSpec());
  for (const Sizes& none :
       std::vector<Sizes>{{4, 512}, {1, 128}, {8, 128}, {3, 100}, {0, 128}, {4}, {9, 512}}) {
    EXPECT_THAT(Warm({none}), StatusIs(StatusCode::kInvalidArgument,
                                       HasSubstr("which is not a bucket of program 'pair'")));
  }
  EXPECT_THAT(session_->nodes(), IsEmpty());
}

TEST_F(JointSymbolsTest, AChainIsWarmedForWhateverIsInItsBucket) {
  // Zeros must lie in the padding, so that an output below its bucket is staged.
  Open(PairSpec("1x512,4x128,3x127"));
  const WarmStep first{.program = program_, .bucket = {4, 128}};
  WarmStep again = first;
  again.feeds = {{.input = 0, .step = 0, .output = 0}};
  const std::vector<WarmStep> chain = {first, again};
  ASSERT_OK(session_->warming().Warm(chain, {}));
  session_->SetStance(Stance::kStrict);
  for (const Sizes& size : std::vector<Sizes>{{4, 128}, {3, 128}, {4, 100}}) {
    const Lease lease = Serve(size[0], size[1]);
    EXPECT_EQ(lease.kind(), RunKind::kReplay);
    const absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    ASSERT_OK(scope);
    const absl::StatusOr<Lease> next = RunOn({scope->output(0)});
    ASSERT_OK(next) << size[0] << " x " << size[1];
    EXPECT_EQ(next->kind(), RunKind::kReplay);
  }
}

TEST_F(JointSymbolsTest, ThePolicyStaysAsItWasRegistered) {
  Open(PairSpec());
  for (const int symbol : {0, 1}) {
    const std::vector<absl::Status> refused = {
        session_->policies().GetPolicy(*program_, symbol).status(),
        session_->policies().SetPolicy(*program_, symbol, *PaddingPolicy::Pow2(512)),
        session_->policies().Rebucket(*program_, symbol, {}).status(),
        session_->policies().GetObserved(*program_, symbol).status(),
        session_->policies().SetObserved(*program_, symbol, "{}")};
    for (const absl::Status& status : refused) {
      EXPECT_THAT(
          status,
          StatusIs(
              StatusCode::kInvalidArgument,
              HasSubstr("symbols 'batch' and 'length' of program 'pair' are padded together")));
    }
  }
}

TEST_F(JointSymbolsTest, AProfileRecordsTheBucketsAgain) {
  const package::TemporaryFolder folder;
  const std::string path = folder / "pair.profile";
  Open(PairSpec());
  for (int call = 0; call < 3; ++call) {
    ExpectBucket(3, 100, {4, 128});
    ExpectBucket(1, 300, {1, 512});
  }
  ASSERT_OK(session_->warming().SaveProfile(path));
  Open(PairSpec());
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded,
                               session_->warming().LoadProfile(path, {}));
  EXPECT_EQ(loaded.recorded, 2);
  EXPECT_THAT(loaded.skipped, IsEmpty());
  EXPECT_THAT(Buckets(), UnorderedElementsAre(Sizes{4, 128}, Sizes{1, 512}));
  session_->SetStance(Stance::kStrict);
  EXPECT_EQ(Serve(2, 128).kind(), RunKind::kReplay);
}

TEST_F(JointSymbolsTest, BucketsOfAProfileThatThePolicyLacksAreLeftOut) {
  const package::TemporaryFolder folder;
  const std::string path = folder / "pair.profile";
  Open(PairSpec());
  for (int call = 0; call < 2; ++call) {
    ExpectBucket(3, 100, {4, 128});
    ExpectBucket(8, 512, {8, 512});
  }
  ASSERT_OK(session_->warming().SaveProfile(path));
  Open(PairSpec("1x512,4x256"));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded,
                               session_->warming().LoadProfile(path, {}));
  EXPECT_EQ(loaded.recorded, 1);
  ASSERT_EQ(loaded.skipped.size(), 1U);
  EXPECT_EQ(loaded.skipped[0].reason, ProfileSkip::kBucket);
  EXPECT_EQ(loaded.skipped[0].bucket, (Sizes{4, 128}));
  EXPECT_THAT(std::string(loaded.skipped[0].why.message()),
              HasSubstr("symbol 'batch' has the policy 1x512,4x256,8x512 up to 8 here, but "
                        "1x512,4x128,8x512 up to 8 in the profile"));
  EXPECT_THAT(Buckets(), ElementsAre(Sizes{8, 512}));
}

TEST_F(JointSymbolsTest, LanesPadAlikeAndRecordEachForItself) {
  Open(PairSpec(), {.lanes = 2});
  ASSERT_OK(Warm({{4, 128}}, /*lane=*/1));
  const auto on_lane = [](int lane) {
    return Beside{.adjust = [lane](coppice::Call& call) { call.lane = lane; }};
  };
  EXPECT_EQ(Serve(3, 100, on_lane(1)).kind(), RunKind::kReplay);
  EXPECT_EQ(Serve(3, 100, on_lane(0)).kind(), RunKind::kWarmUp);
  EXPECT_THAT(Buckets(), ElementsAre(Sizes{4, 128}, Sizes{4, 128}));
}

TEST_F(JointSymbolsTest, WhatRanksAgreeOnIsPaddedToABucket) {
  // The other rank is in 4x128 first, then wherever this one is.
  std::vector<Sizes> proposed;
  const auto agree = [&proposed](RankVote& vote) {
    proposed.emplace_back(vote.bucket.begin(), vote.bucket.end());
    vote.unanimous = proposed.size() > 1;
    if (!vote.unanimous) {
      vote.bucket[0] = std::max<int64_t>(vote.bucket[0], 4);
      vote.bucket[1] = std::max<int64_t>(vote.bucket[1], 128);
    }
    return absl::OkStatus();
  };
  // Its guard is for calls, which the agreed size is none of.
  Open(PairSpec(*PolicyOf(kBuckets).WithGuard({.max_ratio = 1.9})), {.ranks = {.vote = agree}});
  EXPECT_EQ(Run({{1, 300}})->kind(), RunKind::kWarmUp);
  EXPECT_THAT(proposed, ElementsAre(Sizes{1, 512}, Sizes{8, 512}));
  EXPECT_THAT(Buckets(), ElementsAre(Sizes{8, 512}));
}

TEST_F(JointSymbolsTest, RanksThatAgreeOnASizeWithoutABucketAreRefused) {
  const auto agree = [](RankVote& vote) {
    vote.bucket[1] = 512;
    vote.unanimous = false;
    return absl::OkStatus();
  };
  Open(PairSpec("pow2/pow2/budget:1024"), {.ranks = {.vote = agree}});
  EXPECT_THAT(Run({{4, 100}}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(session_->nodes(), IsEmpty());
}

}  // namespace
}  // namespace coppice
