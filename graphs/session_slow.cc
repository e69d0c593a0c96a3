// What may be slow: runs without a graph, recordings, and the ways that a plain call never goes.

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/status.h"

#include "graphs/nvtx.h"
#include "graphs/session_state.h"
#include "graphs/staging_layout.h"

namespace coppice {

using internal::Bucket;
using internal::InputLayout;
using internal::Lane;
using internal::LaneLock;
using internal::Node;
using internal::OutputTable;
using internal::Region;
using internal::RunRequest;

Bucket& internal::NodeTable::BucketFor(const BucketKey& key) {
  const auto found = buckets.find(key);
  if (found != buckets.end()) return *found->second;
  order.reserve(order.size() + 1);
  auto bucket = std::make_unique<Bucket>();
  bucket->key = key;
  Bucket& added = *buckets.emplace(key, std::move(bucket)).first->second;
  order.push_back(&added);
  return added;
}

Node& internal::NodeTable::Add(std::unique_ptr<Node> node) {
  Bucket& bucket = *node->bucket;
  bucket.nodes.reserve(bucket.nodes.size() + 1);
  Node& added = *nodes.emplace(node->key, std::move(node)).first->second;
  bucket.nodes.push_back(&added);
  return added;
}

void internal::NodeTable::Remove(Node& node) {
  Bucket& bucket = *node.bucket;
  bucket.nodes.erase(std::find(bucket.nodes.begin(), bucket.nodes.end(), &node));
  bucket.evicted = true;
  last = nullptr;
  nodes.erase(node.key);
}

RunRequest Session::State::RunRequestOf(const Call& call,
                                        std::span<const int64_t> extents,
                                        const InputLayout& layout,
                                        CuStream stream,
                                        const Lane& lane) const {
  RunRequest request{.program = call.program,
                     .layout = &layout,
                     .extents = extents.first(call.program->spec.symbols.size()),
                     .scalars = call.scalars,
                     .stream = stream};
  if (options.workspace_bytes > 0) {
    request.workspace = pool->base(lane.index, WindowKind::kWorkspace);
    request.workspace_bytes = options.workspace_bytes;
  }
  return request;
}

// Room for staged inputs. What does not fit a window does not fit the session.
absl::Status Session::State::ReserveStaging(const Program& program, int64_t bytes, Lane& lane) {
  absl::Status status = lane.Reserve(WindowKind::kStaging, bytes);
  if (status.code() != absl::StatusCode::kOutOfRange) return status;
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "Session::Run: the staged inputs of program '{}': {}", program.spec.name,
                   MessageOf(status));
}

// What people see of a bucket, or of a node before it is recorded.
NodeInfo Session::State::InfoOf(const Request& request, const Lane& lane) {
  const ProgramSpec& spec = request.call.program->spec;
  const auto begin = request.shape.padded.begin();
  return {.program = spec.name,
          .variant = spec.variant,
          .bucket = {begin, begin + static_cast<ptrdiff_t>(spec.symbols.size())},
          .lane = lane.index};
}

Bucket& Session::State::BucketFor(const Request& request, const Lane& lane) const {
  const Program& program = *request.call.program;
  internal::BucketKey key;
  internal::SetBucketKey(request.call, request.shape, key);
  Bucket& bucket = program.lanes[static_cast<size_t>(lane.index)].BucketFor(key);
  bucket.info = InfoOf(request, lane);
  if (tracer != nullptr && bucket.trace_number < 0)
    bucket.trace_number = tracer->DefineBucket(program.trace_number, bucket.info);
  return bucket;
}

// Runs the program once: at the bucket and traced, at the bucket because other ranks do, or at the
// call's own extents.
absl::StatusOr<Lease> Session::State::RunWithoutGraph(const Request& request,
                                                      Lane& lane,
                                                      const Decision& decision) {
  const Call& call = request.call;
  COPPICE_RETURN_IF_ERROR(lane.RefuseCapture(call.stream));
  const bool warming = decision.path == Path::kWarmUp;
  const auto& extents = warming || decision.at_bucket ? request.shape.padded : request.shape.real;
  InputLayout layout = internal::LayOutInputs(
      *call.program, call.binding, request.statics, /*in_place=*/{}, extents,
      {.staging = pool->base(lane.index, WindowKind::kStaging), .nodes = lane.node_base()});
  COPPICE_RETURN_IF_ERROR(ReserveStaging(*call.program, layout.bytes, lane));
  lane.Sweep();
  lane.ReserveSlot();
  COPPICE_RETURN_IF_ERROR(lane.Enter(call.stream));
  COPPICE_RETURN_IF_ERROR(Stage(request, layout));
  if (warming) lane.CountStaged(layout);
  OutputTable outputs;
  internal::EagerBytes bytes(lane);
  internal::Trace trace;
  COPPICE_RETURN_IF_ERROR(
      internal::RunEagerly(lane, RunRequestOf(call, extents, layout, call.stream, lane),
                           warming ? Phase::kWarmUp : Phase::kEager, outputs, bytes.addresses,
                           warming ? &trace : nullptr));
  if (warming) {
    Bucket& bucket = BucketFor(request, lane);
    bucket.trace = std::move(trace);
    ++bucket.warmups;
  }
  ++lane.calls;
  Lease lease = MakeLease(request, lane, decision.path, decision.reason);
  if (lane.tracer != nullptr) TraceCall(request, lane, decision, layout);
  const bool into = call.output_mode == OutputMode::kWriteInto;
  if (into || !layout.copy_backs.empty()) {
    COPPICE_RETURN_IF_ERROR(CopyBehind(request, lane,
                                       into ? OutputMode::kWriteInto : OutputMode::kBorrow, outputs,
                                       layout, Region{}, lease));
  }
  if (!into) GiveEager(request, lane, std::move(outputs), bytes.Take(), lease);
  return lease;
}

// A node without a graph; not in the table yet.
absl::StatusOr<std::unique_ptr<Node>> Session::State::MakeNode(const Request& request,
                                                               Lane& lane,
                                                               Bucket& bucket,
                                                               Reason reason) {
  const Call& call = request.call;
  auto node = std::make_unique<Node>();
  node->bucket = &bucket;
  node->made_for = reason;
  node->key.statics = request.statics;
  node->key.bucket = bucket.key;
  if (request.child && !lane.scratch.empty())
    node->key.surroundings = lane.surroundings.Intern(lane.scratch);
  std::span<const int64_t> in_place;
  if (node->key.surroundings != nullptr) in_place = node->key.surroundings->in_place;
  node->layout = internal::LayOutInputs(
      *call.program, call.binding, request.statics, in_place, request.shape.padded,
      {.staging = pool->base(lane.index, WindowKind::kStaging), .nodes = lane.node_base()});
  COPPICE_RETURN_IF_ERROR(ReserveStaging(*call.program, node->layout.bytes, lane));
  node->info = InfoOf(request, lane);
  if (gated(*call.program)) node->gate = std::make_unique<internal::Gate>();
  return node;
}

absl::Status Session::State::Settle(absl::Status recorded,
                                    Lane& lane,
                                    Bucket& bucket,
                                    Reason& reason) const {
  bucket.state = Bucket::State::kOpen;
  switch (recorded.code()) {
    case absl::StatusCode::kOk:
      ++lane.stats.recordings;
      return absl::OkStatus();
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
      if (options.on_budget == OnLimit::kError && BudgetShortage(recorded)) return recorded;
      reason = Reason::kByteLimit;
      return absl::OkStatus();
    case absl::StatusCode::kAborted:
      reason = Reason::kCaptureInvalidated;
      if (++bucket.recordings_broken > 1) {
        bucket.state = Bucket::State::kNotCapturable;
      } else {
        ++lane.stats.captures_retried;
      }
      return absl::OkStatus();
    case absl::StatusCode::kFailedPrecondition:
      reason = Reason::kNotCapturable;
      bucket.state = Bucket::State::kNotCapturable;
      return absl::OkStatus();
    default:
      if (internal::IsDifference(recorded)) bucket.refusal = recorded;
      return recorded;
  }
}

Node& Session::State::Publish(std::unique_ptr<Node> node, Lane& lane, const Program& program) {
  Bucket& bucket = *node->bucket;
  bucket.recordings_broken = 0;
  bucket.rerecords += node->made_for == Reason::kStaticInputMoved ? 1 : 0;
  Node& added = program.lanes[static_cast<size_t>(lane.index)].Add(std::move(node));
  if (lane.tracer != nullptr) lane.tracer->Record(lane.index, added.trace_number);
  return added;
}

absl::StatusOr<Lease> Session::State::RecordAndReplay(Request& request,
                                                      Lane& lane,
                                                      const Decision& decision) {
  const Call& call = request.call;
  COPPICE_RETURN_IF_ERROR(lane.RefuseCapture(call.stream));
  Bucket& bucket = *FindBucket(request, lane);
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Node> node,
                           MakeNode(request, lane, bucket, decision.reason));
  if (options.record_in_background && call.program->spec.thread_safe) {
    bucket.state = Bucket::State::kRecording;
    ++lane.recordings;
    background->Add({.lane = &lane,
                     .program = call.program,
                     .scalars = {call.scalars.begin(), call.scalars.end()},
                     .node = std::move(node)});
    return RunWithoutGraph(request, lane, {.path = Path::kEager, .reason = decision.reason});
  }
  const RunRequest run =
      RunRequestOf(call, request.shape.padded, node->layout, lane.own_stream.handle(), lane);
  const internal::Surroundings* around = node->key.surroundings;
  const Plan* chain_plan =
      lane.rehearsal.FindPlan(lane, around == nullptr ? std::vector<Region>() : around->live);
  Reason reason = Reason::kNone;
  COPPICE_RETURN_IF_ERROR(Settle(internal::Record(lane, run, bucket.trace, options.audit_keys,
                                                  LaneLock::kHeld, chain_plan, *node),
                                 lane, bucket, reason));
  if (reason != Reason::kNone)
    return RunWithoutGraph(request, lane, {.path = Path::kEager, .reason = reason});
  Node& recorded = Publish(std::move(node), lane, *call.program);
  request.path = Path::kRecord;
  request.reason = decision.reason;
  COPPICE_ASSIGN_OR_RETURN(Lease lease, Replay(request, lane, recorded));
  --lane.stats.paths[static_cast<size_t>(Path::kReplay)];
  ++lane.stats.paths[static_cast<size_t>(Path::kRecord)];
  ++lane.stats.reasons[static_cast<size_t>(decision.reason)];
  if (IsNews(*call.program, decision.reason))
    Log(*call.program, DescribeReason(request, lane, decision.reason));
  lease.path_ = Path::kRecord;
  lease.reason_ = decision.reason;
  return lease;
}

// A recording in the background, from its start to its end.
void Session::State::RecordJob(internal::BackgroundRecorder::Job& job, CuStream stream) {
  Lane& lane = *job.lane;
  Bucket& bucket = *job.node->bucket;
  const Call call{.program = job.program, .inputs = {}, .scalars = job.scalars};
  const RunRequest run = RunRequestOf(call, std::span<const int64_t>(bucket.key.words),
                                      job.node->layout, stream, lane);
  const auto record = [&]() -> absl::Status {
    try {
      return internal::Record(lane, run, bucket.trace, options.audit_keys, LaneLock::kFree,
                              /*chain_plan=*/nullptr, *job.node);
    } catch (const std::bad_alloc&) {
      // No call is there to pass it on to: as without room on the device, a later call tries again.
      return absl::ResourceExhaustedError("no host memory");
    }
  };
  absl::Status recorded = record();
  // The window and the graphs each ask for room, and calls take some meanwhile.
  constexpr int kAttempts = 4;
  for (int attempt = 1; attempt < kAttempts; ++attempt) {
    const std::optional<int64_t> shortage = BudgetShortage(recorded);
    if (!shortage) break;
    std::unique_lock<std::mutex> room(lane.mutex);
    const bool made = MakeRoom(lane, *shortage, MemoryKind::kNodes).ok();
    room.unlock();
    if (!made) break;
    recorded = record();
  }
  const std::lock_guard<std::mutex> lock(lane.mutex);
  --lane.recordings;
  if (lane.usable != Lane::kAbsent) lane.FindUsable();
  Reason reason = Reason::kNone;
  // A failure that no call can answer for becomes the bucket's: eager from here on.
  const absl::Status settled = Remember(Settle(std::move(recorded), lane, bucket, reason));
  if (!settled.ok() && bucket.refusal.ok()) bucket.state = Bucket::State::kNotCapturable;
  if (!settled.ok() || reason != Reason::kNone) {
    if (reason == Reason::kNone) reason = Reason::kNotCapturable;
    if (IsNews(*job.program, reason)) Log(*job.program, NameOf(reason));
    return;
  }
  Publish(std::move(job.node), lane, *job.program);
}

// The first replay's part of an audit; what it finds refuses the bucket.
absl::Status Session::State::Audit(const Request& request, Lane& lane, Node& node) {
  const RunRequest run =
      RunRequestOf(request.call, request.shape.padded, node.layout, lane.own_stream.handle(), lane);
  absl::Status audited = internal::AuditAgain(lane, run, node.bucket->trace, node);
  if (internal::IsDifference(audited)) node.bucket->refusal = audited;
  return audited;
}

// Makes the node's memory usable again, if it was taken away. False if there is no room for it.
absl::StatusOr<bool> Session::State::MapAgain(Lane& lane, const Node& node) {
  if (node.top <= lane.usable) return true;
  const absl::Status mapped = lane.Reserve(WindowKind::kNodes, node.top);
  if (mapped.code() == absl::StatusCode::kResourceExhausted && stance.load() != Stance::kStrict)
    return false;
  COPPICE_RETURN_IF_ERROR(mapped);
  ++lane.stats.remaps;
  return true;
}

absl::StatusOr<Lease> Session::State::RunUnusual(Request& request, Lane& lane, Node* node) {
  const Program& program = *request.call.program;
  COPPICE_RETURN_IF_ERROR(lane.CheckPresent("Session::Run"));
  if (node == nullptr && DemoteMoved(request, lane)) {
    request.statics = request.call.binding->version.load(std::memory_order_acquire);
    node = FindNode(request, lane);
  }
  Decision decision = Decide(request, lane, node);
  if (options.vote) {
    COPPICE_RETURN_IF_ERROR(decision.status);
    COPPICE_RETURN_IF_ERROR(Vote(request, lane, decision));
    node = FindNode(request, lane);
  }
  COPPICE_RETURN_IF_ERROR(decision.status);
  if (decision.evict) {
    lane.Sweep();
    COPPICE_ASSIGN_OR_RETURN(const bool evicted, EvictOne(&program, lane));
    if (!evicted) decision = {.path = Path::kEager, .reason = Reason::kGraphLimit};
  }
  lane.busy = node;
  const absl::Cleanup idle = [&lane] { lane.busy = nullptr; };
  if (decision.path == Path::kReplay) {
    COPPICE_ASSIGN_OR_RETURN(const bool usable, MapAgain(lane, *node));
    if (!usable) decision = {.path = Path::kEager, .reason = Reason::kByteLimit};
  }
  switch (decision.path) {
    case Path::kReplay:
      if (node->audited != nullptr) COPPICE_RETURN_IF_ERROR(Audit(request, lane, *node));
      return gated(program) && stance.load() != Stance::kStrict ? RunTimed(request, lane, *node)
                                                                : Replay(request, lane, *node);
    case Path::kRecord:
      return RecordAndReplay(request, lane, decision);
    case Path::kWarmUp:
    case Path::kEager:
    case Path::kInclude:
      return RunWithoutGraph(request, lane, decision);
  }
  return absl::InternalError("Session::Run: no such path");
}

// Warms up and records one bucket, as a root, on inputs of zeros.
absl::Status Session::State::WarmBucket(const Call& call,
                                        const internal::CallShape& shape,
                                        const Binding* scratch,
                                        Lane& lane) {
  Request request{.call = call, .shape = shape};
  if (call.binding != nullptr)
    request.statics = call.binding->version.load(std::memory_order_acquire);
  if (FindNode(request, lane) != nullptr) return absl::OkStatus();
  Bucket& bucket = BucketFor(request, lane);
  COPPICE_RETURN_IF_ERROR(bucket.refusal);
  if (bucket.state == Bucket::State::kRecording) {
    return FailedPrecondition(
        "Session::Warm: a bucket of program '{}' is being recorded in the background; call "
        "WaitForRecordings before",
        call.program->spec.name);
  }
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Node> node,
                           MakeNode(request, lane, bucket, Reason::kNewBucket));
  if (bucket.warmups == 0) {
    const Binding* binding = scratch == nullptr ? call.binding : scratch;
    const internal::StaticVersion* statics =
        binding == nullptr ? nullptr : binding->version.load(std::memory_order_acquire);
    InputLayout layout = internal::LayOutInputs(
        *call.program, binding, statics, /*in_place=*/{}, shape.padded,
        {.staging = pool->base(lane.index, WindowKind::kStaging), .nodes = lane.node_base()});
    COPPICE_RETURN_IF_ERROR(ReserveStaging(*call.program, layout.bytes, lane));
    COPPICE_RETURN_IF_ERROR(lane.Enter(call.stream));
    internal::ApplyZeros(binding, layout.sources, layout.staging);
    std::copy_n(shape.padded.begin(), call.program->spec.symbols.size(),
                layout.staging.header.words);
    COPPICE_RETURN_IF_ERROR(staging.Launch(call.stream, layout.staging));
    OutputTable outputs;
    internal::EagerBytes bytes(lane);
    internal::Trace trace;
    COPPICE_RETURN_IF_ERROR(
        internal::RunEagerly(lane, RunRequestOf(call, shape.padded, layout, call.stream, lane),
                             Phase::kWarmUp, outputs, bytes.addresses, &trace));
    bucket.trace = std::move(trace);
    ++bucket.warmups;
  }
  const RunRequest run =
      RunRequestOf(call, shape.padded, node->layout, lane.own_stream.handle(), lane);
  COPPICE_RETURN_IF_ERROR(internal::Record(lane, run, bucket.trace, options.audit_keys,
                                           LaneLock::kHeld,
                                           /*chain_plan=*/nullptr, *node));
  ++lane.stats.recordings;
  Publish(std::move(node), lane, *call.program);
  return absl::OkStatus();
}

}  // namespace coppice
