// `coppice bench`: what coppice itself costs, apart from the driver.
//
// Units: bytes; nanoseconds, microseconds and milliseconds as named. Threads: one at a time per
// process.

#pragma once

#include <cstdint>
#include <string>

#include "tools/support/console.h"
#include "tools/support/device.h"

namespace coppice {

struct DispatchOptions {
  int64_t iterations = 200'000;  // Calls timed per case. >= 1.
  bool json = false;
  // This program, to be run again under valgrind where instructions cannot be counted otherwise;
  // empty: do not.
  std::string program;
  // "CASE:run:COUNT" or "CASE:raw:COUNT": makes COUNT calls and prints nothing; what valgrind sees.
  std::string probe;
};

// `bench dispatch`: Session::Run minus the same raw driver calls, on a driver that returns at once.
ExitCode BenchDispatch(const DispatchOptions& options, const Console& console);

struct RecordOptions {
  int64_t iterations = 64;  // Graphs recorded. In [1, 1024].
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// `bench record`: recording a graph of 100 kernels, and the driver's part in it.
ExitCode BenchRecord(const RecordOptions& options, const Console& console);

struct PoolOptions {
  std::string families;  // A folder of families; empty: the built-in ones.
  bool json = false;
};

// `bench pool`: how high an arena becomes that every bucket of a family shares, in each of several
// orders of recording, and how long planning takes.
ExitCode BenchPool(const PoolOptions& options, const Console& console);

}  // namespace coppice
