// Goal: the model of a caching allocator follows each of its rules. Method: requests whose
// addresses and reservations follow from the rules by hand.

#include "tools/model/caching_allocator.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/units.h"

namespace coppice {
namespace {

TEST(CachingAllocatorTest, SegmentsAreOfThreeKinds) {
  CachingAllocator small;
  small.Allocate(kMiB);
  EXPECT_EQ(small.reserved_bytes(), 2 * kMiB);
  CachingAllocator large;
  large.Allocate(kMiB + 1);
  EXPECT_EQ(large.reserved_bytes(), 20 * kMiB);
  CachingAllocator below;
  below.Allocate(10 * kMiB - 512);
  EXPECT_EQ(below.reserved_bytes(), 20 * kMiB);
  CachingAllocator own;
  own.Allocate(10 * kMiB);
  EXPECT_EQ(own.reserved_bytes(), 10 * kMiB);
  own.Allocate(11 * kMiB);
  EXPECT_EQ(own.reserved_bytes(), 22 * kMiB);
}

TEST(CachingAllocatorTest, RoundsRequestsUpTo512Bytes) {
  CachingAllocator allocator;
  EXPECT_EQ(allocator.Allocate(1), 0);
  EXPECT_EQ(allocator.Allocate(513), 512);
  EXPECT_EQ(allocator.Allocate(512), 1536);
  EXPECT_EQ(allocator.reserved_bytes(), 2 * kMiB);
}

TEST(CachingAllocatorTest, TakesTheSmallestBlockThatFitsAndTheLowestOfSeveral) {
  CachingAllocator allocator;
  std::vector<int64_t> blocks;
  for (const int64_t bytes : {4096, 512, 1024, 512, 2048, 512, 1024, 512})
    blocks.push_back(allocator.Allocate(bytes));
  for (const size_t i : {0, 2, 4, 6})
    allocator.Free(blocks[i]);
  EXPECT_EQ(allocator.Allocate(1024), blocks[2]);
  EXPECT_EQ(allocator.Allocate(1024), blocks[6]);
  EXPECT_EQ(allocator.Allocate(1024), blocks[4]);
  EXPECT_EQ(allocator.Allocate(1024), blocks[4] + 1024);
  EXPECT_EQ(allocator.Allocate(4096), blocks[0]);
}

TEST(CachingAllocatorTest, ALargeRequestLeavesARestOfAMebibyteUnused) {
  CachingAllocator allocator;
  const int64_t first = allocator.Allocate(9 * kMiB);
  allocator.Allocate(9 * kMiB);  // Leaves 2 MiB.
  EXPECT_EQ(allocator.Allocate(2 * kMiB), 18 * kMiB);
  allocator.Free(first);
  EXPECT_EQ(allocator.Allocate(8 * kMiB), first);  // Takes the last mebibyte along.
  allocator.Allocate(kMiB + 512);
  EXPECT_EQ(allocator.reserved_bytes(), 40 * kMiB);
}

TEST(CachingAllocatorTest, FreeNeighboursJoin) {
  CachingAllocator allocator;
  std::vector<int64_t> blocks;
  for (int i = 0; i < 4; ++i)
    blocks.push_back(allocator.Allocate(kMiB / 2));
  for (const size_t i : {0, 2, 1})
    allocator.Free(blocks[i]);
  EXPECT_EQ(allocator.Allocate(kMiB), blocks[0]);
  EXPECT_EQ(allocator.reserved_bytes(), 2 * kMiB);
}

TEST(CachingAllocatorTest, BlocksOfTwoSegmentsNeverJoin) {
  CachingAllocator allocator;
  const int64_t first = allocator.Allocate(10 * kMiB);
  const int64_t second = allocator.Allocate(10 * kMiB);
  allocator.Free(first);
  allocator.Free(second);
  allocator.Allocate(20 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 40 * kMiB);
}

TEST(CachingAllocatorTest, SmallAndLargeRequestsShareNoSegment) {
  CachingAllocator allocator;
  allocator.Free(allocator.Allocate(10 * kMiB));
  allocator.Allocate(kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 12 * kMiB);
  allocator.Allocate(10 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 12 * kMiB);
}

TEST(CachingAllocatorTest, ASecondFreeAborts) {
  CachingAllocator allocator;
  const int64_t address = allocator.Allocate(512);
  allocator.Free(address);
  EXPECT_DEATH(allocator.Free(address), "not allocated");
}

TEST(CachingAllocatorTest, AProgramReleasesBeforeItRequestsAndKeepsNothing) {
  std::vector<Buffer> buffers(2);
  buffers[0] = {.lifetime = {{.lower = 0, .upper = 3}}, .bytes = 12 * kMiB};
  buffers[1] = {.lifetime = {{.lower = 3, .upper = 5}}, .bytes = 12 * kMiB};
  CachingAllocator allocator;
  RunProgram(buffers, allocator);
  RunProgram(buffers, allocator);
  EXPECT_EQ(allocator.reserved_bytes(), 12 * kMiB);
  buffers[1].lifetime[0].lower = 2;
  RunProgram(buffers, allocator);
  EXPECT_EQ(allocator.reserved_bytes(), 24 * kMiB);
}

}  // namespace
}  // namespace coppice
