// The graph of names, and what can be reached in it.

#include "runtime/emulator/ptx/references.h"

#include <unordered_set>

namespace coppice::ptx {

// Notes each name once.
class References::Collector {
 public:
  Collector(const References& references, Node& node) : references_(references), node_(node) {}

  // Names that mean something else here.
  void Hide(std::string_view name) { seen_.insert(name); }

  void Collect(std::string_view name) {
    // Registers are most of what is named.
    if (name.empty() || name.front() == '%' || !seen_.insert(name).second) return;
    if (const size_t function = references_.FindFunction(name); function != kNone)
      node_.functions.push_back(function);
    if (const size_t variable = references_.FindVariable(name); variable != kNone)
      node_.variables.push_back(variable);
  }
  void Collect(const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) {
      Collect(operand.name);
      Collect(operand.elements);
    }
  }

 private:
  const References& references_;
  Node& node_;
  std::unordered_set<std::string_view> seen_;
};

References::References(const Module& module)
    : functions_(module.functions.size()), variables_(module.variables.size()) {
  for (size_t i = 0; i < module.variables.size(); ++i)
    variable_names_.emplace(module.variables[i].name, i);
  for (size_t i = 0; i < module.functions.size(); ++i)
    if (module.functions[i].alias_of.empty()) function_names_.emplace(module.functions[i].name, i);
  for (const Function& function : module.functions) {
    const auto named = function_names_.find(function.alias_of);
    if (!function.alias_of.empty() && named != function_names_.end())
      function_names_.emplace(function.name, named->second);
  }
  for (size_t i = 0; i < module.functions.size(); ++i) {
    const Function& function = module.functions[i];
    Collector collector(*this, functions_[i]);
    for (const Variable& variable : function.variables)
      collector.Hide(variable.name);
    for (const Variable& parameter : function.type.parameters)
      collector.Hide(parameter.name);
    for (const Variable& result : function.type.returns)
      collector.Hide(result.name);
    for (const Instruction& instruction : function.body)
      collector.Collect(instruction.operands);
  }
  for (size_t i = 0; i < module.variables.size(); ++i) {
    Collector collector(*this, variables_[i]);
    for (const Initializer& value : module.variables[i].values)
      collector.Collect(value.symbol);
  }
}

size_t References::FindFunction(std::string_view name) const {
  const auto found = function_names_.find(name);
  return found == function_names_.end() ? kNone : found->second;
}

size_t References::FindVariable(std::string_view name) const {
  const auto found = variable_names_.find(name);
  return found == variable_names_.end() ? kNone : found->second;
}

References::Reached References::From(size_t function) const {
  Reached reached;
  std::vector<bool> has_function(functions_.size());
  std::vector<bool> has_variable(variables_.size());
  const auto add = [](size_t index, std::vector<bool>& has, std::vector<size_t>& indices) {
    if (has[index]) return;
    has[index] = true;
    indices.push_back(index);
  };
  add(function, has_function, reached.functions);
  size_t next_function = 0;
  size_t next_variable = 0;
  while (next_function < reached.functions.size() || next_variable < reached.variables.size()) {
    const Node& node = next_function < reached.functions.size()
                           ? functions_[reached.functions[next_function++]]
                           : variables_[reached.variables[next_variable++]];
    for (const size_t index : node.functions)
      add(index, has_function, reached.functions);
    for (const size_t index : node.variables)
      add(index, has_variable, reached.variables);
  }
  return reached;
}

}  // namespace coppice::ptx
