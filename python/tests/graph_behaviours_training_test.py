#!/usr/bin/env python3
"""Goal: forward and backward graphs, called in whatever order and number, give eager's gradients;
what the one saves the other finds, and what is never asked for is in nobody's way.
Method: graph_behaviours.py; small functions are called forward and backward, and gradients and the
counts of the session compared.

    graph_behaviours_training_test.py [unittest's options]
"""

import copy
import itertools

from graph_behaviours import EAGER, RECORD, REPLAY, BehaviourTest, leaves, main, storage, torch

if torch:
    import coppice
    from torch import nn
    from torch.multiprocessing.reductions import StorageWeakRef


def weigh(x, w):
    return (x * w).sin() * w


def curve(x, y):
    return ((x * y).sin() * x).exp()


if torch:
    class Transformed(torch.autograd.Function):
        """Twice the argument, whose gradient goes through numbers that no package has."""

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            one = (gradient * 0 + 1).to(torch.float8_e8m0fnu)
            return one.float() * gradient * 2


class TrainingTest(BehaviourTest):
    IN_CI = {"test_backward_reads_what_the_forward_saved_where_it_lies",
             "test_backwards_in_all_orders", "test_forwards_whose_backward_never_comes",
             "test_backward_that_is_not_lifted_leaves_the_forward_its_graph",
             "test_gradients_add_up"}

    def inputs_in_place(self):
        return self.session().stats()["inputs_in_place"]

    def test_backward_reads_what_the_forward_saved_where_it_lies(self):
        compiled = self.compiled(curve)
        calls = [(torch.randn(5, 4), torch.randn(5, 4)) for _ in range(3)]
        before = self.inputs_in_place()
        self.assertEqual([(RECORD, RECORD), (REPLAY, REPLAY), (REPLAY, REPLAY)],
                         self.train(compiled, curve, *calls))
        self.assertEqual(["forward", "backward"], self.kinds(compiled))
        self.assertLessEqual(before + 3, self.inputs_in_place())

    def test_backward_frees_what_the_forward_saved_and_results_stay(self):
        compiled = self.compiled(lambda x, w: ((x @ w).tanh() @ w).tanh() @ w)
        for _ in range(3):
            x, w = leaves((torch.randn(5, 4), torch.randn(4, 4)))
            result = compiled(x, w)
            saved = [StorageWeakRef(one.untyped_storage())
                     for one in result.grad_fn.saved_tensors if storage(one) not in
                     (storage(x), storage(w), storage(result))]
            self.assertTrue(saved)
            kept = result.detach().clone()
            result.sum().backward()
            self.near(result, kept)
            self.assertTrue(all(one.expired() for one in saved))
            with self.assertRaisesRegex(RuntimeError, "second time"):
                result.sum().backward()

    def test_gradients_at_two_sizes(self):
        def join(x):
            joined = torch.cat([x, x])
            return (joined @ joined.t()).sin(), joined.size(0)

        compiled = self.compiled(join)
        kinds = self.train(compiled, join, *[(torch.randn(*size),)
                                                for size in [(3, 4), (5, 6)] * 2])
        self.assertEqual([(RECORD, RECORD)] * 2 + [(REPLAY, REPLAY)] * 2, kinds)

    def test_gradients_add_up(self):
        compiled = self.compiled(weigh)
        x, w = leaves((torch.randn(5, 4), torch.randn(4)))
        known = leaves((x, w))
        for _ in range(4):
            compiled(x, w).sum().backward()
            weigh(*known).sum().backward()
            self.near((x.grad, w.grad), [one.grad for one in known])

    def test_gradients_add_up_in_place_unless_they_are_graphs(self):
        compiled = self.compiled(weigh)
        for graph in (False, True, False, True):
            x, w = leaves((torch.randn(5, 4), torch.randn(4)))
            result = compiled(x, w)
            result.backward(torch.ones(5, 4), retain_graph=True)
            held, once = x.grad, x.grad.clone()
            result.backward(torch.ones(5, 4), create_graph=graph)
            self.near(held, once if graph else 2 * once)
            self.near(x.grad.detach(), 2 * once)
            x.grad = w.grad = None  # Graphs and gradients hold each other.

    def test_gradients_of_weights_whose_values_an_optimizer_changes(self):
        self.check_optimizer(nn.Linear(4, 3))

    def test_scalar_weight_of_the_host_is_trained(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.scale = nn.Linear(4, 4), nn.Parameter(torch.tensor(0.5))

            def forward(self, x):
                made = self.linear(x)
                return (made * self.scale + made.sum() * self.scale).tanh()

        self.check_optimizer(Scaled())

    def check_optimizer(self, module):
        right = copy.deepcopy(module)
        compiled = self.compiled(module)
        ways = [(compiled, torch.optim.SGD(module.parameters(), 0.01)),
                (right, torch.optim.SGD(right.parameters(), 0.01))]
        kinds = []
        for _ in range(4):
            x = torch.randn(5, 4)
            for function, optimizer in ways:
                optimizer.zero_grad()
                _, ran = self.ran(lambda: function(x).square().sum().backward())
                optimizer.step()
                kinds.append(ran)
            self.near(list(module.parameters()), list(right.parameters()))
        self.assertEqual([{"record": 2}, {"replay": 2}, {"replay": 2}, {"replay": 2}], kinds[::2])

    def test_backwards_in_all_orders(self):
        compiled = self.compiled(weigh)
        for order in itertools.permutations(range(3)):
            inputs = [leaves((torch.randn(5, 4), torch.randn(4))) for _ in range(3)]
            results = [compiled(*one) for one in inputs]
            for index in order:
                results[index].sum().backward()
            for one in inputs:
                known = leaves(one)
                weigh(*known).sum().backward()
                self.near([value.grad for value in one], [value.grad for value in known])
        self.assertEqual(2, len(self.buckets(compiled)))

    def test_more_forwards_than_backwards_and_evaluations_between(self):
        compiled = self.compiled(curve)
        pending = []
        for step in range(4):
            x, y = leaves((torch.randn(5, 4), torch.randn(5, 4)))
            pending.append((x, y, compiled(x, y)))
            compiled(*leaves((x, y)))
            with torch.no_grad():
                self.near(compiled(x, y), curve(x, y))
            if step % 2:
                for x, y, result in reversed(pending):
                    result.sum().backward()
                    known = leaves((x, y))
                    curve(*known).sum().backward()
                    self.near((x.grad, y.grad), [one.grad for one in known])
                pending.clear()

    def test_graph_that_is_kept_gives_the_same_gradients_again(self):
        compiled = self.compiled(curve)
        x, y = leaves((torch.randn(5, 4), torch.randn(5, 4)))
        result = compiled(x, y)
        result.sum().backward(retain_graph=True)
        once = x.grad.clone(), y.grad.clone()
        compiled(*leaves((y, x)))  # Lies where the first call lay.
        result.sum().backward(retain_graph=True)
        result.sum().backward()
        self.near((x.grad, y.grad), [3 * one for one in once])
        known = leaves((x, y))
        curve(*known).sum().backward()
        self.near(once, [one.grad for one in known])

    def test_forwards_whose_backward_never_comes(self):
        compiled, other = self.compiled(curve), self.compiled(lambda x: x - 1)
        trained, kinds = self.compiled(weigh), []
        for _ in range(4):
            _, ran = self.ran(compiled, *leaves((torch.randn(5, 4), torch.randn(5, 4))))
            ((forward, backward),) = self.train(trained, weigh,
                                                (torch.randn(5, 4), torch.randn(4)))
            with torch.no_grad():
                x = torch.randn(5, 4)
                got, more = self.ran(other, x)
            self.near(got, x - 1)
            kinds.append((ran, forward, backward, more))
        self.assertEqual([(RECORD,) * 4] + [(REPLAY,) * 4] * 3, kinds)
        self.assertEqual(["forward", "backward"], self.kinds(compiled))
        self.assertEqual([1, 2, 1], [len(self.buckets(one)) for one in (compiled, trained, other)])

    def test_forward_that_is_dropped_does_not_hide_what_is_wrong_later(self):
        compiled, other = self.compiled(curve), self.compiled(lambda x: (x + 1).cos())
        held = []
        for _ in range(4):
            del_me = compiled(*leaves((torch.randn(5, 4), torch.randn(5, 4))))
            del del_me
            x = torch.randn(5, 4)
            with torch.no_grad():
                held.append((other(x), (x + 1).cos()))
        for one, right in held:
            self.near(one, right)

    def test_rounds_of_forward_and_backward_replay(self):
        first, second = self.compiled(weigh), self.compiled(curve)
        kinds = []
        for _ in range(4):
            x, w, y = leaves((torch.randn(5, 4), torch.randn(4), torch.randn(5, 4)))
            made, ran_first = self.ran(first, x, w)
            result, ran_second = self.ran(second, made, y)
            watched = [StorageWeakRef(one.untyped_storage()) for one in (made, result)]
            _, ran = self.ran(result.sum().backward)
            self.assertFalse(any(one.expired() for one in watched))
            del made, result
            self.assertTrue(all(one.expired() for one in watched))
            known = leaves((x, w, y))
            curve(weigh(*known[:2]), known[2]).sum().backward()
            self.near((x.grad, w.grad, y.grad), [one.grad for one in known])
            kinds.append((ran_first, ran_second, ran))
        self.assertEqual([(RECORD, RECORD, {"record": 2})] + [(REPLAY, REPLAY, {"replay": 2})] * 3,
                         kinds)

    def test_backward_that_is_not_lifted_leaves_the_forward_its_graph(self):
        def transform(x):
            return Transformed.apply(x).sin()

        self.leaves_programs = True  # Until the next call drops what the forward saved.
        with self.assertLogs("coppice", "WARNING") as logged:
            compiled = self.compiled(transform)
            kinds = self.train(compiled, transform, *[(torch.randn(5, 4),)] * 3)
        self.assertEqual([(RECORD, {}), (REPLAY, {}), (REPLAY, {})], kinds)
        self.assertEqual(1, len(logged.output))
        self.assertRegex(logged.output[0], "backward: .*float8_e8m0fnu")
        self.assertEqual([True, False], [one.lifted for one in coppice.torch.report(compiled)])

    def test_operator_that_pytorch_runs_between_two_graphs_has_gradients(self):
        def largest(x):
            return torch.topk(x * 2, 2)[0].sin()

        compiled = self.compiled(largest)
        kinds = self.train(compiled, largest, *[(torch.randn(n, 4),) for n in (5, 5, 6, 6)])
        self.assertEqual([(RECORD, RECORD), (REPLAY, REPLAY)] * 2, kinds)
        self.assertEqual(["aten.topk.default"], coppice.torch.report(compiled)[0].calls)

    def test_saved_tensors_that_come_back_from_elsewhere(self):
        compiled = self.compiled(curve)
        for hook in (None, torch.clone, None):
            for _ in range(2):
                x, y = leaves((torch.randn(5, 4), torch.randn(5, 4)))
                if hook:
                    with torch.autograd.graph.saved_tensors_hooks(hook, lambda one: one):
                        result = compiled(x, y)
                else:
                    result = compiled(x, y)
                _, ran = self.ran(result.sum().backward)
                known = leaves((x, y))
                curve(*known).sum().backward()
                self.near((x.grad, y.grad), [one.grad for one in known])
        self.assertEqual(REPLAY, ran)
        # Where they lie is a reason for a graph of its own, and both are found again.
        self.assertEqual(3, len(self.buckets(compiled)))

    def test_saved_tensor_of_an_operator_of_pytorch_is_read_where_it_is_now(self):
        def largest(x):
            values, places = torch.topk(x, 2)
            return values * x.gather(1, places)

        compiled = self.compiled(largest)
        for kind in (None, REPLAY):  # The second time nothing is a reason to record.
            held = []
            for _ in range(3):
                (x,) = leaves((torch.randn(5, 4),))
                held.append((x, compiled(x)))
            for x, result in held:
                _, ran = self.ran(result.sum().backward)
                self.assertEqual(kind or ran, ran)
                (known,) = leaves((x,))
                largest(known).sum().backward()
                self.near(x.grad, known.grad)

    def test_hooks_of_a_result_are_of_that_result_alone(self):
        compiled = self.compiled(lambda x: x * 3 + 1)
        (x,) = leaves((torch.randn(5, 4),))
        seen = []
        for call in range(3):
            result = compiled(x)
            self.assertIsNone(result._backward_hooks)
            if call == 0:
                result.register_hook(lambda gradient: seen.append(gradient.clone()))
            result.sum().backward()
        self.assertEqual(1, len(seen))
        self.near(seen[0], torch.ones(5, 4))
        self.near(x.grad, torch.full((5, 4), 9.0))

    def test_hooks_of_a_leaf_that_a_function_makes_are_of_that_leaf_alone(self):
        self.leaves_programs = True
        compiled = self.compiled(lambda x: torch.zeros(4, requires_grad=True))
        for _ in range(3):
            result = compiled(torch.randn(4))
            self.assertIsNone(result._post_accumulate_grad_hooks)
            result.register_post_accumulate_grad_hook(lambda one: None)

    def test_recomputed_parts_of_a_forward(self):
        from torch.utils.checkpoint import checkpoint

        def part(x):
            return (x.sin() * 2).cos().exp()

        compiled = self.compiled(lambda x: checkpoint(part, x, use_reentrant=False))
        kinds = self.train(compiled, part, *[(torch.randn(5, 4),) for _ in range(3)])
        self.assertEqual([(RECORD, RECORD), (REPLAY, REPLAY), (REPLAY, REPLAY)], kinds)

    def test_parts_of_a_forward_that_are_saved_by_choice(self):
        import functools

        from torch.utils.checkpoint import (CheckpointPolicy, checkpoint,
                                            create_selective_checkpoint_contexts)

        def choose(context, operator, *_, **__):
            return (CheckpointPolicy.MUST_SAVE if operator == torch.ops.aten.mm.default
                    else CheckpointPolicy.PREFER_RECOMPUTE)

        weight = torch.randn(4, 4)
        contexts = functools.partial(create_selective_checkpoint_contexts, choose)

        def part(x):
            return ((x @ weight).sigmoid() @ weight).sin()

        compiled = self.compiled(
            lambda x: checkpoint(part, x, use_reentrant=False, context_fn=contexts))
        kinds = self.train(compiled, part, *[(torch.randn(5, 4),) for _ in range(2)])
        self.assertEqual([(RECORD, RECORD), (REPLAY, REPLAY)], kinds)

    def test_backward_that_is_compiled_as_a_whole_takes_weights_as_they_lie(self):
        from torch._dynamo import compiled_autograd

        module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        right = copy.deepcopy(module)
        compiled = self.compiled(module)
        for number in range(4):
            x = torch.randn(3, 4)
            result = compiled(x)
            with compiled_autograd._enable(self.compiled):
                _, ran = self.ran(result.sum().backward)
            right(x).sum().backward()
            self.near([one.grad for one in module.parameters()],
                      [one.grad for one in right.parameters()])
            module.zero_grad()
            right.zero_grad()
            self.assertEqual(REPLAY if number else RECORD, ran)

    def test_forward_and_backward_are_told_apart_where_graphs_are_switched_off(self):
        compiled = self.compiled(curve)
        session = self.session()
        for forward, backward in (("record", "record"), ("eager", "record"), ("record", "eager"),
                                  ("eager", "eager"), ("record", "record")):
            x, y = leaves((torch.randn(5, 4), torch.randn(5, 4)))
            with coppice.stance(forward, session):
                result, ran = self.ran(compiled, x, y)
            self.assertEqual(forward == "eager", ran == EAGER)
            with coppice.stance(backward, session):
                _, ran = self.ran(result.sum().backward)
            self.assertEqual(backward == "eager", ran == EAGER)
            known = leaves((x, y))
            right = curve(*known)
            self.near(result, right)
            right.sum().backward()
            self.near((x.grad, y.grad), [one.grad for one in known])


if __name__ == "__main__":
    main()
