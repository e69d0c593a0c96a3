// What the emulator finds wrong with a compiled kernel, field by field; see
// Emulator::kernel_findings.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace coppice {

// What one thread of a compiled kernel did wrong.
struct KernelFinding {
  enum class Kind : uint8_t {
    kOutOfBounds,
    kMisaligned,
    kRace,
    kReplicas,  // A race between copies of one value that were rounded differently.
    kUninitialized,
    kAssert,
    kTrap,
    kIllegalInstruction,
    kDeadlock,
  };
  Kind kind = Kind::kTrap;
  std::string kernel;
  std::array<unsigned, 3> block = {};
  std::array<unsigned, 3> thread = {};
  int line = 0;        // Of the PTX.
  std::string source;  // "file.py:12", if the PTX says so.
  std::string message;
  uint64_t address = 0;  // Of the bytes that are accessed; 0: the finding is about no bytes.
  std::string program;   // The program whose step launched the kernel (access_bounds.h); empty:
                         // unknown.
  int step = -1;
  // The argument of the launch whose buffer contains the address, or is nearest to it, and the
  // place of the address in the buffer; -1: the launch did not describe its arguments.
  int argument = -1;
  std::string buffer;
  int64_t offset = 0;        // From the first byte of the buffer; negative: before it.
  int64_t buffer_bytes = 0;  // Bytes of the buffer.
  std::string text;          // The whole finding on one line, as in reports() and fault().
};

}  // namespace coppice
