// What happened in a session, as a stream of small events, and the file that holds them.
//
// A trace answers questions that the counters cannot: which bucket used which bytes when, why a
// call did not replay, and whether any memory was used twice at the same time. `coppice prof` reads
// it.
//
// The file is text, one JSON value per line: an object is a definition, an array is an event. A
// definition comes before the first event that names it. Events of one lane are in the order in
// which they happened, and so are those of the session. Lanes are written in pieces, one after
// another, so compare times to order events of different lanes. A session that ends normally writes
// `end` last.
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
//   [81000,"call",0,1,3,5,"record","new_bucket",6,8,0,[6],-1,"borrow"]
//   [81200,"bytes",-1,"plan",2097152,2097152]
//   ...
//
// An event has its time, its name, its lane, and the fields of its struct below, in order. The name
// is the name of the struct in snake case, without Event. Enumerators are written as words, and
// extents as a list. The lane is -1 if an event concerns the whole session.
//
// A session's `options` and a program's `spec` have the format of session_documents.h. `policies`
// has one document per symbol (coppice/padding/policy_document.h); each element of `joint` has two
// indices of symbols and a joint document.
//
// In a node, `output` is the index of the output that lies in the buffer, or -1. `around` and
// `buffers` are in bytes from the start of the lane's plan window. Lifetimes count the steps that
// were planned: the allocations of the warm-up in order, or the nodes of its graph if the graph
// forks. `kernels` are the launches of its graphs, in the order of their nodes: name, blocks,
// threads, bytes of dynamic shared memory. If the program has breaks, `pieces` says how many of
// them each graph between two breaks launches. If calls give inputs away, `donated` has where these
// lie, and the step that ends each: [offset, bytes, step]. A buffer's label is its name in the
// program, or the name of its output; "" if it has no name. In a bucket, `scalars` are the scalars
// of the key.
//
// A failure says why a recording failed. If a driver call failed, `code` is CUDA's name of its
// result; otherwise `driver_call` is empty and `code` is that of the absl::Status. If calls of a
// bucket run without a graph because of failures, the bucket's last failure is the cause.
//
// A call over the largest bucket has a bucket with the call's own extents and no nodes. Other calls
// that no bucket serves, such as those of an eager session, have bucket -1.
//
// If the lease of a replay is dropped before the lane's next call, the replay has only one event,
// its call. Events about outputs that a call reads or writes over come before the event of the
// call.
//
// Units: bytes; nanoseconds since the session was made; elements where a name says so. Threads:
// plain values.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "coppice/graphs/call.h"
#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"

namespace coppice {

// The number of something that a trace defines, such as a program or a node. Each kind of thing
// counts from 0; -1: none. A reader of traces may put its own number here.
template <typename Thing>
struct TraceNumber {
  // NOLINTNEXTLINE(google-explicit-constructor): it is a number.
  constexpr TraceNumber(int32_t number = -1) : value(number) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator int32_t() const { return value; }

  int32_t value;
};
using ProgramNumber = TraceNumber<struct ProgramThing>;
using BucketNumber = TraceNumber<struct BucketThing>;
using NodeNumber = TraceNumber<struct NodeThing>;
using FailureNumber = TraceNumber<struct FailureThing>;
using MarkNumber = TraceNumber<struct MarkThing>;
using PolicyNumber = TraceNumber<struct PolicyThing>;
using SymbolNumber = TraceNumber<struct SymbolThing>;  // A symbol of the program named before it.

// The extents of a call, one per symbol of its program, each clamped to 2^31 - 1.
struct TraceExtents {
  std::span<const int32_t> values() const { return std::span(held).first(count); }
  int32_t operator[](size_t symbol) const { return held[symbol]; }
  size_t size() const { return count; }
  // Requires: size() < kSymbolsMax.
  void Add(int32_t extent) { held[count++] = extent; }

  uint8_t count = 0;
  std::array<int32_t, kSymbolsMax> held{};
};

// A call ran.
struct CallEvent {
  int64_t call = 0;     // Number of the call on its lane, from 1; failed calls are missing. >= 1.
  BucketNumber bucket;  // The bucket that it was padded to, or one of its own extents; -1: no
                        // bucket. >= -1.
  NodeNumber node;      // The node whose graph it launched; -1: none. >= -1.
  RunKind path = RunKind::kReplay;  // How it ran.
  Reason reason = Reason::kNone;    // Why it did not replay.
  int64_t real_elements = 0;        // Staged elements that the caller brought.
  int64_t padded_elements = 0;      // Staged elements with their padding.
  ProgramNumber program;            // The program that it called.
  TraceExtents extents;             // Real extents, one per symbol of the program.
  // How long the host was busy with it until this event; -1: not measured. One in 64 calls of a
  // lane is timed, from the check of its arguments. Each call that does not find its graph is
  // timed, too, from the point where that is known, except calls of Include. >= -1.
  int64_t host_ns = -1;
  OutputMode outputs = OutputMode::kBorrow;  // Where its outputs went.
};

// A graph was recorded.
struct RecordEvent {
  NodeNumber node;  // The new node; its definition comes before this event.
};

// A graph was dropped.
struct EvictEvent {
  NodeNumber node;  // The dropped node; its number is not used again.
};

// A recording failed.
struct FailEvent {
  BucketNumber bucket;    // The bucket that was to be recorded.
  FailureNumber failure;  // Why it could not be recorded.
};

// The outputs of a call are leased.
struct OutputsEvent {
  int64_t call = 0;  // The call that made the outputs. >= 1.
  // The node in whose plan the outputs lie, if the lane found them leased at a later call; -1: they
  // have their own bytes. >= -1.
  NodeNumber node;
};

// A call reads a leased output in place.
struct UseEvent {
  int64_t call = 0;          // The call that reads. >= 1.
  int64_t other_call = 0;    // The call that made the output. >= 1.
  int32_t input = -1;        // Index in Call::inputs; -1: one of Call::counts. >= -1.
  int32_t output = -1;       // Index of the other call's output; -1: a count. >= -1.
  int64_t offset_bytes = 0;  // Where the input begins in the output.
};

// One output of a call is no longer leased, but others still are.
struct PartEvent {
  int64_t call = 0;    // The call that made the output. >= 1.
  int64_t output = 0;  // Index of the output.
};

// The lane has noticed that the outputs of a call are no longer leased.
struct ReleaseEvent {
  int64_t call = 0;  // The call that made the outputs. >= 1.
};

// The outputs of a call were overwritten.
struct ExpireEvent {
  int64_t call = 0;        // The call whose outputs they were. >= 1.
  int64_t other_call = 0;  // The call that wrote over them. >= 1.
};

// The bytes of one kind of memory changed.
struct BytesEvent {
  MemoryKind kind = MemoryKind::kPlan;  // The kind of memory.
  int64_t bytes = 0;                    // Bytes of that kind from now on.
  int64_t total_bytes = 0;              // Bytes of all kinds.
};

// The session was suspended: it gave its memory back.
struct SuspendEvent {};

// The session was resumed: it has its memory again, at the same addresses.
struct ResumeEvent {};

// The application set a mark: SessionTrace::Mark.
struct MarkEvent {
  MarkNumber mark;  // The mark. Equal names have one number while there are few marks.
};

// The policy of a symbol was replaced.
struct PolicyEvent {
  ProgramNumber program;  // The program of the symbol.
  SymbolNumber symbol;    // The symbol.
  PolicyNumber policy;    // The new policy.
};

// The static tensors of a program were bound: Session::Bind.
struct StaticsEvent {
  ProgramNumber program;  // The program.
  // Bytes of its bound tensors: weights, caches. The application owns them, so no MemoryKind counts
  // them. A byte that several tensors share counts once. Constants of packages do not count here,
  // because MemoryKind::kConstants has them.
  int64_t bytes = 0;
  int64_t total_bytes = 0;  // The same for all programs.
};

// A server reported a request: SessionTrace::NoteRequest.
struct RequestEvent {
  int64_t request = 0;         // The application's number of the request.
  int64_t first_token_ns = 0;  // From its arrival to its first token.
  int64_t last_token_ns = 0;   // From its arrival to its last token.
  int32_t input_tokens = 0;    // Tokens of its input.
  int32_t output_tokens = 0;   // Tokens of its output.
};

// Events of this lane were lost here, because the ring was full.
struct DroppedEvent {
  int64_t events = 0;  // Number of lost events.
};

// The session ended, and everything was written.
struct EndEvent {};

// One event; described/trace_fields.h has its name and its fields. The types up to ExpireEvent are
// events of a lane, the others of the session; DroppedEvent is of the lane whose ring was full.
using TraceEvent = std::variant<CallEvent,
                                RecordEvent,
                                EvictEvent,
                                FailEvent,
                                OutputsEvent,
                                UseEvent,
                                PartEvent,
                                ReleaseEvent,
                                ExpireEvent,
                                BytesEvent,
                                SuspendEvent,
                                ResumeEvent,
                                MarkEvent,
                                PolicyEvent,
                                StaticsEvent,
                                RequestEvent,
                                DroppedEvent,
                                EndEvent>;

}  // namespace coppice
