// The nodes of a lane, by program, and which of them go when there are too many. Private to
// graphs/.
//
// A table may be *retired*, or some buckets of one: its program has an empty one from then on, or
// one without them, and of their nodes only those stay that are leased or in flight, until they are
// not.
//
// Threads: under the lane's lock.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <vector>

#include "graphs/lane/gate_timer.h"
#include "graphs/metrics/metrics_snapshot.h"
#include "graphs/metrics/replay_series.h"
#include "graphs/node/node.h"
#include "graphs/node/node_table.h"
#include "graphs/program/program.h"
#include "graphs/trace/tracer.h"

namespace coppice::internal {

class NodeTables {
 public:
  // Of lane `index`; `series` and `tracer`, null without a trace, outlive it.
  NodeTables(int index, ReplaySeries& series, Tracer* tracer)
      : index_(index), series_(series), tracer_(tracer) {}

  // The program's; made if there is none.
  NodeTable& Of(const Program& program) {
    if (!Has(program)) [[unlikely]]
      MakeRoomFor(program);
    return tables_[Number(program)];
  }
  // The bucket of this key; null if there is none.
  const Bucket* FindBucket(const Program& program, const BucketKey& key) const {
    return Has(program) ? tables_[Number(program)].FindBucket(key) : nullptr;
  }
  const std::vector<NodeTable>& all() const { return tables_; }  // In order of registration.
  // The node that Publish gave this number; null if it is gone.
  const Node* FindNumber(int64_t number) const;

  // All nodes, those of retired tables last.
  template <typename Visit>
  void ForEachNode(const Visit& visit) const {
    ForEachTable(*this, nullptr, [&visit](const NodeTable& table) { table.ForEachNode(visit); });
  }

  // Adds a recorded node to its program's table, numbers it, and tells the trace.
  Node& Publish(const Program& program, std::unique_ptr<Node> node);

  // Drops the node that is worth least, of `program` or of all if null: cheap to record again,
  // large and long unused, with call `now`, is worth little. None goes that is in use, that may be
  // running, because it ran after call `completed`, or whose outputs are leased; of a program none
  // that is retired, which would make room for no other. False if no other is there.
  bool EvictOne(const Program* program, uint64_t completed, uint64_t now);
  // What it could drop, one after another, if nothing were running.
  struct Droppable {
    int64_t nodes = 0;
    int64_t bytes = 0;  // Of their graphs.
  };
  Droppable CountDroppable(const Program* program) const;
  // Which nodes go, if their outputs are not leased.
  struct Idle {
    const Program* program = nullptr;                           // Null: of all.
    const StaticVersion* version = nullptr;                     // Null: of all.
    uint64_t completed = std::numeric_limits<uint64_t>::max();  // The last call known to have run.
  };
  // Drops them. Returns how many. Requires: what ran after that call is not in flight.
  int64_t EvictIdle(const Idle& which);
  // Retires a program's table. Requires: no bucket of it is being recorded.
  void Retire(const Program& program);
  // The same of the buckets of a program whose keys are `gone`.
  void RetireBuckets(const Program& program, const std::function<bool(const BucketKey&)>& gone);
  bool has_retired() const { return !retired_.empty(); }
  template <typename Visit>
  void ForEachRetired(const Visit& visit) const {
    for (const RetiredTable& retired : retired_)
      retired.table.ForEachNode(visit);
  }
  // Of retired tables, drops the nodes that ran up to call `completed` and are not leased.
  // Requires: as EvictIdle.
  void EvictRetired(uint64_t completed = std::numeric_limits<uint64_t>::max());
  // Whether there is a node of this version.
  bool HasVersion(const Program& program, const StaticVersion& version) const;
  // Lets buckets that could not be recorded try again, of `program` or of all if null.
  void ReopenBuckets(const Program* program);
  int64_t evictions() const { return evictions_; }                    // By EvictOne.
  const RecordingFigures& recordings() const { return recordings_; }  // Published nodes.
  int64_t height() const { return height_; }  // Highest end of their plans. Any thread.
  // Adds the launches of all nodes that there ever were, by number of their series.
  void AddReplays(std::vector<int64_t>& replays) const;
  // Those of all nodes that there ever were. Cost: O(nodes).
  int64_t exact_replays() const;

  // The highest end of a footprint, but of retired tables, whose nodes do not run again.
  int64_t top() const;

  // The node of the call under way; null: none.
  void SetInUse(const Node* node) { in_use_ = node; }

  GateTimer& timer() { return timer_; }  // Of gated nodes.

 private:
  struct RetiredTable {
    const Program* program = nullptr;
    NodeTable table;
  };

  // Visits the tables of `program`, or all if null.
  template <typename Tables, typename Visit>
  static void ForEachTable(Tables& tables, const Program* program, const Visit& visit) {
    for (size_t number = 0; number < tables.tables_.size(); ++number) {
      if (program == nullptr || number == Number(*program)) visit(tables.tables_[number]);
    }
    for (auto& retired : tables.retired_) {
      if (program == nullptr || program == retired.program) visit(retired.table);
    }
  }
  int64_t EvictIdle(const Idle& which, NodeTable& table);
  static size_t Number(const Program& program) { return static_cast<size_t>(program.place.number); }
  bool Has(const Program& program) const { return Number(program) < table_count_; }
  void MakeRoomFor(const Program& program);
  void ForgetEmpty();  // Retired tables without a node.
  void Drop(const Node& node, NodeTable& table);

  const int index_;
  ReplaySeries& series_;
  Tracer* const tracer_;
  std::vector<NodeTable> tables_;
  size_t table_count_ = 0;  // Of tables_: to compute it takes each call a division.
  std::list<RetiredTable> retired_;
  GateTimer timer_;
  const Node* in_use_ = nullptr;
  int64_t evictions_ = 0;
  int64_t published_ = 0;
  RecordingFigures recordings_;
  std::atomic<int64_t> height_ = 0;
  std::vector<int64_t> dropped_replays_;  // Of nodes that went, by number of their series.
  int64_t dropped_exact_replays_ = 0;
};

}  // namespace coppice::internal
