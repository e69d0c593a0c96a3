// Where the inputs of a run lie: copied ones in its lane's staging window, others where they are.
// Private to graphs/.
//
//   window  | parameter block | offsets of ragged sequences | input 0, padded | input 1, padded |
//   ...
//
// Units: bytes and elements. Threads: pure functions.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coppice/base/tensor.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/staging.h"

#include "graphs/node/region.h"
#include "graphs/program/program.h"

namespace coppice::internal {

// Outputs of a node at its padded extents, or of one run without a graph.
struct OutputTable {
  const ProgramSpec* spec = nullptr;
  std::vector<Tensor> tensors;  // At the padded extents, or at those that the node is set to.
  // What each keeps of the plan window at any extents that the node may be set to; empty: what its
  // tensor has there.
  std::vector<std::optional<Region>> regions = {};
};

// Where a run finds its inputs, and what staging has to do for that.
struct InputLayout {
  // One staged copy: which tensor of the call or of the binding it comes from.
  struct Source {
    bool bound = false;  // Of the binding's tensors, else of the call's inputs.
    int index = 0;
    int input = 0;  // Of the spec.
  };

  // Targets and fills; sources are set by each call. Empty in a layout of nothing.
  std::optional<StagingArguments> staging;
  std::vector<Source> sources;         // One per staged copy.
  std::vector<Tensor> inputs;          // Of the spec, at the extents of the run.
  std::vector<Tensor> offsets;         // Of its ragged sequences.
  std::vector<Tensor> static_outputs;  // One per output of the spec; address 0 for a pool output.
  std::vector<std::pair<int, int>> copy_backs;  // (spec input, call input) to copy back.
  int64_t bytes = 0;                            // Of the staging window.
  int64_t real_elements = 0;                    // Of all staged inputs of the call ...
  int64_t padded_elements = 0;                  // ... and of their places.
  bool stages = false;                          // There is a word or a copy.
  int in_place = 0;                             // Copied inputs read where they lie.

  // Whether input `input` of the spec is staged.
  bool Stages(int input) const {
    return std::any_of(sources.begin(), sources.end(),
                       [input](const Source& source) { return source.input == input; });
  }
};

// The tensor of a spec's dims and strides at `extents`.
Tensor PlacedTensor(DeviceAddress data,
                    DType dtype,
                    const Dims& dims,
                    const Dims& strides,
                    std::span<const int64_t> extents);
template <typename Spec>  // Of an input or an output.
Tensor PlacedTensor(DeviceAddress data, const Spec& spec, std::span<const int64_t> extents) {
  return PlacedTensor(data, spec.dtype, spec.dims, spec.strides, extents);
}

// `tensor`, of these dims, with the sizes that it has at `extents` and the strides it had.
Tensor AtExtents(Tensor tensor, const Dims& dims, std::span<const int64_t> extents);

// More than any device has: what is larger counts as that large.
inline constexpr int64_t kAstronomicalBytes = int64_t{1} << 60;

// Bytes of a tensor without negative strides, rounded up to kBufferAlignment; at least that much.
int64_t RoundedBytes(const Tensor& tensor);

// Where a run's memory begins.
struct LayoutBases {
  DeviceAddress staging = 0;
  DeviceAddress plan = 0;  // For inputs in place.
};

// Lays out the inputs of a run at `extents`: copied ones from `bases.staging` on, with the spec's
// strides and fills and no sources, but for those that `in_place` puts into the plan window
// (offsets per copied input, or -1; empty: all are staged); bound ones where they are, or staged if
// `statics` says so. Requires: strides that keep elements apart at these extents, as CheckStrides
// finds out.
InputLayout LayOutInputs(const Program& program,
                         const Binding* binding,
                         const StaticVersion* statics,
                         std::span<const int64_t> in_place,
                         std::span<const int64_t> extents,
                         const LayoutBases& bases);

// Has a layout be of other extents: inputs stay where they lie, with the sizes and strides that
// they have there. Requires: no ragged sequences. Allocates nothing.
void SetExtents(const Program& program, std::span<const int64_t> extents, InputLayout& layout);

// A layout whose copied inputs are all staged, at addresses from `base` on that nobody has, for a
// run that touches nothing. Its staging has no copies.
InputLayout LayOutNowhere(const Program& program,
                          std::span<const int64_t> extents,
                          DeviceAddress base);

}  // namespace coppice::internal
