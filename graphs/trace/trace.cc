// Names of events.

#include "coppice/graphs/trace.h"

namespace coppice {

const char* NameOf(TraceEventKind kind) {
  static constexpr std::array<const char*, kTraceEventKindCount> kNames = {
      "call",   "record",  "evict",  "fail", "bytes",  "outputs", "use",     "part",    "release",
      "expire", "suspend", "resume", "mark", "policy", "statics", "request", "dropped", "end"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace coppice
