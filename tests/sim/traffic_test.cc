// Goal: whatever traffic a session meets, every output that can be read is bit-equal to what a
// model without graphs computes, nothing is refused without a reason, and nothing is left behind.
// Method: scripts drawn from seeds, each in a process of its own; one that fails is shrunk and
// printed.
//
// COPPICE_TRAFFIC_SCRIPT=FILE in the environment runs that script alone, COPPICE_TRAFFIC_SEED=N the
// script of that seed. COPPICE_TEST_SHARE=N runs each N-th seed, from a drawn one on.

#include "tests/sim/traffic_shrink.h"
#include "tests/sim/traffic_world.h"
#include "tests/support/test.h"

namespace coppice {
namespace {

constexpr uint64_t kSeeds = 800;
constexpr int64_t kCallsPerSeed = 500;
constexpr uint64_t kParts = 8;  // So that two processes may share the work.

// Fails the test with the smallest script that fails like this one.
void ReportShrunk(const TrafficScript& script) {
  const ShrunkScript shrunk =
      Shrink(script, [](const TrafficScript& smaller) { return RunTrafficApart(smaller); });
  ADD_FAILURE() << shrunk.failure << "\nShrunk from " << script.operations.size() << " to "
                << shrunk.script.operations.size() << " operations in " << shrunk.runs
                << " runs. Repeat with COPPICE_TRAFFIC_SCRIPT=FILE, of these lines:\n"
                << TextOf(shrunk.script);
}

void RunSeed(uint64_t seed) {
  const TrafficScript script = DrawScript(seed, kCallsPerSeed);
  const std::string failure = RunTrafficApart(script);
  if (failure.empty()) return;
  fmt::print("seed {}: {}\nLooking for a smaller script.\n", seed, failure);
  ReportShrunk(script);
}

class TrafficTest : public testing::TestWithParam<uint64_t> {};

TEST_P(TrafficTest, EveryOutputIsThatOfTheModel) {
  const auto share = static_cast<uint64_t>(TestShare());
  const uint64_t first = TestSeed() % share;
  for (uint64_t i = first; i < kSeeds / kParts && !HasFailure(); i += share)
    RunSeed(i * kParts + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, TrafficTest, testing::Range(uint64_t{0}, kParts));

TEST(TrafficReplayTest, GivenScriptOrSeedPasses) {
  const char* const path = std::getenv("COPPICE_TRAFFIC_SCRIPT");  // NOLINT(concurrency-mt-unsafe)
  const char* const seed = std::getenv("COPPICE_TRAFFIC_SEED");    // NOLINT(concurrency-mt-unsafe)
  if (seed != nullptr) return RunSeed(std::strtoull(seed, nullptr, 10));
  if (path == nullptr) GTEST_SKIP() << "neither COPPICE_TRAFFIC_SCRIPT nor COPPICE_TRAFFIC_SEED";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  COPPICE_ASSERT_OK_AND_ASSIGN(const TrafficScript script, ParseScript(text.str()));
  EXPECT_EQ(RunTraffic(script).failure, "");
}

TEST(TrafficScriptTest, TextReadsBackAsTheSameScript) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const TrafficScript script = DrawScript(seed, 50);
    COPPICE_ASSERT_OK_AND_ASSIGN(const TrafficScript again, ParseScript(TextOf(script)));
    EXPECT_EQ(again, script) << "seed " << seed;
  }
}

TEST(TrafficScriptTest, TextThatIsNoScriptIsRefused) {
  for (const char* text : {"jump", "call id", "call id=x", "call color=1", "call program=none"})
    EXPECT_THAT(ParseScript(text), StatusIs(kWrongArgument)) << text;
}

TEST(TrafficScriptTest, SeedsDrawTheSameScriptAgainAndDifferFromEachOther) {
  EXPECT_EQ(DrawScript(7, 50), DrawScript(7, 50));
  EXPECT_NE(DrawScript(7, 50), DrawScript(8, 50));
}

TEST(TrafficScriptTest, SeedsDrawEveryDTypeForFirstAndForOtherTensors) {
  std::set<int64_t> first;
  std::set<int64_t> other;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const TrafficOptions options = DrawScript(seed, 0).options;
    first.insert(options.dtype);
    if (options.other_dtype != options.dtype) other.insert(options.other_dtype);
  }
  EXPECT_EQ(first, other);
  for (int64_t dtype = 0; SizeOf(static_cast<DType>(dtype)) > 0; ++dtype)
    EXPECT_EQ(first.count(dtype), 1U) << NameOf(static_cast<DType>(dtype));
}

// The first seed whose script shows the defect.
TrafficScript FindPlanted(PlantedDefect planted) {
  for (uint64_t seed = 0;; ++seed) {
    TrafficScript script = DrawScript(seed, kCallsPerSeed);
    script.options.background = 0;
    if (!RunTrafficApart(script, planted).empty()) return script;
  }
}

// So that nobody reads "every output" and gets a few.
TEST(TrafficReachTest, TrafficTakesEveryPathForEveryReasonAndIsRefused) {
  constexpr uint64_t kSome = 80;
  TrafficReport sum;
  std::map<int64_t, SessionStats> by_width;  // In bytes, of elements of first tensors.
  for (uint64_t seed = 0; seed < kSome; ++seed) {
    const TrafficScript script = DrawScript(seed, kCallsPerSeed);
    const TrafficReport report = RunTraffic(script);
    EXPECT_EQ(report.failure, "") << "seed " << seed;
    SessionStats& of_width = by_width[SizeOf(static_cast<DType>(script.options.dtype))];
    of_width.inputs_in_place += report.stats.inputs_in_place;
    of_width.inputs_filled += report.stats.inputs_filled;
    for (size_t path = 0; path < sum.stats.runs.size(); ++path)
      sum.stats.runs[path] += report.stats.runs[path];
    for (size_t reason = 0; reason < sum.stats.reasons.size(); ++reason)
      sum.stats.reasons[reason] += report.stats.reasons[reason];
    sum.stats.calls += report.stats.calls;
    sum.stats.inputs_in_place += report.stats.inputs_in_place;
    sum.stats.inputs_filled += report.stats.inputs_filled;
    sum.stats.inputs_demoted += report.stats.inputs_demoted;
    sum.stats.evictions += report.stats.evictions;
    sum.stats.stream_switches += report.stats.stream_switches;
    sum.outputs_compared += report.outputs_compared;
    sum.calls_refused += report.calls_refused;
    sum.reads_refused += report.reads_refused;
    sum.faults += report.faults;
    sum.stats.remaps += report.stats.remaps;
    sum.suspensions += report.suspensions;
    sum.loans += report.loans;
    sum.scrubs += report.scrubs;
    sum.external_changes += report.external_changes;
    sum.memory_refused += report.memory_refused;
    sum.budget_refused += report.budget_refused;
    sum.swaps += report.swaps;
  }
  for (size_t path = 0; path < sum.stats.runs.size(); ++path) {
    const char* const name = NameOf(static_cast<RunKind>(path));
    fmt::print("{:>22} {}\n", name, sum.stats.runs[path]);
    EXPECT_GT(sum.stats.runs[path], 100) << name;
  }
  for (size_t i = 1; i < sum.stats.reasons.size(); ++i) {
    const auto reason = static_cast<Reason>(i);
    fmt::print("{:>22} {}\n", NameOf(reason), sum.stats.reasons[i]);
    // Somebody else would have to break a capture.
    if (reason == Reason::kCaptureInvalidated) continue;
    EXPECT_GT(sum.stats.reasons[i], 10) << NameOf(reason);
  }
  fmt::print(
      "{} calls, {} inputs in place, {} filled, {} demoted, {} evictions, {} stream switches, {} "
      "outputs compared, {} calls and {} reads refused, {} faults\n",
      sum.stats.calls, sum.stats.inputs_in_place, sum.stats.inputs_filled, sum.stats.inputs_demoted,
      sum.stats.evictions, sum.stats.stream_switches, sum.outputs_compared, sum.calls_refused,
      sum.reads_refused, sum.faults);
  fmt::print(
      "{} suspensions, {} loans, {} scrubs, {} changes of external bytes, {} of these refused, {} "
      "calls refused for the budget, {} remaps, {} swaps of ladders\n",
      sum.suspensions, sum.loans, sum.scrubs, sum.external_changes, sum.memory_refused,
      sum.budget_refused, sum.stats.remaps, sum.swaps);
  EXPECT_GT(sum.stats.calls, static_cast<int64_t>(kSome) * kCallsPerSeed * 2 / 3);
  for (const int64_t count :
       {sum.stats.inputs_in_place, sum.stats.inputs_filled, sum.stats.evictions,
        sum.stats.stream_switches, sum.calls_refused, sum.reads_refused, sum.faults,
        sum.suspensions, sum.loans, sum.scrubs, sum.external_changes, sum.memory_refused,
        sum.budget_refused, sum.swaps})
    EXPECT_GT(count, 30);
  EXPECT_THAT(by_width, SizeIs(4));
  for (const auto& [width, stats] : by_width) {
    fmt::print("{} bytes: {} inputs in place, {} filled\n", width, stats.inputs_in_place,
               stats.inputs_filled);
    EXPECT_GT(stats.inputs_in_place, 10) << width;
    EXPECT_GT(stats.inputs_filled, 10) << width;
  }
  EXPECT_GT(sum.outputs_compared, sum.stats.calls / 2);
  EXPECT_GT(sum.stats.inputs_demoted, 5);
  EXPECT_GT(sum.stats.remaps, 5);
}

TEST(TrafficShrinkTest, FindsAWrongByteInAChainAfterASwapOfStatics) {
  const ShrunkScript shrunk =
      Shrink(FindPlanted(PlantedDefect::kChainAfterSwap), [](const TrafficScript& script) {
        return RunTraffic(script, PlantedDefect::kChainAfterSwap).failure;
      });
  // A chain, a call with statics other than those of one before, and something that reads it.
  EXPECT_LE(shrunk.script.operations.size(), 4U) << TextOf(shrunk.script);
  EXPECT_THAT(shrunk.failure, HasSubstr("wrong bytes"));
  COPPICE_ASSERT_OK_AND_ASSIGN(const TrafficScript again, ParseScript(TextOf(shrunk.script)));
  EXPECT_NE(RunTraffic(again, PlantedDefect::kChainAfterSwap).failure, "");
  EXPECT_EQ(RunTraffic(again).failure, "") << "the defect is in the script";
}

TEST(TrafficShrinkTest, FindsWhatEndsTheProcess) {
  const ShrunkScript shrunk = Shrink(
      FindPlanted(PlantedDefect::kAbort),
      [](const TrafficScript& script) { return RunTrafficApart(script, PlantedDefect::kAbort); });
  // A chain, and a call with statics other than those of one before.
  EXPECT_LE(shrunk.script.operations.size(), 3U) << TextOf(shrunk.script);
  EXPECT_THAT(shrunk.failure, HasSubstr("signal"));
}

}  // namespace
}  // namespace coppice
