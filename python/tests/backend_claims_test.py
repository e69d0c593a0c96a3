#!/usr/bin/env python3
"""Goal: what is padded by `torch.compile(backend="coppice")` is what the caller promises of it, or
what the graph proves; rows that are written by an index, random numbers and what was saved for
later are those of eager, or are not padded, with a reason.
Method: functions are compiled with claims, called at sizes below a bucket, and compared with eager;
the report says which sizes were padded and why. Tensors are changed behind PyTorch's back.

    backend_claims_test.py [unittest's options]

Without torch, or without the extension, all is skipped.
"""

import copy
import unittest

TOLERANCE = 1e-5
SLOTS, NOBODYS = 12, 11  # Rows of a cache, and the one that nobody reads.

try:
    import torch
    import torch.nn.functional as F
    from torch import nn

    import coppice.torch
    from coppice.torch import reports
    from coppice.torch import session as shared
    from coppice.torch.options import parse
except ImportError:
    torch = None
try:
    from torch.fx.experimental import dynamic_spec
except ImportError:
    dynamic_spec = None


def put(x, slots, cache):
    cache[slots] = x * 2
    return x + 1


def copied(x, slots, cache):
    cache.index_copy_(0, slots, x * 2)
    return x + 1


def added(x, slots, cache):
    cache.scatter_add_(0, slots[:, None].expand(-1, 4), x + 1)
    return x * 2


def added_by_index(x, slots, cache):
    cache.index_add_(0, slots, x + 1)
    return x * 2


def updated(x, slots, cache):
    cache[slots] = cache[slots] * 0.5 + x
    return cache[slots]


def paged(x, slots, cache):
    pages = cache.view(3, 4, 4)
    pages[slots // 4, slots % 4] = x
    return x + 1


def in_front(x, cache):
    cache[:x.shape[0]] = x
    return x + 1


def counted(x, cache):
    cache[torch.arange(x.shape[0])] = x
    return x + 1


BY_INDEX = [put, copied, added, added_by_index, updated, paged]
# Which axes of x a graph proves independent.
PROOFS = [
    (lambda x: x.softmax(-1), [0]), (lambda x: F.layer_norm(x, x.shape[1:]), [0]),
    (lambda x: x.mean(-1), [0]), (lambda x: x.amin(0), [1]), (lambda x: x.cumsum(-1)[:, -1], [0]),
    (lambda x: x.sort(0)[0], [1]), (lambda x: x.flip(1), [0]), (lambda x: x @ x.t(), [0]),
    (lambda x: torch.cat([x, x]), [1]), (lambda x: x[-1] * 2, [1]), (lambda x: x * x.shape[1], [0]),
    (lambda x: x.sin() + x[:, :1], [0, 1]), (lambda x: x.view(-1) * 2, [0])]


@unittest.skipUnless(torch, "torch or the extension is not there")
class BackendClaimsTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(1)
        reports.told.clear()

    def compiled(self, function, dynamic=None, claim="any", **options):
        every = isinstance(claim, str) or "*" in claim
        named = [] if every else [name for name in claim if ":" in name]
        policy = ("pow2", 64) if every else dict.fromkeys(named, ("pow2", 64))
        return torch.compile(function, backend=coppice.torch.backend, dynamic=dynamic,
                             options={**({"policy": policy} if policy else {}), "claim": claim,
                                      **options})

    def near(self, got, right):
        torch.testing.assert_close(got, right, atol=TOLERANCE, rtol=TOLERANCE)

    def same(self, compiled, function, *arguments, marked=(), rows=slice(None)):
        """That a call computes what eager does, and writes the same `rows` of its last argument."""
        others = copy.deepcopy(arguments)
        for x in marked:
            torch._dynamo.mark_dynamic(x, 0)
        with torch.no_grad():
            self.near(compiled(*arguments), function(*others))
        self.near(arguments[-1][rows], others[-1][rows])
        (report,) = coppice.torch.report(compiled)
        return report

    # Claims of all sizes.

    def test_of_all_sizes_those_are_padded_that_the_graph_proves_independent(self):
        for number, (function, proved) in enumerate(PROOFS):
            torch._dynamo.reset()
            with self.subTest(number=number), self.assertLogs("coppice") as logged:
                reports.log.warning("Each has a line, but for the last ones.")
                compiled = self.compiled(function, dynamic=True, poison="nan")
                for rows in (5, 3):
                    report = self.same(compiled, function, torch.randn(rows, 6))
                names = [f"x:{axis}" for axis in proved]
                self.assertEqual(dict.fromkeys(names, "proved"), report.padded)
                self.assertEqual({"x:0", "x:1"} - {*names}, {*report.unpadded})
                said = [line for line in logged.output if "does not pad" in line]
                self.assertEqual(2 - len(names), len(said))
                for name, why_not in report.unpadded.items():
                    self.assertIn(f"does not pad {name}: {why_not}", said[-1])
                    self.assertRegex(why_not, r"(aten|prims)\.\w+ .*backend_claims_test.py")
            self.assertTrue(report.lifted)

    def test_rows_of_a_model_are_proved_and_padded(self):
        module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 8),
                               nn.Softmax(-1)).requires_grad_(False)
        compiled = self.compiled(module, dynamic=True, poison="noise", strict=True)
        for rows in (5, 7):
            report = self.same(compiled, module, torch.randn(rows, 8))
        self.assertEqual(({"args[0]:0": "proved"}, {}), (report.padded, report.unpadded))
        self.assertEqual([[8]], self.buckets(report))

    def test_marked_and_named_sizes_are_the_callers_promise(self):
        def centred(x):
            return x - x.mean(0)

        marks = torch._dynamo.mark_dynamic, torch._dynamo.decorators.mark_unbacked
        cases = [({"claim": {"x:0": "fill"}}, None, "named"),
                 ({"claim": "fill", "policy": {"x:0": ("pow2", 64)}}, None, "named"),
                 ({"claim": "fill", "policy": {"x:0": ("pow2", 64)}}, marks[1], "named"),
                 *[({"claim": "fill"}, mark, "marked") for mark in marks]]
        for options, mark, why in cases:
            torch._dynamo.reset()
            compiled, x = self.compiled(centred, None if mark else True, **options), torch.randn(
                5, 4)
            if mark:
                mark(x, 0)
            compiled(x)
            (report,) = coppice.torch.report(compiled)
            self.assertEqual((why, []), (report.padded.get("x:0"), report.ignored), options)

    @unittest.skipUnless(dynamic_spec, "this PyTorch has no dynamic_shapes")
    def test_sizes_of_dynamic_shapes_are_the_callers_promise(self):
        shapes = {"x": dynamic_spec.TensorSpec([dynamic_spec.ShapeVar("rows"), None])}
        compiled = torch.compile(lambda x: x - x.mean(0), backend=coppice.torch.backend,
                                 dynamic_shapes=shapes, options={"claim": "fill"})
        compiled(torch.randn(5, 4))
        self.assertEqual({"x:0": "marked"}, coppice.torch.report(compiled)[0].padded)

    def test_of_all_others_is_claimed_beside_those_by_name(self):
        compiled = self.compiled(lambda x: x.sin(), dynamic=True,
                                 claim={"x:0": "any", "*": "finite"})
        compiled(torch.randn(3, 5))
        (report,) = coppice.torch.report(compiled)
        self.assertEqual({"x:0": "named", "x:1": "proved"}, report.padded)

    def test_integers_that_are_indices_hold_their_fill_whatever_is_claimed(self):
        table, others = torch.randn(10, 4), torch.randn(7, 4)

        def lookup(ids, positions):
            return F.embedding(ids, table) + others[positions]

        for poison in ("nan", "pattern", "noise"):
            torch._dynamo.reset()
            compiled = self.compiled(lookup, poison=poison)
            for rows in (3, 5):
                given = [torch.randint(0, high, (rows,)) for high in (10, 7)]
                report = self.same(compiled, lookup, *given, marked=given)
            self.assertEqual({"marked"}, {*report.padded.values()})

    # Rows that are written by an index.

    def test_rows_that_padding_would_write_are_not_padded(self):
        for function in (*BY_INDEX, in_front, counted):
            for claim in ("any", "fill"):
                torch._dynamo.reset()
                with self.subTest(function=function.__name__, claim=claim):
                    report = self.written(function, (slice(None),), claim=claim)
                    reason, *_ = report.unpadded.values()
                    self.assertRegex(reason, "writes rows of padding to cache: .*claim={'cache'")
                    self.assertEqual(function in BY_INDEX, "fills={'slots'" in reason)

    def written(self, function, rows, sizes=(3, 5, 3), **options):
        """The report of calls that write a cache."""
        compiled = self.compiled(function, **options)
        for count in sizes:
            x, slots = torch.randn(count, 4), torch.randperm(SLOTS - 1)[:count]
            given = (x, slots) if function in BY_INDEX else (x,)
            report = self.same(compiled, function, *given, torch.randn(SLOTS, 4), marked=given,
                               rows=rows)
        return report

    def test_rows_of_padding_are_written_where_the_caller_says(self):
        for function in BY_INDEX:
            for options in ({"claim": "any"}, {"claim": "finite", "poison": "nan"}):
                torch._dynamo.reset()
                with self.subTest(function=function.__name__, options=options):
                    report = self.written(function, slice(NOBODYS), fills={"slots": NOBODYS},
                                          **options)
                    self.assertEqual(({"marked"}, {}), ({*report.padded.values()},
                                                        report.unpadded))
                    self.assertEqual({4, 8}, {size for bucket in self.buckets(report)
                                              for size in bucket})

    def test_rows_that_nobody_reads_may_be_written(self):
        for function, sizes in ((in_front, (3, 5)), (counted, (3, 5))):
            torch._dynamo.reset()
            compiled = self.compiled(function, claim={"*": "any", "cache": "written"})
            for count in sizes:
                x, cache = torch.randn(count, 4), torch.randn(SLOTS, 4)
                report = self.same(compiled, function, x, cache, marked=[x],
                                   rows=slice(count))
            self.assertEqual({"x:0": "marked"}, report.padded)

    def test_what_is_asked_for_and_not_padded_is_an_error_under_strict(self):
        with self.assertRaisesRegex(Exception, "NotLifted.*does not pad .*index_put writes rows"):
            self.written(put, slice(None), strict=True)
        torch._dynamo.reset()
        softmax = self.compiled(lambda x: x.softmax(-1), dynamic=True, strict=True)
        softmax(torch.randn(3, 5))  # Nobody asked for its columns.

    def test_a_fill_is_a_row(self):
        for fill in (SLOTS, -1, "sentinel", "repeat_last", 0.5):
            torch._dynamo.reset()
            with self.subTest(fill=fill), self.assertRaisesRegex(
                    Exception, "ValueError: coppice: the fill of slots is .*give a row from 0 to "
                               "11"):
                self.written(put, slice(None), fills={"slots": fill})

    def test_a_cache_whose_rows_vary_has_no_row_for_padding(self):
        compiled = self.compiled(put, dynamic=True, fills={"slots": NOBODYS},
                                 claim={"x:0": "any", "slots:0": "any"})
        given = torch.randn(3, 4), torch.randperm(NOBODYS)[:3], torch.randn(SLOTS, 4)
        report = self.same(compiled, put, *given)
        self.assertRegex("".join(report.unpadded.values()), "number of rows varies.*mark_static")

    def test_fills_and_written_tensors_that_are_none_are_told(self):
        for options, pattern in (
                ({"fills": {"slots": 3}}, "fills says what padding holds, but nothing is padded"),
                ({"claim": "any", "fills": {"slots": "ones"}}, "fill of slots is 'ones'"),
                ({"claim": "any", "fills": {"slots:0": 1}}, "has 'slots:0', which .*'slots'"),
                ({"claim": "any", "fills": 3}, "fills is 3, not a dict"),
                ({"claim": "written"}, "claim of all sizes: 'written' is not a claim"),
                ({"claim": {"cache:0": "written"}}, "claim of cache:0: 'written' is not a claim")):
            with self.subTest(options=options), self.assertRaisesRegex(ValueError, pattern):
                parse(options)
        compiled = self.compiled(torch.sin, fills={"slots": 3})
        with self.assertLogs("coppice") as logged:
            compiled(torch.randn(3, 4))
        self.assertRegex(logged.output[0], "the options name slots, but no size has such a name")
        self.assertEqual(["slots"], coppice.torch.report(compiled)[0].ignored)

    # Random numbers.

    def test_sizes_that_say_how_many_random_numbers_are_drawn_are_not_padded(self):
        draws = [lambda x: F.dropout(x, 0.5, True) + torch.rand_like(x),
                 lambda x: x * torch.randn(x.shape[0], 1), lambda x: torch.bernoulli(x.sigmoid()),
                 lambda x: x[torch.randperm(x.shape[0])]]
        for function in draws:
            for claim in ("any", {"x:0": "any"}):
                torch._dynamo.reset()
                compiled = self.compiled(function, dynamic=True, claim=claim, fallback_random=True)
                for rows in (5, 6):
                    x = torch.ones(rows, 8)
                    torch.manual_seed(rows)
                    got, after = compiled(x), torch.get_rng_state()
                    torch.manual_seed(rows)
                    self.near(got, function(x))
                    self.assertTrue(torch.equal(after, torch.get_rng_state()))
                (report,) = coppice.torch.report(compiled)
                if report.lifted:
                    self.assertRegex(report.unpadded["x:0"],
                                     "draws more random numbers .*fallback_random")

    def test_gradients_of_padded_random_numbers_are_of_those_that_were_drawn(self):
        def noisy(x):
            return torch.utils.checkpoint.checkpoint(
                lambda x: F.dropout(x.sin(), 0.5, True).exp(), x, use_reentrant=False)

        for axis, padded in ((0, True), (1, False)):
            torch._dynamo.reset()
            compiled = self.compiled(noisy, claim={f"x:{axis}": "any"})
            x = torch.full((5, 5), 0.5)
            torch._dynamo.mark_dynamic(x, axis)
            x.requires_grad_()
            y = compiled(x)
            y.sum().backward()
            kept = (y != 1).float()
            self.near(x.grad, y.detach() * kept * 2 * torch.tensor(0.5).cos())
            report = coppice.torch.report(compiled)[0]
            self.assertEqual(padded, f"x:{axis}" in report.padded, report.unpadded)

    # What was saved.

    CHANGES = {
        "data": lambda x: x.data.mul_(0.5), "negated": lambda x: x.data.neg_(),
        "numpy": lambda x: x.detach().numpy().fill(0.25),
        "dlpack": lambda x: torch.from_dlpack(x.detach()).mul_(0.5),
        "foreach": lambda x: torch._foreach_mul_([x.data], 0.5),
        "storage": lambda x: torch.empty(0).set_(x.untyped_storage()).fill_(0.3),
    } if torch else {}

    def test_gradients_are_of_what_saved_tensors_hold(self):
        compiled = self.compiled(torch.sigmoid)
        before = self.inputs_in_place()
        for name, change in {"none": lambda y: None, **self.CHANGES}.items():
            gradients = []
            for function in (compiled, torch.sigmoid):
                x = torch.linspace(-2, 2, 6, requires_grad=True)
                y = function(x)
                change(y)
                y.sum().backward()
                gradients.append(x.grad)
            with self.subTest(name):
                self.near(*gradients)
            if name == "none":
                self.assertGreater(self.inputs_in_place(), before, "what nobody changed stays")

    @staticmethod
    def inputs_in_place():
        known = shared.sessions.get(coppice.device("emulator"))
        return known.session.stats()["inputs_in_place"] if known else 0

    def test_weights_and_buffers_are_read_as_they_are(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4, 4))
                self.register_buffer("sums", torch.zeros(4))

            def forward(self, x):
                self.sums += x.sum(0)
                return x @ self.weight + self.sums

        module = Scaled()
        other = copy.deepcopy(module)
        compiled = self.compiled(module)
        moves = {"moved": lambda x: setattr(x, "data", x.detach().clone() + 1),
                 "set": lambda x: x.detach().set_(torch.full((4,) * x.dim(), 2.0)),
                 "turned": lambda x: setattr(x, "data", x.detach().t().clone().t())}
        for name, change in {**self.CHANGES, **moves}.items():
            x = torch.randn(3, 4)
            with self.subTest(name), torch.no_grad():
                for one in (module, other):
                    change(one.weight)
                    change(one.sums)
                self.near(compiled(x), other(x))
                self.near(module.sums, other.sums)

    def buckets(self, report):
        return [bucket["bucket"] for bucket in coppice.session().buckets()
                if bucket["program"] == report.program]


if __name__ == "__main__":
    unittest.main()
