#!/usr/bin/env python3
"""Goal: the samples in Python do what they say, and their errors say what to do.
Method: serve.py's requests are read from files that break each rule; its batching runs a model that
only counts; the whole serves a few requests on the emulator and is held to eager PyTorch. The
notebook's cells are executed, and its pictures have to show something.

    samples_test.py [unittest's options]

What needs torch, the extension or matplotlib is skipped without it.
"""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import random
import re
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "samples" / "python"
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
HEADER = "arrival_seconds,input_tokens,output_tokens"

try:
    import torch

    import coppice.torch

    if "coppice" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(coppice.torch.backend, name="coppice")
except ImportError:
    torch = None
needs_torch = unittest.skipUnless(torch, "torch or the extension is not there")
needs_matplotlib = unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib")


def load(name):
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


serve = load("serve")


class CountingModel:
    """Predicts 1000 x slot + position, so that a token says what it was predicted from."""

    def __init__(self, slots):
        self.slots, self.steps = slots, []

    def first(self, prompt, slot):
        self.steps.append(("prefill", [slot]))
        return 1000 * slot + len(prompt) - 1

    def next(self, tokens, positions, slots):
        self.steps.append(("decode", list(slots)))
        return [1000 * slot + position for slot, position in zip(slots, positions)]


class RequestsTest(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "r.csv"
            path.write_bytes(text.encode())
            return serve.read_requests(str(path), SEED)

    def test_reads_what_coppice_run_reads(self):
        requests = self.read(f"{HEADER},note\r\n0,374,44,a\r\n4.315,396,109,\"b,c\"\r\n")
        self.assertEqual([(0, 374, 44), (4.315, 396, 109)],
                         [(one.arrival, one.prompt, one.answer) for one in requests])

    def test_draws_arrivals_that_a_file_leaves_out(self):
        requests = self.read(f"{HEADER}\n,3,4\n,5,6\n")
        self.assertLess(0, requests[0].arrival)
        self.assertLess(requests[0].arrival, requests[1].arrival)

    def test_says_what_is_wrong_with_a_file_and_where(self):
        for text, wanted in {
            "": r"r\.csv:1: the header is ''; start the file with the line",
            "a,b,c\n1,2,3\n": r":1: the header is 'a,b,c'; start",
            f"{HEADER}\n": r":1: a header and no rows; add",
            f"{HEADER}\n0,1\n": r":2: the row has 2 fields, the header 3; give",
            f"{HEADER}\n0,1,1\nx,1,1\n": r":3: arrival_seconds is 'x'; give a number from 0",
            f"{HEADER}\n-1,1,1\n": r":2: arrival_seconds is '-1'; give",
            f"{HEADER}\nnan,1,1\n": r":2: arrival_seconds is 'nan'; give",
            f"{HEADER}\n0,1.5,1\n": r":2: input_tokens is '1.5'; give a whole number from 1",
            f"{HEADER}\n0,1,0\n": r":2: output_tokens is '0'; give",
            f"{HEADER}\n5,1,1\n4,1,1\n": r":3: .*'4' and of the row above '5'; sort",
            f"{HEADER}\n,1,1\n4,1,1\n": r":3: .*; sort the rows by it, or leave all empty",
            f"{HEADER}\n4,1,1\n,1,1\n": r":3: arrival_seconds is ''; give",
        }.items():
            with self.subTest(text), self.assertRaisesRegex(serve.UsageError, wanted):
                self.read(text)
        for path in ("there_is_none.csv", str(SAMPLES)):
            with self.assertRaisesRegex(serve.UsageError, "give a CSV file of requests"):
                serve.read_requests(path, SEED)

    def test_equal_seeds_draw_equal_requests_that_fit(self):
        first, second = (serve.draw_requests(50, 64, SEED) for _ in range(2))
        self.assertEqual([vars(one) for one in first], [vars(one) for one in second])
        self.assertEqual(0, serve.fit(first, 64, 1, 512, SEED))
        self.assertTrue(all(0 <= token < 512 for one in first for token in one.fed))

    def test_cuts_what_the_context_cannot_hold(self):
        requests = [serve.Request(0, 0, 100, 5), serve.Request(1, 0, 7, 100)]
        self.assertEqual(2, serve.fit(requests, 8, 2, 512, SEED))
        self.assertEqual([(8, 1), (4, 5)], [(one.prompt, one.answer) for one in requests])


class BatchingTest(unittest.TestCase):
    def serve(self, model, *requests):
        """Serves requests of (arrival, prompt, answer); returns them and the server."""
        requests = [serve.Request(number, *one) for number, one in enumerate(requests)]
        serve.fit(requests, 1000, 1, 512, SEED)
        server = serve.Server(model, False, lambda *told: None)
        server.serve(requests)
        return requests, server

    def test_prefills_when_a_slot_is_free_and_decodes_all_that_run(self):
        model = CountingModel(2)
        requests, server = self.serve(model, (0, 5, 3), (0.001, 4, 2), (0.001, 2, 1))
        self.assertEqual(
            [("prefill", [1]), ("prefill", [2]), ("decode", [1, 2]), ("prefill", [2]),
             ("decode", [1])], model.steps)
        self.assertEqual([[1004, 1005, 1006], [2003, 2004], [2001]],
                         [one.tokens for one in requests])
        self.assertEqual((3, 2, 2), (server.prefills, server.decodes, server.rows_max))

    def test_each_step_moves_the_clock_by_its_cost(self):
        (one,), server = self.serve(CountingModel(1), (2.0, 10, 3))
        costs = [serve.STEP_SECONDS + serve.ROW_SECONDS * rows for rows in (10, 1, 1)]
        for index, at in enumerate(one.times):
            self.assertAlmostEqual(2.0 + sum(costs[:index + 1]), at)
        self.assertEqual(one.times[-1], server.clock)

    def test_serves_everybody_and_shares_no_slot(self):
        random_ = random.Random(SEED)
        wanted = sorted((random_.random(), random_.randint(1, 30), random_.randint(1, 9))
                        for _ in range(200))
        model = CountingModel(5)
        requests, server = self.serve(model, *wanted)
        for one in requests:
            self.assertEqual([1000 * one.slot + one.prompt - 1 + index
                              for index in range(one.answer)], one.tokens)
            self.assertEqual(sorted(one.times), one.times)
        for kind, slots in model.steps:
            self.assertEqual(len(slots), len(set(slots)))
            self.assertTrue(set(slots) <= set(range(1, 6)))
        self.assertEqual(200, server.prefills)


class ServeTest(unittest.TestCase):
    def run_main(self, *arguments):
        """The exit code, stdout and stderr."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = serve.main(list(arguments))
            except SystemExit as error:
                code = error.code
        return code, out.getvalue(), err.getvalue()

    def test_refuses_in_one_line(self):
        for arguments, wanted in {
            ("there_is_none.csv",): "serve.py: there_is_none.csv: .*; give a CSV file",
            ("--requests", "0"): "--requests: 0 is less than 1",
            ("--max-batch", "x"): "--max-batch: invalid whole number value: 'x'",
            ("--context", "3"): "--context 3: give 4 or more",
            ("--device", "tpu"): "--device: invalid choice: 'tpu'",
        }.items():
            code, _, err = self.run_main(*arguments)
            self.assertEqual(2, code, arguments)
            self.assertRegex(err.splitlines()[-1], wanted)

    @needs_torch
    def test_refuses_a_device_that_is_not_there(self):
        with mock.patch.object(torch.cuda, "is_available", return_value=False):
            code, _, err = self.run_main("--device", "cuda")
        self.assertEqual((2, "serve.py: --device cuda: PyTorch finds no CUDA device; give "
                             "--device emulator\n"), (code, err))

    @needs_torch
    def test_serves_on_the_emulator_what_eager_pytorch_predicts(self):
        torch._dynamo.reset()
        code, out, err = self.run_main(
            "--device", "emulator", "--requests", "5", "--layers", "1", "--context", "16",
            "--max-batch", "3", "--seed", str(SEED), "--stream", "--verify")
        self.assertEqual(0, code, out + err)
        streamed = re.findall(r"^ *[\d.]+ s  request (\d): (\d+)$", out, re.M)
        lines = dict(re.findall(r"^(\w+) +(.*)$", out, re.M))
        self.assertEqual(f"{len(streamed)} tokens, 0 of them not eager PyTorch's",
                         lines["verified"])
        self.assertEqual(set("01234"), {request for request, _ in streamed})
        self.assertIn("no model of time", lines["device"])
        steps, prefills, decodes = map(int, re.match(
            r"(\d+): (\d+) prefill, (\d+) decode", lines["steps"]).groups())
        calls, replays, records, others = map(int, re.match(
            r"(\d+): (\d+) replays, (\d+) records, (\d+) without", lines["calls"]).groups())
        self.assertEqual((steps, 5, 0), (calls, prefills, others))
        self.assertEqual(calls, replays + records)
        self.assertEqual(f"{records}, of buckets", lines["graphs"].partition(" prefill")[0])
        for name in ("TTFT", "TPOT"):
            self.assertRegex(lines[name], r"^(p50 [\d.]+ ms, p95 [\d.]+ ms|none)$")
        self.assertIn("served 5 of 5", err)


class NotebookTest(unittest.TestCase):
    def setUp(self):
        self.notebook = json.loads((SAMPLES / "pool.ipynb").read_text())
        self.cells = [cell for cell in self.notebook["cells"] if cell["cell_type"] == "code"]

    def test_has_no_outputs(self):
        for cell in self.cells:
            self.assertEqual((None, []), (cell["execution_count"], cell["outputs"]))
        self.assertEqual({"name", "display_name", "language"},
                         set(self.notebook["metadata"]["kernelspec"]))

    @needs_torch
    @needs_matplotlib
    def test_draws_pictures_that_show_something(self):
        import matplotlib

        matplotlib.use("agg")
        import matplotlib.pyplot as plt

        torch._dynamo.reset()
        names, out = {}, io.StringIO()
        with mock.patch.object(plt, "show"), contextlib.redirect_stdout(out):
            for number, cell in enumerate(self.cells):
                source = "".join(cell["source"])
                exec(compile(source, f"pool.ipynb cell {number}", "exec"), names)
        figures = [plt.figure(number) for number in plt.get_fignums()]
        self.assertEqual(3, len(figures))
        for figure in figures:
            figure.canvas.draw()
            pixels = torch.frombuffer(bytearray(figure.canvas.buffer_rgba()), dtype=torch.uint8)
            inked = (pixels.view(-1, 4)[:, :3] < 250).any(1).float().mean()
            self.assertLess(0.03, float(inked))
            for axes in figure.axes:
                self.assertTrue(axes.get_title() or axes.get_xlabel())
        plt.close("all")
        self.assertLessEqual(max(names["heights"]), max(names["bytes_of_buckets"]))


class RanksTest(unittest.TestCase):
    @needs_torch
    def test_options_that_cannot_be_are_refused(self):
        ranks = load("ranks")
        for options in (["--ranks", "0"], ["--calls", "-1"], ["--kill", "4"], ["--kill", "-1"],
                        ["--ranks", "1", "--kill", "0"]):
            with self.subTest(options), mock.patch("sys.argv", ["ranks.py", *options]), \
                    contextlib.redirect_stderr(io.StringIO()) as told:
                with self.assertRaises(SystemExit) as ended:
                    ranks.read_options()
                self.assertEqual(2, ended.exception.code)
                self.assertIn(options[-2], told.getvalue())


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED={SEED} repeats it")
    unittest.main()
