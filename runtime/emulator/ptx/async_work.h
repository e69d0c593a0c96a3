// What threads of a block have started, and not waited for.
//
// Threads: as Warp; one of these per block.

#pragma once

#include "runtime/emulator/ptx/async_copies.h"
#include "runtime/emulator/ptx/bulk_copies.h"
#include "runtime/emulator/ptx/warpgroup_products.h"

namespace coppice::ptx {

struct AsyncWork {
  AsyncCopies copies;
  BulkCopies bulk;
  WarpgroupProducts products;

  void Drop() {
    copies.Drop();
    bulk.Drop();
    products.Drop();
  }
};

}  // namespace coppice::ptx
