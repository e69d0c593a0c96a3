// What graphs launch. Graphs of a bucket, and buckets of a program, launch much the same, so that
// names and whole lists are there once.

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/prof/html/report_document.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

// One launch, with its name's place.
using LaunchRow = std::tuple<size_t, std::array<int64_t, 3>, std::array<int64_t, 3>, int64_t>;

// "64" or "64x2x1", without ones at its end.
std::string ShapeText(const std::array<int64_t, 3>& shape) {
  size_t dims = shape.size();
  while (dims > 1 && shape[dims - 1] == 1)
    --dims;
  std::string text = std::to_string(shape[0]);
  for (size_t i = 1; i < dims; ++i)
    text += "x" + std::to_string(shape[i]);
  return text;
}

Json LaunchesJson(const std::vector<LaunchRow>& launches) {
  Json rows = Json::array();
  for (const auto& [name, grid, block, shared] : launches)
    rows.push_back({name, ShapeText(grid), ShapeText(block), shared});
  return rows;
}

}  // namespace

Json KernelsOf(const ReportFacts& facts, const ReportLimits& limits, Json& left_out) {
  std::map<std::string, size_t> names;
  std::map<std::vector<LaunchRow>, size_t> lists;
  Json name_rows = Json::array();
  Json list_rows = Json::array();
  Json nodes = Json::array();
  size_t kept = 0;
  size_t left = 0;
  for (const TracedNode& node : facts.trace.nodes) {
    if (node.kernels.empty()) continue;
    if (kept + node.kernels.size() > limits.launches) {
      ++left;
      continue;
    }
    std::vector<LaunchRow> launches;
    for (const TracedKernel& kernel : node.kernels) {
      const auto [name, added] = names.emplace(kernel.name, names.size());
      if (added) name_rows.push_back(kernel.name);
      launches.emplace_back(name->second, kernel.grid, kernel.block, kernel.shared_bytes);
    }
    const auto [list, added] = lists.emplace(std::move(launches), lists.size());
    if (added) {
      kept += node.kernels.size();
      list_rows.push_back(LaunchesJson(list->first));
    }
    nodes.push_back({node.id, list->second});
  }
  if (left > 0) left_out["kernels"] = {{"shown", nodes.size()}, {"of", nodes.size() + left}};
  return {{"names", std::move(name_rows)},
          {"lists", std::move(list_rows)},
          {"nodes", std::move(nodes)}};
}

}  // namespace coppice
