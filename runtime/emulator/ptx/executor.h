// What the emulator asks of the executor. A program that links coppice::ptx has one; any other runs
// kernels that are host code, and refuses PTX when it is loaded.
//
// COPPICE_PTX_COUNTS in the environment names a file to which each launch appends a line: kernel,
// instructions of warps, instructions of threads, bytes of global memory that were read, and that
// were written, apart by tabs.
//
// Threads: any thread.

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/program.h"

namespace coppice::ptx {

struct Executor {
  absl::StatusOr<std::unique_ptr<Program>> (*build)(std::string text);  // Program::Build
  Outcome (*run)(const Launch& launch, const Environment& environment);
  std::string (*describe)(const Finding& finding);
};

}  // namespace coppice::ptx

// At no address where coppice::ptx is not linked.
extern "C"
    [[gnu::weak, gnu::visibility("hidden")]] const coppice::ptx::Executor coppice_ptx_executor;
