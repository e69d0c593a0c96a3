#!/usr/bin/env python3
"""Goal: `torch.compile(backend="coppice")` computes what eager PyTorch computes, on the emulator.
Method: functions and modules are called at sizes that change, before and after compiling; results,
arguments that are written and gradients are compared, with strides, and the report is held to what
was to be lifted. Whatever the emulator finds in kernels is an error of the call.

    backend_test.py [unittest's options]

Without torch, or without the extension, all is skipped.
"""

import copy
import gc
import os
import pathlib
import random
import sys
import threading
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
TOLERANCE = 1e-5  # Of sums of up to some hundred products, in another order.

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    import coppice.torch
    from coppice.torch import graph
    from coppice.torch import session as shared
except ImportError:
    torch = None
    nn = None

Module = nn.Module if nn else object


class Convolutions(Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 6, 3, stride=2)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, images):
        return self.second(F.relu(self.norm(self.first(images)))).mean((-1, -2))


class Attention(Module):
    def __init__(self):
        super().__init__()
        self.table, self.lift = nn.Embedding(50, 32), nn.Linear(32, 96)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        x = self.table(tokens)
        parts = self.lift(x).view(*x.shape[:2], 3, 2, 16).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.head(mixed.transpose(1, 2).reshape(x.shape))


class Counting(Module):
    """A buffer that counts calls, and a weight that lies in another's storage."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(16, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.lift(x) * self.calls


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))


class Turned(torch.autograd.Function if torch else object):
    """The identity, whose gradient goes through numbers that no package has."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient * scaled(gradient * 0 + 1)


def scaled(x):
    """Powers of two of a type that no package has."""
    return x.to(torch.float8_e8m0fnu).float()


def compiled_at_zero(compiled, x):
    """What a function gives for zeros, by the random numbers that the test begins with."""
    torch.manual_seed(SEED % (1 << 32))
    return compiled(torch.zeros_like(x).requires_grad_())


def tensors_in(value):
    return value if isinstance(value, (tuple, list)) else (value,)


@unittest.skipUnless(torch, "torch or the extension is not there")
class BackendTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(SEED % (1 << 32))

    def compiled(self, function, dynamic=True, **options):
        return torch.compile(function, backend=coppice.torch.backend, dynamic=dynamic,
                             options=options or None)

    def near(self, got, right, name="", strides=True):
        self.assertEqual((right.shape, right.dtype), (got.shape, got.dtype), name)
        if strides:
            self.assertEqual(right.stride(), got.stride(), name)
        tolerance = TOLERANCE if right.dtype in (torch.float32, torch.float64) else 2e-2
        torch.testing.assert_close(got.float(), right.float(), atol=tolerance, rtol=tolerance,
                                   equal_nan=True, msg=lambda text: f"{name}: {text}")

    def check(self, function, *calls, lifted=True, dynamic=True, **options):
        """Calls the function and its compiled self twice with each tuple of arguments, and compares
        results and arguments. Returns the compiled one."""
        compiled = self.compiled(function, dynamic, **options)
        for arguments in calls:
            given, known = copy.deepcopy(arguments), copy.deepcopy(arguments)
            for _ in range(2):
                with torch.no_grad():
                    right, got = function(*known), compiled(*given)
                self.compare(got, right)
                self.compare(given, known)
        if lifted is not None:
            for one in coppice.torch.report(compiled):
                self.assertEqual((lifted, []), (one.fully_lifted, one.reasons if lifted else []))
        return compiled

    def compare(self, got, right):
        got, right = tensors_in(got), tensors_in(right)
        self.assertEqual(len(right), len(got))
        for index, (one, other) in enumerate(zip(got, right)):
            if isinstance(other, torch.Tensor):
                self.near(one, other, f"{index}")
            else:
                self.assertEqual(other, one)

    # What is computed.

    def test_mlp_replays_from_the_second_call_of_a_size_on(self):
        compiled = self.check(mlp().eval(), *[(torch.randn(n, 16),) for n in (5, 9, 5, 17)])
        (one,) = coppice.torch.report(compiled)
        self.assertEqual({"args[0]:0"}, set(one.symbols))
        self.assertEqual(8, one.runs)

    def test_convolutions_are_triton_templates(self):
        self.check(Convolutions().eval(), (torch.randn(4, 3, 12, 16),),
                   (torch.randn(17, 3, 9, 11),))

    def test_lstm_cell(self):
        self.check(nn.LSTMCell(16, 32), (torch.randn(5, 16),), (torch.randn(3, 16),))

    def test_attention_with_an_embedding(self):
        self.check(Attention(), *[(torch.randint(0, 50, shape),) for shape in ((2, 7), (3, 11))])

    def test_attention_of_four_sizes_that_vary(self):
        def attend(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        self.check(attend, *[tuple(torch.randn(2, 3, n, 16) for _ in range(3)) for n in (10, 20)])

    def test_sizes_of_one_and_zero_are_compiled_apart(self):
        compiled = self.check(mlp().eval(), *[(torch.randn(n, 16),) for n in (3, 1, 0, 4)],
                              lifted=None)
        counts = coppice.torch.stats(compiled)
        self.assertEqual((3, 2), (counts["graphs"], counts["recompiles"]))
        reasons = [one.recompiled for one in coppice.torch.report(compiled)]
        self.assertEqual("", reasons[0])
        self.assertRegex(reasons[1], "size")

    def test_types_of_all_kinds(self):
        def mix(a, b, c, d):
            return a.float() + b + c.to(torch.bfloat16), (c > 1) & d, c.to(torch.int8) - 1

        self.check(mix, (torch.randn(4, 4).half(), torch.randn(4, 4), torch.arange(4),
                         torch.tensor([True, False, True, True])))

    def test_bfloat16(self):
        self.check(mlp().bfloat16().eval(), (torch.randn(5, 16).bfloat16(),))

    def test_integers_and_fractions_among_the_arguments(self):
        def scale(x, times, more, twice):
            return x * times + more if twice else x

        compiled = self.check(scale, *[(torch.randn(n, 8), n, n / 3, True) for n in (7, 9)])
        self.assertEqual(1, coppice.torch.stats(compiled)["graphs"])

    def test_integers_among_the_results(self):
        self.check(lambda x: (x.shape[0] * 2, x + x.shape[0], None, x.shape[1]),
                   (torch.randn(5, 8),), (torch.randn(7, 8),))

    def test_tied_sizes_are_one_symbol(self):
        compiled = self.check(lambda a, b: a + b[:, None],
                              *[(torch.randn(n, 8), torch.randn(n)) for n in (5, 6)])
        (one,) = coppice.torch.report(compiled)
        self.assertEqual({"a:0", "a:1"}, set(one.symbols))

    def test_strides_of_all_kinds(self):
        def twice(x):
            return x * 2 + 1

        base = torch.randn(6, 10)
        for arguments in (base.t(), base[:, ::2], base[:1].expand(6, 10), base[2:, 3:],
                          base.as_strided((5, 4), (1, 8)), base.as_strided((5, 4), (2, 1)),
                          torch.tensor(3.0), torch.randn(0, 4)):
            with self.subTest(shape=arguments.shape, strides=arguments.stride()):
                torch._dynamo.reset()
                self.check(twice, (arguments,))

    def test_results_that_are_views(self):
        def views(x, y):
            z = x + 1
            return x, x.t(), x[1:], z, z.t(), z[0], y

        self.check(views, (torch.randn(5, 8), torch.randn(3)), (torch.randn(7, 8), torch.randn(2)))
        x = torch.randn(5, 8)
        with torch.no_grad():
            same, turned, *_ = self.compiled(views)(x, torch.randn(3))
        self.assertEqual((x.data_ptr(),) * 2, (same.data_ptr(), turned.data_ptr()))

    def test_parts_of_one_result_share_its_storage(self):
        def parts(x):
            y = x * 2
            return y[:2], y[1:]

        self.check(parts, (torch.randn(3, 4),), (torch.randn(5, 4),))
        with torch.no_grad():
            head, tail = self.compiled(parts)(torch.zeros(3, 4))
        head.add_(1)
        self.assertEqual(4, float(tail.sum()))

    def test_kernels_of_few_elements_race_with_nobody(self):
        def sums(x, y):
            y[1:].mul_(2)
            return x.sum() + y.sum(), y[:1] + y[1:].sum()

        self.check(sums, (torch.randn(2), torch.randn(5, 4)), (torch.randn(9), torch.randn(3, 4)))

    def test_integers_that_only_the_host_reads_are_no_keys(self):
        def sizes(x, y):
            return x * 2, y.shape[0] * 3

        compiled = self.check(sizes, *[(torch.randn(4, 5), torch.randn(n)) for n in (7, 9)])
        (one,) = coppice.torch.report(compiled)
        self.assertEqual({(4, 5)}, self.buckets_of(one))

    def test_constants_of_the_function(self):
        table = torch.randn(8, 3)
        self.check(lambda x: x @ table + torch.tensor([1.0, 2.0, 3.0]) * torch.tensor(0.5),
                   (torch.randn(5, 8),), (torch.randn(6, 8),))

    def test_a_function_without_tensors(self):
        self.check(lambda: torch.arange(12).view(3, 4) * 2.5, ())

    # What is written.

    def test_arguments_written_in_place(self):
        def update(x, y):
            x.add_(y)
            y[1:] = 0
            return x.sum(0)

        self.check(update, (torch.randn(5, 8), torch.randn(5, 8)))

    def test_a_cache_written_in_place(self):
        def store(cache, positions, rows):
            cache[positions] = rows
            return cache.sum(0)

        self.check(store, *[(torch.zeros(40, 16), torch.randperm(40)[:n], torch.randn(n, 16))
                            for n in (3, 6)])

    def test_a_cache_that_lies_where_it_always_lies(self):
        cache, known = torch.zeros(40, 16), torch.zeros(40, 16)
        torch._dynamo.mark_static_address(cache)

        def store(cache, positions, rows):
            cache[positions] = rows
            return cache.sum(0)

        compiled = self.compiled(store)
        for n in (3, 6, 3):
            positions, rows = torch.randperm(40)[:n], torch.randn(n, 16)
            cache[0] = known[0] = n  # Written by the caller between calls.
            with torch.no_grad():
                self.near(compiled(cache, positions, rows), store(known, positions, rows))
            self.near(cache, known)

    def test_buffers_that_begin_between_others_are_written(self):
        """Their addresses are no multiples of 16 bytes, which kernels are compiled for."""
        class Rows(nn.Module):
            def __init__(self, first):
                super().__init__()
                self.register_buffer("rows", torch.arange(9).half()[first:])

            def forward(self, x):
                self.rows.add_(1)
                return x * self.rows[:1], self.rows[1:]

        for first in (0, 1, 3, 8):
            module, known = Rows(first), Rows(first)
            compiled = self.compiled(module)
            with torch.no_grad():
                for n in (5, 7, 5):
                    self.compare(compiled(torch.ones(n, 2)), known(torch.ones(n, 2)))
                    self.near(module.rows, known.rows)
            (one,) = coppice.torch.report(compiled)
            self.assertEqual((True, 0), (one.fully_lifted, one.refused))

    def test_buffers_and_weights_that_change_between_calls(self):
        module = Counting()
        other = copy.deepcopy(module)
        compiled = self.compiled(module)
        for step in range(4):
            x = torch.randn(5, 16)
            with torch.no_grad():
                self.near(compiled(x), other(x))
                for one in (module, other):
                    one.lift.weight += step
                    one.lift.bias.data.fill_(step)
        self.assertEqual(4, float(module.calls))

    # Gradients.

    def train(self, make, draw, steps=4, lifted=True, **options):
        """Steps of an optimizer, compiled and not; parameters and buffers stay near."""
        module = make()
        other = copy.deepcopy(module)
        compiled = self.compiled(module, **options)
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
                      for one in (module, other)]
        for step in range(steps):
            arguments = draw(step)
            for function, optimizer in zip((compiled, other), optimizers):
                torch.manual_seed(step)
                optimizer.zero_grad()
                function(*arguments).square().mean().backward()
                optimizer.step()
            states = module.state_dict(), other.state_dict()
            for name, right in states[1].items():
                self.near(states[0][name], right, f"{name} after step {step}")
        for one in coppice.torch.report(compiled):
            self.assertEqual(lifted, one.fully_lifted, one)
        return compiled

    def test_gradients_of_an_mlp(self):
        before = self.inputs_in_place()
        compiled = self.train(mlp, lambda step: (torch.randn(5 + step % 2, 16),))
        self.assertEqual(["forward", "backward"],
                         [one.kind for one in coppice.torch.report(compiled)])
        self.assertGreater(self.inputs_in_place(), before, "saved tensors are read in place")

    def test_gradients_of_padded_calls_have_graphs(self):
        # What 8 rows of 12 save ends in bytes that the backward of 5 rows does not read.
        sizes = (5, 5, 8, 8, 3, 3, 7, 9)
        compiled = self.train(
            lambda: nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 3)),
            lambda step: (torch.randn(sizes[step], 6),), len(sizes), policy="pow2", claim="any")
        self.assertEqual([("forward", 0), ("backward", 0)],
                         [(one.kind, one.refused) for one in coppice.torch.report(compiled)])

    @staticmethod
    def inputs_in_place():
        known = shared.sessions.get(coppice.device("emulator"))
        return known.session.stats()["inputs_in_place"] if known else 0

    def test_gradients_with_batch_norm(self):
        self.train(lambda: nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(),
                                         nn.Linear(32, 8)),
                   lambda step: (torch.randn(5 + step % 2, 16),))

    def test_gradients_of_attention_and_embedding(self):
        self.train(Attention, lambda step: (torch.randint(0, 50, (2 + step % 2, 7)),))

    def test_gradients_of_convolutions_call_pytorch(self):
        self.train(lambda: nn.Conv2d(3, 4, 3),
                   lambda step: (torch.randn(2 + step % 2, 3, 8, 8),), lifted=mock.ANY)

    def test_gradients_twice_and_of_arguments(self):
        compiled = self.compiled(lambda x, y: (x * y).tanh())
        x, y = (torch.randn(5, 8, requires_grad=True) for _ in range(2))
        compiled(x, y).sum().backward(retain_graph=True)
        result = compiled(x, y)
        once = x.grad.clone()
        other = compiled(y * 2, x)  # Writes over what the call before it saved.
        result.sum().backward(retain_graph=True)
        result.sum().backward()
        other.sum().backward()
        known = [value.detach().clone().requires_grad_() for value in (x, y)]
        first = (known[0] * known[1]).tanh().sum()
        first.backward()
        self.near(once, known[0].grad)
        for _ in range(2):
            (known[0] * known[1]).tanh().sum().backward()
        (known[1] * 2 * known[0]).tanh().sum().backward()
        self.near(x.grad, known[0].grad)
        self.near(y.grad, known[1].grad)

    # Random numbers.

    def test_dropout_draws_from_torchs_generator(self):
        compiled = self.compiled(lambda x: F.dropout(x, 0.25, training=True))
        x = torch.ones(60, 64)
        torch.manual_seed(7)
        first, second = compiled(x), compiled(x)
        torch.manual_seed(7)
        self.assertTrue(torch.equal(first, compiled(x)))
        self.assertEqual({0.0, 1 / 0.75}, {round(value, 6) and 1 / 0.75
                                           for value in first.unique().tolist()})
        self.assertLess(abs(float((first == 0).float().mean()) - 0.25), 0.05)
        self.assertLess(float((first == second).float().mean()), 0.7)

    def test_dropout_that_eager_would_draw(self):
        def drop(x):
            return F.dropout(x, 0.3, training=True) * 2

        compiled = self.compiled(drop, fallback_random=True)
        x = torch.randn(9, 16)
        for seed in (3, 4, 3):
            torch.manual_seed(seed)
            right = drop(x)
            torch.manual_seed(seed)
            self.near(compiled(x), right)
        self.assertEqual([["aten.native_dropout.default"]],
                         [one.calls for one in coppice.torch.report(compiled)])

    def test_random_numbers_of_all_kinds_come_in_the_order_of_eager(self):
        def draw(x):
            return (F.dropout2d(x, 0.2, training=True), torch.bernoulli(x.sigmoid()),
                    torch.rand_like(x) + torch.randn(4), torch.randperm(5))

        compiled = self.compiled(draw, fallback_random=True)
        x = torch.randn(2, 8, 4, 4)
        for seed in (1, 2, 1):
            torch.manual_seed(seed)
            right = draw(x)
            torch.manual_seed(seed)
            self.compare(compiled(x), right)

    def test_results_that_nobody_reads(self):
        bag = nn.EmbeddingBag(100, 32, mode="sum").requires_grad_(False)
        tokens, weights = torch.randint(0, 100, (6, 5)), torch.rand(6, 5)
        self.check(lambda x, y: bag(x, per_sample_weights=y), (tokens, weights), lifted=None)

    def test_convolutions_behind_pooling_of_a_height_that_is_marked(self):
        module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3))
        compiled = self.compiled(module, dynamic=None)
        for height in (14, 20):
            x = torch.randn(4, 3, height, 16)
            torch._dynamo.mark_dynamic(x, 2, min=10, max=32)
            with torch.no_grad():
                self.near(compiled(x), module(x), strides=False)

    def test_dropout_in_training_as_eager_draws_it(self):
        self.train(lambda: nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.Linear(32, 8)),
                   lambda step: (torch.randn(5, 16),), lifted=mock.ANY, fallback_random=True)

    def test_random_numbers_that_are_drawn_again_are_those_of_before(self):
        def noisy(x):
            kept = F.dropout(x, 0.5, training=True) + torch.randn_like(x)
            return kept * torch.rand_like(x) * torch.randint_like(x, 3, 90)

        for lifted, function in ((True, noisy), (False, lambda x: noisy(Turned.apply(x)))):
            torch._dynamo.reset()
            compiled = self.compiled(
                lambda x, function=function: checkpoint(function, x, use_reentrant=False))
            with self.subTest(lifted=lifted):
                x = torch.zeros(9, 16, requires_grad=True)
                torch.manual_seed(SEED % (1 << 32))
                compiled(x).sum().backward()
                torch.manual_seed(SEED % (1 << 32))  # It is linear in each element.
                right = compiled(torch.ones(9, 16, requires_grad=True)) - compiled_at_zero(
                    compiled, x)
                # The difference of some hundreds; other random numbers are whole ones off.
                torch.testing.assert_close(x.grad, right.detach(), atol=1e-3, rtol=1e-5)
                kinds = [(one.kind, one.lifted) for one in coppice.torch.report(compiled)]
                self.assertEqual([("forward", True), ("backward", lifted)], kinds)

    # Symbols.

    def test_marks_of_dimensions(self):
        x = torch.randn(6, 8)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=40)
        torch._dynamo.mark_static(x, 1)
        compiled = self.compiled(lambda x: x * 2, dynamic=None)
        for size in (6, 9, 40):
            rows = torch.randn(size, 8) if size != 6 else x
            if size != 6:
                torch._dynamo.mark_dynamic(rows, 0, min=2, max=40)
            self.near(compiled(rows), rows * 2)
        (one,) = coppice.torch.report(compiled)
        self.assertEqual({"x:0": (2, 40)}, one.symbols)

    def test_unbacked_sizes_may_be_one(self):
        compiled = self.compiled(lambda x: x.sin() + 1, dynamic=None)
        for size in (6, 1, 3):
            x = torch.randn(size, 8)
            torch._dynamo.decorators.mark_unbacked(x, 0)
            self.near(compiled(x), x.sin() + 1)
        self.assertEqual(1, coppice.torch.stats(compiled)["graphs"])

    def test_sizes_to_specialise_on_are_buckets_of_their_own(self):
        def twice(x):
            return x * 2

        compiled = self.compiled(twice, dynamic=None)
        for size in (16, 8, 5, 8):
            x = torch.randn(size, 4)
            torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda size: size == 8])
            self.near(compiled(x), x * 2)
        general, special = coppice.torch.report(compiled)
        self.assertEqual(({"x:0"}, {}), (set(general.symbols), special.symbols))
        self.assertEqual({()}, self.buckets_of(special))

    def test_sizes_that_pytorch_only_prefers_to_vary(self):
        compiled = self.compiled(lambda x: x.view(4, -1) * 2, dynamic=None)
        for size in (8, 8, 12):
            x = torch.randn(size, 8)
            torch._dynamo.maybe_mark_dynamic(x, 0)
            self.near(compiled(x), x.view(4, -1) * 2)
        self.assertEqual(1, coppice.torch.stats(compiled)["graphs"])

    def test_a_size_that_changes_is_found_to_vary(self):
        compiled = self.check(mlp().eval(), *[(torch.randn(n, 16),) for n in (5, 6, 7)],
                              dynamic=None)
        first, second = coppice.torch.report(compiled)
        self.assertEqual(({}, {"args[0]:0"}), (first.symbols, set(second.symbols)))
        self.assertRegex(second.recompiled, "size mismatch")

    def test_padding_needs_a_policy_and_a_claim(self):
        module = mlp().eval()
        compiled = self.check(module, *[(torch.randn(n, 16),) for n in (5, 6, 7, 8)],
                              policy={"args[0]:0": ("pow2", 64)}, claim="any")
        (one,) = coppice.torch.report(compiled)
        self.assertEqual({(8,)}, self.buckets_of(one))

    def test_sizes_without_a_claim_are_buckets_by_themselves(self):
        compiled = self.check(mlp().eval(), *[(torch.randn(n, 16),) for n in (5, 6)])
        (one,) = coppice.torch.report(compiled)
        self.assertEqual({(5,), (6,)}, self.buckets_of(one))

    def test_replays_at_exact_sizes_share_an_executable(self):
        """Whether sizes are padded to buckets, or are buckets by themselves."""
        for options in ({"policy": {"args[0]:0": ("pow2", 64)}, "claim": "any"}, {}):
            torch._dynamo.reset()
            module = mlp().eval()
            before = coppice.session().stats()["exact_replays"]
            compiled = self.check(module, *[(torch.randn(n, 16),) for n in (30, 17, 9, 30, 5)],
                                  exact="always", **options)
            (one,) = coppice.torch.report(compiled)
            graphs = self.graphs_of(one)
            self.assertGreaterEqual(len(graphs), 3)
            self.assertEqual(1, len({graph["family"] for graph in graphs} - {0}))
            self.assertEqual(10, coppice.session().stats()["exact_replays"] - before)

    @staticmethod
    def graphs_of(report):
        return [bucket
                for bucket in shared.sessions[coppice.device("emulator")].session.buckets()
                if bucket["program"] == report.program]

    def buckets_of(self, report):
        return {tuple(bucket["bucket"]) for bucket in self.graphs_of(report)}

    # Fallbacks and errors.

    def test_an_operator_without_a_kernel_is_called(self):
        with self.assertLogs("coppice", "WARNING") as logged:
            compiled = self.check(lambda x: torch.topk(x * 2, 3), (torch.randn(5, 8),),
                                  (torch.randn(6, 9),), lifted=False)
        self.assertRegex(logged.output[0], "aten.topk.default has no Triton kernel")
        (one,) = coppice.torch.report(compiled)
        self.assertEqual((True, ["aten.topk.default"]), (one.lifted, one.calls))

    def test_a_graph_that_cannot_be_lifted_is_run_by_pytorch(self):
        with self.assertLogs("coppice", "WARNING") as logged:
            compiled = self.check(lambda x: scaled(x.exp2()), (torch.randn(5, 8).round(),),
                                  lifted=False)
        self.assertRegex(logged.output[0], "float8_e8m0fnu")
        counts = coppice.torch.stats(compiled)
        self.assertEqual((1, 0, 2), (counts["fallbacks"], counts["lifted"], counts["runs"]))

    def test_what_there_is_no_room_for_runs_by_pytorch(self):
        eager, module = Counting(), Counting()
        module.load_state_dict(eager.state_dict())
        compiled, run = self.compiled(module), graph.LiftedGraph.run_program

        def lacks_room(*arguments):
            run(*arguments)  # The device has counted, and the host has not.
            raise coppice.ResourceExhausted("no room")

        with torch.no_grad():
            for rows, full in ((3, False), (3, True), (5, True), (5, False), (3, False)):
                x = torch.randn(rows, 16)
                with mock.patch.object(graph.LiftedGraph, "run_program",
                                       lacks_room if full else run):
                    torch.testing.assert_close(compiled(x), eager(x))
                self.assertEqual(eager.calls, module.calls)
        self.assertEqual(2, coppice.torch.stats(compiled)["refused"])
        strict = self.compiled(lambda x: 2 * x, strict=True)
        with mock.patch.object(graph.LiftedGraph, "run_program", lacks_room), \
                self.assertRaisesRegex(coppice.torch.NotLifted, "no room"):
            strict(torch.randn(3, 16))

    def test_strict_makes_errors_of_both(self):
        for function, pattern in ((lambda x: torch.topk(x, 3), "topk.*strict=False"),
                                  (scaled, "float8_e8m0fnu.*strict=False")):
            with self.assertRaisesRegex(Exception, pattern) as raised:
                self.compiled(function, strict=True)(torch.randn(5, 8))
            self.assertIsInstance(raised.exception.__cause__ or raised.exception.inner_exception,
                                  coppice.torch.NotLifted)
            torch._dynamo.reset()

    def test_wrong_options_are_named(self):
        from coppice.torch.options import parse

        for options, pattern in (
                ({"devices": "cuda"}, "no option is called devices.*device"),
                ({"device": "tpu"}, "device is 'tpu'"), ({"strict": 1}, "strict is 1"),
                ({"exact": True}, "exact is True, not one of never, auto, always"),
                ({"policy": "pow2"}, "a policy for all sizes pads nothing without a claim"),
                ({"policy": {"x:0": 3}, "claim": "any"}, "policy of x:0: 3 is not a policy"),
                ({"claim": {"x:0": "some"}}, "claim of x:0: 'some' is not a claim"),
                ({"session": 3}, "session is 3, not a dict"),
                ({"inductor": []}, r"inductor is \[\], not a dict"),
                ({"trace": 1}, "trace is 1")):
            with self.subTest(options=options), self.assertRaisesRegex(ValueError, pattern):
                parse(options)
        with self.assertRaisesRegex(ValueError, "mode='max-autotune'"):
            parse(None, "max-autotune")

    def test_report_asks_for_a_compiled_function(self):
        with self.assertRaisesRegex(TypeError, "does not come from torch.compile"):
            coppice.torch.report(len)

    # Threads and ends.

    def test_eight_threads_call_one_function(self):
        module = mlp().eval()
        compiled = self.compiled(module)
        inputs = [torch.randn(3 + index % 4, 16) for index in range(8)]
        with torch.no_grad():
            right = [module(x) for x in inputs]
            compiled(inputs[0])
        failures = []

        def call(index):
            try:
                for _ in range(20):
                    with torch.no_grad():
                        self.near(compiled(inputs[index]), right[index])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=call, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)

    def test_what_a_function_held_goes_with_it(self):
        def once():
            module = mlp().eval()
            compiled = self.compiled(module)
            with torch.no_grad():
                compiled(torch.randn(5, 16))
            del compiled, module
            torch._dynamo.reset()
            gc.collect()
            session = shared.sessions[coppice.device("emulator")]
            with session.lock:
                session.bury()
            memory = session.session.memory()
            return len(session.mirrors), len(session.session.buckets()), memory

        first = [once() for _ in range(2)][-1]
        last = [once() for _ in range(3)][-1]
        self.assertEqual(first, last)


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
