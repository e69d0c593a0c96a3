#!/usr/bin/env python3
"""Compares coppice with PyTorch on one machine in one run.

  compare_torch.py OUT              measures on the GPU; the folder OUT gets summary.json, tables.md
  compare_torch.py --dry-run OUT    the same on the emulator and PyTorch's CPU, with few samples

BENCHMARKS.md says what is measured, and how.

Sections, in order: info; dispatch, record, soak and kernels, which PyTorch has nothing to hold
against; steps, buckets, decode, suspend, of which coppice's side runs first and PyTorch's directly
after it. Each side is a process with a time limit of its own, and all together have less than ten
minutes; none stops the next. OUT is written after every section, and stages/SECTION.log in it has
what the processes said, so that a run that is killed leaves what was finished. A process that is
ended prints what it has; its report is kept. Earlier results in OUT are replaced.

The programs are those of --build-dir, else those of prebuilt/, else those of build/gpu (of a dry
run: build/release). PyTorch is that of the Python that runs this.

Exit codes: 0 nothing failed, and what was skipped has not; 1 a process failed, a signal stopped the
run or OUT could not be written; 2 wrong arguments.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "support")]
import gpu_check  # noqa: E402
import tables  # noqa: E402
from judges import FAILED, SKIPPED, judge_exit, json_of, last_line  # noqa: E402
from processes import Budget  # noqa: E402
from stages import Run, Stage, Step, report_of  # noqa: E402

TORCH_SIDE = ROOT / "tools" / "compare_torch" / "torch_side.py"
LIMIT_S = 570
SMI_FIELDS = ("name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem",
              "clocks.max.mem", "power.limit", "temperature.gpu")
TORCH_INFO = ("import json, os, torch; print(json.dumps({'torch': torch.__version__, "
              "'cuda': torch.version.cuda, 'cores': os.cpu_count()}))")
METRIC = "gpu__time_duration.sum"
NCU = ("--csv", "--metrics", METRIC, "--clock-control", "none", "--cache-control", "none",
       "--print-units", "base", "--launch-count", "2000")
FIRST_KERNEL = "Embed"  # Begins a decode step.
FEW = ("--repetitions", "5")  # Of a dry run.

# Of a section: coppice's arguments and limit in seconds, those of PyTorch if it has a side, and
# which options tell it what coppice's report says it measured.
SECTIONS = {
    "dispatch": (["bench", "dispatch"], 200),
    "record": (["bench", "record"], 30),
    "soak": (["soak"], 90),
    "kernels": (["bench", "decode", "--sizes", "1", "--only", "eager", "--repetitions", "20"], 80),
    "steps": (["bench", "steps"], 50, ["steps"], 120, ()),
    "buckets": (["bench", "buckets"], 75, ["buckets"], 100, ("model", "sizes")),
    "decode": (["bench", "decode"], 75, ["decode"], 130, ("model",)),
    "suspend": (["bench", "suspend"], 40, ["recapture"], 60, ("model", "sizes"))}


def rows_of_ncu(text):
    """Kernel names and microseconds in what ncu --csv writes: a row per kernel and metric."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("Metric Name") == METRIC]
    if not rows:
        raise ValueError(f"ncu wrote no table: {last_line(text)}")
    return [(row["Kernel Name"], float(row["Metric Value"].replace(",", "")) / 1000)
            for row in rows]


def summarize_kernels(text):
    """The kernels of one eager decode step, of the steps that launch the same ones.

    The kernel that stages the inputs of the next step counts as the last one. `launched` is how
    many kernels coppice says that a step launches.
    """
    kernels = rows_of_ncu(text)
    starts = [i for i, (name, _) in enumerate(kernels) if FIRST_KERNEL in name]
    steps = [kernels[start:end] for start, end in zip(starts, [*starts[1:], len(kernels)])]
    names = [tuple(name for name, _ in step) for step in steps]
    if not names:
        raise ValueError(f"none of {len(kernels)} kernels is called {FIRST_KERNEL}")
    usual = max(names, key=names.count)
    by_name = {}
    steps = [step for step, its_names in zip(steps, names) if its_names == usual]
    for name, us in (kernel for step in steps for kernel in step):
        by_name.setdefault(re.split(r"[(<]", name)[0].split("::")[-1].split(" ")[-1],
                           []).append(us)
    (case,) = (json_of(text) or {}).get("cases") or [{}]
    return {"kernels": len(usual), "launched": case.get("kernels_per_step"),
            "sum_us": [sum(us for _, us in step) for step in steps],
            "by_name": [{"name": name, "launches": len(times) // len(steps),
                         "us": statistics.median(times)} for name, times in by_name.items()]}


def judge_side(dry_run):
    """A side prints a report; if it has measured nothing, it says why, which a GPU is no excuse
    for."""

    def judge(code, text):
        report = json_of(text)
        if code == 0 and report is None:
            return FAILED, f"it printed no report: {last_line(text)}"
        if code == 0 and report.get("skipped"):
            return SKIPPED if dry_run else FAILED, report["skipped"]
        return ("ok", "") if code == 0 else judge_exit(code, "" if report else text)

    return judge


class Comparison:
    """The sections of one run as stages; torch's arguments come of what coppice has reported."""

    def __init__(self, coppice, dry_run):
        self.coppice, self.dry_run, self.judge = coppice, dry_run, judge_side(dry_run)
        self.reports = {}  # Of coppice, by section.

    def device(self, on_host):
        return ["--device", on_host if self.dry_run else "cuda"]

    def info(self):
        yield Step("coppice", [self.coppice, "info", *self.device("host"), "--json"], 30,
                   self.judge)
        yield Step("torch", [sys.executable, "-c", TORCH_INFO], 60, self.judge)
        smi = shutil.which("nvidia-smi")
        if smi and not self.dry_run:
            yield Step("smi", [smi, f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv"], 30)

    def kernels(self, command, limit_s):
        ncu = gpu_check.find_cuda_tool("ncu")
        if self.dry_run or ncu is None:
            return Stage("kernels", skipped="nothing runs on a GPU" if self.dry_run else
                         "ncu not found")
        return Stage("kernels", [Step("coppice", [ncu, *NCU, *command], limit_s, None,
                                      summarize_kernels)])

    def repeated(self, section, key):
        """The option `key` with what coppice has measured here; a model may be that of another."""
        elsewhere = self.reports.values() if key == "model" else ()
        for report in (self.reports.get(section, {}), *elsewhere):
            if value := report.get("batches" if key == "sizes" else key):
                text = json.dumps(value) if key == "model" else ",".join(map(str, value))
                return [f"--{key}", text]
        return []

    def sides(self, section, command, limit_s, theirs, their_limit_s, takes):
        few = FEW if self.dry_run and section != "buckets" else ()
        yield Step("coppice", [*command, *few], limit_s, self.judge, self.keep(section))
        repeated = [word for key in takes for word in self.repeated(section, key)]
        yield Step("torch", [sys.executable, str(TORCH_SIDE), *theirs, *self.device("cpu"),
                             *repeated, *few], their_limit_s, self.judge)

    def keep(self, section):
        def read(text):
            self.reports[section] = report_of(text) or {}
            return self.reports[section]

        return read

    def stage(self, section):
        if section == "info":
            return Stage("info", self.info())
        arguments, limit_s, *theirs = SECTIONS[section]
        device = [] if section == "dispatch" else self.device("host")
        command = [self.coppice, *arguments, *device, "--json"]
        if section == "kernels":
            return self.kernels(command, limit_s)
        if theirs:
            return Stage(section, self.sides(section, command, limit_s, *theirs))
        return Stage(section, [Step("coppice", command, limit_s, self.judge)])


def compare(options, binaries):
    """Runs the sections; returns the exit code. OSError: OUT cannot be written."""
    comparison = Comparison(binaries.find("coppice"), options.dry_run)
    with Budget(LIMIT_S) as budget:
        run = Run(options.out.resolve(), budget, mode="dry-run" if options.dry_run else "cuda",
                  date=datetime.date.today().isoformat(), built_from=binaries.commit())
        for section in options.sections:
            run.perform(comparison.stage(section))
        code = run.finish()
    for problem in tables.write(options.out):
        print(f"compare_torch: {problem}", file=sys.stderr)
        code = 1
    return code


def section_names(text):
    known = ["info", *SECTIONS]
    wanted = text.split(",")
    if unknown := [name for name in wanted if name not in known]:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is none of {', '.join(known)}")
    return [name for name in known if name in ("info", *wanted)]


def parse(arguments):
    parser = argparse.ArgumentParser(prog="compare_torch.py", description=__doc__,
                                     allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", type=gpu_check.folder_name)
    parser.add_argument("--build-dir", metavar="DIR", type=gpu_check.folder_name,
                        help="a build folder, or one that gpu_check.sh --prebuild made")
    parser.add_argument("--dry-run", action="store_true", help="run without a GPU")
    parser.add_argument("--sections", metavar="A,B", type=section_names,
                        default=["info", *SECTIONS], help="only these, and info")
    options = parser.parse_args(arguments)
    binaries = gpu_check.open_folders(parser, options)
    if binaries.find("coppice") is None:
        parser.error(f"coppice is not in {binaries.folder}; build it, or give --build-dir")
    return options, binaries


def main(arguments):
    options, binaries = parse(arguments)
    try:
        return compare(options, binaries)
    except OSError as error:
        print(f"compare_torch: OUT cannot be written: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
