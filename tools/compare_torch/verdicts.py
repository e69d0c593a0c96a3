"""The bars that the measurements are held against, and which side takes less of what.

A bar is met, missed or, where the measurement is missing, not measured. Most bars are about a GPU;
what an emulator says is none of their business.
"""

import dataclasses
import math
import statistics
from typing import Optional

from measured import (COPPICE, MIB, REDUCE_OVERHEAD, TORCH, Case, exec_bytes_per_node, median,
                      pool_bytes, quantile, welch)

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

# What a bar about every case is held against; one that is missing leaves it open.
DISPATCHES = ("all_static", "two_staged", "siblings_1000", "static_200")
KERNELS = (10, 100, 300, 1000)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
POOLS = tuple((order, outputs) for order in ("asc", "desc", "random:1")
              for outputs in ("dropped", "held"))


@dataclasses.dataclass
class Bar:
    """A promise: `value` is to be at most, or at least, `limit`."""

    what: str
    limit: float
    value: Optional[float]  # The worst of all cases; None: not measured.
    unit: str = ""
    at_least: bool = False
    note: str = ""          # Which case is the worst, or why there is no value.
    needs_gpu: bool = True
    bound: Optional[float] = None  # What no graph can do better than, if that is known.
    wrong: bool = False     # Whether what was measured computes wrong results: missed at any speed.

    @property
    def verdict(self):
        if self.wrong:
            return MISSED
        if self.value is None:
            return UNKNOWN
        held = self.value >= self.limit if self.at_least else self.value <= self.limit
        return MET if held else MISSED

    @property
    def share(self):
        """How much of the limit is used up: at most 1 if the bar is met."""
        if self.wrong:
            return math.inf
        over, under = (self.limit, self.value) if self.at_least else (self.value, self.limit)
        return over / under if under else float(over > 0) * math.inf if over else 0.0


def worst(what, limit, values, unit="", at_least=False, none="the section is missing", of=1,
          lacking=()):
    """A bar for the worst of `values`, a dict from what a case is called to its value.

    It takes `of` cases; those that are `lacking`, each with the reason, leave it without a value.
    """
    if lacking and len(lacking) < of:
        none = f"{of - len(lacking)} of {of}; lacking: {', '.join(lacking)}"
    if not values or lacking:
        return Bar(what, limit, None, unit, at_least, none)
    name = (min if at_least else max)(values, key=values.get)
    return Bar(what, limit, values[name], unit, at_least,
               f"{of} of {of}, worst: {name}" if of > 1 else name)


def with_wrong(bar, wrong):
    """The bar, missed if there are `wrong` results, each in words."""
    if not wrong:
        return bar
    note = f"wrong results: {', '.join(wrong)}" + (f"; {bar.note}" if bar.note else "")
    return dataclasses.replace(bar, wrong=True, note=note)


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


def like_ways(case):
    """A way of each side that does the same: both read the input in place, or both copy it."""
    static = f"{REDUCE_OVERHEAD}_static"
    in_place = case.samples(TORCH, static, "host_us") and case.copied.get((TORCH, static)) == 0
    return ("run", static) if in_place else ("run_staged", REDUCE_OVERHEAD)


def dispatch_overheads(measured):
    """Nanoseconds that Session::Run adds on a driver that returns at once, by case."""
    return {case["name"]: case["overhead_ns_p50"]
            for case in measured.report("dispatch").get("cases", [])}


def host_ratio_of(case, floor_us):
    """The name and the ratio of a case; or why it has none, and None.

    A difference of two noisy medians may be nothing or less; coppice's own work, measured by itself
    in the same run, is the least that it counts for.
    """
    ways = like_ways(case)
    times = beyond_launch(case, *ways)
    if times is None:
        return f"{case.size} kernels (a way has no samples)", None
    counts = [case.nodes.get(key) for key in zip((COPPICE, TORCH), ways)]
    if counts[0] is None or counts[0] != counts[1]:
        return f"{case.size} kernels ({counts[0]} and {counts[1]} nodes)", None
    ours = max(times[0], floor_us)
    if ours <= 0:
        return (f"{case.size} kernels ({ways[0]} takes no longer than its launch, and dispatch, "
                "the least it counts for, is missing)"), None
    return f"{case.size} kernels, {ways[1]} / {ways[0]}", times[1] / ours


def host_ratio_bar(measured):
    floor_us = dispatch_overheads(measured).get(DISPATCHES[0], 0) / 1000
    cases = {case.size: case for case in measured.steps()}
    found = [host_ratio_of(cases.get(size) or Case(size), floor_us) for size in KERNELS]
    return worst("host time beyond the launch, reduce_overhead / Session::Run, equal node counts",
                 HOST_RATIO, {name: ratio for name, ratio in found if ratio is not None}, "x",
                 at_least=True, none=found[0][0], of=len(KERNELS),
                 lacking=[why for why, ratio in found if ratio is None])


def overhead_bars(measured):
    dispatch = dispatch_overheads(measured)
    cases = {case.size: overhead_pairs(case) for case in measured.steps()}
    wanted = [(name, size) for size in KERNELS for name in ("run", "run_staged")]
    on_device = {f"{name}, {size} kernels": 1000 * median(cases[size][name])
                 for name, size in wanted if name in cases.get(size, {})}
    what = "Session::Run beyond its bare driver calls, host"
    return [dataclasses.replace(
        worst(f"{what}, on a driver that returns at once", OVERHEAD_NS, dispatch, "ns",
              of=len(DISPATCHES), lacking=[name for name in DISPATCHES if name not in dispatch]),
        needs_gpu=False),
            worst(f"{what}, on the device", OVERHEAD_NS, on_device, "ns", of=len(wanted),
                  lacking=[f"{name}, {size} kernels" for name, size in wanted
                           if f"{name}, {size} kernels" not in on_device])]


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
    """Outputs that are held have bytes of their own; their cases are to be there, and right."""
    cases = {(case["order"], case["outputs"]): case for case in measured.pools(COPPICE)}
    lacking = [f"{order}, {outputs}" for order, outputs in POOLS
               if not cases.get((order, outputs), {}).get("height_bytes")]
    if not (measured.largest(COPPICE) or {}).get("height_bytes"):
        lacking = [f"{order}, {outputs}" for order, outputs in POOLS]
    bar = worst("pool for all buckets / largest bucket alone, mapped bytes and height of the plans",
                POOL_RATIO, pool_ratios(measured, COPPICE), "x", of=len(POOLS), lacking=lacking)
    bar = dataclasses.replace(bar, needs_gpu=False)
    largest = measured.largest(COPPICE)
    bar = with_wrong(bar, [f"{case['mismatches']} in {case['order']}, {case['outputs']}"
                           for case in [*cases.values(), *([largest] if largest else [])]
                           if case.get("mismatches")])
    theirs = pool_ratios(measured, TORCH)
    if bar.value is not None and theirs:
        bar.note += "; PyTorch's " + ", ".join(f"{order} {ratio:.2f}"
                                               for order, ratio in theirs.items())
    return bar


def decode_times(case):
    """Median microseconds on the device of a decode step's ways, if both are there."""
    times = {name: case.samples(COPPICE, name, "gpu_us") for name in ("eager", "replay")}
    return {name: median(values) for name, values in times.items()} if all(times.values()) else {}


def gate_ratio_of(case):
    """A name and what the gate's choice takes over the faster way; or why it has none, and None.

    While the gate is undecided, the slower way counts.
    """
    times = decode_times(case)
    if not times:
        return f"batch {case.size} (a way has no samples)", None
    if case.gate_failed or not case.gate:
        return f"batch {case.size} (gate: {case.gate_failed or 'no choice'})", None
    chosen = times.get(case.gate, max(times.values()))
    return f"batch {case.size}, {case.gate}", chosen / min(times.values())


def kernel_sum(measured):
    """Microseconds of a decode step's kernels and "", or None and why they are not known."""
    report = measured.report("kernels")
    if not report.get("sum_us"):
        return None, "the sum of kernel times is missing"
    if report["kernels"] != report.get("launched"):
        return None, (f"ncu saw {report['kernels']} kernels per step, and by its own count a step "
                      f"launches {report.get('launched')}")
    return median(report["sum_us"]), ""


def decode_bars(measured):
    cases = {case.size: case for case in measured.decode()}
    first = cases.get(1) or Case(1)
    times, (sum_us, why) = decode_times(first), kernel_sum(measured)
    missing = "decode at batch 1 is missing"
    gates = [gate_ratio_of(cases.get(size) or Case(size)) for size in BATCHES]
    differ = [f"batch {size}" for size, case in cases.items() if not case.tokens_equal]
    in_first = [] if first.tokens_equal else ["batch 1"]
    # A graph saves what lies between the kernels, and none of their time.
    bound = times["eager"] / sum_us if times and sum_us else None
    return [
        with_wrong(worst("decode, batch 1: replay / sum of its kernel times", KERNEL_RATIO,
                         {"batch 1": times["replay"] / sum_us} if times and sum_us else {}, "x",
                         none=why if times else missing), in_first),
        dataclasses.replace(
            with_wrong(worst("decode, batch 1: eager / replay", EAGER_RATIO,
                             {"batch 1": times["eager"] / times["replay"]} if times else {}, "x",
                             at_least=True, none=missing), in_first), bound=bound),
        with_wrong(worst("decode: the gate's choice / the faster way, every batch size", GATE_RATIO,
                         {name: ratio for name, ratio in gates if ratio is not None}, "x",
                         none=gates[0][0], of=len(BATCHES),
                         lacking=[reason for reason, ratio in gates if ratio is None]), differ)]


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
    """Every bar, met or not. Results that are wrong on an emulator are wrong on a GPU too."""
    found = [*overhead_bars(measured), host_ratio_bar(measured), pool_bar(measured),
             *decode_bars(measured), *soak_bars(measured)]
    return [bar if measured.on_gpu or bar.wrong or not bar.needs_gpu else
            dataclasses.replace(bar, value=None, bound=None, note="needs a GPU") for bar in found]


@dataclasses.dataclass
class Pair:
    """What both sides take of the same; less is better."""

    what: str
    ours: float
    theirs: float
    unit: str
    p: Optional[float] = None  # Welch's, where there are samples.
    agree: bool = True         # Whether medians and means, of which Welch's test is, tell one tale.

    @property
    def ratio(self):
        return self.ours / self.theirs

    @property
    def verdict(self):
        if self.ratio == 1 or not self.agree or (self.p is not None and self.p >= CHANCE):
            return EVEN
        return LESS if self.ratio < 1 else MORE


def pair_of(what, ours, theirs, unit, scale=1.0):
    """A pair of the medians of samples; None if a side has none."""
    if not ours or not theirs:
        return None
    by_median = median(ours) - median(theirs)
    by_mean = statistics.fmean(ours) - statistics.fmean(theirs)
    return Pair(what, median(ours) * scale, median(theirs) * scale, unit, welch(ours, theirs),
                by_median * by_mean > 0)


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
    yield from stall_pairs(measured)


def stall_pairs(measured):
    """A thread of Python waits for the interpreter even where nothing is recorded; so each side's
    rounds are over those of its own control."""
    rounds = []
    for side, control in ((COPPICE, "idle_us"), (TORCH, "control_us")):
        stall = measured.report("buckets", side).get("stall") or {}
        rounds += [stall.get("beside_us"), stall.get(control)]
    if all(rounds):
        for name, share in (("p99", 0.99), ("longest", 1.0)):
            ours, our_control, theirs, their_control = (quantile(each, share) for each in rounds)
            yield Pair(f"round of a stream beside recording / of its control (coppice: idle; "
                       f"PyTorch: beside other Python), {name}",
                       ours / our_control, theirs / their_control, "x")


def step_pairs(measured):
    for case in measured.steps():
        ways = list(dict.fromkeys((like_ways(case), ("run_staged", REDUCE_OVERHEAD),
                                   ("run", "cuda_graph"))))
        for name, quantity in (("host", "host_us"), ("GPU", "gpu_us")):
            for ours, theirs in ways:
                yield pair_of(f"{case.size:,} kernels, {name}: {ours} against {theirs}",
                              case.samples(COPPICE, ours, quantity),
                              case.samples(TORCH, theirs, quantity), "us")
        for ours, theirs in ways[:-1]:
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
