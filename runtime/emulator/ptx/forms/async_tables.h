// The parts of AsyncForms().
//
// Threads: as FormTable.

#pragma once

#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx {

void AddMbarrierForms(FormTable& rows);

}  // namespace coppice::ptx
