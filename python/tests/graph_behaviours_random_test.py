#!/usr/bin/env python3
"""Goal: random numbers follow torch's generator through recordings and replays, and a backward
graph finds those of its forward.
Method: graph_behaviours.py; numbers are drawn with one seed again and again, by kernels and, with
fallback_random, by PyTorch's operators, which draw what eager draws.

    graph_behaviours_random_test.py [unittest's options]
"""

import itertools

from graph_behaviours import RECORD, REPLAY, BehaviourTest, leaves, main, torch

if torch:
    import torch.nn.functional as F


def drop(x):
    return F.dropout(x, 0.5, training=True) * 3


def shuffle(x):
    return x * (torch.randperm(x.numel()).view(x.shape) + 1)


def recomputed(*parts):
    """The parts in turn, each of which is computed again in the backward."""
    from torch.utils.checkpoint import checkpoint

    def chain(*arguments):
        result = checkpoint(parts[0], *arguments, use_reentrant=False)
        for part in parts[1:]:
            result = checkpoint(part, result, use_reentrant=False)
        return result

    return chain


class RandomTest(BehaviourTest):
    IN_CI = {"test_seed_repeats_the_numbers_of_one_function",
             "test_backwards_in_all_orders_find_their_masks"}

    def drawn(self, seed, function, *arguments):
        torch.manual_seed(seed)
        return function(*arguments)

    def test_seed_repeats_the_numbers_of_one_function(self):
        compiled = self.compiled(lambda x: x + torch.rand_like(x))
        x = torch.zeros(6, 8)
        results = [self.drawn(seed, lambda: [compiled(x) for _ in range(3)])
                   for seed in (3, 4, 3, 4, 3)]
        self.near(results[2:], [results[0], results[1], results[0]])
        drawn = results[0] + results[1]
        for one, other in itertools.combinations(drawn, 2):
            self.assertFalse(torch.equal(one, other))
        self.assertTrue(all(0 <= float(one.min()) and float(one.max()) < 1 for one in drawn))

    def test_seed_repeats_the_numbers_of_functions_that_feed_each_other(self):
        first, second = self.compiled(drop), self.compiled(lambda x: x + torch.rand_like(x))
        x = torch.ones(6, 8)
        results = []
        for kind in (RECORD, REPLAY, REPLAY):
            torch.manual_seed(7)
            made, ran = self.ran(first, x)
            self.assertEqual(kind, ran)
            got, ran = self.ran(second, made)
            self.assertEqual(kind, ran)
            results.append((made, got, second(made)))
        self.near(results[1:], [results[0]] * 2)
        self.assertFalse(torch.equal(results[0][1], results[0][2]))

    def test_sampling_operator_draws_what_eager_draws(self):
        def sample(x):
            return torch.multinomial(x.softmax(-1), 2, replacement=True)

        compiled = self.compiled(sample)
        x = torch.randn(5, 8)
        for seed, kind in ((3, RECORD), (4, REPLAY), (3, REPLAY)):
            known = self.drawn(seed, lambda: [sample(x) for _ in range(2)])
            got = self.drawn(seed, lambda: [self.ran(compiled, x) for _ in range(2)])
            self.near([one for one, _ in got], known)
            self.assertEqual([kind, REPLAY], [ran for _, ran in got])

    def check_all_orders(self, compiled):
        for order in itertools.permutations(range(3)):
            inputs = [leaves((torch.ones(40),))[0] for _ in range(3)]
            results = [compiled(x) for x in inputs]
            for index in order:
                results[index].sum().backward()
            for x, result in zip(inputs, results):
                self.near(x.grad, result.detach())
            for one, other in itertools.combinations(results, 2):
                self.assertFalse(torch.equal(one, other))

    def test_backwards_in_all_orders_find_their_masks(self):
        compiled = self.compiled(drop)
        self.check_all_orders(compiled)
        # One forward; backwards whose mask lies where it was left, or was written over and copied.
        self.assertLessEqual(len(self.buckets(compiled)), 3)

    def test_backwards_in_all_orders_draw_again_what_their_forward_drew(self):
        self.check_all_orders(self.compiled(recomputed(drop, shuffle), fallback_random=True))

    def test_backward_of_a_graph_that_is_kept_finds_its_mask_again(self):
        for function in (drop, recomputed(drop)):
            compiled = self.compiled(function)
            (x,) = leaves((torch.ones(40),))
            result = compiled(x)
            result.sum().backward(retain_graph=True)
            compiled(*leaves((x,)))
            result.sum().backward()
            self.near(x.grad, 2 * result.detach())

    def test_more_forwards_than_backwards_draw_what_eager_draws(self):
        def twice(x):
            return shuffle(drop(drop(x).sin()))

        compiled = self.compiled(twice, fallback_random=True)
        found = []
        for function in (compiled, twice):
            torch.manual_seed(11)
            gradients = []
            for step in range(4):
                (x,) = leaves((torch.ones(6, 8),))
                result = function(x)
                if step % 2:
                    function(*leaves((x,)))
                else:
                    result.sum().backward()
                    gradients.append(x.grad)
                gradients.append(result.detach())
            found.append(gradients)
        self.near(*found)

    def test_numbers_around_an_operator_of_pytorch_are_those_of_eager(self):
        def mixed(x):
            values, _ = torch.topk(drop(x), 3)
            return drop(values) + torch.rand_like(values)

        compiled = self.compiled(mixed, fallback_random=True)
        x = torch.randn(6, 8)
        for seed in (5, 6, 5):
            self.near(self.drawn(seed, compiled, x), self.drawn(seed, mixed, x))

    def test_recomputed_numbers_and_gradients_are_those_of_eager(self):
        def part(x, y):
            return (torch.rand_like(x) * y).sigmoid() * x

        def mixed(x, y):
            return recomputed(part)(x.sin(), y).sin()

        compiled = self.compiled(mixed, fallback_random=True)
        found = []
        for function in (compiled, mixed):
            torch.manual_seed(13)
            results = []
            for _ in range(3):
                x, y = leaves((torch.randn(4, 4), torch.randn(4, 4)))
                result = function(x, y)
                result.sum().backward()
                results.append((result.detach(), x.grad, y.grad))
            found.append(results)
        self.near(*found)

    def check_recomputed(self, **options):
        """Returns how each forward and backward ran."""
        compiled = self.compiled(recomputed(drop), **options)
        results, kinds = [], []
        for _ in range(2):
            (x,) = leaves((torch.ones(40),))
            result, forward = self.ran(compiled, x)
            _, backward = self.ran(result.sum().backward)
            self.near(x.grad, result.detach())
            results.append(result)
            kinds.append((forward, backward))
        self.assertFalse(torch.equal(*results))
        return kinds

    def test_recomputed_numbers_are_those_of_the_forward_if_pytorch_draws_them(self):
        self.assertEqual([({}, {})] * 2, self.check_recomputed(fallback_random=True))

    def test_recomputed_numbers_are_those_of_the_forward(self):
        self.assertEqual([(RECORD, RECORD), (REPLAY, REPLAY)], self.check_recomputed())


if __name__ == "__main__":
    main()
