// Limits on graphs, and what becomes of static inputs that keep moving.

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/session_state.h"

namespace coppice {

using internal::Bucket;
using internal::Lane;
using internal::Node;
using internal::NodeTable;
using internal::StaticVersion;

namespace {

// Re-records in which a static input has moved, after which it is copied.
constexpr int kMovesMax = 4;

// What a graph is worth: cheap to record again, large and long unused is worth little.
double WorthOf(const Node& node, const Lane& lane) {
  const auto age = static_cast<double>(lane.calls - node.last_call + 1);
  const auto bytes = static_cast<double>(std::max<int64_t>(node.charge.bytes(), 1));
  return static_cast<double>(node.info.record_ns) / (age * bytes);
}

void Drop(Node& node, NodeTable& table, Lane& lane) {
  if (lane.tracer != nullptr) lane.tracer->Evict(lane.index, node.trace_number);
  lane.timer.Forget(node);
  table.Remove(node);
}

}  // namespace

// A bucket that is warm and waits for its recording counts as a graph, unless another would make
// room for it.
bool Session::State::OverLimit(const Request& request,
                               const Lane& lane,
                               const Bucket* bucket,
                               Reason reason) const {
  const NodeTable& table = request.call.program->lanes[static_cast<size_t>(lane.index)];
  auto graphs = static_cast<int64_t>(table.nodes.size());
  if (options.on_limit != OnLimit::kEvict) {
    graphs += std::count_if(table.order.begin(), table.order.end(), [&](const Bucket* other) {
      return other != bucket && other->nodes.empty();
    });
  }
  if (graphs >= options.graphs_per_program_max) return true;
  return reason == Reason::kStaticInputMoved &&
         bucket->rerecords >= options.rerecords_per_bucket_max;
}

// None goes that may be running or whose outputs are leased.
absl::StatusOr<bool> Session::State::EvictOne(const Program* program, Lane& lane) const {
  COPPICE_ASSIGN_OR_RETURN(const uint64_t completed, lane.FindCompletedCall());
  const auto index = static_cast<size_t>(lane.index);
  NodeTable* table = nullptr;
  Node* victim = nullptr;
  for (const Program* each : Programs()) {
    if (program != nullptr && each != program) continue;
    for (const auto& [key, node] : each->lanes[index].nodes) {
      if (node->leases > 0 || node->last_call > completed || node.get() == lane.busy) continue;
      if (victim != nullptr && WorthOf(*node, lane) >= WorthOf(*victim, lane)) continue;
      victim = node.get();
      table = &each->lanes[index];
    }
  }
  if (victim == nullptr) return false;
  Drop(*victim, *table, lane);
  ++lane.stats.evictions;
  return true;
}

// Drops every graph without leased outputs. Requires: nothing of the lane is in flight.
int64_t Session::State::EvictIdle(const Program& program,
                                  Lane& lane,
                                  const StaticVersion* version) {
  lane.Sweep();
  NodeTable& table = program.lanes[static_cast<size_t>(lane.index)];
  std::vector<Node*> idle;
  for (const auto& [key, node] : table.nodes) {
    if (node->leases == 0 && (version == nullptr || key.statics == version))
      idle.push_back(node.get());
  }
  for (Node* node : idle)
    Drop(*node, table, lane);
  return static_cast<int64_t>(idle.size());
}

// The interned version of these addresses. Under the session's lock.
absl::StatusOr<const StaticVersion*> Session::State::VersionOf(const Program& program,
                                                               const std::vector<Tensor>& tensors) {
  StaticVersion version;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool input = i < program.statics.size();
    const InputSpec* spec =
        input ? &program.spec.inputs[static_cast<size_t>(program.statics[i])] : nullptr;
    const bool aligned =
        spec == nullptr || tensors[i].data % static_cast<DeviceAddress>(spec->alignment) == 0;
    const bool copied = input && (!aligned || program.demoted[i]);
    if (copied) version.copied.push_back(static_cast<int>(i));
    version.addresses.push_back(copied ? 0 : tensors[i].data);
    const bool possible = spec != nullptr && !spec->mutated &&
                          program.copies.size() + version.copied.size() <= kCopyInputsMax;
    if (copied && !possible) {
      return InvalidArgument(
          "Session::Bind: static input '{}' of program '{}' at {:#x} misses its alignment of {} "
          "bytes, and it cannot be copied: the program mutates it or stages {} inputs already",
          spec->name, program.spec.name, tensors[i].data, spec->alignment, kCopyInputsMax);
    }
  }
  for (const std::unique_ptr<StaticVersion>& known : program.versions) {
    if (known->addresses == version.addresses && known->copied == version.copied)
      return known.get();
  }
  program.versions.push_back(std::make_unique<StaticVersion>(std::move(version)));
  return program.versions.back().get();
}

bool Session::State::CanDemote(const Program& program, size_t index) {
  if (index >= program.statics.size() || program.demoted[index]) return false;
  const InputSpec& spec = program.spec.inputs[static_cast<size_t>(program.statics[index])];
  const auto demoted = std::count(program.demoted.begin(), program.demoted.end(), true);
  return !spec.mutated && static_cast<int64_t>(program.copies.size()) + demoted < kCopyInputsMax;
}

bool Session::State::DemoteMoved(const Request& request, Lane& lane) {
  const Program& program = *request.call.program;
  const Bucket* bucket = FindBucket(request, lane);
  if (request.statics == nullptr || bucket == nullptr || bucket->nodes.empty()) return false;
  if (ReasonForRecording(request, bucket) != Reason::kStaticInputMoved) return false;
  const StaticVersion& before = *bucket->nodes.back()->key.statics;
  const std::lock_guard<std::mutex> lock(mutex);
  bool demoted = false;
  for (size_t i = 0; i < program.moves.size(); ++i) {
    if (before.addresses[i] == request.statics->addresses[i]) continue;
    if (program.moves[i]++ < kMovesMax || !CanDemote(program, i)) continue;
    program.demoted[i] = true;
    demoted = true;
    ++lane.stats.inputs_demoted;
    if (options.log) {
      options.log(fmt::format(
          "coppice: static input '{}' of program '{}' moved {} times; every call copies it from "
          "here on",
          program.spec.inputs[static_cast<size_t>(program.statics[i])].name, program.spec.name,
          program.moves[i]));
    }
  }
  if (!demoted) return false;
  for (const std::unique_ptr<Binding>& binding : bindings) {
    if (binding->program != &program || binding->version.load() == nullptr) continue;
    absl::StatusOr<const StaticVersion*> version = VersionOf(program, binding->tensors);
    if (version.ok()) binding->version.store(*version, std::memory_order_release);
  }
  return true;
}

}  // namespace coppice
