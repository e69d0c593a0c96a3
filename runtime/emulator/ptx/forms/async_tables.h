// The parts of AsyncForms(), and what a cp.async copies.
//
// Threads: as FormTable.

#pragma once

#include "runtime/emulator/ptx/async_copies.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx {

void AddMbarrierForms(FormTable& rows);
void AddBulkCopyForms(FormTable& rows);
void AddTensorMapForms(FormTable& rows);

// Addresses as the code has them.
AsyncCopies::Copy AsyncCopyOf(const Warp& warp, const Instr& instr);

}  // namespace coppice::ptx
