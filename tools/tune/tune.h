// `coppice tune`: buckets from traffic, what any policy wastes on it, and traffic from requests.
//
// Units: sizes count elements of the column, as tokens or rows; waste is 100 * (padded - real) /
// real, in the unit of the cost. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coppice/padding/joint_policy.h"

#include "tools/support/console.h"
#include "tools/tune/step_simulator.h"

namespace coppice {

// Sizes in files.
struct TrafficOptions {
  std::vector<std::string> files;
  std::vector<std::string> columns;  // One, or two for a joint policy.
  std::string weight;                // The column of how often a row was seen; empty: count, where
                                     // there is one.
  std::string cost;                  // A table of measured costs; empty: elements.
};

struct TuneLearnOptions {
  TrafficOptions traffic;
  int64_t buckets = 0;  // 0: as many as pay their price.
  int64_t price = 0;
  std::vector<int64_t> limit;  // Of each column; none: the largest size that there is.
  std::vector<int64_t> align;  // The same; none: 1.
  int64_t product = 0;         // Of the extents of a bucket of two columns; 0: any.
  double prior = 0.05;
  std::vector<double> max_ratio;  // Of each column, or one for both, where 0 is no cap; none: none.
  std::vector<int64_t> max_gap;   // The same, beside a cap.
  std::vector<JointSize> forced;  // Of one column with a b of 0.
  std::string output;             // The policy, as JSON; empty: none.
  std::string plot;               // A picture, as SVG; empty: none.
  bool json = false;
};

struct TuneScoreOptions {
  std::string policy;  // A document's path, a preset's name or a ladder's, or pair's, spelling.
  TrafficOptions traffic;
  std::vector<int64_t> limit;  // Of a ladder; none: its system's, or the largest size there is.
  bool json = false;
};

struct TuneSimulateOptions {
  std::string trace;
  SimulatorOptions simulator;
  std::string output;  // The steps, as CSV; empty: none.
  bool relearn = false;
  std::string column = "decode_rows";      // Which sizes are learned from: or mixed_tokens.
  std::string start = "geometric:1.25:1";  // The ladder before the first swap.
  int64_t buckets = 25;
  int64_t limit = 0;  // 0: the sequences, or the budget, of the server.
  int64_t align = 1;
  double prior = 0.02;
  double max_ratio = 1.5;
  int64_t max_gap = 2;
  int64_t period = 1000;
  double gain = 1;
  double gain_each = 0.25;
  int64_t added = 4;
  double half_life = 4000;
  bool json = false;
};

// Each returns kExitUsage for input that is wrong, before anything is written, and kExitOutput if a
// file cannot be written.
ExitCode TuneLearn(const TuneLearnOptions& options, const Console& console);
ExitCode TuneScore(const TuneScoreOptions& options, const Console& console);
ExitCode TuneSimulate(const TuneSimulateOptions& options, const Console& console);

}  // namespace coppice
