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
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "compare_torch"
sys.path.insert(0, str(TOOL))
sys.dont_write_bytecode = True
import compare_torch  # noqa: E402

COPPICE = """case "$*" in
*--only*) echo '{"cases": [{"kernels_per_step": 2}]}';;
*buckets*|*decode*|*suspend*)
  echo '{"model": {"layers": 2, "rms_eps": 1e-5}, "batches": [1, 512]}';;
soak*) echo '{"replays": 1, "records": 1, "evictions": 1, "mismatches": 0, "flat": true}';;
*) echo a note >&2; echo '{"section": "'$2'"}';;
esac"""
TORCH_SIDE = "import json, sys; print(json.dumps({'arguments': sys.argv[1:]}))"
NCU_CSV = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Context","Metric Name","Metric Unit","Metric Value"
"0","7","Clear(int)","1","gpu__time_duration.sum","ns","9,000"
"1","7","coppice::EmbedKernel(EmbedParams)","1","gpu__time_duration.sum","ns","1,500"
"2","7","void coppice::Norm<1>(NormParams)","1","gpu__time_duration.sum","ns","500"
"3","7","coppice::EmbedKernel(EmbedParams)","1","gpu__time_duration.sum","ns","2,500"
"4","7","void coppice::Norm<1>(NormParams)","1","gpu__time_duration.sum","ns","500"
"5","7","coppice::EmbedKernel(EmbedParams)","1","gpu__time_duration.sum","ns","1,700"
"""
NCU = f"cat <<'END'\n{NCU_CSV}END\n" + 'while [ "${1#/}" = "$1" ]; do shift; done; exec "$@"'
ALL = ["info", *compare_torch.SECTIONS]


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
        """Runs it; returns the exit code, the steps by stage and name, and what is printed."""
        fake = self.folder / "torch_side.py"
        fake.write_text(torch_side)
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), \
                unittest.mock.patch.dict(os.environ, PATH=path), \
                unittest.mock.patch.object(compare_torch, "TORCH_SIDE", fake), \
                unittest.mock.patch.object(compare_torch, "TORCH_INFO", "print('{\"torch\": 1}')"):
            code = compare_torch.main([str(self.out), f"--build-dir={folder}", *mode, *arguments])
        return code, self.steps(), printed.getvalue()

    def steps(self, out=None):
        summary = json.loads(((out or self.out) / "summary.json").read_text())
        return {stage["name"]: {step["name"]: step for step in stage["steps"]}
                for stage in summary["stages"]}

    def commands(self, section):
        lines = (self.out / "stages" / f"{section}.log").read_text().splitlines()
        return [line[2:].split() for line in lines if line.startswith("$ ")]

    def test_wrong_arguments_end_with_2(self):
        (self.folder / "file").write_text("")
        programs = f"--build-dir={self.programs()}"
        out = str(self.out)
        for arguments in ([], [programs], [out, programs, "more"],
                          [out, programs, "--sections=steps,unknown"], ["", programs],
                          [out, programs, "--sections="], [out, f"--build-dir={self.folder}"],
                          [f"{self.folder}/file", programs], [out, programs, "--no-such-option"]):
            done = subprocess.run([sys.executable, TOOL / "compare_torch.py", *arguments],
                                  check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(2, done.returncode, arguments)
            self.assertIn(b"compare_torch.py: error: ", done.stderr, arguments)

    def test_success_writes_results_and_runs_torch_directly_after_coppice(self):
        code, steps, printed = self.compare(self.programs())
        self.assertEqual(0, code, printed)
        self.assertEqual({"summary.json", "tables.md", "stages"},
                         {path.name for path in self.out.iterdir()})
        self.assertEqual(ALL, list(steps))
        for section in ("steps", "buckets", "decode", "suspend"):
            self.assertEqual(["coppice", "torch"], list(steps[section]), section)
        self.assertIn("a note\n", (self.out / "stages" / "record.log").read_text())

    def test_torch_measures_the_model_and_batches_that_coppice_measured(self):
        coppice = f'if [ "$2" = decode ]; then exit 3; fi\n{COPPICE}'
        _, steps, _ = self.compare(self.programs(coppice))
        for section in ("buckets", "suspend", "decode"):  # The last has that of another section.
            arguments = steps[section]["torch"]["report"]["arguments"]
            model = json.loads(arguments[arguments.index("--model") + 1])
            self.assertEqual({"layers": 2, "rms_eps": 1e-5}, model, section)
            if section != "decode":
                self.assertEqual("1,512", arguments[arguments.index("--sizes") + 1], section)
        self.assertNotIn("--model", steps["steps"]["torch"]["report"]["arguments"])

    def test_on_a_gpu_every_program_is_told_so_and_has_all_its_samples(self):
        _, steps, _ = self.compare(self.programs(ncu=NCU), mode=())
        for section in compare_torch.SECTIONS:
            for command in self.commands(section):
                if section != "dispatch":
                    self.assertEqual("cuda", command[command.index("--device") + 1], section)
                if section != "kernels":
                    self.assertNotIn("--repetitions", command)
        kernels = steps["kernels"]["coppice"]["report"]
        self.assertEqual((2, 2, [2.0, 3.0]),
                         tuple(kernels[key] for key in ("kernels", "launched", "sum_us")))
        self.assertEqual([{"name": "EmbedKernel", "launches": 1, "us": 2.0},
                          {"name": "Norm", "launches": 1, "us": 0.5}], kernels["by_name"])

    def test_output_of_ncu_without_a_decode_step_is_refused(self):
        for text in ("", "==ERROR== ERR_NVGPUCTRPERM", NCU_CSV.replace("Embed", "Other")):
            self.assertRaises(ValueError, compare_torch.summarize_kernels, text)

    def test_failing_programs_stop_no_other_and_end_with_1(self):
        coppice = f"""case "$1 $2" in *steps) echo lost the device >&2; exit 3;;
soak*) echo '{{"mismatches": 4}}'; exit 1;; esac
{COPPICE}"""
        code, steps, printed = self.compare(self.programs(coppice), torch_side="print('hm')")
        self.assertEqual(1, code)
        self.assertEqual("exit code 3: lost the device", steps["steps"]["coppice"]["note"])
        self.assertEqual("it printed no report: hm", steps["decode"]["torch"]["note"])
        self.assertEqual(("failed", {"mismatches": 4}), tuple(
            steps["soak"]["coppice"][key] for key in ("status", "report")))
        self.assertRegex(printed, r"steps +failed")

    def test_side_that_measured_nothing_fails_on_a_gpu_alone(self):
        folder = self.programs()
        for mode, status in ((("--dry-run",), "skipped"), ((), "failed")):
            _, steps, _ = self.compare(folder, "--sections=steps", mode=mode,
                                       torch_side="print('{\"skipped\": \"no CUDA device\"}')")
            self.assertEqual((status, "no CUDA device"), tuple(
                steps["steps"]["torch"][key] for key in ("status", "note")))
        self.assertEqual(["info", "steps"], list(steps))


if __name__ == "__main__":
    unittest.main()
