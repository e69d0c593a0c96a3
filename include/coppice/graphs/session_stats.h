// Figures for people and tools: what a session did, what it holds, and what it would do.
//
// Units: bytes, nanoseconds, elements where a name says so. Threads: plain values.

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
  bool retired = false;       // No call finds it, because its binding, bucket or program no longer
                              // exists; it is dropped when nobody leases its outputs.
  int64_t number = 0;         // Place among its lane's recordings, from 1; 0: not recorded.
  int64_t plan_height = 0;    // Bytes.
  int64_t live_bytes = 0;     // Most bytes live at one time, with the live outputs that it was
                              // planned around; no plan can be lower.
  int64_t around_bytes = 0;   // Bytes of the live outputs that it was planned around; 0 for a root.
  int64_t donated_bytes = 0;  // Bytes of inputs that are read in place and that its calls donate.
  const char* plan_method = "";
  bool serial = false;      // Only a package's program: each graph node waits for the one before
                            // it, because the bytes that they touch do not give the order that the
                            // plan needs.
  int64_t graphs = 0;       // CUDA graphs: 1, and one more for each break.
  int64_t graph_nodes = 0;  // Nodes of the CUDA graphs.
  int64_t exec_bytes = 0;   // Device memory of the graphs; an estimate, see graph_memory.h. Memory
                            // that a family shares is counted in its first node in a list.
  int64_t family = 0;       // Nodes of one family share an executable, which is set to the sizes of
                            // each call; numbered from 1 in each list. 0: it has its own
                            // executable.
  int64_t record_ns = 0;    // Host time of the recording, driver included.
  int64_t replays = 0;      // Launches of the graph.
};

// For a kernel with several variants, the variant that a bucket of a package's program launches.
struct KernelVariant {
  std::string program;
  std::string program_variant;
  std::vector<int64_t> bucket;   // Padded extent of each symbol.
  std::vector<int64_t> scalars;  // All scalars of the program; 0 for those that are not part of the
                                 // key.
  std::string kernel;
  std::string variant;
  // Name and time of each variant, in the order of the package: the median, in microseconds, of its
  // launches in a run. Empty if they were not timed.
  std::vector<std::pair<std::string, double>> times_us;
};

// What Run would do with a call.
struct Explanation {
  absl::Status status;  // The error of Run, such as the first guard that fails; OK if it would run.
  RunKind kind = RunKind::kReplay;
  Reason reason = Reason::kNone;
  std::optional<NodeInfo> node;  // The node that would replay.
  // One line for people. For a call in a bucket it also says what claims forbid and limit: a symbol
  // that is not padded because it has no claim; what the padding of a symbol with its own claim may
  // hold; an output of the path that must be staged, and the claim that requires that.
  std::string text;
};

// What a session did so far. tools/describe reads this struct: C, Python and the page of metrics
// repeat the first sentence of each figure.
struct SessionStats {
  int64_t calls = 0;                            // Calls that ran.
  std::array<int64_t, kRunKindCount> runs{};    // Calls, by how they ran.
  std::array<int64_t, kReasonCount> reasons{};  // Calls that did not replay, by reason.
  int64_t captures_retried = 0;  // Recordings that were broken from outside and retried.
  int64_t recordings = 0;        // Graphs recorded, including those recorded before calls.
  int64_t recordings_empty = 0;  // Recordings without a graph node or a break.
  int64_t evictions = 0;         // Graphs dropped to make room.
  int64_t remaps = 0;            // Replays that had to map their memory again.
  int64_t inputs_in_place = 0;   // Inputs read where an earlier call left them.
  int64_t inputs_filled = 0;     // Inputs staged only to fill their padding.
  int64_t inputs_demoted = 0;    // Static inputs that moved too often and have been copied since.
  int64_t stream_switches = 0;   // Calls that had to wait for the lane's last stream.
  int64_t real_elements = 0;     // Staged elements that callers passed.
  int64_t padded_elements = 0;   // Staged elements, including padding.
  int64_t exact_replays = 0;     // Replays at the call's own sizes, in a bucket's memory.
  int64_t patched_nodes = 0;     // Graph nodes that were set to the sizes of a call.

  SessionStats& operator+=(const SessionStats& other);
};

}  // namespace coppice
