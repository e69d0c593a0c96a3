// Ragged sequences of a spec: what callers see as one axis, and programs perhaps as two. Private to
// graphs/.
//
//   Dim::Ragged, in a    of an input                        of an output
//   packed               {total}                            {total}
//   rectangle            {count, length}, staged so         {total}, packed from {count, length}
//
// Threads: pure functions.

#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/program.h"

namespace coppice::internal {

// Which sequences the rows of a spec's tensors are of; -1: none. Empty if it has no sequences.
struct RaggedTensors {
  std::vector<int> inputs;   // One per input of the spec ...
  std::vector<int> outputs;  // ... and per output.

  int OfInput(int index) const { return At(inputs, index); }
  int OfOutput(int index) const { return At(outputs, index); }

 private:
  static int At(const std::vector<int>& list, int index) {
    return list.empty() ? -1 : list[static_cast<size_t>(index)];
  }
};

// Checks the sequences of a spec as RaggedSpec wants them, and where its tensors name them. Errors:
// kInvalidArgument naming the program and the field.
absl::Status CheckRagged(const ProgramSpec& spec);

// Requires, here and below: a spec that was checked so.
RaggedTensors RaggedTensorsOf(const ProgramSpec& spec);

// The spec with no Dim::Ragged: dims of inputs as they are staged, and of outputs as they are
// shown.
ProgramSpec WithoutRagged(ProgramSpec spec);

// The dims of a tensor of the spec as callers see it.
Dims CallersDims(const ProgramSpec& spec, Dims dims);

// The dims of an output that is packed from a rectangle: that rectangle's. `shown` are those that
// WithoutRagged gave it.
Dims RectangleOf(const RaggedSpec& sequences, const Dims& shown);

// The outputs of the spec that are packed from rectangles, as those. Allocates.
std::vector<OutputSpec> RectanglesOf(const ProgramSpec& spec);

}  // namespace coppice::internal
