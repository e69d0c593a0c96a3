// What happened in a session, as a stream of small events, and the file that keeps it.
//
// A trace answers what the counters cannot: which bucket took which bytes when, why a call did not
// replay, and whether memory was ever used twice at once. `coppice prof` reads it.
//
// The file is text, one JSON value per line: objects define, arrays happened. A definition comes
// before the first event that names it. Events of one lane are in the order in which they happened,
// and so are those of the session; lanes follow each other in pieces, so compare times between
// them. A session that ends well writes `end` last.
//
//   {"schema":"coppice.trace/6","device":...,"lanes":1,"granularity":2097152,"budget":0,
//    "options":{"warmup_runs":1,...}}
//   {"program":0,"name":"decode","variant":"","symbols":["batch"],"scalars":["layers"],
//    "spec":{...},"policies":[{...}],"joint":[[0,1,{...}]]}
//   {"bucket":3,"program":0,"lane":0,"extents":[8],"scalars":[32]}
//   {"node":5,"bucket":3,"height":4096,"live":4096,"method":"size","graph_nodes":12,
//    "exec_bytes":122880,"record_ns":81000,"reason":"new_bucket","around":[[0,1024]],
//    "kernels":[["attend",[64,1,1],[256,1,1],8192],...],
//    "buffers":[[offset,bytes,output,[lower,upper,...],"label"],...]}
//   {"failure":1,"driver_call":"cuMemAlloc_v2","code":"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
//    "message":"program 'decode' broke its capture: ..."}
//   {"mark":0,"name":"warm"}
//   {"policy":0,"document":{...}}
//   [time_ns,"call",lane,call,bucket,node,"path","reason",real_elements,padded_elements,program,
//    [real extent,...],host_ns,"outputs"]
//   [time_ns,"bytes",lane,"kind",bytes,total]
//   ...
//
// A session's `options` and a program's `spec` are the documents of session_documents.h. `policies`
// are one document per symbol (coppice/padding/policy_document.h), `joint` two indices of symbols
// and a joint document each.
//
// In a node, `output` is the index of the output that the buffer is, or -1; `around` and `buffers`
// are in bytes from the start of the lane's plan window, lifetimes in steps of what was planned:
// the program's trace, or the nodes of its graph where that forks. `kernels` are what its graphs
// launch, in the order of their nodes: name, blocks, threads, bytes of dynamic shared memory. A
// buffer's label is what its program calls it, or the name of its output; "" if it has no name.
// Scalars are those of the key.
//
// A failure is why a recording came to nothing. Where a driver call did not succeed, `code` is
// CUDA's name of its result; else `driver_call` is empty and `code` that of the absl::Status. Of
// calls that run without a graph because of it, the last failure of their bucket is the cause.
//
// A call over the largest bucket has a bucket of its own extents, which has no nodes. Other calls
// that no bucket serves, such as those of an eager session, have bucket -1. Every call has the real
// extents of its program's symbols, held to 2^31 - 1.
//
// `host_ns` is how long the host was busy with a call until its event; -1 where nobody looked. Of
// the calls of a lane one in 64 is timed, from its check; and each that does not find its graph,
// but for those that Include made, from where that is known. `outputs` is the OutputMode.
//
// A replay whose lease is dropped before the lane's next call is one event. What a call reads and
// writes over is told before the call itself.
//
// Units: bytes; nanoseconds since the session was made; elements where named so. Threads: plain
// values.

#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace coppice {

// What an event says, and the meaning of its `values` in order. "lane" is in every event; -1 where
// it concerns the session as a whole.
enum class TraceEventKind : uint8_t {
  kCall,     // call number, bucket or -1, node or -1, Path, Reason, real elements, padded elements,
             // program, real extents. Call numbers count per lane, from 1; one that failed is
             // missing. Elements are those staged.
  kRecord,   // node: it exists from here on. Its definition comes first.
  kEvict,    // node: it is gone, its number is not used again.
  kFail,     // bucket, failure: a recording of the bucket failed so.
  kBytes,    // MemoryKind, bytes of that kind from here on, bytes of all kinds.
  kOutputs,  // call, node or -1: somebody leases what the call made. With a node, its outputs lie
             // where the node's plan says, and the lane found them leased at a later call.
  kUse,      // call, call of the outputs, index in Call::inputs, output, byte of it at which the
             // input begins: a call reads a leased output where it lies. Both indices are -1 for
             // one of Call::counts.
  kPart,     // call, output: nobody leases this output of it any more, but others.
  kRelease,  // call: nobody leases what it made any more, as far as the lane has noticed.
  kExpire,   // call, call: the outputs of the first were overwritten by the second.
  kSuspend,  // No values: the session has given its memory back ...
  kResume,   // ... and has it again, at the same addresses.
  kMark,     // mark: Session::Mark. Equal names have one number while there are few of them.
  kPolicy,   // program, symbol, policy: the symbol is padded by this policy from here on.
  kStatics,  // program, bytes, bytes: so many lie under the tensors that are bound for the program
             // from here on (Session::Bind), and under those of all programs: weights, caches. The
             // application has them, so that no MemoryKind counts them. A byte under several
             // tensors counts once; constants of packages do not, as MemoryKind::kConstants does.
  kRequest,  // id, time to the first token, time to the last, tokens read, tokens written:
             // Session::NoteRequest.
  kDropped,  // count: so many events of this lane were lost here, because the ring was full.
  kEnd,      // No values: the session ended, everything was written.
};
inline constexpr int kTraceEventKindCount = 18;

// "call", "record", "evict", "fail", "bytes", "outputs", "use", "part", "release", "expire",
// "suspend", "resume", "mark", "policy", "statics", "request", "dropped", "end".
const char* NameOf(TraceEventKind kind);

// How long one request to a server took, by the clock of whoever serves; for Session::NoteRequest.
struct RequestTimes {
  int64_t id = 0;              // 0 to 2^53.
  int64_t first_token_ns = 0;  // From its arrival to its first token. >= 0.
  int64_t last_token_ns = 0;   // From its arrival to its last one. >= first_token_ns.
  int32_t input_tokens = 0;    // >= 0.
  int32_t output_tokens = 0;   // >= 1.
};

// What SessionOptions::trace asks for.
struct TraceOptions {
  // The file that a trace is written to, made anew; empty: no trace. One session at a time writes
  // to a file.
  std::string path;
  // Events that a lane's ring holds, 64 bytes each, rounded up to 2^n. 16 to 2^26.
  int64_t events_per_lane = 65'536;
  // A call that finds the ring full waits until the file has taken what is in it, in place of
  // dropping the event and counting it.
  bool wait_when_full = false;
};

}  // namespace coppice
