// Goal: a step waits for exactly those whose bytes it needs, and for none twice.
// Method: small cases by hand; random steps against a model that keeps, per byte, who wrote it last
// and who read it since, compared by what is reachable.

#include "graphs/steps/touch_order.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Touch Read(DeviceAddress begin, int64_t bytes) {
  return {.begin = begin, .bytes = bytes};
}
Touch Write(DeviceAddress begin, int64_t bytes) {
  return {.begin = begin, .bytes = bytes, .writes = true};
}

TEST(TouchOrderTest, ReaderWaitsForTheLastWriter) {
  TouchOrder order;
  EXPECT_THAT(order.Add(std::vector{Write(0, 8)}), IsEmpty());
  EXPECT_THAT(order.Add(std::vector{Write(0, 8)}), ElementsAre(0));
  EXPECT_THAT(order.Add(std::vector{Read(4, 8)}), ElementsAre(1));
}

TEST(TouchOrderTest, ReadersDoNotWaitForEachOther) {
  TouchOrder order;
  order.Add(std::vector{Write(0, 8)});
  EXPECT_THAT(order.Add(std::vector{Read(0, 8)}), ElementsAre(0));
  EXPECT_THAT(order.Add(std::vector{Read(0, 8)}), ElementsAre(0));
}

TEST(TouchOrderTest, WriterWaitsForAllReadersSince) {
  TouchOrder order;
  order.Add(std::vector{Write(0, 8)});
  order.Add(std::vector{Read(0, 4)});
  order.Add(std::vector{Read(4, 4)});
  EXPECT_THAT(order.Add(std::vector{Write(0, 8)}), ElementsAre(1, 2)) << "the writer is implied";
}

TEST(TouchOrderTest, NeighboursAreIndependent) {
  TouchOrder order;
  order.Add(std::vector{Write(0, 8)});
  EXPECT_THAT(order.Add(std::vector{Write(8, 8)}), IsEmpty());
  EXPECT_THAT(order.Add(std::vector{Read(16, 8)}), IsEmpty());
}

TEST(TouchOrderTest, StepDoesNotWaitForItself) {
  TouchOrder order;
  EXPECT_THAT(order.Add(std::vector{Read(0, 8), Write(0, 8), Write(4, 8), Read(4, 4)}), IsEmpty());
  EXPECT_THAT(order.Add(std::vector{Read(0, 1)}), ElementsAre(0));
}

TEST(TouchOrderTest, NoBytesAreNoTouch) {
  TouchOrder order;
  order.Add(std::vector{Write(0, 0)});
  EXPECT_THAT(order.Add(std::vector{Write(0, 8)}), IsEmpty());
}

// What the definition says, byte by byte.
class ByteModel {
 public:
  std::set<int> Add(const std::vector<Touch>& touched) {
    const int step = count_++;
    std::set<int> after;
    for (const Touch& touch : touched) {
      for (DeviceAddress at = touch.begin; at < touch.begin + static_cast<uint64_t>(touch.bytes);
           ++at) {
        const Byte& byte = bytes_[at];
        if (byte.writer >= 0) after.insert(byte.writer);
        if (touch.writes) after.insert(byte.readers.begin(), byte.readers.end());
      }
    }
    for (const bool writes : {false, true}) {
      for (const Touch& touch : touched) {
        for (DeviceAddress at = touch.begin; at < touch.begin + static_cast<uint64_t>(touch.bytes);
             ++at) {
          if (touch.writes != writes) continue;
          if (writes)
            bytes_[at] = {.writer = step};
          else
            bytes_[at].readers.insert(step);
        }
      }
    }
    after.erase(step);
    return after;
  }

 private:
  struct Byte {
    int writer = -1;
    std::set<int> readers;
  };
  std::map<DeviceAddress, Byte> bytes_;
  int count_ = 0;
};

// All steps that come before each along direct orders.
void Extend(const std::set<int>& direct, std::vector<std::set<int>>& before) {
  std::set<int> all = direct;
  for (const int step : direct)
    all.insert(before[static_cast<size_t>(step)].begin(), before[static_cast<size_t>(step)].end());
  before.push_back(std::move(all));
}

TEST(TouchOrderTest, RandomStepsAreOrderedAsTheirBytesSay) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](int64_t below) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(below));
  };
  for (int round = 0; round < 100; ++round) {
    TouchOrder order;
    ByteModel model;
    std::vector<std::set<int>> before;
    std::vector<std::set<int>> expected;
    for (int step = 0; step < 80; ++step) {
      std::vector<Touch> touched;
      for (int64_t i = draw(4); i >= 0; --i) {
        touched.push_back({.begin = static_cast<DeviceAddress>(draw(40)),
                           .bytes = draw(12),
                           .writes = draw(3) == 0});
      }
      const std::vector<int> after = order.Add(touched);
      const std::set<int> direct(after.begin(), after.end());
      for (const int one : direct) {
        for (const int other : direct)
          EXPECT_FALSE(before[static_cast<size_t>(other)].contains(one)) << "it is implied";
      }
      Extend(direct, before);
      Extend(model.Add(touched), expected);
      ASSERT_EQ(before.back(), expected.back()) << "round " << round << ", step " << step;
    }
    EXPECT_EQ(order.steps(), 80);
  }
}

}  // namespace
}  // namespace coppice::internal
