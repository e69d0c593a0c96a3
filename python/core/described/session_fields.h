// Options, words and figures of sessions. Written by tools/describe.
//
// Threads: the GIL is held.

#pragma once

#include <vector>

#include "python/core/fields.h"

namespace coppice::python {

// Words by the numbers of coppice.h.
inline const std::vector<const char*> kRunKinds = {
    "replay",   // COPPICE_RUN_REPLAY
    "record",   // COPPICE_RUN_RECORD
    "warm_up",  // COPPICE_RUN_WARM_UP
    "eager",    // COPPICE_RUN_EAGER
    "include",  // COPPICE_RUN_INCLUDE
};
inline const std::vector<const char*> kReasons = {
    "none",                 // COPPICE_REASON_NONE
    "new_bucket",           // COPPICE_REASON_NEW_BUCKET
    "static_input_moved",   // COPPICE_REASON_STATIC_INPUT_MOVED
    "other_live_regions",   // COPPICE_REASON_OTHER_LIVE_REGIONS
    "evicted",              // COPPICE_REASON_EVICTED
    "over_largest_bucket",  // COPPICE_REASON_OVER_LARGEST_BUCKET
    "unpadded_extent",      // COPPICE_REASON_UNPADDED_EXTENT
    "graph_limit",          // COPPICE_REASON_GRAPH_LIMIT
    "byte_limit",           // COPPICE_REASON_BYTE_LIMIT
    "capture_invalidated",  // COPPICE_REASON_CAPTURE_INVALIDATED
    "not_capturable",       // COPPICE_REASON_NOT_CAPTURABLE
    "gate_says_eager",      // COPPICE_REASON_GATE_SAYS_EAGER
    "user_disabled",        // COPPICE_REASON_USER_DISABLED
    "padded_too_much",      // COPPICE_REASON_PADDED_TOO_MUCH
};
inline const std::vector<const char*> kStances = {
    "record",       // COPPICE_STANCE_RECORD
    "replay_only",  // COPPICE_STANCE_REPLAY_ONLY
    "eager",        // COPPICE_STANCE_EAGER
    "strict",       // COPPICE_STANCE_STRICT
};
inline const std::vector<const char*> kOnLimits = {
    "default",  // COPPICE_ON_LIMIT_DEFAULT
    "eager",    // COPPICE_ON_LIMIT_EAGER
    "error",    // COPPICE_ON_LIMIT_ERROR
    "evict",    // COPPICE_ON_LIMIT_EVICT
};
inline const std::vector<const char*> kVariantTimings = {
    "on_device",  // COPPICE_VARIANTS_ON_DEVICE
    "always",     // COPPICE_VARIANTS_ALWAYS
    "never",      // COPPICE_VARIANTS_NEVER
};
inline const std::vector<const char*> kMemoryKinds = {
    "nodes",      // COPPICE_MEMORY_NODES
    "eager",      // COPPICE_MEMORY_EAGER
    "staging",    // COPPICE_MEMORY_STAGING
    "copy_out",   // COPPICE_MEMORY_COPY_OUT
    "workspace",  // COPPICE_MEMORY_WORKSPACE
    "constants",  // COPPICE_MEMORY_CONSTANTS
    "spare",      // COPPICE_MEMORY_SPARE
    "included",   // COPPICE_MEMORY_INCLUDED
    "graphs",     // COPPICE_MEMORY_GRAPHS
    "external",   // COPPICE_MEMORY_EXTERNAL
};
inline const std::vector<const char*> kOutputModes = {
    "borrow",      // COPPICE_BORROW
    "copy_out",    // COPPICE_COPY_OUT
    "write_into",  // COPPICE_WRITE_INTO
};
inline const std::vector<const char*> kPoisons = {
    "off",      // COPPICE_POISON_OFF
    "nan",      // COPPICE_POISON_NAN
    "pattern",  // COPPICE_POISON_PATTERN
    "noise",    // COPPICE_POISON_NOISE
};
inline const std::vector<const char*> kSuspendedConstants = {
    "save",    // COPPICE_CONSTANTS_SAVE
    "keep",    // COPPICE_CONSTANTS_KEEP
    "reload",  // COPPICE_CONSTANTS_RELOAD
};
inline const std::vector<const char*> kMetricsFormats = {
    "prometheus",   // COPPICE_METRICS_PROMETHEUS
    "openmetrics",  // COPPICE_METRICS_OPENMETRICS
};
inline const std::vector<const char*> kCaseValues = {
    "keep",     // COPPICE_CASE_KEEP
    "noise",    // COPPICE_CASE_NOISE
    "special",  // COPPICE_CASE_SPECIAL
};
inline const std::vector<const char*> kFillKinds = {
    "zero",         // COPPICE_FILL_ZERO
    "value",        // COPPICE_FILL_VALUE
    "sentinel",     // COPPICE_FILL_SENTINEL
    "repeat_last",  // COPPICE_FILL_REPEAT_LAST
    "undefined",    // COPPICE_FILL_UNDEFINED
};
inline const std::vector<const char*> kSymbolKinds = {
    "auto",           // COPPICE_SYMBOL_AUTO
    "dynamic",        // COPPICE_SYMBOL_DYNAMIC
    "maybe_dynamic",  // COPPICE_SYMBOL_MAYBE_DYNAMIC
    "static",         // COPPICE_SYMBOL_STATIC
};
inline const std::vector<const char*> kRaggedBys = {
    "lengths",  // COPPICE_RAGGED_LENGTHS
    "offsets",  // COPPICE_RAGGED_OFFSETS
};
inline const std::vector<const char*> kGateModes = {
    "session",       // COPPICE_GATE_SESSION
    "off",           // COPPICE_GATE_OFF
    "on",            // COPPICE_GATE_ON
    "always_eager",  // COPPICE_GATE_ALWAYS_EAGER
};
inline const std::vector<const char*> kExactReplays = {
    "never",   // COPPICE_EXACT_NEVER
    "auto",    // COPPICE_EXACT_AUTO
    "always",  // COPPICE_EXACT_ALWAYS
};

// The stub's signature of Session, and its help.
extern const char* const kSessionSignature;
extern const char* const kSessionDoc;

// All options but functions. Texts live as long as `given`.
coppice_session_options SessionOptionsOf(Fields& given);
// Of coppice/figures.py.
nb::object FiguresOf(const coppice_session_stats& told);
nb::object FiguresOf(const coppice_memory_usage& told);

}  // namespace coppice::python
