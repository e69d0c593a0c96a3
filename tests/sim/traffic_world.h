// A world in which a script happens: a session on an emulator of its own, and beside it a model
// that knows nothing of graphs, lanes or windows, only what every output must be.
//
// Every call is computed twice. Outputs are read now, later or never, on any stream; whatever can
// be read must be equal bit for bit. The model also knows what no call may refuse: a lease that
// nothing may have written over must be readable, and a call must run unless something in the
// contract allows it to fail, such as an open scope, a stale input, or a fault that was injected.
// Memory comes and goes meanwhile: the books must be those of the driver's ledger and keep the
// budget, and what is refused for want of room must want it with all that is idle gone.
//
// Threads: one world at a time in a process.

#pragma once

#include "coppice/graphs/session.h"

#include "tests/sim/traffic_script.h"

namespace coppice {

// What the world gets wrong on purpose, so that the search for small scripts has something to find.
enum class PlantedDefect : uint8_t {
  kNone,
  kChainAfterSwap,  // A call in a chain whose static tensors are others than last time.
  kAbort,           // The same ends the process.
};

struct TrafficReport {
  std::string failure;  // What went wrong first, as "kind: text" and where; empty if nothing did.
  SessionStats stats;
  int64_t outputs_compared = 0;
  int64_t calls_refused = 0;  // As the contract has it.
  int64_t reads_refused = 0;  // Because the outputs were written over.
  int64_t faults = 0;         // Calls that failed because of one.
  int64_t suspensions = 0;    // And resumptions.
  int64_t loans = 0;
  int64_t scrubs = 0;
  int64_t external_changes = 0;
  int64_t memory_refused = 0;  // Any of these, as the contract has it.
  int64_t budget_refused = 0;  // Calls for which there was no room.
  int64_t swaps = 0;           // Of ladders.
};

// Runs a script.
TrafficReport RunTraffic(const TrafficScript& script, PlantedDefect planted = PlantedDefect::kNone);

// The same in a process of its own, so that an abort is a failure like any other. Returns that.
std::string RunTrafficApart(const TrafficScript& script,
                            PlantedDefect planted = PlantedDefect::kNone);

}  // namespace coppice
