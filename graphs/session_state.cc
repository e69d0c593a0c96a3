// The way of a call: find the node, replay it, and hand everything else to the slow paths.

#include "graphs/session_state.h"

#include <optional>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/nvtx.h"
#include "graphs/staging_layout.h"

namespace coppice {

using internal::InputLayout;
using internal::Lane;
using internal::Node;
using internal::NodeKey;
using internal::Region;
using internal::Segment;
using internal::Slot;

namespace {

const internal::NvtxName replay_name{"replay"};  // Made once: every replay opens the range.

// Apart, so that the usual call needs no frame to find that nothing is there.
template <typename Request>
[[gnu::noinline]] void OverwriteOthers(const Request& request, Lane& lane, const Node& node) {
  if (lane.tracer != nullptr && request.shape.in_pool) lane.TraceUses(lane.calls);
  lane.Expire(node.footprint, lane.calls, *request.call.program);
  if (!request.child) lane.EndPath();
}

}  // namespace

Session::State::State(const Context& session_context,
                      SessionOptions session_options,
                      std::unique_ptr<internal::Tracer> session_tracer,
                      std::unique_ptr<Pool> session_pool,
                      StagingKernels kernels)
    : context(session_context),
      driver(session_context.driver()),
      options(std::move(session_options)),
      tracer(std::move(session_tracer)),
      pool(std::move(session_pool)),
      staging(std::move(kernels)),
      stance(options.stance) {}

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

bool Session::State::IsNews(const Program& program, Reason reason) const {
  const uint32_t bit = uint32_t{1} << static_cast<int>(reason);
  return options.log && (program.reasons_logged.fetch_or(bit) & bit) == 0;
}

void Session::State::Log(const Program& program, const std::string& why) const {
  options.log(fmt::format("coppice: program '{}' runs without replay: {}", program.spec.name, why));
}

internal::RandomState Session::State::NextRandom(const Program& program) {
  return {.seed = seed.load(std::memory_order_relaxed),
          .offset = program.random_offset.fetch_add(program.spec.random_numbers_per_call)};
}

std::vector<const Program*> Session::State::Programs() const {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<const Program*> all;
  for (const std::unique_ptr<Program>& program : programs)
    all.push_back(program.get());
  return all;
}

Node* Session::State::FindNode(const Request& request, const Lane& lane) const {
  if (request.shape.over_maximum || !request.known_place) [[unlikely]]
    return nullptr;
  NodeKey key;
  key.statics = request.statics;
  key.surroundings = request.surroundings;
  internal::SetBucketKey(request.call, request.shape, key.bucket);
  return request.call.program->lanes[static_cast<size_t>(lane.index)].Find(key);
}

// A slot of this call's outputs.
Slot& Session::State::TakeSlot(const Request& request, Lane& lane, Slot::Kind kind) {
  Slot& slot = lane.TakeSlot(kind);
  Describe(request, lane, slot);
  if (lane.tracer != nullptr && kind != Slot::Kind::kWindow) lane.TraceOutputs(slot);
  return slot;
}

void Session::State::GiveWindow(const Request& request, Lane& lane, Node& node, Lease& lease) {
  Slot& slot = TakeSlot(request, lane, Slot::Kind::kWindow);
  slot.outputs = &node.outputs;
  slot.node = &node;
  ++node.leases;
  lease.slot_ = &slot;
}

// Fills the staged inputs and the parameter block of a run.
absl::Status Session::State::Stage(const Request& request, InputLayout& layout) const {
  internal::FillStaging(request.call, request.shape, request.random, layout);
  if (request.call.poison == Poison::kOff) [[likely]]
    return staging.Launch(request.call.stream, layout.staging);
  return StagePoisoned(request, layout);
}

// Apart, because its copy of the parameters would weigh on every call.
absl::Status Session::State::StagePoisoned(const Request& request,
                                           const InputLayout& layout) const {
  StagingParams params = layout.staging;
  internal::ApplyPoison(*request.call.program, request.call.poison, layout.sources, params);
  return staging.Launch(request.call.stream, params);
}

// Fills what a node is about to write: whatever was borrowed there, and its own temporaries.
absl::Status Session::State::PoisonOverwritten(CuStream stream,
                                               const Lane& lane,
                                               const std::vector<Region>& footprint) const {
  constexpr unsigned char kPoison = 0xCB;
  for (const Region& region : footprint) {
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemsetD8Async>(
        lane.node_base() + static_cast<DeviceAddress>(region.offset), kPoison,
        static_cast<size_t>(region.bytes), stream));
  }
  return absl::OkStatus();
}

// What the node writes is gone, whether the rest of the call succeeds or not. With `again`, the
// window holds nothing but that slot, which nobody leases.
void Session::State::Overwrite(const Request& request,
                               Lane& lane,
                               const Node& node,
                               const Slot* again) {
  ++lane.calls;
  if (again != nullptr) [[likely]]
    return;
  OverwriteOthers(request, lane, node);
}

absl::Status Session::State::Launch(const Request& request,
                                    Lane& lane,
                                    Node& node,
                                    const Slot* again) {
  // The first launch is the point of no return, unless poison came before it.
  bool overwrites = !options.poison_expired;
  for (Segment& segment : node.segments) {
    if (segment.exec.has_value()) [[likely]] {
      COPPICE_RETURN_IF_ERROR(
          driver.Call<&DriverTable::GraphLaunch>(segment.exec->handle(), request.call.stream));
    }
    if (std::exchange(overwrites, false)) [[likely]]
      Overwrite(request, lane, node, again);
    if (segment.step) [[unlikely]]
      COPPICE_RETURN_IF_ERROR(segment.step(request.call.stream));
  }
  return absl::OkStatus();
}

// Whether the node would write over outputs that a scope is open on.
absl::Status Session::State::CheckHeld(const Request& request,
                                       const Lane& lane,
                                       const Node& node) const {
  const Slot* held = lane.FindHeld(node.footprint);
  if (held == nullptr) [[likely]]
    return absl::OkStatus();
  return FailedPrecondition(
      "Session::Run: program '{}' would write over the outputs of program '{}' (call {} on lane "
      "{}), on which {} read scopes are open; end them first",
      request.call.program->spec.name, held->program->spec.name, held->call, lane.index,
      held->open_scopes);
}

absl::StatusOr<Lease> Session::State::Replay(const Request& request, Lane& lane, Node& node) {
  const internal::NvtxRange range(replay_name);
  const Call& call = request.call;
  // The usual call finds the window as the node left it, and nobody looking.
  Slot* again = call.output_mode == OutputMode::kBorrow ? lane.FindDropped(node) : nullptr;
  Region copy_out;
  if (again == nullptr) {
    lane.SweepWindow();
    lane.ReserveSlot();
    COPPICE_RETURN_IF_ERROR(CheckHeld(request, lane, node));
    if (call.output_mode == OutputMode::kCopyOut) [[unlikely]]
      COPPICE_RETURN_IF_ERROR(ReserveCopyOut(request, lane, copy_out));
  }
  COPPICE_RETURN_IF_ERROR(lane.Enter(call.stream));
  const InputLayout& layout = node.layout;
  if (layout.stages) {
    COPPICE_RETURN_IF_ERROR(Stage(request, node.layout));
    lane.CountStaged(layout);
  }
  if (options.poison_expired) [[unlikely]] {
    Overwrite(request, lane, node, again);
    COPPICE_RETURN_IF_ERROR(PoisonOverwritten(call.stream, lane, node.footprint));
  }
  COPPICE_RETURN_IF_ERROR(Launch(request, lane, node, again));
  lane.stats.inputs_in_place += layout.in_place;
  node.last_call = lane.calls;
  ++node.info.replays;
  Lease lease = MakeLease(request, lane, Path::kReplay, Reason::kNone);
  if (lane.tracer != nullptr) [[unlikely]]
    TraceReplay(request, lane, node, again);
  if (call.output_mode != OutputMode::kBorrow || !layout.copy_backs.empty()) [[unlikely]] {
    COPPICE_RETURN_IF_ERROR(
        CopyBehind(request, lane, call.output_mode, node.outputs, layout, copy_out, lease));
    if (call.output_mode != OutputMode::kBorrow) return lease;
  }
  if (again == nullptr) {
    GiveWindow(request, lane, node, lease);
    return lease;
  }
  Describe(request, lane, *again);
  again->in_path = true;
  again->holders.store(Slot::kLaneHolds | Slot::kLeaseHolds, std::memory_order_relaxed);
  lease.slot_ = again;
  return lease;
}

absl::StatusOr<Lease> Session::State::RunInLane(Request& request, Lane& lane) {
  const Call& call = request.call;
  if (request.shape.in_pool || lane.chain_open) [[unlikely]]
    COPPICE_RETURN_IF_ERROR(Place(request, lane));
  Node* node = FindNode(request, lane);
  if (node != nullptr && node->top <= lane.usable && call.program->plain &&
      stance.load(std::memory_order_relaxed) != Stance::kEager) [[likely]] {
    return Replay(request, lane, *node);
  }
  return RunUnusual(request, lane, node);
}

}  // namespace coppice
