#!/usr/bin/env python3
"""Goal: what only PyTorch can run leaves the rest of a function its graphs, and what crosses the
edges between the two, written or read, is right.
Method: graph_behaviours.py; functions with operators of the test's own, with operators that have no
kernel, and with breaks, where Dynamo makes two functions of one.

    graph_behaviours_pieces_test.py [unittest's options]
"""

import copy
from unittest import mock

from graph_behaviours import RECORD, REPLAY, BehaviourTest, leaves, main, torch

if torch:
    import coppice
    import triton
    import triton.language as tl
    from coppice.torch import compiler
    from torch import nn

    library = torch.library.Library("graph_behaviours", "DEF")
    operators = torch.ops.graph_behaviours


def define(signature, run, shape):
    """An operator of the test's own, of which only `shape` is known to compilers."""
    name = signature.split("(")[0]
    library.define(signature)
    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"graph_behaviours::{name}", shape, lib=library)


def bump(x):
    x.add_(1)


def bumped(x):
    x.add_(1)
    return x + 1, x + 2


def summed(x, y):
    y.add_(1)
    return x + y


def sines(x, out):
    filled(x.sin(), out)
    return x.sin()


def filled(x, out):
    for factor, one in enumerate(out, 1):
        one.copy_(x * factor)


def tripled(x, out):
    out.copy_(x * 3)


def widened(x):
    result = x.new_zeros(8, x.shape[1])
    result[:x.shape[0]] = x
    return result


if torch:
    define("twice(Tensor x) -> Tensor", lambda x: x * 2, torch.empty_like)
    define("bump(Tensor(a!) x) -> ()", bump, lambda x: None)
    define("bumped(Tensor(a!) x) -> (Tensor, Tensor)", bumped,
           lambda x: (torch.empty_like(x), torch.empty_like(x)))
    define("tripled(Tensor x, Tensor(a!) out) -> ()", tripled, lambda x, out: None)
    define("widened(Tensor x) -> Tensor", widened, lambda x: x.new_empty(8, x.shape[1]))
    define("beyond(int size, int live, Device device) -> Tensor",
           lambda size, live, device: torch.arange(size, device=device) >= live,
           lambda size, live, device: torch.empty(size, dtype=torch.bool, device=device))
    define("summed(Tensor x, Tensor(a!)? y) -> Tensor", summed, lambda x, y: torch.empty_like(x))
    define("sines(Tensor x, Tensor(a!)[] out) -> Tensor", sines,
           lambda x, out: torch.empty_like(x))
    define("filled(Tensor x, Tensor(a!)[] out) -> ()", filled, lambda x, out: None)

    @triton.jit
    def add(x, y, z, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(z + at, tl.load(x + at, at < count) + tl.load(y + at, at < count), at < count)


def add_by_a_kernel(x, y):
    z, count = torch.empty_like(x), x.numel()
    add[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](x, y, z, count, BLOCK=16)
    return z


class PiecesTest(BehaviourTest):
    IN_CI = {"test_two_operators_without_kernels_at_three_sizes",
             "test_operator_that_writes_is_seen_by_what_follows_five_times",
             "test_operator_without_a_kernel_is_told_once_by_name"}

    def check(self, function, *calls, names=()):
        """Everything but the named operators is lifted. Returns the compiled function."""
        compiled = self.compiled(function)
        kinds = self.each(compiled, function, *calls, *calls)
        self.assertEqual([REPLAY] * len(calls), kinds[len(calls):])
        (one,) = coppice.torch.report(compiled)
        self.assertEqual((True, [f"graph_behaviours.{name}.default" for name in names]),
                         (one.lifted, one.calls))
        return compiled

    def test_two_operators_without_kernels_at_three_sizes(self):
        def mixed(x):
            made = operators.twice((x + 1).sin())
            return operators.twice(made * 3).cos(), made.sum(1)

        compiled = self.check(mixed, *[(torch.randn(n, 4),) for n in (5, 6, 3)], names=["twice"])
        self.assertEqual([[3, 4], [5, 4], [6, 4]], sorted(self.buckets(compiled)))
        (one,) = coppice.torch.report(compiled)
        self.assertLessEqual(2, one.kernels, "what lies around them is lifted")

    def test_operator_without_a_kernel_is_told_once_by_name(self):
        with self.assertLogs("coppice", "WARNING") as logged:
            compiled = self.compiled(lambda x: torch.topk(x * 2, 2)[0].sin())
            for n in (5, 5, 6):
                compiled(torch.randn(n, 4))
        self.assertEqual(1, len(logged.output))
        self.assertRegex(logged.output[0], "aten.topk.default has no Triton kernel")
        (one,) = coppice.torch.report(compiled)
        self.assertEqual((1, ["aten.topk.default has no Triton kernel"]),
                         (len(one.calls), one.reasons))
        self.assertEqual(3, one.runs)

    def test_whole_functions_without_kernels_run_in_graphs(self):
        kinds = self.each(self.compiled(operators.twice), operators.twice,
                          *[(torch.randn(5, 4),)] * 2)
        self.assertEqual([RECORD, REPLAY], kinds)

    def test_operator_that_writes_is_seen_by_what_follows_five_times(self):
        def write(x, state):
            made = x + state
            operators.bump(state)
            return made * state

        compiled = self.check(write, (torch.randn(5, 4), torch.zeros(5, 4)), names=["bump"])
        state, known = torch.zeros(5, 4), torch.zeros(5, 4)
        for _ in range(5):
            x = torch.randn(5, 4)
            with torch.no_grad():
                self.near(compiled(x, state), write(x, known))
            self.near(state, known)

    def test_operator_that_writes_what_the_function_made(self):
        def write(x):
            made = x.sin()
            operators.bump(made)
            return made * 2

        self.check(write, (torch.randn(5, 4),), names=["bump"])

    def test_operator_that_writes_and_returns_is_seen_by_the_next(self):
        def write(x):
            first, second = operators.bumped(x + 1)
            made = operators.twice(first + second) + first
            third, fourth = operators.bumped(made)
            return operators.twice(third * fourth) + made

        self.check(write, *[(torch.randn(5, 4),) for _ in range(3)], names=["bumped", "twice"])

    def test_operators_that_write_arguments_and_make_results_do_both(self):
        def fill(x, y):
            made = x.cos()
            operators.filled(x * 2, [made, y])
            return made + 1, y + 1

        for name, write in {
                "summed": lambda x, y: (operators.summed(x * 2, y) * 2, y + 1),
                "sines": lambda x, y: (operators.sines(x * 2, [y]) * 2, y + 1),
                "bumped": lambda x, y: (operators.bumped(y)[1] * x, y + 1), "filled": fill}.items():
            with self.subTest(name):
                torch._dynamo.reset()
                self.check(write, *[(torch.randn(n, 4), torch.randn(n, 4)) for n in (5, 6)],
                           names=[name])

    def test_operator_whose_arguments_are_sizes_alone(self):
        def reduce(x, like, weight):
            x = (x + 1).relu()
            x = x + x.dot(weight)
            mask = operators.beyond(x.shape[0], like.shape[0], x.device)
            return (x.masked_fill(mask, float("inf")).amin()
                    + x.masked_fill(mask, -float("inf")).amax() + x)

        compiled = self.compiled(reduce)
        kinds = self.each(compiled, reduce, *[
            (torch.randn(8), torch.empty(live, device="meta"), torch.randn(8))
            for live in (4, 4, 6, 6)])
        self.assertEqual([RECORD, REPLAY] * 2, kinds)
        for one in coppice.torch.report(compiled):
            self.assertEqual(["graph_behaviours.beyond.default"], one.calls)

    def test_operator_whose_result_is_of_one_size(self):
        self.check(lambda x: operators.widened(operators.twice(x)) + 1,
                   *[(torch.randn(n, 4),) for n in (5, 3, 7)], names=["twice", "widened"])

    def test_kernel_of_the_caller_is_launched_again_behind_an_operator(self):
        def mixed(x, y):
            made = add_by_a_kernel(x, y)
            return made, add_by_a_kernel(operators.twice(made), y)

        launched, lower = [], compiler.lower

        def lower_and_note(*arguments):
            lowered = lower(*arguments)
            launched.extend(step["kernel"] for step in lowered.program["steps"]
                            if step["op"] == "kernel")
            return lowered

        calls = [(torch.randn(n), torch.randn(n)) for n in (128, 100)]
        with mock.patch.object(compiler, "lower", lower_and_note):
            kinds = self.each(self.compiled(mixed), lambda x, y: (x + y, (x + y) * 2 + y),
                              *calls, *calls)
        self.assertEqual([RECORD] * 2 + [REPLAY] * 2, kinds)
        self.assertEqual((2, 1), (len(launched), len(set(launched))), "one kernel, twice")

    def test_two_operators_that_write_and_what_they_wrote_is_read_late(self):
        def write(x, first, second):
            made = x + 1
            operators.bump(first)
            more = made * first
            operators.bump(second)
            operators.bump(first)
            late = more + second
            return late * made, first * 2

        self.check(write, (torch.randn(5, 4), torch.randn(5, 4), torch.randn(5, 4)),
                   names=["bump"])

    def test_buffers_are_used_again_around_an_operator(self):
        weight = nn.Parameter(torch.randn(8, 4))

        def mixed(x):
            parts = [operators.twice((x * scale).sin()) + scale for scale in (1, 2, 3)]
            made = torch.cat(parts) @ weight[:4]
            out = torch.empty_like(made)
            operators.tripled(made, out)
            return out @ weight[4:]

        compiled = self.compiled(mixed)
        kinds = self.each(compiled, mixed, *[(torch.randn(5, 4),) for _ in range(3)])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_bytes_are_viewed_as_another_type_around_an_operator(self):
        def view(x):
            made = operators.twice(x + 1)
            return made.view(torch.int32) + 1, made.view(torch.float8_e4m3fn).view(torch.int8)

        kinds = self.each(self.compiled(view), view, *[(torch.randn(5, 4),)] * 2)
        self.assertEqual([RECORD, REPLAY], kinds)

    def test_numbers_of_the_host_reach_operators_and_kernels(self):
        def mixed(x, number, factor):
            return operators.twice(x * number) + factor, operators.twice(factor + 1)

        calls = [(torch.randn(5, 4), number, torch.tensor(factor))
                 for number, factor in ((2, 3.0), (3, 5.0))]
        self.check(mixed, *calls, names=["twice"])

    def test_forward_in_pieces_and_its_backward(self):
        def mixed(x):
            return torch.topk((x * 2).sin(), 2)[0].cos()

        compiled = self.compiled(mixed)
        kinds = self.train(compiled, mixed, *[(torch.randn(5, 4),) for _ in range(3)])
        self.assertEqual([(RECORD, RECORD), (REPLAY, REPLAY), (REPLAY, REPLAY)], kinds)
        forward, backward = coppice.torch.report(compiled)
        self.assertEqual((["aten.topk.default"], []), (forward.calls, backward.calls))

    # Breaks, where Dynamo makes two functions of one.

    def broken(self, function, *calls, pieces=2):
        """Calls a function that breaks twice with each tuple of arguments."""
        self.leaves_programs = True
        compiled = self.compiled(function)
        for kind in ("record", "replay"):
            for arguments in calls:
                given, known = copy.deepcopy(arguments), copy.deepcopy(arguments)
                with torch.no_grad():
                    got, ran = self.ran(compiled, *given)
                    self.near(got, function(*known))
                self.near(given, known)
                self.assertEqual({kind: pieces}, ran)
        return compiled

    def test_two_sizes_of_a_function_in_two_pieces_are_four_graphs(self):
        def broken(x):
            made = x * 2
            torch._dynamo.graph_break()
            return made.sin()

        compiled = self.broken(broken, *[(torch.randn(n, 4),) for n in (5, 6)])
        self.assertEqual(4, len(self.buckets(compiled)))

    def test_buffer_that_one_piece_writes_is_seen_by_the_next(self):
        class Running(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(4))

            def forward(self, x):
                self.seen.add_(x.sum(0))
                torch._dynamo.graph_break()
                return x + self.seen

        self.leaves_programs = True
        module, right = Running(), Running()
        compiled = self.compiled(module)
        with torch.no_grad():
            for kind in ("record", "replay", "replay"):
                x = torch.randn(5, 4)
                got, ran = self.ran(compiled, x)
                self.near((got, module.seen), (right(x), right.seen))
                self.assertEqual({kind: 2}, ran)

    def test_host_code_between_two_pieces_decides(self):
        def broken(x):
            made = x * 2
            if float(made.sum()) > 0:
                return made.sin()
            return made.cos()

        self.leaves_programs = True
        compiled = self.compiled(broken)
        for number in range(3):
            for sign in (1, -1):
                x = sign * torch.ones(5, 4)
                got, ran = self.ran(compiled, x)
                self.near(got, broken(x))
        self.assertEqual({"replay": 2}, ran)

    def test_number_of_the_host_that_is_made_between_two_pieces(self):
        def broken(x, scalar):
            made = x * 2
            torch._dynamo.graph_break()
            return made * (scalar + 1), scalar * 2

        self.broken(broken, (torch.randn(5, 4), torch.tensor(3.0)))

    def test_pieces_and_what_runs_between_them_have_gradients(self):
        def broken(x):
            made = (x * 2).sin()
            torch._dynamo.graph_break()
            return made * made

        self.leaves_programs = True
        kinds = self.train(self.compiled(broken), broken, *[(torch.randn(5, 4),)] * 3)
        self.assertEqual([({"record": 2}, {"record": 2})] + [({"replay": 2}, {"replay": 2})] * 2,
                         kinds)

    def test_chain_whose_last_function_is_not_called(self):
        first, second = self.compiled(lambda x: operators.twice(x).sin()), self.compiled(
            lambda x: x.cos() * 2)
        kinds = []
        for number in range(4):
            (x,) = leaves((torch.randn(5, 4),))
            with torch.no_grad():
                made, ran = self.ran(first, x)
                if number % 2 == 0:
                    self.near(second(made), (x * 2).sin().cos() * 2)
            kinds.append(ran)
        self.assertEqual([RECORD] + [REPLAY] * 3, kinds)

    def test_function_in_pieces_leaves_nothing(self):
        known = []
        for _ in range(3):
            compiled = self.compiled(lambda x: operators.twice(x + 1).sin())
            compiled(torch.randn(5, 4))
            del compiled
            self.tearDown()
            known.append(self.session().memory()["bytes"])
        self.assertEqual(known[1], known[2])


if __name__ == "__main__":
    main()
