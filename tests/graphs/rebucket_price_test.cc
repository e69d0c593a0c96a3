// Goal: every sentence of rebucket.h about what bytes cost. Method: affine on the emulator, whose
// graphs all take the same, on one lane or two; costs so low that they are only told, and so high
// that they decide.

#include "tests/graphs/rebucket_fixture.h"

namespace coppice {
namespace {

using testing::Contains;

class RebucketPriceTest : public RebucketFixture {};

TEST_F(RebucketPriceTest, ABucketCostsWhatItsGraphsTake) {
  const Affine affine = MakeObserved({.lanes = 2});
  // Twice as much in 8 as in 32, and nothing elsewhere.
  Serve(affine, {5, 20}, 0);
  Serve(affine, {5}, 1);
  const auto bytes = static_cast<double>(affine.session->nodes()[0].exec_bytes);
  ASSERT_GT(bytes, 0);
  RebucketOptions options = Eager(affine);
  options.dry_run = true;
  COPPICE_ASSERT_OK_AND_ASSIGN(RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kWouldSwap);
  EXPECT_EQ(report.bytes_before, 0);
  EXPECT_EQ(report.bytes_after, 0);
  EXPECT_EQ(report.learned.price_before_pct, 0);

  // Up to 8 as much as there, from 32 on as much as there, between them on a line.
  options.cost_per_byte = 1e-12;
  COPPICE_ASSERT_OK_AND_ASSIGN(report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  const double old = 4 * 2 + 5 / 3.0 + 2 * 1;
  EXPECT_EQ(report.bytes_before, std::llround(old * bytes));
  double after = 0;
  for (const int64_t bucket : report.learned.buckets)
    after += std::lerp(2.0, 1.0, static_cast<double>(std::clamp<int64_t>(bucket, 8, 32) - 8) / 24);
  EXPECT_EQ(report.bytes_after, std::llround(after * bytes));
  // Of 9 calls, 6 of 5 elements and 3 of 20.
  const double per_call = old * bytes * 1e-12;
  EXPECT_NEAR(report.learned.price_before_pct, 100 * 9 * per_call / 90, 1e-9 * per_call);
}

TEST_F(RebucketPriceTest, UnderPressureALadderOfFewerGraphsWins) {
  const Affine affine = MakeObserved();
  Serve(affine, {1, 2, 4, 8, 16, 32, 64});
  const auto bytes = static_cast<double>(affine.session->nodes()[0].exec_bytes);
  RebucketOptions options = Eager(affine);
  COPPICE_ASSERT_OK_AND_ASSIGN(RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kKept) << "nothing is padded";
  // A graph has to save 1.5 elements per call. That of 8 saves 8 of one call in seven, those of 2
  // and 1 less.
  options.period = 0;
  options.cost_per_byte = 1.5 / bytes;
  COPPICE_ASSERT_OK_AND_ASSIGN(report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kSwapped) << report.why;
  EXPECT_THAT(BucketsOf(affine), ElementsAre(4, 16, 32, 64));
  EXPECT_GT(report.learned.waste_after_pct, report.learned.waste_before_pct);
  EXPECT_EQ(report.bytes_before, std::llround(7 * bytes));
  EXPECT_EQ(report.bytes_after, std::llround(4 * bytes));
  EXPECT_THAT(Recorded(affine), UnorderedElementsAre(4, 16, 32, 64));
  for (const int64_t n : {1, 2, 4, 8, 16, 32, 64})
    EXPECT_EQ(ExpectOutput(affine, n), RunKind::kReplay) << n;
}

TEST_F(RebucketPriceTest, BucketsThatWentUnderPressureComeBack) {
  const Affine affine = MakeObserved();
  ASSERT_OK(SetBuckets(affine, {64}));
  Serve(affine, {1, 2, 4, 8, 16, 32, 64});
  RebucketOptions options = Eager(affine);
  options.relearn.reset();
  options.period = 0;
  COPPICE_ASSERT_OK_AND_ASSIGN(RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kKept) << "as many buckets as the policy in force";
  options.cost_per_byte = 1e-12;
  for (int turn = 0; turn < 3; ++turn) {
    COPPICE_ASSERT_OK_AND_ASSIGN(report,
                                 affine.session->policies().Rebucket(*affine.program, 0, options));
    EXPECT_LE(BucketsOf(affine).size(), 7U);
  }
  EXPECT_THAT(BucketsOf(affine), ElementsAre(1, 2, 4, 8, 16, 32, 64));
}

TEST_F(RebucketPriceTest, BytesComeBesideThePriceThatIsGiven) {
  const Affine affine = MakeObserved();
  Serve(affine, {20});
  RebucketOptions options = Eager(affine);
  options.dry_run = true;
  options.cost_per_byte = 1e-12;
  options.relearn->learn.price = 1e6;  // Not read: price_of is given.
  options.relearn->learn.price_of = [](int64_t bucket) { return bucket == 20 ? 1e3 : 0; };
  COPPICE_ASSERT_OK_AND_ASSIGN(RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kWouldSwap);
  EXPECT_THAT(report.learned.added, Not(Contains(20)));
  options.relearn->learn.price_of = nullptr;
  COPPICE_ASSERT_OK_AND_ASSIGN(report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_THAT(report.learned.buckets, ElementsAre(64)) << "a million elements for each";
}

TEST_F(RebucketPriceTest, WithoutAGraphThereIsNothingToPriceABucketBy) {
  const Affine affine = MakeObserved();
  EXPECT_EQ(ExpectOutput(affine, 20), RunKind::kWarmUp);
  RebucketOptions options = Eager(affine);
  options.period = 0;
  options.cost_per_byte = 1e-12;
  COPPICE_ASSERT_OK_AND_ASSIGN(RebucketReport report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kKept);
  EXPECT_EQ(report.learned.buckets, BucketsOf(affine));
  EXPECT_EQ(report.bytes_before, 0);
  options.cost_per_byte = 0;
  COPPICE_ASSERT_OK_AND_ASSIGN(report,
                               affine.session->policies().Rebucket(*affine.program, 0, options));
  EXPECT_EQ(report.outcome, Rebucketed::kSwapped);
}

}  // namespace
}  // namespace coppice
