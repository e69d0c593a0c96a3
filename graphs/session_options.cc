// Checks of options.

#include "coppice/graphs/session_options.h"

#include "coppice/base/status.h"

namespace coppice {

absl::Status ValidateOptions(const SessionOptions& options) {
  const MemoryOptions& memory = options.memory;
  const LimitOptions& limits = options.limits;
  if (options.lanes >= 1 && options.warmup_runs >= 1 && memory.window_bytes >= 0 &&
      memory.workspace_bytes >= 0 && memory.copy_out_bytes >= 0 &&
      limits.graphs_per_program_max >= 0 && limits.rerecords_per_bucket_max >= 0 &&
      limits.static_moves_max >= 0 && memory.budget_bytes >= 0) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "Session::Create: lanes {}, warmup_runs {}, window_bytes {}, workspace_bytes {}, "
      "copy_out_bytes {}, graphs_per_program_max {}, rerecords_per_bucket_max {}, "
      "static_moves_max {}, budget_bytes {}; lanes and warmup_runs must be at least 1 and nothing "
      "negative",
      options.lanes, options.warmup_runs, memory.window_bytes, memory.workspace_bytes,
      memory.copy_out_bytes, limits.graphs_per_program_max, limits.rerecords_per_bucket_max,
      limits.static_moves_max, memory.budget_bytes);
}

}  // namespace coppice
