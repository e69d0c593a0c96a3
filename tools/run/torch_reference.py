#!/usr/bin/env python3
"""Repeats the steps of a served kernel package in PyTorch and compares their logits.

    coppice run --package torch_decoder.zip --requests 20 --dump-steps steps
    torch_reference.py steps [--decoder samples/torch_decoder.py] [--bound 1e-4] [--device cuda]

The folder is what tools/run/step_log.h describes. PyTorch runs the decoder that the package was
exported from, step by step on caches of its own: no padding, no graph, none of the package's
kernels. A step feeds the tokens that the served run fed, so that a difference stays where it is.

Prints one JSON object. Exits with 1 if a logit differs by more than the bound, if a token was
predicted whose logit is further than that below the best, or if there is no step.
"""

import argparse
import importlib.util
import json
import pathlib
import sys

import numpy as np


def load(path):
    spec = importlib.util.spec_from_file_location("served_decoder", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Reference:
    """The decoder with its caches."""

    def __init__(self, path, device):
        import torch

        self.torch, self.device = torch, device
        module = load(path)
        self.decoder = module.make_decoder().to(device)
        self.caches = [cache.to(device) for cache in module.make_caches()]

    def run(self, step):
        """The logits of a step: [rows, vocabulary]."""
        def row(values):
            return self.torch.tensor(values, dtype=self.torch.int32, device=self.device)

        tokens, slots = row(step["tokens"]), row(step["slots"])
        with self.torch.no_grad():
            if step["prefill"]:
                logits, _ = self.decoder.prefill(tokens[None], row([len(tokens)]), slots,
                                                 *self.caches)
            else:
                logits, _ = self.decoder.decode(tokens, row(step["positions"]), slots, *self.caches)
        return logits.cpu().numpy()


def read_steps(folder):
    """Each step with its logits; complains if the two files do not fit together."""
    lines = (folder / "steps.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    logits = np.fromfile(folder / "logits.f32", dtype="<f4")
    rows = sum(len(step["slots"]) for step in steps)
    if rows == 0 or logits.size % rows:
        sys.exit(f"{folder}: {logits.size} logits for {rows} rows; run coppice with --dump-steps")
    logits = logits.reshape(rows, -1)
    at = 0
    for step in steps:
        count = len(step["slots"])
        yield step, logits[at:at + count]
        at += count


def compare(steps, run, bound):
    """What the report says; `run` gives the expected logits of a step."""
    report = {"steps": 0, "prefills": 0, "rows": 0, "requests": set(), "max_error": 0.0,
              "max_logit": 0.0, "other_tokens": 0, "wrong_tokens": 0}
    for step, actual in steps:
        expected = run(step)
        if expected.shape != actual.shape:
            sys.exit(f"step {report['steps']}: logits {actual.shape}, expected {expected.shape}")
        error = np.abs(actual.astype(np.float64) - expected).max()
        # A NaN is no small error.
        report["max_error"] = max(report["max_error"], float(error if error == error else np.inf))
        report["max_logit"] = max(report["max_logit"], float(np.abs(expected).max()))
        for row, token in enumerate(step["next_tokens"]):
            best = int(expected[row].argmax())
            report["other_tokens"] += token != best
            report["wrong_tokens"] += bool(expected[row, best] - expected[row, token] > bound)
        report["steps"] += 1
        report["prefills"] += step["prefill"]
        report["rows"] += len(actual)
        report["requests"].update(step["requests"])
    report["requests"] = len(report["requests"])
    return report


def main():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=pathlib.Path, help="of coppice run --dump-steps")
    parser.add_argument("--decoder", default=root / "samples" / "torch_decoder.py",
                        help="the script that exported the package")
    parser.add_argument("--bound", type=float, default=1e-4, help="on errors of logits")
    parser.add_argument("--device", default="cpu", help="PyTorch's, default cpu")
    options = parser.parse_args()
    reference = Reference(options.decoder, options.device)
    report = compare(read_steps(options.folder), reference.run, options.bound)
    print(json.dumps(report))
    wrong = report["max_error"] > options.bound or report["wrong_tokens"] > 0
    return 1 if wrong or report["steps"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
