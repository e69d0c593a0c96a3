// The paths of a call: replay, and everything that may be slow behind RunWithoutGraph.

#include "graphs/session_state.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/status.h"

#include "graphs/nvtx.h"
#include "graphs/staging_layout.h"

namespace coppice {

using internal::CallShape;
using internal::Lane;
using internal::Node;
using internal::NodeKey;
using internal::NodeTable;
using internal::OwnedOutputs;
using internal::RunRequest;

Node& internal::NodeTable::Add(std::unique_ptr<Node> node) {
  Node& added = *node;
  order.push_back(&added);
  absl::Cleanup undo = [this] { order.pop_back(); };
  by_key.emplace(added.key, std::move(node));
  std::move(undo).Cancel();
  return added;
}

// Passes `status` on; a sticky device error also becomes the answer to every later call.
absl::Status Session::State::Remember(absl::Status status) {
  const std::optional<CuResult> result = CuResultOf(status);
  if (result.has_value() && IsSticky(*result)) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (poison.ok()) poison = status;
    poisoned.store(true, std::memory_order_release);
  }
  return status;
}

absl::Status Session::State::Poison() {
  if (!poisoned.load(std::memory_order_acquire)) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex);
  return poison;
}

RunRequest Session::State::RequestOf(const Call& call,
                                     std::span<const int64_t> extents,
                                     const StagingParams& params,
                                     const Lane& lane) const {
  RunRequest request{.program = call.program,
                     .binding = call.binding,
                     .extents = extents.first(call.program->spec.symbols.size()),
                     .scalars = call.scalars,
                     .staged = std::span(params.copies, call.program->copies.size()),
                     .stream = call.stream};
  if (!workspaces.empty()) {
    request.workspace = workspaces[static_cast<size_t>(lane.index)].address();
    request.workspace_bytes = options.workspace_bytes;
  }
  return request;
}

// Counts the call, says once per program why it did not replay, and makes the lease without
// outputs.
Lease Session::State::Finish(
    const Call& call, const CallShape& shape, Lane& lane, Path path, Reason reason) {
  ++lane.stats.calls;
  ++lane.stats.paths[static_cast<size_t>(path)];
  if (reason != Reason::kNone) [[unlikely]] {
    ++lane.stats.reasons[static_cast<size_t>(reason)];
    const uint32_t bit = uint32_t{1} << static_cast<int>(reason);
    if (options.log && (call.program->reasons_logged.fetch_or(bit) & bit) == 0) {
      options.log(fmt::format("coppice: program '{}' runs without replay: {}",
                              call.program->spec.name, NameOf(reason)));
    }
  }
  Lease lease;
  lease.lane_ = &lane;
  lease.extents_ = shape.real;
  lease.path_ = path;
  lease.reason_ = reason;
  return lease;
}

absl::StatusOr<Lease> Session::State::Replay(const Call& call,
                                             const CallShape& shape,
                                             Lane& lane,
                                             Node& node) {
  const internal::NvtxRange range("replay");
  if (lane.open_scopes != 0) [[unlikely]] {
    return FailedPrecondition(
        "Session::Run: {} read scopes are open on lane {}; end them before the next call reuses "
        "the bytes",
        lane.open_scopes, lane.index);
  }
  COPPICE_RETURN_IF_ERROR(lane.Enter(call.stream));
  if (node.staging.header.word_count + node.staging.header.copy_count > 0) {
    lane.stats.real_elements += internal::FillStaging(call, shape, node.staging);
    lane.stats.padded_elements += node.padded_elements;
    if (call.poison == Poison::kOff) [[likely]] {
      COPPICE_RETURN_IF_ERROR(staging.Launch(call.stream, node.staging));
    } else {
      StagingParams poisoned_params = node.staging;
      internal::ApplyPoison(*call.program, call.poison, poisoned_params);
      COPPICE_RETURN_IF_ERROR(staging.Launch(call.stream, poisoned_params));
    }
  }
  if (options.poison_expired) [[unlikely]]
    COPPICE_RETURN_IF_ERROR(PoisonExpired(call.stream, lane));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphLaunch>(node.exec->handle(), call.stream));
  ++lane.epoch;
  lane.last_outputs = &node.outputs;
  ++node.info.replays;
  Lease lease = Finish(call, shape, lane, Path::kReplay, Reason::kNone);
  lease.outputs_ = &node.outputs;
  lease.epoch_ = lane.epoch;
  return lease;
}

// Overwrites the outputs of the lane's last graph. Runs after staging, which may still read them.
absl::Status Session::State::PoisonExpired(CuStream stream, Lane& lane) const {
  constexpr unsigned char kPoison = 0xCB;
  if (lane.last_outputs == nullptr) return absl::OkStatus();
  for (const Tensor& tensor : lane.last_outputs->tensors) {
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemsetD8Async>(
        tensor.data, kPoison, static_cast<size_t>(internal::RoundedBytes(tensor)), stream));
  }
  return absl::OkStatus();
}

absl::StatusOr<Lease> Session::State::RunEager(const Call& call,
                                               const CallShape& shape,
                                               Lane& lane,
                                               Reason reason) {
  StagingParams params{};
  const int64_t bytes = internal::LayOutStaging(
      *call.program, pool->base(lane.index, WindowKind::kStaging), shape.real, params);
  COPPICE_RETURN_IF_ERROR(pool->Reserve(lane.index, WindowKind::kStaging, bytes));
  COPPICE_RETURN_IF_ERROR(lane.Enter(call.stream));
  internal::FillStaging(call, shape, params);
  COPPICE_RETURN_IF_ERROR(staging.Launch(call.stream, params));
  OwnedOutputs outputs = internal::MakeOwnedOutputs(lane);
  COPPICE_RETURN_IF_ERROR(internal::RunEagerly(lane, RequestOf(call, shape.real, params, lane),
                                               Phase::kEager, *outputs, /*trace=*/nullptr));
  Lease lease = Finish(call, shape, lane, Path::kEager, reason);
  lease.outputs_ = outputs.get();
  lease.owned_ = std::move(outputs);
  return lease;
}

Reason Session::State::ReasonForNewNode(const NodeTable& table, const NodeKey& key) const {
  for (const Node* node : table.order) {
    NodeKey elsewhere = key;
    elsewhere.binding = node->key.binding;
    if (elsewhere == node->key) return Reason::kStaticInputMoved;
  }
  return Reason::kNewBucket;
}

// A node without a trace or a graph; not in the table yet.
absl::StatusOr<std::unique_ptr<Node>> Session::State::MakeNode(const Call& call,
                                                               const NodeKey& key,
                                                               Lane& lane) {
  const Program& program = *call.program;
  auto node = std::make_unique<Node>();
  node->key = key;
  node->made_for = ReasonForNewNode(program.lanes[static_cast<size_t>(lane.index)], key);
  const std::span<const int64_t> extents(key.words.data(), program.spec.symbols.size());
  const int64_t bytes = internal::LayOutStaging(
      program, pool->base(lane.index, WindowKind::kStaging), extents, node->staging);
  COPPICE_RETURN_IF_ERROR(pool->Reserve(lane.index, WindowKind::kStaging, bytes));
  node->padded_elements = internal::PaddedElements(node->staging);
  node->info.program = program.spec.name;
  node->info.bucket.assign(extents.begin(), extents.end());
  node->info.lane = lane.index;
  return node;
}

absl::StatusOr<Lease> Session::State::WarmUp(const Call& call,
                                             const CallShape& shape,
                                             Lane& lane,
                                             const NodeKey& key) {
  NodeTable& table = call.program->lanes[static_cast<size_t>(lane.index)];
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, MakeNode(call, key, lane));
  COPPICE_RETURN_IF_ERROR(lane.Enter(call.stream));
  lane.stats.real_elements += internal::FillStaging(call, shape, node->staging);
  lane.stats.padded_elements += node->padded_elements;
  StagingParams params = node->staging;
  if (call.poison != Poison::kOff) internal::ApplyPoison(*call.program, call.poison, params);
  COPPICE_RETURN_IF_ERROR(staging.Launch(call.stream, params));
  OwnedOutputs outputs = internal::MakeOwnedOutputs(lane);
  COPPICE_RETURN_IF_ERROR(internal::RunEagerly(lane, RequestOf(call, shape.padded, params, lane),
                                               Phase::kWarmUp, *outputs, &node->trace));
  const Reason reason = table.Add(std::move(node)).made_for;
  Lease lease = Finish(call, shape, lane, Path::kWarmUp, reason);
  lease.outputs_ = outputs.get();
  lease.owned_ = std::move(outputs);
  return lease;
}

// Records a warm node. A failure that leaves the call able to run eagerly sets `reason` and is OK.
absl::Status Session::State::TryRecord(const Call& call, Lane& lane, Node& node, Reason& reason) {
  const std::span<const int64_t> extents(node.key.words.data(), call.program->spec.symbols.size());
  const absl::Status status =
      internal::Record(lane, RequestOf(call, extents, node.staging, lane), node);
  switch (status.code()) {
    case absl::StatusCode::kOk:
      reason = Reason::kNone;
      return absl::OkStatus();
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
      reason = Reason::kByteLimit;
      return absl::OkStatus();
    case absl::StatusCode::kAborted:
      reason = Reason::kCaptureInvalidated;
      ++lane.stats.captures_retried;
      if (++node.recordings_broken > 1) {
        node.state = Node::State::kNotCapturable;
        --lane.stats.captures_retried;
      }
      return absl::OkStatus();
    case absl::StatusCode::kFailedPrecondition:
      reason = Reason::kNotCapturable;
      node.state = Node::State::kNotCapturable;
      return absl::OkStatus();
    default:
      return status;
  }
}

absl::StatusOr<Lease> Session::State::RunWithoutGraph(const Call& call,
                                                      const CallShape& shape,
                                                      Lane& lane,
                                                      Node* node) {
  if (options.stance != Stance::kRecord) return RunEager(call, shape, lane, Reason::kUserDisabled);
  if (shape.over_maximum) return RunEager(call, shape, lane, Reason::kOverLargestBucket);
  if (node == nullptr) {
    const NodeTable& table = call.program->lanes[static_cast<size_t>(lane.index)];
    if (static_cast<int64_t>(table.order.size()) < options.graphs_per_program_max) {
      return WarmUp(call, shape, lane, KeyOf(call, shape));
    }
    if (options.on_limit == OnLimit::kEager)
      return RunEager(call, shape, lane, Reason::kGraphLimit);
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Session::Run: program '{}' has {} graphs on lane {}, its limit; raise "
                     "graphs_per_program_max or allow eager runs",
                     call.program->spec.name, table.order.size(), lane.index);
  }
  if (node->state == Node::State::kNotCapturable) {
    return RunEager(call, shape, lane, Reason::kNotCapturable);
  }
  if (lane.open_scopes != 0) {
    return FailedPrecondition("Session::Run: {} read scopes are open on lane {}", lane.open_scopes,
                              lane.index);
  }
  Reason reason = Reason::kNone;
  COPPICE_RETURN_IF_ERROR(TryRecord(call, lane, *node, reason));
  if (reason != Reason::kNone) return RunEager(call, shape, lane, reason);
  COPPICE_ASSIGN_OR_RETURN(Lease lease, Replay(call, shape, lane, *node));
  --lane.stats.paths[static_cast<size_t>(Path::kReplay)];
  ++lane.stats.paths[static_cast<size_t>(Path::kRecord)];
  ++lane.stats.reasons[static_cast<size_t>(node->made_for)];
  lease.path_ = Path::kRecord;
  lease.reason_ = node->made_for;
  return lease;
}

absl::StatusOr<Lease> Session::State::RunInLane(const Call& call,
                                                const CallShape& shape,
                                                Lane& lane) {
  Node* node = nullptr;
  if (!shape.over_maximum) [[likely]] {
    const auto& nodes = call.program->lanes[static_cast<size_t>(lane.index)].by_key;
    const auto found = nodes.find(KeyOf(call, shape));
    if (found != nodes.end()) node = found->second.get();
  }
  if (node != nullptr && node->exec.has_value() && options.stance != Stance::kEager) [[likely]] {
    return Replay(call, shape, lane, *node);
  }
  return RunWithoutGraph(call, shape, lane, node);
}

// Warms up and records one bucket on inputs of zeros.
absl::Status Session::State::WarmBucket(const Call& call,
                                        const CallShape& shape,
                                        const Binding* scratch,
                                        Lane& lane) {
  NodeTable& table = call.program->lanes[static_cast<size_t>(lane.index)];
  const NodeKey key = KeyOf(call, shape);
  const auto found = table.by_key.find(key);
  Node* warm = found == table.by_key.end() ? nullptr : found->second.get();
  if (warm != nullptr && warm->exec.has_value()) return absl::OkStatus();
  if (warm == nullptr) {
    COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, MakeNode(call, key, lane));
    COPPICE_RETURN_IF_ERROR(lane.Enter(call.stream));
    StagingParams params = node->staging;
    internal::ApplyZeros(params);
    std::copy_n(shape.padded.begin(), call.program->spec.symbols.size(), params.header.words);
    COPPICE_RETURN_IF_ERROR(staging.Launch(call.stream, params));
    RunRequest request = RequestOf(call, shape.padded, node->staging, lane);
    if (scratch != nullptr) request.binding = scratch;
    const OwnedOutputs outputs = internal::MakeOwnedOutputs(lane);
    COPPICE_RETURN_IF_ERROR(
        internal::RunEagerly(lane, request, Phase::kWarmUp, *outputs, &node->trace));
    warm = &table.Add(std::move(node));
  }
  if (lane.open_scopes != 0) {
    return FailedPrecondition("Session::Warm: {} read scopes are open on lane {}", lane.open_scopes,
                              lane.index);
  }
  return internal::Record(lane, RequestOf(call, shape.padded, warm->staging, lane), *warm);
}

}  // namespace coppice
