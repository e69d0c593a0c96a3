"""Figures of sessions: dicts whose items are attributes as well. Written by tools/describe."""


class Figure:
    """An item of a dict, as an attribute."""

    def __init__(self, what):
        self.__doc__ = what

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, figures, owner=None):
        return self if figures is None else figures[self.name]


class SessionStats(dict):
    """What a session did so far."""

    __slots__ = ()

    calls: int = Figure("Calls that ran.")
    runs: dict = Figure("Calls, by how they ran.")
    reasons: dict = Figure("Calls that did not replay, by reason.")
    captures_retried: int = Figure("Recordings that were broken from outside and retried.")
    recordings: int = Figure("Graphs recorded, including those recorded before calls.")
    recordings_empty: int = Figure("Recordings without a graph node or a break.")
    evictions: int = Figure("Graphs dropped to make room.")
    remaps: int = Figure("Replays that had to map their memory again.")
    inputs_in_place: int = Figure("Inputs read where an earlier call left them.")
    inputs_filled: int = Figure("Inputs staged only to fill their padding.")
    inputs_demoted: int = Figure("Static inputs that moved too often and have been copied since.")
    stream_switches: int = Figure("Calls that had to wait for the lane's last stream.")
    real_elements: int = Figure("Staged elements that callers passed.")
    padded_elements: int = Figure("Staged elements, including padding.")
    exact_replays: int = Figure("Replays at the call's own sizes, in a bucket's memory.")
    patched_nodes: int = Figure("Graph nodes that were set to the sizes of a call.")


class MemoryUsage(dict):
    """What a session holds, in bytes."""

    __slots__ = ()

    bytes: dict = Figure("Held, by kind.")
    peak: dict = Figure("The most ever held, by kind.")
    total: int = Figure("The sum over all kinds.")
    total_peak: int = Figure("The highest total so far.")
    budget: int = Figure("The most that the total may be; 0: no budget.")
    height: int = Figure("Largest end offset in the plan of any recorded graph, over all lanes.")
    eager_live: int = Figure("Bytes in use in the eager windows.")
    eager_peak: int = Figure("Highest top of any eager window so far.")
