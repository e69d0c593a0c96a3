// Goal: every sentence of graphs/gate.h. Method: rounds of timings drawn from seeded distributions,
// in the order of their calls or late; p-values against a numeric integration of the t density.

#include "graphs/node/gate.h"

#include <numbers>

#include "tests/support/host_allocations.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

using Choice = Gate::Choice;
using Times = std::vector<double>;
// What the call of this number in a round takes, if it runs the side whose clock this is.
using Clock = std::function<double(int)>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kRounds = 2000;

class GateTest : public testing::Test {
 protected:
  // Runs a round whose every time is there before the next call.
  static Gate::Verdict Measure(Gate& gate, const Clock& replay, const Clock& eager) {
    for (int call = 0; call < 2 * Gate::kSamples; ++call) {
      const Gate::Run run = gate.Next();
      EXPECT_TRUE(run.timed) << call;
      gate.Add(run, run.choice == Choice::kEager ? eager(call) : replay(call));
    }
    EXPECT_TRUE(gate.decided());
    return gate.verdict().value_or(Gate::Verdict());
  }
  static Gate::Verdict Measure(const Clock& replay, const Clock& eager) {
    Gate gate;
    return Measure(gate, replay, eager);
  }

  // Every run that a round hands out.
  static std::vector<Gate::Run> HandOut(Gate& gate) {
    std::vector<Gate::Run> runs;
    for (Gate::Run run = gate.Next(); run.timed; run = gate.Next())
      runs.push_back(run);
    return runs;
  }

  // A round whose times all arrive after its last run, replay's first: eager's last one closes it.
  static Gate::Verdict MeasureLate(const Times& replay, const Times& eager) {
    Gate gate;
    std::vector<Gate::Run> runs = HandOut(gate);
    std::stable_sort(runs.begin(), runs.end(), [](const Gate::Run& a, const Gate::Run& b) {
      return a.choice == Choice::kReplay && b.choice == Choice::kEager;
    });
    for (size_t i = 0; i < replay.size(); ++i)
      gate.Add(runs[i], replay[i]);
    for (size_t i = 0; i < eager.size(); ++i)
      gate.Add(runs[Gate::kRunsMax + i], eager[i]);
    EXPECT_TRUE(gate.decided());
    return gate.verdict().value_or(Gate::Verdict());
  }

  Clock Normal(double mean, double deviation) {
    return [this, mean, deviation](int /*call*/) {
      return std::normal_distribution<double>(mean, deviation)(random_);
    };
  }

  template <class Distribution>
  Times Draw(Distribution distribution, int count) {
    Times times;
    for (int i = 0; i < count; ++i)
      times.push_back(distribution(random_));
    return times;
  }

  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << TestSeed()};
  std::mt19937_64 random_{TestSeed()};
};

Clock Constant(double microseconds) {
  return [microseconds](int /*call*/) { return microseconds; };
}

// 2 P(T > t). With x = sqrt(v) tan a the tail is the integral of c cos^(v-1) a from atan(t/sqrt(v))
// to pi/2; Simpson's rule.
double TwoSidedTail(double t, double freedom) {
  const double from = std::atan(t / std::sqrt(freedom));
  const int panels = 20000;
  const double step = (std::numbers::pi / 2 - from) / panels;
  double sum = 0;
  for (int i = 0; i <= panels; ++i) {
    const double weight = i == 0 || i == panels ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * std::pow(std::max(0.0, std::cos(from + i * step)), freedom - 1);
  }
  const double scale = std::exp(std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2)) /
                       std::sqrt(std::numbers::pi);
  return 2 * scale * sum * step / 3;
}

double MeanOf(const Times& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

// Welch's test as textbooks print it.
double WelchOracle(const Times& a, const Times& b) {
  const auto squared_error = [](const Times& times) {
    double squares = 0;
    for (const double time : times)
      squares += std::pow(time - MeanOf(times), 2);
    const auto n = static_cast<double>(times.size());
    return squares / (n - 1) / n;
  };
  const double u = squared_error(a);
  const double v = squared_error(b);
  const double freedom =
      (u + v) * (u + v) /
      (u * u / static_cast<double>(a.size() - 1) + v * v / static_cast<double>(b.size() - 1));
  return TwoSidedTail(std::abs(MeanOf(a) - MeanOf(b)) / std::sqrt(u + v), freedom);
}

TEST_F(GateTest, EveryPairOfCallsRunsOnceEachWay) {
  Gate gate;
  for (int pair = 0; pair < Gate::kRunsMax; ++pair) {
    const Gate::Run first = gate.Next();
    const Gate::Run second = gate.Next();
    EXPECT_TRUE(first.timed && second.timed) << pair;
    EXPECT_NE(first.choice, second.choice) << pair;
  }
}

TEST_F(GateTest, ClosesAtExactlyTheLastTimingThatItNeeds) {
  Gate gate;
  for (int call = 0; call < 2 * Gate::kSamples; ++call) {
    EXPECT_FALSE(gate.decided() || gate.verdict().has_value()) << call;
    gate.Add(gate.Next(), 5);
  }
  EXPECT_TRUE(gate.decided());
  EXPECT_EQ(gate.samples(Choice::kEager), Gate::kSamples);
  EXPECT_EQ(gate.samples(Choice::kReplay), Gate::kSamples);
  ASSERT_TRUE(gate.verdict().has_value());
  EXPECT_EQ(gate.verdict()->eager.samples, Gate::kSamples);
  EXPECT_EQ(gate.verdict()->replay.samples, Gate::kSamples);
}

// Strict alternation would time the short calls one way and the long ones the other.
TEST_F(GateTest, TrafficThatRepeatsFavoursNeitherSide) {
  for (const int period : {2, 4}) {
    for (int slow = 0; slow < period; ++slow) {
      const Clock clock = [=](int call) { return call % period == slow ? 400.0 : 100.0; };
      const Gate::Verdict verdict = Measure(clock, clock);
      EXPECT_EQ(verdict.kept, Choice::kReplay);
      EXPECT_DOUBLE_EQ(verdict.eager.mean_us, verdict.replay.mean_us);
      EXPECT_DOUBLE_EQ(verdict.eager.median_us, verdict.replay.median_us);
      EXPECT_GT(verdict.p_value, 0.999);
    }
  }
}

TEST_F(GateTest, ATrendFavoursNeitherSide) {
  for (const double slope : {-1.0, 1.0}) {
    const Clock clock = [slope](int call) { return 100 + slope * call; };
    const Gate::Verdict verdict = Measure(clock, clock);
    EXPECT_NEAR(verdict.eager.mean_us, verdict.replay.mean_us, 1e-9);
    EXPECT_EQ(verdict.kept, Choice::kReplay);
  }
}

// Of equal normal sides the test calls 1 % different, half of them in eager's favour: 10 of 2,000
// rounds, and more than 30 in one run of 10 million. Skewed sides are called different less often.
TEST_F(GateTest, EqualSidesKeepTheGraphInNearlyAllRounds) {
  std::lognormal_distribution<double> skewed(4, 0.5);
  std::exponential_distribution<double> spread(0.01);
  std::bernoulli_distribution rare(0.1);
  const std::map<std::string, Clock> clocks = {
      {"normal", Normal(100, 5)},
      {"lognormal", [&](int /*call*/) { return skewed(random_); }},
      {"exponential", [&](int /*call*/) { return spread(random_); }},
      {"two modes", [&](int /*call*/) { return rare(random_) ? 500.0 : 100.0; }},
  };
  for (const auto& [name, clock] : clocks) {
    int eager = 0;
    for (int round = 0; round < kRounds; ++round) {
      eager += Measure(clock, clock).kept == Choice::kEager;
    }
    EXPECT_LE(eager, kRounds * 15 / 1000) << name;
  }
}

// 30 us apart at a deviation of 5 us: 19 standard errors.
TEST_F(GateTest, TheFasterSideIsKeptIfItIsClearlyFaster) {
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(Measure(Normal(130, 5), Normal(100, 5)).kept, Choice::kEager);
    EXPECT_EQ(Measure(Normal(100, 5), Normal(130, 5)).kept, Choice::kReplay);
  }
}

TEST_F(GateTest, EagerIsKeptExactlyIfMedianMeanAndTestAllSaySo) {
  int kept_by_test = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Gate::Verdict verdict = Measure(Normal(104, 5), Normal(100, 5));
    const bool lower = verdict.eager.median_us < verdict.replay.median_us &&
                       verdict.eager.mean_us < verdict.replay.mean_us;
    EXPECT_EQ(verdict.kept == Choice::kEager, lower && verdict.p_value < Gate::kSignificance);
    kept_by_test += lower && verdict.kept == Choice::kReplay;
  }
  EXPECT_GT(kept_by_test, 0);  // The sides are near enough for the test to matter.
  EXPECT_LT(kept_by_test, kRounds);
}

TEST_F(GateTest, ReportsMediansAndMeansOfOddAndEvenCounts) {
  for (int replays = Gate::kSamples; replays <= Gate::kRunsMax; ++replays) {
    Times replay = Draw(std::uniform_real_distribution<double>(10, 20), replays);
    Times eager = Draw(std::uniform_real_distribution<double>(10, 20), Gate::kSamples);
    const Gate::Verdict verdict = MeasureLate(replay, eager);
    EXPECT_EQ(verdict.replay.samples, replays);
    EXPECT_EQ(verdict.eager.samples, Gate::kSamples);
    EXPECT_NEAR(verdict.replay.mean_us, MeanOf(replay), 1e-12);
    EXPECT_NEAR(verdict.eager.mean_us, MeanOf(eager), 1e-12);
    for (const auto& [times, side] :
         {std::pair(&replay, &verdict.replay), {&eager, &verdict.eager}}) {
      std::sort(times->begin(), times->end());
      const size_t n = times->size();
      EXPECT_DOUBLE_EQ(side->median_us, ((*times)[(n - 1) / 2] + (*times)[n / 2]) / 2);
    }
  }
}

TEST_F(GateTest, OutliersDoNotFlipAMedian) {
  const Clock stalled = [](int call) { return call % 5 < 2 ? 9000.0 + call : 90.0 + 0.01 * call; };
  const Gate::Verdict verdict = Measure(stalled, Constant(100));
  EXPECT_LT(verdict.eager.mean_us, verdict.replay.mean_us);
  EXPECT_LT(verdict.p_value, Gate::kSignificance);
  EXPECT_LT(verdict.replay.median_us, verdict.eager.median_us);
  EXPECT_EQ(verdict.kept, Choice::kReplay);

  // Nor is a lower median enough against a mean that is significantly higher.
  const Gate::Verdict swapped = Measure(Constant(100), stalled);
  EXPECT_LT(swapped.eager.median_us, swapped.replay.median_us);
  EXPECT_LT(swapped.p_value, Gate::kSignificance);
  EXPECT_EQ(swapped.kept, Choice::kReplay);
}

TEST_F(GateTest, OneOutlierMakesNoDifferenceSignificant) {
  bool hit = false;
  const Clock once = [&hit](int /*call*/) { return std::exchange(hit, true) ? 100.0 : 1e6; };
  const Gate::Verdict verdict = Measure(once, Constant(99));
  EXPECT_GT(verdict.p_value, 0.1);
  EXPECT_EQ(verdict.kept, Choice::kReplay);
}

TEST_F(GateTest, PValueIsThatOfAnIntegratedDensity) {
  std::uniform_real_distribution<double> mean(95, 105);
  std::uniform_real_distribution<double> deviation(0.01, 20);
  std::uniform_int_distribution<int> count(Gate::kSamples, Gate::kRunsMax);
  for (int round = 0; round < 50; ++round) {
    const Times replay =
        Draw(std::normal_distribution(mean(random_), deviation(random_)), count(random_));
    const Times eager =
        Draw(std::normal_distribution(mean(random_), deviation(random_)), Gate::kSamples);
    const double expected = WelchOracle(replay, eager);
    EXPECT_NEAR(MeasureLate(replay, eager).p_value, expected, 1e-8 * expected);
  }
}

TEST_F(GateTest, ASideWithoutVarianceIsTestedByTheOther) {
  const Times replay = Draw(std::normal_distribution<double>(101, 5), 23);
  const Times eager(Gate::kSamples, 100.0);
  const double expected = WelchOracle(replay, eager);
  EXPECT_NEAR(MeasureLate(replay, eager).p_value, expected, 1e-8 * expected);
}

TEST_F(GateTest, ConstantSidesAreComparedExactly) {
  const double low = 0.1;  // Its sums round.
  const double high = std::nextafter(low, 1);
  const Gate::Verdict eager_faster = Measure(Constant(high), Constant(low));
  EXPECT_EQ(eager_faster.p_value, 0);
  EXPECT_EQ(eager_faster.kept, Choice::kEager);
  const Gate::Verdict replay_faster = Measure(Constant(low), Constant(high));
  EXPECT_EQ(replay_faster.p_value, 0);
  EXPECT_EQ(replay_faster.kept, Choice::kReplay);
}

TEST_F(GateTest, ATieKeepsTheGraph) {
  for (const double time : {0.0, 0.1, 7.0}) {
    const Gate::Verdict verdict = Measure(Constant(time), Constant(time));
    EXPECT_EQ(verdict.p_value, 1);
    EXPECT_EQ(verdict.eager.median_us, time);
    EXPECT_EQ(verdict.kept, Choice::kReplay);
  }
}

TEST_F(GateTest, PValueIsAProbabilityForEveryTime) {
  const double extremes[] = {0, 5e-324, 1e-200, 1, 1e30, 1e200, 1.7e308};
  for (const double a : extremes) {
    for (const double b : extremes) {
      for (const double c : extremes) {
        bool odd = false;
        const Gate::Verdict verdict =
            Measure(Constant(a), [&](int /*call*/) { return (odd = !odd) ? b : c; });
        EXPECT_GE(verdict.p_value, 0) << a << " " << b << " " << c;
        EXPECT_LE(verdict.p_value, 1) << a << " " << b << " " << c;
      }
    }
  }
}

TEST_F(GateTest, RechecksAfterExactlySoManyCalls) {
  for (const Choice kept : {Choice::kEager, Choice::kReplay}) {
    Gate gate;
    const bool eager = kept == Choice::kEager;
    Measure(gate, Constant(eager ? 2 : 1), Constant(eager ? 1 : 2));
    for (int round = 0; round < 3; ++round) {
      for (int call = 0; call < Gate::kRecheckCalls; ++call) {
        const Gate::Run run = gate.Next();
        ASSERT_FALSE(run.timed) << call;
        ASSERT_EQ(run.choice, kept) << call;
      }
      EXPECT_TRUE(gate.decided());
      Measure(gate, Constant(eager ? 2 : 1), Constant(eager ? 1 : 2));
    }
  }
}

TEST_F(GateTest, ARecheckForgetsOldTimesAndMayDecideOtherwise) {
  Gate gate;
  ASSERT_EQ(Measure(gate, Constant(2), Constant(1)).kept, Choice::kEager);
  for (int call = 0; call < Gate::kRecheckCalls; ++call)
    gate.Next();
  gate.Add(gate.Next(), 3);
  EXPECT_FALSE(gate.decided());
  EXPECT_EQ(gate.samples(Choice::kEager) + gate.samples(Choice::kReplay), 1);
  EXPECT_EQ(gate.decision(), Choice::kEager);  // Until the round closes.
  ASSERT_TRUE(gate.verdict().has_value());
  EXPECT_EQ(gate.verdict()->kept, Choice::kEager);

  while (!gate.decided()) {
    const Gate::Run run = gate.Next();
    gate.Add(run, run.choice == Choice::kEager ? 2 : 1);
  }
  EXPECT_EQ(gate.decision(), Choice::kReplay);
}

TEST_F(GateTest, CallsBeyondTheHandedOutRunsFollowTheLastDecision) {
  Gate gate;
  for (const Choice before : {Choice::kReplay, Choice::kEager}) {
    const std::vector<Gate::Run> runs = HandOut(gate);  // And one call that is not timed.
    EXPECT_EQ(runs.size(), 2 * Gate::kRunsMax);
    EXPECT_EQ(std::count_if(runs.begin(), runs.end(),
                            [](const Gate::Run& run) { return run.choice == Choice::kEager; }),
              Gate::kRunsMax);
    const Gate::Run run = gate.Next();
    EXPECT_FALSE(run.timed);
    EXPECT_EQ(run.choice, before);
    EXPECT_FALSE(gate.decided());
    for (const Gate::Run& late : runs)
      gate.Add(late, late.choice == Choice::kEager ? 1 : 2);
    EXPECT_EQ(gate.decision(), Choice::kEager);
    for (int call = 0; call < Gate::kRecheckCalls; ++call)
      ASSERT_FALSE(gate.Next().timed) << call;
  }
}

TEST_F(GateTest, TimesMayArriveLateAndInAnyOrder) {
  for (int round = 0; round < 200; ++round) {
    const bool eager_faster = round % 2 == 0;
    Gate gate;
    std::vector<Gate::Run> outstanding;
    int calls = 0;
    while (!gate.decided()) {
      ASSERT_LT(++calls, 10000);
      const Gate::Run run = gate.Next();
      if (run.timed) outstanding.push_back(run);
      if (random_() % 3 != 0 || outstanding.empty()) continue;
      std::swap(outstanding[random_() % outstanding.size()], outstanding.back());
      const bool eager = outstanding.back().choice == Choice::kEager;
      gate.Add(outstanding.back(), (eager == eager_faster ? Normal(100, 5) : Normal(130, 5))(0));
      outstanding.pop_back();
    }
    EXPECT_EQ(gate.decision(), eager_faster ? Choice::kEager : Choice::kReplay);
    const int samples[] = {gate.samples(Choice::kEager), gate.samples(Choice::kReplay)};
    EXPECT_GE(std::min(samples[0], samples[1]), Gate::kSamples);
    EXPECT_LE(std::max(samples[0], samples[1]), Gate::kRunsMax);
    for (const Gate::Run& run : outstanding)
      gate.Add(run, 1e9);  // Too late.
    EXPECT_EQ(gate.samples(Choice::kEager), samples[0]);
    EXPECT_EQ(gate.samples(Choice::kReplay), samples[1]);
  }
}

TEST_F(GateTest, ARoundClosesThoughSomeTimesAreLost) {
  Gate gate;
  std::map<Choice, int> lost;
  for (const Gate::Run& run : HandOut(gate)) {
    if (lost[run.choice]++ < Gate::kRunsMax - Gate::kSamples) continue;
    gate.Add(run, run.choice == Choice::kEager ? 1 : 2);
  }
  EXPECT_TRUE(gate.decided());
  EXPECT_EQ(gate.decision(), Choice::kEager);
}

TEST_F(GateTest, ARoundThatLosesMoreIsFollowedByTheNext) {
  Gate gate;
  std::vector<Gate::Run> runs;
  for (int i = 0; i < 2 * Gate::kRunsMax; ++i)
    runs.push_back(gate.Next());
  for (int call = 0; call < Gate::kRecheckCalls; ++call) {
    const Gate::Run run = gate.Next();
    ASSERT_FALSE(run.timed) << call;
    ASSERT_EQ(run.choice, Choice::kReplay) << call;
  }
  const Gate::Run next = gate.Next();
  EXPECT_TRUE(next.timed);
  for (const Gate::Run& late : runs)
    gate.Add(late, 1);
  EXPECT_EQ(gate.samples(Choice::kEager) + gate.samples(Choice::kReplay), 0);
  gate.Add(next, 1);
  EXPECT_EQ(gate.samples(next.choice), 1);
}

TEST_F(GateTest, IgnoresWhatIsNoTimeOfARunOfTheRound) {
  Gate gate;
  const Gate::Run run = gate.Next();
  for (const double time : {kNan, kInfinity, -kInfinity, -1.0, -5e-324}) {
    gate.Add(run, time);
    EXPECT_EQ(gate.samples(run.choice), 0) << time;
  }
  gate.Add(run, 0);
  EXPECT_EQ(gate.samples(run.choice), 1);
  Gate::Run untimed = run;
  untimed.timed = false;
  gate.Add(untimed, 1);
  EXPECT_EQ(gate.samples(run.choice), 1);
}

TEST_F(GateTest, ResetForgetsEverything) {
  Gate gate;
  ASSERT_EQ(Measure(gate, Constant(2), Constant(1)).kept, Choice::kEager);
  gate.Reset();
  EXPECT_FALSE(gate.decided());
  EXPECT_FALSE(gate.verdict().has_value());
  EXPECT_EQ(gate.decision(), Choice::kReplay);
  EXPECT_EQ(gate.samples(Choice::kEager) + gate.samples(Choice::kReplay), 0);

  const Gate::Run before = gate.Next();
  gate.Reset();
  gate.Add(before, 1);  // Of another graph.
  EXPECT_EQ(gate.samples(before.choice), 0);
  EXPECT_EQ(Measure(gate, Constant(1), Constant(2)).kept, Choice::kReplay);
}

TEST_F(GateTest, ResetEndsTheWaitForARoundThatLosesItsTimes) {
  Gate gate;
  HandOut(gate);
  gate.Reset();
  EXPECT_EQ(Measure(gate, Constant(2), Constant(1)).kept, Choice::kEager);
}

TEST_F(GateTest, NothingAllocates) {
  host_allocations.count = 0;
  int rounds = 0;
  {
    const CountingScope counting(true);
    Gate gate;
    for (int call = 0; call < 3 * Gate::kRecheckCalls; ++call) {
      const Gate::Run run = gate.Next();
      gate.Add(run, 100 + call % 7 + (run.choice == Choice::kEager ? 0 : 20));
      rounds += run.timed && gate.decided();
    }
    gate.Reset();
  }
  EXPECT_EQ(host_allocations.count, 0);
  EXPECT_EQ(rounds, 3);
}

using GateDeathTest = GateTest;

TEST_F(GateDeathTest, ARunThatIsTimedTwiceIsABug) {
  Gate gate;
  const Gate::Run run = gate.Next();
  for (int i = 0; i < Gate::kRunsMax; ++i)
    gate.Add(run, 1);
  EXPECT_DEATH(gate.Add(run, 1), "timed at most once");
}

}  // namespace
}  // namespace coppice::internal
