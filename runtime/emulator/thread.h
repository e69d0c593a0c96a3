// What the emulator remembers of a thread.
//
// Threads: each has its own.

#pragma once

#include <cstdint>
#include <vector>

#include "coppice/runtime/cuda_abi.h"

namespace coppice::emulator {

struct ThreadState {
  uint64_t id = 0;        // Unique among threads, ever.
  uint64_t emulator = 0;  // Whose the other fields are; the next emulator finds the defaults.
  std::vector<CuContext> contexts;  // The last is the current one.
  CuCaptureMode mode = CuCaptureMode::kGlobal;
  bool runs_host_code = false;  // As work: a host function, or a kernel that is host code.

  // The current context, or null.
  CuContext context() const { return contexts.empty() ? nullptr : contexts.back(); }
};

// The calling thread, as the present emulator knows it.
ThreadState& ThisThread();

// Makes every thread one of which nothing is remembered, as the next emulator needs it.
void ForgetThreads();

}  // namespace coppice::emulator
