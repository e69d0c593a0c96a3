// Names, sums and ranges of what sessions are told and tell. Written by tools/describe.

#include <cstddef>

#include "coppice/base/status.h"
#include "coppice/graphs/exact_replay.h"
#include "coppice/graphs/flight_recorder.h"
#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/reason.h"
#include "coppice/graphs/session_options.h"
#include "coppice/graphs/session_stats.h"

#include "graphs/parts/check_range.h"

namespace coppice {

using internal::CheckRange;

const char* NameOf(RunKind kind) {
  switch (kind) {
    case RunKind::kReplay:
      return "replay";
    case RunKind::kRecord:
      return "record";
    case RunKind::kWarmUp:
      return "warm_up";
    case RunKind::kEager:
      return "eager";
    case RunKind::kInclude:
      return "include";
  }
  return "?";
}

const char* NameOf(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kNewBucket:
      return "new_bucket";
    case Reason::kStaticInputMoved:
      return "static_input_moved";
    case Reason::kOtherLiveRegions:
      return "other_live_regions";
    case Reason::kEvicted:
      return "evicted";
    case Reason::kOverLargestBucket:
      return "over_largest_bucket";
    case Reason::kUnpaddedExtent:
      return "unpadded_extent";
    case Reason::kGraphLimit:
      return "graph_limit";
    case Reason::kByteLimit:
      return "byte_limit";
    case Reason::kCaptureInvalidated:
      return "capture_invalidated";
    case Reason::kNotCapturable:
      return "not_capturable";
    case Reason::kGateSaysEager:
      return "gate_says_eager";
    case Reason::kUserDisabled:
      return "user_disabled";
    case Reason::kPaddedTooMuch:
      return "padded_too_much";
  }
  return "?";
}

const char* NameOf(Stance stance) {
  switch (stance) {
    case Stance::kRecord:
      return "record";
    case Stance::kReplayOnly:
      return "replay_only";
    case Stance::kEager:
      return "eager";
    case Stance::kStrict:
      return "strict";
  }
  return "?";
}

const char* NameOf(OnLimit on_limit) {
  switch (on_limit) {
    case OnLimit::kEager:
      return "eager";
    case OnLimit::kError:
      return "error";
    case OnLimit::kEvict:
      return "evict";
  }
  return "?";
}

const char* NameOf(VariantTiming timing) {
  switch (timing) {
    case VariantTiming::kOnDevice:
      return "on_device";
    case VariantTiming::kAlways:
      return "always";
    case VariantTiming::kNever:
      return "never";
  }
  return "?";
}

const char* NameOf(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kPlan:
      return "nodes";
    case MemoryKind::kEager:
      return "eager";
    case MemoryKind::kStaging:
      return "staging";
    case MemoryKind::kCopyOut:
      return "copy_out";
    case MemoryKind::kWorkspace:
      return "workspace";
    case MemoryKind::kConstants:
      return "constants";
    case MemoryKind::kSpare:
      return "spare";
    case MemoryKind::kIncluded:
      return "included";
    case MemoryKind::kGraphs:
      return "graphs";
    case MemoryKind::kExternal:
      return "external";
  }
  return "?";
}

const char* NameOf(CaseValues values) {
  switch (values) {
    case CaseValues::kKeep:
      return "keep";
    case CaseValues::kNoise:
      return "noise";
    case CaseValues::kSpecial:
      return "special";
  }
  return "?";
}

const char* NameOf(ExactReplay exact) {
  switch (exact) {
    case ExactReplay::kNever:
      return "never";
    case ExactReplay::kAuto:
      return "auto";
    case ExactReplay::kAlways:
      return "always";
  }
  return "?";
}

SessionStats& SessionStats::operator+=(const SessionStats& other) {
  calls += other.calls;
  for (size_t i = 0; i < runs.size(); ++i)
    runs[i] += other.runs[i];
  for (size_t i = 0; i < reasons.size(); ++i)
    reasons[i] += other.reasons[i];
  captures_retried += other.captures_retried;
  recordings += other.recordings;
  recordings_empty += other.recordings_empty;
  evictions += other.evictions;
  remaps += other.remaps;
  inputs_in_place += other.inputs_in_place;
  inputs_filled += other.inputs_filled;
  inputs_demoted += other.inputs_demoted;
  stream_switches += other.stream_switches;
  real_elements += other.real_elements;
  padded_elements += other.padded_elements;
  exact_replays += other.exact_replays;
  patched_nodes += other.patched_nodes;
  return *this;
}

absl::Status ValidateOptions(const SessionOptions& options) {
  COPPICE_RETURN_IF_ERROR(CheckRange("lanes", options.lanes, 1, kLanesMax));
  COPPICE_RETURN_IF_ERROR(CheckRange("warmup_runs", options.warmup_runs, 1));
  COPPICE_RETURN_IF_ERROR(
      CheckRange("graphs_per_program_max", options.limits.graphs_per_program_max, 0));
  COPPICE_RETURN_IF_ERROR(
      CheckRange("rerecords_per_bucket_max", options.limits.rerecords_per_bucket_max, 0));
  COPPICE_RETURN_IF_ERROR(CheckRange("static_moves_max", options.limits.static_moves_max, 0));
  COPPICE_RETURN_IF_ERROR(CheckRange("window_bytes", options.memory.window_bytes, 0));
  COPPICE_RETURN_IF_ERROR(CheckRange("workspace_bytes", options.memory.workspace_bytes, 0));
  COPPICE_RETURN_IF_ERROR(CheckRange("copy_out_bytes", options.memory.copy_out_bytes, 0));
  COPPICE_RETURN_IF_ERROR(CheckRange("budget_bytes", options.memory.budget_bytes, 0));
  COPPICE_RETURN_IF_ERROR(
      CheckRange("recorder_ring_bytes", options.recorder.ring_bytes, 0, 1099511627776));
  COPPICE_RETURN_IF_ERROR(CheckRange("recorder_calls_max", options.recorder.calls_max, 1));
  COPPICE_RETURN_IF_ERROR(
      CheckRange("recorder_static_bytes_max", options.recorder.static_bytes_max, 0));
  COPPICE_RETURN_IF_ERROR(
      CheckRange("recorder_copy_ns_max", options.recorder.copy_ns_max, 0, 1000000000));
  return absl::OkStatus();
}

}  // namespace coppice
