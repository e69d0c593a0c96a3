"""The bars that the measurements are held against, and which side takes less of what.

A bar is met, missed or, where the measurement is missing, not measured. Most bars are about a GPU;
what an emulator says is none of their business.
"""

import dataclasses
import math
from typing import Optional

from measured import (COPPICE, MIB, REDUCE_OVERHEAD, TORCH, exec_bytes_per_node, median, pool_bytes,
                      quantile, welch)

MET, MISSED, UNKNOWN = "met", "missed", "not measured"
LESS, EVEN, MORE = "less", "even", "MORE"
BUCKETS_SHOWN = "asc, outputs dropped"  # Elsewhere, times and nodes tell the same.
CHANCE = 0.05  # A p-value from which on two sides count as even.
OVERHEAD_NS = 250
HOST_RATIO = 20
POOL_RATIO = 1.02
KERNEL_RATIO = 1.15
EAGER_RATIO = 2
GATE_RATIO = 1.03
SOAK_REPLAYS, SOAK_RECORDS = 1_000_000, 10_000


@dataclasses.dataclass
class Bar:
    """A promise: `value` is to be at most, or at least, `limit`."""

    what: str
    limit: float
    value: Optional[float]  # The worst of all cases; None: not measured.
    unit: str = ""
    at_least: bool = False
    note: str = ""          # Which case is the worst, or why there is no value.

    @property
    def verdict(self):
        if self.value is None:
            return UNKNOWN
        held = self.value >= self.limit if self.at_least else self.value <= self.limit
        return MET if held else MISSED

    @property
    def share(self):
        """How much of the limit is used up: at most 1 if the bar is met."""
        over, under = (self.limit, self.value) if self.at_least else (self.value, self.limit)
        return over / under if under else float(over > 0) * math.inf if over else 0.0


def worst(what, limit, values, unit="", at_least=False, none="the section is missing"):
    """A bar for the worst of `values`, a dict from what a case is called to its value."""
    if not values:
        return Bar(what, limit, None, unit, at_least, none)
    name = (min if at_least else max)(values, key=values.get)
    return Bar(what, limit, values[name], unit, at_least,
               f"worst of {len(values)}: {name}" if len(values) > 1 else name)


def overhead_pairs(case):
    """What Session::Run and its staged form take beyond the same driver calls, in microseconds."""
    pairs = {"run": case.differences(COPPICE, "run", "launch"),
             "run_staged": case.differences(COPPICE, "run_staged", "run_staged_calls")}
    return {name: values for name, values in pairs.items() if values}


def beyond_launch(case, ours, theirs):
    """Median host time of a way of each side beyond the launch of its graph; None where unknown.

    PyTorch's launch is its own replay of a captured graph, or the bare one if that takes longer, so
    that the comparison is never to its disadvantage.
    """
    launch = case.samples(COPPICE, "launch", "host_us")
    our_times = case.differences(COPPICE, ours, "launch")
    their_times = case.differences(TORCH, theirs, "cuda_graph")
    if not our_times or not their_times:
        return None
    over_bare = median(case.samples(TORCH, theirs, "host_us")) - median(launch)
    return median(our_times), min(median(their_times), over_bare)


def in_place_peer(case):
    """PyTorch's way that reads its input where it lies, as `run` does; else the one that copies."""
    static = f"{REDUCE_OVERHEAD}_static"
    return static if case.samples(TORCH, static, "host_us") else REDUCE_OVERHEAD


def host_ratios(measured):
    """Ratios by case at equal node counts, and the cases whose counts differ."""
    ratios, unequal = {}, []
    for case in measured.steps():
        peer = in_place_peer(case)
        times = beyond_launch(case, "run", peer)
        if times is None:
            continue
        ours, theirs = case.nodes.get((COPPICE, "run")), case.nodes.get((TORCH, peer))
        if ours is None or ours != theirs:
            unequal.append(f"{case.size} kernels: {ours} and {theirs} nodes")
        else:
            # Below a nanosecond, what is left is the clock's.
            ratios[f"{case.size} kernels, {peer}"] = times[1] / max(times[0], 1e-3)
    return ratios, unequal


def host_ratio_bar(measured):
    ratios, unequal = host_ratios(measured)
    bar = worst("host time beyond the launch, reduce_overhead / Session::Run, equal node counts",
                HOST_RATIO, ratios, "x", at_least=True,
                none="no case has equal node counts" if unequal else "a side is missing")
    if unequal:
        bar.note += f"; left out, as node counts differ: {', '.join(unequal)}"
    return bar


def pool_ratios(measured, side):
    """A pool of every bucket over one of the largest alone, by order, outputs dropped.

    Of a small model, mapped bytes are whole granules; the height of the plans tells more.
    """
    largest = measured.largest(side) or {}
    ratios = {}
    for case in measured.pools(side) if largest else ():
        if case["outputs"] == "dropped" and pool_bytes(largest):
            ratios[case["order"]] = pool_bytes(case) / pool_bytes(largest)
            if largest.get("height_bytes"):
                ratios[f"{case['order']}, height of the plans"] = (
                    case["height_bytes"] / largest["height_bytes"])
    return ratios


def pool_bar(measured):
    bar = worst("pool for all buckets / largest bucket alone, mapped bytes", POOL_RATIO,
                pool_ratios(measured, COPPICE), "x")
    theirs = pool_ratios(measured, TORCH)
    if bar.value is not None and theirs:
        bar.note += "; PyTorch's " + ", ".join(f"{order} {ratio:.2f}"
                                               for order, ratio in theirs.items())
    return bar


def first_step(measured):
    """Eager and replayed microseconds of a decode step at batch 1, if both are there."""
    for case in measured.decode():
        if case.size == 1:
            times = [case.samples(COPPICE, name, "gpu_us") for name in ("eager", "replay")]
            return [median(each) for each in times] if all(times) else None
    return None


def gate_ratios(measured):
    """What the gate's choice takes over the faster way; while undecided, the slower way counts."""
    ratios = {}
    for case in measured.decode():
        times = {name: median(case.samples(COPPICE, name, "gpu_us"))
                 for name in ("eager", "replay") if case.samples(COPPICE, name, "gpu_us")}
        if len(times) == 2 and case.gate:
            chosen = times.get(case.gate, max(times.values()))
            ratios[f"batch {case.size}, {case.gate}"] = chosen / min(times.values())
    return ratios


def decode_bars(measured):
    times = first_step(measured)
    kernel_sums = measured.report("kernels").get("sum_us")
    missing = "the sum of kernel times is missing" if times else "decode at batch 1 is missing"
    return [
        worst("decode, batch 1: replay / sum of its kernel times", KERNEL_RATIO,
              {"batch 1": times[1] / median(kernel_sums)} if times and kernel_sums else {}, "x",
              none=missing),
        worst("decode, batch 1: eager / replay", EAGER_RATIO,
              {"batch 1": times[0] / times[1]} if times else {}, "x", at_least=True,
              none="decode at batch 1 is missing"),
        worst("decode: the gate's choice / the faster way, every batch size", GATE_RATIO,
              gate_ratios(measured), "x")]


def soak_bars(measured):
    soak = measured.report("soak")
    if not soak:
        return [worst("soak: replays", SOAK_REPLAYS, {}, at_least=True)]
    full = f"{soak['records']} records, {soak['evictions']} evictions"
    return [
        worst("soak: replays", SOAK_REPLAYS, {full: soak["replays"]}, at_least=True),
        worst("soak: records, evictions", SOAK_RECORDS,
              {"records": soak["records"], "evictions": soak["evictions"]}, at_least=True),
        worst("soak: mismatches", 0, {f"of {soak['checked']} checked": soak["mismatches"]}),
        worst("soak: memory that is not flat", 0, {f"{len(soak['memory'])} points": float(
            not soak["flat"])})]


def bars(measured):
    """Every bar, met or not."""
    dispatch = {case["name"]: case["overhead_ns_p50"]
                for case in measured.report("dispatch").get("cases", [])}
    on_device = {f"{name}, {case.size} kernels": 1000 * median(values)
                 for case in measured.steps() for name, values in overhead_pairs(case).items()}
    what = "Session::Run beyond its bare driver calls, host"
    found = [worst(f"{what}, on a driver that returns at once", OVERHEAD_NS, dispatch, "ns"),
             worst(f"{what}, on the device", OVERHEAD_NS, on_device, "ns"),
             host_ratio_bar(measured), pool_bar(measured), *decode_bars(measured),
             *soak_bars(measured)]
    if not measured.on_gpu:
        holds = {found[0].what, found[3].what}
        found = [bar if bar.what in holds else dataclasses.replace(
            bar, value=None, note="needs a GPU") for bar in found]
    return found


@dataclasses.dataclass
class Pair:
    """What both sides take of the same; less is better."""

    what: str
    ours: float
    theirs: float
    unit: str
    p: Optional[float] = None  # Welch's, where there are samples.

    @property
    def ratio(self):
        return self.ours / self.theirs

    @property
    def verdict(self):
        if self.ratio == 1 or (self.p is not None and self.p >= CHANCE):
            return EVEN
        return LESS if self.ratio < 1 else MORE


def pair_of(what, ours, theirs, unit, scale=1.0):
    """A pair of the medians of samples; None if a side has none."""
    if not ours or not theirs:
        return None
    return Pair(what, median(ours) * scale, median(theirs) * scale, unit, welch(ours, theirs))


def bucket_pairs(measured):
    theirs = {(case["order"], case["outputs"]): case for case in measured.pools(TORCH)}
    for ours in measured.pools(COPPICE):
        other = theirs.get((ours["order"], ours["outputs"]))
        if other is None:
            continue
        called = f"{ours['order']}, outputs {ours['outputs']}"
        if pool_bytes(ours) and pool_bytes(other):
            yield Pair(f"pool, {called}", pool_bytes(ours) / MIB, pool_bytes(other) / MIB, "MiB")
        per_node = exec_bytes_per_node(ours), exec_bytes_per_node(other)
        if called != BUCKETS_SHOWN:
            continue
        if all(value is not None and value > 0 for value in per_node):
            yield Pair(f"beyond the pool, per node, {called}", *per_node, "bytes")
        yield pair_of(f"to record a bucket, {called}", ours["record_ms"], other["record_ms"], "ms")
    stalls = [measured.report("buckets", side).get("stall", {}).get("beside_us") or []
              for side in (COPPICE, TORCH)]
    if all(stalls):
        for name, share in (("p99", 0.99), ("longest", 1.0)):
            yield Pair(f"round of a stream beside recording, {name}",
                       *(quantile(values, share) for values in stalls), "us")


def step_pairs(measured):
    for case in measured.steps():
        ways = (("run", in_place_peer(case)), ("run_staged", REDUCE_OVERHEAD),
                ("run", "cuda_graph"))
        for name, quantity in (("host", "host_us"), ("GPU", "gpu_us")):
            for ours, theirs in ways:
                yield pair_of(f"{case.size:,} kernels, {name}: {ours} against {theirs}",
                              case.samples(COPPICE, ours, quantity),
                              case.samples(TORCH, theirs, quantity), "us")
        for ours, theirs in ways[:2]:
            times = beyond_launch(case, ours, theirs)
            if times and min(times) > 0:
                yield Pair(f"{case.size:,} kernels, host beyond the launch: {ours} against "
                           f"{theirs}", *times, "us")


def pairs(measured):
    """Every quantity that both sides have."""
    found = list(step_pairs(measured))
    for case in measured.decode():
        for ours, theirs in (("replay", REDUCE_OVERHEAD), ("eager", "eager")):
            found.append(pair_of(f"decode, batch {case.size}, {ours} against {theirs}",
                                 case.samples(COPPICE, ours, "gpu_us"),
                                 case.samples(TORCH, theirs, "gpu_us"), "us"))
    found += bucket_pairs(measured)
    ours, theirs = measured.report("suspend"), measured.report("suspend", TORCH)
    found.append(pair_of("memory back for 64 graphs: resume against recapture",
                         ours.get("resume_us"), theirs.get("recapture_us"), "ms", 1e-3))
    return [pair for pair in found if pair]
