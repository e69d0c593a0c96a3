// The session's public face: registration, bindings, Run's checks, Warm and what it is told.

#include "coppice/graphs/session.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

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
  if (options.lanes < 1 || options.warmup_runs < 1 || options.window_bytes < 0 ||
      options.workspace_bytes < 0 || options.copy_out_bytes < 0 ||
      options.graphs_per_program_max < 0 || options.rerecords_per_bucket_max < 0 ||
      options.budget_bytes < 0) {
    return InvalidArgument(
        "Session::Create: lanes {}, warmup_runs {}, window_bytes {}, workspace_bytes {}, "
        "copy_out_bytes {}, graphs_per_program_max {}, rerecords_per_bucket_max {}, budget_bytes "
        "{}; lanes and warmup_runs must be at least 1 and nothing negative",
        options.lanes, options.warmup_runs, options.window_bytes, options.workspace_bytes,
        options.copy_out_bytes, options.graphs_per_program_max, options.rerecords_per_bucket_max,
        options.budget_bytes);
  }
  const Driver& driver = context.driver();
  Pool::Options pool_options{.lanes = options.lanes,
                             .window_bytes = options.window_bytes,
                             .budget_bytes = options.budget_bytes};
  std::unique_ptr<internal::Tracer> tracer;
  if (!options.trace.path.empty()) {
    COPPICE_ASSIGN_OR_RETURN(tracer,
                             internal::Tracer::Create(options.trace, options.lanes, options.log));
    pool_options.on_change = [raw = tracer.get()](MemoryKind kind, int64_t bytes, int64_t total) {
      raw->Bytes(kind, bytes, total);
    };
  }
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Pool> pool,
                           Pool::Create(driver, context.device(), pool_options));
  if (tracer != nullptr)
    tracer->DefineSession(context.DeviceName(), pool->granularity(), options.budget_bytes);
  COPPICE_ASSIGN_OR_RETURN(StagingKernels staging, StagingKernels::Load(driver));
  auto state = std::make_unique<State>(context, options, std::move(tracer), std::move(pool),
                                       std::move(staging));
  for (int lane = 0; lane < options.lanes; ++lane) {
    COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
    COPPICE_ASSIGN_OR_RETURN(Event handoff, Event::Create(driver));
    COPPICE_ASSIGN_OR_RETURN(Event progress, Event::Create(driver));
    state->lanes.push_back(std::make_unique<Lane>(driver, *state->pool, lane, std::move(stream),
                                                  std::move(handoff), std::move(progress)));
    state->lanes.back()->tracer = state->tracer.get();
    COPPICE_RETURN_IF_ERROR(
        state->pool->Reserve(lane, WindowKind::kCopyOut, options.copy_out_bytes));
    state->lanes.back()->ring_bytes = options.copy_out_bytes / kBufferAlignment * kBufferAlignment;
    COPPICE_RETURN_IF_ERROR(
        state->pool->Reserve(lane, WindowKind::kWorkspace, options.workspace_bytes));
    if (options.budget_bytes == 0) continue;
    state->lanes.back()->make_room = [raw = state.get()](Lane& asking, int64_t bytes,
                                                         MemoryKind need) {
      return raw->MakeRoom(asking, bytes, need);
    };
  }
  if (options.record_in_background) {
    COPPICE_ASSIGN_OR_RETURN(
        state->background,
        internal::BackgroundRecorder::Start(
            context, [raw = state.get()](internal::BackgroundRecorder::Job& job, CuStream stream) {
              raw->RecordJob(job, stream);
            }));
  }
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

Session::~Session() {
  state_->background.reset();
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    for (const auto* slots : {&lane->window, &lane->parked, &lane->ring}) {
      for (const internal::Slot* slot : *slots)
        COPPICE_CHECK(slot->open_scopes == 0, "a read scope outlives its session");
    }
    COPPICE_CHECK(!lane->chain_open, "a chain outlives its session");
    COPPICE_CHECK(!lane->lent, "a loan outlives its session");
    // A dead context cannot be waited for by either way, and has nothing in flight.
    if (!lane->Wait().ok()) (void)lane->WaitForStream(lane->last_stream).ok();
    if (lane->tracer != nullptr) lane->TraceEnd();
  }
}

namespace {

// Copies of the spec in the shape that the replay path reads.
void SplitInputs(Program& program) {
  const ProgramSpec& spec = program.spec;
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    const InputSpec& input = spec.inputs[static_cast<size_t>(i)];
    if (input.role == InputRole::kStatic) {
      program.statics.push_back(i);
      program.mutates_statics |= input.mutated;
      continue;
    }
    program.copies.push_back(i);
    program.mutates_copies |= input.mutated;
    internal::CopyShape& shape = program.copy_shapes.emplace_back();
    shape.dtype = input.dtype;
    shape.rank = static_cast<int8_t>(input.dims.size());
    std::copy(input.dims.begin(), input.dims.end(), shape.dims.begin());
  }
  for (int i = 0; i < static_cast<int>(spec.outputs.size()); ++i) {
    if (spec.outputs[static_cast<size_t>(i)].role == OutputRole::kStatic)
      program.static_outputs.push_back(i);
  }
  for (int i = 0; i < static_cast<int>(spec.scalars.size()); ++i) {
    const bool resident = spec.scalars[static_cast<size_t>(i)].device_resident;
    (resident ? program.device_scalars : program.key_scalars).push_back(i);
  }
}

}  // namespace

absl::StatusOr<const Program*> Session::Register(ProgramSpec spec, Callable callable) {
  COPPICE_RETURN_IF_ERROR(ValidateSpec(spec));
  if (!callable)
    return InvalidArgument("Session::Register: program '{}' has no callable", spec.name);
  auto program = std::make_unique<Program>();
  program->session = this;
  program->spec = std::move(spec);
  program->callable = std::move(callable);
  COPPICE_ASSIGN_OR_RETURN(program->guards, CompileGuards(program->spec));
  program->guarded = program->guards.guard_count() > 0;
  SplitInputs(*program);
  if (program->spec.random_numbers_per_call > 0) program->random_word = RandomWord(program->spec);
  program->plain = !state_->options.vote && !state_->options.audit_keys &&
                   !state_->gated(*program) && program->spec.gate != GateMode::kAlwaysEager;
  for (size_t i = 0; i < program->spec.symbols.size(); ++i) {
    const SymbolSpec& symbol = program->spec.symbols[i];
    const bool dynamic =
        symbol.kind == SymbolKind::kDynamic || symbol.kind == SymbolKind::kMaybeDynamic;
    program->pads_always[i] = dynamic && !symbol.exclude_01 && program->spec.claim != Claim::kExact;
  }
  program->lanes.resize(state_->lanes.size());
  program->moves.resize(program->statics.size());
  program->demoted.resize(program->statics.size());
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (const std::unique_ptr<Program>& other : state_->programs) {
    if (other->spec.name == program->spec.name && other->spec.variant == program->spec.variant) {
      return InvalidArgument(
          "Session::Register: a program '{}' of variant '{}' is registered already; choose another "
          "name or variant",
          program->spec.name, program->spec.variant);
    }
  }
  if (state_->tracer != nullptr)
    program->trace_number = state_->tracer->DefineProgram(program->spec);
  state_->programs.push_back(std::move(program));
  return state_->programs.back().get();
}

const Program* Session::Find(const std::string& name, const std::string& variant) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (const std::unique_ptr<Program>& program : state_->programs) {
    if (program->spec.name == name && program->spec.variant == variant) return program.get();
  }
  return nullptr;
}

namespace {

// Checks one tensor of a binding against its spec, be it of an input or an output.
template <typename Spec>
absl::Status CheckStatic(const Program& program,
                         const Spec& spec,
                         const Tensor& tensor,
                         const Pool& pool) {
  if (tensor.data == 0 ||
      tensor != internal::DenseTensor(tensor.data, spec.dtype, spec.dims, /*extents=*/{})) {
    return InvalidArgument(
        "Session::Bind: static '{}' of program '{}' must be a dense {} of the spec's sizes at an "
        "address other than 0",
        spec.name, program.spec.name, NameOf(spec.dtype));
  }
  if (!pool.Contains(tensor.data, internal::RoundedBytes(tensor))) return absl::OkStatus();
  return InvalidArgument(
      "Session::Bind: static '{}' of program '{}' lies in a window of this session, where graphs "
      "write; copy it elsewhere",
      spec.name, program.spec.name);
}

}  // namespace

absl::StatusOr<const Binding*> Session::Bind(const Program& program,
                                             std::span<const Tensor> statics) {
  if (program.session != this) {
    return InvalidArgument("Session::Bind: program '{}' belongs to another session",
                           program.spec.name);
  }
  const size_t inputs = program.statics.size();
  if (statics.size() != inputs + program.static_outputs.size()) {
    return InvalidArgument(
        "Session::Bind: program '{}' has {} static inputs and {} static outputs, not {} in all",
        program.spec.name, inputs, program.static_outputs.size(), statics.size());
  }
  auto binding = std::make_unique<Binding>();
  binding->program = &program;
  for (size_t i = 0; i < statics.size(); ++i) {
    Tensor tensor = statics[i];
    tensor.made_by = 0;
    COPPICE_RETURN_IF_ERROR(
        i < inputs
            ? CheckStatic(program, program.spec.inputs[static_cast<size_t>(program.statics[i])],
                          tensor, *state_->pool)
            : CheckStatic(
                  program,
                  program.spec.outputs[static_cast<size_t>(program.static_outputs[i - inputs])],
                  tensor, *state_->pool));
    binding->tensors.push_back(tensor);
    if (!state_->options.check_addresses) continue;
    // A constant is the session's own, and gets other memory when the session resumes.
    uint64_t id = 0;
    if (!state_->pool->HoldsConstants(tensor.data)) {
      COPPICE_ASSIGN_OR_RETURN(id, AllocationIdOf(state_->driver, tensor.data));
    }
    binding->allocations.push_back(id);
  }
  const std::lock_guard<std::mutex> lock(state_->mutex);
  COPPICE_ASSIGN_OR_RETURN(const internal::StaticVersion* version,
                           State::VersionOf(program, binding->tensors));
  for (const std::unique_ptr<Binding>& other : state_->bindings) {
    if (other->program != &program || other->tensors != binding->tensors ||
        other->allocations != binding->allocations) {
      continue;
    }
    other->version.store(version, std::memory_order_release);
    return other.get();
  }
  binding->version.store(version, std::memory_order_release);
  state_->bindings.push_back(std::move(binding));
  return state_->bindings.back().get();
}

absl::Status Session::Unbind(const Binding& binding) {
  const Program& program = *binding.program;
  if (program.session != this) {
    return InvalidArgument("Session::Unbind: the binding belongs to another session");
  }
  const internal::StaticVersion* version = nullptr;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    version = binding.version.exchange(nullptr);
    // Graphs of a version that another binding has are still of use; its memory is not the same.
    for (const std::unique_ptr<Binding>& other : state_->bindings) {
      if (other->version.load() == version) version = nullptr;
    }
  }
  WaitForRecordings();
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    COPPICE_RETURN_IF_ERROR(state_->Remember(lane->Wait()));
    if (version != nullptr) State::EvictIdle(program, *lane, version);
  }
  return absl::OkStatus();
}

// Checks what can be checked without a lock, and finds out what the call asks for.
absl::Status Session::State::Prepare(const Session& session,
                                     internal::Observe observe,
                                     Request& request) const {
  const Call& call = request.call;
  COPPICE_RETURN_IF_ERROR(internal::ReadCall(call, session, static_cast<int>(lanes.size()), *pool,
                                             observe, request.shape));
  if (call.binding != nullptr) {
    request.statics = call.binding->version.load(std::memory_order_acquire);
    if (request.statics == nullptr) [[unlikely]] {
      return FailedPrecondition(
          "Session::Run: the binding of program '{}' was ended by Unbind; bind the tensors that "
          "are there",
          call.program->spec.name);
    }
  }
  if (call.output_mode != OutputMode::kBorrow) [[unlikely]]
    COPPICE_RETURN_IF_ERROR(CheckTargets(request));
  if (request.shape.in_pool || call.program->mutates_copies) [[unlikely]]
    COPPICE_RETURN_IF_ERROR(CheckInputs(request));
  if (options.check_addresses) [[unlikely]]
    COPPICE_RETURN_IF_ERROR(CheckAddresses(call));
  return absl::OkStatus();
}

absl::StatusOr<Lease> Session::Run(const Call& call) {
  State& state = *state_;
  if (state.poisoned.load(std::memory_order_acquire)) [[unlikely]]
    return state.Poison();
  State::Request request{.call = call};
  COPPICE_RETURN_IF_ERROR(state.Prepare(*this, internal::Observe::kYes, request));
  Lane& lane = *state.lanes[static_cast<size_t>(call.lane)];
  const std::lock_guard<std::mutex> lock(lane.mutex);
  if (call.program->random_word >= 0) [[unlikely]]
    request.random = state.NextRandom(*call.program);
  absl::StatusOr<Lease> lease = state.RunInLane(request, lane);
  if (!lease.ok()) [[unlikely]]
    return state.Remember(lease.status());
  return lease;
}

absl::StatusOr<Lease> Session::Include(const Call& call) {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.Poison());
  State::Request request{.call = call};
  COPPICE_RETURN_IF_ERROR(state.Prepare(*this, internal::Observe::kNo, request));
  Lane& lane = *state.lanes[static_cast<size_t>(call.lane)];
  const std::lock_guard<std::mutex> lock(lane.mutex);
  absl::StatusOr<Lease> lease = state.Include(request, lane);
  if (!lease.ok()) return state.Remember(lease.status());
  return lease;
}

Explanation Session::Explain(const Call& call) const {
  const State& state = *state_;
  Explanation explanation;
  std::string why;
  State::Request request{.call = call};
  explanation.status = state.Prepare(*this, internal::Observe::kNo, request);
  if (explanation.status.ok()) {
    Lane& lane = *state.lanes[static_cast<size_t>(call.lane)];
    const std::lock_guard<std::mutex> lock(lane.mutex);
    explanation.status = lane.CheckPresent("Session::Run");
    if (explanation.status.ok()) explanation.status = state.FindPlace(request, lane);
    if (explanation.status.ok()) {
      const Node* node = state.FindNode(request, lane);
      const State::Decision decision = state.Decide(request, lane, node);
      explanation.status = decision.status;
      explanation.path = decision.path;
      explanation.reason = decision.reason;
      why = state.DescribeReason(request, lane, decision.reason);
      if (node != nullptr && decision.path == Path::kReplay && decision.status.ok()) {
        explanation.node = node->info;
        explanation.status = state.CheckHeld(request, lane, *node);
      }
    }
  }
  if (!explanation.status.ok()) {
    explanation.text = MessageOf(explanation.status);
  } else if (explanation.node) {
    explanation.text = fmt::format(
        "replay of program '{}' in bucket [{}], planned around {} live bytes, recorded in {} us",
        explanation.node->program, fmt::join(explanation.node->bucket, ", "),
        explanation.node->around_bytes, explanation.node->record_ns / 1000);
  } else {
    explanation.text = fmt::format(
        "{} of program '{}' in bucket [{}]: {}", NameOf(explanation.path), call.program->spec.name,
        fmt::join(request.shape.padded.begin(),
                  request.shape.padded.begin() +
                      static_cast<ptrdiff_t>(call.program->spec.symbols.size()),
                  ", "),
        why);
  }
  return explanation;
}

ChainScope::~ChainScope() {
  if (lane_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(lane_->mutex);
  lane_->chain_open = false;
  lane_->rehearsal.Close();
}

absl::StatusOr<ChainScope> Session::Chain(int lane) {
  if (lane < 0 || lane >= static_cast<int>(state_->lanes.size()))
    return InvalidArgument("Session::Chain: lane {} of {}", lane, state_->lanes.size());
  Lane& chained = *state_->lanes[static_cast<size_t>(lane)];
  const std::lock_guard<std::mutex> lock(chained.mutex);
  if (chained.chain_open)
    return FailedPrecondition("Session::Chain: lane {} has an open chain; end it first", lane);
  chained.chain_open = true;
  chained.rehearsal.Open();
  chained.EndPath();
  return ChainScope(&chained);
}

// Whether Warm may run `program` on dummy inputs with this binding.
absl::Status Session::State::CheckWarm(const Session& session,
                                       const Program& program,
                                       const Binding* binding,
                                       std::span<const int64_t> scalars,
                                       const WarmOptions& warm) {
  COPPICE_RETURN_IF_ERROR(Poison());
  const char* name = program.spec.name.c_str();
  if (stance.load() != Stance::kRecord || program.spec.gate == GateMode::kAlwaysEager) {
    return FailedPrecondition(
        "Session::Warm: the session's stance or the spec forbids recording program '{}'", name);
  }
  if (warm.lane < 0 || warm.lane >= static_cast<int>(lanes.size())) {
    return InvalidArgument("Session::Warm: lane {} of {}", warm.lane, lanes.size());
  }
  const auto fits = [&](const Binding* given) {
    return given == nullptr ? !program.binds()
                            : given->program == &program && given->version.load() != nullptr;
  };
  if (program.session != &session || !fits(binding) ||
      scalars.size() != program.spec.scalars.size()) {
    return InvalidArgument(
        "Session::Warm: program '{}' needs a binding made for it by this session, and {} scalars",
        name, program.spec.scalars.size());
  }
  const auto shares_mutated = [&] {
    for (size_t i = 0; i < program.statics.size(); ++i) {
      if (program.spec.inputs[static_cast<size_t>(program.statics[i])].mutated &&
          warm.scratch->tensors[i].data == binding->tensors[i].data) {
        return true;
      }
    }
    return false;
  };
  if (program.mutates_statics &&
      (warm.scratch == nullptr || !fits(warm.scratch) || shares_mutated())) {
    return FailedPrecondition(
        "Session::Warm: program '{}' mutates static inputs; pass scratch ones in "
        "WarmOptions::scratch",
        name);
  }
  return absl::OkStatus();
}

absl::Status Session::Warm(const Program& program,
                           const Binding* binding,
                           std::span<const std::vector<int64_t>> buckets,
                           std::span<const int64_t> scalars,
                           const WarmOptions& options) {
  State& state = *state_;
  COPPICE_RETURN_IF_ERROR(state.CheckWarm(*this, program, binding, scalars, options));
  std::vector<CallShape> shapes;
  for (size_t i = 0; i < buckets.size(); ++i) {
    bool valid = buckets[i].size() == program.spec.symbols.size();
    CallShape& shape = shapes.emplace_back();
    for (size_t symbol = 0; valid && symbol < buckets[i].size(); ++symbol) {
      valid = internal::IsBucket(program, symbol, buckets[i][symbol]);
      shape.real[symbol] = shape.padded[symbol] = buckets[i][symbol];
    }
    if (valid) continue;
    return InvalidArgument("Session::Warm: bucket {} of program '{}' is no bucket of its policies",
                           i, program.spec.name);
  }
  // The largest first: the pool grows once.
  const auto elements = [&](const CallShape& shape) {
    double product = 1;
    for (size_t i = 0; i < program.spec.symbols.size(); ++i)
      product *= static_cast<double>(shape.padded[i]);
    return product;
  };
  std::stable_sort(shapes.begin(), shapes.end(), [&](const CallShape& a, const CallShape& b) {
    return elements(a) > elements(b);
  });
  Lane& lane = *state.lanes[static_cast<size_t>(options.lane)];
  const std::lock_guard<std::mutex> lock(lane.mutex);
  COPPICE_RETURN_IF_ERROR(lane.CheckPresent("Session::Warm"));
  lane.Sweep();
  const Call call{.program = &program,
                  .binding = binding,
                  .inputs = {},
                  .scalars = scalars,
                  .stream = lane.own_stream.handle(),
                  .lane = options.lane};
  for (size_t i = 0; i < shapes.size(); ++i) {
    COPPICE_RETURN_IF_ERROR(
        state.Remember(state.WarmBucket(call, shapes[i], options.scratch, lane)));
    if (options.progress) {
      options.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(shapes.size()));
    }
  }
  COPPICE_RETURN_IF_ERROR(state.Remember(lane.own_stream.Synchronize()));
  // Calls before may still use what their leases gave back, if no warm-up ran behind them.
  COPPICE_RETURN_IF_ERROR(state.Remember(lane.Wait()));
  COPPICE_RETURN_IF_ERROR(state.Remember(state.pool->TrimEager(lane.index).status()));
  return state.Remember(state.pool->ReleaseSpares());
}

void Session::SetStance(Stance stance) {
  state_->stance.store(stance);
}

void Session::SetSeed(uint64_t seed) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->seed.store(seed);
  for (const std::unique_ptr<Program>& program : state_->programs)
    program->random_offset.store(0);
}

absl::StatusOr<int64_t> Session::Evict(const Program* program) {
  COPPICE_RETURN_IF_ERROR(state_->Poison());
  WaitForRecordings();
  int64_t dropped = 0;
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    COPPICE_RETURN_IF_ERROR(state_->Remember(lane->Wait()));
    for (const Program* each : state_->Programs()) {
      if (program != nullptr && program != each) continue;
      dropped += State::EvictIdle(*each, *lane, /*version=*/nullptr);
    }
  }
  return dropped;
}

void Session::WaitForRecordings() {
  if (state_->background != nullptr) state_->background->Wait();
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
    total.recordings += part.recordings;
    total.evictions += part.evictions;
    total.remaps += part.remaps;
    total.inputs_in_place += part.inputs_in_place;
    total.inputs_demoted += part.inputs_demoted;
    total.stream_switches += part.stream_switches;
    total.real_elements += part.real_elements;
    total.padded_elements += part.padded_elements;
  }
  return total;
}

std::vector<NodeInfo> Session::nodes() const {
  const std::vector<const Program*> programs = state_->Programs();
  std::vector<NodeInfo> infos;
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    for (const Program* program : programs) {
      for (const internal::Bucket* bucket :
           program->lanes[static_cast<size_t>(lane->index)].order) {
        if (bucket->nodes.empty()) infos.push_back(bucket->info);
        for (const Node* node : bucket->nodes)
          infos.push_back(node->info);
      }
    }
  }
  return infos;
}

const Pool& Session::pool() const {
  for (const std::unique_ptr<Lane>& lane : state_->lanes) {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    lane->Sweep();
  }
  return *state_->pool;
}

}  // namespace coppice
