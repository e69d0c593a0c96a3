// One run of each size shows all temporaries at once.

#include "tools/package/first_step.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/package_uses.h"

#include "tools/package/package_rewrite.h"
#include "tools/support/scratch_folder.h"

namespace coppice {
namespace {

constexpr int64_t kRawBytesMax = 1 << 18;  // Of a temporary that is compared byte by byte.
constexpr int kLooksMax = 16;              // At steps whose buffer a later one writes, too.

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

// Calls `visit(place at the real sizes, place at the padded ones)` for every element that is no
// padding.
template <typename Visit>
void ForEachLive(std::span<const int64_t> dims,
                 const std::vector<AxisLayout>& layout,
                 int64_t real,
                 int64_t padded,
                 Visit visit) {
  ForEachPlace(dims, [&](const std::vector<int64_t>& place) {
    std::vector<int64_t> there = place;
    for (size_t axis = 0; axis < layout.size(); ++axis)
      there[axis] = PlaceIn(place[axis], layout[axis], real, padded);
    visit(place, there);
  });
}

bool AgreesIn(const HostArray& expected,
              const HostArray& actual,
              const std::vector<AxisLayout>& layout,
              int64_t real,
              int64_t padded,
              const Equality& equal) {
  const auto size = static_cast<size_t>(SizeOf(expected.dtype));
  bool agrees = true;
  ForEachLive(expected.dims, layout, real, padded, [&](const auto& place, const auto& there) {
    const auto bits = [&](const HostArray& array, const std::vector<int64_t>& at) {
      uint64_t value = 0;
      std::memcpy(&value, array.bytes.data() + static_cast<size_t>(IndexOf(at, array.dims)) * size,
                  size);
      return value;
    };
    agrees = agrees && Agree(equal, expected.dtype, bits(expected, place), bits(actual, there));
  });
  return agrees;
}

// Whether `holds(layout)` does for one of the ways in which axes may hold the symbol; nothing:
// sizes do not tell places.
template <typename Holds>
std::optional<bool> AnyLayout(std::span<const int64_t> dims,
                              std::span<const int64_t> padded_dims,
                              int64_t real,
                              int64_t padded,
                              Holds holds) {
  std::vector<std::vector<AxisLayout>> ways;  // Per axis.
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    std::vector<AxisLayout>& way = ways.emplace_back();
    if (dims[axis] == padded_dims[axis]) way.push_back(0);
    const int64_t times = dims[axis] / real;
    const bool whole = times * real == dims[axis] && times * padded == padded_dims[axis];
    for (int64_t inner = 1; whole && way != std::vector<AxisLayout>{0} && inner <= times; ++inner)
      if (times % inner == 0) way.push_back(inner);
    if (way.empty()) return std::nullopt;
  }
  std::vector<size_t> chosen(ways.size());
  for (;;) {
    std::vector<AxisLayout> layout;
    for (size_t axis = 0; axis < ways.size(); ++axis)
      layout.push_back(ways[axis][chosen[axis]]);
    if (holds(std::as_const(layout))) return true;
    size_t axis = ways.size();
    while (axis > 0 && ++chosen[axis - 1] == ways[axis - 1].size())
      chosen[--axis] = 0;
    if (axis == 0) return false;
  }
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

// What is shown of a program.
struct Shown {
  bool raw = false;                                     // Temporaries of bytes, too.
  int64_t steps = std::numeric_limits<int64_t>::max();  // After so many steps.
};

// The package whose programs show their temporaries, on the device.
absl::StatusOr<std::unique_ptr<const package::LoadedPackage>> LoadShown(const PackageDevice& device,
                                                                        const std::string& program,
                                                                        const std::string& folder,
                                                                        const Shown& how) {
  const std::string zip = folder + "/shown.zip";
  const package::Package& package = device.loaded().package();
  nlohmann::json manifest = ManifestOf(package);
  ShowTemporaries(program, manifest, how.raw);
  nlohmann::json& steps = manifest["programs"][program]["steps"];
  while (std::ssize(steps) > how.steps)
    steps.erase(steps.size() - 1);
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

// The program with its temporaries as outputs, ready to run at either size.
struct ShownProgram {
  ScratchFolder scratch;
  std::unique_ptr<const package::LoadedPackage> loaded;
  RunnerOptions options;
  CallSet padded_set;
  int64_t real = 0;  // Of the symbol that is padded ...
  int64_t padded = 0;

  const package::Program& program() const {
    return loaded->manifest().programs[static_cast<size_t>(options.program)];
  }

  static absl::StatusOr<ShownProgram> Create(const PackageDevice& device,
                                             int index,
                                             const StepQuestion& question,
                                             const Shown& how = {}) {
    const std::string name = device.manifest().programs[static_cast<size_t>(index)].name;
    if (ReadsReal(device.manifest().programs[static_cast<size_t>(index)]))
      return CannotTell("the program reads real sizes");
    COPPICE_ASSIGN_OR_RETURN(ScratchFolder scratch, ScratchFolder::Create());
    COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<const package::LoadedPackage> loaded,
                             LoadShown(device, name, scratch.path(), how));
    RunnerOptions options{.loaded = loaded.get(), .stance = Stance::kEager};
    COPPICE_ASSIGN_OR_RETURN(options.program, FindProgram(loaded->manifest(), name));
    ShownProgram shown{.scratch = std::move(scratch),
                       .loaded = std::move(loaded),
                       .options = std::move(options),
                       .padded_set = {}};
    COPPICE_ASSIGN_OR_RETURN(shown.padded_set, PadSet(shown.program(), question));
    for (size_t i = 0; i < question.sizes.real.size(); ++i) {
      if (question.sizes.real[i] == question.sizes.padded[i]) continue;
      shown.real = question.sizes.real[i];
      shown.padded = question.sizes.padded[i];
    }
    return shown;
  }
};

std::vector<int64_t> DimsOf(const Tensor& tensor) {
  return {tensor.sizes.begin(), tensor.sizes.begin() + tensor.rank};
}

DeviceAddress AddressOf(const Tensor& tensor, const std::vector<int64_t>& place) {
  int64_t element = 0;
  for (size_t axis = 0; axis < place.size(); ++axis)
    element += place[axis] * tensor.strides[axis];
  return tensor.data + static_cast<DeviceAddress>(element * SizeOf(tensor.dtype));
}

// Marks the elements of inputs of which some are padding, or of all inputs, and those.
void MarkInputs(Emulator& emulator,
                const std::vector<HostArray>& arrays,
                const std::vector<Tensor>& padded,
                bool all) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::vector<int64_t>& dims = arrays[i].dims;
    const std::vector<int64_t> sizes = DimsOf(padded[i]);
    if (dims == sizes && !all) continue;
    ForEachPlace(sizes, [&](const std::vector<int64_t>& place) {
      const bool live = std::ranges::equal(place, dims, std::ranges::less());
      emulator.MarkInput(AddressOf(padded[i], place), SizeOf(padded[i].dtype), static_cast<int>(i),
                         !live);
    });
  }
}

// Where padding got in an array, at the padded sizes.
struct ReachedArray {
  bool is_known = true;  // Sizes tell which elements are no padding, or it makes no difference.
  std::optional<std::pair<std::vector<int64_t>, PaddingReach>> first;  // That is no padding.
};

ReachedArray FindReached(const Emulator& emulator,
                         const HostArray& array,
                         const Tensor& padded,
                         int64_t real,
                         int64_t extent) {
  ReachedArray reached;
  bool is_clean_in_one = false;
  const auto look = [&](const std::vector<AxisLayout>& layout) {
    bool clean = true;
    ForEachLive(array.dims, layout, real, extent, [&](const auto& /*place*/, const auto& there) {
      if (!clean) return;
      const std::optional<PaddingReach> reach =
          emulator.FindPadding(AddressOf(padded, there), SizeOf(padded.dtype));
      if (!reach) return;
      clean = false;
      if (!reached.first) reached.first = {there, *reach};
    });
    is_clean_in_one = is_clean_in_one || clean;
    return false;  // The next one.
  };
  reached.is_known = AnyLayout(array.dims, DimsOf(padded), real, extent, look).has_value() &&
                     !(is_clean_in_one && reached.first);
  if (!reached.is_known) reached.first.reset();
  return reached;
}

absl::StatusOr<PaddingPath> Follow(const PackageDevice& device,
                                   int index,
                                   const StepQuestion& question,
                                   const std::vector<HostArray>& statics,
                                   bool marks_all);

// What the program shows, at its own sizes and at the padded ones.
absl::StatusOr<std::vector<RunOutcome>> RunBoth(const PackageDevice& device,
                                                const ShownProgram& shown,
                                                const StepQuestion& question,
                                                const std::vector<HostArray>& statics) {
  std::vector<RunOutcome> outcomes;
  for (const CallSet* const set : {&question.set, &shown.padded_set}) {
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRunner> runner,
                             ProgramRunner::Create(device, shown.options, statics));
    COPPICE_ASSIGN_OR_RETURN(outcomes.emplace_back(), runner->Run(*set));
  }
  return outcomes;
}

bool IsWrittenAfter(const package::Manifest& manifest,
                    const package::Program& program,
                    size_t step,
                    int buffer) {
  for (++step; step < program.steps.size(); ++step) {
    const std::vector<int> writes = UsesOf(manifest, program.steps[step]).writes;
    if (std::ranges::find(writes, buffer) != writes.end()) return true;
  }
  return false;
}

// Whether padding has changed an output when `step` has run.
absl::StatusOr<bool> DiffersAfter(const PackageDevice& device,
                                  int index,
                                  const StepQuestion& question,
                                  const std::vector<HostArray>& statics,
                                  size_t step,
                                  size_t output) {
  COPPICE_ASSIGN_OR_RETURN(
      const ShownProgram shown,
      ShownProgram::Create(device, index, question,
                           {.raw = question.equal.bits, .steps = static_cast<int64_t>(step) + 1}));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<RunOutcome> outcomes,
                           RunBoth(device, shown, question, statics));
  const std::optional<bool> agrees =
      LiveAgrees(outcomes[0].outputs[output], outcomes[1].outputs[output], shown.real, shown.padded,
                 question.equal);
  return agrees.has_value() && !*agrees;
}

// How padding got into what a step writes. Where it meets no live elements but those of inputs that
// are not padded, as weights, it meets them.
std::optional<PaddingReach> ReachIn(int step,
                                    const PackageDevice& device,
                                    int index,
                                    const StepQuestion& question,
                                    const std::vector<HostArray>& statics) {
  for (const bool marks_all : {false, true}) {
    const absl::StatusOr<PaddingPath> path = Follow(device, index, question, statics, marks_all);
    if (path.ok() && path->step >= 0 && path->reach.step == step) return path->reach;
  }
  return std::nullopt;
}

}  // namespace

void ShowTemporaries(const std::string& program, nlohmann::json& manifest, bool raw) {
  nlohmann::json& changed = manifest["programs"][program];
  for (auto& [name, buffer] : changed["buffers"].items()) {
    if (buffer["role"] != "temporary") continue;
    if (raw && buffer.contains("bytes")) {
      buffer["dtype"] = "u8";
      buffer["shape"] = nlohmann::json::array({buffer["bytes"]});
      buffer.erase("bytes");
    }
    if (!buffer.contains("shape")) continue;
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
  return AnyLayout(expected.dims, actual.dims, real, padded,
                   [&](const std::vector<AxisLayout>& layout) {
                     return AgreesIn(expected, actual, layout, real, padded, equal);
                   });
}

absl::StatusOr<DifferingStep> FirstDifferingStep(const PackageDevice& device,
                                                 int index,
                                                 const StepQuestion& question,
                                                 const std::vector<HostArray>& statics) {
  COPPICE_ASSIGN_OR_RETURN(
      const ShownProgram shown_program,
      ShownProgram::Create(device, index, question, {.raw = question.equal.bits}));
  const auto& [scratch, shown, options, padded_set, real, padded] = shown_program;
  const package::Program& program = shown_program.program();
  COPPICE_ASSIGN_OR_RETURN(const std::vector<RunOutcome> outcomes,
                           RunBoth(device, shown_program, question, statics));
  int looks = 0;
  for (size_t step = 0; step < program.steps.size(); ++step) {
    for (const int buffer : UsesOf(shown->manifest(), program.steps[step]).writes) {
      const auto output = std::ranges::find(program.outputs, buffer);
      if (output == program.outputs.end()) continue;
      const auto at = static_cast<size_t>(output - program.outputs.begin());
      const package::Buffer& original = device.manifest()
                                            .programs[static_cast<size_t>(index)]
                                            .buffers[static_cast<size_t>(buffer)];
      const bool raw =
          original.role == package::Role::kTemporary && original.dtype == DType::kUInt8;
      if (raw && std::ssize(outcomes[1].outputs[at].bytes) > kRawBytesMax) continue;
      const std::optional<bool> agrees = LiveAgrees(
          outcomes[0].outputs[at], outcomes[1].outputs[at], real, padded, question.equal);
      if (!agrees || *agrees) continue;
      // A later step that writes there, too, may be the one.
      if (IsWrittenAfter(shown->manifest(), program, step, buffer) && looks++ < kLooksMax) {
        COPPICE_ASSIGN_OR_RETURN(const bool differs,
                                 DiffersAfter(device, index, question, statics, step, at));
        if (!differs) continue;
      }
      const auto* const kernel = std::get_if<package::KernelStep>(&program.steps[step].action);
      const std::string& name_of_buffer = program.buffers[static_cast<size_t>(buffer)].name;
      DifferingStep found{
          .step = static_cast<int>(step),
          .kernel = kernel == nullptr
                        ? std::string()
                        : shown->manifest().kernels[static_cast<size_t>(kernel->kernel)].name,
          .buffer = name_of_buffer,
          .text = fmt::format("{}, which writes {}", StepText(shown->manifest(), program, step),
                              name_of_buffer)};
      if (!question.follows) return found;
      // Padding may have reached other elements before without changing them.
      found.reach = ReachIn(found.step, device, index, question, statics);
      if (found.reach) found.text += ", by way of " + TextOf(*found.reach);
      return found;
    }
  }
  return CannotTell("all temporaries that can be compared are equal");
}

absl::StatusOr<PaddingPath> FollowPadding(const PackageDevice& device,
                                          int index,
                                          const StepQuestion& question,
                                          const std::vector<HostArray>& statics) {
  return Follow(device, index, question, statics, /*marks_all=*/false);
}

namespace {

absl::StatusOr<PaddingPath> Follow(const PackageDevice& device,
                                   int index,
                                   const StepQuestion& question,
                                   const std::vector<HostArray>& statics,
                                   bool marks_all) {
  Emulator* const emulator = device.chosen().emulator();
  if (emulator == nullptr) return CannotTell("only the emulator can follow padding");
  COPPICE_ASSIGN_OR_RETURN(const ShownProgram shown, ShownProgram::Create(device, index, question));
  const package::Program& program = shown.program();
  std::vector<RunOutcome> outcomes;
  std::vector<ReachedArray> reached;
  PaddingPath path;
  for (const bool padded : {false, true}) {
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRunner> runner,
                             ProgramRunner::Create(device, shown.options, statics));
    const CallWatch watch{
        .placed =
            [&](const std::vector<Tensor>& inputs) {
              emulator->FollowPadding();
              MarkInputs(*emulator, question.set.inputs, inputs, marks_all);
            },
        .ran =
            [&](const std::vector<Tensor>& outputs) {
              path.gaps = emulator->PaddingGaps();
              for (size_t i = 0; i < outputs.size(); ++i)
                reached.push_back(FindReached(*emulator, outcomes[0].outputs[i], outputs[i],
                                              shown.real, shown.padded));
            }};
    COPPICE_ASSIGN_OR_RETURN(
        outcomes.emplace_back(),
        padded ? runner->Run(shown.padded_set, Poison::kOff, watch) : runner->Run(question.set));
  }
  for (size_t i = 0; i < reached.size(); ++i)
    if (!reached[i].is_known)
      path.gaps.push_back(
          fmt::format("{}, whose sizes do not tell which elements are padding",
                      program.buffers[static_cast<size_t>(program.outputs[i])].name));
  const std::vector<int>& declared = device.manifest().programs[static_cast<size_t>(index)].outputs;
  for (size_t step = 0; step < program.steps.size(); ++step) {
    for (const int buffer : UsesOf(shown.loaded->manifest(), program.steps[step]).writes) {
      const auto output = std::ranges::find(program.outputs, buffer);
      if (output == program.outputs.end()) continue;
      const auto at = static_cast<size_t>(output - program.outputs.begin());
      if (!reached[at].first) continue;
      const bool is_output = at < declared.size();
      path.reaches_output = path.reaches_output || is_output;
      if (path.step >= 0) continue;
      path.step = static_cast<int>(step);
      path.buffer = program.buffers[static_cast<size_t>(buffer)].name;
      path.is_output = is_output;
      std::tie(path.element, path.reach) = *reached[at].first;
      const std::vector<std::string> names = InputNames(program, /*static_ones=*/false);
      for (const int input : path.reach.inputs)
        path.inputs.push_back(names[static_cast<size_t>(input)]);
    }
  }
  return path;
}

}  // namespace

std::string TextOf(const PaddingReach& reach) {
  if (reach.kernel.empty()) return "a copy";
  return fmt::format("kernel {}, PTX line {}{}, thread ({}) of block ({})", reach.kernel,
                     reach.line, reach.source.empty() ? "" : fmt::format(" ({})", reach.source),
                     fmt::join(reach.thread, ", "), fmt::join(reach.block, ", "));
}

std::string TextOf(const PaddingPath& path) {
  const std::string gaps =
      path.gaps.empty()
          ? ""
          : fmt::format("; padding cannot be followed through {}", fmt::join(path.gaps, ", "));
  if (path.step < 0) return "padding reaches no live element of an output or a temporary" + gaps;
  return fmt::format("padding of {} reaches {}[{}]{} in step {}: {}{}{}",
                     fmt::join(path.inputs, ", "), path.buffer, fmt::join(path.element, ", "),
                     path.is_output ? "" : ", a temporary,", path.step, TextOf(path.reach),
                     path.reaches_output ? "" : "; it reaches no live element of an output", gaps);
}

}  // namespace coppice
