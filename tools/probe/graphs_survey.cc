// The survey `graphs`: what it costs the host to build, launch, change and destroy graphs of
// kernel nodes.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/runtime/graph.h"

#include "tools/probe/graph_shape.h"
#include "tools/probe/survey.h"
#include "tools/support/statistics.h"
#include "tools/support/stopwatch.h"

namespace coppice {
namespace {

constexpr int64_t kNodeCounts[] = {1, 10, 100, 1000, 4000};
constexpr int64_t kWidths[] = {1, 8};
constexpr int64_t kLaunches = 20;  // Per repetition, of what is too short to be timed alone.

// One launch, of a graph or of a kernel.
class Launcher {
 public:
  Launcher(const Subject& subject, CuGraphExec exec) : subject_(subject), exec_(exec) {}
  explicit Launcher(const Subject& subject) : Launcher(subject, nullptr) {}

  absl::Status operator()() const {
    if (exec_ == nullptr)
      return Launch(subject_.driver(), subject_.touch(), subject_.stream(),
                    TouchParams{.target = subject_.word_pointer(0)}, 1);
    return subject_.driver().Call<&DriverTable::GraphLaunch>(exec_, subject_.stream());
  }

  // The host's time for one launch with nothing before it in the stream.
  absl::StatusOr<double> TimeCall() const {
    std::vector<double> calls;
    for (int64_t i = 0; i < kLaunches; ++i) {
      Stopwatch watch;
      COPPICE_RETURN_IF_ERROR((*this)());
      calls.push_back(watch.Lap());
      COPPICE_RETURN_IF_ERROR(subject_.Synchronize());
    }
    return Median(std::move(calls));
  }

  // Time per launch from the first of kLaunches to the end of their work.
  absl::StatusOr<double> TimeWall() const {
    Stopwatch watch;
    for (int64_t i = 0; i < kLaunches; ++i)
      COPPICE_RETURN_IF_ERROR((*this)());
    COPPICE_RETURN_IF_ERROR(subject_.Synchronize());
    return watch.Lap() / kLaunches;
  }

 private:
  const Subject& subject_;
  CuGraphExec exec_;
};

// An exec whose destruction can be timed.
class TimedExec {
 public:
  explicit TimedExec(const Driver& driver) : driver_(driver) {}
  ~TimedExec() { Destroy().IgnoreError(); }
  TimedExec(const TimedExec&) = delete;
  TimedExec& operator=(const TimedExec&) = delete;

  CuGraphExec handle() const { return handle_; }

  absl::Status Instantiate(const Graph& graph) {
    return driver_.Call<&DriverTable::GraphInstantiateWithFlags>(&handle_, graph.handle(), 0ULL);
  }
  absl::Status Destroy() {
    if (handle_ == nullptr) return absl::OkStatus();
    return driver_.Call<&DriverTable::GraphExecDestroy>(std::exchange(handle_, nullptr));
  }

 private:
  const Driver& driver_;
  CuGraphExec handle_ = nullptr;
};

// In the order of the columns.
enum Figure : uint8_t {
  kBuild,
  kInstantiate,
  kUpload,
  kFirstLaunch,
  kRepeatLaunch,
  kWallPerNode,
  kSetParams,
  kExecUpdate,
  kDestroy,
  kFigureCount,
};
using Figures = std::array<double, kFigureCount>;

// Gives every node new parameters in turn, then all of them at once, and runs the result.
absl::Status TimeUpdates(const Subject& subject,
                         const GraphShape& shape,
                         const ShapedGraph& made,
                         CuGraphExec exec,
                         Figures& figures) {
  const TouchNode changed(subject, /*chain=*/0, shape.value + 1);
  Stopwatch watch;
  for (int64_t i = 0; i < kLaunches; ++i)
    COPPICE_RETURN_IF_ERROR(subject.driver().Call<&DriverTable::GraphExecKernelNodeSetParams>(
        exec, made.nodes[0], &changed.params()));
  figures[kSetParams] = watch.Lap() / kLaunches;

  GraphShape other = shape;
  other.value += 2;
  COPPICE_ASSIGN_OR_RETURN(const ShapedGraph source, MakeGraph(subject, other));
  CuGraphExecUpdateResultInfo info;
  watch.Lap();
  COPPICE_RETURN_IF_ERROR(
      subject.driver().Call<&DriverTable::GraphExecUpdate>(exec, source.graph.handle(), &info));
  figures[kExecUpdate] = watch.Lap();
  COPPICE_RETURN_IF_ERROR(Launcher(subject, exec)());
  return subject.Synchronize();
}

absl::StatusOr<Figures> TimeGraph(const Subject& subject, const GraphShape& shape) {
  Figures figures = {};
  Stopwatch watch;
  COPPICE_ASSIGN_OR_RETURN(const ShapedGraph made, MakeGraph(subject, shape));
  figures[kBuild] = watch.Lap();
  TimedExec exec(subject.driver());
  COPPICE_RETURN_IF_ERROR(exec.Instantiate(made.graph));
  figures[kInstantiate] = watch.Lap();
  COPPICE_RETURN_IF_ERROR(
      subject.driver().Call<&DriverTable::GraphUpload>(exec.handle(), subject.stream()));
  COPPICE_RETURN_IF_ERROR(subject.Synchronize());
  figures[kUpload] = watch.Lap();
  const Launcher launch(subject, exec.handle());
  COPPICE_RETURN_IF_ERROR(launch());
  figures[kFirstLaunch] = watch.Lap();
  COPPICE_RETURN_IF_ERROR(subject.Synchronize());
  COPPICE_ASSIGN_OR_RETURN(figures[kRepeatLaunch], launch.TimeCall());
  COPPICE_ASSIGN_OR_RETURN(const double wall, launch.TimeWall());
  figures[kWallPerNode] = wall / static_cast<double>(shape.nodes);
  COPPICE_RETURN_IF_ERROR(TimeUpdates(subject, shape, made, exec.handle(), figures));
  watch.Lap();
  COPPICE_RETURN_IF_ERROR(exec.Destroy());
  figures[kDestroy] = watch.Lap();
  return figures;
}

absl::StatusOr<std::array<double, 2>> TimePlainLaunch(const Subject& subject) {
  const Launcher launch(subject);
  COPPICE_ASSIGN_OR_RETURN(const double call, launch.TimeCall());
  COPPICE_ASSIGN_OR_RETURN(const double wall, launch.TimeWall());
  return std::array<double, 2>{call, wall};
}

}  // namespace

absl::Status FillGraphs(const SurveyRun& run) {
  run.table.Comment(fmt::format("medians of {} repetitions, on the host", run.options.repetitions));
  run.table.Comment(fmt::format(
      "repeat_launch: median of {} launches, each alone; wall_per_node: {} launches at once, up to",
      kLaunches, kLaunches));
  run.table.Comment(
      "the end of their work; upload: with the wait for it; set_params: of one node;");
  run.table.Comment("exec_update: of all nodes; shape launch: a kernel without a graph");
  run.table.Columns({"shape", "nodes", "build_us", "instantiate_us", "upload_us", "first_launch_us",
                     "repeat_launch_us", "wall_per_node_us", "set_params_us", "exec_update_us",
                     "destroy_us"});
  COPPICE_ASSIGN_OR_RETURN(const auto plain, MediansOf(run.options.repetitions, [&] {
                             return TimePlainLaunch(run.subject);
                           }));
  run.table.Row("launch", 1, "-", "-", "-", "-", plain[0], plain[1], "-", "-", "-");
  int64_t done = 0;
  for (const int64_t width : kWidths) {
    for (const int64_t nodes : kNodeCounts) {
      run.progress.Update(done++, std::size(kWidths) * std::size(kNodeCounts));
      const GraphShape shape = {.nodes = nodes, .width = width};
      COPPICE_ASSIGN_OR_RETURN(const Figures medians, MediansOf(run.options.repetitions, [&] {
                                 return TimeGraph(run.subject, shape);
                               }));
      std::vector<std::string> cells = {width == 1 ? "linear" : fmt::format("wide{}", width),
                                        CellOf(nodes)};
      for (const double median : medians)
        cells.push_back(CellOf(median));
      run.table.WriteRow(cells);
    }
  }
  return absl::OkStatus();
}

}  // namespace coppice
