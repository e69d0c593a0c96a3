// Registration, bindings, and what becomes of static inputs that keep moving.

#include "graphs/parts/catalogue.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "graphs/node/input_layout.h"
#include "graphs/steps/stream_sink.h"

namespace coppice::internal {
namespace {

std::vector<DeviceAddress> AddressesOf(std::span<const Tensor> tensors) {
  std::vector<DeviceAddress> addresses;
  for (const Tensor& tensor : tensors)
    addresses.push_back(tensor.data);
  return addresses;
}

// Errors: kInvalidArgument  the program cannot run at exact sizes, and is to.
absl::Status CheckExact(const ProgramSpec& spec, const StepSource* steps) {
  if (spec.exact == ExactReplay::kNever) return absl::OkStatus();
  const char* why = nullptr;
  if (steps == nullptr)
    why = "its launches are only known from running it";
  else if (!spec.ragged.empty())
    why = "it has ragged sequences";
  else if (std::ranges::any_of(spec.symbols, &SymbolSpec::counted))
    why = "the device decides one of its sizes";
  if (why == nullptr) return absl::OkStatus();
  return InvalidArgument(
      "Session::Register: program '{}' cannot replay at exact sizes, because {}; leave "
      "ProgramSpec::exact at never",
      spec.name, why);
}

// Checks one tensor of a binding against its spec, be it of an input or an output.
template <typename Spec>
absl::Status CheckStatic(const Program& program,
                         const Spec& spec,
                         const Tensor& tensor,
                         const WindowMap& windows) {
  if (tensor.data == 0 || tensor != PlacedTensor(tensor.data, spec, /*extents=*/{})) {
    return InvalidArgument(
        "Session::Bind: static tensor '{}' of program '{}' must be a {} tensor with the spec's "
        "sizes and strides (row-major if the spec gives none) at an address other than 0",
        spec.name, program.spec.name, NameOf(spec.dtype));
  }
  if (tensor.data % static_cast<DeviceAddress>(SizeOf(spec.dtype)) != 0 ||
      tensor.data + static_cast<DeviceAddress>(RoundedBytes(tensor)) < tensor.data) {
    return InvalidArgument(
        "Session::Bind: static tensor '{}' of program '{}' at {:#x} is not aligned to its element "
        "size, or reaches beyond the last address",
        spec.name, program.spec.name, tensor.data);
  }
  if (!windows.Meets(tensor.data, RoundedBytes(tensor))) return absl::OkStatus();
  return InvalidArgument(
      "Session::Bind: static tensor '{}' of program '{}' lies in a window of this session, where "
      "graphs write; copy it elsewhere",
      spec.name, program.spec.name);
}

// Whether every call can copy it.
bool IsCopyable(const InputSpec& spec) {
  return !spec.mutated && PlacedTensor(0, spec, /*extents=*/{}).keeps_apart();
}

}  // namespace

absl::StatusOr<const Program*> Catalogue::Register(ProgramSpec spec,
                                                   Callable callable,
                                                   Callable dry_run) {
  if (!callable)
    return InvalidArgument("Session::Register: program '{}' has no callable", spec.name);
  return Add(std::move(spec), {.callable = std::move(callable), .dry_run = std::move(dry_run)});
}

absl::StatusOr<const Program*> Catalogue::RegisterSource(ProgramSpec spec,
                                                         std::unique_ptr<const StepSource> steps) {
  const StepSource* const source = steps.get();
  const auto on_stream = [source](CallContext& context) {
    StreamSink sink(context.driver(), context.stream());
    return source->Run(context, sink);
  };
  return Add(std::move(spec), {.callable = on_stream, .steps = std::move(steps)});
}

absl::StatusOr<const Program*> Catalogue::Add(ProgramSpec spec, Program::Work work) {
  COPPICE_RETURN_IF_ERROR(ValidateSpec(spec));
  COPPICE_ASSIGN_OR_RETURN(GuardProgram guards, CompileGuards(spec));
  COPPICE_RETURN_IF_ERROR(CheckExact(spec, work.steps.get()));
  if (spec.generator == nullptr) spec.generator = generator_.get();
  const bool gate = gated(spec.gate);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& other : entries_) {
    const Program& there = *other.program;
    if (there.registered_with() != nullptr && there.spec.name == spec.name &&
        there.spec.variant == spec.variant) {
      return InvalidArgument(
          "Session::Register: a program '{}'{} is already registered; choose another name or "
          "variant",
          spec.name, spec.variant.empty() ? "" : " of variant '" + spec.variant + "'");
    }
  }
  const bool sure = !options_.ranks.vote && !options_.checks.audit_keys && !gate &&
                    spec.gate != GateMode::kAlwaysEager;
  if (spec.symbols.empty()) spec.exact = ExactReplay::kNever;  // It has the sizes of each call.
  const bool at_bucket = spec.exact == ExactReplay::kNever;
  const Program::Place place{.owner = this,
                             .number = static_cast<int>(entries_.size()),
                             .trace_number = tracer_ == nullptr ? -1 : tracer_->DefineProgram(spec),
                             .gated = gate,
                             .plain = sure && at_bucket,
                             .exact = sure && !at_bucket};
  Entry entry{.program = std::make_unique<const Program>(std::move(spec), std::move(guards),
                                                         std::move(work), place)};
  entry.demoted.resize(entry.program->layout.statics.size());
  entries_.push_back(std::move(entry));
  return entries_.back().program.get();
}

const Program* Catalogue::Find(const std::string& name, const std::string& variant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    const Program& program = *entry.program;
    if (program.registered_with() != nullptr && program.spec.name == name &&
        program.spec.variant == variant) {
      return &program;
    }
  }
  return nullptr;
}

std::vector<const Program*> Catalogue::programs() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const Program*> registered;
  for (const Entry& entry : entries_) {
    if (entry.program->registered_with() != nullptr) registered.push_back(entry.program.get());
  }
  return registered;
}

absl::Status Catalogue::CheckOwn(const char* where, const Program& program) const {
  if (program.place.owner != this) {
    return InvalidArgument("{}: program '{}' belongs to another session", where, program.spec.name);
  }
  return program.registered_with() == this ? absl::OkStatus() : Unregistered(where, program);
}

absl::Status Catalogue::Unregister(const Program& program) {
  const std::lock_guard<std::mutex> lock(mutex_);
  COPPICE_RETURN_IF_ERROR(CheckOwn("Session::Unregister", program));
  program.state_.registered_with.store(nullptr, std::memory_order_relaxed);
  for (auto binding = bindings_.lower_bound({&program, {}, {}});
       binding != bindings_.end() && binding->second->program == &program; ++binding) {
    if (binding->second->version() != nullptr) End(binding);
  }
  return absl::OkStatus();
}

absl::Status Catalogue::Forget(const Program& program) {
  const std::lock_guard<std::mutex> lock(mutex_);
  COPPICE_RETURN_IF_ERROR(CheckOwn("Session::Reset", program));
  Entry& entry = EntryOf(program);
  entry.demoted.assign(entry.demoted.size(), false);
  UpdateVersions(entry);
  program.Forget();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> Catalogue::AllocationIds(
    const std::vector<Tensor>& tensors) const {
  std::vector<uint64_t> ids;
  if (!options_.checks.addresses) return ids;
  for (const Tensor& tensor : tensors) {
    // A constant is the session's own, and gets other memory when the session resumes.
    uint64_t id = 0;
    if (!windows_.HoldsConstants(tensor.data)) {
      COPPICE_ASSIGN_OR_RETURN(id, AllocationIdOf(driver_, tensor.data));
    }
    ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<const Binding*> Catalogue::Bind(const Program& program,
                                               std::span<const Tensor> statics) {
  COPPICE_RETURN_IF_ERROR(CheckOwn("Session::Bind", program));
  const size_t inputs = program.layout.statics.size();
  if (statics.size() != inputs + program.layout.static_outputs.size()) {
    return InvalidArgument(
        "Session::Bind: program '{}' needs one tensor per static input ({}) and per static output "
        "({}), but got {}",
        program.spec.name, inputs, program.layout.static_outputs.size(), statics.size());
  }
  std::vector<Tensor> tensors(statics.begin(), statics.end());
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].made_by = 0;
    COPPICE_RETURN_IF_ERROR(
        i < inputs ? CheckStatic(program, program.static_input(i), tensors[i], windows_)
                   : CheckStatic(program,
                                 program.spec.outputs[static_cast<size_t>(
                                     program.layout.static_outputs[i - inputs])],
                                 tensors[i], windows_));
  }
  COPPICE_ASSIGN_OR_RETURN(std::vector<uint64_t> ids, AllocationIds(tensors));
  const std::lock_guard<std::mutex> lock(mutex_);
  // It may have been unregistered meanwhile, and its bindings have ended then.
  COPPICE_RETURN_IF_ERROR(CheckOwn("Session::Bind", program));
  COPPICE_ASSIGN_OR_RETURN(auto version, VersionOf(EntryOf(program), tensors));
  BindingKey key{&program, AddressesOf(tensors), ids};
  auto found = bindings_.find(key);
  if (found == bindings_.end()) {
    auto made =
        std::make_unique<Binding>(program, ++bindings_made_, std::move(tensors), std::move(ids));
    found = bindings_.emplace(std::move(key), std::move(made)).first;
  }
  if (found->second->version() == nullptr) {
    TellStatics(*found->second, /*bound=*/true);
    SetVersion(*found->second, std::move(version));
  }
  return found->second.get();
}

std::vector<Tensor> Catalogue::TensorsOf(uint64_t binding) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, each] : bindings_)
    if (each->number == binding && each->version() != nullptr) return each->tensors;
  return {};
}

void Catalogue::TellStatics(const Binding& binding, bool bound) {
  if (tracer_ == nullptr) return;
  const auto change = bound ? &CoveredBytes::Cover : &CoveredBytes::Uncover;
  CoveredBytes& of_program = EntryOf(*binding.program).statics;
  for (const Tensor& tensor : binding.tensors) {
    if (windows_.HoldsConstants(tensor.data)) continue;
    const auto bytes = static_cast<DeviceAddress>(tensor.span() * SizeOf(tensor.dtype));
    (of_program.*change)(tensor.data, tensor.data + bytes);
    (statics_.*change)(tensor.data, tensor.data + bytes);
  }
  tracer_->Statics(binding.program->place.trace_number, of_program.bytes(), statics_.bytes());
}

void Catalogue::Unbind(const Binding& binding) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto own =
      bindings_.find({binding.program, AddressesOf(binding.tensors), binding.allocations});
  if (own->second->version() != nullptr) End(own);
}

void Catalogue::End(BindingMap::iterator binding) {
  ended_.emplace_back(binding, ends_ + 1);
  // Without host memory it did not end.
  absl::Cleanup undo = [this] { ended_.pop_back(); };
  ReplaceVersion(*binding->second, nullptr);
  std::move(undo).Cancel();
  binding->second->end_ = ++ends_;
  TellStatics(*binding->second, /*bound=*/false);
  while (ended_.size() > kEndedBindingsMax) {
    const auto [oldest, end] = ended_.front();
    ended_.pop_front();
    if (oldest->second->version() == nullptr && oldest->second->end_ == end)
      bindings_.erase(oldest);
  }
}

void Catalogue::SetVersion(Binding& binding, std::unique_ptr<const StaticVersion> version) {
  Version& shared = versions_[{binding.program, version->addresses, version->copied}];
  if (shared.version == nullptr) shared.version = std::move(version);
  if (shared.version.get() != binding.version()) ReplaceVersion(binding, &shared);
}

// A call may look at any time, so the binding has one version or the other.
void Catalogue::ReplaceVersion(Binding& binding, Version* by) {
  // What may throw comes before anything changes.
  std::list<Retired> retired(1);
  const StaticVersion* before = binding.version();
  const auto found = before == nullptr
                         ? versions_.end()
                         : versions_.find({binding.program, before->addresses, before->copied});
  if (by != nullptr) ++by->bindings;
  binding.version_.store(by == nullptr ? nullptr : by->version.get(), std::memory_order_release);
  if (before == nullptr || --found->second.bindings > 0) return;
  before->retired.store(true, std::memory_order_relaxed);
  retired.front() = {.program = binding.program, .version = std::move(found->second.version)};
  retired_.splice(retired_.end(), retired);
  retirements_.fetch_add(1, std::memory_order_relaxed);
  versions_.erase(found);
}

std::list<Catalogue::Retired> Catalogue::TakeRetired() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(retired_, {});
}

void Catalogue::ReturnRetired(std::list<Retired>& retired) {
  if (retired.empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  retired_.splice(retired_.end(), retired);
  retirements_.fetch_add(1, std::memory_order_relaxed);  // So that lanes look again.
}

std::vector<std::pair<const Program*, const StaticVersion*>> Catalogue::retired() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::pair<const Program*, const StaticVersion*>> retired;
  for (const Retired& each : retired_)
    retired.emplace_back(each.program, each.version.get());
  return retired;
}

// What these addresses are of the key.
absl::StatusOr<std::unique_ptr<const StaticVersion>> Catalogue::VersionOf(
    const Entry& entry, const std::vector<Tensor>& tensors) {
  const Program& program = *entry.program;
  auto version = std::make_unique<StaticVersion>();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const InputSpec* spec = i < program.layout.statics.size() ? &program.static_input(i) : nullptr;
    const bool aligned =
        spec == nullptr || tensors[i].data % static_cast<DeviceAddress>(spec->alignment) == 0;
    const bool copied = spec != nullptr && (!aligned || entry.demoted[i]);
    if (copied) version->copied.push_back(static_cast<int>(i));
    version->addresses.push_back(copied ? 0 : tensors[i].data);
    if (copied && !IsCopyable(*spec)) {
      return InvalidArgument(
          "Session::Bind: static input '{}' of program '{}' at {:#x} is not aligned to {} bytes, "
          "and it cannot be copied: the program mutates it, or its strides make elements overlap",
          spec->name, program.spec.name, tensors[i].data, spec->alignment);
    }
  }
  return version;
}

bool Catalogue::CanDemote(const Entry& entry, size_t index) {
  const Program& program = *entry.program;
  return index < program.layout.statics.size() && !entry.demoted[index] &&
         IsCopyable(program.static_input(index));
}

int Catalogue::Demote(const Program& program, std::span<const size_t> inputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = EntryOf(program);
  int demoted = 0;
  for (const size_t i : inputs) {
    if (!CanDemote(entry, i)) continue;
    entry.demoted[i] = true;
    ++demoted;
    if (options_.log) {
      options_.log(fmt::format(
          "coppice: static input '{}' of program '{}' moved more than {} times in one bucket; "
          "every call copies it from here on; bind it at one address, or raise static_moves_max "
          "above the number of bindings that take turns",
          program.static_input(i).name, program.spec.name, options_.limits.static_moves_max));
    }
  }
  if (demoted > 0) UpdateVersions(entry);
  return demoted;
}

void Catalogue::UpdateVersions(const Entry& entry) {
  for (const auto& [key, binding] : bindings_) {
    if (binding->program != entry.program.get() || binding->version() == nullptr) continue;
    auto version = VersionOf(entry, binding->tensors);
    if (version.ok()) SetVersion(*binding, *std::move(version));
  }
}

}  // namespace coppice::internal
