"""Trace files by hand, and `python -m coppice.prof` on them, for its tests; the command `coppice`
is their first argument."""

import collections
import contextlib
import io
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys

COMMAND = pathlib.Path(sys.argv.pop(1)).resolve()
os.environ["PATH"] = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"

from coppice.prof.__main__ import main  # noqa: E402

Done = collections.namedtuple("Done", "code out err")


def coppice(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True,
                          check=True).stdout


def prof(*arguments):
    """What `python -m coppice.prof` does, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "coppice.prof", *map(str, arguments)],
                          capture_output=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr.decode())


def prof_here(*arguments):
    """The same in this one: exit code and error. What it prints goes to a file by -o."""
    with contextlib.redirect_stderr(io.StringIO()) as err:
        return main([*map(str, arguments)]), err.getvalue()


class TraceText:
    """A trace, each of whose events comes 1000 ns after the one before it."""

    def __init__(self, lanes=1):
        self.time = 0
        self.calls = {}
        self.lines = [{"schema": "coppice.trace/6", "device": 'Emulated "GPU" \u00fc',
                       "lanes": lanes, "granularity": 4096, "budget": 0, "options": {}}]

    def program(self, name="decode", variant=""):
        self.lines.append({"program": 0, "name": name, "variant": variant, "symbols": ["batch"],
                           "scalars": [], "spec": {}, "policies": [{"ladder": "pow2"}],
                           "joint": []})

    def bucket(self, number, extent, lane=0):
        self.lines.append({"bucket": number, "program": 0, "lane": lane, "extents": [extent],
                           "scalars": []})

    def node(self, number, bucket, height, live, buffers, **more):
        """Of buffers [offset, bytes, output or -1, lifetime], and perhaps a label."""
        self.lines.append({"node": number, "bucket": bucket, "height": height, "live": live,
                           "method": "size", "graph_nodes": 2, "exec_bytes": 1000,
                           "record_ns": 2000, "reason": "new_bucket", "around": [], "kernels": [],
                           "buffers": [[*each, ""][:5] for each in buffers], **more})

    def event(self, kind, lane, *values):
        self.time += 1000
        self.lines.append([self.time, kind, lane, *values])

    def call(self, call, bucket, node, path, reason="none", lane=0):
        self.event("call", lane, call, bucket, node, path, reason, 6, 8, 0, [6], -1, "borrow")

    def text(self):
        return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self.lines)


def clean_trace():
    """Two buckets of a program share bytes, a call reads another's outputs in place, a graph goes
    around them, memory is accounted, everything is given up."""
    trace = TraceText()
    trace.program()
    trace.bucket(0, 8)
    trace.bucket(1, 4)
    trace.event("bytes", -1, "eager", 4096, 4096)
    trace.call(1, 0, -1, "warm_up", "new_bucket")
    trace.event("outputs", 0, 1, -1)
    trace.event("release", 0, 1)
    trace.event("bytes", -1, "nodes", 12288, 16384)
    trace.node(0, 0, 12288, 12288, [[0, 4096, 0, [1, 3]], [4096, 8192, -1, [0, 2]]])
    trace.event("record", 0, 0)
    trace.event("bytes", -1, "graphs", 1000, 17384)
    trace.call(2, 0, 0, "record", "new_bucket")
    trace.call(3, 1, -1, "warm_up", "new_bucket")
    trace.node(1, 1, 6144, 6144, [[0, 2048, 0, [0, 2]], [2048, 4096, -1, [0, 1]]])
    trace.event("record", 0, 1)
    trace.call(4, 1, 1, "record", "new_bucket")
    trace.call(5, 0, 0, "replay")
    trace.event("outputs", 0, 5, 0)
    trace.node(2, 1, 8192, 8192, [[4096, 2048, 0, [0, 2]], [6144, 2048, -1, [0, 1]]],
               around=[[0, 4096]])
    trace.event("record", 0, 2)
    trace.event("use", 0, 6, 5, 0, 0, 0)
    trace.call(6, 1, 2, "record", "other_live_regions")
    trace.event("outputs", 0, 6, 2)
    trace.event("release", 0, 5)
    trace.event("expire", 0, 6, 7)
    trace.call(7, 0, 0, "replay")
    trace.event("release", 0, 6)
    trace.call(8, -1, -1, "eager", "over_largest_bucket")
    return trace


def two_lanes():
    """Whose calls hold what lies at the same offset."""
    trace = TraceText(lanes=2)
    trace.program("decode", "int8")
    for lane in (0, 1):
        trace.bucket(lane, 8, lane)
        trace.node(lane, lane, 4096, 4096, [[0, 4096, 0, [0, 2]]])
    trace.event("bytes", -1, "nodes", 8192, 8192)
    trace.event("bytes", -1, "spare", 4096, 12288)
    for lane in (0, 1):
        trace.event("record", lane, lane)
        trace.call(1, lane, lane, "record", "new_bucket", lane)
        trace.event("outputs", lane, 1, lane)
    trace.event("bytes", -1, "spare", 0, 8192)
    trace.lines.append({"mark": 0, "name": 'warm "up"'})
    trace.event("mark", -1, 0)
    return trace


def named_trace():
    """A node with two kernels, and names for its buffers but one."""
    trace = TraceText()
    trace.program("decode", "int8")
    trace.bucket(0, 8)
    trace.node(0, 0, 4096, 4096, [
        [0, 1024, 0, [1, 3], "logits"], [1024, 1024, 1, [1, 3]],
        [2048, 1024, -1, [0, 1], "hidden"], [3072, 1024, -1, [1, 2], "hidden"]],
        kernels=[["Attend", [64, 1, 1], [256, 1, 1], 8192], ["Sample", [1, 1, 1], [32, 1, 1], 0]])
    trace.event("record", 0, 0)
    return trace


NUMBERS = ("0", "1", "2", "3", "5", "7", "2048", "4096", "6000", "1099511627776")


def changed(text, draw):
    """The text with another number, or with a line less or twice."""
    if draw.random() < 0.6:
        begin, end = draw.choice([found.span() for found in re.finditer(r"\d+", text)])
        return text[:begin] + draw.choice(NUMBERS) + text[end:]
    lines = text.splitlines(keepends=True)
    taken = lines.pop(draw.randrange(1, len(lines)))
    for _ in range(draw.randrange(3)):
        lines.insert(draw.randrange(1, len(lines)), taken)
    return "".join(lines)


class Plain(pickle.Unpickler):
    """Nothing can be looked up."""

    def find_class(self, module, name):
        raise AssertionError(f"{module}.{name} is no part of a snapshot")


def load(data):
    return Plain(io.BytesIO(data)).load()

