// From the way that says most to those that say less.

#include "tools/replay/examination.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/runtime/package_uses.h"

#include "tools/package/compare_runs.h"
#include "tools/package/first_step.h"
#include "tools/package/input_reach.h"
#include "tools/replay/unread_arguments.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr std::array kPoisons = {Poison::kNan, Poison::kPattern, Poison::kNoise};
constexpr char kFreshByte = '\xCB';  // Of the emulator's memory that nobody has written.
constexpr size_t kTellingBytes = 4;  // In smaller elements these bits may be a result.
constexpr Way kOwnSize = {.padded = false, .uninitialized = true};

VerdictKind KindOf(const std::optional<KernelFinding>& finding) {
  if (!finding) return VerdictKind::kFault;
  switch (finding->kind) {
    case KernelFinding::Kind::kOutOfBounds:
      return VerdictKind::kOutOfBounds;
    case KernelFinding::Kind::kMisaligned:
      return VerdictKind::kMisaligned;
    case KernelFinding::Kind::kRace:
    case KernelFinding::Kind::kReplicas:  // Which the player only notes.
      return VerdictKind::kRace;
    case KernelFinding::Kind::kUninitialized:
      return VerdictKind::kUninitialized;
    case KernelFinding::Kind::kAssert:
    case KernelFinding::Kind::kTrap:
    case KernelFinding::Kind::kIllegalInstruction:
    case KernelFinding::Kind::kDeadlock:
      return VerdictKind::kFault;
  }
  return VerdictKind::kFault;
}

// A verdict about a call.
Verdict Begin(const Case& value, size_t call, VerdictKind kind, const Way& way) {
  const CaseCall& recorded = value.calls[call];
  return {.kind = kind,
          .call = recorded.number,
          .program = value.programs[static_cast<size_t>(recorded.program)].name,
          .way = way,
          .extents = recorded.extents,
          .bucket = recorded.bucket};
}

// What a run is compared with may come from another kind of device, which rounds otherwise.
Equality RecordedEquality(const Case& value) {
  if (value.driver == "emulator") return {};
  return {.bits = false, .absolute = 1e-4, .relative = 1e-2};
}

// The first argument of a step that its kernel is given for a size or a scalar and never reads.
std::optional<int> UnreadNumber(const package::Package& package, const package::KernelStep& step) {
  const package::Kernel& kernel = package.manifest().kernels[static_cast<size_t>(step.kernel)];
  const std::vector<bool> read = ParametersRead(package, kernel);
  for (size_t i = 0; i < std::min(read.size(), step.args.size()); ++i) {
    const auto* const number = std::get_if<package::IntegerArgument>(&step.args[i]);
    if (!read[i] && number != nullptr && number->value.expression.has_value())
      return static_cast<int>(i);
  }
  return std::nullopt;
}

// If the kernel that was found never reads a size that it is given, that is why.
void FindBakedIn(const package::Package& package, Verdict& verdict) {
  const package::Manifest& manifest = package.manifest();
  const auto program =
      std::ranges::find(manifest.programs, verdict.program, &package::Program::name);
  if (program == manifest.programs.end() || verdict.step < 0 ||
      verdict.step >= static_cast<int>(program->steps.size()))
    return;
  const package::Step& step = program->steps[static_cast<size_t>(verdict.step)];
  const auto* const launch = std::get_if<package::KernelStep>(&step.action);
  if (launch == nullptr) return;
  const std::optional<int> unread = UnreadNumber(package, *launch);
  if (!unread) return;
  verdict.kind = VerdictKind::kBakedIn;
  verdict.text =
      fmt::format("the kernel never reads its argument {}, a size; {}", *unread, verdict.text);
}

std::optional<Verdict> FindDangling(const Case& value) {
  for (size_t i = 0; i < value.calls.size(); ++i) {
    const CaseCall& call = value.calls[i];
    const CaseProgram& program = value.programs[static_cast<size_t>(call.program)];
    const auto dangling = [](const CaseStatic& each) { return each.dangling; };
    const std::vector<CaseStatic>* statics = &call.statics;
    if (std::ranges::none_of(*statics, dangling) && call.binding >= 0)
      statics = &value.bindings[static_cast<size_t>(call.binding)].statics;
    const auto found = std::ranges::find_if(*statics, dangling);
    if (found == statics->end()) continue;
    Verdict verdict = Begin(value, i, VerdictKind::kStaleInput, {});
    const std::string& name = program.statics[static_cast<size_t>(found - statics->begin())];
    verdict.text = fmt::format("static input '{}' lies in memory that was freed", name);
    verdict.hit = {name, program.name};
    return verdict;
  }
  return std::nullopt;
}

// How many calls the recorder did not keep, whose results others may have read.
void NoteMissing(const Case& value, std::vector<std::string>& notes) {
  const auto note = [&notes](int64_t count, const char* why) {
    if (count > 0)
      notes.push_back(fmt::format("not in the case: {}, {}", Counted(count, "call"), why));
  };
  note(value.calls_refused, "because the ring had no room");
  note(value.calls_skipped, "because of the limit on the time of copies");
}

// A device that stopped before the inputs of a call were there stopped while they were copied.
std::optional<Verdict> FindLost(const Case& value) {
  if (value.error.empty()) return std::nullopt;
  for (size_t i = 0; i < value.calls.size(); ++i) {
    if (value.calls[i].arrived) continue;
    Verdict verdict = Begin(value, i, VerdictKind::kStaleInput, {});
    verdict.text =
        "the device stopped before the inputs of this call were staged, and earlier calls are "
        "correct: an input lies in memory that was freed, or other work on the device failed";
    return verdict;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Examination> Examination::Create(const Case& value, const PlaySource& source) {
  COPPICE_ASSIGN_OR_RETURN(package::Package package,
                           PackageDevice::OpenPackage(source.package, {}));
  for (const CaseCall& call : value.calls) {
    const CaseProgram& program = value.programs[static_cast<size_t>(call.program)];
    if (!program.package_program.empty() && program.package_sha256 != package.manifest().sha256)
      return InvalidArgument(
          "{}: the SHA-256 of its manifest is {}, but program '{}' in the case comes from a "
          "manifest whose SHA-256 is {}; give the package that the case was recorded with",
          source.package, package.manifest().sha256, program.name, program.package_sha256);
  }
  return Examination(source, std::move(package));
}

const package::Program& Examination::ProgramOf(const Case& value, const CaseCall& call) const {
  const CaseProgram& program = value.programs[static_cast<size_t>(call.program)];
  return *std::ranges::find(package_.manifest().programs, program.package_program,
                            &package::Program::name);
}

Verdict Examination::VerdictOf(const Case& value, const Trouble& trouble, const Way& way) const {
  Verdict verdict = Begin(value, trouble.call, KindOf(trouble.finding), way);
  verdict.text = trouble.text;
  verdict.hit = trouble.hit;
  if (!trouble.finding) return verdict;
  const KernelFinding& finding = *trouble.finding;
  verdict.text = finding.message;
  if (!finding.program.empty()) verdict.program = finding.program;
  verdict.step = finding.step;
  verdict.kernel = finding.kernel;
  verdict.ptx_line = finding.line;
  verdict.source = finding.source;
  verdict.has_thread = true;
  verdict.block = finding.block;
  verdict.thread = finding.thread;
  if (verdict.kind == VerdictKind::kOutOfBounds) FindBakedIn(package_, verdict);
  return verdict;
}

std::optional<Verdict> Examination::Compare(const Case& value,
                                            const Played& reference,
                                            const Played& played,
                                            const Way& way) const {
  for (size_t i = 0; i < value.calls.size(); ++i) {
    if (!reference.outcomes[i] || !played.outcomes[i]) continue;
    const CaseCall& call = value.calls[i];
    const package::Program& program = ProgramOf(value, call);
    const std::vector<Difference> differences =
        CompareRuns(program, EqualityOfProgram(program, ClaimsOf(value, call.program)),
                    *reference.outcomes[i], *played.outcomes[i]);
    if (differences.empty()) continue;
    const bool padded = call.bucket != call.extents;
    Verdict verdict =
        Begin(value, i, padded ? VerdictKind::kWrongClaim : VerdictKind::kDiffers, way);
    verdict.text = differences.front().text;
    verdict.hit = {differences.front().buffer, program.name};
    return verdict;
  }
  return std::nullopt;
}

std::optional<Verdict> Examination::CompareRecorded(const Case& value,
                                                    const Played& reference) const {
  if (value.values != CaseValues::kKeep) return std::nullopt;
  for (size_t i = 0; i < value.calls.size(); ++i) {
    const CaseCall& call = value.calls[i];
    if (!reference.outcomes[i]) continue;
    const package::Program& program = ProgramOf(value, call);
    Equality equal = EqualityOfProgram(program, ClaimsOf(value, call.program));
    if (const Equality device = RecordedEquality(value); !device.bits)
      equal = Joined(equal, device);
    for (size_t output = 0; output < call.outputs.size(); ++output) {
      if (call.outputs[output].empty()) continue;
      const std::string& name = value.programs[static_cast<size_t>(call.program)].outputs[output];
      const std::vector<Difference> differences =
          CompareArrays(name, equal, reference.outcomes[i]->outputs[output],
                        ArrayOf(value.tensors.at(call.outputs[output])));
      if (differences.empty()) continue;
      Verdict verdict = Begin(value, i, VerdictKind::kDiffers, kOwnSize);
      verdict.text = "as recorded, " + differences.front().text;
      verdict.hit = {name, program.name};
      return verdict;
    }
  }
  return std::nullopt;
}

// A scalar that kernels are given and none of them reads: results cannot depend on it.
std::optional<Verdict> Examination::FindUnreadScalar(const Case& value) const {
  for (size_t i = 0; i < value.calls.size(); ++i) {
    if (value.programs[static_cast<size_t>(value.calls[i].program)].package_program.empty())
      continue;
    const package::Program& program = ProgramOf(value, value.calls[i]);
    for (size_t scalar = 0; scalar < program.scalars.size(); ++scalar) {
      const size_t word = program.symbols.size() + scalar;
      const bool is_size = std::ranges::any_of(program.symbols, [&](const auto& symbol) {
        return symbol.scalar == static_cast<int>(scalar);
      });
      bool read = is_size || program.scalars[scalar].parameter;
      std::optional<Verdict> given;
      for (size_t s = 0; s < program.steps.size() && !read; ++s) {
        const auto* const step = std::get_if<package::KernelStep>(&program.steps[s].action);
        if (step == nullptr) continue;
        const package::Kernel& kernel =
            package_.manifest().kernels[static_cast<size_t>(step->kernel)];
        const std::vector<bool> parameters = ParametersRead(package_, kernel);
        for (size_t a = 0; a < step->args.size(); ++a) {
          const auto* const number = std::get_if<package::IntegerArgument>(&step->args[a]);
          if (number == nullptr || !number->value.expression) continue;
          if (std::ranges::count(number->value.expression->Reads(), word) == 0) continue;
          read = read || a >= parameters.size() || parameters[a];
          if (given) continue;
          given = Begin(value, i, VerdictKind::kBakedIn, kOwnSize);
          given->step = static_cast<int>(s);
          given->kernel = kernel.name;
          given->text = fmt::format("the kernel never reads its argument {}, the scalar '{}'", a,
                                    program.scalars[scalar].name);
        }
      }
      if (!read && given) return given;
    }
  }
  return std::nullopt;
}

// The first element at or behind `at` that holds what memory of the emulator holds before anybody
// writes to it; the number of elements if there is none.
size_t FindFresh(const HostArray& array, size_t at) {
  const auto size = static_cast<size_t>(SizeOf(array.dtype));
  const std::string fresh(size, kFreshByte);
  while (at * size < array.bytes.size() && array.bytes.compare(at * size, size, fresh) != 0)
    ++at;
  return at;
}

// An element of an output that holds what it held before the run, and that no input reaches: a
// result may have the same bits.
std::optional<size_t> Examination::FindUnwritten(const Case& value,
                                                 const CaseCall& call,
                                                 size_t output,
                                                 const HostArray& array) const {
  const size_t count = array.bytes.size() / static_cast<size_t>(SizeOf(array.dtype));
  size_t at = FindFresh(array, 0);
  if (at == count) return std::nullopt;
  std::vector<bool> reached;
  const absl::Status followed = AskOfCall(
      value, call, Poison::kOff,
      [&](const PackageDevice& device, int index, const StepQuestion& question,
          const std::vector<HostArray>& statics) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(InputReach reach,
                                 coppice::FollowInputs(device, index, question.set, statics));
        reached = std::move(reach.outputs[output].reached);
        return absl::OkStatus();
      });
  if (!followed.ok() || reached.size() != count) return std::nullopt;
  while (at < count && reached[at])
    at = FindFresh(array, at + 1);
  return at < count ? std::optional(at) : std::nullopt;
}

std::optional<Verdict> Examination::FindUnwritten(const Case& value,
                                                  const Played& reference) const {
  for (size_t i = 0; i < value.calls.size(); ++i) {
    if (!reference.outcomes[i]) continue;
    const package::Program& program = ProgramOf(value, value.calls[i]);
    for (size_t output = 0; output < program.outputs.size(); ++output) {
      const HostArray& array = reference.outcomes[i]->outputs[output];
      if (static_cast<size_t>(SizeOf(array.dtype)) < kTellingBytes) continue;
      const std::optional<size_t> at = FindUnwritten(value, value.calls[i], output, array);
      if (!at) continue;
      const int buffer = program.outputs[output];
      const std::string& name = program.buffers[static_cast<size_t>(buffer)].name;
      Verdict verdict = Begin(value, i, VerdictKind::kUninitialized, kOwnSize);
      verdict.text = fmt::format("nobody writes element {} of output '{}'", *at, name);
      verdict.hit = {name, program.name};
      for (size_t step = 0; step < program.steps.size(); ++step) {
        const auto* const launch = std::get_if<package::KernelStep>(&program.steps[step].action);
        const std::vector<int> written =
            package::UsesOf(package_.manifest(), program.steps[step]).writes;
        if (launch == nullptr || std::ranges::find(written, buffer) == written.end()) continue;
        verdict.step = static_cast<int>(step);
        verdict.kernel = package_.manifest().kernels[static_cast<size_t>(launch->kernel)].name;
      }
      FindBakedIn(package_, verdict);
      return verdict;
    }
  }
  return std::nullopt;
}

absl::StatusOr<Verdict> Examination::Examine(const Case& value,
                                             int64_t seeds,
                                             const Console& console) const {
  if (const std::optional<Verdict> dangling = FindDangling(value)) return *dangling;
  COPPICE_ASSIGN_OR_RETURN(const Played reference, PlayCase(value, source_, kOwnSize));
  const auto with_notes = [&](Verdict verdict) {
    verdict.notes = reference.notes;
    NoteMissing(value, verdict.notes);
    return verdict;
  };
  if (reference.trouble) return with_notes(VerdictOf(value, *reference.trouble, kOwnSize));
  std::vector<Way> ways;
  for (int64_t seed = 1; seed <= seeds; ++seed)
    ways.push_back({.seed = static_cast<uint64_t>(seed)});
  for (const Poison poison : kPoisons)
    ways.push_back({.poison = poison});
  for (const Way& way : ways) {
    if (console.stopped()) return absl::CancelledError(kStopped);
    COPPICE_ASSIGN_OR_RETURN(const Played played, PlayCase(value, source_, way));
    if (played.trouble) return with_notes(VerdictOf(value, *played.trouble, way));
    if (std::optional<Verdict> differs = Compare(value, reference, played, way)) {
      NameStep(value, *differs);
      if (differs->kind == VerdictKind::kDiffers) FindBakedIn(package_, *differs);
      return with_notes(*differs);
    }
  }
  for (const auto& find : {FindUnreadScalar(value), FindUnwritten(value, reference),
                           CompareRecorded(value, reference), FindLost(value)})
    if (find) return with_notes(*find);
  Verdict nothing{
      .text = fmt::format("{} ran without a finding", Counted(std::ssize(value.calls), "call"))};
  if (value.error.empty()) return with_notes(nothing);
  if (value.calls_refused + value.calls_skipped > 0) {
    nothing.kind = VerdictKind::kCannotReplay;
    nothing.text += ", but the call that failed may not be in the case";
  }
  nothing.text += fmt::format("; the device had said: {}", value.error);
  return with_notes(nothing);
}

absl::StatusOr<Verdict> Examination::LookAgain(const Case& value, const Verdict& found) const {
  if (const std::optional<Verdict> dangling = FindDangling(value)) return *dangling;
  COPPICE_ASSIGN_OR_RETURN(const Played played, PlayCase(value, source_, found.way));
  if (played.trouble) return VerdictOf(value, *played.trouble, found.way);
  if (found.way == kOwnSize) {
    for (const auto& find : {FindUnreadScalar(value), FindUnwritten(value, played)})
      if (find) return *find;
    return Verdict();
  }
  COPPICE_ASSIGN_OR_RETURN(const Played reference, PlayCase(value, source_, kOwnSize));
  if (reference.trouble) return VerdictOf(value, *reference.trouble, kOwnSize);
  std::optional<Verdict> differs = Compare(value, reference, played, found.way);
  if (!differs) return Verdict();
  NameStep(value, *differs);
  if (differs->kind == VerdictKind::kDiffers) FindBakedIn(package_, *differs);
  return *differs;
}

absl::Status Examination::AskOfCall(const Case& value,
                                    const CaseCall& call,
                                    Poison poison,
                                    const Ask& ask) const {
  const package::Program& program = ProgramOf(value, call);
  CallSet set{.extents = call.extents, .scalars = call.scalars, .inputs = {}};
  for (const CaseInput& input : call.inputs) {
    if (input.tensor.empty())
      return MakeError(absl::StatusCode::kUnimplemented, "an input comes from another call");
    set.inputs.push_back(ArrayOf(value.tensors.at(input.tensor)));
  }
  COPPICE_ASSIGN_OR_RETURN(package::Package package,
                           PackageDevice::OpenPackage(source_.package, {}));
  COPPICE_ASSIGN_OR_RETURN(const int index, FindProgram(package.manifest(), program.name));
  PackageDeviceOptions options;
  options.choice = DeviceChoice::kHost;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<PackageDevice> device,
                           PackageDevice::Create(options));
  COPPICE_RETURN_IF_ERROR(device->Load(std::move(package)));
  COPPICE_RETURN_IF_ERROR(device->TakeConstants(index, source_.constants));
  std::vector<HostArray> statics;
  std::vector<std::string> notes;
  if (call.binding >= 0) {
    COPPICE_ASSIGN_OR_RETURN(statics, StaticsOf(value, call.binding, program, notes));
  }
  const SizePair sizes{call.extents, call.bucket};
  PaddingContents contents = PaddingContents::kAny;
  const CaseProgram& recorded = value.programs[static_cast<size_t>(call.program)];
  for (size_t i = 0; i < recorded.symbols.size(); ++i)
    if (recorded.symbols[i].claim && sizes.real[i] != sizes.padded[i])
      contents = recorded.symbols[i].claim->padding;
  return ask(*device, index,
             {.sizes = sizes,
              .set = set,
              .poison = poison,
              .contents = contents,
              .equal = EqualityOfProgram(program, ClaimsOf(value, call.program)),
              .follows = true},
             statics);
}

void Examination::NameStep(const Case& value, Verdict& verdict) const {
  const auto found = std::ranges::find(value.calls, verdict.call, &CaseCall::number);
  if (found == value.calls.end()) return;
  const CaseCall& call = *found;
  const auto name = [&](const PackageDevice& device, int program, const StepQuestion& question,
                        const std::vector<HostArray>& statics) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const DifferingStep step,
                             FirstDifferingStep(device, program, question, statics));
    verdict.step = step.step;
    verdict.kernel = step.kernel;
    verdict.hit = {step.buffer, ProgramOf(value, call).name};
    if (!step.reach || step.reach->kernel.empty()) return absl::OkStatus();
    verdict.ptx_line = step.reach->line;
    verdict.source = step.reach->source;
    verdict.has_thread = true;
    verdict.block = step.reach->block;
    verdict.thread = step.reach->thread;
    return absl::OkStatus();
  };
  // If several sizes are padded, one of them alone may do it. If no step can be named, the verdict
  // stands without one.
  if (AskOfCall(value, call, verdict.way.poison, name).ok()) return;
  for (size_t i = 0; i < call.extents.size(); ++i) {
    if (call.bucket[i] == call.extents[i]) continue;
    CaseCall alone = call;
    alone.bucket = call.extents;
    alone.bucket[i] = call.bucket[i];
    if (alone.bucket != call.bucket && AskOfCall(value, alone, verdict.way.poison, name).ok())
      return;
  }
}

std::vector<FollowedPadding> Examination::FollowPadding(const Case& value,
                                                        const Console& console) const {
  std::vector<FollowedPadding> all;
  for (const CaseCall& call : value.calls) {
    const CaseProgram& program = value.programs[static_cast<size_t>(call.program)];
    if (program.package_program.empty()) continue;
    // What is padding of one size can be told; of several at once, it cannot.
    for (size_t i = 0; i < program.symbols.size() && !console.stopped(); ++i) {
      if (call.bucket[i] == call.extents[i]) continue;
      CaseCall alone = call;
      alone.bucket = call.extents;
      alone.bucket[i] = call.bucket[i];
      const std::optional<PaddingClaim>& claim = program.symbols[i].claim;
      FollowedPadding& followed = all.emplace_back();
      followed.call = call.number;
      followed.program = program.package_program;
      followed.symbol = program.symbols[i].name;
      followed.may_be_anything = claim && claim->padding == PaddingContents::kAny;
      const absl::Status status =
          AskOfCall(value, alone, Poison::kOff,
                    [&](const PackageDevice& device, int index, const StepQuestion& question,
                        const std::vector<HostArray>& statics) -> absl::Status {
                      COPPICE_ASSIGN_OR_RETURN(
                          followed.path, coppice::FollowPadding(device, index, question, statics));
                      return absl::OkStatus();
                    });
      if (!status.ok()) followed.why = MessageOf(status);
    }
  }
  return all;
}

std::vector<FollowedInputs> Examination::FollowInputs(const Case& value,
                                                      const Console& console) const {
  std::map<int, const CaseCall*> last;
  for (const CaseCall& call : value.calls)
    if (!value.programs[static_cast<size_t>(call.program)].package_program.empty())
      last[call.program] = &call;
  std::vector<FollowedInputs> all;
  for (const auto& [program, call] : last) {
    if (console.stopped()) break;
    FollowedInputs& followed = all.emplace_back();
    followed.call = call->number;
    followed.program = value.programs[static_cast<size_t>(program)].package_program;
    const absl::Status status = AskOfCall(
        value, *call, Poison::kOff,
        [&](const PackageDevice& device, int index, const StepQuestion& question,
            const std::vector<HostArray>& statics) -> absl::Status {
          COPPICE_ASSIGN_OR_RETURN(followed.reach,
                                   coppice::FollowInputs(device, index, question.set, statics));
          return absl::OkStatus();
        });
    if (!status.ok()) followed.why = MessageOf(status);
  }
  return all;
}

}  // namespace coppice
