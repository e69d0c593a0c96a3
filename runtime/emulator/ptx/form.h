// Forms: what an opcode with its modifiers and types is, one row each.
//
//   {"add.s32", "Www", Binary<int32_t, Add>}
//    name       what it writes and reads, in order, with their widths; and who executes it
//
// Operands, a letter each: a capital is written, a small one read; h 16 bits, w 32, d 64, x 128, p
// a predicate, i an integer known when it is decoded. Written predicates may be missing: "_", or no
// second half of a pair "P|P". A digit makes a vector of the letter before: "W4". Constants become
// the width of their letter: floats by their bits, a 64-bit float rounded to f32 for w. A k is no
// operand of the text: it is the carry flag CC.CF, a predicate of the frame, one per function.
//
// The slots of the letters are, in their order, d, a, b and c of the instruction, then those from
// Instr::more on; an integer is its `immediate`. A predicate read as !p sets Instr::kNegated.
//
// A form without letters is decoded by its own function, which knows what it means.
//
// Threads: pure functions; tables are constant.

#pragma once

#include <cstdint>
#include <span>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/syntax.h"

namespace coppice::ptx {

// Bytes of a lane, by the letter of either case; 0: a predicate.
constexpr int BytesOfLetter(char letter) {
  switch (letter | 0x20) {
    case 'h':
      return 2;
    case 'w':
      return 4;
    case 'd':
      return 8;
    case 'x':
      return 16;
    default:
      return 0;
  }
}

class FunctionDecoder;  // decoder.h: looks up registers, makes constants, reports.

// Fills in what the letters do not say. Returns false after it has reported an error.
using DecodeHook = bool (*)(FunctionDecoder& decoder, const Instruction& from, Instr& to);

struct Form {
  const char* name = "";
  const char* operands = "";
  Handler handler = nullptr;
  DecodeHook decode = nullptr;  // Runs behind the letters, if there is one.
  uint8_t flags = 0;            // Copied to the instruction.
};

// The rows of each family; a file of forms/ each. Those that compute are in forms/families.h.
std::span<const Form> MemoryForms();
std::span<const Form> AtomicForms();
std::span<const Form> ControlForms();
std::span<const Form> BarrierForms();
std::span<const Form> WarpForms();
std::span<const Form> MatrixForms();
std::span<const Form> AsyncForms();

}  // namespace coppice::ptx
