#!/usr/bin/env python3
"""Goal: torch.compile(backend="coppice") does what eager PyTorch does in programs that nobody
wrote, and what compares them finds what it has to. Method: programs are drawn (fuzz_draw.py) and
run as fuzz.py does; faults are planted in what a compiled program returns; failing programs are
shrunk.

    fuzz_test.py [unittest's options]

COPPICE_TEST_SEED is the first program's seed. Without torch, or without the extension, all is
skipped.
"""

import contextlib
import io
import os
import pathlib
import signal
import sys
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SEED = int(os.environ.get("COPPICE_TEST_SEED") or 1)
PROGRAMS, SIZES = 40, 2
DRAWN = 120  # Programs in which all families come.

try:
    import torch

    import coppice.torch  # noqa: F401
    import fuzz
    import fuzz_run
    from fuzz_compare import Difference
    from fuzz_draw import draw
    from fuzz_operators import FAMILIES, OPERATORS, VALUE
    from fuzz_programs import Invalid, Line, Program, Trial, is_valid, source
    from fuzz_run import Outcome, run
    from fuzz_shrink import RUNS_MAX, Shrinker, script
except ImportError:
    torch = None


def written(*lines, results, arguments=("x0 = drawn((n, 4), torch.float32, seed)",), train=False,
            calls=((3, 5, 0), (6, 5, 100))):
    """A program of (operator, text)."""
    return Program(0, train, False, (), tuple(map(Line, arguments)),
                   tuple(Line(text, operator) for operator, text in lines), results, calls)


def replaced(number, change):
    """A fault: changes one result."""
    def tamper(done):
        place = f"result {number}"
        done.results[place] = change(done.results[place])

    return tamper


@unittest.skipUnless(torch, "torch or the extension is not there")
class FuzzTest(unittest.TestCase):
    # What is drawn.

    def test_a_seed_gives_the_same_program_always(self):
        for seed in range(SEED, SEED + 5):
            self.assertEqual(draw(seed), draw(seed))
            self.assertTrue(is_valid(draw(seed)))
        self.assertNotEqual(source(draw(SEED)), source(draw(SEED + 1)))

    def test_all_families_of_operators_are_drawn(self):
        programs = [draw(seed) for seed in range(SEED, SEED + DRAWN)]
        drawn = {line.operator for program in programs for line in program.lines}
        self.assertEqual(set(FAMILIES), {OPERATORS[name].family for name in drawn})
        self.assertGreater(len(drawn), 0.8 * len(OPERATORS))
        self.assertEqual({True, False}, {program.train for program in programs})
        text = "".join(map(source, programs))
        for part in ("special=True", ".expand(", "[..., ::2]", "torch.nn.Buffer", "s0 = ", ", 0)",
                     ", 1)", "bfloat16", "x2 = x"):
            self.assertIn(part, text)

    def test_what_is_rounded_is_not_compared_bit_by_bit(self):
        trial = Trial(written(("sin", "v0 = torch.sin(x0)"), ("t", "v1 = v0.t()"),
                              ("add", "v2 = x0 + x0"), results=("v0",)))
        self.assertGreater(trial.level("v1"), VALUE)
        self.assertLessEqual(trial.level("v2"), VALUE)

    def test_what_eager_leaves_open_is_no_program(self):
        for lines in ([("expand", "v0 = x0[None].expand(2, *x0.shape)"), ("fill_", "v0.fill_(3)")],
                      [("sin", "v0 = torch.sin(x0)"), ("floor", "v1 = v0.floor()")],
                      [("index", "v0 = x0[x0.shape[0]]")],
                      [("clone", "v0 = x0 / 0"), ("to_integer", "v1 = v0.to(torch.int32)")],
                      [("clone", "v0 = x0 / 0"), ("view_dtype", "v1 = v0.view(torch.int32)"),
                       ("copy_", "v1.copy_(v0)")]):
            with self.subTest(lines), self.assertRaises(Invalid):
                Trial(written(*lines, results=("v0",)))

    def test_every_second_program_that_trains_goes_backward_a_call_later(self):
        program = written(("multiply", "v0 = x0 * x0"), results=("v0",), train=True)
        self.assertEqual([(0, False), (0, True), (1, False), (1, True)],
                         list(fuzz_run.steps(program)))
        self.assertEqual([(0, False), (1, False), (0, True), (1, True)],
                         list(fuzz_run.steps(program.replace(seed=1))))
        self.assertEqual([(0, False), (1, False)],
                         list(fuzz_run.steps(program.replace(train=False))))
        writing = program.replace(seed=1, members=(Line("b0 = torch.nn.Buffer(torch.ones(4))"),),
                                  lines=(Line("b0.add_(1)", "add_"), *program.lines))
        self.assertEqual(list(fuzz_run.steps(program)), list(fuzz_run.steps(writing)))

    # What compiled programs do.

    def test_drawn_programs_are_as_eager(self):
        print(f"{PROGRAMS} programs from seed {SEED}")
        for seed in range(SEED, SEED + PROGRAMS):
            with self.subTest(seed=seed):
                program = draw(seed, SIZES)
                outcome = run(program)
                if outcome.kind != "right":
                    outcome.whose = fuzz_run.whose(program, outcome)
                self.assertTrue(outcome.kind == "right" or outcome.whose, str(outcome))

    # What compares them.

    def test_planted_faults_are_found(self):
        program = written(("add", "v0 = x0 + 1"), ("t", "v1 = v0.t()"), ("tail", "v2 = x0[1:]"),
                          ("add_", "x0.add_(1)"), results=("v0", "v1", "v2"))
        self.assertEqual("right", run(program, "eager").kind)
        faults = {
            "strides": replaced(1, lambda value: value.contiguous()),
            "dtype": replaced(0, lambda value: value.view(torch.int32)),
            "shape": replaced(0, lambda value: value[1:]),
            "value": replaced(0, lambda value: value + 2 ** -20),
            "alias": replaced(2, lambda value: value.clone()),
            "written": lambda done: done.given["x0"].sub_(1),
            "type": replaced(0, lambda value: None),
            "count": lambda done: done.results.popitem(),
        }
        for kind, tamper in faults.items():
            with self.subTest(kind):
                outcome = run(program, "eager", tamper)
                self.assertEqual("silent", outcome.kind)
                self.assertIn(kind, outcome.classes())

    def test_aliases_with_an_argument_are_held_to_their_place(self):
        program = written(("tail", "v0 = x0[1:]"), results=("v0",))
        outcome = run(program, "eager", lambda done: done.results.update(
            {"result 0": done.given["x0"][:-1].copy_(done.results["result 0"].clone())}))
        self.assertIn("alias", outcome.classes())

    def test_bits_that_compare_equal_are_told_apart(self):
        program = written(("clone", "v0 = x0.clone()"), results=("v0",), arguments=(
            "x0 = drawn((n, 4), torch.float32, seed, special=True)",))
        outcome = run(program, "eager", replaced(0, lambda value: value + 0.0))
        self.assertEqual({"value"}, outcome.classes())

    def test_bits_of_a_nan_are_open_and_those_of_numbers_are_not(self):
        program = written(("clone", "v0 = x0.clone()"), ("view_dtype", "v1 = v0.view(torch.int32)"),
                          results=("v1",), arguments=(
                              "x0 = drawn((n, 4), torch.float32, seed, special=True)",))

        def changed(of_nans):
            return replaced(0, lambda bits: torch.where(
                bits.view(torch.float32).isnan() == of_nans, bits ^ 1, bits))

        self.assertEqual("right", run(program, "eager", changed(True)).kind)
        self.assertEqual({"value"}, run(program, "eager", changed(False)).classes())

    def test_gradients_and_results_that_change_later_are_found(self):
        program = written(("multiply", "v0 = x0 * x0"), results=("v0",), train=True)
        self.assertEqual("right", run(program, "eager").kind)

        def add_to_gradient(done):
            done.gradients["gradient of x0"] += 1

        outcome = run(program, "eager", add_to_gradient)
        self.assertEqual({("value", "gradient of x0")}, fuzz_run.places(outcome))
        last = []

        def write_over_the_one_before(done):
            for value in last:
                value.data.zero_()
            last[:] = [done.results["result 0"]]

        outcome = run(program, "eager", write_over_the_one_before)
        self.assertEqual({"kept"}, outcome.classes())

    def test_rounding_that_a_program_multiplies_is_no_difference(self):
        lines = [("thirds", "v0 = x0 / 3"), ("multiply_scalar", "v1 = v0 * 1000"),
                 ("subtract", "v2 = v1 - x0"), ("sin", "v3 = torch.sin(v2)")]
        program = written(*lines, results=("v3",))
        self.assertEqual("right", run(program, "eager", replaced(
            0, lambda value: value + 1.1e-4)).kind)
        self.assertEqual("silent", run(program, "eager", replaced(
            0, lambda value: value + 0.1)).kind)

    def test_results_that_change_later_in_eager_pytorch_too_are_right(self):
        program = written(("add_", "b0.add_(x0[0])"), results=("b0",)).replace(
            members=(Line("b0 = torch.nn.Buffer(drawn((4,), torch.float32, 1))"),))
        self.assertEqual("right", run(program, "eager").kind)

    def test_members_begin_as_they_were_made(self):
        program = written(("t_", "b0.t_()"), results=("b0",)).replace(
            members=(Line("b0 = torch.nn.Buffer(drawn((2, 4), torch.float32, 1)[:, 1:])"),))
        self.assertEqual("right", run(program, "eager").kind)

    # What makes programs small.

    def test_a_failing_program_shrinks_to_what_fails(self):
        program = written(
            ("sin", "v0 = torch.sin(x0)"), ("transpose", "v1 = v0.t()"), ("add", "v2 = v1 + x2"),
            ("flip", "v3 = v2.flip(0)"), ("add_", "x2.add_(1)"), ("tail", "v4 = v3[1:]"),
            ("sum", "v5 = v4.sum()"), results=("v0", "v5", "v4", "x2"), train=True,
            arguments=("x0 = drawn((n, 4), torch.float32, seed, special=True)",
                       "x1 = drawn((4, n + 1), torch.float32, seed + 1)[:, 1:]",
                       "x2 = drawn((1, n), torch.float32, seed + 2).expand(4, n)[:1]"))
        self.assertTrue(is_valid(program))
        wrong = Outcome("silent", 1, [Difference("value", "result 0", "")])
        runs = []

        def fails(one):
            runs.append(one)
            return wrong if any(line.operator == "flip" for line in one.lines) else Outcome("right")

        small, outcome = Shrinker(program, wrong, fails).shrink()
        self.assertIs(wrong, outcome)
        self.assertEqual(["v3 = x0.flip(0)"], [line.text for line in small.lines])
        self.assertEqual(["x0 = drawn((n, 4), torch.float32, seed)"],
                         [line.text for line in small.arguments])
        self.assertEqual((1, False), (len(small.calls), small.train))
        self.assertLess(len(runs), RUNS_MAX)

    def test_a_shrunk_program_is_a_script_that_runs(self):
        for train in (False, True):
            program = written(("multiply", "v0 = x0 * x0"), results=("v0",), train=train)
            text = script(program, Outcome("right"))
            exec(compile(text, "<script>", "exec"), {"print": lambda *_: None})

    # What is counted.

    def test_what_ends_a_process_or_never_ends_is_its_own_seeds(self):
        def test(seed):
            if seed == 2:
                os.kill(os.getpid(), signal.SIGSEGV)
            if seed == 4:
                time.sleep(60)
            return Outcome("right", graphs=seed)

        workers = fuzz.Workers(test)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            outcomes = {seed: workers.outcome(seed, seconds=2 if seed == 4 else 60)
                        for seed in range(1, 6)}
        workers.close()
        self.assertEqual({1: "right", 2: "error", 3: "right", 4: "error", 5: "right"},
                         {seed: outcome.kind for seed, outcome in outcomes.items()})
        self.assertEqual([1, 3, 5], [outcomes[seed].graphs for seed in (1, 3, 5)])
        self.assertEqual([{"Crash"}, {"Hang"}], [outcomes[seed].classes() for seed in (2, 4)])
        self.assertIn("seed 2: Crash: exit code -11", said.getvalue())

    def test_a_process_ends_after_so_many_programs(self):
        workers = fuzz.Workers(lambda seed: Outcome("right", graphs=os.getpid()))
        with mock.patch.object(fuzz, "PER_PROCESS", 2):
            processes = [workers.outcome(seed).graphs for seed in range(3)]
        workers.close()
        self.assertEqual(processes[0], processes[1])
        self.assertEqual(2, len({*processes}))
        self.assertNotIn(os.getpid(), processes)

    def test_shares_of_a_run_add_up(self):
        def line(first, last, failed):
            values = ["2.15.0", "3.9.0", "some", "4", first, last, 25, 24, 1, 0, 0, 30, 29, 0]
            return dict(zip(fuzz.COLUMNS, [*map(str, values), failed]))

        (whole,) = fuzz.merged([line(26, 50, "-"), line(1, 25, "7:value")])
        self.assertEqual(["2.15.0", "3.9.0", "some", "4", "1", "50", 50, 48, 2, 0, 0, 60, 58, 0,
                          "7:value"], whole)
        with self.assertRaises(SystemExit):
            list(fuzz.merged([line(1, 25, "-"), line(51, 75, "-")]))


if __name__ == "__main__":
    unittest.main()
