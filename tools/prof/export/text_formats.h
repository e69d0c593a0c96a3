// Formats that are text: what a session did, for other people's tools.
//
// Equal sessions give equal text. Threads: pure functions.

#pragma once

#include <string>

#include "tools/prof/export/traced_session.h"

namespace coppice {

// JSON of Chrome's trace events, for Perfetto and chrome://tracing. The session is a process, each
// lane a thread of it, and requests are threads beside them. Recordings are slices, and so are
// calls and requests whose time is known; failures, evictions, policies, marks and other calls are
// instants; bytes by kind are counters. Units: microseconds, bytes.
std::string ChromeTraceOf(const TracedSession& session);

// Graphviz: which graphs follow which, by whose outputs a call reads. What runs without a graph is
// a node per bucket.
std::string GraphTreeOf(const TracedSession& session);

}  // namespace coppice
