// Queues of copies, one per warp, in the order in which they were started.

#include "runtime/emulator/ptx/async_copies.h"

#include <bit>
#include <cstring>
#include <deque>

#include "runtime/emulator/ptx/mbarrier.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

// A copy of up to 16 bytes reads fewer in pieces, each as large as its alignment allows, so that no
// byte beyond them is looked at.
bool CheckSource(Warp& warp, uint64_t from, int read, int lane, const std::byte*& source) {
  for (int done = 0; done < read;) {
    const int piece = static_cast<int>(std::bit_floor(static_cast<unsigned>(read - done)));
    const std::byte* host = warp.At(Space::kGlobal, from + done, piece, AccessKind::kRead, lane);
    if (host == nullptr) return false;
    if (done == 0) source = host;
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

// An address of shared memory is an offset there, or one in its window.
bool IsSamePlace(Space space, uint64_t address, Space other_space, uint64_t other) {
  const auto offset = [](Space in, uint64_t at) {
    return in == Space::kShared ? at : at - kSharedWindow;
  };
  return offset(space, address) == offset(other_space, other);
}

}  // namespace

struct AsyncCopies::Queue {
  // A copy of the lanes in `lanes`, or their arrivals.
  struct Entry {
    uint32_t lanes = 0;  // That have not landed.
    bool arrival = false;
    Copy copy;
    std::array<const std::byte*, kLanes> sources;
    Space space = Space::kShared;            // Of arrivals, and ...
    std::array<uint64_t, kLanes> addresses;  // ... of their mbarriers.
    std::array<uint32_t, kLanes> groups;     // Of the copy.
  };

  explicit Queue(Warp& of) : warp(of) {}

  // Lets the copies of `lanes` land that were started before entry `end`.
  bool LandBefore(size_t end, uint32_t lanes) {
    for (size_t i = 0; i < end; ++i) {
      if (!entries[i].arrival && !Land(entries[i], lanes)) return false;
    }
    return true;
  }

  bool Land(Entry& entry, uint32_t lanes) {
    const Copy& copy = entry.copy;
    for (lanes &= entry.lanes; lanes != 0; lanes &= lanes - 1) {
      const int lane = std::countr_zero(lanes);
      std::byte* const to =
          warp.At(Space::kShared, copy.to[lane], copy.bytes, AccessKind::kLand, lane);
      if (to == nullptr) return false;
      const size_t read = copy.read[lane];
      if (read != 0) std::memcpy(to, entry.sources[lane], read);
      std::memset(to + read, 0, copy.bytes - read);
      entry.lanes &= ~(uint32_t{1} << lane);
    }
    return true;
  }

  bool Arrive(Entry& entry, uint32_t lanes) {
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      if (!ArriveAt(warp, entry.space, entry.addresses[lane], lane)) return false;
    }
    entry.lanes &= ~lanes;
    return true;
  }

  // Lets the arrivals of `lanes` happen that no copy is before.
  bool LetArrive(uint32_t lanes) {
    uint32_t copying = 0;
    for (Entry& entry : entries) {
      if (!entry.arrival) {
        copying |= entry.lanes;
      } else if (!Arrive(entry, entry.lanes & lanes & ~copying)) {
        return false;
      }
    }
    return true;
  }

  void DropLanded() {
    while (!entries.empty() && entries.front().lanes == 0)
      entries.pop_front();
  }

  Warp& warp;
  std::deque<Entry> entries;
  std::array<uint32_t, kLanes> open = {};  // The group that the lane's next copy belongs to.
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
  entry.copy = copy;
  entry.groups = queue.open;
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (!CheckSource(warp, copy.from[lane], copy.read[lane], lane, entry.sources[lane]))
      return false;
    if (warp.At(Space::kShared, copy.to[lane], copy.bytes, AccessKind::kBegin, lane) == nullptr)
      return false;
  }
  entry.lanes = warp.mask();
  return true;
}

void AsyncCopies::Commit(Warp& warp) {
  Queue& queue = QueueOf(warp);
  for (int lane = 0; lane < kLanes; ++lane)
    queue.open[lane] += warp.mask() >> lane & 1;
}

bool AsyncCopies::Wait(Warp& warp, uint32_t pending) {
  Queue& queue = QueueOf(warp);
  for (Queue::Entry& entry : queue.entries) {
    if (entry.arrival) continue;
    uint32_t landing = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool lands = queue.open[lane] - entry.groups[lane] > pending;
      landing |= static_cast<uint32_t>(lands) << lane;
    }
    if (!queue.Land(entry, landing & warp.mask())) return false;
  }
  if (!queue.LetArrive(warp.mask())) return false;
  queue.DropLanded();
  return true;
}

void AsyncCopies::Arrive(Warp& warp, Space space, const std::array<uint64_t, kLanes>& addresses) {
  Queue::Entry& entry = QueueOf(warp).entries.emplace_back();
  entry.lanes = warp.mask();
  entry.arrival = true;
  entry.space = space;
  entry.addresses = addresses;
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
    for (size_t i = 0; i < queue->entries.size(); ++i) {
      Queue::Entry& entry = queue->entries[i];
      if (!entry.arrival) continue;
      uint32_t arriving = 0;
      for (uint32_t lanes = entry.lanes; lanes != 0; lanes &= lanes - 1) {
        const int lane = std::countr_zero(lanes);
        if (IsSamePlace(entry.space, entry.addresses[lane], space, address))
          arriving |= uint32_t{1} << lane;
      }
      if (!queue->LandBefore(i, arriving) || !queue->Arrive(entry, arriving)) return false;
      arrivals_ |= entry.lanes != 0;
    }
    queue->DropLanded();
  }
  return true;
}

}  // namespace coppice::ptx
