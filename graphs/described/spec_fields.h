// What a session and its programs are made of, field by field. Private to graphs/. Written by
// tools/describe.
//
// Threads: pure functions.

#pragma once

#include <concepts>
#include <type_traits>

#include "coppice/base/fill.h"
#include "coppice/base/padding_claim.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/session_options.h"

namespace coppice::internal {

// A struct, const or not.
template <typename Of, typename Struct>
concept Either = std::same_as<std::remove_const_t<Of>, Struct>;

// Calls `visit` with the name of each field that says what a program takes, gives and promises, and
// with the field.
template <Either<Equality> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("bits", of.bits);
  visit("absolute", of.absolute);
  visit("relative", of.relative);
}

template <Either<PaddingClaim> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("padding", of.padding);
  visit("equal", of.equal);
}

template <Either<Fill> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("kind", of.kind);
  visit("value", of.value);
}

template <Either<SymbolSpec> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("name", of.name);
  visit("kind", of.kind);
  visit("over_maximum", of.over_maximum);
  visit("min", of.min);
  visit("max", of.max);
  visit("multiple_of", of.multiple_of);
  visit("exclude_01", of.exclude_01);
  visit("given", of.given);
  visit("counted", of.counted);
  visit("scalar", of.scalar);
  visit("claim", of.claim);
}

template <Either<RaggedSpec> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("count", of.count);
  visit("total", of.total);
  visit("length", of.length);
  visit("lengths", of.lengths);
  visit("by", of.by);
}

template <Either<InputSpec> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("name", of.name);
  visit("dtype", of.dtype);
  visit("dims", of.dims);
  visit("strides", of.strides);
  visit("role", of.role);
  visit("fill", of.fill);
  visit("mutated", of.mutated);
  visit("alignment", of.alignment);
}

template <Either<Count> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("output", of.output);
  visit("axis", of.axis);
}

template <Either<OutputSpec> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("name", of.name);
  visit("dtype", of.dtype);
  visit("dims", of.dims);
  visit("strides", of.strides);
  visit("role", of.role);
  visit("count", of.count);
}

template <Either<ScalarSpec> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("name", of.name);
  visit("device_resident", of.device_resident);
}

template <Either<ProgramSpec> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("claim", of.claim);
  visit("symbols", of.symbols);
  visit("ragged", of.ragged);
  visit("inputs", of.inputs);
  visit("outputs", of.outputs);
  visit("scalars", of.scalars);
  visit("one_stream", of.one_stream);
  visit("thread_safe", of.thread_safe);
  visit("guards", of.guards);
  visit("extents", of.extents);
  visit("random_numbers_per_call", of.random_numbers_per_call);
  visit("gate", of.gate);
  visit("exact", of.exact);
}

// The same of options, but for functions and the trace.
template <Either<SessionOptions> Of, typename Visit>
void VisitFields(Of& of, Visit&& visit) {
  visit("lanes", of.lanes);
  visit("stance", of.stance);
  visit("warmup_runs", of.warmup_runs);
  visit("record_in_background", of.record_in_background);
  visit("gate", of.gate);
  visit("variant_timing", of.variant_timing);
  visit("graphs_per_program_max", of.limits.graphs_per_program_max);
  visit("rerecords_per_bucket_max", of.limits.rerecords_per_bucket_max);
  visit("static_moves_max", of.limits.static_moves_max);
  visit("on_limit", of.limits.on_limit);
  visit("window_bytes", of.memory.window_bytes);
  visit("workspace_bytes", of.memory.workspace_bytes);
  visit("copy_out_bytes", of.memory.copy_out_bytes);
  visit("budget_bytes", of.memory.budget_bytes);
  visit("on_budget", of.memory.on_budget);
  visit("audit_keys", of.checks.audit_keys);
  visit("check_addresses", of.checks.addresses);
  visit("fill_expired", of.checks.fill_expired);
  visit("recorder_ring_bytes", of.recorder.ring_bytes);
  visit("recorder_calls_max", of.recorder.calls_max);
  visit("recorder_outputs", of.recorder.outputs);
  visit("recorder_static_bytes_max", of.recorder.static_bytes_max);
  visit("recorder_copy_ns_max", of.recorder.copy_ns_max);
  visit("keep_drawings", of.keep_drawings);
}

}  // namespace coppice::internal
