// `coppice soak`: one session for a long time. Every call is checked and memory is watched.
//
//   warm      every bucket of two programs is recorded; what is held from here on is the start
//   traffic   the first program: a graph per bucket, so that every call replays
//   churn     the second: twice as many buckets as it may have graphs, so that about every other
//             call drops a graph and records one; and rounds of all that comes and goes
//   traffic   the first program's graphs again
//
// A round binds another address, warms up and records a bucket of a key scalar of its own, ends the
// binding, and fails to include a program that has breaks. As many inclusions succeed, in sessions
// that end, because their memory is theirs as long as the session lives. Of what ends, a session
// keeps the last 1024 (bindings, and buckets without a graph), so that as many rounds are warm
// ones.
//
// Extents, inputs and salts are drawn anew for every call. Programs compute on integers in a chain
// of temporaries that lie on each other's bytes (soak_kernels.h); the host computes the same, and
// compares every word. Calls are queued in batches: each output is copied aside on the device
// before the next call may write over it, and the copies come to the host once per batch.
//
// Units: bytes; counts are of calls. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/stream.h"

#include "tools/support/console.h"
#include "tools/support/device.h"

namespace coppice {

struct SoakOptions {
  int64_t replays = 0;    // Calls of the first program; 0: 1,000,000 on CUDA, 20,000 on the host.
  int64_t records = 0;    // Graphs recorded during the churn; 0: 10,000 on CUDA, 500 on the host.
  int64_t buckets = 64;   // Of the first program; the second has twice as many. In [1, 1024].
  int64_t rounds = 1000;  // Of what comes and goes.
  uint64_t seed = 1;
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// What was held at one point, with nothing in flight.
struct SoakMemory {
  int64_t replays = 0;  // So far, of the figures below.
  int64_t records = 0;
  int64_t rounds = 0;
  int64_t own_bytes = 0;          // By the session's books.
  int64_t driver_free_bytes = 0;  // Of the device, as the driver says.
  int64_t host_rss_bytes = 0;     // Of this process.
  int64_t host_heap_bytes = 0;    // Allocated and not freed, as malloc says; 0 under sanitizers.
};

struct SoakReport {
  int64_t replays = 0;  // Calls after the warm phase that replayed ...
  int64_t records = 0;  // ... and recorded.
  int64_t evictions = 0;
  int64_t without_graph = 0;          // Of the churn, because every graph was in flight.
  int64_t rounds = 0;                 // Of what comes and goes, but for the warm ones.
  int64_t checked = 0;                // Calls whose output was compared, the warm phase's too, but
                                      // for those of rounds, all of which are.
  int64_t mismatches = 0;             // Calls whose output was wrong, or that had to fail.
  int64_t strays = 0;                 // Calls of the traffic that did not replay.
  std::vector<std::string> findings;  // The first few of those, one line each.
  std::vector<SoakMemory> memory;     // At the start, and after every 20th part of the work.
  bool stopped = false;               // Before the work was done.
};

// The output for an input and a salt.
std::vector<uint32_t> SoakAnswer(std::span<const uint32_t> input, uint32_t salt);

// One line per figure of memory that grew: whose most in the last quarter of the points is more
// than its most in the first quarter, by more than its slack:
//
//                 emulator    CUDA
//   session's     0           0
//   device's      0           2 MiB     a driver takes memory for itself in such pieces
//   process's     8 MiB       8 MiB     malloc and the system round, and keep what was freed
//   heap's        64 KiB      8 MiB     the driver's own allocations are in it
//
// Requires: not empty (checked).
std::vector<std::string> FindGrowth(std::span<const SoakMemory> points, bool cuda);

// Called after every batch of calls with (done, total); false ends the soak there. Null: nobody.
using SoakProgress = std::function<bool(int64_t done, int64_t total)>;

// Runs all phases in a session of their own, or as far as `progress` lets them go. Requires:
// replays, records and buckets are >= 1; with 0 rounds, none is warm either. Errors: the driver's,
// as Session::Run; kInternal if the system does not say what the process holds.
absl::StatusOr<SoakReport> RunSoak(const Context& context,
                                   const SoakOptions& options,
                                   const SoakProgress& progress);

// The command. Ends with kExitMismatch if a call was wrong or did not replay where it must, if
// memory grew, or if the emulator found accesses that nothing orders; with kExitStopped if it was
// to stop, whatever it had found.
ExitCode SoakCommand(const SoakOptions& options, const Console& console);

}  // namespace coppice
