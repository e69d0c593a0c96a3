// The audit of keys: whether two recordings of one key launch the same kernels with the same
// parameters. Private to graphs/.
//
// Threads: pure functions but for driver calls.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/graph.h"

#include "graphs/capture/segmented_capture.h"

namespace coppice::internal {

// Per piece, its nodes in order; nullopt for those that are no kernels.
using KernelNodes = std::vector<std::vector<std::optional<KernelNode>>>;

absl::StatusOr<KernelNodes> KernelNodesOf(const std::vector<SegmentedCapture::Piece>& pieces);

// OK if both are equal. Errors: kInvalidArgument naming the program, the first kernel that differs,
// and which bytes of which parameter.
absl::Status CompareKernels(const std::string& program,
                            const KernelNodes& first,
                            const KernelNodes& second);

// Whether `status` is a difference that CompareKernels found, and not the driver's refusal of an
// argument, which has the same code but says nothing about the program.
bool IsDifference(const absl::Status& status);

}  // namespace coppice::internal
