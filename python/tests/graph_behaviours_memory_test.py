#!/usr/bin/env python3
"""Goal: what calls return lives as long as somebody holds it and no longer, also where results are
views of each other, of weights or of arguments.
Method: graph_behaviours.py; storages of results are compared and watched by weak references, and
the height of the pool is read before and after.

    graph_behaviours_memory_test.py [unittest's options]
"""

import gc
import weakref

from graph_behaviours import RECORD, REPLAY, BehaviourTest, leaves, main, storage, torch

if torch:
    import coppice
    from torch import nn
    from torch.multiprocessing.reductions import StorageWeakRef


class MemoryTest(BehaviourTest):
    IN_CI = {"test_results_of_several_recordings_are_held", "test_five_views_are_two_storages",
             "test_result_that_is_a_weight_is_its_bytes", "test_view_keeps_the_whole_result"}

    def test_results_of_several_recordings_are_held(self):
        compiled = self.compiled(lambda x: x * 2 + 1)
        compiled(torch.randn(7, 4))
        height, held = self.height(), []
        for n in (5, 5, 6, 7, 6, 5):
            x = torch.randn(n, 4)
            held.append((compiled(x), x * 2 + 1))
        self.near([one for one, _ in held], [other for _, other in held])
        self.assertEqual(height, self.height(), "what is held takes nothing of the pool")
        watched = [StorageWeakRef(one.untyped_storage()) for one, _ in held]
        self.assertFalse(any(one.expired() for one in watched))
        held.clear()
        self.assertTrue(all(one.expired() for one in watched))

    def test_result_is_not_written_over_by_later_calls(self):
        compiled = self.compiled(lambda x: x.cos() * 3)
        x = torch.randn(5, 4)
        first = compiled(x)
        alias = first.detach()[1:]
        for _ in range(4):
            compiled(torch.randn(5, 4))
        self.near((first, alias), (x.cos() * 3, (x.cos() * 3)[1:]))

    def test_every_call_has_a_result_of_its_own(self):
        compiled = self.compiled(lambda x: x * 2 + 1)
        x = torch.randn(5, 4)
        results = [compiled(x) for _ in range(4)]
        self.assertEqual(4, len({storage(one) for one in results}))
        self.assertEqual(4, len({id(one) for one in results}))

    def test_five_views_are_two_storages(self):
        def five(x):
            one, other = x * 2, x + 3
            return one, one.view(-1), one.t(), other, other[1:]

        compiled = self.compiled(five)
        x = torch.randn(5, 4)
        for kind in (RECORD, REPLAY):
            results, ran = self.ran(compiled, x)
            self.assertEqual(kind, ran)
            self.near(results, five(x))
            self.assertEqual([storage(results[0])] * 3 + [storage(results[3])] * 2,
                             [storage(one) for one in results])
            self.assertEqual(2, len({one.untyped_storage()._cdata for one in results}))
            watched = [StorageWeakRef(results[index].untyped_storage()) for index in (0, 3)]
            del results
            self.assertEqual([True, True], [one.expired() for one in watched])

    def test_views_on_both_sides_of_a_break_are_two_storages(self):
        def broken(x):
            one, other = x * 20, x * 10
            row, more = one[0], other[0]
            torch._dynamo.graph_break()
            start = torch.tensor(4)
            return one, row, one[start:], more, other[start:]

        self.leaves_programs = True
        compiled = self.compiled(broken)
        for _ in range(3):
            x = torch.randn(6, 4)
            results = compiled(x)
            self.near(results, broken(x))
            self.assertEqual(2, len({one.untyped_storage()._cdata for one in results}))
            watched = [StorageWeakRef(results[index].untyped_storage()) for index in (0, 3)]
            del results
            self.assertEqual([True, True], [one.expired() for one in watched])

    def check_two_views(self, x):
        compiled = self.compiled(lambda x: (lambda y: (y[:2], y[2:]))(x * 2))
        for _ in range(3):
            head, tail = compiled(x)
            self.near((head, tail), (x[:2] * 2, x[2:] * 2))
            watched = StorageWeakRef(head.untyped_storage())
            self.assertEqual(storage(head), storage(tail))
            del head
            self.assertFalse(watched.expired())
            del tail
            self.assertTrue(watched.expired())

    def test_views_of_one_result_are_given_back_when_both_are_dropped(self):
        self.check_two_views(torch.randn(5, 4, requires_grad=True))

    def test_views_of_one_result_share_it_without_gradients(self):
        self.check_two_views(torch.randn(5, 4))

    def test_views_of_a_result_die_once_and_the_next_recording_is_right(self):
        first = self.compiled(lambda x: (lambda y: (y, y.view(-1), y[1]))(x.sin()))
        second = self.compiled(lambda x: x.cos() + 1)
        x = torch.randn(5, 4)
        for _ in range(2):
            first(x)
        held, view, row = first(x)
        kept = x.sin().clone()
        del held, row
        got, ran = self.ran(second, view.view(5, 4))
        self.assertEqual(RECORD, ran)
        self.near((view, got), (kept.view(-1), kept.cos() + 1))
        watched = [StorageWeakRef(one.untyped_storage()) for one in (view, got)]
        del view, got
        self.assertEqual([True, True], [one.expired() for one in watched])

    def test_view_keeps_the_whole_result(self):
        compiled, other = self.compiled(lambda x: x * 2), self.compiled(lambda x: x - 5)
        x = torch.randn(5, 4)
        compiled(x)
        whole = compiled(x)
        row, watched = whole[3], StorageWeakRef(whole.untyped_storage())
        del whole
        for _ in range(3):
            other(torch.randn(5, 4))
            compiled(torch.randn(5, 4))
        self.near(row, x[3] * 2)
        self.assertFalse(watched.expired())
        del row
        self.assertTrue(watched.expired())

    def test_result_that_dies_between_a_replay_and_a_recording(self):
        first, second = self.compiled(lambda x: (x + 1, x * 2)), self.compiled(lambda x: x.exp())
        x = torch.randn(5, 4)
        first(x)
        held, other = first(x)
        height, watched = self.height(), StorageWeakRef(other.untyped_storage())
        del other
        self.assertTrue(watched.expired())
        got, ran = self.ran(second, held)
        self.assertEqual(RECORD, ran)
        self.near(got, (x + 1).exp())
        self.assertEqual(height, self.height())
        watched = [StorageWeakRef(one.untyped_storage()) for one in (held, got)]
        del held, got
        self.assertEqual([True, True], [one.expired() for one in watched])

    def test_result_that_is_a_weight_is_its_bytes(self):
        weight = nn.Parameter(torch.randn(3, 4))
        compiled = self.compiled(lambda x: (weight[1], weight, x @ weight.t()))
        with torch.no_grad():
            for kind in (RECORD, REPLAY, REPLAY):
                x = torch.randn(5, 4)
                (row, whole, product), ran = self.ran(compiled, x)
                self.assertEqual(kind, ran)
                self.assertEqual([storage(weight)] * 2, [storage(row), storage(whole)])
                self.near((row, whole, product), (weight[1], weight, x @ weight.t()))
                weight.add_(1)
                self.near(row, weight[1])

    def test_view_of_a_weight_takes_nothing_of_the_pool(self):
        with self.own_session():
            weight = nn.Parameter(torch.randn(64, 64))
            compiled = self.compiled(lambda x: (weight.view(-1), weight.t(), x + 1))
            with torch.no_grad():
                for _ in range(2):
                    flat, _, more = compiled(torch.ones(2, 4))
            self.assertEqual(storage(weight), storage(flat))
            self.near(more, torch.full((2, 4), 2.0))
            self.assertEqual(256, self.height())  # Of one small result.
            del compiled

    def test_views_of_a_weight_and_of_a_result_are_of_its_bytes(self):
        weight = nn.Parameter(torch.randn(4, 4))

        def mixed(x):
            return weight.t() @ x, weight.t(), weight[:2]

        first, second = self.compiled(mixed), self.compiled(lambda x: x[1:])
        for _ in range(3):
            (x,) = leaves((torch.randn(4, 4),))
            (known,) = leaves((x,))
            made, turned, head = first(x)
            self.near((made, turned, head), mixed(x))
            self.assertEqual([weight.untyped_storage()._cdata] * 2,
                             [one.untyped_storage()._cdata for one in (turned, head)])
            tail = second(made)
            self.assertEqual(made.untyped_storage()._cdata, tail.untyped_storage()._cdata)
            gradients = []
            for one, argument in ((tail, x), (mixed(known)[0][1:], known)):
                one.sum().backward()
                gradients.append((argument.grad, weight.grad))
                weight.grad = None
            self.near(*gradients)

    def test_nothing_is_held_after_a_function_goes(self):
        def once():
            module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            watched = weakref.ref(module[0].weight)
            compiled = self.compiled(module)
            for _ in range(2):
                compiled(torch.randn(3, 4)).sum().backward()
            del module, compiled
            torch._dynamo.reset()
            gc.collect()
            session = self.session()
            return watched() is None, len(session.buckets()), session.memory()["bytes"]

        known = [once() for _ in range(3)]
        self.assertTrue(known[0][0])
        self.assertEqual(known[1], known[2])

    def test_results_outlive_their_function(self):
        compiled = self.compiled(lambda x: (x * 2, x + 1))
        x = torch.randn(5, 4)
        compiled(x)
        held = compiled(x)
        del compiled
        torch._dynamo.reset()
        gc.collect()
        self.assertEqual(set(), {one["program"] for one in self.session().buckets()} - self.before)
        other = self.compiled(lambda x: x.sin())
        other(x)
        self.near(held, (x * 2, x + 1))

    def test_all_functions_of_the_device_share_one_session(self):
        first, second = self.compiled(lambda x: x * 2), self.compiled(lambda x: x + 1)
        first(torch.ones(2, 2))
        second(torch.ones(2, 2))
        programs = {one["program"] for one in self.session().buckets()} - self.before
        reports = coppice.torch.report(first) + coppice.torch.report(second)
        self.assertEqual({one.program for one in reports}, programs)


class MutationTest(BehaviourTest):
    IN_CI = {"test_argument_that_is_written_is_graphed_and_changed",
             "test_buffer_that_is_written_is_graphed_and_changed"}

    def test_argument_that_is_written_is_graphed_and_changed(self):
        def update(x, y):
            x.mul_(2).add_(y)
            return x.sum(), y + 1

        kinds = self.each(self.compiled(update), update,
                          *[(torch.randn(5, 4), torch.randn(5, 4)) for _ in range(3)])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_result_that_is_to_be_written_into_an_argument(self):
        def into(x, y):
            torch.sin(y, out=x)
            return x + 1

        with self.assertNoLogs("coppice", "WARNING"):
            kinds = self.each(self.compiled(into), into,
                              *[(torch.randn(5, 4), torch.randn(5, 4)) for _ in range(3)])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_buffer_that_is_written_is_graphed_and_changed(self):
        class Running(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(4))

            def forward(self, x):
                self.seen.mul_(0.5).add_(x.sum(0))
                return x - self.seen

        module, right = Running(), Running()
        compiled = self.compiled(module)
        kinds = self.each(compiled, right, *[(torch.randn(5, 4),) for _ in range(3)])
        self.near(module.seen, right.seen)
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_earlier_result_and_a_copy_of_it_are_written(self):
        make, write = self.compiled(lambda x: x * 2), self.compiled(lambda x: x.add_(1).sum())
        x = torch.randn(5, 4)
        with torch.no_grad(), self.assertNoLogs("coppice", "WARNING"):
            for kind in (RECORD, REPLAY, REPLAY):
                made = make(x)
                for one in (made, made.clone()):
                    known = one + 1
                    got, ran = self.ran(write, one)
                    self.near((got, one), (known.sum(), known))
                    self.assertEqual(kind, ran)
                    kind = REPLAY

    def test_argument_is_written_at_an_index_of_each_call(self):
        def put(x, index):
            x[index] = x[index] * 2 + 1
            return x.sum()

        x = torch.randn(5, 4)
        kinds = self.each(self.compiled(put), put, *[(x, index) for index in (2, 3, 2, 3, -5, -5)])
        self.assertEqual([RECORD, RECORD, REPLAY, REPLAY, RECORD, REPLAY], kinds)

    def test_mask_that_says_what_is_written(self):
        def put(x, mask, value):
            y = x * 2
            y[mask] = value
            return y + 1

        kinds = self.each(self.compiled(put), put,
                          *[(torch.randn(5, 4), torch.randn(5, 4) > 0, torch.tensor(3.0))
                            for _ in range(3)])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_rows_that_a_mask_chooses_are_written_and_read(self):
        def put(x, mask, rows):
            made = x + 2
            made.index_put_((mask,), rows)
            return made, made * 2 + made.sum()

        mask = torch.tensor([True, False, True, False])
        kinds = self.each(self.compiled(put), put,
                          *[(torch.randn(4, 8), mask, torch.randn(2, 8)) for _ in range(3)])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_two_arguments_of_one_storage(self):
        def both(a, b):
            a.add_(1)
            return a * b

        compiled = self.compiled(both)
        for shared_bytes in (False, True, True, False):
            x = torch.randn(5, 4)
            y = x if shared_bytes else torch.randn(5, 4)
            self.each(compiled, both, (x, y))

    def test_slice_of_an_argument_is_written_and_summed(self):
        def half(x):
            x[1:].mul_(2)
            return x[:1] + x[1:].sum()

        self.each(self.compiled(half), half, *[(torch.randn(5, 4),)] * 2)


if __name__ == "__main__":
    main()
