// What a session had mapped and what its calls held, step by step.
//
// A trace tells bytes by kind and leases by output, but no device addresses. So each kind of memory
// gets a range of addresses of its own, of which the session has so many bytes from the start. On
// one lane, outputs that calls hold lie in the range of the plan windows where the node's plan
// says; the windows of several lanes share that range, in which outputs lie where there is room.
//
// Units: bytes, nanoseconds. Threads: plain values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/prof/export/traced_session.h"

namespace coppice {

enum class HistoryAction : uint8_t {
  kMap,    // The kind has `bytes` from here on, from its first address on ...
  kUnmap,  // ... and this is what it had before. A kind that grows is unmapped and mapped again.
  kHold,   // Somebody holds an output ...
  kDrop,   // ... and nobody does, something wrote over it, or its bytes went elsewhere.
};

struct HistoryStep {
  HistoryAction action = HistoryAction::kMap;
  MemoryKind memory = MemoryKind::kPlan;
  int lane = -1;        // Of the holds.
  int node = -1;        // Of the holds: place in PoolTrace::nodes.
  int64_t call = 0;     // Of the holds.
  int64_t output = -1;  // Of the holds.
  size_t buffer = 0;    // Of the holds: of the node.
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t time_ns = 0;
};

struct MemoryHistory {
  std::vector<HistoryStep> steps;
  int64_t unplaced = 0;   // Outputs that were held, but at no time within what was mapped.
  int64_t elsewhere = 0;  // Leases of runs without a graph: of unknown size, in another kind.
};

// The first address of a kind.
int64_t AddressOf(MemoryKind kind);

// Cost: O(events log held outputs).
MemoryHistory HistoryOf(const TracedSession& session);

}  // namespace coppice
