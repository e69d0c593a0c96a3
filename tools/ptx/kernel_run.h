// One kernel of a PTX file with the arrays and values that it is run on.
//
//   ptx file, kernel, --arg ...  ─► KernelRun::Prepare ─► Run ─► WriteOutputs
//
// Units: bytes. Threads: one at a time.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/program.h"
#include "runtime/emulator/ptx/taint.h"
#include "tools/ptx/kernel_argument.h"
#include "tools/ptx/kernel_memory.h"
#include "tools/ptx/ptx.h"

namespace coppice {

class KernelRun {
 public:
  struct Argument {
    KernelArgument given;
    // Of an array; else empty.
    DType dtype = DType::kFloat32;
    std::vector<int64_t> dims;
    std::span<std::byte> memory;
  };

  // Reads everything. Errors: kInvalidArgument  what does not fit, and what would; nothing is
  // written then.
  static absl::StatusOr<KernelRun> Prepare(const PtxRunOptions& options);

  // Runs the kernel; what it prints goes to `print`.
  ptx::Outcome Run(const std::function<void(std::string_view)>& print) const;

  // Errors: kFailedPrecondition  the first file that cannot be written.
  absl::Status WriteOutputs() const;

  // By element of an array: its words, joined. Requires: taint().
  std::vector<ptx::TaintWord> TaintOf(const Argument& argument) const;
  // Null: nobody asks.
  const ptx::Taint* taint() const { return taint_.get(); }

  const ptx::Kernel& kernel() const { return *launch_.kernel; }
  const ptx::Launch& launch() const { return launch_; }
  const std::vector<Argument>& arguments() const { return arguments_; }

 private:
  KernelRun() = default;

  absl::Status SetShape(const PtxRunOptions& options);
  absl::Status AddArguments(const PtxRunOptions& options);
  absl::Status AddArray(Argument& argument);
  absl::Status MarkPadding(const std::string& text);
  void Link();

  std::unique_ptr<ptx::Program> program_;
  KernelMemory memory_;
  std::vector<Argument> arguments_;
  std::vector<std::byte> parameters_;
  ptx::Launch launch_;
  uint64_t seed_ = 1;
  ptx::Checks checks_;
  std::unique_ptr<ptx::Taint> taint_;
  std::string reached_;  // As PtxRunOptions.
};

}  // namespace coppice
