// The surveys of the probe. Each fills a table of runtime/tables/ with what a device answers:
// comment lines that begin with '#', a line of column names, then rows; tabs between. A table is
// written as it grows, so that a run that dies keeps what it has measured.
//
// Units: as the columns say. Threads: one survey at a time per process.

#pragma once

#include <cstdio>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "tools/probe/subject.h"
#include "tools/support/console.h"
#include "tools/support/progress.h"

namespace coppice {

// What a survey works with.
struct SurveyRun {
  Subject& subject;
  std::FILE* out;
  Progress& progress;

  // May stand anywhere.
  void Comment(const std::string& text) const { Print(out, "# {}\n", text); }

  // The names of the columns, units included, or a row of them: a figure has three decimals.
  template <typename First, typename... Rest>
  void Row(const First& first, const Rest&... rest) const {
    Print(out, "{}", CellOf(first));
    (Print(out, "\t{}", CellOf(rest)), ...);
    Print(out, "\n");
    std::fflush(out);
  }

 private:
  template <typename Value>
  static std::string CellOf(const Value& value) {
    return fmt::format(fmt::runtime(std::is_floating_point_v<Value> ? "{:.3f}" : "{}"), value);
  }
};

// Which calls a stream capture forbids: capture_legality.tsv. Errors: what the driver refused
// midway.
absl::Status FillLegality(const SurveyRun& run);

// Device bytes of graph execs, by kind of node: memory.tsv. Errors: as above.
absl::Status FillMemory(const SurveyRun& run);

}  // namespace coppice
