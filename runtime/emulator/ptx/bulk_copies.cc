// Rows between global and shared memory.

#include "runtime/emulator/ptx/bulk_copies.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "fmt/format.h"

#include "runtime/emulator/ptx/mbarrier.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/swizzle.h"

namespace coppice::ptx {
namespace {

constexpr uint64_t kAsks = 3;       // A copy lands before it is asked so often.
constexpr uint64_t kPieceMax = 16;  // Of global memory, as it is told.

// Calls `of(address, bytes)` with pieces that are aligned to their size.
template <typename Of>
bool EachPiece(uint64_t address, uint64_t bytes, uint64_t most, const Of& of) {
  for (uint64_t piece = 0; bytes != 0; address += piece, bytes -= piece) {
    const uint64_t aligned = address == 0 ? most : address & (0 - address);
    piece = std::min({most, aligned, std::bit_floor(bytes)});
    if (!of(address, piece)) return false;
  }
  return true;
}

// Calls `of(offset in shared memory, byte of the row)` for the units of row `row`.
template <typename Of>
void EachUnit(const BulkBox& box, uint64_t shared, size_t row, const Of& of) {
  const uint64_t begin = shared + row * box.row_bytes;
  for (uint32_t at = 0; at < box.row_bytes; at += kSwizzleUnit)
    of(Swizzled(begin + at, box.swizzle), at);
}

// The host's bytes of the shared memory that a copy takes; null after a fault.
std::byte* FindShared(Warp& on,
                      int lane,
                      const BulkBox& box,
                      std::span<std::byte> memory,
                      uint64_t shared,
                      AccessKind kind) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const uint64_t line = uint64_t{kSwizzleUnit} << box.swizzle;  // Units stay in theirs.
  const uint64_t bytes = (box.bytes() + line - 1) / line * line;
  const char* const verb = kind == AccessKind::kRead ? "reads" : "writes";
  if (shared % box.alignment != 0) {
    warp.Fault(Finding::Kind::kMisaligned, lane,
               fmt::format("{} {} bytes of shared memory at {:#x}, which is not a multiple of {}",
                           verb, box.bytes(), shared, box.alignment),
               shared);
    return nullptr;
  }
  if (shared > memory.size() || memory.size() - shared < bytes) {
    warp.Fault(Finding::Kind::kIllegalAddress, lane,
               fmt::format("{} {} bytes at {:#x}, in shared memory, but the block has only {} "
                           "bytes of shared memory",
                           verb, bytes, shared, memory.size()),
               shared);
    return nullptr;
  }
  return memory.data();
}

// What is found about one lane's bytes.
void TellShared(Warp& warp, int lane, std::byte* host, uint64_t bytes, AccessKind kind) {
  if (bytes == 0) return;
  LaneWords hosts = {};
  hosts[static_cast<size_t>(lane)] = reinterpret_cast<uint64_t>(host);
  warp.Tell(uint32_t{1} << lane, hosts, static_cast<int64_t>(bytes), kind);
  ResidentWarp& resident = static_cast<ResidentWarp&>(warp);
  if (kind == AccessKind::kLand && resident.observer() != nullptr)
    resident.observer()->LandByProxy(resident, host, static_cast<int64_t>(bytes));
}

bool CanWrite(Warp& warp, int lane, uint64_t address, uint64_t bytes) {
  return EachPiece(address, bytes, kPieceMax, [&](uint64_t at, uint64_t piece) {
    LaneWords addresses = {};
    addresses[static_cast<size_t>(lane)] = at;
    return warp.FindLanes(Space::kGlobal, uint32_t{1} << lane, static_cast<int64_t>(piece),
                          AccessKind::kWrite, addresses);
  });
}

// What a load brings for elements of these types.
void RoundElements(TensorMap::Type type, std::span<std::byte> bytes) {
  using Type = TensorMap::Type;
  const bool tf32 = type == Type::kTFloat32 || type == Type::kTFloat32Flushed;
  const bool flushes = type == Type::kFloat32Flushed || type == Type::kTFloat32Flushed;
  if (!tf32 && !flushes) return;
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    uint32_t bits;
    std::memcpy(&bits, &bytes[i], sizeof(bits));
    const uint32_t magnitude = bits & 0x7fffffff;
    if (flushes && magnitude < 0x00800000) bits &= 0x80000000;
    if (tf32 && magnitude < 0x7f800000) bits = (bits + 0x1000) & ~uint32_t{0x1fff};
    std::memcpy(&bytes[i], &bits, sizeof(bits));
  }
}

// NaNs of the element's type.
void FillNaN(TensorMap::Type type, std::span<std::byte> bytes) {
  const unsigned element = TensorMap::BytesOf(type);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = std::byte{static_cast<uint8_t>(i % element == element - 1 ? 0x7f : 0xff)};
}

}  // namespace

bool BulkCopies::Load(
    Warp& warp, int lane, const BulkBox& box, BlockState& to, uint64_t shared, uint64_t barrier) {
  std::byte* const host = FindShared(warp, lane, box, to.shared, shared, AccessKind::kWrite);
  if (host == nullptr) return false;
  LaneWords barriers = {};
  barriers[static_cast<size_t>(lane)] = barrier;
  if (!warp.FindLanes(Space::kShared, uint32_t{1} << lane, sizeof(uint64_t), AccessKind::kAtomic,
                      barriers))
    return false;
  for (const BulkBox::Row& row : box.rows) {
    const bool may =
        EachPiece(row.address, row.bytes, TensorMap::kBytes, [&](uint64_t at, uint64_t piece) {
          return warp.At(Space::kGlobal, at, static_cast<int64_t>(piece), AccessKind::kRead,
                         lane) != nullptr;
        });
    if (!may) return false;
  }
  ResidentWarp& resident = static_cast<ResidentWarp&>(warp);
  const bool own = &resident.block() == &to;
  Copy& copy = loads_.emplace_back(Copy{.warp = own ? &warp : to.warp,
                                        .lane = own ? lane : 0,
                                        .code = own ? &resident.code() : nullptr,
                                        .instr = own ? &resident.instr() : nullptr,
                                        .box = box,
                                        .shared = shared,
                                        .host = host,
                                        .barrier = barrier,
                                        .asks = resident.state().draw.Below(kAsks)});
  // What another block has done is not known here, so that it is not compared.
  TellShared(*copy.warp, copy.lane, host + shared, box.bytes(),
             own ? AccessKind::kBegin : AccessKind::kBeginSame);
  return true;
}

bool BulkCopies::Land(Copy& copy) {
  const BulkBox& box = copy.box;
  std::vector<std::byte> bytes(box.row_bytes);
  for (size_t i = 0; i < box.rows.size(); ++i) {
    const BulkBox::Row& row = box.rows[i];
    if (row.bytes < box.row_bytes) {
      std::ranges::fill(bytes, std::byte{0});
      if (box.fills_nan) FillNaN(box.type, bytes);
    }
    const std::span<std::byte> there = std::span(bytes).subspan(row.first, row.bytes);
    if (!there.empty())
      std::memcpy(there.data(), reinterpret_cast<const std::byte*>(row.address), there.size());
    RoundElements(box.type, there);
    EachUnit(box, copy.shared, i, [&](uint64_t offset, uint32_t at) {
      std::memcpy(copy.host + offset, &bytes[at], kSwizzleUnit);
    });
  }
  TellShared(*copy.warp, copy.lane, copy.host + copy.shared, box.bytes(), AccessKind::kLand);
  std::byte* const word =
      copy.warp->At(Space::kShared, copy.barrier, sizeof(uint64_t), AccessKind::kAtomic, copy.lane);
  if (word == nullptr) return false;
  uint64_t bits;
  std::memcpy(&bits, word, sizeof(bits));
  Mbarrier barrier(bits);
  barrier.CompleteBytes(static_cast<uint32_t>(box.bytes()));
  bits = barrier.word();
  std::memcpy(word, &bits, sizeof(bits));
  return true;
}

bool BulkCopies::Settle(uint64_t barrier) {
  if (loads_.empty()) return true;
  std::vector<Copy> landing;
  for (size_t i = 0; i < loads_.size();) {
    if (loads_[i].barrier != barrier || loads_[i].asks-- > 0) {
      ++i;
      continue;
    }
    landing.push_back(std::move(loads_[i]));
    loads_.erase(loads_.begin() + static_cast<ptrdiff_t>(i));
  }
  return std::ranges::all_of(landing, Land);
}

BulkCopies::Groups& BulkCopies::GroupsOf(const Warp& warp) {
  for (Groups& groups : groups_)
    if (groups.warp == &warp) return groups;
  return groups_.emplace_back(Groups{.warp = &warp});
}

bool BulkCopies::Store(Warp& warp, int lane, BulkBox box, uint64_t shared, Reduce reduce) {
  ResidentWarp& resident = static_cast<ResidentWarp&>(warp);
  const std::span<std::byte> memory = resident.block().shared;
  std::byte* const host = FindShared(warp, lane, box, memory, shared, AccessKind::kRead);
  if (host == nullptr) return false;
  for (const BulkBox::Row& row : box.rows)
    if (!CanWrite(warp, lane, row.address, row.bytes)) return false;
  TellShared(warp, lane, host + shared, box.bytes(), AccessKind::kProxyRead);
  stores_.push_back({.warp = &warp,
                     .lane = lane,
                     .code = &resident.code(),
                     .instr = &resident.instr(),
                     .box = std::move(box),
                     .shared = shared,
                     .host = host,
                     .reduce = reduce,
                     .group = GroupsOf(warp).closed[static_cast<size_t>(lane)]});
  return true;
}

void BulkCopies::Commit(Warp& warp) {
  Groups& groups = GroupsOf(warp);
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1)
    ++groups.closed[static_cast<size_t>(std::countr_zero(lanes))];
}

bool BulkCopies::Wait(Warp& warp, uint32_t pending, bool reads) {
  if (stores_.empty()) return true;
  const Groups& groups = GroupsOf(warp);
  for (size_t i = 0; i < stores_.size();) {
    Copy& copy = stores_[i];
    const uint32_t behind = groups.closed[static_cast<size_t>(copy.lane)] - copy.group;
    if (copy.warp != &warp || (warp.mask() >> copy.lane & 1) == 0 || behind <= pending) {
      ++i;
      continue;
    }
    // One that had been read before may be written by now, and is.
    if (!std::exchange(copy.has_read, true)) {
      Read(copy);
      if (reads) {
        ++i;
        continue;
      }
    }
    if (!Write(copy)) return false;
    stores_.erase(stores_.begin() + static_cast<ptrdiff_t>(i));
  }
  return true;
}

void BulkCopies::Read(Copy& copy) {
  const BulkBox& box = copy.box;
  TellShared(*copy.warp, copy.lane, copy.host + copy.shared, box.bytes(), AccessKind::kRead);
  copy.read.resize(box.bytes());
  for (size_t i = 0; i < box.rows.size(); ++i)
    EachUnit(box, copy.shared, i, [&](uint64_t offset, uint32_t at) {
      std::memcpy(&copy.read[i * box.row_bytes + at], copy.host + offset, kSwizzleUnit);
    });
}

bool BulkCopies::Write(Copy& copy) {
  const BulkBox& box = copy.box;
  const uint64_t most = copy.reduce == nullptr ? kPieceMax : TensorMap::BytesOf(box.type);
  const AccessKind kind = copy.reduce == nullptr ? AccessKind::kWrite : AccessKind::kAtomic;
  for (size_t i = 0; i < box.rows.size(); ++i) {
    const BulkBox::Row& row = box.rows[i];
    const std::byte* const from = copy.read.data() + i * box.row_bytes + row.first;
    const bool may = EachPiece(row.address, row.bytes, most, [&](uint64_t address, uint64_t piece) {
      std::byte* const to =
          copy.warp->At(Space::kGlobal, address, static_cast<int64_t>(piece), kind, copy.lane);
      if (to == nullptr) return false;
      const std::byte* const value = from + (address - row.address);
      if (copy.reduce != nullptr) {
        copy.reduce(to, value);
      } else {
        std::memcpy(to, value, piece);
      }
      return true;
    });
    if (!may) return false;
  }
  return true;
}

void BulkCopies::Finish() {
  for (Copy& copy : std::exchange(stores_, {})) {
    if (!copy.has_read) {
      ReportLost(copy,
                 "copies from shared memory, but its block ended before any thread had waited "
                 "for that; execute cp.async.bulk.wait_group first");
    } else if (!Write(copy)) {
      break;
    }
  }
  for (const Copy& copy : loads_)
    ReportLost(copy,
               "copies to shared memory, but its block ended before any thread had waited for "
               "that; wait at its mbarrier first");
  Drop();
}

void BulkCopies::ReportLost(const Copy& copy, const char* what) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(*copy.warp);
  if (copy.box.bytes() == 0 || !warp.state().environment.checks.races) return;
  warp.state().findings.Report(Finding::Kind::kRace,
                               warp.WhereIs(copy.lane, *copy.code, *copy.instr), what, copy.shared);
}

void BulkCopies::Drop() {
  loads_.clear();
  stores_.clear();
  groups_.clear();
}

}  // namespace coppice::ptx
