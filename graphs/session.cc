// The session's public face: it joins the parts, and no more.

#include "coppice/graphs/session.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/runtime/loaded_package.h"

#include "graphs/call/check.h"
#include "graphs/call/explain.h"
#include "graphs/call/include.h"
#include "graphs/call/plan_ahead.h"
#include "graphs/call/run.h"
#include "graphs/call/stage.h"
#include "graphs/call/time_variants.h"
#include "graphs/call/warm.h"
#include "graphs/call/warm_chain.h"
#include "graphs/package/package_source.h"
#include "graphs/package/package_spec.h"
#include "graphs/parts/retire.h"
#include "graphs/parts/session_parts.h"
#include "graphs/profile/load.h"
#include "graphs/profile/profile_file.h"
#include "graphs/profile/save.h"
#include "graphs/rebucket/rebucket.h"
#include "graphs/rebucket/swap_policy.h"

namespace coppice {

using internal::Lane;
using internal::Observe;
using internal::SessionParts;

namespace {

// A callable has its lane's lock, for which whoever has this one may wait.
std::unique_lock<std::mutex> LockLadders(SessionParts& parts) {
  for (const std::unique_ptr<Lane>& lane : parts.lanes)
    lane->mutex.CheckNotHeld();
  return std::unique_lock(parts.ladders);
}

}  // namespace

Session::Session(std::unique_ptr<SessionParts> parts)
    : parts_(std::move(parts)), memory_(new SessionMemory(*parts_)) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Context& context,
                                                         const SessionOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<SessionParts> parts,
                           SessionParts::Create(context, options));
  return std::unique_ptr<Session>(new Session(std::move(parts)));
}

Session::~Session() {
  parts_->background.reset();
  for (const std::unique_ptr<Lane>& lane : parts_->lanes) {
    const absl::Status closed = lane->slots().ForEach([](const internal::Slot& slot) {
      COPPICE_CHECK(slot.open_scopes() == 0, "a read scope outlives its session");
      return absl::OkStatus();
    });
    COPPICE_CHECK(closed.ok() && !lane->chain().open(), "a chain outlives its session");
    COPPICE_CHECK(lane->memory().absence() != internal::LaneMemory::Absence::kLent,
                  "a loan outlives its session");
    lane->order().WaitAtEnd();
    lane->slots().TraceEnd();
  }
}

absl::StatusOr<const Program*> Session::Register(ProgramSpec spec, Callable callable) {
  return parts_->catalogue->Register(std::move(spec), std::move(callable));
}

absl::StatusOr<const Program*> Session::Register(ProgramSpec spec,
                                                 Callable callable,
                                                 Callable dry_run) {
  if (!dry_run)
    return InvalidArgument(
        "Session::Register: the argument dry_run of program '{}' is empty; give a function, or "
        "leave out dry_run",
        spec.name);
  return parts_->catalogue->Register(std::move(spec), std::move(callable), std::move(dry_run));
}

absl::StatusOr<const Program*> Session::Register(const package::LoadedPackage& package,
                                                 const std::string& program,
                                                 PackageProgramOptions options) {
  const std::vector<package::Program>& programs = package.manifest().programs;
  const auto found = std::ranges::find(programs, program, &package::Program::name);
  if (found == programs.end())
    return MakeError(absl::StatusCode::kNotFound, "{}: there is no program '{}'",
                     package.package().path(), program);
  const auto index = static_cast<int>(found - programs.begin());
  absl::StatusOr<ProgramSpec> spec = internal::SpecOf(*found, options);
  if (!spec.ok())
    return MakeError(spec.status().code(), "{}: /programs/{}: {}", package.package().path(),
                     program, MessageOf(spec.status()));
  COPPICE_RETURN_IF_ERROR(ValidateSpec(*spec));
  const auto upload = [&](const Tensor& layout,
                          std::span<const std::byte> bytes) -> absl::StatusOr<Tensor> {
    const int64_t elements[] = {layout.span()};
    const auto fill = [layout, bytes](std::span<std::byte> target) {
      internal::Spread(layout, bytes, target);
      return absl::OkStatus();
    };
    Tensor tensor = layout;
    COPPICE_ASSIGN_OR_RETURN(const Tensor placed,
                             memory_->AddConstant(layout.dtype, elements, fill));
    tensor.data = placed.data;
    return tensor;
  };
  COPPICE_ASSIGN_OR_RETURN(std::vector<Tensor> constants,
                           parts_->package_constants.Place(package, index, options, upload));
  COPPICE_ASSIGN_OR_RETURN(const internal::StepKernels* kernels,
                           parts_->step_kernels.Get(parts_->driver));
  COPPICE_ASSIGN_OR_RETURN(
      std::unique_ptr<const internal::PackageSource> source,
      internal::PackageSource::Create(*kernels, package, index, *spec, std::move(constants),
                                      std::move(options.functions)));
  return parts_->catalogue->RegisterSource(*std::move(spec), std::move(source));
}

const Program* Session::Find(const std::string& name, const std::string& variant) const {
  return parts_->catalogue->Find(name, variant);
}

const ProgramSpec& Session::SpecOf(const Program& program) {
  return program.spec;
}

absl::StatusOr<const Binding*> Session::Bind(const Program& program,
                                             std::span<const Tensor> statics) {
  return parts_->catalogue->Bind(program, statics);
}

absl::Status Session::Unbind(const Binding& binding) {
  const Program& program = *binding.program;
  if (program.place.owner != parts_->catalogue.get())
    return InvalidArgument("Session::Unbind: the binding belongs to another session");
  parts_->catalogue->Unbind(binding);
  return parts_->sticky.Note(internal::DropRetired(*parts_));
}

absl::Status Session::Reset(const Program& program) {
  COPPICE_RETURN_IF_ERROR(parts_->catalogue->Forget(program));
  parts_->carried.Forget(program);
  return parts_->sticky.Note(internal::ForgetProgram(*parts_, program));
}

absl::Status Session::Unregister(const Program& program) {
  COPPICE_RETURN_IF_ERROR(parts_->catalogue->Unregister(program));
  parts_->carried.Forget(program);
  absl::Status forgotten = parts_->sticky.Note(internal::ForgetProgram(*parts_, program));
  internal::Catalogue::DropCallable(program);
  return forgotten;
}

absl::StatusOr<Lease> Session::Run(const Call& call) {
  SessionParts& parts = *parts_;
  if (parts.sticky.present()) [[unlikely]]
    return parts.failures.Note(parts.sticky.Get());
  internal::Request request(call);
  request.began = parts.BeginTimed(call.lane);
  if (absl::Status refused = internal::Check(parts, request); !refused.ok()) [[unlikely]]
    return parts.failures.Note(std::move(refused));
  Lane& lane = parts.lane(call.lane);
  const std::lock_guard lock(lane.mutex);
  if (!internal::PadAtOnce(*call.program, request.shape)) [[unlikely]] {
    if (absl::Status refused = internal::PadCall(call, Observe::kYes, request.shape); !refused.ok())
      return parts.failures.Note(std::move(refused));
  }
  if (absl::Status refused = internal::TakeStatics(request); !refused.ok()) [[unlikely]]
    return parts.failures.Note(std::move(refused));
  absl::StatusOr<Lease> lease = internal::RunCall(parts, request, lane);
  if (!lease.ok()) [[unlikely]] {
    internal::GiveBackRandomNumbers(lane);
    return parts.failures.Note(
        parts.sticky.Note(internal::NameGoneStream(parts, call, lane, lease.status())));
  }
  return lease;
}

absl::StatusOr<Lease> Session::Include(const Call& call) {
  SessionParts& parts = *parts_;
  const auto include = [&]() -> absl::StatusOr<Lease> {
    COPPICE_RETURN_IF_ERROR(parts.sticky.Get());
    internal::Request request(call);
    COPPICE_RETURN_IF_ERROR(internal::Check(parts, request));
    Lane& lane = parts.lane(call.lane);
    const std::lock_guard lock(lane.mutex);
    COPPICE_RETURN_IF_ERROR(internal::PadCall(call, Observe::kNo, request.shape));
    COPPICE_RETURN_IF_ERROR(internal::TakeStatics(request));
    absl::StatusOr<Lease> lease = internal::Include(parts, request, lane);
    if (lease.ok()) return lease;
    return parts.sticky.Note(internal::NameGoneStream(parts, call, lane, lease.status()));
  };
  absl::StatusOr<Lease> lease = include();
  if (lease.ok()) return lease;
  return parts.failures.Note(internal::AskedBy("Session::Include", lease.status()));
}

Explanation Session::Explain(const Call& call) const {
  Explanation explanation;
  internal::Request request(call);
  explanation.status = internal::Check(*parts_, request);
  if (explanation.status.ok()) {
    Lane& lane = parts_->lane(call.lane);
    const std::lock_guard lock(lane.mutex);
    explanation.status = internal::PadCall(call, Observe::kNo, request.shape);
    if (explanation.status.ok()) explanation.status = internal::TakeStatics(request);
    if (explanation.status.ok()) explanation = internal::ExplainCall(*parts_, request, lane);
  }
  explanation.status = internal::AskedBy("Session::Explain", std::move(explanation.status));
  if (!explanation.status.ok()) explanation.text = MessageOf(explanation.status);
  return explanation;
}

ChainScope::~ChainScope() {
  if (lane_ == nullptr) return;
  const std::lock_guard lock(lane_->mutex);
  lane_->chain().Close();
}

absl::StatusOr<ChainScope> Session::Chain(int lane) {
  COPPICE_RETURN_IF_ERROR(parts_->CheckLane("Session::Chain", lane));
  Lane& chained = parts_->lane(lane);
  const std::lock_guard lock(chained.mutex);
  if (chained.chain().open())
    return FailedPrecondition("Session::Chain: lane {} has an open chain; end it first", lane);
  chained.chain().Open();
  chained.slots().EndPath();
  return ChainScope(&chained);
}

absl::Status SessionWarming::Warm(const Program& program,
                                  const Binding* binding,
                                  std::span<const std::vector<int64_t>> buckets,
                                  std::span<const int64_t> scalars,
                                  const WarmOptions& options) {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  const internal::WarmRequest request{
      .program = program, .binding = binding, .scalars = scalars, .options = options};
  COPPICE_RETURN_IF_ERROR(parts_.CheckLane("Session::Warm", options.lane));
  Lane& lane = parts_.lane(options.lane);
  const std::lock_guard lock(lane.mutex);
  COPPICE_ASSIGN_OR_RETURN(const std::vector<internal::CallShape> shapes,
                           internal::CheckWarm(parts_, request, buckets));
  return parts_.sticky.Note(internal::WarmBuckets(parts_, request, shapes, lane));
}

absl::StatusOr<std::vector<PlannedBucket>> SessionWarming::Plan(
    const Program& program,
    std::span<const std::vector<int64_t>> buckets,
    std::span<const int64_t> scalars) const {
  return internal::PlanAhead(parts_, program, buckets, scalars);
}

absl::Status SessionWarming::Warm(std::span<const WarmStep> steps, const WarmOptions& options) {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  if (steps.empty()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(parts_.CheckLane("Session::Warm", options.lane));
  Lane& lane = parts_.lane(options.lane);
  const std::lock_guard lock(lane.mutex);
  COPPICE_ASSIGN_OR_RETURN(const std::vector<internal::CallShape> shapes,
                           internal::CheckChain(parts_, steps, options));
  return parts_.sticky.Note(internal::WarmChain(parts_, steps, shapes, options, lane));
}

absl::Status SessionWarming::SaveProfile(const std::string& path) const {
  COPPICE_ASSIGN_OR_RETURN(const internal::Profile profile, internal::ProfileOf(parts_));
  return internal::WriteWhole(path, internal::TextOf(profile));
}

absl::StatusOr<LoadedProfile> SessionWarming::LoadProfile(const std::string& path,
                                                          const LoadProfileOptions& options) {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  COPPICE_RETURN_IF_ERROR(internal::CheckLoad(parts_, options));
  COPPICE_ASSIGN_OR_RETURN(const internal::Profile profile, internal::ReadProfile(path));
  return internal::LoadProfile(parts_, profile, options);
}

absl::Status SessionPolicies::SetPolicy(const Program& program, int symbol, PaddingPolicy policy) {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  const auto lock = LockLadders(parts_);
  return parts_.sticky.Note(internal::SetPolicy(parts_, program, symbol, std::move(policy)));
}

absl::StatusOr<PaddingPolicy> SessionPolicies::GetPolicy(const Program& program, int symbol) const {
  const auto lock = LockLadders(parts_);
  COPPICE_ASSIGN_OR_RETURN(const internal::Ladder* ladder,
                           internal::FindLadder("Session::GetPolicy", parts_, program, symbol));
  return ladder->policy;
}

absl::StatusOr<RebucketReport> SessionPolicies::Rebucket(const Program& program,
                                                         int symbol,
                                                         const RebucketOptions& options) {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  const auto lock = LockLadders(parts_);
  return internal::Rebucket(parts_, program, symbol, options);
}

absl::StatusOr<std::string> SessionPolicies::GetObserved(const Program& program, int symbol) const {
  const auto lock = LockLadders(parts_);
  return internal::GetObserved(parts_, program, symbol);
}

absl::Status SessionPolicies::SetObserved(const Program& program,
                                          int symbol,
                                          std::string_view json) {
  const auto lock = LockLadders(parts_);
  return internal::SetObserved(parts_, program, symbol, json);
}

void Session::SetStance(Stance stance) {
  parts_->stance.store(stance);
  parts_->FindAtOnce();
}

Generator& Session::generator() {
  for (const std::unique_ptr<Lane>& lane : parts_->lanes)
    lane->mutex.CheckNotHeld();
  return parts_->catalogue->generator();
}

void Session::SetSeed(uint64_t seed) {
  generator().Seed(seed);
}

absl::StatusOr<int64_t> Session::Evict(const Program* program) {
  COPPICE_RETURN_IF_ERROR(parts_->sticky.Get());
  WaitForRecordings();
  int64_t dropped = 0;
  for (const std::unique_ptr<Lane>& lane : parts_->lanes) {
    const std::lock_guard lock(lane->mutex);
    COPPICE_RETURN_IF_ERROR(parts_->sticky.Note(lane->order().Wait()));
    lane->slots().Sweep();
    dropped += lane->nodes().EvictIdle({.program = program});
    lane->nodes().ReopenBuckets(program);
  }
  COPPICE_RETURN_IF_ERROR(parts_->sticky.Note(internal::DropRetired(*parts_)));
  return dropped;
}

void Session::WaitForRecordings() {
  if (parts_->background != nullptr) parts_->background->Wait();
}

void SessionTrace::Mark(std::string_view name) {
  if (parts_.tracer != nullptr) parts_.tracer->Mark(name);
}

absl::Status SessionTrace::NoteRequest(const RequestTimes& times) {
  if (times.first_token_ns < 0 || times.last_token_ns < times.first_token_ns)
    return InvalidArgument(
        "Session::NoteRequest: request {} has its first token after {} ns and its last after {} "
        "ns; give times since its arrival, with the last no earlier than the first",
        times.id, times.first_token_ns, times.last_token_ns);
  constexpr int64_t kIdMax = int64_t{1} << 53;
  if (times.id < 0 || times.id > kIdMax)
    return InvalidArgument(
        "Session::NoteRequest: the request number is {}; number requests from 0 to 2^53", times.id);
  if (times.input_tokens < 0 || times.output_tokens < 1)
    return InvalidArgument(
        "Session::NoteRequest: request {} reads {} tokens and writes {}; a request must write at "
        "least one",
        times.id, times.input_tokens, times.output_tokens);
  if (parts_.tracer != nullptr) parts_.tracer->Request(times);
  return absl::OkStatus();
}

absl::Status SessionTrace::Flush() const {
  return parts_.tracer == nullptr ? absl::OkStatus() : parts_.tracer->Flush();
}

SessionStats Session::stats() const {
  SessionStats total;
  for (const std::unique_ptr<Lane>& lane : parts_->lanes) {
    const std::lock_guard lock(lane->mutex);
    total += lane->stats();
  }
  return total;
}

absl::StatusOr<std::string> Session::Dump(const NodeInfo& node) const {
  if (!parts_->options.keep_drawings) {
    return FailedPrecondition(
        "Session::Dump: the session keeps no drawings; set SessionOptions::keep_drawings");
  }
  if (node.lane >= 0 && node.lane < static_cast<int>(parts_->lanes.size())) {
    Lane& lane = parts_->lane(node.lane);
    const std::lock_guard lock(lane.mutex);
    if (const internal::Node* found = lane.nodes().FindNumber(node.number)) return found->drawing();
  }
  return MakeError(absl::StatusCode::kNotFound,
                   "Session::Dump: there is no recording {} of program '{}' on lane {}, or it was "
                   "dropped; pass a node that nodes() lists",
                   node.number, node.program, node.lane);
}

std::vector<KernelVariant> Session::variants() const {
  std::vector<KernelVariant> variants;
  for (const Program* program : parts_->catalogue->programs()) {
    if (program->steps != nullptr) internal::AppendVariants(*program, variants);
  }
  return variants;
}

std::vector<NodeInfo> Session::nodes() const {
  std::vector<NodeInfo> infos;
  std::map<const internal::Family*, int64_t> families;
  const auto append = [&](const internal::Node& node) {
    NodeInfo& info = infos.emplace_back(node.info());
    info.retired = node.unreachable();
    if (node.exact() == nullptr) return;
    const internal::Family& family = node.exact()->family();
    const auto [found, first] = families.try_emplace(&family, std::ssize(families) + 1);
    info.family = found->second;
    info.exec_bytes = first ? family.bytes() : 0;
  };
  for (const std::unique_ptr<Lane>& lane : parts_->lanes) {
    const std::lock_guard lock(lane->mutex);
    for (const internal::NodeTable& table : lane->nodes().all()) {
      for (const internal::Bucket* bucket : table.buckets()) {
        if (bucket->nodes().empty()) infos.push_back(bucket->info());
        for (const internal::Node* node : bucket->nodes())
          append(*node);
      }
    }
    lane->nodes().ForEachRetired(append);
  }
  return infos;
}

}  // namespace coppice
