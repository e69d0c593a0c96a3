// A module that can be executed: decoded, its variables given places.
//
// Units: bytes. Threads: immutable once built and linked.

#pragma once

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

class Program {
 public:
  // Parses, decodes and checks. Errors: kInvalidArgument  "line 12: ..." of text that is not PTX;
  // kUnimplemented  a kernel reaches an opcode that is not executed: which kernel, line and opcode,
  // and what to compile for.
  static absl::StatusOr<std::unique_ptr<Program>> Build(std::string text);
  ~Program();

  // What the variables of .global and .const need, and where it shall lie, which sets their
  // initial values there. Before anything runs; `memory` is where `address` is for the host.
  int64_t global_bytes() const;
  void Link(uint64_t address, std::byte* memory);

  // What it was compiled for, as "sm_80".
  std::string_view target() const;
  const std::vector<Kernel>& kernels() const;
  const Kernel* FindKernel(std::string_view name) const;
  // The place of a variable among the global bytes; nothing if there is none of this name.
  const Place* FindVariable(std::string_view name) const;

 private:
  struct State;
  explicit Program(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace coppice::ptx
