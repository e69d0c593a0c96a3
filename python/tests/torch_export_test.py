#!/usr/bin/env python3
"""Goal: what PyTorch's exporter writes is a package, and computes what eager PyTorch computes.
Method: models of every kind are exported for PTX; their manifests are held to the format page, then
executed by executor.py at drawn sizes, with NaNs in all that nothing wrote.

    torch_export_test.py [COPPICE] [unittest's options]

Without the command COPPICE kernels are not executed; without torch all is skipped.
"""

import contextlib
import io
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
SIZES_PER_MODEL = int(os.environ.get("COPPICE_TEST_SIZES") or 3)
COPPICE = ""

try:
    import torch
except ImportError:
    torch = None


def names_of(case):
    """Names of the arguments, in order."""
    import inspect

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
        cls.cases = {case.name: case for case in models.cases()}
        for case in cls.cases.values():
            case.model.eval()
            cls.paths[case.name] = pathlib.Path(cls.scratch.name) / f"{case.name}.zip"
            package = exporter.export(case.model, case.args, dynamic=case.dynamic, archs=["80"],
                                      **case.options)
            package.write(cls.paths[case.name])

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

    def test_what_is_executed_is_what_eager_computes(self):
        import executor

        if not COPPICE:
            self.skipTest("no command to execute PTX with")
        source = random.Random(SEED)
        for name, case in self.cases.items():
            with executor.Package(self.paths[name], COPPICE) as package:
                for _ in range(SIZES_PER_MODEL):
                    with self.subTest(model=name, seed=SEED):
                        self.compare(package, case, case.draw(source))

    def compare(self, package, case, drawn):
        weights = {name: tensor.numpy() for name, tensor in case.model.state_dict().items()}
        given = dict(zip(names_of(case), drawn))
        arrays = {name: value.numpy().copy() for name, value in given.items()
                  if isinstance(value, torch.Tensor)}
        scalars = {name: value for name, value in given.items() if name not in arrays}
        eager = [value.clone() if isinstance(value, torch.Tensor) else value for value in drawn]
        with torch.no_grad():
            expected = case.model(*eager)
        got = package.run("main", arrays, scalars, weights, seed=SEED % (1 << 31))
        expected = expected if isinstance(expected, tuple) else (expected,)
        self.assertEqual(len(expected), len(got))
        for (name, output), right in zip(got.items(), expected):
            self.check(name, torch.from_numpy(output), right, case.tolerance)
        for name, array in arrays.items():
            right = eager[names_of(case).index(name)]
            self.check(name, torch.from_numpy(array), right, case.tolerance)

    def check(self, name, got, right, tolerance):
        scale = max(1.0, float(right.abs().max()))
        difference = float((got.double() - right.double()).abs().max()) / scale
        self.assertLessEqual(difference, tolerance, f"{name}: {difference}")

    def test_calls_are_those_that_no_kernel_does(self):
        for name, case in self.cases.items():
            steps = self.manifest(name)["programs"]["main"]["steps"]
            called = {step["function"] for step in steps if step["op"] == "call"}
            self.assertEqual(set(case.calls), called, name)

    def test_what_is_written_is_marked_and_static_where_its_size_is_fixed(self):
        buffers = self.manifest("cached")["programs"]["main"]["buffers"]
        self.assertEqual((True, True), (buffers["cache"]["mutated"], buffers["cache"]["static"]))
        self.assertNotIn("mutated", buffers["x"])

    def test_constants_that_no_state_dict_has_are_in_the_package(self):
        constants = self.manifest("cached")["constants"]
        self.assertIn("data", constants["shift"])
        self.assertNotIn("data", constants["lift.weight"])

    def test_random_numbers_come_from_a_seed(self):
        import models

        package = self.exporter.export(models.Noisy(), (torch.ones(4, 8),),
                                       dynamic={"x": {0: (2, 64)}}, archs=["80"])
        roles = [buffer["role"] for buffer in package.programs["main"]["buffers"].values()]
        self.assertEqual(1, roles.count("seed"))

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

    def assert_refused(self, model, args, dynamic, pattern):
        from coppice.export import ExportError

        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(ExportError) as raised:
            self.exporter.export(model, args, dynamic=dynamic, archs=["80"])
        self.assertRegex(str(raised.exception), pattern)
        self.assertNotIn("\n", str(raised.exception))

    def test_packages_of_equal_programs_are_equal(self):
        case = self.cases["scaled"]
        again = self.exporter.export(case.model, case.args, dynamic=case.dynamic, archs=["80"])
        path = pathlib.Path(self.scratch.name) / "again.zip"
        again.write(path)
        self.assertEqual(self.paths["scaled"].read_bytes(), path.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.access(sys.argv[1], os.X_OK):
        COPPICE = sys.argv.pop(1)
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
