#!/usr/bin/env python3
"""Goal: Triton kernels and the code that launches them become packages that compute the same.
Method: the sample and launches written here are recorded or built by hand, executed from their PTX
by executor.py, and compared with PyTorch on the CPU; what cannot be recorded has to be refused.

    triton_export_test.py [COPPICE] [unittest's options]
"""

import collections
import os
import pathlib
import random
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "samples")]
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
COPPICE = ""

import expression

try:
    import torch
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton:
    @triton.jit
    def twice(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

    @triton.jit
    def count_up(counts, x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.atomic_add(counts + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)

    Part = collections.namedtuple("Part", "start scale")

    @triton.jit
    def scale_part(x, y, shape: tl.constexpr, part, more, small: tl.float16, *rest,
                   BLOCK: tl.constexpr = 64):
        at = tl.program_id(0) * BLOCK + tl.arange(0, shape[0] * shape[1])
        value = tl.load(x + at, mask=at < more[0], other=0.0) * part.scale * more[1][1] + small
        tl.store(rest[0] + part.start + at, value, mask=at < more[0])
        tl.store(y + part.start + at, value + rest[1], mask=at < more[0])

    @triton.jit
    def sum_rows(x, y, columns, BLOCK: tl.constexpr):
        total = tl.zeros((BLOCK,), tl.float32)
        address = x + tl.program_id(0) * columns + tl.arange(0, BLOCK)
        for start in range(0, columns, BLOCK):
            total += tl.load(address, mask=start + tl.arange(0, BLOCK) < columns, other=0.0)
            address += BLOCK
        tl.store(y + tl.program_id(0), tl.sum(total, 0))


@unittest.skipUnless(triton, "torch and triton are not installed")
class TritonExportTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name) / "package.zip"
        self.source = random.Random(SEED)

    def write(self, package):
        import structure

        package.write(self.path)
        self.assertEqual([], structure.findings(self.path))

    def run_package(self, inputs):
        import executor

        if not COPPICE:
            self.skipTest("no command to execute PTX with")
        with executor.Package(self.path, COPPICE) as package:
            return package.run("main", inputs, seed=SEED % (1 << 31))

    def build(self, kernel, signature, **options):
        from coppice.export.triton import Package, add_kernel

        package = Package()
        return package, add_kernel(package, kernel, signature, {"BLOCK": 64}, archs=["80"],
                                   **options)

    def test_a_program_by_hand_computes_what_its_kernel_says(self):
        from coppice.export.triton import Program

        package, kernel = self.build(twice, {"x": "*fp32", "y": "*fp32", "n": "i32"},
                                     divisible=("x", "y"))
        program = Program({"n": {"min": 1, "max": 4096}})
        program.buffer("x", "input", "f32", ["n"])
        program.buffer("y", "output", "f32", ["n"])
        program.launch(kernel, ["ceildiv(n, BLOCK)"], x="x", y="y", n="n")
        package.add_program("main", program.build())
        self.write(package)
        x = torch.randn(self.source.randint(1, 500))
        got = self.run_package({"x": x.numpy()})
        self.assertEqual((2 * x).tolist(), got["y"].tolist())

    def test_accesses_are_those_of_the_kernel(self):
        for kernel, signature, right in (
                (twice, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"x": "r", "y": "w"}),
                (count_up, {"counts": "*i32", "x": "*i32", "n": "i32"}, {"counts": "rw", "x": "r"}),
                (sum_rows, {"x": "*fp32", "y": "*fp32", "columns": "i32"}, {"x": "r", "y": "w"})):
            _, known = self.build(kernel, signature)
            found = {name: known.accesses[name] for name in right}
            self.assertEqual(right, found, kernel)

    def test_a_name_that_two_regions_have_is_no_pointer_where_it_is_a_number(self):
        from coppice.export.ttir import accesses_of

        pointers = "tensor<8x!tt.ptr<f32>>"
        ttir = f"""
          tt.func public @both(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {{}} {{
            %sum = scf.for %i = %a to %b step %c iter_args(%s = %zero) -> (tensor<8xf32>) : i32 {{
              %2 = arith.addf %s, %1 : tensor<8xf32>
              scf.yield %2 : tensor<8xf32>
            }}
            scf.for %i = %a to %b step %c : i32 {{
              %1 = tt.splat %x : !tt.ptr<f32> -> {pointers}
              %3 = tt.load %1 : {pointers}
              %4 = tt.extern_elementwise %sum {{symbol = "__nv_rsqrtf"}} : (tensor<8xf32>) -> f32
              tt.store %y, %4 : !tt.ptr<f32>
            }}
        """
        self.assertEqual({"x": "r", "y": "w"}, accesses_of(ttir, ["x", "y"]))

    def test_the_recorded_sample_computes_what_torch_does(self):
        import triton_kernels as sample

        self.write(sample.export(["80"]))
        for rows in (1, self.source.randint(2, 60)):
            x = torch.randn(rows, sample.FEATURES)
            weights = torch.randn(sample.FEATURES, sample.CLASSES)
            normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
            got = self.run_package({"x": x.numpy(), "weights": weights.numpy()})
            difference = (torch.from_numpy(got["shares"]) - (normal @ weights).softmax(-1)).abs()
            self.assertLessEqual(float(difference.max()), 1e-5)

    def test_an_architecture_that_triton_lacks_is_refused(self):
        from coppice.export.kernels import parse_architectures
        from coppice.export.manifest import ExportError

        for text in ("99", "sm_91", "88:ptx"):
            with self.assertRaisesRegex(ExportError, f"Triton does not support .*{text}.*80, 86"):
                parse_architectures(["80", text])

    def record(self, launch, dynamic=None):
        from coppice.export.triton_recording import record

        return record(launch, {"x": torch.empty(100)}, archs=["80"],
                      dynamic=dynamic or {"x": {0: ("n", 1, 4096)}})

    def test_what_the_code_decides_by_a_size_limits_it_or_is_a_guard(self):
        def launch(x):
            y = torch.empty_like(x)
            block = 64 if x.shape[0] < 512 else 256
            block = 2 * block if x.shape[0] % 4 == 0 else block
            twice[(triton.cdiv(x.shape[0], block),)](x, y, x.shape[0], BLOCK=block)
            return y

        program = self.record(launch).programs["main"]
        self.assertEqual((1, 511), tuple(program["symbols"]["n"][key] for key in ("min", "max")))
        self.assertEqual(["n % 4 == 0"], program["guards"])

    def test_arguments_are_classified_as_triton_does(self):
        """Tuples, named ones, constants of several parts, annotated types, what is by default."""
        def launch(x):
            y, z = torch.empty_like(x), torch.empty_like(x)
            n = x.shape[0]
            scale_part[(triton.cdiv(n, 64),)](x, y, (8, 8), Part(0, 0.5), (n, (None, 3)), 0.25,
                                              z, 16)
            return y, z

        package = self.record(launch)
        step = package.programs["main"]["steps"][0]
        kinds = [next(iter(argument)) for argument in step["args"]]
        self.assertEqual(["buffer", "buffer", "i32", "f32", "i32", "i32", "f16", "buffer", "i32",
                          "null", "null"], kinds)
        self.assertEqual(["r", "w", "w"], [argument["access"] for argument in step["args"]
                                           if "access" in argument])
        self.assertEqual([16, 16, 16, None, None, None, None, 16, 16], [
            argument.get("divisible_by") for argument in step["args"][:-2]])
        self.write(package)
        x = torch.randn(self.source.randint(1, 500))
        got = self.run_package({"x": x.numpy()})
        for name, more in (("output_0", 16.25), ("output_1", 0.25)):
            torch.testing.assert_close(torch.from_numpy(got[name]), x * 1.5 + more)

    def test_views_are_offsets_of_their_buffer(self):
        def launch(x):
            y = torch.empty_like(x)
            half = x.shape[0] // 2
            twice[(triton.cdiv(half, 64),)](x[half:], y[half:], x.shape[0] - half, BLOCK=64)
            return y

        step = self.record(launch).programs["main"]["steps"][0]
        for n in (2, 77, 100):
            self.assertEqual([n // 2 * 4] * 2, [expression.evaluate(argument["offset"], {"n": n})
                                                for argument in step["args"][:2]])

    def test_what_only_torch_computes_is_refused(self):
        from coppice.export import ExportError

        with self.assertRaisesRegex(ExportError, "aten.mul"):
            self.record(lambda x: x * 2)

    def test_a_constexpr_of_a_size_that_varies_is_refused(self):
        from coppice.export import ExportError

        def launch(x):
            twice[(1,)](x, x, 5, BLOCK=x.shape[0])
            return x

        with self.assertRaisesRegex(ExportError, "BLOCK"):
            self.record(launch)


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.access(sys.argv[1], os.X_OK):
        COPPICE = sys.argv.pop(1)
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
