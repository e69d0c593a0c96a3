// Floats of 32 and 64 bits as PTX has them: .ftz, .sat, and the NaN that arithmetic gives.
//
// Threads: pure functions.

#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace coppice::ptx {

template <typename F>
using BitsOf = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;

template <typename F>
struct FloatBits;
template <>
struct FloatBits<float> {
  static constexpr uint32_t kSign = 0x80000000;
  static constexpr uint32_t kInfinity = 0x7f800000;
  static constexpr uint32_t kNaN = 0x7fffffff;  // What arithmetic gives, whatever NaN it reads.
};
template <>
struct FloatBits<double> {
  static constexpr uint64_t kSign = 0x8000000000000000;
  static constexpr uint64_t kInfinity = 0x7ff0000000000000;
  static constexpr uint64_t kNaN = 0x7fffffffffffffff;
};

template <typename F>
[[gnu::always_inline]] inline BitsOf<F> ToBits(F value) {
  return std::bit_cast<BitsOf<F>>(value);
}

template <typename F>
[[gnu::always_inline]] inline F FromBits(BitsOf<F> bits) {
  return std::bit_cast<F>(bits);
}

template <typename F>
[[gnu::always_inline]] inline F Abs(F value) {
  return FromBits<F>(ToBits(value) & ~FloatBits<F>::kSign);
}

template <typename F>
[[gnu::always_inline]] inline bool IsNaN(F value) {
  return (ToBits(value) & ~FloatBits<F>::kSign) > FloatBits<F>::kInfinity;
}

template <typename F>
[[gnu::always_inline]] inline F Canonical(F value) {
  return value != value ? FromBits<F>(FloatBits<F>::kNaN) : value;
}

// A subnormal becomes a zero of its sign.
template <typename F>
[[gnu::always_inline]] inline F Flush(F value) {
  const BitsOf<F> bits = ToBits(value);
  const BitsOf<F> sign = bits & FloatBits<F>::kSign;
  return FromBits<F>((bits & FloatBits<F>::kInfinity) == 0 ? sign : bits);
}

template <bool ftz, typename F>
[[gnu::always_inline]] inline F FlushIf(F value) {
  if constexpr (ftz) return Flush(value);
  return value;
}

// Into [0, 1]; NaN becomes 0.
template <typename F>
[[gnu::always_inline]] inline F Saturate(F value) {
  const F above = value > 0 ? value : 0;
  return above < 1 ? above : 1;
}

// What an instruction gives of a rounded result.
template <bool ftz, bool sat>
[[gnu::always_inline]] inline float Finish(float value) {
  const float flushed = FlushIf<ftz>(value);
  if constexpr (sat) return Saturate(flushed);
  return Canonical(flushed);
}

// PTX leaves the NaN of a 64-bit operation open; the host's is as good.
template <bool ftz, bool sat>
[[gnu::always_inline]] inline double Finish(double value) {
  static_assert(!ftz && !sat);
  return value;
}

// of(...) with .ftz and .sat.
template <auto of, bool ftz, bool sat>
struct Modified;
template <typename F, typename... S, F (*of)(S...), bool ftz, bool sat>
struct Modified<of, ftz, sat> {
  [[gnu::always_inline]] static F Of(S... from) {
    return Finish<ftz, sat>(of(FlushIf<ftz>(from)...));
  }
};

}  // namespace coppice::ptx
