// Finds the columns by the header, then turns each row into a buffer.

#include "tools/plan/lifetime_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/support/text_file.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr std::string_view kBlanks = " \t";

enum Column : uint8_t { kId, kLower, kUpper, kSize, kAlignment, kGaps, kOffset, kColumnCount };

struct ColumnName {
  std::string_view name;
  Column column;
};

constexpr std::array kColumnNames = {
    ColumnName{"id", kId},        ColumnName{"buffer", kId},
    ColumnName{"buffer_id", kId}, ColumnName{"lower", kLower},
    ColumnName{"begin", kLower},  ColumnName{"start", kLower},
    ColumnName{"upper", kUpper},  ColumnName{"end", kUpper},
    ColumnName{"size", kSize},    ColumnName{"alignment", kAlignment},
    ColumnName{"gaps", kGaps},    ColumnName{"offset", kOffset}};
// The usual names, by Column; the first four are required.
constexpr std::array kUsualNames = {"id", "lower", "upper", "size", "alignment", "gaps", "offset"};

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

class LifetimeParser {
 public:
  LifetimeParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  absl::StatusOr<LifetimeTable> Parse() {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // What spreadsheets put first.
    if (text_.empty()) return Error("the file is empty", "give a header and rows");
    COPPICE_RETURN_IF_ERROR(ParseHeader(NextLine()));
    while (!text_.empty()) {
      const std::string_view line = NextLine();
      const bool last = text_.find_first_not_of("\r\n") == std::string_view::npos;
      if (Trim(line).empty() && last) break;
      COPPICE_RETURN_IF_ERROR(ParseRow(line));
    }
    if (table_.rows.empty())
      return Error("the file has a header but no rows", "add at least one buffer");
    COPPICE_RETURN_IF_ERROR(CheckSum());
    return std::move(table_);
  }

 private:
  absl::Status Error(const std::string& what, const std::string& remedy) const {
    return InvalidArgument("{}:{}: {}; {}", name_, std::max<int64_t>(line_, 1), what, remedy);
  }

  std::string_view NextLine() {
    ++line_;
    return TakeLine(text_);
  }

  // The text of a line without its offset, to be written again.
  std::string WithoutOffset(std::vector<std::string_view> fields) const {
    if (places_[kOffset]) fields.erase(fields.begin() + static_cast<int64_t>(*places_[kOffset]));
    return fmt::format("{}", fmt::join(fields, ","));
  }

  absl::Status ParseHeader(std::string_view line) {
    const std::vector<std::string_view> fields = Split(line, ',');
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string_view field = Trim(fields[i]);
      const auto known = std::find_if(kColumnNames.begin(), kColumnNames.end(),
                                      [&](const ColumnName& one) { return one.name == field; });
      if (known == kColumnNames.end()) continue;
      if (places_[known->column])
        return Error(fmt::format("the header names the column {} twice, the second time as {}",
                                 kUsualNames[known->column], Quote(field)),
                     "keep one of the columns");
      places_[known->column] = i;
      if (field == "end") end_is_last_ = 1;
    }
    for (const Column column : {kId, kLower, kUpper, kSize}) {
      if (!places_[column])
        return Error(
            fmt::format("the header {} has no column {}", Quote(line), kUsualNames[column]),
            "start the file with a header such as id,lower,upper,size");
    }
    field_count_ = fields.size();
    table_.header = WithoutOffset(fields);
    return absl::OkStatus();
  }

  absl::Status ParseRow(std::string_view line) {
    if (line.find('\0') != std::string_view::npos)
      return Error("the line contains a NUL byte", "give a plain text file");
    const std::vector<std::string_view> fields = Split(line, ',');
    const size_t count = Trim(line).empty() ? 0 : fields.size();
    if (count != field_count_)
      return Error(fmt::format("the row has {}, but the header has {}",
                               Counted(static_cast<int64_t>(count), "field"), field_count_),
                   "give every row one field per column");
    COPPICE_RETURN_IF_ERROR(TakeId(Trim(fields[*places_[kId]])));
    COPPICE_ASSIGN_OR_RETURN(Buffer buffer, ParseBuffer(fields));
    table_.rows.push_back(WithoutOffset(fields));
    table_.buffers.push_back(std::move(buffer));
    table_.lines.push_back(line_);
    return absl::OkStatus();
  }

  absl::Status TakeId(std::string_view id) {
    if (id.empty()) return Error("id is empty", "give every buffer a unique id");
    const auto [taken, fresh] = line_of_id_.emplace(id, line_);
    if (!fresh)
      return Error(fmt::format("the id {} is already used in line {}", Quote(id), taken->second),
                   "give every buffer a unique id");
    table_.ids.emplace_back(id);
    return absl::OkStatus();
  }

  absl::StatusOr<Buffer> ParseBuffer(const std::vector<std::string_view>& fields) {
    const auto field = [&](Column column) {
      return places_[column] ? Trim(fields[*places_[column]]) : std::string_view();
    };
    Interval whole;
    COPPICE_ASSIGN_OR_RETURN(whole.lower, ParseNumber(field(kLower), "lower", 0));
    COPPICE_ASSIGN_OR_RETURN(whole.upper, ParseEnd(field(kUpper), "upper"));
    if (whole.upper <= whole.lower)
      return Error(
          fmt::format("the lifetime from step {} up to {} is empty", whole.lower, whole.upper),
          "make `upper` larger than `lower`, or make `end` at least `lower`");
    Buffer buffer;
    COPPICE_ASSIGN_OR_RETURN(buffer.bytes, ParseNumber(field(kSize), "size", 1));
    buffer.alignment = 1;
    if (places_[kAlignment]) {
      COPPICE_ASSIGN_OR_RETURN(buffer.alignment, ParseNumber(field(kAlignment), "alignment", 1));
      if (!IsPowerOfTwo(buffer.alignment))
        return Error(fmt::format("alignment is {}", buffer.alignment), "give a power of two");
    }
    if (!field(kOffset).empty()) {
      COPPICE_ASSIGN_OR_RETURN(buffer.fixed_offset, ParseNumber(field(kOffset), "offset", 0));
      if (*buffer.fixed_offset % buffer.alignment != 0)
        return Error(fmt::format("offset {} is not a multiple of the alignment {}",
                                 *buffer.fixed_offset, buffer.alignment),
                     "give a multiple, or leave the field empty");
    }
    COPPICE_ASSIGN_OR_RETURN(const std::vector<Interval> gaps, ParseGaps(field(kGaps), whole));
    return Cut(whole, gaps, std::move(buffer));
  }

  // Sorted.
  absl::StatusOr<std::vector<Interval>> ParseGaps(std::string_view text, const Interval& whole) {
    std::vector<Interval> gaps;
    for (const std::string_view part : Split(text, ' ')) {
      if (part.empty()) continue;
      const std::vector<std::string_view> sides = Split(part, '@');
      const std::vector<std::string_view> ends = Split(sides[0], '-');
      if (sides.size() > 2 || ends.size() != 2)
        return Error(fmt::format("the gap {} is not a pair of steps", Quote(part)),
                     "give gaps such as '3-5 8-9'");
      Interval gap;
      COPPICE_ASSIGN_OR_RETURN(gap.lower, ParseNumber(ends[0], "the start of a gap", 0));
      COPPICE_ASSIGN_OR_RETURN(gap.upper, ParseEnd(ends[1], "the end of a gap"));
      if (gap.lower < whole.lower || gap.upper > whole.upper || gap.upper <= gap.lower)
        return Error(fmt::format("the gap {} is empty, or outside of the steps from {} up to {}",
                                 Quote(part), whole.lower, whole.upper),
                     "give gaps within the lifetime");
      if (sides.size() == 1) {
        gaps.push_back(gap);
        continue;
      }
      const std::vector<std::string_view> window = Split(sides[1], ':');
      if (window.size() != 2)
        return Error(fmt::format("the gap {} does not say which bytes stay in use", Quote(part)),
                     "give gaps such as '3-5@0:64'");
      for (const std::string_view end : window)
        COPPICE_RETURN_IF_ERROR(ParseNumber(end, "a byte of a gap", 0).status());
      ++table_.partial_gaps;
    }
    std::sort(gaps.begin(), gaps.end(),
              [](const Interval& a, const Interval& b) { return a.lower < b.lower; });
    return gaps;
  }

  // The lifetime of `buffer` is what `gaps` leave of `whole`.
  absl::StatusOr<Buffer> Cut(Interval whole, const std::vector<Interval>& gaps, Buffer buffer) {
    for (const Interval& gap : gaps) {
      if (gap.lower < whole.lower)
        return Error(fmt::format("two gaps share step {}", gap.lower), "join them");
      if (gap.lower > whole.lower) buffer.lifetime.push_back({whole.lower, gap.lower});
      whole.lower = gap.upper;
    }
    if (whole.lower < whole.upper) buffer.lifetime.push_back(whole);
    if (buffer.lifetime.empty())
      return Error("the gaps cover the whole lifetime", "leave the row out");
    return buffer;
  }

  // The step after the last one.
  absl::StatusOr<int64_t> ParseEnd(std::string_view field, const char* what) const {
    COPPICE_ASSIGN_OR_RETURN(const int64_t end, ParseNumber(field, what, 0));
    if (end == INT64_MAX) return Error(fmt::format("{} is {}", what, end), "give a smaller step");
    return end + end_is_last_;
  }

  absl::StatusOr<int64_t> ParseNumber(std::string_view field,
                                      const char* what,
                                      int64_t least) const {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
    const bool whole = end == field.data() + field.size();
    if (error == std::errc::invalid_argument || !whole)
      return Error(fmt::format("{} is {}, not a whole number", what, Quote(field)),
                   "give digits only");
    if (error == std::errc::result_out_of_range || number < least)
      return Error(fmt::format("{} is {}", what, Quote(field)),
                   fmt::format("give a number from {} to 2^63 - 1", least));
    return number;
  }

  // No plan that stacks all buffers on the highest fixed one may overflow.
  absl::Status CheckSum() {
    int64_t sum = 0;
    for (const Buffer& buffer : table_.buffers)
      sum = std::max(sum, buffer.fixed_offset.value_or(0));
    for (size_t i = 0; i < table_.buffers.size(); ++i) {
      const Buffer& buffer = table_.buffers[i];
      line_ = table_.lines[i];
      if (buffer.bytes > INT64_MAX - sum || buffer.alignment > INT64_MAX - sum - buffer.bytes)
        return Error("the sizes up to this line add up to more than 2^63 - 1 bytes",
                     "give sizes in a larger unit");
      sum += buffer.bytes + buffer.alignment - 1;
    }
    return absl::OkStatus();
  }

  std::string_view text_;  // What is left of it.
  const std::string& name_;
  LifetimeTable table_;
  std::array<std::optional<size_t>, kColumnCount> places_;
  absl::flat_hash_map<std::string, int64_t> line_of_id_;
  size_t field_count_ = 0;
  int64_t line_ = 0;
  int64_t end_is_last_ = 0;  // 1: ends name the last step.
};

}  // namespace

absl::StatusOr<LifetimeTable> ParseLifetimes(std::string_view text, const std::string& name) {
  return LifetimeParser(text, name).Parse();
}

absl::StatusOr<LifetimeTable> ReadLifetimes(const std::string& path) {
  COPPICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "a file of lifetimes"));
  return ParseLifetimes(text, path);
}

std::string FormatOffsets(const LifetimeTable& table, const Plan& plan) {
  COPPICE_CHECK(plan.offsets.size() == table.rows.size(), "one offset per row");
  std::string text = table.header + ",offset\n";
  for (size_t i = 0; i < table.rows.size(); ++i)
    text += fmt::format("{},{}\n", table.rows[i], plan.offsets[i]);
  return text;
}

}  // namespace coppice
