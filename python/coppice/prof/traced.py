"""A trace, as `coppice prof json` prints it (tools/prof/export/prof_json.h)."""

import itertools
import json
import sys

from coppice.prof import command

TOLD_EVERY = 100_000  # Events from one note of progress to the next.


class Trace:
    """A trace file. `session` describes the session, and `nodes` has its graphs by number.

    Raises Refused if the command cannot read it."""

    def __init__(self, path):
        self.path = path
        lines = self._read()
        self.session = next(lines)
        self.nodes = {}
        self._unread = lines
        for line in lines:
            if "event" in line:
                self._unread = itertools.chain([line], lines)
                break
            self.nodes[line["node"]] = line

    def _read(self):
        return map(json.loads, command.lines("prof", "json", self.path))

    def events(self):
        """The events, in order of time. Each call after the first reads the file again."""
        lines, self._unread = self._unread or self._read(), None
        return told((line for line in lines if "event" in line), self.session["events"])


def told(events, total, stream=None):
    """The same events; prints their number while they come, if `stream` (None: standard error) is a
    terminal."""
    stream = stream or sys.stderr
    tells = stream.isatty() and total >= TOLD_EVERY
    for number, event in enumerate(events, 1):
        if tells and number % TOLD_EVERY == 0:
            print(f"\r{number / total:4.0%} of {total} events", end="", file=stream, flush=True)
        yield event
    if tells:
        print("\r\033[K", end="", file=stream, flush=True)


def program_of(node):
    """ "decode", or "decode/int8" of a variant."""
    return "/".join(filter(None, (node["program"], node["variant"])))
