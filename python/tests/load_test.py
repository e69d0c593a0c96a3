#!/usr/bin/env python3
"""Goal: coppice.load makes callables of a kernel package that do what their docstrings say.
Method: the samples' packages on the emulator, beside NumPy or, where it is installed, PyTorch.

    load_test.py [unittest's options]

Without PyTorch what needs it is skipped.
"""

import gc
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import coppice
from coppice import learning
from coppice.export.manifest import Package

try:
    import torch
except ImportError:
    torch = None

SCALE = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .b32 %r<5>; .reg .b64 %a<5>; .reg .f32 %f<3>; .reg .pred %p;
  ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r2, %r3, %r4, %r2; setp.ge.u32 %p, %r2, %r1; @%p bra END;
  mul.wide.u32 %a3, %r2, 4; add.u64 %a1, %a1, %a3; add.u64 %a2, %a2, %a3;
  ld.global.f32 %f1, [%a1]; add.f32 %f2, %f1, %f1; st.global.f32 [%a2], %f2;
END: ret;
}
"""
FORKED = """
import os, sys, warnings
import numpy as np
import coppice

warnings.simplefilter("ignore", DeprecationWarning)  # Of forks with threads, from Python 3.12 on.
tracing = coppice.prof.trace(sys.argv[2])
tracing.__enter__()  # By a thread that the child does not have.
model = coppice.load(sys.argv[1], device="emulator")
x, weights = np.ones((8, 64), np.float32), np.ones((64, 40), np.float32)
model(x, weights)
y = model(x, weights)
before = np.from_dlpack(y).copy()
child = os.fork()
if child == 0:
    for call in (lambda: model(-x, weights), lambda: coppice.Device("emulator")):
        try:
            call()
        except coppice.Error as error:
            print(error)
    tracing.__exit__(None, None, None)
    sys.exit(7)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(ended, *(np.array_equal(np.from_dlpack(call()), before)
               for call in (lambda: y, lambda: model(x, weights))))
tracing.__exit__(None, None, None)
"""
ANY = {"padding": "any", "equal": "bits"}
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "samples" / "triton_kernels.zip"
DECODER = ROOT / "samples" / "torch_decoder.zip"


def shares(x, weights):
    """What the package computes: rows normalised, multiplied, and their softmax."""
    x = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) @ weights
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def arguments(rows, seed=1):
    rng = np.random.default_rng(seed)
    return rng.random((rows, 64), np.float32), rng.random((64, 40), np.float32) / 8


def doubling(ptx=SCALE, **programs):
    """A package of programs, each with its symbols, of which x has an axis and y = 2 x."""
    package = Package()
    module = package.add_module("scale", ptx, "ptx", "sm_80")
    target = {"module": module, "symbol": "scale", "block": [128, 1, 1], "values": {"BLOCK": 128}}
    package.add_kernel("scale", {"parameters": [8, 8, 4], "targets": [target]})
    for name, symbols in programs.items():
        shape, count = sorted(symbols), " * ".join(sorted(symbols))
        package.add_program(name, {
            "symbols": symbols, "inputs": ["x"], "outputs": ["y"],
            "buffers": {"x": {"role": "input", "dtype": "f32", "shape": shape},
                        "y": {"role": "output", "dtype": "f32", "shape": shape}},
            "steps": [{"op": "kernel", "kernel": "scale",
                       "grid": [f"ceildiv({count}, BLOCK)", 1, 1],
                       "args": [{"buffer": "x", "access": "r"}, {"buffer": "y", "access": "w"},
                                {"i32": count}]}]})
    return package.to_bytes()


def pairs(**more):
    """The same of one program, main, of a batch and a length."""
    return doubling(main={"batch": {"min": 1, "max": 8, "claim": ANY, "buckets": "pow2"},
                          "length": {"min": 1, "max": 512, "claim": ANY}}, **more)


class LoadTest(unittest.TestCase):
    def load(self, **options):
        model = coppice.load(PACKAGE, device="emulator", **options)
        self.addCleanup(model.close)
        return model

    def test_a_package_is_a_callable_of_its_entry(self):
        model = self.load()
        for rows in (5, 7, 1, 20):
            x, weights = arguments(rows)
            y = model(x, weights)
            self.assertEqual((rows, 40), y.shape)
            np.testing.assert_allclose(shares(x, weights), np.from_dlpack(y), rtol=1e-4)

    def test_run_returns_the_lease_and_takes_options(self):
        model, (x, weights) = self.load(), arguments(5)
        for poison in (None, "nan", "noise"):
            lease = model.run(x, weights=weights, poison=poison)
            self.assertIn(lease.kind, ("record", "replay"))
            np.testing.assert_allclose(shares(x, weights), np.from_dlpack(lease[0]), rtol=1e-4)

    def test_what_is_written_to_an_input_is_the_callers(self):
        package = Package()
        module = package.add_module("scale", SCALE, "ptx", "sm_80")
        target = {"module": module, "symbol": "scale", "block": [128, 1, 1], "values": {}}
        package.add_kernel("scale", {"parameters": [8, 8, 4], "targets": [target]})
        package.add_program("main", {
            "symbols": {"n": {"min": 1, "max": 64}}, "inputs": ["x"], "outputs": ["y"],
            "buffers": {"x": {"role": "input", "dtype": "f32", "shape": ["n"], "mutated": True},
                        "y": {"role": "output", "dtype": "f32", "shape": ["n"]}},
            "steps": [{"op": "kernel", "kernel": "scale", "grid": [1, 1, 1],
                       "args": [{"buffer": "x", "access": "r"}, {"buffer": to, "access": "w"},
                                {"i32": "n"}]} for to in ("x", "y")]})
        model = self.doubling(package.to_bytes())
        for x in (np.ones(5, np.float32), np.ones(9, np.float32)[::2]):
            for call in range(1, 4):
                y = model(x) if call < 3 else model.run(x)[0]
                np.testing.assert_array_equal(np.full(5, 2**call, np.float32), x)
                np.testing.assert_array_equal(2 * x, np.from_dlpack(y))

    def test_inputs_come_in_order_or_by_name(self):
        model, (x, weights) = self.load(), arguments(5)
        expected = model(x, weights).numpy()
        for call in (lambda: model(x, weights=weights), lambda: model(weights=weights, x=x)):
            np.testing.assert_array_equal(expected, call().numpy())

    def test_wrong_arguments_are_named(self):
        model, (x, weights) = self.load(), arguments(5)
        for call, message in ((lambda: model(x), "weights is missing"),
                              (lambda: model(x, weight=weights), "there is no weight;"),
                              (lambda: model(x, weights, x), "inputs must be 2 .*, not 3"),
                              (lambda: model(x, weights, x=x), "twice"),
                              (lambda: model(x.astype(np.int32), weights), "i32"),
                              (lambda: model["decode"], "no program 'decode'; it has main")):
            with self.subTest(message=message), self.assertRaisesRegex(coppice.Error, message):
                call()

    def test_wrong_packages_are_told(self):
        for given, options, message in (
                ("missing.zip", {}, "missing.zip"), (ROOT / "README.md", {}, "zip"),
                (b"no zip", {}, "package"), (PACKAGE, {"policies": {"q": "pow2"}}, "symbol q"),
                (PACKAGE, {"policies": {"rows": "pow3"}}, "pow3"),
                (PACKAGE, {"trusted_keys": [bytes(32)]}, "sign"),
                (PACKAGE, {"trusted_keys": [b"short"]}, "32 bytes"),
                (DECODER, {}, "embedding")):
            with self.subTest(message=message), self.assertRaisesRegex(coppice.Error, message):
                coppice.load(given, device="emulator", **options)

    def test_replays_at_exact_sizes_share_an_executable(self):
        x = np.arange(60, dtype=np.float32)
        for exact in ("auto", "always"):
            with coppice.Session(self.load().session.device) as own:
                model = self.doubling(pairs(), session=own, exact=exact)
                for n in (60, 33, 7, 60, 64, 5, 1):
                    for _ in range(2):
                        given = np.resize(x, (n % 8 + 1, n))
                        np.testing.assert_array_equal(2 * given, np.from_dlpack(model(given)))
                stats, graphs = own.stats(), own.buckets()
                # Of 60, 64 and 1 both, as each is a bucket's or what its bucket had last.
                self.assertEqual(14 if exact == "always" else 10, stats.exact_replays)
                self.assertGreater(stats.patched_nodes, 0)
                self.assertGreater(len(graphs), 3)
                self.assertEqual({1}, {graph["family"] for graph in graphs})
        with self.assertRaisesRegex(coppice.InvalidArgument, "exact: 'often' is not one of never"):
            self.load(exact="often")

    def test_bytes_of_a_zip_are_a_package(self):
        model = coppice.load(PACKAGE.read_bytes(), device="emulator")
        self.addCleanup(model.close)
        self.assertEqual((5, 40), model(*arguments(5)).shape)

    def test_a_policy_takes_the_place_of_the_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "buckets.json"
            path.write_text(json.dumps({"version": 1, "buckets": [6, 60]}))
            for policy, bucket in (("linear:10", 10), (("linear:10", 100), 10), (str(path), 6)):
                with self.subTest(policy=policy):
                    model = self.load(policies={"rows": policy})
                    model(*arguments(5))
                    self.assertEqual([[bucket]],
                                     [one["bucket"] for one in model.entry.buckets()])
        with self.assertRaisesRegex(coppice.NotFound, "missing.json"):
            self.load(policies={"rows": "missing.json"})

    def test_policies_are_spelled_as_those_of_dims(self):
        package = doubling(main={"n": {"min": 1, "max": 256, "claim": ANY}})
        learned = coppice.learn([2, 6], 2)
        for policy, bucket in (("pow2", 8), (("pow2", 256), 8), ([4, 6], 6), ((4, 6), 6),
                               (range(4, 7), 5), (np.array([4, 6]), 6), ("4,6", 6), (("4,6", 6), 6),
                               (learned, 6), (json.dumps(learned), 6), ("vllm", 8), ("exact", 5),
                               ("learn", 5), (("learn", 64), 5)):
            with self.subTest(policy=policy):
                model = self.doubling(package, policies={"n": policy})
                self.check(model, 5)
                self.assertEqual([[bucket]], [one["bucket"] for one in model.entry.buckets()])
                learns = ["n"] if "learn" in str(policy)[:8] and policy is not learned else []
                self.assertEqual(learns, model.entry.learner.symbols)
                self.assertEqual(bucket, next(
                    one for one in coppice.Dim("n", max=256, policy=policy).buckets() if one >= 5))

    def test_a_policy_that_is_none_is_told_with_its_symbol(self):
        endless = doubling(main={"n": {"min": 1, "claim": ANY}})
        for package, policy, message in (
                (endless, "pow2", r"policy of n: .*no maximum.* as \('pow2', 4096\)"),
                (PACKAGE, 3, "policy of rows: 3 is not a policy; give a word"),
                (PACKAGE, [1.5], "policy of rows: .* is not a policy"),
                (PACKAGE, "pow3", "policy of rows: .*spellings are"),
                (PACKAGE, {"buckets": [1]}, "policy of rows: .*version")):
            with self.subTest(policy=policy), self.assertRaisesRegex(coppice.Error, message):
                name = "n" if package is endless else "rows"
                coppice.load(package, device="emulator", policies={name: policy})
        model = self.doubling(endless, policies={"n": "learn"})
        self.check(model, 5)

    def test_buckets_are_learned_while_calls_go_on(self):
        with mock.patch.object(learning, "PERIOD", 40):
            model = self.load(policies={"rows": "learn"})
            for call in range(41):
                rows = 33 + call % 3
                self.assertEqual((rows, 40), model(*arguments(rows)).shape)
        self.assertEqual({"swapped": 1}, model.entry.learner.outcomes)
        self.assertIn(35, json.loads(model.entry.program.policy("rows"))["buckets"])
        self.assertEqual("replay", model(*arguments(35)).lease.kind)

    def doubling(self, package, **options):
        model = coppice.load(package, device="emulator", **options)
        self.addCleanup(model.close)
        return model

    def check(self, program, *shape):
        x = np.random.default_rng(1).random(shape, np.float32)
        np.testing.assert_array_equal(2 * x, np.from_dlpack(program(x)))

    def test_two_symbols_are_padded_together(self):
        document = {"version": 1, "buckets": [[1, 512], [4, 128]]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "joint.json"
            path.write_text(json.dumps(document))
            for policy, bucket in (
                    ("1x512,4x128", [4, 128]), ([(1, 512), (4, 128)], [4, 128]),
                    (("1x512,4x128", (8, 512)), [4, 128]), ("ordered:4x512,4x128", [4, 512]),
                    (("pow2/linear:8", (4, 128)), [4, 104]), ("pow2/linear:8", [4, 104]),
                    (document, [4, 128]),
                    (json.dumps(document), [4, 128]), (str(path), [4, 128]), (path, [4, 128])):
                with self.subTest(policy=policy):
                    model = self.doubling(pairs(), policies={("batch", "length"): policy})
                    self.check(model, 3, 100)
                    self.assertEqual([bucket], [one["bucket"] for one in model.entry.buckets()])
                    self.assertEqual([], model.entry.learner.symbols)

    def test_a_pair_is_of_the_programs_that_have_both(self):
        model = self.doubling(pairs(step={"batch": {"min": 1, "max": 8, "claim": ANY}}),
                              policies={("length", "batch"): "512x8"})
        self.check(model, 3, 100)
        self.check(model["step"], 3)
        self.assertEqual([[8, 512]], [one["bucket"] for one in model.entry.buckets()])
        self.assertEqual([[4]], [one["bucket"] for one in model["step"].buckets()])

    def test_policies_of_two_that_are_none_are_told(self):
        pair, good = ("batch", "length"), "1x512,4x128"
        for policies, message in (
                ({pair: "pow3/pow2"}, "policy of batch and length: .*pow3"),
                ({pair: ("pow3/pow2", (8, 8))}, "policy of batch and length: .*pow3"),
                ({pair: 3}, "policy of batch and length: .*int"),
                ({pair: "learn"}, "learned from a log, with `coppice tune"),
                ({pair: "missing.json"}, "missing.json"),
                ({("batch", "width"): good}, "no program has a symbol width"),
                ({("batch",): good}, "neither the name of a size nor a pair"),
                ({("batch", 3): good}, "neither the name of a size nor a pair"),
                ({pair: good, "batch": "exact"}, "batch is in two policies"),
                ({("batch", "batch"): good}, "batch is in two policies"),
                ({pair: "1x1024"}, "symbol length has the bucket 1024, but its max is 512")):
            with self.subTest(message=message), self.assertRaisesRegex(coppice.Error, message):
                self.doubling(pairs(), policies=policies)
        with self.assertRaisesRegex(coppice.InvalidArgument, "claims nothing about its padding"):
            self.doubling(doubling(main={"a": {"max": 8}, "b": {"max": 8, "claim": ANY}}),
                          policies={("a", "b"): "8x8"})

    def test_sizes_without_a_policy_are_learned(self):
        package = doubling(main={"n": {"min": 1, "max": 256, "claim": ANY}})
        with mock.patch.object(learning, "PERIOD", 40):
            model = self.doubling(package)
            for call in range(39):
                self.check(model, 130 + call % 5)
            self.assertEqual([[256]], [one["bucket"] for one in model.entry.buckets()])
            self.check(model, 134)
        self.assertEqual({"swapped": 1}, model.entry.learner.outcomes)
        learned = json.loads(model.entry.program.policy("n"))["buckets"]
        self.assertIn(134, learned)
        self.assertLessEqual(sum(one <= 134 for one in learned), 9, "as many as powers of two")
        self.assertEqual("replay", model(np.ones(134, np.float32)).lease.kind)

    def test_buckets_that_somebody_gave_stay(self):
        size = {"min": 1, "max": 256, "claim": ANY}
        for symbol, policies, bucket in (
                (size, {"n": ("pow2", 256)}, 8), ({**size, "buckets": "pow2"}, {}, 8),
                (size, {"n": "exact"}, 5), ({**size, "max": 1 << 17}, {}, 5),
                ({"min": 1, "claim": ANY}, {}, 5), ({"min": 1, "max": 256}, {}, 5),
                ({**size, "min": 5, "multiple_of": 5}, {}, 5)):
            with self.subTest(symbol=symbol, policies=policies):
                model = self.doubling(doubling(main={"n": symbol}), policies=policies)
                self.check(model, 5)
                self.assertEqual([], model.entry.learner.symbols)
                self.assertEqual([[bucket]], [one["bucket"] for one in model.entry.buckets()])

    def test_what_the_caller_claims_is_learned_too(self):
        model = self.doubling(doubling(main={"n": {"min": 1, "max": 256}}),
                              claims={"n": ("any", 0, 0)})
        self.check(model, 5)
        self.assertEqual(["n"], model.entry.learner.symbols)
        self.assertEqual([[8]], [one["bucket"] for one in model.entry.buckets()])

    def test_buckets_are_warmed_planned_and_explained(self):
        model, progress = self.load(), []
        self.assertGreater(model.entry.plan([8])[0]["plan_height"], 0)
        model.entry.warm([8, 16], progress=lambda *done: progress.append(done))
        self.assertEqual([(1, 2), (2, 2)], progress)
        self.assertRegex(model.entry.explain(*arguments(9)), "replay .* bucket \\[16\\]")
        self.assertEqual("replay", model(*arguments(9)).lease.kind)

    def test_under_pressure_fewer_buckets_win(self):
        model = self.load(policies={"rows": "learn"})
        for rows in (8, 16, 32) * 3:
            model(*arguments(rows)).lease.release()
        program = model.entry.program
        before = json.loads(program.policy("rows"))
        with self.assertRaisesRegex(coppice.InvalidArgument, "per byte"):
            program.rebucket("rows", period=0, cost_per_byte=-1.0)
        report = program.rebucket("rows", period=0, max_ratio=0.0, cost_per_byte=1e3)
        self.assertEqual("swapped", report["outcome"])
        self.assertGreater(report["waste_after_pct"], report["waste_before_pct"])
        self.assertEqual(1, len(json.loads(program.policy("rows"))["buckets"]), before)

    def test_programs_share_one_session_unless_they_are_given_one(self):
        first, second = self.load(), self.load()
        self.assertIs(first.session, second.session)
        with coppice.Session(first.session.device) as own:
            third = self.load(session=own)
            third(*arguments(5))
            self.assertEqual(1, own.stats()["calls"])

    def test_a_closed_package_has_no_programs(self):
        model = self.load()
        model(*arguments(5)).lease.release()
        model.close()
        model.close()
        self.assertEqual([], list(model))
        with self.assertRaisesRegex(coppice.NotFound, "it is closed"):
            model["main"]

    def test_loading_over_and_over_keeps_graphs_and_memory_flat(self):
        device = self.load().session.device
        with coppice.Session(device) as own:
            for _ in range(30):
                with coppice.load(PACKAGE, session=own, device=device) as model:
                    model(*arguments(5)).lease.release()
            gc.collect()
            self.assertEqual([], [one for one in own.buckets() if one["recorded"]])

    def decoder_constants(self, model):
        """Constants that the sample's package draws, as zeros of their sizes."""
        return {name: np.zeros(one["shape"], np.float32) for name, one in model.items()
                if "data" not in one}

    def test_statics_are_bound_by_name_and_written_in_place(self):
        import zipfile

        with zipfile.ZipFile(DECODER) as archive:
            manifest = json.loads(archive.read("manifest.json"))
        constants = self.decoder_constants(manifest["constants"])
        for name in constants:
            constants[name] += np.float32(0.01)
        model = coppice.load(DECODER, device="emulator", constants=constants)
        self.addCleanup(model.close)
        decode, buffers = model["decode"], manifest["programs"]["decode"]["buffers"]
        caches = {name: np.zeros(buffers[name]["shape"], np.float32) for name in ("keys", "values")}
        numbers = [np.array([3, 5], np.int32), np.array([0, 0], np.int32),
                   np.array([0, 1], np.int32)]
        with self.assertRaises(coppice.Error):
            decode(*numbers)
        with self.assertRaisesRegex(coppice.InvalidArgument, "values is missing"):
            decode.bind(keys=caches["keys"])
        logits, _ = decode.bind(**caches)(*numbers)
        self.assertEqual(2, logits.shape[0])
        self.assertGreater(np.abs(decode.bound()["keys"].numpy()).max(), 0)
        prefix = decode.bound()["keys"].numpy()[:, 2:]
        self.assertEqual(0, np.abs(prefix[:, :-1]).max(), "other slots are as they were")

    @unittest.skipUnless(torch, "torch is not installed")
    def test_functions_of_torch_are_its_operators(self):
        from coppice.export import torch as exporter

        def largest(x):
            return x.topk(2)[0] * 2

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "largest.zip"
            exporter.export(largest, (torch.randn(3, 8),), dynamic={"x": {0: (2, 64)}},
                            archs=["80"]).write(path)
            with self.assertRaisesRegex(coppice.InvalidArgument, "aten.topk"):
                coppice.load(path, device="emulator")
            with coppice.load(path, device="emulator", functions="torch") as model:
                for rows in (3, 5, 3):
                    x = torch.randn(rows, 8)
                    torch.testing.assert_close(largest(x), torch.from_dlpack(model(x)))

    def test_a_forked_child_is_refused_and_its_parent_unharmed(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "t.trace")
            done = subprocess.run([sys.executable, "-c", FORKED, PACKAGE, trace], check=False,
                                  text=True, capture_output=True,
                                  env={"PYTHONPATH": ":".join(sys.path)})
            self.assertEqual("", done.stderr)
            self.assertEqual(1, trace.read_text("utf-8").count('"end"'))
        *refused, ended = done.stdout.splitlines()
        self.assertEqual(2, len(refused), refused)
        for error in refused:
            self.assertIn("forked", error)
            self.assertIn("start method 'spawn'", error)
        self.assertEqual("7 True True", ended)

    def test_importing_needs_neither_cuda_nor_frameworks(self):
        code = ("import sys, coppice; coppice.Device; coppice.load; "
                "print([m for m in ('torch', 'numpy', 'triton') if m in sys.modules])")
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                              text=True, env={"PYTHONPATH": ":".join(sys.path)})
        self.assertEqual("[]", done.stdout.strip())

    def test_public_names_are_there(self):
        for name in coppice.__all__:
            if name == "from_graph":  # Needs PyTorch.
                continue
            with self.subTest(name=name):
                self.assertTrue(getattr(coppice, name).__doc__)
        with self.assertRaises(AttributeError):
            coppice.nothing


if __name__ == "__main__":
    unittest.main()
