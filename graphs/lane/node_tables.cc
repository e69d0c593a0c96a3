// Which nodes go.

#include "graphs/lane/node_tables.h"

#include <algorithm>
#include <utility>

namespace coppice::internal {
namespace {

double WorthOf(const Node& node, uint64_t now) {
  const auto age = static_cast<double>(now - node.last_call() + 1);
  const auto bytes = static_cast<double>(std::max<int64_t>(node.exec_bytes(), 1));
  return static_cast<double>(node.info().record_ns) / (age * bytes);
}

}  // namespace

void NodeTables::MakeRoomFor(const Program& program) {
  tables_.resize(Number(program) + 1);
  table_count_ = tables_.size();
}

Node& NodeTables::Publish(const Program& program, std::unique_ptr<Node> node) {
  const int32_t series = series_.NumberOf(program.spec, node->info().bucket);
  const auto index = static_cast<size_t>(series);
  dropped_replays_.resize(std::max(dropped_replays_.size(), index + 1));
  Node& added = Of(program).Add(std::move(node));
  added.SetNumber(++published_);
  added.SetSeries(series);
  recordings_.Note(added.made_for(), added.info().record_ns);
  height_ = std::max(height_.load(), added.info().plan_height);
  if (tracer_ != nullptr) tracer_->Put(index_, RecordEvent{.node = added.trace_number()});
  return added;
}

void NodeTables::Drop(const Node& node, NodeTable& table) {
  if (tracer_ != nullptr) tracer_->Put(index_, EvictEvent{.node = node.trace_number()});
  timer_.Forget(node);
  dropped_replays_[static_cast<size_t>(node.series())] += node.info().replays;
  dropped_exact_replays_ += node.exact_replays();
  table.Remove(node);
}

bool NodeTables::EvictOne(const Program* program, uint64_t completed, uint64_t now) {
  NodeTable* table = nullptr;
  const Node* victim = nullptr;
  ForEachTable(*this, program, [&](NodeTable& visited) {
    visited.ForEachNode([&](const Node& node) {
      if (node.leases() > 0 || node.last_call() > completed || &node == in_use_) return;
      if (program != nullptr && node.retired()) return;
      if (victim != nullptr && WorthOf(node, now) >= WorthOf(*victim, now)) return;
      victim = &node;
      table = &visited;
    });
  });
  if (victim == nullptr) return false;
  Drop(*victim, *table);
  ForgetEmpty();
  ++evictions_;
  return true;
}

NodeTables::Droppable NodeTables::CountDroppable(const Program* program) const {
  Droppable droppable;
  ForEachTable(*this, program, [&](const NodeTable& table) {
    table.ForEachNode([&](const Node& node) {
      if (node.leases() > 0 || &node == in_use_) return;
      if (program != nullptr && node.retired()) return;
      ++droppable.nodes;
      droppable.bytes += node.exec_bytes();
    });
  });
  return droppable;
}

int64_t NodeTables::EvictIdle(const Idle& which, NodeTable& table) {
  std::vector<const Node*> idle;
  table.ForEachNode([&](const Node& node) {
    const bool meant = which.version == nullptr || node.key().statics == which.version;
    if (meant && node.leases() == 0 && node.last_call() <= which.completed && &node != in_use_)
      idle.push_back(&node);
  });
  for (const Node* node : idle)
    Drop(*node, table);
  return static_cast<int64_t>(idle.size());
}

int64_t NodeTables::EvictIdle(const Idle& which) {
  int64_t dropped = 0;
  ForEachTable(*this, which.program, [&](NodeTable& table) { dropped += EvictIdle(which, table); });
  ForgetEmpty();
  return dropped;
}

void NodeTables::Retire(const Program& program) {
  if (!Has(program)) return;
  RetiredTable& retired = retired_.emplace_back();
  retired.program = &program;
  std::swap(retired.table, tables_[Number(program)]);
  retired.table.RetireNodes();
  ForgetEmpty();
}

void NodeTables::RetireBuckets(const Program& program,
                               const std::function<bool(const BucketKey&)>& gone) {
  if (!Has(program)) return;
  RetiredTable& retired = retired_.emplace_back();
  retired.program = &program;
  tables_[Number(program)].MoveBuckets(gone, retired.table);
  retired.table.RetireNodes();
  ForgetEmpty();
}

void NodeTables::EvictRetired(uint64_t completed) {
  for (RetiredTable& retired : retired_)
    EvictIdle({.completed = completed}, retired.table);
  ForgetEmpty();
}

void NodeTables::ForgetEmpty() {
  retired_.remove_if([](const RetiredTable& retired) { return retired.table.empty(); });
}

const Node* NodeTables::FindNumber(int64_t number) const {
  const Node* found = nullptr;
  ForEachNode([&](const Node& node) {
    if (node.info().number == number) found = &node;
  });
  return found;
}

void NodeTables::AddReplays(std::vector<int64_t>& replays) const {
  replays.resize(std::max(replays.size(), dropped_replays_.size()));
  for (size_t i = 0; i < dropped_replays_.size(); ++i)
    replays[i] += dropped_replays_[i];
  ForEachNode([&replays](const Node& node) {
    replays[static_cast<size_t>(node.series())] += node.info().replays;
  });
}

int64_t NodeTables::exact_replays() const {
  int64_t replays = dropped_exact_replays_;
  ForEachNode([&replays](const Node& node) { replays += node.exact_replays(); });
  return replays;
}

bool NodeTables::HasVersion(const Program& program, const StaticVersion& version) const {
  bool found = false;
  ForEachTable(*this, &program, [&](const NodeTable& table) {
    table.ForEachNode([&](const Node& node) { found |= node.key().statics == &version; });
  });
  return found;
}

void NodeTables::ReopenBuckets(const Program* program) {
  for (size_t number = 0; number < tables_.size(); ++number) {
    if (program != nullptr && number != Number(*program)) continue;
    for (Bucket* bucket : tables_[number].buckets())
      bucket->Reopen();
  }
}

int64_t NodeTables::top() const {
  int64_t top = 0;
  for (const NodeTable& table : tables_)
    table.ForEachNode([&top](const Node& node) { top = std::max(top, node.top()); });
  return top;
}

}  // namespace coppice::internal
