// Accumulators of products of matrices, as registers hold them.
//
// Threads: as Warp.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "runtime/emulator/ptx/forms/matrix_elements.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {

inline constexpr uint8_t kSatfinite = 1;  // Of the flags of an instruction.

// Accumulators, by tiles of 8 rows and 8 columns: lane 4 g + t has columns 2 t and 2 t + 1 of row
// g, in one register or two. What Load gives is what products are added to.
struct F32Sums {
  static constexpr const char* kName = "f32";
  static constexpr bool kOfIntegers = false;
  static constexpr int kRegisters = 2;

  static void Load(const Warp& warp, const Slot* slots, float* tile) {
    const float* const even = warp.From<float>(slots[0]);
    const float* const odd = warp.From<float>(slots[1]);
    for (int lane = 0; lane < kLanes; ++lane) {
      tile[2 * lane] = even[lane];
      tile[2 * lane + 1] = odd[lane];
    }
  }
  static void Store(Warp& warp, const Slot* slots, const Slot*, const float* tile, uint8_t) {
    float* const even = warp.To<float>(slots[0]);
    float* const odd = warp.To<float>(slots[1]);
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) {
      even[lane] = tile[2 * lane];
      odd[lane] = tile[2 * lane + 1];
    }
  }
};

struct F16Sums {
  static constexpr const char* kName = "f16";
  static constexpr bool kOfIntegers = false;
  static constexpr int kRegisters = 1;

  static void Load(const Warp& warp, const Slot* slots, float* tile) {
    UnpackRows<ElementF16>(warp.From<uint32_t>(slots[0]), tile);
  }
  static void Store(Warp& warp, const Slot* slots, const Slot*, const float* tile, uint8_t) {
    std::array<uint16_t, 64> halves;
    for (size_t i = 0; i < halves.size(); ++i)
      halves[i] = static_cast<uint16_t>(Narrow<F16>(tile[i]));
    std::memcpy(warp.To<uint32_t>(slots[0]), halves.data(), sizeof(halves));
  }
};

// Sums of products are below 2^24, those with C wrap or saturate.
struct S32Sums {
  static constexpr const char* kName = "s32";
  static constexpr bool kOfIntegers = true;
  static constexpr int kRegisters = 2;

  static void Load(const Warp&, const Slot*, float* tile) { std::fill_n(tile, 64, 0.0F); }
  static void Store(
      Warp& warp, const Slot* slots, const Slot* added, const float* tile, uint8_t flags) {
    for (int odd = 0; odd < 2; ++odd) {
      const int32_t* const c = warp.From<int32_t>(added[odd]);
      int32_t* const d = warp.To<int32_t>(slots[odd]);
      for (int lane = 0; lane < kLanes; ++lane) {
        const int64_t sum = int64_t{c[lane]} + static_cast<int32_t>(tile[2 * lane + odd]);
        d[lane] = (flags & kSatfinite) != 0 ? Saturated(sum) : static_cast<int32_t>(sum);
      }
    }
  }

 private:
  static int32_t Saturated(int64_t sum) {
    constexpr int64_t kMin = std::numeric_limits<int32_t>::min();
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(std::clamp(sum, kMin, kMax));
  }
};

// Calls a function with a value of each type.
template <typename... Types>
struct List {
  template <typename Of>
  static void Each(const Of& of) {
    (of(Types()), ...);
  }
};

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
