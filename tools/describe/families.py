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
    "CaseValues": ("graphs/flight_recorder.h", "COPPICE_CASE"),
    "FillKind": ("base/fill.h", "COPPICE_FILL"),
    "SymbolKind": ("graphs/program.h", "COPPICE_SYMBOL"),
    "RaggedBy": ("graphs/program.h", "COPPICE_RAGGED"),
    "GateMode": ("graphs/program.h", "COPPICE_GATE"),
    "ExactReplay": ("graphs/exact_replay.h", "COPPICE_EXACT"),
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
    "RecorderOptions": "graphs/flight_recorder.h",
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
# What happens in a session: a variant of structs, in C++ and in traces alone.
EVENTS = ("TraceEvent", "graphs/trace_events.h")
# Enums of these that C does not have.
SPEC_ENUMS = {
    "OverMaximum": "graphs/program.h",
    "InputRole": "graphs/program.h",
    "OutputRole": "graphs/program.h",
}
# Of a program: what does not say what it takes, gives and promises.
NOT_THE_PROGRAM = {"ProgramSpec": {"name", "variant", "joint", "generator"},
                   "SymbolSpec": {"policy", "observe_half_life"}}


def flat_name(path):
    """What C and Python call a field."""
    group, _, name = path.rpartition(".")
    if path == "checks.addresses":
        return "check_addresses"
    return f"{group}_{name}" if group in ("recorder", "trace") else name


# Fields that only C has; their comments are written in coppice.h.
C_ALONE = {"coppice_session_options": {"user", "reserved"},
           "coppice_session_stats": {"reserved"},
           "coppice_memory_usage": {"kind_count"}}

# What Python passes to functions.
CALLBACKS = {"log": "log(line)", "vote": "vote(bucket, kind, unanimous)", "barrier": "barrier()",
             "now_ns": "now_ns()"}
CALLBACK_NOTES = {"vote": " Returns the same three, as all agreed."}

# Enums whose words modules of Python read.
PYTHON_WORDS = ("FillKind", "Poison", "ExactReplay")

# Arrays of which Python shows what is not 0.
SPARSE = {"reasons"}

# Checked by whoever reads the group, and only if it is asked for.
CHECKED_ELSEWHERE = {"trace.events_per_lane"}

# What else C++ offers: public methods of classes, and fields of structs that a caller gives.
# Nothing is written from these: tests hold C and Python to the headers by them. Of each the header;
# of a class what C puts in front of a method's name, and which classes of Python have its methods;
# of a struct the one of C, and what Python calls it. The words are C++'s in snake case.
CLASSES = {
    "Session": ("graphs/session.h", "", ("Session", "Program")),
    "SessionMemory": ("graphs/session_memory.h", "", ("Session",)),
    "SessionWarming": ("graphs/session_warming.h", "", ("Session", "Program")),
    "SessionPolicies": ("graphs/rebucket.h", "", ("Session", "Program")),
    "SessionTrace": ("graphs/trace.h", "", ("Session",)),
    "SessionRecorder": ("graphs/flight_recorder.h", "", ("Session",)),
    "Loan": ("graphs/session_memory.h", "loan_", ("Loan",)),
    "CallContext": ("graphs/program.h", "context_", ("Context", "Device")),
    "Lease": ("graphs/lease.h", "lease_", ("Lease", "Output")),
    "ReadScope": ("graphs/lease.h", "read_", ("Lease", "Output")),
}
GIVEN = {
    "ProgramSpec": ("graphs/program.h", "coppice_program_spec", "spec"),
    "SymbolSpec": ("graphs/program.h", "coppice_symbol_spec", "symbol"),
    "RaggedSpec": ("graphs/program.h", "coppice_ragged_spec", "ragged"),
    "InputSpec": ("graphs/program.h", "coppice_tensor_spec", "tensor"),
    "OutputSpec": ("graphs/program.h", "coppice_tensor_spec", "tensor"),
    "ScalarSpec": ("graphs/program.h", "coppice_scalar_spec", "scalar"),
    "PackageProgramOptions": ("graphs/package_program.h", "coppice_package_program_options",
                              "package"),
    "Call": ("graphs/call.h", "coppice_call", "run"),
    "SuspendOptions": ("graphs/session_memory.h", "coppice_suspend_options", "suspend"),
}
# What they call otherwise: in C, and in Python.
OTHER_NAMES = {
    "Session::Create": ("session_create", "__init__"),
    "Session::Register": ("register_callable", "register_callable"),
    "Session::Chain": ("chain_begin", "chain"),
    "Session::SetStance": ("set_stance", "stance"),
    "SessionPolicies::GetPolicy": ("get_policy", "policy"),
    "SessionPolicies::GetObserved": ("get_observed", "observed"),
    "Session::MetricsText": ("session_metrics_text", "metrics_text"),
    "Session::nodes": ("buckets", "buckets"),
    "Session::memory": ("memory", "memory"),
    "SessionMemory::usage": ("memory", "memory"),
    "SessionTrace::Flush": ("flush_trace", "flush_trace"),
    "SessionRecorder::Save": ("save_case", "save_case"),
    "Loan::Return": ("loan_return", "give_back"),
    "Loan::data": ("lend", "data"),
    "Loan::bytes": ("lend", "bytes"),
    "CallContext::phase": ("context_describe", "phase"),
    "CallContext::stream": ("context_describe", "stream"),
    "CallContext::driver": ("driver_entry", "driver_function"),
    "CallContext::parameters": ("context_describe", "parameters"),
    "CallContext::workspace": ("context_describe", "workspace"),
    "CallContext::workspace_bytes": ("context_describe", "workspace_bytes"),
    "CallContext::AllocateOutput": ("context_output", "output"),
    "CallContext::Break": ("context_break", "add_break"),
    "Lease::kind": ("lease_describe", "kind"),
    "Lease::reason": ("lease_describe", "reason"),
    "Lease::output_count": ("lease_describe", "__len__"),
    "Lease::call_number": ("lease_describe", "call_number"),
    "Lease::part": ("lease_describe", "split"),
    "Lease::Read": ("lease_read", "to_host"),
    "ReadScope::output": ("read_output", "__getitem__"),
    "ReadScope::ReadSized": ("read_sized_output", "to_host_sized"),
    "SymbolSpec::over_maximum": ("over_maximum_is_error", "over_maximum_is_error"),
    "SymbolSpec::observe_half_life": ("policy", "policy"),
    "InputSpec::dims": ("shape", "shape"),
    "InputSpec::role": ("is_static", "static"),
    "OutputSpec::dims": ("shape", "shape"),
    "OutputSpec::role": ("is_static", "static"),
    "PackageProgramOptions::joint": ("joint", "policies"),
    "PackageProgramOptions::observe_half_lives": ("policies", "policies"),
    "Call::program": ("program", "self"),
}
# What C++ alone has, and why.
ALONE = {
    "Session::SpecOf": "C and Python registered it",
    "Session::generator": "each session has one, which set_seed restarts",
    "Session::variants": "`coppice package run` shows them",
    "Session::warming": "C and Python have its methods side by side with the session's",
    "Session::policies": "the same",
    "Session::trace": "the same",
    "Session::recorder": "C and Python have its method beside the session's",
    "SessionRecorder::Start": "a session of C and Python records from its start, by its options",
    "SessionRecorder::Stop": "the same",
    "SessionRecorder::running": "the same",
    "SessionMemory::books": "usage says the same",
    "SessionMemory::window": "of whoever plans addresses",
    "SessionMemory::Locate": "of whoever plans addresses",
    "SessionMemory::AddConstant": "C and Python bind memory of their own",
    "ProgramSpec::exact": "of packages; a callable's launches are only known from running it",
    "ProgramSpec::extents": "sizes are texts, which may be expressions",
    "ProgramSpec::generator": "each session has one",
}
