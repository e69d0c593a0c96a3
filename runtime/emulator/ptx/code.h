// Code: a function as a warp executes it.
//
// A register is a *slot* of 32 lanes in the frame of its call: lane i's value at index i of an
// array of the register's width; a predicate is one word with a bit per lane. What an instruction
// reads may also be a constant or a special register: those are slots of other areas, so that a
// handler does not ask what kind of operand it has.
//
//   area       kFrame: registers     kConstants: of the code, read only     kSpecial: of the warp
//   slot       area, byte offset     widths: 16 bits: 64 B, 32: 128 B, 64: 256 B, predicate: 4 B
//
// Units: bytes; lines of the PTX from 1. Threads: plain values; immutable once decoded.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

class Warp;
struct Code;

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t{0};

enum class Area : uint8_t { kFrame, kConstants, kSpecial };
inline constexpr int kAreas = 3;

struct Slot {
  uint32_t area : 2 = 0;
  uint32_t offset : 30 = 0;  // A multiple of 4; of 32 for more than a predicate.

  static constexpr Slot At(Area area, size_t offset) {
    Slot slot;
    slot.area = static_cast<uint32_t>(area) & 3;
    slot.offset = static_cast<uint32_t>(offset) & ((uint32_t{1} << 30) - 1);
    return slot;
  }
};

// What the warp does behind an instruction.
enum class Step : uint8_t {
  kNext,    // Goes on behind it.
  kChoose,  // Lanes went elsewhere, wait, or are done: the warp looks for what is to run.
  kStop,    // The launch ends: a fault, or a trap.
};

struct Instr;
using Handler = Step (*)(Warp& warp, const Instr& instr);

// A decoded instruction. What a, b, c, d and `more` are is the business of its form.
struct Instr {
  static constexpr uint32_t kUnguarded = ~uint32_t{0};
  static constexpr uint8_t kNegated = 0x80;  // In `flags`: a predicate that is read is negated.

  Handler handler = nullptr;
  Slot d;
  Slot a;
  Slot b;
  Slot c;
  uint64_t immediate = 0;       // An offset, a target, a mask: of the form.
  uint32_t more = 0;            // The first of further slots, in Code::slots.
  uint32_t guard = kUnguarded;  // Offset of the predicate in the frame.
  bool guard_negated = false;
  uint8_t flags = 0;  // Of the form; and kNegated.
  uint16_t form = 0;  // Its index in the table of forms, for counts and messages.
  // Of a branch: an index of Code::instrs; of a call: of Code::calls; of a load or store: bytes of
  // a lane of its registers; of a mov: elements of its vector, 0: none; of cp.async: bytes.
  uint32_t target = 0;
  int32_t line = 0;
};

// A parameter of a kernel, or a variable in a thread's own memory.
struct Place {
  std::string name;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// A call: its callee, and where arguments and results lie in the callers' and callee's frames.
struct CallSite {
  // Null: a built-in of the form, or the function whose address is in slot `a` of the instruction.
  const Code* callee = nullptr;
  std::vector<Place> arguments;  // In the caller's thread memory, one per parameter.
  std::vector<Place> results;
};

// An instruction that names registers of products of warpgroups. It stands behind RunWatched.
struct Watched {
  uint32_t instr = 0;  // An index of Code::instrs.
  Handler handler = nullptr;
  bool moves = false;  // It is a mov.
  std::vector<Slot> registers;
};

struct Code {
  std::string name;
  std::vector<Instr> instrs;
  std::vector<Slot> slots;  // Of instructions that have more than four.
  std::vector<CallSite> calls;
  std::vector<Watched> watched;                     // Ascending by instruction.
  std::vector<std::vector<uint32_t>> target_lists;  // Of brx.idx: indices of instructions.
  std::vector<std::byte> constants;                 // The area kConstants.
  // Offsets of constants of 64 bits that are addresses among the global bytes until they are
  // linked.
  std::vector<uint32_t> relocations;
  int64_t frame_bytes = 0;   // The area kFrame.
  bool swaps_words = false;  // It has atom.cas.b32.
  // Memory of each thread for one call: .param and .local variables, by offset in there.
  int64_t thread_bytes = 0;
  std::vector<Place> parameters;  // Of a function: in its thread memory. Of a kernel: in the bank.
  std::vector<Place> results;
  std::vector<Location> sources;                           // Of each instruction ...
  const std::map<int, std::string_view>* files = nullptr;  // ... and the names of their files.
};

// The functions whose addresses code may have: that of functions[i] is FunctionAddress(i).
using FunctionTable = std::vector<const Code*>;

inline constexpr uint64_t kFunctionBytes = 16;
constexpr uint64_t FunctionAddress(size_t index) {
  return (index + 1) * kFunctionBytes;
}

// What a program has that is not its code: linked once its addresses are known.
struct Kernel {
  const Code* code = nullptr;
  const FunctionTable* functions = nullptr;  // Of the program.
  bool swaps_words = false;                  // It, or a function of the program, has atom.cas.b32.
  int64_t parameter_bytes = 0;
  int64_t shared_bytes = 0;                              // Static.
  int64_t dynamic_offset = 0;                            // Where dynamic shared memory begins.
  std::array<int, 3> required_threads = {0, 0, 0};       // .reqntid; 0: any.
  int max_threads = 1024;                                // .maxntid
  std::array<unsigned, 3> required_cluster = {0, 0, 0};  // .reqnctapercluster; 0: any.
};

}  // namespace coppice::ptx
