// Goal: what `coppice prof whatif` says of a change is what a session does that is made so. Method:
// sessions of programs that are drawn, traced; each once more with a change, and their figures
// compared; sizes and windows against sums computed here.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_share.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/drawn_traffic.h"
#include "tests/tools/trace_builder.h"
#include "tools/prof/whatif/copy_ring.h"
#include "tools/prof/whatif/size_fit.h"
#include "tools/prof/whatif/traced_spec.h"
#include "tools/prof/whatif/whatif.h"
#include "tools/prof/whatif/whatif_report.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A path in the folder of tests, whose file goes with it.
class TracePath {
 public:
  explicit TracePath(const std::string& name)
      : path_(fmt::format("{}/coppice_whatif_{}_{}.trace",
                          testing::TempDir(),
                          testing::UnitTest::GetInstance()->current_test_info()->name(),
                          name)) {}
  ~TracePath() { std::filesystem::remove(path_); }
  TracePath(const TracePath&) = delete;
  TracePath& operator=(const TracePath&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Traffic is drawn until so much of it was repeated exactly, at most this many times as often: by
// chance that does not happen.
constexpr int kTries = 6;

WhatIfFigures RecordedIn(const std::string& trace) {
  const absl::StatusOr<std::unique_ptr<WhatIf>> opened = WhatIf::Open(trace);
  EXPECT_OK(opened);
  return opened.ok() ? (*opened)->recorded() : WhatIfFigures();
}

// The traffic, run on a device and repeated without a change. Says whether all sizes were known:
// not those of buckets that were met once, nor of calls beyond all buckets.
void ExpectRepeatedExactly(const DrawnTraffic& traffic, int& exact) {
  const TracePath trace("same");
  ASSERT_OK(RunTraffic(traffic, {}, trace.path()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(trace.path()));
  EXPECT_THAT(whatif->gaps(), IsEmpty());
  COPPICE_ASSERT_OK_AND_ASSIGN(const WhatIfOutcome same, whatif->Repeat({}));
  EXPECT_EQ(same.first_refusal, "");
  EXPECT_EQ(same.figures.paths, whatif->recorded().paths);
  if (!same.estimates.empty()) return;
  ++exact;
  EXPECT_THAT(same.figures.DifferencesFrom(whatif->recorded()), IsEmpty());
}

TEST(ProfWhatIfTest, WithoutAChangeFiguresAreThoseOfTheTrace) {
  // Of nearly three in four all sizes are known.
  const int wanted = 18 / static_cast<int>(std::min<int64_t>(TestShare(), 6));
  int exact = 0;
  int cases = 0;
  for (; exact < wanted && cases < kTries * wanted && !HasFailure(); ++cases) {
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", TestSeed(), cases));
    ExpectRepeatedExactly(DrawTraffic(TestSeed() + static_cast<uint64_t>(cases)), exact);
  }
  EXPECT_GE(exact, wanted) << "of " << cases;
}

// A change that is drawn, and the same as options of a session.
struct DrawnChange {
  WhatIfChanges changes;
  TrafficChange traffic;
};

DrawnChange DrawChange(const DrawnTraffic& traffic,
                       const WhatIf& whatif,
                       std::mt19937_64& random,
                       int kind) {
  const auto draw = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  DrawnChange drawn;
  auto program = static_cast<size_t>(draw(0, std::ssize(traffic.programs) - 1));
  // A bucket of two sizes is none of a policy.
  if (kind == 0) program = traffic.programs[program].columns.has_value() ? 1 - program : program;
  const DrawnProgram& of = traffic.programs[program];
  switch (kind) {
    case 0: {  // Drop one of the policy's buckets that traffic met.
      std::vector<int64_t> met;
      for (const TracedBucket& bucket : whatif.trace().buckets)
        if (bucket.program == static_cast<int>(program) && bucket.extents[0] <= of.rows.maximum())
          met.push_back(bucket.extents[0]);
      if (met.empty() || of.rows.buckets().size() < 2) return drawn;
      const int64_t gone = met[static_cast<size_t>(draw(0, std::ssize(met) - 1))];
      std::vector<int64_t> left = of.rows.buckets();
      if (std::erase(left, gone) == 0 || left.empty()) return drawn;
      drawn.changes.drops = {fmt::format("{}:{}", of.name, gone)};
      drawn.traffic.policies.emplace(program, *PaddingPolicy::List(left, left.back()));
      return drawn;
    }
    case 1: {  // Another policy for the rows of one program, or of all.
      const char* const ladders[] = {"pow2", "linear:32", "geometric:1.5:8", "16,64,200",
                                     "ramp:8:64"};
      const std::string ladder = ladders[draw(0, 4)];
      const bool all = draw(0, 1) == 1;
      for (size_t i = 0; i < traffic.programs.size(); ++i) {
        if (!all && i != program) continue;
        drawn.changes.policies.push_back(
            fmt::format("{}.rows={}", traffic.programs[i].name, ladder));
        const int64_t most = traffic.programs[i].rows.maximum();
        const std::string list = most < 200 ? "16,64" : "16,64,200";
        drawn.traffic.policies.emplace(
            i, *PaddingPolicy::Parse(ladder == "16,64,200" ? list : ladder, most));
      }
      return drawn;
    }
    case 2:
      drawn.changes.budget_bytes =
          AlignUp(whatif.recorded().total_peak * draw(55, 99) / 100, 2 * kMiB);
      drawn.traffic.budget_bytes = drawn.changes.budget_bytes;
      return drawn;
    case 3:
      drawn.changes.lanes = draw(1, 4);
      drawn.traffic.lanes = static_cast<int>(drawn.changes.lanes);
      return drawn;
    case 4:
      drawn.changes.suspend_idle_ns = 1;
      drawn.traffic.suspend = true;
      return drawn;
    default:
      drawn.changes.copy_outputs = true;
      drawn.traffic.copy_outputs = true;
      return drawn;
  }
}

// What the repetition says of a drawn change, against a session that is made so.
void ExpectTruth(uint64_t seed, int kind, int& exact) {
  std::mt19937_64 random(seed);
  DrawnTraffic traffic = DrawTraffic(seed);
  // Of a lease that was dropped between two calls of its lane a trace does not say when, so that
  // other calls, which a change makes of them, may have found it there. Nor does it say so of one
  // that nobody looked for while it was kept.
  for (DrawnPath& path : traffic.paths)
    if (kind <= 3) path.kept = 0;
  if (kind == 0) traffic.programs[0].columns.reset();
  const TracePath trace("before");
  ASSERT_OK(RunTraffic(traffic, {}, trace.path()));
  DrawnChange drawn;
  WhatIfOutcome outcome;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(trace.path()));
    drawn = DrawChange(traffic, *whatif, random, kind);
    COPPICE_ASSERT_OK_AND_ASSIGN(outcome, whatif->Repeat(drawn.changes));
  }
  SCOPED_TRACE(Describe(drawn.changes));
  drawn.traffic.copy_out_bytes = outcome.copy_out_bytes;
  const TracePath changed("after");
  ASSERT_OK(RunTraffic(traffic, drawn.traffic, changed.path()));
  WhatIfFigures truth = RecordedIn(changed.path());
  truth.refused = outcome.figures.refused;  // A trace says nothing of them.
  const std::vector<std::string> differences = outcome.figures.DifferencesFrom(truth);
  if (!outcome.estimates.empty()) return;
  ++exact;
  EXPECT_THAT(differences, IsEmpty()) << outcome.first_refusal;
}

TEST(ProfWhatIfTest, AfterAChangeFiguresAreThoseOfASessionMadeSo) {
  // Some meet sizes that do not follow from those recorded, and say so.
  const int wanted = 24 / static_cast<int>(std::min<int64_t>(TestShare(), 12));
  int exact = 0;
  int cases = 0;
  for (; exact < wanted && cases < kTries * wanted && !HasFailure(); ++cases) {
    const uint64_t seed = TestSeed() + static_cast<uint64_t>(1000 + cases);
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} case {}", TestSeed(), cases));
    ExpectTruth(seed, static_cast<int>(seed % 6), exact);
  }
  EXPECT_GE(exact, wanted) << "of " << cases;
}

TEST(ProfWhatIfTest, ASuspensionThatMayMeetALeaseOfAnEagerRunIsAnEstimate) {
  DrawnTraffic traffic = DrawTraffic(4036804291);
  traffic.lanes = 2;
  for (DrawnPath& path : traffic.paths)
    path.kept = 2;
  const TracePath trace("kept");
  ASSERT_OK(RunTraffic(traffic, {}, trace.path()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(trace.path()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const WhatIfOutcome outcome, whatif->Repeat({.suspend_idle_ns = 1}));
  EXPECT_THAT(outcome.estimates,
              Contains(HasSubstr("leases of eager runs are treated as already dropped")));
}

// A trace of traffic that is always the same, of which every size is known: p0 is padded to 64, 128
// or 600 rows, p1 to 200 or 600 and to 8 or 64 columns.
class FixedTrace {
 public:
  FixedTrace() : path_("fixed"), traffic_(DrawTraffic(7)) {
    traffic_.programs[0].rows = *PaddingPolicy::Parse("64,128,600", 600);
    traffic_.programs[0].columns.reset();
    traffic_.programs[1].rows = *PaddingPolicy::Parse("200,600", 600);
    traffic_.programs[1].columns = *PaddingPolicy::Parse("8,64", 64);
    for (DrawnProgram& program : traffic_.programs) {
      program.scalar = false;
      for (DrawnBuffer& buffer : program.buffers)
        buffer = {.per_row = 512};
    }
    EXPECT_OK(RunTraffic(traffic_, {}, path_.path()));
  }
  const std::string& path() const { return path_.path(); }

 private:
  TracePath path_;
  DrawnTraffic traffic_;
};

CommandOutcome WhatIfOf(const std::string& trace, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"prof", "whatif", trace});
  return RunCoppice(arguments);
}

TEST(ProfWhatIfTest, WrongChangesAreOneClearError) {
  const FixedTrace trace;
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--drop", "decode:8"}, "there is no program 'decode'"},
      {{"--drop", "decode:8"}, "p0, p1"},
      {{"--drop", "p0:65"}, "no such bucket; its recorded buckets: 64, 128, 600"},
      {{"--drop", "p0:x"}, "no such bucket"},
      {{"--drop", "64"}, "give PROGRAM:BUCKET"},
      {{"--drop", "p0:64", "--drop", "p0:64"}, "it is given twice"},
      {{"--policy", "p0=vlmm"}, "vlmm"},
      {{"--policy", "p0=pow2", "--policy", "p0=vllm"},
       "size 'rows' of program 'p0' already has a --policy"},
      {{"--policy", "p0=vllm", "--policy", "pow2"}, "already has a --policy"},
      {{"--policy", "p0.=pow2"}, "there is no program 'p0.'"},
      {{"--policy", "a\nb=pow2"}, "there is no program"},
      {{"--policy", "p9=pow2"}, "there is no program 'p9'"},
      {{"--policy", "p0.depth=pow2"},
       "'depth' is not a size that may be padded; the sizes that may be padded are "},
      {{"--policy", "p0=/no/such.json"}, "/no/such.json"},
      {{"--budget", "1B"}, "--budget"},
      {{"--budget", "4096"}, "there is no room for any call"},
      {{"--lanes", "0"}, "--lanes"},
      {{"--outputs", "move"}, "give copy"},
      {{"--suspend-idle", "-1"}, "--suspend-idle"}};
  for (const auto& [arguments, message] : cases) {
    const CommandOutcome outcome = WhatIfOf(trace.path(), arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

TEST(ProfWhatIfTest, ABucketOfTwoSizesIsNoneOfAPolicy) {
  const FixedTrace trace;
  std::string bucket;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(trace.path()));
    for (const TracedBucket& each : whatif->trace().buckets)
      if (each.program == 1) bucket = fmt::format("p1:{}x{}", each.extents[0], each.extents[1]);
  }
  const CommandOutcome outcome = WhatIfOf(trace.path(), {"--drop", bucket});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("2 sizes of program 'p1' are padded"));
  EXPECT_THAT(outcome.err, HasSubstr("--drop PROGRAM.SYMBOL:BUCKET"));
  EXPECT_EQ(WhatIfOf(trace.path(), {"--policy", "p1.columns=pow2"}).code, kExitOk);
}

TEST(ProfWhatIfTest, ABucketOfOneOfSeveralSizesIsDroppedByThatSize) {
  const FixedTrace trace;
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(trace.path()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ProgramSpec spec, SpecOf(whatif->trace().programs[1]));
  ASSERT_EQ(spec.symbols.size(), 2U);
  for (const SymbolSpec& symbol : spec.symbols) {
    const std::vector<int64_t> buckets = symbol.policy.buckets();
    if (buckets.size() < 2) continue;
    std::string left;
    for (size_t i = 1; i < buckets.size(); ++i)
      left += fmt::format("{}{}", i == 1 ? "" : ",", buckets[i]);
    const std::string size = "p1." + symbol.name;
    const absl::StatusOr<WhatIfOutcome> dropped =
        whatif->Repeat({.drops = {fmt::format("{}:{}", size, buckets[0])}});
    const absl::StatusOr<WhatIfOutcome> listed =
        whatif->Repeat({.policies = {fmt::format("{}={}", size, left)}});
    ASSERT_OK(dropped.status());
    ASSERT_OK(listed.status());
    EXPECT_EQ(ToJson(dropped->figures), ToJson(listed->figures)) << size;
  }
  for (const auto& [drop, message] :
       {std::pair("p1.depth:8", "not a size that is padded on its own"),
        std::pair("p1.rows:8x8", "is one number"),
        std::pair("p1.rows:7", "is not a bucket of the policy")})
    EXPECT_THAT(WhatIfOf(trace.path(), {"--drop", drop}).err, HasSubstr(message));
}

TEST(ProfWhatIfTest, ANameMayHaveBelongedToTwoProgramsOneAfterTheOther) {
  const FixedTrace trace;
  std::string text = *ReadTextFile(trace.path(), "a trace");
  const std::string name = R"("name":"p1")";
  ASSERT_NE(text.find(name), std::string::npos);
  text.replace(text.find(name), name.size(), R"("name":"p0")");
  const TracePath renamed("renamed");
  ASSERT_OK(WriteTextFile(renamed.path(), text));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(renamed.path()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const WhatIfOutcome same, whatif->Repeat({}));
  EXPECT_EQ(same.figures.paths, RecordedIn(trace.path()).paths);
  // What is said of the name is of both, as far as it fits.
  EXPECT_EQ(WhatIfOf(renamed.path(), {"--policy", "p0.columns=pow2"}).code, kExitOk);
  EXPECT_THAT(WhatIfOf(renamed.path(), {"--drop", "p0:65"}).err,
              HasSubstr("its recorded buckets: 64, 128, 200x8"));
}

TEST(ProfWhatIfTest, TheTableAndJsonSayTheSame) {
  const FixedTrace trace;
  const CommandOutcome table = WhatIfOf(trace.path(), {"--drop", "p0:128"});
  EXPECT_EQ(table.code, kExitOk) << table.err << table.out;
  EXPECT_THAT(table.out, HasSubstr("change: --drop p0:128"));
  EXPECT_THAT(table.out, HasSubstr("plan height"));
  const nlohmann::json json = JsonOf(WhatIfOf(trace.path(), {"--drop", "p0:128", "--json"}));
  nlohmann::json before = json["trace"];
  for (const char* key : {"remaps", "record_ns_estimate"})  // What a trace does not say.
    before[key] = json["before"][key];
  EXPECT_EQ(json["before"], before);
  EXPECT_EQ(json["exact"], true);
  EXPECT_LT(json["after"]["graphs_recorded"], json["before"]["graphs_recorded"]);
}

TEST(ProfWhatIfTest, AlternativesAreThoseOfEachChange) {
  const FixedTrace trace;
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(trace.path()));
  const WhatIfChanges changes[] = {
      {}, {.policies = {"pow2"}}, {.policies = {"nothing"}}, {.lanes = 2}};
  const std::vector<WhatIfRung> rungs = whatif->RepeatEach(changes);
  ASSERT_EQ(rungs.size(), 4U);
  EXPECT_THAT(rungs[2].outcome, StatusIs(absl::StatusCode::kInvalidArgument));
  for (const size_t i : {0, 1, 3}) {
    ASSERT_OK(rungs[i].outcome);
    COPPICE_ASSERT_OK_AND_ASSIGN(const WhatIfOutcome alone, whatif->Repeat(changes[i]));
    EXPECT_THAT(rungs[i].outcome->figures.DifferencesFrom(alone.figures), IsEmpty());
  }
}

// `coppice run` of a few requests, traced.
void RunDemo(const std::string& trace, std::vector<std::string> arguments) {
  for (const char* argument : {"run", "--requests", "150", "--shrink", "32", "--verify", "none",
                               "--device", "host", "--quiet"})
    arguments.emplace_back(argument);
  std::ranges::rotate(arguments, std::ranges::find(arguments, "run"));
  arguments.insert(arguments.end(), {"--trace-out", trace});
  const CommandOutcome outcome = RunCoppice(arguments);
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
}

void ExpectDemo(const std::vector<std::string>& run,
                const std::vector<std::string>& rerun,
                const WhatIfChanges& changes) {
  SCOPED_TRACE(Describe(changes));
  const TracePath before("demo");
  const TracePath after("demo_changed");
  RunDemo(before.path(), run);
  RunDemo(after.path(), rerun);
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(before.path()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const WhatIfOutcome same, whatif->Repeat({}));
  EXPECT_THAT(same.figures.DifferencesFrom(whatif->recorded()), IsEmpty());
  COPPICE_ASSERT_OK_AND_ASSIGN(const WhatIfOutcome outcome, whatif->Repeat(changes));
  EXPECT_THAT(outcome.estimates, IsEmpty());
  EXPECT_THAT(outcome.figures.DifferencesFrom(RecordedIn(after.path())), IsEmpty());
}

TEST(ProfWhatIfTest, ADemoWithAnotherPolicyIsTheDemoRunWithIt) {
  ExpectDemo({}, {"--policy", "pow2"}, {.policies = {"pow2"}});
  ExpectDemo({}, {"--decode-policy", "4,32"}, {.policies = {"decode=4,32"}});
}

TEST(ProfWhatIfTest, ADemoWithoutABucketIsTheDemoRunWithoutIt) {
  ExpectDemo({"--decode-policy", "1,2,4,8,32"}, {"--decode-policy", "1,2,4,32"},
             {.drops = {"decode:8"}});
}

TEST(ProfWhatIfTest, ADemoThatWarmsAheadIsRepeatedExactly) {
  ExpectDemo({"--order", "asc"}, {"--order", "asc"}, {});
}

TEST(ProfWhatIfTest, ADemoThatLearnsItsBucketsAnewIsRepeatedExactly) {
  const std::vector<std::string> learning = {"--generate", "mix", "--policy", "pow2",
                                             "--relearn=100"};
  ExpectDemo(learning, learning, {});
  const TracePath trace("learned");
  RunDemo(trace.path(), learning);
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif, WhatIf::Open(trace.path()));
  EXPECT_THAT(whatif->gaps(), IsEmpty());
  const PoolTrace& traced = whatif->trace();
  ASSERT_FALSE(traced.policies.empty());
  // Buckets of the first policy and of those learned may go, but for the largest, where all end.
  for (const TracedBucket& bucket : traced.buckets) {
    const std::string drop = fmt::format(
        "{}:{}", traced.programs[static_cast<size_t>(bucket.program)].name, bucket.extents[0]);
    SCOPED_TRACE(drop);
    const absl::StatusOr<WhatIfOutcome> without = whatif->Repeat({.drops = {drop}});
    if (!without.ok()) {
      EXPECT_THAT(std::string(without.status().message()), HasSubstr("it is the largest"));
      continue;
    }
    EXPECT_THAT(without->estimates, Not(Contains(HasSubstr("recorded ahead"))));
    EXPECT_EQ(without->figures.calls(), whatif->recorded().calls());
    const auto eager = static_cast<size_t>(RunKind::kEager);
    if (without->figures.paths[eager] > whatif->recorded().paths[eager]) continue;
    EXPECT_GE(without->figures.padded_elements, whatif->recorded().padded_elements);
  }
}

TEST(ProfWhatIfTest, ADemoUnderABudgetIsTheDemoRunUnderIt) {
  // All graphs have room, eager windows come and go.
  const TracePath trace("peak");
  RunDemo(trace.path(), {});
  const WhatIfFigures figures = RecordedIn(trace.path());
  const int64_t budget = figures.total_peak - 2 * kMiB;
  ExpectDemo({}, {"--budget", fmt::format("{}", budget)}, {.budget_bytes = budget});
}

// A fit of these buckets in one size.
SizeFit FitOf(const std::vector<std::pair<int64_t, int64_t>>& buckets, int64_t unit = 256) {
  std::vector<SizePoint> points;
  for (const auto& [size, bytes] : buckets)
    points.push_back({.sizes = {size}, .bytes = bytes});
  return {std::move(points), unit};
}

TEST(SizeFitTest, RecordedBucketsAreAsTheyWere) {
  const SizeFit fit = FitOf({{1, 256}, {2, 9984}, {3, 512}});
  const int64_t two[] = {2};
  EXPECT_EQ(fit.At(two).bytes, 9984);
  EXPECT_TRUE(fit.At(two).exact);
}

TEST(SizeFitTest, OtherBucketsAreExactWhereAllSumsAgree) {
  // 1000 bytes for each of n, rounded up to 256.
  const SizeFit fit = FitOf({{100, 100096}, {200, 200192}, {512, 512000}});
  EXPECT_EQ(fit.terms(), 1);
  const int64_t between[] = {333};
  EXPECT_EQ(fit.At(between).bytes, 333056);
  EXPECT_TRUE(fit.At(between).exact);
}

TEST(SizeFitTest, OneBucketDeterminesNoOther) {
  const int64_t sizes[] = {16};
  EXPECT_FALSE(FitOf({{8, 4096}}).At(sizes).exact);
}

TEST(SizeFitTest, TwoTermsTakeThreeBuckets) {
  // 1 MiB and 4096 for each of n.
  const int64_t sizes[] = {24};
  const SizeFit two = FitOf({{8, kMiB + 32768}, {64, kMiB + 262144}});
  EXPECT_FALSE(two.At(sizes).exact);
  const SizeFit three = FitOf({{8, kMiB + 32768}, {32, kMiB + 131072}, {512, kMiB + 2097152}});
  EXPECT_EQ(three.terms(), 2);
  EXPECT_EQ(three.At(sizes).bytes, kMiB + 98304);
  EXPECT_TRUE(three.At(sizes).exact);
}

TEST(SizeFitTest, DrawnSumsAreFoundOrDoubted) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  int exact = 0;
  for (int i = 0; i < 300; ++i) {
    const int64_t linear = draw(0, 3) == 0 ? 0 : draw(1, 20'000);
    const int64_t product = draw(0, 1) == 0 ? 0 : draw(1, 500);
    const int64_t fixed = linear + product == 0 || draw(0, 3) == 0 ? draw(1, 100'000) : 0;
    const auto bytes = [&](int64_t n, int64_t m) {
      return AlignUp(std::max<int64_t>(fixed + linear * n + product * n * m, 1), 256);
    };
    std::vector<SizePoint> points;
    for (const int64_t n : {1, 8, 32, 128, 512})
      for (const int64_t m : {4, 64})
        points.push_back({.sizes = {n, m}, .bytes = bytes(n, m)});
    const SizeFit fit(points, 256);
    for (int other = 0; other < 20; ++other) {
      const int64_t sizes[] = {draw(1, 512), draw(1, 64)};
      const SizeFit::Size size = fit.At(sizes);
      if (!size.exact) continue;
      ++exact;
      EXPECT_EQ(size.bytes, bytes(sizes[0], sizes[1]))
          << fixed << " + " << linear << " n + " << product << " nm";
    }
  }
  EXPECT_GT(exact, 3000);
}

TEST(CopyRingTest, TheLeastWindowHoldsEveryCopyAndNoSmallerOneDoes) {
  // Three of 1000 at once, freed in their order.
  std::vector<CopyStep> steps;
  for (int call = 0; call < 20; ++call) {
    steps.push_back({.call = call, .bytes = 1000});
    if (call >= 2) steps.push_back({.call = call - 2, .bytes = -1});
  }
  EXPECT_EQ(LeastRing(steps, 500), 3000);
  EXPECT_EQ(LeastRing({}, 4096), 4096);
}

}  // namespace
}  // namespace coppice
