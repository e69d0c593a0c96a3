// Pieces of a capture, and their order.

#include "graphs/capture/segmented_capture.h"

#include "coppice/base/status.h"

namespace coppice::internal {

absl::StatusOr<SegmentedCapture> SegmentedCapture::Begin(const Driver& driver, CuStream stream) {
  COPPICE_ASSIGN_OR_RETURN(Capture capture, Capture::Begin(driver, stream));
  return SegmentedCapture(driver, stream, std::move(capture));
}

absl::Status SegmentedCapture::EndPiece(EagerStep step) {
  if (!open_.has_value()) return broken_;
  absl::StatusOr<Graph> graph = open_->End();
  open_.reset();
  if (!graph.ok()) return graph.status();
  COPPICE_ASSIGN_OR_RETURN(Graph::Topology topology, graph->GetTopology());
  pieces_.push_back(
      {.graph = *std::move(graph), .topology = std::move(topology), .step = std::move(step)});
  return absl::OkStatus();
}

absl::Status SegmentedCapture::Cut(EagerStep step) {
  broken_ = EndPiece(std::move(step));
  if (!broken_.ok()) return broken_;
  absl::StatusOr<Capture> next = Capture::Begin(*driver_, stream_);
  if (!next.ok()) return broken_ = next.status();
  open_.emplace(*std::move(next));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SegmentedCapture::Piece>> SegmentedCapture::End() {
  COPPICE_RETURN_IF_ERROR(EndPiece(nullptr));
  return std::move(pieces_);
}

absl::StatusOr<std::vector<CuGraphNode>> SegmentedCapture::Nodes() const {
  if (!open_.has_value()) return broken_;
  COPPICE_ASSIGN_OR_RETURN(const std::vector<CuGraphNode> last, open_->Nodes());
  std::vector<CuGraphNode> nodes;
  for (const Piece& piece : pieces_)
    nodes.insert(nodes.end(), piece.topology.nodes.begin(), piece.topology.nodes.end());
  nodes.insert(nodes.end(), last.begin(), last.end());
  return nodes;
}

Graph::Topology TopologyOf(const std::vector<SegmentedCapture::Piece>& pieces) {
  Graph::Topology whole;
  std::vector<int> ends;  // Nodes of the last piece that has any, without a successor in it.
  for (const SegmentedCapture::Piece& piece : pieces) {
    const auto base = static_cast<int>(whole.nodes.size());
    const size_t count = piece.topology.nodes.size();
    if (count == 0) continue;
    std::vector<bool> begins(count, true);
    std::vector<bool> ends_here(count, true);
    whole.nodes.insert(whole.nodes.end(), piece.topology.nodes.begin(), piece.topology.nodes.end());
    for (const GraphEdge& edge : piece.topology.edges) {
      whole.edges.push_back({.from = base + edge.from, .to = base + edge.to});
      begins[static_cast<size_t>(edge.to)] = false;
      ends_here[static_cast<size_t>(edge.from)] = false;
    }
    for (const int end : ends) {
      for (size_t i = 0; i < count; ++i) {
        if (begins[i]) whole.edges.push_back({.from = end, .to = base + static_cast<int>(i)});
      }
    }
    ends.clear();
    for (size_t i = 0; i < count; ++i) {
      if (ends_here[i]) ends.push_back(base + static_cast<int>(i));
    }
  }
  return whole;
}

}  // namespace coppice::internal
