// An estimate of the device memory that an executable graph takes.
//
// No driver tells, and free device memory before and after says little on a busy device. So there
// is a table, written by `coppice-probe memory` on a quiet one: bytes per graph by kind and number
// of nodes. Of a kind with rows for several numbers, the smallest and the largest give what a graph
// costs by itself and what each node adds; a kind with one row costs what it says per node.
//
//   bytes = what a graph of kernels costs by itself + sum over nodes of what their kind adds
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
  // Reads a table of `coppice-probe memory`. `name` is what messages call it. Rows of kinds that
  // are no node type are read over.
  //
  // Errors: kInvalidArgument with name, line and what is wrong: other columns, a number that is not
  // finite or negative, no rows for a kind of kernel, memcpy, memset, empty, host or child.
  static absl::StatusOr<GraphMemoryModel> Parse(std::string_view tsv, std::string_view name);

  // Published figures: runtime/tables/graph_memory.documented.tsv, as it was at build time. Cost:
  // the first call parses.
  static const GraphMemoryModel& Documented();

  // What an executable graph of `topology`'s nodes takes. Events count as empty nodes, an unknown
  // type as a kernel. Errors: the driver's. Cost: one driver call per node. Runs in a
  // RelaxedCaptureScope.
  absl::StatusOr<int64_t> BytesOf(const Driver& driver, const Graph::Topology& topology) const;
  // The same by number of nodes of each CuGraphNodeType up to kEmpty.
  static constexpr int kTypeCount = 6;
  int64_t BytesOf(const std::array<int64_t, kTypeCount>& counts) const;

 private:
  double graph_bytes_ = 0;
  std::array<double, kTypeCount> node_bytes_{};  // By CuGraphNodeType.
};

}  // namespace coppice
