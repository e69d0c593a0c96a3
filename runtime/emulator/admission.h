// Admission: what is checked of every call before its entry runs.
//
// Threads: the entries of the table from any thread.

#pragma once

#include "coppice/runtime/driver.h"

namespace coppice::emulator {

// The driver's table; its entries return kDeinitialized while there is no emulator.
DriverTable MakeTable();

}  // namespace coppice::emulator
