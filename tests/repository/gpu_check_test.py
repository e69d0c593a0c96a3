#!/usr/bin/env python3
"""Shows that tools/gpu_check.sh refuses wrong arguments and survives whatever its steps do.

The programs are shell scripts that succeed, fail, print nonsense or block for ever.
"""

import contextlib
import io
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import gpu_check  # noqa: E402
import processes  # noqa: E402
import stages  # noqa: E402

BLOCK = "tail -f /dev/null"
GTEST = "echo '[  PASSED  ] 3 tests.'"
LISTED = """case "$*" in
*--gtest_list_tests) printf 'Drivers/ATest.\\n  One/Emulator\\nDrivers/BTest.\\n  Two/Emulator\\n'
exit;;
esac
"""
GOOD = {
    "coppice": """case "$1 $2" in
info*) echo '{"device": "fake", "driver": "emulator", "driver_version": 1, "device_code": true}';;
run*) echo '{"mismatches": 0, "comparisons": 5, "replays": 7}';;
package*) echo '{"graph_nodes": 64, "own_us_per_100_nodes": 99.5}';;
*dispatch) echo '{"cases": [{"name": "all", "overhead_ns_p50": 60.4}]}';;
*record) echo '{"record_us_p50": 2, "driver_us_p50": 1}';;
esac""",
    "coppice-probe": """folder=${2#--output=}
case "$3" in
legality) echo row >"$folder/capture_legality.tsv";;
memory) echo row >"$folder/graph_memory.tsv";;
esac""",
    "conformance_suite": LISTED + GTEST,
    # Runs tools/run/torch_reference.py, and with -B python/tests/device_check.py.
    "python": """case "$1" in
-B) printf 'Ran 10 tests in 1.0s\\n\\nOK (skipped=5)\\n';;
*) echo '{"max_error": 1e-6, "rows": 4, "wrong_tokens": 0}';;
esac""",
}
CMAKE = """case "$1" in
-S) echo configured;;
--build) mkdir -p "$2" && cp "$(dirname "$0")"/co* "$2" && : >"$2/CTestTestfile.cmake";;
esac"""


def ends(pid):
    """Whether the process, which was ended, is gone or a zombie before long."""
    stat = pathlib.Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
    return False


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def programs(self, gpu_tests=(), **changed):
        """A folder of programs; one that is changed to None is left out."""
        folder = self.folder / "bin"
        folder.mkdir()
        scripts = {**GOOD, **{name.replace("_probe", "-probe"): changed[name] for name in changed}}
        for name, script in scripts.items():
            if script is not None:
                (folder / name).write_text(f"#!/bin/sh\n{script}\n")
                (folder / name).chmod(0o755)
        manifest = {"commit": "abc", "gpu_tests": list(gpu_tests)}
        (folder / gpu_check.MANIFEST).write_text(json.dumps(manifest))
        return folder

    def check(self, folder, *arguments, mode="--dry-run"):
        """Runs a check; returns the exit code, the stages by name and what is printed."""
        out = self.folder / "out"
        printed = io.StringIO()
        python = unittest.mock.patch.object(sys, "executable", str(folder / "python"))
        with contextlib.redirect_stdout(printed), python:
            code = gpu_check.main([str(out), *filter(None, [mode]), f"--build-dir={folder}",
                                   *arguments])
        self.summary = json.loads((out / "summary.json").read_text())
        return code, {stage["name"]: stage for stage in self.summary["stages"]}, printed.getvalue()

    def command(self, folder):
        return [ROOT / "tools" / "gpu_check.sh", self.folder / "out", "--dry-run",
                f"--build-dir={folder}"]

    def out_files(self):
        out = self.folder / "out"
        return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}

    def step(self, script, limit_s=20.0, judge=None):
        step = stages.Step("step", ["sh", "-c", script], 20, judge)
        return stages.run_step(step, self.folder / "log", processes.Budget(limit_s))

    def test_wrong_arguments_end_with_2(self):
        (self.folder / "file").write_text("")
        (self.folder / "bad").mkdir()
        (self.folder / "bad" / gpu_check.MANIFEST).write_text('{"gpu_tests": [1]}')
        file, folder, absent = (str(self.folder / name) for name in ("file", "", "absent"))
        for arguments in ([], ["--dry-run"], [folder, "more"], [folder, "--no-such-option"],
                          [folder, f"--build-dir={folder}/bad"], [file],
                          [folder, f"--build-dir={folder}/absent"], [folder, "--prebuild=x"],
                          [folder, "--wheel=coppice-1.whl"], ["--prebuild=x", f"--wheel={file}"],
                          ["--prebuild=x", "--dry-run"], [f"--prebuild={folder}"], [""],
                          [folder, f"--library={folder}"], [absent, "--build-dir="],
                          ["--prebuild="], [f"{file}/sub"], ["/proc/x"]):
            done = subprocess.run([ROOT / "tools" / "gpu_check.sh", *arguments], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(2, done.returncode, arguments)
            self.assertIn(b"gpu_check.sh: error: ", done.stderr, arguments)
            self.assertEqual(b"", done.stdout, arguments)

    def test_success_fills_out_and_ends_with_0(self):
        code, stages, printed = self.check(self.programs())
        self.assertEqual(0, code, printed)
        tables = {"capture_legality.tsv", "graph_memory.tsv"}
        self.assertEqual({*tables, "summary.json", *(f"stages/{name}.log" for name in stages if
                                                   stages[name]["status"] == "ok")},
                         self.out_files())
        self.assertTrue(self.summary["finished"])
        self.assertEqual("ok", stages["probe"]["status"])
        self.assertEqual("skipped", stages["memcheck"]["status"])
        self.assertEqual("skipped", stages["gpu_tests"]["status"])
        self.assertEqual(5, stages["run"]["steps"][0]["report"]["comparisons"])
        self.assertEqual(("abc", 0), (self.summary["built_from"], self.summary["failed"]))
        table = printed[printed.index("stage  "):].splitlines()
        self.assertEqual(1 + len(stages), len(table))

    def test_on_a_gpu_every_program_is_told_so_and_memcheck_runs_it(self):
        tests = [{"name": "graphs/x_test", "command": ["x"]}]
        folder = self.programs(tests, x=GTEST, **{
            "compute-sanitizer": """while [ "${1#/}" = "$1" ]; do shift; done
"$@" && echo ========= ERROR SUMMARY: 0 errors"""})
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        with unittest.mock.patch.dict(os.environ, PATH=path):
            code, stages, printed = self.check(folder, mode="")
        self.assertEqual(0, code, printed)
        self.assertIn("replays: ERROR SUMMARY: 0 errors", stages["memcheck"]["note"])
        commands = {name: [line for line in (self.folder / "out" / name).read_text().splitlines()
                           if line.startswith("$ ")]
                    for name in self.out_files() if name.startswith("stages/")}
        for name, lines in commands.items():
            for line in lines:
                if "bench dispatch" not in line and "nvidia-smi" not in line:
                    self.assertRegex(line, "(--device|--driver)[ =]cuda|/Cuda$|check.py cuda",
                                     name)
        self.assertEqual(1, len(commands["stages/gpu_tests.log"]))
        self.assertIn(gpu_check.FAULT_CASES, commands["stages/memcheck.log"][0])

    def test_of_the_emulated_library_little_is_asked_as_cuda(self):
        folder = self.programs([{"name": "x_test", "command": ["x"]}], x=GTEST)
        library = self.folder / "library"
        library.mkdir()
        (library / "libcuda.so.1").write_text("")
        with unittest.mock.patch.dict(os.environ):
            code, stages, printed = self.check(folder, f"--library={library}", mode="")
            self.assertEqual(str(library), os.environ["LD_LIBRARY_PATH"])
        self.assertEqual(0, code, printed)
        self.assertEqual("library", self.summary["mode"])
        for name in ("memcheck", "python"):
            self.assertEqual("skipped", stages[name]["status"])
        run = (self.folder / "out" / "stages" / "run.log").read_text()
        self.assertRegex(run, "--device cuda --shrink 64")

    def test_failing_stages_stop_no_other_and_end_with_1(self):
        code, stages, _ = self.check(self.programs(
            coppice_probe="echo lost the device; exit 3", conformance_suite=None))
        self.assertEqual(1, code)
        self.assertEqual({"probe", "conformance"}, {
            name for name, stage in stages.items() if stage["status"] == "failed"})
        self.assertEqual([3, 3], [step["exit_code"] for step in stages["probe"]["steps"]])
        self.assertIn("lost the device", stages["probe"]["note"])
        self.assertIn("conformance_suite is not in bin/; build the target conformance_suite",
                      stages["conformance"]["note"])
        self.assertEqual("ok", stages["bench"]["status"])

    def test_without_pytorch_the_package_is_served_and_not_compared(self):
        code, stages, _ = self.check(self.programs(
            python="echo \"ModuleNotFoundError: No module named 'torch'\"; exit 1"))
        self.assertEqual((0, "ok"), (code, stages["package"]["status"]))
        self.assertEqual(["ok", "ok", "skipped"],
                         [step["status"] for step in stages["package"]["steps"]])

        self.assertEqual(("skipped", "torch is not installed"),
                         (stages["python"]["status"], stages["python"]["note"]))

    def test_a_wheel_beside_the_programs_is_the_coppice_of_python(self):
        folder = self.programs()
        (folder / "coppice-1-cp312-abi3-linux_x86_64.whl").write_text("")
        _, stages, _ = self.check(folder)
        self.assertEqual("10 ran, skipped=5", stages["python"]["note"])
        log = (self.folder / "out" / "stages" / "python.log").read_text()
        self.assertRegex(log, r"device_check\.py emulator \S+/coppice-1-cp312-abi3-linux_x86_64")

    def test_an_earlier_result_is_replaced_and_other_files_stay(self):
        out = self.folder / "out"
        out.mkdir()
        for name in ("graph_memory.tsv", "mine.txt"):
            (out / name).write_text("before")
        (out / "stages").mkdir()
        (out / "stages" / "build.log").write_text("before")
        self.check(self.programs(coppice_probe="exit 1"))
        self.assertEqual({"mine.txt", "summary.json", "stages"},
                         {path.name for path in out.iterdir()})
        self.assertNotIn("stages/build.log", self.out_files())

    def test_finished_stages_are_on_disk_before_the_next_one_runs(self):
        out, copy = self.folder / "out", self.folder / "copy"
        self.check(self.programs(conformance_suite=f"{LISTED}[ -d {copy} ] || cp -r {out} {copy}\n"
                                                   f"{GTEST}"))
        early = json.loads((copy / "summary.json").read_text())
        self.assertEqual(["device", "probe"], [stage["name"] for stage in early["stages"]])
        self.assertFalse(early["finished"])
        self.assertTrue((copy / "stages" / "probe.log").is_file())
        self.assertEqual("row\n", (copy / "graph_memory.tsv").read_text())

    def test_each_suite_is_a_process_and_one_that_dies_costs_no_other(self):
        _, stages, _ = self.check(self.programs(conformance_suite=f"""{LISTED}
echo '[ RUN      ] Drivers/ATest.One/Emulator'
case "$*" in *ATest*) kill -SEGV $$;; esac
{GTEST}"""))
        steps = {step["name"]: step for step in stages["conformance"]["steps"]}
        self.assertEqual(["ATest", "BTest"], list(steps))
        self.assertEqual("failed", steps["ATest"]["status"])
        self.assertIn("in Drivers/ATest.One/Emulator", steps["ATest"]["note"])
        self.assertEqual("ok", steps["BTest"]["status"])

    def test_suites_that_cannot_be_listed_fail_their_stage(self):
        _, stages, _ = self.check(self.programs(conformance_suite="echo no device; exit 2"))
        self.assertEqual(("failed", "its suites cannot be listed: exit code 2: no device"),
                         (stages["conformance"]["status"], stages["conformance"]["note"]))

    def test_steps_beyond_the_time_of_their_stage_are_not_run(self):
        steps = [stages.Step(str(number), ["true"], 20) for number in range(9)]
        run = stages.Run(self.folder / "out", processes.Budget(20))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual("9 ok", run.perform(stages.Stage("stage", steps))["note"])
            late = run.perform(stages.Stage("late", steps, limit_s=0))
        self.assertEqual(("failed", "0: not run: the time is spent"),
                         (late["status"], late["note"]))

    def build(self, cmake, *arguments):
        """A check in a clone whose cmake is that script; returns the exit code and the stages."""
        folder = self.programs(cmake=cmake)
        (folder / gpu_check.MANIFEST).unlink()
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        with unittest.mock.patch.object(gpu_check, "ROOT", self.folder / "clone"), \
                unittest.mock.patch.object(sys, "executable", str(folder / "python")), \
                unittest.mock.patch.dict(os.environ, PATH=path), \
                contextlib.redirect_stdout(io.StringIO()):
            code = gpu_check.main([*arguments])
        summary = json.loads((self.folder / "out" / "summary.json").read_text())
        return code, {stage["name"]: stage for stage in summary["stages"]}

    def test_dry_run_in_a_clone_builds_the_release_preset_and_ends_with_0(self):
        out = str(self.folder / "out")
        for arguments in (["--dry-run", out], [out, "--dry-run"]):
            with self.subTest(arguments):
                code, stages = self.build(CMAKE, *arguments)
                self.assertEqual(0, code, stages)
                self.assertEqual("ok", stages["build"]["status"])
                self.assertTrue((self.folder / "clone" / "build" / "release" / "coppice").exists())
            shutil.rmtree(self.folder / "bin")

    def test_target_that_is_missing_is_named(self):
        code, stages = self.build("echo unknown target gpu_check_binaries; exit 1", "--dry-run",
                                  str(self.folder / "out"))
        self.assertEqual(1, code)
        self.assertIn("unknown target gpu_check_binaries", stages["build"]["note"])
        self.assertIn("build the target coppice, or gpu_check_binaries", stages["run"]["note"])

    def test_signal_ends_the_running_step_and_what_is_finished_is_written(self):
        fifo, out = self.folder / "fifo", self.folder / "out"
        folder = self.programs(coppice_probe=f"echo $$ >{fifo}; {BLOCK}")
        os.mkfifo(fifo)
        out.mkdir()
        for number in processes.SIGNALS:
            (out / "summary.json").write_text("before")
            with subprocess.Popen(self.command(folder), stdout=subprocess.DEVNULL) as process:
                probe = int(fifo.read_text())
                early = json.loads((out / "summary.json").read_text())
                self.assertEqual(["device"], [stage["name"] for stage in early["stages"]])
                process.send_signal(number)
            self.assertEqual(1, process.returncode)
            self.assertTrue(ends(probe))
            summary = json.loads((out / "summary.json").read_text())
            self.assertFalse(summary["finished"])
            notes = {stage["name"]: (stage["status"], stage["note"])
                     for stage in summary["stages"]}
            self.assertEqual("ok", notes["device"][0])
            self.assertEqual(("failed", f"legality: interrupted by {number.name}"), notes["probe"])
            self.assertIn(f"not run: interrupted by {number.name}", notes["bench"][1])

    def test_lost_listener_loses_no_result(self):
        with subprocess.Popen(self.command(self.programs()), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            process.stdout.close()
        summary = json.loads((self.folder / "out" / "summary.json").read_text())
        self.assertEqual(0, summary["failed"])

    def test_blocked_stages_end_with_the_limit_and_the_rest_is_not_run(self):
        start = time.monotonic()
        with unittest.mock.patch.object(gpu_check, "LIMIT_S", 1):
            code, stages, _ = self.check(self.programs(coppice_probe=BLOCK))
        self.assertEqual(1, code)
        self.assertIn("ended after its limit", stages["probe"]["note"])
        self.assertIn("the time is spent", stages["bench"]["note"])
        self.assertLess(time.monotonic() - start, 30, "the script blocks for ever")

    def test_gpu_tests_of_a_prebuilt_folder_run_with_their_arguments_for_one_driver(self):
        command = 'test "$*" = "one --gtest_filter=*/Emulator"'
        folder = self.programs(gpu_tests=[{"name": "graphs/x_test", "command": ["x", "one"]}],
                               x=f"{command} && {GTEST}")
        _, stages, _ = self.check(folder)
        self.assertEqual(("ok", "3 passed, 0 failed, 0 skipped"),
                         (stages["gpu_tests"]["status"], stages["gpu_tests"]["note"]))

    def test_step_past_its_limit_is_ended_with_what_it_started(self):
        outcome = self.step(f"{BLOCK} & echo $!; wait", limit_s=2)
        self.assertEqual(("failed", None), (outcome["status"], outcome["exit_code"]))
        child = int((self.folder / "log").read_text().splitlines()[-1])
        self.assertTrue(ends(child))

    def test_limit_includes_the_time_of_a_step_that_will_not_end(self):
        outcome = self.step(f"trap '' TERM; {BLOCK}", limit_s=1)
        self.assertIn("ended after its limit", outcome["note"])
        self.assertLess(outcome["seconds"], processes.GRACE_S)

    def test_what_a_step_printed_before_its_limit_is_judged(self):
        printed = "\\n".join((
            "[ RUN      ] A.One/Cuda", "[       OK ] A.One/Cuda (1 ms)", "[ RUN      ] A.Two/Cuda",
            "[  FAILED  ] A.Two/Cuda, where GetParam() = Cuda (1 ms)",
            "[ RUN      ] A.Three/Cuda", ""))
        outcome = self.step(f"printf '{printed}'; {BLOCK}", limit_s=2, judge=gpu_check.judge_gtest)
        self.assertEqual("ended after its limit of 2 s; 1 passed, 1 failed, 0 skipped, in "
                         "A.Three/Cuda", outcome["note"])
        outcome = self.step(f"echo '{{\"mismatches\": 4}}'; {BLOCK}", limit_s=2,
                            judge=gpu_check.judge_report("mismatches"))
        self.assertEqual("ended after its limit of 2 s; mismatches 4", outcome["note"])
        self.assertEqual({"mismatches": 4}, outcome["report"])
        table = self.folder / "vmm.tsv"
        table.write_text("a\nb\n")
        outcome = self.step(BLOCK, limit_s=1, judge=gpu_check.judge_table(table))
        self.assertEqual("ended after its limit of 1 s; 2 lines so far", outcome["note"])
        self.assertEqual("failed", outcome["status"])

    def test_test_that_was_not_built_fails_its_stage(self):
        folder = self.folder / "build"
        folder.mkdir()
        (folder / "CTestTestfile.cmake").write_text(
            'add_test(x "x_NOT_BUILT-NOTFOUND")\n'
            'add_test(y NOT_AVAILABLE)\nset_tests_properties(x y PROPERTIES LABELS gpu)\n')
        stage = gpu_check.gpu_tests_stage(gpu_check.Binaries(folder), "cuda", processes.Budget(20))
        self.assertIn("not built: ", stage.failed)

    def test_listing_of_tests_leaves_the_build_folder_alone(self):
        folder = self.folder / "build"
        folder.mkdir()
        (folder / "CTestTestfile.cmake").write_text(
            'add_test(x "/bin/true")\nset_tests_properties(x PROPERTIES LABELS gpu)\n'
            'add_test(y "/bin/true")\n')
        self.assertEqual([("x", ["/bin/true"])],
                         gpu_check.Binaries(folder).gpu_tests(processes.Budget(20)))
        self.assertEqual(["CTestTestfile.cmake"], [path.name for path in folder.iterdir()])

    def test_step_that_cannot_start_or_prints_nonsense_fails(self):
        absent = stages.Step("step", ["/no/such/program"], 20)
        self.assertIn("cannot be started",
                      stages.run_step(absent, self.folder / "log", processes.Budget(20))["note"])
        judge = gpu_check.judge_report("calls")
        for script in ("echo '{'", "echo nothing", 'echo \'{"other": 1}\''):
            self.assertEqual("failed", self.step(script, judge=judge)["status"], script)
        self.assertEqual("failed", self.step("kill -SEGV $$")["status"])
        self.assertEqual("not run: the time is spent", self.step("true", 0)["note"])

    def test_python_without_a_test_fails_and_without_its_packages_is_skipped(self):
        passed = "Ran 4 tests in 1s\n\nOK\n"
        self.assertEqual(("ok", "4 ran"), gpu_check.judge_unittest(0, passed))
        self.assertEqual(("failed", "exit code 1: 4 ran, failures=2"), gpu_check.judge_unittest(
            1, "Ran 4 tests in 1s\n\nFAILED (failures=2)\n"))
        self.assertEqual("failed", gpu_check.judge_unittest(-11, "Segmentation fault")[0])
        self.assertEqual("failed", gpu_check.judge_unittest(0, "")[0])
        self.assertEqual("failed", gpu_check.judge_unittest(None, "")[0])
        for name in ("torch", "triton", "coppice"):
            told = f"ModuleNotFoundError: No module named '{name}.language'"
            self.assertEqual(("skipped", f"{name} is not installed"),
                             gpu_check.judge_unittest(1, told))

    def test_memcheck_wants_a_summary_and_skips_a_device_that_it_cannot_check(self):
        clean = "========= ERROR SUMMARY: 0 errors\n"
        self.assertEqual(("ok", "ERROR SUMMARY: 0 errors"), gpu_check.judge_memcheck(0, clean))
        self.assertEqual("failed", gpu_check.judge_memcheck(0, "")[0])
        self.assertEqual("failed", gpu_check.judge_memcheck(99, clean)[0])
        self.assertEqual("skipped", gpu_check.judge_memcheck(1, "Error: Device not supported")[0])


if __name__ == "__main__":
    unittest.main()
