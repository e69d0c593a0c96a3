#!/usr/bin/env python3
"""Goal: the samples in Python do what they say, and their errors say what to do.
Method: serve.py's requests are read from files that break each rule; its batching runs a model that
only counts; the whole serves a few requests on the emulator and is held to eager PyTorch. The
notebook's cells are executed, and its pictures have to show something. serving_runner.py's classes
run below stand-ins of vLLM and SGLang, and both have the names and parameters that
serving_interfaces.json says theirs have.

    samples_test.py [unittest's options]

What needs torch, the extension or matplotlib is skipped without it.
"""

import contextlib
import importlib.util
import inspect
import io
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import types
import unittest
import zipfile
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
needs_triton = unittest.skipUnless(torch and importlib.util.find_spec("triton"),
                                   "torch, Triton or the extension is not there")
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
            f"{HEADER}\n0,1\n": r":2: the row has 2 fields, but the header has 3; give",
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


def interfaces():
    """{(class, method): parameters} of vLLM and SGLang."""
    table = json.loads((ROOT / "python" / "tests" / "serving_interfaces.json").read_text())
    return {(row["class"], row["method"]): row["parameters"] for row in table}


def parameters_of(function):
    """As serving_interfaces.py writes them."""
    names, star = [], False
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not star:
            names.append("*")
        star = star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        names.append(mark + one.name + "=" * (one.default is not one.empty))
    return [name for name in names if name != "self"]


@needs_triton
class ServingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = load("serving_servers")
        cls.runner = sys.modules["serving_runner"]
        cls.device, cls.known = coppice.device("emulator"), interfaces()

    def test_replays_give_what_runs_without_graphs_give(self):
        drawn, out = random.Random(SEED), io.StringIO()
        batches = [str(drawn.randint(1, 8)) for _ in range(40)]
        arguments = ["x", "--sizes", "2", "5", "8", "--seed", str(SEED), "--batches", *batches]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out):
            self.assertEqual(0, self.servers.main(), out.getvalue())
        rows = sum(map(int, batches))
        self.assertEqual([f"{name}: 40 batches, 40 replays of 3 graphs; 0 of {rows} rows differ "
                          "from eager" for name in ("vLLM", "SGLang")],
                         out.getvalue().splitlines()[:2])

    def test_runs_without_graphs_give_what_pytorch_gives(self):
        with coppice.Session(self.device, stance="eager") as session:
            layer = self.servers.Layer(self.device, session)
            tokens, slots = torch.tensor([3, 4, 3]), torch.tensor([[1, 2, 3]])
            for position in range(3):
                y = layer(tokens[position:position + 1], torch.tensor([position]),
                          slots[0, position:position + 1],
                          torch.nn.functional.pad(slots, (0, self.servers.LENGTH - 3)),
                          torch.tensor([position + 1]))
            x = torch.from_dlpack(layer.embedding.to_host())[tokens] + torch.tensor(
                [[0.0], [0.01], [0.02]])
            expected = torch.softmax(x @ x[2] / self.servers.SIZE, 0) @ (2 * x + 1)
            torch.testing.assert_close(y[0], expected, atol=1e-4, rtol=1e-4)
            layer.plain.close()

    def test_finds_a_fill_that_names_a_slot_of_somebody(self):
        # Of a seed whose request 1 does not begin with the token of padding.
        given = ("", self.servers.SglangServer, self.device, [8, 7, 7, 7], [8], 0)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(0, self.servers.compare(*given))
            with mock.patch.dict(self.runner.DecodeRunner.FILLS, out_cache_loc=1):
                self.assertLess(0, self.servers.compare(*given))

    def test_has_the_parameters_of_what_it_replaces(self):
        for ours, theirs in ((self.runner.GraphWrapper, "CUDAGraphWrapper"),
                             (self.runner.DecodeRunner, "DecodeCudaGraphRunner"),
                             (self.servers.Backend, "AttentionBackend")):
            for method in [method for owner, method in self.known if owner == theirs]:
                with self.subTest(theirs, method=method):
                    found = getattr(ours, method)
                    self.assertEqual(*self.shared(found, self.known[theirs, method]))
        for ours, theirs in (("get_forward_context", "get_forward_context"),
                             ("is_forward_context_available", "is_forward_context_available"),
                             ("validate_cudagraph_capturing_enabled",) * 2):
            self.assertEqual(self.known["", theirs],
                             parameters_of(getattr(self.servers.VllmServer, ours)))

    def shared(self, function, theirs):
        """Their parameters, and ours without what we added, which has a default."""
        if isinstance(function, property):
            function = function.fget
        ours = parameters_of(function)
        for name in set(ours) - set(theirs) - {"*"}:
            self.assertTrue(name.endswith("=") and ours.index(name) > ours.index("*"), name)
        kept = [name for name in ours if name in theirs or (name == "*" and "*" in theirs)]
        return theirs, kept

    def test_stand_ins_have_fields_that_are_there(self):
        def fields_of(cls):
            return parameters_of(cls.__init__)

        self.assertEqual(self.known["BatchDescriptor", "fields"],
                         fields_of(self.servers.BatchDescriptor))
        for cls in (self.servers.ForwardBatch, self.servers.LogitsProcessorOutput):
            known = [name.strip("=") for name in self.known[cls.__name__, "fields"]]
            self.assertLessEqual({name.strip("=") for name in fields_of(cls)}, set(known))
        runner = self.runner.DecodeRunner
        known = {name.strip("=") for name in self.known["ForwardBatch", "fields"]}
        self.assertLessEqual({*runner.READ, *runner.REFUSED}, known)
        known = {name.strip("=") for name in self.known["ForwardContext", "fields"]}
        self.assertIn("attn_backend", known)

    def wrapper(self, runnable, capturing=True, **options):
        """A wrapper of pieces, and its server."""
        server = types.SimpleNamespace(
            context=None, get_forward_context=lambda: server.context,
            is_forward_context_available=lambda: server.context is not None,
            validate_cudagraph_capturing_enabled=mock.Mock(
                side_effect=None if capturing else RuntimeError("too late")))
        return self.runner.GraphWrapper(runnable, None, self.servers.Mode.PIECEWISE,
                                        server=server, **options), server

    def in_mode(self, mode, size=3):
        return types.SimpleNamespace(cudagraph_runtime_mode=self.servers.Mode[mode],
                                     batch_descriptor=self.servers.BatchDescriptor(size))

    def test_a_wrapper_is_what_it_wraps_in_other_modes(self):
        runnable = mock.Mock(return_value=7, spec=["weights"])
        wrapped, server = self.wrapper(runnable)
        for context in (None, self.in_mode("NONE"), self.in_mode("FULL")):
            server.context = context
            self.assertEqual(7, wrapped(1, x=2))
        runnable.assert_called_with(1, x=2)
        self.assertIs(wrapped.weights, runnable.weights)
        self.assertIs(wrapped.unwrap(), runnable)
        server.validate_cudagraph_capturing_enabled.assert_not_called()

    def test_a_wrapper_reads_parameters_where_they_lie_and_keeps_results(self):
        weight = self.device.upload(torch.full((3,), 5.0))

        def piece(x, weight):
            y = coppice.empty([3], "f32")
            self.device.copy(y.data_ptr(), weight.data_ptr(), y.nbytes,
                             coppice.current_stream())
            return y, {"same": x}

        wrapped, server = self.wrapper(piece, static=lambda tensor: tensor is weight)
        server.context = self.in_mode("PIECEWISE")
        first = wrapped(torch.ones(3), weight=weight)
        weight.copy_from(torch.full((3,), 6.0))
        second = wrapped(torch.zeros(3), weight=weight)
        for value, (y, more) in ((5.0, first), (6.0, second)):
            self.assertEqual([value] * 3, y.tolist())
            self.assertEqual([6.0 - value] * 3, more["same"].tolist())
        self.assertEqual({"warm_up": 1, "record": 1, "replay": 1}, wrapped.wrapped.stats()["runs"])
        type(wrapped).clear_all_graphs()
        self.assertEqual((None, set()), (wrapped.wrapped, wrapped.recorded))

    def test_a_wrapper_records_nothing_once_the_server_is_up(self):
        wrapped, server = self.wrapper(mock.Mock(), capturing=False)
        server.context = self.in_mode("PIECEWISE")
        with self.assertRaisesRegex(RuntimeError, "too late"):
            wrapped(torch.ones(3))

    def test_a_runner_leaves_batches_to_others_that_it_cannot_run(self):
        with coppice.Session(self.device, stance="eager") as session:
            server = self.servers.SglangServer(self.device, [2, 4], session, True)
            runner = server.runner
            batch = server.make_batch(4, **{name: torch.ones(4, dtype=torch.int64)
                                            for name in runner.READ}, seq_lens_sum=4)
            self.assertTrue(runner.can_run_graph(batch))
            with self.assertRaisesRegex(NotImplementedError, "has one stage"):
                runner.execute(batch, pp_proxy_tensors={})
            batch.lora_ids = ["x"]
            self.assertFalse(runner.can_run_graph(batch))
            del batch.lora_ids
            batch.batch_size = 5
            self.assertFalse(runner.can_run_graph(batch))
            self.assertIsNone(runner.load_batch(server.make_batch(
                3, **{name: torch.ones(3, dtype=torch.int64) for name in runner.READ},
                seq_lens_sum=3)))
            self.assertEqual(4, runner.bs)
            runner.wrapped.close()
            with self.assertRaisesRegex(NotImplementedError, "one token per request"):
                self.runner.DecodeRunner(server, speculative_num_steps=2)
            server.forward = lambda *_: self.servers.LogitsProcessorOutput(None, 1)
            with self.assertRaisesRegex(NotImplementedError, "returns hidden_states"):
                self.runner.DecodeRunner(server, sizes=[2], server=server)
            server.layer.plain.close()

    def test_interfaces_are_read_from_a_wheel(self):
        script = ROOT / "python" / "tests" / "serving_interfaces.py"
        spec = importlib.util.spec_from_file_location("serving_interfaces", script)
        read = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(read)
        source = ("class A:\n  x: int\n  y: int = 1\n"
                  "  def f(self, a, /, b, c=1, *, d, e=None, **f): pass\n"
                  "def g(*a, b): pass\nfrom x import (y, z)\n")
        with tempfile.TemporaryDirectory() as folder:
            wheel = pathlib.Path(folder) / "vllm-1.2.3-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as files:
                files.writestr("m/n.py", source)
            for wanted, rows in (
                    (("A", ("fields", "f")),
                     [["x", "y="], ["a", "b", "c=", "*", "d", "e=", "**f"]]),
                    (("", ("g", "z")), [["*a", "b"], []])):
                with mock.patch.dict(read.WANTED, vllm=[("m.n", *wanted)]):
                    made = list(read.rows_of(wheel))
                    self.assertEqual(rows, [row["parameters"] for row in made])
                    self.assertEqual({("vllm", "1.2.3", "m.n", wanted[0])}, {
                        (row["package"], row["version"], row["module"], row["class"])
                        for row in made})
            for wanted, text in ((("B", ("f",)), "m.n has no class B"),
                                 (("A", ("h",)), "m.n has no A.h"),
                                 (("", ("h",)), "m.n has no h")):
                with mock.patch.dict(read.WANTED, vllm=[("m.n", *wanted)]), \
                        self.assertRaisesRegex(LookupError, text):
                    list(read.rows_of(wheel))

    def test_the_page_shows_the_whole_patch(self):
        page = (ROOT / "docs" / "how-to" / "vllm.md").read_text()
        shown = "".join(re.findall(r"^```py\n(.*?)^```$", page, re.M | re.S))
        patch = (SAMPLES / "serving_runner.py").read_text()
        self.assertEqual([line for line in patch.splitlines() if line],
                         [line for line in shown.splitlines() if line])


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED={SEED} repeats it")
    unittest.main()
