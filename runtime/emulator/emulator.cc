// Life cycle of the emulator, and what it tells of itself.

#include "coppice/runtime/emulator.h"

#include <mutex>
#include <string_view>
#include <utility>

#include "coppice/base/status.h"

#include "runtime/emulator/admission.h"
#include "runtime/emulator/capture_legality.h"
#include "runtime/emulator/device_limits.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/thread.h"

namespace coppice {

using emulator::CaptureLegality;
using emulator::DeviceLimits;
using emulator::Memory;
using emulator::State;

namespace {

State::Options StateOptionsOf(const Emulator::Options& options) {
  const Emulator::Strictness& strictness = options.strictness;
  return {
      .concurrent_entry = strictness.concurrent_entry,
      .captured_event = strictness.captured_event,
      .devices = options.devices,
      .limits = DeviceLimits::Of(options.compute_capability),
      .compiled_kernels = options.compiled_kernels,
      .cubins = options.cubins,
      .checks = {.orders_accesses = strictness.unordered_access,
                 .holds_to_declared = strictness.undeclared_access,
                 .watches_sources = strictness.changed_source,
                 .watches_loading = strictness.captured_loading},
      .processor = {.seed = options.seed,
                    .sequential = options.sequential,
                    .hides_memory = strictness.host_access,
                    .races = strictness.kernel_race,
                    .harmless_races = strictness.harmless_race,
                    .uninitialized = strictness.uninitialized_read},
      .scheduler = {.eager_permille = options.eager_permille, .queue_limit = options.queue_limit}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Emulator>> Emulator::Create(const Options& options) {
  if (options.memory_bytes < emulator::kGranularity ||
      options.memory_bytes % emulator::kGranularity != 0)
    return InvalidArgument(
        "Emulator::Create: memory_bytes is {}; pass a positive multiple of {} bytes",
        options.memory_bytes, emulator::kGranularity);
  if (options.devices < 1 || options.devices > emulator::kDevicesMax)
    return InvalidArgument("Emulator::Create: devices is {}; pass a number from 1 to {}",
                           options.devices, emulator::kDevicesMax);
  if (options.eager_permille < 0 || options.eager_permille > 1000)
    return InvalidArgument("Emulator::Create: eager_permille is {}; pass a number from 0 to 1000",
                           options.eager_permille);
  if (DeviceLimits::Of(options.compute_capability).capability == 0)
    return InvalidArgument(
        "Emulator::Create: compute_capability is {}; pass 80, 86, 89 or 90 (90 means 9.0)",
        options.compute_capability);
  if (options.queue_limit < 1)
    return InvalidArgument("Emulator::Create: queue_limit is {}; pass 1 or more",
                           options.queue_limit);
  COPPICE_ASSIGN_OR_RETURN(
      const CaptureLegality legality,
      CaptureLegality::Parse(options.capture_legality.empty()
                                 ? CaptureLegality::BuiltIn()
                                 : std::string_view(options.capture_legality)));
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (emulator::IsForked())
    return FailedPrecondition(
        "emulator: this process was forked from a process that has an emulator; as with CUDA, a "
        "child cannot use its parent's emulator; start a new process instead of forking (in "
        "Python, use multiprocessing's start method 'spawn')");
  if (emulator::FindState() != nullptr)
    return FailedPrecondition(
        "Emulator::Create: this process already has an emulator; destroy that emulator first");
  std::unique_ptr<Memory> memory = Memory::Create({.devices = options.devices,
                                                   .capacity_bytes = options.memory_bytes,
                                                   .quarantines = options.strictness.quarantine,
                                                   .hides = options.strictness.host_access});
  if (memory == nullptr)
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Emulator::Create: the host cannot create a memfd of {} bytes for device "
                     "memory; pass a smaller memory_bytes",
                     options.memory_bytes);
  emulator::WatchForks();
  emulator::ForgetThreads();
  emulator::ExchangeState(new State(StateOptionsOf(options), legality, std::move(memory)));
  return std::unique_ptr<Emulator>(
      new Emulator(Driver(emulator::MakeTable(), DriverKind::kEmulator)));
}

Emulator::~Emulator() {
  delete emulator::ExchangeState(nullptr);
}

Emulator::Live Emulator::live() const {
  if (emulator::IsForked()) return {};
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  const Memory::Counts& memory = state.memory->counts();
  int64_t contexts = 0;
  for (const auto& [handle, context] : state.contexts)
    contexts += context->is_primary ? state.devices[context->device].retains : 1;
  return {.physical_bytes = state.memory->used_bytes(),
          .mapped_bytes = memory.mapped_bytes,
          .reserved_bytes = memory.reserved_bytes,
          .handles = memory.handles,
          .allocations = memory.allocations,
          .streams = state.scheduler.stream_count(),
          .events = state.events.count(),
          .graphs = state.graphs.count(),
          .execs = state.execs.count(),
          .libraries = state.libraries.count(),
          .captures = static_cast<int64_t>(state.captures.size()),
          .contexts = contexts,
          .nodes_executed = state.processor.nodes_executed()};
}

bool Emulator::Readable(DeviceAddress address, int64_t bytes) const {
  if (emulator::IsForked()) return false;
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  return state.memory->Covers(address, bytes, CuMemAccessFlags::kRead);
}

std::vector<std::string> Emulator::reports() const {
  if (emulator::IsForked()) return {};
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  return state.checks.ReportsSince(0);
}

int64_t Emulator::finding_count() const {
  if (emulator::IsForked()) return 0;
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  return state.checks.count();
}

std::vector<std::string> Emulator::FindingsSince(int64_t since) const {
  if (emulator::IsForked()) return {};
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  std::vector<std::string> findings = state.checks.ReportsSince(since);
  if (state.processor.fault_number() > since) findings.push_back(state.processor.fault());
  return findings;
}

std::vector<KernelFinding> Emulator::kernel_findings() const {
  if (emulator::IsForked()) return {};
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  std::vector<KernelFinding> findings = state.checks.KernelFindings();
  if (state.processor.kernel_fault()) findings.push_back(*state.processor.kernel_fault());
  return findings;
}

void Emulator::FollowPadding() {
  if (emulator::IsForked()) return;
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  state.processor.FollowTaint();
}

void Emulator::MarkInput(DeviceAddress address, int64_t bytes, int input, bool padding) {
  if (emulator::IsForked()) return;
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  if (ptx::Taint* const taint = state.processor.taint(); taint != nullptr)
    taint->plane.Fill(address, static_cast<uint64_t>(bytes), ptx::TaintOfInput(input, padding));
}

std::optional<PaddingReach> Emulator::FindPadding(DeviceAddress address, int64_t bytes) const {
  if (emulator::IsForked()) return std::nullopt;
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  if (state.processor.taint() == nullptr) return std::nullopt;
  const ptx::Taint& taint = *state.processor.taint();
  for (int64_t byte = 0; byte < bytes; ++byte) {
    const ptx::TaintWord word = taint.plane.At(address + static_cast<DeviceAddress>(byte));
    if (!ptx::IsPadding(word)) continue;
    PaddingReach reach{.byte = byte};
    for (int input = 0; input < ptx::kTaintInputs; ++input)
      if ((word >> input & 1) != 0) reach.inputs.push_back(input);
    const size_t meeting = word >> ptx::kTaintMeetingShift;
    if (meeting == 0) return reach;
    const ptx::TaintMeeting& at = taint.meetings[meeting - 1];
    reach.kernel = at.kernel;
    reach.block = at.block;
    reach.thread = at.thread;
    reach.line = at.line;
    reach.source = at.source;
    reach.program = at.program;
    reach.step = at.step;
    return reach;
  }
  return std::nullopt;
}

std::vector<std::string> Emulator::PaddingGaps() const {
  if (emulator::IsForked()) return {};
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  const ptx::Taint* const taint = state.processor.taint();
  return taint == nullptr ? std::vector<std::string>() : taint->gaps;
}

void Emulator::Report(std::string text) {
  if (emulator::IsForked()) return;
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  state.checks.Report(std::move(text));
}

void Emulator::Restart() {
  if (emulator::IsForked()) return;
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  state.Restart();
  emulator::ForgetThreads();
}

bool Emulator::RunsThisThread() {
  return emulator::ThisThread().runs_host_code;
}

std::string Emulator::fault() const {
  if (emulator::IsForked()) return {};
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  return state.processor.fault();
}

}  // namespace coppice
