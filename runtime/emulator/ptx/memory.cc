// Windows, bounds and alignment.

#include "runtime/emulator/ptx/memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fmt/format.h"

#include "coppice/base/plural.h"

namespace coppice::ptx {
namespace {

// The space that an address of a space is in.
Space SpaceAt(Space space, uint64_t address) {
  if (space == Space::kConst) return Space::kGlobal;
  if (space != Space::kGeneric && space != Space::kParam) return space;
  switch (address & kWindowMask) {
    case kSharedWindow:
      return space == Space::kGeneric ? Space::kShared : Space::kParam;
    case kThreadWindow:
      return Space::kLocal;
    case kBankWindow:
      return Space::kParam;
    default:
      return space == Space::kGeneric ? Space::kGlobal : Space::kParam;
  }
}

const char* VerbOf(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead:
    case AccessKind::kProxyRead:
      return "reads";
    case AccessKind::kWrite:
    case AccessKind::kBegin:
    case AccessKind::kBeginSame:
    case AccessKind::kLand:
      return "writes";
    case AccessKind::kAtomic:
      return "updates";
  }
  return "";
}

}  // namespace

bool Memory::Shift(Reach& reach,
                   uint64_t begin,
                   uint64_t end,
                   int64_t bytes,
                   const std::byte* host,
                   int64_t stride) const {
  const uint64_t size = end - begin;
  const uint64_t step = static_cast<uint64_t>(bytes);
  if (size < step) return false;
  return lanes_.move(reach.address,
                     {.begin = begin,
                      .limit = size - step,
                      .moved = reinterpret_cast<uint64_t>(host) - begin,
                      .stride = static_cast<uint64_t>(stride)},
                     step, reach.contiguous);
}

bool Memory::Resolve(
    ResidentWarp& warp, uint32_t mask, Space space, int64_t bytes, AccessKind kind, Reach& reach) {
  if (space == Space::kLocal) {
    for (uint64_t& address : reach.address)
      address |= (address & kWindowMask) == 0 ? kThreadWindow : 0;
  }
  const int first = std::countr_zero(mask);
  const uint64_t any = reach.address[static_cast<size_t>(first)];
  if (mask != kAllLanes) lanes_.keep(reach.address, mask, any);
  reach.space = SpaceAt(space, any);
  bool resolved = false;
  switch (reach.space) {
    case Space::kGlobal: {
      MemoryRange& range = last_[kind != AccessKind::kRead];
      if (any - range.begin >= range.end - range.begin) {
        const MemoryRange* const found = RangeOf(any, bytes);
        if (found == nullptr || (kind != AccessKind::kRead && !found->writable)) break;
        range = *found;
      }
      resolved = Shift(reach, range.begin, range.end, bytes,
                       reinterpret_cast<const std::byte*>(range.begin), 0);
      break;
    }
    case Space::kShared: {
      const std::span<std::byte> shared = warp.block().shared;
      const uint64_t begin = space == Space::kShared ? 0 : kSharedWindow;
      resolved = Shift(reach, begin, begin + shared.size(), bytes, shared.data(), 0);
      break;
    }
    case Space::kLocal:
      resolved = Shift(reach, kThreadWindow,
                       kThreadWindow + static_cast<uint64_t>(warp.ThreadBytes(warp.frame())), bytes,
                       warp.thread_memory(), warp.thread_stride());
      break;
    default:
      break;
  }
  if (resolved) return true;
  reach.contiguous = false;
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    uint64_t& address = reach.address[static_cast<size_t>(lane)];
    if (SpaceAt(space, address) != reach.space) reach.space = Space::kGeneric;
    const std::byte* const host = Find(space, {warp, address, bytes, kind, lane});
    if (host == nullptr) return false;
    if (warp.IsOfCluster(host)) reach.space = Space::kGeneric;
    address = reinterpret_cast<uint64_t>(host);
  }
  lanes_.keep(reach.address, mask, reach.address[static_cast<size_t>(first)]);
  return true;
}

std::byte* Memory::Find(Space space, const Access& access) {
  const uint64_t address = access.address;
  if ((address & (static_cast<uint64_t>(access.bytes) - 1)) != 0)
    return Refuse(access, Finding::Kind::kMisaligned,
                  fmt::format("which is not a multiple of {}", access.bytes));
  const auto inside = [&access](uint64_t offset, size_t size) {
    return offset <= size && size - offset >= static_cast<uint64_t>(access.bytes);
  };
  ResidentWarp& warp = access.warp;
  switch (SpaceAt(space, address)) {
    case Space::kShared: {
      uint64_t offset = space == Space::kShared ? address : address - kSharedWindow;
      BlockState* block = &warp.block();
      if (const uint64_t rank = offset >> kRankShift; rank != 0) {
        const std::vector<BlockState*>& members = warp.block().cluster->members;
        if (rank > members.size())
          return Refuse(
              access, Finding::Kind::kIllegalAddress,
              fmt::format("in shared memory of the block of rank {}, but the cluster size is {}",
                          rank - 1, members.size()));
        offset &= (uint64_t{1} << kRankShift) - 1;
        block = members[rank - 1];
        if (!block->running)
          return Refuse(access, Finding::Kind::kIllegalAddress,
                        fmt::format("in shared memory of the block of rank {} in the cluster, but "
                                    "this block has ended",
                                    rank - 1));
      }
      const std::span<std::byte> shared = block->shared;
      if (inside(offset, shared.size())) {
        std::vector<uint8_t>& written = block->shadow.written;
        if (block != &warp.block() && access.kind != AccessKind::kRead && !written.empty())
          std::fill_n(&written[offset], access.bytes, uint8_t{1});
        return shared.data() + offset;
      }
      return Refuse(
          access, Finding::Kind::kIllegalAddress,
          fmt::format("in shared memory, but the block has only {} bytes of shared memory",
                      shared.size()));
    }
    case Space::kLocal: {
      const uint64_t offset = address - kThreadWindow;
      const int64_t size = ResidentWarp::ThreadBytes(warp.frame());
      if (inside(offset, static_cast<size_t>(size)))
        return warp.thread_memory() + access.lane * warp.thread_stride() + offset;
      return Refuse(
          access, Finding::Kind::kIllegalAddress,
          fmt::format("in local memory, but the thread has only {} bytes of local memory", size));
    }
    case Space::kParam: {
      const uint64_t offset = address & ~kWindowMask;
      if (inside(offset, state_.bank.size()) && access.kind == AccessKind::kRead)
        return state_.bank.data() + offset;
      return Refuse(access, Finding::Kind::kIllegalAddress,
                    fmt::format("in the kernel parameters, which have {} bytes and are read-only",
                                state_.bank.size()));
    }
    default:
      return FindGlobal(access);
  }
}

const MemoryRange* Memory::RangeOf(uint64_t address, int64_t bytes) const {
  const uint64_t end = address + static_cast<uint64_t>(bytes);
  const auto behind =
      std::upper_bound(ranges_.begin(), ranges_.end(), address,
                       [](uint64_t at, const MemoryRange& range) { return at < range.begin; });
  if (behind == ranges_.begin()) return nullptr;
  const MemoryRange& range = *std::prev(behind);
  return address < end && end <= range.end ? &range : nullptr;
}

std::byte* Memory::FindGlobal(const Access& access) {
  const uint64_t end = access.address + static_cast<uint64_t>(access.bytes);
  const auto holds = [&](const MemoryRange& range) {
    return range.begin <= access.address && access.address < end && end <= range.end;
  };
  std::byte* const host = reinterpret_cast<std::byte*>(access.address);
  MemoryRange& last = last_[access.kind != AccessKind::kRead];
  if (holds(last)) return host;
  if (const MemoryRange* const found = RangeOf(access.address, access.bytes); found != nullptr) {
    if (access.kind != AccessKind::kRead && !found->writable)
      return Refuse(
          access, Finding::Kind::kIllegalAddress,
          state_.environment.arguments.empty() ? "which is read-only" : NearestArgument(access));
    last = *found;
    return host;
  }
  const uint64_t workspace = reinterpret_cast<uint64_t>(state_.workspace.data());
  if (holds({workspace, workspace + state_.workspace.size()})) return host;
  if (IsSharedWord(access)) return host;
  return Refuse(access, Finding::Kind::kIllegalAddress, Nearest(access));
}

const MemoryRange* Memory::RangeInWord(uint64_t address) const {
  const auto range = std::ranges::upper_bound(ranges_, address, {}, &MemoryRange::end);
  return range != ranges_.end() && range->begin < address + sizeof(uint32_t) ? &*range : nullptr;
}

bool Memory::IsSharedWord(const Access& access) const {
  const bool is_read = access.kind == AccessKind::kRead;
  if (!state_.kernel.swaps_words || !state_.environment.whole_words ||
      access.bytes != sizeof(uint32_t) || (!is_read && access.kind != AccessKind::kAtomic))
    return false;
  const MemoryRange* const range = RangeInWord(access.address);
  return range != nullptr && (is_read || range->writable);
}

bool Memory::MayChange(Warp& on, const std::byte* host, uint32_t bits, int lane) {
  const uint64_t address = reinterpret_cast<uint64_t>(host);
  const MemoryRange* const range = RangeInWord(address);
  // No global memory, or all of it.
  if (range == nullptr || (range->begin <= address && address + sizeof(bits) <= range->end))
    return true;
  for (uint64_t at = 0; at < sizeof(bits); ++at) {
    if ((bits >> (8 * at) & 0xff) == 0 || RangeOf(address + at, 1) != nullptr) continue;
    const Access access = {static_cast<ResidentWarp&>(on), address + at, 1, AccessKind::kAtomic,
                           lane};
    Refuse(access, Finding::Kind::kIllegalAddress, Nearest(access));
    return false;
  }
  return true;
}

std::string Memory::Nearest(const Access& access) const {
  if (access.address < 4096) return "which is a null pointer plus an offset";
  if (!state_.environment.arguments.empty()) return NearestArgument(access);
  const uint64_t end = access.address + static_cast<uint64_t>(access.bytes);
  const auto behind = std::upper_bound(
      ranges_.begin(), ranges_.end(), access.address,
      [](uint64_t address, const MemoryRange& range) { return address < range.begin; });
  const bool before = behind != ranges_.begin();
  const auto nearest = before ? std::prev(behind) : behind;
  if (nearest == ranges_.end()) return "where nothing is mapped";
  const std::string what = fmt::format(
      "range of {} at {:#x}", Plural(nearest->end - nearest->begin, "byte"), nearest->begin);
  if (before && access.address >= nearest->end &&
      (behind == ranges_.end() || access.address - nearest->end <= behind->begin - end))
    return fmt::format("{} past the end of the {}", Plural(access.address - nearest->end, "byte"),
                       what);
  if (before && access.address < nearest->end) return fmt::format("across the end of the {}", what);
  return fmt::format("{} before the range of {} at {:#x}",
                     Plural(behind->begin - access.address, "byte"),
                     Plural(behind->end - behind->begin, "byte"), behind->begin);
}

std::string Memory::NearestArgument(const Access& access) const {
  const uint64_t begin = access.address;
  const uint64_t end = begin + static_cast<uint64_t>(access.bytes);
  const auto distance = [&](const ArgumentRange& argument) {
    if (begin >= argument.range.end) return begin - argument.range.end + 1;
    return end <= argument.range.begin ? argument.range.begin - end + 1 : 0;
  };
  const std::span<const ArgumentRange> arguments = state_.environment.arguments;
  const ArgumentRange& nearest = *std::ranges::min_element(arguments, {}, distance);
  const auto& [from, to, writable] = nearest.range;
  const std::string what = fmt::format(
      "{}, a range of {} at {:#x}",
      nearest.argument < 0 ? nearest.name
                           : fmt::format("argument {} ({})", nearest.argument, nearest.name),
      Plural(to - from, "byte"), from);
  if (begin >= to) return fmt::format("{} past the end of {}", Plural(begin - to, "byte"), what);
  if (end <= from) return fmt::format("{} before {}", Plural(from - begin, "byte"), what);
  if (begin < from || end > to) return fmt::format("across the bounds of {}", what);
  return fmt::format("inside {}, which {}", what,
                     writable ? "is not mapped" : "the launch may only read");
}

std::byte* Memory::Refuse(const Access& access, Finding::Kind kind, std::string_view why) {
  access.warp.Fault(kind, access.lane,
                    fmt::format("{} {} at {:#x}, {}", VerbOf(access.kind),
                                Plural(access.bytes, "byte"), access.address, why),
                    access.address);
  return nullptr;
}

std::byte* Memory::At(
    Warp& warp, Space space, uint64_t address, int64_t bytes, AccessKind kind, int lane) {
  ResidentWarp& resident = static_cast<ResidentWarp&>(warp);
  std::byte* const host = Find(space, {resident, address, bytes, kind, lane});
  if (host == nullptr) return nullptr;
  Count(kind, 1);
  if (observer_ != nullptr) observer_->Note(resident, host, bytes, kind, lane);
  return host;
}

bool Memory::FindLanes(
    Warp& warp, Space space, uint32_t lanes, int64_t bytes, AccessKind kind, LaneWords& addresses) {
  if (lanes == 0) return true;
  Reach reach;
  reach.address = addresses;
  if (!Resolve(static_cast<ResidentWarp&>(warp), lanes, space, bytes, kind, reach)) return false;
  addresses = reach.address;
  return true;
}

void Memory::Tell(
    Warp& warp, uint32_t lanes, const LaneWords& hosts, int64_t bytes, AccessKind kind) {
  Count(kind, std::popcount(lanes));
  if (observer_ == nullptr || lanes == 0) return;
  ResidentWarp& resident = static_cast<ResidentWarp&>(warp);
  if (kind == AccessKind::kRead && lanes == warp.mask()) {
    observer_->Read(resident, {.address = hosts}, bytes, false);
    return;
  }
  if (kind == AccessKind::kProxyRead) {
    observer_->ReadByProxy(resident, lanes, hosts, bytes);
    return;
  }
  if (kind == AccessKind::kBegin || kind == AccessKind::kBeginSame || kind == AccessKind::kLand) {
    observer_->Copy(resident, lanes, hosts, bytes, kind);
    return;
  }
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    std::byte* const host = reinterpret_cast<std::byte*>(hosts[static_cast<size_t>(lane)]);
    observer_->Note(resident, host, bytes, kind, lane);
  }
}

void Memory::Count(AccessKind kind, int64_t lanes) {
  Counts& counts = state_.counts;
  const bool only_reads = kind == AccessKind::kRead || kind == AccessKind::kProxyRead;
  counts.loads += only_reads || kind == AccessKind::kAtomic ? lanes : 0;
  counts.stores += !only_reads && kind != AccessKind::kLand ? lanes : 0;
}

std::optional<std::string> Memory::TextAt(ResidentWarp& warp, uint64_t address, int lane) {
  constexpr size_t kTextMax = 4096;
  std::string text;
  while (text.size() < kTextMax) {
    const std::byte* const host =
        Find(Space::kGeneric, {warp, address + text.size(), 1, AccessKind::kRead, lane});
    if (host == nullptr) return std::nullopt;
    if (*host == std::byte{0}) break;
    text.push_back(static_cast<char>(*host));
  }
  return text;
}

}  // namespace coppice::ptx
