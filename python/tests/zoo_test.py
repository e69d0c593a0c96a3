#!/usr/bin/env python3
"""Goal: the zoo's models compute by `torch.compile(backend="coppice")` what eager PyTorch computes,
and train as it trains.
Method: zoo.tsv, which zoo_run.py wrote, is held to the models that there are and to the promises;
models that say so run anew, at sizes and of weights that the seed draws. Dropout that is lifted
draws other numbers than PyTorch, so that its gradients are held to its own results.

    zoo_test.py [unittest's options]

Without torch or the package coppice all is skipped that needs them. COPPICE_TEST_SEED
repeats a run.
"""

import os
import pathlib
import random
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
SIZES = 3
STEPS = 6
MODELS_MIN, TRAININGS_MIN = 30, 6
LIFTED_SHARE_MIN = 24 / 30

try:
    import torch

    import zoo
    import zoo_run
    import zoo_training
except ImportError:
    torch = None

try:
    import coppice.torch
    from coppice import _core  # noqa: F401
except ImportError:
    coppice = None


@unittest.skipUnless(torch, "torch is not installed")
class ZooTableTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lines = zoo_run.read_table()
        cls.inference = [line for line in cls.lines if line["mode"] == "inference"]
        cls.training = [line for line in cls.lines if line["mode"] == "training"]

    def test_every_model_has_a_line(self):
        self.assertEqual([key for key, _ in zoo_run.entries()],
                         [zoo_run.key_of(line) for line in self.lines],
                         "zoo_run.py writes the table anew")

    def test_no_line_is_wrong(self):
        for line in self.lines:
            self.assertEqual("", zoo_run.is_wrong(line), line)

    def test_models_are_as_many_and_of_all_origins(self):
        self.assertGreaterEqual(len(self.inference), MODELS_MIN)
        self.assertEqual(set(zoo.ORIGINS), {line["origin"] for line in self.inference})
        self.assertEqual({"8"}, {line["sizes"] for line in self.inference})

    def test_most_are_fully_lifted_and_others_say_why(self):
        lifted = [line for line in self.inference if line["lifted"] == "yes"]
        self.assertGreaterEqual(len(lifted), LIFTED_SHARE_MIN * len(self.inference))
        for line in self.lines:
            self.assertEqual(line["lifted"] == "yes", line["calls"] == "-" and
                             line["reason"] == "-", line)

    def test_some_are_padded(self):
        padded = {line["model"] for line in self.inference if line["padded"] == "yes"}
        self.assertEqual({model.name for model in zoo.all_models() if model.options}, padded)

    def test_trainings_are_as_many_and_take_all_steps(self):
        self.assertGreaterEqual(len(self.training), TRAININGS_MIN)
        self.assertEqual({str(zoo_training.STEPS)}, {line["sizes"] for line in self.training})


@unittest.skipUnless(torch and coppice, "torch or coppice is not installed")
class ZooTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)

    def test_models_compute_what_eager_computes(self):
        for model in zoo.all_models():
            if model.in_ci:
                with self.subTest(model=model.name, seed=SEED):
                    line, _ = zoo_run.run_model(model, SEED, SIZES)
                    self.assertEqual("", zoo_run.is_wrong(line))
                    self.assert_same_graphs(line)

    def test_trainings_end_where_those_of_eager_end(self):
        for training in zoo_training.all_trainings():
            if training.in_ci:
                with self.subTest(training=training.name, seed=SEED):
                    line, _ = zoo_run.run_training(training, SEED, STEPS)
                    self.assertEqual("", zoo_run.is_wrong(line))
                    self.assert_same_graphs(line)

    def assert_same_graphs(self, line):
        """The table's line says the same of what was compiled."""
        (known,) = (known for known in zoo_run.read_table()
                    if zoo_run.key_of(known) == zoo_run.key_of(line))
        for name in ("lifted", "calls", "reason"):
            self.assertEqual(known[name], line[name], "zoo_run.py writes the table anew")

    def test_gradients_go_through_what_dropout_kept(self):
        compiled = zoo_run.compiled_by_coppice(zoo_training.Masked(), dynamic=True)
        zoo_training.check_masks(compiled, SEED)
        self.assertEqual("yes", zoo_run.describe(compiled)["lifted"])


if __name__ == "__main__":
    print(f"COPPICE_TEST_SEED={SEED}")
    unittest.main()
