// Turns the rows of a table into a straight line per kind of node.

#include "coppice/runtime/graph_memory.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/tsv.h"
#include "coppice/runtime/stream.h"

// The text of runtime/tables/graph_memory.documented.tsv; runtime/CMakeLists.txt embeds it.
extern "C" const char coppice_graph_memory_documented[];

namespace coppice {
namespace {

constexpr std::string_view kColumns =
    "kind\tnodes\tcopies\tinstantiated_bytes\tlaunched_bytes\tdestroyed_bytes\tbytes_per_exec\t"
    "bytes_per_node";
constexpr size_t kNodesColumn = 1;
constexpr size_t kBytesColumn = 6;

// By CuGraphNodeType.
constexpr std::array<std::string_view, GraphMemoryModel::kTypeCount> kKinds = {
    "kernel", "memcpy", "memset", "host", "child", "empty"};

struct Point {
  double nodes = 0;
  double bytes = 0;  // Per graph.
};

std::optional<double> ParseNumber(std::string_view text) {
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last || !std::isfinite(number) || number < 0)
    return std::nullopt;
  return number;
}

}  // namespace

absl::StatusOr<GraphMemoryModel> GraphMemoryModel::Parse(std::string_view tsv,
                                                         std::string_view name) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<TsvRow> rows, ParseTsv(tsv, name, kColumns));
  std::array<std::optional<std::pair<Point, Point>>, kTypeCount> ends;  // Fewest and most nodes.
  for (const TsvRow& row : rows) {
    const std::optional<double> nodes = ParseNumber(row.fields[kNodesColumn]);
    const std::optional<double> bytes = ParseNumber(row.fields[kBytesColumn]);
    if (!nodes || !bytes || *nodes < 1) {
      return InvalidArgument(
          "{}:{}: {} nodes take {} bytes; give a number of nodes >= 1 and a number of bytes >= 0",
          name, row.line, row.fields[kNodesColumn], row.fields[kBytesColumn]);
    }
    for (size_t type = 0; type < kKinds.size(); ++type) {
      if (row.fields[0] != kKinds[type]) continue;
      const Point point{.nodes = *nodes, .bytes = *bytes};
      if (!ends[type]) ends[type] = {point, point};
      if (point.nodes < ends[type]->first.nodes) ends[type]->first = point;
      if (point.nodes > ends[type]->second.nodes) ends[type]->second = point;
    }
  }
  GraphMemoryModel model;
  for (size_t type = 0; type < kKinds.size(); ++type) {
    if (!ends[type])
      return InvalidArgument("{}: the table has no row for graphs of {} nodes; add one", name,
                             kKinds[type]);
    const auto& [fewest, most] = *ends[type];
    const double slope = most.nodes > fewest.nodes
                             ? (most.bytes - fewest.bytes) / (most.nodes - fewest.nodes)
                             : most.bytes / most.nodes;
    model.node_bytes_[type] = std::max(slope, 0.0);
    if (type == static_cast<size_t>(CuGraphNodeType::kKernel))
      model.graph_bytes_ = std::max(fewest.bytes - slope * fewest.nodes, 0.0);
  }
  return model;
}

const GraphMemoryModel& GraphMemoryModel::Documented() {
  static const GraphMemoryModel model = [] {
    absl::StatusOr<GraphMemoryModel> parsed =
        Parse(coppice_graph_memory_documented, "graph_memory.documented.tsv");
    COPPICE_CHECK(parsed.ok(), "the embedded table of graph memory is wrong");
    return *std::move(parsed);
  }();
  return model;
}

absl::StatusOr<int64_t> GraphMemoryModel::BytesOf(const Driver& driver,
                                                  const Graph::Topology& topology) const {
  const RelaxedCaptureScope relaxed(driver);
  std::array<int64_t, kTypeCount> counts{};
  for (const CuGraphNode node : topology.nodes) {
    CuGraphNodeType type = CuGraphNodeType::kKernel;
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphNodeGetType>(node, &type));
    const bool event = type == CuGraphNodeType::kWaitEvent || type == CuGraphNodeType::kEventRecord;
    const auto index = static_cast<size_t>(event ? CuGraphNodeType::kEmpty : type);
    ++counts[index < counts.size() ? index : static_cast<size_t>(CuGraphNodeType::kKernel)];
  }
  return BytesOf(counts);
}

int64_t GraphMemoryModel::BytesOf(const std::array<int64_t, kTypeCount>& counts) const {
  double bytes = graph_bytes_;
  for (size_t type = 0; type < counts.size(); ++type)
    bytes += node_bytes_[type] * static_cast<double>(counts[type]);
  return std::llround(bytes);
}

}  // namespace coppice
