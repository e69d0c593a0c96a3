#!/usr/bin/env python3
"""Goal: the dashboard tells right from wrong, says of each model what became of it, and its
committed results are of the models that there are.
Method: its logic is asked with numbers, lines and processes made up here, among them results that
are wrong; ten models of all suites, three in CI, run anew, at sizes and of weights that the seed
draws, and say of their graphs what the committed lines say. Dropout that is lifted draws other
numbers than PyTorch, so that its gradients are held to its own results.

    dashboard_test.py [unittest's options]

Without torch or the package coppice all is skipped that needs them, and models are whose package is
not installed. COPPICE_TEST_SEED repeats a run.
"""

import importlib.util
import json
import os
import pathlib
import random
import signal
import tempfile
import unittest
from html.parser import HTMLParser
from unittest import mock

try:
    import coppice.torch
    import torch
    from coppice import _core  # noqa: F401
    from coppice.dashboard import costs, distances, lines, measure, page, runs, suites
    from coppice.dashboard import own_modules as own
    from coppice.dashboard.model import sizes_of
except ImportError:
    torch = None

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "dashboard"
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
LISTED = {"huggingface": 55, "timm": 18, "torchbench": 17}
# What is run anew, and in which mode; CI draws some of them.
ANEW = (("own/mlp", "training"), ("own/dropout", "inference"), ("own/cache", "inference"),
        ("own/attention_lengths", "inference"), ("own/forked", "inference"),
        ("own/recurrent", "training"), ("torchbench/nvidia_deeprecommender", "training"),
        ("huggingface/DistillGPT2", "inference"), ("huggingface/Llama-3.2", "inference"),
        ("timm/deit_tiny_patch16_224", "inference"))
DRAWN_IN_CI = 3
here = unittest.skipUnless(torch, "torch or coppice is not installed")


def line(model="a", status="right", **more):
    return lines.line(**{"suite": "own", "model": model, "mode": "inference", "dtype": "float32",
                         "status": status, "why": "", "reasons": [], **more})


@here
class DistancesTest(unittest.TestCase):
    def test_equal_results_have_no_distance(self):
        for value in (torch.randn(3), torch.tensor([1, 2]), torch.tensor([torch.inf, torch.nan]),
                      torch.empty(0), torch.tensor([True])):
            self.assertEqual(0.0, distances.distance(value, value.clone()))

    def test_one_wrong_value_among_many_shows(self):
        right = torch.ones(10_000)
        found = right.clone()
        found[77] += 1e-3
        self.assertAlmostEqual(1e-3, distances.distance(found, right), 6)

    def test_what_is_not_a_number_is_infinitely_wrong(self):
        for found, right in ((torch.nan, 1.0), (1.0, torch.nan), (torch.inf, -torch.inf)):
            self.assertEqual(float("inf"), distances.distance(torch.tensor([found]),
                                                              torch.tensor([right])))

    def test_integers_differ_or_do_not(self):
        self.assertEqual(float("inf"), distances.distance(torch.tensor([1 << 30]),
                                                          torch.tensor([(1 << 30) + 1])))

    def test_results_of_another_form_are_an_error(self):
        with self.assertRaises(distances.Misshapen):
            distances.distance(torch.ones(2), torch.ones(2, 1))
        with self.assertRaises(distances.Misshapen):
            distances.farthest([torch.ones(2)], [torch.ones(2)] * 2)
        with self.assertRaises(distances.Misshapen):
            distances.Comparison("float32").add("", [torch.ones(1)], [torch.ones(1).double()], None)

    def test_gradients_that_are_noise_are_of_the_size_of_others(self):
        gradients = [torch.ones(4), torch.full((4,), 1e-9)]
        found = [torch.ones(4), torch.full((4,), -1e-9)]
        self.assertLess(distances.farthest(found, gradients, distances.scale_of(gradients)), 1e-5)


@here
class ComparisonTest(unittest.TestCase):
    def compare(self, found, right, exact):
        comparison = distances.Comparison("float32")
        comparison.add("here", *([torch.tensor([value])] for value in (found, right)),
                       None if exact is None else lambda: [torch.tensor([exact]).double()])
        return comparison

    def test_what_is_near_is_right_without_asking(self):
        comparison = distances.Comparison("float32")
        comparison.add("here", [torch.ones(1)], [torch.ones(1) + 1e-6], self.fail)
        self.assertEqual("", comparison.wrong)

    def test_in_doubt_what_is_no_farther_from_float64_than_eager_is_right(self):
        self.assertEqual("", self.compare(1.0001, 0.9999, 1.0).wrong)
        self.assertIn("here", self.compare(1.001, 0.9999, 1.0).wrong)

    def test_without_float64_what_is_far_is_wrong(self):
        self.assertIn("here", self.compare(1.0001, 0.9999, None).wrong)

    def test_the_first_that_is_wrong_is_told(self):
        comparison = self.compare(2.0, 1.0, 1.0)
        comparison.add("later", [torch.ones(1)], [torch.zeros(1)], None)
        self.assertIn("here", comparison.wrong)


@here
class LinesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "lines.jsonl"

    def test_what_is_written_is_read(self):
        heading, known = {"command": "c", "versions": {"torch": "1"}}, [line("a"), line("b")]
        lines.write(self.path, heading, known)
        self.assertEqual((heading, known), lines.read(self.path))

    def test_of_one_key_the_last_counts(self):
        lines.write(self.path, {}, [line("a", "wrong"), line("a", "right")])
        self.assertEqual(["right"], [one["status"] for one in lines.read(self.path)[1]])

    def test_what_is_no_line_is_told_with_its_number(self):
        for text in ("{}", "[]", "{", '{"suite": 1}'):
            self.path.write_text(lines.text_of(line()) + text + "\n")
            with self.assertRaisesRegex(ValueError, "lines.jsonl:2: "):
                lines.read(self.path)

    def test_a_field_that_is_none_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "colour"):
            lines.line(colour=1)

    def test_causes_come_by_how_many_have_them(self):
        known = [line("a", reasons=["x"]), line("b", reasons=["x", "y"]), line("c"),
                 line("d", "timeout", why="late")]
        self.assertEqual([("x", 2), ("timeout: late", 1), ("y", 1)],
                         [(cause, len(names)) for cause, names in lines.causes_of(known)])

    def test_medians(self):
        for values, right in (([], None), ([3], 3), ([3, None, 1], 2), ([5, 1, 2], 2)):
            self.assertEqual(right, lines.median(values))


@here
class RunsTest(unittest.TestCase):
    def task(self, name="own/mlp", mode="inference"):
        (model,) = suites.chosen(suites.all_models(["own"]), [name])
        return runs.Task(model, mode, "float32")

    def test_an_exit_is_a_line(self):
        xcpu = -signal.SIGXCPU
        for code, printed, said, status, why in (
                (0, 'noise\n{"status": "right"}\n', "", "right", None),
                (xcpu, "", "", "timeout", "more than 9 s of CPU time"),
                (1, "", "Traceback\n  File\nValueError: no\n\n", "error", "ValueError: no"),
                (1, "", "torch.x.BackendFailed: no\nsome hint\n", "error",
                 "torch.x.BackendFailed: no"),
                (3, "", "", "error", "exit code 3"),
                (-signal.SIGSEGV, "", "text", "error", "signal SIGSEGV")):
            known = runs.outcome(code, printed, said, 9)
            self.assertEqual((status, why), (known["status"], known.get("why")))

    def test_what_is_done_does_not_run_again(self):
        models = suites.all_models(["own"])
        everything = runs.tasks_of(models, ["inference"], ["float32"])
        first = everything[0]
        self.assertEqual(everything[1:], runs.tasks_of(models, ["inference"], ["float32"],
                                                       [first.key]))

    def test_models_run_in_their_modes_and_types_alone(self):
        self.assertEqual([], runs.tasks_of([self.task("own/residuals").model], ["training"],
                                           ["float32"]))

    def test_a_process_that_takes_too_long_is_a_timeout(self):
        known = runs.run(self.task(), runs.Terms(limit_s=1))
        self.assertEqual("timeout", known["status"])
        self.assertRegex(known["why"], "more than 1 s of CPU time|more than 10 s by the clock")

    def test_a_package_that_is_missing_is_told(self):
        model = self.task().model.__class__("s", "m", None, None, needs="no_such_package")
        known = runs.run(runs.Task(model, "inference", "float32"), runs.Terms())
        self.assertEqual("error", known["status"])
        self.assertIn("coppice[dashboard]", known["why"])

    def test_what_is_left_is_as_what_was(self):
        self.assertIsNone(runs.left(0, 5, 0))
        self.assertEqual(30, runs.left(2, 5, 20))
        self.assertEqual(["0:09", "2:05", "1:01:01"], [*map(runs.clock, (9.2, 125, 3661))])


@here
class SuitesTest(unittest.TestCase):
    def test_lists_are_whole_and_names_are_unique(self):
        models = suites.all_models()
        self.assertEqual(len(models), len({model.key for model in models}))
        for suite, count in LISTED.items():
            self.assertEqual(count, sum(model.suite == suite for model in models), suite)

    def test_models_are_chosen_by_suite_name_and_pattern(self):
        models = suites.all_models()
        for names, count in ((["own/mlp"], 1), (["mlp", "own/mlp"], 1), (["timm"], 18),
                             (["T5*"], 2), ([], len(models))):
            self.assertEqual(count, len(suites.chosen(models, names)), names)
        with self.assertRaisesRegex(ValueError, "nothing_like_it"):
            suites.chosen(models, ["nothing_like_it"])

    def test_sizes_have_an_odd_one_and_one_that_is_larger(self):
        for seed in range(50):
            first, odd, large = sizes_of(seed)
            self.assertTrue(odd.rows % 2 and odd.length % 2)
            self.assertTrue(large.rows > first.rows and large.length > first.length)
            self.assertEqual(3, len({(one.rows, one.length) for one in (first, odd, large)}))


@here
class CostsTest(unittest.TestCase):
    def test_a_speedup_has_an_interval_around_it(self):
        source = random.Random(SEED)
        ours, eager = ([scale * source.lognormvariate(0, 0.1) for _ in range(100)]
                       for scale in (1.0, 2.0))
        known = costs.compared(ours, eager)
        low, high = known["interval"]
        self.assertTrue(1.7 < low < 2.3 and low < high < 2.4, known)
        self.assertAlmostEqual(2.0, known["speedup"], delta=0.2)

    def test_compilations_are_counted_with_what_inductor_took(self):
        torch._dynamo.reset()  # It forgets who asked to be told of compilations.
        with costs.Compiling() as compiling:
            module = torch.nn.Linear(8, 8).requires_grad_(False)
            torch.compile(module, backend="coppice", dynamic=True)(torch.randn(3, 8))
        self.assertTrue(0 < compiling.ours < compiling.all, vars(compiling))


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.rows, self.texts = 0, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.rows += tag == "tr"
        assert not {"src", "href"} & {name for name, value in attributes
                                      if value and not value.startswith("#")}, attributes

    def handle_data(self, data):
        self.texts.append(data)


@here
class PageTest(unittest.TestCase):
    def test_it_shows_each_line_and_why_it_is_not_right(self):
        known = [line("one", "wrong", why="a < b"), line("two", "right", compile_s=2.0,
                 inductor_s=1.0, call_ms=3.0, eager_ms=1.0, pool_bytes=10, live_bytes=8,
                 lifted="calls", calls={"topk": 2}, reasons=["topk has no kernel"])]
        shown = Reader(page.page({"command": "c", "versions": {"torch": "9"}}, known))
        text = " ".join(shown.texts)
        for part in ("1 of 2 results are right", "wrong: a < b", "topk has no kernel", "2 topk",
                     "torch 9", "one", "two"):
            self.assertIn(part, text)
        self.assertEqual(2 + 1 + 2 + 1, shown.rows)

    def test_the_summary_has_a_line_for_each_suite(self):
        known = [line("one"), line("two", "timeout", suite="timm")]
        head, own_line, timm = page.summary(known).splitlines()
        self.assertEqual(["own", "1", "1", "1"], own_line.split()[:4])
        self.assertEqual(["timm", "1", "1", "0"], timm.split()[:4])
        self.assertEqual("", page.summary([]))


@here
class ResultsTest(unittest.TestCase):
    """What is committed."""

    def test_no_line_is_of_a_model_that_there_is_not(self):
        known = {task.key for task in runs.tasks_of(suites.all_models(), ("inference", "training"),
                                                    ("float32", "bfloat16"))}
        for path in RESULTS.glob("*.jsonl"):
            heading, found = lines.read(path)
            self.assertIn("torch", heading["versions"])
            self.assertTrue(heading["command"] and found)
            self.assertEqual(set(), {lines.key_of(one) for one in found} - known, path)

    def test_nothing_is_wrong_and_what_fails_says_why(self):
        for path in RESULTS.glob("*.jsonl"):
            for one in lines.read(path)[1]:
                self.assertNotEqual("wrong", one["status"], one)
                self.assertEqual(one["status"] == "right", not one["why"], one)
                if one["status"] == "right" and one["lifted"] != "full":
                    self.assertTrue(one["reasons"], one)
                elif one["reasons"]:
                    self.assertTrue(one["breaks"] or one["status"] != "right", one)


@here
class ModelsTest(unittest.TestCase):
    def test_models_compute_what_eager_computes(self):
        known = {lines.key_of(one): one for path in RESULTS.glob("*.jsonl")
                 for one in lines.read(path)[1]}
        models = {model.key: model for model in suites.all_models()}
        there = [(models[key], mode) for key, mode in ANEW if not models[key].needs or
                 importlib.util.find_spec(models[key].needs) is not None]
        self.assertGreaterEqual(len(there), 7)
        if os.environ.get("COPPICE_TEST_SHARE") == "ci":
            there = random.Random(SEED).sample(there, DRAWN_IN_CI)
        for model, mode in there:
            task = runs.Task(model, mode, "float32")
            with self.subTest(model=model.key, seed=SEED):
                found = runs.run(task, runs.Terms(seed=SEED))
                self.assertEqual("right", found["status"], found)
                if task.key in known:
                    before = known[task.key]
                    self.assertEqual({name: before[name] for name in ("lifted", "calls")},
                                     {name: found[name] for name in ("lifted", "calls")})
                if found["kernels"]:
                    self.assertEqual(found["sizes"], found["replayed"], found)

    def test_gradients_go_through_what_dropout_kept(self):
        """Backward graphs are called in the reverse order, when later calls have drawn other
        masks."""
        torch._dynamo.reset()
        compiled = torch.compile(own.Masked(), backend="coppice", dynamic=True)
        torch.manual_seed(SEED)
        pairs, masks = [], []
        for rows in random.Random(SEED).sample(range(2, 16), 4):
            x = torch.rand(rows, 256) + 1
            pairs.append((x.requires_grad_(), compiled(x)))
        for x, y in reversed(pairs):
            slopes = torch.randn_like(y)
            (found,) = torch.autograd.grad(y, x, slopes)
            kept = y != 0
            share, count = own.Dropped.SHARE, kept.numel()
            deviation = (share * (1 - share) / count) ** 0.5
            self.assertLess(abs(1 - float(kept.double().mean()) - share), 6 * deviation)
            scale = 1 / (1 - share)
            torch.testing.assert_close(y, torch.where(kept, x.square() * scale, 0))
            torch.testing.assert_close(found, torch.where(kept, 2 * x * scale * slopes, 0))
            masks.append(kept[:2])
        same = [float((one == other).double().mean())
                for index, one in enumerate(masks) for other in masks[:index]]
        # Two draws agree by chance in (1 - share)^2 + share^2 of all elements.
        self.assertLess(max(same), 0.75)
        self.assertEqual("full", measure.described(compiled)["lifted"])

    def test_a_model_that_computes_something_else_is_wrong(self):
        """The whole way, with a backend that adds a little."""
        (model,) = suites.chosen(suites.all_models(["own"]), ["own/mlp"])
        run = measure.Subject.run

        def spoiled(self, function, arguments, module):
            outputs, gradients = run(self, function, arguments, module)
            if function is self.compiled:
                outputs = [one + 1e-3 for one in outputs]
            return outputs, gradients

        with mock.patch.object(measure.Subject, "run", spoiled):
            found = measure.measure(model, "inference", "float32", SEED)
        self.assertEqual("wrong", found["status"])
        self.assertIn("size 1, call 1, results", found["why"])
        json.dumps(found)

    def test_the_loss_is_of_what_has_a_gradient(self):
        x = torch.ones(2, requires_grad=True)
        loss = measure.loss_of([x * 2, torch.ones(3), torch.tensor([1])])
        self.assertEqual(4.0, float(loss.detach()))


if __name__ == "__main__":
    print(f"COPPICE_TEST_SEED={SEED}")
    unittest.main()
