"""What a replayed call costs from Python, compared with the same call from C: `coppice bench
python`.

Both languages call on the emulator. It queues launches and runs them between the batches, so only
the host's work up to the launch is compared. Batches of the two take turns. Figures are medians.
"""

import argparse
import json
import statistics
import sys
import time

from coppice import _core
from coppice.devices import device

BATCH = 100  # Calls; few enough to be queued.
ROWS, COLUMNS = 8, 4
SPEC = {
    "name": "bench", "claim": "row_independent",
    "symbols": [{"name": "rows", "policy": ("pow2", 64)}],
    "inputs": [{"name": name, "dtype": "f32", "shape": ["rows", COLUMNS]} for name in "xy"],
    "outputs": [{"name": "z", "dtype": "f32", "shape": ["rows", COLUMNS]}],
}


def per_call(call, on):
    """Nanoseconds per call in one batch, without the emulator's work after it."""
    start = time.perf_counter_ns()
    for _ in range(BATCH):
        call()
    taken = time.perf_counter_ns() - start
    on.synchronize()
    return taken / BATCH


def measure(batches):
    """Medians in nanoseconds: of a call from each language, and of the difference."""
    on = device("emulator")
    session = _core.Session(on)
    program = session.register_callable(SPEC, lambda context: context.output(0))
    inputs = [on.empty((ROWS, COLUMNS), "f32") for _ in range(2)]
    ways = {"run": lambda: program.run(inputs), "call": lambda: program(inputs)}
    for call in ways.values():
        for _ in range(3):  # Warm-up, recording, the first replay.
            call()
    taken, beyond = {name: [] for name in ("c", *ways)}, {name: [] for name in ways}
    held = session.memory()["total"]
    for _ in range(batches):
        taken["c"].append(program._time_runs(inputs, BATCH))
        on.synchronize()
        for name, call in ways.items():
            taken[name].append(per_call(call, on))
            beyond[name].append(taken[name][-1] - taken["c"][-1])
    grown = session.memory()["total"] - held
    session.close()
    return {"calls": batches * BATCH, "inputs": len(inputs), "c_ns_p50": median(taken["c"]),
            **{f"{name}_ns_p50": median(taken[name]) for name in ways},
            **{f"{name}_beyond_ns_p50": median(beyond[name]) for name in ways},
            "device_bytes_grown": grown}


def median(numbers):
    return round(statistics.median(numbers), 1)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="coppice bench python",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=201,
                        help="number of batches of 100 calls (default: 201)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.batches < 1:
        parser.error(f"--batches is {options.batches}; give at least 1")
    figures = measure(options.batches)
    if options.json:
        print(json.dumps(figures, indent=2))
        return 0
    print(f"{'a replay with 2 inputs':<28}{'ns':>9}{'beyond C':>11}")
    print(f"{'coppice_run, from C':<28}{figures['c_ns_p50']:>9}")
    for name, title in (("run", "program.run(inputs)"), ("call", "program(inputs)")):
        print(f"{title:<28}{figures[f'{name}_ns_p50']:>9}{figures[f'{name}_beyond_ns_p50']:>11}")
    print(f"device memory grew by {figures['device_bytes_grown']} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
