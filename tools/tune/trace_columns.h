// Columns of traffic as servers leave it: CSV, JSON lines, and the logs of vLLM and SGLang.
//
// A reader asks for columns by name and gets numbers. What a file is shows in its text: objects in
// braces, a header that has a column asked for, or the lines that those servers write.
//
//   CSV          a header, then rows; other columns may hold anything, also nothing
//   JSON lines   an object per line; a name may be a path, as usage.prompt_tokens. A document of a
//                histogram that a session exported has the columns size and count
//   vLLM         input_tokens, max_tokens and arrival_seconds of requests (where their token ids
//                are logged), running of the engine's lines, and unpadded_tokens with count of the
//                tables that --cudagraph-metrics prints
//   SGLang       input_tokens, output_tokens and arrival_seconds of finished requests, running of
//                decode batches, new_tokens of prefill batches; its JSON log too
//
// Units: what the columns count; times are seconds. Threads: pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coppice {

enum class ColumnKind : uint8_t {
  kSize,    // Whole numbers from 0 to kSizeMax.
  kWeight,  // Numbers above 0.
  kTime,    // Seconds, or a date with a time of day.
  kCost,    // Numbers from 0 on.
};

struct WantedColumn {
  std::vector<std::string> names;  // The first of them that the file has; at least one.
  ColumnKind kind = ColumnKind::kSize;
  bool required = true;
};

// One entry per row that has any value, in the order of the file.
struct TraceColumns {
  std::vector<std::vector<double>> values;  // By column asked for; a cell without a value is NaN.
  std::vector<bool> found;                  // Whether the file has the column.
  std::vector<int64_t> lines;               // Of each row, from 1.
  int64_t rows_without = 0;                 // Of CSV or JSON, that have no value and are left out.
  std::string format;                       // "CSV", "JSON lines", "vLLM log", "SGLang log".
  std::vector<std::string> keys;            // Of the first object of JSON.

  int64_t rows() const { return static_cast<int64_t>(lines.size()); }
};

inline constexpr int64_t kSizeMax = int64_t{1} << 40;

// `name`, and for input_tokens, output_tokens and arrival_seconds what other servers and data sets
// call the same: prompt_tokens, ContextTokens, timestamp, usage.prompt_tokens, ...
WantedColumn KnownColumn(const std::string& name, ColumnKind kind, bool required = true);

// Hears how many bytes of how many have been read.
using ReadingProgress = absl::FunctionRef<void(int64_t done, int64_t total)>;

// Parses `text`; `name` stands for the file in messages.
//
// Errors: kInvalidArgument, `name:line: what; what to do`: nothing in it, a required column that
// it does not have or has twice, a cell that is no number of its kind, a row with another number of
// cells.
absl::StatusOr<TraceColumns> ParseTraceColumns(std::string_view text,
                                               const std::string& name,
                                               const std::vector<WantedColumn>& wanted,
                                               ReadingProgress progress);

// Reads and parses a file; `file` says in messages what belongs there. Errors: as above, and those
// of ReadTextFile.
absl::StatusOr<TraceColumns> ReadTraceColumns(const std::string& path,
                                              const std::vector<WantedColumn>& wanted,
                                              ReadingProgress progress,
                                              const char* file = "a trace file");

// A number of `kind` as text has it, or what is wrong with it. Times are seconds, or
// [YYYY-]MM-DD, a space or T, HH:MM:SS[.fraction], which become seconds since 1970 (without a year:
// of its own year).
absl::StatusOr<double> ParseCell(std::string_view text, ColumnKind kind);

}  // namespace coppice
