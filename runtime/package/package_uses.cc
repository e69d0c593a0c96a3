// Steps, argument by argument.

#include "coppice/runtime/package_uses.h"

#include <optional>
#include <utility>
#include <variant>

namespace coppice::package {
namespace {

void Add(int buffer, Access access, StepUses& uses) {
  if (access != Access::kWrite) uses.reads.push_back(buffer);
  if (access != Access::kRead) uses.writes.push_back(buffer);
}

void AddArgument(const Argument& argument, StepUses& uses) {
  if (const auto* const buffer = std::get_if<BufferArgument>(&argument))
    Add(buffer->operand.buffer, buffer->access, uses);
  if (const auto* const map = std::get_if<TensorMapArgument>(&argument))
    Add(map->operand.buffer, map->access, uses);
  if (const auto* const scratch = std::get_if<ScratchArgument>(&argument))
    uses.scratches.push_back(scratch->index);
  if (const auto* const real = std::get_if<RealArgument>(&argument)) {
    if (real->symbol >= 0) uses.real_symbols.push_back(real->symbol);
    if (real->scalar >= 0) uses.real_scalars.push_back(real->scalar);
  }
  if (const auto* const members = std::get_if<StructArgument>(&argument))
    for (const Argument& member : members->members)
      AddArgument(member, uses);
}

struct UsesVisitor {
  const Manifest& manifest;
  StepUses uses{};

  void operator()(const KernelStep& step) {
    for (const Argument& argument : step.args)
      AddArgument(argument, uses);
  }
  void operator()(const MemsetStep& step) { Add(step.to.buffer, Access::kWrite, uses); }
  void operator()(const MemcpyStep& step) {
    Add(step.from.buffer, Access::kRead, uses);
    Add(step.to.buffer, Access::kWrite, uses);
  }
  void operator()(const CallStep& step) {
    for (const View& view : step.inputs)
      Add(view.operand.buffer, Access::kRead, uses);
    for (const View& view : step.outputs)
      Add(view.operand.buffer, Access::kWrite, uses);
  }
  void operator()(const ChildStep& step) {
    const Program& child = manifest.programs[static_cast<size_t>(step.program)];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Buffer& buffer = child.buffers[static_cast<size_t>(child.inputs[i])];
      Add(step.inputs[i].buffer, buffer.mutated ? Access::kReadWrite : Access::kRead, uses);
    }
    for (const Operand& output : step.outputs)
      Add(output.buffer, Access::kWrite, uses);
  }
};

using SeeAmount = std::function<void(const Amount&)>;

void SeeAll(const std::vector<Amount>& amounts, const SeeAmount& see) {
  for (const Amount& amount : amounts)
    see(amount);
}

void SeeArgument(const Argument& argument, const SeeAmount& see) {
  if (const auto* const buffer = std::get_if<BufferArgument>(&argument))
    see(buffer->operand.offset);
  if (const auto* const integer = std::get_if<IntegerArgument>(&argument)) see(integer->value);
  if (const auto* const map = std::get_if<TensorMapArgument>(&argument)) {
    see(map->operand.offset);
    SeeAll(map->dims, see);
    SeeAll(map->strides, see);
  }
  if (const auto* const members = std::get_if<StructArgument>(&argument))
    for (const Argument& member : members->members)
      SeeArgument(member, see);
}

struct AmountVisitor {
  const SeeAmount& see;

  void operator()(const KernelStep& step) const {
    for (const Amount& blocks : step.grid)
      see(blocks);
    for (const Argument& argument : step.args)
      SeeArgument(argument, see);
    for (const Expression& condition : step.assumes)
      see({.value = 0, .expression = condition});
  }
  void operator()(const MemsetStep& step) const {
    see(step.to.offset);
    see(step.count);
  }
  void operator()(const MemcpyStep& step) const {
    see(step.to.offset);
    see(step.from.offset);
    see(step.bytes);
  }
  void operator()(const CallStep& step) const {
    for (const std::vector<View>* views : {&step.inputs, &step.outputs})
      for (const View& view : *views) {
        see(view.operand.offset);
        SeeAll(view.shape, see);
        SeeAll(view.strides, see);
      }
  }
  void operator()(const ChildStep& step) const {
    SeeAll(step.symbols, see);
    for (const std::vector<Operand>* operands : {&step.inputs, &step.outputs})
      for (const Operand& operand : *operands)
        see(operand.offset);
  }
};

}  // namespace

StepUses UsesOf(const Manifest& manifest, const Step& step) {
  UsesVisitor visitor{manifest};
  std::visit(visitor, step.action);
  return std::move(visitor.uses);
}

std::vector<int> ProgramsWithin(const Manifest& manifest, int program) {
  std::vector<bool> seen(manifest.programs.size());
  seen[static_cast<size_t>(program)] = true;
  std::vector<int> programs = {program};
  for (size_t next = 0; next < programs.size(); ++next) {
    for (const Step& step : manifest.programs[static_cast<size_t>(programs[next])].steps) {
      const auto* const child = std::get_if<ChildStep>(&step.action);
      if (child == nullptr || seen[static_cast<size_t>(child->program)]) continue;
      seen[static_cast<size_t>(child->program)] = true;
      programs.push_back(child->program);
    }
  }
  return programs;
}

int RootOf(const Program& program, int buffer) {
  const std::optional<Alias>& alias = program.buffers[static_cast<size_t>(buffer)].alias;
  return alias ? alias->buffer : buffer;
}

std::vector<Lifetime> LifetimesOf(const Manifest& manifest, const Program& program) {
  std::vector<Lifetime> lifetimes(program.buffers.size());
  for (int step = 0; step < static_cast<int>(program.steps.size()); ++step) {
    const StepUses uses = UsesOf(manifest, program.steps[static_cast<size_t>(step)]);
    for (const std::vector<int>& buffers : {uses.reads, uses.writes}) {
      for (const int buffer : buffers) {
        Lifetime& lifetime = lifetimes[static_cast<size_t>(RootOf(program, buffer))];
        if (lifetime.first < 0) lifetime.first = step;
        lifetime.last = step;
      }
    }
  }
  return lifetimes;
}

void ForEachAmount(const Program& program, const std::function<void(const Amount&)>& see) {
  for (const Buffer& buffer : program.buffers) {
    SeeAll(buffer.shape, see);
    SeeAll(buffer.strides, see);
    if (buffer.alias) see(buffer.alias->offset);
  }
  for (const Step& step : program.steps) {
    if (step.condition) see({.value = 0, .expression = step.condition});
    std::visit(AmountVisitor{see}, step.action);
  }
}

}  // namespace coppice::package
