// Goal: what is counted comes out decayed by calls, on any thread, and survives JSON. Method:
// counts small enough to compute by hand, and threads that count while one folds.

#include "coppice/padding/decaying_histogram.h"

#include "coppice/padding/padding_policy.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

using testing::DoubleEq;
using testing::Field;
using testing::StartsWith;

DecayingHistogram Create(int64_t limit, double half_life) {
  absl::StatusOr<DecayingHistogram> created =
      DecayingHistogram::Create({.limit = limit, .half_life = half_life});
  EXPECT_OK(created);
  return *std::move(created);
}

auto Counts(int64_t size, double count) {
  return AllOf(Field(&SizeCount::size, size), Field(&SizeCount::count, DoubleEq(count)));
}

TEST(DecayingHistogramTest, YoungCallsWeighOneEach) {
  DecayingHistogram histogram = Create(8, 4);
  for (const int64_t size : {3, 0, 3, 8})
    histogram.Add(size);
  EXPECT_THAT(histogram.Fold().counts(), ElementsAre(Counts(0, 1), Counts(3, 2), Counts(8, 1)));
}

TEST(DecayingHistogramTest, AHalfLifeOfCallsHalvesWhatWasThere) {
  DecayingHistogram histogram = Create(8, 4);
  histogram.Add(1);
  EXPECT_THAT(histogram.Fold().counts(), ElementsAre(Counts(1, 1)));
  for (int i = 0; i < 4; ++i)
    histogram.Add(2);
  EXPECT_THAT(histogram.Fold().counts(), ElementsAre(Counts(1, 0.5), Counts(2, 4)));
  EXPECT_THAT(histogram.Fold().counts(), ElementsAre(Counts(1, 0.5), Counts(2, 4)));
}

TEST(DecayingHistogramTest, AnInfiniteHalfLifeForgetsNothing) {
  DecayingHistogram histogram = Create(8, HUGE_VAL);
  histogram.Add(1);
  histogram.Fold();
  for (int i = 0; i < 1000; ++i)
    histogram.Add(2);
  EXPECT_THAT(histogram.Fold().counts(), ElementsAre(Counts(1, 1), Counts(2, 1000)));
}

TEST(DecayingHistogramTest, WhatIsForgottenHasNoWeight) {
  DecayingHistogram histogram = Create(8, 1);
  histogram.Add(1);
  histogram.Fold();
  for (int i = 0; i < 100; ++i)
    histogram.Add(2);
  EXPECT_THAT(histogram.Fold().counts(), ElementsAre(Counts(2, 100)));
}

TEST(DecayingHistogramTest, SizesBeyondTheLimitAreCountedAndHaveNoPart) {
  DecayingHistogram histogram = Create(8, 4);
  histogram.Add(8);
  histogram.Add(9);
  histogram.Add(INT64_MAX);
  EXPECT_EQ(histogram.calls(), 0);
  EXPECT_THAT(histogram.Fold().counts(), ElementsAre(Counts(8, 1)));
  EXPECT_EQ(histogram.calls(), 3);
  EXPECT_EQ(histogram.beyond(), 2);
}

TEST(DecayingHistogramTest, ManySizesShareCountersAndCountAsTheLargest) {
  constexpr int64_t kLimit = 2 * DecayingHistogram::kCountersMax + 1;
  DecayingHistogram histogram = Create(kLimit, 4);
  EXPECT_EQ(histogram.align(), 3);
  for (const int64_t size : {int64_t{1}, int64_t{3}, int64_t{4}, kLimit})
    histogram.Add(size);
  EXPECT_THAT(histogram.Fold().counts(),
              ElementsAre(Counts(3, 2), Counts(6, 1), Counts(kLimit, 1)));
}

TEST(DecayingHistogramTest, ThreadsCountWhileOneFolds) {
  constexpr int64_t kThreads = 4;
  constexpr int64_t kCalls = 20'000;
  DecayingHistogram histogram = Create(64, HUGE_VAL);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&histogram, t] {
      for (int64_t i = 0; i < kCalls; ++i)
        histogram.Add(t + 1);
    });
  }
  for (int i = 0; i < 100; ++i)
    histogram.Fold();
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(histogram.Fold().mass(), kThreads * kCalls);
  EXPECT_EQ(histogram.calls(), kThreads * kCalls);
}

TEST(DecayingHistogramTest, JsonReadsBackAsTheSame) {
  for (const double half_life : {3.0, HUGE_VAL}) {
    DecayingHistogram histogram = Create(64, half_life);
    for (int64_t i = 0; i < 100; ++i) {
      histogram.Add(i % 7 * 11);
      if (i % 10 == 0) histogram.Fold();
    }
    const std::string text = histogram.ToJson();
    EXPECT_EQ(text.find('\n'), std::string::npos);
    COPPICE_ASSERT_OK_AND_ASSIGN(DecayingHistogram read, DecayingHistogram::Read(text, "file"));
    EXPECT_EQ(read.ToJson(), text);
    EXPECT_EQ(read.options().half_life, half_life);
    EXPECT_EQ(read.calls(), histogram.calls());
    EXPECT_EQ(read.beyond(), histogram.beyond());
    EXPECT_EQ(read.Fold().counts(), histogram.Fold().counts());
  }
}

TEST(DecayingHistogramTest, RefusesOptionsOutOfRange) {
  for (const int64_t limit : {int64_t{0}, int64_t{-1}, PaddingPolicy::kExtentMax + 1})
    EXPECT_THAT(DecayingHistogram::Create({.limit = limit}), StatusIs(kWrongArgument));
  for (const double half_life : {0.0, -1.0, std::nan("")})
    EXPECT_THAT(DecayingHistogram::Create({.limit = 8, .half_life = half_life}),
                StatusIs(kWrongArgument));
}

TEST(DecayingHistogramTest, RefusesOtherDocuments) {
  const std::string good =
      R"({"version":1,"limit":8,"half_life":"4","calls":3,"beyond":1,"sizes":[[2,"1.5"]]})";
  EXPECT_OK(DecayingHistogram::Read(good, "file"));
  const std::vector<std::pair<std::string, std::string>> changes = {
      {R"("limit":8)", R"("limit":0)"},
      {R"("half_life":"4")", R"("half_life":"0")"},
      {R"("half_life":"4")", R"("half_life":4)"},
      {R"("calls":3)", R"("calls":-3)"},
      {R"("beyond":1)", R"("beyond":4)"},
      {R"([2,"1.5"])", R"([9,"1.5"])"},
      {R"([2,"1.5"])", R"([-1,"1.5"])"},
      {R"([2,"1.5"])", R"([2,"0"])"},
      {R"([2,"1.5"])", R"([2,"inf"])"},
      {R"([2,"1.5"])", "[2]"},
      {R"([[2,"1.5"]])", "{}"},
      {R"("calls":3)", R"("call":3)"},
      {R"("sizes")", R"("other":1,"sizes")"},
      {"}", ""}};
  for (const auto& [from, to] : changes) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const absl::StatusOr<DecayingHistogram> read = DecayingHistogram::Read(text, "file");
    ASSERT_THAT(read, StatusIs(kWrongArgument)) << text;
    EXPECT_THAT(std::string(read.status().message()), StartsWith("file"));
  }
  for (const char* version : {R"("version":2)", R"("version":"1")", R"("x-version":1)"}) {
    std::string text = good;
    text.replace(text.find(R"("version":1)"), 11, version);
    EXPECT_THAT(DecayingHistogram::Read(text, "file"), StatusIs(absl::StatusCode::kUnimplemented));
  }
}

}  // namespace
}  // namespace coppice
