// Goal: however many nodes are recorded and dropped, and whatever is leased meanwhile, a window
// does not grow beyond what is alive: no plan is higher than 1.02 times its own bound, leased
// outputs included, plus the largest node that is alive. Method: a million seeded operations on a
// model of one plan window, planned as a session plans: children around what is leased, roots from
// offset 0. Every plan passes the validator inside the planner.
//
// COPPICE_TEST_SHARE=N in the environment runs one in N of the operations.

#include "coppice/allocator/plan.h"
#include "coppice/allocator/planner.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

class FragmentationTest : public testing::Test {
 protected:
  // What a node leaves in the window while somebody leases its outputs.
  struct Alive {
    std::vector<Buffer> outputs;  // Fixed, without lifetimes.
    int64_t node_bytes = 0;       // Most bytes live in the node by itself.
  };

  int64_t Below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }

  // A program: 3 to 12 buffers, the last 1 to 3 of them outputs, sizes over three decades.
  std::vector<Buffer> DrawProgram() {
    const int64_t count = 3 + Below(10);
    const int64_t outputs = 1 + Below(3);
    const int64_t steps = 2 * count;
    std::vector<Buffer> buffers;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t lower = Below(steps);
      const bool output = i >= count - outputs;
      const int64_t upper = output ? steps : lower + 1 + Below(steps - lower);
      buffers.push_back({.lifetime = {{.lower = lower, .upper = upper}},
                         .bytes = kBufferAlignment << Below(11),
                         .low = upper == steps});
    }
    return buffers;
  }

  // Plans `program` around what is alive, checks the height, and keeps its outputs.
  void Record(const std::vector<Buffer>& program) {
    int64_t end = 1;
    for (const Buffer& buffer : program)
      end = std::max(end, buffer.lifetime.back().upper);
    std::vector<Buffer> buffers = program;
    Alive made{.outputs = {}, .node_bytes = MaxLiveBytes(program)};
    if (alive_.empty()) most_alive_ = largest_ = 0;
    largest_ = std::max(largest_, made.node_bytes);
    for (const Alive& alive : alive_) {
      for (const Buffer& output : alive.outputs) {
        buffers.push_back(output);
        buffers.back().lifetime = {{.lower = 0, .upper = end}};
      }
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult planned, PlanBuffers(buffers));
    const auto height = static_cast<double>(planned.plan.height);
    const auto bound = static_cast<double>(planned.bound);
    most_alive_ = std::max(most_alive_, planned.bound);
    const double most = 1.02 * static_cast<double>(most_alive_);
    too_high_ += height > most + static_cast<double>(largest_) ? 1 : 0;
    above_most_ += height > most ? 1 : 0;
    over_ += height > 1.02 * bound ? 1 : 0;
    worst_ = std::max(worst_, height / bound);
    around_ += alive_.empty() ? 0 : 1;
    ++recorded_;
    for (size_t i = 0; i < program.size(); ++i) {
      if (program[i].lifetime.back().upper < end) continue;
      made.outputs.push_back({.bytes = program[i].bytes, .fixed_offset = planned.plan.offsets[i]});
    }
    alive_.push_back(std::move(made));
  }

  std::mt19937_64 random_{TestSeed()};
  std::vector<Alive> alive_;
  int64_t recorded_ = 0;
  int64_t around_ = 0;      // Recordings around something that is leased.
  int64_t most_alive_ = 0;  // Bytes, since there was nothing last; and the largest node's.
  int64_t largest_ = 0;
  int64_t too_high_ = 0;    // Plans above the goal.
  int64_t above_most_ = 0;  // Plans more than 2 % above the most alive.
  int64_t over_ = 0;        // Plans more than 2 % above their own bound.
  double worst_ = 0;        // Of height / bound.
};

TEST_F(FragmentationTest, AWindowIsAsHighAsWhatIsAliveAndTheLargestNode) {
  constexpr size_t kAliveMax = 6;
  const int64_t operations = 1'000'000 / TestShare();
  std::vector<std::vector<Buffer>> programs;
  for (int i = 0; i < 200; ++i)
    programs.push_back(DrawProgram());
  for (int64_t operation = 0; operation < operations && !HasFailure(); ++operation) {
    const int64_t die = Below(10);
    if (die < 5) {
      // A root writes over everything; a child leaves what is leased.
      if (die == 0 || alive_.size() == kAliveMax) alive_.clear();
      Record(programs[static_cast<size_t>(Below(static_cast<int64_t>(programs.size())))]);
    } else if (!alive_.empty()) {
      // Leases are dropped in any order.
      alive_.erase(alive_.begin() + Below(static_cast<int64_t>(alive_.size())));
    }
  }
  EXPECT_GE(10 * around_, 3 * recorded_);
  EXPECT_LE(100'000 * too_high_, recorded_ + 100'000);
  fmt::print(
      "{} recordings, {} of them around leases; {} too high; more than 2 % above the most alive "
      "{}, "
      "above their own bound {}, at most {:.1f} times\n",
      recorded_, around_, too_high_, above_most_, over_, worst_);
}

}  // namespace
}  // namespace coppice
