// Entries of a ring, and the tensors in them.

#include "graphs/case/save_case.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "graphs/case/redact.h"
#include "graphs/flight/lane_recorder.h"
#include "graphs/program/program.h"

namespace coppice::internal {
namespace {

// The elements of `tensor`, whose first one is at `bytes`, rows first.
std::string Gathered(const std::byte* bytes, const Tensor& tensor) {
  std::string elements;
  if (tensor.element_count() == 0) return elements;
  const auto size = static_cast<size_t>(SizeOf(tensor.dtype));
  elements.reserve(static_cast<size_t>(tensor.element_count()) * size);
  std::array<int64_t, kRankMax> place{};
  while (true) {
    int64_t offset = 0;
    for (int axis = 0; axis < tensor.rank; ++axis)
      offset += place[static_cast<size_t>(axis)] * tensor.strides[static_cast<size_t>(axis)];
    elements.append(reinterpret_cast<const char*>(bytes + offset * static_cast<int64_t>(size)),
                    size);
    int axis = tensor.rank - 1;
    while (axis >= 0 &&
           ++place[static_cast<size_t>(axis)] == tensor.sizes[static_cast<size_t>(axis)])
      place[static_cast<size_t>(axis--)] = 0;
    if (axis < 0) return elements;
  }
}

std::vector<int64_t> SizesOf(const Tensor& tensor) {
  return {tensor.sizes.begin(), tensor.sizes.begin() + tensor.rank};
}

CaseProgram ProgramOf(const Program& program) {
  const ProgramSpec& spec = program.spec;
  CaseProgram made{.name = spec.name, .variant = spec.variant};
  if (program.steps != nullptr) {
    const StepSource::Origin origin = program.steps->origin();
    made.package_program = origin.program;
    made.package_sha256 = origin.package.manifest().sha256;
    made.package_path = origin.package.path();
  }
  for (size_t i = 0; i < spec.symbols.size(); ++i) {
    const JointSpec* const joint = spec.JointOf(static_cast<int>(i));
    made.symbols.push_back(
        {.name = spec.symbols[i].name,
         .policy = joint == nullptr ? program.policy(i).name() : joint->policy.name(),
         .claim = ClaimOf(spec, static_cast<int>(i))});
  }
  for (const ScalarSpec& scalar : spec.scalars)
    made.scalars.push_back(scalar.name);
  for (const int input : program.layout.copies)
    made.inputs.push_back(spec.inputs[static_cast<size_t>(input)].name);
  for (const int input : program.layout.statics)
    made.statics.push_back(spec.inputs[static_cast<size_t>(input)].name);
  for (const OutputSpec& output : spec.outputs)
    made.outputs.push_back(output.name);
  return made;
}

// One case on its way.
class CaseWriter {
 public:
  CaseWriter(const SessionParts& parts, Lane& lane, const SaveCaseOptions& options, bool reads)
      : parts_(parts), lane_(lane), options_(options), reads_(reads) {}

  Case& made() { return made_; }

  absl::Status Add(FlightEntry& entry);

 private:
  int IndexOf(const Program& program);
  absl::StatusOr<int> IndexOf(const Program& program, uint64_t binding);
  absl::StatusOr<CaseStatic> ReadStatic(const Tensor& tensor, const std::string& name);
  void AddInputs(FlightEntry& entry, CaseCall& call);
  void AddCopies(FlightEntry& entry, CaseCall& call);
  std::string Put(std::string name, const std::byte* bytes, const Tensor& tensor);

  const SessionParts& parts_;
  Lane& lane_;
  const SaveCaseOptions& options_;
  const bool reads_;  // The device may be asked.
  Case made_;
  std::map<const Program*, int> programs_;
  std::map<uint64_t, int> bindings_;  // By the number of a binding.
};

std::string CaseWriter::Put(std::string name, const std::byte* bytes, const Tensor& tensor) {
  CaseTensor& made = made_.tensors[name];
  made = {tensor.dtype, SizesOf(tensor), Gathered(bytes, tensor)};
  Redact(options_.values, made_.tensors.size(), made);
  return name;
}

int CaseWriter::IndexOf(const Program& program) {
  const auto [found, is_new] = programs_.emplace(&program, static_cast<int>(programs_.size()));
  if (is_new) made_.programs.push_back(ProgramOf(program));
  return found->second;
}

absl::StatusOr<CaseStatic> CaseWriter::ReadStatic(const Tensor& tensor, const std::string& name) {
  const int64_t bytes = tensor.span() * SizeOf(tensor.dtype);
  if (!reads_ || bytes > options_.static_bytes_max) return CaseStatic{};
  std::vector<std::byte> host(static_cast<size_t>(bytes));
  const Stream& stream = lane_.order().own_stream();
  if (bytes > 0) {
    // The driver refuses addresses where it knows no memory.
    const CuResult result = parts_.driver.table().MemcpyDtoHAsync(host.data(), tensor.data,
                                                                  host.size(), stream.handle());
    if (result == CuResult::kInvalidValue) return CaseStatic{.dangling = true};
    if (result != CuResult::kSuccess) return parts_.driver.ErrorOf(result, "cuMemcpyDtoHAsync");
    COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  }
  return CaseStatic{.tensor = Put(name, host.data(), tensor)};
}

absl::StatusOr<int> CaseWriter::IndexOf(const Program& program, uint64_t binding) {
  const auto [found, is_new] = bindings_.emplace(binding, static_cast<int>(bindings_.size()));
  if (!is_new) return found->second;
  CaseBinding made{.program = IndexOf(program)};
  made.statics.resize(program.layout.statics.size());
  // The memory of a binding that was ended may be another's.
  const std::vector<Tensor> tensors = parts_.catalogue->TensorsOf(binding);
  for (size_t i = 0; !tensors.empty() && i < made.statics.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(
        made.statics[i], ReadStatic(tensors[i], fmt::format("bindings/{}/{}", made_.bindings.size(),
                                                            program.static_input(i).name)));
  }
  made_.bindings.push_back(std::move(made));
  return found->second;
}

void CaseWriter::AddInputs(FlightEntry& entry, CaseCall& call) {
  const Program& program = *entry.program;
  call.inputs.resize(program.layout.copies.size());
  for (size_t copy = 0; copy < call.inputs.size(); ++copy) {
    const InputSpec& spec = program.copied_input(copy);
    call.inputs[copy].dtype = spec.dtype;
    call.inputs[copy].dims = SizesOf(PlacedTensor(0, spec, entry.real()));
  }
  for (size_t i = 0; i < entry.sources; ++i) {
    const FlightSource& source = entry.source_list()[i];
    const InputSpec& spec = program.spec.inputs[static_cast<size_t>(source.input)];
    if (spec.role != InputRole::kCopy) continue;
    CaseInput& input = call.inputs[program.CopyOf(source.input)];
    if (source.output >= 0) {
      input.call = source.call;
      input.output = source.output;
      input.at = source.at;
      input.strides.assign(source.strides, source.strides + input.dims.size());
    } else if (source.output == FlightSource::kStaged && call.arrived) {
      const Tensor placed = AtExtents(PlacedTensor(0, spec, entry.run()), spec.dims, entry.real());
      input.tensor = Put(fmt::format("calls/{}/inputs/{}", entry.call, spec.name),
                         entry.byte(entry.staging + source.at), placed);
    }
  }
}

void CaseWriter::AddCopies(FlightEntry& entry, CaseCall& call) {
  const Program& program = *entry.program;
  for (size_t i = 0; i < entry.statics; ++i) {
    const FlightCopy& copy = entry.static_list()[i];
    CaseStatic& made = call.statics.emplace_back();
    made.dangling = copy.at == FlightCopy::kRefused;
    if (copy.at >= 0 && call.arrived)
      made.tensor =
          Put(fmt::format("calls/{}/statics/{}", entry.call, program.static_input(i).name),
              entry.byte(copy.at), PlacedTensor(0, program.static_input(i), entry.real()));
  }
  for (size_t i = 0; i < entry.outputs; ++i) {
    const FlightCopy& copy = entry.output_list()[i];
    std::string& name = call.outputs.emplace_back();
    if (copy.at < 0 || entry.mark == 0 || entry.mark == FlightEntry::kNoMark) continue;
    const OutputSpec& spec = program.spec.outputs[i];
    const Tensor placed = AtExtents(PlacedTensor(0, spec, entry.run()), spec.dims, entry.real());
    name =
        Put(fmt::format("calls/{}/outputs/{}", entry.call, spec.name), entry.byte(copy.at), placed);
  }
}

absl::Status CaseWriter::Add(FlightEntry& entry) {
  const Program& program = *entry.program;
  const size_t symbols = program.spec.symbols.size();
  CaseCall call{.number = entry.call,
                .program = IndexOf(program),
                .kind = entry.kind,
                .reason = entry.reason,
                .poison = entry.poison,
                .mode = entry.mode,
                .ran = !entry.pending,
                .arrived = lane_.recorder()->ring().HasArrived(entry) &&
                           (entry.copies || entry.staging_bytes == 0)};
  if (entry.binding != 0) {
    COPPICE_ASSIGN_OR_RETURN(call.binding, IndexOf(program, entry.binding));
  }
  const auto first = [&](std::span<const int64_t> words) {
    return std::vector<int64_t>(words.begin(), words.begin() + static_cast<ptrdiff_t>(symbols));
  };
  call.extents = first(entry.real());
  call.bucket = first(entry.run());
  call.scalars.assign(entry.scalar_values().begin(), entry.scalar_values().end());
  if (entry.numbers > 0)
    call.random.emplace(static_cast<uint64_t>(entry.random()[0]), entry.random()[1]);
  call.donated.assign(entry.donated_list(), entry.donated_list() + entry.donated);
  AddInputs(entry, call);
  AddCopies(entry, call);
  // A call that failed before its work was submitted has given its number to the next one.
  if (!made_.calls.empty() && made_.calls.back().number == call.number) made_.calls.pop_back();
  made_.calls.push_back(std::move(call));
  return absl::OkStatus();
}

// The package of the last call that has one, if its file is small enough.
std::string PackageOf(LaneRecorder& recorder, const SaveCaseOptions& options) {
  const package::Package* last = nullptr;
  recorder.ring().ForEach([&](const FlightEntry& entry) {
    if (entry.program->steps != nullptr) last = &entry.program->steps->origin().package;
  });
  if (last == nullptr) return {};
  const std::span<const std::byte> zip = last->zip();
  if (static_cast<int64_t>(zip.size()) > options.package_bytes_max) return {};
  return {reinterpret_cast<const char*>(zip.data()), zip.size()};
}

}  // namespace

absl::StatusOr<Case> CaseOf(const SessionParts& parts,
                            Lane& lane,
                            std::string_view why,
                            const absl::Status& error,
                            const SaveCaseOptions& options) {
  CaseWriter writer(parts, lane, options, /*reads=*/error.ok());
  Case& made = writer.made();
  FlightRing& ring = lane.recorder()->ring();
  made.why = why;
  made.error = error.ok() ? std::string() : MessageOf(error);
  made.version = COPPICE_VERSION;
  made.device = parts.context.DeviceName();
  made.driver = parts.driver.kind() == DriverKind::kEmulator ? "emulator" : "cuda";
  int version = 0;
  if (parts.driver.table().DriverGetVersion(&version) == CuResult::kSuccess)
    made.driver_version = version;
  made.lane = lane.index;
  made.values = options.values;
  made.calls_dropped = ring.dropped();
  made.calls_refused = ring.refused();
  made.calls_skipped = lane.recorder()->budget().skipped();
  absl::Status added;
  ring.ForEach([&](FlightEntry& entry) { added.Update(writer.Add(entry)); });
  COPPICE_RETURN_IF_ERROR(added);
  made.package = PackageOf(*lane.recorder(), options);
  return std::move(made);
}

}  // namespace coppice::internal
