#!/usr/bin/env python3
"""Checks the promised figures of a built command: runs it, reads its JSON, compares with the bars.

Usage: bars.py path/to/coppice. The real traces are read from the folder in COPPICE_DATA; without
it, their part is skipped and says so. Exits with 1 if a bar is missed.
"""

import json
import os
import pathlib
import subprocess
import sys

MIB = 1 << 20
ORDERS = ["asc", "desc", "random:1", "random:2", "random:3"]


class Bars:
    def __init__(self, command):
        self.command = command
        self.missed = 0

    def run(self, *arguments):
        """Runs the command with --json and returns what it prints."""
        print("coppice " + " ".join(arguments), flush=True)
        done = subprocess.run([self.command, *arguments, "--json"], stdout=subprocess.PIPE)
        if done.returncode != 0:
            self.expect(False, f"exit code {done.returncode}")
        return json.loads(done.stdout) if done.stdout else {}

    def expect(self, held, what):
        print(f"  {'ok    ' if held else 'MISSED'}  {what}", flush=True)
        self.missed += not held

    def at_least(self, report, key, bar):
        value = report.get(key, float("-inf"))
        self.expect(value >= bar, f"{key} {value} >= {bar}")

    def at_most(self, report, key, bar):
        value = report.get(key, float("inf"))
        self.expect(value <= bar, f"{key} {value} <= {bar}")


def check_memory(bars, report):
    height, live = report["pool_height_bytes"], report["max_bucket_live_bytes"]
    bars.expect(0 < live <= height <= 1.02 * live, f"pool height {height} <= 1.02 x live {live}")
    bars.at_most(report, "pool_mapped_bytes", -(-height // (2 * MIB)) * 2 * MIB)


def check_demo(bars):
    report = bars.run("run")
    bars.at_least(report, "requests", 2000)
    bars.at_most(report, "mismatches", 0)
    bars.at_least(report, "prefill_buckets", 8)
    bars.at_least(report, "decode_buckets", 6)
    bars.at_least(report, "replay_pct_after_record", 95)
    bars.at_most(report, "wall_seconds", 180)
    check_memory(bars, report)


def check_orders(bars):
    heights = set()
    for order in ORDERS:
        report = bars.run("run", "--order", order, "--requests", "100")
        bars.at_most(report, "mismatches", 0)
        check_memory(bars, report)
        heights.add(report["pool_height_bytes"])
    bars.expect(len(heights) == 1, f"one pool height for every order: {sorted(heights)}")


def check_real_traces(bars):
    folder = os.environ.get("COPPICE_DATA")
    if not folder:
        print("real traces: skipped, because COPPICE_DATA is not set")
        return
    for name in ("azure23_conv.csv", "azure23_code.csv"):
        trace = str(pathlib.Path(folder, name))
        report = bars.run("run", trace, "--limit", "200", "--verify=all", "--poison")
        bars.at_least(report, "verified_requests", 200)
        bars.at_least(report, "comparisons", 200)
        bars.at_most(report, "mismatches", 0)


def check_benchmarks(bars):
    cases = {case["name"]: case for case in bars.run("bench", "dispatch").get("cases", [])}
    promised = {"all_static": 1, "two_staged": 2, "siblings_1000": 1, "static_200": 1}
    bars.expect(promised.keys() <= cases.keys(), f"cases {sorted(cases)}")
    for name, driver_calls in promised.items():
        case = cases.get(name, {})
        bars.at_most(case, "overhead_ns_p50", 250)
        bars.at_most(case, "heap_allocs", 0)
        bars.at_most(case, "driver_calls", driver_calls)
        if case.get("instructions") is not None:
            bars.at_most(case, "instructions", 1000)
    report = bars.run("bench", "record")
    bars.at_least(report, "nodes", 100)
    bars.at_most(report, "device_syncs", 0)
    share = report["own_us_p50"]
    bars.expect(share <= 1000, f"our share of a recording {share:.1f} us <= 1000")


def main():
    bars = Bars(sys.argv[1])
    check_demo(bars)
    check_orders(bars)
    check_real_traces(bars)
    check_benchmarks(bars)
    print(f"bars.py: {bars.missed} missed")
    return 1 if bars.missed else 0


if __name__ == "__main__":
    sys.exit(main())
