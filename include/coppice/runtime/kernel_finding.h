// What the emulator finds to be wrong with a compiled kernel, field by field; see
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
    kReplicas,  // A race of copies of one value, which differ by how they were rounded.
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
  uint64_t address = 0;  // Of the bytes that are accessed; 0: it is about none.
  std::string program;   // Whose step launched the kernel (access_bounds.h); empty: unknown.
  int step = -1;
  // The buffer among the arguments of the launch in which the address lies, or which is nearest,
  // and where it lies there; -1: the launch said nothing of its arguments.
  int argument = -1;
  std::string buffer;
  int64_t offset = 0;        // From the first byte of the buffer; negative: before it.
  int64_t buffer_bytes = 0;  // Bytes of the buffer.
  std::string text;          // All of it, in one line, as in reports() and fault().
};

}  // namespace coppice
