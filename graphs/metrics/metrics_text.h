// A page of metrics out of figures, without a session. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include <string>

#include "coppice/graphs/metrics.h"

#include "graphs/metrics/metrics_snapshot.h"

namespace coppice::internal {

std::string TextOf(const MetricsSnapshot& snapshot, MetricsFormat format);

}  // namespace coppice::internal
