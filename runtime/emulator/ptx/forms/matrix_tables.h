// The parts of MatrixForms(). What multiplies is in forms/families.h.
//
// Threads: as FormTable.

#pragma once

#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx {

void AddWmmaMemoryForms(FormTable& table);

}  // namespace coppice::ptx
