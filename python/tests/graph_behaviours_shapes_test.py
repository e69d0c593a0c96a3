#!/usr/bin/env python3
"""Goal: sizes that vary make the graphs that they have to, pad where they may, and results whose
sizes depend on data are right.
Method: graph_behaviours.py; functions of one, two and three sizes that vary, with policies and
without, with strides and integers of the caller, and with operators that make sizes.

    graph_behaviours_shapes_test.py [unittest's options]
"""

from graph_behaviours import EAGER, RECORD, REPLAY, BehaviourTest, main, torch

if torch:
    import coppice
    from torch._dynamo import config as dynamo_config


def affine(x):
    return x * 2 + 1


class ShapesTest(BehaviourTest):
    IN_CI = {"test_three_sizes_make_three_graphs", "test_of_sizes_only_the_listed_are_recorded",
             "test_lengths_of_the_device_share_the_graph_of_their_bucket",
             "test_result_whose_size_depends_on_data_falls_back_with_a_reason"}

    def test_three_sizes_make_three_graphs(self):
        def both(x, y):
            return x + y, y.sum()

        compiled = self.compiled(both)
        calls = [(torch.randn(n, 4), torch.randn(n, 4)) for n in (3, 5, 7)]
        self.assertEqual([RECORD] * 3 + [REPLAY] * 3, self.each(compiled, both, *calls, *calls))
        self.assertEqual([[3, 4], [5, 4], [7, 4]], self.buckets(compiled))
        self.assertEqual(1, len(coppice.torch.report(compiled)))

    def test_sizes_that_are_not_marked_are_compiled_apart(self):
        compiled = self.compiled(affine, dynamic=False)
        calls = [(torch.randn(n, 4),) for n in (3, 5, 3)]
        self.assertEqual([RECORD, RECORD, REPLAY], self.each(compiled, affine, *calls))
        first, second = coppice.torch.report(compiled)
        self.assertEqual(("", {}), (first.recompiled, first.symbols))
        self.assertRegex(second.recompiled, "size mismatch at index 0")

    def test_sizes_about_which_nothing_is_assumed(self):
        compiled = self.compiled(affine, dynamic=None)
        for n in (3, 1, 0, 5, 3):
            x = torch.randn(n, 4)
            torch._dynamo.decorators.mark_unbacked(x, 0)
            self.near(compiled(x), affine(x))
        self.assertEqual(1, len(coppice.torch.report(compiled)))
        self.assertEqual([[1], [3], [5]], sorted(one for one in self.buckets(compiled) if one[0]))

    def test_of_sizes_only_the_listed_are_recorded(self):
        compiled = self.compiled(affine)
        for n in (3, 5, 7):
            self.each(compiled, affine, (torch.randn(n, 4),))
        with coppice.stance("replay_only", self.session()):
            kinds = self.each(compiled, affine, *[(torch.randn(n, 4),) for n in (3, 4, 5, 6, 7)])
        self.assertEqual([REPLAY, EAGER, REPLAY, EAGER, REPLAY], kinds)
        self.assertEqual(3, len(self.buckets(compiled)))

    def test_of_pairs_and_triples_of_sizes_only_the_listed_are_recorded(self):
        def scale(*parts):
            return [part * 2 for part in parts]

        for sizes in ([(2, 3), (2, 4), (3, 3), (3, 4)],
                      [(2, 3, 4), (2, 3, 5), (2, 6, 4), (7, 3, 4)]):
            torch._dynamo.reset()
            compiled = self.compiled(scale)
            listed = [tuple(torch.randn(n) for n in one) for one in sizes]
            self.assertEqual([RECORD] * 4, self.each(compiled, scale, *listed))
            with coppice.stance("replay_only", self.session()):
                self.assertEqual([REPLAY] * 4, self.each(compiled, scale, *listed))
                others = [tuple(torch.randn(9) for _ in sizes[0])]
                self.assertEqual([EAGER], self.each(compiled, scale, *others))
            self.assertEqual(4, len(self.buckets(compiled)))

    def test_sizes_above_the_only_bucket_run_without_a_graph(self):
        compiled = self.compiled(affine, policy={"x:0": ("8", 8)}, claim="any")
        before = self.reasons()
        kinds = self.each(compiled, affine, *[(torch.randn(n, 4),) for n in (3, 8, 9, 16, 5)])
        self.assertEqual([RECORD, REPLAY, EAGER, EAGER, REPLAY], kinds)
        self.assertEqual([[8, 4]], self.buckets(compiled))
        new = {name for name, count in self.reasons().items() if count != before.get(name, 0)}
        self.assertEqual(2, len(new), new)  # The new bucket, and why the others have none.

    def test_padding_is_zero_where_sums_read_it(self):
        def dot(x, y):
            return x @ y, x.sum()

        compiled = self.compiled(dot, policy={"x:0": ("pow2", 64)}, claim=("fill", 1e-5, 1e-5))
        kinds = self.each(compiled, dot, *[(torch.randn(n), torch.randn(n)) for n in (6, 7, 5, 9)])
        self.assertEqual([RECORD, REPLAY, REPLAY, RECORD], kinds)

    def test_lengths_of_the_device_share_the_graph_of_their_bucket(self):
        def reduce(x, length):
            live = torch.arange(x.shape[0]) < length
            return torch.where(live, x, float("inf")).amin(), torch.where(live, x, 0.0).sum()

        options = {"policy": {"x:0": ("pow2", 64)}, "claim": "finite"}
        compiled = self.compiled(reduce, **options)
        inputs = {n: torch.rand(n) + 1 for n in (6, 7, 8)}
        kinds = self.each(compiled, reduce, *[(x, torch.tensor(n)) for n, x in inputs.items()])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)
        torch._dynamo.reset()
        compiled = self.compiled(lambda x, n: reduce(x, n), **options)
        kinds = self.each(compiled, reduce, *[(x, n) for n, x in inputs.items()])
        self.assertEqual([RECORD] * 3, kinds, "a length of the host is part of the key")

    def test_strides_of_arguments_are_no_reason_to_record(self):
        compiled = self.compiled(affine)
        whole = torch.randn(6, 9)
        kinds = self.each(compiled, affine, *[(whole[:, :5],), (torch.randn(6, 5),),
                                              (whole[:, 4:],)])
        self.assertLessEqual(kinds.count(RECORD), 2)  # Dynamo compiles views apart.
        kinds = self.each(compiled, affine, (whole[:, :5],), (torch.randn(6, 5),))
        self.assertEqual([REPLAY, REPLAY], kinds)

    def test_sizes_that_follow_from_the_layout_of_an_argument(self):
        def column(x):
            return x.t().contiguous().view(-1)[:4] * 2

        compiled = self.compiled(column)
        calls = [(torch.randn(n, 5).t(),) for n in (4, 6, 9)] + [(torch.randn(5, 4),)]
        self.each(compiled, column, *calls)
        kinds = self.each(compiled, column, *calls)
        self.assertEqual([REPLAY] * 4, kinds)

    def test_size_that_only_the_host_reads_is_no_reason_to_record(self):
        def shape_of(x, like):
            return x * 2, like.shape[0] * 3

        x = torch.randn(5, 4)
        kinds = self.each(self.compiled(shape_of), shape_of,
                          *[(x, torch.randn(n)) for n in (7, 9, 7)])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def test_sizes_of_every_argument_that_is_computed_with_are_recorded(self):
        def both(x, y):
            return x + 1, y + 1

        kinds = self.each(self.compiled(both), both,
                          *[(torch.randn(one), torch.randn(other)) for one, other in (
                              ((2, 3), (4, 4)), ((2, 3), (5, 6)), ((3, 4), (4, 4)),
                              ((2, 3), (5, 6)))])
        self.assertEqual([RECORD] * 3 + [REPLAY], kinds)

    def test_joined_to_itself_at_every_size(self):
        def join(x):
            return torch.cat([x, x]).sin()

        kinds = self.each(self.compiled(join), join, *[(torch.randn(n, 4),) for n in (3, 5, 3, 5)])
        self.assertEqual([RECORD, RECORD, REPLAY, REPLAY], kinds)

    # Sizes and numbers that depend on data.

    def test_number_that_the_host_reads_between_two_graphs(self):
        def item(x):
            return x * x.sum().item() + 1

        self.leaves_programs = True
        compiled = self.compiled(item)
        for kinds in ({"record": 2}, {"replay": 2}, {"replay": 2}):
            x = torch.randn(4, 3)
            got, ran = self.ran(compiled, x)
            self.near(got, item(x))
            self.assertEqual(kinds, ran)

    def test_number_of_the_device_stays_on_it(self):
        def item(x):
            return x * x.sum().item() + 1

        with dynamo_config.patch(capture_scalar_outputs=True):
            kinds = self.each(self.compiled(item), item, *[(torch.randn(4, 3),) for _ in range(3)])
        self.assertEqual([RECORD, REPLAY, REPLAY], kinds)

    def check_fallback(self, function, pattern, *calls, **config):
        """The graph is run by PyTorch, right, with a reason that is logged once."""
        with dynamo_config.patch(**config), self.assertLogs("coppice", "WARNING") as logged:
            compiled = self.compiled(function)
            self.assertEqual([{}] * len(calls), self.each(compiled, function, *calls))
        self.assertEqual(1, len(logged.output))
        self.assertRegex(logged.output[0], pattern)
        counts = coppice.torch.stats(compiled)
        self.assertEqual((1, 0, len(calls)),
                         (counts["fallbacks"], counts["lifted"], counts["runs"]))
        return compiled

    def test_result_whose_size_depends_on_data_falls_back_with_a_reason(self):
        def places(x):
            return (x * 2).nonzero() + 1

        self.check_fallback(places, r"places \(graph_behaviours_shapes_test.py.*depends on data",
                            *[(torch.tensor(one),) for one in ([1, 0, 2], [1, 0, 0], [0, 0, 3])],
                            capture_dynamic_output_shape_ops=True)

    def test_sizes_that_depend_on_data_on_both_sides_of_a_break_fall_back(self):
        def twice(x):
            found = x.nonzero()
            torch._dynamo.graph_break()
            return found.nonzero()

        self.leaves_programs = True
        with dynamo_config.patch(capture_dynamic_output_shape_ops=True):
            compiled = self.compiled(twice)
            calls = [(torch.tensor(one),) for one in ([1, 0, 2], [1, 0, 0])]
            self.assertEqual([{}] * 2, self.each(compiled, twice, *calls))
        # The second part is compiled again for its other size.
        self.assertEqual((3, 0), tuple(coppice.torch.stats(compiled)[name]
                                       for name in ("fallbacks", "lifted")))

    def test_size_that_elements_add_up_to_falls_back_with_a_reason(self):
        def head(x, lengths):
            size = lengths.sum().item()
            torch._check(size >= 0)
            torch._check(size <= x.shape[0])
            return x[:size] * 2

        self.check_fallback(head, "depends on data", (torch.randn(8, 4), torch.tensor([1, 2])),
                            (torch.randn(8, 4), torch.tensor([3, 2])), capture_scalar_outputs=True)

    def test_several_results_of_a_size_that_a_number_gives_fall_back_with_a_reason(self):
        def make(flag, number):
            size = number.item()
            torch._check(size >= 2)
            one, other = torch.cond(flag, lambda x: (x.cos(), x.cos() + 1),
                                    lambda x: (x.sin(), x.sin() + 1), [torch.ones(size, 3)])
            return one + other, one * 2

        self.check_fallback(make, "subgraph|depends on data",
                            *[(torch.tensor([flag]), torch.tensor(number))
                              for flag, number in ((True, 3), (False, 5))],
                            capture_scalar_outputs=True)

    def test_branch_that_a_value_decides_falls_back_with_a_reason(self):
        def choose(x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

        self.check_fallback(choose, "subgraph", (torch.ones(5, 4),), (-torch.ones(5, 4),))

    def test_size_that_depends_on_data_between_two_graphs(self):
        def pick(x):
            found = (x * 2).nonzero()
            return found[:, 0] + found[:, 1]

        self.leaves_programs = True
        compiled = self.compiled(pick)
        for _ in range(3):
            x = torch.randn(5, 4).relu()
            x[0, 0] = 1
            got, _ = self.ran(compiled, x)
            self.near(got, pick(x))
        x = torch.eye(4) + torch.ones(4, 4)
        compiled(x)
        got, ran = self.ran(compiled, x)
        self.near(got, pick(x))
        self.assertEqual({"replay"}, set(ran))


if __name__ == "__main__":
    main()
