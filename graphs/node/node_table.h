// The buckets and nodes of one program on one lane. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graphs/node/node.h"
#include "graphs/node/node_key.h"

namespace coppice::internal {

// Buckets of a program that are warm, or cannot be recorded, but have no node, and were not
// refused.
inline constexpr size_t kIdleBucketsMax = 1024;

class NodeTable {
 public:
  // Half full, so that few keys share a chain, whatever the addresses in them.
  NodeTable() { nodes_.max_load_factor(0.5F); }

  // The node of this key, or null. Steady traffic asks for one node many times, so the last one is
  // compared before anything is hashed.
  Node* Find(const NodeKey& key) const {
    if (last_ != nullptr && last_->key() == key) [[likely]]
      return last_;
    const auto found = nodes_.find(key);
    if (found == nodes_.end()) return nullptr;
    return last_ = found->second.get();
  }
  // The bucket of this key, or null; made if there is none. Of more than kIdleBucketsMax buckets
  // without a node the one that was made first goes then.
  Bucket* FindBucket(const BucketKey& key) const;
  Bucket& BucketFor(const BucketKey& key);

  // Adds a node under its key. Requires: the key has none (checked).
  Node& Add(std::unique_ptr<Node> node);
  // Takes a node out, and with it its graphs. Requires: not in flight, no slot shows it.
  void Remove(const Node& node);

  // Moves the buckets whose keys are `gone`, with their nodes, into a table that has none of them.
  // Requires: none of them is being recorded.
  void MoveBuckets(const std::function<bool(const BucketKey&)>& gone, NodeTable& to);

  // What its nodes in these surroundings have that run at exact sizes, the highest plan first; of
  // one family and one height once. Allocates.
  std::vector<ExactPeer> ExactIn(const Surroundings* surroundings) const;

  void RetireNodes() {
    for (const auto& [key, node] : nodes_)
      node->Retire();
  }

  // Nodes, in no order.
  template <typename Visit>
  void ForEachNode(const Visit& visit) const {
    for (const auto& [key, node] : nodes_)
      visit(*node);
  }
  const std::vector<Bucket*>& buckets() const { return order_; }  // In order of creation.
  int64_t CountGraphs() const;                                    // Nodes that are not retired.
  bool empty() const { return nodes_.empty(); }                   // Of nodes.

 private:
  void ForgetIdleBucket();

  std::unordered_map<NodeKey, std::unique_ptr<Node>, KeyHash> nodes_;
  std::unordered_map<BucketKey, std::unique_ptr<Bucket>, KeyHash> buckets_;
  std::vector<Bucket*> order_;
  mutable Node* last_ = nullptr;  // That Find found.
};

}  // namespace coppice::internal
