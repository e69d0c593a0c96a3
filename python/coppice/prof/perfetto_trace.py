"""The timeline of `coppice prof export chrome` as Perfetto's protobuf, in nanoseconds."""

from coppice.prof.command import Refused

PROCESS, FIRST_THREAD, FIRST_COUNTER = 1, 2, 1 << 32  # Tracks: counters are far from the others.


def packed(document):
    """The document of a Chrome trace as bytes. Raises Refused without the package perfetto."""
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket
    except ImportError as error:
        raise Refused(f"{error}; install coppice[prof], or the package perfetto") from error
    trace = Trace()
    for fields in packets(document["traceEvents"]):
        trace.packet.add(trusted_packet_sequence_id=1, **fields)
    # All are of one sequence, which is complete from its beginning.
    trace.packet[0].sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    return trace.SerializeToString()


def packets(events):
    """The packets of a trace, as their fields: first tracks, then events in order of time."""
    names = dict.fromkeys(event["name"] for event in events if event["ph"] == "C")
    counters = {name: FIRST_COUNTER + place for place, name in enumerate(names)}
    for event in events:
        if event["ph"] == "M":
            yield {"track_descriptor": described(event)}
    for name, uuid in counters.items():
        yield {"track_descriptor": {"uuid": uuid, "parent_uuid": PROCESS, "name": name,
                                    "counter": {"unit": "UNIT_SIZE_BYTES"}}}
    for time, _, kind, event in points(events):
        told = {"type": kind}
        if kind == "TYPE_COUNTER":
            told |= {"track_uuid": counters[event["name"]], "counter_value": event["args"]["bytes"]}
        else:
            told["track_uuid"] = FIRST_THREAD + event["tid"]
        if kind in ("TYPE_SLICE_BEGIN", "TYPE_INSTANT"):
            told |= {"name": event["name"], "debug_annotations": annotations(event["args"])}
        yield {"timestamp": time, "track_event": told}


def described(event):
    """The track that a metadata event names."""
    name = event["args"]["name"]
    if event["name"] == "process_name":
        return {"uuid": PROCESS, "process": {"pid": 1, "process_name": name}}
    # The thread whose number is the process' comes first.
    return {"uuid": FIRST_THREAD + event["tid"], "parent_uuid": PROCESS,
            "thread": {"pid": 1, "tid": event["tid"] + 1, "thread_name": name}}


def points(events):
    """(time, rank, type, event) in order of time. A slice gives two of them, its ends. At equal
    times, slices end before others begin, and those that began latest end first. The two ends of an
    empty slice follow each other."""
    found = []
    for rank, event in enumerate(events, 1):
        if event["ph"] == "M":
            continue
        time = nanoseconds(event["ts"])
        if event["ph"] == "X":
            lasts = nanoseconds(event["dur"])
            found += ((time, rank, "TYPE_SLICE_BEGIN", event),
                      (time + lasts, -rank if lasts else rank, "TYPE_SLICE_END", event))
        else:
            kind = "TYPE_COUNTER" if event["ph"] == "C" else "TYPE_INSTANT"
            found.append((time, rank, kind, event))
    return sorted(found, key=lambda point: point[:2])


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def annotations(facts):
    fields = {str: "string_value", int: "int_value", float: "double_value"}
    return [{"name": name, fields[type(value)]: value} for name, value in facts.items()]
