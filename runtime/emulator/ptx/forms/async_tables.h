// The parts of AsyncForms().
//
// Threads: as FormTable.

#pragma once

#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx {

void AddMbarrierForms(FormTable& rows);
void AddBulkCopyForms(FormTable& rows);
void AddTensorMapForms(FormTable& rows);

}  // namespace coppice::ptx
