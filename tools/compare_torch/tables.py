#!/usr/bin/env python3
"""Says what a comparison has measured, as tables and bars: writes FOLDER/tables.md.

  tables.py FOLDER    of a folder that compare_torch.py wrote, summary.json in it

What a section lacks because its process failed is missing here too, and never an error. Exit codes:
0 success; 1 a table cannot be made; 2 wrong arguments, or there are no results in FOLDER.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
from typing import NamedTuple

SUMMARY, TABLES = "summary.json", "tables.md"
COPPICE, TORCH = "coppice", "torch"
SIDES = {COPPICE: "coppice", TORCH: "PyTorch"}
EAGER, REDUCED, STATIC = "eager", "reduce_overhead", "reduce_overhead_static"
EMULATED = "**On the CPU emulator: times here say nothing about a GPU.**"
MIB = 1 << 20
NO_VALUE = "–"
MET, MISSED, UNKNOWN = "met", "**missed**", "not measured"
LESS, EVEN, MORE = "less", "even", "**MORE**"
CHANCE = 0.05  # A p-value from which on two sides count as even.

# What a bar about every case is held against; one that is missing leaves it open.
DISPATCHES = ("all_static", "two_staged", "siblings_1000", "static_200")
KERNELS = (10, 100, 300, 1000)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
POOLS = tuple((order, outputs) for order in ("asc", "desc", "random:1")
              for outputs in ("dropped", "held"))


def quantile(values, share):
    """The value below which that share lies, interpolated (R type 7); NaN if there are none."""
    if not values:
        return math.nan
    ranked, rank = sorted(values), share * (len(values) - 1)
    lower = ranked[math.floor(rank)]
    return lower + (ranked[math.ceil(rank)] - lower) * (rank % 1)


def median(values):
    return quantile(values, 0.5)


def welch(values, others):
    """The p-value of Welch's t-test that the two have one mean, by the normal distribution, which
    that of t is close to from 20 samples on; None where it is undefined."""
    if min(len(values), len(others)) < 2:
        return None
    error = math.sqrt(sum(statistics.variance(each) / len(each) for each in (values, others)))
    apart = abs(statistics.fmean(values) - statistics.fmean(others))
    return math.erfc(apart / error / math.sqrt(2)) if error else None


class Results:
    """The results of a folder. OSError, ValueError, LookupError: there are none."""

    def __init__(self, folder):
        self.summary = json.loads((folder / SUMMARY).read_text())
        self.on_gpu = self.summary["mode"] == "cuda"
        self.steps = {(stage["name"], step["name"]): step for stage in self.summary["stages"]
                      for step in stage["steps"]}

    def report(self, section, side=COPPICE):
        """What the process printed; empty if there is nothing."""
        return self.steps.get((section, side), {}).get("report") or {}

    def cases(self, section, key):
        """The cases of `steps` or `decode`: by size, then by side."""
        found = {}
        for side in SIDES:
            for case in self.report(section, side).get("cases", []):
                found.setdefault(case[key], {})[side] = case
        return dict(sorted(found.items()))

    def pools(self, side):
        """The recordings of many buckets into one pool, and of the largest one alone."""
        return {(case["order"], case["outputs"]): case for case in
                self.report("buckets", side).get("cases", []) if not case.get("skipped")}


def samples(case, side, name, quantity="host_us"):
    """Those of a way; empty if it is missing or was skipped."""
    return next((way.get(quantity) or [] for way in case.get(side, {}).get("ways", [])
                 if way["name"] == name), [])


def beyond(case, side, name, bare):
    """What a way takes beyond another, sample by sample: they were measured in turns."""
    return [whole - less for whole, less in zip(samples(case, side, name),
                                                samples(case, side, bare))]


def like_ways(case):
    """A way of each side that does the same: both read the input in place, or both copy it."""
    copied = case.get(TORCH, {}).get("copied_inputs", {})
    in_place = samples(case, TORCH, STATIC) and copied.get(STATIC) == 0
    return ("run", STATIC) if in_place else ("run_staged", REDUCED)


def beyond_launch(case, ours, theirs):
    """Median host time of a way of each side beyond the launch of its graph; None where unknown.

    PyTorch's launch is its own replay of a captured graph, or the bare one if that takes longer, so
    that the comparison is never to its disadvantage.
    """
    our_times = beyond(case, COPPICE, ours, "launch")
    their_times = beyond(case, TORCH, theirs, "cuda_graph")
    if not our_times or not their_times:
        return None
    bare = median(samples(case, COPPICE, "launch"))
    return median(our_times), min(median(their_times), median(samples(case, TORCH, theirs)) - bare)


def pool_bytes(case):
    """Mapped bytes of the pool that the graphs of a case share, and of the outputs that are held.

    coppice tells them by kind; PyTorch's private pool is nothing else.
    """
    usage = case.get("usage")
    return usage["nodes"] + usage["copy_out"] if usage else case["own_bytes"]


def mapped_bytes(case):
    """All bytes by a side's own accounting but those of executable graphs, which it estimates."""
    return case["own_bytes"] - (case.get("usage") or {}).get("graphs", 0)


def exec_bytes_per_node(case):
    """What the driver gave beyond the mapped bytes, per node; None where it is not known."""
    if not case.get("nodes") or case.get("driver_bytes") is None:
        return None
    return (case["driver_bytes"] - mapped_bytes(case)) / case["nodes"]


class Bar(NamedTuple):
    what: str
    limit: str
    value: float  # The worst of all cases, or None.
    unit: str
    verdict: str
    note: str     # Which case is the worst, or why there is no value.


def bar(what, limit, values, unit="", *, known, lacking=(), wrong=(), at_least=False, note=""):
    """The worst of `values`, a dict from what a case is called to its value, held against `limit`.

    Not measured without `known` or while cases are `lacking`; missed at any speed by `wrong`
    results, each in words.
    """
    shown = f"{'>=' if at_least else '<='} {limit:,} {unit}".strip()
    name = (min if at_least else max)(values, key=values.get) if values else ""
    value = values[name] if values and not lacking and known else None
    if wrong:
        verdict, note = MISSED, f"wrong results: {', '.join(wrong)}"
    elif value is None:
        verdict = UNKNOWN
        note = "needs a GPU" if not known else f"lacking: {', '.join(lacking) or 'all'}"
    else:
        verdict = MET if (value >= limit if at_least else value <= limit) else MISSED
        note = "; ".join(filter(None, (f"worst: {name}", note)))
    return Bar(what, shown, value, unit, verdict, note)


def dispatch_bars(results):
    ns = {case["name"]: case["overhead_ns_p50"]
          for case in results.report("dispatch").get("cases", [])}
    yield bar("Session::Run beyond its bare driver calls, host, on a driver that returns at once",
              250, ns, "ns", known=True, lacking=[name for name in DISPATCHES if name not in ns])
    found, ratios, lacking, unlike = results.cases("steps", "kernels"), {}, [], []
    on_device = {}
    for size in KERNELS:
        case = found.get(size, {})
        for name, bare in (("run", "launch"), ("run_staged", "run_staged_calls")):
            called = f"{name}, {size} kernels"
            if values := beyond(case, COPPICE, name, bare):
                on_device[called] = 1000 * median(values)
            else:
                lacking.append(called)
        ways = like_ways(case)
        times = beyond_launch(case, *ways)
        counts = [case.get(side, {}).get("nodes", {}).get(way) for side, way in zip(SIDES, ways)]
        # A difference of two noisy medians may be nothing; dispatch is the least it counts for.
        ours = max(times[0], ns.get(DISPATCHES[0], 0) / 1000) if times else 0
        if ours > 0 and counts[0] is not None and counts[0] == counts[1]:
            ratios[f"{size} kernels, {ways[1]} / {ways[0]}"] = times[1] / ours
        else:
            unlike.append(f"{size} kernels ({counts[0]} and {counts[1]} nodes)" if times else
                          f"{size} kernels (a way has no samples)")
    yield bar("Session::Run beyond its bare driver calls, host, on the device", 250, on_device,
              "ns", known=results.on_gpu, lacking=lacking)
    yield bar("host time beyond the launch, reduce_overhead / Session::Run, equal node counts", 20,
              ratios, "x", known=results.on_gpu, lacking=unlike, at_least=True)


def pool_ratios(pools):
    """A pool of every bucket over one of the largest alone, by order, outputs dropped. Of a small
    model, mapped bytes are whole granules; the height of the plans tells more."""
    largest = pools.get(("largest", "dropped"))
    ratios = {}
    for (order, outputs), case in pools.items() if largest else ():
        if outputs == "dropped" and order != "largest":
            ratios[order] = pool_bytes(case) / pool_bytes(largest)
            if largest.get("height_bytes"):
                ratios[f"{order}, height"] = case["height_bytes"] / largest["height_bytes"]
    return ratios


def pool_bars(results):
    """Outputs that are held have bytes of their own; their cases are to be there, and right."""
    pools = results.pools(COPPICE)
    theirs = pool_ratios(results.pools(TORCH))
    yield bar("pool for all buckets / largest bucket alone, mapped bytes and height of the plans",
              1.02, pool_ratios(pools), "x", known=True,
              lacking=[", ".join(key) for key in (*POOLS, ("largest", "dropped"))
                       if not pools.get(key, {}).get("height_bytes")],
              wrong=[f"{case['mismatches']} in {order}, {outputs}"
                     for (order, outputs), case in pools.items() if case.get("mismatches")],
              note=", ".join(f"PyTorch's {order} {ratio:.2f}" for order, ratio in theirs.items()))


def decode_bars(results):
    cases, kernels = results.cases("decode", "batch"), results.report("kernels")
    times = {}
    for batch, case in cases.items():
        both = [samples(case, COPPICE, name, "gpu_us") for name in (EAGER, "replay")]
        if all(both):
            times[batch] = dict(zip((EAGER, "replay"), map(median, both)))
    differ = {batch for batch, case in cases.items()
              if not case.get(COPPICE, {}).get("tokens_equal", True)}
    first, wrong = times.get(1), ["batch 1"] if 1 in differ else []
    lacking = [] if first else ["batch 1"]
    whole = kernels.get("kernels") is not None and kernels["kernels"] == kernels.get("launched")
    total = median(kernels["sum_us"]) if whole and kernels.get("sum_us") else None
    unseen = [] if total else [f"ncu saw {kernels.get('kernels')} kernels per step, which launches "
                               f"{kernels.get('launched')}"]
    yield bar("decode, batch 1: replay / sum of its kernel times", 1.15,
              {"batch 1": first["replay"] / total} if first and total else {}, "x",
              known=results.on_gpu, lacking=lacking + unseen, wrong=wrong)
    # A graph saves what lies between the kernels, and none of their time.
    best = f"at best {number(first[EAGER] / total)} x" if first and total else ""
    yield bar("decode, batch 1: eager / replay", 2,
              {"batch 1": first[EAGER] / first["replay"]} if first else {}, "x",
              known=results.on_gpu, lacking=lacking, wrong=wrong, at_least=True, note=best)
    chosen, undecided = {}, []
    for batch in BATCHES:
        case, taken = cases.get(batch, {}).get(COPPICE, {}), times.get(batch)
        if taken and case.get("gate") and not case.get("gate_failed"):
            # While the gate is undecided, the slower way counts.
            chosen[f"batch {batch}, {case['gate']}"] = (
                taken.get(case["gate"], max(taken.values())) / min(taken.values()))
        else:
            undecided.append(f"batch {batch} ({case.get('gate_failed') or 'no choice'})")
    yield bar("decode: the gate's choice / the faster way, every batch size", 1.03, chosen, "x",
              known=results.on_gpu, lacking=undecided,
              wrong=[f"batch {batch}" for batch in sorted(differ)])


def soak_bars(results):
    soak = results.report("soak")
    known = results.on_gpu
    for what, limit, keys, at_least in (
            ("soak: replays", 1_000_000, ["replays"], True),
            ("soak: records, evictions", 10_000, ["records", "evictions"], True),
            ("soak: mismatches", 0, ["mismatches"], False),
            ("soak: memory that is not flat", 0, ["flat"], False)):
        values = {key: not soak[key] if key == "flat" else soak[key] for key in keys if soak}
        yield bar(what, limit, values, known=known, at_least=at_least)


def bars(results):
    return [*dispatch_bars(results), *pool_bars(results), *decode_bars(results),
            *soak_bars(results)]


class Pair(NamedTuple):
    """What both sides take of the same; less is better."""

    what: str
    ours: float
    theirs: float
    unit: str
    p: float = None     # Welch's, where there are samples.
    agree: bool = True  # Whether medians and means, of which Welch's test is, tell one tale.

    @property
    def verdict(self):
        if self.ours == self.theirs or not self.agree or (self.p is not None and self.p >= CHANCE):
            return EVEN
        return LESS if self.ours < self.theirs else MORE


def pair_of(what, ours, theirs, unit):
    """A pair of the medians of samples; none if a side has none."""
    if ours and theirs:
        means = statistics.fmean(ours) - statistics.fmean(theirs)
        yield Pair(what, median(ours), median(theirs), unit, welch(ours, theirs),
                   (median(ours) - median(theirs)) * means > 0)


def step_pairs(results):
    for size, case in results.cases("steps", "kernels").items():
        ways = dict.fromkeys((like_ways(case), ("run_staged", REDUCED), ("run", "cuda_graph")))
        for ours, theirs in ways:
            what = f"{size:,} kernels: {ours} against {theirs}"
            for name, quantity in (("host", "host_us"), ("GPU", "gpu_us")):
                yield from pair_of(f"{what}, {name}", samples(case, COPPICE, ours, quantity),
                                   samples(case, TORCH, theirs, quantity), "us")
            times = theirs != "cuda_graph" and beyond_launch(case, ours, theirs)
            if times and min(times) > 0:
                yield Pair(f"{what}, host beyond the launch", *times, "us")
    for batch, case in results.cases("decode", "batch").items():
        for ours, theirs in (("replay", REDUCED), (EAGER, EAGER)):
            yield from pair_of(f"decode, batch {batch}: {ours} against {theirs}",
                               samples(case, COPPICE, ours, "gpu_us"),
                               samples(case, TORCH, theirs, "gpu_us"), "us")


def bucket_pairs(results):
    theirs = results.pools(TORCH)
    for key, ours in results.pools(COPPICE).items():
        other, called = theirs.get(key), f"{key[0]}, outputs {key[1]}"
        if other is None or key not in POOLS:
            continue
        yield Pair(f"pool, {called}", pool_bytes(ours) / MIB, pool_bytes(other) / MIB, "MiB")
        per_node = exec_bytes_per_node(ours), exec_bytes_per_node(other)
        if all(value is not None and value > 0 for value in per_node):
            yield Pair(f"beyond the pool, per node, {called}", *per_node, "bytes")
        yield from pair_of(f"to record a bucket, {called}", ours["record_ms"], other["record_ms"],
                           "ms")
    # A thread of Python waits for the interpreter even where nothing is recorded.
    rounds = [(results.report("buckets", side).get("stall") or {}).get(key) for side, key in
              ((COPPICE, "beside_us"), (COPPICE, "idle_us"), (TORCH, "beside_us"),
               (TORCH, "control_us"))]
    for name, share in (("p99", 0.99), ("longest", 1.0)) if all(rounds) else ():
        ours, our_control, theirs, their_control = (quantile(each, share) for each in rounds)
        yield Pair(f"round of a stream beside recording / of its control (coppice: idle; PyTorch: "
                   f"beside other Python), {name}", ours / our_control, theirs / their_control, "x")


def pairs(results):
    """Every quantity that both sides have."""
    return [*step_pairs(results), *bucket_pairs(results), *pair_of(
        "memory back for 64 graphs: resume against recapture",
        results.report("suspend").get("resume_us"),
        results.report("suspend", TORCH).get("recapture_us"), "us")]


def number(value):
    """Three digits, or all before the point; a count as it is."""
    if value is None or value != value:
        return NO_VALUE
    if value == 0 or isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 10 \
        else f"{value:.1f}"


def mib(size):
    return NO_VALUE if size is None else number(size / MIB)


def spread(values):
    """Median and p10..p90."""
    return [number(median(values)), f"{number(quantile(values, 0.1))}.."
            f"{number(quantile(values, 0.9))}"] if values else [NO_VALUE, NO_VALUE]


def ways_rows(results, section, key):
    for size, case in results.cases(section, key).items():
        for side, name in SIDES.items():
            nodes = case.get(side, {}).get("nodes") or {}
            for way in case.get(side, {}).get("ways", []):
                times = []
                for quantity in ("host_us", "gpu_us"):
                    values = way.get(quantity) or []
                    eager = median(samples(case, side, EAGER, quantity))
                    times += [*spread(values), number(median(values) / eager)]
                yield [f"{size:,}", name, f"`{way['name']}`", number(nodes.get(way["name"])),
                       number(way.get("calls")), *times, way.get("skipped", "")]


WAYS = ("side", "way", "nodes", "calls", "host, us", "p10..p90", "/ eager", "device, us",
        "p10..p90", "/ eager", "skipped")


def pool_rows(results):
    for side, name in SIDES.items():
        pools = results.pools(side)
        ratios = pool_ratios(pools)
        for (order, outputs), case in pools.items():
            dropped = outputs == "dropped"
            yield [name, order, outputs, str(case["buckets"]), number(case.get("nodes")),
                   mib(pool_bytes(case)), number(ratios.get(order) if dropped else None),
                   number(ratios.get(f"{order}, height") if dropped else None),
                   mib(mapped_bytes(case)), mib(case.get("driver_bytes")),
                   number(exec_bytes_per_node(case)), *spread(case["record_ms"])]


def stall_rows(results):
    for side, name in SIDES.items():
        found = results.report("buckets", side).get("stall") or {}
        for key, what in (("idle", "nothing is recorded"), ("beside", "beside recording"),
                          ("control", "beside host work without CUDA")):
            if values := found.get(f"{key}_us"):
                yield [name, what, number(found["rounds"][key]), number(median(values)),
                       number(quantile(values, 0.99)), number(max(values))]


def suspend_rows(results):
    for side, key, what in ((COPPICE, "suspend_us", "suspend"), (COPPICE, "resume_us", "resume"),
                            (COPPICE, "first_replay_us", "first replay of a graph after it"),
                            (TORCH, "drop_us", "drop every graph"),
                            (TORCH, "recapture_us", "capture them again")):
        report = results.report("suspend", side)
        if report.get(key):
            yield [SIDES[side], what, str(report["graphs"]), mib(report["bytes"]),
                   mib(report["driver_bytes"]), *spread(report[key])]


def soak_rows(results):
    report = results.report("soak")
    points = report.get("memory", [])
    for key in ("replays", "records", "evictions", "checked", "mismatches", "strays", "flat"):
        if key in report:
            yield [key, str(report[key])]
    for key in ("own_bytes", "driver_free_bytes", "host_rss_bytes"):
        if values := [point[key] for point in points[len(points) // 4:]]:
            yield [f"{key}, last three quarters", f"{mib(min(values))}..{mib(max(values))} MiB"]


def list_rows(results, section, key, *columns):
    """A row for each object of a list, with those of its fields."""
    for each in results.report(section).get(key, []):
        yield [number(each[column]) if isinstance(each[column], (int, float)) else each[column]
               for column in columns]


def record_rows(results):
    report = results.report("record")
    for key in ("nodes", "recordings", "own_us_p50", "driver_us_p50", "device_syncs",
                "maybe_syncs"):
        if key in report:
            yield [key, number(report[key])]


def rows_of_bars(results):
    for each in bars(results):
        yield [each.what, each.limit, f"{number(each.value)} {each.unit}".strip()
               if each.value is not None else NO_VALUE, each.verdict, each.note]


def rows_of_pairs(results):
    for each in pairs(results):
        yield [each.what, each.unit, number(each.ours), number(each.theirs),
               number(each.ours / each.theirs), number(each.p), each.verdict]


def rows_of_steps(results):
    for stage in results.summary["stages"]:
        for step in stage["steps"] or [{**stage, "name": ""}]:
            yield [stage["name"], step["name"], number(step["seconds"]), step["status"],
                   step["note"].replace("|", "\\|")]


DISPATCH = ("name", "staged", "siblings", "overhead_ns_p50", "overhead_ns_p10", "overhead_ns_p90",
            "instructions", "driver_calls", "heap_allocs")
LISTS = {
    "Bars": (("what", "bar", "measured", "verdict", "note"), rows_of_bars),
    "Both sides: where coppice takes less, and where MORE": (
        ("what", "unit", "coppice", "PyTorch", "ratio", "p", "coppice takes"), rows_of_pairs),
    "A step of small kernels, per call": (
        ("kernels", *WAYS), lambda results: ways_rows(results, "steps", "kernels")),
    "A decode step, per call": (
        ("batch", *WAYS), lambda results: ways_rows(results, "decode", "batch")),
    "Kernels of one eager decode step at batch 1, by ncu": (
        ("kernel", "launches", "median, us"),
        lambda results: list_rows(results, "kernels", "by_name", "name", "launches", "us")),
    "What Session::Run adds to its driver calls, on a driver that returns at once": (
        DISPATCH, lambda results: list_rows(results, "dispatch", "cases", *DISPATCH)),
    "What recording a graph costs": (("what", "value"), record_rows),
    "One pool for every bucket": (
        ("side", "order", "outputs", "buckets", "nodes", "pool, MiB", "/ largest alone",
         "height / largest alone", "all mapped, MiB", "by the driver, MiB",
         "bytes beyond mapped, per node", "to record one, ms", "p10..p90"), pool_rows),
    "Rounds of a kernel stream on another thread": (
        ("side", "while", "rounds", "median, us", "p99, us", "longest, us"), stall_rows),
    "Giving the memory of graphs back": (
        ("side", "what", "graphs", "given back, MiB", "by the driver, MiB", "median, us",
         "p10..p90"), suspend_rows),
    "Soak": (("what", "value"), soak_rows),
    "What was run": (("section", "side", "seconds", "result", "note"), rows_of_steps)}


def write(folder):
    """Writes the tables; returns what could not be made. Results of another form cost their own
    table alone."""
    results, parts, problems = Results(folder), [], []
    for title, (head, make) in LISTS.items():
        try:
            rows = list(make(results))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            problems.append(f"{title} cannot be made: {type(error).__name__}: {error}")
            continue
        if rows:
            lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
            parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    intro = [f"# {folder.resolve().name}\n", *([] if results.on_gpu else [EMULATED + "\n"])]
    (folder / TABLES).write_text("\n".join(intro + parts))
    return problems


def main(arguments):
    parser = argparse.ArgumentParser(prog="tables.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    folder = parser.parse_args(arguments).folder
    try:
        problems = write(folder)
    except (OSError, LookupError, ValueError) as error:
        parser.error(f"{folder} has no {SUMMARY} of a comparison: {error}")
    for problem in problems:
        print(f"tables: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
