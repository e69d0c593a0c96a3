// Options and figures of sessions, one by one. Written by tools/describe.

#include "python/core/described/session_fields.h"

namespace coppice::python {

const char* const kSessionSignature =
    "def __init__(self, device: Device, *, stance: str | None = 'record', lanes: int | None = 1, "
    "warmup_runs: int | None = 1, record_in_background: bool | None = False, gate: bool | None = "
    "False, graphs_per_program_max: int | None = 1024, rerecords_per_bucket_max: int | None = "
    "128, static_moves_max: int | None = 32, on_limit: str | None = 'eager', on_budget: str | "
    "None = 'evict', keep_drawings: bool | None = False, window_bytes: int | None = 0, "
    "workspace_bytes: int | None = 0, copy_out_bytes: int | None = 0, budget_bytes: int | None = "
    "0, audit_keys: bool | None = False, check_addresses: bool | None = False, fill_expired: "
    "bool | None = False, trace_wait_when_full: bool | None = False, trace_path: str | None = "
    "'', trace_events_per_lane: int | None = 65536, log: object | None = None, vote: object | "
    "None = None, barrier: object | None = None, variant_timing: str | None = 'on_device', "
    "now_ns: object | None = None, recorder_ring_bytes: int | None = 0, recorder_calls_max: int "
    "| None = 65536, recorder_outputs: bool | None = False, recorder_static_bytes_max: int | "
    "None = 0, recorder_copy_ns_max: int | None = 0) -> None";

const char* const kSessionDoc =
    "Makes a session on a device. Its options are given by name, with these defaults. An\n"
    "option that is None or the number 0 has its default.\n"
    "\n"
    "stance=\"record\"\n"
    "    What calls may do about graphs: \"record\", \"replay_only\", \"eager\" or \"strict\".\n"
    "lanes=1\n"
    "    Calls on different lanes may run at the same time. 1 to 1,024.\n"
    "warmup_runs=1\n"
    "    Warm-up calls of a bucket before it is recorded.\n"
    "record_in_background=False\n"
    "    Records programs that are `thread_safe` on a thread of the session; calls run\n"
    "    eagerly meanwhile.\n"
    "gate=False\n"
    "    Times live calls with and without their graph, and stops using graphs that are not\n"
    "    faster.\n"
    "graphs_per_program_max=1024\n"
    "    Graphs of a program on a lane. -1: none.\n"
    "rerecords_per_bucket_max=128\n"
    "    How often a bucket may be recorded again because a static input moved; after that,\n"
    "    `on_limit` says what the call does. -1: none.\n"
    "static_moves_max=32\n"
    "    How often a static input may move in one bucket; after one more move, every call\n"
    "    copies it. -1: none.\n"
    "on_limit=\"eager\"\n"
    "    What a call does if it would need one graph too many: \"eager\", \"error\" or "
    "\"evict\".\n"
    "on_budget=\"evict\"\n"
    "    What a recording does if it lacks room: \"eager\", \"error\" or \"evict\".\n"
    "keep_drawings=False\n"
    "    Keeps a drawing of every recording, so that it can be dumped.\n"
    "window_bytes=0\n"
    "    Virtual size of a lane's windows; 0: device memory.\n"
    "workspace_bytes=0\n"
    "    For libraries, per lane; 0: none.\n"
    "copy_out_bytes=0\n"
    "    For outputs that are copied out, per lane; 0: none.\n"
    "budget_bytes=0\n"
    "    Bytes that the session may hold at once: its windows, its graphs (an estimate) and\n"
    "    the bytes that the application reports; 0: no budget.\n"
    "audit_keys=False\n"
    "    Refuses buckets whose kernels' parameters depend on values that are not in the key.\n"
    "check_addresses=False\n"
    "    Asks the driver at every call whether tensors lie in live memory of the device.\n"
    "fill_expired=False\n"
    "    Fills all that a graph writes with 0xCB bytes before each call, so that a read\n"
    "    through an old pointer is noticed.\n"
    "trace_wait_when_full=False\n"
    "    If the ring is full, a call waits until its events are written, instead of dropping\n"
    "    its own event and counting it.\n"
    "trace_path=\"\"\n"
    "    The file that a trace is written to, which replaces an older one; empty: no trace.\n"
    "trace_events_per_lane=65536\n"
    "    Events that a lane's ring buffer holds, 64 bytes each, rounded up to a power of two.\n"
    "    16 to 67,108,864.\n"
    "log(line)\n"
    "    Receives one line per program and reason that keeps its calls from replaying.\n"
    "vote(bucket, kind, unanimous)\n"
    "    Called before each call runs, with this rank's vote, to agree with the other ranks.\n"
    "    Returns the same three, as all agreed.\n"
    "barrier()\n"
    "    Called before a call that ranks agreed to record, even on ranks that have the graph.\n"
    "variant_timing=\"on_device\"\n"
    "    Whether kernels of packages that have several variants are timed: \"on_device\",\n"
    "    \"always\" or \"never\".\n"
    "now_ns()\n"
    "    The clock for recordings: nanoseconds that never go back; None: a steady clock.\n"
    "recorder_ring_bytes=0\n"
    "    Host memory that the ring of each lane has; 0: nothing is recorded. 0 to\n"
    "    1,099,511,627,776.\n"
    "recorder_calls_max=65536\n"
    "    Maximum number of calls in a ring.\n"
    "recorder_outputs=False\n"
    "    Whether outputs are copied to the ring, too, so that a replay can compare them.\n"
    "recorder_static_bytes_max=0\n"
    "    Static inputs up to this size are copied to the ring with each call; 0: none are.\n"
    "recorder_copy_ns_max=0\n"
    "    Mean time per call that copies to the ring may take, in nanoseconds; 0: no limit. 0\n"
    "    to 1,000,000,000.";

coppice_session_options SessionOptionsOf(Fields& given) {
  coppice_session_options options{};
  options.struct_size = sizeof options;
  given.Word("stance", kStances, options.stance);
  given.Number("lanes", options.lanes);
  given.Number("warmup_runs", options.warmup_runs);
  given.Flag("record_in_background", options.record_in_background);
  given.Flag("gate", options.gate);
  given.Number("graphs_per_program_max", options.graphs_per_program_max);
  given.Number("rerecords_per_bucket_max", options.rerecords_per_bucket_max);
  given.Number("static_moves_max", options.static_moves_max);
  given.Word("on_limit", kOnLimits, options.on_limit);
  given.Word("on_budget", kOnLimits, options.on_budget);
  given.Flag("keep_drawings", options.keep_drawings);
  given.Number("window_bytes", options.window_bytes);
  given.Number("workspace_bytes", options.workspace_bytes);
  given.Number("copy_out_bytes", options.copy_out_bytes);
  given.Number("budget_bytes", options.budget_bytes);
  given.Flag("audit_keys", options.audit_keys);
  given.Flag("check_addresses", options.check_addresses);
  given.Flag("fill_expired", options.fill_expired);
  given.Flag("trace_wait_when_full", options.trace_wait_when_full);
  given.Text("trace_path", options.trace_path);
  given.Number("trace_events_per_lane", options.trace_events_per_lane);
  given.Word("variant_timing", kVariantTimings, options.variant_timing);
  given.Number("recorder_ring_bytes", options.recorder_ring_bytes);
  given.Number("recorder_calls_max", options.recorder_calls_max);
  given.Flag("recorder_outputs", options.recorder_outputs);
  given.Number("recorder_static_bytes_max", options.recorder_static_bytes_max);
  given.Number("recorder_copy_ns_max", options.recorder_copy_ns_max);
  return options;
}

nb::object FiguresOf(const coppice_session_stats& told) {
  nb::dict figures;
  figures["calls"] = told.calls;
  figures["runs"] = ByWord(told.runs, kRunKinds);
  figures["reasons"] = ByWord(told.reasons, kReasons, Zeros::kLeftOut);
  figures["captures_retried"] = told.captures_retried;
  figures["recordings"] = told.recordings;
  figures["recordings_empty"] = told.recordings_empty;
  figures["evictions"] = told.evictions;
  figures["remaps"] = told.remaps;
  figures["inputs_in_place"] = told.inputs_in_place;
  figures["inputs_filled"] = told.inputs_filled;
  figures["inputs_demoted"] = told.inputs_demoted;
  figures["stream_switches"] = told.stream_switches;
  figures["real_elements"] = told.real_elements;
  figures["padded_elements"] = told.padded_elements;
  figures["exact_replays"] = told.exact_replays;
  figures["patched_nodes"] = told.patched_nodes;
  return nb::module_::import_("coppice.figures").attr("SessionStats")(figures);
}

nb::object FiguresOf(const coppice_memory_usage& told) {
  nb::dict figures;
  figures["bytes"] = ByWord(told.bytes, kMemoryKinds);
  figures["peak"] = ByWord(told.peak, kMemoryKinds);
  figures["total"] = told.total;
  figures["total_peak"] = told.total_peak;
  figures["budget"] = told.budget;
  figures["height"] = told.height;
  figures["eager_live"] = told.eager_live;
  figures["eager_peak"] = told.eager_peak;
  return nb::module_::import_("coppice.figures").attr("MemoryUsage")(figures);
}

}  // namespace coppice::python
