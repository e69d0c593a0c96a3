#!/usr/bin/env python3
"""Asks a machine with a GPU everything that an emulator cannot answer, in one command.

  gpu_check.sh OUT              runs every stage and writes its findings into the folder OUT
  gpu_check.sh --dry-run OUT    the same on the emulator, which needs no GPU
  gpu_check.sh --library DIR OUT
                                the same on CUDA as the emulated libcuda.so.1 in the folder DIR is
                                it: all that is loaded and called on a GPU, as little as a dry run
  gpu_check.sh --prebuild DIR   builds the programs for a machine that has no package manager

Stages: device, probe, conformance, gpu_tests, run, package, python, bench, memcheck. Each step of a
stage is a process with a time limit of its own, and none stops the next; of one that is ended, what
it had printed is judged. OUT gets summary.json, the probe's tables, and the folder stages/ with a
log per stage, all of it after each stage; earlier results there are replaced.

The programs are those of --build-dir, else those of prebuilt/, else the preset gpu builds them
first (of a dry run: release). All but building takes less than nine minutes, or is ended.

The stage python needs a Python that has PyTorch, Triton and coppice, else it is skipped. A wheel
beside the programs stands for an installed coppice: --prebuild DIR --wheel WHEEL puts it there, and
`tools/release.sh OUT` makes one.

A signal (TERM, INT, HUP) ends the running step; what is finished is written as ever.

Exit codes: 0 no stage failed, and a skipped one has not; 1 a stage failed, a signal stopped the
check or OUT could not be written; 2 wrong arguments.
"""

import argparse
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

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools" / "support"))
from judges import (  # noqa: E402
    judge_dispatch, judge_gtest, judge_memcheck, judge_reference, judge_report, judge_suite,
    judge_table, judge_unittest, last_line)
from processes import Budget, run_process  # noqa: E402
from stages import Run, Stage, Step  # noqa: E402

PROGRAMS = ("coppice", "coppice-probe", "conformance_suite")
FOLDERS = ("", "tools", "tests")  # Where a build folder keeps programs; a prebuilt one is flat.
MANIFEST = "manifest.json"
TARGET = "gpu_check_binaries"  # Builds all of them.
LIMIT_S = 520
SURVEYS = {"legality": "capture_legality.tsv", "memory": "graph_memory.tsv"}
# After these a process can do no further work on its device, and memcheck would report them.
FAULT_CASES = ("--gtest_filter=-*Fault*:*ReleaseWithoutRetain*:*LastReleaseEnds*:"
               "*ContextThatTheProcessKeeps*:*MayNotCallTheDriver*")


class Binaries:
    """Where the programs are: in a build folder, or side by side with what --prebuild wrote.

    OSError, ValueError, LookupError, TypeError: that cannot be read.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        manifest = self.folder / MANIFEST
        self.manifest = json.loads(manifest.read_text()) if manifest.is_file() else None
        self.prebuilt = None if self.manifest is None else [
            (test["name"], [str(self.folder / test["command"][0]), *test["command"][1:]])
            for test in self.manifest["gpu_tests"]]

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
        if self.prebuilt is not None:
            return self.prebuilt
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


def device_stage(binaries, small, on_device):
    stage = stage_of(binaries, "device", "coppice", [
        ("info", ["info", *on_device, "--json"], 20,
         judge_report("device", "driver_version", "device_code"))])
    smi = shutil.which("nvidia-smi")
    if smi and not small:
        query = [smi, "--query-gpu=name,driver_version", "--format=csv,noheader"]
        stage.steps.append(Step("nvidia_smi", query, 20))
    return stage


def package_stage(binaries, device, small, dumped):
    """Serves the decoder that PyTorch compiled, and compares its logits with PyTorch's. The
    emulator takes a second for what a GPU does in a millisecond, so it serves little."""
    decoder = str(ROOT / "samples" / "torch_decoder.zip")
    on_device = ["--device", device]
    served = ["--requests", "1", "--shrink", "64"] if small else ["--requests", "100"]
    stage = stage_of(binaries, "package", "coppice", [
        ("served", ["run", "--package", decoder, *on_device, *served, "--verify=all",
                    f"--dump-steps={dumped}", "--json", "--quiet"], 60,
         judge_report("mismatches", "comparisons", "replays")),
        ("record", ["package", "bench", decoder, "--program", "decode", *on_device, "--json",
                    "--repetitions", "1" if small else "11"], 60 if small else 30,
         judge_report("graph_nodes", "own_us_per_100_nodes"))])
    if stage.steps:
        reference = str(ROOT / "tools" / "run" / "torch_reference.py")
        stage.steps.append(Step("torch", [sys.executable, reference, str(dumped), "--device",
                                          "cpu" if small else "cuda"], 60,
                                judge_reference))
    return stage


def python_stage(binaries, driver, library):
    """PyTorch's models, graphs and memory, by the wheel beside the programs if there is one."""
    if library:
        return Stage("python", [], skipped="PyTorch's runtime needs NVIDIA's driver")
    wheels = sorted(map(str, binaries.folder.glob("coppice-*.whl")))
    check = str(ROOT / "python" / "tests" / "device_check.py")
    return Stage("python", [Step("torch", [sys.executable, "-B", check, driver, *wheels[:1]], 120,
                                 judge_unittest)])


def memcheck_stage(binaries, small):
    sanitizer = find_cuda_tool("compute-sanitizer")
    if small or sanitizer is None:
        return Stage("memcheck", [], skipped="nothing runs on a GPU" if small else
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


def plan(binaries, out, dumped, dry_run, library, budget):
    """The stages, in order. The probe writes its tables into `out`, and a step what it
    dumps into the folder `dumped`."""
    device, driver = ("host", "emulator") if dry_run else ("cuda", "cuda")
    on_device = ["--device", device]
    small = dry_run or library is not None
    served = ["--shrink", "64", "--requests", "12"] if library else ["--requests", "100"]
    probe = [(survey, [f"--device={device}", f"--output={out}", survey], 120,
              judge_table(out / table)) for survey, table in SURVEYS.items()]
    return [
        device_stage(binaries, small, on_device),
        stage_of(binaries, "probe", "coppice-probe", probe),
        conformance_stage(binaries, driver, 180 if small else 120, budget),
        gpu_tests_stage(binaries, driver, budget),
        stage_of(binaries, "run", "coppice", [
            ("verified", ["run", *on_device, *served, "--verify=all", "--json", "--quiet"], 90,
             judge_report("mismatches", "comparisons", "replays"))]),
        package_stage(binaries, device, small, dumped),
        python_stage(binaries, driver, library),
        stage_of(binaries, "bench", "coppice", [
            # Host time alone: of the machine with the GPU it says something.
            *([] if small else [("dispatch", ["bench", "dispatch", "--json"], 120,
                                 judge_dispatch)]),
            ("record", ["bench", "record", *on_device, "--json"], 40,
             judge_report("record_us_p50", "driver_us_p50"))]),
        memcheck_stage(binaries, small),
    ]


def build_stage(preset):
    jobs = str(os.cpu_count() or 2)
    return Stage("build", [
        Step("configure", ["cmake", "-S", str(ROOT), "--preset", preset], math.inf),
        Step("build", ["cmake", "--build", str(ROOT / "build" / preset), "--parallel", jobs,
                       "--target", TARGET], math.inf)])


def find_programs(build_dir, dry_run):
    """The folder of programs, and the preset that builds them; None if nothing is to be built."""
    prebuilt = ROOT / "prebuilt"
    if build_dir or (prebuilt / MANIFEST).is_file():
        return build_dir or prebuilt, None
    preset = "release" if dry_run else "gpu"
    return ROOT / "build" / preset, preset


def check(out, build_dir, dry_run, library):
    """Runs all stages; returns the exit code. OSError: OUT cannot be written."""
    if library:
        os.environ["LD_LIBRARY_PATH"] = str(library.resolve())
    with Budget(math.inf) as budget, tempfile.TemporaryDirectory(prefix="gpu_check.") as work:
        folder, preset = find_programs(build_dir, dry_run)
        mode = "library" if library else "dry-run" if dry_run else "cuda"
        run = Run(out, budget, mode=mode)
        if preset:
            run.perform(build_stage(preset))
        budget.restart(LIMIT_S)
        binaries = Binaries(folder)
        run.facts["built_from"] = binaries.commit()
        for stage in plan(binaries, out, pathlib.Path(work, "steps"), dry_run, library,
                          budget):
            run.perform(stage)
        return run.finish()


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
                   if not re.match(r"(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux.*)\.so",
                                   library)]
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


def open_folders(parser, options):
    """Makes OUT; returns the programs. What cannot be read or written is a wrong argument."""
    folder, _ = find_programs(options.build_dir, options.dry_run)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        return Binaries(folder)
    except OSError as error:
        return parser.error(f"{error.filename}: {error.strerror}")
    except (LookupError, TypeError, ValueError) as error:
        return parser.error(f"{folder / MANIFEST} is not what --prebuild writes: {error!r}")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", nargs="?", type=folder_name)
    parser.add_argument("--dry-run", action="store_true", help="run on the emulator")
    parser.add_argument("--library", metavar="DIR", type=folder_name,
                        help="run on the emulated libcuda.so.1 in this folder")
    parser.add_argument("--build-dir", metavar="DIR", type=folder_name,
                        help="a build folder, or one that --prebuild made")
    parser.add_argument("--prebuild", metavar="DIR", type=folder_name)
    parser.add_argument("--wheel", metavar="WHEEL", type=pathlib.Path,
                        help="of coppice, for the stage python; with --prebuild")
    options = parser.parse_args(arguments)
    if (options.out is None) == (options.prebuild is None):
        parser.error("give either OUT or --prebuild DIR")
    if options.library and (options.dry_run or not (options.library / "libcuda.so.1").is_file()):
        parser.error("--library needs a folder that has libcuda.so.1, and is no dry run")
    if options.prebuild and (options.dry_run or options.build_dir or options.library):
        parser.error("--prebuild stands alone, or with --wheel")
    if options.wheel and not (options.prebuild and options.wheel.match("coppice-*.whl")
                              and options.wheel.is_file()):
        parser.error(f"--wheel {options.wheel}: give a wheel of coppice, with --prebuild DIR")
    if options.build_dir and not options.build_dir.is_dir():
        parser.error(f"--build-dir {options.build_dir} is no folder")
    if options.prebuild and options.prebuild.exists() and not (
            options.prebuild / MANIFEST).is_file():
        parser.error(f"--prebuild {options.prebuild} exists and is not one of ours; remove it")
    if options.out:
        open_folders(parser, options)
    return options


def main(arguments):
    options = parse(arguments)
    try:
        if options.out:
            return check(options.out.resolve(), options.build_dir, options.dry_run, options.library)
        with Budget(math.inf) as budget:
            return prebuild(options.prebuild, options.wheel, budget)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
