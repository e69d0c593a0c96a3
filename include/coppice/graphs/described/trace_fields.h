// Events of a trace by name, and their fields one by one, as its file has them. Written by
// tools/describe.
//
// Threads: pure functions.

#pragma once

#include <concepts>
#include <type_traits>
#include <variant>

#include "coppice/graphs/trace_events.h"

namespace coppice {

template <typename Event>
inline constexpr const char* kTraceEventName = nullptr;
template <>
inline constexpr const char* kTraceEventName<CallEvent> = "call";
template <>
inline constexpr const char* kTraceEventName<RecordEvent> = "record";
template <>
inline constexpr const char* kTraceEventName<EvictEvent> = "evict";
template <>
inline constexpr const char* kTraceEventName<FailEvent> = "fail";
template <>
inline constexpr const char* kTraceEventName<OutputsEvent> = "outputs";
template <>
inline constexpr const char* kTraceEventName<UseEvent> = "use";
template <>
inline constexpr const char* kTraceEventName<PartEvent> = "part";
template <>
inline constexpr const char* kTraceEventName<ReleaseEvent> = "release";
template <>
inline constexpr const char* kTraceEventName<ExpireEvent> = "expire";
template <>
inline constexpr const char* kTraceEventName<BytesEvent> = "bytes";
template <>
inline constexpr const char* kTraceEventName<SuspendEvent> = "suspend";
template <>
inline constexpr const char* kTraceEventName<ResumeEvent> = "resume";
template <>
inline constexpr const char* kTraceEventName<MarkEvent> = "mark";
template <>
inline constexpr const char* kTraceEventName<PolicyEvent> = "policy";
template <>
inline constexpr const char* kTraceEventName<StaticsEvent> = "statics";
template <>
inline constexpr const char* kTraceEventName<RequestEvent> = "request";
template <>
inline constexpr const char* kTraceEventName<DroppedEvent> = "dropped";
template <>
inline constexpr const char* kTraceEventName<EndEvent> = "end";

inline const char* NameOf(const TraceEvent& event) {
  return std::visit([]<typename Event>(const Event&) { return kTraceEventName<Event>; }, event);
}

// Calls `visit` with the name of each field, the field, and the least that a number may be.
template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, CallEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("call", of.call, 1);
  visit("bucket", of.bucket, -1);
  visit("node", of.node, -1);
  visit("path", of.path, 0);
  visit("reason", of.reason, 0);
  visit("real_elements", of.real_elements, 0);
  visit("padded_elements", of.padded_elements, 0);
  visit("program", of.program, 0);
  visit("extents", of.extents, 0);
  visit("host_ns", of.host_ns, -1);
  visit("outputs", of.outputs, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, RecordEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("node", of.node, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, EvictEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("node", of.node, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, FailEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("bucket", of.bucket, 0);
  visit("failure", of.failure, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, OutputsEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("call", of.call, 1);
  visit("node", of.node, -1);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, UseEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("call", of.call, 1);
  visit("other_call", of.other_call, 1);
  visit("input", of.input, -1);
  visit("output", of.output, -1);
  visit("offset_bytes", of.offset_bytes, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, PartEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("call", of.call, 1);
  visit("output", of.output, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, ReleaseEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("call", of.call, 1);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, ExpireEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("call", of.call, 1);
  visit("other_call", of.other_call, 1);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, BytesEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("kind", of.kind, 0);
  visit("bytes", of.bytes, 0);
  visit("total_bytes", of.total_bytes, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, SuspendEvent>
void VisitFields(Of&, Visit&&) {}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, ResumeEvent>
void VisitFields(Of&, Visit&&) {}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, MarkEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("mark", of.mark, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, PolicyEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("program", of.program, 0);
  visit("symbol", of.symbol, 0);
  visit("policy", of.policy, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, StaticsEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("program", of.program, 0);
  visit("bytes", of.bytes, 0);
  visit("total_bytes", of.total_bytes, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, RequestEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("request", of.request, 0);
  visit("first_token_ns", of.first_token_ns, 0);
  visit("last_token_ns", of.last_token_ns, 0);
  visit("input_tokens", of.input_tokens, 0);
  visit("output_tokens", of.output_tokens, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, DroppedEvent>
void VisitFields(Of& of, Visit&& visit) {
  visit("events", of.events, 0);
}

template <typename Of, typename Visit>
requires std::same_as<std::remove_const_t<Of>, EndEvent>
void VisitFields(Of&, Visit&&) {}

}  // namespace coppice
