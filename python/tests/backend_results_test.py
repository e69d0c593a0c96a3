#!/usr/bin/env python3
"""Goal: what `torch.compile(backend="coppice")` returns has the type, the sizes, the strides and
the memory that eager PyTorch's results have: results that share storage there share it here, with
each other and with arguments, and others do not.
Method: functions are compiled once and called at several sizes; of each result type, shape,
strides, bits and distance from each tensor of the same storage are compared with eager. Outputs
that were compiled otherwise than the graph says are made up, and have to be refused.

    backend_results_test.py [unittest's options]

Without torch, or without the extension, all is skipped.
"""

import copy
import dataclasses
import sys
import unittest
from unittest import mock

try:
    import torch
    import torch.nn.functional as F
    from torch import nn

    import coppice.torch
    from coppice.export.lift import returned_values
    from coppice.torch import lowering
except ImportError:
    torch = None

SIZES = (4, 7, 5)


def places(tensors):
    """Of each pair in one storage, the bytes from one to the other."""
    found = {}
    for index, tensor in enumerate(tensors):
        for other in range(index):
            if tensors[other].untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
                found[other, index] = begin(tensor) - begin(tensors[other])
    return found


def begin(tensor):
    """The byte of its storage at which a tensor begins; of an empty one, too."""
    return tensor.storage_offset() * tensor.element_size()


@unittest.skipIf(torch is None, "torch or coppice is not installed")
class BackendTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(1)

    def compare(self, fn, draw, sizes=SIZES, lifted=True, calls=()):
        """Calls fn(*draw(size)) compiled and eagerly. PyTorch runs `calls`; None: whatever."""
        compiled = torch.compile(fn, backend="coppice", dynamic=True, fullgraph=True)
        for size in sizes:
            given, right_given = draw(size), draw(size)
            with torch.no_grad():
                got, right = compiled(*given), fn(*right_given)
            got, right = ((one,) if isinstance(one, torch.Tensor) else one for one in (got, right))
            self.assertEqual(len(got), len(right))
            for index, (one, other) in enumerate(zip(got, right)):
                where = f"result {index} of {size}"
                self.assertEqual(one.dtype, other.dtype, where)
                self.assertEqual(one.device, other.device, where)
                self.assertEqual(one.shape, other.shape, where)
                self.assertEqual(one.stride(), other.stride(), where)
                self.assertEqual(one.storage_offset(), other.storage_offset(), where)
                self.assertEqual((one.is_conj(), one.is_neg()), (other.is_conj(), other.is_neg()))
                if one.device.type != "meta":
                    self.assertTrue(torch.equal(bits(one), bits(other)), f"{where}: {one} {other}")
            self.assertEqual(places([*given, *got]), places([*right_given, *right]), f"of {size}")
            for one, other in zip(given, right_given):
                self.assertTrue(one.device.type == "meta" or torch.equal(one, other))
        reports = coppice.torch.report(compiled)
        self.assertEqual([one.lifted for one in reports], [lifted] * len(reports), reports)
        if calls is not None:
            self.assertEqual({name for one in reports for name in one.calls}, set(calls))
        return reports


def bits(tensor):
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    return tensor.view(torch.uint8) if tensor.dim() else tensor


def rows(size):
    return (torch.arange(size * 6, dtype=torch.float32).view(size, 6) - 7.5,)


class SharedStorageTest(BackendTest):
    CASES = {
        "transposed, then whole": lambda x: (lambda a: (a.t(), a))(x * 2),
        "whole, then transposed": lambda x: (lambda a: (a, a.t()))(x * 2),
        "flat, then whole": lambda x: (lambda a: (a.view(-1), a))(x * 2),
        "a part, then the whole": lambda x: (lambda a: (a[:2], a))(x * 2),
        "an axis more": lambda x: (lambda a: (a[None], a))(x * 2),
        "two columns": lambda x: (lambda a: (a[:, 1:], a[:, :1]))(x * 2),
        "chunks": lambda x: (x * 2).chunk(2, 1),
        "steps of two": lambda x: (lambda a: (a[::2], a[1::2]))(x * 2),
        "unbound": lambda x: (x * 2).unbind(1),
        "expanded": lambda x: (lambda a: (a[None].expand(3, -1, -1), a))(x * 2),
        "the same twice": lambda x: (lambda a: (a, a))(x * 2),
        "bits as integers": lambda x: (lambda a: (a.view(torch.int32), a))(x + 1),
        "bits as bytes": lambda x: (lambda a: (a, a.view(torch.uint8)))(x + 1),
        "diagonal": lambda x: (lambda a: (a.diagonal(), a))(x + 1),
        "three of two storages": lambda x: (lambda a, b: (a[1:], b.t(), a, b))(x + 1, x + 2),
        "a part of an argument": lambda x: (x[1:], x * 2, x[:, 2]),
        "an argument as it came": lambda x: (x, x.t(), x + 1),
        "a part that is written": lambda x: x[x.shape[0] // 2:].add_(1),
        "a part of what is written": lambda x: (x[x.shape[0] // 2:], x.add_(1))[0],
        "a part that moves": lambda x: x[1:].copy_(x[:-1].clone()),
        "a part of what is computed": lambda x: (x * 2)[x.shape[0] // 2:, 1],
        "rows of what lies by columns": lambda x: (x.t() * 2)[1:3],
        "an argument that is written": lambda x: (x.add_(1), x[1:], x * 2),
        "what is written over, by columns": lambda x: (
            lambda a: (a, a[a.shape[0] // 2:], a.fill_(1))[:2])(x.t() * 2),
        "a part of an argument's column that is written": lambda x: (
            lambda a: (a[1:].copy_(a[:-1].clone()), a.chunk(2)[0]))(x[:, 1])[1],
        "computed into a part of another": lambda x: (
            lambda a: (a[:-1], torch.stack([x, a]).chunk(2)[1]))(x.relu()),
        "rows of it": lambda x: (
            lambda a, b: (a.fill_(1), *b))(*(lambda a: (a, a.split(2)))(x.t() * 2)),
        "of a library's operator": lambda x: (lambda a: (a.t(), a))(torch.cumprod(x, 1).sort()[0]),
    }

    def test_results_share_storage_as_they_do_in_eager_pytorch(self):
        for name, fn in self.CASES.items():
            with self.subTest(name):
                torch._dynamo.reset()
                calls = ["aten.sort.stable"] if "library" in name else []
                self.compare(fn, rows, calls=calls)

    def test_what_is_conjugated_or_negated_lazily_stays_so(self):
        def draw(size):
            return (torch.complex(*rows(size), rows(size)[0] + 1),)

        for fn, calls in (
                (lambda z: (z.conj(), z.conj().imag, z.real), None),
                (lambda z: (lambda a: (a.conj(), a.conj().imag))(z.flip(0)), None),
                (lambda z: z.flip(0).conj(), ["prims.rev.default"])):
            with self.subTest(calls=calls):
                torch._dynamo.reset()
                self.compare(fn, draw, calls=calls)

    def test_arguments_that_are_lazily_conjugated_or_negated_are_written_as_in_eager(self):
        def pairs(size):
            return torch.complex(*rows(size), rows(size)[0] + 1)

        for name, fn, draw in (
                ("negated", lambda x: (x.mul_(2), x + 1),
                 lambda size: torch._neg_view(*rows(size))),
                ("conjugated", lambda x: x.add_(1), lambda size: pairs(size).conj()),
                ("an imaginary part", lambda x: x.mul_(3), lambda size: pairs(size).conj().imag)):
            torch._dynamo.reset()
            compiled = torch.compile(fn, backend="coppice", dynamic=True)
            for size in (3, 5, 4, 3):
                torch.manual_seed(size)
                given = draw(size)
                storage = given.untyped_storage().clone()
                expected = fn(given), given.resolve_conj().resolve_neg().clone()
                given.untyped_storage().copy_(storage)
                found = compiled(given), given.resolve_conj().resolve_neg()
                with self.subTest(name, size=size):
                    torch.testing.assert_close(found, expected, rtol=0, atol=0)

    def test_copies_share_nothing(self):
        self.compare(lambda x: (lambda a: (a, a.clone(), a + 0, x.clone()))(x * 2), rows)


class OverlappingTest(BackendTest):
    CASES = {
        "expanded": lambda x: (x[:, :1] * 2).expand(-1, 5),
        "expanded by an axis": lambda x: (x * 2)[:, None].expand(-1, 3, -1),
        "windows": lambda x: (x * 2).unfold(1, 3, 1),
        "strided over each other": lambda x: (x * 2).as_strided((3, 4), (2, 1)),
        "an argument's windows": lambda x: x.unfold(1, 3, 1),
    }

    def test_results_that_overlap_are_views(self):
        for name, fn in self.CASES.items():
            with self.subTest(name):
                torch._dynamo.reset()
                self.compare(fn, rows)

    def test_arguments_that_overlap_are_read(self):
        def windows(size):
            return (torch.randn(512, generator=torch.Generator().manual_seed(size)).as_strided(
                (4, size, 8), (64, 4, 1)),)

        self.compare(lambda x: x * 2 + 1, windows)

    def test_arguments_that_are_expanded_to_nothing_are_empty(self):
        self.compare(lambda x: x.scatter_reduce(0, torch.zeros(x.shape, dtype=torch.int64), x,
                                                "amax"),
                     lambda size: (torch.ones(1).expand(size),), sizes=(0,),
                     calls=None)

    def test_as_strided_reads_what_the_storage_of_an_argument_holds(self):
        arguments = {"later": lambda size: (rows(size + 1)[0][1:],),
                     "apart": lambda size: (rows(2 * size)[0][:, ::2],)}
        for name, draw in arguments.items():
            with self.subTest(name):
                torch._dynamo.reset()
                self.compare(lambda x: x.as_strided((3, 2), (1, 1), 1) * 2, draw, lifted=False)
        given = rows(6)[0][1:5]
        for begin, lifted in ((7, True), (5, False), (28, False)):
            with self.subTest(begin=begin):
                torch._dynamo.reset()
                fn = torch.compile(lambda x: x.as_strided((3, 2), (1, 1), begin) * 2,
                                   backend="coppice", dynamic=False)
                right = given.as_strided((3, 2), (1, 1), begin) * 2
                self.assertTrue(torch.equal(fn(given), right))
                self.assertEqual([lifted], [one.lifted for one in coppice.torch.report(fn)])

    def test_a_result_that_begins_before_what_it_is_a_view_of_is_not_lifted(self):
        def before(x):  # Which is a column: its storage begins before it.
            x[1:].copy_(x[:-1].clone())
            return x.as_strided((2,), (1,), 0)

        self.compare(before, lambda size: (rows(size)[0][:, 1],), lifted=False)

    def test_what_is_saved_for_backward_may_overlap(self):
        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.lift = nn.Linear(8, 8)

            def forward(self, x, mask):
                x = self.lift(x).view(*x.shape[:2], 2, 4).transpose(1, 2)
                seen = mask[:, None, None].expand(len(mask), 1, x.shape[2], x.shape[2])
                return F.scaled_dot_product_attention(x, x, x, attn_mask=seen)

        model = Masked()
        other = copy.deepcopy(model)
        compiled = torch.compile(model, backend="coppice", dynamic=True)
        for batch, length in ((2, 8), (3, 13), (4, 5)):
            x, mask = torch.randn(batch, length, 8), torch.arange(length) < length - 1
            mask = mask.expand(batch, length).contiguous()
            for one in (compiled, other):
                one.zero_grad()
                one(x, mask).square().sum().backward()
            for got, right in zip(model.parameters(), other.parameters()):
                torch.testing.assert_close(got.grad, right.grad, rtol=1e-4, atol=1e-4)
        self.assertEqual({(one.kind, one.lifted) for one in coppice.torch.report(compiled)},
                         {("forward", True), ("backward", True)})


class GradientTest(BackendTest):
    def test_gradients_of_16_bits_add_up_in_words_of_32(self):
        def gathered(x):
            return x.gather(1, x.argsort(dim=1, stable=True))

        compiled = torch.compile(gathered, backend="coppice", dynamic=True)
        for dtype in (torch.bfloat16, torch.float16):
            for size in (3, 13, 4):  # Of odd ones, the last element is half of a word.
                x = torch.randn(size, 7, dtype=dtype, requires_grad=True)
                weights = torch.randn(size, 7, dtype=dtype)
                right, = torch.autograd.grad(gathered(x), x, weights)
                got, = torch.autograd.grad(compiled(x), x, weights)
                self.assertTrue(torch.equal(got, right), f"{dtype} {size}")
        self.assertEqual([(one.kind, one.lifted) for one in coppice.torch.report(compiled)],
                         [("forward", True), ("backward", True)] * 2)

    CASES = {
        "computed": lambda x: (lambda a: (a[None].detach(), a))(x.sin()),
        "computed, the other way": lambda x: (lambda a: (a, a.t().detach()))(x.sin()),
        "an argument's": lambda x: (x[1:].detach(), x * 2, x.t()),
    }

    def test_of_results_that_share_storage_each_wants_a_gradient_as_in_eager(self):
        for name, fn in self.CASES.items():
            with self.subTest(name):
                torch._dynamo.reset()
                compiled = torch.compile(fn, backend="coppice", dynamic=True, fullgraph=True)
                for size in SIZES:
                    given, right_given = (rows(size)[0].requires_grad_() for _ in range(2))
                    got, right = compiled(given), fn(right_given)
                    self.assertEqual([one.requires_grad for one in right],
                                     [one.requires_grad for one in got])
                    self.assertEqual(places([given, *got]), places([right_given, *right]))
                    for results in (got, right):
                        sum((one * one).sum() for one in results if one.requires_grad).backward()
                    torch.testing.assert_close(given.grad, right_given.grad)


class OtherTypeTest(BackendTest):
    TYPES = (("float32", "int32"), ("int32", "float32"), ("float16", "int16"),
             ("bfloat16", "uint16"), ("bool", "uint8"), ("int64", "float64"),
             ("float32", "uint8"), ("float32", "float16"), ("int8", "int16"))

    def test_results_are_the_bits_of_another_type(self):
        for source, target in self.TYPES:
            source, target = getattr(torch, source), getattr(torch, target)

            def draw(size):
                return (torch.arange(size * 8).view(size, 8).sub(9).to(source),)

            with self.subTest(f"{source} as {target}"):
                torch._dynamo.reset()
                self.compare(lambda x: (x.flip(0).view(target), x.roll(1, 0)), draw)

    def test_bools_that_are_computed_are_bytes(self):
        self.compare(lambda x: ((x > 0).view(torch.uint8).sum(0), (x > -9).all().view(torch.int8)),
                     rows)

    def test_what_is_true_of_any_byte_is_a_byte(self):
        self.compare(lambda x: (x.any(1), x.any(), x.all(0), torch.any(x, (0, 1))),
                     lambda size: (rows(size)[0].to(torch.uint8),))

    def test_floats_of_8_bits_are_those_of_eager_pytorch(self):
        for source in (torch.float64, torch.float32, torch.bfloat16):
            for target in (torch.float8_e5m2, torch.float8_e4m3fn):
                def draw(size):
                    return ((torch.linspace(-9, 9, 64 * size) ** 3).to(source),)

                with self.subTest(f"{source} to {target}"):
                    torch._dynamo.reset()
                    self.compare(lambda x: (x.to(target).view(torch.uint8),
                                            (x * 2).to(target).float()), draw)

    def test_operators_of_pytorch_read_the_bits_of_another_type(self):
        operators = {
            "sort.stable": lambda bits: bits.sort(dim=1, stable=True)[0],
            "median.dim": lambda bits: bits.median(1).values,
            "topk.default": lambda bits: bits.topk(3)[0],
        }
        for name, operator in operators.items():
            with self.subTest(name):
                torch._dynamo.reset()
                self.compare(lambda x: operator((x * 2).view(torch.int32)), rows,
                             calls=[f"aten.{name}"])


    WRITTEN = {
        "all of it": lambda bits: bits.mul_(2),
        "rows": lambda bits: bits[1:].add_(1),
        "columns": lambda bits: bits.mT[2:].zero_(),
        "one row of some": lambda bits: bits[1:].select(0, -1).fill_(3),
        "bytes": lambda bits: bits.view(torch.uint8)[:, 1:3].fill_(7),
        "halves": lambda bits: bits.view(torch.float16)[1:].mul_(2),
        "pairs": lambda bits: bits.view(torch.int64)[1:].add_(1),
        "its own type again": lambda bits: bits.view(torch.float32)[1:].mul_(2),
        "by an index": lambda bits: bits.__setitem__(torch.tensor([2, 0]), 1),
        "by a mask": lambda bits: bits.masked_fill_(bits > 0, 1),
        "the other way round": lambda bits: bits[1:].copy_(bits[1:].flip(0)),
    }

    def test_what_is_written_as_another_type_is_written(self):
        sources = {"computed": lambda x: x * 2, "an argument": lambda x: x}
        others = {"of a library's operator": lambda x: x.sort(dim=1, stable=True)[0],
                  "rows of what is computed": lambda x: (x + 1)[1:]}
        for name, write in self.WRITTEN.items():
            more = others if name in ("rows", "bytes") else {}
            for kind, source in {**sources, **more}.items():
                def fn(x):
                    values = source(x)
                    bits = values.view(torch.int32)
                    write(bits)
                    return values, bits, values + 1

                with self.subTest(f"{name}, {kind}"):
                    torch._dynamo.reset()
                    self.compare(fn, rows, calls=["aten.sort.stable"] if "library" in kind else [])

    def test_products_are_of_the_bits_of_another_type(self):
        def drawn(*shape):
            bits = torch.randint(16, shape, generator=torch.Generator().manual_seed(1))
            return bits.double().view(torch.int64)

        products = {
            "linear": lambda x, floats: F.linear(floats(x.max(1)[1].t()), floats(x.max(1)[1].t())),
            "mm": lambda x, floats: floats(x[0].flip(0)) @ floats(x[1].flip(0)).mT,
            "bmm": lambda x, floats: floats(x.flip(0)) @ floats(x.roll(1, 0)).mT,
            "addmm": lambda x, floats: torch.addmm(
                floats(x[0, 0].flip(0))[:3], floats(x[1].flip(0)), floats(x[0].roll(1, 0)).mT),
        }
        for name, product in products.items():
            with self.subTest(name):
                torch._dynamo.reset()
                self.compare(lambda x: product(x, lambda bits: bits.view(torch.float64)),
                             lambda size: (drawn(size, 3, 4),))


class WrittenTest(BackendTest):
    """What is written over is read before, whatever lies between."""

    CASES = {
        "turned, as views": lambda x: x[1:].copy_(x[1:].t().flip(1).t()),
        "computed, as a view": lambda x: x[1:].copy_((x[1:].t() * 2).flip(1).t()),
        "as another type": lambda x: x.view(torch.int32).copy_(x.flip(0).view(torch.int32)),
        "transposed": lambda x: x[:4, :4].copy_(x[:4, :4].t().clone()),
        "transposed and computed": lambda x: x[:4, :4].copy_((x[:4, :4].t() + 1).contiguous()),
        "added to its transpose": lambda x: x[:4, :4].add_(x[:4, :4].t().clone()),
        "of columns": lambda x: x[:, :4].copy_(torch.cat([x[:, 3:5], x[:, :2]], 1)),
        "two that change places": lambda x: (lambda a, b, c: (a.copy_(b), b.copy_(c)))(
            x[:, :3], x[:, 3:], x[:, :3].clone()),
    }

    def test_what_is_written_over_is_read_before(self):
        for name, write in self.CASES.items():
            for kind, source in {"argument": lambda x: x, "computed": lambda x: x + 1}.items():
                def fn(x):
                    values = source(x)
                    write(values)
                    return values, values * 2

                with self.subTest(f"{name}, {kind}"):
                    torch._dynamo.reset()
                    self.compare(fn, rows)


class EmptyTest(BackendTest):
    CASES = {
        "no rows": lambda x: (x[:0], x * 2),
        "no rows, written": lambda x: (lambda a: (a[:, -1].copy_(a[:, 0]), a, x + 1)[1:])(x[:0]),
        "no rows, flat": lambda x: (lambda a: (a.mul_(2), a.flatten(), x + 1)[1:])(x[:0]),
        "half of none": lambda x: (lambda a: (a[:, -1].copy_(a[:, 0]), a.flatten(0, 1), x + 1)[1:])(
            x[:0][0:]),
    }

    def test_an_argument_of_which_nothing_is_left(self):
        for name, fn in self.CASES.items():
            with self.subTest(name):
                torch._dynamo.reset()
                self.compare(fn, rows)


class OtherDeviceTest(BackendTest):
    def test_results_on_meta_stay_there(self):
        def draw(size):
            return torch.empty(size, 3, device="meta"), torch.arange(size, dtype=torch.float32)

        self.compare(lambda x, y: (x * 2, y * 3, x.t()), draw)


class SavedSizesTest(BackendTest):
    def test_a_size_may_be_saved_twice_for_the_backward_graph(self):
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.lift = nn.Embedding(50, 16), nn.Linear(16, 16)

            def forward(self, tokens):
                x = self.table(tokens)
                x = self.lift(x).view(*x.shape[:2], 2, 8).transpose(1, 2)
                return F.scaled_dot_product_attention(x, x, x).transpose(1, 2).reshape(
                    *tokens.shape, 16)

        model = Attention()
        other = copy.deepcopy(model)
        compiled = torch.compile(model, backend="coppice", dynamic=True)
        for batch, length in ((2, 8), (3, 13), (5, 6)):
            tokens = torch.randint(0, 50, (batch, length))
            for one in (compiled, other):
                one.zero_grad()
                one(tokens).square().mean().backward()
            for got, right in zip(model.parameters(), other.parameters()):
                torch.testing.assert_close(got.grad, right.grad, rtol=1e-4, atol=1e-5)
        self.assertEqual({(one.kind, one.lifted) for one in coppice.torch.report(compiled)},
                         {("forward", True), ("backward", True)})


class OracleTest(BackendTest):
    """What was lifted is held to the graph, whatever compiled it."""

    def refused(self, change):
        """The reason why a function is not lifted whose only output `change` makes another."""
        def compiled_otherwise(lifter, node, results, lift=lowering.GraphLifter.lift_outputs):
            (value,) = returned_values(node)
            lifter.values[value] = change(lifter.values[value])
            lift(lifter, node, results)

        with mock.patch.object(lowering.GraphLifter, "lift_outputs", compiled_otherwise):
            (report,) = self.compare(lambda x: x * 2, rows, lifted=False)
        return report.reasons[0]

    def test_another_type_is_refused(self):
        reason = self.refused(lambda tensor: dataclasses.replace(tensor, dtype="i32"))
        self.assertIn("compiled as i32; the graph has torch.float32", reason)

    def test_other_sizes_are_refused(self):
        reason = self.refused(lambda tensor: dataclasses.replace(
            tensor, shape=tensor.shape[::-1]))
        self.assertIn("the size of axis 0", reason)

    def test_another_rank_is_refused(self):
        reason = self.refused(lambda tensor: dataclasses.replace(
            tensor, shape=tensor.shape[:1], strides=tensor.strides[:1]))
        self.assertIn("with rank 1; the graph has rank 2", reason)

    def test_other_strides_are_refused(self):
        reason = self.refused(lambda tensor: dataclasses.replace(
            tensor, strides=tensor.strides[::-1]))
        self.assertIn("the stride of axis", reason)


if __name__ == "__main__":
    print("torch", torch.__version__ if torch else "missing", "python", sys.version.split()[0])
    unittest.main()
