// Parses request traces, and generates them from quantiles.

#include "tools/run/request_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <random>
#include <utility>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/run/trace_quantiles.h"
#include "tools/support/text_file.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr std::string_view kHeader = "arrival_seconds,input_tokens,output_tokens";

// Uniform in [0, 1), the same on every standard library.
double Uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

class TraceParser {
 public:
  TraceParser(std::string_view text, const std::string& name, uint64_t seed)
      : text_(text), name_(name), random_(seed) {}

  absl::StatusOr<std::vector<Request>> Parse() {
    if (text_.empty()) return Error("the file is empty", "give a trace with a header and rows");
    COPPICE_RETURN_IF_ERROR(ParseHeader());
    while (!text_.empty())
      COPPICE_RETURN_IF_ERROR(ParseRow(NextLine()));
    if (requests_.empty())
      return Error("the trace has a header but no rows", "add at least one request");
    return std::move(requests_);
  }

 private:
  absl::Status Error(const std::string& what, const std::string& remedy) const {
    return InvalidArgument("{}:{}: {}; {}", name_, std::max<int64_t>(line_, 1), what, remedy);
  }

  std::string_view NextLine() {
    ++line_;
    return TakeLine(text_);
  }

  absl::Status ParseHeader() {
    const std::string_view line = NextLine();
    if (line != kHeader && !line.starts_with(std::string(kHeader) + ","))
      return Error(fmt::format("the header is {}", Quote(line)),
                   fmt::format("start the file with the line '{}'", kHeader));
    field_count_ = std::count(line.begin(), line.end(), ',') + 1;
    return absl::OkStatus();
  }

  absl::Status ParseRow(std::string_view line) {
    if (line.find('\0') != std::string_view::npos)
      return Error("the line holds a NUL byte", "give a plain text file");
    const int64_t count = line.empty() ? 0 : std::count(line.begin(), line.end(), ',') + 1;
    if (count != field_count_)
      return Error(fmt::format("the row has {}, but the header has {}", Counted(count, "field"),
                               field_count_),
                   "give every row the fields of the header");
    std::array<std::string_view, 3> fields;
    for (std::string_view& field : fields) {
      const size_t end = line.find(',');
      field = line.substr(0, end);
      line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    }
    Request request;
    COPPICE_ASSIGN_OR_RETURN(request.arrival_seconds, ParseArrival(fields[0]));
    COPPICE_ASSIGN_OR_RETURN(request.input_tokens, ParseTokens(fields[1], "input_tokens"));
    COPPICE_ASSIGN_OR_RETURN(request.output_tokens, ParseTokens(fields[2], "output_tokens"));
    requests_.push_back(request);
    return absl::OkStatus();
  }

  absl::StatusOr<double> ParseArrival(std::string_view field) {
    if (requests_.empty()) poisson_ = field.empty();
    if (field.empty() != poisson_)
      return Error(fmt::format("arrival_seconds is {} here, but {} in the rows above",
                               poisson_ ? "set" : "empty", poisson_ ? "empty" : "set"),
                   "set it in every row or in none");
    const double previous = requests_.empty() ? 0 : requests_.back().arrival_seconds;
    if (poisson_) return previous - std::log1p(-Uniform(random_)) / kPoissonPerSecond;

    double seconds = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), seconds);
    const bool whole = end == field.data() + field.size();
    if (error == std::errc::invalid_argument || !whole)
      return Error(fmt::format("arrival_seconds is {}, not a number", Quote(field)),
                   "give seconds, such as 4.315");
    if (error == std::errc::result_out_of_range || !(seconds >= 0 && seconds <= kArrivalMax))
      return Error(fmt::format("arrival_seconds is {}", Quote(field)),
                   fmt::format("give a number of seconds from 0 to {:.0e}", kArrivalMax));
    if (seconds < previous)
      return Error(fmt::format("the request arrives at {} s, but the request above it at {} s",
                               seconds, previous),
                   "sort the rows by arrival_seconds");
    return seconds;
  }

  absl::StatusOr<int64_t> ParseTokens(std::string_view field, const char* column) const {
    int64_t tokens = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), tokens);
    const bool whole = end == field.data() + field.size();
    if (error == std::errc::invalid_argument || !whole)
      return Error(fmt::format("{} is {}, not a whole number", column, Quote(field)),
                   "give a number of tokens, such as 374");
    if (error == std::errc::result_out_of_range || tokens < 1 || tokens > kTokensMax)
      return Error(fmt::format("{} is {}", column, Quote(field)),
                   fmt::format("give a number of tokens from 1 to {}", kTokensMax));
    return tokens;
  }

  std::string_view text_;  // What is left of it.
  const std::string& name_;
  std::mt19937_64 random_;
  std::vector<Request> requests_;
  int64_t line_ = 0;
  int64_t field_count_ = 0;
  bool poisson_ = false;
};

double Sample(const Quantiles& quantiles, std::mt19937_64& random) {
  const double probability = Uniform(random);
  const auto upper =
      std::upper_bound(kQuantileProbabilities.begin(), kQuantileProbabilities.end(), probability);
  const size_t i = static_cast<size_t>(upper - kQuantileProbabilities.begin()) - 1;
  const double share = (probability - kQuantileProbabilities[i]) /
                       (kQuantileProbabilities[i + 1] - kQuantileProbabilities[i]);
  return quantiles[i] + share * (quantiles[i + 1] - quantiles[i]);
}

std::vector<Request> GenerateFrom(const TraceQuantiles& quantiles, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Request> requests(static_cast<size_t>(count));
  double clock = 0;
  for (Request& request : requests) {
    request.arrival_seconds = clock;
    request.input_tokens = std::llround(Sample(quantiles.input_tokens, random));
    request.output_tokens = std::llround(Sample(quantiles.output_tokens, random));
    clock += Sample(quantiles.gap_seconds, random);
  }
  return requests;
}

}  // namespace

absl::StatusOr<std::vector<Request>> ParseRequestTrace(std::string_view text,
                                                       const std::string& name,
                                                       uint64_t seed) {
  return TraceParser(text, name, seed).Parse();
}

absl::StatusOr<std::vector<Request>> ReadRequestTrace(const std::string& path, uint64_t seed) {
  COPPICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "a trace file"));
  return ParseRequestTrace(text, path, seed);
}

absl::StatusOr<TraceKind> ParseTraceKind(const std::string& text) {
  for (const TraceKind kind : {TraceKind::kConversation, TraceKind::kCode, TraceKind::kMix})
    if (text == NameOf(kind)) return kind;
  return InvalidArgument("'{}' is not a kind of trace; give conv, code or mix", text);
}

const char* NameOf(TraceKind kind) {
  switch (kind) {
    case TraceKind::kConversation:
      return "conv";
    case TraceKind::kCode:
      return "code";
    case TraceKind::kMix:
      return "mix";
  }
  return "?";
}

std::vector<Request> GenerateRequests(TraceKind kind, int64_t count, uint64_t seed) {
  COPPICE_CHECK(count >= 0, "a negative number of requests");
  if (kind == TraceKind::kConversation) return GenerateFrom(kConversationQuantiles, count, seed);
  // Another stream of numbers, so that the two halves of a mix are independent.
  std::vector<Request> code = GenerateFrom(kCodeQuantiles, count, seed ^ 0x9e3779b97f4a7c15);
  if (kind == TraceKind::kCode) return code;

  const std::vector<Request> conversation = GenerateFrom(kConversationQuantiles, count, seed);
  std::vector<Request> mix;
  std::merge(
      conversation.begin(), conversation.end(), code.begin(), code.end(), std::back_inserter(mix),
      [](const Request& a, const Request& b) { return a.arrival_seconds < b.arrival_seconds; });
  mix.resize(static_cast<size_t>(count));
  return mix;
}

int64_t FitRequests(int64_t shrink, int64_t context_max, std::vector<Request>& requests) {
  COPPICE_CHECK(shrink >= 1 && context_max >= 1, "shrink and context_max must be at least 1");
  int64_t cut_count = 0;
  for (Request& request : requests) {
    const Request wanted = {.arrival_seconds = request.arrival_seconds,
                            .input_tokens = CeilDivide(request.input_tokens, shrink),
                            .output_tokens = CeilDivide(request.output_tokens, shrink)};
    request = wanted;
    request.input_tokens = std::min(wanted.input_tokens, context_max);
    request.output_tokens = std::min(wanted.output_tokens, context_max - request.input_tokens + 1);
    if (request != wanted) ++cut_count;
  }
  return cut_count;
}

}  // namespace coppice
