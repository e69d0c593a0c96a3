#!/usr/bin/env python3
"""Goal: what synchronizes threads, copies and products in the PTX that Triton makes is missed at
its line if it is gone, for sm_80 and sm_90. Method: kernels run once as they are and once for each
line that may be dropped or changed. A mutant has to be found, or to be in the table of lines that
nothing needs, whose results are then those of the kernel as it is. A descriptor that names other
bytes of the block's own breaks no rule; then the result has to differ.

    triton_mutants_test.py [unittest's options]

With COPPICE_TEST_SHARE=ci every seventh mutant runs. Without Triton, PyTorch or the extension all
is skipped.
"""

import os
import re
import tempfile
import unittest
from unittest import mock

try:
    import torch
    import triton
    import triton.language as tl
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.tools.tensor_descriptor import TensorDescriptor

    import coppice
    import coppice.triton
    from triton_hopper_test import described_product, matrix, product, sum_rows
except ImportError as error:
    raise unittest.SkipTest(f"needs Triton, PyTorch and the extension: {error}") from error

SHARE = 1 if os.environ.get("COPPICE_TEST_SHARE", "1") == "1" else 7

# What is changed: a pattern, and what it becomes; None: nothing.
CHANGES = {
    "barrier": (r"\t(bar|barrier)\.sync[^;]*;", ""),
    "cluster": (r"\tbarrier\.cluster[^;]*;", ""),
    "wait": (r"\tcp\.async\.(bulk\.)?wait_group[^;]*;", ""),
    "commit": (r"\tcp\.async\.(bulk\.)?commit_group;", ""),
    "proxy fence": (r"\tfence\.proxy[^;]*;", ""),
    "product's wait": (r"\twgmma\.wait_group[^;]*;", ""),
    "product's fence": (r"\twgmma\.fence[^;]*;", ""),
    "product's commit": (r"\twgmma\.commit_group[^;]*;", ""),
    "mbarrier": (r"\t@%p\d+ mbarrier\.init[^;]*;", ""),
    "bytes": (r"(expect_tx[^;]*, )(\d+);", lambda found: f"{found[1]}{int(found[2]) + 16};"),
    "parity": (r"(mbarrier\.try_wait\.parity[^;]*), (%r\d+);",
               lambda found: "{ .reg .b32 %flipped; xor.b32 %flipped, " + found[2] + ", 1; "
               + found[1] + ", %flipped; }"),
    "descriptor": (r"(or\.b64 \t%rd\d+, %rd\d+, )(\d{15,});",
                   lambda found: f"{found[1]}{int(found[2]) + 64};"),
    "mask": (r"\t@%p\d+ ((ld|st)\.global[^;]*;)", lambda found: "\t" + found[1]),
}
# Mutants that change nothing at these sizes, by architecture, kernel and change: which, and why.
NEEDLESS = {
    (80, "product", "barrier"): ({1}, "the loop has waited, and met, at its end"),
    (80, "product", "wait"): ({1, 2, 3}, "another wait of the loop stands for each"),
    (80, "product", "commit"): ({0}, "its copies join the next group"),
    (80, "softmax", "mask"): ({0, 1, 2, 4, 5, 6}, "all of these threads have an element"),
    (90, "softmax", "mask"): ({0, 1, 2, 4, 5, 6}, "all of these threads have an element"),
    (90, "rows", "mask"): ({0}, "the other threads store the same"),
    (90, "product", "commit"): ({0}, "its copies join the next group"),
    (90, "described", "barrier"): (
        set(range(12)) | {13}, "mbarriers order the rest, and no buffer is used twice"),
    (90, "described", "product's wait"): ({0}, "there is no product before the first"),
    (90, "rows", "cluster"): ({1}, "no block ends while another one reads in this order"),
}


@triton.jit
def softmax(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.program_id(0) * n
    values = tl.load(x + row + at, mask=at < n, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + at, values / tl.sum(values, 0), mask=at < n)


@triton.jit
def transpose(x, y, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(y + columns[:, None] * M + rows[None, :], tl.trans(tile))


@triton.jit
def scan(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.cumsum(tl.load(x + at), 0))


def floats(*shape):
    return torch.randn(*shape, device="cuda")


def product_launch():
    c = floats(64, 64)
    return product, (1,), (matrix(64, 128), matrix(128, 64), c, 128, 64, 64, 32), {
        "num_stages": 3}, c


def softmax_launch():
    y = floats(4, 500)
    return softmax, (4,), (floats(4, 500), y, 500, 512), {}, y


def transpose_launch():
    y = floats(32, 64)
    return transpose, (1,), (floats(64, 32), y, 64, 32), {}, y


def scan_launch():
    y = floats(1024)
    return scan, (1,), (floats(1024), y, 1024), {}, y


def described_launch():
    tensors = matrix(128, 192), matrix(192, 64), matrix(128, 64)
    described = [TensorDescriptor.from_tensor(tensor, [64, 64]) for tensor in tensors]
    return described_product, (2, 1), (*described, 192, 64), {}, tensors[-1]


def rows_launch():
    y = floats(64)
    return sum_rows, (1,), (floats(128, 64), y, 128, 64), {"num_ctas": 2}, y


LAUNCHES = {"product": product_launch, "softmax": softmax_launch, "transpose": transpose_launch,
            "scan": scan_launch, "described": described_launch, "rows": rows_launch}
OF_HOPPER = ("described", "rows")


class MutantsTest(unittest.TestCase):
    def setUp(self):
        # What is compiled here is none of the kernels that others find in Triton's cache.
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch.object(triton.knobs.cache, "dir", folder))
        self.enterContext(mock.patch.object(triton.knobs.compilation, "always_compile", True))

    def run_as(self, launch, capability, edit=lambda text: text):
        """The PTX, what is found, and the result; None if the launch fails."""
        make_ptx, texts = CUDABackend.make_ptx, []

        def edited(*arguments, **named):
            texts.append(make_ptx(*arguments, **named))
            return edit(texts[-1])

        coppice.reset_device()
        torch.manual_seed(1)
        device = coppice.device("emulator")
        since = device.finding_count()
        with mock.patch.object(CUDABackend, "make_ptx", edited), \
                coppice.triton.launching(device, capability=capability), \
                coppice.triton.pretend_cuda():
            kernel, grid, arguments, options, result = launch()
            try:
                triton.JITFunction(kernel.fn)[grid](*arguments, **options)
            except coppice.Error as error:
                return texts[0], [str(error)], None
            return texts[0], device.findings(since), result.cpu().clone()

    def mutants(self, text):
        """(change, number, the changed text) of each."""
        for change, (pattern, other) in CHANGES.items():
            for number, found in enumerate(re.finditer(pattern, text)):
                instead = other(found) if callable(other) else other
                yield change, number, text[:found.start()] + instead + text[found.end():]

    def check(self, capability, name):
        launch = LAUNCHES[name]
        text, found, right = self.run_as(launch, capability)
        self.assertEqual([], found)
        all_mutants = list(self.mutants(text))
        self.assertTrue(all_mutants)
        for change, number, mutant in all_mutants[::SHARE]:
            needless, _ = NEEDLESS.get((capability, name, change), ((), ""))
            with self.subTest(capability=capability, kernel=name, change=change, number=number):
                _, found, result = self.run_as(launch, capability, lambda _, to=mutant: to)
                if number in needless:
                    self.assertEqual([], found)
                    torch.testing.assert_close(result, right, rtol=0, atol=0)
                elif change == "descriptor" and not found:
                    self.assertFalse(torch.equal(result, right))
                    self.differ += 1
                else:
                    self.assertTrue(found)
                    self.assertRegex(found[0], rf"kernel \w+, block .*PTX line \d+, .*\.py:\d+")
                    self.found += 1

    def test_each_line_is_missed(self):
        self.found = self.differ = 0
        for capability in (80, 90):
            for name in LAUNCHES:
                if capability == 90 or name not in OF_HOPPER:
                    self.check(capability, name)
        print(f"{self.found} mutants are found at their lines; {self.differ} break no rule, and "
              "compute something else")
        self.assertGreater(self.found, 60 // SHARE)


if __name__ == "__main__":
    unittest.main()
