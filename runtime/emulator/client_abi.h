// The part of CUDA's driver ABI that only other clients use: results, flags and structs of entries
// that coppice does not call. cuda_abi.h has the rest, and says what holds of both.
//
// Source of the facts: cuda.h of CUDA 13.0. Threads: types only.

#pragma once

#include "coppice/runtime/cuda_abi.h"

namespace coppice::emulator {

inline constexpr CuResult kUnsupportedLimit{215};
inline constexpr CuResult kPeerAccessUnsupported{217};
inline constexpr CuResult kPrimaryContextActive{708};
inline constexpr CuResult kHostMemoryAlreadyRegistered{712};
inline constexpr CuResult kHostMemoryNotRegistered{713};

// Streams that no call creates. Null and kLegacyStream are one.
inline constexpr uintptr_t kLegacyStream = 1;
inline constexpr uintptr_t kPerThreadStream = 2;

inline constexpr int kPriorityGreatest = -5;  // Of a stream; 0 is the least.

}  // namespace coppice::emulator
