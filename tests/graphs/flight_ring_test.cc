// Goal: the ring of a flight recorder is bounded, loses nothing but its oldest entries, and never
// gives away bytes that a copy is on its way to. Method: entries of drawn sizes beside a list of
// what has to be there; copies that arrive when the test writes their last bytes.

#include "graphs/flight/flight_ring.h"

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

constexpr uint64_t kCanary = 0x1234'5678'9abc'def0;

struct RingScene {
  explicit RingScene(int64_t bytes, int64_t calls_max = 1 << 20)
      : memory(static_cast<size_t>(bytes) / sizeof(Aligned)),
        ring({reinterpret_cast<std::byte*>(memory.data()), static_cast<size_t>(bytes)},
             calls_max,
             kCanary) {}

  struct alignas(16) Aligned {
    std::byte bytes[16];
  };

  // An entry of call `number`, with so many bytes of staging window; false: there was no room.
  bool Add(uint64_t number, int64_t window, bool copies = false) {
    constexpr int64_t kHeader = AlignUp(sizeof(FlightEntry), FlightEntry::kAlignment);
    FlightEntry* const entry = ring.Append(kHeader + window);
    if (entry == nullptr) return false;
    *entry = {};
    entry->bytes = kHeader + window;
    entry->call = number;
    entry->staging = kHeader;
    entry->staging_bytes = window;
    if (window == 0) return true;
    std::memset(entry->byte(kHeader), static_cast<int>(number % 251), static_cast<size_t>(window));
    if (!copies) return true;
    ring.SetCanary(*entry);
    entry->copies = true;
    return true;
  }

  std::vector<uint64_t> Calls() const {
    std::vector<uint64_t> calls;
    ring.ForEach([&](const FlightEntry& entry) { calls.push_back(entry.call); });
    return calls;
  }

  // The copy of the entry of this call arrives.
  void Arrive(uint64_t number) {
    ring.ForEach([&](FlightEntry& entry) {
      if (entry.call != number) return;
      std::memset(entry.byte(entry.staging), 7, static_cast<size_t>(entry.staging_bytes));
    });
  }

  std::vector<Aligned> memory;
  FlightRing ring;
};

TEST(FlightRingTest, TakesOnlyWhatIsFree) {
  RingScene scene(1024, /*calls_max=*/3);
  for (uint64_t number = 1; number <= 3; ++number)
    ASSERT_TRUE(scene.Add(number, 0));
  EXPECT_EQ(scene.ring.Take(128), nullptr) << "as many calls as there may be";
  EXPECT_EQ(scene.ring.Take(4096), nullptr) << "more than the ring has";
  EXPECT_THAT(scene.Calls(), testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(scene.ring.dropped(), 0);
  EXPECT_TRUE(scene.Add(4, 0)) << "Append makes room";
  EXPECT_THAT(scene.Calls(), testing::ElementsAre(2, 3, 4));
}

TEST(FlightRingTest, KeepsTheLastEntriesInOrder) {
  RingScene scene(4096);
  uint64_t number = 0;
  while (scene.ring.dropped() == 0)
    ASSERT_TRUE(scene.Add(++number, 64));
  const int64_t held = scene.ring.count();
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(scene.Add(++number, 64));
  const std::vector<uint64_t> calls = scene.Calls();
  EXPECT_GE(std::ssize(calls), held - 1);
  for (size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(calls[i], number - calls.size() + 1 + i);
  EXPECT_EQ(scene.ring.dropped() + scene.ring.count(), static_cast<int64_t>(number));
}

TEST(FlightRingTest, LosesNothingButTheOldestWhateverTheSizes) {
  std::mt19937_64 random(TestSeed());
  RingScene scene(64 << 10);
  std::deque<std::pair<uint64_t, int64_t>> model;
  for (uint64_t number = 1; number <= 4'000; ++number) {
    const int64_t window = 16 * std::uniform_int_distribution<int64_t>(0, 300)(random);
    ASSERT_TRUE(scene.Add(number, window));
    model.emplace_back(number, window);
    while (std::ssize(model) > scene.ring.count())
      model.pop_front();
    size_t at = 0;
    scene.ring.ForEach([&](const FlightEntry& entry) {
      ASSERT_LT(at, model.size());
      EXPECT_EQ(entry.call, model[at].first);
      EXPECT_EQ(entry.staging_bytes, model[at].second);
      for (int64_t byte = 0; byte < entry.staging_bytes; byte += 16)
        ASSERT_EQ(std::to_integer<uint64_t>(*entry.byte(entry.staging + byte)), entry.call % 251)
            << "another entry wrote over it";
      ++at;
    });
    ASSERT_EQ(at, model.size());
  }
  // More than half of the ring is full with entries of this size.
  int64_t bytes = 0;
  scene.ring.ForEach([&](const FlightEntry& entry) { bytes += entry.bytes; });
  EXPECT_GT(bytes, 32 << 10);
}

TEST(FlightRingTest, AMillionCallsTakeNoMoreMemoryThanItHas) {
  RingScene scene(1 << 20);
  for (uint64_t number = 1; number <= 1'000'000; ++number)
    ASSERT_TRUE(scene.Add(number, 0));
  const std::vector<uint64_t> calls = scene.Calls();
  EXPECT_EQ(calls.back(), 1'000'000U);
  EXPECT_EQ(calls.front(), 1'000'000U - calls.size() + 1);
  EXPECT_EQ(scene.ring.refused(), 0);
  EXPECT_LE(std::ssize(calls) * static_cast<int64_t>(sizeof(FlightEntry)), 1 << 20);
  EXPECT_GT(std::ssize(calls) * 2 * static_cast<int64_t>(sizeof(FlightEntry)), 1 << 20);
}

TEST(FlightRingTest, HoldsAtMostSoManyCalls) {
  RingScene scene(1 << 20, /*calls_max=*/5);
  for (uint64_t number = 1; number <= 12; ++number)
    ASSERT_TRUE(scene.Add(number, 16));
  EXPECT_EQ(scene.Calls(), (std::vector<uint64_t>{8, 9, 10, 11, 12}));
}

TEST(FlightRingTest, RefusesWhatIsLargerThanItselfAndKeepsTheRest) {
  RingScene scene(4096);
  ASSERT_TRUE(scene.Add(1, 64));
  EXPECT_FALSE(scene.Add(2, 1 << 20));
  EXPECT_EQ(scene.ring.refused(), 1);
  EXPECT_EQ(scene.Calls(), (std::vector<uint64_t>{1}));
}

TEST(FlightRingTest, GivesNoBytesAwayThatACopyIsOnItsWayTo) {
  RingScene scene(4096);
  uint64_t number = 0;
  while (scene.ring.refused() == 0)
    scene.Add(++number, 256, /*copies=*/true);
  const std::vector<uint64_t> calls = scene.Calls();
  EXPECT_EQ(calls.front(), 1U) << "the oldest has not arrived";
  EXPECT_EQ(scene.ring.dropped(), 0);
  scene.Arrive(1);
  EXPECT_TRUE(scene.Add(++number, 256, /*copies=*/true));
  EXPECT_EQ(scene.Calls().front(), 2U);
}

TEST(FlightRingTest, SaysWhetherACopyHasArrived) {
  RingScene scene(4096);
  ASSERT_TRUE(scene.Add(1, 64, /*copies=*/true));
  ASSERT_TRUE(scene.Add(2, 64));
  std::vector<bool> arrived;
  const auto look = [&] {
    arrived.clear();
    scene.ring.ForEach(
        [&](const FlightEntry& entry) { arrived.push_back(scene.ring.HasArrived(entry)); });
    return arrived;
  };
  EXPECT_EQ(look(), (std::vector<bool>{false, true}));
  scene.Arrive(1);
  EXPECT_EQ(look(), (std::vector<bool>{true, true}));
}

}  // namespace
}  // namespace coppice::internal
