// How long each request of a run took, by the clock of the batcher: to its first token, which its
// prefill predicts, and to its last.
//
// Threads: one at a time.

#pragma once

#include <cstdint>
#include <vector>

#include "coppice/graphs/trace.h"

#include "tools/run/batcher.h"
#include "tools/run/request_trace.h"

namespace coppice {

class RequestClock {
 public:
  explicit RequestClock(const std::vector<Request>& requests);

  // Takes the next step of the batcher, which ended then. Returns the requests that left with it.
  std::vector<RequestTimes> Add(const Step& step, double end_seconds);

 private:
  int64_t SinceArrival(int64_t request, double seconds) const;

  const std::vector<Request>& requests_;
  std::vector<int64_t> first_token_ns_;  // Per request.
};

}  // namespace coppice
