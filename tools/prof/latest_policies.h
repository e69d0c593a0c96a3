// Which policies symbols have, by the events that were seen.
//
// Units: nanoseconds. Threads: one at a time.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "coppice/padding/padding_policy.h"

#include "tools/prof/pool_trace.h"

namespace coppice {

// The policies that symbols had last, collected while a trace is read.
class LatestPolicies {
 public:
  // Events of a file need not be in order of time: the latest counts, of equal times the last one.
  void Add(const TracedEvent& event);

  // Of a symbol of a program: its policy's document, which is the trace's; nullptr if the trace has
  // none. Requires: places of programs and symbols of the trace that the events are of.
  const std::string* FindDocument(const PoolTrace& trace, int program, int symbol) const;
  // The policy itself; nothing without a document, or if that is none. Cost: O(maximum).
  std::optional<PaddingPolicy> Find(const PoolTrace& trace, int program, int symbol) const;

 private:
  struct Change {
    int64_t time_ns = 0;
    int policy = 0;  // Place in PoolTrace::policies.
  };
  std::map<std::pair<int, int>, Change> changes_;  // By program and symbol.
};

}  // namespace coppice
