// A bucket, and its nodes: what is recorded of it. Private to graphs/.
//
// A bucket is what is known of one key of a program on one lane, whatever its graphs are planned
// around: how often it was warmed up, what that taught, whether it can be recorded at all. A node
// is one recording of it: graphs, where their inputs and outputs lie, what they write.
//
// Units: bytes. Threads: both belong to their lane and are touched under its lock; a recording
// without the lock reads the bucket's key and script, which do not change while it is under way.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "coppice/allocator/planner.h"
#include "coppice/allocator/pool.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"
#include "coppice/graphs/session_stats.h"
#include "coppice/runtime/graph.h"

#include "graphs/capture/audit.h"
#include "graphs/flight/flight_entry.h"
#include "graphs/node/allocation_script.h"
#include "graphs/node/bucket_figures.h"
#include "graphs/node/budget_charge.h"
#include "graphs/node/exact_sizes.h"
#include "graphs/node/gate.h"
#include "graphs/node/input_layout.h"
#include "graphs/node/node_key.h"
#include "graphs/node/region.h"

namespace coppice::internal {

class Node;

class Bucket {
 public:
  explicit Bucket(const BucketKey& bucket_key) : key(bucket_key) {}

  const BucketKey key;

  // What people see of the bucket while it has no node, and what the trace calls it.
  const NodeInfo& info() const { return info_; }
  int32_t trace_number() const { return trace_number_; }
  bool described() const { return described_; }
  void Describe(NodeInfo info, int32_t trace_number);

  // A warm-up left this script.
  void NoteWarmUp(AllocationScript script);
  int warmups() const { return warmups_; }
  const AllocationScript& script() const { return script_; }  // Of the last warm-up.

  // A recording begins in the background; ends without a node.
  void BeginRecording() { state_ = State::kRecording; }
  void EndRecording() { state_ = State::kOpen; }
  // Why one failed: somebody else broke it, which is final the second time; the program departed
  // from its script, so that it is warmed up anew, up to three times; it cannot be recorded at all.
  void NoteBroken(std::string why) { Fail(std::move(why), ++broken_ > 1); }
  void NoteDeparted(std::string why);
  bool departed() const { return departures_ > 0; }  // Since it was made or reopened.
  void NoteNotCapturable(std::string why) { Fail(std::move(why), /*final=*/true); }
  // Forgets what was final, and with it the script.
  void Reopen();
  bool recording() const { return state_ == State::kRecording; }
  bool capturable() const { return state_ != State::kNotCapturable; }
  const std::string& failure() const { return failure_; }  // Why the last recording failed.

  // The audit found the program wrong: no call runs in this bucket any more.
  void Refuse(absl::Status why) { refusal_ = std::move(why); }
  const absl::Status& refusal() const { return refusal_; }

  // A recording finds statics at `now` where the bucket's last had them at `before`. Returns which
  // of them have moved more than `moves_max` times.
  std::vector<size_t> NoteMoves(const StaticVersion& before,
                                const StaticVersion& now,
                                int moves_max);

  // Whether a node of it is not retired.
  bool has_graph() const;
  // Its nodes, in order of creation. What follows is the node table's; Add throws nothing behind
  // ReserveNode.
  const std::vector<Node*>& nodes() const { return nodes_; }
  void ReserveNode() { nodes_.reserve(nodes_.size() + 1); }
  void Add(Node& node);
  void Remove(const Node& node);
  bool evicted() const;  // A node of it was dropped, or counts as such.
  const BucketFigures& dropped() const { return dropped_; }  // Launches of nodes that went.
  int rerecords() const { return rerecords_; }               // Because a static input moved.

 private:
  enum class State : uint8_t { kOpen, kRecording, kNotCapturable };

  void Fail(std::string why, bool final);
  void ForgetScript();

  State state_ = State::kOpen;
  bool described_ = false;
  bool evicted_ = false;
  int warmups_ = 0;
  int broken_ = 0;
  int departures_ = 0;
  int rerecords_ = 0;
  int32_t trace_number_ = -1;
  AllocationScript script_;
  std::vector<int> moves_;  // Of each static input or output.
  std::string failure_;
  absl::Status refusal_;
  std::vector<Node*> nodes_;
  BucketFigures dropped_;
  NodeInfo info_;
};

// Whether what the program requests in its bucket is known without running it: by its steps, or by
// a dry run, unless a recording showed that this was wrong. Null: a bucket that is not there yet.
bool AreRequestsKnown(const Program& program, const Bucket* bucket);

// One CUDA graph of a node, and what runs behind it.
struct Segment {
  std::optional<GraphExec> exec;  // Empty if nothing was captured.
  EagerStep step;                 // Null behind the last one.
};

// What an audit compares a later capture with.
struct Audited {
  KernelNodes kernels;
  PlannerResult planned;
  AllocationScript script;
};

// What is known of a node before it is recorded.
struct NodeDraft {
  NodeKey key;
  Bucket* bucket = nullptr;
  Reason made_for = Reason::kNewBucket;
  InputLayout layout;
  FlightShape entry;  // Of the flight recorder's entries of its replays.
  bool gated = false;
  NodeInfo info;
};

// What its recording made.
struct NodeRecording {
  BudgetCharge charge;  // For the segments' graphs.
  std::vector<Segment> segments;
  OutputTable outputs;
  std::vector<Region> footprint;       // Window bytes it writes, sorted and disjoint.
  std::vector<Region> output_regions;  // Of the window, sorted and disjoint.
  std::unique_ptr<Audited> audited;    // With an audit.
  std::unique_ptr<ExactSizes> exact;   // Of a program that runs at exact sizes.
};

class Node {
 public:
  Node(NodeDraft draft, NodeRecording recording);

  const NodeKey& key() const { return draft_.key; }
  // No binding has its statics any more, or its table was retired: no call finds it.
  bool unreachable() const;
  // The same, and nobody leases its outputs. It counts as dropped for what is decided about other
  // calls: when it does go depends on the device.
  bool retired() const { return leases_ == 0 && unreachable(); }
  void Retire() { retired_ = true; }
  Bucket& bucket() const { return *draft_.bucket; }
  Reason made_for() const { return draft_.made_for; }
  const NodeInfo& info() const { return draft_.info; }
  int64_t top() const { return top_; }  // End of its footprint: what must be mapped when it runs.
  // Of an executable that it shares, its part.
  int64_t exec_bytes() const {
    return recording_.exact == nullptr ? recording_.charge.bytes()
                                       : recording_.exact->family().bytes_per_use();
  }
  const OutputTable& outputs() const { return recording_.outputs; }
  // From here on a lease shows these, as many as before.
  void SetOutputs(const std::vector<Tensor>& tensors) { recording_.outputs.tensors = tensors; }
  const std::vector<Region>& footprint() const { return recording_.footprint; }
  const std::vector<Region>& output_regions() const { return recording_.output_regions; }
  std::vector<Segment>& segments() { return recording_.segments; }
  // Whether its program captured no work, and has no host code between its graphs: most likely it
  // launched elsewhere.
  bool empty() const;
  // Sources and words are each call's to fill in.
  InputLayout& layout() { return draft_.layout; }
  const InputLayout& layout() const { return draft_.layout; }
  const FlightShape& entry_shape() const { return draft_.entry; }
  // Whether its calls replay at once, with entries of nothing but shape, call, sizes and scalars.
  bool has_plain_entries() const { return plain_entries_; }
  Gate* gate() { return gate_.get(); }                          // Null unless it is gated.
  ExactSizes* exact() const { return recording_.exact.get(); }  // Null: it runs at its bucket.
  // Launches at the sizes of their call.
  int64_t exact_replays() const {
    return exact() == nullptr ? 0 : info().replays - exact()->padded_replays();
  }

  // What a later capture is compared with; null once EndAudit was called, or without an audit.
  const Audited* audited() const { return recording_.audited.get(); }
  void EndAudit() { recording_.audited.reset(); }

  void SetTraceNumber(int32_t number) { trace_number_ = number; }
  int32_t trace_number() const { return trace_number_; }  // -1 without a trace.
  // The number of its bucket's ReplaySeries.
  void SetSeries(int32_t number) { series_ = number; }
  int32_t series() const { return series_; }

  // Its drawing; empty unless the session keeps drawings.
  void SetDrawing(std::string dot) { drawing_ = std::move(dot); }
  const std::string& drawing() const { return drawing_; }
  // What the lane calls it, from 1.
  void SetNumber(int64_t number) { draft_.info.number = number; }

  // The lane's call of this number launched it.
  void NoteLaunch(uint64_t call) {
    last_call_ = call;
    ++draft_.info.replays;
  }
  uint64_t last_call() const { return last_call_; }

  // Slots that show its outputs.
  void AddLease() { ++leases_; }
  void DropLease() { --leases_; }
  int leases() const { return leases_; }

 private:
  int64_t top_ = 0;
  uint64_t last_call_ = 0;
  int leases_ = 0;
  int32_t trace_number_ = -1;
  int32_t series_ = 0;
  bool retired_ = false;
  bool plain_entries_ = false;
  NodeDraft draft_;
  NodeRecording recording_;
  std::unique_ptr<Gate> gate_;
  std::string drawing_;
};

}  // namespace coppice::internal
