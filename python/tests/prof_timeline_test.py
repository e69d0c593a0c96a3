#!/usr/bin/env python3
"""Goal: `python -m coppice.prof timeline` says of each kernel of a GPU's timeline which program,
bucket and step it is, and what its padding cost, or says that it does not know. Method: graphs and
timelines drawn at random in both formats, by a drawer that knows the truth; changed copies of
valid files. `coppice prof kernels` is replaced by what was drawn. No timeline of a GPU is here.

    prof_timeline_test.py COPPICE [unittest's options]
"""

import collections
import contextlib
import copy
import csv
import ctypes
import gzip
import io
import json
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import gpu_timelines
from gpu_timelines import (NAMES, OWN, PLAIN, Drawing, Ran, document, kernel, node, replay,
                           two_nodes)
from traces import COMMAND, Done, named_trace, prof_here

from coppice.prof import command, kineto, profilers, traced
from coppice.prof.__main__ import main
from coppice.prof.symbols import identifier

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
ARGUMENTS = ("coppice program", "coppice bucket", "coppice step", "coppice source",
             "coppice padding_pct")


@contextlib.contextmanager
def told(nodes, package="p.zip"):
    """`coppice prof kernels` prints these nodes."""
    def lines(*arguments):
        assert arguments[:2] == ("prof", "kernels") and arguments[-1] == "--json", arguments
        yield json.dumps(nodes if isinstance(nodes, (dict, str)) else document(nodes, package))

    with unittest.mock.patch.object(command, "lines", lines):
        yield


def run(*arguments):
    """What the command does in this process, with what it prints."""
    with tempfile.TemporaryFile() as out, contextlib.redirect_stderr(io.StringIO()) as err:
        sys.stdout.flush()
        before = os.dup(1)
        os.dup2(out.fileno(), 1)
        try:
            code = main(["timeline", *map(str, arguments)])
        finally:
            os.dup2(before, 1)
            os.close(before)
        out.seek(0)
        return Done(code, out.read().decode(), err.getvalue())


def text(value):
    return "" if value is None else str(value)


class TimelineTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.trace = self.folder / "t.trace"
        self.trace.write_text(named_trace().text())

    def write(self, value, name="t.json"):
        path = self.folder / name
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return path

    def join(self, nodes, timeline, *options):
        """The document, which is written without a word on standard error."""
        with told(nodes):
            done = run(self.trace, timeline, "--json", *options)
        self.assertEqual((0, ""), (done.code, done.err))
        return json.loads(done.out)

    def table_of(self, nodes, timeline):
        with told(nodes):
            done = run(self.trace, timeline)
        self.assertEqual((0, ""), (done.code, done.err))
        return done.out

    def refusal(self, nodes, *arguments, code=2):
        with told(nodes):
            done = run(*arguments)
        self.assertEqual((code, ""), (done.code, done.out), done)
        self.assertRegex(done.err, r"\Acoppice\.prof: [^\n]+; [^\n]+\n\Z")
        return done.err

    def check(self, found, drawing, mangled):
        """The document says what the truth is."""
        self.assertEqual("coppice.timeline/1", found["schema"])
        self.assertEqual(sum(drawing.launches.values()), found["launches"])
        self.assertEqual(drawing.foreign, found["launches_not_of_this_trace"])
        self.assertEqual(len(drawing.ran), found["kernels"])
        self.assertEqual({tuple(each["nodes"]): each["launches"] for each in found["nodes"]},
                         {numbers: count for numbers, count in drawing.launches.items()})
        self.assertEqual(sum(count for numbers, count in drawing.launches.items()
                             if len(numbers) > 1),
                         sum(each["launches"] for each in found["ambiguous"]))
        self.assertEqual(0, found["graph_nodes_of_several_steps"])
        rows = gpu_timelines.expected(drawing.ran, mangled)
        seen = {(tuple(row["programs"]), row["step"], row["kernel"]): row for row in found["rows"]}
        self.assertEqual(set(rows), set(seen))
        self.assertEqual(len(rows), len(found["rows"]))
        whole = sum(row[1] for row in rows.values())
        for key, (count, lasts, known, cost) in rows.items():
            row = seen[key]
            self.assertEqual(count, row["launches"])
            self.assertAlmostEqual(lasts / 1e6, row["gpu_ms"], places=5)
            self.assertAlmostEqual(lasts / whole, row["share"], places=5)
            if known:
                self.assertAlmostEqual(cost / known, row["padded_share"], places=5)
                self.assertAlmostEqual(cost / 1e6, row["padding_ms"], places=5)
            else:
                self.assertEqual((None, None), (row["padded_share"], row["padding_ms"]))
        costs = [-1 if row["padding_ms"] is None else row["padding_ms"] for row in found["rows"]]
        self.assertEqual(sorted(costs, reverse=True), costs)
        self.assertAlmostEqual(sum(row[1] for row in rows.values()) / 1e6, found["gpu_ms"],
                               places=5)
        self.assertAlmostEqual(sum(row[3] for row in rows.values()) / 1e6,
                               found["padding_ms"] or 0, places=5)

    def check_arguments(self, events, drawing):
        """Each kernel, found by its time, has what is true of it."""
        truth = {each.start: each for each in drawing.ran}
        self.assertEqual(len(truth), len(events))
        for event in events:
            each, has = truth[round(event["ts"] * 1000)], event["args"]
            wanted = dict.fromkeys(ARGUMENTS)
            if each.nodes:
                padded = each.padded()
                wanted = dict(zip(ARGUMENTS, (
                    " or ".join(each.programs()), each.label(), each.agreed("step"),
                    each.agreed("source"), None if padded is None else round(padded * 100, 2))))
            self.assertEqual(wanted, {key: has.get(key) for key in ARGUMENTS})

    def check_table(self, path, drawing):
        """A row per graph node that was seen in a launch of the trace, with what is true of it."""
        rows = list(csv.DictReader(path.read_text().splitlines()))
        truth = {(str(each.graph), str(each.node)): each for each in drawing.ran if each.nodes}
        self.assertEqual(sorted(truth), sorted((row["graph_id"], row["graph_node_id"])
                                               for row in rows))
        for row in rows:
            each = truth[row["graph_id"], row["graph_node_id"]]
            self.assertEqual((" or ".join(str(one["node"]) for one in each.nodes),
                              " or ".join(each.programs()), each.label(),
                              *(text(each.agreed(key)) for key in ("step", "source"))),
                             tuple(row[key] for key in ("node", "program", "bucket", "step",
                                                        "source")))

    def test_what_was_drawn_is_found_in_the_json_of_a_profiler(self):
        for number in range(120):
            draw = random.Random(SEED + number)
            drawing = Drawing(draw, gpu_timelines.drawn_nodes(draw)).run(draw.randrange(1, 30))
            ids = draw.random() < 0.7
            given = gpu_timelines.kineto(drawing.ran, draw, graph_ids=ids)
            zipped = draw.random() < 0.3
            data = json.dumps(given).encode()
            path = self.write(gzip.compress(data) if zipped else data)
            with self.subTest(seed=SEED + number):
                out, table = self.folder / "out.json", self.folder / "nodes.csv"
                found = self.join(drawing.nodes, path, "-o", out, "--table", table)
                self.check_drawn(found, drawing, given, out, table if ids else None)

    def check_drawn(self, found, drawing, given, out, table):
        self.assertEqual("kineto", found["format"])
        self.check(found, drawing, mangled=False)
        written = json.loads(out.read_bytes())
        kernels = [event for event in written["traceEvents"] if event.get("cat") == "kernel"]
        self.check_arguments(kernels, drawing)
        if table:
            self.check_table(table, drawing)
        for event in kernels:
            for key in ARGUMENTS:
                event["args"].pop(key, None)
        self.assertEqual(given, written)

    def test_what_was_drawn_is_found_in_an_export_of_nsys(self):
        for number in range(120):
            draw = random.Random(SEED + number)
            drawing = Drawing(draw, gpu_timelines.drawn_nodes(draw)).run(draw.randrange(1, 30))
            mangled = draw.random() < 0.6
            lacking = [name for name in gpu_timelines.OPTIONAL_COLUMNS if draw.random() < 0.2]
            lacking += ["graphNodeId", "graphId"] if draw.random() < 0.2 else []
            path = gpu_timelines.nsys(self.folder / "t.sqlite", drawing.ran, lacking, mangled)
            with self.subTest(seed=SEED + number):
                out = self.folder / "out.json"
                found = self.join(drawing.nodes, path, "-o", out)
                self.assertEqual("nsys", found["format"])
                self.check(found, drawing, mangled)
                events = json.loads(out.read_text())["traceEvents"]
                self.check_arguments([event for event in events if event["ph"] == "X"], drawing)
                names = {event["args"]["name"] for event in events if event["ph"] == "M"}
                self.assertLessEqual(2, len(names))
                again = self.join(drawing.nodes, out)  # It is a timeline itself.
                self.check(again, drawing, mangled=False)

    def test_the_table_has_costs_and_sums(self):
        nodes = two_nodes()
        ran = [*replay(nodes[0], 1, 0), *replay(nodes[0], 2, 9000), *replay(nodes[1], 3, 20_000),
               Ran(PLAIN[0], [64, 1, 1], [256, 1, 1], 40_000, 500, 4)]
        printed = self.table_of(nodes, self.write(gpu_timelines.kineto(ran)))
        self.assertEqual(
            [["program", "step", "kernel", "launches", "time", "ms", "share", "padded", "cost",
              "ms", "source"],
             ["decode", "0", "k0", "3", "0.003", "25.00%", "25.00%", "0.001", "model.py:0"],
             ["decode", "2", "k2", "3", "0.003", "25.00%", "25.00%", "0.001", "model.py:2"],
             ["decode", "1", "k1", "3", "0.003", "25.00%", "0.00%", "0.000", "model.py:1"],
             ["decode", "?", OWN, "3", "0.003", "25.00%", "?", "?", "?"]],
            [line.split() for line in printed.split("\n")[:5]])
        self.assertEqual(
            ["  graph launches of this trace: 3; not of this trace: 0",
             "  GPU time of these launches: 0.012 ms, of 0.013 ms of all kernels",
             "  padding: 0.002 ms, 12.50% of that time",
             "note: the padding of 25.00% of that time is not known: kernels of libraries and of "
             "coppice, and launches of several graphs", ""], printed.split("\n")[6:])

    def test_without_a_package_steps_and_padding_are_not_known(self):
        nodes = two_nodes()
        path = self.write(gpu_timelines.kineto(replay(nodes[0], 1, 0)))
        for each in nodes[0]["kernels"]:
            each |= dict.fromkeys(("program", "step", "kernel", "source", "blocks_needed"))
        printed = self.table_of(nodes, path)
        self.assertIn("padding: not known; give --package", printed)
        found = self.join(nodes, path)
        self.assertEqual((None, None), (found["padding_ms"], found["padded_share"]))
        self.assertEqual({("decode", None, OWN), ("decode", None, "attend"),
                          ("decode", None, "project")},
                         {(row["program"], row["step"], row["kernel"]) for row in found["rows"]})

    def test_an_exact_match_is_better_than_one_that_leaves_kernels_over(self):
        small = node(1, "a", 1, [kernel(PLAIN[0], [2, 1, 1], [32, 1, 1], 0, 1.0, "a")])
        middle = node(2, "b", 1, [*small["kernels"],
                                  kernel(PLAIN[1], [3, 1, 1], [32, 1, 1], 1, 1.0, "b")])
        large = node(3, "c", 1, [*middle["kernels"], *small["kernels"]])
        library = kernel((OWN, OWN), [7, 1, 1], [32, 1, 1])
        for nodes in ([small, middle, large], [large, middle, small]):
            for kernels, number in (
                    (small["kernels"], 1), (middle["kernels"], 2), (large["kernels"], 3),
                    ([library, *small["kernels"]], 1), ([library, *middle["kernels"]], 2),
                    ([*large["kernels"], *small["kernels"], library], 3)):
                ran = replay({"kernels": kernels}, 1, 0)
                found = self.join(nodes, self.write(gpu_timelines.kineto(ran)))
                self.assertEqual([[number]], [each["nodes"] for each in found["nodes"]])

    def test_graphs_with_the_same_kernels_are_ambiguous(self):
        one, other = two_nodes()[0], two_nodes()[0]
        other |= {"node": 8, "program": "draft", "label": "draft 8"}
        other["kernels"] = [{**each, "program": each["program"] and "draft"}
                            for each in other["kernels"]]
        other["kernels"][1] |= {"source": "draft.py:3", "blocks_needed": 32.0}
        path = self.write(gpu_timelines.kineto(replay(one, 1, 0)))
        printed = self.table_of([one, other], path)
        self.assertIn("note: 1 launches are of decode 8 or draft 8, whose graphs have the same "
                      "kernels", printed)
        self.assertIn("decode or draft", printed)
        rows = {row["step"]: row for row in self.join([one, other], path)["rows"]}
        self.assertEqual((None, None, None, ["decode", "draft"]), tuple(
            rows[0][key] for key in ("program", "source", "padded_share", "programs")))
        self.assertEqual(("model.py:2", 0.25), (rows[2]["source"], rows[2]["padded_share"]))

    def test_graphs_of_one_bucket_have_the_mean_over_their_calls(self):
        one, other = two_nodes()[0], two_nodes()[0]
        one["calls"] = 3
        other |= {"node": 8, "lane": 1}
        other["kernels"][1]["blocks_needed"] = 32.0
        found = self.join([one, other], self.write(gpu_timelines.kineto(replay(one, 1, 0))))
        self.assertEqual([], found["ambiguous"])
        self.assertEqual([5, 8], found["nodes"][0]["nodes"])
        row, = (row for row in found["rows"] if row["step"] == 0)
        self.assertEqual((3 * 0.25 + 0.5) / 4, row["padded_share"])

    def test_each_piece_of_a_graph_with_breaks_is_a_launch(self):
        one, other = two_nodes()
        one["pieces"] = [2, 0, 2]
        first, second = replay({"kernels": one["kernels"][:2]}, 1, 0), replay(
            {"kernels": one["kernels"][2:]}, 2, 9000)
        path = self.write(gpu_timelines.kineto([*first, *second]))
        found = self.join([one, other], path)
        self.assertEqual((2, 0), (found["launches"], found["launches_not_of_this_trace"]))
        self.assertEqual([([5], "decode 8", 2)], [(each["nodes"], each["label"], each["launches"])
                                                  for each in found["nodes"]])
        self.assertEqual({None, 0, 1, 2}, {row["step"] for row in found["rows"]})

    def test_a_replay_at_exact_sizes_has_its_own_grids(self):
        one, other = two_nodes()
        one["calls"] = 9
        one["patched"] = [
            {"node": 5, "calls": 4, "grids": [None, [40, 1, 1], [4, 1, 1], [4, 1, 1]],
             "blocks_needed": [None, 40.0, 4.0, 4.0]},
            {"node": 5, "calls": 3, "grids": [None, [56, 1, 1], [4, 1, 1], [4, 1, 1]],
             "blocks_needed": [None, 56.0, 4.0, 4.0]}]
        exact = replay(one, 1, 0)
        exact[1].grid = [56, 1, 1]
        padded = replay(one, 2, 9000)
        other_size = replay(one, 3, 20_000)
        other_size[1].grid = [57, 1, 1]
        found = self.join([one, other], self.write(
            gpu_timelines.kineto([*exact, *padded, *other_size])))
        self.assertEqual((2, 1), (found["launches"], found["launches_not_of_this_trace"]))
        self.assertEqual([[5]], [each["nodes"] for each in found["nodes"]])
        rows = {row["step"]: row for row in found["rows"]}
        # One of two launches computed 16 of 64 blocks for padding.
        self.assertEqual((2, 0.125), (rows[0]["launches"], rows[0]["padded_share"]))

    def test_a_node_may_launch_the_executable_of_another_one(self):
        one, other = two_nodes()
        of_one = [kernel["grid"] for kernel in one["kernels"]]
        other |= {"kernels": [], "pieces": [0], "calls": 5, "patched": [
            {"node": 5, "calls": 5, "grids": [of_one[0], [128, 1, 1], *of_one[2:]],
             "blocks_needed": [None, 96.0, 4.0, 3.0]}]}
        ran = replay(one, 1, 0)
        ran[1].grid = [128, 1, 1]
        found = self.join([one, other], self.write(gpu_timelines.kineto(ran)))
        self.assertEqual([([6], "decode 16")], [(each["nodes"], each["label"])
                                                for each in found["nodes"]])
        self.assertEqual([0.25], [row["padded_share"] for row in found["rows"]
                                  if row["step"] == 0])

    def test_one_kernel_is_a_graph_if_ids_say_so_or_nothing_else_can(self):
        lone = node(1, "a", 1, [kernel(PLAIN[0], [2, 1, 1], [32, 1, 1], 0, 1.0, "a")])
        ran = replay(lone, 1, 0)
        for ids in (True, False):
            found = self.join([lone], self.write(gpu_timelines.kineto(ran, graph_ids=ids)))
            self.assertEqual(1, found["launches"])
        eager = Ran(PLAIN[0], [2, 1, 1], [32, 1, 1], 9000, 1000, 2)
        found = self.join([lone], self.write(gpu_timelines.kineto([*ran, eager])))
        self.assertEqual((1, 0, 1), tuple(found[key] for key in (
            "launches", "launches_not_of_this_trace", "kernels_of_the_trace")))
        eager.graph = eager.node = 0
        for path in (self.write(gpu_timelines.kineto([eager])),
                     gpu_timelines.nsys(self.folder / "t.sqlite", [eager])):
            self.assertIn("none of its 1 kernels ran in a graph",
                          self.refusal([lone], self.trace, path))

    def test_kernels_without_a_correlation_are_of_no_launch(self):
        one = two_nodes()[0]
        given = gpu_timelines.kineto(replay(one, 1, 0))
        for event in given["traceEvents"]:
            del event["args"]["correlation"]
        self.assertIn("none of its 4 kernels ran in a graph",
                      self.refusal([one], self.trace, self.write(given)))

    def test_a_launch_whose_mangled_names_are_not_all_there_has_identifiers(self):
        symbol, demangled = NAMES[4]
        one = node(1, "a", 1, [kernel((symbol, demangled), [2, 1, 1], [32, 1, 1], step, 1.0, "a")
                               for step in range(3)])
        ran = replay(one, 1, 0)
        for each in ran:
            each.demangled = demangled
        path = gpu_timelines.nsys(self.folder / "t.sqlite", ran)
        with contextlib.closing(sqlite3.connect(path)) as base, base:
            base.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET mangledName = NULL WHERE rowid = 2")
        self.assertEqual([0, 1, 2], sorted(row["step"] for row in self.join([one], path)["rows"]))

    def test_a_graph_node_that_is_several_steps_is_told(self):
        one, other = two_nodes()
        # Equal kernels, whose order in time differs.
        first, second = replay(one, 1, 0), replay(one, 2, 20_000)
        second[2].start, second[3].start = second[3].start, second[2].start
        path = self.write(gpu_timelines.kineto([*first, *second]))
        self.assertEqual(2, self.join([one, other], path)["graph_nodes_of_several_steps"])
        self.assertIn("note: 2 graph nodes ran as several steps", self.table_of([one], path))
        # One executable replays two sizes: steps are the same.
        table = self.folder / "nodes.csv"
        path = self.write(gpu_timelines.kineto([*first, *replay(other, 2, 20_000)]))
        found = self.join([one, other], path, "--table", table)
        self.assertEqual((2, 0), (found["launches"], found["graph_nodes_of_several_steps"]))
        rows = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual([("5 or 6", "decode 8 or decode 16", step) for step in ("", *"012")],
                         [(row["node"], row["bucket"], row["step"]) for row in rows])

    def test_processes_and_devices_have_their_own_correlations(self):
        one, _ = two_nodes()
        events = []
        for process, device in ((0, 0), (0, 1), (1, 0)):
            given = gpu_timelines.kineto(replay(one, 1, 0))["traceEvents"]
            for event in given:
                event["pid"] = process
                event["args"]["device"] = device
            events += given
        found = self.join([one], self.write({"traceEvents": events}))
        self.assertEqual((3, 0), (found["launches"], found["launches_not_of_this_trace"]))
        self.assertEqual(3, self.join([one], self.write(events))["launches"])  # Without a frame.

    def test_kernels_without_valid_times_are_left_out(self):
        one, other = two_nodes()
        given = gpu_timelines.kineto([*replay(one, 1, 0), *replay(other, 2, 20_000)])
        for event, (key, value) in zip(given["traceEvents"], (
                ("dur", -1), ("ts", float("nan")), ("dur", float("inf")), ("ts", "0"))):
            event[key] = value
        path = self.write(given)
        found = self.join([one, other], path)
        self.assertEqual((1, 4, 4), tuple(found[key] for key in (
            "launches", "kernels", "kernels_left_out")))
        self.assertIn("note: 4 kernels are left out", self.table_of([one, other], path))
        path = gpu_timelines.nsys(self.folder / "t.sqlite", [*replay(one, 1, 0),
                                                             *replay(other, 2, 20_000)])
        with contextlib.closing(sqlite3.connect(path)) as base, base:
            base.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE "
                         "correlationId = 1")
        self.assertEqual(4, self.join([one, other], path)["kernels_left_out"])

    def test_names_that_no_terminal_should_get_are_not_printed(self):
        one = two_nodes()[0]
        one["kernels"][1]["source"] = "a\x1b[31m\n\ud800"
        ran = replay(one, 1, 0)
        table = self.folder / "nodes.csv"
        with told([one]):
            done = run(self.trace, self.write(gpu_timelines.kineto(ran)), "--table", table)
        self.assertEqual((0, ""), (done.code, done.err))
        self.assertIn("a?[31m??", done.out)
        self.assertIn("a?[31m??", table.read_text())

    def test_a_name_that_ends_in_gz_is_compressed(self):
        one = two_nodes()[0]
        path, out = self.write(gpu_timelines.kineto(replay(one, 1, 0))), self.folder / "o.json.gz"
        self.join([one], path, "-o", out)
        plain = self.folder / "o.json"
        self.join([one], path, "-o", plain)
        self.assertEqual(gzip.decompress(out.read_bytes()), plain.read_bytes())

    def test_identifiers_of_symbols_are_those_of_a_demangler(self):
        pairs = [pair for pair in (*NAMES, *gpu_timelines.LIBRARY)]
        for symbol, demangled in pairs:
            self.assertEqual(identifier(symbol), identifier(demangled))
        for symbol, wanted in gpu_timelines.SHORT.items():
            self.assertEqual(wanted, identifier(symbol))
        try:
            demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        except OSError:
            return
        demangle.restype = ctypes.c_char_p
        for symbol in (*(symbol for symbol, _ in pairs if symbol.startswith("_Z")), *SYMBOLS):
            made = demangle(symbol.encode(), None, None, ctypes.byref(ctypes.c_int()))
            self.assertIsNotNone(made, symbol)
            self.assertEqual(identifier(made.decode()), identifier(symbol))
            self.assertRegex(identifier(symbol), r"\A\w+\Z")

    def test_any_text_has_an_identifier(self):
        draw = random.Random(SEED)
        names = [name for pair in NAMES for name in pair] + list(SYMBOLS)
        for _ in range(20_000):
            name = list(draw.choice(names))
            for _ in range(draw.randrange(1, 4)):
                name[draw.randrange(len(name))] = draw.choice("_ZNEILJXFS0T19(<>)a:: \u00e9")
            self.assertIsInstance(identifier("".join(name)), str)
        self.assertEqual("", identifier(""))
        self.assertEqual("_Z", identifier("_Z"))
        deep = "_Z1f" + "I" * 60_000
        self.assertEqual("f", identifier(deep))
        deep = "_ZN1f" + "ILN" * 20_000
        self.assertEqual(deep, identifier(deep))

    def test_misuse_is_one_line_and_exit_code_two(self):
        one, path = two_nodes()[0], None
        path = self.write(gpu_timelines.kineto(replay(one, 1, 0)))
        for arguments, wanted in (
                ((), "TRACE, TIMELINE"), ((self.trace,), "TIMELINE"),
                ((self.trace, path, "-o", "-"), "standard output gets the table"),
                ((self.trace, path, "--table", "-"), "standard output gets the table"),
                ((self.trace, path, "-o", path), "would overwrite an input"),
                ((self.trace, path, "--table", self.trace), "would overwrite an input"),
                ((self.trace, path, "--package", path, "--table", path), "would overwrite"),
                ((self.trace, path, "-o", "same", "--table", "same"), "path of two outputs"),
                ((self.trace, self.folder / "none"), "No such file"),
                ((self.trace, self.folder), "Is a directory"),
                ((self.trace, path, "--fast"), "--fast")):
            self.assertIn(wanted, self.refusal([one], *arguments))
        self.assertEqual(2, prof_here("timeline", self.folder / "no.trace", path)[0])

    def test_files_that_are_no_timelines_are_refused(self):
        one = two_nodes()[0]
        for value, wanted in (
                (b"", "neither JSON nor SQLite"), (b"QDSTRM\0\xff\xfe", "neither JSON nor SQLite"),
                (b"\x1f\x8bnothing", "neither JSON nor SQLite"),
                (gzip.compress(b"[]" * 99)[:30], "neither JSON nor SQLite"),
                (b"[" * 100_000, "nested too deeply"), (b"9" * 5000, "give a trace"),
                (b"SQLite format 3\0", "SQLite cannot read it"), ({}, "traceEvents"),
                ({"traceEvents": {}}, "traceEvents"), ([], "it has no kernels"),
                ({"traceEvents": [1, None, {"ph": "X", "cat": ["kernel"]}]}, "it has no kernels"),
                ([{"ph": "X", "cat": "kernel", "ts": 1, "dur": -1}], "all of its 1 kernels"),
                ([{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1}], "none of its 1 kernels ran"),
                (gpu_timelines.kineto(replay({"kernels": one["kernels"][:2]}, 1, 0)),
                 "none of its 1 graph launches has the kernels of one of the 1 graphs")):
            with self.subTest(wanted=wanted, value=str(value)[:80]):
                self.assertIn(wanted, self.refusal([one], self.trace, self.write(value)))
        with unittest.mock.patch.object(kineto, "FILE_BYTES_MAX", 100):
            path = self.write(gpu_timelines.kineto(replay(one, 1, 0)))
            self.assertIn("more than 100 bytes", self.refusal([one], self.trace, path))
            path.write_bytes(gzip.compress(path.read_bytes()))
            self.assertIn("more than 100 bytes", self.refusal([one], self.trace, path))

    def test_exports_that_lack_tables_or_columns_are_refused(self):
        one = two_nodes()[0]
        path, ran = self.folder / "t.sqlite", replay(one, 1, 0)
        for lacking, wanted in ((["gridX", "correlationId"], "no column correlationId, gridX"),
                                (["demangledName", "shortName", "mangledName"],
                                 "no column demangledName")):
            gpu_timelines.nsys(path, ran, lacking)
            self.assertIn(wanted, self.refusal([one], self.trace, path))
        for statements, wanted in (
                (["DROP TABLE StringIds"], "no table StringIds"),
                (["DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL"], "it has no kernels"),
                (["DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
                  "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start)"], "graph-trace=node"),
                (["UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = NULL, graphId = 0"],
                 "graph-trace=node"),
                (["ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO other",
                  "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM other"],
                 "it has no kernels")):
            gpu_timelines.nsys(path, ran)
            with contextlib.closing(sqlite3.connect(path)) as base, base:
                for statement in statements:
                    base.execute(statement)
            self.assertIn(wanted, self.refusal([one], self.trace, path))

    def test_what_the_command_prints_is_checked(self):
        path = self.write(gpu_timelines.kineto(replay(two_nodes()[0], 1, 0)))
        broken = document([{"node": 1}])
        for printed in ({"schema": "coppice.kernels/2", "nodes": []}, {}, broken, "text",
                        document([{**two_nodes()[0], "kernels": 7}])):
            self.assertIn("install both in the same version", self.refusal(
                printed, self.trace, path))
        self.assertIn("no graph with kernels", self.refusal(document([]), self.trace, path))
        self.assertIn("no graph with kernels", self.refusal(
            document([{**two_nodes()[0], "kernels": []}]), self.trace, path))

    def test_files_that_cannot_be_written_are_exit_code_four(self):
        one = two_nodes()[0]
        path = self.write(gpu_timelines.kineto(replay(one, 1, 0)))
        for option in ("-o", "--table"):
            for out in ("/no/such/folder/file", "/dev/full"):
                self.assertIn(out, self.refusal([one], self.trace, path, option, out, code=4))

    def test_an_export_is_read_without_writing_beside_it(self):
        one = two_nodes()[0]
        path = gpu_timelines.nsys(self.folder / "a ?%23.sqlite", replay(one, 1, 0))
        with contextlib.closing(sqlite3.connect(path)) as base:
            base.execute("PRAGMA journal_mode = WAL")
        before = path.read_bytes(), sorted(self.folder.iterdir())
        self.assertEqual(1, self.join([one], path)["launches"])
        self.assertEqual(before, (path.read_bytes(), sorted(self.folder.iterdir())))

    def hostile(self, nodes, path, seen):
        """The command ends with what it found, or with a line."""
        out = self.folder / "out"
        with told(nodes):
            done = run(self.trace, path, "-o", out, "--table", self.folder / "table")
        self.assertIn(done.code, (0, 2), done.err)
        self.assertEqual(done.code // 2, done.err.count("\n"), done.err)
        seen[done.code] += 1
        if done.code == 0:
            self.assertIsInstance(json.loads(out.read_bytes()), (dict, list))

    def test_whatever_json_says_it_is_joined_or_refused(self):
        draw, seen = random.Random(SEED), collections.Counter()
        nodes = two_nodes()
        given = gpu_timelines.kineto([*replay(nodes[0], 1, 0), *replay(nodes[1], 2, 30_000)], draw)
        for number in range(500):
            data = json.dumps(given)
            if number % 4:
                value = json.loads(data)
                for _ in range(draw.randrange(1, 12)):
                    spoil(value, draw)
                data = json.dumps(value)
            else:
                data = spoiled(data.encode(), draw)
            with self.subTest(data=data):
                self.hostile(nodes, self.write(data if isinstance(data, bytes)
                                               else data.encode()), seen)
        self.assertTrue(seen[0] > 100 and seen[2] > 50, seen)

    def test_whatever_a_database_says_it_is_joined_or_refused(self):
        draw, seen = random.Random(SEED), collections.Counter()
        nodes, path = two_nodes(), self.folder / "t.sqlite"
        ran = [*replay(nodes[0], 1, 0), *replay(nodes[1], 2, 30_000)]
        valid = gpu_timelines.nsys(path, ran).read_bytes()
        for number in range(500):
            path.write_bytes(valid)
            if number % 2:
                with contextlib.closing(sqlite3.connect(path)) as base, base:
                    for _ in range(draw.randrange(1, 6)):
                        with contextlib.suppress(sqlite3.OperationalError):  # A renamed column.
                            base.execute(*statement(draw))
            else:
                path.write_bytes(spoiled(valid, draw))
            with self.subTest(number=number, seed=SEED):
                self.hostile(nodes, path, seen)
        self.assertTrue(seen[0] > 100 and seen[2] > 50, seen)

    def test_a_terminal_is_told_how_far_a_long_timeline_was_read(self):
        one = two_nodes()[0]
        path = self.write(gpu_timelines.kineto(replay(one, 1, 0)))
        with io.StringIO() as stream, unittest.mock.patch.object(traced, "TOLD_EVERY", 4):
            stream.isatty = lambda: True
            with unittest.mock.patch.object(sys, "stderr", stream):
                profilers.read(path)
            self.assertEqual("\r100% of 4 events\r\033[K", stream.getvalue())

    def test_it_needs_no_extension(self):
        code = ("import runpy, sys; sys.modules['coppice._core'] = None; sys.argv[1:] = "
                "['timeline', '--help']; runpy.run_module('coppice.prof', run_name='__main__')")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        self.assertEqual((0, b""), (done.returncode, done.stderr))

    def test_the_command_prints_what_was_agreed(self):
        """The only test that asks the command itself."""
        done = subprocess.run([COMMAND, "prof", "kernels", self.trace, "--json"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            self.skipTest(f"the command has no prof kernels: {done.stderr}")
        printed, = json.loads(done.stdout)["nodes"]
        path = self.write(gpu_timelines.kineto(replay(printed, 1, 0)))
        out = run(self.trace, path, "--json")
        self.assertEqual((0, ""), (out.code, out.err))
        found = json.loads(out.out)
        self.assertEqual({("decode/int8", None, "Attend"), ("decode/int8", None, "Sample")},
                         {(row["program"], row["step"], row["kernel"]) for row in found["rows"]})


# Further symbols of kernels.
SYMBOLS = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEvi"
    "T0_T1_",
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_13BinaryFunctorIfffNS0_"
    "15CUDAFunctor_addIfEEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
    "_ZN3cub6detail6reduce28DeviceReduceSingleTileKernelINS1_10policy_hubIfjN4cuda3std3__44plusIvEE"
    "E10Policy1000EPfS9_iS7_ffNS5_10__identityEEEvT0_T1_T2_T3_T4_T6_",
    "_Z4moveILb1ELin3EL4Kind2EEvv", "_Z4moveIN2ns4KindELS1_3EEvT_", "_ZN2ns1kIXadL_ZNS_1fEvEEEEvv",
    "_ZSt4fillIPfEvT_S1_", "_ZN2nsL5innerEv")
ODD = (None, True, -1, 0, 1, 1 << 70, 10 ** 400, 1.5, -0.0, float("nan"), float("inf"), "",
       "kernel", "\ud800", [], [1, 1, 1], [1, 1], [[], 1, 1], {}, {"grid": 1})


def spoil(value, draw):
    """Replaces, removes or repeats something in the value."""
    holder = value
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = draw.choice(list(keys))
        inner = holder[key]
        if not inner or not isinstance(inner, (dict, list)) or draw.random() < 0.1:
            break
        holder = inner
    what = draw.random()
    if what < 0.7 or holder is value:
        if holder is not value or draw.random() < 0.1:
            holder[key] = copy.deepcopy(draw.choice(ODD))
    elif what < 0.85:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(draw.randrange(len(holder)), copy.deepcopy(inner))


def spoiled(data, draw):
    """The bytes with others, or without an end."""
    data = bytearray(data)
    for _ in range(draw.randrange(1, 30)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data[:draw.randrange(len(data))] if draw.random() < 0.2 else data)


def statement(draw):
    """SQL that changes values of a kernel or a name, with its parameters."""
    table, columns = draw.choice((("StringIds", ("id", "value")),
                                  ("CUPTI_ACTIVITY_KIND_KERNEL", gpu_timelines.KERNEL_COLUMNS)))
    value = draw.choice((None, -1, 0, 1, 1.5, float("inf"), "text", b"\xff\0", (1 << 63) - 1,
                         -1 << 63))
    if table == "StringIds":
        value, columns = draw.choice(("", "_ZN1fI", b"\xff\0", "\x1b")), ("value",)
    column = draw.choice(columns)
    if draw.random() < 0.1:
        return (f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "x{draw.random()}"',)
    some = "" if draw.random() < 0.3 else f" WHERE rowid = {draw.randrange(1, 9)}"
    return f'UPDATE "{table}" SET "{column}" = ?{some}', (value,)


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
