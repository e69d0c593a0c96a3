// The nodes of a lane, by program, and which of them go when there are too many. Private to
// graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "graphs/lane/gate_timer.h"
#include "graphs/node/node.h"
#include "graphs/node/node_table.h"
#include "graphs/program/registration.h"
#include "graphs/trace/tracer.h"

namespace coppice::internal {

class NodeTables {
 public:
  // Of lane `index`; `tracer` outlives it, null without a trace.
  NodeTables(int index, Tracer* tracer) : index_(index), tracer_(tracer) {}

  // The program's; made if there is none.
  NodeTable& Of(const Program& program) {
    if (Number(program) >= tables_.size()) [[unlikely]]
      MakeRoomFor(program);
    return tables_[Number(program)];
  }
  // The bucket of this key; null if there is none.
  const Bucket* FindBucket(const Program& program, const BucketKey& key) const {
    return Number(program) < tables_.size() ? tables_[Number(program)].FindBucket(key) : nullptr;
  }
  const std::vector<NodeTable>& all() const { return tables_; }  // In order of registration.
  // The node that Publish gave this number; null if it is gone.
  const Node* FindNumber(int64_t number) const;

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
  // Whether there is a node of this version.
  bool HasVersion(const Program& program, const StaticVersion& version) const;
  // Lets buckets that could not be recorded try again, of `program` or of all if null.
  void ReopenBuckets(const Program* program);
  int64_t evictions() const { return evictions_; }  // By EvictOne.

  // The highest end of a footprint.
  int64_t top() const;

  // The node of the call under way; null: none.
  void SetInUse(const Node* node) { in_use_ = node; }

  GateTimer& timer() { return timer_; }  // Of gated nodes.

 private:
  static size_t Number(const Program& program) { return static_cast<size_t>(program.place.number); }
  void MakeRoomFor(const Program& program);
  void Drop(const Node& node, NodeTable& table);

  const int index_;
  Tracer* const tracer_;
  std::vector<NodeTable> tables_;
  GateTimer timer_;
  const Node* in_use_ = nullptr;
  int64_t evictions_ = 0;
  int64_t published_ = 0;
};

}  // namespace coppice::internal
