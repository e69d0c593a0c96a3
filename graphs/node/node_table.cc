// Adding and removing. What may throw comes before anything changes.

#include "graphs/node/node_table.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "coppice/base/check.h"

namespace coppice::internal {
namespace {

const BucketKey& KeyOf(const NodeKey& key) {
  return key.bucket;
}
const BucketKey& KeyOf(const BucketKey& key) {
  return key;
}

}  // namespace

Bucket* NodeTable::FindBucket(const BucketKey& key) const {
  const auto found = buckets_.find(key);
  return found == buckets_.end() ? nullptr : found->second.get();
}

Bucket& NodeTable::BucketFor(const BucketKey& key) {
  if (Bucket* found = FindBucket(key)) return *found;
  if (order_.size() >= kIdleBucketsMax) ForgetIdleBucket();
  order_.reserve(order_.size() + 1);
  Bucket& added = *buckets_.emplace(key, std::make_unique<Bucket>(key)).first->second;
  order_.push_back(&added);
  return added;
}

void NodeTable::ForgetIdleBucket() {
  const auto is_idle = [](const Bucket* bucket) {
    return bucket->nodes().empty() && !bucket->recording() && bucket->refusal().ok();
  };
  const auto count = std::count_if(order_.begin(), order_.end(), is_idle);
  if (count < static_cast<ptrdiff_t>(kIdleBucketsMax)) return;
  const auto idle = std::find_if(order_.begin(), order_.end(), is_idle);
  const BucketKey key = (*idle)->key;
  order_.erase(idle);
  buckets_.erase(key);
}

Node& NodeTable::Add(std::unique_ptr<Node> node) {
  node->bucket().ReserveNode();
  const auto [place, is_new] = nodes_.emplace(node->key(), std::move(node));
  COPPICE_CHECK(is_new, "the key has a node");
  Node& added = *place->second;
  added.bucket().Add(added);
  return added;
}

std::vector<ExactPeer> NodeTable::ExactIn(const Surroundings* surroundings) const {
  std::vector<ExactPeer> peers;
  ForEachNode([&](const Node& node) {
    const ExactSizes* const exact = node.exact();
    if (exact == nullptr || node.key().surroundings != surroundings) return;
    const bool known = std::ranges::any_of(peers, [exact](const ExactPeer& peer) {
      return peer.family.get() == &exact->family() &&
             peer.planned.plan.height == exact->planned().plan.height;
    });
    if (!known)
      peers.push_back({.family = FamilyUse::Another(exact->family()), .planned = exact->planned()});
  });
  std::ranges::sort(peers, std::ranges::greater(),
                    [](const ExactPeer& peer) { return peer.planned.plan.height; });
  return peers;
}

void NodeTable::MoveBuckets(const std::function<bool(const BucketKey&)>& gone, NodeTable& to) {
  to.nodes_.reserve(to.nodes_.size() + nodes_.size());
  to.buckets_.reserve(to.buckets_.size() + buckets_.size());
  to.order_.reserve(to.order_.size() + order_.size());
  const auto move = [&gone](auto& from, auto& into) {
    for (auto each = from.begin(); each != from.end();) {
      const auto next = std::next(each);
      if (gone(KeyOf(each->first))) into.insert(from.extract(each));
      each = next;
    }
  };
  last_ = nullptr;
  move(nodes_, to.nodes_);
  move(buckets_, to.buckets_);
  const auto moved = std::stable_partition(
      order_.begin(), order_.end(), [&gone](const Bucket* bucket) { return !gone(bucket->key); });
  to.order_.insert(to.order_.end(), moved, order_.end());
  order_.erase(moved, order_.end());
}

int64_t NodeTable::CountGraphs() const {
  return std::count_if(nodes_.begin(), nodes_.end(),
                       [](const auto& each) { return !each.second->retired(); });
}

void NodeTable::Remove(const Node& node) {
  node.bucket().Remove(node);
  last_ = nullptr;
  const NodeKey key = node.key();
  nodes_.erase(key);
}

}  // namespace coppice::internal
