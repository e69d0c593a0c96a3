// What the functions of a module name: each other, and variables of module scope.
//
// A variable's initial values count, so that a table of functions is reached with them.
//
// Threads: plain values; immutable once built.

#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

class References {
 public:
  static constexpr size_t kNone = ~size_t{0};

  // `module` outlives this.
  explicit References(const Module& module);

  // Indices of Module::functions and Module::variables; kNone: no such name. An alias gives the
  // function that it names.
  size_t FindFunction(std::string_view name) const;
  size_t FindVariable(std::string_view name) const;

  struct Reached {
    std::vector<size_t> functions;  // That from which others are reached first.
    std::vector<size_t> variables;
  };
  Reached From(size_t function) const;

 private:
  // A function or a variable.
  struct Node {
    std::vector<size_t> functions;
    std::vector<size_t> variables;
  };
  class Collector;

  std::unordered_map<std::string_view, size_t> function_names_;
  std::unordered_map<std::string_view, size_t> variable_names_;
  std::vector<Node> functions_;
  std::vector<Node> variables_;
};

}  // namespace coppice::ptx
