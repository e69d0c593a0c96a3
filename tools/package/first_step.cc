// One run of each size shows all temporaries at once.

#include "tools/package/first_step.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/package_uses.h"

#include "tools/package/package_rewrite.h"
#include "tools/support/scratch_folder.h"

namespace coppice {
namespace {

absl::Status CannotTell(const char* why) {
  return MakeError(absl::StatusCode::kUnimplemented, "{}", why);
}

bool ReadsReal(const package::Argument& argument) {
  if (std::holds_alternative<package::RealArgument>(argument)) return true;
  const auto* const whole = std::get_if<package::StructArgument>(&argument);
  return whole != nullptr && std::ranges::any_of(whole->members, ReadsReal);
}

bool ReadsReal(const package::Program& program) {
  return std::ranges::any_of(program.steps, [](const package::Step& step) {
    const auto* const kernel = std::get_if<package::KernelStep>(&step.action);
    return kernel != nullptr &&
           std::ranges::any_of(kernel->args, [](const auto& arg) { return ReadsReal(arg); });
  });
}

// Index in an array of `dims` of the element at `place`.
int64_t IndexOf(const std::vector<int64_t>& place, std::span<const int64_t> dims) {
  int64_t index = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    index = index * dims[axis] + place[axis];
  return index;
}

// Calls `visit(place)` for every element.
template <typename Visit>
void ForEachPlace(std::span<const int64_t> dims, Visit visit) {
  if (std::ranges::find(dims, 0) != dims.end()) return;
  std::vector<int64_t> place(dims.size());
  for (;;) {
    visit(std::as_const(place));
    size_t axis = dims.size();
    while (axis > 0 && ++place[axis - 1] == dims[axis - 1])
      place[--axis] = 0;
    if (axis == 0) return;
  }
}

// How an axis of k * real became one of k * padded: `inner` elements per element of the symbol.
using AxisLayout = int64_t;

int64_t PlaceIn(int64_t at, AxisLayout inner, int64_t real, int64_t padded) {
  if (inner == 0) return at;
  const int64_t symbol = at / inner % real;
  return (at / (inner * real) * padded + symbol) * inner + at % inner;
}

bool AgreesIn(const HostArray& expected,
              const HostArray& actual,
              const std::vector<AxisLayout>& layout,
              int64_t real,
              int64_t padded,
              const Equality& equal) {
  const auto size = static_cast<size_t>(SizeOf(expected.dtype));
  bool agrees = true;
  int64_t index = 0;
  ForEachPlace(expected.dims, [&](const std::vector<int64_t>& place) {
    std::vector<int64_t> there = place;
    for (size_t axis = 0; axis < layout.size(); ++axis)
      there[axis] = PlaceIn(place[axis], layout[axis], real, padded);
    uint64_t a = 0;
    uint64_t b = 0;
    std::memcpy(&a, expected.bytes.data() + static_cast<size_t>(index++) * size, size);
    std::memcpy(&b, actual.bytes.data() + static_cast<size_t>(IndexOf(there, actual.dims)) * size,
                size);
    agrees = agrees && Agree(equal, expected.dtype, a, b);
  });
  return agrees;
}

std::string StepText(const package::Manifest& manifest,
                     const package::Program& program,
                     size_t index) {
  const auto& action = program.steps[index].action;
  if (const auto* kernel = std::get_if<package::KernelStep>(&action))
    return fmt::format("step {} (kernel {})", index,
                       manifest.kernels[static_cast<size_t>(kernel->kernel)].name);
  if (const auto* call = std::get_if<package::CallStep>(&action))
    return fmt::format("step {} (call {})", index, call->function);
  if (const auto* child = std::get_if<package::ChildStep>(&action))
    return fmt::format("step {} (child {})", index,
                       manifest.programs[static_cast<size_t>(child->program)].name);
  return fmt::format("step {}", index);
}

// The package whose programs show their temporaries, on the device.
absl::StatusOr<std::unique_ptr<const package::LoadedPackage>> LoadShown(const PackageDevice& device,
                                                                        const std::string& program,
                                                                        const std::string& folder) {
  const std::string zip = folder + "/shown.zip";
  const package::Package& package = device.loaded().package();
  nlohmann::json manifest = ManifestOf(package);
  ShowTemporaries(program, manifest);
  COPPICE_RETURN_IF_ERROR(PackWith(package, manifest, zip));
  COPPICE_ASSIGN_OR_RETURN(package::Package shown, package::Package::Open(zip, {}));
  return package::LoadedPackage::Load(device.context(), std::move(shown), {.allow_ptx = true});
}

absl::StatusOr<CallSet> PadSet(const package::Program& program, const StepQuestion& question) {
  CallSet padded{.extents = question.sizes.padded, .scalars = question.set.scalars, .inputs = {}};
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const int scalar = program.symbols[i].scalar;
    if (scalar >= 0) padded.scalars[static_cast<size_t>(scalar)] = padded.extents[i];
  }
  const std::vector<int64_t> values = ValuesOf(program, padded.extents, padded.scalars);
  size_t next = 0;
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    if (buffer.is_static) continue;
    COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> dims,
                             SizesAt(buffer.shape, values, buffer.name));
    padded.inputs.push_back(
        PadArray(question.set.inputs[next++], dims, buffer, question.poison, question.contents));
  }
  return padded;
}

}  // namespace

void ShowTemporaries(const std::string& program, nlohmann::json& manifest) {
  nlohmann::json& changed = manifest["programs"][program];
  for (auto& [name, buffer] : changed["buffers"].items()) {
    if (buffer["role"] != "temporary" || !buffer.contains("shape")) continue;
    buffer["role"] = "output";
    changed["outputs"].push_back(name);
  }
}

HostArray PadArray(const HostArray& array,
                   std::span<const int64_t> dims,
                   const package::Buffer& buffer,
                   Poison poison,
                   PaddingContents contents) {
  const auto size = static_cast<size_t>(SizeOf(array.dtype));
  HostArray padded{array.dtype, {dims.begin(), dims.end()}, {}};
  const bool poisoned = poison != Poison::kOff && MayPoison(contents, array.dtype);
  const uint64_t fill = FillPattern(buffer.fill, array.dtype);
  int64_t index = 0;
  ForEachPlace(dims, [&](const std::vector<int64_t>& place) {
    std::vector<int64_t> from = place;
    bool live = true;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      live = live && from[axis] < array.dims[axis];
      from[axis] = std::min(from[axis], array.dims[axis] - 1);
    }
    uint64_t bits = fill;
    const bool repeats = buffer.fill.kind == FillKind::kRepeatLast && !poisoned;
    if (live || repeats)
      std::memcpy(&bits, array.bytes.data() + static_cast<size_t>(IndexOf(from, array.dims)) * size,
                  size);
    else if (poisoned)
      bits = PoisonElement(poison, array.dtype, contents, /*seed=*/1, index);
    ++index;
    padded.bytes.append(reinterpret_cast<const char*>(&bits), size);
  });
  return padded;
}

std::optional<bool> LiveAgrees(const HostArray& expected,
                               const HostArray& actual,
                               int64_t real,
                               int64_t padded,
                               const Equality& equal) {
  // Per axis the ways in which it may hold the symbol.
  std::vector<std::vector<AxisLayout>> ways;
  for (size_t axis = 0; axis < expected.dims.size(); ++axis) {
    std::vector<AxisLayout>& way = ways.emplace_back();
    if (expected.dims[axis] == actual.dims[axis]) way.push_back(0);
    const int64_t times = expected.dims[axis] / real;
    const bool whole = times * real == expected.dims[axis] && times * padded == actual.dims[axis];
    for (int64_t inner = 1; whole && way != std::vector<AxisLayout>{0} && inner <= times; ++inner)
      if (times % inner == 0) way.push_back(inner);
    if (way.empty()) return std::nullopt;
  }
  std::vector<size_t> chosen(ways.size());
  for (;;) {
    std::vector<AxisLayout> layout;
    for (size_t axis = 0; axis < ways.size(); ++axis)
      layout.push_back(ways[axis][chosen[axis]]);
    if (AgreesIn(expected, actual, layout, real, padded, equal)) return true;
    size_t axis = ways.size();
    while (axis > 0 && ++chosen[axis - 1] == ways[axis - 1].size())
      chosen[--axis] = 0;
    if (axis == 0) return false;
  }
}

absl::StatusOr<DifferingStep> FirstDifferingStep(const PackageDevice& device,
                                                 int index,
                                                 const StepQuestion& question,
                                                 const std::vector<HostArray>& statics) {
  const std::string name = device.manifest().programs[static_cast<size_t>(index)].name;
  if (ReadsReal(device.manifest().programs[static_cast<size_t>(index)]))
    return CannotTell("the program reads real sizes");
  COPPICE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Create());
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<const package::LoadedPackage> shown,
                           LoadShown(device, name, scratch.path()));
  RunnerOptions options{.loaded = shown.get(), .stance = Stance::kEager};
  COPPICE_ASSIGN_OR_RETURN(options.program, FindProgram(shown->manifest(), name));
  const package::Program& program =
      shown->manifest().programs[static_cast<size_t>(options.program)];
  COPPICE_ASSIGN_OR_RETURN(const CallSet padded_set, PadSet(program, question));
  std::vector<RunOutcome> outcomes;
  for (const CallSet* const set : {&question.set, &padded_set}) {
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRunner> runner,
                             ProgramRunner::Create(device, options, statics));
    COPPICE_ASSIGN_OR_RETURN(outcomes.emplace_back(), runner->Run(*set));
  }
  int64_t real = 0;
  int64_t padded = 0;
  for (size_t i = 0; i < question.sizes.real.size(); ++i) {
    if (question.sizes.real[i] == question.sizes.padded[i]) continue;
    real = question.sizes.real[i];
    padded = question.sizes.padded[i];
  }
  for (size_t step = 0; step < program.steps.size(); ++step) {
    for (const int buffer : UsesOf(shown->manifest(), program.steps[step]).writes) {
      const auto output = std::ranges::find(program.outputs, buffer);
      if (output == program.outputs.end()) continue;
      const auto at = static_cast<size_t>(output - program.outputs.begin());
      const std::optional<bool> agrees = LiveAgrees(
          outcomes[0].outputs[at], outcomes[1].outputs[at], real, padded, question.equal);
      if (!agrees || *agrees) continue;
      const auto* const kernel = std::get_if<package::KernelStep>(&program.steps[step].action);
      const std::string& name_of_buffer = program.buffers[static_cast<size_t>(buffer)].name;
      return DifferingStep{
          .step = static_cast<int>(step),
          .kernel = kernel == nullptr
                        ? std::string()
                        : shown->manifest().kernels[static_cast<size_t>(kernel->kernel)].name,
          .buffer = name_of_buffer,
          .text = fmt::format("{}, which writes {}", StepText(shown->manifest(), program, step),
                              name_of_buffer)};
    }
  }
  return CannotTell("none of the temporaries whose padding is known differs");
}

}  // namespace coppice
