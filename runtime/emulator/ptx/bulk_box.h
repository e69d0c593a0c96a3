// What a bulk copy moves: rows that are dense in shared memory, and where each lies in global
// memory.
//
//   global memory                          shared memory
//   ..[======row======]......              row 0   [ fill |======row======]
//   ....[======row======]....       ─►     row 1   [==========row=========]
//
// Units: bytes. Threads: pure functions.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/emulator/ptx/tensor_map.h"

namespace coppice::ptx {

struct BulkBox {
  // The bytes of a row that global memory has. None: all of it is out of bounds.
  struct Row {
    uint64_t address = 0;
    uint32_t first = 0;  // Where they begin in the row.
    uint32_t bytes = 0;
  };

  uint32_t row_bytes = 0;   // A multiple of 16.
  uint64_t alignment = 16;  // Of its place in shared memory.
  int swizzle = 0;          // swizzle.h
  TensorMap::Type type = TensorMap::Type::kUint8;
  bool fills_nan = false;  // What is out of bounds; else 0.
  std::vector<Row> rows;

  uint64_t bytes() const { return uint64_t{row_bytes} * rows.size(); }
};

using BoxCoordinates = std::array<int32_t, TensorMap::kRankMax>;  // Of the first element.

// The box of a map at these coordinates, one per dimension of the map. Nothing: the map is not
// one that is executed, and `why` says why.
std::optional<BulkBox> BoxOf(const TensorMap& map,
                             int rank,
                             const BoxCoordinates& at,
                             std::string& why);

// `bytes` bytes in a row.
BulkBox RowOf(uint64_t address, uint32_t bytes);

}  // namespace coppice::ptx
