// Goal: columns come out of CSV, JSON lines and servers' logs as they are in them, and what is
// wrong in a file is told by its line. Method: texts written here, in the form of each format.

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"

#include "tests/support/status_matchers.h"
#include "tools/tune/trace_columns.h"

namespace coppice {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;
using testing::StartsWith;

WantedColumn Size(const std::string& name) {
  return {.names = {name}};
}

absl::StatusOr<TraceColumns> Parse(const std::string& text, std::vector<WantedColumn> wanted) {
  return ParseTraceColumns(text, "file", wanted, [](int64_t, int64_t) {});
}

// The values of one required column of sizes.
std::vector<double> SizesOf(const std::string& text, const std::string& name) {
  const absl::StatusOr<TraceColumns> columns = Parse(text, {KnownColumn(name, ColumnKind::kSize)});
  EXPECT_OK(columns);
  return columns.ok() ? columns->values[0] : std::vector<double>();
}

void ExpectError(const std::string& text, const std::string& name, const std::string& what) {
  const absl::StatusOr<TraceColumns> columns = Parse(text, {Size(name)});
  ASSERT_THAT(columns, StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  EXPECT_THAT(MessageOf(columns.status()), StartsWith("file:"));
  EXPECT_THAT(MessageOf(columns.status()), HasSubstr(what));
  EXPECT_THAT(MessageOf(columns.status()), HasSubstr("; "));
}

TEST(TraceColumnsTest, ReadsNamedColumnsInAnyOrderAndLineEnding) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const TraceColumns columns,
                               Parse("a,b,c\r\n1,2,3\r\n4,5,6\r\n", {Size("c"), Size("a")}));
  EXPECT_THAT(columns.values[0], ElementsAre(3, 6));
  EXPECT_THAT(columns.values[1], ElementsAre(1, 4));
  EXPECT_THAT(columns.lines, ElementsAre(2, 3));
  EXPECT_EQ(columns.format, "CSV");
}

TEST(TraceColumnsTest, AcceptsAnythingAndNothingInColumnsThatAreNotAskedFor) {
  EXPECT_THAT(SizesOf("t,n,note\n,7,\n,8,x y\nz,9,\"a, \"\"b\"\"\"\n", "n"), ElementsAre(7, 8, 9));
}

TEST(TraceColumnsTest, CellsMayBeQuotedAndWholeNumbersWrittenAsDecimals) {
  EXPECT_THAT(SizesOf("\"n\",m\n\"7\",1\n8.0,2\n 9 ,3\n", "n"), ElementsAre(7, 8, 9));
}

TEST(TraceColumnsTest, ARowWithoutAnyValueAskedForIsLeftOut) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const TraceColumns columns,
                               Parse("a,b\n1,\n,\n,2\n", {Size("a"), Size("b")}));
  EXPECT_THAT(columns.values[0], ElementsAre(DoubleEq(1), IsNan()));
  EXPECT_THAT(columns.values[1], ElementsAre(IsNan(), DoubleEq(2)));
  EXPECT_THAT(columns.lines, ElementsAre(2, 4));
  EXPECT_EQ(columns.rows_without, 1);
}

TEST(TraceColumnsTest, AColumnThatIsNotRequiredMayBeMissing) {
  WantedColumn weight = {.names = {"count"}, .kind = ColumnKind::kWeight, .required = false};
  COPPICE_ASSERT_OK_AND_ASSIGN(const TraceColumns columns, Parse("a\n1\n", {Size("a"), weight}));
  EXPECT_THAT(columns.found, ElementsAre(true, false));
  EXPECT_THAT(columns.values[1], ElementsAre(IsNan()));
}

TEST(TraceColumnsTest, TimesAreSecondsOrDates) {
  EXPECT_THAT(*ParseCell("4.25", ColumnKind::kTime), DoubleEq(4.25));
  EXPECT_THAT(*ParseCell("1970-01-02 00:00:01.5", ColumnKind::kTime), DoubleEq(86401.5));
  EXPECT_THAT(*ParseCell("2023-11-16T18:15:46Z", ColumnKind::kTime), DoubleEq(1700158546));
  EXPECT_THAT(*ParseCell("01-01 01:00:00", ColumnKind::kTime), DoubleEq(3600));
  for (const char* text : {"x", "2023-13-01 00:00:00", "2023-02-30 00:00:00", "12:00", "nan"})
    EXPECT_THAT(ParseCell(text, ColumnKind::kTime), StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
}

TEST(TraceColumnsTest, ATitleThatIsThereTwiceMattersOnlyToWhoAsksForIt) {
  EXPECT_THAT(SizesOf("b,n,b\n1,7,2\n", "n"), ElementsAre(7));
}

TEST(TraceColumnsTest, CostsAreNumbersFromZeroOn) {
  EXPECT_THAT(*ParseCell("0", ColumnKind::kCost), DoubleEq(0));
  EXPECT_THAT(*ParseCell("4.25", ColumnKind::kCost), DoubleEq(4.25));
  for (const char* text : {"x", "-1", "nan", "inf", "1970-01-02 00:00:01"})
    EXPECT_THAT(ParseCell(text, ColumnKind::kCost), StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
}

TEST(TraceColumnsTest, SaysWhereAndWhatIsWrong) {
  ExpectError("", "n", "empty");
  ExpectError(" \n\n", "n", "empty");
  ExpectError("a,b\n1,2\n", "n", "there is no column n; the columns are 'a', 'b'");
  ExpectError("n,b\n1,2\n-3,2\n", "n", "file:3: n is '-3', below 0");
  ExpectError("n,b\n1,2\nx,2\n", "n", "file:3: n is 'x', not a whole number");
  ExpectError("n,b\n1.5,2\n", "n", "file:2: n is '1.5', not a whole number");
  ExpectError("n,b\n1e300,2\n", "n", "file:2:");
  ExpectError("n,b\n1\n", "n", "file:2: the row has 1 cell, but the header has 2");
  ExpectError("n,b\n1,2,\n", "n", "file:2: the row has 3 cells, but the header has 2");
  ExpectError("n,b\n,2\n,3\n", "n", "no row has a value in n");
  ExpectError("n\n", "n", "no row has a value in n");
  ExpectError("n,b,n\n1,2,3\n", "n", "file:1: the column n occurs twice");
  ExpectError("{\"n\": 1}\nx\n", "n", "file:2: 'x' is not a JSON object");
  ExpectError("{\"n\": 1}\n{\"n\": -1}\n", "n", "file:2: n is '-1', below 0");
  ExpectError("{\"m\": 1}\n", "n", "this JSON lines has no n; its first row has 'm'");
}

TEST(TraceColumnsTest, WeightsAreAboveZero) {
  const WantedColumn weight = {.names = {"count"}, .kind = ColumnKind::kWeight};
  EXPECT_OK(Parse("count\n0.5\n", {weight}));
  for (const char* text : {"0", "-1", "inf", "x"})
    EXPECT_THAT(Parse(std::string("count\n") + text + "\n", {weight}),
                StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TraceColumnsTest, ReadsJsonByNameAndByPath) {
  const std::string text =
      "{\"n\": 3, \"usage\": {\"prompt_tokens\": 5}, \"a.b\": 7}\n\n{\"n\": \"4\"}\n{}\n";
  EXPECT_THAT(SizesOf(text, "n"), ElementsAre(3, 4));
  EXPECT_THAT(SizesOf(text, "usage.prompt_tokens"), ElementsAre(5));
  EXPECT_THAT(SizesOf(text, "a.b"), ElementsAre(7));
  EXPECT_THAT(SizesOf(text, "input_tokens"), ElementsAre(5));
}

TEST(TraceColumnsTest, ReadsAnExportedHistogram) {
  const WantedColumn weight = {.names = {"count"}, .kind = ColumnKind::kWeight};
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const TraceColumns columns,
      Parse(R"({"format": "x", "sizes": [[3, 1.5], [8, 2]]})", {Size("size"), weight}));
  EXPECT_THAT(columns.values[0], ElementsAre(3, 8));
  EXPECT_THAT(columns.values[1], ElementsAre(1.5, 2));
}

constexpr const char* kVllm =
    "INFO 12-06 14:08:47 metrics.py:449] Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs, "
    "Swapped: 0 reqs\n"
    "INFO 12-06 14:09:27 logger.py:37] Received request cmpl-24-0: prompt: 'say "
    "prompt_token_ids: [1]', params: SamplingParams(n=1, max_tokens=512, min_tokens=0), "
    "prompt_token_ids: [128000, 12805, 5304], lora_request: None.\n"
    "(APIServer pid=9) INFO 12-06 14:09:28 [logger.py:49] Received request chatcmpl-a: params: "
    "SamplingParams(n=1, max_tokens=100, min_tokens=0), lora_request: None.\n"
    "INFO 12-06 14:09:30 [loggers.py:257] Engine 000: Avg prompt throughput: 0.8 tokens/s, "
    "Running: 17 reqs, Waiting: 0 reqs\n"
    "INFO 12-06 14:09:31 [cuda_graph.py:1] **CUDAGraph Stats:**\n"
    "\n"
    "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
    "|-----------------|---------------|--------------|--------------|-------|\n"
    "| 127             | 128           | 1            | FULL         | 450   |\n"
    "| 3               | 4             | 1            | NONE         | 2     |\n"
    "a | b | c | d | e | f |\n";

TEST(TraceColumnsTest, ReadsTheLogOfVllm) {
  EXPECT_THAT(SizesOf(kVllm, "input_tokens"), ElementsAre(3));
  EXPECT_THAT(SizesOf(kVllm, "max_tokens"), ElementsAre(512, 100));
  EXPECT_THAT(SizesOf(kVllm, "running"), ElementsAre(0, 17));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const TraceColumns columns,
      Parse(kVllm, {Size("unpadded_tokens"), {.names = {"count"}, .kind = ColumnKind::kWeight}}));
  EXPECT_EQ(columns.format, "vLLM log");
  EXPECT_THAT(columns.values[0], ElementsAre(127, 3));
  EXPECT_THAT(columns.values[1], ElementsAre(450, 2));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const TraceColumns times,
      Parse(kVllm, {{.names = {"arrival_seconds"}, .kind = ColumnKind::kTime}}));
  EXPECT_THAT(times.values[0][1] - times.values[0][0], DoubleEq(1));
}

constexpr const char* kSglang =
    "[2026-05-28 02:59:59 TP0] Prefill batch, #new-seq: 1, #new-token: 896, #cached-token: 0\n"
    "[2026-05-28 02:59:59 TP0] Decode batch, #running-req: 45, #token: 44672, token usage: 0.3\n"
    "[2026-05-28 03:00:00] Finish: obj=GenerateReqInput(rid='a', stream=False), out={'text': "
    "\"'prompt_tokens': 9\", 'meta_info': {'id': 'a', 'prompt_tokens': 11, 'completion_tokens': "
    "10, 'cached_tokens': 10, 'e2e_latency': 0.5}}\n"
    "[2026-05-28 03:00:01] Finish: obj=GenerateReqInput(received_time=1771535999.25, rid='b'), "
    "out={'meta_info': {'prompt_tokens': 12, 'completion_tokens': 3, 'e2e_latency': 0.5}}\n";

TEST(TraceColumnsTest, ReadsTheLogOfSglang) {
  EXPECT_THAT(SizesOf(kSglang, "input_tokens"), ElementsAre(11, 12));
  EXPECT_THAT(SizesOf(kSglang, "output_tokens"), ElementsAre(10, 3));
  EXPECT_THAT(SizesOf(kSglang, "running"), ElementsAre(45));
  EXPECT_THAT(SizesOf(kSglang, "new_tokens"), ElementsAre(896));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const TraceColumns times,
      Parse(kSglang, {{.names = {"arrival_seconds"}, .kind = ColumnKind::kTime}}));
  EXPECT_THAT(times.values[0], ElementsAre(DoubleEq(1779937199.5), DoubleEq(1771535999.25)));
  EXPECT_EQ(times.format, "SGLang log");
}

TEST(TraceColumnsTest, ReadsTheLogOfSglangThatNumbersItsIterations) {
  const std::string decode =
      "[2026-08-01 14:05:00 PP0 TP1] Decode batch [0], #running-req: 9, #token: 20800\n"
      "[2026-08-01 14:05:01 PP0 TP1] Decode batch [127000], #running-req: 37, #token: 20800\n";
  EXPECT_THAT(SizesOf(decode, "running"), ElementsAre(9, 37));
  const std::string prefill =
      "[2026-08-01 14:05:00 PP0] Prefill batch [3], #new-seq: 1, #new-token: 896, #cached-token: "
      "0\n";
  EXPECT_THAT(SizesOf(prefill, "new_tokens"), ElementsAre(896));
}

// The lines of `text`, each behind `before` and in front of `behind`.
std::string Wrapped(const std::string& text, const std::string& before, const std::string& behind) {
  std::string wrapped;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    wrapped += before + std::string(rest.substr(0, end)) + behind + "\n";
    rest.remove_prefix(end + 1);
  }
  return wrapped;
}

std::string WrappedByDocker(const std::string& text) {
  std::string escaped;
  for (const char c : text)
    escaped += c == '"' ? std::string("\\\"") : std::string(1, c);
  return Wrapped(escaped, R"({"log":")",
                 R"(\n","stream":"stderr","time":"2026-01-01T00:00:00.1Z"})");
}

TEST(TraceColumnsTest, ReadsWhatContainersAndTerminalsPutAroundLines) {
  for (const auto& [text, name] : {std::pair{kSglang, "running"},
                                   {kSglang, "input_tokens"},
                                   {kVllm, "input_tokens"},
                                   {kVllm, "unpadded_tokens"},
                                   {kVllm, "running"},
                                   {"id,n\n1,7\n2,9\n", "n"}}) {
    const std::vector<double> sizes = SizesOf(text, name);
    ASSERT_FALSE(sizes.empty());
    for (const std::string& wrapped :
         {WrappedByDocker(text), Wrapped(text, "server-1  | ", ""),
          Wrapped(text, "[pod/server-7d4f/engine] ", ""), Wrapped(text, "\x1b[36m", "\x1b[0m"),
          Wrapped(text, "\x1b[36mserver-1  |\x1b[0m \x1b[1;32m", "\x1b[0m"),
          Wrapped(text, "2026-01-31T23:59:59.512Z stderr F ", "\r"),
          WrappedByDocker(Wrapped(text, "\\u001b[32m", "\\u001b[0m"))}) {
      EXPECT_EQ(SizesOf(wrapped, name), sizes) << wrapped;
    }
  }
  for (const char* before : {"Nov 11 04:06:00 host sglang[123]: ", "2026-01-31T23:59:59.512Z "})
    EXPECT_THAT(SizesOf(Wrapped(kSglang, before, ""), "running"), ElementsAre(45)) << before;
}

TEST(TraceColumnsTest, ALineThatDockerBreaksIsOneAndLinesKeepTheirNumbers) {
  const std::string text = R"({"log":"n,note\n","stream":"stdout"})"
                           "\n"
                           R"({"log":"7,lo","stream":"stdout"})"
                           "\n"
                           R"({"log":"ng\n","stream":"stdout"})"
                           "\n"
                           R"({"log":"x,no\n","stream":"stdout"})"
                           "\n";
  ExpectError(text, "n", "file:4: n is 'x'");
  EXPECT_THAT(SizesOf(text.substr(0, text.find(R"({"log":"x)")), "n"), ElementsAre(7));
  // An object with such fields and others is a row of its own.
  EXPECT_THAT(SizesOf("{\"log\": 1, \"stream\": 2, \"n\": 3}\n", "n"), ElementsAre(3));
}

TEST(TraceColumnsTest, ACompressedFileIsTold) {
  ExpectError("\x1f\x8b\x08", "n", "zcat");
}

TEST(TraceColumnsTest, TimesHaveZonesAndNeedNoFraction) {
  const std::string text =
      "time\n2024-05-10 00:00:00.5+00:00\n2024-05-10 00:00:01+00:00\n2024-05-10T00:00:02Z\n"
      "2024-05-10 02:30:03+02:30\n2024-05-09 23:00:04.25-01:00\n2024-05-10 01:00:05+01\n";
  COPPICE_ASSERT_OK_AND_ASSIGN(const TraceColumns times,
                               Parse(text, {{.names = {"time"}, .kind = ColumnKind::kTime}}));
  std::vector<double> since;
  for (const double time : times.values[0])
    since.push_back(time - times.values[0][0]);
  EXPECT_THAT(since, ElementsAre(0, 0.5, 1.5, 2.5, 3.75, 4.5));
  for (const char* zone : {"+", "+1:", "+25:00", "+01:60", "+a", "Z+01:00x"}) {
    EXPECT_FALSE(ParseCell(std::string("2024-05-10 00:00:01") + zone, ColumnKind::kTime).ok())
        << zone;
  }
}

TEST(TraceColumnsTest, ReadsTheJsonLogOfSglang) {
  const std::string text =
      R"({"timestamp": "2026-05-28T03:00:00.5", "event": "request.received", "rid": "a"})"
      "\n"
      R"({"timestamp": "2026-05-28T03:00:01.5", "event": "request.finished", "rid": "a", )"
      R"("out": {"meta_info": {"prompt_tokens": 11, "completion_tokens": 10}}})"
      "\n";
  EXPECT_THAT(SizesOf(text, "input_tokens"), ElementsAre(11));
  EXPECT_THAT(SizesOf(text, "output_tokens"), ElementsAre(10));
}

TEST(TraceColumnsTest, MillionsOfRowsTellHowFarTheyAre) {
  std::string text = "n\n";
  constexpr int64_t kRows = 1'000'000;
  for (int64_t i = 0; i < kRows; ++i)
    text += std::to_string(i % 1000) + "\n";
  int64_t calls = 0;
  int64_t last = 0;
  const absl::StatusOr<TraceColumns> columns =
      ParseTraceColumns(text, "file", {Size("n")}, [&](int64_t done, int64_t total) {
        EXPECT_EQ(total, static_cast<int64_t>(text.size()));
        EXPECT_GT(done, last);
        last = done;
        ++calls;
      });
  ASSERT_OK(columns);
  EXPECT_EQ(columns->rows(), kRows);
  EXPECT_GT(calls, 10);
}

}  // namespace
}  // namespace coppice
