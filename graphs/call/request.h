// One call on its way: what its stages found out about it so far. Private to graphs/.
//
//   check ─► place ─► find ─┬─► replay ──────────────────────┬─► deliver
//                           └─► decide ─► warm up / record / ┘
//                                         run eagerly
//
// A stage is a header of its own in this folder; run.h joins them.
//
// Threads: on one thread, from place on under the lane's lock.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "coppice/graphs/call.h"
#include "coppice/graphs/reason.h"

#include "graphs/call/call_shape.h"
#include "graphs/node/surroundings.h"
#include "graphs/program/program.h"

namespace coppice::internal {

struct Request {
  // No aggregate: the compiler would clear all of the shape first.
  explicit Request(const Call& of) : call(of) {}
  Request(const Call& of, const CallShape& its_shape) : call(of), shape(its_shape) {}

  const Call& call;
  CallShape shape;
  const StaticVersion* statics = nullptr;
  const Surroundings* around = nullptr;  // What it is planned around as a child; null: a root.
  bool known_place = true;               // That is interned; else no node was planned around it.
  const Surroundings* surroundings = nullptr;  // The interned equal; null if that is empty.

  bool child() const { return around != nullptr; }
  int filled = 0;      // Inputs that are staged for their padding alone.
  uint64_t began = 0;  // Ticks of a TraceClock; 0: the call's host time is not taken.
};

// What a call is, and why it is no replay.
struct Outcome {
  RunKind kind = RunKind::kReplay;
  Reason reason = Reason::kNone;
};

// What a call is going to do.
struct Decision {
  absl::Status status;  // What refuses it.
  Outcome outcome;
  bool evict = false;      // Another graph must go first.
  bool at_bucket = false;  // An eager run at the padded extents, as other ranks have it.
};

}  // namespace coppice::internal
