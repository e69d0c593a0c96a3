"""What is described, and what C and Python call otherwise than C++.

A new field of these structs, or enumerator of these enums, needs nothing here.
"""

# Enums: the header and what C puts in front of an enumerator's word.
ENUMS = {
    "RunKind": ("graphs/reason.h", "COPPICE_RUN"),
    "Reason": ("graphs/reason.h", "COPPICE_REASON"),
    "Stance": ("graphs/session_options.h", "COPPICE_STANCE"),
    "OnLimit": ("graphs/session_options.h", "COPPICE_ON_LIMIT"),
    "VariantTiming": ("graphs/session_options.h", "COPPICE_VARIANTS"),
    "MemoryKind": ("graphs/memory_usage.h", "COPPICE_MEMORY"),
    "OutputMode": ("graphs/call.h", "COPPICE"),
    "Poison": ("graphs/poison.h", "COPPICE_POISON"),
    "SuspendedConstants": ("graphs/session_memory.h", "COPPICE_CONSTANTS"),
    "MetricsFormat": ("graphs/metrics.h", "COPPICE_METRICS"),
    "FillKind": ("base/fill.h", "COPPICE_FILL"),
    "Claim": ("graphs/program.h", "COPPICE_CLAIM"),
    "SymbolKind": ("graphs/program.h", "COPPICE_SYMBOL"),
}
# Those of which C has 0 for a default that differs from field to field.
WITH_DEFAULT = {"OnLimit"}
# Those whose numbers in C are not those of C++, so that capi/ reads them by hand.
OTHER_NUMBERS = {"SuspendedConstants"}

# Structs: the header, and what C and Python call them.
STRUCTS = {
    "SessionOptions": ("graphs/session_options.h", "coppice_session_options"),
    "SessionStats": ("graphs/session_stats.h", "coppice_session_stats"),
    "MemoryUsage": ("graphs/memory_usage.h", "coppice_memory_usage"),
}
OPTIONS = {"SessionOptions"}  # Those that a caller gives.
# Structs that are members of these; C and Python have their fields side by side.
GROUPS = {
    "LimitOptions": "graphs/session_options.h",
    "MemoryOptions": "graphs/session_options.h",
    "CheckOptions": "graphs/session_options.h",
    "RankOptions": "graphs/session_options.h",
    "TraceOptions": "graphs/trace.h",
}

# What a program is told: structs whose fields are visited one by one, in C++ alone.
SPECS = {
    "Equality": "base/padding_claim.h",
    "PaddingClaim": "base/padding_claim.h",
    "Fill": "base/fill.h",
    "SymbolSpec": "graphs/program.h",
    "RaggedSpec": "graphs/program.h",
    "InputSpec": "graphs/program.h",
    "Count": "graphs/program.h",
    "OutputSpec": "graphs/program.h",
    "ScalarSpec": "graphs/program.h",
    "ProgramSpec": "graphs/program.h",
}
# Enums of these that C does not have.
SPEC_ENUMS = {
    "OverMaximum": "graphs/program.h",
    "RaggedBy": "graphs/program.h",
    "InputRole": "graphs/program.h",
    "OutputRole": "graphs/program.h",
    "GateMode": "graphs/program.h",
}
# Of a program: what does not say what it takes, gives and promises.
NOT_THE_PROGRAM = {"ProgramSpec": {"name", "variant", "joint", "generator"},
                   "SymbolSpec": {"policy", "observe_half_life"}}


def flat_name(path):
    """What C and Python call a field."""
    group, _, name = path.rpartition(".")
    if path == "checks.addresses":
        return "check_addresses"
    return f"trace_{name}" if group == "trace" else name


# Fields that only C has; their comments are written in coppice.h.
C_ALONE = {"coppice_session_options": {"user", "reserved"},
           "coppice_session_stats": {"reserved"},
           "coppice_memory_usage": {"kind_count"}}

# What Python passes to functions.
CALLBACKS = {"log": "log(line)", "vote": "vote(bucket, kind, unanimous)", "barrier": "barrier()",
             "now_ns": "now_ns()"}
CALLBACK_NOTES = {"vote": " Returns the same three, as all agreed."}

# Arrays of which Python shows what is not 0.
SPARSE = {"reasons"}

# Checked by whoever reads the group, and only if it is asked for.
CHECKED_ELSEWHERE = {"trace.events_per_lane"}
