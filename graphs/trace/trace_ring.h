// The events of one lane on their way to the trace's file. Private to graphs/.
//
// One thread at a time puts events in, another takes them out, and neither waits for the other:
//
//   tail          head      limit
//    │ taken next  │ put next │
//   ─┴─────────────┴──────────┴──────
//
// The limit is the producer's own: below it there is room, whatever the consumer does, so that an
// event costs one comparison. It lies no further than half the ring ahead, so that the producer
// passes by the consumer's bell long before the ring is full.
//
// An event is one line of the cache, written where it lies: put together elsewhere and copied, it
// would wait for its own stores. The producer asks for the next line ahead of time, because the
// consumer has read it.
//
// Units: events. Threads: Put, Claim, Publish and Extend by one producer at a time, head and Take
// by one consumer.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "coppice/graphs/call.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"
#include "coppice/graphs/trace.h"

namespace coppice::internal {

inline constexpr size_t kCacheLine = 64;

// What one event says; see TraceEventKind. A call of more symbols than have room here is two, of
// which the second has the other extents and no more: see FurtherExtents.
struct alignas(kCacheLine) RingEvent {
  static constexpr int kExtents = 3;

  uint64_t ticks = 0;    // Of a TraceClock.
  int64_t first = 0;     // The call; the failure; the mark; the policy; the request; bytes of the
                         // kind; or the count.
  int64_t second = 0;    // The other call; bytes of all kinds; real elements; or a time.
  int64_t third = 0;     // Padded elements; an offset; or a time.
  int32_t bucket = -1;   // Also an input, or tokens.
  int32_t node = -1;     // Also an output, or tokens.
  int32_t program = -1;  // Of a call, or of a policy.
  TraceEventKind kind = TraceEventKind::kCall;
  uint8_t how = 0;  // See How; or MemoryKind.
  uint8_t why = 0;  // Reason.
  uint8_t extent_count = 0;
  uint32_t host_ticks = 0;      // That a call took; 0: nobody looked.
  int32_t extents[kExtents]{};  // Real ones; what is larger is the largest number.

  static uint8_t How(RunKind kind, OutputMode outputs) {
    return static_cast<uint8_t>(static_cast<int>(outputs) * kRunKindCount + static_cast<int>(kind));
  }
  RunKind run_kind() const { return static_cast<RunKind>(how % kRunKindCount); }
  OutputMode output_mode() const { return static_cast<OutputMode>(how / kRunKindCount); }
};
static_assert(sizeof(RingEvent) == kCacheLine, "as TraceOptions says");

// The extents of a call behind the first RingEvent::kExtents, in the place of an event.
struct FurtherExtents {
  static constexpr int kMost = kSymbolsMax - RingEvent::kExtents;

  static RingEvent Pack(const int32_t (&extents)[kMost]) {
    return {
        .bucket = extents[0], .node = extents[1], .extents = {extents[2], extents[3], extents[4]}};
  }
  static std::array<int32_t, kMost> Unpack(const RingEvent& event) {
    return {event.bucket, event.node, event.extents[0], event.extents[1], event.extents[2]};
  }
};
static_assert(FurtherExtents::kMost == 5, "as many as Pack and Unpack name");

// Lines that are fetched ahead: the consumer's core had them last, and a replay is over before one
// of them has come from there.
inline constexpr uint64_t kPrefetched = 4;

class TraceRing {  // NOLINT(clang-analyzer-optin.performance.Padding): a line for each thread.
 public:
  // Requires: at_least >= 1. The capacity is the next power of two. Has no memory, and its limit is
  // its begin, until it is extended: most lanes of a session may never run.
  explicit TraceRing(int64_t at_least)
      : capacity_(std::bit_ceil(static_cast<uint64_t>(at_least))) {}
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;

  // Where the next event goes, which holds anything; null at the limit. It is in the ring once it
  // is published.
  RingEvent* Claim() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == limit_) [[unlikely]]
      return nullptr;
    __builtin_prefetch(&At(head + kPrefetched), 1);
    return &At(head);
  }
  void Publish() {
    head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Puts events in, all or none; false at the limit, where nothing happened.
  bool Put(const RingEvent& event) { return Put(std::span(&event, 1)); }
  bool Put(std::span<const RingEvent> events) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (limit_ - head < events.size()) [[unlikely]]
      return false;
    for (size_t i = 0; i < events.size(); ++i)
      At(head + i) = events[i];
    head_.store(head + events.size(), std::memory_order_release);
    return true;
  }

  // Moves the limit as far as the consumer allows; false if the ring has no room for so many. The
  // first time it allocates.
  bool Extend(size_t events = 1) {
    if (events_ == nullptr) events_ = std::make_unique<RingEvent[]>(capacity_);
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const uint64_t room = capacity_ - (head - tail_.load(std::memory_order_acquire));
    limit_ = head + std::min(room, std::max<uint64_t>(capacity_ / 2, 1));
    return limit_ - head >= events;
  }

  // Events that were put in, ever. The consumer may take up to as many.
  uint64_t head() const { return head_.load(std::memory_order_acquire); }

  // Calls `take` with each event up to number `head`, in order.
  template <typename Taker>
  void Take(uint64_t head, Taker take) {
    constexpr uint64_t kBatch = 256;  // So that the producer's line is not fought for.
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    while (tail != head) {
      for (const uint64_t end = tail + std::min(kBatch, head - tail); tail != end; ++tail)
        take(std::as_const(At(tail)));
      tail_.store(tail, std::memory_order_release);
    }
  }

  uint64_t capacity() const { return capacity_; }

 private:
  RingEvent& At(uint64_t number) { return events_[number & (capacity_ - 1)]; }

  const uint64_t capacity_;
  std::unique_ptr<RingEvent[]> events_;  // The consumer looks once there is an event.
  alignas(kCacheLine) std::atomic<uint64_t> head_ = 0;
  uint64_t limit_ = 0;  // The producer's.
  alignas(kCacheLine) std::atomic<uint64_t> tail_ = 0;
};

}  // namespace coppice::internal
