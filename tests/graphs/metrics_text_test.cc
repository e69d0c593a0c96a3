// Goal: figures become a page of either format as the two say. Method: pages of known figures,
// compared line by line; python/tests and tests/repository read whole pages by Prometheus' parser.

#include "graphs/metrics/metrics_text.h"

#include "graphs/metrics/exposition.h"
#include "tests/support/test.h"

namespace coppice::internal {
namespace {

using testing::EndsWith;

constexpr MetricsFormat kFormats[] = {MetricsFormat::kPrometheus, MetricsFormat::kOpenMetrics};

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(ExpositionTest, CountersAreToldAsEachFormatHasThem) {
  const auto write = [](MetricsFormat format) {
    Exposition page(format);
    page.Begin({"coppice_runs", MetricType::kCounter, "", "Calls."});
    page.Sample(3, {{"path", "replay"}, {"lane", "0"}});
    page.Begin({"coppice_spare_bytes", MetricType::kGauge, "bytes", "Bytes."});
    page.Sample(-1);
    return page.Finish();
  };
  EXPECT_EQ(write(MetricsFormat::kPrometheus),
            "# HELP coppice_runs_total Calls.\n# TYPE coppice_runs_total counter\n"
            "coppice_runs_total{path=\"replay\",lane=\"0\"} 3\n"
            "# HELP coppice_spare_bytes Bytes.\n# TYPE coppice_spare_bytes gauge\n"
            "coppice_spare_bytes -1\n");
  EXPECT_EQ(write(MetricsFormat::kOpenMetrics),
            "# HELP coppice_runs Calls.\n# TYPE coppice_runs counter\n"
            "coppice_runs_total{path=\"replay\",lane=\"0\"} 3\n"
            "# HELP coppice_spare_bytes Bytes.\n# TYPE coppice_spare_bytes gauge\n"
            "# UNIT coppice_spare_bytes bytes\n"
            "coppice_spare_bytes -1\n# EOF\n");
}

TEST(ExpositionTest, LabelsAreEscapedAndAlwaysUtf8) {
  Exposition page(MetricsFormat::kPrometheus);
  page.Begin({"x", MetricType::kGauge, "", "X."});
  page.Sample(1, {{"l", "a\"b\\c\nd\xC3\xA9\xFF"}});
  EXPECT_THAT(page.Finish(), EndsWith("x{l=\"a\\\"b\\\\c\\nd\xC3\xA9\xEF\xBF\xBD\"} 1\n"));
}

TEST(ExpositionTest, HistogramsCountUpToEachBound) {
  TimeHistogram times(kRecordBounds);
  times.Note(100'000);  // A bound belongs to its class.
  times.Note(100'001);
  times.Note(20'000'000'000);
  Exposition page(MetricsFormat::kPrometheus);
  page.Begin({"coppice_record_seconds", MetricType::kHistogram, "seconds", "Times."});
  page.Histogram(times);
  const std::vector<std::string> lines = LinesOf(page.Finish());
  ASSERT_EQ(lines.size(), 2 + kTimeBoundCount + 3);
  EXPECT_EQ(lines[2], "coppice_record_seconds_bucket{le=\"0.0001\"} 1");
  EXPECT_EQ(lines[3], "coppice_record_seconds_bucket{le=\"0.00025\"} 2");
  EXPECT_EQ(lines[17], "coppice_record_seconds_bucket{le=\"10.0\"} 2");
  EXPECT_EQ(lines[18], "coppice_record_seconds_bucket{le=\"+Inf\"} 3");
  EXPECT_EQ(lines[19], "coppice_record_seconds_sum 20.000200001");
  EXPECT_EQ(lines[20], "coppice_record_seconds_count 3");
}

TEST(TimeHistogramTest, BoundsAreTheirOwnTextInSecondsAndAscend) {
  for (const TimeBounds& bounds : {kRecordBounds, kReplayBounds}) {
    int64_t before = 0;
    for (const TimeBound& bound : bounds) {
      EXPECT_GT(bound.ns, before);
      EXPECT_NEAR(std::stod(bound.seconds) * 1e9, static_cast<double>(bound.ns), 1e-3);
      before = bound.ns;
    }
  }
}

TEST(TimeHistogramTest, AddingAddsEveryClass) {
  TimeHistogram sum(kRecordBounds);
  TimeHistogram other(kRecordBounds);
  for (int64_t ns = 1; ns < 100'000'000'000; ns *= 2)
    other.Note(ns);
  sum.Note(7);
  sum += other;
  int64_t counted = 0;
  for (size_t i = 0; i <= kTimeBoundCount; ++i) {
    EXPECT_EQ(sum.counts()[i], other.counts()[i] + (i == 0 ? 1 : 0));
    counted += sum.counts()[i];
  }
  EXPECT_EQ(counted, 38);
  EXPECT_EQ(sum.sum_ns(), other.sum_ns() + 7);
}

class MetricsTextTest : public testing::Test {
 protected:
  static MetricsSnapshot Figures() {
    static const ReplaySeries::Labels labels = {"de\"code", "", "batch=8"};
    MetricsSnapshot snapshot;
    snapshot.stats.runs = {50, 3, 2, 1, 0};
    snapshot.stats.real_elements = 70;
    snapshot.stats.padded_elements = 100;
    snapshot.eager[static_cast<size_t>(Reason::kOverLargestBucket)] = 1;
    snapshot.recordings.Note(Reason::kNewBucket, 81'000);
    snapshot.replay_time.Note(600);
    snapshot.failures[static_cast<size_t>(absl::StatusCode::kAborted)] = 4;
    snapshot.trace_dropped = 5;
    snapshot.replays = {{.labels = &labels, .launches = 53}};
    snapshot.memory.bytes[static_cast<size_t>(MemoryKind::kPlan)] = 4096;
    snapshot.lanes = 2;
    return snapshot;
  }
};

TEST_F(MetricsTextTest, FiguresHaveTheirNamesAndLabels) {
  for (const MetricsFormat format : kFormats) {
    const std::string page = TextOf(Figures(), format);
    for (const char* const line :
         {"coppice_runs_total{path=\"replay\"} 50\n", "coppice_runs_total{path=\"include\"} 0\n",
          "coppice_eager_calls_total{reason=\"over_largest_bucket\"} 1\n",
          "coppice_recordings_total{reason=\"new_bucket\"} 1\n",
          "coppice_record_seconds_bucket{le=\"0.0001\"} 1\n",
          "coppice_replay_host_seconds_bucket{le=\"5e-07\"} 0\n",
          "coppice_replay_host_seconds_bucket{le=\"7.5e-07\"} 1\n",
          "coppice_failed_calls_total{code=\"ABORTED\"} 4\n",
          "coppice_trace_dropped_events_total 5\n",
          "coppice_replays_total{program=\"de\\\"code\",variant=\"\",bucket=\"batch=8\"} 53\n",
          "coppice_staged_elements_total{kind=\"real\"} 70\n",
          "coppice_staged_elements_total{kind=\"padding\"} 30\n",
          "coppice_memory_bytes{kind=\"nodes\"} 4096\n", "coppice_lanes{state=\"free\"} 2\n",
          "coppice_poisoned 0\n"})
      EXPECT_THAT(page, HasSubstr(std::string("\n") + line));
  }
}

TEST_F(MetricsTextTest, SamplesAreTheSameInBothFormats) {
  std::vector<std::string> samples[2];
  for (const MetricsFormat format : kFormats) {
    for (std::string& line : LinesOf(TextOf(Figures(), format)))
      if (line[0] != '#') samples[static_cast<size_t>(format)].push_back(std::move(line));
  }
  EXPECT_EQ(samples[0], samples[1]);
  EXPECT_GT(samples[0].size(), 90U);
}

TEST_F(MetricsTextTest, NoSampleIsThereTwiceAndFamiliesStayTogether) {
  for (const MetricsFormat format : kFormats) {
    std::set<std::string> seen;
    std::set<std::string> families;
    for (const std::string& line : LinesOf(TextOf(Figures(), format))) {
      EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second || line[0] == '#') << line;
      if (line.starts_with("# TYPE ")) {
        EXPECT_TRUE(families.insert(line.substr(7, line.rfind(' ') - 7)).second) << line;
      }
    }
  }
}

TEST_F(MetricsTextTest, UnitsAreBaseUnitsAndEndTheirNames) {
  const std::string page = TextOf(Figures(), MetricsFormat::kOpenMetrics);
  EXPECT_THAT(page, HasSubstr("# UNIT coppice_memory_bytes bytes\n"));
  EXPECT_THAT(page, HasSubstr("# UNIT coppice_record_seconds seconds\n"));
  for (const std::string& line : LinesOf(page)) {
    if (!line.starts_with("# UNIT ")) continue;
    EXPECT_TRUE(line.ends_with("_bytes bytes") || line.ends_with("_seconds seconds")) << line;
  }
  EXPECT_THAT(TextOf(Figures(), MetricsFormat::kPrometheus), Not(HasSubstr("# UNIT")));
}

TEST_F(MetricsTextTest, OnlyAPageOfOpenMetricsHasAnEnd) {
  EXPECT_THAT(TextOf(Figures(), MetricsFormat::kOpenMetrics), EndsWith("\n# EOF\n"));
  EXPECT_THAT(TextOf(Figures(), MetricsFormat::kPrometheus), Not(HasSubstr("# EOF")));
}

TEST_F(MetricsTextTest, AStickyErrorIsToldByName) {
  MetricsSnapshot snapshot = Figures();
  EXPECT_THAT(TextOf(snapshot, MetricsFormat::kPrometheus), Not(HasSubstr("sticky")));
  snapshot.sticky_error = "CUDA_ERROR_ILLEGAL_ADDRESS";
  const std::string page = TextOf(snapshot, MetricsFormat::kPrometheus);
  EXPECT_THAT(page, HasSubstr("\ncoppice_poisoned 1\n"));
  EXPECT_THAT(page,
              HasSubstr("coppice_sticky_error_info{code=\"CUDA_ERROR_ILLEGAL_ADDRESS\"} 1\n"));
}

}  // namespace
}  // namespace coppice::internal
