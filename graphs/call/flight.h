// The stage that tells the flight recorder of a call. Private to graphs/.
//
// Threads: under the lane's lock. Requires of all: the lane has a recorder.

#pragma once

#include <span>

#include "coppice/base/tensor.h"

#include "graphs/call/request.h"
#include "graphs/flight/flight_entry.h"
#include "graphs/lane/lane.h"
#include "graphs/node/input_layout.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// What a run has besides its request.
struct Flight {
  const FlightShape& shape;  // What EntryShape makes of the layout.
  const InputLayout& layout;
  const ExtentArray& extents;  // That it runs with.
  const Outcome& outcome;
};

// The shape of entries of runs with this layout.
FlightShape EntryShape(const Program& program, const InputLayout& layout);

// Enters a call whose inputs are staged and whose work is not submitted yet, and queues the copies
// of what it was given. Null: the ring has no room for it, or copies may take no more time. Cost:
// one driver call if the call stages, and one for each static input that is recorded. No
// allocation.
FlightEntry* BeginFlight(const SessionParts& parts,
                         const Request& request,
                         Lane& lane,
                         const Flight& flight);

// Its work was submitted; queues the copies of its outputs, if they are recorded.
void EndFlight(const SessionParts& parts,
               const Request& request,
               Lane& lane,
               std::span<const Tensor> outputs,
               FlightEntry* entry);

}  // namespace coppice::internal
