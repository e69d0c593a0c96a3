// Goal: symbols, guards, variants and Explain do what program.h and session.h say. Method: affine
// on the emulator under specs that differ in one symbol; buckets are read from nodes().

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class SessionSymbolsTest : public SessionFixture {
 protected:
  // Affine with its symbol adjusted.
  template <typename Adjust>
  Affine MakeWith(Adjust adjust, const SessionOptions& options = {}) {
    ProgramSpec spec = AffineSpec();
    adjust(spec);
    return MakeAffine(options, nullptr, std::move(spec));
  }
  Affine MakeWithKind(SymbolKind kind) {
    return MakeWith([kind](ProgramSpec& spec) { spec.symbols[0].kind = kind; });
  }

  static std::vector<int64_t> BucketsOf(const Affine& affine) {
    std::vector<int64_t> buckets;
    for (const NodeInfo& node : affine.session->nodes())
      buckets.push_back(node.bucket[0]);
    std::sort(buckets.begin(), buckets.end());
    return buckets;
  }

  void RunAll(const Affine& affine, const std::vector<int64_t>& extents) {
    for (const int64_t n : extents) {
      const absl::StatusOr<Lease> lease = Call(affine, n);
      ASSERT_OK(lease);
      EXPECT_EQ(Read(*lease), Expected(n));
    }
  }
};

TEST_F(SessionSymbolsTest, AutoSymbolIsStaticUntilASecondExtentPromotesIt) {
  const Affine affine = MakeWithKind(SymbolKind::kAuto);
  RunAll(affine, {5, 5, 5});
  EXPECT_THAT(BucketsOf(affine), ElementsAre(5));
  RunAll(affine, {6, 5, 7});
  EXPECT_THAT(BucketsOf(affine), ElementsAre(5, 8));
}

TEST_F(SessionSymbolsTest, ExcludedExtentsZeroAndOneAreKeysOfTheirOwn) {
  const Affine affine = MakeWith([](ProgramSpec& spec) {
    spec.symbols[0].exclude_01 = true;
    spec.symbols[0].policy = *PaddingPolicy::List(std::vector<int64_t>{4, 64}, 64);
  });
  RunAll(affine, {1, 2, 3, 1});
  EXPECT_THAT(BucketsOf(affine), ElementsAre(1, 4));
}

TEST_F(SessionSymbolsTest, ExtentsOutsideTheBoundsAreRefusedByName) {
  const Affine affine = MakeWith([](ProgramSpec& spec) {
    spec.symbols[0].min = 4;
    spec.symbols[0].multiple_of = 2;
    spec.symbols[0].policy = *PaddingPolicy::List(std::vector<int64_t>{8, 64}, 64);
  });
  RunAll(affine, {4, 6});
  EXPECT_THAT(Call(affine, 2), StatusIs(kWrongArgument));
  const absl::Status odd = Call(affine, 5).status();
  EXPECT_THAT(odd, StatusIs(kWrongArgument, HasSubstr("n % 2")));
  EXPECT_THAT(odd.ToString(), HasSubstr("n = 5"));
  EXPECT_EQ(Executions(), 2);
}

TEST_F(SessionSymbolsTest, BucketOutsideTheBoundsMakesTheSpecInvalid) {
  ProgramSpec spec = AffineSpec();
  spec.symbols[0].multiple_of = 3;
  EXPECT_THAT(ValidateSpec(spec), StatusIs(kWrongArgument));
  spec.symbols[0].multiple_of = 1;
  spec.symbols[0].max = 32;
  EXPECT_THAT(ValidateSpec(spec), StatusIs(kWrongArgument));
}

TEST_F(SessionSymbolsTest, GuardsSeeRealExtentsAndScalars) {
  const Affine affine = MakeWith([](ProgramSpec& spec) {
    spec.guards = {"n < 10", "factor != 0"};
  });
  RunAll(affine, {9});
  EXPECT_THAT(Call(affine, 10), StatusIs(kWrongArgument));
  EXPECT_THAT(Call(affine, 9, 0.0), StatusIs(kWrongArgument));
}

TEST_F(SessionSymbolsTest, GuardThatDoesNotParseMakesTheSpecInvalid) {
  ProgramSpec spec = AffineSpec();
  spec.guards = {"n <"};
  EXPECT_THAT(ValidateSpec(spec), StatusIs(kWrongArgument, HasSubstr("affine")));
}

TEST_F(SessionSymbolsTest, DynamicAxesTurnFixedAxesIntoSymbols) {
  ProgramSpec spec = AffineSpec();
  spec.symbols.clear();
  spec.inputs[0].dims = {Dim::Fixed(1)};
  EXPECT_OK(spec.AddDynamicAxes("x:0", *PaddingPolicy::Pow2(kLargest), SymbolKind::kDynamic));
  ASSERT_EQ(spec.symbols.size(), 1U);
  EXPECT_EQ(spec.inputs[0].dims[0], Dim::Symbol(0));
  EXPECT_THAT(spec.AddDynamicAxes("x:0", *PaddingPolicy::Pow2(2)), StatusIs(kWrongArgument));
  EXPECT_THAT(spec.AddDynamicAxes("none:0", *PaddingPolicy::Pow2(2)), StatusIs(kWrongArgument));
  EXPECT_THAT(spec.AddDynamicAxes("x", *PaddingPolicy::Pow2(2)), StatusIs(kWrongArgument));
}

TEST_F(SessionSymbolsTest, VariantsOfOneNameAreFoundByTheirLabel) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec = AffineSpec();
  const Program* plain = *session->Register(spec, AffineCallable());
  spec.variant = "lora";
  const Program* lora = *session->Register(spec, AffineCallable());
  EXPECT_EQ(session->Find("affine"), plain);
  EXPECT_EQ(session->Find("affine", "lora"), lora);
  EXPECT_EQ(session->Find("affine", "other"), nullptr);
  EXPECT_THAT(session->Register(spec, AffineCallable()).status(), StatusIs(kWrongArgument));
}

TEST_F(SessionSymbolsTest, WhatAGuardRefusesRunsEagerlyAtItsOwnExtents) {
  const Affine affine = MakeWith([](ProgramSpec& spec) {
    spec.symbols[0].kind = SymbolKind::kDynamic;
    PaddingPolicy& policy = spec.symbols[0].policy;
    policy = *(*PaddingPolicy::Parse("8,64", 64)).WithGuard({.max_ratio = 2, .min_replay_size = 3});
  });
  EXPECT_EQ(Call(affine, 32)->reason(), Reason::kNewBucket);
  EXPECT_EQ(Call(affine, 2)->reason(), Reason::kNewBucket);  // Small enough for any padding.
  const int64_t before = Executions();
  const Lease refused = *Call(affine, 3);
  EXPECT_EQ(refused.kind(), RunKind::kEager);
  EXPECT_EQ(refused.reason(), Reason::kPaddedTooMuch);
  EXPECT_EQ(Executions(), before + 1);
  EXPECT_EQ(Call(affine, 31)->reason(), Reason::kPaddedTooMuch);
  EXPECT_EQ(Call(affine, 65)->reason(), Reason::kOverLargestBucket);
}

TEST_F(SessionSymbolsTest, ExplainSaysWhatAGuardRefusedAndStrictWhatHelps) {
  const Affine affine = MakeWith([](ProgramSpec& spec) {
    spec.symbols[0].kind = SymbolKind::kDynamic;
    PaddingPolicy& policy = spec.symbols[0].policy;
    policy = *(*PaddingPolicy::Parse("8,64", 64)).WithGuard({.max_ratio = 2});
  });
  affine.session->SetStance(Stance::kStrict);
  const absl::Status status = Call(affine, 9).status();
  EXPECT_THAT(status, StatusIs(kRefused));
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("padded_too_much: n = 9 in a bucket of 64, which the policy's guard"),
                    HasSubstr("give the policy a smaller bucket or a wider guard")));
}

TEST_F(SessionSymbolsTest, ExtentsThatAreNotPaddedAreNotGuarded) {
  const Affine affine = MakeWith([](ProgramSpec& spec) {
    spec.symbols[0].kind = SymbolKind::kAuto;  // Static, up to the second distinct extent.
    PaddingPolicy& policy = spec.symbols[0].policy;
    policy = *(*PaddingPolicy::Parse("8,64", 64)).WithGuard({.max_ratio = 2});
  });
  EXPECT_EQ(Call(affine, 9)->reason(), Reason::kNewBucket);
  EXPECT_EQ(Call(affine, 10)->reason(), Reason::kPaddedTooMuch);
}

TEST_F(SessionSymbolsTest, ExplainSaysWhatRunWouldDoAndChangesNothing) {
  const Affine affine = MakeWith([](ProgramSpec& spec) { spec.guards = {"n != 7"}; });
  const auto explain = [&](int64_t n) {
    const Tensor x = FloatsAt(one_.address(), n);
    const int64_t scalar = std::bit_cast<int64_t>(2.0);
    return affine.session->Explain({.program = affine.program,
                                    .binding = affine.binding,
                                    .inputs = {&x, 1},
                                    .scalars = {&scalar, 1},
                                    .stream = device_.stream()});
  };
  const RunKind kinds[] = {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay};
  for (const RunKind kind : kinds) {
    for (int i = 0; i < 2; ++i) {
      const Explanation explanation = explain(5);
      EXPECT_OK(explanation.status);
      EXPECT_EQ(explanation.kind, kind);
      EXPECT_THAT(explanation.text, HasSubstr("affine"));
      EXPECT_EQ(explanation.node.has_value(), kind == RunKind::kReplay);
    }
    EXPECT_EQ(Call(affine, 5)->kind(), kind);
  }
  EXPECT_EQ(explain(70).reason, Reason::kOverLargestBucket);
  const Explanation failing = explain(7);
  EXPECT_EQ(failing.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(failing.text, HasSubstr("n != 7"));
  EXPECT_EQ(Executions(), 3);
}

}  // namespace
}  // namespace coppice
