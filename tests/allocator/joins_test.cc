// Goal: every sentence of planner/joins.h that can be false. Method: random buffers, whose blocks
// are laid one on the other, judged by the validator; sheets that are cut up so that no two cuts
// share a moment, which must become one block again; small programs by hand.

#include "allocator/planner/joins.h"

#include "tests/allocator/buffers.h"

namespace coppice::internal {
namespace {

// One block on the other.
Plan StackOf(const std::vector<Buffer>& blocks) {
  Plan plan;
  for (const Buffer& block : blocks) {
    const int64_t offset = block.fixed_offset.value_or(AlignUp(plan.height, block.alignment));
    plan.offsets.push_back(offset);
    plan.height = std::max(plan.height, offset + block.bytes);
  }
  return plan;
}

// Few lifetimes, sizes and alignments, so that much fits by chance.
std::vector<Buffer> DrawBuffers(std::mt19937& random, bool fixed) {
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  std::vector<Buffer> buffers;
  for (int i = 0; i < 40; ++i) {
    const int64_t lower = draw(0, 10);
    Buffer buffer = MakeBuffer({lower, lower + draw(1, 4)}, draw(1, 20), int64_t{1} << draw(0, 2));
    if (draw(0, 5) == 0) buffer.lifetime.push_back({lower + 20, lower + 21});
    buffers.push_back(buffer);
  }
  // At the bottom, where nothing else lies in the stack.
  if (fixed) buffers.insert(buffers.begin(), MakeBuffer({0, 99}, 7));
  if (fixed) buffers.front().fixed_offset = 0;
  return buffers;
}

TEST(JoinsTest, PlanOfTheBlocksIsAPlanOfTheBuffers) {
  std::mt19937 random(5);
  size_t joined_buffers = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::vector<Buffer> buffers = DrawBuffers(random, seed % 2 == 0);
    JoinOptions options = {.noise = 3, .left_out = 0.1, .seed = seed};
    if (seed % 3 == 0) options.fill_below = MaxLiveBytes(buffers) + 16;
    const JoinedBuffers joined = JoinBuffers(buffers, options);
    ASSERT_OK(ValidateBuffers(joined.blocks)) << "seed " << seed;
    const Plan plan = StackOf(joined.blocks);
    ASSERT_OK(ValidatePlan(joined.blocks, plan)) << "seed " << seed;
    ASSERT_OK(ValidatePlan(buffers, PlanOfJoined(buffers, joined, plan))) << "seed " << seed;
    joined_buffers += buffers.size() - joined.blocks.size();
  }
  EXPECT_GT(joined_buffers, 500U);
}

TEST(JoinsTest, SheetThatStraightCutsPartedBecomesOneBlockAgain) {
  std::mt19937 random(6);
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> steps(1000);
    std::iota(steps.begin(), steps.end(), 1);
    std::ranges::shuffle(steps, random);
    std::vector<Buffer> buffers = {MakeBuffer({0, 1001}, int64_t{1} << 40)};
    while (buffers.size() < 60) {
      const size_t at = random() % buffers.size();
      Buffer rest = buffers[at];
      if (random() % 2 == 0) {
        const int64_t part = rest.bytes / 1000 * static_cast<int64_t>(1 + random() % 998);
        if (part == 0) continue;
        rest.bytes -= part;
        buffers[at].bytes = part;
      } else {
        // No moment serves twice.
        const auto inside = std::ranges::find_if(steps, [&](int64_t step) {
          return rest.lifetime[0].lower < step && step < rest.lifetime[0].upper;
        });
        if (inside == steps.end()) continue;
        rest.lifetime[0].lower = *inside;
        buffers[at].lifetime[0].upper = *inside;
        steps.erase(inside);
      }
      buffers.push_back(rest);
    }
    std::ranges::shuffle(buffers, random);
    const JoinedBuffers joined = JoinBuffers(buffers, {});
    ASSERT_EQ(joined.blocks.size(), 1U) << "round " << round;
    EXPECT_EQ(joined.blocks[0].bytes, int64_t{1} << 40);
    EXPECT_EQ(joined.blocks[0].lifetime[0], (Interval{0, 1001}));
  }
}

TEST(JoinsTest, FourThatLieRoundAFifthBecomeOne) {
  const std::vector<Buffer> buffers = {MakeBuffer({0, 7}, 2), MakeBuffer({7, 9}, 5),
                                       MakeBuffer({3, 9}, 4), MakeBuffer({0, 3}, 7),
                                       MakeBuffer({3, 7}, 3)};
  const JoinedBuffers joined = JoinBuffers(buffers, {.left_out = 1});
  ASSERT_EQ(joined.blocks.size(), 1U);
  EXPECT_EQ(joined.blocks[0].bytes, 9);
  const Plan plan = PlanOfJoined(buffers, joined, {.offsets = {0}, .height = 9});
  EXPECT_EQ(plan.height, 9);
  EXPECT_OK(ValidatePlan(buffers, plan));
}

TEST(JoinsTest, FixedBuffersAndThoseWithSeveralIntervalsStayAlone) {
  std::vector<Buffer> buffers = {MakeBuffer({0, 4}, 8), MakeBuffer({0, 4}, 8),
                                 MakeBuffer({0, 4}, 8)};
  buffers[0].fixed_offset = 0;
  buffers[1].lifetime.push_back({6, 7});
  EXPECT_EQ(JoinBuffers(buffers, {}).blocks.size(), 3U);
}

TEST(JoinsTest, BuffersOfDifferentAlignmentsAreNotJoined) {
  const std::vector<Buffer> buffers = {MakeBuffer({0, 4}, 8, 1), MakeBuffer({0, 4}, 8, 2)};
  EXPECT_EQ(JoinBuffers(buffers, {}).blocks.size(), 2U);
}

TEST(JoinsTest, LessDoubtfulJoinsAreMadeFirst) {
  // At step 4 three end and two begin, at step 8 one does: the last two belong together, whatever
  // else has their size.
  const std::vector<Buffer> buffers = {MakeBuffer({0, 4}, 3), MakeBuffer({1, 4}, 5),
                                       MakeBuffer({2, 4}, 5), MakeBuffer({4, 8}, 5),
                                       MakeBuffer({4, 6}, 1), MakeBuffer({8, 9}, 5)};
  const JoinedBuffers joined = JoinBuffers(buffers, {});
  EXPECT_EQ(joined.places[3].block, joined.places[5].block);
}

TEST(JoinsTest, FreeRoomJoinsOnRequest) {
  const std::vector<Buffer> buffers = {MakeBuffer({0, 4}, 10), MakeBuffer({4, 8}, 6)};
  EXPECT_EQ(JoinBuffers(buffers, {}).blocks.size(), 2U);
  const JoinedBuffers joined = JoinBuffers(buffers, {.fill_below = 10});
  ASSERT_EQ(joined.blocks.size(), 1U);
  EXPECT_EQ(joined.blocks[0].bytes, 10);
}

TEST(JoinsTest, SeedsDrawTheSameJoinsAgainAndDifferFromEachOther) {
  std::mt19937 random(7);
  const std::vector<Buffer> buffers = DrawBuffers(random, false);
  const auto places = [&](uint64_t seed) {
    std::vector<std::pair<size_t, int64_t>> found;
    const JoinOptions options = {.noise = 3, .left_out = 0.2, .seed = seed};
    for (const JoinedBuffers::Place& place : JoinBuffers(buffers, options).places)
      found.emplace_back(place.block, place.offset);
    return found;
  };
  EXPECT_EQ(places(1), places(1));
  EXPECT_NE(places(1), places(2));
  const JoinedBuffers apart = JoinBuffers(buffers, {.left_out = 1});
  EXPECT_EQ(apart.blocks.size(), buffers.size());
}

TEST(JoinsTest, NothingJoinsToNothing) {
  const JoinedBuffers joined = JoinBuffers({}, {.fill_below = 100});
  EXPECT_THAT(joined.blocks, IsEmpty());
  EXPECT_THAT(joined.places, IsEmpty());
}

}  // namespace
}  // namespace coppice::internal
