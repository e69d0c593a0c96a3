// Accesses of a whole warp whose lanes follow each other, where nothing is to be found: most of
// them. Whatever else it is, lanes are looked at one by one.

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/actor.h"

namespace coppice::ptx {
namespace {

// Cells of one kind of memory, as the bits of Stamp or Visitor. `mine` is that of lane 0; lanes
// that follow add 1. Bits in [base, base + floor) are of this block, and before everything.
template <typename Bits>
struct Row {
  Bits mine;
  Bits base;
  Bits floor;
  Bits who;         // All bits but the time.
  size_t granules;  // Of a lane.

  bool IsFine(Bits cell, Bits mine_here) const {
    return (cell == 0) | (cell - base < floor) | (((cell ^ mine_here) & who) == 0);
  }
};

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

constexpr uint32_t kThreadMask = (uint32_t{1} << Stamp::kThreadBits) - 1;
constexpr uint64_t kBlockMask = ~uint64_t{0} << 32;

Row<uint32_t> SharedRow(Stamp mine, const BlockOrder& order, size_t granules) {
  return {mine.bits(), 0, order.floor_bits(), kThreadMask, granules};
}

Row<uint64_t> GlobalRow(Visitor mine, const BlockOrder& order, size_t granules) {
  return {mine.bits(), mine.bits() & kBlockMask, order.floor_bits(), kBlockMask | kThreadMask,
          granules};
}

uint32_t* BitsOf(std::vector<Stamp>& stamps) {
  static_assert(sizeof(Stamp) == sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(stamps.data());
}

uint64_t* BitsOf(Visitor* visitors) {
  static_assert(sizeof(Visitor) == sizeof(uint64_t));
  return reinterpret_cast<uint64_t*>(visitors);
}

bool AreAllSeveral(const uint64_t* cells, size_t count) {
  uint64_t all = ~uint64_t{0};
  for (size_t i = 0; i < count; ++i)
    all &= cells[i];
  return all >> 32 == kBlockMask >> 32;
}

// Whether `bytes` flags, a power of two, are all set.
bool IsAllWritten(const uint8_t* flags, uint64_t bytes) {
  if (bytes == 4) {
    uint32_t four;
    std::memcpy(&four, flags, sizeof(four));
    return four == 0x01010101;
  }
  return std::memchr(flags, 0, bytes) == nullptr;
}

}  // namespace

// Most cells are this thread's, or of before a barrier; others are looked at as ReadShared does.
void Accesses::ReadSharedLanes(Actor& actor, const Reach& reach, uint64_t bytes, bool keep) {
  BlockShadow& shadow = actor.shadow;
  const uint64_t base = reinterpret_cast<uint64_t>(actor.warp.block().shared.data());
  const uint32_t floor = shadow.order.floor_bits();
  const uint32_t several = Stamp(actor.now, Stamp::kSeveral).bits();
  const uint32_t* const writers = BitsOf(shadow.writers);
  uint32_t* const readers = BitsOf(shadow.readers);
  for (uint32_t left = actor.warp.mask(); left != 0; left &= left - 1) {
    actor.lane = std::countr_zero(left);
    const uint64_t offset = reach.address[static_cast<size_t>(actor.lane)] - base;
    bool quiet =
        races_ && keep && (!uninitialized_ || IsAllWritten(shadow.written.data() + offset, bytes));
    if (quiet) {
      const uint32_t mine = actor.stamp().bits();
      const size_t end = ((offset + bytes - 1) >> shift_) + 1;
      for (size_t i = offset >> shift_; i < end; ++i) {
        quiet &= writers[i] < floor || ((writers[i] ^ mine) & kThreadMask) == 0;
        const bool plain = readers[i] < floor || ((readers[i] ^ mine) & kThreadMask) == 0;
        readers[i] = plain ? mine : readers[i];
        quiet &= plain || readers[i] == several;
      }
    }
    if (!quiet) ReadShared(actor, offset, bytes, keep);
  }
}

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
    uint32_t* const readers = BitsOf(shadow.readers) + (offset >> shift_);
    if (!AllFine(row, BitsOf(shadow.writers) + (offset >> shift_)) || !AllFine(row, readers))
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
    const Row<uint64_t> row = GlobalRow({actor.block, actor.stamp()}, shadow.order, granules);
    const size_t first = shadow_.GranuleOf(address);
    if (page.writers != nullptr && !AllFine(row, BitsOf(page.writers.get()) + first)) return false;
    uint64_t* const readers = BitsOf(shadow_.Readers(page)) + first;
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
      if (!WriteCells(shift_, row, BitsOf(shadow.writers) + (offset >> shift_),
                      BitsOf(shadow.readers) + (offset >> shift_), reach.at(0), values))
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
    const Row<uint64_t> row = GlobalRow({actor.block, actor.stamp()}, shadow.order, granules);
    const size_t first = shadow_.GranuleOf(address);
    const uint64_t* const readers =
        page.readers == nullptr ? nullptr : BitsOf(page.readers.get()) + first;
    if (!WriteCells(shift_, row, BitsOf(shadow_.Writers(page)) + first, readers, reach.at(0),
                    values))
      return false;
  }
  if (record_ || asks_written_) GlobalShadow::Mark(page.written, address, all);
  return true;
}

}  // namespace coppice::ptx
