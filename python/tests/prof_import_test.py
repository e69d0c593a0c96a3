#!/usr/bin/env python3
"""Goal: `python -m coppice.prof import` plans what a file says was allocated, and whatever else the
file is, says so in one line. Method: files by hand, those that `export` writes, whose figures are
known, and changed copies of both.

    prof_import_test.py COPPICE [unittest's options]
"""

import json
import pathlib
import pickle
import random
import struct
import tempfile
import unittest
import unittest.mock

from traces import clean_trace, coppice, prof, prof_here

from coppice.prof import foreign
from coppice.prof.command import Refused

RMM_HEAD = "Thread,Time,Action,Pointer,Size,Stream\n"


def entry(action, address, bytes):
    return {"action": action, "addr": address, "size": bytes, "stream": 0}


def snapshot_of(*entries, segments=()):
    return {"segments": list(segments), "device_traces": [list(entries)]}


def small_snapshot():
    """Two allocations at a time, of which one is there before, and one stays; a segment that
    grows."""
    return snapshot_of(
        entry("segment_alloc", 4096, 4096), entry("alloc", 4096, 1000),
        entry("free_completed", 512, 300), entry("alloc", 6144, 2000),
        entry("free_requested", 4096, 1000), entry("free_completed", 4096, 1000),
        {"action": "oom", "size": 1 << 20, "device_free": 3}, entry("segment_map", 8192, 4096),
        entry("segment_unmap", 8192, 4096), entry("something else", 0, 0),
        segments=({"device": 0, "address": 4096, "total_size": 4096, "blocks": [
            {"size": 2048, "state": "inactive"}, {"size": 2048, "state": "active_allocated"}]},
                  {"device": 0, "address": 65536, "total_size": 512, "blocks": [
                      {"size": 512, "state": "active_pending_free"}]}))


class ImportTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def file(self, data, name="foreign"):
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def devices(self, format, data, *options):
        done = prof("import", format, self.file(data), "--json", *options)
        self.assertEqual((0, ""), (done.code, done.err))
        return json.loads(done.out)["devices"]

    def refusal(self, format, data, *options, code=2):
        done = prof_here("import", format, self.file(data), *options)
        self.assertEqual(code, done[0], done)
        self.assertRegex(done[1], r"\Acoppice\.prof: [^\n]+; [^\n]+\n\Z")
        return done[1]

    def test_pairs_become_lifetimes_and_what_no_event_tells_was_there_all_along(self):
        snapshot = small_snapshot()
        forms = [pickle.dumps(snapshot, protocol) for protocol in (2, 3, 4, 5)]
        forms.append(json.dumps(snapshot).encode())
        found = [self.devices("memory-viz", form) for form in forms]
        self.assertEqual([found[0]] * len(forms), found)
        device, = found[0]
        # The block of 512 bytes, and 1000 and 2000 together.
        for key, value in {"events": 10, "allocations": 4, "live_before_the_events": 2,
                           "live_after_the_events": 2, "requests_refused": 1,
                           "reserved_peak_bytes": 4096 + 4096 + 512, "allocated_peak_bytes": 3512,
                           "bound_bytes": 3512}.items():
            self.assertEqual(value, device[key], key)
        self.assertGreaterEqual(device["height_bytes"], 3512)

    def test_lifetimes_end_before_the_step_of_their_free(self):
        lifetimes, = foreign.read_snapshot(self.file(pickle.dumps(small_snapshot())))
        self.assertEqual([(0, 3, 300), (2, 6, 1000), (4, 11, 2000), (0, 11, 512)], lifetimes.rows)

    def test_an_address_that_is_allocated_again_ends_what_was_there(self):
        device, = self.devices("memory-viz", json.dumps(snapshot_of(
            entry("alloc", 64, 100), entry("alloc", 64, 50), entry("alloc", 0, 0),
            entry("free", 0, 0))))
        self.assertEqual([2, 100, 1, None], [device[key] for key in (
            "allocations", "bound_bytes", "allocations_of_no_bytes", "reserved_peak_bytes")])

    def test_a_device_without_allocations_has_an_empty_plan(self):
        snapshot = snapshot_of(entry("segment_alloc", 0, 8))
        device, = self.devices("memory-viz", pickle.dumps(snapshot))
        self.assertEqual([8, 0, "empty"], [device[key] for key in (
            "reserved_peak_bytes", "height_bytes", "method")])

    def exported(self, *arguments):
        trace, out = self.file(clean_trace().text(), "t.trace"), self.folder / "out"
        self.assertEqual((0, ""), prof_here("export", arguments[0], trace, *arguments[1:], "-o",
                                            out))
        return out.read_bytes()

    def test_exports_of_a_trace_come_back_with_its_figures(self):
        trace = self.file(clean_trace().text(), "t.trace")
        most = json.loads(coppice("prof", "summary", trace, "--json"))["total_peak_bytes"]
        history, = self.devices("memory-viz", self.exported("memory-viz"))
        self.assertEqual(most, history["reserved_peak_bytes"])
        log, = self.devices("rmm-csv", self.exported("rmm-csv"))
        self.assertEqual(most, log["bound_bytes"])
        buckets = json.loads(coppice("prof", "buckets", trace, "--json", "--sort", "id"))["buckets"]
        plans = self.devices("memory-viz", self.exported("memory-viz", "--mode", "plan"))
        self.assertEqual([(each["bound_bytes"], each["height_bytes"]) for each in buckets],
                         [(each["bound_bytes"], each["reserved_peak_bytes"]) for each in plans])

    def test_lifetimes_that_are_written_plan_the_same(self):
        out = self.folder / "lifetimes.csv"
        device, = self.devices("memory-viz", pickle.dumps(small_snapshot()), "-o", out)
        plan, = json.loads(coppice("plan", out, "--json"))["files"]
        self.assertEqual([device[key] for key in ("height_bytes", "bound_bytes", "allocations")],
                         [plan[key] for key in ("height_bytes", "bound_bytes", "buffers")])

    def test_the_table_says_what_is_not_in_the_plan(self):
        done = prof("import", "memory-viz", self.file(pickle.dumps(small_snapshot())))
        self.assertEqual((0, ""), (done.code, done.err))
        for wanted in (b"8.50 KiB", b"3.43 KiB", b"allocations older than the first event: 2",
                       b"refused requests: 1"):
            self.assertIn(wanted, done.out)

    def test_rmm_logs_are_read_as_rmm_reads_them(self):
        device, = self.devices("rmm-csv", RMM_HEAD +
                               "7,10:00:00.000001,allocate,0x7f00,1024,0\r\n"
                               "7,10:00:00.000002,allocate,7e00,512,0x2\n"
                               "9,10:00:00.000003,allocate failure,(nil),4096,0\n"
                               "9,10:00:00.000004,free,0x7f00,1024,0\n"
                               "9,10:00:00.000005,allocate,(nil),0,0\n"
                               "9,10:00:00.000005,allocate,(nil),0,0\n"
                               "9,10:00:00.000006,free,0x1,256,0\n\n")
        self.assertEqual([7, 3, 1, 1, 1024 + 512 + 256, None], [device[key] for key in (
            "events", "allocations", "requests_refused", "live_before_the_events", "bound_bytes",
            "reserved_peak_bytes")])

    def test_rows_that_rmm_does_not_write_are_named_by_line(self):
        for text, wanted in (
                ("", "foreign:1: the header is ''"),
                ("Thread,Time\n", "foreign:1: the header is 'Thread,Time'"),
                (RMM_HEAD + "1,2,3\n", "foreign:2: the number of fields is 3, but the header"),
                (RMM_HEAD + "\n1,t,free,0x1,1,0\n", "foreign:2: the number of fields is 1"),
                (RMM_HEAD + "1,t,alloc,0x1,1,0\n", "foreign:2: the action is 'alloc'"),
                (RMM_HEAD + "1,t,free,0xg,1,0\n", "foreign:2: the pointer is '0xg'"),
                (RMM_HEAD + "1,t,free,0x1,-1,0\n", "foreign:2: the size is '-1'"),
                (RMM_HEAD + "1,t,free,0x1,1e3,0\n", "foreign:2: the size is '1e3'"),
                (RMM_HEAD + "1,t,free,0x1,1125899906842625,0\n", "foreign:2: the size is"),
                (RMM_HEAD + "1,t,allocate,0x1,8,0\n1,t,allocate,0x1,8,0\n",
                 "foreign:3: 0x1 is allocated")):
            self.assertIn(wanted, self.refusal("rmm-csv", text))

    def test_pickles_that_run_code_do_not(self):
        touched = self.folder / "touched"

        class Evil:
            def __reduce__(self):
                return pathlib.Path.touch, (touched,)

        for protocol in (2, 4):
            self.assertRegex(
                self.refusal("memory-viz", pickle.dumps(
                    {"segments": [Evil()], "device_traces": []}, protocol)),
                r"names [\w.]+, which could run code")
        for opcodes in (b"NR", b"Nb", b"NN\x81", b"NNN\x92", b"Q", b"Px\n", b"\x82\1", b"\x83\1\1",
                        b"\x84\1\1\1\1", b"(N(o", b"(icopy\ncopy\n"):
            self.refusal("memory-viz", b"\x80\x04N" + opcodes + b".")
        self.assertFalse(touched.exists())

    def test_what_is_no_snapshot_is_refused(self):
        for data in (b"\x80\x09N.", b"\x80\x04", b"\x80\x04N", b"\x80\x04h\7.", b"", b"{}", b"[]",
                     b"{\"segments\":[],", b"[[[[", b"\xff\xfe", b"\x80\x04}N]s.",
                     b"\x80\x04X\xff\xff\xff\xffno"):
            self.refusal("memory-viz", data)

    def test_parts_of_a_snapshot_that_are_no_such_thing_are_named(self):
        segment = {"device": 0, "address": 0, "total_size": 5, "blocks": []}
        for snapshot, wanted in (
                (snapshot_of(segments=[{"device": 0}]), "segments[0]: device, address"),
                (snapshot_of(segments=[{**segment, "blocks": [{}]}]),
                 "segments[0].blocks[0]: it has no valid size or state"),
                (snapshot_of(segments=[{**segment, "device": 5000}]), "segments[0]: device, "),
                (snapshot_of(3), "device_traces[0][0]: it has no action"),
                (snapshot_of(entry("alloc", 0, -1)), "device_traces[0][0]: its addr or size"),
                (snapshot_of(entry("alloc", 0, (1 << 50) + 1)), "(a size is from 0 to 2^50)"),
                (snapshot_of(entry("alloc", "x", 1)), "device_traces[0][0]: its addr or size"),
                ({"segments": [], "device_traces": [3]}, "device_traces[0]: it is not a list"),
                ({"segments": []}, "the file: it is not a dict with lists")):
            for data in (json.dumps(snapshot), pickle.dumps(snapshot)):
                self.assertIn(wanted, self.refusal("memory-viz", data))

    def test_sizes_whose_sum_nothing_holds_are_refused(self):
        snapshot = snapshot_of(*(entry("alloc", i, 1 << 50) for i in range(10_000)))
        self.assertIn("device 0: ", self.refusal("memory-viz", pickle.dumps(snapshot)))

    def test_allocations_that_take_too_long_to_plan_are_refused(self):
        log = "".join(f"1,0:0:0.1,allocate,{i:#x},{i % 7 + 1},0\n" for i in range(1, 90_001))
        self.assertIn("4049955000 pairs", self.refusal("rmm-csv", RMM_HEAD + log))
        lifetimes = foreign.Lifetimes("f")
        lifetimes.rows = [(2, 4, 1), (0, 3, 1), (0, 9, 1), (3, 4, 1)]
        self.assertEqual(5, lifetimes.pairs())

    def test_small_files_that_mean_much_are_refused(self):
        events = [{"action": "snapshot"}] * 1000
        with unittest.mock.patch.object(foreign, "ENTRIES_MAX", 100_000):
            self.assertIn("more than 100000 events and blocks", self.refusal(
                "memory-viz", pickle.dumps({"segments": [], "device_traces": [events] * 4000})))
        # Lists of the same list twice, 200 levels deep: 2^200 values to whoever follows them.
        doubled = []
        for _ in range(200):
            doubled = [doubled, doubled]
        self.assertIn("segments[0]: ", self.refusal("memory-viz", pickle.dumps(
            {"segments": doubled, "device_traces": []})))
        self.refusal("memory-viz", b"[" * 5_000_000)
        self.refusal("memory-viz", b"\x80\x02" + b"]" * 5_000_000)
        # The place of a memo makes Python reserve as many.
        self.assertIn("take too much memory", self.refusal(
            "memory-viz", b"\x80\x02Nr" + struct.pack("<I", 0xffffffff) + b"."))

    def test_misuse_is_one_line_and_its_exit_code(self):
        good = pickle.dumps(small_snapshot())
        two = {"segments": [], "device_traces": [[entry("alloc", 64, 100)]] * 2}
        self.assertIn("it has 2 devices", self.refusal(
            "memory-viz", pickle.dumps(two), "-o", self.folder / "out"))
        self.assertIn("/no/such/folder/f", self.refusal(
            "memory-viz", good, "-o", "/no/such/folder/f", code=4))
        self.assertIn("this would overwrite an input", self.refusal(
            "memory-viz", good, "-o", self.folder / "foreign"))
        for arguments in (("import",), ("import", "memory-viz"), ("import", "colour", "f"),
                          ("import", "rmm-csv", "/no/such/file"), ("import", "rmm-csv", "/")):
            code, error = prof_here(*arguments)
            self.assertEqual((2, 1), (code, error.count("\n")), error)

    def test_changed_files_are_read_or_refused_in_one_line(self):
        snapshot = small_snapshot()
        log = (RMM_HEAD + "7,1:0:0.1,allocate,0x7f00,1024,0\n"
               "7,1:0:0.1,allocate failure,(nil),12,0\n7,1:0:0.1,free,0x7f00,1024,0\n")
        seeds = [(foreign.read_snapshot, pickle.dumps(snapshot, 2)),
                 (foreign.read_snapshot, pickle.dumps(snapshot, 4)),
                 (foreign.read_snapshot, json.dumps(snapshot).encode()),
                 (foreign.read_snapshot, self.exported("memory-viz", "--mode", "plan")),
                 (foreign.read_rmm, self.exported("rmm-csv")), (foreign.read_rmm, log.encode())]
        alphabet = b"(}]).uaesltdNKMJXqrhj,\n0x-\x85\x86\x88\x8a\x94"
        draw, read = random.Random(20), 0
        for number in range(3000):
            reader, good = seeds[number % len(seeds)]
            data = bytearray(good)
            for _ in range(draw.randrange(1, 4)):
                at = draw.randrange(len(data))
                data[at:at + draw.randrange(3)] = bytes(draw.choices(alphabet, k=draw.randrange(3)))
            path = self.file(bytes(data))
            try:
                devices = reader(path)
            except Refused as error:
                self.assertRegex(str(error), r"\A\S+foreign:[^\n]+; [^\n]+\Z", data)
                continue
            read += 1
            for lifetimes in devices:
                for lower, upper, bytes_ in lifetimes.rows:
                    self.assertTrue(0 <= lower < upper <= lifetimes.steps + 1 and bytes_ > 0, data)
        self.assertGreater(read, 300)


if __name__ == "__main__":
    unittest.main()
