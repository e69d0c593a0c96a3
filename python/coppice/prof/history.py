"""The memory that a session had mapped, and the outputs that its calls held, step by step.

A trace has bytes by kind and leases by output, but no device addresses. So each kind of memory gets
its own range of addresses, of which the session holds the first bytes. With one lane, outputs that
calls hold lie in the range of the plan windows, at the offset of the node's plan. With several
lanes, their windows share that range, and outputs lie where there is room.
"""

import collections
import dataclasses
import itertools

from coppice.prof.ranges import Ranges

PLANS = "nodes"  # The kind of memory that plans lie in.
WAITING_MAX = 1024
PROBES_MAX = 4096  # Holes that are looked at for one output.

# "map": the kind has so many bytes from here on. "unmap": that is what it had before; a kind that
# grows is unmapped and mapped again. "hold": somebody holds an output, `what`. "drop": nobody does,
# something wrote over it, or its bytes went elsewhere. "mark": of this name, `what`.
Step = collections.namedtuple("Step", "action time_ns kind address bytes what")


@dataclasses.dataclass(eq=False)
class Held:
    """An output that is leased."""

    lane: int
    call: int
    node: dict
    buffer: dict
    placed: bool = False  # It was, at some time.


class History:
    """Plays a trace. An output that does not fit waits until it does."""

    def __init__(self, trace):
        self.trace = trace
        self.kinds = list(trace.session["totals"]["bytes"])
        self.mapped = dict.fromkeys(self.kinds, 0)
        self.places = Ranges()  # What is held, by its offset in the range of the plan windows.
        self.unplaced = 0  # Outputs that were held, but at no time within what was mapped.
        self.elsewhere = 0  # Leases of runs without a graph: of unknown size, in another kind.
        self._held = {}  # Offsets by lane and call.
        self._waiting = []
        self._play = {"bytes": self._map, "outputs": self._hold, "part": self._drop,
                      "release": self._drop, "expire": self._drop, "mark": self._mark}

    def address(self, kind):
        """The first address of a kind."""
        return (self.kinds.index(kind) + 1) << 44

    def steps(self):
        for event in self.trace.events():
            play = self._play.get(event["event"])
            for action, kind, offset, bytes, what in play(event) if play else ():
                yield Step(action, event["time_ns"], kind, self.address(kind) + offset, bytes, what)
        self.unplaced += sum(not held.placed for held in self._waiting)

    def _mark(self, event):
        yield "mark", PLANS, 0, 0, event["name"]

    def _map(self, event):
        kind, bytes = event["kind"], event["bytes"]
        before = self.mapped[kind]
        if bytes == before:
            return
        if kind == PLANS and bytes < before:
            yield from self._displace(bytes)
        if before:
            yield "unmap", kind, 0, before, None
        if bytes:
            yield "map", kind, 0, bytes, None
        self.mapped[kind] = bytes
        if kind == PLANS and bytes > before:
            waiting, self._waiting = self._waiting, []
            for held in waiting:
                yield from self._place(held)

    def _displace(self, bytes):
        """A suspended session gives its memory back. Leased outputs wait on the host."""
        while (last := self.places.last()) and last[1] > bytes:
            held = self.places.at(last[0])
            yield self._remove(last[0])
            self._held[held.lane, held.call].remove(last[0])
            self._wait(held)

    def _hold(self, event):
        if event["node"] is None:
            self.elsewhere += 1
        elif (event["lane"], event["call"]) not in self._held:
            node = self.trace.nodes[event["node"]]
            for buffer in node["buffers"]:
                if buffer["output"] is not None:
                    yield from self._place(Held(event["lane"], event["call"], node, buffer))

    def _place(self, held):
        bytes = held.buffer["bytes"]
        begin = self._find(held.buffer["offset"], bytes)
        if begin is None:
            self._wait(held)
            return
        held.placed = True
        self.places.put(begin, begin + bytes, held)
        self._held.setdefault((held.lane, held.call), []).append(begin)
        yield "hold", PLANS, begin, bytes, held

    def _find(self, begin, bytes):
        """An address of bytes that are mapped and free, or None."""
        if self.trace.session["lanes"] > 1:
            begin = 0
            for at, end, _ in itertools.islice(self.places, PROBES_MAX):
                if at - begin >= bytes:
                    break
                begin = end
        fits = begin + bytes <= self.mapped[PLANS] and not self.places.meeting(begin, begin + bytes)
        return begin if fits else None

    def _wait(self, held):
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append(held)
        else:
            self.unplaced += not held.placed

    def _drop(self, event):
        """Drops one of the call's outputs, or all."""
        key = event["lane"], event["call"]
        output = event["output"] if event["event"] == "part" else None

        def meant(held):
            return (held.lane, held.call) == key and output in (None, held.buffer["output"])

        self.unplaced += sum(meant(held) and not held.placed for held in self._waiting)
        self._waiting = [held for held in self._waiting if not meant(held)]
        left = []
        for begin in self._held.pop(key, ()):
            if meant(self.places.at(begin)):
                yield self._remove(begin)
            else:
                left.append(begin)
        if left:
            self._held[key] = left

    def _remove(self, begin):
        end, held = self.places.take(begin)
        return "drop", PLANS, begin, end - begin, held
