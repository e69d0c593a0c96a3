// Calls: what they take, what the model says of them, and how they may end.

#include "tests/sim/traffic_kernels.h"
#include "tests/sim/traffic_simulation.h"

namespace coppice {

using absl::StatusCode;

Call TrafficSimulation::Attempt::AsCall() const {
  return {.program = program.registered,
          .binding = binding,
          .inputs = tensors,
          .scalars = std::span(scalars).first(static_cast<size_t>(spec.scalars())),
          .extents = std::span(&m, spec.second == TrafficProgram::Second::kGiven ? 1 : 0),
          .counts = std::span(&count, counted() ? 1 : 0),
          .stream = stream,
          .lane = lane,
          // Poison overrides the filling.
          .poison = spec.needs_fill ? Poison::kOff : static_cast<Poison>(operation.padding),
          .output_mode = static_cast<OutputMode>(operation.mode),
          .targets = target_tensors};
}

void TrafficSimulation::RunCall(const TrafficOperation& operation) {
  Registered& program = ProgramOf(operation);
  Attempt attempt{.operation = operation,
                  .program = program,
                  .spec = program.spec,
                  .lane = LaneOf(operation),
                  .stream = host_.stream(operation.stream)};
  if (!Prepare(attempt)) return;
  Call call = attempt.AsCall();
  Made* const donated = operation.donate != 0 ? attempt.inputs[0].made : nullptr;
  if (donated != nullptr && donated->held && !donated->scope && !attempt.scope &&
      donated->lane == attempt.lane) {
    attempt.donated = donated;
    call.donated = {&donated->lease, 1};
  }
  std::optional<Explanation> explanation;
  if (operation.explain != 0) explanation = session_->Explain(call);
  const SessionStats before = session_->stats();
  absl::StatusOr<Lease> lease = session_->Run(call);
  const bool fault = TookFault();
  const SessionStats after = session_->stats();
  if (attempt.donated != nullptr) {
    const bool taken = donated->lease.call_number() == 0;
    if (taken != lease.ok() && !fault) {
      return Fail("donated",
                  taken ? "a lease was taken by a call that failed" : "a lease was left");
    }
    donated->held &= !taken;
  }
  // Explain demotes no static input; gates and threads choose as they go.
  const bool same = !fault && options_.gate == 0 && options_.background == 0 &&
                    after.inputs_demoted == before.inputs_demoted;
  if (explanation && same)
    CheckExplanation(*explanation, lease, attempt.scope || AnyScope(attempt.lane));
  if (!lease.ok()) {
    attempt.scope.reset();
    if (fault) {
      ++report_.faults;
      NoteGraph(RunKind::kReplay, attempt.lane, /*child=*/false);
    } else {
      CheckRefusal(lease.status(), attempt);
    }
    // The program may have begun, and then found no room: with numbers that nobody knows of.
    if (!fault && lease.status().code() != StatusCode::kResourceExhausted) return;
    Settle(attempt);
    if (attempt.spec.random) SettleRandomNumbers();
    return;
  }
  if (!attempt.verdict.must.empty())
    return Fail("ran", "a call that had to be refused returned a lease");
  CheckPath(lease->kind());
  const bool child = chains_[static_cast<size_t>(attempt.lane)].has_value() ||
                     after.inputs_in_place > before.inputs_in_place;
  NoteGraph(lease->kind(), attempt.lane, child);
  if (attempt.spec.random) offset_ += kRandomNumbersUsed;
  if (attempt.set != nullptr) attempt.set->input->values = attempt.bound;
  if (attempt.spec.mutates_input) Mutate(attempt.inputs[0], attempt.after[0]);
  Plant(attempt, attempt.outputs[0]);
  Keep(attempt, *std::move(lease));
}

// The program in a capture of the caller's, launched a few times.
void TrafficSimulation::Include(const TrafficOperation& operation) {
  Registered& program = ProgramOf(operation);
  Attempt attempt{.operation = operation,
                  .program = program,
                  .spec = program.spec,
                  .lane = LaneOf(operation),
                  .stream = host_.stream(operation.stream)};
  if (!Prepare(attempt)) return;
  const DriverTable& cu = host_.driver().table();
  host_.Demand(cu.StreamBeginCapture(attempt.stream, CuCaptureMode::kThreadLocal));
  absl::StatusOr<Lease> lease = session_->Include(attempt.AsCall());
  CuGraph graph = nullptr;
  const CuResult ended = cu.StreamEndCapture(attempt.stream, &graph);
  const bool fault = TookFault();
  if (!lease.ok()) {
    if (graph != nullptr) host_.Demand(cu.GraphDestroy(graph));
    // A bucket that is not warm, a program that cannot be part of another graph.
    attempt.verdict.may.push_back(StatusCode::kFailedPrecondition);
    if (!fault) {
      // A refusal leaves the caller's capture as it is.
      host_.Demand(ended);
      CheckRefusal(lease.status(), attempt);
    }
    return;
  }
  if (!attempt.verdict.must.empty())
    return Fail("ran", "a call that had to be refused was included");
  host_.Demand(ended);
  CuGraphExec exec = nullptr;
  host_.Demand(cu.GraphInstantiateWithFlags(&exec, graph, 0));
  host_.Demand(cu.GraphDestroy(graph));
  host_.Launched(exec);
  Keep(attempt, *std::move(lease));
  Made& made = made_[operation.id];
  for (int64_t launch = 0; launch < std::clamp<int64_t>(operation.nth, 1, 3); ++launch) {
    Compute(attempt);
    host_.Demand(cu.GraphLaunch(exec, attempt.stream));
    if (attempt.set != nullptr) attempt.set->input->values = attempt.bound;
    for (size_t i = 0; i < made.outputs.size(); ++i)
      made.outputs[i].Put(attempt.outputs[i]);
    QueueReads(made, attempt.stream);
  }
  made.lease.Release();
  made_.erase(operation.id);
}

int64_t TrafficSimulation::SecondOf(const TrafficProgram& spec, const TrafficOperation& operation) {
  return spec.second == TrafficProgram::Second::kNone
             ? 0
             : std::clamp<int64_t>(operation.m, 0, kExtentMax);
}

// The salt, and the second symbol behind it, if they are there.
std::array<int64_t, 2> TrafficSimulation::ScalarsOf(const TrafficProgram& spec,
                                                    const TrafficOperation& operation) {
  const int64_t m = SecondOf(spec, operation);
  if (spec.scalar == TrafficProgram::Scalar::kNone) return {m, 0};
  return {operation.scalar, m};
}

bool TrafficSimulation::Prepare(Attempt& attempt) {
  attempt.m = SecondOf(attempt.spec, attempt.operation);
  attempt.scalars = ScalarsOf(attempt.spec, attempt.operation);
  attempt.inputs.push_back(ChooseInput(attempt));
  attempt.n = attempt.inputs[0].extent();
  if (attempt.spec.inputs > 1) attempt.inputs.push_back(ChooseOther(attempt));
  if (!report_.failure.empty()) return false;
  for (CallInput& input : attempt.inputs) {
    if (input.buffer != nullptr) host_.Order(*input.buffer, attempt.stream);
    attempt.tensors.push_back(input.tensor);
  }
  ChooseCount(attempt);
  if (!ChooseStatics(attempt) || !ChooseTargets(attempt)) return false;
  Compute(attempt);
  AddLimits(attempt);
  return true;
}

// What the device says of the first input, which is as long as its capacity.
void TrafficSimulation::ChooseCount(Attempt& attempt) {
  const TrafficOperation& operation = attempt.operation;
  attempt.known = attempt.n;
  if (!attempt.spec.counted || operation.count == 0) return;
  Made* const made = attempt.inputs[0].made;
  int64_t value = 0;
  if (operation.count > 0) {
    const int64_t index = (operation.count - 1) % kTrafficCounts;
    attempt.count = host_.count(index);
    value = host_.count_value(index);
  } else if (made != nullptr && made->counted && !Unordered(*made, attempt)) {
    const MadeOutput& output = made->outputs[1];
    if (output.shared != nullptr) host_.Order(*output.shared, attempt.stream);
    attempt.count = output.tensor;
    std::memcpy(&value, output.values().data(), static_cast<size_t>(output.row_bytes()));
    if (output.shared == nullptr) {
      const bool here = made->lane == attempt.lane || attempt.scope || made->scope;
      const bool include = operation.kind == TrafficOperation::Kind::kInclude;
      if (!here || include) attempt.verdict.must.push_back(StatusCode::kFailedPrecondition);
      if (!made->held || !made->sure)
        attempt.verdict.may.push_back(StatusCode::kFailedPrecondition);
    }
  }
  if (attempt.counted()) attempt.known = std::clamp<int64_t>(value, 0, attempt.n);
}

bool TrafficSimulation::ChooseStatics(Attempt& attempt) {
  if (!attempt.spec.binds()) return true;
  attempt.binding = BindingOf(attempt.program, attempt.operation.statics, /*again=*/false);
  if (attempt.binding == nullptr) return false;
  StaticSet& set =
      attempt.program.sets[static_cast<size_t>(attempt.operation.statics % kTrafficStatics)];
  attempt.set = &set;
  if (!set.bound) attempt.verdict.must.push_back(StatusCode::kFailedPrecondition);
  if (attempt.spec.statics == TrafficProgram::Static::kRead) return true;
  host_.Order(*set.input, attempt.stream);
  if (set.output != nullptr) host_.Order(*set.output, attempt.stream);
  return true;
}

bool TrafficSimulation::ChooseTargets(Attempt& attempt) {
  if (static_cast<OutputMode>(attempt.operation.mode) != OutputMode::kWriteInto) return true;
  // All of a target is compared later.
  if (!attempt.knows_padding()) return false;
  for (int i = 0; i < attempt.spec.outputs; ++i) {
    CallerBuffer& target = host_.target(2 * attempt.operation.target + i);
    attempt.targets.push_back(&target);
    host_.Order(target, attempt.stream);
    attempt.target_tensors.push_back(DenseOf(attempt.spec, i, target.start, attempt.extents()));
    // The input and the output would both be written there.
    if (&target == attempt.inputs[0].buffer && attempt.spec.mutates_input) return false;
  }
  return true;
}

CallInput TrafficSimulation::FreshInput(const Attempt& attempt, int index, int64_t n) {
  const TrafficProgram& spec = attempt.spec;
  const TrafficOperation& operation = attempt.operation;
  const int64_t data = operation.data + index;
  CallerBuffer& buffer = spec.mutates_input ? host_.mutable_input(data) : host_.input(data);
  const DType dtype = spec.DTypeOfInput(index);
  const int64_t skip_bytes = std::clamp<int64_t>(operation.skip, 0, kSkipMax) * SizeOf(dtype);
  CallInput input{.tensor = DenseTensorOf(
                      spec, dtype, buffer.start + static_cast<DeviceAddress>(skip_bytes), n)};
  const auto last = static_cast<size_t>(input.tensor.rank) - 1;
  if (!spec.mutates_input) {
    if (operation.layout == 1) input.tensor.strides[last] = 2;
    const size_t first = spec.rows > 1 ? last - 1 : last;
    if (operation.layout == 2) input.tensor.strides[first] = 0;
    if (operation.layout == 3 && spec.rows > 1) input.tensor.strides[first] = kExtentMax;
  }
  input.values = ReadBy(input.tensor, spec.rows, buffer.values, skip_bytes);
  if (spec.mutates_input) input.buffer = &buffer;
  input.offset_bytes = skip_bytes;
  return input;
}

// `n` elements of each row of an output, from `skip` on.
CallInput TrafficSimulation::ViewOf(
    const Attempt& attempt, Made& made, size_t index, int64_t skip, int64_t n) {
  const MadeOutput& output = made.outputs[index];
  // Of as many axes as the program wants, of which the first have one element.
  const Tensor& made_tensor = output.tensor;
  const int64_t bytes = SizeOf(made_tensor.dtype);
  const DeviceAddress data = made_tensor.data + static_cast<DeviceAddress>(skip * bytes);
  const Tensor wanted = DenseTensorOf(attempt.spec, made_tensor.dtype, data, n);
  CallInput input{
      .tensor = wanted, .made = &made, .buffer = output.shared, .offset_bytes = skip * bytes};
  for (int axis = 1; axis <= std::min<int>(wanted.rank, made_tensor.rank); ++axis) {
    input.tensor.strides[static_cast<size_t>(wanted.rank - axis)] =
        made_tensor.strides[static_cast<size_t>(made_tensor.rank - axis)];
  }
  input.tensor.made_by = made_tensor.made_by;
  for (int64_t row = 0; row < output.rows; ++row) {
    const auto begin = output.values().begin() + (row * output.n + skip) * bytes;
    input.values.insert(input.values.end(), begin, begin + n * bytes);
  }
  return input;
}

// Whether an output has the rows and the dtype of input `index`.
bool TrafficSimulation::Matches(const MadeOutput& output, const Attempt& attempt, int index) {
  return output.rows == attempt.spec.rows && output.known == output.n &&
         output.tensor.dtype == attempt.spec.DTypeOfInput(index);
}

// A scope on another stream orders nothing for a call on another lane, and no session sees that.
bool TrafficSimulation::Unordered(const Made& made, const Attempt& attempt) {
  return made.lane != attempt.lane && made.scope && made.scope_stream != attempt.stream;
}

CallInput TrafficSimulation::ChooseInput(Attempt& attempt) {
  const TrafficOperation& operation = attempt.operation;
  const TrafficProgram& spec = attempt.spec;
  Made* made = FindMade(operation.source);
  const auto index = static_cast<size_t>(operation.output);
  if (made == nullptr || index >= made->outputs.size() ||
      !Matches(made->outputs[index], attempt, 0) || Unordered(*made, attempt)) {
    return FreshInput(attempt, 0, std::clamp<int64_t>(operation.extent, 0, kExtentMax));
  }
  const int64_t whole = made->outputs[index].n;
  const int64_t skip = std::clamp<int64_t>(operation.skip, 0, whole);
  const int64_t n = std::clamp<int64_t>(whole - skip - operation.shorter, 0, kExtentMax);
  CallInput input = ViewOf(attempt, *made, index, skip, n);
  attempt.n = n;
  if (input.buffer != nullptr) return input;
  if (operation.unnamed != 0 && made->sure && made->keeps(index)) input.tensor.made_by = 0;
  if (operation.scoped != 0 && made->keeps(index) && !spec.mutates_input) {
    absl::StatusOr<ReadScope> opened = made->lease.Read(attempt.stream);
    if (!CheckRead(*made, opened.status())) return input;
    if (opened.ok()) {
      attempt.scope.emplace(*std::move(opened));
      attempt.verdict.may.push_back(StatusCode::kFailedPrecondition);
    }
  }
  Judge(*made, index, attempt.scope.has_value(), n, attempt);
  return input;
}

// The second input is as long as the program says; the last output of a call may be.
CallInput TrafficSimulation::ChooseOther(Attempt& attempt) {
  Made* made = FindMade(attempt.operation.other);
  const int64_t n = LengthOf(attempt.spec.other, attempt.extents());
  const size_t index = made == nullptr ? 0 : made->outputs.size() - 1;
  if (made == nullptr || !Matches(made->outputs[index], attempt, 1) || made->outputs[index].n < n ||
      Unordered(*made, attempt)) {
    return FreshInput(attempt, 1, n);
  }
  CallInput input = ViewOf(attempt, *made, index, 0, n);
  const bool scoped = attempt.scope && attempt.inputs[0].made == made;
  if (input.buffer == nullptr) Judge(*made, index, scoped, n, attempt);
  return input;
}

// Whether an input of `n` elements in a row that lies in the session's memory may be refused, or
// must be.
void TrafficSimulation::Judge(
    const Made& made, size_t output, bool scoped, int64_t n, Attempt& attempt) const {
  const bool mutates = attempt.spec.mutates_input;
  const bool here = made.lane == attempt.lane || ((scoped || made.scope) && !mutates);
  if (!here && n > 0) attempt.verdict.must.push_back(StatusCode::kFailedPrecondition);
  // What a program writes to an output of no path is lost.
  const bool astray = mutates && made.window && !made.in_path;
  if (!made.keeps(output) || !made.sure || !here || astray)
    attempt.verdict.may.push_back(StatusCode::kFailedPrecondition);
}

bool TrafficSimulation::AnyScope(int lane) const {
  return std::ranges::any_of(made_, [lane](const auto& entry) {
    return entry.second.lane == lane && entry.second.scope.has_value();
  });
}

// What limits of the session allow, whatever the inputs are.
void TrafficSimulation::AddLimits(Attempt& attempt) const {
  const TrafficProgram& spec = attempt.spec;
  Verdict& verdict = attempt.verdict;
  if (Absent(attempt.lane)) verdict.must.push_back(StatusCode::kFailedPrecondition);
  if (options_.budget_kib > 0 && options_.on_budget == static_cast<int64_t>(OnLimit::kError))
    verdict.may.push_back(StatusCode::kResourceExhausted);
  if (attempt.n > kLargestExtent && spec.over_maximum == OverMaximum::kError)
    verdict.must.push_back(StatusCode::kOutOfRange);
  if (stance_ == Stance::kStrict || AnyScope(attempt.lane))
    verdict.may.push_back(StatusCode::kFailedPrecondition);
  const bool limited = options_.graphs_max < 1024 || options_.rerecords_max < 128;
  if (limited && options_.on_limit == static_cast<int64_t>(OnLimit::kError))
    verdict.may.push_back(StatusCode::kResourceExhausted);
  if (static_cast<OutputMode>(attempt.operation.mode) != OutputMode::kCopyOut) return;
  const bool ring_used = std::ranges::any_of(made_, [&](const auto& entry) {
    const Made& made = entry.second;
    return made.lane == attempt.lane && made.held && made.mode == OutputMode::kCopyOut;
  });
  int64_t bytes = 0;
  for (int i = 0; i < spec.outputs; ++i) {
    const int64_t n = LengthOf(spec, i, attempt.extents());
    const int64_t elements = spec.fixed_output(i) ? n : spec.Span(n);
    const int64_t output_bytes = elements * SizeOf(spec.DTypeOfOutput(i));
    bytes += AlignUp(std::max<int64_t>(output_bytes, 1), kBufferAlignment);
  }
  if (ring_used || bytes > options_.copy_out_bytes)
    verdict.may.push_back(StatusCode::kResourceExhausted);
}

// The model's answer.
void TrafficSimulation::Compute(Attempt& attempt) const {
  ModelCall model{
      .scalar = attempt.operation.scalar, .m = attempt.m, .seed = seed_, .offset = offset_};
  for (size_t i = 0; i < attempt.inputs.size(); ++i) {
    attempt.after[i] = attempt.inputs[i].values;
    model.inputs[i] = &attempt.after[i];
  }
  // Behind the count, the program sees its fill, and nothing is written back.
  const Bytes before = attempt.after[0];
  const int64_t bytes = SizeOf(attempt.spec.DTypeOfInput(0));
  if (attempt.counted()) {
    const TrafficElements elements{attempt.after[0].data(), bytes};
    const uint64_t fill = FilledWith(attempt.spec.fill, attempt.spec.DTypeOfInput(0));
    for (int64_t i = 0; i < attempt.n * attempt.spec.rows; ++i)
      if (i % attempt.n >= attempt.known) elements.Set(i, fill);
  }
  if (attempt.set != nullptr) {
    attempt.bound = attempt.set->input->values;
    model.bound = &attempt.bound;
  }
  attempt.outputs = RunModel(attempt.spec, model);
  const ptrdiff_t written = attempt.known * bytes;
  if (attempt.counted() && attempt.spec.mutates_input)
    std::copy(before.begin() + written, before.end(), attempt.after[0].begin() + written);
}

void TrafficSimulation::CheckRefusal(const absl::Status& status, const Attempt& attempt) {
  ++report_.calls_refused;
  for (const auto* codes : {&attempt.verdict.must, &attempt.verdict.may}) {
    if (std::ranges::find(*codes, status.code()) != codes->end()) return;
  }
  if (status.code() == StatusCode::kResourceExhausted && options_.budget_kib > 0) {
    const MemoryUsage usage = memory_.books();
    // What the stream of a capture may still use cannot be waited for.
    const bool full = usage.total - usage.of(MemoryKind::kSpare) + kGraphBytesMax > usage.budget;
    const bool include = attempt.operation.kind == TrafficOperation::Kind::kInclude;
    const auto windows = stance_ == Stance::kStrict ? kReplayWindows : kEagerWindows;
    ++report_.budget_refused;
    if (include ? full : MayLack(attempt.lane, windows, kGraphBytesMax)) return;
  }
  Fail("refused", status.ToString());
}

void TrafficSimulation::CheckPath(RunKind path) {
  bool right = true;
  if (stance_ == Stance::kEager) right = path == RunKind::kEager;
  if (stance_ == Stance::kStrict) right = path == RunKind::kReplay;
  if (stance_ == Stance::kReplayOnly) right = path == RunKind::kReplay || path == RunKind::kEager;
  if (!right) Fail("path", fmt::format("the stance forbids '{}'", NameOf(path)));
}

void TrafficSimulation::CheckExplanation(const Explanation& explanation,
                                         const absl::StatusOr<Lease>& lease,
                                         bool scopes) {
  const bool replays = explanation.kind == RunKind::kReplay;
  // Neither what a graph to come will write over is known before, nor what it takes of a budget, or
  // a program without a graph, nor what cannot go because the lane has not seen it complete.
  const bool unknown = options_.budget_kib > 0 && (!replays || !waited_);
  const StatusCode code = lease.status().code();
  bool right = code == explanation.status.code();
  if (lease.ok()) {
    const bool evicts = options_.on_limit == static_cast<int64_t>(OnLimit::kEvict);
    right = (right && lease->kind() == explanation.kind && lease->reason() == explanation.reason) ||
            (lease->reason() == Reason::kByteLimit && unknown) ||
            (lease->reason() == Reason::kGraphLimit && evicts);
  } else if (!right) {
    right =
        (code == StatusCode::kResourceExhausted && unknown) ||
        (code == StatusCode::kFailedPrecondition && scopes && explanation.kind == RunKind::kRecord);
  }
  if (right) return;
  Fail("explained", fmt::format("as '{}', but the call gave '{}'", explanation.text,
                                lease.ok() ? fmt::format("{}: {}", NameOf(lease->kind()),
                                                         NameOf(lease->reason()))
                                           : lease.status().ToString()));
}

// A graph ran on the lane: which borrowed outputs are still sure to be there?
void TrafficSimulation::NoteGraph(RunKind path, int lane, bool child) {
  if (path != RunKind::kReplay && path != RunKind::kRecord) return;
  for (auto& [id, made] : made_) {
    if (made.lane != lane || !made.window) continue;
    if (!child) made.in_path = false;
    if (!made.in_path && !made.scope) made.sure = false;
  }
}

// The program wrote to its input: to the caller's buffer, or to outputs, whoever shows them.
void TrafficSimulation::Mutate(const CallInput& input, const Bytes& values) {
  if (input.buffer != nullptr) {
    std::ranges::copy(values, input.buffer->values.begin() + input.offset_bytes);
    return;
  }
  for (auto& [id, made] : made_) {
    for (MadeOutput& output : made.outputs) {
      if (output.shared != nullptr || output.rows != 1 || !made.held || output.gone) continue;
      for (size_t i = 0; i < values.size(); ++i) {
        const DeviceAddress address = input.tensor.data + i;
        const DeviceAddress offset = address - output.tensor.data;
        if (address < output.tensor.data || offset >= output.own.size()) continue;
        if (made.scope)
          return Fail("wrote under a scope", fmt::format("to outputs of call {}", id));
        output.own[offset] = values[i];
      }
    }
  }
}

// A call that failed on its way has happened or not, and whatever it writes says which.
void TrafficSimulation::Settle(Attempt& attempt) {
  // Waiting for all work would break a recording.
  session_->WaitForRecordings();
  host_.Synchronize();
  const auto settle = [this](CallerBuffer& buffer, const Bytes& values, int64_t offset_bytes,
                             const char* what) {
    if (!host_.Adopt(buffer, values, offset_bytes))
      Fail("half done", fmt::format("a failed call left {} neither old nor new", what));
  };
  const TrafficProgram& spec = attempt.spec;
  if (spec.statics == TrafficProgram::Static::kMutated)
    settle(*attempt.set->input, attempt.bound, 0, "the state");
  if (attempt.set != nullptr && attempt.set->output != nullptr)
    settle(*attempt.set->output, attempt.outputs[1], 0, "the static output");
  for (size_t i = 0; i < attempt.targets.size(); ++i) {
    if (!spec.static_output(static_cast<int>(i)))
      settle(*attempt.targets[i], attempt.outputs[i], 0, "a target");
  }
  if (!spec.mutates_input) return;
  const CallInput& input = attempt.inputs[0];
  if (input.buffer != nullptr)
    return settle(*input.buffer, attempt.after[0], input.offset_bytes, "a mutated input");
  for (auto& [id, made] : made_) {
    if (made.lane == input.made->lane) made.unknown = true;
  }
}

// Keeps the lease, and what its outputs must be.
void TrafficSimulation::Keep(Attempt& attempt, Lease lease) {
  const bool graph = lease.kind() == RunKind::kReplay || lease.kind() == RunKind::kRecord;
  Loose(FindMade(attempt.operation.id));
  made_.erase(attempt.operation.id);
  Made& made = made_[attempt.operation.id];
  made.mode = static_cast<OutputMode>(attempt.operation.mode);
  made.window = graph && made.mode == OutputMode::kBorrow;
  if (!graph && made.mode == OutputMode::kCopyOut) made.mode = OutputMode::kBorrow;
  made.in_path = made.window;
  made.lane = attempt.lane;
  made.counted = attempt.spec.counts;
  made.lease = std::move(lease);
  const absl::StatusOr<ReadScope> scope = made.lease.Read(attempt.stream);
  if (!scope.ok()) return Fail("lost", scope.status().ToString());
  for (int i = 0; i < attempt.spec.outputs; ++i) {
    const bool bound = attempt.spec.static_output(i);
    MadeOutput& output = made.outputs.emplace_back();
    output.tensor = scope->output(i);
    output.rows = attempt.spec.fixed_output(i) ? 1 : attempt.spec.rows;
    output.n = LengthOf(attempt.spec, i, attempt.extents());
    output.known = attempt.KnownOf(i);
    if (bound) output.shared = attempt.set->output.get();
    if (!bound && made.mode == OutputMode::kWriteInto)
      output.shared = attempt.targets[static_cast<size_t>(i)];
    output.Put(std::move(attempt.outputs[static_cast<size_t>(i)]));
    const Tensor wanted = DenseOf(attempt.spec, i, output.tensor.data, attempt.extents());
    if (output.tensor.sizes != wanted.sizes || output.tensor.dtype != wanted.dtype)
      Fail("view", fmt::format("output {} has other sizes or another dtype than the call", i));
  }
}

void TrafficSimulation::Plant(const Attempt& attempt, Bytes& output) {
  if (attempt.set == nullptr) return;
  const int64_t last = std::exchange(attempt.program.last_set, attempt.operation.statics);
  const bool chained = chains_[static_cast<size_t>(attempt.lane)].has_value();
  if (!chained || last == attempt.operation.statics) return;
  COPPICE_CHECK(planted_ != PlantedDefect::kAbort, "planted");
  if (planted_ == PlantedDefect::kChainAfterSwap && !output.empty()) output[0] ^= 1;
}

}  // namespace coppice
