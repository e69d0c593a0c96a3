// What is checked of calls of client entries before they run.
//
// Threads: constants.

#pragma once

#include "runtime/emulator/admission.h"

namespace coppice::emulated_cuda {

using emulator::Admission;
using emulator::EntryId;

inline constexpr Admission kAnytime = {.init = false, .context = false};
inline constexpr Admission kDriver = {.context = false};
inline constexpr Admission kContext = {};
inline constexpr Admission kRelease = {.releases = true};
// Captures forbid them as they forbid allocations.
inline constexpr Admission kUnsafe = {.as = EntryId::kMemAlloc};
inline constexpr Admission kUnsafeRelease = {.releases = true, .as = EntryId::kMemFree};

}  // namespace coppice::emulated_cuda
