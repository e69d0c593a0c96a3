// What the readers of each format share: rows are built cell by cell.
//
// Threads: one at a time.

#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"

#include "tools/support/text_file.h"
#include "tools/tune/trace_columns.h"

namespace coppice {

class TraceRows {
 public:
  TraceRows(std::string_view text,
            const std::string& name,
            const std::vector<WantedColumn>& wanted,
            ReadingProgress progress)
      : text_(text),
        bytes_(static_cast<int64_t>(text.size())),
        name_(name),
        wanted_(wanted),
        progress_(progress) {
    columns_.values.resize(wanted.size());
    columns_.found.resize(wanted.size());
    row_.resize(wanted.size());
  }

  const std::vector<WantedColumn>& wanted() const { return wanted_; }
  bool done() const { return text_.empty(); }

  std::string_view NextLine() {
    if (++line_ % kLinesPerUpdate == 0)
      progress_(bytes_ - static_cast<int64_t>(text_.size()), bytes_);
    return TakeLine(text_);
  }

  // Of the line that was taken last.
  absl::Status Error(const std::string& what, const std::string& remedy) const {
    return InvalidArgument("{}:{}: {}; {}", name_, line_ < 1 ? 1 : line_, what, remedy);
  }

  // Begins a row without values.
  void Begin() { row_.assign(row_.size(), std::numeric_limits<double>::quiet_NaN()); }

  void SetKeys(std::vector<std::string> keys) { columns_.keys = std::move(keys); }

  void SetFound(size_t column) { columns_.found[column] = true; }

  void Set(size_t column, double value) {
    SetFound(column);
    row_[column] = value;
  }

  // Sets the column from its text; an empty one stays without a value.
  absl::Status SetText(size_t column, const std::string& title, std::string_view cell) {
    SetFound(column);
    if (cell.empty()) return absl::OkStatus();
    const absl::StatusOr<double> value = ParseCell(cell, wanted_[column].kind);
    if (!value.ok()) {
      const std::string message = MessageOf(value.status());
      return InvalidArgument("{}:{}: {} is {}", name_, line_, title, message);
    }
    row_[column] = *value;
    return absl::OkStatus();
  }

  // Keeps the row if it has any value; returns whether it does.
  bool KeepIfAny() {
    bool any = false;
    for (const double value : row_)
      any = any || !std::isnan(value);
    if (!any) return false;
    for (size_t i = 0; i < row_.size(); ++i)
      columns_.values[i].push_back(row_[i]);
    columns_.lines.push_back(line_);
    return true;
  }

  // The same, and counts a row that is not kept.
  void End() {
    if (!KeepIfAny()) ++columns_.rows_without;
  }

  TraceColumns Take(const char* format) {
    columns_.format = format;
    return std::move(columns_);
  }

 private:
  static constexpr int64_t kLinesPerUpdate = 1 << 14;

  std::string_view text_;  // What is left of it.
  const int64_t bytes_;
  const std::string& name_;
  const std::vector<WantedColumn>& wanted_;
  ReadingProgress progress_;
  TraceColumns columns_;
  std::vector<double> row_;
  int64_t line_ = 0;
};

// Readers of one format each; the rows are complete when they return.
absl::Status ReadCsvRows(TraceRows& rows);
absl::Status ReadJsonRows(TraceRows& rows);
absl::Status ReadVllmRows(TraceRows& rows);
absl::Status ReadSglangRows(TraceRows& rows);

// The lines that a program wrote, without what docker, compose, Kubernetes or a terminal put around
// each; nothing if nobody did. Lines keep their numbers.
std::optional<std::string> Unwrap(std::string_view text);

// Whether the lines of that server are in `text`.
bool IsVllmLog(std::string_view text);
bool IsSglangLog(std::string_view text);

}  // namespace coppice
