#!/usr/bin/env python3
"""Goal: which calls have graphs can be said around them and by options, limits hold, weights that
move are recorded once per place, and what has no graph says why, once.
Method: graph_behaviours.py; stances, sessions of their own with limits, weights that are swapped
for others and back, and the log.

    graph_behaviours_control_test.py [unittest's options]
"""

import copy
import re

from graph_behaviours import EAGER, RECORD, REPLAY, BehaviourTest, main, torch

if torch:
    import coppice
    from torch import nn
    from torch._dynamo import config as dynamo_config


def affine(x):
    return x * 2 + 1


class StanceTest(BehaviourTest):
    IN_CI = {"test_function_that_is_switched_off_runs_without_graphs", "test_strict_is_an_error",
             "test_operator_without_a_kernel_is_an_error_under_strict"}

    def stance(self, name):
        return coppice.stance(name, self.session())

    def test_function_that_is_switched_off_runs_without_graphs(self):
        compiled = self.compiled(affine)
        with self.stance("eager"):
            kinds = self.each(compiled, affine, *[(torch.randn(n, 4),) for n in (5, 5, 6)])
        self.assertEqual([EAGER] * 3, kinds)
        self.assertEqual([], self.buckets(compiled))
        self.assertIn("user_disabled", self.reasons())

    def test_one_of_several_functions_is_switched_off(self):
        functions = [affine, lambda x: x.sin() - 2, lambda x: x.cos() * 3, lambda x: x.exp()]
        compiled = [self.compiled(one) for one in functions]
        off = {1, 2}
        for kind in (RECORD, REPLAY):
            x = torch.randn(5, 4)
            made = known = x
            for index, (one, right) in enumerate(zip(compiled, functions)):
                with self.stance("eager" if index in off else "record"):
                    made, ran = self.ran(one, made)
                known = right(known)
                self.assertEqual(EAGER if index in off else kind, ran)
            self.near(made, known)

    def test_one_of_several_functions_is_switched_on(self):
        functions = [affine, lambda x: x.sin() - 2, lambda x: x.cos() * 3]
        compiled = [self.compiled(one) for one in functions]
        with self.stance("eager"):
            for kind in (RECORD, REPLAY):
                x = torch.randn(5, 4)
                self.assertEqual(EAGER, self.ran(compiled[0], x)[1])
                with self.stance("record"):
                    got, ran = self.ran(compiled[1], x)
                self.assertEqual(kind, ran)
                self.near(got, x.sin() - 2)
                self.assertEqual(EAGER, self.ran(compiled[2], x)[1])

    def test_scopes_nest(self):
        compiled = self.compiled(affine)
        x = torch.randn(5, 4)
        expected = []
        with self.stance("eager"):
            expected.append(self.ran(compiled, x)[1])
            with self.stance("record"):
                expected.append(self.ran(compiled, x)[1])
                with self.stance("eager"):
                    expected.append(self.ran(compiled, x)[1])
                expected.append(self.ran(compiled, x)[1])
            expected.append(self.ran(compiled, x)[1])
        expected.append(self.ran(compiled, x)[1])
        self.assertEqual([EAGER, RECORD, EAGER, REPLAY, EAGER, REPLAY], expected)

    def test_scope_in_the_forward_of_a_layer(self):
        session = self.session()

        class Switched(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                with coppice.stance("eager", session):
                    return self.inner(x)

        linear = nn.Linear(4, 4)
        model = nn.Sequential(self.compiled(nn.Tanh()), Switched(self.compiled(linear)))
        with torch.no_grad():
            for kind in ("record", "replay"):
                x = torch.randn(5, 4)
                got, ran = self.ran(model, x)
                self.assertEqual({kind: 1, "eager": 1}, ran)
                self.near(got, linear(x.tanh()))

    def test_writing_function_that_is_switched_off_is_counted_and_right(self):
        def update(x, y):
            x.add_(y)
            return x * 2

        compiled = self.compiled(update)
        before = self.reasons().get("user_disabled", 0)
        with self.stance("eager"):
            self.assertEqual([EAGER], self.each(compiled, update,
                                                (torch.randn(5, 4), torch.randn(5, 4))))
        self.assertEqual(before + 1, self.reasons()["user_disabled"])

    def test_told_to_record_no_more(self):
        module = nn.Linear(4, 3).eval()
        compiled = self.compiled(module)
        small, large = torch.randn(5, 4), torch.randn(7, 4)
        self.each(compiled, module, (small,))
        before = self.session().stats()["recordings"]
        with self.stance("replay_only"):
            kinds = self.each(compiled, module, (small,), (large,), (large,), (small,))
        self.assertEqual([REPLAY, EAGER, EAGER, REPLAY], kinds)
        self.assertEqual(before, self.session().stats()["recordings"])

    def test_function_that_is_compiled_no_more_replays(self):
        compiled = self.compiled(affine)
        self.each(compiled, affine, (torch.randn(5, 4),))
        before = self.session().stats()["recordings"]
        self.assertEqual([REPLAY] * 3, self.each(torch._dynamo.run(compiled), affine,
                                                 *[(torch.randn(5, 4),)] * 3))
        self.assertEqual(before, self.session().stats()["recordings"])

    def test_frozen_weights_are_graphed(self):
        module = nn.Linear(4, 3).eval()
        with torch._inductor.config.patch(freezing=True):
            kinds = self.each(self.compiled(module), module, *[(torch.randn(5, 4),)] * 3)
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_strict_is_an_error(self):
        module = nn.Linear(4, 3)
        compiled = self.compiled(module)
        x = torch.randn(5, 4)
        with torch.no_grad():
            compiled(x)
            with self.stance("strict"):
                self.assertEqual([REPLAY], self.each(compiled, module, (x,)))
                with self.assertRaisesRegex(coppice.FailedPrecondition,
                                            "cannot replay.*new_bucket"):
                    compiled(torch.randn(7, 4))
            self.assertEqual([RECORD, REPLAY], self.each(compiled, module,
                                                         *[(torch.randn(7, 4),)] * 2))

    def test_weight_that_moved_is_an_error_under_strict_and_named(self):
        module = nn.Linear(4, 3)
        compiled = self.compiled(module)
        x = torch.randn(5, 4)
        with torch.no_grad():
            compiled(x)
            kept, module.weight.data = module.weight.data, torch.randn(3, 4)
            with self.stance("strict"):
                with self.assertRaisesRegex(coppice.FailedPrecondition,
                                            r"static_input_moved: '\w+' from 0x\w+ to 0x\w+"):
                    compiled(x)
                module.weight.data = kept
                self.assertEqual([REPLAY], self.each(compiled, module, (x,)))

    def test_weights_that_moved_are_named_each(self):
        module = nn.Linear(4, 3)
        compiled = self.compiled(module)
        x = torch.randn(5, 4)
        with torch.no_grad():
            compiled(x)
            for weight in module.parameters():
                weight.data = weight.data.clone()
            with self.stance("strict"), self.assertRaises(coppice.FailedPrecondition) as raised:
                compiled(x)
        moved = re.findall(r"'(\w+)' from (0x\w+) to (0x\w+)", str(raised.exception))
        self.assertEqual(2, len({name for name, _, _ in moved}))
        self.assertEqual(4, len({place for _, *places in moved for place in places}))

    def test_operator_without_a_kernel_is_an_error_under_strict(self):
        self.leaves_programs = True  # The traceback of the error holds them.
        compiled = self.compiled(lambda x: torch.topk(x, 2), strict=True)
        with self.assertRaisesRegex(Exception, "topk.*strict=False") as raised:
            compiled(torch.randn(5, 4))
        self.assertIsInstance(raised.exception.__cause__ or raised.exception.inner_exception,
                              coppice.torch.NotLifted)

    def test_mode_that_there_is_not_is_refused(self):
        compiled = torch.compile(affine, backend=coppice.torch.backend, mode="reduce-overhead")
        with self.assertRaisesRegex(Exception, "mode='reduce-overhead' is Inductor's"):
            compiled(torch.randn(5, 4))

    def test_report_says_where_a_graph_comes_from(self):
        compiled = self.compiled(affine)
        (x,) = (torch.randn(5, 4, requires_grad=True),)
        compiled(x).sum().backward()
        line = affine.__code__.co_firstlineno
        for one in coppice.torch.report(compiled):
            self.assertEqual(f"affine (graph_behaviours_control_test.py:{line})", one.function)


class MovedTest(BehaviourTest):
    """Weights and buffers that are swapped for others, which lie elsewhere, and back."""

    IN_CI = {"test_other_weights_and_back_are_recorded_once_each",
             "test_limit_of_recordings_leaves_calls_without_graphs"}

    def check_swapped(self, module, name, other):
        """Trains with what `name` is, with `other`, and with what it was: the one graph of the
        forward that is recorded anew is that of `other`."""
        right = copy.deepcopy(module)
        compiled = self.compiled(module)
        known = [(getattr(module, name), getattr(right, name)), (other, copy.deepcopy(other))]
        before, kinds = self.reasons().get("static_input_moved", 0), []
        with dynamo_config.patch(error_on_recompile=True):
            for index in (0, 0, 1, 1, 0, 1):
                for one, value in zip((module, right), known[index]):
                    setattr(one, name, value)
                x = torch.randn(5, 4)
                kinds.append(self.trained(compiled, module, right, x))
        self.assertEqual([RECORD, REPLAY, RECORD, REPLAY, REPLAY, REPLAY],
                         [forward for forward, _ in kinds])
        self.assertEqual([REPLAY] * 2, [backward for _, backward in kinds[-2:]])
        self.assertLessEqual(before + 1, self.reasons()["static_input_moved"])
        self.assertEqual(["forward", "backward"], self.kinds(compiled))

    def trained(self, compiled, module, right, *arguments):
        """How a forward and a backward ran; results, gradients and buffers are those of `right`."""
        got, forward = self.ran(compiled, *arguments)
        _, backward = self.ran(got.square().sum().backward)
        wanted = right(*arguments)
        wanted.square().sum().backward()
        self.near(got, wanted)
        self.near([one.grad for one in module.parameters()],
                  [one.grad for one in right.parameters()])
        self.near(list(module.buffers()), list(right.buffers()))
        module.zero_grad()
        right.zero_grad()
        return forward, backward

    def test_other_weights_and_back_are_recorded_once_each(self):
        self.check_swapped(nn.Linear(4, 3), "weight", nn.Parameter(torch.randn(3, 4)))

    def test_other_weights_as_arguments_and_back(self):
        compiled = self.compiled(lambda x, w: (x * w).sin())
        known = [nn.Parameter(torch.randn(4)) for _ in range(2)]
        kinds = []
        with dynamo_config.patch(error_on_recompile=True):
            for index in (0, 0, 1, 1, 0, 1):
                x, found = torch.randn(5, 4), []
                for function in (compiled, lambda x, w: (x * w).sin()):
                    got, forward = self.ran(function, x, known[index])
                    _, backward = self.ran(got.sum().backward)
                    found.append((got, known[index].grad))
                    kinds.append((forward, backward))
                    known[index].grad = None
                self.near(*found)
        self.assertLessEqual(kinds[::2].count((RECORD, RECORD)), 2)
        self.assertEqual([(REPLAY, REPLAY)] * 2, kinds[::2][-2:])

    def test_other_buffers_of_a_stock_layer_and_back(self):
        self.check_swapped(nn.BatchNorm1d(4), "running_mean", torch.randn(4))

    def check_own_layer(self, name, make):
        class Weighed(nn.Module):
            def __init__(self):
                super().__init__()
                self.factor = nn.Parameter(torch.randn(4))
                self.register_buffer("offset", torch.randn(4))

            def forward(self, x):
                return (x * self.factor + self.offset).sin()

        self.check_swapped(Weighed(), name, make(torch.randn(4)))

    def test_other_weights_of_an_own_layer_and_back(self):
        self.check_own_layer("factor", nn.Parameter)

    def test_other_buffers_of_an_own_layer_and_back(self):
        self.check_own_layer("offset", torch.clone)

    def test_other_weights_of_one_of_two_functions_record_that_one_alone(self):
        layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
        compiled = [self.compiled(one) for one in layers]
        chain, right = nn.Sequential(*layers), copy.deepcopy(nn.Sequential(*layers))
        ran = []

        def both(x):
            for one in compiled:
                x, kind = self.ran(one, x)
                ran.append(kind)
            return x

        for _ in range(2):
            self.trained(both, chain, right, torch.randn(5, 4))
        for moved in (1, 0):
            weight = torch.randn(4, 4)
            for one in (layers, right):
                one[moved].weight = nn.Parameter(weight.clone())
            for kind in (RECORD, REPLAY):
                ran.clear()
                _, backward = self.trained(both, chain, right, torch.randn(5, 4))
                self.assertEqual([kind if index == moved else REPLAY for index in range(2)], ran)
                # The backward of the second layer reads its weight, that of the first none.
                self.assertEqual({"record": 1, "replay": 1} if moved and kind == RECORD else
                                 {"replay": 2}, backward)
        self.assertEqual(7, sum(len(self.buckets(one)) for one in compiled))

    def test_moved_weight_is_recorded_exactly_once(self):
        class Counted(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 3)
                self.register_buffer("calls", torch.zeros(3))

            def forward(self, x):
                self.calls.add_(1)
                return self.linear(x) + self.calls

        module = Counted()
        right = copy.deepcopy(module)
        compiled = self.compiled(module)
        self.each(compiled, right, *[(torch.randn(5, 4),)] * 2)
        before = self.session().stats()["recordings"]
        kept = module.calls, module.linear.bias  # They live, so that their places are not reused.
        bias = torch.randn(3)
        for one in (module, right):
            one.calls, one.linear.bias = torch.ones(3), nn.Parameter(bias.clone())
        self.assertEqual([RECORD, REPLAY, REPLAY],
                         self.each(compiled, right, *[(torch.randn(5, 4),)] * 3))
        self.near(module.calls, right.calls)
        self.assertEqual(before + 1, self.session().stats()["recordings"])
        self.near(kept[0], torch.full((3,), 2.0))

    def move(self, times, **options):
        """How calls ran, each of which finds its weight elsewhere; and why, as counts."""
        with self.own_session():
            module = nn.Linear(4, 3)
            right = copy.deepcopy(module)
            compiled = self.compiled(module, session=options)
            kept, kinds = [], []
            for _ in range(times):
                forward, backward = self.trained(compiled, module, right, torch.randn(5, 4))
                self.assertEqual(REPLAY if kinds else RECORD, backward)  # It reads no weight.
                kinds.append(forward)
                kept.append(module.weight.data)
                module.weight.data = torch.randn(3, 4)
                right.weight.data = module.weight.data.clone()
            reasons = self.reasons()
            del compiled
            return kinds, reasons

    def test_limit_of_recordings_leaves_calls_without_graphs(self):
        kinds, reasons = self.move(7, rerecords_per_bucket_max=2)
        self.assertEqual([RECORD] * 3 + [EAGER] * 4, kinds)
        self.assertEqual(4, reasons["graph_limit"])

    def test_limit_is_told_once(self):
        told = []
        self.move(7, rerecords_per_bucket_max=2, log=lambda *parts: told.append(parts))
        self.assertEqual(1, len([one for one in told if "rerecord" in str(one)
                                 or "limit" in str(one)]), told)

    def test_below_the_limit_all_calls_have_graphs(self):
        kinds, reasons = self.move(4, rerecords_per_bucket_max=8)
        self.assertEqual([RECORD] * 4, kinds)
        self.assertNotIn("graph_limit", reasons)

    def test_weight_that_keeps_moving_is_copied_from_then_on(self):
        kinds, _ = self.move(9, static_moves_max=3)
        self.assertEqual([REPLAY] * 4, kinds[-4:])

    def test_more_sizes_than_the_limit_have_no_graphs_and_that_is_told_once(self):
        told = []
        with self.own_session():
            compiled = self.compiled(affine, session={
                "graphs_per_program_max": 2, "log": lambda *parts: told.append(parts)})
            kinds = self.each(compiled, affine, *[(torch.randn(n, 4),)
                                                  for n in (2, 3, 4, 5, 3, 6)])
            self.assertEqual([RECORD, RECORD, EAGER, EAGER, REPLAY, EAGER], kinds)
            self.assertEqual(3, self.reasons()["graph_limit"])
            del compiled
        self.assertEqual(1, len([one for one in told if "limit" in str(one)]), told)

    def test_more_pairs_of_sizes_than_the_limit_have_no_graphs(self):
        with self.own_session():
            compiled = self.compiled(affine, session={"graphs_per_program_max": 3})
            kinds = self.each(compiled, affine, *[(torch.randn(*one),) for one in (
                (2, 3), (2, 4), (3, 3), (3, 4), (4, 4), (2, 4))])
            self.assertEqual([RECORD] * 3 + [EAGER] * 2 + [REPLAY], kinds)
            del compiled

    def test_function_that_gains_nothing_by_a_graph_may_have_none(self):
        with self.own_session():
            compiled = self.compiled(affine, session={"gate": True})
            kinds = self.each(compiled, affine, *[(torch.randn(5, 4),)] * 50)
            self.assertIn(EAGER, kinds)  # To measure it; what it finds is the machine's.
            self.assertIn("gate_says_eager", self.reasons())
            del compiled


if __name__ == "__main__":
    main()
