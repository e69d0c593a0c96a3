// Making the parts of a session.

#include "graphs/parts/session_parts.h"

#include <utility>

#include "coppice/base/status.h"

#include "graphs/trace/own_threads.h"

namespace coppice::internal {
namespace {

// What no lane can be without: the windows that are mapped at once.
absl::Status ReserveAtOnce(const MemoryOptions& options, LaneMemory& memory) {
  COPPICE_RETURN_IF_ERROR(memory.Reserve(MemoryKind::kCopyOut, options.copy_out_bytes));
  return memory.Reserve(MemoryKind::kWorkspace, options.workspace_bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionParts>> SessionParts::Create(const Context& context,
                                                                   const SessionOptions& options) {
  COPPICE_RETURN_IF_ERROR(ValidateOptions(options));
  auto parts = std::make_unique<SessionParts>(context, options);
  const Driver& driver = parts->driver;
  Budget::Options budget{.accounts = kMemoryKindCount, .limit = options.memory.budget_bytes};
  if (!options.trace.path.empty()) {
    COPPICE_ASSIGN_OR_RETURN(parts->tracer,
                             Tracer::Create(options.trace, options.lanes, options.log));
    budget.on_change = [raw = parts->tracer.get()](int account, int64_t bytes, int64_t total) {
      raw->Bytes(static_cast<MemoryKind>(account), bytes, total);
    };
  }
  parts->budget = std::make_unique<Budget>(std::move(budget));
  COPPICE_ASSIGN_OR_RETURN(parts->pool,
                           Pool::Create(driver, context.device(), *parts->budget,
                                        {.accounts = WindowMap::Accounts(options.lanes),
                                         .spare_account = static_cast<int>(MemoryKind::kSpare),
                                         .window_bytes = options.memory.window_bytes}));
  if (parts->tracer != nullptr) {
    parts->tracer->DefineSession(context.DeviceName(), parts->pool->granularity(), options);
  }
  parts->windows = std::make_unique<const WindowMap>(*parts->pool, options.lanes);
  parts->constants =
      std::make_unique<WindowHeap>(*parts->pool, WindowMap::ConstantsWindow(options.lanes));
  COPPICE_ASSIGN_OR_RETURN(StagingKernels staging, StagingKernels::Load(driver));
  parts->staging = std::make_unique<const StagingKernels>(std::move(staging));
  parts->catalogue =
      std::make_unique<Catalogue>(driver, parts->options, *parts->windows, parts->tracer.get());
  for (int lane = 0; lane < options.lanes; ++lane) {
    COPPICE_ASSIGN_OR_RETURN(StreamOrder order, StreamOrder::Create(driver, lane));
    parts->lanes.push_back(std::make_unique<Lane>(
        driver, *parts->pool, *parts->windows, parts->series, std::move(order),
        options.memory.copy_out_bytes, lane, parts->tracer.get()));
    COPPICE_RETURN_IF_ERROR(ReserveAtOnce(options.memory, parts->lanes.back()->memory()));
  }
  parts->FindAtOnce();
  if (options.recorder.ring_bytes > 0)
    COPPICE_RETURN_IF_ERROR(parts->StartRecorders(options.recorder));
  if (options.record_in_background) {
    COPPICE_ASSIGN_OR_RETURN(parts->background, BackgroundRecorder::Start(context));
  }
  return parts;
}

absl::Status SessionParts::CheckLane(const char* where, int index) const {
  if (index >= 0 && index < static_cast<int>(lanes.size())) return absl::OkStatus();
  return InvalidArgument(
      "{}: lane {} does not exist: the number of lanes is {}, and the first is lane 0", where,
      index, lanes.size());
}

void SessionParts::FindAtOnce() {
  const std::lock_guard lock(at_once_mutex);
  at_once.store(stance.load() == Stance::kEager ? AtOnce::kNothing : unless_eager);
}

absl::Status SessionParts::StartRecorders(const RecorderOptions& recorder_options) {
  if (recorder_options.ring_bytes == 0)
    return InvalidArgument("SessionRecorder::Start: ring_bytes is 0; give 1 to 2^40");
  COPPICE_RETURN_IF_ERROR(ValidateOptions({.recorder = recorder_options}));
  CopyBudget copies;
  if (recorder_options.copy_ns_max > 0) {
    COPPICE_ASSIGN_OR_RETURN(const CopyCost cost, MeasureCopies(driver));
    copies = CopyBudget(static_cast<double>(recorder_options.copy_ns_max), cost);
  }
  std::vector<std::unique_ptr<LaneRecorder>> made;
  for (size_t i = 0; i < lanes.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(made.emplace_back(),
                             LaneRecorder::Create(driver, recorder_options, copies));
  }
  SetRecorders(std::move(made));
  return absl::OkStatus();
}

void SessionParts::StopRecorders() {
  SetRecorders(std::vector<std::unique_ptr<LaneRecorder>>(lanes.size()));
}

void SessionParts::SetRecorders(std::vector<std::unique_ptr<LaneRecorder>> recorders) {
  const auto locks = LockIdleLanes();
  {
    const std::lock_guard lock(at_once_mutex);
    const LaneRecorder* const first = recorders.front().get();
    unless_eager = first == nullptr    ? AtOnce::kReplay
                   : first->is_plain() ? AtOnce::kReplayRecorded
                                       : AtOnce::kReplayCopied;
  }
  FindAtOnce();
  for (size_t i = 0; i < lanes.size(); ++i) {
    // Copies may be on their way to the ring that goes.
    if (lanes[i]->recorder() != nullptr) lanes[i]->order().WaitAtEnd();
    lanes[i]->SetRecorder(std::move(recorders[i]));
  }
}

std::vector<std::unique_lock<LaneMutex>> SessionParts::LockIdleLanes() const {
  while (true) {
    if (background != nullptr) background->Wait();
    std::vector<std::unique_lock<LaneMutex>> locks;
    bool recording = false;
    for (const std::unique_ptr<Lane>& lane : lanes) {
      locks.emplace_back(lane->mutex);
      recording |= lane->recording();
    }
    if (!recording || OwnThreads::AreGone()) return locks;
  }
}

}  // namespace coppice::internal
