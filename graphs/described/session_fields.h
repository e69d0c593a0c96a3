// Figures of a session, one by one. Private to graphs/. Written by tools/describe.
//
// Threads: a pure function.

#pragma once

#include "coppice/graphs/session_stats.h"

namespace coppice::internal {

// Calls `visit` with the name of each that is one number, what it is, and how much.
template <typename Visit>
void VisitFigures(const SessionStats& stats, Visit&& visit) {
  visit("calls", "Calls that ran.", stats.calls);
  visit("captures_retried", "Recordings that were broken from outside and retried.",
        stats.captures_retried);
  visit("recordings", "Graphs recorded, including those recorded before calls.", stats.recordings);
  visit("recordings_empty", "Recordings without a graph node or a break.", stats.recordings_empty);
  visit("evictions", "Graphs dropped to make room.", stats.evictions);
  visit("remaps", "Replays that had to map their memory again.", stats.remaps);
  visit("inputs_in_place", "Inputs read where an earlier call left them.", stats.inputs_in_place);
  visit("inputs_filled", "Inputs staged only to fill their padding.", stats.inputs_filled);
  visit("inputs_demoted", "Static inputs that moved too often and have been copied since.",
        stats.inputs_demoted);
  visit("stream_switches", "Calls that had to wait for the lane's last stream.",
        stats.stream_switches);
  visit("real_elements", "Staged elements that callers passed.", stats.real_elements);
  visit("padded_elements", "Staged elements, including padding.", stats.padded_elements);
  visit("exact_replays", "Replays at the call's own sizes, in a bucket's memory.",
        stats.exact_replays);
  visit("patched_nodes", "Graph nodes that were set to the sizes of a call.", stats.patched_nodes);
}

}  // namespace coppice::internal
