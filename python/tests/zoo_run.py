#!/usr/bin/env python3
"""Runs the zoo by `torch.compile(backend="coppice")` on the emulator, beside eager PyTorch, and
writes zoo.tsv beside this file.

    zoo_run.py [--only NAME ...] [--training | --inference] [--sizes 8] [--seed 1] [-o TABLE]

Each model runs in a process of its own, which may take TIMEOUT_S. Lines of models that are not run
stay. Exits with 1 if a model is wrong, fails, or does not replay. The table has no times; stderr
has. It needs PyTorch, torchvision, transformers and the package coppice.

    model, origin, mode   of zoo.py ("inference") or zoo_training.py ("training")
    lifted                "yes": of no graph an operator but gemm is called; "calls": others are;
                          "fallback": PyTorch runs a graph, `reason` says why; "failed": it raised.
                          What lies between graphs, where Dynamo ends one, is PyTorch's
    graphs, kernels       graphs compiled, forward and backward, and launches of Triton kernels in
    gemms, calls          one call of each; calls of gemm; other operators that PyTorch runs
    sizes, padded         how many were drawn; calls whose extents were not those of their bucket
    replayed              sizes whose third call replayed all of its graphs; of training "-"
    error, error_of_one   of inference the largest as a norm, and of one value; of training of the
                          gradients of a step, and of what the steps made of the weights
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import zoo
import zoo_training

TABLE = HERE / "zoo.tsv"
COLUMNS = ("model", "origin", "mode", "lifted", "graphs", "kernels", "gemms", "calls", "sizes",
           "padded", "replayed", "error", "error_of_one", "reason")
CALLS_PER_SIZE = 3  # One may record, one may find that what it wrote is to be written elsewhere.
TIMEOUT_S = 480
REASON_MAX = 160


def compiled_by_coppice(module, dynamic=None, options=None):
    """What torch.compile makes of a module, with nothing that it knew before."""
    import coppice.torch

    torch._dynamo.reset()
    return torch.compile(module, backend=coppice.torch.backend, dynamic=dynamic,
                         options={"device": "emulator", **(options or {})})


def session_stats():
    """Of the emulator's session: counts of runs by kind, and of padded elements."""
    import coppice

    return coppice.session(coppice.device("emulator")).stats()


def describe(compiled):
    """Columns that say what became of the graphs."""
    import coppice.torch

    graphs = coppice.torch.report(compiled)
    calls = [name for graph in graphs for name in graph.calls]
    fallbacks = [graph for graph in graphs if not graph.lifted]
    lifted = "fallback" if fallbacks else "calls" if calls else "yes"
    reasons = [reason for graph in fallbacks for reason in graph.reasons]
    return {"lifted": lifted, "graphs": len(graphs),
            "kernels": sum(graph.kernels for graph in graphs),
            "gemms": sum(graph.gemms for graph in graphs), "calls": counted(calls),
            "reason": " ".join("; ".join(dict.fromkeys(reasons)).split())[:REASON_MAX] or "-"}


def counted(names):
    """"a, 2 b" of a, b, b; the part of operators' names that they share is left out."""
    short = [name.removeprefix("aten.").removesuffix(".default") for name in names]
    return ", ".join(f"{short.count(name)} {name}" if short.count(name) > 1 else name
                     for name in sorted(set(short))) or "-"


class Errors:
    """The largest, as in comparison.py: of all values as a norm, and of one."""

    def __init__(self):
        self.all = self.one = 0.0

    def add(self, got, right):
        assert (got.shape, got.dtype) == (right.shape, right.dtype), (got, right)
        got, right = got.detach().double(), right.detach().double()
        if not right.numel():
            return
        difference = (got - right).nan_to_num(float("inf")).abs()
        self.all = max(self.all, float(difference.norm()) / (float(right.norm()) or 1.0))
        self.one = max(self.one, float(difference.max()) / (float(right.abs().max()) or 1.0))


def run_model(model, seed=1, sizes=8):
    """A line of the table, and seconds. Errors: AssertionError if results have another form."""
    module, right_module = model.modules(seed)
    compiled = compiled_by_coppice(module, model.dynamic, model.options)
    source = random.Random(f"{seed} {model.name}")
    torch.manual_seed(source.getrandbits(32))
    drawn = [model.draw(source) for _ in range(sizes)]
    kept = {position: (drawn[0][position].clone(), drawn[0][position].clone())
            for position in model.kept}
    errors, replayed, padded, seconds, runs = Errors(), 0, 0, [], {}
    with torch.no_grad():
        for given in drawn:
            for _ in range(CALLS_PER_SIZE):
                arguments = [kept[index][0] if index in kept else value.clone()
                             for index, value in enumerate(given)]
                others = [kept[index][1] if index in kept else value
                          for index, value in enumerate(given)]
                model.mark(arguments)
                before, begin = runs, time.monotonic()
                got = as_tuple(compiled(*arguments))
                seconds.append(time.monotonic() - begin)
                right = as_tuple(model.expected(right_module, others, got) if model.expected
                                 else right_module(*others))
                for one, other in zip(got, right, strict=True):
                    errors.add(one, other)
                for own, other in kept.values():
                    errors.add(own, other)
                stats = session_stats()
                runs = stats["runs"]
            replayed += only_replays(before, runs)
            padded += stats["padded_elements"] > stats["real_elements"]
    for own, other in zip(module.state_dict().values(), right_module.state_dict().values()):
        errors.add(own, other)
    line = {"model": model.name, "origin": model.origin, "mode": "inference",
            **describe(compiled), "sizes": sizes, "padded": "yes" if padded else "no",
            "replayed": replayed, "error": errors.all, "error_of_one": errors.one}
    return line, {"compile": seconds[0], "call": sorted(seconds[1:])[len(seconds) // 2]}


def as_tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def only_replays(before, after):
    """Whether a call was nothing but replays, as far as it was not PyTorch's alone."""
    return {kind for kind, count in after.items() if count != before.get(kind, 0)} == {"replay"}


def run_training(training, seed=1, steps=zoo_training.STEPS):
    """A line of the table, and seconds."""
    module, right_module = training.modules(seed)
    compiled = compiled_by_coppice(module, options={"fallback_random": True})
    begin = time.monotonic()
    distances = zoo_training.train(training, compiled, module, right_module, seed, steps)
    line = {"model": training.name, "origin": training.origin, "mode": "training",
            **describe(compiled), "sizes": steps, "padded": "no", "replayed": "-",
            "error": distances.gradients,
            "error_of_one": max(distances.weights, distances.buffers, distances.loss)}
    return line, {"total": time.monotonic() - begin}


def is_wrong(line):
    """Why a line is not as promised; empty if it is."""
    if line["lifted"] == "failed":
        return f"failed: {line['reason']}"
    if line["mode"] == "training":
        limits = zoo_training.GRADIENT_TOLERANCE, zoo_training.WEIGHT_TOLERANCE
    else:
        (model,) = (model for model in zoo.all_models() if model.name == line["model"])
        limits = model.tolerances
        if line["kernels"] not in (0, "0") and int(line["replayed"]) != int(line["sizes"]):
            return f"{line['replayed']} of {line['sizes']} sizes replay in the third call"
    found = float(line["error"]), float(line["error_of_one"])
    if not all(error <= limit for error, limit in zip(found, limits)):
        return f"errors of {found[0]:.1e} and {found[1]:.1e}, the limits are {limits}"
    return "" if line["lifted"] != "fallback" or line["reason"] != "-" else "no reason"


# The table.


def read_table(path=TABLE):
    """Lines of the table as dicts of texts."""
    if not path.exists():
        return []
    head, *lines = path.read_text().splitlines()
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


def write_table(lines, path=TABLE):
    """In the order in which the models stand in the zoo."""
    order = [key for key, _ in entries()]
    known = [line for line in lines if key_of(line) in order]
    rows = [COLUMNS] + [[line[name] for name in COLUMNS]
                        for line in sorted(known, key=lambda line: order.index(key_of(line)))]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def key_of(line):
    return line["mode"], line["model"]


def entries():
    """[((mode, name), model or training)]."""
    return ([(("inference", model.name), model) for model in zoo.all_models()]
            + [(("training", training.name), training)
               for training in zoo_training.all_trainings()])


def text_of(name, value):
    """One digit of errors: others are the rounding's."""
    return f"{value:.0e}" if isinstance(value, float) else str(value).replace("\t", " ")


def run_one(mode, name, seed, sizes):
    """Runs one in this process; its line and times as JSON go to stdout."""
    (entry,) = (entry for key, entry in entries() if key == (mode, name))
    torch.set_num_threads(1)
    line, seconds = (run_training(entry, seed) if mode == "training"
                     else run_model(entry, seed, sizes))
    print(json.dumps([{key: text_of(key, value) for key, value in line.items()}, seconds]))


def run_in_process(mode, entry, seed, sizes):
    """The same in a process of its own; what fails is a line that says how."""
    command = [sys.executable, "-B", __file__, "--one", mode, entry.name, "--seed", str(seed),
               "--sizes", str(sizes)]
    try:
        done = subprocess.run(command, check=False, text=True, capture_output=True,
                              timeout=TIMEOUT_S)
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        said = [line for line in done.stderr.splitlines() if line.strip()]
        reason = f"exit code {done.returncode}: {said[-1] if said else ''}"
        sys.stderr.write(done.stderr[-3000:])
    except subprocess.TimeoutExpired:
        reason = f"took more than {TIMEOUT_S} s"
    line = dict.fromkeys(COLUMNS, "-")
    line.update(model=entry.name, origin=entry.origin, mode=mode, lifted="failed",
                reason=" ".join(reason.split())[:REASON_MAX])
    return line, {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--training", action="store_const", dest="mode", const="training")
    modes.add_argument("--inference", action="store_const", dest="mode", const="inference")
    modes.add_argument("--one", nargs=2, metavar=("MODE", "NAME"), help=argparse.SUPPRESS)
    parser.add_argument("--sizes", type=int, default=8, help="of each model (default 8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=TABLE, metavar="TABLE")
    options = parser.parse_args()
    if options.one:
        run_one(*options.one, options.seed, options.sizes)
        return 0
    wanted = [(mode, entry) for (mode, name), entry in entries()
              if options.mode in (None, mode) and (not options.only or name in options.only)]
    wrong = 0
    for mode, entry in wanted:
        line, seconds = run_in_process(mode, entry, options.seed, options.sizes)
        what = is_wrong(line)
        wrong += bool(what)
        times = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
        print(f"{mode} {entry.name}: {line['lifted']}; {times} {what}", file=sys.stderr, flush=True)
        others = [old for old in read_table(options.output) if key_of(old) != key_of(line)]
        write_table([*others, line], options.output)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
