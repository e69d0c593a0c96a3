// What work finds when it runs, and what comes of it.
//
// Threads: plain values.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coppice/runtime/cuda_abi.h"
#include "coppice/runtime/kernel_finding.h"

#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/work.h"

namespace coppice::emulator {

struct Surroundings {
  uint64_t draw = 0;  // A random number, of which the order of blocks comes; 0: the natural order.
  // For a kernel's PTX:
  std::span<const ptx::MemoryRange> memory;  // Of the device, ascending.
  ptx::Checks checks;
  std::function<bool(uint64_t begin, uint64_t end)> written;  // As ptx::Environment's.
  ptx::Taint* taint = nullptr;
  int64_t now_us = 0;
};

// What ends the context.
struct Fault {
  CuResult result = CuResult::kIllegalAddress;
  std::string text;
  std::optional<KernelFinding> kernel = {};  // Of a kernel's PTX.
};

struct Outcome {
  std::optional<Fault> fault;
  // Of a kernel's PTX: what else is wrong with it, and what it has touched of global memory.
  std::vector<KernelFinding> findings;
  std::vector<TouchedBytes> touched;
};

Fault DescribeFault(const char* what, uint64_t address);

}  // namespace coppice::emulator
