// Figures of a bucket that a profile keeps. Private to graphs/.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "coppice/graphs/session_stats.h"

namespace coppice::internal {

struct BucketFigures {
  int64_t launches = 0;     // Of its graphs.
  int64_t graph_nodes = 0;  // Of one of them, as all that follows.
  int64_t plan_height = 0;
  int64_t live_bytes = 0;
  int64_t graph_bytes = 0;
  std::map<std::string, std::string> variants{};  // By kernel, of those with several.

  // Allocates nothing.
  void SetSizes(const NodeInfo& info) {
    graph_nodes = info.graph_nodes;
    plan_height = info.plan_height;
    live_bytes = info.live_bytes;
    graph_bytes = info.exec_bytes;
  }

  friend bool operator==(const BucketFigures&, const BucketFigures&) = default;
};

}  // namespace coppice::internal
