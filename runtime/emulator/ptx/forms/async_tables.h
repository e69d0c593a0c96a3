// The parts of AsyncForms(), and what a cp.async copies.
//
// Threads: as FormTable.

#pragma once

#include <cstdint>

#include "runtime/emulator/ptx/async_copies.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx {

void AddMbarrierForms(FormTable& rows);
void AddBulkCopyForms(FormTable& rows);
void AddTensorMapForms(FormTable& rows);

// Of cp.async. The immediate has two signed offsets of 32 bits: the source's is the low one.
struct AsyncCopyFlags {
  static constexpr uint8_t kNarrowSource = 1;
  static constexpr uint8_t kNarrowTarget = 2;
  static constexpr uint8_t kSourceBytes = 4;   // c: how many bytes are read.
  static constexpr uint8_t kIgnoreSource = 8;  // c: a predicate, whether none are.
};

// Addresses as the code has them.
AsyncCopies::Copy AsyncCopyOf(const Warp& warp, const Instr& instr);

}  // namespace coppice::ptx
