#!/usr/bin/env python3
"""Goal: tools/run/convert_azure.py makes of Azure's rows what `coppice run` reads, or says why not.
Method: generated rows whose seconds and tokens are known, and damaged ones; the script itself.
"""

import datetime
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "run" / "convert_azure.py"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
START = datetime.datetime(2023, 11, 16, 23, 59, 59, 680590)  # Midnight comes within a trace.
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))


class ConvertAzureTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.raw = pathlib.Path(scratch.name) / "raw.csv"

    def convert(self, lines, end="\n"):
        """Exit code, output and errors for a file of these lines."""
        self.raw.write_bytes((end.join(lines) + end).encode())
        done = subprocess.run([sys.executable, SCRIPT, self.raw], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stdout, done.stderr

    def test_rows_become_seconds_since_the_first_and_tokens(self):
        draw = random.Random(SEED)
        lines, expected, micros = [HEADER], ["arrival_seconds,input_tokens,output_tokens"], 0
        for _ in range(200):
            prompt, answer = draw.randrange(1, 10_000), draw.randrange(1, 2_000)
            stamp = START + datetime.timedelta(microseconds=micros)
            # A seventh digit of the second is in Azure's files, and of no use.
            lines.append(f"{stamp.strftime('%Y-%m-%d %H:%M:%S.%f')}{draw.randrange(10)},"
                         f"{prompt},{answer}")
            expected.append(f"{micros // 1_000_000}.{micros % 1_000_000:06},{prompt},{answer}")
            micros += draw.randrange(10_000_000)
        for end in ("\n", "\r\n"):
            self.assertEqual((0, "\n".join(expected) + "\n", ""), self.convert(lines, end))

    def test_seconds_need_no_fraction_and_may_have_a_zone(self):
        for stamps in (("2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:01+00:00"),
                       ("2025-11-12T00:00:00.00993Z", "2025-11-12T00:00:01Z"),
                       ("2023-11-16 18:15:46.0099300", "2023-11-16 18:15:47"),
                       ("2024-05-10 00:00:00.009930+00:00", "2024-05-09 22:30:01-01:30")):
            with self.subTest(stamps):
                rows = [f"{stamp},374,44" for stamp in stamps]
                self.assertEqual(
                    (0, "arrival_seconds,input_tokens,output_tokens\n0.000000,374,44\n"
                        "0.990070,374,44\n", ""), self.convert([HEADER, *rows]))

    def test_what_is_no_trace_of_azure_is_refused_by_line_and_nothing_is_written(self):
        row = "2023-11-16 18:15:46.6805900,374,44"
        for lines, what in (([HEADER], ":1: there is a header and no request"),
                            (["TIMESTAMP,ContextTokens", row], ":1: there is no column Generated"),
                            ([HEADER, row, "yesterday,1,1"], ":3: "),
                            ([HEADER, row.replace("374", "many")], ":2: "),
                            ([HEADER, row, row, "2023-11-16 18:15:46.6805900"], ":4: ")):
            code, out, errors = self.convert(lines)
            self.assertEqual((1, ""), (code, out), lines)
            self.assertIn(f"convert_azure.py: {self.raw}{what}", errors)
            self.assertEqual(1, errors.count("\n"), errors)

    def test_missing_file_is_one_line_and_wrong_arguments_end_with_2(self):
        for arguments, code, what in ((["absent.csv"], 1, "absent.csv: No such file"),
                                      ([], 2, "RAW"), (["a", "b"], 2, "unrecognized")):
            done = subprocess.run([sys.executable, SCRIPT, *arguments], check=False, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((code, ""), (done.returncode, done.stdout), arguments)
            self.assertIn(what, done.stderr)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
