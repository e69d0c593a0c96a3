// `coppice ptx`: what a PTX module holds, and one of its kernels run alone.
//
// Kernels run on the emulator's executor of PTX, without a driver, on memory of this process; equal
// seeds give equal runs, but for addresses.
//
// Units: bytes. Threads: one at a time per process.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "runtime/emulator/ptx/launch.h"
#include "tools/support/console.h"

namespace coppice {

// Of the largest block that there is, on an H200.
inline constexpr int64_t kBlockSharedBytesMax = int64_t{227} * 1024;

using LaunchExtents = std::array<unsigned, 3>;

// "64", "64,2" or "64,2,3": whole numbers from 1. Errors: kInvalidArgument, as below.
absl::StatusOr<LaunchExtents> ParseLaunchExtents(const std::string& text);

// A whole number from 0 to kBlockSharedBytesMax.
absl::StatusOr<int64_t> ParseSharedBytes(const std::string& text);

// "all", "none", or some of "races", "uninitialized" and "record", with commas between.
absl::StatusOr<ptx::Checks> ParseChecks(const std::string& text);

struct PtxCheckOptions {
  std::string file;
  bool json = false;
};

struct PtxRunOptions {
  std::string file;
  std::string kernel;
  std::vector<std::string> arguments;  // As tools/ptx/kernel_argument.h has them.
  std::optional<LaunchExtents> grid;   // Must be there, both.
  std::optional<LaunchExtents> block;
  int64_t shared_bytes = 0;  // Dynamic.
  uint64_t seed = 1;
  ptx::Checks checks = {.uninitialized = true};
  bool cooperative = false;
  bool json = false;
  // "INDEX=MASK.npy": which elements of the array of an argument are padding. None: nobody asks.
  std::vector<std::string> padding;
  std::string reached;  // A folder for which elements of each output padding reached; empty: none.
};

// Lists the kernels of a file. Returns kExitMismatch if one of them would be refused; kExitUsage
// for a file that cannot be read, or is no PTX.
ExitCode PtxCheck(const PtxCheckOptions& options, const Console& console);

// Runs one kernel, writes its outputs, and prints what it did and what is wrong with it. Returns
// kExitDevice if something is; kExitUsage for a file, a kernel, a shape or arguments that do not
// fit, before anything runs; kExitOutput if a file cannot be written.
ExitCode PtxRun(const PtxRunOptions& options, const Console& console);

// What both share.

// "FILE:12: what; what to do" of an error of ptx::Program.
absl::Status AtFile(const std::string& file, const absl::Status& status);

// The object as text of two spaces per level, ending in a newline.
std::string FormatJson(const nlohmann::ordered_json& json);

}  // namespace coppice
