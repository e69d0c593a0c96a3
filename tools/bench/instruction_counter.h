// Counts user-mode instructions: of the calling thread, where the kernel lets it, else of a whole
// process under valgrind.
//
// Threads: a counter counts the thread that opened it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace coppice {

class InstructionCounter {
 public:
  // Starts counting; nullopt where the processor or its owner does not permit it.
  static std::optional<InstructionCounter> Open();
  InstructionCounter(InstructionCounter&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  InstructionCounter& operator=(InstructionCounter&&) = delete;
  ~InstructionCounter();

  // Instructions since Open. Cost: one system call.
  int64_t Read() const;

 private:
  explicit InstructionCounter(int file) : file_(file) {}

  int file_;  // -1 once moved from.
};

// Instructions that a shell command of one program takes under valgrind's callgrind. What the
// command prints is discarded. nullopt: there is no valgrind, or it counted nothing.
std::optional<int64_t> CountUnderCallgrind(const std::string& command);

}  // namespace coppice
