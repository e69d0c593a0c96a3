// A capture in pieces: one graph, a step of host code, the next graph, and so on. Private to
// graphs/.
//
// Threads: one at a time.

#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"
#include "coppice/runtime/graph.h"

namespace coppice::internal {

class SegmentedCapture {
 public:
  struct Piece {
    Graph graph;
    Graph::Topology topology;
    EagerStep step;  // Behind the graph; null for the last piece.
  };

  // Begins on `stream`. Errors: as Capture::Begin.
  static absl::StatusOr<SegmentedCapture> Begin(const Driver& driver, CuStream stream);

  // Ends the piece under way with `step`, and begins the next. Errors: as Capture::End and Begin.
  absl::Status Cut(EagerStep step);

  // Ends the last piece. Errors: kAborted if a piece was invalidated or a fork not joined, or Cut
  // failed. In every case no capture is left open.
  absl::StatusOr<std::vector<Piece>> End();

  // Nodes captured so far, in order of pieces. Errors: kAborted if the capture was invalidated.
  absl::StatusOr<std::vector<CuGraphNode>> Nodes() const;

 private:
  SegmentedCapture(const Driver& driver, CuStream stream, Capture capture)
      : driver_(&driver), stream_(stream) {
    open_.emplace(std::move(capture));
  }

  absl::Status EndPiece(EagerStep step);

  const Driver* driver_;
  CuStream stream_;
  std::optional<Capture> open_;
  absl::Status broken_;  // What Cut failed with.
  std::vector<Piece> pieces_;
};

// The pieces as one graph, every node of a piece before every node of the next.
Graph::Topology TopologyOf(const std::vector<SegmentedCapture::Piece>& pieces);

}  // namespace coppice::internal
