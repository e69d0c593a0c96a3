"""Reads and writes traces of PyTorch's profiler: JSON for Chrome, as Kineto writes it."""

import gzip
import io
import json
import zlib

from coppice.prof.command import Refused
from coppice.prof.timelines import FORMATS, Kernel, Timeline, extents, number, time
from coppice.prof.traced import told

FILE_BYTES_MAX = 1 << 30  # Values of JSON take several times as much memory.
GZIP = b"\x1f\x8b"
KERNEL = "kernel"  # The category; old versions capitalise it.


def read(path, head, file):
    """Reads the file, whose first bytes are `head`. Raises Refused: it is no such trace."""
    data = within(path, head + file.read(FILE_BYTES_MAX))
    try:
        if data.startswith(GZIP):
            data = within(path, gzip.GzipFile(fileobj=io.BytesIO(data)).read(FILE_BYTES_MAX + 1))
        document = json.loads(data)
    except RecursionError as error:
        raise Refused(f"{path}: its values are nested too deeply; {FORMATS}") from error
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        why = " ".join(str(error).split())[:200]
        raise Refused(f"{path}: this is neither JSON nor SQLite: {why}; {FORMATS}") from error
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise Refused(f"{path}: the JSON has no list 'traceEvents'; {FORMATS}")
    timeline = Timeline(path, "kineto")
    timeline.document = document
    for event in told(events, len(events)):
        if is_kernel(event):
            take(timeline, event)
    return timeline


def within(path, data):
    if len(data) > FILE_BYTES_MAX:
        raise Refused(f"{path}: it has more than {FILE_BYTES_MAX} bytes; record fewer steps")
    return data


def is_kernel(event):
    if not isinstance(event, dict) or event.get("ph") != "X":
        return False
    category = event.get("cat")
    return isinstance(category, str) and category.lower() == KERNEL


def take(timeline, event):
    start, lasts, name = map(event.get, ("ts", "dur", "name"))
    if not time(start) or not time(lasts):
        timeline.left_out += 1
        return
    # Microseconds.
    kernel = Kernel(name if isinstance(name, str) else "", start * 1000, lasts * 1000)
    arguments = event.get("args")
    arguments = arguments if isinstance(arguments, dict) else {}
    kernel.grid, kernel.block = extents(arguments.get("grid")), extents(arguments.get("block"))
    process = event.get("pid")
    kernel.place(process if type(process) in (int, str) else None,
                 number(arguments.get("device")), None,
                 number(arguments.get("correlation")) or None)
    kernel.graph = number(arguments.get("graph id"))
    kernel.node = number(arguments.get("graph node id"))
    kernel.event = event
    timeline.kernels.append(kernel)


def annotated(timeline):
    """The document of the timeline, in which kernels have what coppice knows of them. A timeline of
    another format becomes such a document."""
    document = timeline.document
    if document is None:
        document = drawn(timeline)
    for kernel in timeline.kernels:
        if kernel.known:
            kernel.event["args"].update(arguments_of(kernel.known))
    try:
        return json.dumps(document, separators=(",", ":")).encode()
    except RecursionError as error:
        raise Refused(f"{timeline.path}: its values are nested too deeply; leave out -o") from error


def arguments_of(known):
    told = {"program": " or ".join(known.programs), "bucket": known.label, "step": known.step,
            "source": known.source,
            "padding_pct": None if known.padded is None else round(known.padded * 100, 2)}
    return {f"coppice {key}": value for key, value in told.items() if value is not None}


def drawn(timeline):
    """The kernels as a document, with a process per device and a thread per stream."""
    processes, streams, events = {}, set(), []
    for kernel in timeline.kernels:
        device = kernel.process, kernel.device
        pid, tid = processes.setdefault(device, len(processes)), kernel.stream or 0
        streams.add((pid, tid))
        facts = {"grid": kernel.grid, "block": kernel.block, "device": kernel.device,
                 "stream": kernel.stream, "correlation": kernel.correlation,
                 "graph id": kernel.graph, "graph node id": kernel.node}
        kernel.event = {"ph": "X", "cat": KERNEL, "name": kernel.name, "pid": pid, "tid": tid,
                        "ts": kernel.start / 1000, "dur": kernel.lasts / 1000,
                        "args": {key: value for key, value in facts.items() if value is not None}}
        events.append(kernel.event)
    names = [named("process_name", pid, 0, title(*device)) for device, pid in processes.items()]
    names += [named("thread_name", pid, tid, f"stream {tid}") for pid, tid in sorted(streams)]
    return {"displayTimeUnit": "ns", "traceEvents": names + events}


def named(kind, pid, tid, name):
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def title(process, device):
    where = f"device {0 if device is None else device}"
    # The bits of nsys' number that are the operating system's.
    return where if process is None else f"process {process >> 24 & 0xFFFFFF}, {where}"
