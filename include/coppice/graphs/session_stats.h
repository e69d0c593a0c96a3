// What a session did, holds and would do: figures for people and tools.
//
// Units: bytes, nanoseconds, elements where named so. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "coppice/graphs/reason.h"

namespace coppice {

// One recorded graph, or a warm bucket that has none.
struct NodeInfo {
  std::string program;
  std::string variant;
  std::vector<int64_t> bucket;  // Padded extent of each symbol.
  int lane = 0;
  bool recorded = false;      // False: warmed up only.
  bool retired = false;       // No call finds it, as its binding, bucket or program is gone; it
                              // goes when nobody leases its outputs.
  int64_t number = 0;         // Of the recording on its lane, in order, from 1; 0: not recorded.
  int64_t plan_height = 0;    // Bytes.
  int64_t live_bytes = 0;     // Most bytes live at once, those around it included, from the
                              // validator's sweep: no plan is lower.
  int64_t around_bytes = 0;   // Bytes of the live outputs it was planned around; 0 for a root.
  int64_t donated_bytes = 0;  // Bytes of inputs in place that its calls give away.
  const char* plan_method = "";
  bool serial = false;      // Of a package's program: each node waits for the one before it, as the
                            // bytes that they touch do not order them as the plan asks.
  int64_t graphs = 0;       // CUDA graphs: 1, and one more for each break.
  int64_t graph_nodes = 0;  // Nodes of the CUDA graphs.
  int64_t exec_bytes = 0;   // Device memory of the graphs; an estimate, see graph_memory.h.
  int64_t record_ns = 0;    // Host time of the recording, driver included.
  int64_t replays = 0;      // Launches of the graph.
};

// The plan of a bucket as a root, before anything is recorded.
struct PlannedBucket {
  std::vector<int64_t> bucket;   // Padded extent of each symbol.
  int64_t plan_height = 0;       // Bytes.
  int64_t live_bytes = 0;        // As NodeInfo has it.
  const char* plan_method = "";  // The same.
};

// The variant of a kernel that a bucket of a package's program launches, where there are several.
struct KernelVariant {
  std::string program;
  std::string program_variant;
  std::vector<int64_t> bucket;   // Padded extent of each symbol.
  std::vector<int64_t> scalars;  // Of the program; 0 for those that are not part of the key.
  std::string kernel;
  std::string variant;
  // Of each variant its name and the median time of a run's launches of it, in microseconds, in the
  // order of the package; empty if nobody timed them.
  std::vector<std::pair<std::string, double>> times_us;
};

// What Run would do with a call.
struct Explanation {
  absl::Status status;  // Run's error, such as the first guard that fails; OK if it would run.
  RunKind kind = RunKind::kReplay;
  Reason reason = Reason::kNone;
  std::optional<NodeInfo> node;  // That would replay.
  // One line for people. Of a call in a bucket it says what claims forbid and limit: a symbol that
  // is not padded because nothing is claimed of it; what the padding of one with a claim of its own
  // may hold; an output of the path that is staged anew, and whose claim asks for that.
  std::string text;
};

// What a session did so far. The first sentence of a figure is what C, Python and the page of
// metrics say of it: tools/describe reads it here.
struct SessionStats {
  int64_t calls = 0;                            // Calls that ran.
  std::array<int64_t, kRunKindCount> runs{};    // Calls, by how they ran.
  std::array<int64_t, kReasonCount> reasons{};  // Calls that did not replay, by what kept them.
  int64_t captures_retried = 0;                 // Recordings broken from outside, and tried again.
  int64_t recordings = 0;                       // Graphs recorded, also ahead of calls.
  int64_t recordings_empty = 0;                 // Recordings without a graph node or a break.
  int64_t evictions = 0;                        // Graphs dropped for room.
  int64_t remaps = 0;                           // Replays that had to map their memory again.
  int64_t inputs_in_place = 0;                  // Inputs read where an earlier call left them.
  int64_t inputs_filled = 0;                    // Inputs staged only to fill their padding.
  int64_t inputs_demoted = 0;   // Static inputs that moved too often, and are copied since.
  int64_t stream_switches = 0;  // Calls that had to wait for the lane's last stream.
  int64_t real_elements = 0;    // Staged elements that callers brought.
  int64_t padded_elements = 0;  // The same with their padding.

  SessionStats& operator+=(const SessionStats& other);
};

}  // namespace coppice
