// What a session is told and tells, field by field. Written by tools/describe.

#include "capi/described/session_fields.h"

#include "coppice/base/status.h"

#include "capi/fields.h"

namespace coppice::capi {

static_assert(COPPICE_RUN_REPLAY == static_cast<int>(RunKind::kReplay));
static_assert(COPPICE_RUN_INCLUDE == static_cast<int>(RunKind::kInclude));
static_assert(COPPICE_REASON_NONE == static_cast<int>(Reason::kNone));
static_assert(COPPICE_REASON_PADDED_TOO_MUCH == static_cast<int>(Reason::kPaddedTooMuch));
static_assert(COPPICE_STANCE_RECORD == static_cast<int>(Stance::kRecord));
static_assert(COPPICE_STANCE_STRICT == static_cast<int>(Stance::kStrict));
static_assert(COPPICE_ON_LIMIT_EAGER == 1 + static_cast<int>(OnLimit::kEager));
static_assert(COPPICE_ON_LIMIT_EVICT == 1 + static_cast<int>(OnLimit::kEvict));
static_assert(COPPICE_VARIANTS_ON_DEVICE == static_cast<int>(VariantTiming::kOnDevice));
static_assert(COPPICE_VARIANTS_NEVER == static_cast<int>(VariantTiming::kNever));
static_assert(COPPICE_MEMORY_NODES == static_cast<int>(MemoryKind::kPlan));
static_assert(COPPICE_MEMORY_EXTERNAL == static_cast<int>(MemoryKind::kExternal));
static_assert(COPPICE_BORROW == static_cast<int>(OutputMode::kBorrow));
static_assert(COPPICE_WRITE_INTO == static_cast<int>(OutputMode::kWriteInto));
static_assert(COPPICE_POISON_OFF == static_cast<int>(Poison::kOff));
static_assert(COPPICE_POISON_NOISE == static_cast<int>(Poison::kNoise));
static_assert(COPPICE_METRICS_PROMETHEUS == static_cast<int>(MetricsFormat::kPrometheus));
static_assert(COPPICE_METRICS_OPENMETRICS == static_cast<int>(MetricsFormat::kOpenMetrics));
static_assert(COPPICE_CASE_KEEP == static_cast<int>(CaseValues::kKeep));
static_assert(COPPICE_CASE_SPECIAL == static_cast<int>(CaseValues::kSpecial));
static_assert(COPPICE_FILL_ZERO == static_cast<int>(FillKind::kZero));
static_assert(COPPICE_FILL_UNDEFINED == static_cast<int>(FillKind::kUndefined));
static_assert(COPPICE_SYMBOL_AUTO == static_cast<int>(SymbolKind::kAuto));
static_assert(COPPICE_SYMBOL_STATIC == static_cast<int>(SymbolKind::kStatic));
static_assert(COPPICE_RAGGED_LENGTHS == static_cast<int>(RaggedBy::kLengths));
static_assert(COPPICE_RAGGED_OFFSETS == static_cast<int>(RaggedBy::kOffsets));
static_assert(COPPICE_GATE_SESSION == static_cast<int>(GateMode::kSession));
static_assert(COPPICE_GATE_ALWAYS_EAGER == static_cast<int>(GateMode::kAlwaysEager));
static_assert(COPPICE_EXACT_NEVER == static_cast<int>(ExactReplay::kNever));
static_assert(COPPICE_EXACT_ALWAYS == static_cast<int>(ExactReplay::kAlways));

absl::Status ReadFields(const coppice_session_options& given, SessionOptions& options) {
  Set(given.lanes, options.lanes);
  COPPICE_RETURN_IF_ERROR(SetEnum(given.stance, "stance", options.stance));
  Set(given.warmup_runs, options.warmup_runs);
  Set(given.record_in_background, options.record_in_background);
  Set(given.gate, options.gate);
  COPPICE_RETURN_IF_ERROR(SetEnum(given.variant_timing, "variant_timing", options.variant_timing));
  SetLimit(given.graphs_per_program_max, options.limits.graphs_per_program_max);
  SetLimit(given.rerecords_per_bucket_max, options.limits.rerecords_per_bucket_max);
  SetLimit(given.static_moves_max, options.limits.static_moves_max);
  COPPICE_RETURN_IF_ERROR(SetEnumOr(given.on_limit, "on_limit", options.limits.on_limit));
  Set(given.window_bytes, options.memory.window_bytes);
  Set(given.workspace_bytes, options.memory.workspace_bytes);
  Set(given.copy_out_bytes, options.memory.copy_out_bytes);
  Set(given.budget_bytes, options.memory.budget_bytes);
  COPPICE_RETURN_IF_ERROR(SetEnumOr(given.on_budget, "on_budget", options.memory.on_budget));
  Set(given.audit_keys, options.checks.audit_keys);
  Set(given.check_addresses, options.checks.addresses);
  Set(given.fill_expired, options.checks.fill_expired);
  Set(given.trace_path, options.trace.path);
  Set(given.trace_events_per_lane, options.trace.events_per_lane);
  Set(given.trace_wait_when_full, options.trace.wait_when_full);
  Set(given.recorder_ring_bytes, options.recorder.ring_bytes);
  Set(given.recorder_calls_max, options.recorder.calls_max);
  Set(given.recorder_outputs, options.recorder.outputs);
  Set(given.recorder_static_bytes_max, options.recorder.static_bytes_max);
  Set(given.recorder_copy_ns_max, options.recorder.copy_ns_max);
  Set(given.keep_drawings, options.keep_drawings);
  return absl::OkStatus();
}

coppice_session_stats StructOf(const SessionStats& from) {
  coppice_session_stats told{};
  told.calls = from.calls;
  CopyInto(from.runs, told.runs);
  CopyInto(from.reasons, told.reasons);
  told.captures_retried = from.captures_retried;
  told.recordings = from.recordings;
  told.recordings_empty = from.recordings_empty;
  told.evictions = from.evictions;
  told.remaps = from.remaps;
  told.inputs_in_place = from.inputs_in_place;
  told.inputs_filled = from.inputs_filled;
  told.inputs_demoted = from.inputs_demoted;
  told.stream_switches = from.stream_switches;
  told.real_elements = from.real_elements;
  told.padded_elements = from.padded_elements;
  told.exact_replays = from.exact_replays;
  told.patched_nodes = from.patched_nodes;
  return told;
}

coppice_memory_usage StructOf(const MemoryUsage& from) {
  coppice_memory_usage told{};
  CopyInto(from.bytes, told.bytes);
  CopyInto(from.peak, told.peak);
  told.total = from.total;
  told.total_peak = from.total_peak;
  told.budget = from.budget;
  told.height = from.height;
  told.eager_live = from.eager_live;
  told.eager_peak = from.eager_peak;
  return told;
}

}  // namespace coppice::capi
