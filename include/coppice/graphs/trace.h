// The trace of a session: its options, and what servers add to it. trace_events.h describes its
// contents.
//
// Units: nanoseconds, tokens. Threads: any method from any thread.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace coppice {

namespace internal {
struct SessionParts;
}  // namespace internal

// How long one request to a server took, by the server's clock; for SessionTrace::NoteRequest.
struct RequestTimes {
  int64_t id = 0;              // 0 to 2^53.
  int64_t first_token_ns = 0;  // From its arrival to its first token. >= 0.
  int64_t last_token_ns = 0;   // From its arrival to its last token. >= first_token_ns.
  int32_t input_tokens = 0;    // >= 0.
  int32_t output_tokens = 0;   // >= 1.
};

// Whether and how a session writes a trace.
struct TraceOptions {
  // The file that a trace is written to, which replaces an older one; empty: no trace. Only one
  // session at a time may write to a file.
  std::string path;
  // Events that a lane's ring buffer holds, 64 bytes each, rounded up to a power of two. 16 to
  // 2^26.
  int64_t events_per_lane = 65'536;
  // If the ring is full, a call waits until its events are written, instead of dropping its own
  // event and counting it.
  bool wait_when_full = false;
};

// The trace of a session. Without one, its methods do nothing.
class SessionTrace {
 public:
  // Adds a mark with this name to the trace at the present time, for example where a phase of the
  // application begins. Names may repeat. Cost: allocates.
  void Mark(std::string_view name);

  // Adds a request's times to the trace. Profilers compute percentiles from them. Errors:
  // kInvalidArgument times or tokens are outside the ranges of RequestTimes.
  absl::Status NoteRequest(const RequestTimes& times);

  // Waits until the trace's file holds all earlier events. Errors: the code for the errno if a
  // write has failed since Create.
  absl::Status Flush() const;

 private:
  friend class Session;
  explicit SessionTrace(internal::SessionParts& parts) : parts_(parts) {}

  internal::SessionParts& parts_;
};

}  // namespace coppice
