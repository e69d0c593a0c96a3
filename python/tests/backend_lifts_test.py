#!/usr/bin/env python3
"""Goal: `torch.compile(backend="coppice")` lifts functions whose sizes are computed in odd ways,
whose tensors are numbers of the host or complex, and whose expressions are large; what it cannot
lift costs one compilation, and the report says what ran.
Method: functions are called at several sizes; results, with their strides, are compared with those
of eager PyTorch, and the report is held to what was to be lifted.

    backend_lifts_test.py [unittest's options]

Without torch, or without the extension, all is skipped.
"""

import math
import os
import random
import sys
import unittest
from unittest import mock

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
TOLERANCE = 1e-5  # Of sums of up to some hundred products, in another order.

try:
    import torch
    import torch.nn.functional as F

    import sympy
    from torch._inductor.runtime import hints, triton_heuristics
    from torch.utils._sympy.functions import (CeilToInt, FloatPow, FloatTrueDiv, FloorDiv,
                                              FloorToInt, IntTrueDiv, Mod, OpaqueUnaryFn_sqrt,
                                              PythonMod, ToFloat, TruncToInt)

    import attention_kernels
    import coppice.torch
    from coppice.export import inductor
    from coppice.export.expressions import text_of
    from coppice.export.manifest import ExportError
    from coppice.export.sizes import in_whole_chunks
    from coppice.torch import compiler, graph, lowering, reports
except ImportError:
    torch = None


@unittest.skipUnless(torch, "torch or the extension is not there")
class BackendLiftsTest(unittest.TestCase):
    def setUp(self):
        random.seed(SEED)
        torch._dynamo.reset()
        torch.manual_seed(SEED % (1 << 32))

    @staticmethod
    def compiled(function):
        return torch.compile(function, backend=coppice.torch.backend, dynamic=True)

    def check(self, function, *calls, with_calls=False, graphs=None):
        """Compares results of the function, compiled and not, for each tuple of arguments, and
        holds all its graphs to being lifted, but for calls of operators."""
        compiled = self.compiled(function)
        for arguments in calls:
            with torch.no_grad():
                self.compare(compiled(*arguments), function(*arguments))
        for one in coppice.torch.report(compiled):
            self.assertEqual((True, 0), (one.lifted, one.refused), one)
            self.assertTrue(with_calls or not one.calls, one)
        if graphs is not None:
            self.assertEqual(graphs, len(coppice.torch.report(compiled)))
        return compiled

    def compare(self, got, right):
        if isinstance(right, (tuple, list)):
            self.assertEqual(len(right), len(got))
            for one, other in zip(got, right):
                self.compare(one, other)
        elif isinstance(right, torch.Tensor):
            self.assertEqual((right.shape, right.dtype, right.stride()),
                             (got.shape, got.dtype, got.stride()))
            torch.testing.assert_close(got, right, atol=TOLERANCE, rtol=TOLERANCE)
        else:
            self.assertEqual(right, got)

    # Sizes that are computed.

    def test_sizes_that_are_rounded_fractions(self):
        def steps(x):
            n = x.shape[0]
            return (torch.arange(n, -n, -1.0).float() * 2 + x.sum(),
                    torch.arange(0.5, n, dtype=x.dtype), torch.arange(0, n, 0.25),
                    torch.arange(0, n, 0.1), torch.arange(n, 0.5, -0.3))

        self.check(steps, *[(torch.randn(n),) for n in (3, 5, 8)])

    def test_attention_whose_results_are_sizes_too(self):
        """As PyTorch's kernels for GPUs give them back; their backward passes take them."""
        aten = torch.ops.aten

        def flash(query, key, value):
            made, *_ = aten._scaled_dot_product_flash_attention(query * 2, key, value, 0.0, True)
            return made + 1

        def cudnn(query, key, value):
            made, *_ = aten._scaled_dot_product_cudnn_attention(query * 2, key, value, None, True)
            return made + 1

        def drawn(length, other, **options):
            return [torch.randn(2, 4, n, 16, dtype=torch.bfloat16, **options)
                    for n in (length, other, other)]

        with attention_kernels.installed():
            for attend in (flash, cudnn):
                with self.subTest(attend.__name__):
                    torch._dynamo.reset()
                    calls = [drawn(*sizes) for sizes in ((8, 24), (16, 24), (8, 40))]
                    self.check(attend, *calls, with_calls=True)
                    compiled = self.compiled(attend)
                    for sizes in ((8, 24), (16, 40)):
                        given = drawn(*sizes, requires_grad=True)
                        got, right = compiled(*given), attend(*given)
                        self.compare(got, right)
                        weight = torch.randn_like(right)
                        self.compare(*(torch.autograd.grad(one, given, weight)
                                       for one in (got, right)))
                    reports = coppice.torch.report(compiled)
                    self.assertEqual({("forward", True, 0), ("backward", True, 0)}, {
                        (one.kind, one.lifted, one.refused) for one in reports})

    def test_searches_find_nans_where_eager_pytorch_does(self):
        def search(x, bounds):
            return torch.searchsorted(bounds, x), torch.bucketize(x, bounds, right=True)

        bounds, nan = torch.tensor([-1.0, 0.0, 2.0, math.nan]), torch.tensor([math.nan])
        self.check(search, *[(torch.cat([torch.randn(n), nan]), bounds) for n in (3, 5, 8)],
                   with_calls=True)

    def test_results_of_sizes_times_a_fraction(self):
        for scale in (1.5, 0.25):
            with self.subTest(scale=scale):
                torch._dynamo.reset()
                self.check(lambda x, scale=scale: F.interpolate(x, scale_factor=scale),
                           *[(torch.randn(2, 3, n, 9),) for n in (8, 11, 13)])

    def test_sizes_that_are_quotients_rounded_up(self):
        def padded(x):
            wanted = math.ceil(x.shape[1] / 4) * 4
            return F.pad(x, (0, wanted - x.shape[1])).view(x.shape[0], -1, 4).sum(-1)

        self.check(padded, *[(torch.randn(b, n),) for b, n in ((2, 7), (3, 8), (4, 13))])

    def test_sizes_that_are_padded_to_whole_chunks(self):
        def chunked(x):
            b, n, d = x.shape
            padded = F.pad(x, (0, 0, 0, (8 - n % 8) % 8))
            chunks = padded.reshape(b, -1, 8, d)
            sums = chunks.cumsum(2) + chunks.sum(2, keepdim=True).cumsum(1)
            return sums.reshape(b, -1, d)[:, :n] * padded.shape[1], chunks.shape[1]

        self.check(chunked, *[(torch.randn(b, n, 3),) for b, n in ((2, 13), (3, 21), (4, 6))])

    def test_remainders_of_padding_are_whole_chunks(self):
        n = sympy.Symbol("n", integer=True, positive=True)
        for kind in (PythonMod, Mod):
            padded = n + kind(8 - kind(n, 8), 8)
            for expression, text in ((padded, "8 * ((n + 7) // 8)"),
                                     (FloorDiv(padded, FloorDiv(padded, 8)), 8),
                                     (kind(7 - kind(n, 8), 8), "(7 - n % 8) % 8")):
                short = in_whole_chunks(expression)
                self.assertEqual(text, text_of(short))
                for size in range(1, 40):
                    self.assertEqual(expression.subs(n, size), short.subs(n, size))

    def test_fractions_are_integers_only_where_none_is_rounded(self):
        n = sympy.Symbol("n", integer=True, positive=True)
        m = sympy.Symbol("m", integer=True)
        number = sympy.Float
        for expression, text in (
                (TruncToInt(1.5 * ToFloat(n)), "3 * n // 2"),
                (TruncToInt(1.5 * ToFloat(m)), "select(3 * m < 0, ceildiv(3 * m, 2), 3 * m // 2)"),
                (CeilToInt(FloatTrueDiv(ToFloat(-2 * n), number(-1.0))), "2 * n"),
                (CeilToInt(FloatTrueDiv(ToFloat(n) - 0.5, number(3.0))), "ceildiv(2 * n - 1, 6)"),
                (CeilToInt(FloatTrueDiv(ToFloat(n), number(0.1))), "10 * n"),
                (CeilToInt(FloatTrueDiv(ToFloat(-2 * n), number(-0.3))), "ceildiv(20 * n, 3)"),
                (FloorToInt(FloatTrueDiv(ToFloat(m * n), number(0.05))), "20 * m * n"),
                (TruncToInt(FloatPow(ToFloat(n**2), number(0.5))), "n"),
                (CeilToInt(OpaqueUnaryFn_sqrt(ToFloat(FloorDiv(n, 2)**2))), "n // 2"),
                (TruncToInt(1.5 * OpaqueUnaryFn_sqrt(ToFloat(m**2))), None),
                (TruncToInt(IntTrueDiv(m * n, n + 1)), None)):
            with self.subTest(expression=expression):
                found = text_of(expression)
                self.assertIn(text, (None, found))
                run = lowering.evaluator(["n", "m"], [found])
                for _ in range(200):
                    bits = random.randrange(2, 32)
                    sizes = random.randrange(1, 1 << bits), random.randrange(-9, 9)
                    self.assertEqual(int(expression.subs({n: sizes[0], m: sizes[1]})),
                                     run(*sizes)[0], sizes)
        for expression in (TruncToInt(0.7 * ToFloat(n)), ToFloat(n), number(1.5) * n,
                           CeilToInt(FloatTrueDiv(ToFloat(n), number(0.7))),  # 31 of 21.
                           TruncToInt(FloatPow(ToFloat(n), number(0.5))),
                           FloorToInt(FloatTrueDiv(IntTrueDiv(n, 3), number(2)))):
            with self.subTest(expression=expression), self.assertRaises(ExportError):
                text_of(expression)

    def test_sizes_that_become_fixed_are_results(self):
        def fixed_by_view(x):
            n = x.size(1)
            y = x.view(x.size(0), 4, 8)
            torch._dynamo.graph_break()
            return y * n

        def fixed_by_product(x, w):
            n = x.size(1)
            y = x @ w
            torch._dynamo.graph_break()
            return y * n

        self.check(fixed_by_view, *[(torch.randn(b, 32),) for b in (3, 5, 6)])
        torch._dynamo.reset()
        self.check(fixed_by_product,
                   *[(torch.randn(b, 32), torch.randn(32, 8) / 32) for b in (3, 5, 6)])

    # Numbers of the host.

    def test_tensors_made_of_sizes_alone(self):
        def chunks(x, w):
            n = torch.div(x.size(1), w * 2, rounding_mode="trunc")
            return x.view(x.size(0), n, w * 2, x.size(2)).sum(1)

        def halves(x):
            s = torch.div(x.size(0), 2, rounding_mode="trunc")
            y = x.transpose(0, 1)
            torch._dynamo.graph_break()
            return y * s

        def number(x):
            return x * torch.tensor(x.shape[0]) + torch.tensor(2.0), torch.scalar_tensor(
                x.shape[1] * 0.5)

        self.check(chunks, *[(torch.randn(b, n, 8), 2) for b, n in ((2, 8), (3, 12), (4, 16))])
        for function in (halves, number):
            torch._dynamo.reset()
            self.check(function, *[(torch.randn(b, 32),) for b in (3, 5, 6)])

    def test_graphs_without_tensors(self):
        def sizes(x):
            n = x.shape[0] * 2 + 1
            torch._dynamo.graph_break()
            return x.sum() + n

        self.check(sizes, *[(torch.randn(n),) for n in (3, 5, 8)])

    # Complex numbers, and copies.

    def test_transforms_to_complex_numbers_and_back(self):
        def mixed(x):
            return torch.fft.fftn(x, dim=(0, 1)).real + x

        def filtered(x):
            return torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[-1]), torch.fft.rfft(x).abs()

        for function in (mixed, filtered):
            torch._dynamo.reset()
            self.check(function, *[(torch.randn(n, 8),) for n in (4, 6, 7)],
                       with_calls=True)

    def test_rotations_by_complex_numbers(self):
        def rotate(x):
            angles = torch.arange(x.shape[1])[:, None] * 0.1 * torch.ones(x.shape[2] // 2)
            turns = torch.polar(torch.ones(x.shape[1], x.shape[2] // 2), angles)
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turns).flatten(2)

        self.check(rotate, *[(torch.randn(b, n, 16),) for b, n in ((2, 8), (3, 8), (2, 5))],
                   with_calls=True)

    def test_complex_arguments_and_results(self):
        def turned(z, w):
            return z * w + 1j, z.conj(), (z @ w.mT).sum(), z.real * 2, z

        def drawn(n, dtype=torch.complex64):
            return torch.randn(n, 6, dtype=dtype)

        self.check(turned, *[(drawn(n), drawn(n)) for n in (4, 6, 7)],
                   *[(drawn(n), drawn(6).mT[:n]) for n in (3, 5)],
                   (drawn(3, torch.complex128), drawn(3, torch.complex128)),
                   with_calls=True)

    def test_complex_arguments_that_are_written(self):
        def grow(z, x):
            z.mul_(x)
            return z.abs()

        compiled = self.compiled(grow)
        for n in (3, 5, 6):
            z, x = torch.randn(n, 4, dtype=torch.complex64), torch.randn(n, 1)
            known = z.clone()
            self.compare((compiled(z, x), z), (grow(known, x), known))
        (one,) = coppice.torch.report(compiled)
        self.assertTrue(one.lifted, one)

    def test_sums_of_two_products_of_matrices(self):
        self.check(lambda x, w: (x @ w + x.sin() @ w).relu(),
                   *[(torch.randn(n, 4), torch.randn(4, 5)) for n in (3, 5, 6)])

    # Maxima, refusals, attempts.

    def test_sizes_whose_products_are_too_large_get_a_maximum(self):
        def spread(x, y):
            return x[:, :, None, None] * y, x.shape[0] * x.shape[1] * y.shape[0]

        compiled = self.compiled(spread)
        for a, b, c, d in ((2, 3, 4, 5), (3, 5, 2, 4), (7, 2, 5, 3)):
            x, y = torch.randn(a, b), torch.randn(c, d)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=(1 << 31) - 1)  # As guards on indices say.
            with torch.no_grad():
                self.compare(compiled(x, y), spread(x, y))
        (one,) = coppice.torch.report(compiled)
        self.assertEqual((True, 0), (one.fully_lifted, one.refused), one)
        self.assertEqual({"x:0", "x:1", "y:0", "y:1"}, set(one.limits))
        (limit,) = set(one.limits.values())
        self.assertLess(limit ** 4, 1 << 59, "elements of all four axes, with 16 bytes each")
        self.assertGreaterEqual((2 * limit) ** 4, 1 << 59, "the largest power of two")
        self.assertEqual(one.limits, {name: high for name, (_, high) in one.symbols.items()})

    def test_sizes_that_need_no_maximum_get_none(self):
        compiled = self.check(lambda x: x * 2, *[(torch.randn(n, 4),) for n in (3, 5, 6)])
        self.assertEqual([{}], [one.limits for one in coppice.torch.report(compiled)])

    def test_refused_calls_are_counted_by_reason(self):
        compiled = self.compiled(lambda x: x * 2 + 1)
        small, large = torch.randn(5, 3, 2), torch.randn(1 << 20, 2, 2)
        with torch.no_grad():
            compiled(small)
            (one,) = coppice.torch.report(compiled)
            self.assertLess(one.limits["x:0"], len(large))
            for _ in range(2):
                with mock.patch.object(reports, "told", set()), self.assertLogs("coppice"):
                    self.compare(compiled(large), large * 2 + 1)
            self.assertEqual((3, 2, [2]), (one.runs, one.refused, [*one.refusals.values()]))
            self.assertRegex(next(iter(one.refusals)), str(len(large)))
            self.assertEqual(one.refusals, coppice.torch.stats(compiled)["refusals"])
        self.assertTrue(one.fully_lifted)

    def test_a_graph_that_refused_every_call_is_not_fully_lifted(self):
        compiled = self.compiled(lambda x: x * 2 + 1)
        with torch.no_grad(), mock.patch.object(
                graph.LiftedGraph, "run", side_effect=coppice.OutOfRange("too large")):
            x = torch.randn(5, 3)
            self.compare(compiled(x), x * 2 + 1)
        (one,) = coppice.torch.report(compiled)
        self.assertEqual((True, False, {"too large": 1}),
                         (one.lifted, one.fully_lifted, one.refusals))
        self.assertEqual(0, coppice.torch.stats(compiled)["fully_lifted"])
        with torch.no_grad():
            self.compare(compiled(x), x * 2 + 1)
        self.assertTrue(one.fully_lifted)

    def test_reasons_of_refusals_are_bounded(self):
        one = reports.GraphReport("f", "inference")
        for size in range(3 * reports.REFUSALS_MAX):
            one.refuse(f"{size} is too large")
        self.assertEqual(3 * reports.REFUSALS_MAX, sum(one.refusals.values()))
        self.assertEqual(reports.REFUSALS_MAX + 1, len(one.refusals))

    def test_a_compilation_is_repeated_only_for_what_that_mends(self):
        prologue, template = (next(iter(patches)) for patches, _ in compiler.ATTEMPTS[1:])
        for kind, expected in ((ExportError, []), (inductor.CompilerError, []),
                               (inductor.TemplateError, [template]),
                               (inductor.PrologueError, [prologue, template])):
            torch._dynamo.reset()
            with self.subTest(kind=kind), mock.patch.object(
                    compiler, "lower", side_effect=kind("no kernel")) as lowered:
                compiled = self.compiled(lambda x: x * 2)
                with torch.no_grad():
                    compiled(torch.randn(4))
                patches = [call.args[6] for call in lowered.call_args_list]
                self.assertEqual([{}, *expected], [{} if not one else next(iter(one))
                                                   for one in patches])
                self.assertEqual([(False, ["no kernel"])],
                                 [(one.lifted, one.reasons)
                                  for one in coppice.torch.report(compiled)])

    def test_a_product_of_integers_is_an_operator_of_pytorch(self):
        compiled = self.check(lambda x, y: x @ y + 1, *[
            (torch.randint(-9, 9, (n, 4)), torch.randint(-9, 9, (4, 5))) for n in (3, 5, 6)],
                              with_calls=True)
        (one,) = coppice.torch.report(compiled)
        self.assertEqual((0, ["aten.mm.out"]), (one.gemms, one.calls))

    def test_a_template_that_does_not_compile_is_an_operator_of_pytorch(self):
        make = triton_heuristics.CachingAutotuner._precompile_worker

        def fail_for_templates(tuner):
            if tuner.heuristic_type == hints.HeuristicType.TEMPLATE:
                raise RuntimeError("no template here")
            make(tuner)

        weights = torch.randn(16, 8)
        with mock.patch.object(triton_heuristics.CachingAutotuner, "_precompile_worker",
                               fail_for_templates), \
                mock.patch.object(compiler, "lower", wraps=compiler.lower) as lowered:
            compiled = self.check(lambda x: (x @ weights).relu(),
                                  *[(torch.randn(n, 16),) for n in (3, 5, 6)])
        (one,) = coppice.torch.report(compiled)
        self.assertEqual((1, 2), (one.gemms, lowered.call_count))


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
