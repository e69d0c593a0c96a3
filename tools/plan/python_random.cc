// The methods of CPython's Lib/random.py that its documentation names, on std::mt19937.

#include "tools/plan/python_random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "coppice/base/check.h"

namespace coppice {
namespace {

constexpr size_t kStateWords = std::mt19937::state_size;

// Hands std::mt19937 the state that the reference implementation's init_by_array makes of a key of
// one word (Matsumoto and Nishimura, 2002).
struct KeySequence {
  using result_type = uint32_t;

  template <typename Iterator>
  void generate(Iterator first, Iterator last) const {
    std::array<uint32_t, kStateWords> state{};
    state[0] = 19650218;
    for (uint32_t i = 1; i < kStateWords; ++i)
      state[i] = 1812433253 * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
    size_t i = 1;
    const auto mix = [&](uint32_t factor, uint32_t added) {
      state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * factor)) + added;
      if (++i < kStateWords) return;
      state[0] = state[kStateWords - 1];
      i = 1;
    };
    for (size_t round = 0; round < kStateWords; ++round)
      mix(1664525, key);
    for (size_t round = 1; round < kStateWords; ++round)
      mix(1566083941, 0 - static_cast<uint32_t>(i));
    state[0] = 0x80000000;
    std::copy_n(state.begin(), last - first, first);
  }

  uint32_t key = 0;
};

std::mt19937 EngineOf(uint32_t seed) {
  KeySequence sequence{.key = seed};
  return std::mt19937(sequence);
}

}  // namespace

PythonRandom::PythonRandom(uint32_t seed) : engine_(EngineOf(seed)) {}

double PythonRandom::Random() {
  const uint64_t high = engine_() >> 5;
  const uint64_t low = engine_() >> 6;
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

int64_t PythonRandom::Range(int64_t lower, int64_t upper) {
  COPPICE_CHECK(lower < upper && upper - lower <= UINT32_MAX, "a range of 1 to 2^32 - 1");
  const auto range = static_cast<uint32_t>(upper - lower);
  for (;;) {
    const auto drawn = static_cast<uint32_t>(engine_() >> std::countl_zero(range));
    if (drawn < range) return lower + drawn;
  }
}

double PythonRandom::Exponential(double rate) {
  return -std::log(1.0 - Random()) / rate;
}

// Kinderman and Monahan's ratio of uniforms.
double PythonRandom::LogNormal(double mean, double spread) {
  static const double kWidth = 4 * std::exp(-0.5) / std::numbers::sqrt2;
  for (;;) {
    const double first = Random();
    const double second = 1.0 - Random();
    const double normal = kWidth * (first - 0.5) / second;
    if (normal * normal / 4.0 <= -std::log(second)) return std::exp(mean + normal * spread);
  }
}

}  // namespace coppice
