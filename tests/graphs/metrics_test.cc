// Goal: a session's page of metrics says what metrics.h and Session::MetricsText promise. Method:
// pages of affine on the emulator are read sample by sample, and held to what the session's other
// figures say, or to an earlier page.

#include "coppice/graphs/metrics.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

using testing::EndsWith;

// Values by name and labels, as "coppice_runs_total{path=\"replay\"}".
using Samples = std::map<std::string, double>;

Samples Parse(const std::string& page) {
  Samples samples;
  for (size_t begin = 0; begin < page.size();) {
    const size_t end = page.find('\n', begin);
    const std::string line = page.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with('#')) continue;
    const size_t space = line.rfind(' ');
    samples[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return samples;
}

bool IsCounter(const std::string& sample) {
  const std::string name = sample.substr(0, sample.find('{'));
  return name.ends_with("_total") || name.ends_with("_bucket") || name.ends_with("_count") ||
         name.ends_with("_sum");
}

// Expects every counter of `before` in `after`, no lower.
void ExpectNoneFell(const Samples& before, const Samples& after) {
  for (const auto& [name, value] : before) {
    if (!IsCounter(name)) continue;
    const auto found = after.find(name);
    ASSERT_NE(found, after.end()) << name;
    EXPECT_GE(found->second, value) << name;
  }
}

double Sum(const Samples& samples, const std::string& name) {
  double sum = 0;
  for (const auto& [sample, value] : samples)
    sum += sample.starts_with(name + "{") ? value : 0;
  return sum;
}

class MetricsTest : public SessionFixture {
 protected:
  static Samples SamplesOf(const Session& session) { return Parse(session.MetricsText()); }
  // Runs affine at `n` and lets go of its outputs.
  void Run(const Affine& affine, int64_t n) { ASSERT_OK(Call(affine, n).status()); }
  static std::string Replays(const std::string& bucket, const std::string& program = "affine") {
    return "coppice_replays_total{program=\"" + program + "\",variant=\"\",bucket=\"" + bucket +
           "\"}";
  }
};

TEST_F(MetricsTest, ContentTypesAreThoseOfTheFormats) {
  EXPECT_STREQ(ContentTypeOf(MetricsFormat::kPrometheus),
               "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_STREQ(ContentTypeOf(MetricsFormat::kOpenMetrics),
               "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

TEST_F(MetricsTest, PrometheusFormatIsTheUsualOne) {
  const Affine affine = MakeAffine();
  EXPECT_EQ(affine.session->MetricsText(), affine.session->MetricsText(MetricsFormat::kPrometheus));
  EXPECT_THAT(affine.session->MetricsText(MetricsFormat::kOpenMetrics), EndsWith("# EOF\n"));
}

TEST_F(MetricsTest, FiguresAreThoseOfTheSession) {
  const Affine affine = MakeAffine({.memory = {.budget_bytes = 48 * kMiB}});
  for (const int64_t n : {3, 4, 4, 3, 20, 20, 20, 100})
    Run(affine, n);
  const SessionStats stats = affine.session->stats();
  const MemoryUsage usage = affine.session->memory().books();
  Samples samples = SamplesOf(*affine.session);
  for (int kind = 0; kind < kRunKindCount; ++kind) {
    const char* const name = NameOf(static_cast<RunKind>(kind));
    EXPECT_EQ(samples[std::string("coppice_runs_total{path=\"") + name + "\"}"],
              static_cast<double>(stats.runs[static_cast<size_t>(kind)]))
        << name;
  }
  EXPECT_EQ(samples["coppice_runs_total{path=\"replay\"}"], 3);
  EXPECT_EQ(samples["coppice_eager_calls_total{reason=\"over_largest_bucket\"}"], 1);
  EXPECT_EQ(samples["coppice_recordings_total{reason=\"new_bucket\"}"], 2);
  EXPECT_EQ(samples["coppice_record_seconds_count"], 2);
  EXPECT_EQ(samples[Replays("n=4")], 3);  // Of the recording, and two more.
  EXPECT_EQ(samples[Replays("n=32")], 2);
  EXPECT_EQ(samples["coppice_staged_elements_total{kind=\"real\"}"], stats.real_elements);
  EXPECT_EQ(samples["coppice_staged_elements_total{kind=\"padding\"}"],
            stats.padded_elements - stats.real_elements);
  EXPECT_EQ(samples["coppice_graphs{state=\"recorded\"}"], 2);
  EXPECT_EQ(samples["coppice_buckets{state=\"recorded\"}"], 2);
  for (int kind = 0; kind < kMemoryKindCount; ++kind) {
    const std::string name = NameOf(static_cast<MemoryKind>(kind));
    EXPECT_EQ(samples["coppice_memory_bytes{kind=\"" + name + "\"}"],
              usage.of(static_cast<MemoryKind>(kind)))
        << name;
    EXPECT_EQ(samples["coppice_memory_peak_bytes{kind=\"" + name + "\"}"],
              usage.peak_of(static_cast<MemoryKind>(kind)))
        << name;
  }
  EXPECT_EQ(samples["coppice_memory_used_bytes"], usage.total);
  EXPECT_EQ(samples["coppice_budget_bytes"], 48 * kMiB);
  EXPECT_EQ(samples["coppice_plan_height_bytes"], usage.height);
  EXPECT_EQ(samples["coppice_lanes{state=\"free\"}"], 1);
}

TEST_F(MetricsTest, EachCallIsInOneCounterAndEachLaunchInOneSeries) {
  const Affine affine = MakeAffine();
  for (int i = 0; i < 40; ++i)
    Run(affine, 1 + i * 7 % 90);
  Samples samples = SamplesOf(*affine.session);
  EXPECT_EQ(Sum(samples, "coppice_runs_total"), 40);
  EXPECT_EQ(Sum(samples, "coppice_eager_calls_total"),
            samples["coppice_runs_total{path=\"eager\"}"]);
  EXPECT_EQ(Sum(samples, "coppice_replays_total"),
            samples["coppice_runs_total{path=\"replay\"}"] +
                samples["coppice_runs_total{path=\"record\"}"]);
  EXPECT_EQ(Sum(samples, "coppice_recordings_total"), samples["coppice_record_seconds_count"]);
}

TEST_F(MetricsTest, CountersNeverFallWhateverBecomesOfGraphsAndPrograms) {
  Affine affine =
      MakeAffine({.limits = {.graphs_per_program_max = 2, .on_limit = OnLimit::kEvict}});
  Samples before = SamplesOf(*affine.session);
  const auto expect_none_fell = [&] {
    const Samples after = SamplesOf(*affine.session);
    ExpectNoneFell(before, after);
    before = after;
  };
  for (const int64_t n : {4, 4, 4, 8, 8, 16, 16, 32, 32, 4, 4}) {
    Run(affine, n);
    expect_none_fell();
  }
  EXPECT_GT(before["coppice_evictions_total"], 0);
  ASSERT_OK(affine.session->Evict(nullptr).status());
  expect_none_fell();
  EXPECT_EQ(before["coppice_graphs{state=\"recorded\"}"], 0);
  ASSERT_OK(affine.session->Reset(*affine.program));
  expect_none_fell();
  const double launches = before[Replays("n=4")];
  ASSERT_OK(affine.session->Unregister(*affine.program));
  expect_none_fell();
  // Registered again, it goes on where it was.
  affine.program = *affine.session->Register(AffineSpec(), AffineCallable());
  affine.binding = *affine.session->Bind(*affine.program, AffineStatics(counter_.address()));
  for (int i = 0; i < 3; ++i)
    Run(affine, 4);
  expect_none_fell();
  EXPECT_EQ(before[Replays("n=4")], launches + 2);
}

TEST_F(MetricsTest, BucketsBeyondTheBoundAreOneSeries) {
  ProgramSpec spec = AffineSpec();
  spec.symbols[0].policy = *PaddingPolicy::Ramp(1, 1, kMetricsBucketsMax + 8);
  const Affine affine = MakeAffine({}, nullptr, spec);
  for (int64_t n = 1; n <= kMetricsBucketsMax + 8; ++n) {
    Run(affine, n);
    Run(affine, n);
  }
  Samples samples = SamplesOf(*affine.session);
  EXPECT_EQ(samples[Replays("n=1")], 1);
  EXPECT_EQ(samples[Replays("n=" + std::to_string(kMetricsBucketsMax))], 1);
  EXPECT_FALSE(samples.contains(Replays("n=" + std::to_string(kMetricsBucketsMax + 1))));
  EXPECT_EQ(samples[Replays("other")], 8);
}

TEST_F(MetricsTest, RetiredAndUnrecordedBucketsAreToldApart) {
  const Affine affine = MakeAffine({}, AffineCallable([](CallContext& context) -> absl::Status {
                                     if (context.extent(0) != 32) return absl::OkStatus();
                                     return context.phase() == Phase::kRecord
                                                ? FailedPrecondition("not this one")
                                                : absl::OkStatus();
                                   }));
  Run(affine, 4);
  Run(affine, 32);
  Run(affine, 32);
  {
    Run(affine, 8);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, 8));
    Samples samples = SamplesOf(*affine.session);
    EXPECT_EQ(samples["coppice_buckets{state=\"warm\"}"], 1);
    EXPECT_EQ(samples["coppice_buckets{state=\"not_capturable\"}"], 1);
    EXPECT_EQ(samples["coppice_buckets{state=\"recorded\"}"], 1);
    EXPECT_EQ(samples["coppice_graphs{state=\"retired\"}"], 0);
    EXPECT_GT(samples["coppice_graph_nodes"], 0);
    EXPECT_EQ(samples["coppice_executables"], 1);
    ASSERT_OK(affine.session->Reset(*affine.program));
    samples = SamplesOf(*affine.session);
    EXPECT_EQ(samples["coppice_graphs{state=\"recorded\"}"], 0);
    EXPECT_EQ(samples["coppice_graphs{state=\"retired\"}"], 1);
    EXPECT_EQ(samples["coppice_buckets{state=\"recorded\"}"], 0);
  }
}

TEST_F(MetricsTest, SuspensionsAndLoansAreTold) {
  const Affine affine = MakeAffine({.lanes = 2});
  Run(affine, 4);
  ASSERT_OK(affine.session->memory().Suspend({}));
  Samples samples = SamplesOf(*affine.session);
  EXPECT_EQ(samples["coppice_suspended"], 1);
  EXPECT_EQ(samples["coppice_suspensions_total"], 1);
  ASSERT_OK(affine.session->memory().Resume());
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Loan loan, affine.session->memory().Lend(1));
    samples = SamplesOf(*affine.session);
    EXPECT_EQ(samples["coppice_suspended"], 0);
    EXPECT_EQ(samples["coppice_suspensions_total"], 1);
    EXPECT_EQ(samples["coppice_lanes{state=\"lent\"}"], 1);
    EXPECT_EQ(samples["coppice_lanes{state=\"free\"}"], 1);
  }
  EXPECT_EQ(SamplesOf(*affine.session)["coppice_lanes{state=\"lent\"}"], 0);
}

TEST_F(MetricsTest, APoisonedSessionStillAnswers) {
  const Affine affine = MakeAffine();
  for (int i = 0; i < 3; ++i)
    Run(affine, 4);
  const Samples before = SamplesOf(*affine.session);
  EXPECT_EQ(before.at("coppice_poisoned"), 0);
  device_.ledger().Inject({.entry = DriverLedger::IndexOf(&DriverTable::GraphLaunch),
                           .result = CuResult::kIllegalAddress});
  EXPECT_FALSE(Call(affine, 4).ok());
  const Samples after = SamplesOf(*affine.session);
  EXPECT_EQ(after.at("coppice_poisoned"), 1);
  EXPECT_EQ(after.at("coppice_sticky_error_info{code=\"CUDA_ERROR_ILLEGAL_ADDRESS\"}"), 1);
  ExpectNoneFell(before, after);
}

TEST_F(MetricsTest, FailedCallsAreCountedByTheirCode) {
  const Affine affine = MakeAffine();
  Run(affine, 4);
  EXPECT_FALSE(
      Call(affine, 4, 2, [](coppice::Call& call) { call.inputs = {}; }).ok());  // No input.
  affine.session->SetStance(Stance::kStrict);
  EXPECT_FALSE(Call(affine, 8).ok());
  EXPECT_FALSE(Call(affine, 8).ok());
  Samples samples = SamplesOf(*affine.session);
  EXPECT_EQ(samples["coppice_failed_calls_total{code=\"INVALID_ARGUMENT\"}"], 1);
  EXPECT_EQ(samples["coppice_failed_calls_total{code=\"FAILED_PRECONDITION\"}"], 2);
  EXPECT_EQ(Sum(samples, "coppice_failed_calls_total"), 3);
  EXPECT_EQ(Sum(samples, "coppice_runs_total"), 1);
}

TEST_F(MetricsTest, OneReplayIn64IsTimed) {
  const Affine affine = MakeAffine({.lanes = 2});
  constexpr int kCalls = 640;
  for (int i = 0; i < kCalls; ++i)
    Run(affine, 4);
  Samples samples = SamplesOf(*affine.session);
  EXPECT_GE(samples["coppice_replay_host_seconds_count"], kCalls / 64 - 1);
  EXPECT_LE(samples["coppice_replay_host_seconds_count"], kCalls / 64 + 1);
  EXPECT_GT(samples["coppice_replay_host_seconds_sum"], 0);
  EXPECT_EQ(samples["coppice_record_seconds_count"], 1);
}

TEST_F(MetricsTest, OnlyReplaysAreTimedAsSuch) {
  const Affine affine = MakeAffine({.stance = Stance::kEager});
  for (int i = 0; i < 140; ++i)
    Run(affine, 4);
  EXPECT_EQ(SamplesOf(*affine.session)["coppice_replay_host_seconds_count"], 0);
}

TEST_F(MetricsTest, EventsThatATraceLosesAreCounted) {
  const std::string path = testing::TempDir() + "metrics_test.trace";
  Samples samples;
  int64_t told = 0;
  {
    const Affine affine = MakeAffine({.trace = {.path = path, .events_per_lane = 16}});
    EXPECT_EQ(SamplesOf(*affine.session)["coppice_trace_dropped_events_total"], 0);
    for (int i = 0; i < 3000; ++i)
      Run(affine, 4);
    samples = SamplesOf(*affine.session);
  }
  // What the file says was lost.
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find("\"dropped\",");
    if (at != std::string::npos) told += std::stoll(line.substr(line.rfind(',') + 1));
  }
  // A few more may be lost while the session ends.
  EXPECT_LE(samples["coppice_trace_dropped_events_total"], told);
  EXPECT_GE(samples["coppice_trace_dropped_events_total"], told - 16);
  std::filesystem::remove(path);
}

TEST_F(MetricsTest, APageMakesNoDriverCallAndChangesNothing) {
  const Affine affine = MakeAffine();
  for (int i = 0; i < 3; ++i)
    Run(affine, 4);
  const int64_t calls = device_.ledger().calls();
  const std::string page = affine.session->MetricsText();
  EXPECT_EQ(affine.session->MetricsText(), page);
  EXPECT_EQ(device_.ledger().calls(), calls);
}

TEST_F(MetricsTest, NamesOfProgramsMayHaveAnyBytes) {
  ProgramSpec spec = AffineSpec("a\"b\\c\n\xFF");
  const Affine affine = MakeAffine({}, nullptr, spec);
  Run(affine, 4);
  Run(affine, 4);
  EXPECT_THAT(
      affine.session->MetricsText(),
      HasSubstr("{program=\"a\\\"b\\\\c\\n\xEF\xBF\xBD\",variant=\"\",bucket=\"n=4\"} 1\n"));
}

// Threads call, each on a lane of its own, record, evict and suspend; others scrape meanwhile.
TEST_F(MetricsTest, CountersNeverFallUnderEightThreads) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 60;
  const Affine affine = MakeAffine(
      {.lanes = kThreads, .limits = {.graphs_per_program_max = 2, .on_limit = OnLimit::kEvict}});
  std::vector<DeviceMemory> inputs;
  for (int i = 0; i < kThreads; ++i)
    inputs.push_back(*device_.Upload(Ramp(kLargest)));
  std::vector<Stream> streams;
  for (int i = 0; i < kThreads; ++i)
    streams.push_back(*Stream::Create(device_.driver()));
  // The counter is one for all lanes, so that calls of two would race: each has its own.
  std::vector<DeviceMemory> counters;
  std::vector<const Binding*> bindings;
  for (int i = 0; i < kThreads; ++i) {
    counters.push_back(*device_.Upload(std::vector<float>{0}));
    bindings.push_back(
        *affine.session->Bind(*affine.program, AffineStatics(counters.back().address())));
  }
  std::atomic<int> running = kThreads;
  const auto call = [&](int lane) {
    const auto index = static_cast<size_t>(lane);
    EXPECT_OK(device_.context().MakeCurrent());
    for (int i = 0; i < kCalls; ++i) {
      const Tensor x = FloatsAt(inputs[index].address(), 1 + (i * 5 + lane) % kLargest);
      const int64_t scalar = std::bit_cast<int64_t>(2.0);
      EXPECT_OK(affine.session
                    ->Run({.program = affine.program,
                           .binding = bindings[index],
                           .inputs = {&x, 1},
                           .scalars = {&scalar, 1},
                           .stream = streams[index].handle(),
                           .lane = lane})
                    .status());
    }
    running.fetch_sub(1);
  };
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kThreads; ++lane)
    threads.emplace_back(call, lane);
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      Samples before = SamplesOf(*affine.session);
      do {
        const Samples after = SamplesOf(*affine.session);
        ExpectNoneFell(before, after);
        before = after;
      } while (running.load() > 0);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(Sum(SamplesOf(*affine.session), "coppice_runs_total"), kThreads * kCalls);
}

}  // namespace
}  // namespace coppice
