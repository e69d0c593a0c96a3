// Goal: chains and trees are planned within their path bound, and outputs keep their bytes for as
// long as they are said to live, no longer.
// Method: small trees by hand; random chains and trees, checked pair by pair along every path, and
// their mean height against the bound.

#include "coppice/allocator/tree_plan.h"

#include "coppice/allocator/planner.h"

#include "tests/allocator/buffers.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

// A node with an output of `kept` bytes, live for `levels`, after a buffer of `used` bytes.
TreeNode MakeNode(int parent, int64_t kept, int64_t used, int levels = TreeOutput::kToTheEnd) {
  return {.parent = parent,
          .buffers = {MakeBuffer({1, 2}, kept), MakeBuffer({0, 2}, used)},
          .outputs = {{.buffer = 0, .levels = levels}}};
}

int64_t EndOf(const TreePlan& plan, const std::vector<TreeNode>& nodes, size_t node, size_t i) {
  return plan.nodes[node].offsets[i] + nodes[node].buffers[i].bytes;
}

bool Meet(const TreePlan& plan,
          const std::vector<TreeNode>& nodes,
          std::pair<size_t, size_t> a,
          std::pair<size_t, size_t> b) {
  return plan.nodes[a.first].offsets[a.second] < EndOf(plan, nodes, b.first, b.second) &&
         plan.nodes[b.first].offsets[b.second] < EndOf(plan, nodes, a.first, a.second);
}

// The child's output goes where the parent's was, once the child has read it.
TEST(TreePlanTest, OutputDiesWithinTheLastOfItsLevels) {
  std::vector<TreeNode> nodes = {
      {.buffers = {MakeBuffer({0, 1}, 100)}, .outputs = {{.buffer = 0, .levels = 1}}},
      {.parent = 0,
       .buffers = {MakeBuffer({0, 2}, 10), MakeBuffer({1, 3}, 100)},
       .outputs = {{.buffer = 1}}}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan whole, PlanTree(nodes));
  EXPECT_EQ(whole.height, 210);
  EXPECT_EQ(whole.bound, 210);
  nodes[0].outputs[0].last_steps = 1;
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan part, PlanTree(nodes));
  EXPECT_EQ(part.height, 110);
  EXPECT_EQ(part.bound, 110);
  nodes[0].outputs[0].last_steps = 0;
  EXPECT_THAT(PlanTree(nodes), StatusIs(kWrongArgument));
}

TEST(TreePlanTest, PlansNothingForNoNodes) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree({}));
  EXPECT_TRUE(plan.nodes.empty());
  EXPECT_EQ(plan.height, 0);
  EXPECT_EQ(plan.bound, 0);
}

TEST(TreePlanTest, GivesANodeWithoutBuffersAnEmptyPlan) {
  const std::vector<TreeNode> nodes = {MakeNode(-1, 4, 5), {.parent = 0}, MakeNode(1, 4, 5)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
  EXPECT_TRUE(plan.nodes[1].offsets.empty());
  EXPECT_EQ(plan.nodes[1].height, 0);
  EXPECT_EQ(plan.height, 13);
}

TEST(TreePlanTest, PlansASingleNodeAsThePlannerDoes) {
  const std::vector<TreeNode> nodes = {MakeNode(-1, 4, 7)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult alone, PlanBuffers(nodes[0].buffers));
  EXPECT_EQ(plan.nodes[0].offsets, alone.plan.offsets);
  EXPECT_EQ(plan.nodes[0].height, plan.height);
  EXPECT_EQ(plan.bound, 11);
}

TEST(TreePlanTest, KeepsAnOutputToTheEndOfItsNode) {
  // The output's last step is 0, but the next buffer of its node must not take its bytes.
  const std::vector<TreeNode> nodes = {{.buffers = {MakeBuffer({0, 1}, 4), MakeBuffer({1, 2}, 4)},
                                        .outputs = {{.buffer = 0, .levels = 0}}}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
  EXPECT_EQ(plan.height, 8);
}

TEST(TreePlanTest, KeepsAnOutputForItsLevelsOnly) {
  for (const auto& [levels, bound] : {std::pair{0, 20}, {1, 24}, {2, 24}, {5, 24}}) {
    // Three nodes in a chain; the last needs most.
    const std::vector<TreeNode> nodes = {MakeNode(-1, 4, 1, levels), MakeNode(0, 0 + 1, 19, 0),
                                         MakeNode(1, 1, 15, 0)};
    COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
    EXPECT_EQ(plan.bound, bound) << levels;
    EXPECT_EQ(plan.height, bound) << levels;
    EXPECT_TRUE(levels < 2 || !Meet(plan, nodes, {0, 0}, {2, 1})) << levels;
  }
}

TEST(TreePlanTest, LetsSiblingsUseTheSameBytes) {
  const std::vector<TreeNode> nodes = {MakeNode(-1, 4, 1), MakeNode(0, 10, 2), MakeNode(0, 9, 3)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
  EXPECT_EQ(plan.bound, 16);
  EXPECT_EQ(plan.height, 16);
  EXPECT_FALSE(Meet(plan, nodes, {0, 0}, {1, 0}));
  EXPECT_FALSE(Meet(plan, nodes, {0, 0}, {2, 0}));
}

TEST(TreePlanTest, LetsRootsUseTheSameBytes) {
  const std::vector<TreeNode> nodes = {MakeNode(-1, 4, 9), MakeNode(-1, 9, 3)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
  EXPECT_EQ(plan.height, 13);
}

// The root's output dies with its children, among which nodes of a deeper subtree run.
TEST(TreePlanTest, UsesTheGapsOfAnOutputBetweenItsNodes) {
  const std::vector<TreeNode> nodes = {MakeNode(-1, 8, 1, 1), MakeNode(0, 1, 1, 0),
                                       MakeNode(1, 1, 16, 0), MakeNode(0, 1, 1, 0)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
  EXPECT_EQ(plan.bound, 17);
  EXPECT_EQ(plan.height, 17);
}

TEST(TreePlanTest, KeepsFixedBuffersAndGroupsOfEachNode) {
  std::vector<TreeNode> nodes = {MakeNode(-1, 4, 9), MakeNode(0, 6, 5)};
  nodes[0].buffers[1].fixed_offset = 20;
  nodes[1].buffers[0].in_place_with = 1;
  COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
  EXPECT_EQ(plan.nodes[0].offsets[1], 20);
  EXPECT_EQ(plan.nodes[1].offsets[0], plan.nodes[1].offsets[1]);
  EXPECT_EQ(plan.bound, 13);
  EXPECT_EQ(plan.height, 29);
}

TEST(TreePlanTest, RejectsMalformedTrees) {
  const auto code = [](std::vector<TreeNode> nodes) { return PlanTree(nodes).status().code(); };
  EXPECT_EQ(code({MakeNode(0, 1, 1)}), kWrongArgument);
  EXPECT_EQ(code({MakeNode(1, 1, 1), MakeNode(-1, 1, 1)}), kWrongArgument);
  EXPECT_EQ(code({MakeNode(-2, 1, 1)}), kWrongArgument);
  EXPECT_EQ(code({MakeNode(-1, 0, 1)}), kWrongArgument);
  EXPECT_EQ(code({MakeNode(-1, 1, 1, -1)}), kWrongArgument);
  TreeNode absent = MakeNode(-1, 1, 1);
  absent.outputs[0].buffer = 2;
  EXPECT_EQ(code({absent}), kWrongArgument);
  TreeNode forever = MakeNode(-1, 1, 1);
  forever.buffers[1].lifetime[0].upper = INT64_MAX - 1;
  EXPECT_EQ(code({forever}), absl::StatusCode::kOk);
  EXPECT_EQ(code({forever, MakeNode(0, 1, 1)}), kWrongArgument);
}

// Random chains and trees of random programs.
class RandomTreeTest : public testing::Test {
 protected:
  struct Scenario {
    const char* name;
    int depth;   // Levels of nodes.
    int fanout;  // Children per node.
    int buffers_min, buffers_max;
    int outputs_min, outputs_max;
    int levels;  // That outputs live for.
  };

  int64_t Draw(int64_t lower, int64_t upper) {  // In [lower, upper).
    return lower + static_cast<int64_t>(random_() % static_cast<uint64_t>(upper - lower));
  }

  // Up to a few MiB, most of them small.
  int64_t DrawBytes() {
    return 512 * (1 + static_cast<int64_t>(std::lognormal_distribution<double>(5, 2)(random_)));
  }

  TreeNode DrawNode(const Scenario& scenario, int parent) {
    TreeNode node{.parent = parent};
    const int64_t count = Draw(scenario.buffers_min, scenario.buffers_max + 1);
    const int64_t steps = 2 * count + 2;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t lower = Draw(0, steps);
      const auto length = 1 + static_cast<int64_t>(std::exponential_distribution<>(0.1)(random_));
      node.buffers.push_back(MakeBuffer({lower, std::min(steps, lower + length)}, DrawBytes()));
    }
    for (int64_t i = Draw(scenario.outputs_min, scenario.outputs_max + 1); i > 0; --i) {
      node.outputs.push_back({.buffer = node.buffers.size(), .levels = scenario.levels});
      node.buffers.push_back(MakeBuffer({Draw(0, steps), steps}, DrawBytes()));
    }
    return node;
  }

  std::vector<TreeNode> DrawTree(const Scenario& scenario) {
    std::vector<TreeNode> nodes = {DrawNode(scenario, -1)};
    size_t level_begin = 0;
    for (int depth = 1; depth < scenario.depth; ++depth) {
      const size_t level_end = nodes.size();
      for (size_t parent = level_begin; parent < level_end; ++parent)
        for (int child = 0; child < scenario.fanout; ++child)
          nodes.push_back(DrawNode(scenario, static_cast<int>(parent)));
      level_begin = level_end;
    }
    return nodes;
  }

  // The outputs of ancestors that are live while node `index` runs, as (node, buffer).
  static std::vector<std::pair<size_t, size_t>> Inherited(const std::vector<TreeNode>& nodes,
                                                          size_t index) {
    std::vector<std::pair<size_t, size_t>> inherited;
    int distance = 1;
    for (int at = nodes[index].parent; at >= 0; at = nodes[static_cast<size_t>(at)].parent) {
      for (const TreeOutput& output : nodes[static_cast<size_t>(at)].outputs)
        if (distance <= output.levels) inherited.emplace_back(at, output.buffer);
      ++distance;
    }
    return inherited;
  }

  // What a node needs with everything that is live around it.
  static int64_t PathBytes(const std::vector<TreeNode>& nodes, size_t index) {
    int64_t bytes = MaxLiveBytes(nodes[index].buffers);
    for (const auto& [node, buffer] : Inherited(nodes, index))
      bytes += nodes[node].buffers[buffer].bytes;
    return bytes;
  }

  static int64_t PathBound(const std::vector<TreeNode>& nodes) {
    int64_t bound = 0;
    for (size_t i = 0; i < nodes.size(); ++i)
      bound = std::max(bound, PathBytes(nodes, i));
    return bound;
  }

  // Every node's plan is right alone, and meets nothing that it inherits.
  static void ExpectRight(const std::vector<TreeNode>& nodes, const TreePlan& plan) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      ASSERT_OK(ValidatePlan(nodes[i].buffers, plan.nodes[i])) << "node " << i;
      const auto inherited = Inherited(nodes, i);
      for (size_t k = 0; k < inherited.size(); ++k) {
        for (size_t other = 0; other < k; ++other)
          ASSERT_FALSE(Meet(plan, nodes, inherited[k], inherited[other])) << "node " << i;
        for (size_t own = 0; own < nodes[i].buffers.size(); ++own)
          ASSERT_FALSE(Meet(plan, nodes, inherited[k], {i, own})) << "node " << i;
      }
    }
  }

  // Node after node as a session plans: around what is live, its own outputs low.
  static int64_t PlanInTurn(const std::vector<TreeNode>& nodes) {
    TreePlan plan;
    for (size_t i = 0; i < nodes.size(); ++i) {
      std::vector<Buffer> buffers = nodes[i].buffers;
      for (const TreeOutput& output : nodes[i].outputs)
        buffers[output.buffer].low = true;
      int64_t end = 1;
      for (const Buffer& buffer : buffers)
        end = std::max(end, buffer.lifetime.back().upper);
      for (const auto& [node, index] : Inherited(nodes, i)) {
        buffers.push_back(MakeBuffer({0, end}, nodes[node].buffers[index].bytes));
        buffers.back().fixed_offset = plan.nodes[node].offsets[index];
      }
      PlannerResult result = PlanBuffers(buffers).value();
      plan.height = std::max(plan.height, result.plan.height);
      plan.nodes.push_back(std::move(result.plan));
    }
    return plan.height;
  }

  static constexpr int kTrials = 20;
  static constexpr int kToTheEnd = TreeOutput::kToTheEnd;

  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << TestSeed()};
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(RandomTreeTest, EveryPlanIsRightAlongEveryPath) {
  for (int trial = 0; trial < 60; ++trial) {
    const Scenario scenario{
        "", static_cast<int>(Draw(1, 5)), static_cast<int>(Draw(1, 4)), 0, 12, 0,
        3,  static_cast<int>(Draw(0, 4))};
    const std::vector<TreeNode> nodes = DrawTree(scenario);
    COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
    ExpectRight(nodes, plan);
    ASSERT_EQ(plan.bound, PathBound(nodes));
    ASSERT_GE(plan.height, plan.bound);
  }
}

// The means are those of one set of trees, whatever the seed of the run.
TEST_F(RandomTreeTest, NestedOutputsCostAThousandthOfTheBoundJointlyAndInTurn) {
  random_.seed(1);
  for (const Scenario& scenario : {Scenario{"chain of 8", 8, 1, 30, 100, 1, 4, kToTheEnd},
                                   Scenario{"chain of 32", 32, 1, 30, 100, 1, 4, kToTheEnd},
                                   Scenario{"chain of 16", 16, 1, 30, 100, 1, 4, kToTheEnd},
                                   Scenario{"tree", 4, 3, 30, 100, 1, 4, kToTheEnd}}) {
    double joint = 0;
    double in_turn = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const std::vector<TreeNode> nodes = DrawTree(scenario);
      const auto bound = static_cast<double>(PathBound(nodes));
      COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
      ASSERT_EQ(static_cast<double>(plan.bound), bound);
      ExpectRight(nodes, plan);
      joint += static_cast<double>(plan.height) / bound;
      in_turn += static_cast<double>(PlanInTurn(nodes)) / bound;
    }
    EXPECT_LE(joint / kTrials, 1.001) << scenario.name;
    EXPECT_LE(in_turn / kTrials, 1.001) << scenario.name;
  }
}

TEST_F(RandomTreeTest, OutputsThatDieEarlyCostAHundredthOfTheBoundJointly) {
  random_.seed(1);
  for (const Scenario& scenario : {Scenario{"chain of 32, 1 level", 32, 1, 30, 100, 1, 4, 1},
                                   Scenario{"chain of 32, 2 levels", 32, 1, 30, 100, 1, 4, 2},
                                   Scenario{"chain of 32, 3 levels", 32, 1, 30, 100, 1, 4, 3},
                                   Scenario{"chain of 8, 1 level", 8, 1, 100, 100, 4, 4, 1},
                                   Scenario{"chain of 8, 3 levels", 8, 1, 100, 100, 4, 4, 3},
                                   Scenario{"tree, 1 level", 4, 3, 30, 100, 1, 4, 1}}) {
    double joint = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const std::vector<TreeNode> nodes = DrawTree(scenario);
      COPPICE_ASSERT_OK_AND_ASSIGN(const TreePlan plan, PlanTree(nodes));
      ASSERT_EQ(plan.bound, PathBound(nodes));
      ExpectRight(nodes, plan);
      joint += static_cast<double>(plan.height) / static_cast<double>(plan.bound);
    }
    EXPECT_LE(joint / kTrials, 1.01) << scenario.name;
  }
}

}  // namespace
}  // namespace coppice
