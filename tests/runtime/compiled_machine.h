// An emulator with compiled kernels, ready for raw driver calls.
//
// Threads: as those of Machine.

#pragma once

#include "tests/runtime/emulator_machine.h"
#include "tests/support/compiled_kernels.h"

namespace coppice {

// A machine with the kernels of `text`.
class CompiledMachine : public Machine {
 public:
  explicit CompiledMachine(Emulator::Options options = OptionsToLook(),
                           const char* text = kCompiledKernels)
      : Machine(std::move(options)) {
    EXPECT_CU(kSuccess, Load(text, &compiled));
  }

  using Machine::Load;
  CuResult Load(const void* image, CuLibrary* loaded, std::string* said = nullptr) const {
    std::array<char, 512> log = {};
    CuJitOption jit_options[] = {CuJitOption::kErrorLogBytes, CuJitOption::kErrorLog};
    void* values[] = {reinterpret_cast<void*>(log.size()), log.data()};
    const CuResult result =
        cu.LibraryLoadData(loaded, image, jit_options, values, 2, nullptr, nullptr, 0);
    if (said != nullptr) *said = log.data();
    return result;
  }

  CuFunction Compiled(const char* name) const {
    CuKernel kernel = nullptr;
    EXPECT_CU(kSuccess, cu.LibraryGetKernel(&kernel, compiled, name));
    return reinterpret_cast<CuFunction>(kernel);
  }

  template <typename... Arguments>
  CuResult Run(CuStream on, const char* name, unsigned threads, Arguments... arguments) const {
    void* pointers[] = {&arguments..., nullptr};
    return cu.LaunchKernel(Compiled(name), 1, 1, 1, threads, 1, 1, 0, on, pointers, nullptr);
  }

  std::vector<std::string> Reports() const {
    EXPECT_CU(kSuccess, cu.CtxSynchronize());
    return emulator->reports();
  }

  CuLibrary compiled = nullptr;
};

}  // namespace coppice
