// One session, and its leases for as long as later calls read them.

#include "tools/replay/case_player.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/float_format.h"
#include "coppice/base/status.h"
#include "coppice/graphs/session.h"

#include "tools/package/compare_runs.h"
#include "tools/package/package_device.h"

namespace coppice {
namespace {

void AddNote(std::string text, std::vector<std::string>& notes) {
  if (std::ranges::find(notes, text) == notes.end()) notes.push_back(std::move(text));
}

absl::StatusOr<HostArray> StaticOf(const Case& value,
                                   int binding,
                                   size_t input,
                                   const package::Buffer& buffer,
                                   std::vector<std::string>& notes) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, SizesAt(buffer.shape, {}, buffer.name));
  std::string tensor = value.bindings[static_cast<size_t>(binding)].statics[input].tensor;
  // As the first call found it.
  for (const CaseCall& call : value.calls) {
    if (call.binding != binding || call.statics.empty()) continue;
    if (!call.statics[input].tensor.empty()) tensor = call.statics[input].tensor;
    break;
  }
  if (tensor.empty()) {
    const bool is_float = FloatFormat::Of(buffer.dtype).has_value();
    AddNote(fmt::format(
                "static input '{}' is filled with {}, because the case does not have its values",
                buffer.name, is_float ? "noise" : "zeros"),
            notes);
    return is_float ? DrawArray(buffer.dtype, dims, {.seed = input + 1})
                    : ZeroArray(buffer.dtype, dims);
  }
  HostArray array = ArrayOf(value.tensors.at(tensor));
  if (array.dtype == buffer.dtype && array.dims == dims) return array;
  return InvalidArgument("static input '{}' is {} in the case, but {} in the package", buffer.name,
                         ShapeText(array.dtype, array.dims), ShapeText(buffer.dtype, dims));
}

// Everything of one play.
class Player {
 public:
  Player(const Case& value, const PlaySource& source, const Way& way)
      : case_(value), source_(source), way_(way) {}

  absl::StatusOr<Played> Run();

 private:
  absl::Status Open();
  absl::Status Register(int index);
  absl::Status Bind(const CaseBinding& binding, size_t index);
  absl::StatusOr<std::map<std::string, PaddingPolicy>> PoliciesOf(
      int index, const package::Program& program) const;
  absl::Status WriteStatics(const CaseCall& call);
  // The inputs of a call; false: one of them is not there.
  absl::StatusOr<bool> PlaceInputs(const CaseCall& call);
  absl::StatusOr<bool> PlaceInput(const CaseCall& call, size_t index);
  absl::Status RunCall(size_t index);
  // Lets go of leases that no call from there on reads.
  void DropLeases(size_t next);
  void FindTrouble(size_t index);
  Hit HitBy(const KernelFinding& finding) const;
  void Note(std::string text) { AddNote(std::move(text), played_.notes); }

  const CaseProgram& program_of(const CaseCall& call) const {
    return case_.programs[static_cast<size_t>(call.program)];
  }

  const Case& case_;
  const PlaySource& source_;
  const Way& way_;
  Played played_;
  std::unique_ptr<PackageDevice> device_;
  std::vector<std::vector<PackageDevice::Placed>> statics_;  // Per binding.
  std::vector<PackageDevice::Placed> placed_;                // Inputs of the call under way.
  std::vector<Tensor> inputs_;
  std::unique_ptr<Session> session_;
  std::map<int, const Program*> programs_;  // Per program of the case; a callable has none.
  std::map<int, const package::Program*> described_;
  std::vector<const Binding*> bindings_;
  std::map<uint64_t, Lease> leases_;  // By the number of a call in the case.
};

absl::Status Player::Open() {
  COPPICE_ASSIGN_OR_RETURN(package::Package package,
                           PackageDevice::OpenPackage(source_.package, {}));
  PackageDeviceOptions options;
  options.choice = DeviceChoice::kHost;
  options.emulator.seed = way_.seed;
  options.emulator.strictness.uninitialized_read = way_.uninitialized;
  COPPICE_ASSIGN_OR_RETURN(device_, PackageDevice::Create(options));
  COPPICE_RETURN_IF_ERROR(device_->Load(std::move(package)));
  SessionOptions session;
  session.stance = way_.padded ? Stance::kRecord : Stance::kEager;
  session.variant_timing = VariantTiming::kNever;
  session.checks.addresses = true;
  COPPICE_ASSIGN_OR_RETURN(session_, Session::Create(device_->context(), session));
  for (const CaseCall& call : case_.calls)
    if (!program_of(call).package_program.empty() && !programs_.contains(call.program))
      COPPICE_RETURN_IF_ERROR(Register(call.program));
  bindings_.resize(case_.bindings.size());
  statics_.resize(case_.bindings.size());
  for (size_t i = 0; i < case_.bindings.size(); ++i)
    if (programs_.contains(case_.bindings[i].program))
      COPPICE_RETURN_IF_ERROR(Bind(case_.bindings[i], i));
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, PaddingPolicy>> Player::PoliciesOf(
    int index, const package::Program& program) const {
  std::map<std::string, PaddingPolicy> policies;
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    std::set<int64_t> buckets;
    for (const CaseCall& call : case_.calls)
      if (call.program == index) buckets.insert(std::max<int64_t>(call.bucket[i], 1));
    const std::vector<int64_t> list(buckets.begin(), buckets.end());
    const int64_t most = std::clamp<int64_t>(program.symbols[i].max, 1, PaddingPolicy::kExtentMax);
    const bool is_padded = case_.programs[static_cast<size_t>(index)].symbols[i].claim.has_value();
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, is_padded
                                                       ? PaddingPolicy::List(list, list.back())
                                                       : PaddingPolicy::Exact(most));
    policies.emplace(program.symbols[i].name, std::move(policy));
  }
  return policies;
}

absl::Status Player::Register(int index) {
  const CaseProgram& recorded = case_.programs[static_cast<size_t>(index)];
  COPPICE_ASSIGN_OR_RETURN(const int in_package, ProgramIn(device_->manifest(), recorded));
  const package::Program& program = device_->manifest().programs[static_cast<size_t>(in_package)];
  if (program.symbols.size() != recorded.symbols.size() ||
      program.scalars.size() != recorded.scalars.size() ||
      InputNames(program, /*static_ones=*/false) != recorded.inputs ||
      InputNames(program, /*static_ones=*/true) != recorded.statics)
    return InvalidArgument(
        "program '{}' of {} does not have the sizes and inputs of the case; give the package that "
        "the case was recorded with",
        recorded.package_program, source_.package);
  COPPICE_RETURN_IF_ERROR(device_->TakeConstants(in_package, source_.constants));
  PackageProgramOptions options;
  options.name = recorded.name;
  options.variant = recorded.variant;
  options.claims = ClaimsOf(case_, index);
  options.constants = device_->constants();
  COPPICE_ASSIGN_OR_RETURN(options.policies, PoliciesOf(index, program));
  COPPICE_ASSIGN_OR_RETURN(
      programs_[index],
      session_->Register(device_->loaded(), recorded.package_program, std::move(options)));
  described_[index] = &program;
  return absl::OkStatus();
}

absl::Status Player::Bind(const CaseBinding& binding, size_t index) {
  const package::Program& program = *described_.at(binding.program);
  COPPICE_ASSIGN_OR_RETURN(const std::vector<HostArray> arrays,
                           StaticsOf(case_, static_cast<int>(index), program, played_.notes));
  std::vector<Tensor> tensors;
  size_t next = 0;
  for (const int buffer_index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(buffer_index)];
    if (!buffer.is_static) continue;
    COPPICE_ASSIGN_OR_RETURN(PackageDevice::Placed placed,
                             device_->Place(arrays[next++], FixedStrides(buffer)));
    tensors.push_back(placed.tensor);
    statics_[index].push_back(std::move(placed));
  }
  if (tensors.empty()) return absl::OkStatus();
  COPPICE_ASSIGN_OR_RETURN(bindings_[index],
                           session_->Bind(*programs_.at(binding.program), tensors));
  return absl::OkStatus();
}

absl::Status Player::WriteStatics(const CaseCall& call) {
  for (size_t i = 0; i < call.statics.size(); ++i) {
    if (call.statics[i].tensor.empty()) continue;
    const Tensor& tensor = statics_[static_cast<size_t>(call.binding)][i].tensor;
    const HostArray array = ArrayOf(case_.tensors.at(call.statics[i].tensor));
    const std::vector<int64_t> dims(tensor.sizes.begin(), tensor.sizes.begin() + tensor.rank);
    if (array.dtype != tensor.dtype || array.dims != dims)
      return InvalidArgument("call {}: static input '{}' is {} in the case, but {} in the package",
                             call.number, program_of(call).statics[i],
                             ShapeText(array.dtype, array.dims), ShapeText(tensor.dtype, dims));
    COPPICE_RETURN_IF_ERROR(device_->Write(tensor.data, Spread(array, tensor)));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Player::PlaceInput(const CaseCall& call, size_t index) {
  const CaseInput& input = call.inputs[index];
  if (input.tensor.empty() && input.output < 0) {
    Note(fmt::format("call {} is left out: the case does not have its input '{}'", call.number,
                     program_of(call).inputs[index]));
    return false;
  }
  if (!input.tensor.empty()) {
    COPPICE_ASSIGN_OR_RETURN(PackageDevice::Placed placed,
                             device_->Place(ArrayOf(case_.tensors.at(input.tensor)), {}));
    inputs_.push_back(placed.tensor);
    placed_.push_back(std::move(placed));
    return true;
  }
  const auto found = leases_.find(input.call);
  if (found == leases_.end() || input.output >= found->second.output_count()) {
    Note(fmt::format("call {} is left out: it reads an output of call {}, which was not run",
                     call.number, input.call));
    return false;
  }
  COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, found->second.Read(device_->stream()));
  const Tensor& output = scope.output(input.output);
  Tensor tensor =
      Tensor::Dense(output.data + static_cast<DeviceAddress>(input.at), input.dtype, input.dims);
  std::ranges::copy(input.strides, tensor.strides.begin());
  inputs_.push_back(tensor);
  return true;
}

absl::StatusOr<bool> Player::PlaceInputs(const CaseCall& call) {
  inputs_.clear();
  placed_.clear();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(const bool there, PlaceInput(call, i));
    if (!there) return false;
  }
  return true;
}

void Player::DropLeases(size_t next) {
  std::set<uint64_t> read;
  for (size_t i = next; i < case_.calls.size(); ++i) {
    for (const CaseInput& input : case_.calls[i].inputs)
      if (input.tensor.empty() && input.output >= 0) read.insert(input.call);
    read.insert(case_.calls[i].donated.begin(), case_.calls[i].donated.end());
  }
  std::erase_if(leases_, [&](const auto& lease) { return !read.contains(lease.first); });
}

absl::Status Player::RunCall(size_t index) {
  const CaseCall& call = case_.calls[index];
  const auto program = programs_.find(call.program);
  if (program == programs_.end()) {
    Note(fmt::format("call {} is left out: '{}' is a callable, whose kernels are not in the case",
                     call.number, program_of(call).name));
    return absl::OkStatus();
  }
  COPPICE_ASSIGN_OR_RETURN(const bool there, PlaceInputs(call));
  if (!there) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(WriteStatics(call));
  if (call.random)
    COPPICE_RETURN_IF_ERROR(session_->generator().SetState(
        {.seed = call.random->first, .offset = call.random->second}));
  std::vector<int64_t> given;
  const std::vector<SymbolSpec>& symbols = Session::SpecOf(*program->second).symbols;
  for (size_t i = 0; i < symbols.size(); ++i)
    if (symbols[i].given) given.push_back(call.extents[i]);
  std::vector<Lease> donated;
  for (const uint64_t number : call.donated) {
    const auto found = leases_.find(number);
    if (found == leases_.end()) continue;
    donated.push_back(std::move(found->second));
    leases_.erase(found);
  }
  const Poison poison = way_.poison == Poison::kOff && way_.padded ? call.poison : way_.poison;
  COPPICE_ASSIGN_OR_RETURN(
      Lease lease,
      session_->Run(
          {.program = program->second,
           .binding = call.binding < 0 ? nullptr : bindings_[static_cast<size_t>(call.binding)],
           .inputs = inputs_,
           .scalars = call.scalars,
           .extents = given,
           .stream = device_->stream(),
           .poison = poison,
           .donated = donated}));
  RunOutcome outcome;
  outcome.kind = lease.kind();
  outcome.reason = lease.reason();
  outcome.bucket = call.bucket;
  COPPICE_RETURN_IF_ERROR(
      ReadOutcome(*device_, *described_.at(call.program), lease, inputs_, outcome));
  played_.outcomes[index] = std::move(outcome);
  leases_[call.number] = std::move(lease);
  return absl::OkStatus();
}

// By what this play has placed, then by windows.
Hit Player::HitBy(const KernelFinding& finding) const {
  const auto address = static_cast<DeviceAddress>(finding.address);
  if (finding.argument >= 0 && finding.offset >= 0 && finding.offset < finding.buffer_bytes)
    return {finding.buffer, finding.program};
  const auto holds = [address](const Tensor& tensor) {
    const auto bytes = static_cast<DeviceAddress>(tensor.span() * SizeOf(tensor.dtype));
    return address >= tensor.data && address - tensor.data < bytes;
  };
  for (size_t i = 0; i < statics_.size(); ++i) {
    const CaseProgram& program = case_.programs[static_cast<size_t>(case_.bindings[i].program)];
    for (size_t input = 0; input < statics_[i].size(); ++input)
      if (holds(statics_[i][input].tensor)) return {program.statics[input], program.name};
  }
  for (const auto& [name, tensor] : device_->constants())
    if (holds(tensor)) return {name, ""};
  const std::optional<WindowInfo> window = session_->memory().Locate(address);
  if (!window) return {};
  return {fmt::format("the {} window", NameOf(window->kind)), ""};
}

// Where a thread reads what another one has not written yet, the missing order is the cause: that
// race on the same buffer, or on shared memory, is found when the other thread writes.
KernelFinding FirstCause(const std::vector<KernelFinding>& findings) {
  const KernelFinding& first = findings.front();
  if (first.kind != KernelFinding::Kind::kUninitialized) return first;
  const auto race = std::ranges::find_if(findings, [&](const KernelFinding& finding) {
    return finding.kind == KernelFinding::Kind::kRace && finding.kernel == first.kernel &&
           finding.program == first.program && finding.step == first.step &&
           finding.buffer == first.buffer;
  });
  return race == findings.end() ? first : *race;
}

void Player::FindTrouble(size_t index) {
  std::vector<KernelFinding> findings = device_->chosen().kernel_findings();
  std::vector<std::string> reports = device_->chosen().reports();
  const std::string fault = device_->chosen().fault();
  // Copies of one value that are rounded differently explain no fault, and no wrong result.
  for (const KernelFinding& finding : findings) {
    if (finding.kind != KernelFinding::Kind::kReplicas) continue;
    Note(finding.text);
    std::erase(reports, finding.text);
  }
  std::erase_if(findings, [](const KernelFinding& finding) {
    return finding.kind == KernelFinding::Kind::kReplicas;
  });
  if (reports.empty() && fault.empty()) return;
  Trouble& trouble = played_.trouble.emplace();
  trouble.call = index;
  trouble.text = reports.empty() ? fault : reports.front();
  if (findings.empty()) return;
  // What ended the device comes last, and is the worst.
  trouble.finding = fault.empty() ? FirstCause(findings) : findings.back();
  trouble.text = trouble.finding->text;
  if (fault.empty()) trouble.hit = HitBy(*trouble.finding);
  if (!fault.empty() && trouble.finding->text == fault) trouble.hit = HitBy(*trouble.finding);
}

absl::StatusOr<Played> Player::Run() {
  played_.outcomes.resize(case_.calls.size());
  COPPICE_RETURN_IF_ERROR(Open());
  for (size_t i = 0; i < case_.calls.size() && !played_.trouble; ++i) {
    const absl::Status ran = RunCall(i);
    FindTrouble(i);
    if (!ran.ok() && !played_.trouble)
      return MakeError(ran.code(), "call {}: {}", case_.calls[i].number, MessageOf(ran));
    DropLeases(i + 1);
  }
  return std::move(played_);
}

}  // namespace

std::string TextOf(const Way& way) {
  std::string text = way.padded ? "padded" : "at its own size";
  if (way.poison != Poison::kOff) text += fmt::format(", padding of {}", NameOf(way.poison));
  if (way.seed != 1) text += fmt::format(", seed {}", way.seed);
  return text;
}

absl::StatusOr<Played> PlayCase(const Case& value, const PlaySource& source, const Way& way) {
  return Player(value, source, way).Run();
}

absl::StatusOr<std::vector<HostArray>> StaticsOf(const Case& value,
                                                 int binding,
                                                 const package::Program& program,
                                                 std::vector<std::string>& notes) {
  std::vector<HostArray> arrays;
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    if (!buffer.is_static) continue;
    COPPICE_ASSIGN_OR_RETURN(HostArray array,
                             StaticOf(value, binding, arrays.size(), buffer, notes));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

std::map<std::string, std::optional<PaddingClaim>> ClaimsOf(const Case& value, int index) {
  std::map<std::string, std::optional<PaddingClaim>> claims;
  for (const CaseSymbol& symbol : value.programs[static_cast<size_t>(index)].symbols)
    claims[symbol.name] = symbol.claim;
  return claims;
}

absl::StatusOr<int> ProgramIn(const package::Manifest& manifest, const CaseProgram& program) {
  return FindProgram(manifest, program.package_program);
}

HostArray ArrayOf(const CaseTensor& tensor) {
  return {tensor.dtype, tensor.dims, tensor.bytes};
}

}  // namespace coppice
