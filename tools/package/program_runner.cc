// Uploads, runs, downloads.

#include "tools/package/program_runner.h"

#include <utility>

#include "coppice/base/status.h"

namespace coppice {

std::vector<int64_t> FixedStrides(const package::Buffer& buffer) {
  std::vector<int64_t> strides;
  for (const package::Amount& amount : buffer.strides)
    strides.push_back(amount.value);
  return strides;
}

absl::StatusOr<std::unique_ptr<ProgramRunner>> ProgramRunner::Create(
    const PackageDevice& device,
    const RunnerOptions& options,
    const std::vector<HostArray>& statics) {
  const package::LoadedPackage& loaded =
      options.loaded == nullptr ? device.loaded() : *options.loaded;
  const package::Program& program =
      loaded.manifest().programs[static_cast<size_t>(options.program)];
  std::unique_ptr<ProgramRunner> runner(new ProgramRunner(device, program));
  SessionOptions session;
  session.stance = options.stance;
  session.variant_timing = options.variant_timing;
  session.checks.addresses = options.check_addresses;
  session.recorder = options.recorder;
  COPPICE_ASSIGN_OR_RETURN(runner->session_, Session::Create(device.context(), session));
  PackageProgramOptions registered;
  registered.policies = options.policies;
  registered.claims = options.claims;
  registered.exact = options.exact;
  registered.constants = device.constants();
  COPPICE_ASSIGN_OR_RETURN(runner->registered_,
                           runner->session_->Register(loaded, program.name, std::move(registered)));
  COPPICE_RETURN_IF_ERROR(runner->BindStatics(statics));
  runner->first_numbers_ = runner->session_->generator().GetState();
  return runner;
}

absl::Status ProgramRunner::BindStatics(const std::vector<HostArray>& statics) {
  std::vector<Tensor> tensors;
  size_t next = 0;
  for (const int index : program_.inputs) {
    const package::Buffer& buffer = program_.buffers[static_cast<size_t>(index)];
    if (!buffer.is_static) continue;
    COPPICE_ASSIGN_OR_RETURN(PackageDevice::Placed placed,
                             device_.Place(statics[next++], FixedStrides(buffer)));
    tensors.push_back(placed.tensor);
    statics_.push_back(std::move(placed));
  }
  if (tensors.empty()) return absl::OkStatus();
  COPPICE_ASSIGN_OR_RETURN(binding_, session_->Bind(*registered_, tensors));
  return absl::OkStatus();
}

absl::StatusOr<ProgramRunner::PlacedSet> ProgramRunner::PlaceSet(const CallSet& set) const {
  PlacedSet placed;
  for (const HostArray& array : set.inputs) {
    COPPICE_ASSIGN_OR_RETURN(PackageDevice::Placed one, device_.Place(array, {}));
    placed.inputs.push_back(one.tensor);
    placed.memory.push_back(std::move(one));
  }
  return placed;
}

Call ProgramRunner::CallOf(const PlacedSet& placed, const CallSet& set, Poison poison) const {
  return {.program = registered_,
          .binding = binding_,
          .inputs = placed.inputs,
          .scalars = set.scalars,
          .stream = device_.stream(),
          .poison = poison};
}

absl::StatusOr<RunOutcome> ProgramRunner::Run(const CallSet& set,
                                              Poison poison,
                                              const CallWatch& watch) {
  COPPICE_ASSIGN_OR_RETURN(const PlacedSet placed, PlaceSet(set));
  if (watch.placed) watch.placed(placed.inputs);
  const Call call = CallOf(placed, set, poison);
  RunOutcome outcome;
  {
    COPPICE_ASSIGN_OR_RETURN(const Lease lease, session_->Run(call));
    outcome.kind = lease.kind();
    outcome.reason = lease.reason();
    if (watch.ran) {
      COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(device_.stream()));
      COPPICE_RETURN_IF_ERROR(
          device_.driver().Call<&DriverTable::StreamSynchronize>(device_.stream()));
      std::vector<Tensor> outputs;
      for (int i = 0; i < lease.output_count(); ++i)
        outputs.push_back(scope.output(i));
      watch.ran(outputs);
    }
    COPPICE_RETURN_IF_ERROR(ReadOutcome(device_, program_, lease, placed.inputs, outcome));
  }
  const Explanation next = session_->Explain(call);
  if (next.node) outcome.bucket = next.node->bucket;
  return outcome;
}

absl::Status ProgramRunner::TimeCalls(const std::vector<CallSet>& sets, const Timer& time) {
  for (const CallSet& set : sets) {
    COPPICE_ASSIGN_OR_RETURN(const PlacedSet placed, PlaceSet(set));
    const Call call = CallOf(placed, set, Poison::kOff);
    Lease lease;
    COPPICE_RETURN_IF_ERROR(time([&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(lease, session_->Run(call));
      return absl::OkStatus();
    }));
    RunOutcome outcome;  // Waits for the call.
    COPPICE_RETURN_IF_ERROR(ReadOutcome(device_, program_, lease, placed.inputs, outcome));
  }
  return absl::OkStatus();
}

absl::Status ProgramRunner::TimeRounds(const std::vector<CallSet>& sets,
                                       int64_t rounds,
                                       const Timer& time) {
  std::vector<PlacedSet> placed;
  for (const CallSet& set : sets) {
    COPPICE_ASSIGN_OR_RETURN(placed.emplace_back(), PlaceSet(set));
  }
  std::vector<Call> calls;
  for (size_t i = 0; i < sets.size(); ++i)
    calls.push_back(CallOf(placed[i], sets[i], Poison::kOff));
  return time([&]() -> absl::Status {
    for (int64_t round = 0; round < rounds; ++round) {
      for (const Call& call : calls)
        COPPICE_RETURN_IF_ERROR(session_->Run(call).status());
    }
    return absl::OkStatus();
  });
}

absl::Status ProgramRunner::Plan(std::span<const std::vector<int64_t>> buckets,
                                 std::span<const int64_t> scalars) const {
  return session_->warming().Plan(*registered_, buckets, scalars).status();
}

absl::Status ProgramRunner::Record(const std::vector<int64_t>& bucket,
                                   std::span<const int64_t> scalars) {
  return session_->warming().Warm(*registered_, binding_, std::span(&bucket, 1), scalars, {});
}

absl::Status ReadOutcome(const PackageDevice& device,
                         const package::Program& program,
                         const Lease& lease,
                         const std::vector<Tensor>& inputs,
                         RunOutcome& outcome) {
  COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(device.stream()));
  for (int i = 0; i < lease.output_count(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(outcome.outputs.emplace_back(), device.Read(scope.output(i)));
  }
  size_t next = 0;
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    if (buffer.is_static) continue;
    const Tensor& tensor = inputs[next++];
    if (!buffer.mutated) continue;
    COPPICE_ASSIGN_OR_RETURN(outcome.mutated.emplace_back(), device.Read(tensor));
  }
  return absl::OkStatus();
}

absl::Status ProgramRunner::Rewind(const std::vector<HostArray>& statics) {
  COPPICE_RETURN_IF_ERROR(session_->generator().SetState(first_numbers_));
  for (size_t i = 0; i < statics_.size(); ++i)
    COPPICE_RETURN_IF_ERROR(
        device_.Write(statics_[i].tensor.data, Spread(statics[i], statics_[i].tensor)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<HostArray>> ProgramRunner::ReadStatics() const {
  std::vector<HostArray> arrays;
  for (const PackageDevice::Placed& placed : statics_) {
    COPPICE_ASSIGN_OR_RETURN(arrays.emplace_back(), device_.Read(placed.tensor));
  }
  return arrays;
}

std::vector<std::string> InputNames(const package::Program& program, bool static_ones) {
  std::vector<std::string> names;
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    if (buffer.is_static == static_ones) names.push_back(buffer.name);
  }
  return names;
}

std::vector<std::string> MutatedNames(const package::Program& program) {
  std::vector<std::string> names;
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    if (!buffer.is_static && buffer.mutated) names.push_back(buffer.name);
  }
  return names;
}

}  // namespace coppice
