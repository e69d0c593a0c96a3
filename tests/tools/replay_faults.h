// The table of planted faults.
//
// Threads: plain values.

#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace coppice {

// What the server does wrong, in place of a program.
enum class Mistake : uint8_t { kNone, kFreesTheLastInput, kFreesTheFirstInput, kFreesAStaticInput };

struct PlantedFault {
  std::string base;  // Of PlantingBases().
  std::string name;
  std::string kernel;                                      // Empty: none has it.
  std::vector<std::pair<std::string, std::string>> edits;  // In the kernel, this becomes that.
  std::function<void(nlohmann::json& program)> change;
  std::string kind;
  std::vector<std::string> lines;  // Of the kernel as changed; several: each is right, as of a
                                   // race. Empty: no line is asked for.
  std::string shown_in;            // The kernel that shows the fault, if it is not the one with it.
  std::vector<int64_t> smallest;   // Sizes that fail; empty: they are not asked for.
  Mistake mistake = Mistake::kNone;
  std::vector<std::vector<int64_t>> calls;  // Empty: as the base.
  std::set<std::string> missed;  // What is known to be missed: "kind", "kernel", "line", "size".

  PlantedFault& Edit(std::string from, std::string to) {
    edits.emplace_back(std::move(from), std::move(to));
    return *this;
  }
  PlantedFault& Change(std::function<void(nlohmann::json& program)> how) {
    change = std::move(how);
    return *this;
  }
  PlantedFault& Shows(std::string what, std::string line = {}) {
    kind = std::move(what);
    return line.empty() ? *this : OrAt(std::move(line));
  }
  PlantedFault& OrAt(std::string line) {
    lines.push_back(std::move(line));
    return *this;
  }
  PlantedFault& In(std::string other_kernel) {
    shown_in = std::move(other_kernel);
    return *this;
  }
  PlantedFault& From(std::vector<int64_t> sizes) {
    smallest = std::move(sizes);
    return *this;
  }
  PlantedFault& By(Mistake of_server) {
    mistake = of_server;
    return *this;
  }
  PlantedFault& Calls(std::vector<std::vector<int64_t>> sizes) {
    calls = std::move(sizes);
    return *this;
  }
  PlantedFault& Misses(std::set<std::string> what) {
    missed = std::move(what);
    return *this;
  }
};

std::vector<PlantedFault> PlantedFaults();

}  // namespace coppice
