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
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "coppice/graphs/trace_events.h"

namespace coppice::internal {

inline constexpr size_t kCacheLine = 64;

// A CallEvent, as a line has room for it: with the first of its extents, those that there are.
struct RingCall {
  static constexpr size_t kExtents = 3;

  uint8_t index = 0;  // RingEvent's, of what stands here.
  RunKind path = RunKind::kReplay;
  Reason reason = Reason::kNone;
  OutputMode outputs = OutputMode::kBorrow;
  int32_t bucket = -1;
  int32_t node = -1;
  int32_t program = -1;
  int64_t call = 0;
  int64_t real_elements = 0;
  int64_t padded_elements = 0;
  uint32_t host_ticks = 0;                               // That it took; 0: nobody looked.
  std::array<int32_t, kExtents> extents = {-1, -1, -1};  // -1: there are no more.
};

// The extents of the call that comes next, behind the first RingCall::kExtents.
struct FurtherExtents {
  std::array<int32_t, kSymbolsMax - RingCall::kExtents> extents = {-1, -1, -1, -1, -1};
};

// What stands in a ring: what happened, as TraceEvent has it but for calls.
template <typename Event>
struct RingEventsOf;
template <typename... Others>
struct RingEventsOf<std::variant<CallEvent, Others...>> {
  using Type = std::variant<RingCall, FurtherExtents, Others...>;
};
using RingEvents = RingEventsOf<TraceEvent>::Type;

// One of RingEvents and its time. Not the variant itself: that has its index behind the largest
// event, where a call leaves no room in the line.
class alignas(kCacheLine) RingEvent {
 public:
  RingEvent() = default;
  template <typename Event>
  RingEvent(uint64_t ticks, const Event& event) {
    Fill(ticks, [&event] { return event; });
  }

  // Makes the event that `make` returns, in its place here.
  template <typename Make>
  void Fill(uint64_t ticks, const Make& make) {
    using Event = decltype(make());
    static_assert(std::is_trivially_copyable_v<Event>);
    static_assert(kPlaceOf<Event> + sizeof(Event) <= sizeof(bytes_));
    ticks_ = ticks;
    bytes_[0] = static_cast<std::byte>(IndexOf<Event>());
    ::new (static_cast<void*>(&bytes_[kPlaceOf<Event>])) Event(make());
  }

  uint64_t ticks() const { return ticks_; }  // Of a TraceClock.

  // Calls `visit` with the event.
  template <size_t kIndex = 0, typename Visit>
  void VisitEvent(const Visit& visit) const {
    if constexpr (kIndex < std::variant_size_v<RingEvents>) {
      using Event = std::variant_alternative_t<kIndex, RingEvents>;
      if (bytes_[0] != std::byte{kIndex}) return VisitEvent<kIndex + 1>(visit);
      visit(*std::launder(reinterpret_cast<const Event*>(&bytes_[kPlaceOf<Event>])));
    }
  }

 private:
  template <typename Event, size_t kIndex = 0>
  static constexpr size_t IndexOf() {
    if constexpr (std::same_as<Event, std::variant_alternative_t<kIndex, RingEvents>>)
      return kIndex;
    else
      return IndexOf<Event, kIndex + 1>();
  }
  // A call's first byte is the index.
  template <typename Event>
  static constexpr size_t kPlaceOf = std::same_as<Event, RingCall> ? 0 : 8;

  uint64_t ticks_ = 0;
  alignas(8) std::array<std::byte, 56> bytes_{};
};
static_assert(sizeof(RingEvent) == kCacheLine, "as TraceOptions says");

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

  // Where the next event goes, which is any; null at the limit. It is in the ring once it
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
