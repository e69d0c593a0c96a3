// Accesses of a whole warp whose lanes follow each other, where nothing is to be found: most of
// them. Whatever else it is, lanes are looked at one by one.

#include <algorithm>
#include <cstring>

#include "runtime/emulator/ptx/access_cells.h"
#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/actor.h"

namespace coppice::ptx {
namespace {

template <typename Bits>
bool AllFine(const Row<Bits>& row, const Bits* cells) {
  bool fine = true;
  if (row.granules == 1) {
    for (size_t i = 0; i < kLanes; ++i)
      fine &= row.IsFine(cells[i], row.mine + static_cast<Bits>(i));
    return fine;
  }
  for (size_t i = 0; i < kLanes; ++i)
    for (size_t j = 0; j < row.granules; ++j)
      fine &= row.IsFine(cells[i * row.granules + j], row.mine + static_cast<Bits>(i));
  return fine;
}

template <typename Bits>
void SetAll(const Row<Bits>& row, Bits* cells) {
  for (size_t i = 0; i < kLanes; ++i)
    for (size_t j = 0; j < row.granules; ++j)
      cells[i * row.granules + j] = row.mine + static_cast<Bits>(i);
}

// Granules whose bits do not change race with nobody, and keep who wrote them, if somebody did.
template <typename Bits, typename Granule>
bool WriteCells(const Row<Bits>& row,
                Bits* writers,
                const Bits* readers,
                const std::byte* before,
                const std::byte* after) {
  const auto changes = [&](size_t cell) {
    Granule was;
    Granule is;
    std::memcpy(&was, before + cell * sizeof(Granule), sizeof(was));
    std::memcpy(&is, after + cell * sizeof(Granule), sizeof(is));
    return was != is;
  };
  bool fine = true;
  for (size_t i = 0; i < kLanes; ++i) {
    const Bits mine = row.mine + static_cast<Bits>(i);
    for (size_t j = 0; j < row.granules; ++j) {
      const size_t cell = i * row.granules + j;
      const bool quiet =
          row.IsFine(writers[cell], mine) & (readers == nullptr || row.IsFine(readers[cell], mine));
      fine &= quiet | !changes(cell);
    }
  }
  if (!fine) return false;
  for (size_t i = 0; i < kLanes; ++i) {
    const Bits mine = row.mine + static_cast<Bits>(i);
    for (size_t j = 0; j < row.granules; ++j) {
      const size_t cell = i * row.granules + j;
      writers[cell] = (writers[cell] == 0) | changes(cell) ? mine : writers[cell];
    }
  }
  return true;
}

template <typename Bits>
bool WriteCells(int shift,
                const Row<Bits>& row,
                Bits* writers,
                const Bits* readers,
                const std::byte* before,
                const std::byte* after) {
  switch (shift) {
    case 0:
      return WriteCells<Bits, uint8_t>(row, writers, readers, before, after);
    case 1:
      return WriteCells<Bits, uint16_t>(row, writers, readers, before, after);
    default:
      return WriteCells<Bits, uint32_t>(row, writers, readers, before, after);
  }
}

bool AreAllSeveral(const uint64_t* cells, size_t count) {
  uint64_t all = ~uint64_t{0};
  for (size_t i = 0; i < count; ++i)
    all &= cells[i];
  return all >> 32 == kBlockMask >> 32;
}

}  // namespace

bool Accesses::ReadRow(Actor& actor, const Reach& reach, uint64_t bytes) {
  const uint64_t all = bytes * kLanes;
  const size_t granules = static_cast<size_t>(bytes >> shift_);
  if (races_ && granules == 0) return false;
  BlockShadow& shadow = actor.shadow;
  if (reach.space == Space::kShared) {
    const size_t offset = static_cast<size_t>(reach.at(0) - actor.warp.block().shared.data());
    if (uninitialized_ && std::memchr(shadow.written.data() + offset, 0, all) != nullptr)
      return false;
    if (!races_) return true;
    const Row<uint32_t> row = SharedRow(actor.stamp(), shadow.order, granules);
    uint32_t* const readers = CellsOf(shadow.readers) + (offset >> shift_);
    if (!AllFine(row, CellsOf(shadow.writers) + (offset >> shift_)) || !AllFine(row, readers))
      return false;
    SetAll(row, readers);
    return true;
  }
  if (reach.space != Space::kGlobal) return false;
  const uint64_t address = reach.address[0];
  if ((address ^ (address + all - 1)) >> GlobalShadow::kPageShift != 0) return false;
  GlobalShadow::Page& page = shadow_.PageOf(address);
  if (asks_written_ && !GlobalShadow::IsWritten(page, address, all)) return false;
  if (races_) {
    const Row<uint64_t> row = GlobalRow(actor.visitor(), shadow.order, granules);
    const size_t first = shadow_.GranuleOf(address);
    if (page.writers != nullptr && !AllFine(row, CellsOf(page.writers.get()) + first)) return false;
    uint64_t* const readers = CellsOf(shadow_.Readers(page)) + first;
    if (AllFine(row, readers)) {
      SetAll(row, readers);
    } else if (AreAllSeveral(readers, granules * kLanes)) {
      std::fill_n(readers, granules * kLanes, Visitor::Several(order_.releases()).bits());
    } else {
      return false;
    }
  }
  if (record_) GlobalShadow::Mark(page.read, address, all);
  return true;
}

bool Accesses::WriteRow(Actor& actor, const Reach& reach, uint64_t bytes, const std::byte* values) {
  const uint64_t all = bytes * kLanes;
  const size_t granules = static_cast<size_t>(bytes >> shift_);
  if (races_ && granules == 0) return false;
  BlockShadow& shadow = actor.shadow;
  if (reach.space == Space::kShared) {
    const size_t offset = static_cast<size_t>(reach.at(0) - actor.warp.block().shared.data());
    if (races_) {
      const Row<uint32_t> row = SharedRow(actor.stamp(), shadow.order, granules);
      if (!WriteCells(shift_, row, CellsOf(shadow.writers) + (offset >> shift_),
                      CellsOf(shadow.readers) + (offset >> shift_), reach.at(0), values))
        return false;
    }
    if (uninitialized_) std::memset(shadow.written.data() + offset, 1, all);
    return true;
  }
  if (reach.space != Space::kGlobal) return false;
  const uint64_t address = reach.address[0];
  if ((address ^ (address + all - 1)) >> GlobalShadow::kPageShift != 0) return false;
  GlobalShadow::Page& page = shadow_.PageOf(address);
  if (races_) {
    const Row<uint64_t> row = GlobalRow(actor.visitor(), shadow.order, granules);
    const size_t first = shadow_.GranuleOf(address);
    const uint64_t* const readers =
        page.readers == nullptr ? nullptr : CellsOf(page.readers.get()) + first;
    if (!WriteCells(shift_, row, CellsOf(shadow_.Writers(page)) + first, readers, reach.at(0),
                    values))
      return false;
    GlobalShadow::BeginWrite(page, address, all);
  } else {
    GlobalShadow::Mark(page.written, address, all);
  }
  return true;
}

}  // namespace coppice::ptx
