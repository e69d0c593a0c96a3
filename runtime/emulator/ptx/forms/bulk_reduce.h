// What bulk reductions do to elements in global memory.
//
// Threads: pure functions; the table is constant.

#pragma once

#include "runtime/emulator/ptx/bulk_copies.h"
#include "runtime/emulator/ptx/tensor_map.h"

namespace coppice::ptx {

struct BulkReduction {
  const char* name;  // In opcodes.
  // That of elements of a type; null: there is none.
  BulkCopies::Reduce (*of)(TensorMap::Type type);
};

inline constexpr int kBulkReductions = 8;
// add, min, max, inc, dec, and, or, xor.
const BulkReduction* BulkReductions();

}  // namespace coppice::ptx
