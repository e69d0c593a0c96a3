// Comparing two recordings, byte by byte.

#include "graphs/capture/audit.h"

#include <algorithm>
#include <cstddef>

#include "coppice/base/status.h"

namespace coppice::internal {
namespace {

absl::Status Differs(const std::string& program, const std::string& what) {
  return InvalidArgument(
      "audit of program '{}': {} between two recordings with the same key; whatever value causes "
      "the difference must be an input, a symbol or a scalar of the spec, or be read from the "
      "parameter block",
      program, what);
}

absl::Status CompareParameters(const std::string& program,
                               const KernelNode& first,
                               const KernelNode& second) {
  for (size_t i = 0; i < first.parameters.size(); ++i) {
    const std::vector<std::byte>& a = first.parameters[i];
    const std::vector<std::byte>& b = second.parameters[i];
    if (a == b) continue;
    const auto begin = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
    auto end = static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
    while (end > begin + 1 && a[static_cast<size_t>(end) - 1] == b[static_cast<size_t>(end) - 1]) {
      --end;
    }
    return Differs(program, fmt::format("parameter {} of kernel '{}' differs in bytes [{}, {})", i,
                                        first.name, begin, end));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelNodes> KernelNodesOf(const std::vector<SegmentedCapture::Piece>& pieces) {
  KernelNodes nodes;
  for (const SegmentedCapture::Piece& piece : pieces) {
    COPPICE_ASSIGN_OR_RETURN(std::vector<std::optional<KernelNode>> kernels,
                             piece.graph.GetKernelNodes());
    nodes.push_back(std::move(kernels));
  }
  return nodes;
}

absl::Status CompareKernels(const std::string& program,
                            const KernelNodes& first,
                            const KernelNodes& second) {
  if (first.size() != second.size()) {
    return Differs(program, fmt::format("the number of graphs differs ({} and {})", first.size(),
                                        second.size()));
  }
  for (size_t piece = 0; piece < first.size(); ++piece) {
    if (first[piece].size() != second[piece].size()) {
      return Differs(program, fmt::format("the number of nodes of graph {} differs ({} and {})",
                                          piece, first[piece].size(), second[piece].size()));
    }
    for (size_t i = 0; i < first[piece].size(); ++i) {
      const std::optional<KernelNode>& a = first[piece][i];
      const std::optional<KernelNode>& b = second[piece][i];
      if (a == b) continue;
      if (!a || !b || a->name != b->name || a->parameters.size() != b->parameters.size())
        return Differs(program, fmt::format("node {} of graph {} differs", i, piece));
      COPPICE_RETURN_IF_ERROR(CompareParameters(program, *a, *b));
      return Differs(
          program, fmt::format("the launch of kernel '{}' differs in size or attributes", a->name));
    }
  }
  return absl::OkStatus();
}

bool IsDifference(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument && !CuResultOf(status).has_value();
}

}  // namespace coppice::internal
