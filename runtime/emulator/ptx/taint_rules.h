// How the taint of what an instruction reads reaches what it writes, by its form.
//
// Threads: pure functions; the table is constant.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/form.h"

namespace coppice::ptx {

// An operand that is a register: its slot has the same index in the instruction.
struct TaintOperand {
  bool written = false;
  bool updated = false;  // Written, and read before.
  int bytes = 0;         // Of a lane; 0: a predicate.

  bool read() const { return !written || updated; }
  // Words of a lane: one for every 16 bits.
  int parts() const { return bytes < 2 ? 1 : bytes / 2; }
};

struct TaintRule {
  enum class Kind : uint8_t {
    kGap,           // Cannot be followed: says so.
    kNothing,       // Moves no data.
    kClock,         // Depends on what has been executed.
    kByLane,        // A lane's results depend on all that the lane reads, ...
    kParts,         // ... 16 bits on the same 16 bits of what it reads.
    kSelect,        // On the predicate, and on the one that is chosen.
    kAnd,           // As kParts; bits that are 0 anyway depend on nothing else.
    kOr,            // The same of bits that are 1.
    kProduct,       // Of integers: 0 times anything is 0.
    kPack,          // The first source becomes the upper half, the second the lower.
    kPermute,       // prmt with a selector that depends on nothing.
    kMove,          // mov, which may take vectors apart.
    kConvert,       // d of a, of whichever width.
    kShuffle,       // Of the lane that is read.
    kWarp,          // On all that any lane reads.
    kMatrix,        // mma: on a row of A, a column of B, and an element of C.
    kLoad,          // On memory, and on the address.
    kStore,         // The same, of memory.
    kAtomic,        // Memory on itself, too.
    kLoadMatrices,  // ldmatrix
    kStoreMatrices,
    kCopyAsync,
  };

  Kind kind = Kind::kGap;
  std::vector<TaintOperand> operands;
  int rows = 0;             // kMatrix: 8 or 16.
  int matrices = 0;         // kLoadMatrices, kStoreMatrices.
  bool transposed = false;  // Of these.
  int element_bytes = 0;    // kLoad, kStore, kAtomic: in memory. kMove: of the whole register.
  bool compares = false;    // kAtomic: has two values.
  bool branches = false;    // Its guard, or an index, decides what its lanes execute.
  bool calls = false;
  bool indexed = false;  // Slot a decides where lanes go on.
  bool cuts = false;     // kConvert: between integers, so that a narrower one has lower bits.
  bool stores = false;   // Writes memory.
};

// Of a row of AllForms().
const TaintRule& TaintRuleOf(size_t form);

// What an instruction writes into registers.
struct TaintWritten {
  Slot slot;
  TaintOperand to;
};
std::vector<TaintWritten> WrittenBy(const Code& code, const Instr& instr);

}  // namespace coppice::ptx
