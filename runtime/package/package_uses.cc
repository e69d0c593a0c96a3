// Steps, argument by argument.

#include "coppice/runtime/package_uses.h"

#include <type_traits>

namespace coppice::package {
namespace {

void AddUses(const Argument& argument, std::vector<Use>& uses) {
  if (const auto* buffer = std::get_if<BufferArgument>(&argument)) {
    uses.push_back({.buffer = buffer->operand.buffer,
                    .reads = buffer->access != Access::kWrite,
                    .writes = buffer->access != Access::kRead});
  } else if (const auto* map = std::get_if<TensorMapArgument>(&argument)) {
    // A descriptor says nothing of what is done through it.
    uses.push_back({.buffer = map->operand.buffer, .reads = true, .writes = true});
  } else if (const auto* members = std::get_if<StructArgument>(&argument)) {
    for (const Argument& member : members->members)
      AddUses(member, uses);
  }
}

struct Visitor {
  const Manifest& manifest;
  std::vector<Use>& uses;

  void operator()(const KernelStep& step) const {
    for (const Argument& argument : step.args)
      AddUses(argument, uses);
  }
  void operator()(const MemsetStep& step) const {
    uses.push_back({.buffer = step.to.buffer, .writes = true});
  }
  void operator()(const MemcpyStep& step) const {
    uses.push_back({.buffer = step.from.buffer, .reads = true});
    uses.push_back({.buffer = step.to.buffer, .writes = true});
  }
  void operator()(const CallStep& step) const {
    for (const View& view : step.inputs)
      uses.push_back({.buffer = view.operand.buffer, .reads = true});
    for (const View& view : step.outputs)
      uses.push_back({.buffer = view.operand.buffer, .writes = true});
  }
  void operator()(const ChildStep& step) const {
    const Program& child = manifest.programs[static_cast<size_t>(step.program)];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Buffer& input = child.buffers[static_cast<size_t>(child.inputs[i])];
      uses.push_back({.buffer = step.inputs[i].buffer, .reads = true, .writes = input.mutated});
    }
    for (const Operand& output : step.outputs)
      uses.push_back({.buffer = output.buffer, .writes = true});
  }
};

}  // namespace

std::vector<Use> BufferUsesOf(const Manifest& manifest, const Step& step) {
  std::vector<Use> uses;
  std::visit(Visitor{manifest, uses}, step.action);
  return uses;
}

std::vector<Lifetime> LifetimesOf(const Manifest& manifest, const Program& program) {
  std::vector<Lifetime> lifetimes(program.buffers.size());
  for (int step = 0; step < static_cast<int>(program.steps.size()); ++step) {
    for (const Use& use : BufferUsesOf(manifest, program.steps[static_cast<size_t>(step)])) {
      Lifetime& lifetime = lifetimes[static_cast<size_t>(use.buffer)];
      if (lifetime.first < 0) lifetime.first = step;
      lifetime.last = step;
    }
  }
  return lifetimes;
}

}  // namespace coppice::package
