#!/usr/bin/env python3
"""Goal: coppice.prof does what its docstrings say, and its pages are what Prometheus reads.
Method: callables and a package on the emulator; pages are parsed by Prometheus' own parsers of both
formats, from PyPI's prometheus_client.

    prof_test.py [unittest's options]

Without NumPy, the extension or prometheus_client all is skipped.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import numpy as np
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
    from prometheus_client.parser import text_string_to_metric_families as read_plain

    import load_test
    import wrap_test

    import coppice
    from coppice import _core, devices
except ImportError as error:
    raise unittest.SkipTest(f"needs NumPy, the extension and prometheus_client: {error}") from error

try:
    import torch

    import coppice.torch

    if "coppice" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(coppice.torch.backend, name="coppice")
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
READERS = {"prometheus": read_plain, "openmetrics": read_open}
SPEC = {"name": "plain", "claim": "row_independent",
        "symbols": [{"name": "rows", "kind": "dynamic", "policy": ("pow2", 64)}],
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["rows", 2]}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": ["rows", 2]}]}


def families(page, format):
    return {family.name: family for family in READERS[format](page)}


def samples(page, format="openmetrics"):
    """Values by name and labels."""
    return {(sample.name, *sorted(sample.labels.items())): sample.value
            for family in READERS[format](page) for sample in family.samples}


def is_counter(key):
    return key[0].endswith(("_total", "_bucket", "_count", "_sum"))


class ProfTest(unittest.TestCase):
    def setUp(self):
        self.device = devices.device("emulator")
        self.session = _core.Session(self.device)
        self.addCleanup(self.session.close)

    def program(self, session=None, **changes):
        return (session or self.session).register_callable(
            {**SPEC, **changes}, lambda context: context.output(0))

    def run_rows(self, program, *sizes):
        for rows in sizes:
            program.run([np.zeros((rows, 2), np.float32)])

    def test_prometheus_reads_both_formats(self):
        self.run_rows(self.program(), 3, 3, 3, 40, 100)
        for format in READERS:
            page = coppice.prof.metrics(format, self.session)
            self.assertEqual(page, self.session.metrics_text(format=format))
            read = families(page, format)
            self.assertGreater(len(read), 25)
            for family in read.values():
                self.assertTrue(family.name.startswith("coppice_"), family.name)
                self.assertTrue(family.documentation, family.name)
                self.assertNotEqual("unknown", family.type, family.name)
            values = samples(page, format)
            self.assertEqual(1, values["coppice_runs_total", ("path", "replay")])
            self.assertEqual(2, values["coppice_replays_total", ("bucket", "rows=4"),
                                       ("program", "plain"), ("variant", "")])
            self.assertEqual("bytes" if format == "openmetrics" else "",
                             read["coppice_memory_bytes"].unit)
        self.assertEqual(samples(self.session.metrics_text("openmetrics"), "openmetrics").keys(),
                         samples(self.session.metrics_text(), "prometheus").keys())

    def test_the_page_of_the_reference_has_what_a_session_writes(self):
        """By name, type, labels with their values, and help."""
        page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
        rows = [[cell.strip().strip("`") for cell in row.strip("|").split("|")]
                for row in page.splitlines() if row.startswith("| `coppice_")]
        said = {name: (kind, labels, help) for name, kind, labels, _, help in rows}
        self.assertEqual("The error that every call returns.",
                         said.pop("coppice_sticky_error_info")[2])  # This session has none.
        self.run_rows(self.program(), 3, 3, 40)
        text = self.session.metrics_text()
        written = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
        kinds = dict(re.findall(r"^# TYPE (\S+) (.*)$", text, re.M))
        self.assertEqual(list(written), list(said))
        for name, (kind, labels, help) in said.items():
            with self.subTest(name):
                self.assertEqual(written[name], help)
                self.assertEqual(kinds[name], "gauge" if kind == "info" else kind)
                if kind == "histogram":
                    continue
                found = {}
                for sample in re.findall(rf"^{name}(?:{{(.*)}})? \S+$", text, re.M):
                    for label, value in re.findall(r'(\w+)="([^"]*)"', sample):
                        found.setdefault(label, {})[value] = None
                listed = {part.partition(":")[0].strip(" `"): re.findall(r"(\w+)`?(?=,|$)",
                                                                       part.partition(":")[2])
                          for part in labels.split(";") if part}
                self.assertEqual(list(found), list(listed))
                for label, values in listed.items():
                    self.assertEqual(list(found[label]), values or list(found[label]))

    def test_histograms_are_histograms(self):
        self.run_rows(self.program(), 3, 3, 9, 9)
        read = families(self.session.metrics_text("openmetrics"), "openmetrics")
        record = read["coppice_record_seconds"]
        self.assertEqual(("histogram", "seconds"), (record.type, record.unit))
        counts = [sample.value for sample in record.samples if sample.name.endswith("_bucket")]
        self.assertEqual(sorted(counts), counts)
        self.assertEqual(2, counts[-1])

    def test_labels_come_back_as_they_were(self):
        for name in ('quo"te', "back\\slash", "line\nbreak", "\\n", "é 中", "{}=,", "a\rb\tc"):
            self.run_rows(self.program(name=name), 3, 3)
        for format in READERS:
            names = {dict(key[1:])["program"] for key in samples(self.session.metrics_text(format),
                                                               format)
                     if key[0] == "coppice_replays_total"}
            self.assertEqual({'quo"te', "back\\slash", "line\nbreak", "\\n", "é 中", "{}=,",
                              "a\rb\tc"}, names)

    def test_content_types(self):
        self.assertTrue(coppice.prof.content_type().startswith("text/plain; version=0.0.4"))
        self.assertTrue(coppice.prof.content_type("openmetrics")
                        .startswith("application/openmetrics-text; version=1.0.0"))

    def test_another_format_is_refused(self):
        with self.assertRaisesRegex(coppice.InvalidArgument, "json.*prometheus"):
            self.session.metrics_text("json")
        with self.assertRaisesRegex(coppice.InvalidArgument, "json"):
            coppice.prof.content_type("json")

    def test_the_shared_session_is_asked_if_none_is_named(self):
        shared = coppice.session(self.device)
        self.assertEqual(shared.metrics_text(), coppice.prof.metrics())

    def test_a_closed_session_raises(self):
        self.session.close()
        with self.assertRaises(coppice.FailedPrecondition):
            self.session.metrics_text()

    def test_counters_are_monotone_beside_threads_that_call(self):
        programs = [self.program(name=f"p{i}") for i in range(4)]
        done = threading.Event()

        def call(program):
            for i in range(60):
                self.run_rows(program, 1 + i % 64)

        def scrape(fell):
            before = {}
            while not done.is_set():
                after = samples(self.session.metrics_text("openmetrics"))
                fell += [key for key, value in before.items()
                         if is_counter(key) and after.get(key, -1) < value]
                before = after

        fell = []
        threads = [threading.Thread(target=call, args=(program,)) for program in programs]
        scraping = threading.Thread(target=scrape, args=(fell,))
        for thread in (scraping, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        scraping.join()
        self.assertEqual([], fell)
        values = samples(self.session.metrics_text("openmetrics"))
        self.assertEqual(240, sum(value for key, value in values.items()
                                  if key[0] == "coppice_runs_total"))


class TraceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "t.trace"
        self.device = devices.device("emulator")

    def test_within_the_shared_session_is_a_traced_one(self):
        before = coppice.session(self.device)
        with coppice.prof.trace(self.path) as traced:
            self.assertIs(traced, coppice.session(self.device))
            self.assertIsNot(before, traced)
            program = traced.register_callable(SPEC, lambda context: context.output(0))
            coppice.prof.mark("request 17")
            program.run([np.zeros((3, 2), np.float32)])
            coppice.prof.flush()
            self.assertIn('"request 17"', self.path.read_text())
        self.assertIs(before, coppice.session(self.device))
        self.assertTrue(traced.closed)
        lines = self.path.read_text().splitlines()
        self.assertIn('"plain"', "".join(lines))
        self.assertIn('"end"', lines[-1])
        with self.assertRaises(coppice.FailedPrecondition):
            program.run([np.zeros((3, 2), np.float32)])

    def test_it_ends_with_an_error_as_well(self):
        before = coppice.session(self.device)
        with self.assertRaises(KeyError), coppice.prof.trace(self.path, lanes=2) as traced:
            raise KeyError
        self.assertIs(before, coppice.session(self.device))
        self.assertTrue(traced.closed)

    def test_a_file_that_cannot_be_made_changes_nothing(self):
        before = coppice.session(self.device)
        with self.assertRaisesRegex(coppice.Error, "nowhere"), \
                coppice.prof.trace("/nowhere/t.trace"):
            self.fail("it was traced")
        self.assertIs(before, coppice.session(self.device))

    def test_a_trace_has_times_of_requests_and_labels_of_memory(self):
        def run(context):
            context.free(context.allocate(512, label="scores"))
            context.output(0)

        with coppice.prof.trace(self.path) as traced:
            program = traced.register_callable(SPEC, run)
            for _ in range(2):
                program.run([np.zeros((3, 2), np.float32)])
            coppice.prof.request(
                17, first_token_ns=1500, last_token_ns=9000, input_tokens=120, output_tokens=30)
            with self.assertRaisesRegex(coppice.InvalidArgument, "first token"):
                coppice.prof.request(
                    18, first_token_ns=2, last_token_ns=1, input_tokens=0, output_tokens=1)
        text = self.path.read_text()
        self.assertIn('"request",-1,17,1500,9000,120,30]', text)
        self.assertNotIn('"request",-1,18', text)
        self.assertIn('"scores"]', text)

    def check_traced(self, run, buckets):
        """Of what was made before: `run` calls it once and checks the result."""
        for _ in range(3):
            run()
        known = buckets()
        with coppice.prof.trace(self.path) as traced:
            for _ in range(4):
                run()
            self.assertIs(traced, coppice.session(self.device))
        text = self.path.read_text()
        self.assertEqual(4, text.count(',"call",'), text)
        self.assertGreaterEqual(text.count('"replay"'), 2)
        self.assertIn('"end"', text.splitlines()[-1])
        run()
        after = buckets()
        self.assertEqual([one["bucket"] for one in known], [one["bucket"] for one in after])
        self.assertEqual(sum(one["replays"] for one in known) + 1,
                         sum(one["replays"] for one in after), "on its own graphs again")

    def test_what_was_wrapped_before_is_traced(self):
        with wrap_test.wrap() as fn:
            x = wrap_test.numbers(5, 3)
            self.check_traced(lambda: np.testing.assert_array_equal(2 * x, np.from_dlpack(fn(x))),
                              fn.buckets)

    def test_what_was_loaded_before_is_traced_with_what_is_bound(self):
        with coppice.load(load_test.PACKAGE, self.device) as model:
            x, weights = load_test.arguments(5)

            def run():
                np.testing.assert_allclose(load_test.shares(x, weights),
                                           np.from_dlpack(model(x, weights)), rtol=1e-4)

            self.check_traced(run, model.entry.buckets)

    def test_what_was_loaded_and_closed_within_is_gone(self):
        before = coppice.session(self.device)
        known = len(before.buckets())
        model = coppice.load(load_test.PACKAGE, self.device)
        model(*load_test.arguments(5))
        self.assertEqual(known + 1, len(before.buckets()))
        with coppice.prof.trace(self.path):
            model.close()
        self.assertEqual(known, len(before.buckets()))

    def test_what_has_a_session_of_its_own_stays_there(self):
        with coppice.Session(self.device) as own, wrap_test.wrap(session=own) as fn:
            with coppice.prof.trace(self.path):
                fn(wrap_test.numbers(5, 3))
            self.assertNotIn('"scaled"', self.path.read_text())

    @unittest.skipUnless(torch, "torch or its backend is not there")
    def test_what_torch_compiled_before_is_traced(self):
        compiled = torch.compile(lambda x: x * 2 + 1, backend="coppice", dynamic=True)
        x = torch.randn(5)
        session = coppice.session(self.device)
        with torch.no_grad():
            compiled(x)
            name = coppice.torch.report(compiled)[0].program
            self.check_traced(
                lambda: torch.testing.assert_close(compiled(x), x * 2 + 1),
                lambda: [one for one in session.buckets() if one["program"] == name])

    def test_a_trace_has_an_end_when_the_process_ends(self):
        made = ("coppice.session(coppice.device('emulator'), trace_path=path)",
                "coppice.Session(coppice.device('emulator'), trace_path=path)")
        ends = ("", "raise SystemExit(3)", "1 / 0")
        for number, (session, end) in enumerate((one, end) for one in made for end in ends):
            path = self.path.with_suffix(f".{number}")
            code = f"import coppice; path = {str(path)!r}; kept = {session}; {end}"
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
            with self.subTest(session=session, end=end):
                self.assertIn('"end"', path.read_text().splitlines()[-1])

    def test_a_mark_with_a_zero_byte_is_refused(self):
        with self.assertRaisesRegex(coppice.InvalidArgument, "NUL character at byte 1"):
            coppice.prof.mark("a\0b")

    def test_a_mark_without_a_trace_does_nothing(self):
        coppice.prof.mark("nobody reads this")

    @unittest.skipUnless(torch, "torch or its backend is not there")
    def test_what_torch_compiles_within_is_traced(self):
        with coppice.prof.trace(self.path), torch.no_grad():
            compiled = torch.compile(lambda x: x * 2 + 1, backend="coppice", dynamic=True)
            for _ in range(3):
                x = torch.randn(5)
                torch.testing.assert_close(compiled(x), x * 2 + 1)
            torch._dynamo.reset()
        self.assertGreaterEqual(self.path.read_text().count('"replay"'), 2)
        again = torch.compile(lambda x: x * 3, backend="coppice", dynamic=True)
        torch.testing.assert_close(again(torch.ones(4)), torch.full((4,), 3.0))


if __name__ == "__main__":
    unittest.main()
