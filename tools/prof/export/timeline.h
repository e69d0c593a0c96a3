// A session as tracks of slices, instants and counters.
//
// Units: nanoseconds, bytes. Threads: plain values.

#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tools/prof/export/traced_session.h"

namespace coppice {

enum class TimelineKind : uint8_t { kSlice, kInstant, kCounter };

// What a slice or an instant says besides its name.
struct TimelineFact {
  const char* name = "";
  std::variant<int64_t, double, std::string> value;
};

struct TimelineEvent {
  TimelineKind kind = TimelineKind::kInstant;
  int track = 0;  // Place in Timeline::tracks; of kCounter in CounterNames().
  int64_t time_ns = 0;
  int64_t duration_ns = 0;  // Of kSlice; those of a track are apart, or one within the other.
  int64_t value = 0;        // Of kCounter.
  int name = 0;             // Place in Timeline::names; of kCounter of no account.
  int source = -1;          // Place in TracedSession::events.
};

struct Timeline {
  std::vector<std::string> names;
  std::vector<std::string> tracks;    // The session, its lanes, rows of requests.
  std::vector<TimelineEvent> events;  // In order of time; of slices that begin at once, the outer
                                      // one comes first.
};

// "bytes nodes", ... by MemoryKind, "bytes of all kinds", and what programs bind beside those.
std::vector<std::string> CounterNames();

// Recordings are slices that end when their graph exists, and calls whose host time is known slices
// that end at their event, around what they recorded. One that would overlap the slice before it on
// its lane, as a recording in the background, begins where that ends; its facts record_ns and
// host_ns are as traced. Other calls are instants.
//
// Requests are slices in as many rows as were served at once, 64 at most. One that finds none, or
// began before the session by the clock of whoever served it, is an instant of the first row.
Timeline TimelineOf(const TracedSession& session);

// Facts of a slice or an instant.
std::vector<TimelineFact> FactsOf(const TracedSession& session, const TimelineEvent& event);

}  // namespace coppice
