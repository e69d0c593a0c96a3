"""Runs each task in a process with a time limit, and estimates how long the remaining tasks take.

A limit counts processor seconds, so that a busy machine makes no task fail. A process that only
waits is ended after several times that limit by the clock.
"""

import collections
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

from coppice.dashboard import lines

CLOCK = 10  # Times the limit that a process may take by the clock.
SAID_MAX = 240


@dataclasses.dataclass(frozen=True)
class Task:
    """A model in a mode and a type."""

    model: object
    mode: str
    dtype: str

    @property
    def key(self):
        return self.model.suite, self.model.name, self.mode, self.dtype


@dataclasses.dataclass(frozen=True)
class Terms:
    """The settings of all tasks."""

    limit_s: float = 300
    seed: int = 1
    full: bool = False
    place: str = "cpu"
    jobs: int = 1


def tasks_of(models, modes, dtypes, done=()):
    """All tasks whose keys are not in `done`. The first mode and type of all models come first."""
    known = set(done)
    tasks = (Task(model, mode, dtype) for mode in modes for dtype in dtypes for model in models
             if mode in model.modes and dtype in model.dtypes)
    return [task for task in tasks if task.key not in known]


def command_of(task, terms):
    return [sys.executable, "-B", "-m", "coppice.dashboard", "--one", *task.key,
            "--seed", str(terms.seed), "--device", terms.place, "--limit", str(terms.limit_s),
            *(["--full"] if terms.full else [])]


def limit_this_process(seconds):
    """From now on, SIGXCPU ends this process when it has used `seconds` of processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))


def run(task, terms):
    """The line of a task, however its process ends."""
    key = dict(zip(lines.KEY, task.key))
    if task.model.needs and importlib.util.find_spec(task.model.needs) is None:
        return lines.line(**key, status="error", reasons=[],
                          why=f'{task.model.needs} is not installed: pip install "coppice'
                              '[dashboard]"')
    with tempfile.TemporaryDirectory(prefix="coppice.dashboard.") as cache:
        try:
            done = subprocess.run(
                command_of(task, terms), capture_output=True, text=True, check=False,
                timeout=CLOCK * terms.limit_s, env={
                    "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",
                    "HF_HUB_OFFLINE": "1", **os.environ, "TORCHINDUCTOR_CACHE_DIR": cache})
        except subprocess.TimeoutExpired:
            return lines.line(**key, **timeout_of(f"{CLOCK * terms.limit_s:g} s of elapsed time"))
    return lines.line(**key, **outcome(done.returncode, done.stdout, done.stderr, terms.limit_s))


def timeout_of(what):
    return {"status": "timeout", "why": f"more than {what}", "reasons": []}


def outcome(code, printed, said, limit_s):
    """The result of a process: the fields that it printed, or how it ended."""
    if code == -signal.SIGXCPU:
        return timeout_of(f"{limit_s:g} s of CPU time")
    if code == 0:
        return json.loads(printed.splitlines()[-1])
    how = f"signal {signal.Signals(-code).name}" if code < 0 else last_of(said)
    return {"status": "error", "why": how or f"exit code {code}", "reasons": []}


def last_of(said):
    """The last line that names an error, as at the end of a traceback."""
    known = [line for line in said.splitlines() if line.strip()]
    named = [line for line in known if re.match(r"[\w.]*(Error|Exception|[a-z][A-Z]\w*): ", line)]
    return " ".join((named or known or [""])[-1].split())[:SAID_MAX]


def run_all(tasks, terms, take):
    """Runs tasks, `jobs` at a time, and calls `take` with each task and its line as it ends."""
    with concurrent.futures.ThreadPoolExecutor(terms.jobs) as pool:
        waiting, running = collections.deque(tasks), {}
        while waiting or running:
            while waiting and len(running) < terms.jobs:
                task = waiting.popleft()
                running[pool.submit(run, task, terms)] = task
            ended, _ = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in ended:
                take(running.pop(one), one.result())


def left(done, total, seconds):
    """An estimate of the remaining seconds, from those that the first tasks took."""
    return seconds / done * (total - done) if done else None


def clock(seconds):
    """"1:02:05", or "2:05" below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
