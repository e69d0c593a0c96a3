// A tree of programs as one problem of the planner.

#include "coppice/allocator/tree_plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "coppice/base/status.h"

namespace coppice {
namespace {

absl::Status ValidateNode(std::span<const TreeNode> nodes, size_t index) {
  const TreeNode& node = nodes[index];
  if (node.parent < -1 || node.parent >= static_cast<int>(index)) {
    return InvalidArgument("PlanTree: node {} has the parent {}; use an earlier node, or -1", index,
                           node.parent);
  }
  if (const absl::Status valid = ValidateBuffers(node.buffers); !valid.ok())
    return InvalidArgument("PlanTree: node {}: {}", index, MessageOf(valid));
  for (const TreeOutput& output : node.outputs) {
    if (output.buffer >= node.buffers.size() || output.levels < 0 || output.last_steps < 1) {
      return InvalidArgument(
          "PlanTree: node {} keeps buffer {} for {} levels and {} steps of the last level; name "
          "one of its {} buffers, and give levels >= 0 and last_steps >= 1",
          index, output.buffer, output.levels, output.last_steps, node.buffers.size());
    }
  }
  return absl::OkStatus();
}

// The nodes, parents first and subtrees together.
std::vector<size_t> DepthFirst(std::span<const TreeNode> nodes) {
  std::vector<std::vector<size_t>> children(nodes.size());
  std::vector<size_t> waiting;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (nodes[i].parent < 0) {
      waiting.push_back(i);
    } else {
      children[static_cast<size_t>(nodes[i].parent)].push_back(i);
    }
  }
  std::vector<size_t> order;
  order.reserve(nodes.size());
  while (!waiting.empty()) {
    const size_t node = waiting.back();
    waiting.pop_back();
    order.push_back(node);
    waiting.insert(waiting.end(), children[node].begin(), children[node].end());
  }
  return order;
}

// Makes `buffer` live in `run` too, which does not begin before the last interval.
void Extend(Buffer& buffer, const Interval& run) {
  Interval& last = buffer.lifetime.back();
  if (last.upper >= run.lower) {
    last.upper = std::max(last.upper, run.upper);
  } else {
    buffer.lifetime.push_back(run);
  }
}

// The buffers of all nodes, those of node i from begins[i] on.
struct Joint {
  std::vector<Buffer> buffers;
  std::vector<size_t> begins;
};

// Appends the buffers of a node that runs from step `start` on.
void AppendNode(const TreeNode& node, int64_t start, std::vector<Buffer>& buffers) {
  const size_t begin = buffers.size();
  for (Buffer buffer : node.buffers) {
    for (Interval& interval : buffer.lifetime) {
      interval.lower += start;
      interval.upper += start;
    }
    if (buffer.in_place_with) *buffer.in_place_with += begin;
    buffers.push_back(std::move(buffer));
  }
}

absl::StatusOr<Joint> Join(std::span<const TreeNode> nodes) {
  Joint joint{.begins = std::vector<size_t>(nodes.size())};
  int64_t start = 0;
  for (const size_t index : DepthFirst(nodes)) {
    int64_t steps = 1;
    for (const Buffer& buffer : nodes[index].buffers)
      steps = std::max(steps, buffer.lifetime.back().upper);
    if (steps > std::numeric_limits<int64_t>::max() - start) {
      return InvalidArgument(
          "PlanTree: node {} begins after {} steps and has {} steps, but the sum overflows; use "
          "fewer steps",
          index, start, steps);
    }
    joint.begins[index] = joint.buffers.size();
    AppendNode(nodes[index], start, joint.buffers);
    int distance = 0;
    for (int at = static_cast<int>(index); at >= 0; ++distance) {
      const TreeNode& ancestor = nodes[static_cast<size_t>(at)];
      for (const TreeOutput& output : ancestor.outputs) {
        Buffer& buffer = joint.buffers[joint.begins[static_cast<size_t>(at)] + output.buffer];
        if (distance > output.levels) continue;
        const bool last = distance > 0 && distance == output.levels;
        const int64_t end = start + (last ? std::min(steps, output.last_steps) : steps);
        Extend(buffer, {distance == 0 ? buffer.lifetime.back().upper : start, end});
      }
      at = ancestor.parent;
    }
    start += steps;
  }
  return joint;
}

}  // namespace

absl::StatusOr<TreePlan> PlanTree(std::span<const TreeNode> nodes, const PlannerOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < nodes.size(); ++i)
    COPPICE_RETURN_IF_ERROR(ValidateNode(nodes, i));
  COPPICE_ASSIGN_OR_RETURN(Joint joint, Join(nodes));
  COPPICE_ASSIGN_OR_RETURN(PlannerResult planned, PlanBuffers(joint.buffers, options));
  if (planned.plan.height > planned.bound) {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const TreeOutput& output : nodes[i].outputs)
        joint.buffers[joint.begins[i] + output.buffer].low = true;
    PlannerOptions rest = options;
    rest.time_limit_ns -=
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    COPPICE_ASSIGN_OR_RETURN(PlannerResult low, PlanBuffers(joint.buffers, rest));
    if (low.plan.height < planned.plan.height) planned = std::move(low);
  }
  TreePlan tree{.bound = planned.bound};
  for (size_t i = 0; i < nodes.size(); ++i) {
    Plan& plan = tree.nodes.emplace_back();
    for (size_t k = 0; k < nodes[i].buffers.size(); ++k) {
      plan.offsets.push_back(planned.plan.offsets[joint.begins[i] + k]);
      plan.height = std::max(plan.height, plan.offsets[k] + nodes[i].buffers[k].bytes);
    }
    tree.height = std::max(tree.height, plan.height);
  }
  return tree;
}

}  // namespace coppice
