// The survey `memory`: how much device memory graph execs take, by kind and number of nodes.

#include <cstdint>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"

#include "tools/probe/graph_shape.h"
#include "tools/probe/survey.h"

namespace coppice {
namespace {

constexpr int64_t kGraphNodeCounts[] = {1, 10, 100, 1000};

// A driver takes memory in pieces of megabytes, which hide what a few small graphs take.
constexpr int64_t CopiesOf(int64_t nodes) {
  return nodes <= 10 ? 400 : 20;
}

// Bytes of device memory beyond those in use before there was any copy.
struct Weight {
  int64_t instantiated = 0;
  int64_t launched = 0;
  int64_t destroyed = 0;
};

absl::StatusOr<Weight> Weigh(const Subject& subject, const GraphShape& shape, int64_t copies) {
  COPPICE_RETURN_IF_ERROR(subject.Synchronize());
  COPPICE_ASSIGN_OR_RETURN(const int64_t free_before, subject.FreeBytes());
  const auto taken = [&]() -> absl::StatusOr<int64_t> {
    COPPICE_ASSIGN_OR_RETURN(const int64_t free_bytes, subject.FreeBytes());
    return free_before - free_bytes;
  };
  Weight weight;
  {
    std::vector<ShapedGraph> graphs;
    std::vector<GraphExec> execs;
    for (int64_t copy = 0; copy < copies; ++copy) {
      COPPICE_ASSIGN_OR_RETURN(ShapedGraph made, MakeGraph(subject, shape));
      COPPICE_ASSIGN_OR_RETURN(GraphExec exec,
                               GraphExec::Instantiate(subject.driver(), made.graph));
      graphs.push_back(std::move(made));
      execs.push_back(std::move(exec));
    }
    COPPICE_ASSIGN_OR_RETURN(weight.instantiated, taken());
    for (const GraphExec& exec : execs)
      COPPICE_RETURN_IF_ERROR(
          subject.driver().Call<&DriverTable::GraphLaunch>(exec.handle(), subject.stream()));
    COPPICE_RETURN_IF_ERROR(subject.Synchronize());
    COPPICE_ASSIGN_OR_RETURN(weight.launched, taken());
  }
  COPPICE_ASSIGN_OR_RETURN(weight.destroyed, taken());
  return weight;
}

}  // namespace

absl::Status FillMemory(const SurveyRun& run) {
  run.Comment(
      "graph execs: linear graphs with nodes of one kind; each row is one measurement in a new "
      "context");
  run.Comment("*_bytes: growth of the used memory (cuMemGetInfo) since before the first exec;");
  run.Comment(
      "destroyed_bytes: after all execs are destroyed; bytes_per_*: computed from launched_bytes");
  run.Row("kind", "nodes", "copies", "instantiated_bytes", "launched_bytes", "destroyed_bytes",
          "bytes_per_exec", "bytes_per_node");
  const int64_t rows = std::size(kNodeKinds) * std::size(kGraphNodeCounts);
  int64_t row = 0;
  for (const NodeKind kind : kNodeKinds) {
    for (const int64_t nodes : kGraphNodeCounts) {
      run.progress.Update(row++, rows);
      COPPICE_RETURN_IF_ERROR(run.subject.Reset());
      const int64_t copies = CopiesOf(nodes);
      COPPICE_ASSIGN_OR_RETURN(const Weight weight,
                               Weigh(run.subject, {.kind = kind, .nodes = nodes}, copies));
      const double per_exec = static_cast<double>(weight.launched) / static_cast<double>(copies);
      run.Row(NameOf(kind), nodes, copies, weight.instantiated, weight.launched, weight.destroyed,
              per_exec, per_exec / static_cast<double>(nodes));
    }
  }
  return absl::OkStatus();
}

}  // namespace coppice
