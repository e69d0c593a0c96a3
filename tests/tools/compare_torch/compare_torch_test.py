#!/usr/bin/env python3
"""Shows that compare_torch.py keeps what it can, whatever the programs it runs do.

Goal: one run of both sides, from which no failure, signal or limit takes what was finished.
Method: the programs are scripts that print a report, fail, print nonsense or block for ever.
"""

import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "compare_torch"
sys.path.insert(0, str(TOOL))
sys.dont_write_bytecode = True
import compare_torch  # noqa: E402

BLOCK = "tail -f /dev/null"
MODEL = '"model": {"layers": 2, "rms_eps": 1e-5}, "batches": [1, 512]'
COPPICE = f"""case "$1 $2" in
info*) echo '{{"device": "fake", "driver": "emulator"}}';;
*buckets|*decode|*suspend) echo '{{"section": "'$2'", {MODEL},
  "cases": [{{"kernels_per_step": 2}}]}}';;
*) echo '{{"section": "'$2'"}}';;
esac"""
TORCH_SIDE = "import json, sys; print(json.dumps({'arguments': sys.argv[1:]}))"

LONG_CSV = """==PROF== Connected to process 7
==PROF== Disconnected from process 7
"ID","Process ID","Kernel Name","Context","Metric Name","Metric Unit","Metric Value"
"0","7","Clear(int)","1","gpu__time_duration.sum","ns","9,000"
"1","7","coppice::EmbedKernel(EmbedParams)","1","gpu__time_duration.sum","ns","1,500"
"2","7","void coppice::Norm<1>(NormParams)","1","gpu__time_duration.sum","ns","500"
"3","7","coppice::EmbedKernel(EmbedParams)","1","gpu__time_duration.sum","usecond","2.5"
"4","7","void coppice::Norm<1>(NormParams)","1","gpu__time_duration.sum","nsecond","500"
"5","7","coppice::EmbedKernel(EmbedParams)","1","gpu__time_duration.sum","ns","1,700"
"""
WIDE_CSV = """"ID","Kernel Name","gpu__time_duration.sum"
"","","ns"
"0","Embed","1,500"
"1","Norm","500"
"""


class CompareTorchTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.out = self.folder / "out"

    def programs(self, coppice=COPPICE, **others):
        """A folder with a program for each script."""
        folder = self.folder / "bin"
        folder.mkdir()
        for name, script in {"coppice": coppice, **others}.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        return folder

    def compare(self, folder, *arguments, torch_side=TORCH_SIDE, mode=("--dry-run",)):
        """Runs it; returns the exit code, the sections and what is printed."""
        fake = self.folder / "torch_side.py"
        fake.write_text(torch_side)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), \
                unittest.mock.patch.object(compare_torch, "TORCH_SIDE", fake), \
                unittest.mock.patch.object(compare_torch, "TORCH_INFO", "print('{\"torch\": 1}')"):
            code = compare_torch.main([str(self.out), f"--build-dir={folder}", *mode, *arguments])
        self.result = json.loads((self.out / compare_torch.RESULT).read_text())
        return code, self.result["sections"], printed.getvalue()

    def command(self, folder, *arguments):
        return [sys.executable, TOOL / "compare_torch.py", self.out, "--dry-run",
                "--no-torch", f"--build-dir={folder}", *arguments]

    def test_wrong_arguments_end_with_2(self):
        (self.folder / "file").write_text("")
        (self.folder / "taken" / compare_torch.RESULT).mkdir(parents=True)
        programs = f"--build-dir={self.programs()}"
        out = str(self.out)
        for arguments in ([], [programs], [out, programs, "more"], [out, programs, "--limit=0"],
                          [out, programs, "--sections=steps,unknown"], ["", programs],
                          [out, programs, "--sections="], [out, f"--build-dir={self.folder}"],
                          [out, "--build-dir=absent"], [f"{self.folder}/file", programs],
                          [f"{self.folder}/taken", programs], [out, programs, "--no-such-option"]):
            done = subprocess.run([sys.executable, TOOL / "compare_torch.py", *arguments],
                                  check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(2, done.returncode, arguments)
            self.assertIn(b"compare_torch.py: error: ", done.stderr, arguments)

    def test_success_writes_a_file_and_logs_and_runs_torch_directly_after_coppice(self):
        code, sections, printed = self.compare(self.programs())
        self.assertEqual(0, code, printed)
        self.assertEqual({"compare.json", "stages"}, {path.name for path in self.out.iterdir()})
        self.assertEqual({f"{section}.log" for section in compare_torch.SECTIONS},
                         {path.name for path in (self.out / "stages").iterdir()})
        self.assertEqual(list(compare_torch.SECTIONS), list(sections))
        for section in ("steps", "buckets", "decode", "suspend"):
            self.assertEqual(["coppice", "torch"], list(sections[section]), section)
        self.assertTrue(self.result["finished"])
        table = printed[printed.index("stage "):].splitlines()
        self.assertEqual(1 + sum(map(len, sections.values())), len(table))

    def test_commands_are_kept_without_the_paths_of_the_machine(self):
        _, sections, _ = self.compare(self.programs())
        self.assertEqual(["coppice", "soak", "--json", "--quiet", "--device", "host"],
                         sections["soak"]["coppice"]["command"])
        self.assertEqual("torch_side.py", sections["steps"]["torch"]["command"][1])
        self.assertNotIn(str(self.folder), json.dumps(
            [part.get("command") for sides in sections.values() for part in sides.values()]))

    def test_torch_measures_the_model_and_batches_that_coppice_measured(self):
        _, sections, _ = self.compare(self.programs())
        for section in ("buckets", "suspend"):
            arguments = sections[section]["torch"]["report"]["arguments"]
            self.assertEqual("1,512", arguments[arguments.index("--batches") + 1], section)
        for section in ("buckets", "decode", "suspend"):
            arguments = sections[section]["torch"]["report"]["arguments"]
            model = json.loads(arguments[arguments.index("--model") + 1])
            self.assertEqual({"layers": 2, "rms_eps": 1e-5}, model, section)
        self.assertNotIn("--model", sections["steps"]["torch"]["report"]["arguments"])

    def test_model_of_another_section_stands_in_for_one_that_failed(self):
        coppice = f'if [ "$2" = decode ]; then exit 3; fi\n{COPPICE}'
        _, sections, _ = self.compare(self.programs(coppice))
        self.assertIn("--model", sections["decode"]["torch"]["report"]["arguments"])

    def test_on_a_gpu_every_program_is_told_so_and_has_all_its_samples(self):
        ncu = """while [ "$1" != --log-file ]; do shift; done
cat >"$2" <<'END'
""" + LONG_CSV + "END\nshift 2; exec \"$@\""
        folder = self.programs(ncu=ncu)
        with unittest.mock.patch.dict(os.environ, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"):
            _, sections, _ = self.compare(folder, mode=())
        for section, sides in sections.items():
            for side in ("coppice", "torch"):
                command = sides.get(side, {}).get("command", [])
                if command and section != "dispatch" and (section, side) != ("info", "torch"):
                    self.assertEqual("cuda", command[command.index("--device") + 1], section)
                if section != "kernels":
                    self.assertNotIn("--samples", command)
        kernels = sections["kernels"]["coppice"]["report"]
        self.assertEqual((2, 2), (kernels["kernels"], kernels["launched"]))

    def test_failing_programs_stop_no_other_and_end_with_1(self):
        coppice = f'if [ "$2" = steps ]; then echo lost the device >&2; exit 3; fi\n{COPPICE}'
        code, sections, printed = self.compare(self.programs(coppice), torch_side="print('hm')")
        self.assertEqual(1, code)
        steps = sections["steps"]["coppice"]
        self.assertEqual(("exit code 3", "lost the device"), (steps["failed"], steps["tail"]))
        self.assertIn("not understood", sections["decode"]["torch"]["failed"])
        self.assertIn("report", sections["soak"]["coppice"])
        self.assertRegex(printed, r"steps\.coppice +failed")

    def test_report_of_a_failing_program_is_kept(self):
        coppice = f'if [ "$1" = soak ]; then echo \'{{"mismatches": 4}}\'; exit 1; fi\n{COPPICE}'
        code, sections, _ = self.compare(self.programs(coppice))
        self.assertEqual(1, code)
        self.assertEqual(({"mismatches": 4}, "exit code 1"), tuple(
            sections["soak"]["coppice"][key] for key in ("report", "failed")))

    def test_side_that_measured_nothing_fails_on_a_gpu_alone(self):
        torch_side = "print('{\"skipped\": \"needs a CUDA device\"}')"
        folder = self.programs()
        for mode, key in ((("--dry-run",), "skipped"), ((), "failed")):
            _, sections, _ = self.compare(folder, "--sections=steps", torch_side=torch_side,
                                          mode=mode)
            self.assertEqual("needs a CUDA device", sections["steps"]["torch"][key])

    def test_torch_can_be_left_out(self):
        code, sections, _ = self.compare(self.programs(), "--no-torch")
        self.assertEqual(0, code)
        self.assertEqual({"skipped": "--no-torch"}, sections["steps"]["torch"])
        self.assertNotIn("torch", sections["info"])

    def test_finished_sections_are_on_disk_before_the_next_one_runs(self):
        copy = self.folder / "copy"
        coppice = f'if [ "$2" = suspend ]; then cp -r {self.out} {copy}; fi\n{COPPICE}'
        self.compare(self.programs(coppice))
        early = json.loads((copy / compare_torch.RESULT).read_text())
        self.assertFalse(early["finished"])
        self.assertEqual(list(compare_torch.SECTIONS)[:-1], list(early["sections"]))
        self.assertEqual({f"{section}.log" for section in early["sections"]},
                         {path.name for path in (copy / "stages").iterdir()})

    def test_no_file_of_gpu_check_has_the_name_of_one_of_a_comparison(self):
        self.assertFalse({*compare_torch.SECTIONS} & {*compare_torch.gpu_check.STAGES})
        self.assertFalse(compare_torch.gpu_check.is_result(compare_torch.RESULT))

    def test_dry_run_takes_the_programs_that_the_readme_builds(self):
        with unittest.mock.patch.object(compare_torch.gpu_check, "ROOT", self.folder):
            for arguments in (["--dry-run", "out"], ["out", "--dry-run"]):
                with contextlib.redirect_stderr(io.StringIO()) as told:
                    self.assertRaises(SystemExit, compare_torch.parse, arguments)
                self.assertIn(f"coppice is not in {self.folder}/build/release", told.getvalue())

    def test_signal_ends_the_running_process_and_what_is_finished_is_written(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        coppice = f'if [ "$2" = steps ]; then echo $$ >{fifo}; {BLOCK}; fi\n{COPPICE}'
        for number in (signal.SIGTERM, signal.SIGINT):
            folder = self.folder / "bin"
            with subprocess.Popen(self.command(folder if folder.exists() else
                                               self.programs(coppice)),
                                  stdout=subprocess.DEVNULL) as process:
                blocked = int(fifo.read_text())
                process.send_signal(number)
            self.assertEqual(1, process.returncode)
            self.assertFalse(pathlib.Path(f"/proc/{blocked}").exists())
            result = json.loads((self.out / compare_torch.RESULT).read_text())
            self.assertFalse(result["finished"])
            self.assertIn("report", result["sections"]["record"]["coppice"])
            self.assertEqual(f"interrupted by {number.name}",
                             result["sections"]["steps"]["coppice"]["failed"])
            self.assertIn("not run", result["sections"]["suspend"]["coppice"]["failed"])
            self.assertTrue((self.out / "stages" / "steps.log").is_file())

    def test_blocked_program_ends_with_the_limit_and_what_it_printed_is_kept(self):
        start = time.monotonic()
        coppice = f'if [ "$2" = steps ]; then echo \'{{"half": 1}}\'; {BLOCK}; fi\n{COPPICE}'
        code, sections, _ = self.compare(self.programs(coppice), "--no-torch", "--limit=2")
        self.assertEqual(1, code)
        self.assertIn("ended after its limit", sections["steps"]["coppice"]["failed"])
        self.assertEqual({"half": 1}, sections["steps"]["coppice"]["report"])
        self.assertEqual(list(compare_torch.SECTIONS), list(sections))
        self.assertLess(time.monotonic() - start, 30, "the script blocks for ever")

    def test_expected_times_fit_into_the_limit_and_none_is_above_its_own(self):
        expected_s = sum(part.expected_s for part in compare_torch.MEASURES)
        self.assertLessEqual(expected_s + 30, compare_torch.LIMIT_S, "info needs some too")
        for part in compare_torch.MEASURES:
            self.assertLess(part.expected_s, part.limit_s, part)

    def test_process_leaves_those_after_it_their_time(self):
        part, *later = compare_torch.MEASURES
        later_s = sum(each.expected_s for each in later)
        for left_s, chosen, torch, allowed_s in (
                (later_s + 100, compare_torch.SECTIONS, True, 100),
                (later_s + 1000, compare_torch.SECTIONS, True, part.limit_s),
                (later_s, compare_torch.SECTIONS, True, part.expected_s),
                (100, [part.section], True, 100),
                (later_s, compare_torch.SECTIONS, False, part.limit_s)):
            budget = unittest.mock.Mock()
            budget.left_s.return_value = left_s
            run = compare_torch.Comparison(None, budget, self.folder, False, torch, chosen)
            self.assertEqual(allowed_s, run.allowed_s(part), (left_s, chosen, torch))

    def test_what_has_no_other_side_comes_before_the_sides_that_are_compared(self):
        sides = [part.side for part in compare_torch.MEASURES]
        alone = sides.index("torch") - 1
        self.assertEqual(["dispatch", "record", "soak", "kernels"],
                         [part.section for part in compare_torch.MEASURES[:alone]])
        self.assertEqual(["coppice", "torch"] * ((len(sides) - alone) // 2), sides[alone:])

    def test_vanished_out_ends_with_1_and_says_so(self):
        coppice = f'if [ "$1" = soak ]; then rm -r {self.out}; fi\n{COPPICE}'
        done = subprocess.run(self.command(self.programs(coppice)), check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertEqual(1, done.returncode)
        self.assertIn(b"OUT cannot be written", done.stderr)

    def test_logs_hold_what_the_programs_said(self):
        self.compare(self.programs(f"echo a note >&2\n{COPPICE}"), "--sections=record")
        self.assertIn("a note\n", (self.out / "stages" / "record.log").read_text())

    def test_numbers_keep_six_digits_and_long_lists_their_quantiles_and_ends(self):
        values = list(range(100_001))
        report = compare_torch.read_report(json.dumps(
            {"us": values, "eps": 1e-5, "time": 12.3456789, "names": ["a"] * 3}))
        self.assertEqual((1e-5, 12.3457, ["a"] * 3),
                         tuple(report[key] for key in ("eps", "time", "names")))
        self.assertEqual(compare_torch.LIST_MAX, len(report["us"]))
        self.assertEqual((0, 100_000), (report["us"][0], report["us"][-1]))
        self.assertAlmostEqual(50_000, report["us"][len(report["us"]) // 2], delta=10)

    def test_kernel_times_are_read_in_both_forms_of_ncu_whatever_their_unit(self):
        self.assertEqual([("Embed", 1.5), ("Norm", 0.5)], compare_torch.rows_of_ncu(WIDE_CSV))
        times = [round(us, 6) for _, us in compare_torch.rows_of_ncu(LONG_CSV)]
        self.assertEqual([9.0, 1.5, 0.5, 2.5, 0.5, 1.7], times)

    def test_kernels_are_summed_by_step_without_strangers_and_the_step_cut_off(self):
        report = compare_torch.summarize_kernels(LONG_CSV)
        self.assertEqual(([2.0, 3.0], 2, 2),
                         tuple(report[key] for key in ("sum_us", "steps", "kernels")))
        self.assertEqual([{"name": "EmbedKernel", "launches": 1, "us": 2.0},
                          {"name": "Norm", "launches": 1, "us": 0.5}], report["by_name"])

    def test_output_of_ncu_without_a_decode_step_is_refused(self):
        for text in ("", "==ERROR== ERR_NVGPUCTRPERM", LONG_CSV.replace("Embed", "Other")):
            self.assertRaises(ValueError, compare_torch.summarize_kernels, text)

    def test_ncu_that_fails_leaves_a_reason(self):
        folder = self.programs(ncu="echo no permission >&2; exit 9")
        with unittest.mock.patch.dict(os.environ, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"):
            _, sections, _ = self.compare(folder, "--sections=kernels", mode=())
        self.assertEqual(("exit code 9", "no permission"), tuple(
            sections["kernels"]["coppice"][key] for key in ("failed", "tail")))


if __name__ == "__main__":
    unittest.main()
