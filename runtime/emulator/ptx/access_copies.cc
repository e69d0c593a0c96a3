// Accesses of copies that write later: from when they begin to when they have landed, nobody may
// look at their bytes. And what the async proxy reads, which sees what it wrote itself, and what is
// fenced.

#include <algorithm>
#include <bit>

#include "runtime/emulator/ptx/access_cells.h"
#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/actor.h"

namespace coppice::ptx {

// Of copies to one place that are under way at once it is not known what they will bring.
void Accesses::BeginCopy(Actor& actor, uint64_t offset, uint64_t bytes, bool changes) {
  BlockShadow& shadow = actor.shadow;
  const size_t end = ((offset + bytes - 1) >> shift_) + 1;
  for (size_t i = offset >> shift_; i < end; ++i) {
    const Stamp writer = shadow.writers[i];
    const Stamp reader = shadow.readers[i];
    if (writer.is_under_way()) continue;
    const bool written = !IsBefore(actor, writer);
    const bool read = !IsBefore(actor, reader);
    if ((written || read) && !changes) continue;
    const Access access = {Space::kShared, offset, bytes};
    if (written) {
      ReportRace(actor, access, Clash::kWritesWritten, InBlock(actor, writer));
    } else if (read) {
      ReportRace(actor, access, Clash::kWritesRead, InBlock(actor, reader));
    }
    shadow.writers[i] = Stamp::UnderWay();
  }
}

void Accesses::Copy(
    ResidentWarp& warp, uint32_t lanes, const LaneWords& hosts, int64_t size, AccessKind kind) {
  Settle();
  const uint64_t bytes = static_cast<uint64_t>(size);
  const uint64_t base = reinterpret_cast<uint64_t>(warp.block().shared.data());
  Actor actor = ActorOf(warp);
  BlockShadow& shadow = actor.shadow;
  const Row<uint32_t> row = SharedRow(actor.stamp(), shadow.order, GranulesOf(bytes));
  WithGranules(row.granules, [&](auto count) {
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
      actor.lane = std::countr_zero(left);
      const uint64_t offset = hosts[static_cast<size_t>(actor.lane)] - base;
      if (kind == AccessKind::kLand && uninitialized_)
        SetAll(shadow.written.data() + offset, bytes);
      if (!races_) continue;
      uint32_t* const writers = CellsOf(shadow.writers) + (offset >> shift_);
      const uint32_t* const readers = CellsOf(shadow.readers) + (offset >> shift_);
      const uint32_t mine = actor.stamp().bits();
      if (kind == AccessKind::kLand) {
        std::fill_n(writers, static_cast<size_t>(count), mine);
      } else if (AreAllFine(row, count, writers, mine) && AreAllFine(row, count, readers, mine)) {
        std::fill_n(writers, static_cast<size_t>(count), Stamp::UnderWay().bits());
      } else {
        BeginCopy(actor, offset, bytes, kind == AccessKind::kBegin);
      }
    }
  });
}

// --- the async proxy

void Accesses::FenceProxy(ResidentWarp& warp) {
  Settle();
  warp.block().shadow.order.FenceProxy(static_cast<uint32_t>(warp.index()));
}

void Accesses::LandByProxy(ResidentWarp& warp, const std::byte* host, int64_t bytes) {
  if (!races_) return;
  BlockShadow& shadow = warp.block().shadow;
  if (shadow.by_proxy.empty()) shadow.by_proxy.resize(shadow.writers.size());
  const auto offset = static_cast<uint64_t>(host - warp.block().shared.data());
  const size_t begin = offset >> shift_;
  const size_t end = ((offset + static_cast<uint64_t>(bytes) - 1) >> shift_) + 1;
  std::copy(shadow.writers.begin() + static_cast<ptrdiff_t>(begin),
            shadow.writers.begin() + static_cast<ptrdiff_t>(end),
            shadow.by_proxy.begin() + static_cast<ptrdiff_t>(begin));
}

void Accesses::ReadByProxy(ResidentWarp& warp,
                           uint32_t lanes,
                           const LaneWords& hosts,
                           int64_t size) {
  Settle();
  const uint64_t bytes = static_cast<uint64_t>(size);
  const uint64_t base = reinterpret_cast<uint64_t>(warp.block().shared.data());
  Actor actor = ActorOf(warp);
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    actor.lane = std::countr_zero(left);
    const uint64_t offset = hosts[static_cast<size_t>(actor.lane)] - base;
    ReadShared(actor, offset, bytes, true);
    if (races_) CheckFenced(actor, offset, bytes);
  }
}

void Accesses::CheckFenced(Actor& actor, uint64_t offset, uint64_t bytes) {
  const BlockShadow& shadow = actor.shadow;
  const size_t end = ((offset + bytes - 1) >> shift_) + 1;
  for (size_t i = offset >> shift_; i < end; ++i) {
    const Stamp writer = shadow.writers[i];
    if (writer.bits() == 0 || writer.is_under_way() || shadow.order.IsFenced(writer, actor.index) ||
        (!shadow.by_proxy.empty() && shadow.by_proxy[i].bits() == writer.bits()))
      continue;
    ReportRace(actor, {Space::kShared, offset, bytes}, Clash::kReadsUnfenced,
               InBlock(actor, writer));
    return;
  }
}

}  // namespace coppice::ptx
