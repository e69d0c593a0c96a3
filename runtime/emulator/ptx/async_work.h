// What threads of a block have started, and not waited for; and the mbarriers that they wait at.
//
// Threads: as Warp; one of these per block.

#pragma once

#include "runtime/emulator/ptx/async_copies.h"
#include "runtime/emulator/ptx/bulk_copies.h"
#include "runtime/emulator/ptx/mbarrier.h"
#include "runtime/emulator/ptx/warpgroup_products.h"

namespace coppice::ptx {

struct AsyncWork {
  Mbarriers barriers;
  AsyncCopies copies;
  BulkCopies bulk;
  WarpgroupProducts products;

  void Drop() {
    barriers.Drop();
    copies.Drop();
    bulk.Drop();
    products.Drop();
  }
};

}  // namespace coppice::ptx
