#!/usr/bin/env python3
"""Asks a machine with a GPU everything that an emulator cannot answer, in one command.

  gpu_check.sh OUT              runs every stage and writes its findings into the folder OUT
  gpu_check.sh --dry-run OUT    the same on the emulator, which needs no GPU
  gpu_check.sh --prebuild DIR   builds the programs for a machine that has no package manager

Stages: device, probe, conformance, gpu_tests, run, package, python, bench, memcheck. Each step of a
stage is a process with a time limit of its own, and none stops the next; of one that is ended, what
it had printed is judged. OUT gets at most nine entries: summary.json, the probe's tables, and the
folder stages/ with a log per stage. All of it is written anew after each stage, so that a check
that is killed leaves what was finished.

The programs are those of --build-dir, else those of prebuilt/, else the preset gpu builds them
first (of a dry run: release). Building takes as long as it takes: --limit begins after it.

The stage python needs a Python that has PyTorch, Triton and coppice, else it is skipped. A wheel
beside the programs stands for an installed coppice: --prebuild DIR --wheel WHEEL puts it there, and
`pip wheel . --no-deps -C cmake.define.COPPICE_STATIC=ON` makes one.

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
import subprocess
import sys
import tempfile
import time
from typing import Callable, List, Optional

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools" / "support"))
from judges import (  # noqa: E402
    FAILED, OK, SKIPPED, Verdict, json_of, judge_dispatch, judge_exit, judge_gtest,
    judge_memcheck, judge_reference, judge_report, judge_suite, judge_table, judge_unittest,
    last_line)
from processes import Budget, run_process  # noqa: E402

PROGRAMS = ("coppice", "coppice-probe", "conformance_suite")
FOLDERS = ("", "tools", "tests")  # Where a build folder keeps programs; a prebuilt one is flat.
MANIFEST = "manifest.json"
TARGET = "gpu_check_binaries"  # Builds all of them.
SUMMARY, DETAILS = "summary.json", "stages"  # In OUT; the second is a folder.
PREBUILT_BYTES_MAX = 48 << 20
LIMIT_S = 520

TABLE = re.compile(r"(vmm|graphs|memory|orders|capture_legality\.[\w.-]+)\.tsv")
STAGES = ("build", "device", "probe", "conformance", "gpu_tests", "run", "package", "python",
          "bench", "memcheck")
SURVEYS = {"vmm": "vmm", "graphs": "graphs", "memory": "memory",
            "legality": "capture_legality", "orders": "orders"}
# After these a process can do no further work on its device, and memcheck would report them.
FAULT_CASES = ("--gtest_filter=-*Fault*:*ReleaseWithoutRetain*:*LastReleaseEnds*:"
               "*ContextThatTheProcessKeeps*:*MayNotCallTheDriver*")
NOTES_MAX = 6  # Of a stage with more steps, they are counted.



@dataclasses.dataclass
class Step:
    """One process. `judge` sees its exit code, or None if it was ended, and its output. Without a
    judge, exit code 0 is success."""

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
    limit_s: float = math.inf  # For all steps together.


def run_step(step, log, budget, stage_left_s=math.inf):
    """Runs the step into the file `log` and returns what summary.json says of it."""
    outcome = {"name": step.name, "status": FAILED, "seconds": 0.0, "exit_code": None, "note": ""}
    limit_s = min(step.limit_s, stage_left_s, budget.left_s())
    if limit_s <= 0:
        spent = "--limit" if budget.left_s() <= 0 else "the stage"
        return {**outcome,
                "note": f"not run: {budget.interrupted or f'the time of {spent} is spent'}"}
    start = time.monotonic()
    try:
        with open(log, "wb") as output:
            output.write(f"$ {' '.join(step.command)}\n".encode())
            output.flush()
            begin = output.tell()
            code, ended = run_process(step.command, limit_s, budget, stdout=output,
                                      stderr=subprocess.STDOUT)
    except OSError as error:
        return {**outcome, "note": f"cannot be started: {error.strerror}"}
    outcome.update({"seconds": round(time.monotonic() - start, 1), "exit_code": code})
    text = log.read_bytes()[begin:].decode(errors="replace")
    try:
        status, note = (step.judge or judge_exit)(code, text)
    except (LookupError, TypeError, ValueError, OSError) as error:
        status, note = FAILED, f"its output is not understood: {error!r}"
    outcome.update({"status": FAILED if ended else status,
                    "note": "; ".join(filter(None, (ended, note)))})
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
    deadline = time.monotonic() + stage.limit_s
    for step in stage.steps:
        result["steps"].append(run_step(step, logs / f"{stage.name}.{step.name}.log", budget,
                                        deadline - time.monotonic()))
    steps = result["steps"]
    # The step that speaks for the stage: the first that failed, else the first that ran.
    telling = [step for status in (FAILED, OK, SKIPPED) for step in steps
               if step["status"] == status][0]
    result.update({key: telling[key] for key in ("status", "exit_code")})
    result["seconds"] = round(sum(step["seconds"] for step in steps), 1)
    shown = [telling] if telling["status"] == FAILED else steps
    if len(shown) > NOTES_MAX:
        counts = [f"{count} {status}" for status in (OK, SKIPPED)
                  if (count := sum(step["status"] == status for step in steps))]
        return {**result, "note": ", ".join(counts)}
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


def missing(binaries, program):
    return (f"{program} is not in {binaries.folder.name}/; build the target {program}, or "
            f"{TARGET} for all")


def stage_of(binaries, name, program, steps):
    """A stage of `program`, given as its steps' names, arguments, limits and judges."""
    path = binaries.find(program)
    if path is None:
        return Stage(name, [], failed=missing(binaries, program))
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


def conformance_stage(binaries, driver, limit_s, budget):
    """A process for each suite, so that one which loses its device costs no other."""
    path = binaries.find("conformance_suite")
    if path is None:
        return Stage("conformance", [], failed=missing(binaries, "conformance_suite"))
    command = [path, f"--driver={driver}"]
    with tempfile.TemporaryFile() as listed:
        code, ended = run_process([*command, "--gtest_list_tests"], 20, budget, stdout=listed,
                                  stderr=subprocess.STDOUT)
        listed.seek(0)
        text = listed.read().decode(errors="replace")
    suites = re.findall(r"^(\S+)\.(?:\s|$)", text, re.MULTILINE)
    if code != 0 or not suites:
        return Stage("conformance", [], failed="its suites cannot be listed: "
                     f"{ended or f'exit code {code}: {last_line(text)}'}")
    return Stage("conformance", [
        Step(suite.rpartition("/")[2], [*command, f"--gtest_filter={suite}.*"], 60, judge_suite)
        for suite in suites], limit_s=limit_s)


def device_stage(binaries, dry_run, on_device):
    stage = stage_of(binaries, "device", "coppice", [
        ("info", ["info", *on_device, "--json"], 20,
         judge_report("device", "driver_version", "device_code"))])
    smi = shutil.which("nvidia-smi")
    if smi and not dry_run:
        query = [smi, "--query-gpu=name,driver_version", "--format=csv,noheader"]
        stage.steps.append(Step("nvidia_smi", query, 20))
    return stage


def package_stage(binaries, device, dumped):
    """Serves the decoder that PyTorch compiled, and compares its logits with PyTorch's. The
    emulator takes a second for what a GPU does in a millisecond, so it serves little."""
    decoder = str(ROOT / "samples" / "torch_decoder.zip")
    on_device = ["--device", device]
    served = ["--requests", "100"] if device == "cuda" else ["--requests", "1", "--shrink", "64"]
    stage = stage_of(binaries, "package", "coppice", [
        ("served", ["run", "--package", decoder, *on_device, *served, "--verify=all",
                    f"--dump-steps={dumped}", "--json", "--quiet"], 60,
         judge_report("mismatches", "comparisons", "replays")),
        ("record", ["package", "bench", decoder, "--program", "decode", *on_device, "--json",
                    "--repetitions", "11" if device == "cuda" else "1"], 30,
         judge_report("graph_nodes", "own_us_per_100_nodes"))])
    if stage.steps:
        reference = str(ROOT / "tools" / "run" / "torch_reference.py")
        stage.steps.append(Step("torch", [sys.executable, reference, str(dumped), "--device",
                                          "cuda" if device == "cuda" else "cpu"], 60,
                                judge_reference))
    return stage


def python_stage(binaries, driver):
    """PyTorch's models, graphs and memory, by the wheel beside the programs if there is one."""
    wheels = sorted(map(str, binaries.folder.glob("coppice-*.whl")))
    check = str(ROOT / "python" / "tests" / "device_check.py")
    return Stage("python", [Step("torch", [sys.executable, "-B", check, driver, *wheels[:1]], 120,
                                 judge_unittest)])


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
    probe = [(survey, [f"--device={device}", f"--output={tables}", survey], 120,
              judge_table(tables, prefix)) for survey, prefix in SURVEYS.items()]
    return [
        device_stage(binaries, dry_run, on_device),
        stage_of(binaries, "probe", "coppice-probe", probe),
        conformance_stage(binaries, driver, 180 if dry_run else 120, budget),
        gpu_tests_stage(binaries, driver, budget),
        stage_of(binaries, "run", "coppice", [
            ("verified", ["run", *on_device, "--requests", "100", "--verify=all", "--json",
                          "--quiet"], 90, judge_report("mismatches", "comparisons", "replays"))]),
        package_stage(binaries, device, tables.parent / "steps"),
        python_stage(binaries, driver),
        stage_of(binaries, "bench", "coppice", [
            ("dispatch", ["bench", "dispatch", "--json"], 360 if dry_run else 120,
             judge_dispatch),
            ("record", ["bench", "record", *on_device, "--json"], 40,
             judge_report("record_us_p50", "driver_us_p50"))]),
        memcheck_stage(binaries, dry_run),
    ]


def build_stage(preset):
    jobs = str(os.cpu_count() or 2)
    return Stage("build", [
        Step("configure", ["cmake", "-S", str(ROOT), "--preset", preset], math.inf),
        Step("build", ["cmake", "--build", str(ROOT / "build" / preset), "--parallel", jobs,
                       "--target", TARGET], math.inf)])


def print_table(results):
    width = max(len(name) for name in ("stage", *(result["name"] for result in results)))
    print(f"\n{'stage':<{width}}  {'result':<7}  {'seconds':>7}  note")
    for result in results:
        print(f"{result['name']:<{width}}  {result['status']:<7}  {result['seconds']:>7.1f}  "
              f"{result['note']}")


def is_result(name):
    """Whether a check writes this file, named relative to OUT."""
    folder, _, file = name.rpartition("/")
    if folder:
        return folder == DETAILS and file in [f"{stage}.log" for stage in STAGES]
    return file == SUMMARY or bool(TABLE.fullmatch(file))


def files_in(folder, is_result=is_result):
    """The results in a folder, named relative to it."""
    paths = [path for where in (folder, folder / DETAILS) if where.is_dir()
             for path in where.iterdir()]
    return [name for path in paths if is_result(name := path.relative_to(folder).as_posix())]


def gather(target, logs):
    """Writes the log of a stage: those of its processes, in the order in which they ran."""
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(b"\n".join(log.read_bytes() for log in logs if log.is_file()))


def publish(source, out, is_result=is_result):
    """Replaces the results in OUT by those in the folder `source`, and nothing else, once all of
    them are copied."""
    names = files_in(source, is_result)
    with tempfile.TemporaryDirectory(dir=out, prefix=".") as scratch:
        for number, name in enumerate(names):
            shutil.copy(source / name, f"{scratch}/{number}")
        (out / DETAILS).mkdir(exist_ok=True)
        for number, name in enumerate(names):
            pathlib.Path(f"{scratch}/{number}").replace(out / name)
    for name in set(files_in(out, is_result)) - set(names):
        (out / name).unlink()


def find_programs(build_dir, dry_run):
    """The folder of programs, and the preset that builds them; None if nothing is to be built."""
    prebuilt = ROOT / "prebuilt"
    if build_dir or (prebuilt / MANIFEST).is_file():
        return build_dir or prebuilt, None
    preset = "release" if dry_run else "gpu"
    return ROOT / "build" / preset, preset


class Check:
    """A check on its way: what is finished, here and in OUT."""

    def __init__(self, out, work, dry_run, budget):
        self.out, self.work, self.dry_run, self.budget = out, work, dry_run, budget
        self.built_from = None
        self.results = []
        self.problem = ""  # Why OUT is not up to date.
        for name in ("logs", "results"):
            (work / name).mkdir()

    def perform(self, stage):
        if self.budget.left_s() > 0:
            with contextlib.suppress(OSError):  # Whoever listened is gone; OUT is not.
                print(f"gpu_check: {stage.name} ...", flush=True)
        logs = self.work / "logs"
        self.results.append(run_stage(stage, logs, self.budget))
        gather(self.work / "results" / DETAILS / f"{stage.name}.log",
               [logs / f"{stage.name}.{step.name}.log" for step in stage.steps])
        self.write(finished=False)

    def write(self, finished):
        info = next((step.get("report") for result in self.results if result["name"] == "device"
                     for step in result["steps"]), None) or {}
        summary = {"mode": "dry-run" if self.dry_run else "cuda", "device": info.get("device"),
                   "driver": info.get("driver"), "driver_version": info.get("driver_version"),
                   "built_from": self.built_from, "finished": finished,
                   "seconds": self.budget.spent_s(), "failed": self.failed(),
                   "stages": self.results}
        try:
            (self.work / "results" / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")
            publish(self.work / "results", self.out)
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def failed(self):
        return sum(result["status"] == FAILED for result in self.results)


def check(out, build_dir, dry_run, limit_s):
    """Runs all stages; returns the exit code."""
    with contextlib.ExitStack() as cleanup:
        budget = cleanup.enter_context(Budget(math.inf))
        work = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check."))
        scratch = cleanup.enter_context(contextlib.ExitStack())
        scratch.callback(shutil.rmtree, work)
        run = Check(out, work, dry_run, budget)
        folder, preset = find_programs(build_dir, dry_run)
        if preset:
            run.perform(build_stage(preset))
        budget.restart(limit_s)
        binaries = Binaries(folder)
        run.built_from = binaries.commit()
        for stage in plan(binaries, work / "results", dry_run, budget):
            run.perform(stage)
        run.write(finished=not budget.interrupted)
        if run.problem:
            scratch.pop_all()
            print(f"gpu_check: OUT {out} cannot be written: {run.problem}; the results are in "
                  f"{work}", file=sys.stderr)
    print_table(run.results)
    return 1 if run.problem or run.failed() else 0


def needed_libraries(path):
    listed = subprocess.run(["readelf", "--dynamic", str(path)], stdout=subprocess.PIPE, check=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", listed.stdout.decode())


def tree_commit():
    """The commit that is checked out, marked if files differ from it; None without git."""
    described = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                               check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return described.stdout.decode().strip() or None


def prebuild(folder, wheel, budget):
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
    if wheel:
        shutil.copy(wheel, folder)
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
        taken = [name for name in files_in(out, is_result) if not (out / name).is_file()]
    except OSError as error:
        return error.strerror
    if (out / DETAILS).exists() and not (out / DETAILS).is_dir():
        return f"{DETAILS} is no folder"
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
    parser.add_argument("--wheel", metavar="WHEEL", type=pathlib.Path,
                        help="of coppice, for the stage python; with --prebuild")
    options = parser.parse_args(arguments)
    if (options.out is None) == (options.prebuild is None):
        parser.error("give either OUT or --prebuild DIR")
    if options.prebuild and (options.dry_run or options.build_dir):
        parser.error("--prebuild stands alone, or with --wheel")
    if options.wheel and not (options.prebuild and options.wheel.match("coppice-*.whl")
                              and options.wheel.is_file()):
        parser.error(f"--wheel {options.wheel}: give a wheel of coppice, with --prebuild DIR")
    if options.limit < 1:
        parser.error(f"--limit {options.limit}: give seconds, at least 1")
    if options.build_dir and not options.build_dir.is_dir():
        parser.error(f"--build-dir {options.build_dir} is no folder")
    if options.prebuild and options.prebuild.exists() and not (
            options.prebuild / MANIFEST).is_file():
        parser.error(f"--prebuild {options.prebuild} exists and is not one of ours; remove it")
    if options.out:
        programs, _ = find_programs(options.build_dir, options.dry_run)
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
                return prebuild(options.prebuild, options.wheel, budget)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(f"gpu_check: {error}", file=sys.stderr)
            return 1
    return check(options.out, options.build_dir, options.dry_run, options.limit)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
