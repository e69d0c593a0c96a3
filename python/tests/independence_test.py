#!/usr/bin/env python3
"""Goal: a size that coppice.torch.independence calls independent is: what lies beyond it in the
inputs reaches no element within it. And sizes that are plainly independent are found to be.
Method: programs of a few operators are drawn and traced to a graph of aten operators. For each size
that is called independent the graph runs in eager PyTorch at larger ones, whose further elements
are NaNs or noise, and integers that are indices zeros; results are cut and compared. Known
operators are asked one by one.

    independence_test.py [unittest's options]

Without torch all is skipped.
"""

import collections
import os
import random
import sys
import unittest

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
PROGRAMS, TRIES = 60, 60  # Programs, and operators that are tried for each of their steps.
TOLERANCE = 1e-4  # Of sums in another order.
ROWS, COLUMNS, WIDTH, TABLE = 6, 10, 4, 16  # Sizes of the example, each a symbol.

try:
    import torch
    import torch.nn.functional as F
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    from coppice.torch import independence
    from coppice.torch.padding import simplifier
except ImportError:
    torch = None


def axis_of(source, x):
    return source.randrange(x.dim())


def unary(source, pool):
    x = source.choice(pool)
    return source.choice([torch.sin, torch.relu, F.gelu, torch.neg, torch.sigmoid, torch.tanh,
                          lambda x: x.double().float(), lambda x: x.clamp(-1, 1) * 2,
                          lambda x: torch.where(x > 0, x, x * 0.1),
                          lambda x: x.masked_fill(x < 0, 0.5), torch.clone, torch.abs])(x)


def binary(source, pool):
    x, y = source.choice(pool), source.choice(pool)
    return source.choice([torch.add, torch.mul, torch.sub, torch.maximum])(x, y)


def product(source, pool):
    x, y = source.choice(pool), source.choice(pool)
    return x @ (y if source.random() < 0.5 else y.transpose(-1, -2))


def reduction(source, pool):
    x = source.choice(pool)
    axis, kept = axis_of(source, x), source.random() < 0.5
    return source.choice([
        lambda: x.sum(axis, kept), lambda: x.mean(axis, kept), lambda: x.amax(axis, kept),
        lambda: x.var(axis, keepdim=kept), lambda: x.prod(axis, kept),
        lambda: x.argmax(axis, kept).float(), lambda: torch.logsumexp(x, axis, kept)])()


def along(source, pool):
    x = source.choice(pool)
    axis = axis_of(source, x)
    return source.choice([
        lambda: x.softmax(axis), lambda: x.log_softmax(axis), lambda: x.cumsum(axis),
        lambda: x.flip(axis), lambda: x.roll(1, axis), lambda: x.sort(axis)[0],
        lambda: x.topk(2, axis)[0], lambda: x.cummax(axis)[0], lambda: x.kthvalue(2, axis)[0],
        lambda: F.layer_norm(x, x.shape[axis:])])()


def view(source, pool):
    x = source.choice(pool)
    axis = axis_of(source, x)
    return source.choice([
        lambda: x.transpose(axis, axis_of(source, x)), lambda: x.unsqueeze(axis),
        lambda: x.flatten(axis), lambda: x.flatten(0, axis),
        lambda: x.contiguous().view(*x.shape[:axis], -1, 2, *x.shape[axis + 1:]),
        lambda: x.contiguous().view(*x.shape[:axis], 2, -1, *x.shape[axis + 1:]),
        lambda: x.unsqueeze(axis).expand(*x.shape[:axis], 3, *x.shape[axis:]),
        lambda: x.reshape(-1), lambda: x.squeeze(), lambda: x.permute(*reversed(range(x.dim())))])()


def part(source, pool):
    x = source.choice(pool)
    axis, first = axis_of(source, x), source.choice([0, 1, -2, -1])
    return source.choice([
        lambda: x.select(axis, first), lambda: x.narrow(axis, 1, 2), lambda: x.chunk(2, axis)[-1],
        lambda: x.split(2, axis)[0], lambda: x.unbind(axis)[0], lambda: x.diagonal(),
        lambda: cut(x, axis, slice(first, None)), lambda: cut(x, axis, slice(None, -1)),
        lambda: cut(x, axis, slice(1, -1, 2)), lambda: cut(x, axis, slice(0, x.shape[axis] // 2)),
        lambda: x.unfold(axis, 2, 1), lambda: x.tril(), lambda: x.triu(1)])()


def cut(x, axis, which):
    return x[(slice(None),) * axis + (which,)]


def join(source, pool):
    x, y = source.choice(pool), source.choice(pool)
    axis = axis_of(source, x)
    return source.choice([
        lambda: torch.cat([x, y], axis), lambda: torch.cat([x.narrow(axis, 0, 2), y], axis),
        lambda: torch.stack([x, y], axis), lambda: F.pad(x, (1, 0)), lambda: F.pad(x, (0, 1)),
        lambda: F.pad(x, (0, 0, 1, 1)), lambda: x.repeat(*[1] * axis, 2, *[1] * (
            x.dim() - 1 - axis)), lambda: x.repeat(2, *[1] * x.dim())])()


def sized(source, pool):
    x = source.choice(pool)
    axis = axis_of(source, x)
    size = x.shape[axis]
    return source.choice([
        lambda: x * size, lambda: x / size, lambda: x + torch.full((size,), 2.0).unsqueeze(-1),
        lambda: x + torch.arange(x.shape[-1]), lambda: x + torch.arange(x.shape[-1]).flip(0),
        lambda: x.new_full(x.shape, 3.0) * x, lambda: torch.zeros(size, 2) + 1,
        lambda: x + torch.arange(size, 2 * size).sum()])()


def indexed(source, pool):
    x = source.choice(pool)
    axis, numbers, table = axis_of(source, x), pool.numbers, pool.table
    return source.choice([
        lambda: table[numbers], lambda: F.embedding(numbers, table), lambda: table[numbers + 1],
        lambda: x[numbers % 2], lambda: torch.index_select(x, axis, numbers % 2),
        lambda: torch.zeros(8, x.shape[-1]).index_add(0, numbers, x),
        lambda: torch.zeros_like(x).scatter(axis, (x * 0).long(), x),
        lambda: x.gather(axis, (x * 0).long()), lambda: table.index_copy(0, numbers, x),
        lambda: torch.zeros(9, x.shape[-1]).index_put((numbers,), x),
        lambda: table.slice_scatter(x, 0, 0, x.shape[0]), lambda: x.select_scatter(x[0], 0, 1),
        lambda: table[torch.arange(x.shape[axis])], lambda: x[torch.arange(x.shape[0])],
        lambda: x[:, None, :, None][:, 0, :, 0],
        lambda: x[x.argmax(axis)], lambda: table[numbers[:, None].expand(-1, 3)]])()


STEPS = [unary, binary, product, reduction, along, view, part, join, sized, indexed]


class Pool(list):
    """The tensors of a program so far, of which later ones are likelier to be read."""

    def __init__(self, floats, numbers, table):
        super().__init__(floats)
        self.numbers, self.table = numbers, table


def drawn_program(source, arguments):
    """A function of such arguments that returns the tensors which it computes, by a few
    operators that fit each other."""
    *floats, table, numbers = arguments
    pool, seeds = Pool(floats, numbers, table), []
    for _ in range(source.randint(1, 6)):
        for _ in range(TRIES):
            seed = source.getrandbits(32)
            try:
                found = step(seed, pool)
            except (RuntimeError, IndexError, ValueError, TypeError):
                continue
            if found.dim() in range(1, 5) and 0 < found.numel() < 1 << 14:
                pool.append(found)
                seeds.append(seed)
                break

    def program(*arguments):
        *floats, table, numbers = arguments
        pool = Pool(floats, numbers, table)
        for seed in seeds:
            pool.append(step(seed, pool))
        return tuple(pool[len(floats):])

    return program


def step(seed, pool):
    source = random.Random(seed)
    return source.choice(STEPS)(source, pool).float()


# Functions of y of ROWS x COLUMNS, table of TABLE x COLUMNS and numbers of ROWS; which sizes they
# keep apart.
KNOWN = [
    (lambda y, table, numbers: y.sin() + y[:1], "rows columns"),
    (lambda y, table, numbers: y.softmax(-1), "rows"),
    (lambda y, table, numbers: y.cumsum(0), "columns"),
    (lambda y, table, numbers: y.sum(), ""),
    (lambda y, table, numbers: y @ y.t(), "rows"),
    (lambda y, table, numbers: y.t() @ y, "columns"),
    (lambda y, table, numbers: (y[None] @ y.t()[None])[0] + y.sum(-1), "rows"),
    (lambda y, table, numbers: F.layer_norm(y, y.shape[1:]), "rows"),
    (lambda y, table, numbers: y.flip(0), "columns"),
    (lambda y, table, numbers: y.roll(1, 1), "rows"),
    (lambda y, table, numbers: y[-1], "columns"),
    (lambda y, table, numbers: y[1], "rows columns"),
    (lambda y, table, numbers: y[-3:], "columns"),
    (lambda y, table, numbers: y[1:-2], "rows columns"),
    (lambda y, table, numbers: y[:, ::2], "rows columns"),
    (lambda y, table, numbers: y[y.shape[0] - 2:], "columns"),
    (lambda y, table, numbers: torch.cat([y, y]), "columns"),
    (lambda y, table, numbers: torch.cat([y[:2], y]), "rows columns"),
    (lambda y, table, numbers: torch.stack([y, y]), "columns"),
    (lambda y, table, numbers: torch.stack([y, y], 1).view(-1, y.shape[1]), "rows"),
    (lambda y, table, numbers: y.view(-1), "rows"),
    (lambda y, table, numbers: y.view(-1, 2, y.shape[1]), "columns"),
    (lambda y, table, numbers: y.view(2, -1, y.shape[1]), "columns"),
    (lambda y, table, numbers: y.t().reshape(-1), "columns"),
    (lambda y, table, numbers: y.view(y.shape[0], -1, 2).sum(-1), "rows"),
    (lambda y, table, numbers: y[:, None].expand(-1, 3, -1), "rows columns"),
    (lambda y, table, numbers: y.repeat(2, 1), "columns"),
    (lambda y, table, numbers: F.pad(y, (1, 1)), "rows"),
    (lambda y, table, numbers: y * y.shape[0], "columns"),
    (lambda y, table, numbers: y.new_ones(3) * y.shape[0], "columns"),
    (lambda y, table, numbers: y + torch.arange(y.shape[1]), "rows columns"),
    (lambda y, table, numbers: y + torch.arange(y.shape[1]).flip(0), "rows"),
    (lambda y, table, numbers: y.tril(), "rows columns"),
    (lambda y, table, numbers: y.diagonal(), ""),
    (lambda y, table, numbers: y.unfold(0, 2, 1), ""),
    (lambda y, table, numbers: F.conv1d(y[:, None], y.new_ones(1, 1, 3)), "rows"),
    (lambda y, table, numbers: table[numbers], "rows columns"),
    (lambda y, table, numbers: F.embedding(numbers, table), "rows columns"),
    (lambda y, table, numbers: table[numbers + 1], "columns"),
    (lambda y, table, numbers: y[numbers % 2], "columns"),
    (lambda y, table, numbers: y[torch.arange(y.shape[0])], "rows columns"),
    (lambda y, table, numbers: y[torch.arange(y.shape[0])[:, None], torch.arange(y.shape[1])],
     "rows columns"),
    (lambda y, table, numbers: y[torch.arange(y.shape[0]) - 1], "columns"),
    (lambda y, table, numbers: table[torch.arange(y.shape[0])], "columns"),
    (lambda y, table, numbers: y[(y > 0).long().argmax(0)], ""),
    (lambda y, table, numbers: table.index_copy(0, numbers, y), "columns"),
    (lambda y, table, numbers: table.index_add(0, numbers, y), "columns"),
    (lambda y, table, numbers: table.slice_scatter(y, 0, 0, y.shape[0]), "columns"),
    (lambda y, table, numbers: y.gather(0, numbers[:, None]), "columns"),
    (lambda y, table, numbers: y.gather(1, numbers[:, None]), "rows"),
    (lambda y, table, numbers: torch.zeros_like(y).scatter(1, numbers[:, None], 1.0), "rows"),
    (lambda y, table, numbers: torch.zeros_like(y).scatter(0, numbers[None], 1.0), "columns"),
    (lambda y, table, numbers: y + torch.rand(y.shape[0], 1), "columns"),
    (lambda y, table, numbers: y.view(torch.int16), "rows columns"),
    (lambda y, table, numbers: y.view(torch.int32), "rows columns"),
]


def of_three(function):
    return lambda x, y, weight, table, numbers: (function(y, table, numbers), x, weight)


def inputs(sizes, seed, pad=None, real=None):
    """Tensors of {symbol of the example: size}; what lies beyond the `real` sizes is `pad`."""
    generator, noise = (torch.Generator().manual_seed(seed + one) for one in (0, 1))
    shapes = [(ROWS, WIDTH), (ROWS, COLUMNS), (WIDTH, COLUMNS), (TABLE, COLUMNS), (ROWS,)]
    result = []
    for number, shape in enumerate(shapes):
        known = [(real or sizes)[size] for size in shape]
        wanted = [sizes[size] for size in shape]
        if number < 4:
            values = torch.randn(known, generator=generator)
            padded = torch.full(wanted, float("nan")) if pad == "nan" else torch.randn(
                wanted, generator=noise) * 1000
        else:
            values = torch.randint(0, 7, known, generator=generator)
            padded = torch.zeros(wanted, dtype=torch.int64)
        padded[tuple(map(slice, known))] = values
        result.append(padded)
    return result


def traced(function, arguments):
    return make_fx(function, decomposition_table=select_decomp_table(),
                   tracing_mode="symbolic")(*arguments)


def verdicts(module):
    """{size of the example: Verdict} of each symbol of a graph's inputs."""
    found, env = {}, None
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta["val"]
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                env = size.node.shape_env
                found[int(size.node.hint)] = size.node.expr.name
    return {size: independence.verdict_of(module.graph, name, simplifier(env))
            for size, name in found.items()}


@unittest.skipUnless(torch, "torch is not there")
class IndependenceTest(unittest.TestCase):
    def test_drawn_programs_compute_what_they_do_without_padding(self):
        source, counts, rules = random.Random(SEED), collections.Counter(), collections.Counter()
        for number in range(PROGRAMS):
            seed = source.getrandbits(32)
            with self.subTest(program=number, seed=seed), torch.no_grad():
                self.check(seed, counts, rules)
        # So that neither all nor nothing is called independent, and most is tried.
        self.assertGreater(counts["independent"], PROGRAMS)
        self.assertGreater(counts["dependent"], PROGRAMS)
        self.assertGreater(counts["runs"], PROGRAMS)
        self.assertGreater(len(rules), PROGRAMS // 2)
        if "-v" in sys.argv:
            print(counts, rules.most_common(), file=sys.stderr)

    def test_what_known_operators_keep_apart(self):
        real = {size: size for size in (ROWS, COLUMNS, WIDTH, TABLE)}
        for number, (function, expected) in enumerate(KNOWN):
            with self.subTest(number=number):
                module = traced(of_three(function), inputs(real, 1))
                found = verdicts(module)
                self.assertEqual(
                    expected, " ".join(name for name, size in (("rows", ROWS), ("columns", COLUMNS))
                                       if not found[size].reason), (found, module.code))

    def check(self, seed, counts, rules):
        real = {size: size for size in (ROWS, COLUMNS, WIDTH, TABLE)}
        program = drawn_program(random.Random(seed), inputs(real, seed))
        module = traced(program, inputs(real, seed))
        rules.update({independence.name_of(node) for node in module.graph.nodes
                      if node.op == "call_function"})
        right = module(*inputs(real, seed))
        for size, verdict in verdicts(module).items():
            counts["dependent" if verdict.reason else "independent"] += 1
            if verdict.reason:
                continue
            for larger in (size + 2, 2 * size):
                for pad in ("nan", "noise"):
                    given = inputs({**real, size: larger}, seed, pad, real)
                    try:
                        got = module(*given)
                    except RuntimeError:  # A size that breaks a guard, as of a view.
                        counts["refused"] += 1
                        continue
                    counts["runs"] += 1
                    for one, other in zip(got, right, strict=True):
                        within = one[tuple(map(slice, other.shape))]
                        torch.testing.assert_close(within, other, atol=TOLERANCE, rtol=TOLERANCE,
                                                   equal_nan=True, msg=lambda text: (
                                                       f"size {size} at {larger}, {pad}: {text}\n"
                                                       f"{module.code}"))


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
