// What `coppice package run` prints.
//
// Units: bytes, elements. Threads: plain values.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coppice/graphs/session_stats.h"

#include "tools/package/program_runner.h"

namespace coppice {

struct RanCall {
  int64_t set = 0;  // From 1, as calls.
  int64_t call = 0;
  std::vector<int64_t> extents;
  RunOutcome outcome;  // Without its arrays.
};

struct KernelChosen {
  std::string kernel;
  std::string variant;
  std::string module;
  std::string arch;
  std::string fit;
  std::string why;
  std::string source;  // Of the front end; empty: not known.
};

struct PackageRunReport {
  std::string path;
  std::string sha256;
  std::string program;
  std::string device;
  std::string device_kind;
  std::vector<std::string> symbols;
  std::vector<KernelChosen> kernels;
  std::vector<RanCall> calls;
  std::vector<NodeInfo> nodes;
  std::vector<KernelVariant> variants;  // Of kernels that have several.
  int64_t pool_bytes = 0;               // Height of the pool.
  int64_t pool_mapped = 0;              // Mapped under the plan windows.
  int64_t compared = 0;                 // Arrays held to their reference.
  std::vector<std::string> mismatches;
  std::vector<std::string> findings;  // Of the emulator.
  std::string fault;                  // That ended the device; empty: none.
  std::vector<std::string> files;     // Written.
};

// Which target each kernel took that the program runs.
std::vector<KernelChosen> ChosenTargets(const package::LoadedPackage& loaded, int program);

std::string FormatReport(const PackageRunReport& report);
std::string FormatReportJson(const PackageRunReport& report);

}  // namespace coppice
