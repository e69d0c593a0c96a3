// Clusters of graph nodes, and the note about memory.

#include "graphs/record/dot.h"

#include <cstddef>
#include <cstdint>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/graphs/reason.h"

namespace coppice::internal {
namespace {

// The text inside the quotes of a DOT string. Lines of a label are put together afterwards.
std::string EscapeDot(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  }
  return escaped;
}

std::string DotLabelOf(const GraphNodeInfo& info) {
  if (!info.launch) return NameOf(info.type);
  const KernelNode& launch = *info.launch;
  return fmt::format("{}\\ngrid {}, block {}\\n{} shared bytes", EscapeDot(launch.name),
                     fmt::join(launch.grid, " x "), fmt::join(launch.block, " x "),
                     launch.shared_bytes);
}

// What the graph's nodes are called: a graph without any has one that says so.
std::string IdOf(size_t graph, size_t node) {
  return fmt::format("g{}n{}", graph, node);
}

// The nodes that no edge of the graph leads to, or away from.
std::vector<std::string> EndsOf(const GraphDrawing& drawing, size_t graph, int GraphEdge::*side) {
  if (drawing.nodes.empty()) return {IdOf(graph, 0)};
  std::vector<bool> end(drawing.nodes.size(), true);
  for (const GraphEdge& edge : drawing.edges)
    end[static_cast<size_t>(edge.*side)] = false;
  std::vector<std::string> ids;
  for (size_t i = 0; i < end.size(); ++i) {
    if (end[i]) ids.push_back(IdOf(graph, i));
  }
  return ids;
}

std::string DrawGraph(const GraphDrawing& drawing, size_t graph) {
  std::string text =
      fmt::format("  subgraph cluster_{} {{\n    label=\"graph {}\";\n", graph, graph);
  if (drawing.nodes.empty())
    text += fmt::format("    {} [label=\"no work\", style=dashed];\n", IdOf(graph, 0));
  for (size_t i = 0; i < drawing.nodes.size(); ++i)
    text += fmt::format("    {} [label=\"{}\"];\n", IdOf(graph, i), DotLabelOf(drawing.nodes[i]));
  for (const GraphEdge& edge : drawing.edges) {
    text += fmt::format("    {} -> {};\n", IdOf(graph, static_cast<size_t>(edge.from)),
                        IdOf(graph, static_cast<size_t>(edge.to)));
  }
  return text + "  }\n";
}

// The host code behind graph `before`.
std::string DrawBreak(std::span<const GraphDrawing> graphs, size_t before) {
  std::string text =
      fmt::format("  break{} [label=\"host code of a break\", shape=ellipse];\n", before);
  for (const std::string& last : EndsOf(graphs[before], before, &GraphEdge::from))
    text += fmt::format("  {} -> break{};\n", last, before);
  for (const std::string& first : EndsOf(graphs[before + 1], before + 1, &GraphEdge::to))
    text += fmt::format("  break{} -> {};\n", before, first);
  return text;
}

std::string TensorLine(const char* what,
                       const std::string& name,
                       const Tensor& tensor,
                       const char* where) {
  return fmt::format("{} '{}', {} [{}] at {:#x}, {} bytes{}\\l", what, EscapeDot(name),
                     NameOf(tensor.dtype),
                     fmt::join(tensor.sizes.begin(), tensor.sizes.begin() + tensor.rank, ", "),
                     tensor.data, tensor.element_count() * SizeOf(tensor.dtype), where);
}

const char* PlaceOf(const InputSpec& input, bool staged) {
  if (staged) return input.role == InputRole::kStatic ? ", static, staged" : ", staged";
  return input.role == InputRole::kStatic ? ", static" : ", in place";
}

std::string TensorLines(const Node& node) {
  const ProgramSpec& spec = *node.outputs().spec;
  const InputLayout& layout = node.layout();
  std::string text;
  if (spec.parameter_words() > 0) {
    text += fmt::format("parameter block at {:#x}, {} words\\l",
                        layout.staging->header().parameter_block, spec.parameter_words());
  }
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    text += TensorLine("input", spec.inputs[i].name, layout.inputs[i],
                       PlaceOf(spec.inputs[i], layout.Stages(static_cast<int>(i))));
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    text += TensorLine("output", spec.outputs[i].name, node.outputs().tensors[i],
                       spec.outputs[i].role == OutputRole::kStatic ? ", static" : "");
  }
  return text;
}

std::string BufferLines(const Node& node, const PlannedBuffers& planned) {
  const ProgramSpec& spec = *node.outputs().spec;
  const std::vector<int> outputs = OutputsIn(node.outputs(), planned);
  const auto what = [&](size_t i) -> std::string {
    if (planned.buffers[i].fixed_offset.has_value()) return "donated to the call";
    if (outputs[i] >= 0)
      return fmt::format("output '{}'",
                         EscapeDot(spec.outputs[static_cast<size_t>(outputs[i])].name));
    const std::string& label = planned.labels[i];
    return label.empty() ? "temporary" : fmt::format("temporary '{}'", EscapeDot(label));
  };
  std::string text = fmt::format("plan window at {:#x}\\l", planned.base);
  for (size_t i = 0; i < planned.buffers.size(); ++i) {
    const Buffer& buffer = planned.buffers[i];
    text += fmt::format("offset {}, {} bytes, steps {} to {}: {}\\l", planned.plan.offsets[i],
                        buffer.bytes, buffer.lifetime.front().lower,
                        buffer.lifetime.back().upper - 1, what(i));
  }
  if (node.key().surroundings == nullptr) return text;
  for (const Region& region : node.key().surroundings->live)
    text += fmt::format("offset {}, {} bytes: leased, avoided by the plan\\l", region.offset,
                        region.bytes);
  return text;
}

std::string NodeLines(const Node& node) {
  const NodeInfo& info = node.info();
  const ProgramSpec& spec = *node.outputs().spec;
  std::string extents;
  for (size_t i = 0; i < info.bucket.size(); ++i) {
    extents += fmt::format("{}{} = {}", i == 0 ? "" : ", ", EscapeDot(spec.symbols[i].name),
                           info.bucket[i]);
  }
  const std::string variant =
      info.variant.empty() ? "" : fmt::format(" of variant '{}'", EscapeDot(info.variant));
  return fmt::format(
      "program '{}'{} in bucket [{}] on lane {}\\lrecorded for {}; graphs: {}, graph nodes: {}, "
      "about {} bytes\\lplan of {} bytes, at most {} live at once, {} of these leased\\l",
      EscapeDot(info.program), variant, extents, info.lane, NameOf(node.made_for()), info.graphs,
      info.graph_nodes, info.exec_bytes, info.plan_height, info.live_bytes, info.around_bytes);
}

}  // namespace

absl::StatusOr<std::vector<GraphDrawing>> DrawingsOf(
    const std::vector<SegmentedCapture::Piece>& pieces) {
  std::vector<GraphDrawing> drawings;
  for (const SegmentedCapture::Piece& piece : pieces) {
    COPPICE_ASSIGN_OR_RETURN(std::vector<GraphNodeInfo> nodes, piece.graph.GetNodes());
    drawings.push_back({.nodes = std::move(nodes), .edges = piece.topology.edges});
  }
  return drawings;
}

std::string DotOf(const Node& node,
                  std::span<const GraphDrawing> graphs,
                  const PlannedBuffers& planned) {
  std::string text = fmt::format(
      "digraph \"{}\" {{\n  graph [labelloc=t, fontname=monospace, label=\"{}\"];\n"
      "  node [shape=box, fontname=monospace];\n",
      EscapeDot(node.info().program), NodeLines(node));
  for (size_t i = 0; i < graphs.size(); ++i)
    text += DrawGraph(graphs[i], i);
  for (size_t i = 0; i + 1 < graphs.size(); ++i)
    text += DrawBreak(graphs, i);
  return text + fmt::format("  memory [shape=note, label=\"{}{}\"];\n}}\n", TensorLines(node),
                            BufferLines(node, planned));
}

}  // namespace coppice::internal
