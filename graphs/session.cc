// The session's public face: registration, bindings, Run's checks, Warm and the reports.

#include "coppice/graphs/session.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "graphs/call_shape.h"
#include "graphs/lane.h"
#include "graphs/node.h"
#include "graphs/session_state.h"
#include "graphs/staging_layout.h"

namespace coppice {

using internal::CallShape;
using internal::Lane;
using internal::Node;

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Context& context,
                                                         const SessionOptions& options) {
  if (options.lanes < 1 || options.window_bytes < 0 || options.workspace_bytes < 0 ||
      options.graphs_per_program_max < 0) {
    return InvalidArgument(
        "Session::Create: lanes {}, window_bytes {}, workspace_bytes {}, graphs_per_program_max "
        "{}; "
        "lanes must be at least 1 and nothing negative",
        options.lanes, options.window_bytes, options.workspace_bytes,
        options.graphs_per_program_max);
  }
  const Driver& driver = context.driver();
  COPPICE_ASSIGN_OR_RETURN(
      std::unique_ptr<Pool> pool,
      Pool::Create(driver, context.device(),
                   {.lanes = options.lanes, .window_bytes = options.window_bytes}));
  COPPICE_ASSIGN_OR_RETURN(StagingKernels staging, StagingKernels::Load(driver));
  auto state = std::make_unique<State>(context, options, std::move(pool), std::move(staging));
  for (int lane = 0; lane < options.lanes; ++lane) {
    COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
    COPPICE_ASSIGN_OR_RETURN(Event event, Event::Create(driver));
    state->lanes.push_back(
        std::make_unique<Lane>(driver, *state->pool, lane, std::move(stream), std::move(event)));
    if (options.workspace_bytes == 0) continue;
    COPPICE_ASSIGN_OR_RETURN(DeviceMemory workspace,
                             DeviceMemory::Create(driver, options.workspace_bytes));
    state->workspaces.push_back(std::move(workspace));
  }
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

Session::~Session() {
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    COPPICE_CHECK(lane->open_scopes == 0, "a read scope outlives its session");
    COPPICE_CHECK(lane->owning_leases == 0,
                  "a lease of a warm-up or eager run outlives its session");
    // A dead context cannot be waited for by either way, and has nothing in flight.
    if (!lane->Wait().ok()) (void)lane->WaitForStream(lane->last_stream).ok();
  }
}

absl::StatusOr<const Program*> Session::Register(ProgramSpec spec, Callable callable) {
  COPPICE_RETURN_IF_ERROR(ValidateSpec(spec));
  if (!callable)
    return InvalidArgument("Session::Register: program '{}' has no callable", spec.name);
  auto program = std::make_unique<Program>();
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    const InputSpec& input = spec.inputs[static_cast<size_t>(i)];
    (input.role == InputRole::kCopy ? program->copies : program->statics).push_back(i);
    if (input.role == InputRole::kCopy) {
      internal::CopyShape& shape = program->copy_shapes.emplace_back();
      shape.dtype = input.dtype;
      shape.rank = static_cast<int8_t>(input.dims.size());
      std::copy(input.dims.begin(), input.dims.end(), shape.dims.begin());
    }
    program->mutates_statics |= input.mutated;
  }
  for (int i = 0; i < static_cast<int>(spec.scalars.size()); ++i) {
    const bool resident = spec.scalars[static_cast<size_t>(i)].device_resident;
    (resident ? program->device_scalars : program->key_scalars).push_back(i);
  }
  program->session = this;
  program->spec = std::move(spec);
  program->callable = std::move(callable);
  program->lanes.resize(state_->lanes.size());
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (const std::unique_ptr<Program>& other : state_->programs) {
    if (other->spec.name == program->spec.name) {
      return InvalidArgument(
          "Session::Register: a program '{}' is registered already; choose another name",
          program->spec.name);
    }
  }
  state_->programs.push_back(std::move(program));
  return state_->programs.back().get();
}

absl::StatusOr<const Binding*> Session::Bind(const Program& program,
                                             std::span<const Tensor> static_inputs) {
  if (program.session != this) {
    return InvalidArgument("Session::Bind: program '{}' belongs to another session",
                           program.spec.name);
  }
  if (static_inputs.size() != program.statics.size()) {
    return InvalidArgument("Session::Bind: program '{}' has {} static inputs, not {}",
                           program.spec.name, program.statics.size(), static_inputs.size());
  }
  for (size_t i = 0; i < static_inputs.size(); ++i) {
    const InputSpec& spec = program.spec.inputs[static_cast<size_t>(program.statics[i])];
    const Tensor& tensor = static_inputs[i];
    if (tensor.data == 0 ||
        tensor != internal::DenseTensor(tensor.data, spec.dtype, spec.dims, /*extents=*/{})) {
      return InvalidArgument(
          "Session::Bind: static input '{}' of program '{}' must be a dense {} of the spec's sizes "
          "at an address other than 0",
          spec.name, program.spec.name, NameOf(spec.dtype));
    }
    if (state_->pool->Contains(tensor.data, internal::RoundedBytes(tensor))) {
      return InvalidArgument(
          "Session::Bind: static input '{}' of program '{}' lies in a window of this session, "
          "where graphs overwrite it; copy it elsewhere",
          spec.name, program.spec.name);
    }
  }
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (const std::unique_ptr<Binding>& binding : state_->bindings) {
    if (binding->program == &program &&
        std::equal(binding->inputs.begin(), binding->inputs.end(), static_inputs.begin())) {
      return binding.get();
    }
  }
  auto binding = std::make_unique<Binding>();
  binding->program = &program;
  binding->inputs.assign(static_inputs.begin(), static_inputs.end());
  state_->bindings.push_back(std::move(binding));
  return state_->bindings.back().get();
}

absl::StatusOr<Lease> Session::Run(const Call& call) {
  State& state = *state_;
  if (state.poisoned.load(std::memory_order_acquire)) [[unlikely]]
    return state.Poison();
  COPPICE_RETURN_IF_ERROR(internal::CheckCall(call, this, static_cast<int>(state.lanes.size())));
  CallShape shape;
  COPPICE_RETURN_IF_ERROR(internal::ReadExtents(call, shape));
  COPPICE_RETURN_IF_ERROR(internal::Pad(*call.program, shape));
  Lane& lane = *state.lanes[static_cast<size_t>(call.lane)];
  const std::lock_guard<std::mutex> lock(lane.mutex);
  absl::StatusOr<Lease> lease = state.RunInLane(call, shape, lane);
  if (!lease.ok()) [[unlikely]]
    return state.Remember(lease.status());
  return lease;
}

absl::Status Session::Warm(const Program& program,
                           const Binding* binding,
                           std::span<const std::vector<int64_t>> buckets,
                           std::span<const int64_t> scalars,
                           const WarmOptions& options) {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.Poison());
  const char* name = program.spec.name.c_str();
  if (state.options.stance != Stance::kRecord) {
    return FailedPrecondition("Session::Warm: the session's stance forbids recording program '{}'",
                              name);
  }
  if (options.lane < 0 || options.lane >= static_cast<int>(state.lanes.size())) {
    return InvalidArgument("Session::Warm: lane {} of {}", options.lane, state.lanes.size());
  }
  const auto fits = [&](const Binding* given) {
    return given == nullptr ? program.statics.empty() : given->program == &program;
  };
  if (program.session != this || !fits(binding) || scalars.size() != program.spec.scalars.size()) {
    return InvalidArgument(
        "Session::Warm: program '{}' needs a binding made for it by this session, and {} scalars",
        name, program.spec.scalars.size());
  }
  if (program.mutates_statics &&
      (options.scratch == nullptr || options.scratch == binding || !fits(options.scratch))) {
    return FailedPrecondition(
        "Session::Warm: program '{}' mutates static inputs; pass scratch ones in "
        "WarmOptions::scratch",
        name);
  }
  Lane& lane = *state.lanes[static_cast<size_t>(options.lane)];
  const std::lock_guard<std::mutex> lock(lane.mutex);
  const Call call{.program = &program,
                  .binding = binding,
                  .inputs = {},
                  .scalars = scalars,
                  .stream = lane.own_stream.handle(),
                  .lane = options.lane};
  for (size_t i = 0; i < buckets.size(); ++i) {
    CallShape shape;
    bool valid = buckets[i].size() == program.spec.symbols.size();
    for (size_t symbol = 0; valid && symbol < buckets[i].size(); ++symbol) {
      const int64_t extent = buckets[i][symbol];
      valid = extent >= 1 && program.spec.symbols[symbol].policy.Find(extent) == extent;
      shape.real[symbol] = shape.padded[symbol] = extent;
    }
    if (!valid) {
      return InvalidArgument(
          "Session::Warm: bucket {} of program '{}' is no bucket of its policies", i, name);
    }
    COPPICE_RETURN_IF_ERROR(state.Remember(state.WarmBucket(call, shape, options.scratch, lane)));
    if (options.progress) {
      options.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(buckets.size()));
    }
  }
  COPPICE_RETURN_IF_ERROR(state.Remember(lane.own_stream.Synchronize()));
  return state.Remember(state.pool->TrimEager(lane.index).status());
}

absl::Status Session::Trim() {
  COPPICE_RETURN_IF_ERROR(state_->Poison());
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    COPPICE_RETURN_IF_ERROR(state_->Remember(lane->Wait()));
    COPPICE_RETURN_IF_ERROR(state_->Remember(state_->pool->TrimEager(lane->index).status()));
  }
  return absl::OkStatus();
}

SessionStats Session::stats() const {
  SessionStats total;
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    const SessionStats& part = lane->stats;
    total.calls += part.calls;
    for (size_t i = 0; i < total.paths.size(); ++i)
      total.paths[i] += part.paths[i];
    for (size_t i = 0; i < total.reasons.size(); ++i)
      total.reasons[i] += part.reasons[i];
    total.captures_retried += part.captures_retried;
    total.stream_switches += part.stream_switches;
    total.real_elements += part.real_elements;
    total.padded_elements += part.padded_elements;
  }
  return total;
}

std::vector<NodeInfo> Session::nodes() const {
  std::vector<const Program*> programs;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    for (const std::unique_ptr<Program>& program : state_->programs)
      programs.push_back(program.get());
  }
  std::vector<NodeInfo> infos;
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    for (const Program* program : programs) {
      for (const Node* node : program->lanes[static_cast<size_t>(lane->index)].order) {
        infos.push_back(node->info);
      }
    }
  }
  return infos;
}

const Pool& Session::pool() const {
  return *state_->pool;
}

}  // namespace coppice
