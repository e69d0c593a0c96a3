// The latency model: what driver calls cost the host on a machine with a GPU, read from a table.
//
// A decision about cost (is a graph worth recording, how long is a cold start) needs figures of a
// GPU where there is none, and the same ones on every machine. The model is such figures as plain
// data: a call of an entry costs
//
//   call_us + nodes * node_us + MiB * mib_us
//
// It holds no clock and never waits. A table is text: lines that start with '#' are comments, then
// come the header `entry call_us node_us mib_us source` and one row per entry, separated by tabs.
// The row `default` stands for all entries without one; `source` says where a row's figures come
// from.
//
// Units: microseconds of host time, bytes. Threads: immutable once made.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"

namespace coppice {

class LatencyModel {
 public:
  // Reads a table. `name` is what messages and reports call it.
  //
  // Errors: kInvalidArgument with name, line and what is wrong: another header, a row without five
  // fields, an entry that is not in driver_entries.inc or has a row already, a figure that is no
  // finite number >= 0, an empty source, no default row.
  static absl::StatusOr<LatencyModel> Parse(std::string_view tsv, std::string name);

  // The published figures: tools/ledger/latency.documented.tsv, as it was at build time. Cost: the
  // first call parses.
  static const LatencyModel& Documented();

  const std::string& name() const { return name_; }

  // Host time of a call of `entry`, an index for DriverEntryAt(), that concerns a graph of `nodes`
  // nodes or `bytes` bytes. Of an entry that waits for the device, the waiting is not in it.
  // Requires: an entry, nodes and bytes >= 0 (checked). Cost: O(1).
  double CallUs(int entry, int64_t nodes, int64_t bytes) const;

 private:
  struct Cost {
    double call_us = 0;
    double node_us = 0;
    double mib_us = 0;
  };
  class Parser;

  explicit LatencyModel(std::string name) : name_(std::move(name)) {}

  std::string name_;
  std::array<Cost, kDriverEntryCount> costs_;
};

}  // namespace coppice
