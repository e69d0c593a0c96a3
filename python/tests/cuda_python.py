#!/usr/bin/env python3
"""Runs NVIDIA's tests of cuda-python, which passed on GPUs, on the emulated libcuda.so.1, and
writes what became of each.

  cuda_python.py TESTS --driver FOLDER --out TABLE.tsv [--only TEXT]

TESTS is a checkout of cuda-python, whose tests fit the cuda-bindings and cuda-core of this Python;
FOLDER is where the emulated libcuda.so.1 lies. Nothing is fetched. Each file of tests is a process
group with a time limit; each test that it leaves open, as it ended before its time, and each that
differs is run once more in a process group of its own, whose answer counts.

A row is a suite, a test, of how many of its parameters, what became of it and why:
  pass     as on a GPU
  skipped  the test says so itself, as of a device that lacks what it needs
  refused  it needs what the emulator refuses by design, which REFUSALS names; the tests of OTHER,
           which are of other libraries or of several processes, are not run
  differs  anything else

Exit codes: 0 the shares of tests that pass among those that are neither skipped nor refused are
what BARS asks; 1 they are not; 2 wrong arguments.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

SUITES = {"cuda.bindings": "cuda_bindings/tests", "cuda.core": "cuda_core/tests"}
BARS = {"cuda.bindings": 0.95, "cuda.core": 0.80}
FILE_LIMIT_S = 300
TEST_LIMIT_S = 60
# Of other libraries than libcuda: they need no driver, or hardware that nobody emulates.
OTHER = ("nvml", "cufile", "cython", "nvvm", "nvfatbin", "nvjitlink", "nvrtc", "example_tests",
         "system", "memory_ipc")

# What the emulator refuses by design, by what a failed test says.
REFUSALS = [
    (r"cudaError|[Cc]udart|runtime\.cuda|cudaGetDevice",
     "CUDA's runtime asks a driver by tables that are not documented"),
    (r"cuArray|cuTex|cuSurf|[Mm]ipmapped", "arrays, textures and surfaces"),
    (r"cuGraphAddMem|GraphMem|[Gg]raph_?[Mm]em|graph_alloc|GMR", "memory nodes in graphs"),
    (r"[Cc]onditional|if_cond|if_else|while_loop|switch", "conditional nodes"),
    (r"[Cc]oredump|[Pp]rofiler|[Cc]heckpoint", "tools of a device: core dumps, profilers, "
     "checkpoints"),
    (r"DevSmResource|DevResource|[Gg]reen", "parts of a device"),
    (r"[Ii][Pp][Cc]|[Ss]hareable|handle_type|ExportTo|ImportFrom", "memory and events of other "
     "processes"),
    (r"cuLink|nvJitLink|nvjitlink|[Ll]inker", "linking of device code by the driver"),
    (r"fork_method", "memory and events of other processes"),
]
# The same of kernels that were compiled to a device's own code: where a launch is refused.
OWN_CODE = r"_launcher\.launch.*CUDA_ERROR_NOT_SUPPORTED"

PLUGIN = '''
import json, os
def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcome = "skipped" if hasattr(report, "wasxfail") else report.outcome
        with open(os.environ["COPPICE_OUTCOMES"], "a") as out:
            out.write(json.dumps([report.nodeid, outcome, report.longreprtext]) + "\\n")
def pytest_collection_modifyitems(items):
    with open(os.environ["COPPICE_OUTCOMES"] + ".all", "a") as out:
        out.writelines(item.nodeid + "\\n" for item in items)
'''


class Runner:
    def __init__(self, tests, driver):
        self.scratch = tempfile.TemporaryDirectory(prefix="cuda_python.")
        self.folder = pathlib.Path(self.scratch.name)
        (self.folder / "coppice_outcomes.py").write_text(PLUGIN)
        self.tests = tests
        self.environment = dict(
            os.environ, LD_LIBRARY_PATH=str(driver), PYTHONPATH=str(self.folder),
            PYTHONDONTWRITEBYTECODE="1",
            PYTHONSAFEPATH="1", COPPICE_EMULATED_STRICT="off", CUDA_FORCE_PTX_JIT="0")

    def run(self, folder, names, limit_s):
        """Runs tests in one process; returns the outcome and the text of each that came to its end,
        by name, then all names, and the output."""
        outcomes = self.folder / "outcomes"
        for path in (outcomes, outcomes.with_name("outcomes.all")):
            path.write_text("")
        command = [sys.executable, "-m", "pytest", "-q", "-x" if len(names) == 1 and "::" in
                   names[0] else "--maxfail=10000", "-p", "coppice_outcomes", "-p",
                   "no:cacheprovider", "--tb=short", *names]
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=subprocess.STDOUT,
                env=dict(self.environment, COPPICE_OUTCOMES=str(outcomes)), start_new_session=True)
            try:
                process.wait(limit_s)
                ended = f"exit code {process.returncode}"
            except subprocess.TimeoutExpired:
                ended = f"ended after {limit_s} s"
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            log.seek(0)
            text = log.read().decode(errors="replace") + ended
        found = {}
        for line in outcomes.read_text().splitlines():
            name, outcome, told = json.loads(line)
            if found.get(name, ("",))[0] != "failed":  # One while tearing down outweighs the call.
                found[name] = outcome, told
        listed = (self.folder / "outcomes.all").read_text().splitlines()
        return found, listed, text


def why_of(text):
    """What a failed test says, in one line: the last error that it names."""
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    lines = [line for line in lines if line] or [line for line in text.splitlines() if line][-1:]
    told = lines[0][:160] if lines else "no output"
    return re.sub(r"\s*\(/[^)]*\)?", "", told).replace("\t", " ")


def refusal_of(name, text, why):
    for pattern, reason in REFUSALS:
        if re.search(pattern, name) or re.search(pattern, why):
            return reason
    if re.search(OWN_CODE, text, re.DOTALL):
        return "kernels that were compiled to a device's own code"
    return None


def judge(name, outcome, text):
    if outcome == "passed":
        return "pass", ""
    why = why_of(text)
    if outcome == "skipped":
        return "skipped", ""
    refused = refusal_of(name, text, why)
    return ("refused", refused) if refused else ("differs", why)


def lines_of(suite, rows):
    """The lines of the table: parameters of a test that came to the same are one."""
    counts = {}
    for name, result, why in rows:
        key = name.partition("[")[0], result, why
        counts[key] = counts.get(key, 0) + 1
    return ["\t".join((suite, name, str(count), result, why))
            for (name, result, why), count in counts.items()]


def run_suite(runner, folder, only, save):
    """The rows of a suite; `save` is given them after each file."""
    rows = []
    for path in sorted(folder.rglob("test_*.py")):
        relative = path.relative_to(folder)
        if any(part in str(relative) for part in OTHER) or only not in str(relative):
            continue
        found, listed, text = runner.run(folder.parent, [str(path)], FILE_LIMIT_S)
        if not listed:
            rows.append((str(relative), *judge(str(relative), "failed", text)))
        for name in listed:
            judged = judge(name, *found[name]) if name in found else ("differs", "")
            if judged[0] == "differs":
                alone, _, text = runner.run(folder.parent, [name], TEST_LIMIT_S)
                judged = judge(name, *alone.get(name, ("failed", text)))
            rows.append((name, *judged))
        save(rows)
        print(f"{relative}: {sum(row[1] == 'pass' for row in rows)} of {len(rows)} so far",
              file=sys.stderr)
    return rows


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=pathlib.Path)
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="files of tests whose path has this text")
    options = parser.parse_args(arguments)
    if not (options.driver / "libcuda.so.1").is_file():
        parser.error(f"{options.driver} has no libcuda.so.1")
    if not any((options.tests / folder).is_dir() for folder in SUITES.values()):
        parser.error(f"{options.tests} is no checkout of cuda-python")
    runner = Runner(options.tests, options.driver.resolve())
    table = ["suite\ttest\tparameters\tresult\twhy"]
    met = True
    for suite, folder in SUITES.items():
        def save(rows, before=tuple(table), suite=suite):
            lines = [*before, *lines_of(suite, rows)]
            options.out.write_text("\n".join(lines) + "\n")
            return lines

        rows = run_suite(runner, (options.tests / folder).resolve(), options.only, save)
        table = save(rows)
        counts = {result: sum(row[1] == result for row in rows)
                  for result in ("pass", "skipped", "refused", "differs")}
        asked = counts["pass"] + counts["differs"]
        share = counts["pass"] / asked if asked else 1.0
        met &= share >= BARS[suite]
        print(f"{suite}: {counts}; {100 * share:.1f} % of {asked}, at least "
              f"{100 * BARS[suite]:.0f} %")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
