// Accesses of a warp whose lanes are anywhere. Of most lanes nothing is to be found, which a few
// comparisons show; others are looked at granule by granule.

#include <algorithm>
#include <bit>

#include "runtime/emulator/ptx/access_cells.h"
#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/actor.h"

namespace coppice::ptx {
namespace {

// A lane has read these granules of shared memory: what others have read later than `known`,
// several have from then on. Returns whether that is all there is to it; what it has done is right
// in any case.
template <typename Count>
bool ReadSharedCells(
    const Row<uint32_t>& row, Count count, uint32_t* readers, uint32_t mine, uint32_t known) {
  const uint32_t several = (mine & ~kThreadMask) | Stamp::kSeveral;
  uint32_t astray = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t reader = readers[i];
    const bool fine = row.IsFine(reader, mine);
    const bool unknown = reader > known;
    readers[i] = fine ? mine : unknown ? several : reader;
    astray |= (fine | unknown) ? 0 : 1;
  }
  return astray == 0;
}

// As much for global memory. Returns whether it is done; else it has done nothing.
template <typename Count>
bool ReadGlobalCells(
    const Row<uint64_t>& row, Count count, uint64_t* readers, uint64_t mine, uint64_t several) {
  uint64_t differs = 0;
  for (size_t i = 0; i < count; ++i)
    differs |= readers[i] ^ several;
  if (differs == 0) return true;
  if (!AreAllFine(row, count, readers, mine)) return false;
  std::fill_n(readers, static_cast<size_t>(count), mine);
  return true;
}

}  // namespace

Space Accesses::SpaceOf(const Actor& actor, const Reach& reach, uint64_t bytes) const {
  if (reach.space == Space::kShared) return Space::kShared;
  // What blocks of a cluster do to each other's memory is not checked.
  if (actor.warp.block().cluster->members.size() > 1) return Space::kGeneric;
  uint64_t begin = ~uint64_t{0};
  uint64_t end = 0;
  for (const uint64_t address : reach.address) {
    begin = std::min(begin, address);
    end = std::max(end, address + bytes);
  }
  const auto starts_at = [](const std::byte* at) { return reinterpret_cast<uint64_t>(at); };
  const auto meets = [&](const std::byte* at, size_t size) {
    return begin < starts_at(at) + size && starts_at(at) < end;
  };
  const auto shared = actor.warp.block().shared;
  if (begin >= starts_at(shared.data()) && end <= starts_at(shared.data()) + shared.size())
    return Space::kShared;
  const size_t thread_bytes = static_cast<size_t>(actor.warp.thread_stride() * kLanes);
  const bool global = !meets(shared.data(), shared.size()) &&
                      !meets(actor.warp.thread_memory(), thread_bytes) &&
                      !meets(state_.bank.data(), state_.bank.size()) &&
                      !meets(state_.workspace.data(), state_.workspace.size());
  return global ? Space::kGlobal : Space::kGeneric;
}

void Accesses::ReadSharedLanes(Actor& actor, const Reach& reach, uint64_t bytes, bool keep) {
  BlockShadow& shadow = actor.shadow;
  const uint64_t base = reinterpret_cast<uint64_t>(actor.warp.block().shared.data());
  const Row<uint32_t> row = SharedRow(actor.stamp(), shadow.order, GranulesOf(bytes));
  const uint32_t known = Stamp(shadow.order.KnownTo(actor.index), kThreadMask).bits();
  WithGranules(row.granules, [&](auto count) {
    for (uint32_t left = actor.warp.mask(); left != 0; left &= left - 1) {
      actor.lane = std::countr_zero(left);
      const uint64_t offset = reach.address[static_cast<size_t>(actor.lane)] - base;
      const size_t first = offset >> shift_;
      const uint32_t mine = actor.stamp().bits();
      const bool quiet = races_ && keep &&
                         (!uninitialized_ || AreAllSet(shadow.written.data() + offset, bytes)) &&
                         AreAllFine(row, count, CellsOf(shadow.writers) + first, mine) &&
                         ReadSharedCells(row, count, CellsOf(shadow.readers) + first, mine, known);
      if (!quiet) ReadShared(actor, offset, bytes, keep);
    }
  });
}

void Accesses::ReadGlobalLanes(Actor& actor, const Reach& reach, uint64_t bytes, bool keep) {
  const Row<uint64_t> row = GlobalRow(actor.visitor(), actor.shadow.order, GranulesOf(bytes));
  const uint64_t several = Visitor::Several(order_.releases()).bits();
  WithGranules(row.granules, [&](auto count) {
    for (uint32_t left = actor.warp.mask(); left != 0; left &= left - 1) {
      actor.lane = std::countr_zero(left);
      const uint64_t address = reach.address[static_cast<size_t>(actor.lane)];
      GlobalShadow::Page& page = shadow_.PageOf(address);
      const size_t first = shadow_.GranuleOf(address);
      const uint64_t mine = row.mine + static_cast<uint64_t>(actor.lane);
      const bool quiet =
          races_ && keep && (!asks_written_ || GlobalShadow::IsWritten(page, address, bytes)) &&
          (page.writers == nullptr ||
           AreAllFine(row, count, CellsOf(page.writers.get()) + first, mine)) &&
          ReadGlobalCells(row, count, CellsOf(shadow_.Readers(page)) + first, mine, several);
      if (!quiet) {
        ReadGlobal(actor, address, bytes, keep);
      } else if (record_) {
        GlobalShadow::Mark(page.read, address, bytes);
      }
    }
  });
}

}  // namespace coppice::ptx
