#!/usr/bin/env python3
"""Asks a machine with a GPU everything that an emulator cannot answer, in one command.

  gpu_check.sh OUT              runs every stage and writes its findings into the folder OUT
  gpu_check.sh OUT --dry-run    the same on the emulator, which needs no GPU
  gpu_check.sh --prebuild DIR   builds the programs for a machine that has no package manager

Stages: device, probe, conformance, gpu_tests, run, bench, memcheck. Each step of a stage is a
process with a time limit of its own, and none stops the next. OUT gets at most eight files:
summary.json, logs.tar.gz and the probe's tables. The programs are those of --build-dir, else those
of prebuilt/, else the preset gpu builds them first.

A signal (TERM, INT, HUP) ends the running step; what is finished is written as ever.

Exit codes: 0 no stage failed, and a skipped one has not; 1 a stage failed, a signal stopped the
check or OUT could not be written; 2 wrong arguments.
"""

import argparse
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import Callable, List, Optional, Tuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ("coppice", "coppice-probe", "conformance_suite")
FOLDERS = ("", "tools", "tests")  # Where a build folder keeps programs; a prebuilt one is flat.
MANIFEST = "manifest.json"
PREBUILT_BYTES_MAX = 48 << 20
LIMIT_S = 520
GRACE_S = 5  # From the request to end until the order; a shorter limit has a quarter of it.
POLL_S = 0.05
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

TABLE = re.compile(r"(vmm|graphs|memory|orders|capture_legality\.[\w.-]+)\.tsv")
SECTIONS = {"vmm": "vmm", "graphs": "graphs", "memory": "memory",
            "legality": "capture_legality", "orders": "orders"}
# After these a process can do no further work on its device, and memcheck would report them.
FAULT_CASES = "--gtest_filter=-*Fault*:*ReleaseWithoutRetain*:*LastReleaseEnds*"

OK, FAILED, SKIPPED = "ok", "failed", "skipped"
Verdict = Tuple[str, str]  # Status and a note of one line.


@dataclasses.dataclass
class Step:
    """One process. `judge` sees its exit code and its output; None: exit code 0 is success."""

    name: str
    command: List[str]
    limit_s: float
    judge: Optional[Callable[[int, str], Verdict]] = None


@dataclasses.dataclass
class Stage:
    """Steps that share a line of the table, or why there are none."""

    name: str
    steps: List[Step]
    skipped: str = ""
    failed: str = ""


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no output"


def json_of(text, **options):
    """The first JSON object in `text`, or None; `options` are those of JSONDecoder."""
    start = text.find("{")
    try:
        return json.JSONDecoder(**options).raw_decode(text[start:])[0] if start >= 0 else None
    except ValueError:
        return None


def judge_exit(code, text):
    return (OK, last_line(text)) if code == 0 else (FAILED, f"exit code {code}: {last_line(text)}")


def judge_gtest(code, text):
    def count(outcome):
        found = re.findall(rf"^\[  {outcome} +\] (\d+) tests?", text, re.MULTILINE)
        return int(found[-1]) if found else 0

    passed, failed, skipped = count("PASSED"), count("FAILED"), count("SKIPPED")
    note = f"{passed} passed, {failed} failed, {skipped} skipped"
    if code != 0:
        return FAILED, note if failed else f"exit code {code}: {last_line(text)}"
    return (OK, note) if passed else (FAILED, f"no test ran: {note}")


def judge_report(*keys):
    """A JSON object is printed, whatever the exit code; the note quotes `keys` of it."""

    def judge(code, text):
        report = json_of(text)
        if report is None:
            return FAILED, f"exit code {code}: {last_line(text)}"
        return judge_exit(code, ", ".join(f"{key} {report[key]}" for key in keys))

    return judge


def judge_dispatch(code, text):
    cases = (json_of(text) or {}).get("cases", [])
    costs = [f"{case['name']} {case['overhead_ns_p50']:.0f} ns" for case in cases]
    return judge_exit(code, ", ".join(costs) or text)


def judge_table(folder, prefix):
    """Success also writes a table."""

    def judge(code, text):
        if code != 0:
            return judge_exit(code, text)
        rows = [len(path.read_text().splitlines()) for path in folder.glob(f"{prefix}*.tsv")]
        return (OK, f"{sum(rows)} lines") if rows else (FAILED, f"it wrote no {prefix}*.tsv")

    return judge


def judge_memcheck(code, text):
    if "Device not supported" in text:
        return SKIPPED, "compute-sanitizer does not support this device"
    summaries = re.findall(r"ERROR SUMMARY: .*", text)
    note = summaries[-1] if summaries else last_line(text)
    return (OK, note) if code == 0 and summaries else (FAILED, f"exit code {code}: {note}")


class Budget:
    """The time that is left. Inside `with`, a signal ends it and raises nothing."""

    def __init__(self, limit_s):
        self.deadline = time.monotonic() + limit_s
        self.interrupted = ""  # Why it ended early, else empty.

    def __enter__(self):
        # What is ignored stays so: nohup asks for it.
        self.before = {number: signal.signal(number, self.interrupt) for number in SIGNALS
                       if signal.getsignal(number) != signal.SIG_IGN}
        return self

    def __exit__(self, *_):
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def interrupt(self, number, _):
        self.interrupted = f"interrupted by {signal.Signals(number).name}"

    def left_s(self):
        return 0 if self.interrupted else self.deadline - time.monotonic()


def members(session):
    """The living processes of a session; ninja gives each of its own a process group."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # It has ended since.
            state, _, _, its_session = path.read_bytes().rsplit(b")", 1)[1].split()[:4]
            if int(its_session) == session and state != b"Z":
                found.append(int(path.parent.name))
    return found


def finish(process, grace_s):
    """Ends the process, the leader of a session, and what it started there."""
    for what, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, GRACE_S)):
        deadline = time.monotonic() + wait_s
        for pid in members(process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # Ended, or setuid.
                os.kill(pid, what)
        while members(process.pid) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    with contextlib.suppress(subprocess.TimeoutExpired):  # What hangs inside a driver stays.
        process.wait(GRACE_S)


def run_process(command, limit_s, budget, **options):
    """Runs a process and ends what it leaves; returns its exit code, or None and why it was ended.

    The limit includes the time that it is given to end.
    """
    grace_s = min(GRACE_S, limit_s / 4)
    deadline = time.monotonic() + limit_s - grace_s
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        while process.poll() is None and time.monotonic() < deadline and not budget.interrupted:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
        code = process.poll()
    finally:
        finish(process, grace_s)
    ended = budget.interrupted or f"ended after its limit of {limit_s:.0f} s"
    return (code, "") if code is not None else (None, ended)


def run_step(step, log, budget):
    """Runs the step into the file `log` and returns what summary.json says of it."""
    outcome = {"name": step.name, "status": FAILED, "seconds": 0.0, "exit_code": None, "note": ""}
    limit_s = min(step.limit_s, budget.left_s())
    if limit_s <= 0:
        return {**outcome,
                "note": f"not run: {budget.interrupted or 'the time of --limit is spent'}"}
    start = time.monotonic()
    try:
        with open(log, "wb") as output:
            output.write(f"$ {' '.join(step.command)}\n".encode())
            output.flush()
            begin = output.tell()
            outcome["exit_code"], outcome["note"] = run_process(
                step.command, limit_s, budget, stdout=output, stderr=subprocess.STDOUT)
    except OSError as error:
        return {**outcome, "note": f"cannot be started: {error.strerror}"}
    outcome["seconds"] = round(time.monotonic() - start, 1)
    if outcome["exit_code"] is None:
        return outcome
    text = log.read_bytes()[begin:].decode(errors="replace")
    try:
        outcome["status"], outcome["note"] = (step.judge or judge_exit)(outcome["exit_code"], text)
    except (LookupError, TypeError, ValueError, OSError) as error:
        outcome["note"] = f"its output is not understood: {error!r}"
    report = json_of(text) if text.lstrip().startswith("{") else None
    return {**outcome, "report": report} if report else outcome


def run_stage(stage, logs, budget):
    """Runs the steps of a stage one after the other."""
    result = {"name": stage.name, "status": SKIPPED, "seconds": 0.0, "exit_code": None,
              "note": stage.skipped, "steps": []}
    if stage.failed:
        return {**result, "status": FAILED, "note": stage.failed}
    if not stage.steps:
        return result
    for step in stage.steps:
        result["steps"].append(run_step(step, logs / f"{stage.name}.{step.name}.log", budget))
    steps = result["steps"]
    # The step that speaks for the stage: the first that failed, else the first that ran.
    telling = [step for status in (FAILED, OK, SKIPPED) for step in steps
               if step["status"] == status][0]
    result.update({key: telling[key] for key in ("status", "exit_code")})
    result["seconds"] = round(sum(step["seconds"] for step in steps), 1)
    shown = [telling] if telling["status"] == FAILED else steps
    result["note"] = "; ".join(
        step["note"] if len(steps) == 1 else f"{step['name']}: {step['note']}" for step in shown)
    return result


def read_manifest(path):
    """What --prebuild wrote; ValueError if something else is there."""
    manifest = json.loads(path.read_text())
    tests = manifest.get("gpu_tests") if isinstance(manifest, dict) else None
    if not isinstance(tests, list):
        raise ValueError("there is no list gpu_tests")
    for test in tests:
        name, command = (test.get(key) if isinstance(test, dict) else None
                         for key in ("name", "command"))
        words = command if isinstance(command, list) and command else [None]
        if not all(isinstance(text, str) for text in (name, *words)):
            raise ValueError(f"a test of gpu_tests has no name or no command: {test}")
    return manifest


class Binaries:
    """Where the programs are: in a build folder, or side by side with a manifest.

    OSError, ValueError: there is a manifest that cannot be read.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        manifest = self.folder / MANIFEST
        self.manifest = read_manifest(manifest) if manifest.is_file() else None

    def commit(self):
        """What they were built from, if the manifest says it; else what is checked out."""
        return tree_commit() if self.manifest is None else self.manifest.get("commit")

    def find(self, name):
        """The program's path, or None."""
        for folder in FOLDERS:
            path = self.folder / folder / name
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        return None

    def gpu_tests(self, budget):
        """Names and commands of the tests that are labelled gpu."""
        if self.manifest is not None:
            return [(test["name"], [str(self.folder / test["command"][0]), *test["command"][1:]])
                    for test in self.manifest["gpu_tests"]]
        with tempfile.TemporaryDirectory() as scratch:
            # CTest writes where it starts, and the build folder is not ours.
            tests, listed = (pathlib.Path(scratch) / name
                             for name in ("CTestTestfile.cmake", "listed"))
            tests.write_text(f"subdirs([==[{self.folder}]==])\n")
            command = ["ctest", "--test-dir", scratch, "-L", "^gpu$", "--show-only=json-v1"]
            with open(listed, "wb") as output:
                code, ended = run_process(command, 20, budget, stdout=output)
            if code != 0:
                raise ValueError(ended or f"ctest ends with exit code {code}")
            tests = json.loads(listed.read_text())["tests"]
        # CTest lists a test without its command if the program was not built.
        missing = [test["name"] for test in tests if "command" not in test]
        if missing:
            raise ValueError(f"not built: {', '.join(missing)}")
        return [(test["name"], test["command"]) for test in tests]


def find_cuda_tool(name):
    """The path of a program of the CUDA Toolkit, or None."""
    folders = [str(pathlib.Path(nvcc).parent) for nvcc in [shutil.which("nvcc")] if nvcc]
    path = os.pathsep.join([os.environ.get("PATH", ""), *folders, "/usr/local/cuda/bin"])
    return shutil.which(name, path=path)


def stage_of(binaries, name, program, steps):
    """A stage of `program`, given as its steps' names, arguments, limits and judges."""
    path = binaries.find(program)
    if path is None:
        return Stage(name, [], failed=f"{program} is not in {binaries.folder.name}/")
    return Stage(name, [Step(step, [path, *arguments], limit_s, judge)
                        for step, arguments, limit_s, judge in steps])


def gpu_tests_stage(binaries, driver, budget):
    """Runs the instances for `driver`, so that on a GPU those for the emulator hide nothing."""
    instances = f"--gtest_filter=*/{driver.capitalize()}"
    try:
        tests = binaries.gpu_tests(budget)
    except (OSError, ValueError) as error:
        return Stage("gpu_tests", [], failed=f"the tests cannot be listed: {error}")
    return Stage("gpu_tests",
                 [Step(name.replace("/", "_"), [*command, instances], 60, judge_gtest)
                  for name, command in tests], skipped="no test is labelled gpu")


def device_stage(binaries, dry_run, on_device):
    stage = stage_of(binaries, "device", "coppice", [
        ("info", ["info", *on_device, "--json"], 20,
         judge_report("device", "driver_version", "device_code"))])
    smi = shutil.which("nvidia-smi")
    if smi and not dry_run:
        query = [smi, "--query-gpu=name,driver_version", "--format=csv,noheader"]
        stage.steps.append(Step("nvidia_smi", query, 20))
    return stage


def memcheck_stage(binaries, dry_run):
    sanitizer = find_cuda_tool("compute-sanitizer")
    if dry_run or sanitizer is None:
        return Stage("memcheck", [], skipped="nothing runs on a GPU" if dry_run else
                     "compute-sanitizer not found")
    # Refused calls are what the suite is about, so they are no finding.
    checked = [sanitizer, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode",
               "99"]
    suite = stage_of(binaries, "memcheck", "conformance_suite", [
        ("conformance", ["--driver=cuda", FAULT_CASES], 100, judge_memcheck)])
    replays = stage_of(binaries, "memcheck", "coppice", [
        ("replays", ["run", "--device", "cuda", "--requests", "40", "--shrink", "32",
                     "--verify=none", "--quiet"], 80, judge_memcheck)])
    steps = [dataclasses.replace(step, command=checked + step.command)
             for step in suite.steps + replays.steps]
    return Stage("memcheck", steps, failed=suite.failed or replays.failed)


def plan(binaries, tables, dry_run, budget):
    """The stages, in order. The probe writes its tables into the folder `tables`."""
    device, driver = ("host", "emulator") if dry_run else ("cuda", "cuda")
    on_device = ["--device", device]
    probe = [(section, [f"--device={device}", f"--output={tables}", section], 120,
              judge_table(tables, prefix)) for section, prefix in SECTIONS.items()]
    return [
        device_stage(binaries, dry_run, on_device),
        stage_of(binaries, "probe", "coppice-probe", probe),
        stage_of(binaries, "conformance", "conformance_suite", [
            ("suite", [f"--driver={driver}"], 180 if dry_run else 90, judge_gtest)]),
        gpu_tests_stage(binaries, driver, budget),
        stage_of(binaries, "run", "coppice", [
            ("verified", ["run", *on_device, "--requests", "100", "--verify=all", "--json",
                          "--quiet"], 90, judge_report("mismatches", "comparisons", "replays"))]),
        stage_of(binaries, "bench", "coppice", [
            ("dispatch", ["bench", "dispatch", "--json"], 120, judge_dispatch),
            ("record", ["bench", "record", *on_device, "--json"], 40,
             judge_report("record_us_p50", "driver_us_p50"))]),
        memcheck_stage(binaries, dry_run),
    ]


def build_stage(preset):
    jobs = str(os.cpu_count() or 2)
    return Stage("build", [
        Step("configure", ["cmake", "-S", str(ROOT), "--preset", preset], 60),
        Step("build", ["cmake", "--build", str(ROOT / "build" / preset), "--parallel", jobs,
                       "--target", "gpu_check_binaries"], 240)])


def print_table(results):
    width = max(len(name) for name in ("stage", *(result["name"] for result in results)))
    print(f"\n{'stage':<{width}}  {'result':<7}  {'seconds':>7}  note")
    for result in results:
        print(f"{result['name']:<{width}}  {result['status']:<7}  {result['seconds']:>7.1f}  "
              f"{result['note']}")


def is_result(name):
    return name in ("summary.json", "logs.tar.gz") or bool(TABLE.fullmatch(name))


def write_output(out, work, results, facts):
    """Replaces what an earlier check left in OUT, and nothing else, once all is written."""
    with tarfile.open(work / "tables" / "logs.tar.gz", "w:gz") as archive:
        archive.add(work / "logs", arcname="logs")
    summary = {**facts, "failed": sum(result["status"] == FAILED for result in results),
               "stages": results}
    (work / "tables" / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    with tempfile.TemporaryDirectory(dir=out, prefix=".") as scratch:
        for path in (work / "tables").iterdir():
            if is_result(path.name):
                shutil.copy(path, scratch)
        for path in out.iterdir():
            if is_result(path.name):
                path.unlink()
        for path in pathlib.Path(scratch).iterdir():
            path.replace(out / path.name)


def check(out, build_dir, dry_run, limit_s):
    """Runs all stages; returns the exit code."""
    with contextlib.ExitStack() as cleanup:
        budget = cleanup.enter_context(Budget(limit_s))
        work = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check."))
        scratch = cleanup.enter_context(contextlib.ExitStack())
        scratch.callback(shutil.rmtree, work)
        for name in ("logs", "tables"):
            (work / name).mkdir()
        results = []

        def perform(stage):
            if budget.left_s() > 0:
                with contextlib.suppress(OSError):  # Whoever listened is gone; OUT is not.
                    print(f"gpu_check: {stage.name} ...", flush=True)
            results.append(run_stage(stage, work / "logs", budget))

        folder = build_dir or ROOT / "prebuilt"
        if build_dir is None and not (folder / MANIFEST).is_file():
            folder = ROOT / "build" / "gpu"
            perform(build_stage("gpu"))
        binaries = Binaries(folder)
        for stage in plan(binaries, work / "tables", dry_run, budget):
            perform(stage)
        info = next((step.get("report") for result in results if result["name"] == "device"
                     for step in result["steps"]), None) or {}
        facts = {"mode": "dry-run" if dry_run else "cuda", "device": info.get("device"),
                 "driver": info.get("driver"), "driver_version": info.get("driver_version"),
                 "built_from": binaries.commit(),
                 "seconds": round(limit_s - (budget.deadline - time.monotonic()), 1)}
        written = True
        try:
            write_output(out, work, results, facts)
        except OSError as error:
            written = False
            scratch.pop_all()
            print(f"gpu_check: OUT {out} cannot be written: {error.strerror or error}; the results "
                  f"are in {work}", file=sys.stderr)
    print_table(results)
    return 0 if written and all(result["status"] != FAILED for result in results) else 1


def needed_libraries(path):
    listed = subprocess.run(["readelf", "--dynamic", str(path)], stdout=subprocess.PIPE, check=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", listed.stdout.decode())


def tree_commit():
    """The commit that is checked out, marked if files differ from it; None without git."""
    described = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                               check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return described.stdout.decode().strip() or None


def prebuild(folder, budget):
    """Builds what `check` runs into `folder`, for other machines; returns the exit code."""
    build = ROOT / "build" / "prebuilt"
    for step in build_stage("prebuilt").steps:
        code, ended = run_process(step.command, math.inf, budget, cwd=ROOT)
        if code != 0:
            raise ValueError(f"{step.name}: {ended or f'exit code {code}'}")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    binaries = Binaries(build)
    sources = {name: binaries.find(name) for name in PROGRAMS}
    problems = [f"{name} was not built" for name, path in sources.items() if path is None]
    tests = []
    for name, command in binaries.gpu_tests(budget):
        program = pathlib.Path(command[0]).name
        sources[program] = command[0]
        tests.append({"name": name, "command": [program, *command[1:]]})
    for name, source in sources.items():
        if source is None:
            continue
        subprocess.run(["strip", "-o", str(folder / name), source], check=True)
        foreign = [library for library in needed_libraries(folder / name)
                   if not re.match(r"(libc|libm|libdl|librt|libpthread|ld-linux.*)\.so", library)]
        if foreign:
            problems.append(f"{name} needs {', '.join(foreign)}")
    if sources["coppice"]:
        told = subprocess.run([sources["coppice"], "info", "--device", "host", "--json"],
                              stdout=subprocess.PIPE, check=True)
        if not json.loads(told.stdout)["device_code"]:
            problems.append("nvcc was not found, so the programs hold no code for a GPU")
    (folder / MANIFEST).write_text(json.dumps(
        {"commit": tree_commit(), "gpu_tests": tests}, indent=2) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > PREBUILT_BYTES_MAX:
        problems.append(f"{size} bytes are more than {PREBUILT_BYTES_MAX}")
    for problem in problems:
        print(f"gpu_check: {problem}", file=sys.stderr)
    print(f"gpu_check: {size / (1 << 20):.1f} MiB in {folder}")
    return 1 if problems else 0


def folder_name(text):
    if not text:
        raise argparse.ArgumentTypeError("an empty name is no folder")
    return pathlib.Path(text)


def why_unfit(out, is_result=is_result):
    """Why nothing can be written into OUT, which is made; empty if all can."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
        taken = [path.name for path in out.iterdir()
                 if is_result(path.name) and not path.is_file()]
    except OSError as error:
        return error.strerror
    return f"{taken[0]} is no file" if taken else ""


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", nargs="?", type=folder_name)
    parser.add_argument("--dry-run", action="store_true", help="run on the emulator")
    parser.add_argument("--build-dir", metavar="DIR", type=folder_name,
                        help="a build folder, or one that --prebuild made")
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=LIMIT_S,
                        help=f"for everything, default {LIMIT_S}")
    parser.add_argument("--prebuild", metavar="DIR", type=folder_name)
    options = parser.parse_args(arguments)
    if (options.out is None) == (options.prebuild is None):
        parser.error("give either OUT or --prebuild DIR")
    if options.prebuild and (options.dry_run or options.build_dir):
        parser.error("--prebuild stands alone")
    if options.limit < 1:
        parser.error(f"--limit {options.limit}: give seconds, at least 1")
    if options.build_dir and not options.build_dir.is_dir():
        parser.error(f"--build-dir {options.build_dir} is no folder")
    if options.prebuild and options.prebuild.exists() and not (
            options.prebuild / MANIFEST).is_file():
        parser.error(f"--prebuild {options.prebuild} exists and is not one of ours; remove it")
    if options.out:
        programs = options.build_dir or ROOT / "prebuilt"
        try:
            Binaries(programs)
        except (OSError, ValueError) as error:
            parser.error(f"{programs / MANIFEST}: {error}")
        if problem := why_unfit(options.out):
            parser.error(f"OUT {options.out}: {problem}")
    return options


def main(arguments):
    options = parse(arguments)
    if options.prebuild:
        try:
            with Budget(math.inf) as budget:
                return prebuild(options.prebuild, budget)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(f"gpu_check: {error}", file=sys.stderr)
            return 1
    return check(options.out, options.build_dir, options.dry_run, options.limit)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
