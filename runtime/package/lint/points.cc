// Joins sizes of the symbols: all combinations where they are few, else corners, sweeps and draws.

#include "runtime/package/lint/points.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

namespace coppice::package {
namespace {

constexpr int64_t kUnboundedSize = int64_t{1} << 33;
constexpr int64_t kSizeMax = int64_t{1} << 60;

// The sizes of one name that points join, ascending.
using Sizes = std::vector<int64_t>;

// Multiples of what the symbol says, from its least size to its greatest.
Sizes RealSizesOf(const Symbol& symbol, std::mt19937_64& random) {
  const auto [least, greatest] = RangeOf(symbol);
  if (least > greatest) return {};
  std::set<int64_t> sizes = {least, greatest};
  const auto add = [&, low = least, high = greatest](int64_t size) {
    size -= size % StepOf(symbol);
    if (size >= low && size <= high) sizes.insert(size);
  };
  add(least + StepOf(symbol));
  for (int64_t power = 1; power < greatest; power *= 2) {
    add(power);
    add(power + StepOf(symbol));
  }
  if (symbol.hint > 0) add(symbol.hint);
  for (int i = 0; i < 4; ++i)
    add(std::uniform_int_distribution<int64_t>(least, greatest)(random));
  return {sizes.begin(), sizes.end()};
}

// The value of each name, by place in `sizes`, for combination number `index`.
void Combine(const std::vector<Sizes>& sizes, uint64_t index, std::vector<int64_t>& values) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    values[i] = sizes[i][index % sizes[i].size()];
    index /= sizes[i].size();
  }
}

// Combinations of `sizes`, at most about `most`.
std::vector<std::vector<int64_t>> JoinedOf(const std::vector<Sizes>& sizes,
                                           int64_t most,
                                           std::mt19937_64& random) {
  std::vector<std::vector<int64_t>> joined;
  double product = 1;
  for (const Sizes& each : sizes) {
    if (each.empty()) return {};
    product *= static_cast<double>(each.size());
  }
  std::vector<int64_t> values(sizes.size());
  if (product <= static_cast<double>(most)) {
    for (uint64_t i = 0; i < static_cast<uint64_t>(product); ++i) {
      Combine(sizes, i, values);
      joined.push_back(values);
    }
    return joined;
  }
  // All at their least or greatest; then each name's sizes with the others at one corner.
  for (uint64_t corner = 0; corner < uint64_t{1} << std::min<size_t>(sizes.size(), 8); ++corner) {
    for (size_t i = 0; i < sizes.size(); ++i)
      values[i] = (corner >> std::min<size_t>(i, 63) & 1) != 0 ? sizes[i].back() : sizes[i].front();
    joined.push_back(values);
  }
  for (const bool greatest : {false, true}) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (size_t j = 0; j < sizes.size(); ++j)
        values[j] = greatest ? sizes[j].back() : sizes[j].front();
      for (const int64_t size : sizes[i]) {
        values[i] = size;
        joined.push_back(values);
      }
    }
  }
  while (static_cast<int64_t>(joined.size()) < most) {
    for (size_t i = 0; i < sizes.size(); ++i)
      values[i] = sizes[i][random() % sizes[i].size()];
    joined.push_back(values);
  }
  return joined;
}

bool Passes(std::span<const Expression> guards, std::span<const int64_t> values) {
  return std::all_of(guards.begin(), guards.end(),
                     [&](const Expression& guard) { return guard.Evaluate(values).is_true(); });
}

class PointMaker {
 public:
  PointMaker(const Program& program, std::span<const Expression> guards)
      : program_(program), guards_(guards) {
    for (const Symbol& symbol : program.symbols) {
      real_.push_back(RealSizesOf(symbol, random_));
      buckets_.push_back(BucketsOf(symbol));
    }
  }

  std::vector<Point> Make(int64_t points_max) {
    std::vector<Point> points;
    AddReal(points_max / 2, points);
    const bool pads = std::any_of(program_.symbols.begin(), program_.symbols.end(),
                                  [](const Symbol& symbol) { return symbol.claim.has_value(); });
    if (pads) AddPadded(points_max / 2, points);
    return points;
  }

 private:
  // Scalars that are sizes have theirs; others a few small values.
  void AddReal(int64_t most, std::vector<Point>& points) {
    std::vector<Sizes> sizes = real_;
    for (size_t i = 0; i < program_.scalars.size(); ++i)
      sizes.push_back(IsFree(i) ? Sizes{0, 1, 2, 16, 100} : Sizes{0});
    for (std::vector<int64_t>& values : JoinedOf(sizes, most, random_)) {
      SetScalars(values);
      if (Passes(guards_, values)) points.push_back({.values = std::move(values)});
    }
  }

  void AddPadded(int64_t most, std::vector<Point>& points) {
    std::vector<Sizes> sizes;
    for (size_t i = 0; i < program_.symbols.size(); ++i)
      sizes.push_back(buckets_[i].empty() ? real_[i] : buckets_[i]);
    for (size_t i = 0; i < program_.scalars.size(); ++i)
      sizes.push_back(IsFree(i) ? Sizes{0, 1, 2, 16, 100} : Sizes{0});
    for (std::vector<int64_t>& values : JoinedOf(sizes, most, random_)) {
      SetScalars(values);
      if (IsReached(values)) points.push_back({.values = std::move(values), .padded = true});
    }
  }

  // Whether a scalar is no symbol's size and part of the key.
  bool IsFree(size_t scalar) const {
    return !program_.scalars[scalar].parameter &&
           std::none_of(
               program_.symbols.begin(), program_.symbols.end(),
               [&](const Symbol& symbol) { return symbol.scalar == static_cast<int>(scalar); });
  }

  void SetScalars(std::vector<int64_t>& values) const {
    for (size_t i = 0; i < program_.symbols.size(); ++i)
      if (program_.symbols[i].scalar >= 0 &&
          !program_.scalars[static_cast<size_t>(program_.symbols[i].scalar)].parameter)
        values[program_.symbols.size() + static_cast<size_t>(program_.symbols[i].scalar)] =
            values[i];
  }

  // Whether some sizes that are padded to `padded` pass the guards, of those that are tried.
  bool IsReached(const std::vector<int64_t>& padded) {
    constexpr int kDraws = 16;
    std::vector<int64_t> values = padded;
    for (int draw = 0; draw < kDraws; ++draw) {
      for (size_t i = 0; i < program_.symbols.size(); ++i) {
        const int64_t least = LeastPaddedTo(i, padded[i]);
        const int64_t step = StepOf(program_.symbols[i]);
        const int64_t steps = (padded[i] - least) / step;
        values[i] = draw == 0 ? padded[i]
                    : draw == 1
                        ? least
                        : least + step * std::uniform_int_distribution<int64_t>(0, steps)(random_);
      }
      SetScalars(values);
      if (Passes(guards_, values)) return true;
    }
    return false;
  }

  // The least size of a symbol that is padded to `bucket`; `bucket` of one that is not padded.
  int64_t LeastPaddedTo(size_t symbol, int64_t bucket) const {
    const SizeRange range = RangeOf(program_.symbols[symbol]);
    if (!program_.symbols[symbol].claim) return bucket;
    const Sizes& buckets = buckets_[symbol];
    const auto next = std::lower_bound(buckets.begin(), buckets.end(), bucket);
    int64_t least = range.least;
    if (next != buckets.begin() && !buckets.empty()) least = std::max(least, *(next - 1) + 1);
    const int64_t step = StepOf(program_.symbols[symbol]);
    least += (step - least % step) % step;
    return std::min(least, bucket);
  }

  const Program& program_;
  std::span<const Expression> guards_;
  std::mt19937_64 random_{17};
  std::vector<Sizes> real_;  // Per symbol.
  std::vector<Sizes> buckets_;
};

}  // namespace

int64_t StepOf(const Symbol& symbol) {
  return std::clamp<int64_t>(symbol.multiple_of, 1, kSizeMax);
}

SizeRange RangeOf(const Symbol& symbol) {
  const int64_t step = StepOf(symbol);
  const int64_t low = std::clamp<int64_t>(symbol.min, 0, kSizeMax);
  const int64_t high = symbol.max == INT64_MAX ? std::max(low, kUnboundedSize)
                                               : std::clamp<int64_t>(symbol.max, -1, kSizeMax);
  return {.least = low + (step - low % step) % step, .greatest = high - high % step};
}

std::vector<int64_t> BucketsOf(const Symbol& symbol) {
  if (!symbol.claim) return {};
  if (!symbol.buckets_pow2) return symbol.buckets;
  const SizeRange range = RangeOf(symbol);
  std::vector<int64_t> buckets;
  for (int64_t power = 1; power <= range.greatest; power *= 2)
    if (power >= range.least && power % StepOf(symbol) == 0) buckets.push_back(power);
  return buckets;
}

std::vector<Point> PointsOf(const Program& program,
                            std::span<const Expression> guards,
                            int64_t points_max) {
  return PointMaker(program, guards).Make(points_max);
}

}  // namespace coppice::package
