// Goal: a trace is parsed as its header says, every bad input gets one line with file and line, and
// generated requests follow the quantiles. Method: small texts, and the real files where there are.

#include "tools/run/request_trace.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"

#include "tests/support/traces.h"
#include "tools/run/trace_quantiles.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kRequestHeader = "arrival_seconds,input_tokens,output_tokens\n";

std::string RequestErrorOf(const std::string& text) {
  const auto requests = ParseRequestTrace(text, "t.csv", /*seed=*/1);
  EXPECT_EQ(requests.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return MessageOf(requests.status());
}

TEST(RequestTraceTest, ParsesRowsInOrder) {
  const auto requests =
      ParseRequestTrace(std::string(kRequestHeader) + "0,374,44\n4.315,396,109\n", "t.csv", 1);
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_THAT(
      *requests,
      ElementsAre(Request{.arrival_seconds = 0, .input_tokens = 374, .output_tokens = 44},
                  Request{.arrival_seconds = 4.315, .input_tokens = 396, .output_tokens = 109}));
}

TEST(RequestTraceTest, IgnoresFurtherColumns) {
  const auto requests = ParseRequestTrace(
      "arrival_seconds,input_tokens,output_tokens,user\n1,2,3,someone\n2,3,4,\n", "t.csv", 1);
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_EQ(requests->size(), 2U);
}

TEST(RequestTraceTest, AcceptsCrLfAndAMissingLastNewline) {
  const auto requests =
      ParseRequestTrace("arrival_seconds,input_tokens,output_tokens\r\n0,1,2\r\n0,3,4", "t.csv", 1);
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_EQ((*requests)[1].output_tokens, 4);
}

TEST(RequestTraceTest, AcceptsTheBoundsOfTheTokenRange) {
  const auto requests =
      ParseRequestTrace(std::string(kRequestHeader) + "0,1,10000000\n0,10000000,1\n", "t.csv", 1);
  ASSERT_TRUE(requests.ok()) << requests.status();
}

TEST(RequestTraceTest, DrawsPoissonArrivalsWhereAllAreEmpty) {
  std::string text = kRequestHeader;
  for (int i = 0; i < 4000; ++i)
    text += ",10,10\n";
  const auto first = ParseRequestTrace(text, "t.csv", 7);
  const auto again = ParseRequestTrace(text, "t.csv", 7);
  const auto other = ParseRequestTrace(text, "t.csv", 8);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
  EXPECT_TRUE(std::is_sorted(first->begin(), first->end(), [](const Request& a, const Request& b) {
    return a.arrival_seconds < b.arrival_seconds;
  }));
  // 4000 gaps: their mean is within 5 % of 1 / rate but once in a thousand seeds, and 7 is fixed.
  const double rate = 4000 / first->back().arrival_seconds;
  EXPECT_NEAR(rate, kPoissonPerSecond, 0.05 * kPoissonPerSecond);
}

TEST(RequestTraceTest, NamesFileLineProblemAndRemedy) {
  EXPECT_EQ(RequestErrorOf(std::string(kRequestHeader) + "0,1,1\n0,x,1\n"),
            "t.csv:3: input_tokens is 'x', not a whole number; give a number of tokens, such as "
            "374");
}

struct BadTrace {
  const char* name;
  std::string text;
  int line;
  const char* what;
};

void PrintTo(const BadTrace& bad, std::ostream* out) {
  *out << bad.name;
}

class BadTraceTest : public testing::TestWithParam<BadTrace> {};

TEST_P(BadTraceTest, GetsOneLine) {
  const std::string message = RequestErrorOf(GetParam().text);
  EXPECT_THAT(message, StartsWith(fmt::format("t.csv:{}: ", GetParam().line)));
  EXPECT_THAT(message, HasSubstr(GetParam().what));
  EXPECT_THAT(message, HasSubstr("; "));
  EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) {
    return c >= ' ' && c <= '~';
  })) << message;
}

std::string RequestRow(const std::string& row) {
  return std::string(kRequestHeader) + "0,1,1\n" + row + "\n";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    BadTraceTest,
    testing::Values(
        BadTrace{"empty", "", 1, "the file is empty"},
        BadTrace{"no_header", "0,374,44\n", 1, "the header is '0,374,44'"},
        BadTrace{"other_header", "arrival_seconds,input_tokens,output_tokensx\n0,1,1\n", 1,
                 "the header is"},
        BadTrace{"no_rows", kRequestHeader, 1, "no rows"},
        BadTrace{"short_row", RequestRow("1,2"), 3, "the row has 2 fields, but the header has 3"},
        BadTrace{"long_row", RequestRow("1,2,3,4"), 3,
                 "the row has 4 fields, but the header has 3"},
        BadTrace{"blank_row", RequestRow(""), 3, "the row has 0 fields"},
        BadTrace{"word", RequestRow("0,many,1"), 3, "'many', not a whole number"},
        BadTrace{"fraction", RequestRow("0,1.5,1"), 3, "'1.5', not a whole number"},
        BadTrace{"space", RequestRow("0, 1,1"), 3, "' 1', not a whole number"},
        BadTrace{"plus", RequestRow("0,+1,1"), 3, "'+1', not a whole number"},
        BadTrace{"no_tokens", RequestRow("0,,1"), 3, "'', not a whole number"},
        BadTrace{"zero", RequestRow("0,0,1"), 3, "input_tokens is '0'"},
        BadTrace{"negative", RequestRow("0,1,-5"), 3, "output_tokens is '-5'"},
        BadTrace{"above", RequestRow("0,10000001,1"), 3, "from 1 to 10000000"},
        BadTrace{"huge", RequestRow("0,1,99999999999999999999999"), 3, "from 1 to 10000000"},
        BadTrace{"arrival_word", RequestRow("soon,1,1"), 3, "'soon', not a number"},
        BadTrace{"arrival_negative", RequestRow("-1,1,1"), 3, "arrival_seconds is '-1'"},
        BadTrace{"arrival_nan", RequestRow("nan,1,1"), 3, "from 0 to 1e+09"},
        BadTrace{"arrival_infinite", RequestRow("inf,1,1"), 3, "from 0 to 1e+09"},
        BadTrace{"arrival_huge", RequestRow("1e999,1,1"), 3, "from 0 to 1e+09"},
        BadTrace{"arrival_late", RequestRow("1e10,1,1"), 3, "from 0 to 1e+09"},
        BadTrace{"arrival_back", RequestRow("5,1,1\n4.5,1,1"), 4,
                 "at 4.5 s, but the request above it at 5 s"},
        BadTrace{"set_then_empty", RequestRow(",1,1"), 3, "empty here, but set"},
        BadTrace{"empty_then_set", std::string(kRequestHeader) + ",1,1\n3,1,1\n", 3,
                 "set here, but empty"},
        BadTrace{"nul", RequestRow(std::string("0,1\0,1", 6)), 3, "NUL byte"},
        BadTrace{"binary", RequestRow("0,\x7f\x01\xff,1"), 3, "'\\x7f\\x01\\xff'"},
        BadTrace{"long_word", RequestRow("0," + std::string(500, 'a') + ",1"), 3, "aaa...'"}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(RequestTraceTest, RefusesPathsThatAreNoFile) {
  const std::string folder = testing::TempDir();
  EXPECT_THAT(MessageOf(ReadRequestTrace(folder, 1).status()),
              StartsWith(folder + ": this is a directory; "));
  const std::string missing = folder + "/coppice_no_such_trace.csv";
  EXPECT_THAT(MessageOf(ReadRequestTrace(missing, 1).status()),
              StartsWith(missing + ": there is no such file; "));
}

TEST(RequestTraceTest, ReadsWhatItParses) {
  const std::string path = testing::TempDir() + "/coppice_request_trace_test.csv";
  std::ofstream(path) << kRequestHeader << "0,5,6\n";
  const auto requests = ReadRequestTrace(path, 1);
  std::filesystem::remove(path);
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_THAT(*requests, ElementsAre(Request{.input_tokens = 5, .output_tokens = 6}));
}

TEST(RequestTraceTest, GenerationDependsOnKindAndSeedOnly) {
  for (const TraceKind kind : {TraceKind::kConversation, TraceKind::kCode, TraceKind::kMix}) {
    EXPECT_EQ(GenerateRequests(kind, 50, 3), GenerateRequests(kind, 50, 3));
    EXPECT_NE(GenerateRequests(kind, 50, 3), GenerateRequests(kind, 50, 4));
  }
  EXPECT_TRUE(GenerateRequests(TraceKind::kMix, 0, 1).empty());
}

TEST(RequestTraceTest, GeneratedRequestsAreAValidTrace) {
  std::string text = kRequestHeader;
  for (const Request& request : GenerateRequests(TraceKind::kMix, 500, 5)) {
    text += fmt::format("{},{},{}\n", request.arrival_seconds, request.input_tokens,
                        request.output_tokens);
  }
  const auto parsed = ParseRequestTrace(text, "t.csv", 1);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, GenerateRequests(TraceKind::kMix, 500, 5));
}

// The value at rank probability * (n - 1), linear between neighbours.
double QuantileOf(std::vector<double> values, double probability) {
  std::sort(values.begin(), values.end());
  const double rank = probability * static_cast<double>(values.size() - 1);
  const size_t lower = static_cast<size_t>(rank);
  const size_t upper = std::min(lower + 1, values.size() - 1);
  return values[lower] + (rank - static_cast<double>(lower)) * (values[upper] - values[lower]);
}

struct Columns {
  std::vector<double> input_tokens;
  std::vector<double> output_tokens;
  std::vector<double> gap_seconds;
};

Columns Split(const std::vector<Request>& requests) {
  Columns columns;
  for (size_t i = 0; i < requests.size(); ++i) {
    columns.input_tokens.push_back(static_cast<double>(requests[i].input_tokens));
    columns.output_tokens.push_back(static_cast<double>(requests[i].output_tokens));
    if (i > 0)
      columns.gap_seconds.push_back(requests[i].arrival_seconds - requests[i - 1].arrival_seconds);
  }
  return columns;
}

// A quantile q of probability p has at most p of the values below it and at least p up to it; drawn
// values are rounded by up to `rounding`. With 20000 draws a share is within 0.02 of its
// probability: over five standard deviations.
void ExpectFollows(const std::vector<double>& values, const Quantiles& quantiles, double rounding) {
  const auto share = [&](auto counted) {
    return static_cast<double>(std::count_if(values.begin(), values.end(), counted)) /
           static_cast<double>(values.size());
  };
  for (size_t i = 0; i < quantiles.size(); ++i) {
    const double quantile = quantiles[i];
    EXPECT_LE(share([&](double x) { return x < quantile - rounding; }),
              kQuantileProbabilities[i] + 0.02)
        << "quantile " << i << ", " << quantile;
    EXPECT_GE(share([&](double x) { return x <= quantile + rounding; }),
              kQuantileProbabilities[i] - 0.02)
        << "quantile " << i << ", " << quantile;
  }
}

TEST(RequestTraceTest, GeneratedRequestsFollowTheQuantiles) {
  const Columns conversation = Split(GenerateRequests(TraceKind::kConversation, 20000, 11));
  ExpectFollows(conversation.input_tokens, kConversationQuantiles.input_tokens, 0.5);
  ExpectFollows(conversation.output_tokens, kConversationQuantiles.output_tokens, 0.5);
  ExpectFollows(conversation.gap_seconds, kConversationQuantiles.gap_seconds, 1e-9);
  const Columns code = Split(GenerateRequests(TraceKind::kCode, 20000, 11));
  ExpectFollows(code.input_tokens, kCodeQuantiles.input_tokens, 0.5);
  ExpectFollows(code.output_tokens, kCodeQuantiles.output_tokens, 0.5);
  ExpectFollows(code.gap_seconds, kCodeQuantiles.gap_seconds, 1e-9);
}

void ExpectQuantiles(const std::vector<double>& values, const Quantiles& table) {
  for (size_t i = 0; i < table.size(); ++i) {
    const double real = QuantileOf(values, kQuantileProbabilities[i]);
    EXPECT_NEAR(table[i], real, 1e-4 + 1e-5 * real) << "probability " << kQuantileProbabilities[i];
  }
}

TEST(RequestTraceTest, QuantilesAreThoseOfTheRealTraces) {
  const std::string folder = TraceFolder();
  if (folder.empty()) GTEST_SKIP() << "COPPICE_DATA names no folder with the real traces";
  const auto expect = [&](const char* file, const TraceQuantiles& table) {
    const auto requests = ReadRequestTrace(folder + "/" + file, 1);
    ASSERT_TRUE(requests.ok()) << requests.status();
    const Columns columns = Split(*requests);
    ExpectQuantiles(columns.input_tokens, table.input_tokens);
    ExpectQuantiles(columns.output_tokens, table.output_tokens);
    ExpectQuantiles(columns.gap_seconds, table.gap_seconds);
  };
  expect("azure23_conv.csv", kConversationQuantiles);
  expect("azure23_code.csv", kCodeQuantiles);
}

TEST(RequestTraceTest, MixIsBothTracesInOrderOfArrival) {
  const auto mix = GenerateRequests(TraceKind::kMix, 3000, 2);
  const auto conversation = GenerateRequests(TraceKind::kConversation, 3000, 2);
  const auto code = GenerateRequests(TraceKind::kCode, 3000, 2);
  ASSERT_EQ(mix.size(), 3000U);
  size_t from_conversation = 0;
  size_t from_code = 0;
  for (const Request& request : mix) {
    if (request == conversation[from_conversation]) {
      ++from_conversation;
    } else {
      ASSERT_EQ(request, code[from_code]);
      ++from_code;
    }
  }
  EXPECT_GT(from_conversation, 300U);
  EXPECT_GT(from_code, 300U);
}

TEST(RequestTraceTest, FitDividesRoundingUp) {
  std::vector<Request> requests = {{.input_tokens = 17, .output_tokens = 8},
                                   {.input_tokens = 1, .output_tokens = 1}};
  EXPECT_EQ(FitRequests(8, 100, requests), 0);
  EXPECT_THAT(requests, ElementsAre(Request{.input_tokens = 3, .output_tokens = 1},
                                    Request{.input_tokens = 1, .output_tokens = 1}));
}

TEST(RequestTraceTest, FitCutsPromptThenAnswerAndCounts) {
  // A context of 10 holds a prompt of 6 and an answer of 5, whose last token is never fed.
  std::vector<Request> requests = {{.input_tokens = 6, .output_tokens = 5},
                                   {.input_tokens = 6, .output_tokens = 6},
                                   {.input_tokens = 11, .output_tokens = 1},
                                   {.input_tokens = 50, .output_tokens = 50}};
  EXPECT_EQ(FitRequests(1, 10, requests), 3);
  EXPECT_THAT(requests, ElementsAre(Request{.input_tokens = 6, .output_tokens = 5},
                                    Request{.input_tokens = 6, .output_tokens = 5},
                                    Request{.input_tokens = 10, .output_tokens = 1},
                                    Request{.input_tokens = 10, .output_tokens = 1}));
}

TEST(RequestTraceTest, ParseTraceKindReadsWhatNameOfWrites) {
  for (const TraceKind kind : {TraceKind::kConversation, TraceKind::kCode, TraceKind::kMix})
    EXPECT_EQ(*ParseTraceKind(NameOf(kind)), kind);
  EXPECT_EQ(ParseTraceKind("chat").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace coppice
