// Every kind fills a list of rectangles; what is common turns them into buffers and a plan.

#include "tools/plan/tight_instances.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <utility>

namespace coppice {
namespace {

// The window is as many units high as it is steps long.
constexpr int64_t kSide = 1024;
constexpr int64_t kUnitBytes = kTightHeight / kSide;
constexpr int64_t kBuffersMin = 150;
constexpr int64_t kBuffersMax = 450;

// Steps [lower, upper) and units [bottom, top).
struct Rectangle {
  int64_t lower = 0;
  int64_t upper = kSide;
  int64_t bottom = 0;
  int64_t top = kSide;

  int64_t steps() const { return upper - lower; }
  int64_t units() const { return top - bottom; }

  bool Meets(const Rectangle& other) const {
    return lower < other.upper && other.lower < upper && bottom < other.top && other.bottom < top;
  }
};

using Rectangles = std::vector<Rectangle>;

// Draws alike with every standard library, which std's distributions do not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  // In [low, high]. Requires: low <= high.
  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  bool Chance(int64_t percent) { return Draw(1, 100) <= percent; }

  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (int64_t i = std::ssize(values) - 1; i > 0; --i)
      std::swap(values[static_cast<size_t>(i)], values[static_cast<size_t>(Draw(0, i))]);
  }

 private:
  std::mt19937_64 random_;
};

// Across time or address; `piece` becomes what comes first, the rest is appended. False if it is
// too thin.
bool CutInTwo(
    Rectangle piece, size_t at, int64_t percent_across_time, Dice& dice, Rectangles& all) {
  Rectangle rest = piece;
  if (dice.Chance(percent_across_time)) {
    if (piece.steps() < 2) return false;
    piece.upper = rest.lower = dice.Draw(piece.lower + 1, piece.upper - 1);
  } else {
    if (piece.units() < 2) return false;
    piece.top = rest.bottom = dice.Draw(piece.bottom + 1, piece.top - 1);
  }
  all[at] = piece;
  all.push_back(rest);
  return true;
}

// Four that follow each other round a fifth. False if it is too small.
bool CutInFive(Rectangle piece, size_t at, Dice& dice, Rectangles& all) {
  if (piece.steps() < 12 || piece.units() < 12) return false;
  const int64_t left = dice.Draw(piece.lower + 1, piece.upper - 2);
  const int64_t right = dice.Draw(left + 1, piece.upper - 1);
  const int64_t low = dice.Draw(piece.bottom + 1, piece.top - 2);
  const int64_t high = dice.Draw(low + 1, piece.top - 1);
  all[at] = {left, right, low, high};
  all.push_back({piece.lower, right, piece.bottom, low});
  all.push_back({right, piece.upper, piece.bottom, high});
  all.push_back({left, piece.upper, high, piece.top});
  all.push_back({piece.lower, left, low, piece.top});
  return true;
}

// Larger pieces are cut more often, so that no few of them fill the window.
size_t ChoosePiece(const Rectangles& all, Dice& dice) {
  const auto draw = [&] { return static_cast<size_t>(dice.Draw(0, std::ssize(all) - 1)); };
  size_t chosen = draw();
  for (int i = 0; i < 2; ++i) {
    const size_t other = draw();
    if (all[other].steps() * all[other].units() > all[chosen].steps() * all[chosen].units())
      chosen = other;
  }
  return chosen;
}

void CutUp(int64_t count, int64_t percent_in_five, Dice& dice, Rectangles& all) {
  while (std::ssize(all) < count) {
    const size_t at = ChoosePiece(all, dice);
    const bool room = std::ssize(all) + 4 <= count;
    if (room && dice.Chance(percent_in_five) && CutInFive(all[at], at, dice, all)) continue;
    CutInTwo(all[at], at, /*percent_across_time=*/50, dice, all);
  }
}

// What `taken` leaves free between two steps, if none of it begins or ends between them.
void AddFree(int64_t lower, int64_t upper, Rectangles taken, Rectangles& all) {
  std::erase_if(taken,
                [&](const Rectangle& one) { return one.upper <= lower || one.lower >= upper; });
  std::ranges::sort(taken, {}, &Rectangle::bottom);
  int64_t bottom = 0;
  for (const Rectangle& one : taken) {
    if (one.bottom > bottom) all.push_back({lower, upper, bottom, one.bottom});
    bottom = one.top;
  }
  if (bottom < kSide) all.push_back({lower, upper, bottom, kSide});
}

Rectangles DrawMixed(int64_t count, Dice& dice) {
  std::vector<int64_t> bounds = {0, kSide};
  const int64_t phases = dice.Draw(2, 5);
  while (std::ssize(bounds) <= phases)
    bounds.push_back(dice.Draw(1, kSide - 1));
  std::ranges::sort(bounds);
  bounds.erase(std::ranges::unique(bounds).begin(), bounds.end());
  const int64_t last = std::ssize(bounds) - 1;

  Rectangles bridges;
  const int64_t tries = dice.Draw(2, 8);
  for (int64_t i = 0; i < tries; ++i) {
    const int64_t from = dice.Draw(0, last - 1);
    const int64_t to = dice.Draw(from + 1, last);
    const int64_t units = dice.Draw(8, kSide / 6);
    const int64_t bottom = dice.Draw(0, kSide - units);
    const Rectangle bridge = {bounds[static_cast<size_t>(from)], bounds[static_cast<size_t>(to)],
                              bottom, bottom + units};
    const auto meets = [&](const Rectangle& other) { return bridge.Meets(other); };
    if (std::ranges::none_of(bridges, meets)) bridges.push_back(bridge);
  }
  Rectangles all = bridges;
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    AddFree(bounds[i], bounds[i + 1], bridges, all);
  CutUp(count, /*percent_in_five=*/0, dice, all);
  return all;
}

// Always the largest piece, near its middle, across whichever side is longer.
Rectangles DrawEven(int64_t count, Dice& dice) {
  Rectangles all(1);
  while (std::ssize(all) < count) {
    const auto largest = std::ranges::max_element(
        all, {}, [](const Rectangle& one) { return one.steps() * one.units(); });
    const auto at = static_cast<size_t>(largest - all.begin());
    Rectangle piece = *largest;
    Rectangle rest = piece;
    const int64_t percent = dice.Draw(30, 70);
    if (piece.steps() * dice.Draw(50, 150) > piece.units() * 100) {
      piece.upper = rest.lower = piece.lower + piece.steps() * percent / 100;
    } else {
      piece.top = rest.bottom = piece.bottom + piece.units() * percent / 100;
    }
    all[at] = piece;
    all.push_back(rest);
  }
  return all;
}

// So many are drawn that `count` are left when `percent` of them go.
int64_t CountBefore(int64_t count, int64_t percent) {
  return count * 100 / (100 - percent);
}

void Keep(int64_t count, Dice& dice, Rectangles& all) {
  dice.Shuffle(all);
  all.resize(static_cast<size_t>(count));
}

Rectangles Draw(TightKind kind, int64_t count, Dice& dice) {
  Rectangles all(1);
  switch (kind) {
    case TightKind::kCut:
      CutUp(count, /*percent_in_five=*/0, dice, all);
      return all;
    case TightKind::kThinned:
      CutUp(CountBefore(count, dice.Draw(2, 10)), /*percent_in_five=*/0, dice, all);
      Keep(count, dice, all);
      return all;
    case TightKind::kWoven:
      CutUp(count, /*percent_in_five=*/dice.Draw(2, 8), dice, all);
      return all;
    case TightKind::kMixed:
      return DrawMixed(count, dice);
    case TightKind::kEven:
      all = DrawEven(CountBefore(count, dice.Draw(0, 25)), dice);
      Keep(count, dice, all);
      return all;
  }
  return all;
}

}  // namespace

const char* NameOf(TightKind kind) {
  switch (kind) {
    case TightKind::kCut:
      return "cut";
    case TightKind::kThinned:
      return "thinned";
    case TightKind::kWoven:
      return "woven";
    case TightKind::kMixed:
      return "mixed";
    case TightKind::kEven:
      return "even";
  }
  return "unknown";
}

TightInstance DrawTightInstance(TightKind kind, uint64_t seed) {
  Dice dice(seed * kTightKinds.size() + static_cast<uint64_t>(kind));
  Rectangles all = Draw(kind, dice.Draw(kBuffersMin, kBuffersMax), dice);
  dice.Shuffle(all);
  TightInstance instance;
  for (const Rectangle& one : all) {
    instance.buffers.push_back({.lifetime = {{.lower = one.lower, .upper = one.upper}},
                                .bytes = one.units() * kUnitBytes});
    instance.plan.offsets.push_back(one.bottom * kUnitBytes);
    instance.plan.height = std::max(instance.plan.height, one.top * kUnitBytes);
  }
  return instance;
}

}  // namespace coppice
