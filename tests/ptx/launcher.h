// Runs kernels that are written as PTX text, on memory of its own.
//
//   Launcher launcher(kText);
//   const uint64_t x = launcher.Allocate<int>({1, 2, 3});
//   const Outcome outcome = launcher.Run("Kernel", {.block = {32, 1, 1}}, x, 3);
//   launcher.Read<int>(x, 3)
//
// Threads: one.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/program.h"

namespace coppice::ptx {

class Launcher {
 public:
  struct Shape {
    std::array<unsigned, 3> grid = {1, 1, 1};
    std::array<unsigned, 3> block = {1, 1, 1};
    std::array<unsigned, 3> cluster = {0, 0, 0};  // Zeros: as the kernel requires.
    int64_t shared = 0;
    bool cooperative = false;
  };

  // Aborts on text that is no program.
  explicit Launcher(std::string text);

  // Memory of its own, in allocations that are not neighbours.
  uint64_t AllocateBytes(size_t bytes);
  template <typename T>
  uint64_t Allocate(const std::vector<T>& values) {
    const uint64_t address = AllocateBytes(values.size() * sizeof(T));
    std::memcpy(reinterpret_cast<void*>(address), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T>
  std::vector<T> Read(uint64_t address, size_t count) const {
    const T* const begin = reinterpret_cast<const T*>(address);
    return std::vector<T>(begin, begin + count);
  }

  // Arguments are as wide as the kernel's parameters.
  template <typename... Arguments>
  Outcome Run(std::string_view kernel, const Shape& shape, Arguments... arguments) {
    std::vector<std::byte> bank;
    (Append(&bank, arguments), ...);
    return RunWith(kernel, shape, bank);
  }
  Outcome RunWith(std::string_view kernel, const Shape& shape, const std::vector<std::byte>& bank);

  const Program& program() const { return *program_; }
  std::string Printed() const { return printed_; }

  uint64_t seed = 1;
  Checks checks = Checks::All(true);
  Taint* taint = nullptr;  // As Environment::taint.

 private:
  template <typename T>
  static void Append(std::vector<std::byte>* bank, T value) {
    bank->resize((bank->size() + sizeof(T) - 1) / sizeof(T) * sizeof(T) + sizeof(T));
    std::memcpy(bank->data() + bank->size() - sizeof(T), &value, sizeof(T));
  }

  std::unique_ptr<Program> program_;
  std::deque<std::vector<std::byte>> allocations_;
  std::vector<MemoryRange> ranges_;
  std::string printed_;
};

// That a launch ended without a fault and without findings.
void ExpectClean(const Outcome& outcome);

}  // namespace coppice::ptx
