// Whether a number of the caller's is one that is possible. Private to graphs/.
//
// Threads: a pure function.

#pragma once

#include <cstdint>
#include <limits>

#include "absl/status/status.h"

#include "coppice/base/status.h"

namespace coppice::internal {

inline absl::Status CheckRange(const char* name,
                               int64_t value,
                               int64_t least,
                               int64_t most = std::numeric_limits<int64_t>::max()) {
  if (value >= least && value <= most) return absl::OkStatus();
  if (most == std::numeric_limits<int64_t>::max())
    return InvalidArgument("Session::Create: {} is {}; it must be at least {}", name, value, least);
  return InvalidArgument("Session::Create: {} is {}; it must be from {} to {}", name, value, least,
                         most);
}

}  // namespace coppice::internal
