// The second stage of a call: where its inputs lie, and what its graph is planned around. Private
// to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/program.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"

namespace coppice::internal {

// Whether a program can take a part of an output as an input where it lies.
enum class Fit : uint8_t {
  kInPlace,
  kNeedsFill,  // But for its padding, which is what its producer left there.
  kNoFit,      // It lies otherwise than the padded input would.
};

// The symbols of the call that the device decides, a bit each: counted ones, and the rows of ragged
// sequences, whose lengths it reads.
uint32_t CountedOf(const Call& call);

// The extents of the axes along which `tensor`, the input `spec`, is smaller than `whole`, its
// place, or may be because the device decides the symbols in `counted`; a bit each. In a rectangle
// of packed rows its first two.
uint32_t PaddedExtents(const InputSpec& spec,
                       const Tensor& tensor,
                       const Tensor& whole,
                       uint32_t counted);

// Of `tensor`, a part of `output`, as the program's input `spec` at these padded extents, if the
// device decides the symbols in `counted`, a bit each.
Fit FitOf(const Program& program,
          const InputSpec& spec,
          const Tensor& tensor,
          const Tensor& output,
          std::span<const int64_t> padded,
          uint32_t counted);

// Sets what a child is planned around, which the request refers to from then on, and looks it up.
void FindSurroundings(Surroundings& around, Request& request, Lane& lane);

// Finds which inputs are outputs of the path, and what a child is to be planned around, in the
// lane's room: it counts until the next call of the lane. The slots that it reads are noted until
// the caller ends that (SlotTable::NoteRead). Errors: kFailedPrecondition  an input is stale, or
// would be written while somebody reads it.
absl::Status FindPlace(Request& request, Lane& lane);

// Which of its inputs a placed call stages for their padding alone. Allocates.
std::vector<size_t> FilledInputs(const Request& request, Lane& lane);

// FindPlace of a call that is about to run, of which an open chain takes note.
absl::Status TakePlace(Request& request, Lane& lane);

// Empties the leases that the call was given, if they are not empty.
void ReleaseDonated(const Call& call);

}  // namespace coppice::internal
