// What the subcommands of `coppice tune` read: traffic, costs and policies.
//
// Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/padding/bucket_cost.h"
#include "coppice/padding/joint_histogram.h"
#include "coppice/padding/joint_policy.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/size_histogram.h"

#include "tools/support/console.h"
#include "tools/tune/tune.h"

namespace coppice {

struct Traffic {
  SizeHistogram histogram;
  int64_t rows = 0;           // That have a size.
  int64_t without_value = 0;  // Rows that have none in this column.
  bool weighed = false;       // By a column of counts.
};

// The sizes of all files in the first column. Errors: those of CheckTraffic and ReadTraceColumns.
absl::StatusOr<Traffic> ReadTraffic(const TrafficOptions& options, const Console& console);

// The sizes of all files in the two columns. Errors: the same, and a row that lacks one of them.
absl::StatusOr<JointHistogram> ReadJointTraffic(const TrafficOptions& options,
                                                const Console& console);

// That there is a file, one column or two that differ, and a weight that is neither. Errors:
// kInvalidArgument.
absl::Status CheckTraffic(const TrafficOptions& options);

// A CSV file of the columns size and cost, with one cost of each size; an empty path: elements.
absl::StatusOr<BucketCost> ReadCost(const std::string& path);

// A CSV file of cost and both columns, with a row for each pair of their sizes, or of size, which
// is then the product of the two, and cost; no path: elements. Errors: kInvalidArgument.
absl::StatusOr<JointCost> ReadJointCost(const TrafficOptions& options);

// That what all calls cost, padded up to `limit` at most, is a number. Errors: kInvalidArgument,
// naming the table of costs, or, without one, the counts.
absl::Status CheckSums(const TrafficOptions& options,
                       const SizeHistogram& histogram,
                       const BucketCost& cost,
                       int64_t limit);

// Whether a policy is named by its file: there is one of this name, or it ends in .json.
bool NamesPolicyFile(const std::string& text);

// A document, where a file is named; otherwise a spelling of PaddingPolicy::Parse, up to `limit`;
// 0: up to what its system ends at, or `largest` where no system has one.
absl::StatusOr<PaddingPolicy> ReadPolicy(const std::string& text, int64_t limit, int64_t largest);

// Prints the error as one line of `command`, and returns `code`.
ExitCode FailTune(const Console& console,
                  const char* command,
                  const absl::Status& status,
                  ExitCode code = kExitUsage);

// "1,2,4,8": of many, the beginning and the end.
std::string ShortList(std::span<const int64_t> sizes);

}  // namespace coppice
