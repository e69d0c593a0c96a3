// Recordings, what their outcomes mean for a bucket, and those in the background.

#include "graphs/call/record.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"

#include "graphs/call/decide.h"
#include "graphs/call/deliver.h"
#include "graphs/call/eager.h"
#include "graphs/call/exact.h"
#include "graphs/call/flight.h"
#include "graphs/call/time_variants.h"
#include "graphs/node/input_layout.h"
#include "graphs/record/planned_context.h"
#include "graphs/record/recorder.h"

namespace coppice::internal {
namespace {

// A recording that failed, or the reason for which calls of its bucket run without.
struct Settled {
  absl::Status status;
  Reason reason = Reason::kNone;
  bool departed = false;  // From its script: it is to be warmed up anew.
};

// What the failure of a recording means for its bucket. `refused`: the budget had no room.
Settled Settle(
    const absl::Status& failed, bool refused, OnLimit on_budget, Lane& lane, Bucket& bucket) {
  bucket.EndRecording();
  TraceFailure(bucket, failed, lane);
  switch (failed.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
      if (refused && on_budget == OnLimit::kError) return {.status = failed};
      return {.reason = Reason::kByteLimit};
    case absl::StatusCode::kAborted:
      bucket.NoteBroken(MessageOf(failed));
      if (bucket.capturable()) lane.books().Count(&SessionStats::captures_retried);
      return {.reason = Reason::kCaptureInvalidated};
    case absl::StatusCode::kUnavailable:
      if (!IsDeparture(failed)) return {.status = failed};
      bucket.NoteDeparted(MessageOf(failed));
      return {.reason = Reason::kNotCapturable, .departed = bucket.capturable()};
    case absl::StatusCode::kFailedPrecondition:
      bucket.NoteNotCapturable(MessageOf(failed));
      return {.reason = Reason::kNotCapturable};
    default:
      if (IsDifference(failed)) bucket.Refuse(failed);
      return {.status = failed};
  }
}

// A recording in the background, from its start to its end.
struct BackgroundJob {
  SessionParts& parts;
  Lane& lane;
  const Program& program;
  std::vector<int64_t> scalars;
  ExtentArray extents;  // Of the bucket.
  NodeDraft draft;

  int64_t retirements = 0;  // When it was drafted.

  absl::StatusOr<std::unique_ptr<Node>> RecordUnlocked(Room& room, CuStream stream);
  void Run(CuStream stream);
  void Finish(absl::StatusOr<std::unique_ptr<Node>> recorded, bool refused);
};

absl::StatusOr<std::unique_ptr<Node>> BackgroundJob::RecordUnlocked(Room& room, CuStream stream) {
  const Call call{.program = &program, .inputs = {}, .scalars = scalars, .lane = lane.index};
  const RunRequest run = RunRequestOf(parts, call, extents, draft.layout, stream);
  try {
    COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Node> node,
                             Record({.driver = parts.driver,
                                     .memory = lane.memory(),
                                     .room = room,
                                     .run = run,
                                     .upload_stream = stream,
                                     .audit = parts.options.checks.audit_keys,
                                     .draw = parts.options.keep_drawings,
                                     .tracer = parts.tracer.get(),
                                     .now_ns = parts.options.now_ns},
                                    draft));
    // Calls launch it on streams of theirs, which nothing orders behind the upload.
    COPPICE_RETURN_IF_ERROR(SynchronizeStream(parts.driver, stream));
    return node;
  } catch (const std::bad_alloc&) {
    // No call is there to pass it on to: as without room on the device, a later call tries again.
    return absl::ResourceExhaustedError("no host memory");
  } catch (const std::exception& thrown) {
    return FailedPrecondition("program '{}' threw under capture: {}", program.spec.name,
                              thrown.what());
  } catch (...) {
    return FailedPrecondition("program '{}' threw under capture", program.spec.name);
  }
}

void BackgroundJob::Run(CuStream stream) {
  Room room([this](int64_t bytes, MemoryKind) {
    const std::lock_guard lock(lane.mutex);
    return lane.memory().room().Make(bytes, MemoryKind::kPlan);
  });
  absl::StatusOr<std::unique_ptr<Node>> recorded = RecordUnlocked(room, stream);
  const std::lock_guard lock(lane.mutex);
  lane.EndRecording();
  draft.bucket->EndRecording();
  // A version of it that was retired meanwhile had no node to drop.
  if (parts.catalogue->retirements() != retirements) lane.SeeRetirements(-1);
  try {
    lane.memory().FindPresent();
    Finish(std::move(recorded), room.refused());
  } catch (const std::bad_alloc&) {
    // As above: a later call tries again.
  }
}

void BackgroundJob::Finish(absl::StatusOr<std::unique_ptr<Node>> recorded, bool refused) {
  Bucket& bucket = *draft.bucket;
  if (recorded.ok()) {
    Publish(parts, program, lane, *std::move(recorded));
    return;
  }
  const Settled settled =
      Settle(recorded.status(), refused, parts.options.memory.on_budget, lane, bucket);
  const std::string why = MessageOf(recorded.status());
  // A failure that no call can answer for becomes the bucket's: eager from here on.
  if (!parts.sticky.Note(settled.status).ok() && bucket.refusal().ok())
    bucket.NoteNotCapturable(why);
  LogReason(parts, program, settled.status.ok() ? settled.reason : Reason::kNotCapturable, why);
}

// An executable was made for a bucket that is larger than others, whose plans it did not fit: those
// are recorded anew when they are called, by this plan and without an executable of their own.
void RetireSmaller(const Program& program, const Node& larger, Lane& lane) {
  NodeTables& nodes = lane.nodes();
  const BucketKey& above = larger.key().bucket;
  const auto of_others = [&](const Node* node) {
    return node->exact() != nullptr && &node->exact()->family() != &larger.exact()->family() &&
           node->key().surroundings == larger.key().surroundings;
  };
  const size_t symbols = program.spec.symbols.size();
  std::vector<BucketKey> smaller;
  for (const Bucket* bucket : nodes.Of(program).buckets()) {
    if (!bucket->nodes().empty() && std::ranges::all_of(bucket->nodes(), of_others) &&
        std::ranges::equal(std::span(bucket->key.words).first(symbols),
                           std::span(above.words).first(symbols), std::ranges::less_equal())) {
      smaller.push_back(bucket->key);
    }
  }
  if (smaller.empty()) return;
  nodes.RetireBuckets(program, [&](const BucketKey& key) {
    return std::ranges::find(smaller, key) != smaller.end();
  });
}

}  // namespace

absl::StatusOr<NodeDraft> DraftNode(const Request& request,
                                    Lane& lane,
                                    Bucket& bucket,
                                    Reason reason) {
  const Call& call = request.call;
  NodeDraft draft{.bucket = &bucket,
                  .made_for = reason,
                  .gated = call.program->place.gated,
                  .info = InfoOf(request, lane)};
  draft.key.statics = request.statics;
  draft.key.bucket = bucket.key;
  if (request.child() && !request.around->empty())
    draft.key.surroundings = lane.InternSurroundings(*request.around);
  std::span<const int64_t> in_place;
  if (draft.key.surroundings != nullptr) in_place = draft.key.surroundings->in_place;
  draft.layout = LayOutInputs(*call.program, call.binding, request.statics, in_place,
                              request.shape.padded, BasesOf(lane));
  draft.entry = EntryShape(*call.program, draft.layout);
  COPPICE_RETURN_IF_ERROR(ReserveStaging(*call.program, draft.layout.bytes, lane));
  return draft;
}

absl::StatusOr<std::unique_ptr<Node>> RecordInline(const SessionParts& parts,
                                                   const Request& request,
                                                   Lane& lane,
                                                   const NodeDraft& draft,
                                                   const Plan* chain_plan) {
  const RunRequest run = RunRequestOf(parts, request.call, request.shape.padded, draft.layout,
                                      lane.order().own_stream().handle());
  const Program& program = *request.call.program;
  const std::vector<ExactPeer> peers = lane.nodes().Of(program).ExactIn(draft.key.surroundings);
  return Record({.driver = parts.driver,
                 .memory = lane.memory(),
                 .room = lane.memory().room(),
                 .run = run,
                 .upload_stream = request.call.stream,
                 .chain_plan = chain_plan,
                 .audit = parts.options.checks.audit_keys,
                 .draw = parts.options.keep_drawings,
                 .peers = program.spec.exact == ExactReplay::kNever ? nullptr : &peers,
                 .tracer = lane.tracer,
                 .now_ns = parts.options.now_ns},
                draft);
}

bool RecordsInBackground(const SessionParts& parts, const Program& program) {
  // An executable that others share is set under the lane's lock.
  return parts.background != nullptr && program.spec.thread_safe &&
         program.spec.exact == ExactReplay::kNever;
}

void RecordInBackground(SessionParts& parts, const Request& request, Lane& lane, NodeDraft draft) {
  const Call& call = request.call;
  Bucket& bucket = *draft.bucket;
  auto job = std::make_unique<BackgroundJob>(
      BackgroundJob{.parts = parts,
                    .lane = lane,
                    .program = *call.program,
                    .scalars = {call.scalars.begin(), call.scalars.end()},
                    .extents = request.shape.padded,
                    .draft = std::move(draft),
                    .retirements = lane.retirements_seen()});
  parts.background->Add([job = std::move(job)](CuStream stream) { job->Run(stream); });
  bucket.BeginRecording();  // The job ends under the lane's lock, so not before this.
  lane.BeginRecording();
}

absl::StatusOr<Lease> RecordAndReplay(SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      const Decision& decision) {
  const Call& call = request.call;
  const Reason reason = decision.outcome.reason;
  COPPICE_RETURN_IF_ERROR(lane.order().RefuseCapture(call.stream));
  Bucket& bucket = BucketFor(request, lane);
  if (bucket.warmups() == 0) COPPICE_RETURN_IF_ERROR(TimeVariants(parts, request, lane));
  COPPICE_RETURN_IF_ERROR(LearnFromSteps(parts, request, lane, bucket));
  const auto without = [&](RunKind kind, Reason why) {
    return RunWithoutGraph(parts, request, lane, {.outcome = {.kind = kind, .reason = why}});
  };
  absl::StatusOr<NodeDraft> drafted = DraftNode(request, lane, bucket, reason);
  if (!drafted.ok()) {
    TraceFailure(bucket, drafted.status(), lane);
    if (!MayRunUnpadded(parts, drafted.status(), lane)) return drafted.status();
    return without(RunKind::kEager, Reason::kByteLimit);
  }
  NodeDraft draft = *std::move(drafted);
  if (RecordsInBackground(parts, *call.program)) {
    RecordInBackground(parts, request, lane, std::move(draft));
    return without(RunKind::kEager, reason);
  }
  // Whoever launches the node is behind its upload, also if this call fails from here on.
  COPPICE_RETURN_IF_ERROR(lane.order().Enter(call.stream));
  const Surroundings* around = draft.key.surroundings;
  absl::StatusOr<std::unique_ptr<Node>> recorded = RecordInline(
      parts, request, lane, draft,
      lane.chain().FindPlan(around == nullptr ? std::vector<Region>() : around->live,
                            around == nullptr ? std::vector<Region>() : around->donated));
  if (!recorded.ok()) {
    const Settled settled = Settle(recorded.status(), lane.memory().room().refused(),
                                   parts.options.memory.on_budget, lane, bucket);
    COPPICE_RETURN_IF_ERROR(settled.status);
    return without(settled.departed ? RunKind::kWarmUp : RunKind::kEager, settled.reason);
  }
  Node& node = Publish(parts, *call.program, lane, *std::move(recorded));
  // Retired since this call saw it, so that this lane found no node of it to drop.
  if (call.binding != nullptr && call.binding->version() != request.statics)
    lane.SeeRetirements(-1);
  if (node.exact() != nullptr && node.info().exec_bytes > 0)
    RetireSmaller(*call.program, node, lane);
  return ReplayNode(parts, request, lane, node, decision.outcome);
}

Node& Publish(const SessionParts& parts,
              const Program& program,
              Lane& lane,
              std::unique_ptr<Node> recorded) {
  const Node& node = *recorded;
  lane.books().CountRecording(node.empty());
  if (node.empty() && parts.options.log && program.IsFirstEmpty()) {
    parts.options.log(fmt::format(
        "coppice: program '{}' captured no work in bucket [{}], so its replays do nothing; launch "
        "on CallContext::stream(), or on streams forked from and joined to it",
        program.spec.name, fmt::join(node.info().bucket, ", ")));
  }
  return lane.nodes().Publish(program, std::move(recorded));
}

absl::Status Audit(const SessionParts& parts, const Request& request, Lane& lane, Node& node) {
  const RunRequest run = RunRequestOf(parts, request.call, request.shape.padded, node.layout(),
                                      lane.order().own_stream().handle());
  absl::Status audited = AuditAgain(parts.driver, lane.memory(), run, node);
  if (IsDifference(audited)) node.bucket().Refuse(audited);
  if (IsDeparture(audited)) return FailedPrecondition("Session::Run: {}", MessageOf(audited));
  return audited;
}

}  // namespace coppice::internal
