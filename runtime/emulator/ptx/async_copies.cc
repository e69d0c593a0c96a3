// Queues of copies, one per warp, in the order in which they were started.

#include "runtime/emulator/ptx/async_copies.h"

#include <bit>
#include <cstring>
#include <vector>

#include "runtime/emulator/ptx/mbarrier.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

// A copy of up to 16 bytes reads fewer in pieces, each as large as its alignment allows, so that no
// byte beyond them is looked at.
bool FindPieces(Warp& warp, uint64_t from, int read, int lane, uint64_t& source) {
  for (int done = 0; done < read;) {
    const int piece = static_cast<int>(std::bit_floor(static_cast<unsigned>(read - done)));
    const std::byte* host = warp.At(Space::kGlobal, from + done, piece, AccessKind::kRead, lane);
    if (host == nullptr) return false;
    if (done == 0) source = reinterpret_cast<uint64_t>(host);
    done += piece;
  }
  return true;
}

bool ArriveAt(Warp& warp, Space space, uint64_t address, int lane) {
  std::byte* const word = warp.At(space, address, sizeof(uint64_t), AccessKind::kAtomic, lane);
  if (word == nullptr) return false;
  uint64_t bits;
  std::memcpy(&bits, word, sizeof(bits));
  Mbarrier barrier(bits);
  barrier.Arrive(1);
  bits = barrier.word();
  std::memcpy(word, &bits, sizeof(bits));
  return true;
}

// Whether 4, 8 or 16 bytes are the same: as constants, so that no function is called.
bool IsSame(const std::byte* a, const std::byte* b, size_t bytes) {
  switch (bytes) {
    case 4:
      return std::memcmp(a, b, 4) == 0;
    case 8:
      return std::memcmp(a, b, 8) == 0;
    default:
      return std::memcmp(a, b, 16) == 0;
  }
}

// An address of shared memory is an offset there, or one in its window.
bool IsSamePlace(Space space, uint64_t address, Space other_space, uint64_t other) {
  const auto offset = [](Space in, uint64_t at) {
    return in == Space::kShared ? at : at - kSharedWindow;
  };
  return offset(space, address) == offset(other_space, other);
}

}  // namespace

// Lanes that pass a loop together are in the same group, most of the time.
struct Groups {
  std::array<uint32_t, kLanes> of = {};
  bool same = true;

  void Close(uint32_t lanes) {
    same = same && lanes == kAllLanes;
    for (int lane = 0; lane < kLanes; ++lane)
      of[lane] += lanes >> lane & 1;
  }
  // The lanes of which more than `pending` groups have been opened behind that of `earlier`.
  uint32_t Behind(const Groups& earlier, uint32_t pending) const {
    if (same && earlier.same) return of[0] - earlier.of[0] > pending ? kAllLanes : 0;
    uint32_t lanes = 0;
    for (int lane = 0; lane < kLanes; ++lane)
      lanes |= static_cast<uint32_t>(of[lane] - earlier.of[lane] > pending) << lane;
    return lanes;
  }
};

struct AsyncCopies::Queue {
  // A copy of the lanes in `lanes`, or their arrivals.
  struct Entry {
    uint32_t lanes = 0;  // That have not landed.
    bool arrival = false;
    uint8_t bytes = 0;
    Space space = Space::kShared;  // Of arrivals.
    uint32_t whole = 0;            // The lanes that read all of their bytes.
    Groups groups;                 // Of the copy.
    std::array<uint8_t, kLanes> read;
    LaneWords sources;  // Of the host.
    LaneWords targets;  // Of the host; of arrivals the addresses of their mbarriers.
  };

  explicit Queue(Warp& of) : warp(of) {}

  // Lets the copies of `lanes` land that were started before entry `end`.
  void LandBefore(size_t end, uint32_t lanes) {
    for (size_t i = first; i < end; ++i)
      if (!entries[i].arrival) Land(entries[i], lanes);
  }

  void Land(Entry& entry, uint32_t lanes) {
    lanes &= entry.lanes;
    if (lanes == 0) return;
    warp.Tell(lanes, entry.targets, entry.bytes, AccessKind::kLand);
    entry.lanes &= ~lanes;
    if ((lanes & ~entry.whole) == 0 && entry.bytes == 16) {
      for (; lanes != 0; lanes &= lanes - 1) {
        const int lane = std::countr_zero(lanes);
        std::memcpy(Target(entry, lane), Source(entry, lane), 16);
      }
      return;
    }
    for (; lanes != 0; lanes &= lanes - 1) {
      const int lane = std::countr_zero(lanes);
      const size_t read = entry.read[lane];
      if (read != 0) std::memcpy(Target(entry, lane), Source(entry, lane), read);
      std::memset(Target(entry, lane) + read, 0, entry.bytes - read);
    }
  }

  static std::byte* Target(const Entry& entry, int lane) {
    return reinterpret_cast<std::byte*>(entry.targets[lane]);
  }
  static const std::byte* Source(const Entry& entry, int lane) {
    return reinterpret_cast<const std::byte*>(entry.sources[lane]);
  }
  // The lanes whose copies bring what is there.
  static uint32_t LanesOfSame(const Entry& entry) {
    uint32_t same = 0;
    for (uint32_t left = entry.lanes & entry.whole; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      const bool equal = IsSame(Target(entry, lane), Source(entry, lane), entry.bytes);
      same |= static_cast<uint32_t>(equal) << lane;
    }
    return same;
  }

  bool Arrive(Entry& entry, uint32_t lanes) {
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      if (!ArriveAt(warp, entry.space, entry.targets[lane], lane)) return false;
    }
    entry.lanes &= ~lanes;
    return true;
  }

  // Lets the arrivals of `lanes` happen that no copy is before.
  bool LetArrive(uint32_t lanes) {
    uint32_t copying = 0;
    for (size_t i = first; i < entries.size(); ++i) {
      Entry& entry = entries[i];
      if (!entry.arrival) {
        copying |= entry.lanes;
      } else if (!Arrive(entry, entry.lanes & lanes & ~copying)) {
        return false;
      }
    }
    return true;
  }

  void DropLanded() {
    constexpr size_t kDroppedMax = 64;
    while (first < entries.size() && entries[first].lanes == 0)
      ++first;
    if (first < entries.size() && first < kDroppedMax) return;
    entries.erase(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(first));
    first = 0;
  }

  Warp& warp;
  std::vector<Entry> entries;
  size_t first = 0;  // Of those that may not have landed.
  Groups open;       // Of each lane: the group that its next copy belongs to.
};

AsyncCopies::AsyncCopies() = default;
AsyncCopies::~AsyncCopies() = default;

AsyncCopies::Queue& AsyncCopies::QueueOf(Warp& warp) {
  for (const auto& queue : queues_) {
    if (&queue->warp == &warp) return *queue;
  }
  return *queues_.emplace_back(std::make_unique<Queue>(warp));
}

bool AsyncCopies::Start(Warp& warp, const Copy& copy) {
  Queue& queue = QueueOf(warp);
  Queue::Entry& entry = queue.entries.emplace_back();
  const uint32_t lanes = warp.mask();
  uint32_t some = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    entry.whole |= static_cast<uint32_t>(copy.read[lane] == copy.bytes) << lane;
    some |= static_cast<uint32_t>(copy.read[lane] != 0) << lane;
  }
  entry.bytes = copy.bytes;
  entry.groups = queue.open;
  entry.read = copy.read;
  entry.sources = copy.from;
  entry.targets = copy.to;
  const uint32_t whole = lanes & entry.whole;
  if (!warp.FindLanes(Space::kGlobal, whole, copy.bytes, AccessKind::kRead, entry.sources))
    return false;
  warp.Tell(whole, entry.sources, copy.bytes, AccessKind::kRead);
  for (uint32_t left = lanes & some & ~whole; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    if (!FindPieces(warp, copy.from[lane], copy.read[lane], lane, entry.sources[lane]))
      return false;
  }
  if (!warp.FindLanes(Space::kShared, lanes, copy.bytes, AccessKind::kWrite, entry.targets))
    return false;
  entry.lanes = lanes;
  const uint32_t same = warp.IsTold() ? Queue::LanesOfSame(entry) : 0;
  warp.Tell(lanes & ~same, entry.targets, copy.bytes, AccessKind::kBegin);
  warp.Tell(same, entry.targets, copy.bytes, AccessKind::kBeginSame);
  return true;
}

void AsyncCopies::Commit(Warp& warp) {
  QueueOf(warp).open.Close(warp.mask());
}

bool AsyncCopies::Wait(Warp& warp, uint32_t pending) {
  Queue& queue = QueueOf(warp);
  for (size_t i = queue.first; i < queue.entries.size(); ++i) {
    Queue::Entry& entry = queue.entries[i];
    if (!entry.arrival) queue.Land(entry, queue.open.Behind(entry.groups, pending) & warp.mask());
  }
  if (!queue.LetArrive(warp.mask())) return false;
  queue.DropLanded();
  return true;
}

void AsyncCopies::Arrive(Warp& warp, Space space, const LaneWords& addresses) {
  Queue::Entry& entry = QueueOf(warp).entries.emplace_back();
  entry.lanes = warp.mask();
  entry.arrival = true;
  entry.space = space;
  entry.targets = addresses;
  arrivals_ = true;
}

void AsyncCopies::Drop() {
  queues_.clear();
  arrivals_ = false;
}

bool AsyncCopies::Settle(Space space, uint64_t address) {
  if (!arrivals_) return true;
  arrivals_ = false;
  for (const auto& queue : queues_) {
    for (size_t i = queue->first; i < queue->entries.size(); ++i) {
      Queue::Entry& entry = queue->entries[i];
      if (!entry.arrival) continue;
      uint32_t arriving = 0;
      for (uint32_t lanes = entry.lanes; lanes != 0; lanes &= lanes - 1) {
        const int lane = std::countr_zero(lanes);
        if (IsSamePlace(entry.space, entry.targets[lane], space, address))
          arriving |= uint32_t{1} << lane;
      }
      queue->LandBefore(i, arriving);
      if (!queue->Arrive(entry, arriving)) return false;
      arrivals_ |= entry.lanes != 0;
    }
    queue->DropLanded();
  }
  return true;
}

}  // namespace coppice::ptx
