"""A memory snapshot for PyTorch's viewers: the allocations, and the events that led to them.

A segment is a stretch of addresses, cut into blocks without holes. The format has no blocks that
share addresses, so a buffer that begins at the bytes of another ends it. A viewer draws nothing if
events have categories and none of them is `unknown`, so segments have that category. What only
coppice knows is under "coppice", which readers ignore.
"""

from coppice.prof.history import PLANS, History
from coppice.prof.path import Path
from coppice.prof.ranges import Ranges
from coppice.prof.traced import program_of

NS_PER_US = 1000


class Frames:
    """The frames of an allocation: what made it, which is a node of a bucket or a kind of memory. A
    buffer with a name has one more frame above that. Equal frames are one list, so a pickle has
    them once."""

    def __init__(self):
        self._made = {}

    def of_kind(self, kind):
        return self._made.setdefault(kind, [frame(kind, "session", 0)])

    def of(self, node, buffer=None):
        name = buffer["label"] if buffer and buffer["named"] else None
        key = node["node"], name
        if key not in self._made:
            self._made[key] = [frame(text, program_of(node), node["node"])
                               for text in (name, node["label"]) if text]
        return self._made[key]


def frame(name, file, line):
    return {"name": name, "filename": f"coppice://{file}", "line": line}


def put(events, action, address, bytes, time_us, stream=0, **more):
    events.append({"action": action, "addr": address, "size": bytes, "stream": stream,
                   "time_us": time_us, **more})


def put_alloc(events, address, bytes, time_us, stream, category, frames, **metadata):
    told = {key: value for key, value in metadata.items() if value is not None}
    more = {"user_metadata": told} if told else {}
    put(events, "alloc", address, bytes, time_us, stream, category=category, frames=frames, **more)


def put_free(events, address, bytes, time_us, stream=0):
    put(events, "free_requested", address, bytes, time_us, stream)
    put(events, "free_completed", address, bytes, time_us, stream)


def segment(device, pool, address, bytes, used):
    """A segment of `bytes` from the address on. `used` has (begin, end, frames) of its used parts,
    in order. Pools count from 1: 0 is the allocator without pools."""
    blocks, top = [], 0
    for begin, end, frames in (*used, (bytes, bytes, [])):
        for first, last, state, of in ((top, begin, "inactive", []),
                                       (begin, end, "active_allocated", frames)):
            if last > first:
                size = last - first
                blocks.append({"address": address + first, "size": size,
                               "requested_size": size if state != "inactive" else 0,
                               "state": state, "frames": of})
        top = end
    active = sum(block["requested_size"] for block in blocks)
    return {"device": device, "address": address, "total_size": bytes, "allocated_size": active,
            "active_size": active, "requested_size": active, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, pool), "is_expandable": True, "blocks": blocks}


def snapshot(trace, mode, devices, segments, annotations=(), /, **facts):
    return {"device_traces": devices, "segments": segments,
            "external_annotations": list(annotations),
            "coppice": {**trace.session, "mode": mode, **facts}}


def history(trace):
    """The memory that the session had mapped, and the outputs that its calls held, with a segment
    and a pool per kind."""
    played, frames, events, notes = History(trace), Frames(), [], []
    for step in played.steps():
        time, whole = step.time_ns // NS_PER_US, step.kind not in (PLANS, "spare")
        place = step.address, step.bytes, time
        if step.action == "mark":
            notes += ({"stage": stage, "name": step.what, "device": 0, "time_us": time}
                      for stage in ("START", "END"))
        elif step.action == "map":
            put(events, "segment_alloc", *place, category="unknown")
            if whole:
                put_alloc(events, *place, 0, "mapped", frames.of_kind(step.kind))
        elif step.action == "unmap":
            if whole:
                put_free(events, *place)
            put(events, "segment_free", *place)
        elif step.action == "hold":
            held = step.what
            put_alloc(events, *place, held.lane, "output", frames.of(held.node, held.buffer),
                      buffer=held.buffer["label"], call=held.call, lane=held.lane,
                      output=held.buffer["output"])
        else:
            put_free(events, *place, step.what.lane)
    segments = []
    for pool, (kind, bytes) in enumerate(played.mapped.items(), 1):
        used = [] if kind == "spare" else [(0, bytes, frames.of_kind(kind))]
        if kind == PLANS:
            used = [(begin, end, frames.of(held.node, held.buffer))
                    for begin, end, held in played.places]
        if bytes:
            segments.append(segment(0, pool, played.address(kind), bytes, used))
    return snapshot(trace, "history", [events], segments, notes,
                    outputs_without_place=played.unplaced, leases_of_unknown_size=played.elsewhere)


class Window:
    """The addresses in which plans run, as events of a device. Uses do not overlap. Times are
    steps."""

    ADDRESS = 1 << 44

    def __init__(self):
        self.events = []
        self.bytes = 0
        self.frames = Frames()
        self._uses = Ranges()  # (token, stream, frames) by offset.
        self._token = 0

    def map(self, time, bytes):
        """Sets the height of the window from this time on."""
        if self.bytes:
            put(self.events, "segment_free", self.ADDRESS, self.bytes, time)
        if bytes:
            put(self.events, "segment_alloc", self.ADDRESS, bytes, time, category="unknown")
        self.bytes = bytes

    def alloc(self, offset, bytes, time, stream, category, frames, **metadata):
        """Begins a use. Other uses of these addresses end. Returns a token for `free`."""
        for begin in self._uses.meeting(offset, offset + bytes):
            self._end(time, begin)
        self._token += 1
        self._uses.put(offset, offset + bytes, (self._token, stream, frames))
        put_alloc(self.events, self.ADDRESS + offset, bytes, time, stream, category, frames,
                  **metadata)
        return self._token

    def free(self, time, offset, token):
        """Ends the use that begins at `offset`, if it has that token."""
        if token is not None and self.token(offset) == token:
            self._end(time, offset)

    def token(self, offset):
        """The token of the use that begins at `offset`, or None."""
        return (self._uses.at(offset) or (None,))[0]

    def is_free(self, offset, bytes):
        return not self._uses.meeting(offset, offset + bytes)

    def segments(self, device, pool):
        used = [(begin, end, frames) for begin, end, (_, _, frames) in self._uses]
        return [segment(device, pool, self.ADDRESS, self.bytes, used)] if self.bytes else []

    def _end(self, time, begin):
        end, (_, stream, _) = self._uses.take(begin)
        put_free(self.events, self.ADDRESS + begin, end - begin, time, stream)


def steps_of(node):
    """One past the last step that a buffer of the node needs; at least 1."""
    return max([1, *(buffer["lifetime"][-1][1] for buffer in node["buffers"])])


def run_plan(node, window, base=0, call=None):
    """Draws one run of a node's plan from the time `base` on; in each step, frees come first.
    Buffers that the plan avoids or is given, and that are in the window already, stay until the
    plan ends them. If they are not in the window, and there is a `call`, the avoided ones are there
    only while the plan runs. Returns the outputs that remain after the last step: output, offset,
    token."""
    steps, lane, own = steps_of(node), node["lane"], window.frames.of(node)
    around, given, tokens, left = [], [], {}, []
    for offset, bytes in node["around"]:
        if window.is_free(offset, bytes):
            around.append((offset, window.alloc(offset, bytes, base, lane, "around", own,
                                                call=call)))
    for offset, bytes, end in node["donated"]:
        if window.is_free(offset, bytes):
            window.alloc(offset, bytes, base, lane, "donated", own, call=call, first_step=0,
                         last_step=end - 1)
        given.append((end, False, offset, window.token(offset), None))
    changes = [(step, begins, buffer["offset"], interval, buffer) for buffer in node["buffers"]
               for interval in buffer["lifetime"] for step, begins in zip(interval, (True, False))]
    for step, begins, offset, what, buffer in sorted(given + changes, key=lambda each: each[:2]):
        if begins:
            tokens[id(buffer)] = window.alloc(
                offset, buffer["bytes"], base + step, lane,
                "temporary" if buffer["output"] is None else "output",
                window.frames.of(node, buffer), buffer=buffer["label"], call=call,
                output=buffer["output"], first_step=what[0], last_step=what[1] - 1)
        elif buffer is None:
            window.free(base + step, offset, what)
        elif buffer["output"] is not None and step == steps:
            left.append((buffer["output"], offset, tokens[id(buffer)]))
        else:
            window.free(base + step, offset, tokens[id(buffer)])
    if call is not None:
        for offset, token in around:
            window.free(base + steps, offset, token)
    return left


def plan(trace):
    """One device per bucket, on which its highest plan runs. Time is its steps."""
    highest = {}
    for node in trace.nodes.values():
        best = highest.setdefault(node["bucket"], node)
        if best["height_bytes"] < node["height_bytes"]:
            highest[node["bucket"]] = node
    devices, segments, facts = [], [], []
    for device, (bucket, node) in enumerate(sorted(highest.items())):
        window = Window()
        window.map(0, node["height_bytes"])
        run_plan(node, window)
        devices.append(window.events)
        segments += window.segments(device, node["lane"] + 1)
        facts.append({"device": device, "bucket": bucket, "program": program_of(node), **{
            key: node[key] for key in ("extents", "lane", "node", "height_bytes", "bound_bytes")}})
    return snapshot(trace, "plan", devices, segments, devices=facts)


def path(trace, lane=0, call=None):
    """One chain of calls, each built on outputs of the one before it, with their plans one after
    another. The chain ends at `call` of the lane. None: the longest chain, and the earliest of
    these."""
    chosen = Path(trace, lane, call)
    window, left, facts, time = Window(), {}, [], 0
    for event in chosen.events(trace):
        if event["event"] == "call":
            node, time_ns = trace.nodes[event["node"]], event["time_ns"]
            lane = event["lane"]
            if node["height_bytes"] > window.bytes:
                window.map(time, node["height_bytes"])
            left[event["call"]] = run_plan(node, window, time, event["call"])
            facts.append({"call": event["call"], "node": node["node"], "bucket": node["bucket"],
                          "path": event["path"], "first_step": time, "time_ns": time_ns})
            time += steps_of(node)
        elif event["lane"] == lane:
            part = event["output"] if event["event"] == "part" else None
            for output, offset, token in left.get(event["call"], ()):
                if part in (None, output):
                    window.free(time, offset, token)
    return snapshot(trace, "path", [window.events], window.segments(0, lane + 1), lane=lane,
                    calls_left_out=chosen.left_out, calls_without_graph=chosen.without_graph,
                    calls=facts)
