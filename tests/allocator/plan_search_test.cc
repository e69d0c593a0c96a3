// Goal: every sentence of planner/plan_search.h and planner/plan_ladder.h that can be false.
// Method: brute force on up to seven buffers; seeded random programs with fixed buffers, alignments
// and gaps; rectangles cut out of a full one, whose optimum is known; published instances, if they
// are there. Searches are limited by tries, whose number each test prints.

#include "allocator/planner/plan_search.h"

#include <chrono>

#include "allocator/planner/plan_ladder.h"
#include "tests/allocator/buffers.h"
#include "tests/support/test_device.h"
#include "tests/support/traces.h"

namespace coppice::internal {
namespace {

constexpr int64_t kAnyHeight = std::numeric_limits<int64_t>::max();

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  // In [lower, upper].
  int64_t operator()(int64_t lower, int64_t upper) {
    return lower + static_cast<int64_t>(random_() % static_cast<uint64_t>(upper - lower + 1));
  }

 private:
  std::mt19937_64 random_;
};

// Lifetimes of one to three intervals, alignments up to 8; every fifth buffer or so is fixed.
std::vector<Buffer> DrawProgram(Draw& draw, int64_t count, int64_t steps, int64_t bytes_max) {
  std::vector<Buffer> buffers;
  std::vector<int64_t> offsets;
  std::vector<size_t> fixed;
  while (std::ssize(buffers) < count) {
    Buffer buffer;
    int64_t step = draw(0, steps / 2);
    for (int64_t parts = std::max<int64_t>(draw(-3, 3), 1); parts > 0; --parts) {
      const int64_t upper = step + draw(1, std::max<int64_t>(steps / 4, 1));
      buffer.lifetime.push_back({step, upper});
      step = upper + draw(1, 3);
    }
    buffer.bytes = draw(1, bytes_max);
    buffer.alignment = int64_t{1} << draw(0, 3);
    if (draw(0, 4) == 0) {
      buffer.fixed_offset = AlignUp(draw(0, 3 * bytes_max), buffer.alignment);
      const bool meets = std::ranges::any_of(fixed, [&](size_t other) {
        return LiveTogether(buffer, buffers[other]) &&
               *buffer.fixed_offset < offsets[other] + buffers[other].bytes &&
               offsets[other] < *buffer.fixed_offset + buffer.bytes;
      });
      if (meets) continue;
      fixed.push_back(buffers.size());
    }
    offsets.push_back(buffer.fixed_offset.value_or(0));
    buffers.push_back(buffer);
  }
  return buffers;
}

// Checks what SearchBelow promises of any result.
void ExpectSound(const std::vector<Buffer>& buffers,
                 int64_t height,
                 const LadderOptions& options,
                 const LadderResult& result) {
  EXPECT_LE(result.tries, options.tries_max);
  EXPECT_GE(result.bound, MaxLiveBytes(buffers));
  if (!result.plan) return;
  EXPECT_THAT(ValidatePlan(buffers, *result.plan), IsOk());
  EXPECT_LT(result.plan->height, height);
  EXPECT_GE(result.plan->height, result.bound);
}

std::vector<int32_t> AnyOrder(const SearchProblem& problem) {
  std::vector<int32_t> order(problem.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_partition(order, [&](int32_t i) { return problem.items[i].fixed >= 0; });
  return order;
}

TEST(PlanSearchTest, AgreesWithBruteForceOnUpToSevenBuffers) {
  Draw draw(TestSeed());
  int64_t tries = 0;
  for (int64_t round = 0; round < 2000 / TestShare(); ++round) {
    const std::vector<Buffer> buffers = DrawProgram(draw, draw(1, 7), 12, 20);
    const int64_t least = LeastHeight(buffers);
    const std::optional<SearchProblem> problem = MakeSearchProblem(buffers);
    ASSERT_TRUE(problem);
    PlanSearch search(*problem);
    const std::vector<int32_t> order = AnyOrder(*problem);
    SearchAllowance allowance{.tries = 1'000'000};
    ASSERT_EQ(search.Run(least, order, allowance), SearchOutcome::kFound) << least;
    ASSERT_EQ(search.Run(least - 1, order, allowance), SearchOutcome::kImpossible) << least;
    tries += 1'000'000 - allowance.tries;

    const LadderOptions options{.tries_max = 1'000'000};
    const LadderResult result = SearchBelow(buffers, kAnyHeight, options);
    ASSERT_TRUE(result.plan);
    EXPECT_EQ(result.plan->height, least);
    EXPECT_EQ(result.bound, least);
    ExpectSound(buffers, kAnyHeight, options, result);
    const LadderResult none = SearchBelow(buffers, least, options);
    EXPECT_FALSE(none.plan);
    EXPECT_EQ(none.bound, least);
  }
  std::printf("%lld tries\n", static_cast<long long>(tries));
}

TEST(PlanSearchTest, FindsOnlyValidPlansAmongFixedBuffersAlignmentsAndGaps) {
  Draw draw(TestSeed());
  const int64_t rounds = std::max<int64_t>(500 / TestShare(), 25);
  int64_t found = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    const std::vector<Buffer> buffers = DrawProgram(draw, draw(10, 200), 60, 1000);
    const LadderOptions options{.tries_max = 2000, .seed = static_cast<uint64_t>(round)};
    const LadderResult result = SearchBelow(buffers, kAnyHeight, options);
    ExpectSound(buffers, kAnyHeight, options, result);
    found += result.plan.has_value();
  }
  std::printf("%lld plans\n", static_cast<long long>(found));
  EXPECT_GE(10 * found, 9 * rounds);
}

TEST(PlanSearchTest, PutsRectanglesTogetherThatWereCutOutOfAFullOne) {
  for (const size_t count : {20, 50, 100}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      Draw draw(seed);
      const std::vector<Buffer> buffers = CutRectangles(draw, count);
      const LadderOptions options{.tries_max = 400'000};
      const LadderResult result = SearchBelow(buffers, kAnyHeight, options);
      std::printf("%zu rectangles, seed %llu: %lld tries\n", count,
                  static_cast<unsigned long long>(seed), static_cast<long long>(result.tries));
      ASSERT_TRUE(result.plan);
      EXPECT_EQ(result.plan->height, kFullHeight);
      ExpectSound(buffers, kAnyHeight, options, result);
    }
  }
}

TEST(PlanSearchTest, StopsAtTheTarget) {
  Draw draw(7);
  const std::vector<Buffer> buffers = CutRectangles(draw, 100);
  const LadderOptions options{.height_target = 2 * kFullHeight, .tries_max = 400'000};
  const LadderResult result = SearchBelow(buffers, 2 * kFullHeight + 1, options);
  ASSERT_TRUE(result.plan);
  EXPECT_LE(result.plan->height, options.height_target);
  EXPECT_LE(result.tries, 200);
  EXPECT_EQ(SearchBelow(buffers, 2 * kFullHeight, options).tries, 0);
}

TEST(PlanSearchTest, FindsTheSameForTheSameSeed) {
  Draw draw(TestSeed());
  const std::vector<Buffer> buffers = CutRectangles(draw, 300);
  const auto search = [&](uint64_t seed) {
    return SearchBelow(buffers, kAnyHeight, {.tries_max = 20'000, .seed = seed});
  };
  const LadderResult first = search(3);
  const LadderResult second = search(3);
  EXPECT_EQ(first.tries, second.tries);
  ASSERT_EQ(first.plan.has_value(), second.plan.has_value());
  if (first.plan) {
    EXPECT_EQ(first.plan->offsets, second.plan->offsets);
  }
}

TEST(PlanSearchTest, TriesNoMoreThanItMay) {
  Draw draw(11);
  const std::vector<Buffer> buffers = CutRectangles(draw, 150);
  const std::optional<SearchProblem> problem = MakeSearchProblem(buffers);
  ASSERT_TRUE(problem);
  PlanSearch search(*problem);
  // Joined, so few place them all.
  for (const int64_t tries : {0, 1, 2, 10})
    EXPECT_EQ(SearchBelow(buffers, kAnyHeight, {.tries_max = tries}).tries, tries);
  for (const int64_t tries : {0, 1, 2, 100, 149}) {
    SearchAllowance allowance{.tries = tries};
    EXPECT_EQ(search.Run(kFullHeight, AnyOrder(*problem), allowance), SearchOutcome::kUndecided);
    EXPECT_EQ(allowance.tries, 0);
  }
}

TEST(PlanSearchTest, StopsAfterTheDeadline) {
  Draw draw(11);
  const std::vector<Buffer> buffers = CutRectangles(draw, 400);
  const std::optional<SearchProblem> problem = MakeSearchProblem(buffers);
  ASSERT_TRUE(problem);
  const auto past = std::chrono::steady_clock::time_point::min();
  PlanSearch search(*problem);
  SearchAllowance allowance{.tries = 1'000'000, .deadline = past};
  EXPECT_EQ(search.Run(kFullHeight, AnyOrder(*problem), allowance), SearchOutcome::kUndecided);
  EXPECT_TRUE(allowance.late);
  EXPECT_GE(allowance.tries, 1'000'000 - 256);
  EXPECT_EQ(SearchBelow(buffers, kAnyHeight, {.tries_max = 1000, .deadline = past}).tries, 0);
}

// A fixed buffer at the bottom drives the other, which may lie at 0 or 2^34 only, up there.
std::vector<Buffer> MakeFarApart() {
  std::vector<Buffer> buffers{MakeBuffer({0, 9}, 100, 128),
                              MakeBuffer({2, 9}, 52'206, int64_t{1} << 34)};
  buffers[0].fixed_offset = 128;
  return buffers;
}

TEST(PlanSearchTest, GoesFromOneHeightThatAnAlignmentLeavesToTheNext) {
  const int64_t least = (int64_t{1} << 34) + 52'206;
  const LadderResult result = SearchBelow(MakeFarApart(), least + 1, {.tries_max = 1000});
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->height, least);
  const LadderResult none = SearchBelow(MakeFarApart(), least, {.tries_max = 1000});
  EXPECT_FALSE(none.plan);
  EXPECT_EQ(none.bound, least);
  EXPECT_LE(none.tries, 2);
}

TEST(PlanSearchTest, CountsAHeightThatIsRefutedAtAGlanceAsATry) {
  // A third buffer may end at any multiple of 128 below.
  std::vector<Buffer> buffers = MakeFarApart();
  buffers.push_back(MakeBuffer({2, 9}, 100, 128));
  const LadderOptions options{.tries_max = 1000};
  const LadderResult result = SearchBelow(buffers, (int64_t{1} << 34) + 52'206, options);
  EXPECT_FALSE(result.plan);
  EXPECT_LE(result.tries, options.tries_max);
  EXPECT_GE(result.tries, options.tries_max / 2);
}

TEST(PlanSearchTest, RefusesACapacityThatIsPlainlyTooSmallWithoutSearching) {
  const auto outcome = [](const std::vector<Buffer>& buffers, int64_t capacity) {
    const std::optional<SearchProblem> problem = MakeSearchProblem(buffers);
    SearchAllowance allowance;
    return PlanSearch(*problem).Run(capacity, AnyOrder(*problem), allowance);
  };
  std::vector<Buffer> buffers{MakeBuffer({0, 4}, 100), MakeBuffer({2, 6}, 50)};
  EXPECT_EQ(outcome(buffers, 149), SearchOutcome::kImpossible);
  EXPECT_EQ(outcome(buffers, 150), SearchOutcome::kUndecided);
  buffers[1].fixed_offset = 200;
  EXPECT_EQ(outcome(buffers, 249), SearchOutcome::kImpossible);
  EXPECT_EQ(outcome(buffers, 250), SearchOutcome::kUndecided);
  EXPECT_EQ(outcome(buffers, -1), SearchOutcome::kImpossible);
}

TEST(PlanSearchTest, KeepsFixedBuffersThatOverlapFromBeingPlanned) {
  std::vector<Buffer> buffers{MakeBuffer({0, 4}, 100), MakeBuffer({2, 6}, 50)};
  buffers[0].fixed_offset = 0;
  buffers[1].fixed_offset = 60;
  const LadderResult result = SearchBelow(buffers, 1000, {.tries_max = 1000});
  EXPECT_FALSE(result.plan);
  EXPECT_GE(result.bound, 1000);
}

TEST(PlanSearchTest, GoesAsDeepAsThereAreBuffers) {
  std::vector<Buffer> buffers;
  for (int64_t i = 0; i < kSearchedBuffersMax; ++i)
    buffers.push_back(MakeBuffer({i, i + 20}, 1 + i % 7));
  const LadderOptions options{.height_target = 200, .tries_max = 20'000};
  const LadderResult result = SearchBelow(buffers, kAnyHeight, options);
  ASSERT_TRUE(result.plan);
  EXPECT_LE(result.plan->height, 200);
  ExpectSound(buffers, kAnyHeight, options, result);
}

TEST(PlanSearchTest, LeavesAloneWhatItCannotSearch) {
  const LadderOptions options{.tries_max = 1000};
  std::vector<Buffer> buffers{MakeBuffer({0, 4}, 100), MakeBuffer({2, 6}, 50)};
  ASSERT_TRUE(SearchBelow(buffers, kAnyHeight, options).plan);
  buffers[1].in_place_with = 0;
  EXPECT_FALSE(SearchBelow(buffers, kAnyHeight, options).plan);

  const int64_t large = int64_t{1} << 40;
  buffers = {MakeBuffer({0, 4}, large), MakeBuffer({2, 6}, 3 * large)};
  ASSERT_TRUE(SearchBelow(buffers, kAnyHeight, options).plan);
  buffers[1].bytes += 1;
  EXPECT_FALSE(SearchBelow(buffers, kAnyHeight, options).plan);

  buffers.assign(kSearchedBuffersMax + 1, MakeBuffer({0, 1}, 1));
  EXPECT_FALSE(SearchBelow(buffers, kAnyHeight, options).plan);

  // One buffer cuts time into 2^14 sections, and 2^10 others live in all of them.
  const int64_t sections = int64_t{1} << 14;
  buffers.assign(1 << 10, MakeBuffer({0, 2 * sections}, 1));
  ASSERT_TRUE(SearchBelow(buffers, kAnyHeight, {.tries_max = 5000}).plan);
  buffers[0].lifetime.clear();
  for (int64_t i = 0; i < sections; ++i)
    buffers[0].lifetime.push_back({2 * i, 2 * i + 1});
  buffers.push_back(MakeBuffer({0, 2 * sections}, 1));
  buffers.push_back(buffers[0]);
  for (Interval& interval : buffers.back().lifetime)
    interval = {interval.lower + 1, interval.upper + 1};
  EXPECT_FALSE(MakeSearchProblem(buffers));
}

// `id,lower,upper,size` below the folder beside the traces that COPPICE_DATA names.
std::vector<Buffer> ReadInstance(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::vector<Buffer> buffers;
  while (std::getline(file, line)) {
    long long id = 0, lower = 0, upper = 0, size = 0;
    if (std::sscanf(line.c_str(), "%lld,%lld,%lld,%lld", &id, &lower, &upper, &size) == 4)
      buffers.push_back(MakeBuffer({lower, upper}, size));
  }
  return buffers;
}

struct Published {
  const char* name;
  int64_t height;  // Known to be reachable.
};

TEST(PlanSearchTest, SolvesPublishedInstances) {
  const std::string data = TraceFolder();
  if (data.empty()) GTEST_SKIP() << "COPPICE_DATA names no folder with the real traces";
  const std::filesystem::path folder = std::filesystem::path(data) / "..";
  constexpr Published kPublished[] = {
      {"minimalloc/A.1048576.csv", 1048576}, {"minimalloc/B.1048576.csv", 1048576},
      {"minimalloc/C.1048576.csv", 1039360}, {"minimalloc/D.1048576.csv", 1048576},
      {"minimalloc/E.1048576.csv", 1048576}, {"minimalloc/F.1048576.csv", 1048576},
      {"tight/t50_s0_d0.csv", 1048576},      {"tight/t50_s1_d0.csv", 1048576},
      {"tight/t100_s0_d0.csv", 1048576},     {"tight/t100_s1_d0.csv", 1048576},
      {"tight/t200_s0_d0.csv", 1048576},     {"tight/t200_s1_d0.csv", 1048576},
      {"tight/t400_s0_d0.csv", 1048576},     {"tight/t400_s1_d0.csv", 1048576},
  };
  for (const Published& instance : kPublished) {
    const std::vector<Buffer> buffers = ReadInstance(folder / instance.name);
    ASSERT_FALSE(buffers.empty()) << instance.name;
    const LadderOptions options{.height_target = instance.height, .tries_max = 1'000'000};
    const LadderResult result = SearchBelow(buffers, kAnyHeight, options);
    std::printf("%s: %lld tries\n", instance.name, static_cast<long long>(result.tries));
    ASSERT_TRUE(result.plan) << instance.name;
    EXPECT_LE(result.plan->height, instance.height) << instance.name;
    ExpectSound(buffers, kAnyHeight, options, result);
  }
}

}  // namespace
}  // namespace coppice::internal
