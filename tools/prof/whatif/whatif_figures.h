// The figures of a session that `coppice prof whatif` compares.
//
// Units: bytes, nanoseconds, elements. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/reason.h"

namespace coppice {

struct WhatIfFigures {
  int64_t height = 0;                             // Of the highest plan.
  std::array<int64_t, kMemoryKindCount> bytes{};  // At the last call, by MemoryKind ...
  std::array<int64_t, kMemoryKindCount> peaks{};  // ... and the most there ever were.
  int64_t total = 0;
  int64_t total_peak = 0;
  int64_t recorded = 0;  // Graphs, those that went included ...
  int64_t evicted = 0;   // ... of which so many did.
  int64_t remaps = 0;    // Replays that mapped their memory again; of a trace not known: -1.
  std::array<int64_t, kRunKindCount> paths{};   // Calls, by RunKind.
  std::array<int64_t, kReasonCount> reasons{};  // Calls, by Reason.
  int64_t refused = 0;                          // Calls that were an error.
  int64_t real_elements = 0;                    // Staged by calls in a bucket ...
  int64_t padded_elements = 0;                  // ... and what they were padded to.
  int64_t host_ns = 0;                          // Of all calls: an estimate.
  int64_t record_ns = 0;                        // Of it, for recordings.
  int64_t suspensions = 0;
  int64_t suspended_ns = 0;
  double saved_byte_seconds = 0;  // Bytes that were given back, for as long as that.

  int64_t calls() const;
  double padded_share_pct() const;  // Padding in each 100 staged elements.

  // Where calls and memory differ from those of `other`: "calls by replay 12 instead of 13"; times,
  // remaps and suspensions are not looked at. Empty: nowhere.
  std::vector<std::string> DifferencesFrom(const WhatIfFigures& other) const;
};

}  // namespace coppice
