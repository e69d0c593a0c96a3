"""Stages of steps, each a process with a time limit of its own, of which none stops the next.

A run writes into a folder anew after every stage, so that one that is killed leaves what was
finished: summary.json, and the folder stages/ with a log per stage.
"""

import contextlib
import dataclasses
import json
import math
import subprocess
import time
from typing import Callable, Iterable, List, Optional

from judges import FAILED, OK, SKIPPED, Verdict, json_of, judge_exit
from processes import run_process

SUMMARY, DETAILS = "summary.json", "stages"
NOTES_MAX = 6  # Of a stage with more steps, they are counted.


def report_of(text):
    """The JSON object that a process printed, or None; six digits of a measurement are enough."""
    return json_of(text, parse_float=lambda number: float(f"{float(number):.6g}"))


@dataclasses.dataclass
class Step:
    """One process. `judge` sees its exit code, or None if it was ended, and its output; without a
    judge, exit code 0 is success. `read` makes a report of the output, or None."""

    name: str
    command: List[str]
    limit_s: float
    judge: Optional[Callable[[int, str], Verdict]] = None
    read: Callable[[str], Optional[dict]] = report_of


@dataclasses.dataclass
class Stage:
    """Steps that share a line of the table, or why there are none."""

    name: str
    steps: Iterable[Step] = ()
    skipped: str = ""
    failed: str = ""
    limit_s: float = math.inf  # For all steps together.


def run_step(step, log, budget, stage_left_s=math.inf):
    """Appends the step's output to the file `log`; returns what summary.json says of it."""
    outcome = {"name": step.name, "status": FAILED, "seconds": 0.0, "exit_code": None, "note": ""}
    limit_s = min(step.limit_s, stage_left_s, budget.left_s())
    if limit_s <= 0:
        return {**outcome, "note": f"not run: {budget.interrupted or 'the time is spent'}"}
    start = time.monotonic()
    try:
        with open(log, "ab") as output:
            output.write(f"$ {' '.join(step.command)}\n".encode())
            output.flush()
            begin = output.tell()
            code, ended = run_process(step.command, limit_s, budget, stdout=output,
                                      stderr=subprocess.STDOUT)
    except OSError as error:
        return {**outcome, "note": f"cannot be started: {error.strerror}"}
    outcome.update({"seconds": round(time.monotonic() - start, 1), "exit_code": code})
    text = log.read_bytes()[begin:].decode(errors="replace")
    report = None
    try:
        status, note = (step.judge or judge_exit)(code, text)
        report = step.read(text)
    except (LookupError, TypeError, ValueError, OSError) as error:
        status, note = FAILED, f"its output is not understood: {error}"
    outcome.update({"status": FAILED if ended else status,
                    "note": "; ".join(filter(None, (ended, note)))})
    return {**outcome, "report": report} if report else outcome


def sum_up(result):
    """What a stage says: the first step that failed speaks for it, else the first that ran."""
    steps = result["steps"]
    telling = [step for status in (FAILED, OK, SKIPPED) for step in steps
               if step["status"] == status][0]
    shown = [telling] if telling["status"] == FAILED else steps
    if len(shown) > NOTES_MAX:
        note = ", ".join(f"{count} {status}" for status in (OK, SKIPPED)
                         if (count := sum(step["status"] == status for step in steps)))
    else:
        note = "; ".join(step["note"] if len(steps) == 1 else f"{step['name']}: {step['note']}"
                         for step in shown)
    return {"status": telling["status"], "note": note,
            "seconds": round(sum(step["seconds"] for step in steps), 1)}


class Run:
    """A run on its way into the folder `out`; `facts` are what else summary.json says.

    OSError: the folder cannot be written.
    """

    def __init__(self, out, budget, **facts):
        self.out, self.budget, self.facts, self.results = out, budget, facts, []
        (out / DETAILS).mkdir(parents=True, exist_ok=True)
        for old in (*out.glob("*.tsv"), *out.glob(f"{DETAILS}/*.log"), out / SUMMARY):
            old.unlink(missing_ok=True)  # Of an earlier run.

    def perform(self, stage):
        """Runs the stage's steps, which may be made one by one as results come; returns it."""
        result = {"name": stage.name, "status": FAILED if stage.failed else SKIPPED,
                  "seconds": 0.0, "note": stage.failed or stage.skipped, "steps": []}
        self.results.append(result)
        if self.budget.left_s() > 0:
            with contextlib.suppress(OSError):  # Whoever listened is gone; the folder is not.
                print(f"{stage.name} ...", flush=True)
        deadline = time.monotonic() + stage.limit_s
        for step in () if stage.failed else stage.steps:
            result["steps"].append(run_step(step, self.out / DETAILS / f"{stage.name}.log",
                                            self.budget, deadline - time.monotonic()))
        if result["steps"]:
            result.update(sum_up(result))
        self.write(finished=False)
        return result

    def write(self, finished):
        summary = {**self.facts, "finished": finished, "seconds": self.budget.spent_s(),
                   "failed": self.failed(), "stages": self.results}
        scratch = self.out / f".{SUMMARY}"
        scratch.write_text(json.dumps(summary, indent=1) + "\n")
        scratch.replace(self.out / SUMMARY)

    def failed(self):
        return sum(result["status"] == FAILED for result in self.results)

    def finish(self):
        """Prints a table; returns the exit code."""
        self.write(finished=not self.budget.interrupted)
        width = max(len(name) for name in ("stage", *(each["name"] for each in self.results)))
        with contextlib.suppress(OSError):
            print(f"\n{'stage':<{width}}  {'result':<7}  {'seconds':>7}  note")
            for result in self.results:
                print(f"{result['name']:<{width}}  {result['status']:<7}  "
                      f"{result['seconds']:>7.1f}  {result['note']}", flush=True)
        return 1 if self.failed() else 0
