// What kernels were compiled for, held to the guards; what claims promise, held to the steps.

#include <algorithm>
#include <set>
#include <string>
#include <variant>

#include "fmt/format.h"

#include "coppice/base/units.h"
#include "coppice/runtime/package_uses.h"

#include "runtime/package/lint/program_lint.h"

namespace coppice::package {
namespace {

// A specialisation that does not hold at `point`.
void ReportUnheld(ProgramLint& lint,
                  const Point& point,
                  const Place& place,
                  const std::string& condition) {
  if (point.padded)
    lint.report.Error("bucket-specialised", place, condition,
                      fmt::format("the kernel was compiled for this condition, but calls may be {}",
                                  lint.Sizes(point)),
                      "give the symbols buckets or a multiple_of that satisfy the condition");
  else
    lint.report.Error(
        "guard-missing", place, condition,
        fmt::format("the kernel was compiled for this condition, but no guard refuses calls {}",
                    lint.Sizes(point)),
        fmt::format("add the guard \"{}\"", condition));
}

// What the address of a buffer's first byte is a multiple of, in every call.
int64_t AlignmentOf(const ProgramLint& lint, int index) {
  const Buffer& buffer = lint.buffer(index);
  if (buffer.alias) return AlignmentOf(lint, buffer.alias->buffer);
  return buffer.role == Role::kInput ? buffer.align : kBufferAlignment;
}

struct Specialised {
  ProgramLint& lint;
  const Point& point;
  std::span<const int64_t> values;

  void Check(const Argument& argument, const Place& place) const {
    if (const auto* const integer = std::get_if<IntegerArgument>(&argument))
      CheckMultiple(integer->value, integer->divisible_by, place);
    if (const auto* const buffer = std::get_if<BufferArgument>(&argument))
      CheckAddress(*buffer, place);
    if (const auto* const members = std::get_if<StructArgument>(&argument))
      for (size_t i = 0; i < members->members.size(); ++i)
        Check(members->members[i], place / "struct" / i);
  }

  void CheckMultiple(const Amount& amount, int64_t of, const Place& place) const {
    const Computed computed = amount.At(values);
    if (of > 1 && computed.ok() && computed.value % of != 0)
      ReportUnheld(lint, point, place / "divisible_by",
                   fmt::format("({}) % {} == 0", TextOf(amount), of));
  }

  void CheckAddress(const BufferArgument& argument, const Place& place) const {
    if (argument.divisible_by <= 1) return;
    const Buffer& buffer = lint.buffer(argument.operand.buffer);
    const int64_t alignment = AlignmentOf(lint, argument.operand.buffer);
    if (alignment % argument.divisible_by != 0)
      lint.report.Error("address-align", place / "divisible_by",
                        std::to_string(argument.divisible_by),
                        fmt::format("{} is only aligned to {} bytes", buffer.name, alignment),
                        buffer.role == Role::kInput ? "raise \"align\" of the input"
                                                    : "compile the kernel for that alignment");
    CheckMultiple(argument.operand.offset, argument.divisible_by, place);
    if (buffer.alias) CheckMultiple(buffer.alias->offset, argument.divisible_by, place);
  }
};

void LintSpecialisations(ProgramLint& lint) {
  for (const Point& point : lint.points) {
    for (size_t i = 0; i < lint.program.steps.size(); ++i) {
      const Step& step = lint.program.steps[i];
      const auto* const kernel = std::get_if<KernelStep>(&step.action);
      const Place place = lint.place / "steps" / i;
      if (kernel == nullptr || lint.IsSkipped(step, place, point)) continue;
      for (const Target* const target : lint.TargetsOf(kernel->kernel)) {
        const std::vector<int64_t> values = WithValues(point, *target);
        const Specialised specialised{lint, point, values};
        for (size_t a = 0; a < kernel->args.size(); ++a)
          specialised.Check(kernel->args[a], place / "args" / a);
        for (size_t a = 0; a < kernel->assumes.size(); ++a)
          if (!kernel->assumes[a].Evaluate(values).is_true())
            ReportUnheld(lint, point, place / "assumes" / a, kernel->assumes[a].text());
      }
    }
  }
}

bool IsInteger(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 ||
         dtype == DType::kInt64 || dtype == DType::kUInt8 || dtype == DType::kUInt16 ||
         dtype == DType::kUInt32 || dtype == DType::kUInt64;
}

// Follows what padding of one symbol may hold through the steps: until a step that reads lengths,
// or what such a step wrote, whatever is computed from it may hold it too.
class PaddingWalk {
 public:
  PaddingWalk(ProgramLint& lint, size_t symbol) : lint_(lint), symbol_(symbol) {
    for (const int input : lint.program.inputs) {
      const Buffer& buffer = lint.buffer(input);
      if (HasAxis(buffer)) padded_.insert(input);
      if (HasAxis(buffer) ? TellsPadding(buffer) : IsInteger(buffer.dtype) && !buffer.is_static)
        lengths_.insert(input);
    }
  }

  void Run() {
    for (size_t i = 0; i < lint_.program.steps.size(); ++i)
      Follow(UsesOf(lint_.manifest, lint_.program.steps[i]), lint_.place / "steps" / i);
  }

 private:
  void Follow(const StepUses& uses, const Place& place) {
    const auto any_of = [&](const std::set<int>& of) {
      return std::any_of(uses.reads.begin(), uses.reads.end(),
                         [&](int buffer) { return of.contains(RootOf(buffer)); });
    };
    const Symbol& symbol = lint_.program.symbols[symbol_];
    const auto names = [](const std::vector<int>& all, int one) {
      return one >= 0 && std::find(all.begin(), all.end(), one) != all.end();
    };
    const bool knows = names(uses.real_symbols, static_cast<int>(symbol_)) ||
                       names(uses.real_scalars, symbol.scalar) || any_of(lengths_);
    const bool spreads = !knows && any_of(padded_);
    for (const int write : uses.writes) {
      const int root = RootOf(write);
      if (knows) lengths_.insert(root);
      if (!spreads) continue;
      padded_.insert(root);
      const Buffer& buffer = lint_.buffer(write);
      // A step whose result has no such axis has summed, or chosen, over padding and all.
      if (!HasAxis(buffer) && buffer.role != Role::kTemporary)
        lint_.report.Add(
            Severity::kWarning, "claim-reader", lint_.place / "symbols" / symbol.name / "claim",
            buffer.name,
            fmt::format("the step at {} computes this buffer from data that is padded along {}; "
                        "the buffer has no such axis, and no step in between reads a length",
                        place.pointer(), symbol.name),
            "pass {\"real\": ...} or lengths to the kernel, or claim \"padding\": \"fill\"");
    }
  }

  // Whether padded elements are those that hold what they are filled with, such as indices of rows
  // that nobody reads.
  bool TellsPadding(const Buffer& buffer) const {
    return IsInteger(buffer.dtype) && !buffer.is_static &&
           lint_.program.symbols[symbol_].claim->padding != PaddingContents::kAny &&
           IsConstant(buffer.fill.kind) && buffer.fill.kind != FillKind::kZero;
  }

  int RootOf(int buffer) const {
    const auto& alias = lint_.buffer(buffer).alias;
    return alias ? alias->buffer : buffer;
  }

  bool HasAxis(const Buffer& buffer) const {
    return std::any_of(buffer.shape.begin(), buffer.shape.end(), [&](const Amount& size) {
      if (!size.expression) return false;
      const std::vector<size_t> reads = size.expression->Reads();
      return std::find(reads.begin(), reads.end(), symbol_) != reads.end();
    });
  }

  ProgramLint& lint_;
  const size_t symbol_;
  std::set<int> padded_;   // Buffers that hold what padding held.
  std::set<int> lengths_;  // Buffers that say, or were computed by, which part is real.
};

}  // namespace

void LintPromises(ProgramLint& lint) {
  LintSpecialisations(lint);
  std::set<int> read;
  for (size_t i = 0; i < lint.program.steps.size(); ++i)
    for (const int symbol : UsesOf(lint.manifest, lint.program.steps[i]).real_symbols)
      if (!lint.program.symbols[static_cast<size_t>(symbol)].claim && read.insert(symbol).second)
        lint.report.Add(Severity::kNote, "real-unpadded", lint.place / "steps" / i,
                        lint.program.symbols[static_cast<size_t>(symbol)].name,
                        "a step reads the real size of this symbol, but a symbol without a claim "
                        "is never padded",
                        "add the claim that holds because the step reads the real size");
  for (size_t i = 0; i < lint.program.symbols.size(); ++i) {
    const Symbol& symbol = lint.program.symbols[i];
    if (symbol.claim && symbol.claim->padding != PaddingContents::kFill) PaddingWalk(lint, i).Run();
  }
}

}  // namespace coppice::package
