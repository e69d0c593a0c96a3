#!/usr/bin/env python3
"""Scores what `coppice tune` learns on traces of requests, beside published ladders.

    score_traces.py COPPICE FOLDER [--only prompts,decode,cycle,shift] [--steps 120000]

COPPICE is the command; FOLDER holds CSV files with the columns arrival_seconds, input_tokens and
output_tokens (TRACES below names them), or those that draw_traces.py wrote. Each file is cut at
60 % of its time, or of its rows where it has no arrivals: buckets are learned from the first part
and scored on the rest. Steps are simulated from either part by `coppice tune simulate`. Prints
tables; exits with 1 if a bar is missed.
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import draw_traces

FIRST_PART = 0.6  # Of the time.
# By name, the limit of prompts; None: only the steps are scored.
TRACES = {"azure23_conv": 16384, "azure23_code": 8192, "mooncake_conv": 131072,
          "sharegpt_len": 8192, "arxiv_len": 4096, "sg_r1": None, "sg_mlarge": None,
          **{name: limit for name, (_, limit) in draw_traces.KINDS.items()}}
PROMPT_BARS = {16: 11.5, 32: 6.0, 64: 3.1}  # Buckets, and points of waste on average.
LOADS = (0.3, 0.7, 0.95)
DECODE = ["--buckets", "25", "--limit", "512", "--max-ratio", "1.25", "--max-gap", "2"]
CYCLE = (0.3, 0.95, 0.7)
PRESETS_OF_STEPS = ("trtllm", "vllm", "sglang", "geometric:1.25:1")


class Failure(Exception):
    """The command, or a file, is not as it should be; in one line."""


def run(command, *arguments):
    """What `command` prints as JSON. Raises Failure if it exits with another code than 0."""
    line = [str(command), *map(str, arguments), "--json"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Failure(f"{command}: {error.strerror}; give the command coppice") from error
    if done.returncode != 0:
        raise Failure(f"{' '.join(line)}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def split(path, folder):
    """Cuts the trace at `path` into two files in `folder`; returns their paths."""
    with open(path, newline="") as file:
        header, *rows = list(csv.reader(file))
    arrivals = [row[header.index("arrival_seconds")] for row in rows]
    if all(arrivals):
        times = [float(arrival) for arrival in arrivals]
        end = times[0] + FIRST_PART * (times[-1] - times[0])
        first = sum(time <= end for time in times)
    else:
        first = round(FIRST_PART * len(rows))
    if not 0 < first < len(rows):
        raise Failure(f"{path}: {len(rows)} rows cannot be cut; give a longer trace")
    parts = []
    for part, cut in (("first", rows[:first]), ("rest", rows[first:])):
        parts.append(folder / f"{path.stem}.{part}.csv")
        with open(parts[-1], "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *cut])
    return parts


def score_prompts(command, parts, folder):
    """Per trace and count: waste; and per trace and preset: count, its waste and ours."""
    counts, presets = {}, {}
    for name, limit in TRACES.items():
        if limit is None or name not in parts:
            continue
        first, rest = parts[name]
        policy = folder / "prompts.json"

        def learn(buckets):
            return run(command, "tune", first, "--column", "input_tokens", "--buckets", buckets,
                       "--limit", limit, "-o", policy)

        def waste_of(buckets, in_all=False):
            """`in_all`: with those of them that double up to the limit, which nobody called."""
            learned = learn(buckets)
            if in_all and learned["doublings"]:
                learned = learn(max(buckets - learned["doublings"], 1))
            score = run(command, "tune", "score", policy, rest, "--column", "input_tokens")
            return learned, score["waste_pct"]

        for buckets in PROMPT_BARS:
            learned, counts[name, buckets] = waste_of(buckets)
        ours = {}
        for preset in learned["presets"]:
            score = run(command, "tune", "score", preset["name"], rest, "--column", "input_tokens",
                        "--limit", limit)
            count = len(score["buckets"])
            if count not in ours:
                ours[count] = waste_of(count, in_all=True)[1]
            presets[name, preset["name"]] = (count, score["waste_pct"], ours[count])
    return counts, presets


def simulate(command, trace, load, steps, folder):
    """Path of the steps that `trace` makes at `load`, with as many decode steps; made once."""
    path = folder / f"{trace.stem}.{load}.csv"
    if not path.exists():
        run(command, "tune", "simulate", trace, "--load", load, "--steps", steps, "-o", path)
    return path


def learn_decode(command, parts, name, load, steps, folder):
    """Path of the policy of decode rows learned from the first part at `load`."""
    policy = folder / f"{name}.{load}.json"
    if not policy.exists():
        sizes = simulate(command, parts[name][0], load, steps, folder)
        run(command, "tune", sizes, "--column", "decode_rows", *DECODE, "-o", policy)
    return policy


def score_decode(command, parts, fitted, load, steps, folder):
    """Per trace: waste of decode rows of the rest at `load`, learned at `fitted`; and presets'."""
    wastes, presets = {}, {}
    for name in parts:
        policy = learn_decode(command, parts, name, fitted, steps, folder)
        sizes = simulate(command, parts[name][1], load, steps, folder)
        wastes[name] = run(command, "tune", "score", policy, sizes, "--column",
                           "decode_rows")["waste_pct"]
        for preset in PRESETS_OF_STEPS:
            presets[name, preset] = run(command, "tune", "score", preset, sizes, "--column",
                                        "decode_rows", "--limit", 512)["waste_pct"]
    return wastes, presets


def score_cycle(command, parts, steps, folder):
    """Per trace: what the load cycle wastes and records, learned again as it goes; each load has
    half as many steps as what the first buckets are learned from."""
    return {name: run(command, "tune", "simulate", parts[name][1], "--load",
                      ",".join(map(str, CYCLE)), "--steps", steps // 2, "--relearn", "--start",
                      learn_decode(command, parts, name, 0.7, steps, folder))["relearn"]
            for name in parts}


def print_table(title, rows, columns):
    """`rows`: a name and cells each; `columns`: their titles."""
    table = [("", *columns), *((name, *cells) for name, *cells in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    print(f"\n{title}")
    for name, *cells in table:
        line = "  ".join([name.ljust(widths[0]),
                          *(cell.rjust(width) for cell, width in zip(cells, widths[1:]))])
        print(f"  {line.rstrip()}")


class Bars:
    """Figures with their bars, printed as they come."""

    def __init__(self):
        self.missed = 0

    def check(self, what, figure, bar, unit="%"):
        met = figure <= bar
        self.missed += not met
        print(f"  {what}: {figure:.2f} {unit}, bar {bar:g}: {'met' if met else 'MISSED'}")


def report_prompts(command, parts, _steps, folder, bars):
    counts, presets = score_prompts(command, parts, folder)
    names = [name for name in TRACES if (name, 16) in counts]
    print_table("prompts: waste by count, learned from the first part, on the rest",
                [(name, *(f"{counts[name, buckets]:.2f}" for buckets in PROMPT_BARS))
                 for name in names], [f"k={buckets}" for buckets in PROMPT_BARS])
    for buckets, bar in PROMPT_BARS.items():
        bars.check(f"mean at {buckets}",
                   statistics.mean(counts[name, buckets] for name in names), bar)
    rows = [(preset, *(f"{count} {theirs:.2f} {ours:.2f}" for count, theirs, ours in
                       (presets[name, preset] for name in names)))
            for preset in dict.fromkeys(preset for _, preset in presets)]
    print_table("prompts at each preset's count: count, its waste, learned", rows, names)
    lost = [key for key, (_, theirs, ours) in presets.items() if ours >= theirs]
    bars.check("presets that waste no more than learned, of all traces", len(lost), 0, "")
    for name, preset in lost:
        print(f"    {name} {preset}")


def report_decode(command, parts, steps, folder, bars):
    wastes, presets = {}, {}
    for load in LOADS:
        wastes[load], presets[load] = score_decode(command, parts, load, load, steps, folder)
    columns = [f"{what} {load}" for what in ("learned", *PRESETS_OF_STEPS) for load in LOADS]
    print_table("decode rows, 25 buckets up to 512, cap 1.25, same load",
                [(name, *(f"{wastes[load][name]:.2f}" for load in LOADS),
                  *(f"{presets[load][name, preset]:.2f}" for preset in PRESETS_OF_STEPS
                    for load in LOADS)) for name in parts], columns)
    bars.check("mean over traces and loads",
               statistics.mean(waste for load in LOADS for waste in wastes[load].values()), 6.5)


def report_cycle(command, parts, steps, folder, bars):
    runs = score_cycle(command, parts, steps, folder)
    print_table("load cycle 0.3, 0.95, 0.7, 25 buckets learned again",
                [(name, f"{run['waste_pct']:.2f}", f"{run['waste_without_pct']:.2f}",
                  str(len(run["swaps"])), str(run["graphs_recorded"]),
                  str(run["graphs_per_swap_max"])) for name, run in runs.items()],
                ["waste", "not relearned", "swaps", "graphs", "at most per swap"])
    bars.check("mean", statistics.mean(run["waste_pct"] for run in runs.values()), 6)
    bars.check("worst", max(run["waste_pct"] for run in runs.values()), 8)
    bars.check("graphs per 180,000 steps", max(run["graphs_recorded"] for run in runs.values()),
               100, "")
    bars.check("new graphs per swap", max(run["graphs_per_swap_max"] for run in runs.values()), 4,
               "")


def report_shift(command, parts, steps, folder, bars):
    wastes, presets = score_decode(command, parts, 0.7, 0.95, steps, folder)
    print_table("decode rows learned at load 0.7, run at 0.95",
                [(name, f"{wastes[name]:.2f}",
                  *(f"{presets[name, preset]:.2f}" for preset in PRESETS_OF_STEPS))
                 for name in parts], ["learned", *PRESETS_OF_STEPS])
    bars.check("mean", statistics.mean(wastes.values()), 10)
    bars.check("worst", max(wastes.values()), 12.5)


REPORTS = {"prompts": report_prompts, "decode": report_decode, "cycle": report_cycle,
           "shift": report_shift}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", type=pathlib.Path, help="the command coppice")
    parser.add_argument("folder", type=pathlib.Path, help="where the traces are")
    parser.add_argument("--only", default=",".join(REPORTS), help="some of %(default)s")
    parser.add_argument("--steps", type=int, default=120000,
                        help="decode steps that are simulated at each load (default: %(default)s)")
    options = parser.parse_args()
    bars = Bars()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        try:
            parts = {name: split(options.folder / f"{name}.csv", folder) for name in TRACES
                     if (options.folder / f"{name}.csv").exists()}
            if not parts:
                raise Failure(f"{options.folder}: there is no trace; give the folder of "
                              f"{', '.join(TRACES)}, or have draw_traces.py write some")
            for only in options.only.split(","):
                if only not in REPORTS:
                    raise Failure(f"--only {only}: there are {', '.join(REPORTS)}")
                REPORTS[only](options.command, parts, options.steps, folder, bars)
        except Failure as failure:
            print(f"score_traces.py: {failure}", file=sys.stderr)
            return 2
    return 1 if bars.missed else 0


if __name__ == "__main__":
    sys.exit(main())
