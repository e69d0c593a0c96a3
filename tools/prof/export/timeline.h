// A session as tracks of slices, instants and counters, which Chrome's and Perfetto's forms share.
//
// Units: nanoseconds, bytes. Threads: plain values.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/prof/export/traced_session.h"

namespace coppice {

enum class TimelineKind : uint8_t { kSlice, kInstant, kCounter };

// What a slice or an instant says besides its name.
struct TimelineFact {
  const char* name = "";
  int64_t number = 0;
  std::string text;  // If there is one, it counts in place of the number.
};

struct TimelineEvent {
  TimelineKind kind = TimelineKind::kInstant;
  int track = 0;  // 0: the session; from 1: lanes; of kCounter the place in CounterNames().
  int64_t time_ns = 0;
  int64_t duration_ns = 0;  // Of kSlice; slices of a track do not overlap.
  int64_t value = 0;        // Of kCounter.
  int name = 0;             // Place in Timeline::names; of kCounter of no account.
  int source = -1;          // Place in TracedSession::events.
};

struct Timeline {
  std::vector<std::string> names;
  std::vector<std::string> tracks;
  std::vector<TimelineEvent> events;  // In order of time.
};

// "bytes nodes", ... by MemoryKind, and "bytes of all kinds".
std::vector<std::string> CounterNames();

// Recordings are slices that end when their graph exists. One that would overlap the slice before
// it on its lane, as in the background, begins where that ends; its fact record_ns is as traced.
Timeline TimelineOf(const TracedSession& session);

// Facts of a slice or an instant.
std::vector<TimelineFact> FactsOf(const TracedSession& session, const TimelineEvent& event);

}  // namespace coppice
