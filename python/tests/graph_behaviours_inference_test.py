#!/usr/bin/env python3
"""Goal: calls without gradients run as graphs of the right number and compute what eager does.
Method: graph_behaviours.py; functions are called at sizes that change, from functions that feed
each other, with constants, weights that move, views and tensors without elements.

    graph_behaviours_inference_test.py [unittest's options]
"""

from graph_behaviours import EAGER, RECORD, REPLAY, BehaviourTest, main, torch

if torch:
    import coppice
    from torch import nn
    from torch.multiprocessing.reductions import StorageWeakRef


def affine(x):
    return x * 2 + 1


class InferenceTest(BehaviourTest):
    IN_CI = {"test_two_sizes_are_recorded_once_each", "test_function_of_itself_is_compiled_once",
             "test_constant_of_the_caller_is_read_as_it_is", "test_expanded_argument",
             "test_argument_and_its_views_are_given_back_as_they_are"}

    def test_two_sizes_are_recorded_once_each(self):
        compiled = self.compiled(affine)
        small, large = torch.randn(5, 4), torch.randn(7, 4)
        kinds = self.each(compiled, affine, *[(one,) for one in
                                              (small, small, large, small, large)])
        self.assertEqual([RECORD, REPLAY, RECORD, REPLAY, REPLAY], kinds)
        self.assertEqual([[5, 4], [7, 4]], self.buckets(compiled))
        self.assertEqual(["inference"], self.kinds(compiled))

    def test_first_call_of_a_size_records_without_a_warm_up(self):
        before = self.session().stats()["runs"]["warm_up"]
        compiled = self.compiled(affine)
        kinds = self.each(compiled, affine, *[(torch.randn(n, 4),) for n in (3, 3, 3, 6, 6, 6)])
        self.assertEqual([RECORD, REPLAY, REPLAY] * 2, kinds)
        self.assertEqual(before, self.session().stats()["runs"]["warm_up"])

    def test_function_of_itself_is_compiled_once(self):
        compiled = self.compiled(lambda x: x.sin() + x)
        x = torch.randn(5, 4)
        for kind in ({"record": 1, "replay": 2}, {"replay": 3}):
            got, ran = self.ran(lambda: compiled(compiled(compiled(x))))
            right = x
            for _ in range(3):
                right = right.sin() + right
            self.near(got, right)
            self.assertEqual(kind, ran)
        self.assertEqual(1, len(coppice.torch.report(compiled)))

    def test_functions_whose_results_are_dropped_are_recorded_apart(self):
        first, second = self.compiled(affine), self.compiled(lambda x: x.cos() * 3)
        x = torch.randn(5, 4)
        for kind in (RECORD, REPLAY, REPLAY):
            got, ran = self.ran(first, x)
            self.assertEqual(kind, ran)
            self.near(got, affine(x))
            del got
            got, ran = self.ran(second, x)
            self.assertEqual(kind, ran)
            self.near(got, x.cos() * 3)

    def test_recording_behind_replays_leaves_their_results_alone(self):
        first, second = self.compiled(affine), self.compiled(lambda x: x.exp() - 1)
        x = torch.randn(6, 4)
        for _ in range(3):
            held = first(x)
        got, ran = self.ran(second, held)
        self.assertEqual(RECORD, ran)
        self.near(held, affine(x))
        self.near(got, affine(x).exp() - 1)
        self.assertEqual(REPLAY, self.ran(first, x)[1])
        self.near(held, affine(x))
        watched = [StorageWeakRef(one.untyped_storage()) for one in (held, got)]
        del held, got
        self.assertEqual([True, True], [one.expired() for one in watched])

    def test_other_function_behind_the_same_first_one_is_the_only_recording(self):
        first, second, other = (self.compiled(one) for one in (
            affine, lambda x: x.sin() - 2, lambda x: x.cos() - 2))
        x = torch.randn(5, 4)
        for _ in range(2):
            second(first(x))
        held = first(x)
        _, ran = self.ran(second, held)
        self.assertEqual(REPLAY, ran)
        _, ran = self.ran(first, x)
        self.assertEqual(REPLAY, ran)
        got, ran = self.ran(other, held)
        self.assertEqual(RECORD, ran)
        self.near((held, got), (affine(x), affine(x).cos() - 2))
        watched = [StorageWeakRef(one.untyped_storage()) for one in (held, got)]
        del held, got
        self.assertEqual([True, True], [one.expired() for one in watched])

    def test_argument_from_elsewhere_is_right_and_records_nothing(self):
        first, second = self.compiled(affine), self.compiled(lambda x: x.sin() - 2)
        x = torch.randn(5, 4)
        for _ in range(2):
            second(first(x))
        got, ran = self.ran(second, affine(x).clone())
        self.assertEqual(REPLAY, ran)
        self.near(got, affine(x).sin() - 2)

    def test_arguments_at_addresses_of_their_own_record_nothing(self):
        module = nn.Linear(4, 4)
        known = torch.randn(5, 4)
        torch._dynamo.mark_static_address(known)

        def mixed(x):
            return x.cos() + module(known)

        kinds = self.train(self.compiled(mixed), mixed, *[(torch.randn(5, 4),) for _ in range(6)])
        self.assertEqual([(RECORD, RECORD)] + [(REPLAY, REPLAY)] * 5, kinds)

    def test_expanded_argument(self):
        compiled = self.compiled(affine)
        kinds = self.each(compiled, affine, *[(torch.randn(4).expand(n, 4),) for n in (5, 5, 9)],
                          (torch.randn(5, 1).expand(5, 4),))
        self.assertEqual([RECORD, REPLAY, RECORD, RECORD], kinds)

    def test_misaligned_arguments_and_weights(self):
        weight = nn.Parameter(torch.randn(17)[1:].view(4, 4))
        self.assertNotEqual(0, weight.data_ptr() % 16)
        compiled = self.compiled(lambda x: x @ weight + 1)
        inputs = [torch.randn(21)[start:][:20].view(5, 4) for start in (1, 0, 1, 0)]
        kinds = []
        with torch.no_grad():
            for x in inputs:
                got, kind = self.ran(compiled, x)
                self.near(got, x @ weight + 1)
                kinds.append(kind)
                weight.mul_(1.5)  # What was copied of it is brought up to date.
        self.assertEqual([RECORD, REPLAY, REPLAY, REPLAY], kinds)

    def test_misaligned_weight_that_moves_records_nothing(self):
        weight = nn.Parameter(torch.randn(17)[1:].view(4, 4))
        compiled = self.compiled(lambda x: x @ weight + 1)
        kept, kinds = [], []
        with torch.no_grad():
            for _ in range(3):
                x = torch.randn(5, 4)
                got, kind = self.ran(compiled, x)
                self.near(got, x @ weight + 1)
                kinds.append(kind)
                kept.append(weight.data)
                weight.data = torch.randn(17)[1:].view(4, 4)
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_misaligned_arguments_in_a_chain_of_functions(self):
        first, second = self.compiled(affine), self.compiled(lambda x, w: x @ w)
        weight = nn.Parameter(torch.randn(17)[1:].view(4, 4))
        with torch.no_grad():
            for start, kind in ((1, RECORD), (0, REPLAY), (1, REPLAY), (0, REPLAY)):
                x = torch.randn(21)[start:][:20].view(5, 4)
                made, ran = self.ran(first, x)
                self.assertEqual(kind, ran)
                got, ran = self.ran(second, made, weight)
                self.assertEqual(kind, ran)
                self.near(got, affine(x) @ weight)

    def test_misaligned_arguments_without_graphs(self):
        weight = nn.Parameter(torch.randn(17)[1:].view(4, 4))
        compiled = self.compiled(lambda x: x @ weight)
        with torch.no_grad(), coppice.stance("eager", self.session()):
            for start in (1, 0, 1, 0):
                x = torch.randn(21)[start:][:20].view(5, 4)
                got, ran = self.ran(compiled, x)
                self.assertEqual(EAGER, ran)
                self.near(got, x @ weight)

    def test_constant_of_the_caller_is_read_as_it_is(self):
        known = torch.tensor([1.0, 2.0, 3.0, 4.0])
        compiled = self.compiled(lambda x: x * known)
        for kind in (RECORD, REPLAY, REPLAY):
            x = torch.randn(5, 4)
            got, ran = self.ran(compiled, x)
            self.assertEqual(kind, ran)
            self.near(got, x * known)
            known.add_(1)

    def test_constant_that_the_function_makes_and_changes(self):
        def weigh(x):
            known = torch.tensor([1.0, 2.0, 3.0, 4.0])
            known.add_(1)
            return x * known, known

        kinds = self.each(self.compiled(weigh), weigh, *[(torch.randn(5, 4),)] * 3)
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_results_that_are_constants_stay_as_they_are(self):
        known = torch.randn(4)
        weight = nn.Parameter(torch.randn(3, 4))

        def constants(x):
            return x + 1, known, weight, weight[:2], torch.full((2,), 7.0)

        for freezing in (False, True):
            torch._dynamo.reset()
            with torch.no_grad(), torch._inductor.config.patch(freezing=freezing):
                compiled = self.compiled(constants)
                inputs = [torch.randn(5, 4) for _ in range(3)]
                held = [compiled(x) for x in inputs]
                compiled(torch.randn(6, 4))
                self.near(held, [constants(x) for x in inputs])

    def test_argument_and_its_views_are_given_back_as_they_are(self):
        def views(x):
            return x, x.view(-1), x + 1

        compiled = self.compiled(views)
        x = torch.randn(5, 4)
        for kind in (RECORD, REPLAY):
            with torch.no_grad():
                (whole, flat, other), ran = self.ran(compiled, x)
            self.assertEqual(kind, ran)
            self.assertEqual(x.data_ptr(), whole.data_ptr())
            self.assertEqual(x.data_ptr(), flat.data_ptr())
            self.assertNotEqual(x.data_ptr(), other.data_ptr())
            self.near((whole, flat, other), views(x))

    def test_results_without_elements_do_not_keep_graphs_away(self):
        def empty(x):
            return x.sin(), torch.empty(0), x[:0], x.new_zeros((0, 3)), torch.zeros(100)[:0]

        compiled = self.compiled(empty)
        self.assertEqual([RECORD, REPLAY], self.each(compiled, empty,
                                                     *[(torch.randn(5, 4),)] * 2))
        _, nothing, _, *more = compiled(torch.randn(5, 4))
        self.assertEqual([0] * 3, [one.untyped_storage().nbytes() for one in (nothing, *more)])

    def test_arguments_without_elements_do_not_keep_graphs_away(self):
        def both(x, nothing):
            return x + 1, nothing * 2

        kinds = self.each(self.compiled(both), both,
                          *[(torch.randn(5, 4), torch.empty(0, 4))] * 2)
        self.assertEqual([RECORD, REPLAY], kinds)

    def test_argument_of_which_only_the_shape_is_read(self):
        def shape_of(x, like):
            return x * 2 + like.shape[1]

        compiled = self.compiled(shape_of)
        like = torch.empty(7, 3, device="meta")
        x = torch.randn(5, 4)
        for kind in (RECORD, REPLAY, REPLAY):
            got, ran = self.ran(compiled, x, like)
            self.assertEqual(kind, ran)
            self.near(got, x * 2 + 3)

    def test_result_of_which_there_is_only_the_shape(self):
        def both(x, like):
            return x * 3, like * 2

        compiled = self.compiled(both)
        x, like = torch.randn(64), torch.empty(1, 16, 8, 8, device="meta")
        for kind in (RECORD, REPLAY, REPLAY, REPLAY):
            (got, shape), ran = self.ran(compiled, x, like)
            self.assertEqual(kind, ran)
            self.near(got, x * 3)
            self.assertEqual((like.device, like.shape, like.dtype, like.stride()),
                             (shape.device, shape.shape, shape.dtype, shape.stride()))

    def test_scalars_of_the_host_are_read_as_they_are(self):
        def scale(x, factor, more):
            return x * factor + more * 2, factor + 1

        compiled = self.compiled(scale)
        x = torch.randn(5, 4)
        kinds = self.each(compiled, scale, *[(x, torch.tensor(a), torch.tensor(b))
                                             for a, b in ((2.0, 3.0), (5.0, 7.0), (-1.0, 0.5))])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_scalar_of_the_host_is_used_late_and_in_two_places(self):
        def late(x, factor):
            mixed = (x.sin() @ x.t()).relu()
            return mixed * factor, mixed - factor

        kinds = self.each(self.compiled(late), late,
                          *[(torch.randn(5, 4), torch.tensor(a)) for a in (2.0, 5.0)])
        self.assertEqual([RECORD, REPLAY], kinds)

    def test_scalar_of_the_host_that_the_function_changes(self):
        def count(x, calls):
            calls.add_(1)
            return x * calls, calls.clone()

        compiled = self.compiled(count)
        calls = torch.tensor(0.0)
        x = torch.randn(5, 4)
        for number in (1, 2, 3):
            (got, copied), ran = self.ran(compiled, x, calls)
            self.assertEqual(RECORD if number == 1 else REPLAY, ran)
            self.near((got, copied, calls), (x * number, *[torch.tensor(float(number))] * 2))

    def test_numbers_of_the_caller_are_part_of_the_key(self):
        def scale(x, times):
            return x * times + times

        compiled = self.compiled(scale)
        x = torch.randn(5, 4)
        kinds = self.each(compiled, scale, *[(x, times) for times in (3, 5, 3, 5, 9)])
        self.assertEqual([RECORD, RECORD, REPLAY, REPLAY, RECORD], kinds)
        self.assertEqual(1, len(coppice.torch.report(compiled)))

    def test_several_tensors_by_one_operator(self):
        def add(a, b, c):
            return torch._foreach_mul(torch._foreach_add([a, b, c], 1.0), 2.0)

        arguments = (torch.randn(5, 4), torch.randn(3), torch.randn(2, 2))
        self.assertEqual([RECORD, REPLAY], self.each(self.compiled(add), add,
                                                     *[arguments] * 2))

    def test_operators_that_are_fused_or_share_their_code(self):
        def twice(x, y):
            return (x.sin() * 2 + 1).sum(1), (y.sin() * 2 + 1).sum(1), x @ y.t()

        compiled = self.compiled(twice)
        arguments = (torch.randn(5, 4), torch.randn(6, 4))
        self.assertEqual([RECORD, REPLAY], self.each(compiled, twice, *[arguments] * 2))

    def test_convolution_by_templates_is_right_from_the_first_call_on(self):
        module = nn.Conv2d(2, 4, 3).eval()
        kinds = self.each(self.compiled(module), module, *[(torch.randn(3, 2, 6, 7),)] * 3)
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_indexing_operators(self):
        rows, values = torch.tensor([0, 2, 1]), torch.randn(3, 4)
        wide = rows[:, None].expand(3, 4)
        functions = [
            lambda x: (x.index_select(0, rows), x.gather(0, wide), x[rows], x.take(rows),
                       torch.take_along_dim(x, rows[:, None], 0)),
            lambda x: (x.scatter(0, wide, values), x.scatter_add(0, wide, values),
                       x.index_add(0, rows, values), x.index_copy(0, rows, values)),
            lambda x: (x.index_fill(0, rows[:2], 2.0), x.masked_fill(x > 0, 1.0),
                       x.index_put((rows,), values, accumulate=True)),
        ]
        for deterministic in (False, True):
            for function in functions:
                torch._dynamo.reset()
                torch.use_deterministic_algorithms(deterministic)
                try:
                    kinds = self.each(self.compiled(function), function,
                                      *[(torch.randn(3, 4),)] * 2)
                finally:
                    torch.use_deterministic_algorithms(False)
                self.assertEqual([RECORD, REPLAY], kinds)

    def test_flags_are_put_together_by_the_operator_of_pytorch(self):
        def put(x, rows, values):
            return torch.zeros_like(x).index_put_([rows], values, True)

        compiled = self.compiled(put)
        kinds = self.each(compiled, put, *[
            (torch.zeros(6, 4, dtype=torch.bool), torch.randint(6, (5,)), torch.randn(5, 4) > 0)
            for _ in range(3)])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)
        (one,) = coppice.torch.report(compiled)
        self.assertEqual(["aten.index_put_.default"], one.calls)

    def test_sparse_tensors_between_dense_ones(self):
        def sparsely(x):
            return (x * 2).relu().to_sparse().to_dense() + 1

        def places(rows, values):
            return torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
                1, 1, [1000, 4], rows, values, dtype=values.dtype, layout=torch.sparse_coo,
                device=values.device)

        self.leaves_programs = True
        compiled, placed = self.compiled(sparsely), self.compiled(places)
        for _ in range(3):
            self.each(compiled, sparsely, (torch.randn(4, 4),))
            self.each(placed, places, (torch.randint(1000, (1, 30)), torch.randn(30, 4)))

    def test_autocast_keeps_no_result_of_a_graph(self):
        module = nn.Linear(4, 4)
        compiled = self.compiled(module)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            for kind in (RECORD, REPLAY, REPLAY):
                x = torch.randn(5, 4)
                got, ran = self.ran(compiled, x)
                self.assertEqual(kind, ran)
                self.assertEqual(torch.bfloat16, got.dtype)
                torch.testing.assert_close(got, module(x), atol=2e-2, rtol=2e-2)
                again = compiled(got.float())  # A cast that was cached would be that of before.
                torch.testing.assert_close(again, module(got.float()), atol=2e-2, rtol=2e-2)

    def test_autocast_casts_a_result_that_was_written_again(self):
        compiled = self.compiled(lambda x: x + x)
        other = torch.rand(4, 4)
        for _ in range(3):
            result = compiled(torch.rand(4, 4, requires_grad=True))
            with torch.autocast("cpu", torch.bfloat16):
                once = result @ other
                result.detach().zero_()
                self.assertFalse(torch.equal(once, result @ other))

    def test_marks_of_steps_change_nothing(self):
        compiled = self.compiled(affine)
        for kind in (RECORD, REPLAY, REPLAY):
            torch.compiler.cudagraph_mark_step_begin()
            self.assertEqual(kind, self.ran(compiled, torch.randn(5, 4))[1])


if __name__ == "__main__":
    main()
