#!/usr/bin/env python3
"""Goal: what `coppice prof export` writes is read by those it is meant for. Method: PyTorch's
_memory_viz.py and the opcodes that its viewer reads, Perfetto's protobufs, the rules of Chrome's
trace events and of RMM's log, Graphviz; on a trace that the command, the first argument, writes,
and on one by hand. What is not installed is skipped."""

import collections
import contextlib
import importlib
import io
import json
import pathlib
import pickle
import pickletools
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1)

MODES = ("history", "plan", "path")

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


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


memory_viz = module("torch.cuda._memory_viz")
perfetto = module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def run(*arguments, check=True):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return done


def write_by_hand(path):
    """Two lanes, leases in parts, a path of 3,000 calls, marks, a suspension, odd names."""
    lines = [{"schema": "coppice.trace/3", "device": "GPU \"0\" \u00fc", "lanes": 2,
              "granularity": 4096, "budget": 0},
             {"program": 0, "name": "st\"ep\u00e9", "variant": "int8", "symbols": ["n"]}]
    for lane in (0, 1):
        lines += [{"bucket": lane, "program": 0, "lane": lane, "extents": [8, 128]},
                  {"node": 2 * lane, "bucket": lane, "height": 8192, "live": 8192,
                   "method": "size", "graph_nodes": 3, "exec_bytes": 5000, "record_ns": 9000,
                   "reason": "new_bucket", "around": [],
                   "buffers": [[0, 2048, 0, [1, 4]], [2048, 2048, 1, [1, 4]],
                               [4096, 4096, -1, [0, 1, 2, 3]]]},
                  {"node": 2 * lane + 1, "bucket": lane, "height": 12288, "live": 12288,
                   "method": "size", "graph_nodes": 3, "exec_bytes": 5000, "record_ns": 9000,
                   "reason": "other_live_regions", "around": [[0, 4096]],
                   "buffers": [[4096, 2048, 0, [1, 4]], [6144, 2048, 1, [1, 4]],
                               [8192, 4096, -1, [0, 3]]]}]
    lines += [{"mark": 0, "name": "be\tgin"}, [500, "mark", -1, 0],
              [600, "bytes", -1, "nodes", 24576, 24576], [700, "bytes", -1, "staging", 777, 25353],
              [800, "bytes", -1, "spare", 4096, 29449]]
    lines += [[10000 + i, "record", i // 2, i] for i in range(4)]
    time, held = 20000, None
    for call in range(1, 3001):
        node = call % 2
        time += 1000
        if held:
            lines += [[time, "use", 0, call, held]]
            if call > 2:
                lines += [[time, "expire", 0, call - 2, call]]
        lines += [[time + 1, "call", 0, call, 0, node, "replay", "none", 6, 8],
                  [time + 2, "outputs", 0, call, node]]
        held = call
    lines += [[time + 5, "part", 0, held, 1], [time + 6, "suspend", -1],
              [time + 7, "bytes", -1, "nodes", 0, 4873], [time + 8, "resume", -1],
              [time + 9, "bytes", -1, "nodes", 16384, 21257],
              [time + 10, "bytes", -1, "spare", 0, 17161], [time + 11, "evict", 1, 3],
              [time + 12, "call", 1, 1, 1, 2, "record", "new_bucket", 6, 8],
              [time + 13, "outputs", 1, 1, 2],
              [time + 14, "call", 1, 2, -1, -1, "eager", "over_largest_bucket", 0, 0]]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


class Unpickler(pickle.Unpickler):
    """Nothing can be looked up."""

    def find_class(self, module, name):
        raise AssertionError(f"{module}.{name} is no part of a snapshot")


class ReadersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.traces = [cls.folder / "hand.trace", cls.folder / "run.trace"]
        write_by_hand(cls.traces[0])
        run("run", "--requests", 400, "--verify", "none", "--quiet", "--device", "host",
            "--trace-out", cls.traces[1])
        cls.summaries = {trace: json.loads(run("prof", "summary", trace, "--json").stdout)
                         for trace in cls.traces}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def export(self, trace, *arguments):
        out = self.folder / "out"
        run("prof", "export", arguments[0], trace, *arguments[1:], "-o", out)
        return out.read_bytes()

    def snapshots(self):
        for trace in self.traces:
            for mode in MODES:
                yield trace, mode, self.export(trace, "memory-viz", "--mode", mode)

    def load(self, data):
        path = self.folder / "pickle"
        path.write_bytes(data)
        with path.open("rb") as file:
            return Unpickler(file).load()

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
            self.assertEqual(json.loads(text), json.loads(json.dumps(self.load(data))))

    def test_snapshots_keep_the_rules_of_their_readers(self):
        for _, _, data in self.snapshots():
            snapshot = self.load(data)
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
                self.check_events(events, [segment for segment in snapshot["segments"]
                                           if segment["device"] == device])

    def check_events(self, events, segments):
        """Nothing overlaps, every free has its allocation, and what is left is in the segments."""
        live, mapped, last = {}, {}, 0
        for event in events:
            self.assertGreaterEqual(event["time_us"], last)
            last = event["time_us"]
            address, size = event["addr"], event["size"]
            if event["action"] == "alloc":
                self.assertNotIn(address, live)
                live[address] = size
                self.assertIsInstance(event["frames"], list)
                self.assertTrue(any(start <= address and address + size <= start + bytes
                                    for start, bytes in mapped.items()))
            elif event["action"] == "free_completed":
                self.assertEqual(live.pop(address), size)
            elif event["action"] == "segment_alloc":
                mapped[address] = size
            elif event["action"] == "segment_free":
                self.assertEqual(mapped.pop(address), size)
        self.assertEqual(mapped, {segment["address"]: segment["total_size"]
                                  for segment in segments})
        self.assertEqual(live, {block["address"]: block["size"] for segment in segments
                                for block in segment["blocks"]
                                if block["state"] == "active_allocated"})

    def test_totals_are_those_of_the_summary(self):
        for trace, mode, data in self.snapshots():
            snapshot = self.load(data)
            totals = snapshot["coppice"]["totals"]
            summary = self.summaries[trace]
            self.assertEqual(totals["total_peak_bytes"], summary["total_peak_bytes"])
            if mode != "history":
                continue
            self.assertEqual(sum(segment["total_size"] for segment in snapshot["segments"]),
                             summary["total_end_bytes"])
            mapped = peak = 0
            for event in snapshot["device_traces"][0]:
                mapped += {"segment_alloc": 1, "segment_free": -1}.get(event["action"],
                                                                       0) * event["size"]
                peak = max(peak, mapped)
            self.assertEqual(peak, summary["total_peak_bytes"])

    @unittest.skipUnless(memory_viz, "torch.cuda._memory_viz is not installed")
    def test_memory_viz_of_pytorch_reads_snapshots(self):
        def same(text, **_):
            return text

        for trace, mode, data in self.snapshots():
            snapshot = self.load(data)
            total = sum(segment["total_size"] for segment in snapshot["segments"])
            self.assertIn(f"total_reserved: {memory_viz.Bytes(total)}",
                          memory_viz.segsum(snapshot))
            entries = memory_viz.trace(snapshot)
            for device, events in enumerate(snapshot["device_traces"]):
                self.assertIn(f"Device {device} ", entries)
                self.assertIn(f"{len(events)} entries", entries)
            for view in (memory_viz.memory, memory_viz.segments):
                self.assertIn("active_allocated", view(snapshot, format_flamegraph=same))
            with contextlib.redirect_stdout(io.StringIO()):
                memory_viz.compare(snapshot["segments"], [], format_flamegraph=same)

    def test_chrome_traces_keep_the_rules_of_trace_events(self):
        for trace in self.traces:
            document = json.loads(self.export(trace, "chrome"))
            summary = self.summaries[trace]
            names, counters, slices, last = {}, {}, collections.defaultdict(list), 0
            found = collections.Counter()
            for event in document["traceEvents"]:
                self.assertEqual(event["pid"], 1)
                if event["ph"] == "M":
                    names[event["name"], event["tid"]] = event["args"]["name"]
                    continue
                self.assertIn(event["ph"], ("X", "i", "C"))
                self.assertGreaterEqual(event["ts"], last)
                last = event["ts"]
                self.assertLessEqual(event["ts"] * 1000, summary["last_ns"] + 1)
                if event["ph"] == "C":
                    counters.setdefault(event["name"], []).append(event["args"]["bytes"])
                elif event["ph"] == "X":
                    slices[event["tid"]].append(event)
                    found[event["name"].split(" ")[0]] += 1
                else:
                    self.assertEqual(event["s"], "t")
                if event["ph"] != "C":
                    self.assertIn(("thread_name", event["tid"]), names)
            self.assertIn(("process_name", 0), names)
            for track in slices.values():
                self.check_nesting(track)
            self.assertEqual(found["record"], summary["graphs_recorded"])
            # What was traced since calls have host times.
            self.assertEqual(found["replay"] > 0, trace == self.traces[1])
            self.assertEqual(found["request"] > 0, trace == self.traces[1])
            self.assertEqual(counters["bytes of all kinds"][-1], summary["total_end_bytes"])
            self.assertEqual(max(counters["bytes of all kinds"]), summary["total_peak_bytes"])

    def check_nesting(self, track):
        """In order of their begins, the outer first: each is within one that is open, or apart."""
        open_ends = []
        for slice in track:
            begin = round(slice["ts"] * 1000)
            end = begin + round(slice["dur"] * 1000)
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(end, open_ends[-1])
            open_ends.append(end)

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
            self.assertEqual(recorded, summary["graphs_recorded"])
            self.assertEqual(counters["bytes of all kinds"][-1], summary["total_end_bytes"])
            self.assertEqual(max(counters["bytes of all kinds"]), summary["total_peak_bytes"])

    def test_rmm_logs_have_its_columns(self):
        for trace in self.traces:
            header, *rows = self.export(trace, "rmm-csv").decode().splitlines()
            self.assertEqual(header, "Thread,Time,Action,Pointer,Size,Stream")
            live, peak = {}, 0
            for row in rows:
                self.assertRegex(row, f"^{RMM_ROW.pattern}$")
                _, _, action, pointer, size, _ = row.split(",")
                if action == "allocate":
                    self.assertNotIn(pointer, live)
                    live[pointer] = int(size)
                else:
                    self.assertEqual(live.pop(pointer), int(size))
                peak = max(peak, sum(live.values()))
            self.assertEqual(peak, self.summaries[trace]["total_peak_bytes"])
            self.assertEqual(sum(live.values()), self.summaries[trace]["total_end_bytes"])

    def test_sidecars_have_every_graph(self):
        for trace in self.traces:
            sidecar = json.loads(self.export(trace, "nsys-sidecar"))
            self.assertEqual(len(sidecar["graphs"]), self.summaries[trace]["graphs_recorded"])

    @unittest.skipUnless(shutil.which("dot"), "Graphviz is not installed")
    def test_graphviz_draws_trees(self):
        for trace in self.traces:
            drawn = subprocess.run(["dot", "-Tsvg"], input=self.export(trace, "dot"),
                                   capture_output=True, check=True)
            self.assertEqual(drawn.stderr, b"")
            self.assertIn(b"<svg", drawn.stdout)

    def test_what_python_pickles_is_planned_as_what_it_dumps(self):
        events = []
        for i in range(3000):
            frames = [{"name": f"f{i % 7}", "filename": "model.py", "line": i % 50}]
            events.append({"action": "alloc", "addr": (1 << 46) + 4096 * (i % 100),
                           "size": 512 + i % 100, "stream": 0, "frames": frames, "time_us": i})
            for action in ("free_requested", "free_completed") if i % 3 else ():
                events.append({**events[-1], "action": action})
        snapshot = {"segments": [], "device_traces": [events, []], "allocator_settings":
                    {"a": 1.5, "b": True, "c": False, "d": None, "e": (), "f": -(1 << 40)}}
        found = set()
        path = self.folder / "snapshot"
        for protocol in (2, 3, 4, 5):
            path.write_bytes(pickle.dumps(snapshot, protocol=protocol))
            found.add(run("prof", "import", "memory-viz", path, "--json").stdout)
        path.write_text(json.dumps(snapshot))
        found.add(run("prof", "import", "memory-viz", path, "--json").stdout)
        self.assertEqual(len(found), 1)
        device, = json.loads(found.pop())["devices"]
        self.assertEqual(device["events"], len(events))
        self.assertGreaterEqual(device["height_bytes"], device["bound_bytes"])

    def test_pickles_that_run_code_do_not(self):
        class Evil:
            def __reduce__(self):
                return pathlib.Path.touch, (ReadersTest.folder / "touched",)

        path = self.folder / "evil"
        for protocol in (2, 4):
            path.write_bytes(pickle.dumps({"segments": [Evil()], "device_traces": []}, protocol))
            done = run("prof", "import", "memory-viz", path, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertRegex(done.stderr, "byte [0-9]+: the opcode (STACK_)?GLOBAL")
        self.assertFalse((self.folder / "touched").exists())


if __name__ == "__main__":
    unittest.main()
