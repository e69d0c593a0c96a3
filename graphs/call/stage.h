// Staging: what one call puts into its lane's staging window. Private to graphs/.
//
// Threads: Stage under the lane's lock; the others are pure functions.

#pragma once

#include <span>

#include "absl/status/status.h"

#include "coppice/graphs/call.h"
#include "coppice/graphs/staging.h"

#include "graphs/call/call_shape.h"
#include "graphs/call/request.h"
#include "graphs/node/input_layout.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Fills in what differs from call to call: the words, the sources and the real elements.
void FillStaging(const Call& call,
                 const CallShape& shape,
                 const Generator::State& random,
                 InputLayout& layout);

// Overrides every fill that the claims of the symbols let it which pad the input in this call: an
// element may be padding of several. Noise is drawn from `seed`, another one for each input.
void ApplyPoison(const Call& call,
                 uint64_t seed,
                 const InputLayout& layout,
                 StagingArguments& arguments);

// Replaces every input of the call by zeros, at full extents, and all sequences by empty ones;
// bound inputs come from `binding`.
void ApplyZeros(const Binding* binding,
                std::span<const InputLayout::Source> sources,
                StagingArguments& arguments);

// Fills the staged inputs and the parameter block of a run, on the call's stream, and takes its
// random numbers, which a call that was refused before does not. Errors: the driver's.
absl::Status Stage(const SessionParts& parts,
                   const Request& request,
                   Lane& lane,
                   InputLayout& layout);

// Gives back what the call under way took, which failed, unless it ran and failed behind that.
void GiveBackRandomNumbers(Lane& lane);

}  // namespace coppice::internal
