"""Which calls build on each other."""

from coppice.prof.command import Refused

EVENTS_MAX = 250_000  # Of a snapshot of a path; more a viewer cannot take.


class Path:
    """The chain of calls that ends at a call (None: the longest chain), without calls that have no
    graph. If it is too long for a viewer, its beginning is cut off.

    Raises Refused: no such call, or no call that has a graph."""

    def __init__(self, trace, lane, call):
        self.left_out = self.without_graph = 0
        self._calls = []  # Of each call: number of its event, parent's place or None, depth, node.
        places = self._read(trace)
        place = self._leaf(places, lane, call)
        self._chain = set()  # Numbers of events.
        events = 0
        while place is not None:
            number, parent, _, node = self._calls[place]
            if node is not None:
                events += events_of(trace.nodes[node])
            if events > EVENTS_MAX and self._chain:
                self.left_out += 1
            elif node is None:
                self.without_graph += 1
            else:
                self._chain.add(number)
            place = parent

    def events(self, trace):
        """The calls of the chain, and all events between the first and the last that end a
        lease."""
        first, last = min(self._chain), max(self._chain)
        for number, event in enumerate(trace.events()):
            if number in self._chain or (number > first and
                                         event["event"] in ("part", "release", "expire")):
                yield event
            if number == last:
                return

    def _read(self, trace):
        """Reads the trace. A call builds on the latest of the calls whose outputs it reads. They
        come before it in the trace."""
        places, reads = {}, {}  # By lane and call; by lane: a call, and what it reads.
        for number, event in enumerate(trace.events()):
            lane = event["lane"]
            if event["event"] == "use":
                call, read = reads.get(lane, (None, 0))
                other = event["other_call"]
                reads[lane] = event["call"], max(read, other) if call == event["call"] else other
            elif event["event"] == "call":
                call, read = reads.get(lane, (None, 0))
                parent = places.get((lane, read)) if call == event["call"] else None
                depth = 0 if parent is None else self._calls[parent][2]
                places[lane, event["call"]] = len(self._calls)
                self._calls.append((number, parent, depth + (event["node"] is not None),
                                    event["node"]))
        return places

    def _leaf(self, places, lane, call):
        if call is None:
            depths = [depth for _, _, depth, _ in self._calls]
            if not any(depths):
                raise Refused("no call of the trace has a graph; give --mode history")
            return depths.index(max(depths))
        if (lane, call) not in places:
            raise Refused(f"the trace has no call {call} on lane {lane}; see `coppice prof why`")
        place = places[lane, call]
        if not self._calls[place][2]:
            raise Refused(f"call {call} on lane {lane}, and the calls that it depends on, all ran "
                          "without a graph; choose another call")
        return place


def events_of(node):
    """The largest number of events that one run of a node adds to a snapshot."""
    begins = sum(len(buffer["lifetime"]) for buffer in node["buffers"])
    return 4 + 3 * (begins + len(node["around"]) + len(node["donated"]))
