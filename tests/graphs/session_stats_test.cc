// Goal: adding the stats of lanes adds every figure. Method: figures of which no two are equal,
// written through the structure's bytes, so that a field that is added later is not forgotten.

#include "coppice/graphs/session_stats.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

constexpr size_t kFigures = sizeof(SessionStats) / sizeof(int64_t);
using Figures = std::array<int64_t, kFigures>;

Figures Ramp(int64_t step) {
  Figures figures;
  for (size_t i = 0; i < kFigures; ++i)
    figures[i] = static_cast<int64_t>(i + 1) * step;
  return figures;
}

TEST(SessionStatsTest, AddingAddsEveryFigure) {
  auto sum = std::bit_cast<SessionStats>(Ramp(1));
  sum += std::bit_cast<SessionStats>(Ramp(100));
  EXPECT_EQ(std::bit_cast<Figures>(sum), Ramp(101));
}

TEST(SessionStatsTest, NothingAddsNothing) {
  auto sum = std::bit_cast<SessionStats>(Ramp(1));
  sum += SessionStats();
  EXPECT_EQ(std::bit_cast<Figures>(sum), Ramp(1));
}

}  // namespace
}  // namespace coppice
