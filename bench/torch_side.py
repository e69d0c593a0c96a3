#!/usr/bin/env python3
"""Measures PyTorch at what `coppice bench` measures of coppice; prints one JSON object.

  torch_side.py steps       chains of tiny kernels that no compiler can fuse, in every way to run
                            them: eager, torch.cuda.CUDAGraph, torch.compile(mode=reduce-overhead)
  torch_side.py decode      the decode step of a small decoder, batch by batch, in the same ways
  torch_side.py buckets     bytes and times of 67 batch sizes of it, recorded into one graph pool,
                            and how long another thread's kernels wait meanwhile
  torch_side.py recapture   dropping 64 recorded graphs with their pool, and recording them again

Times are microseconds (record_ms: milliseconds), bytes are bytes; progress goes to stderr.
--device cpu is a dry run: host times of the eager ways, and a reason for all that needs a GPU.

Exit codes: 0 measured, with a reason for whatever is skipped; 1 SIGTERM or SIGINT stopped it, and
what was finished is printed; 2 wrong arguments; 3 there is no torch, or no such device.
"""

import argparse
import contextlib
import dataclasses
import gc
import json
import random
import signal
import sys
import threading
import time
from typing import Any, Callable

from skip import one_line

MODEL = {"layers": 2, "d_model": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 176,
         "vocab": 512, "slots": 512, "max_context": 512, "rope_theta": 10000.0, "rms_eps": 1e-5}
KERNELS = [10, 100, 300, 1000]
DECODE_BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
BUCKETS = [1, 2, 4, *range(8, 513, 8)]  # 67 of them.
GRAPHS = 64  # Of recapture.
ORDERS = ("asc", "desc", "random:1")
POSITION = 64  # Of every row of a batch, or the last of a smaller context.
WARM_UP_CALLS = 20
STALL_S_MIN, STALL_S_MAX = 0.2, 5.0
STALL_ROUNDS_MAX = 2000
SWITCH_INTERVAL_S = 1e-5
SAMPLES = {"steps": 101, "decode": 101, "buckets": 1, "recapture": 20}


class Stopped(BaseException):
    """A signal asks to end; nothing that handles errors may keep it."""


@dataclasses.dataclass
class Way:
    """One way to do the work of a case. Of its graphs, None without or not counted: the nodes, and
    the inputs that a call copies for them."""

    name: str
    call: Callable[[], Any]
    nodes: Any = None
    copied: Any = None
    host_us: list = dataclasses.field(default_factory=list)
    gpu_us: list = dataclasses.field(default_factory=list)
    skipped: str = ""

    def json(self, has_gpu):
        if self.skipped:
            return {"name": self.name, "skipped": self.skipped}
        return {"name": self.name, "host_us": rounded(self.host_us),
                "gpu_us": rounded(self.gpu_us) if has_gpu else None}


def rounded(values, digits=3):
    return [round(value, digits) for value in values]


def progress(text):
    print(text, file=sys.stderr, flush=True)


def rotated(items, first):
    """All items in order, from the given one on and around."""
    first %= max(len(items), 1)
    return items[first:] + items[:first]


@contextlib.contextmanager
def no_garbage_collection():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def build_ways(builders):
    """Ways of (name, builder), where a builder returns the fields of Way that follow the name."""
    ways = []
    for name, build in builders:
        try:
            ways.append(Way(name, *build()))
        except Exception as error:  # One way that fails must not cost the others.
            ways.append(Way(name, None, skipped=one_line(error)))
            progress(f"  {name}: {ways[-1].skipped}")
    return ways


def sample_ways(device, ways, samples, calls):
    """One sample of each way per round; every round begins with another way."""

    def attempt(way, work):
        try:
            return work()
        except Exception as error:
            way.skipped = one_line(error)
            progress(f"  {way.name}: {way.skipped}")

    def warm_up(way):
        for _ in range(WARM_UP_CALLS):
            way.call()

    def take(way):
        host_us, gpu_us = device.sample(way.call, calls)
        way.host_us.append(host_us)
        way.gpu_us.append(gpu_us)

    for way in ways:
        if not way.skipped:
            attempt(way, lambda: warm_up(way))
    with no_garbage_collection():
        for turn in range(samples):
            for way in rotated(ways, turn):
                if not way.skipped:
                    attempt(way, lambda: take(way))


def measure_case(device, case, builders, options):
    """Completes a case with its ways and the nodes of their graphs."""
    ways = build_ways(builders)
    sample_ways(device, ways, options.samples, options.calls)
    recorded = [way for way in ways if way.name != "eager" and not way.skipped]
    case["nodes"] = {way.name: way.nodes for way in recorded}
    case["copied_inputs"] = {way.name: way.copied for way in recorded}
    case["calls"] = options.calls
    case["ways"] = [way.json(device.kind == "cuda") for way in ways]
    return case


def steps(device, options, report):
    """The chain has one input; the graph of cuda_graph and the static way read it in place."""
    import torch
    import torch_chain as chain
    import torch_device

    report["cases"] = []
    for kernels in options.kernels:
        progress(f"steps: {kernels} kernels")
        device.forget_compiled()
        x = torch.zeros(chain.ELEMENTS, device=device.kind)
        static = torch.zeros_like(x)
        torch._dynamo.mark_static_address(static)
        expected = x + kernels

        def recorded():
            device.warm_up(lambda: chain.plain_chain(x, kernels))
            graph, result = device.capture(lambda: chain.plain_chain(x, kernels))
            graph.replay()
            torch_device.expect(result, expected)
            return graph.replay, device.nodes(graph), 0

        def compiled(function, argument):
            call, result, *counts = device.compile(function, argument, kernels)
            torch_device.expect(result, expected)
            return lambda: call(argument, kernels), *counts

        report["cases"].append(measure_case(device, {"kernels": kernels}, [
            ("cuda_graph", recorded),
            ("reduce_overhead", lambda: compiled(chain.copied_chain, x)),
            ("reduce_overhead_static", lambda: compiled(chain.static_chain, static)),
            ("eager", lambda: [lambda: chain.plain_chain(x, kernels)]),
        ], options))


class Workload:
    """The decoder and its inputs, which graphs read where they lie."""

    def __init__(self, device, options, report):
        import torch
        import torch_decoder

        self.torch, self.device = torch, device
        self.model = torch_decoder.Decoder(options.model, gather=options.gather).to(device.kind)
        rows = max(options.batches)
        self.position = min(POSITION, options.model["max_context"] - 1)
        self.inputs = (torch.arange(rows, device=device.kind) % options.model["vocab"],
                       torch.full((rows,), self.position, device=device.kind),
                       torch.arange(rows, device=device.kind))
        report.update({"model": options.model, "position": self.position,
                       "precision": torch.get_float32_matmul_precision(),
                       "slots": "gathered" if options.gather else "in place"})

    def arguments(self, batch):
        return tuple(tensor[:batch] for tensor in self.inputs)

    def step(self, batch):
        """One decode step, for a graph to be recorded of."""
        arguments = self.arguments(batch)
        return lambda: self.model(*arguments)


def decode(device, options, report):
    """Tokens, positions and slots are copied in every call of a graph."""
    import torch_device

    workload = Workload(device, options, report)
    torch = workload.torch
    report["cases"] = []
    for batch in options.batches:
        progress(f"decode: batch {batch}")
        device.forget_compiled()
        arguments = workload.arguments(batch)
        expected = workload.model(*arguments)[0].clone()

        def recorded():
            own = [tensor.clone() for tensor in arguments]
            device.warm_up(lambda: workload.model(*own))
            graph, results = device.capture(lambda: workload.model(*own))
            graph.replay()
            torch_device.expect(results[0], expected)

            def call():
                torch._foreach_copy_(own, arguments)
                graph.replay()

            return call, device.nodes(graph), len(own)

        def compiled():
            call, results, *counts = device.compile(workload.model, *arguments)
            torch_device.expect(results[0], expected)
            return lambda: call(*arguments), *counts

        report["cases"].append(measure_case(device, {"batch": batch}, [
            ("eager", lambda: [lambda: workload.model(*arguments)]),
            ("reduce_overhead", compiled),
            ("cuda_graph", recorded),
        ], options))


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
    report.update({"batches": options.batches, "cases": []})
    prepare(workload, options.batches)
    free_bytes = device.free_bytes()
    cases = [("largest", [max(options.batches)], False)]
    cases += [(order, in_order(options.batches, order), held)
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
        report["stall"] = stall(workload, options.batches)
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
    batches = options.batches[:GRAPHS]
    report.update({"graphs": len(batches), "batches": batches, "drop_us": [], "recapture_us": []})
    prepare(workload, batches)
    recording = Recording(workload, batches)
    recording.replay()
    report["bytes"], held_bytes = device.pool_bytes(recording.pool), device.free_bytes()
    for turn in range(options.samples):
        progress(f"recapture: {turn + 1} of {options.samples}")
        start = time.perf_counter_ns()
        del recording
        device.empty_cache()
        report["drop_us"].append((time.perf_counter_ns() - start) / 1000)
        report.setdefault("driver_bytes", device.free_bytes() - held_bytes)
        start = time.perf_counter_ns()
        recording = Recording(workload, batches)
        device.synchronize()
        report["recapture_us"].append((time.perf_counter_ns() - start) / 1000)


SECTIONS = {"steps": steps, "decode": decode, "buckets": buckets, "recapture": recapture}


def positive_int(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' must be at least 1")
    return value


def int_list(text):
    return [positive_int(item) for item in text.split(",")]


def model_of(text):
    """A model's configuration as JSON; what it leaves out is that of the default."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is no JSON: {error}")
    if not isinstance(given, dict):
        raise argparse.ArgumentTypeError("is no JSON object")
    for key, value in given.items():
        if key not in MODEL:
            raise argparse.ArgumentTypeError(f"has no field '{key}'; it has {', '.join(MODEL)}")
        whole = isinstance(MODEL[key], int)
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or (
                value <= 0):
            raise argparse.ArgumentTypeError(
                f"{key} is {value!r}; it must be a positive {'integer' if whole else 'number'}")
    model = {**MODEL, **given}
    if model["heads"] % model["kv_heads"] != 0 or model["head_dim"] % 4 != 0:
        raise argparse.ArgumentTypeError(
            f"heads ({model['heads']}) must be a multiple of kv_heads ({model['kv_heads']}), and "
            f"head_dim ({model['head_dim']}) of 4")
    return model


def parse_arguments(arguments):
    description, _, details = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="torch_side.py", description=description, epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--model", type=model_of, default=MODEL, metavar="JSON",
                        help="the decoder's configuration; default " + json.dumps(MODEL))
    parser.add_argument("--samples", type=positive_int, metavar="N",
                        help="of each way, or rounds of recapture; default 101, recapture 20")
    parser.add_argument("--calls", type=positive_int, default=10, metavar="N",
                        help="in each sample, back to back; default 10")
    parser.add_argument("--kernels", type=int_list, default=KERNELS, metavar="N,...",
                        help="of each case of steps; default 10,100,300,1000")
    parser.add_argument("--batches", type=int_list, metavar="N,...",
                        help="default: decode 1,2,4,...,256; others 1,2,4,8,16,24,...,512")
    parser.add_argument("--gather", action="store_true",
                        help="rows bring any slots, and attention reads a copy of the cache; "
                        "without it row i has slot i and is read in place")
    parser.add_argument("--compile", action="store_true",
                        help="with --device cpu: torch.compile in the ways that are compiled")
    options = parser.parse_args(arguments)
    options.samples = options.samples or SAMPLES[options.section]
    options.batches = options.batches or (
        DECODE_BATCHES if options.section == "decode" else BUCKETS)
    if options.section != "steps" and max(options.batches) > options.model["slots"]:
        parser.error(f"a batch of {max(options.batches)} needs as many slots, and the model has "
                     f"{options.model['slots']}; raise slots or pass --batches")
    return options


def open_device(options):
    """The device, and what the report says of it. ImportError, Skip: there is none."""
    import torch
    import torch_device

    torch.set_grad_enabled(False)
    device = torch_device.Cuda() if options.device == "cuda" else torch_device.Cpu(options.compile)
    return device, {"section": options.section, "torch": torch.__version__, "device": device.name,
                    "driver": device.driver_version}


def stop(number, _):
    raise Stopped(signal.Signals(number).name)


def measure(device, options, report):
    """Runs the section; returns the exit code. Whatever happens, the report has what was done."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        SECTIONS[options.section](device, options, report)
    except Stopped as signal_name:
        report["stopped"] = str(signal_name)
        return 1
    except Exception as error:
        report["skipped"] = one_line(error)
        progress(report["skipped"])
    return 0


def main(arguments=None):
    options = parse_arguments(arguments)
    with contextlib.redirect_stdout(sys.stderr):  # Whatever a library prints is no JSON.
        try:
            device, report = open_device(options)
        except Exception as error:
            progress(f"torch_side.py: {one_line(error)}; install torch for this machine's driver, "
                     "or pass --device cpu")
            return 3
        code = measure(device, options, report)
        if device.notes:
            report["notes"] = device.notes
    print(json.dumps(report))
    return code


if __name__ == "__main__":
    sys.exit(main())
