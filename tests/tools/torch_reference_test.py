#!/usr/bin/env python3
"""Goal: tools/run/torch_reference.py passes a log of steps that agrees with the reference, and none
that does not. Method: logs of three steps, whole and damaged, against logits that are made up here
in place of PyTorch's.
"""

import importlib.util
import json
import pathlib
import tempfile
import unittest

import numpy as np

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "run" / "torch_reference.py"
spec = importlib.util.spec_from_file_location("torch_reference", SCRIPT)
torch_reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch_reference)

VOCABULARY = 8
BOUND = 1e-4


def step(prefill, requests, tokens):
    return {"prefill": prefill, "requests": requests, "tokens": tokens,
            "positions": [] if prefill else [9] * len(requests), "slots": requests,
            "next_tokens": []}


def expected(one):
    """Logits that depend on what the step fed."""
    rows = [[(token * 5 + i * 3) % VOCABULARY for i in range(VOCABULARY)]
            for token in one["tokens"][:len(one["slots"])]]
    return np.array(rows, dtype=np.float32)


class TorchReferenceTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.steps = [step(True, [0], [1, 2, 3]), step(True, [1], [4]), step(False, [0, 1], [5, 6])]
        self.logits = [expected(one) for one in self.steps]
        for one, logits in zip(self.steps, self.logits):
            one["next_tokens"] = [int(token) for token in logits.argmax(-1)]

    def compare(self):
        lines = "".join(json.dumps(one) + "\n" for one in self.steps)
        (self.folder / "steps.jsonl").write_text(lines)
        (self.folder / "logits.f32").write_bytes(
            b"".join(logits.astype("<f4").tobytes() for logits in self.logits))
        return torch_reference.compare(torch_reference.read_steps(self.folder), expected, BOUND)

    def test_equal_logits_have_no_error(self):
        report = self.compare()
        self.assertEqual(report["max_error"], 0)
        self.assertEqual((report["steps"], report["prefills"], report["rows"]), (3, 2, 4))
        self.assertEqual(report["requests"], 2)
        self.assertEqual((report["other_tokens"], report["wrong_tokens"]), (0, 0))

    def test_the_largest_difference_of_any_row_is_told(self):
        self.logits[1][0, 3] += 0.25
        self.logits[2][1, 7] -= 0.5
        self.assertEqual(self.compare()["max_error"], 0.5)

    def test_nan_is_an_infinite_error(self):
        self.logits[2][0, 0] = np.nan
        self.assertEqual(self.compare()["max_error"], np.inf)

    def test_a_token_that_is_not_the_best_is_wrong(self):
        best = int(self.logits[2][1].argmax())
        self.steps[2]["next_tokens"][1] = (best + 1) % VOCABULARY
        report = self.compare()
        self.assertEqual((report["other_tokens"], report["wrong_tokens"]), (1, 1))

    def test_a_log_that_lacks_logits_is_refused(self):
        self.logits[2] = self.logits[2][:, 1:]
        with self.assertRaisesRegex(SystemExit, "logits for 4 rows"):
            self.compare()


if __name__ == "__main__":
    unittest.main()
