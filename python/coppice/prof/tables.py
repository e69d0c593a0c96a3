"""A trace as a log of RMM, and as a list of its graphs."""

import csv
import datetime
import io

from coppice.prof.history import History

RMM_HEADER = ("Thread", "Time", "Action", "Pointer", "Size", "Stream")
PLAN = ("around", "donated", "buffers")  # Of a node, what a list of graphs leaves out.


def rmm_csv(trace):
    """A log in the format of RMM's logging adaptor: the memory that the session had mapped, with a
    pointer per kind. A kind that grows is freed and allocated again. Times are those of the
    session."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(RMM_HEADER)
    for step in History(trace).steps():
        if step.action in ("map", "unmap"):
            action = "allocate" if step.action == "map" else "free"
            rows.writerow((0, clock(step.time_ns), action, hex(step.address), step.bytes, 0))
    return text.getvalue()


def clock(time_ns):
    """ "01:02:03.000004": a time of day."""
    time = datetime.datetime.min + datetime.timedelta(microseconds=time_ns // 1000 % 86_400_000_000)
    return f"{time:%H:%M:%S.%f}"


def nsys_sidecar(trace):
    """The bucket of each graph, for readers of Nsight Systems' reports."""
    graphs = {number: {**{key: value for key, value in node.items() if key not in PLAN},
                       "recorded_ns": None, "evicted_ns": None, "launches": 0}
              for number, node in trace.nodes.items()}
    for event in trace.events():
        graph, kind = graphs.get(event.get("node")), event["event"]
        if kind in ("record", "evict"):
            graph["recorded_ns" if kind == "record" else "evicted_ns"] = event["time_ns"]
        elif kind == "call" and graph and event["path"] in ("replay", "record"):
            graph["launches"] += 1
    return {"schema": "coppice.graphs/1", "trace": trace.session, "graphs": list(graphs.values())}
