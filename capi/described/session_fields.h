// What a session is told and tells, field by field between C and C++. Private to capi/. Written by
// tools/describe.
//
// Threads: pure functions.

#pragma once

#include "absl/status/status.h"

#include "coppice/base/fill.h"
#include "coppice/coppice.h"
#include "coppice/graphs/call.h"
#include "coppice/graphs/exact_replay.h"
#include "coppice/graphs/flight_recorder.h"
#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/metrics.h"
#include "coppice/graphs/poison.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"
#include "coppice/graphs/session_memory.h"
#include "coppice/graphs/session_options.h"
#include "coppice/graphs/session_stats.h"

#include "capi/structs.h"

namespace coppice::capi {

template <>
inline constexpr int kCountOf<RunKind> = 5;
template <>
inline constexpr int kCountOf<Reason> = 14;
template <>
inline constexpr int kCountOf<Stance> = 4;
template <>
inline constexpr int kCountOf<OnLimit> = 3;
template <>
inline constexpr int kCountOf<VariantTiming> = 3;
template <>
inline constexpr int kCountOf<MemoryKind> = 10;
template <>
inline constexpr int kCountOf<OutputMode> = 3;
template <>
inline constexpr int kCountOf<Poison> = 4;
template <>
inline constexpr int kCountOf<SuspendedConstants> = 3;
template <>
inline constexpr int kCountOf<MetricsFormat> = 2;
template <>
inline constexpr int kCountOf<CaseValues> = 3;
template <>
inline constexpr int kCountOf<FillKind> = 5;
template <>
inline constexpr int kCountOf<SymbolKind> = 4;
template <>
inline constexpr int kCountOf<RaggedBy> = 2;
template <>
inline constexpr int kCountOf<GateMode> = 4;
template <>
inline constexpr int kCountOf<ExactReplay> = 3;

// All but functions. Errors: kInvalidArgument an enumerator; Session::Create finds the rest.
absl::Status ReadFields(const coppice_session_options& given, SessionOptions& options);
coppice_session_stats StructOf(const SessionStats& from);
coppice_memory_usage StructOf(const MemoryUsage& from);

}  // namespace coppice::capi
