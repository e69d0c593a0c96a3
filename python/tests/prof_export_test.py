#!/usr/bin/env python3
"""Goal: what `python -m coppice.prof export` writes says what the trace says, with the totals of
the summary, and is read by those it is meant for. Method: traces by hand, changed copies of them,
and one of a run; PyTorch's _memory_viz.py and the opcodes that its viewer reads, Perfetto's
protobufs, Graphviz, the rules of RMM's log. What is not installed is skipped.

    prof_export_test.py COPPICE [unittest's options]
"""

import collections
import contextlib
import importlib
import io
import json
import os
import pathlib
import pickletools
import pty
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from traces import (
    TraceText, changed, clean_trace, coppice, load, named_trace, prof, prof_here, two_lanes)

from coppice.prof import traced

MODES = ("history", "plan", "path")
FORMATS = ("memory-viz", "perfetto", "rmm-csv", "nsys-sidecar")

# Of the opcodes in MemoryViz.js.
OPCODES = {
    "PROTO", "FRAME", "MARK", "STOP", "EMPTY_DICT", "SETITEM", "SETITEMS", "DICT", "EMPTY_LIST",
    "APPEND", "APPENDS", "LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE",
    "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE",
    "SHORT_BINUNICODE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "MEMOIZE"}
BATCH_MAX = 1000  # Items that a viewer in a browser takes at once.

# Rows as RMM's logging adaptor formats them, and as its log parser wants them.
RMM_ROW = re.compile(r"\d+,\d\d:\d\d:\d\d\.\d{6},"
                     r"(allocate,0x[0-9a-f]+|allocate failure,\(nil\)|free,0x[0-9a-f]+),\d+,\d+")
PLANS = 1 << 44  # Where the range of plan windows begins.


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


memory_viz = module("torch.cuda._memory_viz")
perfetto = module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def peak(events, begin, end):
    """The bytes in use at most, by events that begin with `begin` and end with `end`."""
    now = most = 0
    for event in events:
        now += {begin: 1, end: -1}.get(event["action"], 0) * event["size"]
        most = max(most, now)
    return most


def steps(events):
    """"alloc 0+4096" and "free ..." of blocks in the range of the plan windows."""
    return [f"{event['action'].removesuffix('_completed')} {event['addr'] - PLANS}+{event['size']}"
            for event in events if event["action"] in ("alloc", "free_completed")
            and PLANS <= event["addr"] < PLANS + (1 << 40)]


class ExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.traces = [cls.write(trace.text(), name) for trace, name in (
            (clean_trace(), "clean"), (two_lanes(), "lanes"), (named_trace(), "named"),
            (TraceText(), "empty"))]
        cls.traces.append(cls.folder / "run.trace")
        coppice("run", "--requests", 400, "--verify", "none", "--quiet", "--device", "host",
                "--trace-out", cls.traces[-1])
        cls.summaries = {path: json.loads(coppice("prof", "summary", path, "--json"))
                         for path in cls.traces}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def write(cls, text, name="t"):
        path = cls.folder / f"{name}.trace"
        path.write_text(text)
        return path

    def export(self, trace, format, *options):
        """The bytes, of the path of a trace or of one by hand."""
        path = self.write(trace.text()) if isinstance(trace, TraceText) else trace
        out = self.folder / "out"
        self.assertEqual((0, ""), prof_here("export", format, path, *options, "-o", out))
        return out.read_bytes()

    def viz(self, trace, *options):
        return load(self.export(trace, "memory-viz", *options))

    def held(self, trace):
        return steps(self.viz(trace)["device_traces"][0])

    def snapshots(self):
        for trace in self.traces:
            for mode in MODES:
                if mode != "path" or self.summaries[trace]["paths"]["replay"]:
                    yield trace, mode, self.export(trace, "memory-viz", "--mode", mode)

    def test_pickles_have_the_viewers_opcodes_in_batches(self):
        for _, _, data in self.snapshots():
            depth, marks = 0, []
            for opcode, argument, _ in pickletools.genops(data):
                self.assertIn(opcode.name, OPCODES)
                if opcode.name == "PROTO":
                    self.assertEqual(argument, 2)
                elif opcode.name == "MARK":
                    marks.append(depth)
                elif opcode.name in ("APPENDS", "SETITEMS"):
                    mark = marks.pop()
                    if opcode.name == "APPENDS":
                        self.assertLessEqual(depth - mark, BATCH_MAX)
                    depth = mark
                elif opcode.name.startswith("TUPLE"):
                    depth -= int(opcode.name[-1]) - 1
                elif opcode.stack_after and not opcode.stack_before:
                    depth += 1

    def test_json_says_what_the_pickle_says(self):
        for trace, mode, data in self.snapshots():
            text = self.export(trace, "memory-viz", "--mode", mode, "--json")
            self.assertEqual(json.loads(text), json.loads(json.dumps(load(data))))

    def test_snapshots_keep_the_rules_of_their_readers(self):
        for _, _, data in self.snapshots():
            self.check_snapshot(load(data))

    def check_snapshot(self, snapshot):
        for segment in snapshot["segments"]:
            self.assertLess(segment["device"], len(snapshot["device_traces"]))
            self.assertEqual(sum(block["size"] for block in segment["blocks"]),
                             segment["total_size"])
            self.assertEqual(segment["segment_pool_id"][0], 0)
            self.assertGreaterEqual(segment["segment_pool_id"][1], 1)
            self.assertTrue(segment["blocks"])
        categories = {event.get("category") for events in snapshot["device_traces"]
                      for event in events} - {None}
        self.assertTrue(not categories or "unknown" in categories)
        for device, events in enumerate(snapshot["device_traces"]):
            live, mapped = self.check_events(events)
            segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
            self.assertEqual(mapped, {segment["address"]: segment["total_size"]
                                      for segment in segments})
            self.assertEqual(live, {block["address"]: block["size"] for segment in segments
                                    for block in segment["blocks"]
                                    if block["state"] == "active_allocated"})

    def check_events(self, events):
        """Nothing overlaps, and every free has its allocation; returns what is left."""
        live, mapped, last = {}, {}, 0
        for event in events:
            self.assertGreaterEqual(event["time_us"], last)
            last = event["time_us"]
            address, size, action = event["addr"], event["size"], event["action"]
            if action == "alloc":
                self.assertFalse([other for other, bytes in live.items()
                                  if address < other + bytes and other < address + size])
                self.assertIsInstance(event["frames"], list)
                live[address] = size
            elif action == "free_completed":
                self.assertEqual(live.pop(address), size)
            elif action == "segment_alloc":
                mapped[address] = size
            elif action == "segment_free":
                self.assertEqual(mapped.pop(address), size)
        return live, mapped

    def test_whatever_a_trace_says_snapshots_keep_the_rules(self):
        draw, read = random.Random(20), 0
        for number in range(100):
            text = (clean_trace, two_lanes)[number % 2]().text()
            for _ in range(1 + number % 4):
                text = changed(text, draw)
            path = self.write(text)
            for mode in MODES:
                out = self.folder / "out"
                code, error = prof_here("export", "memory-viz", path, "--mode", mode, "-o", out)
                self.assertIn(code, (0, 2), error)
                self.assertEqual(error.count("\n"), code // 2, error)
                if code == 0:
                    read += 1
                    with self.subTest(mode=mode, text=text):
                        for events in load(out.read_bytes())["device_traces"]:
                            self.check_events(events)
        self.assertGreater(read, 75)

    def test_totals_are_those_of_the_summary(self):
        for trace, mode, data in self.snapshots():
            snapshot, summary = load(data), self.summaries[trace]
            totals = snapshot["coppice"]["totals"]
            self.assertEqual(totals["total_peak_bytes"], summary["total_peak_bytes"])
            self.assertEqual(totals["paths"], summary["paths"])
            if mode == "history":
                self.assertEqual(sum(segment["total_size"] for segment in snapshot["segments"]),
                                 summary["total_end_bytes"])
                self.assertEqual(peak(snapshot["device_traces"][0], "segment_alloc",
                                      "segment_free"), summary["total_peak_bytes"])

    @unittest.skipUnless(memory_viz, "torch.cuda._memory_viz is not installed")
    def test_memory_viz_of_pytorch_reads_snapshots(self):
        def same(text, **_):
            return text

        for _, _, data in self.snapshots():
            snapshot = load(data)
            total = sum(segment["total_size"] for segment in snapshot["segments"])
            self.assertIn(f"total_reserved: {memory_viz.Bytes(total)}",
                          memory_viz.segsum(snapshot))
            entries = memory_viz.trace(snapshot)
            for device, events in enumerate(snapshot["device_traces"]):
                told = f"Device {device} " in entries and f"{len(events)} entries" in entries
                self.assertEqual(bool(events), told)
            for view in (memory_viz.memory, memory_viz.segments):
                active = any(block["state"] == "active_allocated"
                             for segment in snapshot["segments"] for block in segment["blocks"])
                self.assertEqual(active, "active_allocated" in view(snapshot,
                                                                    format_flamegraph=same))
            with contextlib.redirect_stdout(io.StringIO()):
                memory_viz.compare(snapshot["segments"], [], format_flamegraph=same)

    def test_history_holds_outputs_where_the_plan_says_until_they_are_given_up(self):
        self.assertEqual(["alloc 0+4096", "alloc 4096+2048", "free 0+4096", "free 4096+2048"],
                         self.held(clean_trace()))
        snapshot = self.viz(clean_trace())
        self.assertEqual(1, snapshot["coppice"]["leases_of_unknown_size"])
        self.assertEqual(0, snapshot["coppice"]["outputs_without_place"])
        outputs = [event for event in snapshot["device_traces"][0]
                   if event.get("category") == "output"]
        self.assertEqual(2, len(outputs))
        for event in outputs:
            self.assertEqual([0, 0], [event["user_metadata"][key] for key in ("lane", "output")])
            self.assertEqual("coppice://decode", event["frames"][0]["filename"])

    def test_history_ends_parts_of_a_lease(self):
        trace = TraceText()
        trace.program()
        trace.bucket(0, 8)
        trace.node(0, 0, 4096, 4096, [[0, 1024, 0, [0, 2]], [1024, 2048, 1, [0, 2]],
                                      [3072, 64, -1, [0, 1]]])
        trace.event("bytes", -1, "nodes", 4096, 4096)
        trace.event("outputs", 0, 1, 0)
        trace.event("part", 0, 1, 1)
        self.assertEqual(["alloc 0+1024", "alloc 1024+2048", "free 1024+2048"], self.held(trace))
        segment = self.viz(trace)["segments"][0]
        self.assertEqual([("active_allocated", 1024), ("inactive", 3072)],
                         [(block["state"], block["size"]) for block in segment["blocks"]])
        self.assertEqual((0, 1), segment["segment_pool_id"])

    def test_history_of_a_suspended_session_holds_nothing_until_its_memory_is_back(self):
        trace = two_lanes()
        trace.event("suspend", -1)
        trace.event("bytes", -1, "nodes", 4096, 4096)
        trace.event("bytes", -1, "nodes", 0, 0)
        trace.event("release", 1, 1)
        trace.event("resume", -1)
        trace.event("bytes", -1, "nodes", 8192, 8192)
        # Windows of two lanes share the range, so that what lies at one offset is told apart.
        self.assertEqual(["alloc 0+4096", "alloc 4096+4096", "free 4096+4096", "free 0+4096",
                          "alloc 0+4096"], self.held(trace))

    def test_history_counts_outputs_that_never_had_mapped_bytes(self):
        trace = two_lanes()
        trace.event("bytes", -1, "nodes", 1024, 1024)
        trace.event("outputs", 0, 2, 0)
        trace.event("release", 0, 2)
        self.assertEqual(1, self.viz(trace)["coppice"]["outputs_without_place"])

    def test_marks_are_annotations(self):
        self.assertEqual([("START", 'warm "up"'), ("END", 'warm "up"')],
                         [(note["stage"], note["name"])
                          for note in self.viz(two_lanes())["external_annotations"]])

    def test_plan_has_a_device_per_bucket_with_the_highest_of_its_plans(self):
        snapshot = self.viz(clean_trace(), "--mode", "plan")
        first, second = snapshot["device_traces"]
        self.assertEqual(["alloc 4096+8192", "alloc 0+4096", "free 4096+8192"], steps(first))
        # Around bytes of another call's outputs, which stay; so do outputs at the end.
        self.assertEqual(["alloc 0+4096", "alloc 4096+2048", "alloc 6144+2048", "free 6144+2048"],
                         steps(second))
        self.assertEqual("around", second[1]["category"])
        buckets = {each["bucket"]: each for each in json.loads(
            coppice("prof", "buckets", self.traces[0], "--json"))["buckets"]}
        for device in snapshot["coppice"]["devices"]:
            events = snapshot["device_traces"][device["device"]]
            self.assertEqual(peak(events, "alloc", "free_completed"), device["bound_bytes"])
            self.assertEqual(peak(events, "segment_alloc", "segment_free"), device["height_bytes"])
            for key in ("bound_bytes", "height_bytes"):
                self.assertEqual(buckets[device["bucket"]][key], device[key])

    def test_plan_ends_what_a_buffer_in_place_takes_over_and_what_a_call_gives_away(self):
        trace = TraceText()
        trace.program()
        trace.bucket(0, 8)
        trace.bucket(1, 4)
        trace.node(0, 0, 128, 128, [[0, 128, -1, [0, 3]], [0, 64, 0, [2, 5]],
                                    [64, 64, -1, [2, 3, 4, 5]]])
        trace.node(1, 1, 192, 128, [[64, 64, -1, [0, 1]], [0, 64, 0, [2, 3]]],
                   donated=[[0, 64, 2]])
        first, second = self.viz(trace, "--mode", "plan")["device_traces"]
        self.assertEqual(["alloc 0+128", "free 0+128", "alloc 0+64", "alloc 64+64", "free 64+64",
                          "alloc 64+64", "free 64+64"], steps(first))
        self.assertEqual(["alloc 0+64", "alloc 64+64", "free 64+64", "free 0+64", "alloc 0+64"],
                         steps(second))
        self.assertEqual("donated", second[1]["category"])

    def test_path_is_the_longest_chain_of_calls_that_build_on_each_other(self):
        snapshot = self.viz(clean_trace(), "--mode", "path")
        self.assertEqual([(5, 0), (6, 3)], [(call["call"], call["first_step"])
                                            for call in snapshot["coppice"]["calls"]])
        # The output of call 5 is there while call 6 runs, whose plan goes around it.
        self.assertEqual(["alloc 4096+8192", "alloc 0+4096", "free 4096+8192", "alloc 4096+2048",
                          "alloc 6144+2048", "free 6144+2048"], steps(snapshot["device_traces"][0]))

    def test_path_ends_at_the_call_that_is_asked_for(self):
        snapshot = self.viz(clean_trace(), "--mode", "path", "--call", 4, "--lane", 0)
        self.assertEqual([1], [call["node"] for call in snapshot["coppice"]["calls"]])

    def test_long_paths_keep_their_last_calls(self):
        trace = TraceText()
        trace.program()
        trace.bucket(0, 8)
        trace.node(0, 0, 576000, 576000, [[64 * i, 64, -1 if i else 0, [0, 2]]
                                          for i in range(9000)])
        for call in range(1, 21):
            if call > 1:
                trace.event("use", 0, call, call - 1, 0, 0, 0)
            trace.call(call, 0, 0, "replay")
            trace.event("outputs", 0, call, 0)
        snapshot = self.viz(trace, "--mode", "path")
        self.assertEqual(11, snapshot["coppice"]["calls_left_out"])
        self.assertEqual(12, snapshot["coppice"]["calls"][0]["call"])
        self.assertLessEqual(len(snapshot["device_traces"][0]), 250000)

    def test_buffers_are_called_by_their_names(self):
        trace = named_trace()
        trace.event("bytes", -1, "nodes", 4096, 4096)
        for call in range(1, 3001):
            trace.call(call, 0, 0, "replay")
            trace.event("outputs", 0, call, 0)
            trace.event("release", 0, call)
        named = {"logits": "logits", "#1": "decode/int8 8"}
        for mode in MODES:
            data = self.export(trace, "memory-viz", "--mode", mode)
            events = load(data)["device_traces"][0]
            allocs = [event for event in events if event["action"] == "alloc"]
            self.assertEqual(
                named if mode == "history" else {**named, "hidden": "hidden"},
                {event["user_metadata"]["buffer"]: event["frames"][0]["name"] for event in allocs})
            self.assertEqual({("decode/int8 8", "coppice://decode/int8", 0)},
                             {tuple(event["frames"][-1].values()) for event in allocs})
            if mode == "history":  # Names are written once.
                self.assertLessEqual(len(data), 70 * len(events))

    @unittest.skipUnless(perfetto, "the package perfetto is not installed")
    def test_perfetto_reads_its_protobuf(self):
        for trace in self.traces:
            document = perfetto.Trace.FromString(self.export(trace, "perfetto"))
            tracks, counters, last = {}, {}, 0
            open_slices, recorded = collections.defaultdict(list), 0
            for packet in document.packet:
                self.assertEqual(packet.trusted_packet_sequence_id, 1)
                if packet.HasField("track_descriptor"):
                    descriptor = packet.track_descriptor
                    self.assertNotIn(descriptor.uuid, tracks)
                    tracks[descriptor.uuid] = descriptor
                    continue
                event = packet.track_event
                self.assertIn(event.track_uuid, tracks)
                self.assertGreaterEqual(packet.timestamp, last)
                last = packet.timestamp
                kind = perfetto.TrackEvent.Type.Name(event.type)
                if kind == "TYPE_COUNTER":
                    counter = tracks[event.track_uuid]
                    self.assertEqual(counter.counter.unit,
                                     perfetto.CounterDescriptor.UNIT_SIZE_BYTES)
                    counters.setdefault(counter.name, []).append(event.counter_value)
                elif kind == "TYPE_SLICE_BEGIN":
                    open_slices[event.track_uuid].append(event)
                    self.assertTrue(event.name)
                    self.assertTrue(event.debug_annotations)
                    recorded += event.name.startswith("record ")
                    for fact in event.debug_annotations:
                        self.assertEqual(fact.WhichOneof("value") == "double_value",
                                         fact.name in ("ttft_ms", "tpot_ms"))
                elif kind == "TYPE_SLICE_END":
                    open_slices[event.track_uuid].pop()
                else:
                    self.assertEqual(kind, "TYPE_INSTANT")
                    self.assertTrue(event.name)
            self.assertFalse(any(open_slices.values()))
            summary = self.summaries[trace]
            self.assertEqual(last, summary["last_ns"])
            self.assertEqual(recorded, summary["graphs_recorded"])
            totals = counters.get("bytes of all kinds", [0])
            self.assertEqual(totals[-1], summary["total_end_bytes"])
            self.assertEqual(max(totals), summary["total_peak_bytes"])

    @unittest.skipUnless(shutil.which("dot"), "Graphviz is not installed")
    def test_graphviz_draws_trees(self):
        for trace in self.traces:
            drawn = subprocess.run(["dot", "-Tsvg"], text=True, capture_output=True, check=True,
                                   input=coppice("prof", "export", "dot", trace))
            self.assertEqual(drawn.stderr, "")
            self.assertIn("<svg", drawn.stdout)

    def test_without_perfetto_one_line_says_what_to_install(self):
        out = self.folder / "none"
        missing = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
        with unittest.mock.patch.dict(sys.modules, {"perfetto": None, missing: None}):
            code, error = prof_here("export", "perfetto", self.traces[0], "-o", out)
        self.assertEqual(2, code)
        self.assertRegex(error, r"\Acoppice.prof: [^\n]*install coppice\[prof\][^\n]*\n\Z")
        self.assertFalse(out.exists())

    def test_rmm_logs_are_what_was_mapped(self):
        trace = TraceText()
        for time, bytes in ((3723000004000, 4096), (3723000005999, 8192), (3723000006000, 8192),
                            (90000000000000, 0)):
            trace.lines.append([time, "bytes", -1, "eager", bytes, bytes])
        self.assertEqual("Thread,Time,Action,Pointer,Size,Stream\n"
                         "0,01:02:03.000004,allocate,0x200000000000,4096,0\n"
                         "0,01:02:03.000005,free,0x200000000000,4096,0\n"
                         "0,01:02:03.000005,allocate,0x200000000000,8192,0\n"
                         "0,01:00:00.000000,free,0x200000000000,8192,0\n",
                         self.export(trace, "rmm-csv").decode())

    def test_rmm_logs_have_its_columns(self):
        for trace in self.traces:
            header, *rows = self.export(trace, "rmm-csv").decode().splitlines()
            self.assertEqual(header, "Thread,Time,Action,Pointer,Size,Stream")
            live, most = {}, 0
            for row in rows:
                self.assertRegex(row, f"^{RMM_ROW.pattern}$")
                _, _, action, pointer, size, _ = row.split(",")
                if action == "allocate":
                    self.assertNotIn(pointer, live)
                    live[pointer] = int(size)
                else:
                    self.assertEqual(live.pop(pointer), int(size))
                most = max(most, sum(live.values()))
            self.assertEqual(most, self.summaries[trace]["total_peak_bytes"])
            self.assertEqual(sum(live.values()), self.summaries[trace]["total_end_bytes"])

    def test_sidecars_have_a_row_per_graph(self):
        for trace in self.traces:
            graphs = json.loads(self.export(trace, "nsys-sidecar"))["graphs"]
            self.assertEqual(len(graphs), self.summaries[trace]["graphs_recorded"])
        trace = clean_trace()
        trace.event("evict", 0, 2)
        first, _, last = json.loads(self.export(trace, "nsys-sidecar"))["graphs"]
        self.assertEqual([0, "decode 8", 0, [8], 3, 6000, None], [first[key] for key in (
            "node", "label", "bucket", "extents", "launches", "recorded_ns", "evicted_ns")])
        self.assertEqual(trace.time, last["evicted_ns"])
        graph, = json.loads(self.export(named_trace(), "nsys-sidecar"))["graphs"]
        self.assertEqual(["Attend", "Sample"], graph["kernels"])

    def test_equal_traces_give_equal_files_and_standard_output_gets_the_same(self):
        for format in FORMATS:
            if format != "perfetto" or perfetto:
                data = self.export(self.traces[0], format)
                self.assertEqual(data, self.export(self.traces[0], format))
                self.assertEqual((0, data, ""), prof("export", format, self.traces[0]))

    def test_a_terminal_is_told_how_far_a_long_trace_was_read(self):
        with unittest.mock.patch.object(traced, "TOLD_EVERY", 2):
            for terminal in (False, True):
                stream = io.StringIO()
                stream.isatty = lambda terminal=terminal: terminal
                self.assertEqual([1, 2, 3, 4], list(traced.told([1, 2, 3, 4], 4, stream)))
                self.assertEqual("\r 50% of 4 events\r100% of 4 events\r\033[K" if terminal else "",
                                 stream.getvalue())

    def test_it_needs_no_extension(self):
        code = ("import runpy, sys; sys.modules['coppice._core'] = None; sys.argv[1:] = "
                f"['export', 'rmm-csv', {str(self.traces[0])!r}]; "
                "runpy.run_module('coppice.prof', run_name='__main__')")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        self.assertEqual((0, self.export(self.traces[0], "rmm-csv"), b""),
                         (done.returncode, done.stdout, done.stderr))

    def refusal(self, *arguments, code=2):
        done = prof_here(*arguments)
        self.assertEqual(code, done[0], done)
        self.assertRegex(done[1], r"\Acoppice\.prof: [^\n]+; [^\n]+\n\Z")
        return done[1]

    def test_misuse_is_one_line_and_exit_code_two(self):
        clean = self.traces[0]
        for arguments, wanted in (
                ((), "export|import"),
                (("export",), "FORMAT, TRACE"),
                (("export", "chrome", clean), "memory-viz"),
                (("export", "rmm-csv", "no such file"), "there is no such file"),
                (("export", "rmm-csv", clean, "--json"), "with memory-viz only"),
                (("export", "perfetto", clean, "--mode", "plan"), "with memory-viz only"),
                (("export", "memory-viz", clean, "--mode", "tree"), "history"),
                (("export", "memory-viz", clean, "--call", 3), "give --mode path"),
                (("export", "memory-viz", clean, "--mode", "path", "--lane", 0), "give --call"),
                (("export", "memory-viz", clean, "--mode", "path", "--call=-3"),
                 "is not the number of a call"),
                (("export", "memory-viz", clean, "--mode", "path", "--call", 9, "--lane", 7),
                 "on lane 7"),
                # Two without a graph, and none.
                *((("export", "memory-viz", clean, "--mode", "path", "--call", call),
                   f"call {call} on lane 0") for call in (1, 8, 77)),
                (("export", "memory-viz", self.traces[3], "--mode", "path"),
                 "no call of the trace has a graph")):
            self.assertIn(wanted, self.refusal(*arguments))

    def test_broken_traces_are_refused_before_anything_is_written(self):
        out = self.folder / "before"
        out.write_text("as before")
        broken = self.write(clean_trace().text() + "nonsense\n", "broken")
        line = len(clean_trace().lines) + 1
        for format in FORMATS:
            self.assertIn(f"broken.trace:{line}: ",
                          self.refusal("export", format, broken, "-o", out))
            self.assertEqual("as before", out.read_text())

    def test_files_that_cannot_be_written_are_exit_code_four(self):
        clean = self.traces[0]
        for path in ("/no/such/folder/file", "/dev/full"):
            self.assertIn(path, self.refusal("export", "rmm-csv", clean, "-o", path, code=4))
        self.assertIn("this would overwrite an input",
                      self.refusal("export", "rmm-csv", clean, "-o", clean))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([sys.executable, "-m", "coppice.prof", "export", "rmm-csv",
                                   clean], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual((4, 1), (done.returncode, done.stderr.count(b"\n")), done.stderr)

    def test_bytes_that_are_no_text_are_not_for_a_terminal(self):
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        self.addCleanup(os.close, terminal)
        for format in ("memory-viz", "perfetto"):
            done = subprocess.run([sys.executable, "-m", "coppice.prof", "export", format,
                                   self.traces[0]], stdout=terminal, stderr=subprocess.PIPE,
                                  check=False)
            self.assertEqual(2, done.returncode)
            self.assertIn(f"{format} is binary; give -o", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
