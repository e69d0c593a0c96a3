// Sums of figures.

#include "coppice/graphs/session_stats.h"

#include <cstddef>

namespace coppice {

SessionStats& SessionStats::operator+=(const SessionStats& other) {
  calls += other.calls;
  for (size_t i = 0; i < runs.size(); ++i)
    runs[i] += other.runs[i];
  for (size_t i = 0; i < reasons.size(); ++i)
    reasons[i] += other.reasons[i];
  captures_retried += other.captures_retried;
  recordings += other.recordings;
  recordings_empty += other.recordings_empty;
  evictions += other.evictions;
  remaps += other.remaps;
  inputs_in_place += other.inputs_in_place;
  inputs_filled += other.inputs_filled;
  inputs_demoted += other.inputs_demoted;
  stream_switches += other.stream_switches;
  real_elements += other.real_elements;
  padded_elements += other.padded_elements;
  return *this;
}

}  // namespace coppice
