// Goal: plain memory, copies and fills behave as CUDA documents, and memory of every kind has its
// ids and costs what it holds. Method: one small test per documented rule, on every driver. Words
// around a target show that nothing else was written. A device has other users, so what memory
// costs is asked of the emulator alone.

#include "tests/conformance/child_process.h"
#include "tests/conformance/virtual_memory_fixture.h"

namespace coppice {
namespace {

class MemoryConformanceTest : public ConformanceTest {
 protected:
  // The `count` words at `address`, once both streams have drained.
  std::vector<int64_t> Words(DeviceAddress address, size_t count) {
    std::vector<int64_t> words(count);
    EXPECT_CU(kSuccess, cu.StreamSynchronize(b));
    EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(words.data(), address, count * sizeof(int64_t), a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    return words;
  }
};
COPPICE_CONFORMANCE_SUITE(MemoryConformanceTest);

// Allocations: the documentation of cuMemAlloc, cuMemFree and cuMemGetInfo.

TEST_P(MemoryConformanceTest, RefusesToAllocateNothing) {
  DeviceAddress address = 0;
  EXPECT_CU(kInvalidValue, cu.MemAlloc(&address, 0));
  EXPECT_CU(kInvalidValue, cu.MemAlloc(nullptr, 1));
}

TEST_P(MemoryConformanceTest, AllocationsAreAlignedToTheBufferAlignment) {
  for (const int64_t count : {1, 3, 100, 513})
    EXPECT_EQ(NewWords(count) % kBufferAlignment, 0U) << count << " words";
}

TEST_P(MemoryConformanceTest, FreeTakesOnlyTheStartOfAnAllocation) {
  const DeviceAddress words = NewWords(64);
  EXPECT_CU(kInvalidValue, cu.MemFree(words + kBufferAlignment));
}

TEST_P(MemoryConformanceTest, AllocatingMoreThanThereIsFailsAndChangesNothing) {
  size_t free_before = 0;
  size_t free_after = 0;
  size_t total = 0;
  ASSERT_CU(kSuccess, cu.MemGetInfo(&free_before, &total));
  EXPECT_LE(free_before, total);
  DeviceAddress address = 0;
  EXPECT_CU(kOutOfMemory, cu.MemAlloc(&address, 2 * total));
  EXPECT_EQ(address, 0U);
  ASSERT_CU(kSuccess, cu.MemGetInfo(&free_after, &total));
  if (GetParam().kind == DriverKind::kEmulator) {
    EXPECT_EQ(free_after, free_before);
  }
}

TEST_P(MemoryConformanceTest, EveryFailedAllocationFailsAlikeAndNextOnesSucceed) {
  size_t total = 0;
  ASSERT_CU(kSuccess, cu.DeviceTotalMem(&total, 0));
  DeviceAddress address = 0;
  for (int attempt = 0; attempt < 3; ++attempt)
    EXPECT_CU(kOutOfMemory, cu.MemAlloc(&address, 2 * total));
  EXPECT_CU(kOutOfMemory, cu.MemAlloc(&address, SIZE_MAX / 4));
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, Store(a, word, 4));
  EXPECT_EQ(Word(word), 4);
}

TEST_P(MemoryConformanceTest, HostAllocationsAreMemoryOfTheHostThatCopiesReach) {
  EXPECT_CU(kInvalidValue, cu.MemHostAlloc(nullptr, 8, 0));
  void* memory = nullptr;
  EXPECT_CU(kInvalidValue, cu.MemHostAlloc(&memory, 0, 0));
  ASSERT_CU(kSuccess, cu.MemHostAlloc(&memory, 8, 0));
  *static_cast<int64_t*>(memory) = 1;
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, Store(a, word, 4));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(memory, word, sizeof(int64_t), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(*static_cast<int64_t*>(memory), 4);
  EXPECT_CU(kSuccess, cu.MemFreeHost(memory));
  EXPECT_CU(kInvalidValue, cu.MemFreeHost(memory));
}

TEST_P(MemoryConformanceTest, AllocationsAreDisjoint) {
  std::vector<DeviceAddress> words;
  for (int i = 0; i < 8; ++i)
    words.push_back(NewWords(1));
  for (int i = 0; i < 8; ++i)
    EXPECT_CU(kSuccess, Store(a, words[i], i));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(Word(words[i]), i);
}

TEST_P(MemoryConformanceTest, FreeTakesNothingTwice) {
  EXPECT_IN_CHILD_OF_CUDA({
    DeviceAddress address = 0;
    ASSERT_CU(kSuccess, cu.MemAlloc(&address, 64));
    EXPECT_CU(kSuccess, cu.MemFree(address));
    EXPECT_CU(kInvalidValue, cu.MemFree(address));
  });
}

TEST_P(MemoryConformanceTest, FreeTakesNoHostMemory) {
  EXPECT_IN_CHILD_OF_CUDA({
    int64_t host = 0;
    EXPECT_CU(kInvalidValue, cu.MemFree(reinterpret_cast<DeviceAddress>(&host)));
  });
}

// Allocation is no stream operation: nothing has to drain before the memory may be used.
TEST_P(MemoryConformanceTest, NewMemoryServesAtOnceWhileWorkIsQueued) {
  const DeviceAddress busy = NewWords(1);
  for (int value = 1; value <= 20; ++value)
    EXPECT_CU(kSuccess, Store(a, busy, value));
  DeviceAddress fresh = 0;
  ASSERT_CU(kSuccess, cu.MemAlloc(&fresh, 64));
  EXPECT_CU(kSuccess, Store(b, fresh, 5));
  EXPECT_EQ(Word(fresh), 5);
  EXPECT_EQ(Word(busy), 20);
  EXPECT_CU(kSuccess, cu.MemFree(fresh));
}

TEST_P(MemoryConformanceTest, FreeWaitsForWorkThatUsesTheMemory) {
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.MemAlloc(&address, 64));
  EXPECT_CU(kSuccess, Store(a, address, 1));
  EXPECT_CU(kSuccess, cu.MemFree(address));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
}

TEST_P(MemoryConformanceTest, FreeLeavesOtherAllocationsIntact) {
  const DeviceAddress kept = NewWords(1);
  DeviceAddress freed = 0;
  ASSERT_CU(kSuccess, cu.MemAlloc(&freed, 64));
  EXPECT_CU(kSuccess, Store(a, kept, 6));
  EXPECT_CU(kSuccess, Store(a, freed, 7));
  EXPECT_CU(kSuccess, cu.MemFree(freed));
  EXPECT_EQ(Word(kept), 6);
}

TEST_P(MemoryConformanceTest, AnotherThreadMayFree) {
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.MemAlloc(&address, 64));
  OnThread([&] { EXPECT_CU(kSuccess, cu.MemFree(address)); });
  EXPECT_CU(kInvalidValue, cu.MemFree(address));
}

// Copies and fills: the documentation of the cuMemcpy and cuMemset families.

TEST_P(MemoryConformanceTest, CopiesThereAcrossAndBack) {
  const std::vector<int64_t> sent = {1, -2, 3};
  std::vector<int64_t> received(sent.size());
  const size_t bytes = sent.size() * sizeof(int64_t);
  const DeviceAddress source = NewWords(3);
  const DeviceAddress target = NewWords(3);
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(source, sent.data(), bytes, a));
  EXPECT_CU(kSuccess, cu.MemcpyDtoDAsync(target, source, bytes, a));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(received.data(), target, bytes, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(received, sent);
}

TEST_P(MemoryConformanceTest, FillsByBytesAndByWords) {
  const DeviceAddress words = NewWords(2);
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 0x11, 8, a));
  EXPECT_CU(kSuccess, cu.MemsetD32Async(words + 8, 0x22334455, 2, a));
  EXPECT_EQ(Word(words), 0x1111111111111111);
  EXPECT_EQ(Word(words + 8), 0x2233445522334455);
}

TEST_P(MemoryConformanceTest, WordFillsAreAligned) {
  const DeviceAddress words = NewWords(2);
  EXPECT_CU(kInvalidValue, cu.MemsetD32Async(words + 1, 0, 1, a));
}

TEST_P(MemoryConformanceTest, CopiesOfNothingSucceed) {
  const DeviceAddress words = NewWords(1);
  int64_t host = 7;
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(words, &host, 0, a));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&host, words, 0, a));
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 1, 0, a));
  EXPECT_EQ(Word(words), 0);
  EXPECT_EQ(host, 7);
}

TEST_P(MemoryConformanceTest, CopiesMoveExactlyTheirBytes) {
  const DeviceAddress words = NewWords(3);
  const DeviceAddress source = NewWords(1);
  EXPECT_CU(kSuccess, cu.MemsetD8Async(source, 0x77, 8, a));
  EXPECT_CU(kSuccess, cu.MemcpyDtoDAsync(words + 9, source, 6, a));
  EXPECT_EQ(Words(words, 3), (std::vector<int64_t>{0, 0x0077777777777700, 0}));
}

TEST_P(MemoryConformanceTest, CopiesFromTheHostMoveExactlyTheirBytes) {
  const DeviceAddress words = NewWords(2);
  const int64_t ones = -1;
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(words + 7, &ones, 2, a));
  EXPECT_EQ(Words(words, 2), (std::vector<int64_t>{static_cast<int64_t>(0xFF) << 56, 0xFF}));
}

TEST_P(MemoryConformanceTest, CopiesToTheHostMoveExactlyTheirBytes) {
  const DeviceAddress words = NewWords(2);
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 0x11, 16, a));
  unsigned char host[4] = {};
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(host + 1, words + 3, 2, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ((std::vector<int>(host, host + 4)), (std::vector<int>{0, 0x11, 0x11, 0}));
}

TEST_P(MemoryConformanceTest, ByteFillsStartAndEndAtAnyByte) {
  const DeviceAddress words = NewWords(2);
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words + 3, 0x5A, 2, a));
  EXPECT_EQ(Words(words, 2), (std::vector<int64_t>{0x0000005A5A000000, 0}));
}

TEST_P(MemoryConformanceTest, WordFillsCountWords) {
  const DeviceAddress words = NewWords(3);
  EXPECT_CU(kSuccess, cu.MemsetD32Async(words + 4, 0x01020304, 3, a));
  EXPECT_EQ(Words(words, 3), (std::vector<int64_t>{0x0102030400000000, 0x0102030401020304, 0}));
}

TEST_P(MemoryConformanceTest, CopiesSpanManyPages) {
  std::vector<int64_t> sent(100'000);
  std::iota(sent.begin(), sent.end(), 1);
  const DeviceAddress source = NewWords(100'000);
  const DeviceAddress target = NewWords(100'000);
  const size_t bytes = sent.size() * sizeof(int64_t);
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(source, sent.data(), bytes, a));
  EXPECT_CU(kSuccess, cu.MemcpyDtoDAsync(target, source, bytes, a));
  EXPECT_EQ(Words(target, sent.size()), sent);
}

TEST_P(MemoryConformanceTest, HostSourceMayChangeOnceItsCopyIsComplete) {
  const DeviceAddress word = NewWords(1);
  int64_t host = 1;
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(word, &host, sizeof(host), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  host = 2;
  EXPECT_EQ(Word(word), 1);
}

TEST_P(MemoryConformanceTest, CopiesAndFillsKeepTheOrderOfTheirStream) {
  const DeviceAddress words = NewWords(2);
  const int64_t host = 7;
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(words, &host, sizeof(host), a));
  EXPECT_CU(kSuccess, Move(a, words + 8, words));
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 0, 8, a));
  EXPECT_EQ(Words(words, 2), (std::vector<int64_t>{0, 7}));
}

TEST_P(MemoryConformanceTest, FillFollowsTheWorkBeforeIt) {
  const DeviceAddress word = NewWords(1);
  for (int step = 0; step < 30; ++step)  // Too much to be done by chance.
    EXPECT_CU(kSuccess, Store(a, word, 7));
  EXPECT_CU(kSuccess, cu.MemsetD8Async(word, 0, sizeof(int64_t), a));
  EXPECT_EQ(Word(word), 0);
}

// Ids: the documentation of CU_POINTER_ATTRIBUTE_BUFFER_ID. Of mapped memory it says nothing, so
// that only one mapping is asked, while it is there.

class AllocationIdConformanceTest : public VirtualMemoryTest {
 protected:
  CuResult GetId(DeviceAddress address, uint64_t* id) const {
    return cu.PointerGetAttribute(id, CuPointerAttribute::kBufferId, address);
  }

  uint64_t IdOf(DeviceAddress address) const {
    uint64_t id = 0;
    EXPECT_CU(kSuccess, GetId(address, &id));
    return id;
  }
};
COPPICE_CONFORMANCE_SUITE(AllocationIdConformanceTest);

TEST_P(AllocationIdConformanceTest, AllocationsHaveDifferentIds) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(ids.insert(IdOf(NewWords(1))).second);
}

TEST_P(AllocationIdConformanceTest, EveryByteOfAnAllocationHasItsId) {
  const DeviceAddress words = NewWords(100);
  const uint64_t id = IdOf(words);
  NewWords(100);
  for (const int offset : {0, 1, 8, 799})
    EXPECT_EQ(IdOf(words + offset), id) << offset;
}

TEST_P(AllocationIdConformanceTest, IdsAreNeverGivenOutAgain) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 20; ++i) {
    DeviceAddress address = 0;
    ASSERT_CU(kSuccess, cu.MemAlloc(&address, 64));
    EXPECT_TRUE(ids.insert(IdOf(address)).second) << i;
    EXPECT_CU(kSuccess, cu.MemFree(address));
  }
}

TEST_P(AllocationIdConformanceTest, NeitherFreedNorHostMemoryHasAnId) {
  DeviceAddress address = 0;
  uint64_t id = 7;
  ASSERT_CU(kSuccess, cu.MemAlloc(&address, 64));
  EXPECT_CU(kSuccess, cu.MemFree(address));
  EXPECT_CU(kInvalidValue, GetId(address, &id));
  EXPECT_CU(kInvalidValue, GetId(reinterpret_cast<DeviceAddress>(&id), &id));
  EXPECT_EQ(id, 7U);
}

TEST_P(AllocationIdConformanceTest, MappedMemoryHasAnId) {
  const uint64_t other = IdOf(NewWords(1));
  const DeviceAddress address = Reserve(1);
  MapFresh(address);
  const uint64_t id = IdOf(address);
  EXPECT_NE(id, other);
  EXPECT_EQ(IdOf(address + kGranule - 1), id);
  UnmapGranule(address);
  Unreserve(address, 1);
}

TEST_P(AllocationIdConformanceTest, QueryNeedsAnAttributeAndAPlaceToGo) {
  const DeviceAddress word = NewWords(1);
  uint64_t id = 0;
  EXPECT_CU(kInvalidValue, cu.PointerGetAttribute(&id, static_cast<CuPointerAttribute>(0), word));
  EXPECT_CU(kInvalidValue, GetId(word, nullptr));
}

// What memory costs.

class BudgetConformanceTest : public VirtualMemoryTest {
 protected:
  void SetUp() override {
    if (GetParam().kind == DriverKind::kCuda)
      GTEST_SKIP() << "the free memory of a device changes with its other users";
    VirtualMemoryTest::SetUp();
  }

  size_t FreeBytes() {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_CU(kSuccess, cu.MemGetInfo(&free_bytes, &total_bytes));
    return free_bytes;
  }
};
COPPICE_CONFORMANCE_SUITE(BudgetConformanceTest);

TEST_P(BudgetConformanceTest, AllocationsCostWhatTheyHold) {
  const size_t before = FreeBytes();
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.MemAlloc(&address, kGranule));
  EXPECT_EQ(FreeBytes(), before - kGranule);
  EXPECT_CU(kSuccess, cu.MemFree(address));
  EXPECT_EQ(FreeBytes(), before);
}

TEST_P(BudgetConformanceTest, PhysicalMemoryCostsUntilItIsReleasedAndUnmapped) {
  const size_t before = FreeBytes();
  const DeviceAddress address = Reserve(1);
  EXPECT_EQ(FreeBytes(), before) << "addresses cost nothing";
  MapFresh(address);
  EXPECT_EQ(FreeBytes(), before - kGranule) << "mapped memory is in use";
  UnmapGranule(address);
  EXPECT_EQ(FreeBytes(), before);
  Unreserve(address, 1);
}

TEST_P(BudgetConformanceTest, PhysicalMemoryThatIsRefusedCostsNothing) {
  const CuMemAllocationProperties properties = Properties();
  const size_t before = FreeBytes();
  CuMemoryHandle handle = 0;
  const size_t granules = before / kGranule + 1;
  EXPECT_CU(kOutOfMemory, cu.MemCreate(&handle, granules * kGranule, &properties, 0));
  EXPECT_EQ(FreeBytes(), before);
}

}  // namespace
}  // namespace coppice
