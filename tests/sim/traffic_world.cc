// The world: operations, and what each must lead to.

#include "tests/sim/traffic_world.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gtest/gtest-spi.h"
#include <sys/wait.h>

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"

#include "tests/sim/traffic_state.h"

namespace coppice {

Emulator::Options EmulatorOptionsOf(const TrafficOptions& options) {
  Emulator::Options emulator;
  emulator.memory_bytes = 64 * kMiB;
  emulator.seed = static_cast<uint64_t>(options.order);
  emulator.eager_permille = static_cast<int>(options.eager_permille);
  // Nothing here looks at device memory from the host, and guarding it takes most of the time.
  emulator.strictness.host_access = false;
  return emulator;
}

SessionOptions SessionOptionsOf(const TrafficOptions& options) {
  return {.lanes = static_cast<int>(options.lanes),
          .copy_out_bytes = options.copy_out_bytes,
          .graphs_per_program_max = static_cast<int>(options.graphs_max),
          .rerecords_per_bucket_max = static_cast<int>(options.rerecords_max),
          .on_limit = static_cast<OnLimit>(options.on_limit),
          .warmup_runs = static_cast<int>(options.warmup_runs),
          .gate = options.gate != 0,
          .audit_keys = options.audit_keys != 0,
          .check_addresses = options.check_addresses != 0,
          .poison_expired = options.poison_expired != 0};
}

namespace {

using Kind = TrafficOperation::Kind;

class World : private TrafficState {
 public:
  World(const TrafficOptions& options, PlantedDefect planted) : TrafficState(options, planted) {}

  std::string Run(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      now_ = &operation;
      Do(operation);
      if (!failure_.empty()) break;
    }
    Close();
    return failure_;
  }

 private:
  void Do(const Operation& operation) {
    switch (operation.kind) {
      case Kind::kCall:
        return RunCall(operation);
      case Kind::kRead:
        return Read(operation);
      case Kind::kHold:
        return Hold(operation);
      case Kind::kLoose:
        return Loose(FindMade(operation.id));
      case Kind::kDrop:
        return Drop(operation);
      case Kind::kRelease:
        return Release(operation);
      case Kind::kChain:
        return OpenChain(LaneOf(operation));
      case Kind::kUnchain:
        return chains_[static_cast<size_t>(LaneOf(operation))].reset();
      case Kind::kSync:
        return Synchronize();
      case Kind::kBind:
        (void)BindingOf(ProgramOf(operation), operation.statics, /*again=*/true);
        return;
      case Kind::kUnbind:
        return Unbind(operation);
      case Kind::kEvict:
        return Expect(
            "evict",
            session_->Evict(operation.everything != 0 ? nullptr : ProgramOf(operation).registered)
                .status());
      case Kind::kWarm:
        return Warm(operation);
      case Kind::kTrim:
        return Expect("trim", session_->Trim());
      case Kind::kStance:
        stance_ = static_cast<Stance>(operation.value);
        return session_->SetStance(stance_);
      case Kind::kSeed:
        return SetSeed(static_cast<uint64_t>(operation.value));
      case Kind::kFault:
        return Inject(operation);
    }
  }

  // --- Calls.

  void RunCall(const Operation& operation) {
    Registered& program = ProgramOf(operation);
    const TrafficProgram& spec = *program.spec;
    const int lane = LaneOf(operation);
    const CuStream stream = host_.stream(operation.stream);
    std::optional<ReadScope> scope;
    Verdict verdict;

    CallInput first = ChooseInput(operation, spec, lane, scope, verdict);
    std::vector<CallInput> inputs;
    const int64_t n = first.extent();
    const Made* scoped = scope ? first.made : nullptr;
    inputs.push_back(std::move(first));
    if (spec.inputs > 1) inputs.push_back(ChooseOther(operation, lane, n, scoped, verdict));
    if (!failure_.empty()) return;
    std::vector<Tensor> tensors;
    for (CallInput& input : inputs) {
      if (input.buffer != nullptr) host_.Order(*input.buffer, stream);
      tensors.push_back(input.tensor);
    }

    const Binding* binding = nullptr;
    StaticSet* set = nullptr;
    if (spec.binds()) {
      binding = BindingOf(program, operation.statics, /*again=*/false);
      if (binding == nullptr) return;  // A fault, or a failure that is noted.
      set = &program.sets[static_cast<size_t>(operation.statics % kTrafficStatics)];
      if (!set->bound) verdict.must.push_back(StatusCode::kFailedPrecondition);
      if (spec.statics != TrafficProgram::Static::kRead) {
        host_.Order(*set->input, stream);
        if (set->output != nullptr) host_.Order(*set->output, stream);
      }
    }

    auto mode = static_cast<OutputMode>(operation.mode);
    std::vector<Buffer*> targets;
    std::vector<Tensor> target_tensors;
    for (int i = 0; mode == OutputMode::kWriteInto && i < spec.outputs; ++i) {
      Buffer& target = host_.target(2 * operation.target + i);
      targets.push_back(&target);
      host_.Order(target, stream);
      target_tensors.push_back(DenseOf(spec, i, target.address(), n));
      if (&target == inputs[0].buffer && spec.mutates_input) return;  // What would win?
    }

    // The model's answer.
    std::array<Words, 2> values;
    ModelCall model{.scalar = operation.scalar, .seed = seed_, .offset = offset_};
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[i] = inputs[i].values;
      model.inputs[i] = &values[i];
    }
    Words bound;
    if (set != nullptr) {
      bound = set->input->values;
      model.bound = &bound;
    }
    std::vector<Words> outputs = RunModel(spec, model);

    AddLimits(operation, spec, lane, n, verdict);
    const int64_t scalars[] = {operation.scalar};
    const Call call{
        .program = program.registered,
        .binding = binding,
        .inputs = tensors,
        .scalars = std::span(scalars).first(spec.scalar == TrafficProgram::Scalar::kNone ? 0 : 1),
        .stream = stream,
        .lane = lane,
        .poison = static_cast<Poison>(operation.padding),
        .output_mode = mode,
        .targets = target_tensors};
    std::optional<Explanation> explanation;
    if (operation.explain != 0) explanation = session_->Explain(call);
    const SessionStats before = session_->stats();
    absl::StatusOr<Lease> lease = session_->Run(call);
    const bool fault = TookFault();
    const SessionStats after = session_->stats();
    // Explain changes nothing, so it demotes no static input; and a gate chooses as it goes.
    const bool same = !fault && options_.gate == 0 && after.inputs_demoted == before.inputs_demoted;
    if (explanation && same)
      CheckExplanation(*explanation, lease, scope.has_value() || AnyScope(lane));

    Outcome outcome{.outputs = std::move(outputs), .inputs = &values, .bound = &bound};
    if (!lease.ok()) {
      scope.reset();
      if (fault) {
        Settle(spec, inputs, set, targets, lane, outcome);
      } else {
        CheckRefusal(lease.status(), verdict);
      }
      if (spec.random) SetSeed(seed_ + 1);
      return;
    }
    if (!verdict.must.empty()) return Fail("ran", "a call that had to be refused returned a lease");
    CheckPath(lease->path());
    const bool child = chains_[static_cast<size_t>(lane)].has_value() ||
                       after.inputs_in_place > before.inputs_in_place;
    NoteGraph(lease->path(), lane, child);
    if (spec.random) offset_ += kRandomNumbersPerCall;
    if (set != nullptr) set->input->values = bound;
    if (spec.mutates_input) Mutate(inputs[0], values[0]);
    const bool swapped =
        set != nullptr && std::exchange(program.last_set, operation.statics) != operation.statics;
    if (swapped && chains_[static_cast<size_t>(lane)].has_value()) Plant(outcome.outputs[0]);
    Keep(operation, spec, lane, *std::move(lease), targets, set, n, std::move(outcome.outputs));
  }

  // What a call would leave behind.
  struct Outcome {
    std::vector<Words> outputs;
    const std::array<Words, 2>* inputs = nullptr;
    const Words* bound = nullptr;
  };

  void Plant(Words& output) const {
    if (planted_ == PlantedDefect::kAbort) std::abort();
    if (planted_ == PlantedDefect::kChainAfterSwap && !output.empty()) output[0] ^= 1;
  }

  CallInput FreshInput(const Operation& operation, const TrafficProgram& spec, int64_t n) {
    Buffer& buffer =
        spec.mutates_input ? host_.mutable_input(operation.data) : host_.input(operation.data);
    CallInput input{.tensor = DenseTensorOf(spec, buffer.address(), n)};
    input.values = {buffer.values.begin(), buffer.values.begin() + spec.rows * n};
    if (spec.mutates_input) input.buffer = &buffer;
    return input;
  }

  CallInput ChooseInput(const Operation& operation,
                        const TrafficProgram& spec,
                        int lane,
                        std::optional<ReadScope>& scope,
                        Verdict& verdict) {
    Made* made = FindMade(operation.source);
    const auto index = static_cast<size_t>(operation.output);
    if (made == nullptr || index >= made->outputs.size() ||
        made->outputs[index].rows != spec.rows) {
      return FreshInput(operation, spec, std::clamp<int64_t>(operation.extent, 0, kExtentMax));
    }
    const MadeOutput& output = made->outputs[index];
    const int64_t n = std::max<int64_t>(output.n - operation.shorter, 0);
    CallInput input{.tensor = output.tensor,
                    .values = Prefix(output.values(), spec.rows, output.n, n),
                    .made = made,
                    .buffer = output.shared};
    input.tensor.dtype = spec.dtype;
    input.tensor.sizes[static_cast<size_t>(input.tensor.rank) - 1] = n;
    if (output.shared != nullptr) return input;
    if (operation.unnamed != 0 && made->sure && made->held) input.tensor.made_by = 0;
    if (operation.scoped != 0 && made->held && !spec.mutates_input) {
      absl::StatusOr<ReadScope> opened = made->lease.Read(host_.stream(operation.stream));
      if (!CheckRead(*made, opened.status())) return input;
      if (opened.ok()) {
        scope.emplace(*std::move(opened));
        verdict.may.push_back(StatusCode::kFailedPrecondition);
      }
    }
    Judge(*made, spec, lane, n, scope.has_value(), verdict);
    return input;
  }

  // The second input is as long as the first.
  CallInput ChooseOther(
      const Operation& operation, int lane, int64_t n, const Made* scoped, Verdict& verdict) {
    const TrafficProgram& spec = *ProgramOf(operation).spec;
    Made* made = FindMade(operation.other);
    if (made == nullptr || made->outputs[0].rows != spec.rows || made->outputs[0].n < n) {
      Operation next = operation;
      ++next.data;
      return FreshInput(next, spec, n);
    }
    const MadeOutput& output = made->outputs[0];
    CallInput input{.tensor = output.tensor,
                    .values = Prefix(output.values(), spec.rows, output.n, n),
                    .made = made,
                    .buffer = output.shared};
    input.tensor.dtype = spec.dtype;
    input.tensor.sizes[static_cast<size_t>(input.tensor.rank) - 1] = n;
    if (output.shared == nullptr) Judge(*made, spec, lane, n, made == scoped, verdict);
    return input;
  }

  // Whether an input that lies in the session's memory may be refused, or must be.
  void Judge(const Made& made,
             const TrafficProgram& spec,
             int lane,
             int64_t n,
             bool scoped,
             Verdict& verdict) {
    const bool readable = (scoped || made.scope) && !spec.mutates_input;
    const bool here = made.lane == lane || readable;
    if (!here && n > 0) verdict.must.push_back(StatusCode::kFailedPrecondition);
    // What a program writes to an output of no path is lost.
    const bool astray = spec.mutates_input && made.window && !made.in_path;
    if (!made.held || !made.sure || !here || astray)
      verdict.may.push_back(StatusCode::kFailedPrecondition);
  }

  // What limits of the session allow, whatever the inputs are.
  void AddLimits(const Operation& operation,
                 const TrafficProgram& spec,
                 int lane,
                 int64_t n,
                 Verdict& verdict) const {
    if (n > kLargestExtent && spec.over_maximum == OverMaximum::kError)
      verdict.must.push_back(StatusCode::kOutOfRange);
    if (stance_ == Stance::kStrict) verdict.may.push_back(StatusCode::kFailedPrecondition);
    if (AnyScope(lane)) verdict.may.push_back(StatusCode::kFailedPrecondition);
    const bool ring_used = std::ranges::any_of(made_, [lane](const auto& entry) {
      const Made& made = entry.second;
      return made.lane == lane && made.held && made.mode == OutputMode::kCopyOut;
    });
    const bool limited = options_.graphs_max < 1024 || options_.rerecords_max < 128;
    if (limited && options_.on_limit == static_cast<int64_t>(OnLimit::kError))
      verdict.may.push_back(StatusCode::kResourceExhausted);
    if (operation.mode != static_cast<int64_t>(OutputMode::kCopyOut)) return;
    int64_t bytes = 0;
    for (int i = 0; i < spec.outputs; ++i) {
      bytes += AlignUp(std::max<int64_t>(DenseOf(spec, i, 1, n).element_count() * 4, 1),
                       kBufferAlignment);
    }
    if (ring_used || bytes > options_.copy_out_bytes)
      verdict.may.push_back(StatusCode::kResourceExhausted);
  }

  void CheckRefusal(const absl::Status& status, const Verdict& verdict) {
    for (const auto* codes : {&verdict.must, &verdict.may}) {
      if (std::ranges::find(*codes, status.code()) != codes->end()) return;
    }
    Fail("refused", status.ToString());
  }

  void CheckPath(Path path) {
    const bool right = stance_ == Stance::kEager    ? path == Path::kEager
                       : stance_ == Stance::kStrict ? path == Path::kReplay
                       : stance_ == Stance::kReplayOnly
                           ? path == Path::kReplay || path == Path::kEager
                           : true;
    if (!right) Fail("path", fmt::format("the stance forbids '{}'", NameOf(path)));
  }

  bool AnyScope(int lane) const {
    return std::ranges::any_of(made_, [lane](const auto& entry) {
      return entry.second.lane == lane && entry.second.scope.has_value();
    });
  }

  void CheckExplanation(const Explanation& explanation,
                        const absl::StatusOr<Lease>& lease,
                        bool scopes) {
    if (!explanation.status.ok()) {
      if (lease.ok() || lease.status().code() != explanation.status.code()) {
        Fail("explained", fmt::format("as '{}', but the call gave '{}'", explanation.text,
                                      lease.status().ToString()));
      }
      return;
    }
    if (!lease.ok()) {
      // Neither a full ring nor what a graph will write over is known before.
      const bool recorded = explanation.path == Path::kRecord && scopes;
      if (lease.status().code() != StatusCode::kResourceExhausted && !recorded)
        Fail("explained", fmt::format("as '{}', but the call gave '{}'", explanation.text,
                                      lease.status().ToString()));
      return;
    }
    const bool evicts = options_.on_limit == static_cast<int64_t>(OnLimit::kEvict);
    if (!evicts && lease->path() != explanation.path) {
      Fail("explained",
           fmt::format("as '{}', but the call took '{}' because of '{}'", explanation.text,
                       NameOf(lease->path()), NameOf(lease->reason())));
    }
  }

  // A graph ran on the lane: which borrowed outputs are still sure to be there?
  void NoteGraph(Path path, int lane, bool child) {
    if (path != Path::kReplay && path != Path::kRecord) return;
    for (auto& [id, made] : made_) {
      if (made.lane != lane || !made.window) continue;
      if (!child) made.in_path = false;
      if (!made.in_path && !made.scope) made.sure = false;
    }
  }

  // The program wrote to its input: to the caller's buffer, or to outputs, whoever shows them.
  void Mutate(const CallInput& input, const Words& values) {
    if (input.buffer != nullptr) {
      std::ranges::copy(values, input.buffer->values.begin());
      return;
    }
    for (auto& [id, made] : made_) {
      for (MadeOutput& output : made.outputs) {
        if (output.shared != nullptr || output.rows != 1 || !made.held) continue;
        for (size_t i = 0; i < values.size(); ++i) {
          const DeviceAddress address = input.tensor.data + i * sizeof(uint32_t);
          const DeviceAddress offset = (address - output.tensor.data) / sizeof(uint32_t);
          if (address < output.tensor.data || offset >= output.own.size()) continue;
          if (made.scope)
            return Fail("wrote under a scope", fmt::format("to outputs of call {}", id));
          output.own[offset] = values[i];
        }
      }
    }
  }

  // After a fault a call has happened or not, and whatever it writes says which.
  void Settle(const TrafficProgram& spec,
              const std::vector<CallInput>& inputs,
              StaticSet* set,
              const std::vector<Buffer*>& targets,
              int lane,
              const Outcome& outcome) {
    NoteGraph(Path::kReplay, lane, /*child=*/false);
    host_.Synchronize();
    const auto settle = [this](Buffer& buffer, const Words& values, const char* what) {
      if (!host_.Adopt(buffer, values))
        Fail("half done", fmt::format("a failed call left {} neither old nor new", what));
    };
    if (spec.statics == TrafficProgram::Static::kMutated)
      settle(*set->input, *outcome.bound, "the state");
    if (set != nullptr && set->output != nullptr)
      settle(*set->output, outcome.outputs[1], "the static output");
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!spec.static_output(static_cast<int>(i)))
        settle(*targets[i], outcome.outputs[i], "a target");
    }
    if (!spec.mutates_input) return;
    if (inputs[0].buffer != nullptr)
      return settle(*inputs[0].buffer, (*outcome.inputs)[0], "a mutated input");
    for (auto& [id, made] : made_) {
      if (made.lane == inputs[0].made->lane) made.unknown = true;
    }
  }

  // --- Bindings, and what a session does ahead of calls.

  // The binding of a set; null after a fault or a failure. Binds it if it never was, or `again`.
  const Binding* BindingOf(Registered& program, int64_t index, bool again) {
    if (!program.spec->binds()) return nullptr;
    StaticSet& set = program.sets[static_cast<size_t>(index) % program.sets.size()];
    if (set.binding != nullptr && !again) return set.binding;
    const std::vector<Tensor> tensors = set.Tensors(*program.spec);
    const absl::StatusOr<const Binding*> binding = session_->Bind(*program.registered, tensors);
    if (TookFault() && !binding.ok()) return nullptr;
    if (!binding.ok()) {
      Fail("bind failed", binding.status().ToString());
      return nullptr;
    }
    if (set.binding != nullptr && set.binding != *binding)
      Fail("bind", "equal addresses gave another binding");
    set.binding = *binding;
    set.bound = true;
    return *binding;
  }

  void Unbind(const Operation& operation) {
    Registered& program = ProgramOf(operation);
    if (!program.spec->binds()) return;
    StaticSet& set = program.sets[static_cast<size_t>(operation.statics % kTrafficStatics)];
    if (set.binding == nullptr) return;
    set.bound = false;
    Expect("unbind", session_->Unbind(*set.binding));
  }

  void Warm(const Operation& operation) {
    Registered& program = ProgramOf(operation);
    const std::optional<int64_t> bucket = program.policy.Find(operation.extent);
    if (!bucket) return;
    const Binding* binding = BindingOf(program, operation.statics, /*again=*/false);
    const Binding* scratch = BindingOf(program, kTrafficStatics, /*again=*/false);
    if (program.spec->binds() && (binding == nullptr || scratch == nullptr)) return;
    const bool bound = !program.spec->binds() ||
                       program.sets[static_cast<size_t>(operation.statics % kTrafficStatics)].bound;
    const std::vector<int64_t> buckets[] = {{*bucket}};
    const int64_t scalars[] = {operation.scalar};
    const absl::Status status = session_->Warm(
        *program.registered, binding, buckets,
        std::span(scalars).first(program.spec->scalar == TrafficProgram::Scalar::kNone ? 0 : 1),
        {.scratch = scratch, .lane = LaneOf(operation)});
    if (TookFault()) return;
    const StatusCode wanted = stance_ != Stance::kRecord ? StatusCode::kFailedPrecondition
                              : !bound                   ? StatusCode::kInvalidArgument
                                                         : StatusCode::kOk;
    if (status.code() != wanted) Fail("warm", status.ToString());
  }

  void SetSeed(uint64_t seed) {
    seed_ = seed;
    offset_ = 0;
    session_->SetSeed(seed);
  }
};

}  // namespace

std::string RunTraffic(const TrafficScript& script, PlantedDefect planted) {
  // What the device finds at its end, leaks above all, is a failure like any other.
  testing::TestPartResultArray results;
  std::string failure;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    World world(script.options, planted);
    failure = world.Run(script.operations);
  }
  for (int i = 0; i < results.size() && failure.empty(); ++i) {
    if (results.GetTestPartResult(i).failed())
      failure = fmt::format("left behind: {}", results.GetTestPartResult(i).message());
  }
  return failure;
}

std::string RunTrafficApart(const TrafficScript& script, PlantedDefect planted) {
  std::array<int, 2> ends{};
  std::fflush(nullptr);
  COPPICE_CHECK(pipe(ends.data()) == 0, "no pipe");
  const pid_t child = fork();
  COPPICE_CHECK(child >= 0, "no process");
  if (child == 0) {
    // Whatever ends the process says why on its error output.
    COPPICE_CHECK(dup2(ends[1], STDERR_FILENO) >= 0, "no error output");
    close(ends[0]);
    const std::string failure = RunTraffic(script, planted);
    std::fputs(failure.c_str(), stderr);
    std::exit(failure.empty() ? 0 : 1);  // NOLINT(concurrency-mt-unsafe)
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(bytes));
  close(ends[0]);
  int status = 0;
  COPPICE_CHECK(waitpid(child, &status, 0) == child, "the process is gone");
  if (WIFSIGNALED(status)) return fmt::format("signal {}: {}", WTERMSIG(status), text);
  if (WEXITSTATUS(status) == 0) return "";
  return text.empty() ? fmt::format("exit {}:", WEXITSTATUS(status)) : text;
}

}  // namespace coppice
