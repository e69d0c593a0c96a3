// Nodes, and the edges that lead to them.

#include "graphs/steps/graph_builder.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "graphs/steps/kernel_params.h"

namespace coppice::internal {

absl::StatusOr<GraphBuilder> GraphBuilder::Create(const Driver& driver,
                                                  CuStream stream,
                                                  NodeOrder node_order) {
  CuContext context = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::CtxGetCurrent>(&context));
  COPPICE_ASSIGN_OR_RETURN(Graph graph, Graph::Create(driver));
  return GraphBuilder(driver, stream, node_order, context, std::move(graph));
}

std::span<const CuGraphNode> GraphBuilder::Before(std::span<const Touch> touched) {
  before_.clear();
  const auto wait_for = [this](int step) {
    topology_.edges.push_back({.from = step, .to = node_count()});
    before_.push_back(topology_.nodes[static_cast<size_t>(step)]);
  };
  if (node_order_ == NodeOrder::kByBytes) {
    std::ranges::for_each(order_.Add(touched), wait_for);
  } else if (node_count() > 0) {
    wait_for(node_count() - 1);
  }
  return before_;
}

absl::Status GraphBuilder::SetAttributes(CuGraphNode node, const LaunchShape& shape) const {
  if (shape.cooperative) {
    CuLaunchAttributeValue value;
    value.cooperative = 1;
    COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::GraphKernelNodeSetAttribute>(
        node, CuLaunchAttributeId::kCooperative, &value));
  }
  if (shape.cluster == Dim3()) return absl::OkStatus();
  CuLaunchAttributeValue value;
  value.cluster = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  return driver_->Call<&DriverTable::GraphKernelNodeSetAttribute>(
      node, CuLaunchAttributeId::kClusterDimension, &value);
}

absl::Status GraphBuilder::Launch(const KernelLaunch& launch, std::span<const Touch> touched) {
  const Dim3& grid = launch.shape.grid;
  const Dim3& block = launch.shape.block;
  const CuKernelNodeParams params = NodeParamsOf(launch);
  const std::span<const CuGraphNode> before = Before(touched);
  CuGraphNode node = nullptr;
  const absl::Status added = driver_->Call<&DriverTable::GraphAddKernelNode>(
      &node, graph_.handle(), before.data(), before.size(), &params);
  if (!added.ok()) {
    return WithFailureOf(
        added, MakeError(added.code(),
                         "kernel '{}' in {} x {} x {} blocks of {} x {} x {} threads "
                         "with {} bytes of dynamic shared memory: {}",
                         launch.kernel.name, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                         launch.shape.shared_bytes, MessageOf(added)));
  }
  topology_.nodes.push_back(node);
  return SetAttributes(node, launch.shape);
}

absl::Status GraphBuilder::Fill(const MemoryFill& fill, std::span<const Touch> touched) {
  const CuMemsetNodeParams params{.target = fill.target,
                                  .value = fill.value,
                                  .element_size = static_cast<unsigned>(fill.width),
                                  .width = static_cast<size_t>(fill.count)};
  const std::span<const CuGraphNode> before = Before(touched);
  CuGraphNode node = nullptr;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::GraphAddMemsetNode>(
      &node, graph_.handle(), before.data(), before.size(), &params, context_));
  topology_.nodes.push_back(node);
  return absl::OkStatus();
}

absl::Status GraphBuilder::Copy(const MemoryCopy& copy, std::span<const Touch> touched) {
  const CuMemcpyParams params{.source_device = copy.source,
                              .target_device = copy.target,
                              .width_bytes = static_cast<size_t>(copy.bytes)};
  const std::span<const CuGraphNode> before = Before(touched);
  CuGraphNode node = nullptr;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::GraphAddMemcpyNode>(
      &node, graph_.handle(), before.data(), before.size(), &params, context_));
  topology_.nodes.push_back(node);
  return absl::OkStatus();
}

absl::Status GraphBuilder::Work(LibraryWork work, std::span<const Touch> touched) {
  COPPICE_ASSIGN_OR_RETURN(Capture capture, Capture::Begin(*driver_, stream_));
  const absl::Status worked = work(stream_);
  absl::StatusOr<Graph> child = capture.End();
  COPPICE_RETURN_IF_ERROR(worked);
  COPPICE_RETURN_IF_ERROR(child.status());
  size_t count = 0;
  COPPICE_RETURN_IF_ERROR(
      driver_->Call<&DriverTable::GraphGetNodes>(child->handle(), nullptr, &count));
  missed_work_ = count == 0 && !work.may_be_nothing;
  if (missed_work_)
    return InvalidArgument(
        "the work launched nothing on the stream that it was given, so replays would leave it out; "
        "launch it on that stream");
  const std::span<const CuGraphNode> before = Before(touched);
  CuGraphNode node = nullptr;
  if (count == 0) {
    COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::GraphAddEmptyNode>(
        &node, graph_.handle(), before.data(), before.size()));
  } else {
    COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::GraphAddChildGraphNode>(
        &node, graph_.handle(), before.data(), before.size(), child->handle()));
  }
  topology_.nodes.push_back(node);
  return absl::OkStatus();
}

}  // namespace coppice::internal
