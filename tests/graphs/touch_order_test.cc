// Goal: a step waits for exactly those whose bytes it needs, and for none twice.
// Method: random steps against a model that keeps, per byte, who wrote it last and who read it
// since, compared by what is reachable.

#include "graphs/steps/touch_order.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

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
