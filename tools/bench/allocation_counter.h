// Counts the heap allocations of a thread, so that "no allocation on a replay" is a measurement.
//
// Linking this file replaces the global operator new and delete of the program.
//
// Threads: each counts its own.

#pragma once

#include <cstdint>

namespace coppice {

// Calls of operator new on this thread so far.
int64_t AllocationCount();

}  // namespace coppice
