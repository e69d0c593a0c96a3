// What changed between two traces. Figures are matched by what they are called, never by address
// or number: a bucket of one is that of the other if program, extents and key scalars are equal,
// whatever lane it is on. Buckets come by program, then by extents and scalars as numbers.
//
// A trace does not have every figure: not those of a bucket that it has not, nor plan height and
// graphs of a bucket without a graph.
//
// Units: bytes and counts. Threads: plain values, pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/prof/trace_summary.h"

namespace coppice {

enum class FigureUnit : uint8_t { kBytes, kCount };

// One figure of both traces; absent where a trace has no such thing.
struct Change {
  std::string subject;  // "nodes", "statics", "decode 16", "calls".
  std::string figure;   // "peak", "plan height", "replay"; empty where the subject is a figure.
  FigureUnit unit = FigureUnit::kCount;
  bool cost = false;  // Whether growth is worse: memory, and padding.
  std::optional<int64_t> before;
  std::optional<int64_t> after;

  std::string what() const { return figure.empty() ? subject : subject + ", " + figure; }
  bool same() const { return before == after; }
  int64_t delta() const { return after.value_or(0) - before.value_or(0); }
  // Growth in percent; infinite from nothing to something.
  double growth_pct() const;
};

struct TraceDifference {
  // What did not change is there, too.
  std::vector<Change> session;
  std::vector<Change> reasons;  // Calls that did not replay: subject program, figure reason.
  std::vector<Change> buckets;

  // The costs of both traces that grew by more than so many percent. What one trace alone has does
  // not count by itself: growth from nothing is over any percentage, even where the change that
  // brought a bucket took others away. What it costs is in the session's figures, which do count.
  std::vector<Change> GrownOver(double pct) const;
};

TraceDifference DifferenceOf(const TraceSummary& before, const TraceSummary& after);

// "1.50 KiB" or "12"; "-" for what a trace does not have.
std::string ShownAs(FigureUnit unit, const std::optional<int64_t>& value);

// "new", "gone", "from 0" or "+12.5 %".
std::string GrowthOf(const Change& change);

}  // namespace coppice
