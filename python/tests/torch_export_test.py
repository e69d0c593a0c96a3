#!/usr/bin/env python3
"""Goal: what PyTorch's exporter writes is a package, and computes what eager PyTorch computes.
Method: models of every kind are exported for PTX; their manifests are held to the format page, then
run at drawn sizes by `coppice package run`, padded, replayed and with poison, and by executor.py,
with NaNs in all that nothing wrote. Programs that call PyTorch's operators are run by
libcoppice.so in place of the command, by c_library.py.

    torch_export_test.py [COPPICE] [unittest's options]

Without the command COPPICE kernels are not executed; without torch all is skipped.
COPPICE_TEST_SIZES is how many sizes are drawn of each model, and a file COPPICE_TEST_RESULTS gets
a line of each; versions.py makes its table of them. With COPPICE_TEST_SHARE=ci some models run in
float32 alone.
"""

import contextlib
import functools
import inspect
import io
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
SIZES_PER_MODEL = int(os.environ.get("COPPICE_TEST_SIZES") or 3)
LEFT_TO_F32 = ("vision", "encoder", "scaled", "products", "prefill") if (
    os.environ.get("COPPICE_TEST_SHARE") == "ci") else ()
SIZES_TO_PAD = 8  # Of so many some are no sizes of buckets.
COPPICE = ""

try:
    import numpy as np
    import torch
except ImportError:
    torch = None


def names_of(case):
    """Names of the arguments, in order."""
    forward = getattr(case.model, "forward", case.model)
    return list(inspect.signature(forward).parameters)


@unittest.skipUnless(torch, "torch is not installed")
class TorchExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import models
        from coppice.export import torch as exporter

        cls.scratch = tempfile.TemporaryDirectory()
        cls.exporter, cls.paths = exporter, {}
        known = {case.key: case for dtype in models.DTYPES for case in models.cases(dtype)}
        cls.known = sorted(known)
        cls.cases = {key: case for key, case in known.items()
                     if case.dtype == "f32" or case.name not in LEFT_TO_F32}
        for case in cls.cases.values():
            owner = getattr(case.model, "__self__", case.model)
            owner.eval().requires_grad_(False)
            cls.paths[case.key] = pathlib.Path(cls.scratch.name) / f"{case.key}.zip"
            package = exporter.export(case.model, case.args, dynamic=case.dynamic, archs=["80"],
                                      **case.options)
            package.write(cls.paths[case.key])

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def manifest(self, name):
        with zipfile.ZipFile(self.paths[name]) as archive:
            return json.loads(archive.read("manifest.json"))

    def test_manifests_have_the_form_of_the_page(self):
        import structure

        for name, path in self.paths.items():
            with self.subTest(model=name):
                self.assertEqual([], structure.findings(path))

    def drawn(self, case, count):
        """Arguments of so many calls."""
        source = random.Random(f"{SEED} {case.key}")
        torch.manual_seed(source.getrandbits(32))
        return [case.draw(source) for _ in range(count)]

    def test_what_the_emulator_runs_is_what_eager_computes(self):
        if not COPPICE:
            self.skipTest("no command to execute PTX with")
        for case in self.cases.values():
            with self.subTest(model=case.key, seed=SEED):
                self.compare_on_emulator(case)

    def compare_on_emulator(self, case):
        import comparison

        names, sets = names_of(case), self.drawn(case, SIZES_PER_MODEL)
        program = self.manifest(case.key)["programs"]["main"]
        static = {name for name in names if program["buffers"].get(name, {}).get("static")}
        right, kept = comparison.run_eagerly(case, names, sets, static, program["outputs"])
        arrays = [{name: comparison.bits_of(value) for name, value in zip(names, drawn)}
                  for drawn in sets]
        run = self.run_by_library if case.calls_torch else self.run_by_command
        got, last, report = run(case, arrays, static)
        errors = comparison.Errors(case)
        for index, outputs in enumerate(right):
            errors.add_outputs(got[index], outputs)
        for name in sorted(static):
            counts = functools.partial(case.written[name], sets=sets)
            errors.add(counts(comparison.tensor_of(last[name], kept[name])), counts(kept[name]))
        self.check_runs(report, sets)
        padded = sum(call["extents"] != call["bucket"] for call in report["calls"][::2])
        comparison.record(case, "emulator", len(sets), errors, padded=padded)
        self.assertEqual([], errors.too_large())

    def run_by_command(self, case, arrays, static):
        """Of each set the outputs, the static inputs in the end, and a report."""
        import emulator

        weights = self.paths[case.key].with_suffix(".safetensors")
        self.exporter.save_weights(weights, self.exporter.state_of(case.model))
        return emulator.run(
            COPPICE, self.paths[case.key],
            [{name: value for name, value in given.items() if name not in static}
             for given in arrays],
            {name: arrays[0][name] for name in static}, weights, SEED % (1 << 31))

    def run_by_library(self, case, arrays, static):
        """The same of one without static inputs, whose padding any bits may fill."""
        import c_library

        self.assertEqual(set(), static)
        claims = [symbol["claim"] for symbol in
                  self.manifest(case.key)["programs"]["main"]["symbols"].values()
                  if "claim" in symbol]
        self.assertEqual([{"padding": "any", "equal": "bits"}] * len(claims), claims)
        got, report = c_library.run(COPPICE, self.paths[case.key], arrays, self.weights(case),
                                    np.array_equal, SEED % (1 << 31))
        self.assertEqual(([], []), (report["mismatches"], report["findings"]))
        self.assertGreater(report["functions"], len(report["calls"]), "replays call them too")
        return got, {}, report

    def weights(self, case):
        import comparison

        return {name: comparison.bits_of(value)
                for name, value in self.exporter.state_of(case.model).items()}

    def test_an_operator_that_fails_is_named_by_the_next_synchronisation(self):
        import c_library
        import comparison
        import executor

        if not COPPICE:
            self.skipTest("no command, beside which the library is")
        case = self.cases["vision_f32"]
        (drawn,) = self.drawn(case, 1)
        given = {name: comparison.bits_of(value) for name, value in zip(names_of(case), drawn)}
        failing = mock.Mock(side_effect=ValueError("no such convolution"))
        with mock.patch.object(executor, "call_torch", failing), \
                self.assertRaises(c_library.LibraryFailure) as raised:
            c_library.run(COPPICE, self.paths[case.key], [given], self.weights(case),
                          np.array_equal)
        self.assertRegex(str(raised.exception),
                         "aten.convolution.default .*ValueError: no such convolution")

    def check_runs(self, report, sets):
        """Every call is recorded or replayed, the second of each set replayed."""
        kinds = [call["kind"] for call in report["calls"]]
        self.assertEqual(2 * len(sets), len(kinds))
        self.assertEqual({"replay"}, set(kinds[1::2]))
        self.assertLessEqual(set(kinds), {"record", "replay"})
        if len(sets) >= SIZES_TO_PAD:
            self.assertTrue(any(call["extents"] != call["bucket"] for call in report["calls"]))

    def test_what_is_executed_step_by_step_is_what_eager_computes(self):
        import executor

        if not COPPICE:
            self.skipTest("no command to execute PTX with")
        for case in self.cases.values():
            if case.large:
                continue
            with executor.Package(self.paths[case.key], COPPICE) as package, \
                    self.subTest(model=case.key, seed=SEED):
                self.compare_by_executor(package, case)

    def compare_by_executor(self, package, case):
        import comparison

        names = names_of(case)
        outputs = self.manifest(case.key)["programs"]["main"]["outputs"]
        errors = comparison.Errors(case)
        (drawn,) = self.drawn(case, 1)
        given = {name: comparison.bits_of(value) for name, value in zip(names, drawn)}
        arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        scalars = {name: value for name, value in given.items() if name not in arrays}
        (right,), kept = comparison.run_eagerly(case, names, [drawn], case.written, outputs)
        got = package.run("main", arrays, scalars, self.weights(case), seed=SEED % (1 << 31))
        errors.add_outputs(got, right)
        for name, value in kept.items():
            errors.add(comparison.tensor_of(arrays[name], value), value)
        self.assertEqual([], errors.too_large())

    def test_calls_are_those_that_no_kernel_does(self):
        for name, case in self.cases.items():
            steps = self.manifest(name)["programs"]["main"]["steps"]
            called = {step["function"] for step in steps if step["op"] == "call"}
            self.assertEqual(set(case.calls), called, name)

    def test_what_is_written_is_marked_and_static_where_its_size_is_fixed(self):
        buffers = self.manifest("cached_f32")["programs"]["main"]["buffers"]
        self.assertEqual((True, True), (buffers["cache"]["mutated"], buffers["cache"]["static"]))
        self.assertNotIn("mutated", buffers["x"])

    def test_constants_that_no_state_dict_has_are_in_the_package(self):
        constants = self.manifest("cached_f32")["constants"]
        self.assertIn("data", constants["shift"])
        self.assertNotIn("data", constants["lift.weight"])

    def export_dropped(self):
        import models

        path = pathlib.Path(self.scratch.name) / "dropped.zip"
        package = self.exporter.export(models.Dropped(), (torch.ones(4, 256),),
                                       dynamic={"x": {0: (2, 64)}}, archs=["80"])
        package.write(path)
        roles = [buffer["role"] for buffer in package.programs["main"]["buffers"].values()]
        self.assertEqual(1, roles.count("seed"))
        return path, models.Dropped.SHARE

    def test_dropout_in_training_drops_what_its_seed_says(self):
        import executor
        import philox

        if not COPPICE:
            self.skipTest("no command to execute PTX with")
        path, share = self.export_dropped()
        x = np.random.default_rng(SEED).uniform(1, 2, (random.Random(SEED).randint(2, 9), 256))
        x = x.astype(np.float32)
        with executor.Package(path, COPPICE) as package:
            got = package.run("main", {"x": x}, seed=SEED % (1 << 31))["output"]
        (seed,) = executor.seed_words(SEED % (1 << 31), 1)
        kept = philox.uniform(seed, np.arange(x.size)).reshape(x.shape) > np.float32(share)
        np.testing.assert_allclose(got, np.where(kept, x / (1 - share), 0), rtol=1e-6)

    def test_dropout_on_the_emulator_drops_its_share_and_anew_in_each_call(self):
        import emulator

        if not COPPICE:
            self.skipTest("no command to execute PTX with")
        path, share = self.export_dropped()
        x = np.ones((60, 256), np.float32)
        results = [emulator.run(COPPICE, path, [{"x": x}], seed=7, more=("--calls", str(calls)))[0]
                   for calls in (1, 1, 2)]
        first, again, second = (result[0]["output"] for result in results)
        np.testing.assert_array_equal(first, again)
        for output in (first, second):
            self.assertEqual({0.0, float(np.float32(1 / (1 - share)))}, set(output.flat))
            deviation = (share * (1 - share) / x.size) ** 0.5
            self.assertLess(abs(float((output == 0).mean()) - share), 6 * deviation)
        # Two draws agree by chance in (1 - share)^2 + share^2 of all elements.
        self.assertLess(float((first == second).mean()), 0.7)

    def test_the_table_of_versions_has_every_model_within_its_tolerance(self):
        import models
        import versions

        if "COPPICE_TEST_RESULTS" in os.environ:
            self.skipTest("the table is being written")
        lines = versions.read_table()
        for version in versions.VERSIONS:
            of_version = [line for line in lines if line["torch"] == version]
            self.assertEqual(self.known,
                             sorted(f"{line['model']}_{line['dtype']}" for line in of_version),
                             f"{version}: versions.py writes the table anew")
            for line in of_version:
                self.assertLessEqual(float(line["error"]), models.TOLERANCES[line["dtype"]])
                self.assertEqual(("12", "0"), (line["sizes"], line["mismatches"]), line)

    def test_attention_with_sizes_that_vary_is_one_template_without_calls(self):
        steps = self.manifest("flex_f32")["programs"]["main"]["steps"]
        self.assertEqual(["kernel"] * len(steps), [step["op"] for step in steps])
        self.assertEqual(1, sum("flex_attention" in step["kernel"] for step in steps))

    def test_an_integer_with_a_maximum_is_a_size(self):
        class Ramp(torch.nn.Module):
            def forward(self, x, n: int):
                return x[None] + torch.arange(n, device=x.device)[:, None]

        package = self.exporter.export(Ramp(), (torch.ones(8), 5), dynamic={"n": (2, 64)},
                                       archs=["80"])
        program = package.programs["main"]
        self.assertEqual({"scalar": "n"}, program["symbols"]["n_size"]["from"])
        self.assertEqual(["n_size", 8], program["buffers"]["output"]["shape"])

    def test_sizes_that_depend_on_data_are_refused_with_their_line(self):
        class Picks(torch.nn.Module):
            def forward(self, x):
                return x[x > 0] * 2

        self.assert_refused(Picks(), (torch.ones(4, 8),), {"x": {0: (2, 64)}}, "depend|data")

    def test_a_minimum_that_is_too_small_is_refused(self):
        class Outer(torch.nn.Module):
            def forward(self, x):
                return x * 2 if x.shape[0] > 1 else x

        self.assert_refused(Outer(), (torch.ones(4, 8),), {"x": {0: ("rows", 1, 64)}}, "rows")

    def test_outputs_whose_elements_share_memory_are_refused(self):
        for name, returned in {"expand": lambda x: (x + 1)[:, :1].expand(-1, 8),
                               "unfold": lambda x: (x + 1).unfold(1, 4, 1)}.items():
            with self.subTest(name):
                self.assert_refused(returned, (torch.ones(4, 8),), {"x": {0: (2, 64)}},
                                    "output share memory.*contiguous")

    def test_outputs_that_are_views_of_one_tensor_have_their_own_values(self):
        import emulator

        if not COPPICE:
            self.skipTest("no command to execute PTX with")

        def views(x):
            y = x * 2
            return y.t(), y, y[None], y.view(-1)

        path = pathlib.Path(self.scratch.name) / "views.zip"
        self.exporter.export(views, (torch.ones(4, 8),), dynamic={"x": {0: (2, 64)}},
                             archs=["80"], weights=True).write(path)
        x = np.arange(40, dtype=np.float32).reshape(5, 8)
        (outputs, *_), *_ = emulator.run(COPPICE, path, [{"x": x}])
        for index, expected in enumerate(views(torch.from_numpy(x))):
            np.testing.assert_array_equal(outputs[f"output_{index}"], expected.numpy())

    def test_an_axis_that_lowering_fixes_is_refused(self):
        from coppice.export import torch as exporter

        compile_graph = exporter.compile_graph

        def fix(module, *rest):
            wrapper = compile_graph(module, *rest)
            (given,) = module.graph.find_nodes(op="placeholder")
            self.assertEqual(4, int(given.meta["val"].shape[0]))
            return wrapper

        class Twice(torch.nn.Module):
            def forward(self, x):
                return x * 2

        with mock.patch.object(exporter, "compile_graph", fix):
            self.assert_refused(Twice(), (torch.ones(4, 8),), {"x": {0: (2, 64)}},
                                "axis 0 of x is dynamic, .* for 4 only")

    def assert_refused(self, model, args, dynamic, pattern):
        from coppice.export import ExportError

        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(ExportError) as raised:
            self.exporter.export(model, args, dynamic=dynamic, archs=["80"])
        self.assertRegex(str(raised.exception), pattern)
        self.assertNotIn("\n", str(raised.exception))

    def test_packages_of_equal_programs_are_equal(self):
        case = self.cases["scaled_f32"]
        again = self.exporter.export(case.model, case.args, dynamic=case.dynamic, archs=["80"])
        path = pathlib.Path(self.scratch.name) / "again.zip"
        again.write(path)
        self.assertEqual(self.paths["scaled_f32"].read_bytes(), path.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.access(sys.argv[1], os.X_OK):
        COPPICE = sys.argv.pop(1)
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
