// A node's fields, one by one.

#include "tools/prof/traced_node.h"

#include <array>

#include "nlohmann/json.hpp"

namespace coppice {
namespace {

using Json = nlohmann::json;

bool ParseLifetime(const Json& bounds, Buffer& buffer) {
  if (!bounds.is_array() || bounds.empty() || bounds.size() % 2 != 0) return false;
  int64_t least = 0;
  for (size_t i = 0; i < bounds.size(); i += 2) {
    if (!IsWhole(bounds[i], least) || !IsWhole(bounds[i + 1], bounds[i].get<int64_t>() + 1))
      return false;
    buffer.lifetime.push_back({bounds[i].get<int64_t>(), bounds[i + 1].get<int64_t>()});
    least = buffer.lifetime.back().upper;
  }
  return true;
}

bool ParseBuffer(const Json& row, TracedNode& node) {
  if (!row.is_array() || row.size() != 5 || !IsWhole(row[0], 0) || !IsWhole(row[1], 1) ||
      !IsWhole(row[2], -1) || !row[4].is_string()) {
    return false;
  }
  Buffer& buffer = node.buffers.emplace_back();
  buffer.alignment = 1;
  buffer.bytes = row[1].get<int64_t>();
  node.offsets.push_back(row[0].get<int64_t>());
  node.outputs.push_back(row[2].get<int64_t>());
  node.labels.push_back(Printable(row[4].get<std::string>()));
  return ParseLifetime(row[3], buffer);
}

void ParseAround(Fields& fields, TracedNode& node) {
  for (const Json& region : fields.List("around", "regions")) {
    if (!region.is_array() || region.size() != 2 || !IsWhole(region[0], 0) ||
        !IsWhole(region[1], 1)) {
      fields.Refuse("around", "a list of [offset, bytes]");
      return;
    }
    const int64_t offset = region[0].get<int64_t>();
    node.around.push_back({offset, offset + region[1].get<int64_t>()});
  }
}

bool ParseTriple(const Json& row, std::array<int64_t, 3>& values) {
  if (!row.is_array() || row.size() != values.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsWhole(row[i], 1)) return false;
    values[i] = row[i].get<int64_t>();
  }
  return true;
}

void ParseKernels(Fields& fields, TracedNode& node) {
  for (const Json& row : fields.List("kernels", "kernels")) {
    TracedKernel& kernel = node.kernels.emplace_back();
    if (!row.is_array() || row.size() != 4 || !row[0].is_string() ||
        !ParseTriple(row[1], kernel.grid) || !ParseTriple(row[2], kernel.block) ||
        !IsWhole(row[3], 0)) {
      fields.Refuse("kernels", "a list of [name, [x, y, z], [x, y, z], shared bytes]");
      return;
    }
    kernel.name = Printable(row[0].get<std::string>());
    kernel.shared_bytes = row[3].get<int64_t>();
  }
}

// Written where the graph has breaks, with the kernels that lie between them.
void ParsePieces(Fields& fields, TracedNode& node) {
  if (!fields.Has("pieces")) return;
  int64_t left = std::ssize(node.kernels);
  for (const Json& row : fields.List("pieces", "numbers of kernels")) {
    if (!IsWhole(row, 0) || row.get<int64_t>() > left)
      return fields.Refuse("pieces", "how many of the kernels each piece has");
    left -= node.pieces.emplace_back(row.get<int64_t>());
  }
  if (left > 0) fields.Refuse("pieces", "how many of the kernels each piece has");
}

void ParseDonated(Fields& fields, TracedNode& node) {
  if (!fields.Has("donated")) return;
  for (const Json& row : fields.List("donated", "regions")) {
    if (!row.is_array() || row.size() != 3 || !IsWhole(row[0], 0) || !IsWhole(row[1], 1) ||
        !IsWhole(row[2], 1)) {
      fields.Refuse("donated", "a list of [offset, bytes, step]");
      return;
    }
    Buffer& donated = node.donated.emplace_back();
    donated.lifetime = {{.lower = 0, .upper = row[2].get<int64_t>()}};
    donated.bytes = row[1].get<int64_t>();
    donated.alignment = 1;
    donated.fixed_offset = row[0].get<int64_t>();
  }
}

}  // namespace

void ReadNode(Fields& fields, TracedNode& node) {
  node.height = fields.Integer("height", 0);
  node.bound = fields.Integer("live", 0);
  node.method = fields.Text("method");
  node.graph_nodes = fields.Integer("graph_nodes", 0);
  node.exec_bytes = fields.Integer("exec_bytes", 0);
  node.record_ns = fields.Integer("record_ns", 0);
  if (!FindNamed(fields.Text("reason"), kReasonCount, node.reason))
    fields.Refuse("reason", "a reason");
  ParseAround(fields, node);
  ParseDonated(fields, node);
  ParseKernels(fields, node);
  ParsePieces(fields, node);
  const Json& rows = fields.List("buffers", "buffers");
  node.buffers.reserve(rows.size());
  node.offsets.reserve(rows.size());
  node.outputs.reserve(rows.size());
  node.labels.reserve(rows.size());
  for (const Json& row : rows) {
    if (!ParseBuffer(row, node))
      return fields.Refuse("buffers",
                           "a list of [offset, bytes, output, [lower, upper, ...], label]");
  }
}

}  // namespace coppice
