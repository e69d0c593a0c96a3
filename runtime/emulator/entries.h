// The driver entries: `cuX` is the function `X`, defined in one of the files *_entries.cc.
//
// Admission has taken the emulator's mutex and checked initialisation, sticky errors, the context
// and null graphs before an entry runs.
//
// Threads: under the emulator's mutex.

#pragma once

#include <cstdint>

#include "coppice/runtime/cuda_abi.h"

namespace coppice::emulator {

#define X(member, version, parameters) CuResult member parameters;
#include "coppice/runtime/driver_entries.inc"
#undef X

enum class EntryId : uint8_t {
#define X(member, version, parameters) k##member,
#include "coppice/runtime/driver_entries.inc"
#undef X
};

}  // namespace coppice::emulator
