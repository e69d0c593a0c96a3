// Goal: every sentence of graphs/node/region.h and surroundings.h. Method: random regions against
// sets of bytes; a few surroundings.

#include "graphs/node/region.h"

#include "graphs/node/surroundings.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

class RegionTest : public testing::Test {
 protected:
  std::vector<Region> Draw() {
    std::vector<Region> regions(random_() % 5);
    for (Region& region : regions) {
      region = {.offset = static_cast<int64_t>(random_() % 20),
                .bytes = static_cast<int64_t>(1 + random_() % 4)};
    }
    return regions;
  }
  static std::set<int64_t> BytesOf(const std::vector<Region>& regions) {
    std::set<int64_t> bytes;
    for (const Region& region : regions) {
      for (int64_t byte = region.offset; byte < region.end(); ++byte)
        bytes.insert(byte);
    }
    return bytes;
  }
  static bool Share(const std::vector<Region>& a, const std::vector<Region>& b) {
    const std::set<int64_t> bytes = BytesOf(b);
    for (const int64_t byte : BytesOf(a)) {
      if (bytes.contains(byte)) return true;
    }
    return false;
  }

  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << TestSeed()};
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(RegionTest, NormalizeKeepsTheBytesSortsAndJoinsWhatTouches) {
  for (int round = 0; round < 1000; ++round) {
    const std::vector<Region> drawn = Draw();
    std::vector<Region> regions = drawn;
    Normalize(regions);
    EXPECT_EQ(BytesOf(regions), BytesOf(drawn));
    for (size_t i = 1; i < regions.size(); ++i)
      EXPECT_LT(regions[i - 1].end(), regions[i].offset);
  }
}

TEST_F(RegionTest, MeetsAndOverlapSayWhetherBytesAreShared) {
  for (int round = 0; round < 1000; ++round) {
    std::vector<Region> a = Draw();
    std::vector<Region> b = Draw();
    for (const Region& region : a)
      EXPECT_EQ(Meets(region, b), Share({region}, b));
    Normalize(a);
    Normalize(b);
    EXPECT_EQ(Overlap(a, b), Share(a, b));
  }
}

TEST_F(RegionTest, RegionsThatTouchShareNoByte) {
  EXPECT_FALSE(Meets({.offset = 0, .bytes = 4}, {{.offset = 4, .bytes = 4}}));
  EXPECT_FALSE(Overlap({{.offset = 0, .bytes = 4}}, {{.offset = 4, .bytes = 4}}));
}

TEST(SurroundingsTest, RootsHaveNothingLiveAndNothingInPlace) {
  EXPECT_TRUE(Surroundings().empty());
  EXPECT_TRUE((Surroundings{.in_place = {-1, -1}}).empty());
  EXPECT_FALSE((Surroundings{.in_place = {-1, 0}}).empty());
  EXPECT_FALSE((Surroundings{.live = {{.offset = 0, .bytes = 1}}}).empty());
}

TEST(SurroundingsTest, EqualSurroundingsAreInternedAtOneAddress) {
  SurroundingsTable table;
  const Surroundings one{.live = {{.offset = 0, .bytes = 512}}, .in_place = {-1}};
  const Surroundings other{.live = {{.offset = 0, .bytes = 512}}, .in_place = {0}};
  EXPECT_EQ(table.Find(one), nullptr);
  const Surroundings* const interned = table.Intern(one);
  EXPECT_EQ(*interned, one);
  EXPECT_EQ(table.Intern(Surroundings(one)), interned);
  EXPECT_EQ(table.Find(one), interned);
  EXPECT_NE(table.Intern(other), interned);
  for (int64_t i = 0; i < 1000; ++i)
    table.Intern({.live = {}, .in_place = {i, i}});
  EXPECT_EQ(table.Find(one), interned);
}

}  // namespace
}  // namespace coppice::internal
