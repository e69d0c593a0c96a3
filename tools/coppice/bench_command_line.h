// The command line of `coppice bench`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/bench/bench.h"
#include "tools/support/command.h"
#include "tools/support/console.h"

namespace coppice {

struct BenchOptions {
  BenchDispatchOptions dispatch;
  BenchRecordOptions record;
  BenchPlanOptions plan;
  BenchPoolOptions pool;
  BenchStepsOptions steps;
  BenchBucketsOptions buckets;
  BenchDecodeOptions decode;
  BenchSuspendOptions suspend;
  BenchPtxOptions ptx;
  BenchPythonOptions python;
  BenchTuneOptions tune;
};

// Declares the subcommands of `command`, which write to `options`.
void AddBench(Command& command, BenchOptions& options);

// Runs the one that was parsed.
ExitCode RunBench(const Command& command, const BenchOptions& options, const Console& console);

}  // namespace coppice
