// `coppice prof json`: a trace as JSON that needs no other knowledge of its file: a line each for
// the session, its nodes, and what happened, in order of time. Things are named where they occur.
//
//   {"schema":"coppice.trace/6","device":...,"lanes":1,...,"totals":{...}}   as OriginOf
//   {"node":5,"label":"decode/int8 8","program":"decode","variant":"int8","symbols":["batch"],
//    "bucket":3,"extents":[8],"scalars":[],"lane":0,"graph_nodes":12,"height_bytes":4096,
//    "bound_bytes":4096,"exec_bytes_estimate":122880,"reason":"new_bucket","record_ns":81000,
//    "kernels":["attend"],"around":[[offset,bytes]],"donated":[[offset,bytes,upper]],
//    "buffers":[{"label":"logits","named":true,"offset":0,"bytes":4096,"output":0,
//                "lifetime":[[lower,upper]]}]}
//   {"event":"call","time_ns":81000,"lane":0,"call":1,"bucket":3,"label":"decode/int8 8","node":5,
//    "path":"record","reason":"new_bucket","real_elements":6,"padded_elements":8,...}
//
// Events are those of coppice/graphs/trace_events.h, in which a program is its label, a policy its
// document, a failure what it says; a bucket, node or output that an event has not is null. Units:
// bytes, nanoseconds, elements, steps. Threads: one at a time per process.

#pragma once

#include "tools/prof/prof.h"
#include "tools/support/console.h"

namespace coppice {

// Exit codes: 0; 2 the trace cannot be read, and nothing was printed.
ExitCode ProfJson(const ProfOptions& options, const Console& console);

}  // namespace coppice
