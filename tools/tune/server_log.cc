// The lines of vLLM's and SGLang's logs that tell of requests and of batches.
//
// Prompts are in these lines too, and may hold anything: what is looked for behind them is looked
// for from the end.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "coppice/base/status.h"

#include "tools/tune/trace_rows.h"

namespace coppice {
namespace {

constexpr std::string_view kReceived = "Received request ";
constexpr std::string_view kTokenIds = "prompt_token_ids: [";
constexpr std::string_view kEngine = ", Running: ";
constexpr std::string_view kUnpadded = "| Unpadded Tokens |";
constexpr std::string_view kFinish = "Finish: obj=";
constexpr std::string_view kDecode = "Decode batch";
constexpr std::string_view kPrefill = "Prefill batch";

// The number behind the last `mark` of `line`.
std::optional<double> NumberBehind(std::string_view line, std::string_view mark) {
  const size_t place = line.rfind(mark);
  if (place == std::string_view::npos) return std::nullopt;
  line.remove_prefix(place + mark.size());
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  double number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  return number;
}

// The first date of the line: [YYYY-]MM-DD HH:MM:SS, with a fraction or without.
std::optional<double> TimeOf(std::string_view line) {
  for (size_t colon = line.find(':'); colon != std::string_view::npos && colon < 120;
       colon = line.find(':', colon + 1)) {
    if (colon < 8 || colon + 5 >= line.size() || line[colon + 3] != ':') continue;
    const auto in_date = [&](size_t i) {
      return std::isdigit(static_cast<unsigned char>(line[i])) != 0 || line[i] == '-';
    };
    size_t begin = colon - 3;
    while (begin > 0 && in_date(begin - 1))
      --begin;
    size_t end = colon + 6;
    while (end < line.size() &&
           (line[end] == '.' || std::isdigit(static_cast<unsigned char>(line[end])) != 0))
      ++end;
    const absl::StatusOr<double> time =
        ParseCell(line.substr(begin, end - begin), ColumnKind::kTime);
    if (time.ok()) return *time;
  }
  return std::nullopt;
}

// Fills the column that goes by `name`, where it is asked for.
void Fill(TraceRows& rows, std::string_view name, std::optional<double> value) {
  if (!value) return;
  for (size_t i = 0; i < rows.wanted().size(); ++i) {
    const std::vector<std::string>& names = rows.wanted()[i].names;
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    rows.Set(i, *value);
  }
}

// How many token ids are listed.
std::optional<double> TokensListed(std::string_view line) {
  const size_t place = line.rfind(kTokenIds);
  if (place == std::string_view::npos) return std::nullopt;
  line.remove_prefix(place + kTokenIds.size());
  line = line.substr(0, line.find(']'));
  if (line.empty()) return std::nullopt;
  return static_cast<double>(std::count(line.begin(), line.end(), ',') + 1);
}

// A row of the table of --cudagraph-metrics: unpadded, padded, paddings, mode, count.
bool FillUnpadded(std::string_view line, TraceRows& rows) {
  const size_t begin = line.find("| ");
  if (begin == std::string_view::npos || std::count(line.begin(), line.end(), '|') != 6)
    return false;
  const std::optional<double> tokens = NumberBehind(line.substr(0, line.find('|', begin + 1)), "|");
  const size_t last = line.rfind('|');
  const std::optional<double> count = NumberBehind(line.substr(0, last), "|");
  if (!tokens || !count || *count <= 0) return false;
  Fill(rows, "unpadded_tokens", tokens);
  Fill(rows, "count", count);
  return true;
}

bool Holds(std::string_view text, std::string_view mark) {
  return text.find(mark) != std::string_view::npos;
}

// Whether a line of `text` has `mark`, and `figure` behind it, past the number of the iteration.
bool HasLine(std::string_view text, std::string_view mark, std::string_view figure) {
  constexpr size_t kApart = 24;
  for (size_t place = text.find(mark); place != std::string_view::npos;
       place = text.find(mark, place + 1)) {
    const std::string_view near = text.substr(place + mark.size(), kApart + figure.size());
    if (Holds(near.substr(0, near.find('\n')), figure)) return true;
  }
  return false;
}

}  // namespace

bool IsVllmLog(std::string_view text) {
  return Holds(text, kReceived) || Holds(text, kEngine) || Holds(text, kUnpadded);
}

bool IsSglangLog(std::string_view text) {
  return Holds(text, kFinish) || HasLine(text, kDecode, "#running-req") ||
         HasLine(text, kPrefill, "#new-seq");
}

absl::Status ReadVllmRows(TraceRows& rows) {
  bool in_table = false;
  while (!rows.done()) {
    const std::string_view line = rows.NextLine();
    rows.Begin();
    if (Holds(line, kReceived)) {
      Fill(rows, "input_tokens", TokensListed(line));
      Fill(rows, "max_tokens", NumberBehind(line, ", max_tokens="));
      Fill(rows, "arrival_seconds", TimeOf(line));
    } else if (Holds(line, kUnpadded)) {
      in_table = true;
    } else if (in_table) {
      in_table = FillUnpadded(line, rows) || Holds(line, "|--");
    } else {
      Fill(rows, "running", NumberBehind(line, kEngine));
    }
    rows.KeepIfAny();
  }
  return absl::OkStatus();
}

absl::Status ReadSglangRows(TraceRows& rows) {
  while (!rows.done()) {
    const std::string_view line = rows.NextLine();
    rows.Begin();
    if (Holds(line, kFinish)) {
      Fill(rows, "input_tokens", NumberBehind(line, "'prompt_tokens':"));
      Fill(rows, "output_tokens", NumberBehind(line, "'completion_tokens':"));
      std::optional<double> arrival = NumberBehind(line, "received_time=");
      if (!arrival) {
        const double latency = NumberBehind(line, "'e2e_latency':").value_or(0);
        if (const std::optional<double> end = TimeOf(line)) arrival = *end - latency;
      }
      Fill(rows, "arrival_seconds", arrival);
    } else if (Holds(line, kDecode)) {
      Fill(rows, "running", NumberBehind(line, "#running-req:"));
    } else if (Holds(line, kPrefill)) {
      Fill(rows, "new_tokens", NumberBehind(line, "#new-token:"));
    }
    rows.KeepIfAny();
  }
  return absl::OkStatus();
}

}  // namespace coppice
