#!/usr/bin/env python3
"""Compares coppice with PyTorch on one machine in one run.

  compare_torch.py OUT              measures on the GPU and writes compare.json into the folder OUT
  compare_torch.py --dry-run OUT    the same on the emulator and PyTorch's CPU, with few samples

BENCHMARKS.md says what is measured, and how.

Sections, in order: info; dispatch, record, soak and kernels, which PyTorch has nothing to hold
against; steps, buckets, decode, suspend, of which coppice's side runs first and PyTorch's directly
after it. Each is a process with a time limit of its own, and leaves those that follow the time
that they are expected to take. None stops the next. After every section compare.json is replaced,
and stages/SECTION.log has what its processes said, so that a run that is killed leaves what was
finished. A process that is ended prints what it has; its report is kept.

The programs are those of --build-dir, else those of prebuilt/, else those of build/gpu (of a dry
run: build/release). PyTorch is that of the Python that runs this.

A signal (TERM, INT, HUP) ends the running process; what is finished is written as ever.

Earlier results in OUT are replaced.

Exit codes: 0 nothing failed, and what was skipped has not; 1 a process failed, a signal stopped the
run or OUT could not be written; 2 wrong arguments.
"""

import argparse
import contextlib
import csv
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import sys
import tempfile
import time
from typing import Callable, List, Tuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import gpu_check  # noqa: E402
from gpu_check import FAILED, OK, SKIPPED  # noqa: E402

TORCH_SIDE = ROOT / "tools" / "compare_torch" / "torch_side.py"
RESULT = "compare.json"
LIMIT_S = 570
TAIL_LINES = 20
TAIL_CHARACTERS = 2000
LIST_MAX = 20_000  # Of a longer list of measurements, so many of its quantiles are kept.
COPPICE, TORCH = "coppice", "torch"

SMI_FIELDS = ("name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem",
              "clocks.max.mem", "power.limit", "temperature.gpu")
TORCH_INFO = ("import json, platform, torch; print(json.dumps({'torch': torch.__version__, "
              "'cuda': torch.version.cuda, 'python': platform.python_version()}))")

METRIC = "gpu__time_duration.sum"
NCU_FILE = "kernels.csv"
NCU_LAUNCHES_MAX = 2000
FIRST_KERNEL = "Embed"  # Begins a decode step.
MICROSECONDS = {"n": 1e-3, "u": 1.0, "m": 1e3, "s": 1e6}  # By a unit's first letter.


@dataclasses.dataclass
class Measure:
    """One side of one section."""

    section: str
    side: str
    arguments: List[str]
    expected_s: float  # Kept for it, whatever those before it take.
    limit_s: float
    dry: List[str] = dataclasses.field(default_factory=list)  # What a dry run adds.
    asks_device: bool = True  # Whether it takes --device.
    takes: Tuple[str, ...] = ()  # Options that repeat what coppice's report says it measured.


FEW = ["--samples", "5"]
MEASURES = [
    Measure("dispatch", COPPICE, ["bench", "dispatch", "--json"], 65, 120, asks_device=False),
    Measure("record", COPPICE, ["bench", "record", "--json"], 10, 30),
    Measure("soak", COPPICE, ["soak", "--json", "--quiet"], 60, 90),
    Measure("kernels", COPPICE, ["bench", "decode", "--batches", "1", "--only", "eager",
                                 "--samples", "20", "--json"], 40, 80),
    Measure("steps", COPPICE, ["bench", "steps", "--json"], 15, 50, FEW),
    Measure("steps", TORCH, ["steps"], 70, 120, FEW),
    Measure("buckets", COPPICE, ["bench", "buckets", "--json"], 30, 75, ["--beside-ms", "20"]),
    Measure("buckets", TORCH, ["buckets"], 45, 100, takes=("model", "batches")),
    Measure("decode", COPPICE, ["bench", "decode", "--json"], 30, 75, FEW),
    Measure("decode", TORCH, ["decode"], 75, 130, FEW, takes=("model",)),
    Measure("suspend", COPPICE, ["bench", "suspend", "--json"], 15, 40, ["--rounds", "5"]),
    Measure("suspend", TORCH, ["recapture"], 35, 60, FEW, takes=("model", "batches")),
]
SECTIONS = ("info", *dict.fromkeys(part.section for part in MEASURES))


def short_float(text):
    """Six digits of a measurement are enough, and keep the file small."""
    return float(f"{float(text):.6g}")


def thin(value):
    """`value` with each overlong list of numbers replaced by evenly spaced quantiles of it."""
    if isinstance(value, dict):
        return {key: thin(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > LIST_MAX and all(isinstance(each, (int, float)) for each in value):
        ranked, last = sorted(value), len(value) - 1
        return [ranked[round(i * last / (LIST_MAX - 1))] for i in range(LIST_MAX)]
    return [thin(each) for each in value]


def read_report(text):
    report = gpu_check.json_of(text, parse_float=short_float)
    if not isinstance(report, dict):
        raise ValueError("there is no JSON object")
    return thin(report)


def read_smi(text):
    """What nvidia-smi says of the first device: a row of names, a row of values."""
    names, values = list(csv.reader(text.splitlines(), skipinitialspace=True))[:2]
    return dict(zip(names, values))


def rows_of_ncu(text):
    """Kernel names and microseconds in what ncu --csv writes, in either of its two forms.

    With `Metric Value` there is a row per kernel and metric; else there is a column per metric, and
    the row under the names has the units.
    """
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if "Kernel Name" in line and METRIC not in line]
    wide = [i for i, line in enumerate(lines) if "Kernel Name" in line and METRIC in line]
    if not heads and not wide:
        raise ValueError(f"ncu wrote no table: {gpu_check.last_line(text)}")
    rows = list(csv.DictReader(lines[(wide or heads)[0]:]))
    kernels = [row for row in rows if (row.get("ID") or "").isdigit()]
    if wide:
        units = [row[METRIC] for row in rows if not row.get("ID") and row.get(METRIC)]
        found = [(row["Kernel Name"], units[0], row[METRIC]) for row in kernels]
    else:
        found = [(row["Kernel Name"], row["Metric Unit"], row["Metric Value"]) for row in kernels
                 if row["Metric Name"] == METRIC]
    return [(name, float(value.replace(",", "")) * MICROSECONDS[unit[0]])
            for name, unit, value in found]


def kernels_by_step(kernels):
    """Times of the kernels of each decode step; the last one may be cut off."""
    starts = [i for i, (name, _) in enumerate(kernels) if FIRST_KERNEL in name]
    steps = [kernels[start:end] for start, end in zip(starts, starts[1:] + [len(kernels)])]
    names = [tuple(name for name, _ in step) for step in steps]
    if not names:
        raise ValueError(f"none of {len(kernels)} kernels is called {FIRST_KERNEL}")
    usual = max(names, key=names.count)
    return [step for step, its_names in zip(steps, names) if its_names == usual]


def summarize_kernels(text, launched=None):
    """The kernels of one eager decode step, of the steps that launch the same ones.

    The kernel that stages the inputs of the next step counts as the last one. `launched` is how
    many kernels coppice says that a step launches.
    """
    steps = kernels_by_step(rows_of_ncu(text))
    by_name = {}
    for step in steps:
        for name, us in step:
            short = re.split(r"[(<]", name)[0].strip().split("::")[-1].split(" ")[-1]
            by_name.setdefault(short, []).append(us)
    return {"section": "kernels", "batch": 1, "steps": len(steps), "kernels": len(steps[0]),
            "launched": launched,
            "sum_us": [short_float(sum(us for _, us in step)) for step in steps],
            "by_name": [{"name": name, "launches": len(times) // len(steps),
                         "us": short_float(statistics.median(times))}
                        for name, times in by_name.items()]}


def without_paths(text):
    return re.sub(r"(?<![\w.:])/[\w.+-]+(/[\w.+-]+)+",
                  lambda match: pathlib.PurePath(match.group()).name, text)


def tail_of(text):
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return without_paths("\n".join(lines[-TAIL_LINES:]))[-TAIL_CHARACTERS:]


@dataclasses.dataclass
class Comparison:
    """One run: what it may use, and what it has found so far."""

    binaries: gpu_check.Binaries
    budget: gpu_check.Budget
    work: pathlib.Path
    dry_run: bool
    torch_wanted: bool
    chosen: List[str]  # The sections to run.
    sections: dict = dataclasses.field(default_factory=dict)

    def keep(self, section, side, part):
        self.sections.setdefault(section, {})[side] = part

    def run(self, section, side, command, limit_s,
            read: Callable[[str], dict] = read_report):
        """Runs a process and keeps its report, or why there is none.

        `read` makes the report of what it prints. A process that fails may have one all the same.
        """
        if command[0] is None:
            return self.keep(section, side, {FAILED: "the program is not there"})
        shown = [without_paths(word) for word in command]
        part = {"command": shown, "seconds": 0.0}
        limit_s = min(limit_s, self.budget.left_s())
        if limit_s <= 0:
            why = self.budget.interrupted or "the time of --limit is spent"
            return self.keep(section, side, {**part, FAILED: f"not run: {why}"})
        output, errors = (self.work / "logs" / f"{section}.{side}.{end}" for end in ("out", "err"))
        start = time.monotonic()
        try:
            with open(output, "wb") as out, open(errors, "wb") as err:
                code, ended = gpu_check.run_process(command, limit_s, self.budget, stdout=out,
                                                    stderr=err, cwd=self.work)
        except OSError as error:
            return self.keep(section, side, {**part, FAILED: f"cannot be started: "
                                                             f"{error.strerror}"})
        part["seconds"] = round(time.monotonic() - start, 1)
        text = output.read_text(errors="replace")
        try:
            part["report"] = read(text)
        except (LookupError, TypeError, ValueError, OSError) as error:
            part[FAILED] = f"its output is not understood: {error}"
        own_reason = part.get("report", {}).get(SKIPPED)
        if own_reason:  # A side that measured nothing says why; on a GPU that is a failure.
            part[SKIPPED if self.dry_run else FAILED] = own_reason
        if code != 0:
            part[FAILED] = ended or f"exit code {code}"
        if FAILED in part:
            part["tail"] = tail_of(errors.read_text(errors="replace")) or tail_of(text)
        return self.keep(section, side, part)

    def info(self):
        self.run("info", COPPICE, [self.binaries.find("coppice"), "info", *self.device(COPPICE),
                                   "--json"], 30)
        cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
        self.keep("info", "host", {"report": {
            "cpu": cpu.group(1) if cpu else platform.machine(), "cores": os.cpu_count()}})
        smi = shutil.which("nvidia-smi")
        if self.dry_run or smi is None:
            self.keep("info", "smi", {SKIPPED: "nothing runs on a GPU" if self.dry_run else
                                      "nvidia-smi not found"})
        else:
            self.run("info", "smi", [smi, f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv"],
                     30, read_smi)
        if self.torch_wanted:
            self.run("info", TORCH, [sys.executable, "-c", TORCH_INFO], 60)

    def kernels(self, part: Measure):
        """Asks ncu for the times of the kernels of a decode step."""
        ncu = gpu_check.find_cuda_tool("ncu")
        if self.dry_run or ncu is None:
            return self.keep("kernels", COPPICE, {SKIPPED: "nothing runs on a GPU" if self.dry_run
                                                  else "ncu not found"})
        command = [ncu, "--csv", "--metrics", METRIC, "--clock-control", "none", "--cache-control",
                   "none", "--print-units", "base", "--launch-count", str(NCU_LAUNCHES_MAX),
                   "--log-file", NCU_FILE, self.binaries.find("coppice"), *part.arguments,
                   *self.device(COPPICE)]

        def read(text):
            (case,) = (gpu_check.json_of(text) or {}).get("cases") or [{}]
            return summarize_kernels((self.work / NCU_FILE).read_text(errors="replace"),
                                     case.get("kernels_per_step"))

        return self.run("kernels", COPPICE, command, self.allowed_s(part), read)

    def allowed_s(self, part: Measure):
        """Its limit, or less where those after it need the time; never less than is expected."""
        later = MEASURES[MEASURES.index(part) + 1:]
        kept_s = sum(each.expected_s for each in later if each.section in self.chosen and
                     (each.side == COPPICE or self.torch_wanted))
        return min(part.limit_s, max(part.expected_s, self.budget.left_s() - kept_s))

    def device(self, side):
        return ["--device", "cuda" if not self.dry_run else "host" if side == COPPICE else "cpu"]

    def repeated(self, section, key):
        """The option `key` with what coppice has measured here; a model may be that of another."""
        elsewhere = self.sections.values() if key == "model" else ()
        for sides in (self.sections.get(section, {}), *elsewhere):
            value = sides.get(COPPICE, {}).get("report", {}).get(key)
            if value:
                text = json.dumps(value) if key == "model" else ",".join(map(str, value))
                return [f"--{key}", text]
        return []

    def measure(self, part: Measure):
        if part.side == TORCH and not self.torch_wanted:
            return self.keep(part.section, TORCH, {SKIPPED: "--no-torch"})
        program = ([self.binaries.find("coppice")] if part.side == COPPICE else
                   [sys.executable, str(TORCH_SIDE)])
        device = self.device(part.side) if part.asks_device else []
        repeated = [word for key in part.takes for word in self.repeated(part.section, key)]
        return self.run(part.section, part.side,
                        [*program, *part.arguments, *device, *repeated,
                         *(part.dry if self.dry_run else [])], self.allowed_s(part))

    def perform(self, section):
        if section == "info":
            self.info()
        for part in MEASURES:
            if part.section == section:
                (self.kernels if section == "kernels" else self.measure)(part)


def status_of(part):
    return FAILED if FAILED in part else SKIPPED if SKIPPED in part else OK


def rows_of(sections):
    """A row of the table for each process."""
    for section, sides in sections.items():
        for side, part in sides.items():
            status = status_of(part)
            note = part.get(status) or f"{len(part['report'])} fields"
            yield {"name": f"{section}.{side}", "status": status, "note": note,
                   "seconds": part.get("seconds", 0.0)}


def is_result(name):
    """Whether a comparison writes this file, named relative to OUT."""
    return name in (RESULT, *(f"{gpu_check.DETAILS}/{section}.log" for section in SECTIONS))


def write(out, work, section, result):
    """Replaces what OUT has; returns why that cannot be done, else nothing."""
    try:
        gpu_check.gather(work / "results" / gpu_check.DETAILS / f"{section}.log",
                         sorted((work / "logs").glob(f"{section}.*")))
        (work / "results" / RESULT).write_text(json.dumps(result, separators=(",", ":")) + "\n")
        gpu_check.publish(work / "results", out, is_result)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def compare(options, binaries):
    """Runs the sections; returns the exit code."""
    with gpu_check.Budget(options.limit) as budget, \
            tempfile.TemporaryDirectory(prefix="compare_torch.") as work:
        run = Comparison(binaries, budget, pathlib.Path(work), options.dry_run, options.torch,
                         options.sections)
        for name in ("logs", "results"):
            (run.work / name).mkdir()
        result = {"mode": "dry-run" if options.dry_run else "cuda",
                  "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
                  "built_from": binaries.commit(), "finished": False,
                  "seconds": 0.0, "sections": run.sections}
        problem = ""
        for section in options.sections:
            with contextlib.suppress(OSError):  # Whoever listened is gone; OUT is not.
                print(f"compare_torch: {section} ...", flush=True)
            run.perform(section)
            result["finished"] = section == options.sections[-1] and not budget.interrupted
            result["seconds"] = budget.spent_s()
            problem = write(options.out, run.work, section, result)
            if problem:
                print(f"compare_torch: OUT cannot be written: {problem}", file=sys.stderr)
    rows = list(rows_of(run.sections))
    gpu_check.print_table(rows)
    return 1 if problem or any(row["status"] == FAILED for row in rows) else 0


def section_names(text):
    names = text.split(",")
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is none of {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if name in names]


def parse(arguments):
    """The options, and the programs that they lead to."""
    parser = argparse.ArgumentParser(prog="compare_torch.py", description=__doc__,
                                     allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", type=gpu_check.folder_name)
    parser.add_argument("--build-dir", metavar="DIR", type=gpu_check.folder_name,
                        help="a build folder, or one that gpu_check.sh --prebuild made")
    parser.add_argument("--dry-run", action="store_true", help="run without a GPU")
    parser.add_argument("--sections", metavar="A,B", type=section_names, default=list(SECTIONS),
                        help="only these")
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=LIMIT_S,
                        help=f"for everything, default {LIMIT_S}")
    parser.add_argument("--no-torch", dest="torch", action="store_false",
                        help="leave PyTorch's side out")
    options = parser.parse_args(arguments)
    if options.limit < 1:
        parser.error(f"--limit {options.limit}: give seconds, at least 1")
    folder, _ = gpu_check.find_programs(options.build_dir, options.dry_run)
    try:
        binaries = gpu_check.Binaries(folder)
    except (OSError, ValueError) as error:
        parser.error(f"{folder / gpu_check.MANIFEST}: {error}")
    if binaries.find("coppice") is None:
        parser.error(f"coppice is not in {folder}; build it, or give --build-dir")
    if problem := gpu_check.why_unfit(options.out, is_result):
        parser.error(f"OUT {options.out}: {problem}")
    return options, binaries


def main(arguments):
    return compare(*parse(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
