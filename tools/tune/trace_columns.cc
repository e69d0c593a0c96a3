// Which format it is, CSV, and cells.

#include "tools/tune/trace_columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"

#include "tools/support/text_file.h"
#include "tools/support/text_table.h"
#include "tools/tune/trace_rows.h"

namespace coppice {
namespace {

constexpr size_t kColumnsNamed = 12;  // In a message.
constexpr const char* kSpace = " \r\n\t";

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// The cells of a line, one after the other. A cell in quotes loses them; two quotes in it are one.
class CsvCells {
 public:
  explicit CsvCells(std::string_view line) : line_(line) {}

  // Writes the next one to `cell`, valid until the next call; false if there is none.
  bool Next(std::string_view& cell) {
    if (ended_) return false;
    const size_t quoted = line_.starts_with('"') ? Unquote() : 0;
    const size_t end = line_.find(',', quoted);
    cell = quoted > 0 ? std::string_view(unquoted_) : Trimmed(line_.substr(0, end));
    ended_ = end == std::string_view::npos;
    line_.remove_prefix(ended_ ? line_.size() : end + 1);
    return true;
  }

 private:
  // Fills unquoted_, and returns where the closing quote is, or where the line ends.
  size_t Unquote() {
    unquoted_.clear();
    size_t i = 1;
    for (; i < line_.size(); ++i) {
      if (line_[i] == '"' && !line_.substr(i + 1).starts_with('"')) break;
      if (line_[i] == '"') ++i;
      unquoted_ += line_[i];
    }
    return i;
  }

  std::string_view line_;
  std::string unquoted_;
  bool ended_ = false;
};

std::vector<std::string> CellsOf(std::string_view line) {
  if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  std::vector<std::string> cells;
  CsvCells rest(line);
  for (std::string_view cell; rest.Next(cell);)
    cells.emplace_back(cell);
  return cells;
}

// Of each cell of a row, the column that it fills, or nothing.
struct CsvColumn {
  std::optional<size_t> wanted;
  std::string title;
};

std::vector<CsvColumn> MatchHeader(const std::vector<std::string>& header, TraceRows& rows) {
  std::vector<CsvColumn> columns;
  columns.reserve(header.size());
  for (const std::string& title : header)
    columns.push_back({.wanted = std::nullopt, .title = title});
  for (size_t i = 0; i < rows.wanted().size(); ++i) {
    for (const std::string& name : rows.wanted()[i].names) {
      const auto place = std::find_if(columns.begin(), columns.end(), [&](const CsvColumn& column) {
        return !column.wanted && column.title == name;
      });
      if (place == columns.end()) continue;
      place->wanted = i;
      rows.SetFound(i);
      break;
    }
  }
  return columns;
}

std::string TitlesOf(const std::vector<std::string>& header) {
  std::vector<std::string> titles;
  for (size_t i = 0; i < std::min(header.size(), kColumnsNamed); ++i)
    titles.push_back(Quote(header[i]));
  if (titles.size() < header.size()) titles.emplace_back("...");
  return fmt::format("{}", fmt::join(titles, ", "));
}

bool HasAnyColumn(std::string_view text, const std::vector<WantedColumn>& wanted) {
  for (const std::string& title : CellsOf(TakeLine(text))) {
    for (const WantedColumn& column : wanted)
      if (std::find(column.names.begin(), column.names.end(), title) != column.names.end())
        return true;
  }
  return false;
}

template <typename Number>
bool ReadWhole(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && read == end && !text.empty();
}

// Takes digits up to `separator`, or the end of the text, off `text`.
std::optional<int> TakeField(std::string_view& text, std::string_view separators) {
  const size_t end = std::min(text.find_first_of(separators), text.size());
  int value = 0;
  if (!ReadWhole(text.substr(0, end), value) || value < 0) return std::nullopt;
  text.remove_prefix(std::min(end + 1, text.size()));
  return value;
}

// Takes Z, +HH:MM or +HH off the end of `text`, or nothing: seconds ahead of UTC.
std::optional<int> TakeZone(std::string_view& text) {
  if (text.ends_with('Z')) text.remove_suffix(1);
  const size_t sign = text.find_first_of("+-");
  if (sign == std::string_view::npos) return 0;
  const int direction = text[sign] == '-' ? -1 : 1;
  std::string_view zone = text.substr(sign + 1);
  text = text.substr(0, sign);
  const bool whole = !zone.ends_with(':');
  const std::optional<int> hours = TakeField(zone, ":");
  const std::optional<int> minutes = zone.empty() ? 0 : TakeField(zone, "");
  if (!whole || !hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  return direction * (*hours * 3600 + *minutes * 60);
}

std::optional<double> ParseDate(std::string_view text) {
  const std::string_view date_text = text.substr(0, text.find(':'));  // A zone may have one, too.
  const int64_t dashes = std::count(date_text.begin(), date_text.end(), '-');
  int year = 1970;
  if (dashes == 2) {
    const std::optional<int> field = TakeField(text, "-");
    if (!field) return std::nullopt;
    year = *field;
  }
  const std::optional<int> month = TakeField(text, "-");
  const std::optional<int> day = TakeField(text, " T");
  const std::optional<int> hour = TakeField(text, ":");
  const std::optional<int> minute = TakeField(text, ":");
  const std::optional<int> zone_seconds = TakeZone(text);
  double second = 0;
  if (!month || !day || !hour || !minute || !zone_seconds || !ReadWhole(text, second))
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || second < 0 || second > 61) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + *hour * 3600 + *minute * 60 + second - *zone_seconds;
}

// What servers, data sets and their logs call the same.
const std::vector<std::vector<std::string>>& SameColumns() {
  static const auto* const same = new std::vector<std::vector<std::string>>{
      {"input_tokens", "prompt_tokens", "input_length", "num_prefill_tokens", "ContextTokens",
       "usage.prompt_tokens", "out.meta_info.prompt_tokens"},
      {"output_tokens", "completion_tokens", "output_length", "num_decode_tokens",
       "GeneratedTokens", "usage.completion_tokens", "out.meta_info.completion_tokens",
       "max_tokens"},
      {"arrival_seconds", "arrival_time", "arrived_at", "obj.received_time", "timestamp",
       "TIMESTAMP"}};
  return *same;
}

struct TraceFormat {
  const char* name;
  absl::Status (*read)(TraceRows& rows);
};

TraceFormat FormatOf(std::string_view text, const std::vector<WantedColumn>& wanted) {
  if (text[text.find_first_not_of(kSpace)] == '{') return {"JSON lines", &ReadJsonRows};
  if (!HasAnyColumn(text, wanted)) {
    if (IsSglangLog(text)) return {"SGLang log", &ReadSglangRows};
    if (IsVllmLog(text)) return {"vLLM log", &ReadVllmRows};
  }
  return {"CSV", &ReadCsvRows};
}

}  // namespace

absl::Status ReadCsvRows(TraceRows& rows) {
  const std::vector<std::string> header = CellsOf(rows.NextLine());
  const std::vector<CsvColumn> columns = MatchHeader(header, rows);
  for (size_t i = 0; i < rows.wanted().size(); ++i) {
    const bool found = std::any_of(columns.begin(), columns.end(),
                                   [i](const CsvColumn& each) { return each.wanted == i; });
    if (!found && rows.wanted()[i].required)
      return rows.Error(
          fmt::format("there is no column {}", fmt::join(rows.wanted()[i].names, " or ")),
          fmt::format("the columns are {}", TitlesOf(header)));
  }
  for (const CsvColumn& column : columns) {
    if (column.wanted && std::count(header.begin(), header.end(), column.title) > 1)
      return rows.Error(fmt::format("the column {} occurs twice", column.title),
                        "give each column a unique title");
  }
  while (!rows.done()) {
    const std::string_view line = rows.NextLine();
    if (line.empty()) continue;
    rows.Begin();
    CsvCells cells(line);
    size_t count = 0;
    for (std::string_view cell; cells.Next(cell); ++count) {
      if (count < columns.size() && columns[count].wanted)
        COPPICE_RETURN_IF_ERROR(rows.SetText(*columns[count].wanted, columns[count].title, cell));
    }
    if (count != columns.size())
      return rows.Error(fmt::format("the row has {}, but the header has {}",
                                    Counted(static_cast<int64_t>(count), "cell"), columns.size()),
                        "give every row one cell per column");
    rows.End();
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ParseCell(std::string_view text, ColumnKind kind) {
  double value = 0;
  const bool number = ReadWhole(text, value) && std::isfinite(value);
  if (kind == ColumnKind::kTime) {
    if (number) return value;
    if (const std::optional<double> date = ParseDate(text)) return *date;
    return InvalidArgument("{}, not a time; give seconds, or a date such as 2026-01-31 23:59:59.5",
                           Quote(text));
  }
  if (kind == ColumnKind::kCost) {
    if (number && value >= 0) return value;
    return InvalidArgument("{}, not a cost; give 0 or more, such as 374.5", Quote(text));
  }
  if (kind == ColumnKind::kWeight) {
    if (number && value > 0) return value;
    return InvalidArgument(
        "{}, not a number above 0; give the number of times that the size was seen", Quote(text));
  }
  if (number && value >= 0 && value <= static_cast<double>(kSizeMax) && value == std::floor(value))
    return value;
  if (number && value < 0)
    return InvalidArgument("{}, below 0; give sizes of 0 or more", Quote(text));
  return InvalidArgument("{}, not a whole number from 0 to 2^40; give sizes such as 374",
                         Quote(text));
}

absl::StatusOr<TraceColumns> ParseTraceColumns(std::string_view given,
                                               const std::string& name,
                                               const std::vector<WantedColumn>& wanted,
                                               ReadingProgress progress) {
  if (given.starts_with("\x1f\x8b"))
    return InvalidArgument("{}: the file is compressed; give the output of `zcat` for it", name);
  const std::optional<std::string> plain = Unwrap(given);
  const std::string_view text = plain ? *plain : given;
  if (text.find_first_not_of(kSpace) == std::string_view::npos)
    return InvalidArgument("{}: the file is empty; give one with a header and rows", name);
  const TraceFormat format = FormatOf(text, wanted);
  TraceRows rows(text, name, wanted, progress);
  COPPICE_RETURN_IF_ERROR(format.read(rows));
  const TraceColumns columns = rows.Take(format.name);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i].required) continue;
    const std::string names = fmt::format("{}", fmt::join(wanted[i].names, " or "));
    if (!columns.found[i])
      return InvalidArgument("{}: this {} has no {}; {}", name, format.name, names,
                             columns.keys.empty()
                                 ? "name a column that it has"
                                 : fmt::format("its first row has {}", TitlesOf(columns.keys)));
    const std::vector<double>& values = columns.values[i];
    if (std::all_of(values.begin(), values.end(), [](double value) { return std::isnan(value); }))
      return InvalidArgument("{}: no row has a value in {}; give a file with traffic", name, names);
  }
  return columns;
}

WantedColumn KnownColumn(const std::string& name, ColumnKind kind, bool required) {
  WantedColumn column = {.names = {name}, .kind = kind, .required = required};
  for (const std::vector<std::string>& same : SameColumns()) {
    if (same.front() == name) column.names = same;
  }
  return column;
}

absl::StatusOr<TraceColumns> ReadTraceColumns(const std::string& path,
                                              const std::vector<WantedColumn>& wanted,
                                              ReadingProgress progress,
                                              const char* file) {
  COPPICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, file));
  return ParseTraceColumns(text, path, wanted, progress);
}

}  // namespace coppice
