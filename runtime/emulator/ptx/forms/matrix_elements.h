// Elements of matrices as registers hold them, and how a register becomes floats.
//
// A register of a fragment is 32 words, one per lane. In the figures of the PTX ISA for mma, lane
// 4 g + t holds row g (of B: column g), and there the elements from t times those of a word on: the
// words in a row are 8 rows of a tile, one after the other.
//
// What takes elements of fewer than 32 bits is computed in floats: products of two elements are
// exact in them, and so are sums of integers, which stay below 2^24.
//
// Threads: pure functions.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/forms/narrow_format.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {

// Bits of an element, its name in opcodes, and its value.
template <typename Float, int bits>
struct FloatElement {
  static constexpr int kBits = bits;
  static float Value(uint32_t raw) { return Widen<Float>(raw); }
};
template <bool is_signed, int bits>
struct IntegerElement {
  static constexpr int kBits = bits;
  static float Value(uint32_t raw) {
    const uint32_t high = raw << (32 - bits);
    return is_signed ? static_cast<float>(static_cast<int32_t>(high) >> (32 - bits))
                     : static_cast<float>(static_cast<int32_t>(high >> (32 - bits)));
  }
};

struct ElementF16 : FloatElement<F16, 16> {
  static constexpr const char* kName = "f16";
};
struct ElementBF16 : FloatElement<BF16, 16> {
  static constexpr const char* kName = "bf16";
};
// In a float, whose last 13 bits nobody looks at.
struct ElementTF32 {
  static constexpr const char* kName = "tf32";
  static constexpr int kBits = 32;
  static float Value(uint32_t raw) { return FromBits<float>(raw & ~uint32_t{0x1fff}); }
};
struct ElementE4M3 : FloatElement<E4M3, 8> {
  static constexpr const char* kName = "e4m3";
};
struct ElementE5M2 : FloatElement<E5M2, 8> {
  static constexpr const char* kName = "e5m2";
};
struct ElementS8 : IntegerElement<true, 8> {
  static constexpr const char* kName = "s8";
};
struct ElementU8 : IntegerElement<false, 8> {
  static constexpr const char* kName = "u8";
};
struct ElementS4 : IntegerElement<true, 4> {
  static constexpr const char* kName = "s4";
};
struct ElementU4 : IntegerElement<false, 4> {
  static constexpr const char* kName = "u4";
};

template <typename Element>
inline constexpr int kPerWord = 32 / Element::kBits;

// Words as elements of so many bits.
template <int bits>
auto RawOf(const uint32_t* words) {
  using Halves [[gnu::may_alias]] = uint16_t;
  using Bytes [[gnu::may_alias]] = uint8_t;
  if constexpr (bits == 8) {
    return reinterpret_cast<const Bytes*>(words);
  } else if constexpr (bits == 16) {
    return reinterpret_cast<const Halves*>(words);
  } else {
    return words;
  }
}

// Word t of 4 columns g, at 4 g + t, goes to 8 t + g.
inline void Transpose(const uint32_t* words, uint32_t* to) {
  using Quad [[gnu::vector_size(16), gnu::may_alias]] = uint32_t;
  const Quad* const q = reinterpret_cast<const Quad*>(words);
  Quad* const rows = reinterpret_cast<Quad*>(to);
  const Quad low01 = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
  const Quad low23 = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
  const Quad high01 = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
  const Quad high23 = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
  rows[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  rows[2] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  rows[4] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  rows[6] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

// Tiles as floats, of which a lane's word has kPerWord elements. Loops go over whole registers, so
// that they become vector code.
//
// Rows: element i of row g at 4 kPerWord g + i.
template <typename Element>
[[gnu::noinline]] void UnpackRows(const uint32_t* words, float* to) {
  constexpr int kCount = kLanes * kPerWord<Element>;
  if constexpr (Element::kBits >= 8) {
    const auto* const raw = RawOf<Element::kBits>(words);
#pragma GCC ivdep
    for (int i = 0; i < kCount; ++i)
      to[i] = Element::Value(raw[i]);
  } else {
    for (int i = 0; i < kCount; ++i)
      to[i] =
          Element::Value(words[i / kPerWord<Element>] >> i % kPerWord<Element> * Element::kBits);
  }
}

// Columns: element kPerWord t + i of column g at 32 i + 8 t + g.
template <typename Element>
[[gnu::noinline]] void UnpackColumns(const uint32_t* words, float* to) {
  constexpr uint32_t kMask = ~uint32_t{0} >> (32 - Element::kBits);
  alignas(32) std::array<uint32_t, kLanes> across;
  Transpose(words, across.data());
  Transpose(words + 16, across.data() + 4);
  for (int i = 0; i < kPerWord<Element>; ++i) {
#pragma GCC ivdep
    for (int j = 0; j < kLanes; ++j)
      to[kLanes * i + j] = Element::Value(across[j] >> (i * Element::kBits) & kMask);
  }
}

// Adds products to 8 columns of sums, row by row: sums[m][n] += a[m][k] * b[k][n]. `a` has tiles of
// `per_word` elements, those of the same k together, `b` those of one column of tiles. All begin at
// multiples of 32 bytes.
template <int rows, int depth, int per_word>
[[gnu::noinline]] void MultiplyAdd(const float* a, const float* b, float* sums) {
  using Row [[gnu::vector_size(32), gnu::may_alias]] = float;
  constexpr int kDeep = 4 * per_word;
  for (int m = 0; m < rows; m += 8) {
    Row* const totals = reinterpret_cast<Row*>(sums) + m;
    Row total[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
      total[i] = totals[i];
    for (int k = 0; k < depth; k += kDeep) {
      const float* const tile = a + k * rows + m * kDeep;
      const Row* const columns = reinterpret_cast<const Row*>(b) + k;
      for (int j = 0; j < kDeep; ++j) {
        const Row column = columns[j % per_word * 4 + j / per_word];
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i)
          total[i] += tile[i * kDeep + j] * column;
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
      totals[i] = total[i];
  }
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
