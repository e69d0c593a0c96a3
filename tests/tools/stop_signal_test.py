#!/usr/bin/env python3
"""Shows that a signal makes `coppice soak` print what it has.

  stop_signal_test.py COPPICE    the command to run

Method: a soak that would take days; the signal is sent once the kernel says that the process
catches it, which it does from its first checked calls on.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import unittest

COPPICE = sys.argv.pop(1)
SOAK = [COPPICE, "soak", "--replays", "1000000000000", "--buckets", "1", "--device", "host",
        "--json"]


def catches(process, number):
    caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())
    return int(caught.group(1), 16) >> (number - 1) & 1


class StopSignalTest(unittest.TestCase):
    def stop(self, number):
        """Sends the signal to a soak; returns how it ended and what it printed."""
        with subprocess.Popen(SOAK, stdout=subprocess.PIPE, text=True) as process:
            while not catches(process, number):
                self.assertIsNone(process.poll())
            process.send_signal(number)
            return process.wait(), process.stdout.read()

    def test_signal_makes_it_print_what_it_has(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            code, printed = self.stop(number)
            self.assertEqual(5, code)
            report = json.loads(printed)
            self.assertTrue(report["stopped"])
            self.assertEqual(0, report["mismatches"])


if __name__ == "__main__":
    unittest.main()
