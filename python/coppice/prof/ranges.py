"""Ranges of addresses that do not overlap, each with a value."""

import bisect


class Ranges:
    """Ranges [begin, end) in order of their addresses, each with a value."""

    def __init__(self):
        self._begins = []
        self._ranges = {}  # (end, value) by begin.

    def __iter__(self):
        """Each as (begin, end, value)."""
        return ((begin, *self._ranges[begin]) for begin in self._begins)

    def put(self, begin, end, value):
        """Adds a range. Requires: no range overlaps [begin, end)."""
        bisect.insort(self._begins, begin)
        self._ranges[begin] = end, value

    def take(self, begin):
        """Removes the range that begins at `begin`, and returns its end and its value. Requires:
        there is one."""
        del self._begins[bisect.bisect_left(self._begins, begin)]
        return self._ranges.pop(begin)

    def at(self, begin):
        """The value of the range at `begin`, or None."""
        return self._ranges.get(begin, (None, None))[1]

    def last(self):
        """The highest range as (begin, end), or None."""
        return (self._begins[-1], self._ranges[self._begins[-1]][0]) if self._begins else None

    def meeting(self, begin, end):
        """Where the ranges begin that overlap [begin, end)."""
        first = bisect.bisect_left(self._begins, begin)
        if first and self._ranges[self._begins[first - 1]][0] > begin:
            first -= 1
        return self._begins[first:bisect.bisect_left(self._begins, end)]
