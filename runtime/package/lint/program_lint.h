// A program under the linter: its places, its sizes, and arithmetic whose faults are findings.
//
// Threads: one at a time.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coppice/base/expression.h"
#include "coppice/runtime/manifest.h"

#include "runtime/package/lint/points.h"
#include "runtime/package/lint/report.h"

namespace coppice::package {

struct ProgramLint {
  // Reports guards that no sizes pass. Requires: a manifest that was read (its guards, checked).
  ProgramLint(const Manifest& manifest, const Program& program, int64_t points_max, Report& report);

  // "n = 12, m = 3"; "no sizes" of a program without symbols.
  std::string Sizes(const Point& point) const;

  // The amount at `values`; nothing if its arithmetic has a fault, which is reported.
  std::optional<int64_t> Evaluate(const Amount& amount,
                                  std::span<const int64_t> values,
                                  const Place& place,
                                  const Point& point) const;

  // Bytes that a buffer takes, from its first element to behind the last; nothing if that has a
  // fault or is negative, which is reported.
  std::optional<int64_t> BytesOf(const Buffer& buffer,
                                 std::span<const int64_t> values,
                                 const Place& place,
                                 const Point& point) const;
  // The same of sizes and strides in elements of `element_bytes`.
  std::optional<int64_t> SpanOf(std::span<const Amount> shape,
                                std::span<const Amount> strides,
                                int64_t element_bytes,
                                std::span<const int64_t> values,
                                const Place& place,
                                const Point& point) const;

  // Whether a step is left out at `point`.
  bool IsSkipped(const Step& step, const Place& place, const Point& point) const;

  // The targets of a kernel whose launches differ by what expressions and grids see: the first
  // few of them.
  const std::vector<const Target*>& TargetsOf(int kernel);

  const Buffer& buffer(int index) const { return program.buffers[static_cast<size_t>(index)]; }
  Place PlaceOf(const Buffer& of) const { return place / "buffers" / of.name; }

  const Manifest& manifest;
  const Program& program;
  Report& report;
  Place place;
  std::vector<std::string> names;
  std::vector<Expression> guards;
  std::vector<Point> points;

 private:
  std::map<int, std::vector<const Target*>> targets_;  // By kernel.
};

// What an amount is written as: its text, or its number.
std::string TextOf(const Amount& amount);

// The point's values with those of a target behind them.
std::vector<int64_t> WithValues(const Point& point, const Target& target);

// Parts of the linter, each of one concern.
void LintSymbols(ProgramLint& lint);   // What symbols, buckets and claims say.
void LintLaunches(ProgramLint& lint);  // Grids, and arguments of kernels.
void LintMemory(ProgramLint& lint);    // Who reads and writes which bytes, in order.
void LintPromises(ProgramLint& lint);  // What kernels assume, and what claims need.
void LintUnused(const Manifest& manifest, Report& report);

}  // namespace coppice::package
