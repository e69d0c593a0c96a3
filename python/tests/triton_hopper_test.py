#!/usr/bin/env python3
"""Goal: what Triton compiles for sm_90 runs on the emulator: products of warpgroups, tensor
descriptors of host and device, clusters; and what is missing from it is found at its line.
Method: kernels on drawn matrices against PyTorch in float32; the PTX of one with a line dropped.

    triton_hopper_test.py [unittest's options]

Without Triton, PyTorch or the extension all is skipped.
"""

import re
import unittest

try:
    import torch
    import triton
    import triton.language as tl
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.tools.tensor_descriptor import TensorDescriptor

    import coppice
    import coppice.triton
except ImportError as error:
    raise unittest.SkipTest(f"needs Triton, PyTorch and the extension: {error}") from error

from unittest import mock

TYPES = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-3}  # And what may differ.


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, TILE: tl.constexpr):
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, TILE)
    left = a + rows[:, None] * K + depth[None, :]
    right = b + depth[:, None] * N + columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    for _ in range(0, K, TILE):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += TILE
        right += TILE * N
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def described_product(left, right, to, K, TILE: tl.constexpr):
    """All are descriptors of tiles of TILE by TILE."""
    row, column = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    total = tl.zeros((TILE, TILE), tl.float32)
    for k in range(0, K, TILE):
        total = tl.dot(left.load([row, k]), right.load([k, column]), total)
    to.store([row, column], total.to(tl.float16))


@triton.jit
def product_by_own_descriptors(a, b, c, M, N, K, TILE: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [TILE, TILE])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [TILE, TILE])
    to = tl.make_tensor_descriptor(c, [M, N], [N, 1], [TILE, TILE])
    described_product(left, right, to, K, TILE)


@triton.jit
def sum_rows(x, y, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tl.store(y + columns, tl.sum(tl.load(x + rows[:, None] * N + columns[None, :]), 0))


def matrix(*shape, dtype=torch.float16):
    return torch.randn(*shape, dtype=torch.float32).to(dtype).to("cuda")


class HopperTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.device = coppice.device("emulator")
        for scope in (coppice.triton.launching(self.device, capability=90),
                      coppice.triton.pretend_cuda()):
            self.enterContext(scope)

    def expect_product(self, c, a, b, tolerance):
        right = a.cpu().float() @ b.cpu().float()
        difference = (c.cpu().float() - right).abs().max() / right.abs().max()
        self.assertLess(difference.item(), tolerance)
        self.assertEqual([], self.device.findings())

    def test_products(self):
        for dtype, tolerance in TYPES.items():
            for m, n, k, tile in ((64, 64, 128, 64), (64, 32, 64, 16), (128, 256, 64, 32)):
                with self.subTest(dtype=dtype, m=m, n=n, k=k):
                    a, b = matrix(m, k, dtype=dtype), matrix(k, n, dtype=dtype)
                    c = torch.empty(m, n, device="cuda")
                    product[(1,)](a, b, c, k, m, n, tile, num_warps=m // 16)
                    self.expect_product(c, a, b, tolerance)

    def test_descriptors_of_the_host(self):
        m, n, k, tile = 128, 64, 192, 64
        for blocks in (1, 2):
            with self.subTest(blocks=blocks):
                a, b, c = matrix(m, k), matrix(k, n), matrix(m, n)
                described = [TensorDescriptor.from_tensor(x, [tile, tile]) for x in (a, b, c)]
                described_product[(m // tile, n // tile)](*described, k, tile, num_ctas=blocks)
                self.expect_product(c, a, b, 2e-3)

    def test_descriptors_of_the_kernel(self):
        triton.set_allocator(
            lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        m, n, k, tile = 100, 120, 88, 64  # None is a multiple of the tile.
        a, b, c = matrix(m, k), matrix(k, n), matrix(m, n)
        product_by_own_descriptors[(2, 2)](a, b, c, m, n, k, tile)
        self.expect_product(c, a, b, 2e-3)

    def test_clusters(self):
        for blocks in (2, 4):
            with self.subTest(blocks=blocks):
                x, y = matrix(128, 64, dtype=torch.float32), torch.empty(64, device="cuda")
                sum_rows[(1,)](x, y, 128, 64, num_ctas=blocks)
                torch.testing.assert_close(y.cpu(), x.cpu().sum(0), rtol=1e-5, atol=1e-4)
                self.assertEqual([], self.device.findings())

    def test_what_is_missing_is_found(self):
        make_ptx = CUDABackend.make_ptx
        for line, message in ((r"wgmma\.wait_group\.sync\.aligned\s+0;", "nothing has waited for"),
                              (r"fence\.proxy\.async\.shared::cta;", "no fence.proxy.async"),
                              (r"wgmma\.fence\.sync\.aligned;", "wgmma.fence"),
                              (r"cp\.async\.wait_group\s+\d+;", "that no thread has waited for")):
            def without(*arguments, _line=line, **named):
                text = make_ptx(*arguments, **named)
                self.assertRegex(text, _line)
                return re.sub(_line, "", text)

            # What Triton has compiled it keeps: another constant is another kernel.
            changed = triton.JITFunction(product.fn)
            with self.subTest(line=line), mock.patch.object(CUDABackend, "make_ptx", without), \
                    mock.patch.object(triton.knobs.compilation, "always_compile", True):
                device = coppice.device("emulator")
                with coppice.triton.launching(device, capability=90):
                    a, b, c = matrix(64, 128), matrix(128, 64), matrix(64, 64).float()
                    changed[(1,)](a, b, c, 128, 64, 64, 32)
                self.assertTrue(any(message in finding for finding in device.findings()),
                                device.findings())


if __name__ == "__main__":
    unittest.main()
