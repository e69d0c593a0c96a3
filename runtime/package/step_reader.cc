// Steps of a program: what they run, on which buffers.

#include <algorithm>
#include <utility>

#include "base/json_fields.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {
namespace {

constexpr int64_t kStepsMax = 65'536;
constexpr int64_t kOptionsMax = 1024;

// What reading one step needs. `scope` has no values of a kernel.
struct StepPlace {
  const Manifest& manifest;
  const Program& program;
  ExpressionBudget& budget;
  const Scope& scope;
};

// An operand that is all of `value`.
absl::StatusOr<Operand> ReadPlainOperand(Json value, const StepPlace& place, Access access) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"buffer", "offset?"}));
  COPPICE_ASSIGN_OR_RETURN(Operand operand, ReadOperand(value, place.scope));
  COPPICE_RETURN_IF_ERROR(CheckAccess(value, place.program, operand.buffer, access));
  return operand;
}

absl::StatusOr<std::vector<Expression>> ReadAssumptions(Json list, const Scope& scope) {
  constexpr int64_t kAssumptionsMax = 256;
  std::vector<Expression> assumptions;
  if (!list.present()) return assumptions;
  COPPICE_RETURN_IF_ERROR(CheckList(list, 0, kAssumptionsMax));
  for (const Json value : list) {
    COPPICE_ASSIGN_OR_RETURN(Expression assumption, scope.ExpressionOf(value));
    assumptions.push_back(std::move(assumption));
  }
  return assumptions;
}

absl::StatusOr<KernelStep> ReadKernelStep(Json value, const StepPlace& place) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"args", "assumes?", "grid", "if?", "kernel", "op"}));
  KernelStep step;
  COPPICE_ASSIGN_OR_RETURN(step.kernel,
                           ReferenceOf(value["kernel"], place.manifest.kernels, "kernels"));
  const Kernel& kernel = place.manifest.kernels[static_cast<size_t>(step.kernel)];
  for (const std::string& name : kernel.value_names) {
    if (IndexOf(place.program.symbols, name) >= 0 || IndexOf(place.program.scalars, name) >= 0)
      return value["kernel"].Error(
          "{} has a value with the name {}, which is also a symbol or a scalar of the program; "
          "rename one of them",
          value["kernel"].Show(), name);
  }
  const Scope scope(place.program, place.budget, kernel.value_names);
  COPPICE_RETURN_IF_ERROR(CheckList(value["grid"], 3, 3));
  size_t axis = 0;
  for (const Json extent : value["grid"]) {
    COPPICE_ASSIGN_OR_RETURN(step.grid[axis++], scope.AmountOf(extent, 0));
  }
  const Json args = value["args"];
  COPPICE_RETURN_IF_ERROR(CheckKind(args, JsonKind::kList));
  if (args.size() != kernel.parameter_bytes.size())
    return args.Error("{}; write one argument for each parameter of {} ({} in all)", args.Show(),
                      value["kernel"].Show(), kernel.parameter_bytes.size());
  step.args.reserve(args.size());
  for (const Json each : args) {
    COPPICE_ASSIGN_OR_RETURN(Argument argument, ReadArgument(each, scope, kernel));
    const int32_t expected = kernel.parameter_bytes[step.args.size()];
    const int64_t bytes = LayoutOf(argument).bytes;
    if (bytes != expected)
      return each.Error(
          "has {} bytes, but parameter {} of {} has {}; write an argument of that size", bytes,
          step.args.size(), value["kernel"].Show(), expected);
    step.args.push_back(std::move(argument));
  }
  COPPICE_ASSIGN_OR_RETURN(step.assumes, ReadAssumptions(value["assumes"], scope));
  return step;
}

absl::StatusOr<MemsetStep> ReadMemset(Json value, const StepPlace& place) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"count", "if?", "op", "to", "value", "width"}));
  MemsetStep step;
  COPPICE_ASSIGN_OR_RETURN(step.to, ReadPlainOperand(value["to"], place, Access::kWrite));
  COPPICE_ASSIGN_OR_RETURN(const int64_t width, IntegerOf(value["width"], 1, 4));
  if (width == 3) return value["width"].Error("3; write 1, 2 or 4 bytes");
  step.width = static_cast<int32_t>(width);
  COPPICE_ASSIGN_OR_RETURN(const int64_t bits,
                           IntegerOf(value["value"], 0, (int64_t{1} << (8 * width)) - 1));
  step.value = static_cast<uint32_t>(bits);
  COPPICE_ASSIGN_OR_RETURN(step.count, place.scope.AmountOf(value["count"], 0));
  return step;
}

absl::StatusOr<MemcpyStep> ReadMemcpy(Json value, const StepPlace& place) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"bytes", "from", "if?", "op", "to"}));
  MemcpyStep step;
  COPPICE_ASSIGN_OR_RETURN(step.to, ReadPlainOperand(value["to"], place, Access::kWrite));
  COPPICE_ASSIGN_OR_RETURN(step.from, ReadPlainOperand(value["from"], place, Access::kRead));
  COPPICE_ASSIGN_OR_RETURN(step.bytes, place.scope.AmountOf(value["bytes"], 0));
  return step;
}

absl::StatusOr<std::vector<View>> ReadViews(Json list, const StepPlace& place, Access access) {
  COPPICE_RETURN_IF_ERROR(CheckKind(list, JsonKind::kList));
  std::vector<View> views;
  views.reserve(list.size());
  for (const Json value : list) {
    COPPICE_RETURN_IF_ERROR(
        CheckFields(value, {"buffer", "dtype", "offset?", "shape", "strides?"}));
    View view;
    COPPICE_ASSIGN_OR_RETURN(view.operand, ReadOperand(value, place.scope));
    COPPICE_RETURN_IF_ERROR(CheckAccess(value, place.program, view.operand.buffer, access));
    COPPICE_ASSIGN_OR_RETURN(Layout layout, LayoutOf(value, place.scope));
    view.dtype = layout.dtype;
    view.shape = std::move(layout.shape);
    view.strides = std::move(layout.strides);
    views.push_back(std::move(view));
  }
  return views;
}

absl::StatusOr<CallStep> ReadCall(Json value, const StepPlace& place) {
  COPPICE_RETURN_IF_ERROR(
      CheckFields(value, {"function", "if?", "inputs", "op", "options?", "outputs"}));
  CallStep step;
  COPPICE_ASSIGN_OR_RETURN(step.function, NameOf(value["function"]));
  COPPICE_ASSIGN_OR_RETURN(step.inputs, ReadViews(value["inputs"], place, Access::kRead));
  COPPICE_ASSIGN_OR_RETURN(step.outputs, ReadViews(value["outputs"], place, Access::kWrite));
  const Json options = value["options"];
  if (!options.present()) return step;
  COPPICE_RETURN_IF_ERROR(CheckObject(options, 0, kOptionsMax));
  for (const Json option : options) {
    COPPICE_RETURN_IF_ERROR(CheckName(option));
    if (option.is(JsonKind::kInteger))
      step.options[std::string(option.key())] = option.integer();
    else if (option.is(JsonKind::kText))
      step.options[std::string(option.key())] = std::string(option.text());
    else
      return option.Error("{}; write a string or an integer", option.Show());
  }
  return step;
}

// The operands for `buffers` of a child, in their order.
absl::StatusOr<std::vector<Operand>> ReadChildBuffers(Json object,
                                                      const StepPlace& place,
                                                      const Program& child,
                                                      const std::vector<int>& buffers) {
  std::vector<Operand> operands;
  operands.reserve(buffers.size());
  for (const int index : buffers) {
    const Buffer& buffer = child.buffers[static_cast<size_t>(index)];
    const Json value = object[buffer.name];
    if (!value.present())
      return object.Error("has no entry for {} of the program {}; add it",
                          QuoteText(buffer.name, kNameMax), QuoteText(child.name, kNameMax));
    const bool written = buffer.role == Role::kOutput || buffer.mutated;
    COPPICE_ASSIGN_OR_RETURN(
        Operand operand, ReadPlainOperand(value, place, written ? Access::kWrite : Access::kRead));
    operands.push_back(std::move(operand));
  }
  return operands;
}

// That a program can be a step: it takes sizes and buffers, and nothing else.
absl::Status CheckChild(Json value, const Program& child) {
  if (!child.scalars.empty())
    return value.Error("{} has scalars, which a step cannot pass; run a program without scalars",
                       value.Show());
  for (const int output : child.outputs) {
    const Buffer& buffer = child.buffers[static_cast<size_t>(output)];
    if (buffer.alias)
      return value.Error(
          "its output {} is an alias, but a step gives memory to each output; run a program "
          "without aliases",
          QuoteText(buffer.name, kNameMax));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChildStep> ReadChild(Json value, const StepPlace& place) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"buffers", "if?", "op", "program", "symbols"}));
  ChildStep step;
  COPPICE_ASSIGN_OR_RETURN(step.program,
                           ReferenceOf(value["program"], place.manifest.programs, "programs"));
  const Program& child = place.manifest.programs[static_cast<size_t>(step.program)];
  COPPICE_RETURN_IF_ERROR(CheckChild(value["program"], child));
  const Json symbols = value["symbols"];
  COPPICE_RETURN_IF_ERROR(CheckKind(symbols, JsonKind::kObject));
  for (const Json symbol : symbols) {
    const int index = IndexOf(child.symbols, symbol.key());
    if (index < 0)
      return symbol.Error("the program {} has no symbol of this name; remove the entry",
                          value["program"].Show());
    COPPICE_ASSIGN_OR_RETURN(Amount size, place.scope.AmountOf(symbol, 0));
    step.symbols.push_back(std::move(size));  // Both are sorted by name.
  }
  if (step.symbols.size() != child.symbols.size())
    return symbols.Error("{}; give a size for each symbol of the program {} ({} in all)",
                         symbols.Show(), value["program"].Show(), child.symbols.size());
  const Json buffers = value["buffers"];
  COPPICE_RETURN_IF_ERROR(CheckKind(buffers, JsonKind::kObject));
  COPPICE_ASSIGN_OR_RETURN(step.inputs, ReadChildBuffers(buffers, place, child, child.inputs));
  COPPICE_ASSIGN_OR_RETURN(step.outputs, ReadChildBuffers(buffers, place, child, child.outputs));
  for (const Json buffer : buffers) {
    const int index = IndexOf(child.buffers, buffer.key());
    const Role role = index < 0 ? Role::kTemporary : child.buffers[static_cast<size_t>(index)].role;
    if (role != Role::kInput && role != Role::kOutput)
      return buffer.Error("the program {} has no input or output of this name; remove the entry",
                          value["program"].Show());
  }
  return step;
}

absl::StatusOr<Step> ReadStep(Json value, const StepPlace& place) {
  COPPICE_RETURN_IF_ERROR(CheckKind(value, JsonKind::kObject));
  if (!value["op"].present()) return value.Error("has no field \"op\"; add it");
  COPPICE_ASSIGN_OR_RETURN(const int operation, WordOf(value["op"], kStepOps));
  Step step;
  if (const Json condition = value["if"]; condition.present()) {
    COPPICE_ASSIGN_OR_RETURN(step.condition, place.scope.ExpressionOf(condition));
  }
  switch (operation) {
    case 0: {
      COPPICE_ASSIGN_OR_RETURN(step.action, ReadKernelStep(value, place));
      break;
    }
    case 1: {
      COPPICE_ASSIGN_OR_RETURN(step.action, ReadMemset(value, place));
      break;
    }
    case 2: {
      COPPICE_ASSIGN_OR_RETURN(step.action, ReadMemcpy(value, place));
      break;
    }
    case 3: {
      COPPICE_ASSIGN_OR_RETURN(step.action, ReadCall(value, place));
      break;
    }
    default: {
      COPPICE_ASSIGN_OR_RETURN(step.action, ReadChild(value, place));
      break;
    }
  }
  return step;
}

}  // namespace

absl::StatusOr<std::vector<Step>> ReadSteps(Json steps,
                                            const Manifest& manifest,
                                            const Program& program,
                                            ExpressionBudget& budget) {
  COPPICE_RETURN_IF_ERROR(CheckList(steps, 0, kStepsMax));
  const Scope scope(program, budget, {});
  const StepPlace place{manifest, program, budget, scope};
  std::vector<Step> read;
  read.reserve(steps.size());
  for (const Json value : steps) {
    COPPICE_ASSIGN_OR_RETURN(Step step, ReadStep(value, place));
    read.push_back(std::move(step));
  }
  return read;
}

}  // namespace coppice::package
