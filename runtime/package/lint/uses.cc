// Walks the amounts of a step, whatever it does.

#include "runtime/package/lint/uses.h"

#include <map>
#include <string>
#include <variant>

namespace coppice::package {
namespace {

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

void ForEachAmount(const Program& program, const SeeAmount& see) {
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
