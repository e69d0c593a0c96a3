// A module that can be executed: decoded, its variables given places.
//
// Units: bytes. Threads: immutable once built and linked.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "runtime/emulator/ptx/code.h"

namespace coppice::ptx {

// A kernel as a module has it, whether it can be executed or not.
struct KernelSurvey {
  struct Refused {
    std::string function;  // Who has it: the kernel, or what it reaches.
    std::string opcode;
    int line = 0;
  };

  std::string name;
  std::vector<Place> parameters;  // In their order; by offset in the bank.
  int64_t parameter_bytes = 0;
  int64_t shared_bytes = 0;                         // Static.
  std::array<int, 3> required_threads = {0, 0, 0};  // As those of Kernel.
  int max_threads = 0;
  // Of all functions that it reaches: opcodes as they are written, and how often.
  std::map<std::string, int64_t> opcodes;
  std::vector<Refused> refused;  // What Build would refuse the module for, by function and line.
};

class Program {
 public:
  // Parses, decodes and checks. Errors: kInvalidArgument  "line 12: ..." of text that is not PTX;
  // kUnimplemented  a kernel reaches an opcode that is not executed: which kernel, line and opcode,
  // and what to compile for.
  static absl::StatusOr<std::unique_ptr<Program>> Build(std::string text);
  virtual ~Program() = default;

  // Its kernels, in the order of the text. Errors: kInvalidArgument  as Build.
  static absl::StatusOr<std::vector<KernelSurvey>> Survey(std::string text);

  // What the variables of .global and .const need, and where it shall lie, which sets their
  // initial values there. Before anything runs; `memory` is where `address` is for the host.
  virtual int64_t global_bytes() const = 0;
  virtual void Link(uint64_t address, std::byte* memory) = 0;

  // What it was compiled for: 89 for sm_89.
  virtual int capability() const = 0;
  virtual const std::vector<Kernel>& kernels() const = 0;
  virtual const Kernel* FindKernel(std::string_view name) const = 0;
  // The place of a variable among the global bytes; nothing if there is none of this name.
  virtual const Place* FindVariable(std::string_view name) const = 0;
};

}  // namespace coppice::ptx
