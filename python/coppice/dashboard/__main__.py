"""The command: see --help."""

import argparse
import importlib.metadata
import json
import pathlib
import platform
import sys
import time

from coppice.dashboard import lines, page, runs, suites
from coppice.dashboard.model import DTYPES, MODES

ABOUT = """\
Runs the models of PyTorch's dashboards with torch.compile(backend="coppice") and with eager
PyTorch, at three sizes each. Models are small and have random weights; nothing is downloaded.
"""
NOTES = """\
Each model runs in a process of its own. The command writes a line of JSON for each result to the
output file, and next to it a page that shows all results. coppice.dashboard.lines describes the
fields. All suites except "own" need pip install "coppice[dashboard]".

Exit codes: 0 all models are right; 1 a model is wrong, fails, or takes too long; 2 a wrong option
or file

Examples:
  python -m coppice.dashboard huggingface -o hf.jsonl
  python -m coppice.dashboard 'Bert*' resnet18 --mode training --dtype float32
  python -m coppice.dashboard --since hf.jsonl -o hf.jsonl     what is missing
  python -m coppice.dashboard --since hf.jsonl --again wrong,timeout -o hf.jsonl
"""
PACKAGES = ("coppice", "torch", "triton", "transformers", "timm", "torchvision", "diffusers")


def parser():
    result = argparse.ArgumentParser(
        prog="python -m coppice.dashboard", description=ABOUT, epilog=NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = result.add_argument
    add("names", nargs="*", metavar="SUITE|MODEL",
        help=f"{', '.join(suites.SUITES)}, or names of models; * matches any characters "
             "(default: all)")
    add("-o", "--output", type=pathlib.Path, default=pathlib.Path("dashboard.jsonl"),
        metavar="FILE", help="write the results to this file, and the page next to it (default "
                             "%(default)s)")
    add("--since", type=pathlib.Path, metavar="FILE",
        help="start with the results in this file, and run the models that it lacks")
    add("--again", type=lambda text: text.split(","), default=[], metavar="STATUS,...",
        help="with --since: also rerun models with these statuses, such as wrong")
    add("--mode", choices=MODES, help="run only this mode")
    add("--dtype", choices=DTYPES, help="run only this type")
    add("--full", action="store_true", help="use real sizes, which need a GPU")
    add("--device", choices=("cpu", "cuda"),
        help="cpu is the emulator (default: cuda if there is a GPU)")
    add("--limit", type=float, default=300, metavar="SECONDS",
        help="CPU time limit per model (default %(default)s)")
    add("--jobs", type=int, default=1, metavar="N", help="number of parallel processes (default 1)")
    add("--seed", type=int, default=1, help="seed for weights, values and sizes (default 1)")
    add("--list", action="store_true", help="list the models, and run none")
    add("--one", nargs=4, help=argparse.SUPPRESS)
    return result


def main():
    command = parser()
    given = command.parse_args()
    if given.one:
        return run_one(given)
    try:
        models = suites.chosen(suites.all_models(), given.names)
        kept = lines.read(given.since)[1] if given.since and given.since.exists() else []
    except ValueError as error:
        command.error(str(error))
    if given.list:
        print("\n".join(model.key for model in models))
        return 0
    kept = [one for one in kept if one["status"] not in given.again]
    return run_many(given, models, kept)


def run_one(given):
    """Runs one model in this process, and prints its line."""
    suite, name, mode, dtype = given.one
    runs.limit_this_process(given.limit)
    import torch

    from coppice.dashboard.measure import measure

    torch.set_num_threads(1)
    (model,) = (model for model in suites.all_models([suite]) if model.name == name)
    found = measure(model, mode, dtype, given.seed, given.full, given.device or "cpu")
    print(json.dumps(found))
    return 0


def run_many(given, models, kept):
    terms = runs.Terms(given.limit, given.seed, given.full, given.device or place(), given.jobs)
    tasks = runs.tasks_of(models, [given.mode] if given.mode else MODES,
                          [given.dtype] if given.dtype else DTYPES, map(lines.key_of, kept))
    heading = {"command": " ".join(["python -m coppice.dashboard", *sys.argv[1:]]),
               "versions": versions()}
    found, begin = list(kept), time.monotonic()

    def take(task, line):
        found.append(line)
        keep(given.output, heading, found)
        done, spent = len(found) - len(kept), time.monotonic() - begin
        rest = runs.left(done, len(tasks), spent)
        print(f"{done}/{len(tasks)} {lines.name_of(line)}: {line['status']}, "
              f"{line['lifted'] or line['why']}; {runs.clock(rest)} left", file=sys.stderr,
              flush=True)

    keep(given.output, heading, found)
    runs.run_all(tasks, terms, take)
    print(page.summary(found), end="")
    return 0 if all(one["status"] == "right" for one in found) else 1


def keep(path, heading, found):
    """Writes the file of lines, in the order of the models, and the page next to it."""
    order = {model.key: index for index, model in enumerate(suites.all_models())}
    found = sorted(found, key=lambda one: (order.get(f"{one['suite']}/{one['model']}", len(order)),
                                           one["mode"], one["dtype"] != DTYPES[0]))
    lines.write(path, heading, found)
    path.with_suffix(".html").write_text(page.page(heading, found))


def place():
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def versions():
    result = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            result[name] = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue
    return result


if __name__ == "__main__":
    sys.exit(main())
