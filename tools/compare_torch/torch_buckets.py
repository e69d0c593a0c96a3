"""The sections that record many graphs into one pool: buckets and recapture."""

import random
import sys
import threading
import time

from notes import one_line, progress, rounded
from torch_ways import Workload

GRAPHS = 64  # Of recapture.
ORDERS = ("asc", "desc", "random:1")
STALL_S_MIN, STALL_S_MAX = 0.2, 5.0
STALL_ROUNDS_MAX = 2000
SWITCH_INTERVAL_S = 1e-5


class Recording:
    """Graphs of some batch sizes, in that order, in a pool of their own."""

    def __init__(self, workload, batches, held=False):
        device = workload.device
        self.pool = device.pool()
        self.graphs, self.results, self.record_ms = [], [], []
        for batch in batches:
            step = workload.step(batch)
            start = time.perf_counter_ns()
            graph, results = device.capture(step, self.pool)
            self.record_ms.append((time.perf_counter_ns() - start) / 1e6)
            self.graphs.append(graph)
            if held:
                self.results.append(results)
            del results  # The next recording may take its memory.

    def nodes(self, device):
        return device.nodes(*self.graphs)

    def replay(self):
        for graph in self.graphs:
            graph.replay()


def prepare(workload, batches):
    """Runs and records everything once, so that what stays afterwards is there before."""
    device = workload.device
    for batch in batches:
        device.warm_up(workload.step(batch))
    Recording(workload, [max(batches)]).replay()
    device.release()


def in_order(batches, order):
    if order == "asc":
        return sorted(batches)
    if order == "desc":
        return sorted(batches, reverse=True)
    shuffled = list(batches)
    random.Random(int(order.partition(":")[2])).shuffle(shuffled)
    return shuffled


def record_case(workload, order, batches, held, free_bytes):
    """Records, replays once, weighs and drops; `free_bytes` there were before anything."""
    device = workload.device
    progress(f"buckets: {order}, {'held' if held else 'dropped'}")
    recording = Recording(workload, batches, held)
    recording.replay()
    case = {"order": order, "outputs": "held" if held else "dropped", "buckets": len(batches),
            "nodes": recording.nodes(device), "own_bytes": device.pool_bytes(recording.pool),
            "driver_bytes": free_bytes - device.free_bytes(),
            "record_ms": rounded(recording.record_ms), "recorded": batches}
    del recording
    device.release()
    # What the driver keeps of dropped graphs; the next case may take it.
    return {**case, "left_bytes": free_bytes - device.free_bytes()}


def buckets(device, options, report):
    """The largest alone goes first: the driver keeps memory of graphs that are gone."""
    workload = Workload(device, options, report)
    report.update({"batches": options.sizes, "cases": []})
    prepare(workload, options.sizes)
    free_bytes = device.free_bytes()
    cases = [("largest", [max(options.sizes)], False)]
    cases += [(order, in_order(options.sizes, order), held)
              for held in (False, True) for order in ORDERS]
    for order, batches, held in cases:
        try:
            report["cases"].append(record_case(workload, order, batches, held, free_bytes))
        except Exception as error:
            report["cases"].append({"order": order, "outputs": "held" if held else "dropped",
                                    "skipped": one_line(error)})
            progress(f"  {report['cases'][-1]['skipped']}")
    progress("buckets: stall")
    try:
        report["stall"] = stall(workload, options.sizes)
    except Exception as error:
        report["stall"] = {"skipped": one_line(error)}


class Prober(threading.Thread):
    """Runs `tick` over and over and notes when each run began and ended, until it is stopped."""

    def __init__(self, tick):
        super().__init__(daemon=True)
        self.tick, self.rounds, self.error = tick, [], None
        self.stopped, self.begun = threading.Event(), threading.Event()

    def run(self):
        try:
            while not self.stopped.is_set():
                start = time.perf_counter_ns()
                self.tick()
                self.rounds.append((start, time.perf_counter_ns()))
                self.begun.set()
        except Exception as error:
            self.error = error
        self.begun.set()

    def within(self, start, end):
        """Microseconds of the rounds that any of the span was part of."""
        return [(last - first) / 1000 for first, last in self.rounds
                if last > start and first < end]


def thinned(values):
    """The values in order; of too many, evenly spaced ones, both ends included."""
    values = sorted(values)
    if len(values) > STALL_ROUNDS_MAX:
        last = STALL_ROUNDS_MAX - 1
        values = [values[i * (len(values) - 1) // last] for i in range(STALL_ROUNDS_MAX)]
    return rounded(values)


def compute(seconds):
    """Holds the interpreter as a program does that never calls CUDA."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def stall(workload, batches):
    """Another thread's rounds while nothing happens, beside recordings, and beside plain Python."""
    tick = workload.device.ticker()
    spans = {}

    def span(name, work):
        start = time.perf_counter_ns()
        work()
        spans[name] = (start, time.perf_counter_ns())

    prober = Prober(tick)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        prober.start()
        prober.begun.wait()
        span("beside", lambda: Recording(workload, batches))
        beside_s = (spans["beside"][1] - spans["beside"][0]) / 1e9
        seconds = min(max(beside_s, STALL_S_MIN), STALL_S_MAX)
        span("idle", lambda: time.sleep(seconds))
        span("control", lambda: compute(seconds))
    finally:
        prober.stopped.set()
        prober.join()
        sys.setswitchinterval(interval_s)
    if prober.error is not None:
        raise prober.error
    rounds = {name: prober.within(*spans[name]) for name in ("idle", "beside", "control")}
    return {**{f"{name}_us": thinned(values) for name, values in rounds.items()},
            "rounds": {name: len(values) for name, values in rounds.items()},
            "recorded_ms": round(beside_s * 1000, 3),
            "switch_interval_us": SWITCH_INTERVAL_S * 1e6}


def recapture(device, options, report):
    """How a PyTorch program gives its graphs' memory back: it drops them and records them again."""
    workload = Workload(device, options, report)
    batches = options.sizes[:GRAPHS]
    report.update({"graphs": len(batches), "batches": batches, "drop_us": [], "recapture_us": []})
    prepare(workload, batches)
    recording = Recording(workload, batches)
    recording.replay()
    report["bytes"], held_bytes = device.pool_bytes(recording.pool), device.free_bytes()
    for turn in range(options.repetitions):
        progress(f"recapture: {turn + 1} of {options.repetitions}")
        start = time.perf_counter_ns()
        del recording
        device.empty_cache()
        report["drop_us"].append((time.perf_counter_ns() - start) / 1000)
        report.setdefault("driver_bytes", device.free_bytes() - held_bytes)
        start = time.perf_counter_ns()
        recording = Recording(workload, batches)
        device.synchronize()
        report["recapture_us"].append((time.perf_counter_ns() - start) / 1000)
