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
// Units: events. Threads: Put and Extend by one producer at a time, head and Take by one consumer.

#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "coppice/graphs/program.h"
#include "coppice/graphs/trace.h"

namespace coppice::internal {

// What one event says; see TraceEventKind.
struct RingEvent {
  uint64_t ticks = 0;  // Of a TraceClock.
  int64_t first = 0;   // The call; the failure; the mark; bytes of the kind; or the count.
  int64_t second = 0;  // The other call; bytes of all kinds; or real elements.
  int64_t third = 0;   // Padded elements.
  int32_t bucket = -1;
  int32_t node = -1;
  TraceEventKind kind = TraceEventKind::kCall;
  uint8_t how = 0;  // RunKind or MemoryKind.
  uint8_t why = 0;  // Reason.
  uint8_t extent_count = 0;
  int32_t program = -1;            // Of a call.
  int32_t extents[kSymbolsMax]{};  // Real ones; what is larger is the largest number.
};
static_assert(sizeof(RingEvent) == 80, "as TraceOptions says");

class TraceRing {  // NOLINT(clang-analyzer-optin.performance.Padding): a line for each thread.
 public:
  // Requires: at_least >= 1. The capacity is the next power of two.
  explicit TraceRing(int64_t at_least)
      : capacity_(std::bit_ceil(static_cast<uint64_t>(at_least))),
        events_(std::make_unique<RingEvent[]>(capacity_)),
        limit_(std::max<uint64_t>(capacity_ / 2, 1)) {}
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;

  // Puts an event in, of its own ticks or of these; false at the limit, where nothing happened.
  bool Put(const RingEvent& event) { return Put(event, event.ticks); }
  bool Put(const RingEvent& event, uint64_t ticks) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == limit_) [[unlikely]]
      return false;
    RingEvent& place = events_[head & (capacity_ - 1)];
    place = event;
    place.ticks = ticks;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // Moves the limit as far as the consumer allows; false if the ring is full.
  bool Extend() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const uint64_t room = capacity_ - (head - tail_.load(std::memory_order_acquire));
    limit_ = head + std::min(room, std::max<uint64_t>(capacity_ / 2, 1));
    return room > 0;
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
        take(events_[tail & (capacity_ - 1)]);
      tail_.store(tail, std::memory_order_release);
    }
  }

  uint64_t capacity() const { return capacity_; }

 private:
  static constexpr size_t kCacheLine = 64;

  const uint64_t capacity_;
  const std::unique_ptr<RingEvent[]> events_;
  alignas(kCacheLine) std::atomic<uint64_t> head_ = 0;
  uint64_t limit_;  // The producer's.
  alignas(kCacheLine) std::atomic<uint64_t> tail_ = 0;
};

}  // namespace coppice::internal
