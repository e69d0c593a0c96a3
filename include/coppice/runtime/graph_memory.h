// An estimate of the device memory that an executable graph takes.
//
// No driver reports it, and on a busy device the change of free memory says little. So
// `coppice-probe memory` writes a table on an idle device: bytes per graph by kind and number of
// nodes. If a kind has rows for several numbers, the smallest and the largest give the bytes of a
// graph itself and of each node. If a kind has one row, that row gives the bytes per node.
//
//   bytes = bytes of a graph of kernels itself + sum over nodes of the bytes that their kind adds
//
// Units: bytes. Threads: immutable once made.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/cuda_abi.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/graph.h"

namespace coppice {

class GraphMemoryModel {
 public:
  // Reads a table of `coppice-probe memory`. Messages call it `name`. Rows of unknown kinds are
  // skipped.
  //
  // Errors: kInvalidArgument with name, line and what is wrong: wrong columns, a number that is
  // negative or not finite, or no row for kernel, memcpy, memset, empty, host or child.
  static absl::StatusOr<GraphMemoryModel> Parse(std::string_view tsv, std::string_view name);

  // The table of published figures, runtime/tables/graph_memory.documented.tsv, which is compiled
  // in. Cost: the first call parses it.
  static const GraphMemoryModel& Documented();

  // Bytes of an executable graph with the nodes of `topology`. Event nodes count as empty nodes,
  // and nodes of unknown types as kernels. Errors: the driver's. Cost: one driver call per node.
  // Runs in a RelaxedCaptureScope.
  absl::StatusOr<int64_t> BytesOf(const Driver& driver, const Graph::Topology& topology) const;
  // The same, from the number of nodes of each CuGraphNodeType up to kEmpty.
  static constexpr int kTypeCount = 6;
  int64_t BytesOf(const std::array<int64_t, kTypeCount>& counts) const;

 private:
  double graph_bytes_ = 0;
  std::array<double, kTypeCount> node_bytes_{};  // By CuGraphNodeType.
};

}  // namespace coppice
