// The command line of `coppice bench`.
//
// Threads: one at a time per process.

#pragma once

#include "CLI/CLI.hpp"

#include "tools/bench/bench.h"
#include "tools/support/console.h"

namespace coppice {

struct BenchOptions {
  BenchDispatchOptions dispatch;
  BenchRecordOptions record;
  BenchPoolOptions pool;
  BenchStepsOptions steps;
  BenchBucketsOptions buckets;
  BenchDecodeOptions decode;
  BenchSuspendOptions suspend;
};

// Declares the subcommands of `app`, which write to `options`.
void AddBench(CLI::App& app, BenchOptions& options);

// Runs the one that was parsed.
ExitCode RunBench(const CLI::App& app, const BenchOptions& options, const Console& console);

}  // namespace coppice
