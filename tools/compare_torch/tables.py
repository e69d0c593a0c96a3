"""The tables of a folder of results, as Markdown.

Each is a function that returns a Table, or None if the folder has nothing for it. A figure has the
name of its table.
"""

import dataclasses
import textwrap
from typing import List

from measured import (COPPICE, EAGER, MIB, REDUCE_OVERHEAD, SIDES, TORCH, Spread,
                      exec_bytes_per_node, mapped_bytes, median, pool_bytes, quantile, welch)
from verdicts import CHANCE, MISSED, MORE, bars, overhead_pairs, pairs

SIDE_NAMES = {COPPICE: "coppice", TORCH: "PyTorch"}
NO_VALUE = "–"
COLUMNS = 100
EMULATED = "**On the CPU emulator: these figures say nothing about a GPU.**"


@dataclasses.dataclass
class Table:
    title: str
    head: List[str]
    rows: List[List[str]]
    notes: List[str] = dataclasses.field(default_factory=list)
    timed: bool = False  # Whether an emulator's figures are worthless here.

    def markdown(self):
        lines = ["| " + " | ".join(cells) + " |" for cells in (
            self.head, ["---"] * len(self.head), *self.rows)]
        return "\n".join(lines)


def number(value):
    """Three digits, or all before the point; a count as it is."""
    if value is None:
        return NO_VALUE
    if value == 0 or isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 10 \
        else f"{value:.1f}"


def mib(size):
    return NO_VALUE if size is None else number(size / MIB)


def probability(p):
    return NO_VALUE if p is None else f"{p:.2f}" if p >= 0.01 else f"{p:.0e}" if p > 1e-9 \
        else "<1e-9"


def spread_cells(values, scale=1.0):
    """Median and p10..p90."""
    if not values:
        return [NO_VALUE, NO_VALUE]
    spread = Spread.of([value * scale for value in values])
    return [number(spread.median), f"{number(spread.p10)}..{number(spread.p90)}"]


def p_cell(values, others):
    return probability(welch(values, others)) if values and others and values is not others \
        else NO_VALUE


def ways_table(cases, label, title, quantity):
    """A row per case and way: its time, that over eager's, and whether chance explains it."""
    rows = []
    for case in cases:
        peer = case.samples(TORCH, REDUCE_OVERHEAD, quantity)
        for (side, name), way in case.ways.items():
            values, eager = (case.samples(side, each, quantity) for each in (name, EAGER))
            row = [f"{case.size:,}", SIDE_NAMES[side], f"`{name}`", number(way.get("calls"))]
            if not values:
                rows.append([*row, f"skipped: {way.get('skipped', 'no samples')}"] +
                            [NO_VALUE] * 4)
                continue
            share = number(median(values) / median(eager)) if eager else NO_VALUE
            rows.append([*row, *spread_cells(values), share, p_cell(values, eager),
                         p_cell(values, peer)])
    samples = max((len(way.get(quantity) or []) for case in cases for way in case.ways.values()),
                  default=0)
    return Table(title, [label, "side", "way", "calls", "median, us", "p10..p90", "/ eager",
                         "p, eager", "p, reduce_overhead"], rows,
                 [f"{samples} samples per way at most, of `calls` each; / eager and p compare "
                  "with eager of the same side, the last column with PyTorch's reduce_overhead "
                  "(Welch's t-test)."],
                 timed=True) if rows else None


def steps_host(measured):
    return ways_table(measured.steps(), "kernels",
                      "Host time per call of a step of small kernels", "host_us")


def steps_gpu(measured):
    return ways_table(measured.steps(), "kernels",
                      "Time per call on the device of a step of small kernels", "gpu_us")


def decode_gpu(measured):
    return ways_table(measured.decode(), "batch", "Time per decode step on the device", "gpu_us")


def decode_host(measured):
    return ways_table(measured.decode(), "batch", "Host time per decode step", "host_us")


def nodes(measured):
    names = [(side, name) for side in SIDES for name in dict.fromkeys(
        name for case in measured.steps() for its_side, name in case.nodes if its_side == side)]
    rows = [[f"{case.size:,}", *(number(case.nodes.get(key)) for key in names)]
            for case in measured.steps()]
    head = ["kernels", *(f"{SIDE_NAMES[side]} `{name}`" for side, name in names)]
    return Table("Nodes of the recorded graphs, read back from them", head, rows) if names else None


def overhead(measured):
    rows = []
    for case in measured.steps():
        found = [("coppice", name, values) for name, values in overhead_pairs(case).items()]
        for name in (f"{REDUCE_OVERHEAD}_static", REDUCE_OVERHEAD):
            found.append(("PyTorch", name, case.differences(TORCH, name, "cuda_graph")))
        rows += [[f"{case.size:,}", side, f"`{name}`", *spread_cells(values, 1000)]
                 for side, name, values in found if values]
    return Table("Host time beyond the same driver calls", ["kernels", "side", "way", "median, ns",
                                                            "p10..p90"], rows,
                 ["Sample by sample: `run` - `launch`, `run_staged` - `run_staged_calls`, and "
                  "PyTorch's ways - `cuda_graph`; `reduce_overhead` copies its input."],
                 timed=True) if rows else None


def dispatch(measured):
    report = measured.report("dispatch")
    rows = [[case["name"], str(case["staged"]), str(case["siblings"]),
             number(case["overhead_ns_p50"]),
             f"{number(case['overhead_ns_p10'])}..{number(case['overhead_ns_p90'])}",
             number(case["instructions"]), f"{case['driver_calls']:g}", str(case["heap_allocs"])]
            for case in report.get("cases", [])]
    return Table("What Session::Run adds to its driver calls, on a driver that returns at once",
                 ["case", "inputs staged", "graphs of the bucket", "median, ns", "p10..p90",
                  "instructions", "driver calls", "heap allocations in 1,000 calls"], rows,
                 [f"{report['iterations']:,} calls per case. No device has a part in it: these are "
                  "times of the host's processor."]) if rows else None


def record(measured):
    report = measured.report("record")
    if not report:
        return None
    row = [str(report["nodes"]), str(report["recordings"]), number(report["own_us_p50"]),
           str(report["device_syncs"]), number(report.get("maybe_syncs"))]
    head = ["nodes", "recordings", "coppice's share, us", "waits for the device",
            "calls that may wait for it"]
    if measured.on_gpu:
        head[3:3] = ["in all, us", "the driver's share, us"]
        row[3:3] = [number(report["record_us_p50"]), number(report["driver_us_p50"])]
    return Table("What recording a graph costs", head, [row],
                 ["Medians. coppice's share is what is left without its driver calls. A driver may "
                  "wait when memory is opened or unmapped."])


def bucket_cases(measured):
    """Side and case of every recording of buckets; the largest alone comes last of its side."""
    for side in SIDES:
        for case in [*measured.pools(side), *filter(None, [measured.largest(side)])]:
            yield side, case


def share_cell(case, largest, size_of):
    if not largest or not size_of(case) or not size_of(largest):
        return NO_VALUE
    return f"{size_of(case) / size_of(largest):.3f}"


def pool(measured):
    rows = []
    for side, case in bucket_cases(measured):
        largest, height = measured.largest(side), case.get("height_bytes")
        rows.append([SIDE_NAMES[side], case["order"], case["outputs"], str(case["buckets"]),
                     number(case["nodes"]), mib(pool_bytes(case)),
                     share_cell(case, largest, pool_bytes), number(height and height / 1024),
                     share_cell(case, largest, lambda each: each.get("height_bytes")),
                     mib(mapped_bytes(case))])
    return Table("Bytes of one pool for every bucket, by its own accounting",
                 ["side", "order", "outputs", "buckets", "nodes", "pool, MiB", "/ largest alone",
                  "height of the plans, KiB", "/ largest alone", "all mapped, MiB"], rows,
                 ["The pool is what the graphs compute in, and held outputs; coppice plans in it. "
                  "`largest` is the largest bucket in a pool of its own, outputs dropped. All "
                  "mapped counts staging, eager runs and the like too, where a side has them in "
                  "its books."]) if rows else None


def driver(measured):
    rows = [[SIDE_NAMES[side], case["order"], case["outputs"], number(case["nodes"]),
             mib(mapped_bytes(case)), mib(case["driver_bytes"]), number(exec_bytes_per_node(case))]
            for side, case in bucket_cases(measured)]
    return Table("Bytes by the driver's accounting, and executable graphs' share",
                 ["side", "order", "outputs", "nodes", "all mapped, MiB", "driver, MiB",
                  "bytes beyond mapped, per node"], rows,
                 ["The driver's bytes are by how much its free memory fell."], timed=True) \
        if rows else None


def recording(measured):
    rows = [[SIDE_NAMES[side], case["order"], case["outputs"], str(case["buckets"]),
             *spread_cells(case["record_ms"]), number(sum(case["record_ms"]))]
            for side in SIDES for case in measured.pools(side) if case["record_ms"]]
    return Table("Time to record every bucket", ["side", "order", "outputs", "buckets",
                                                 "median, ms", "p10..p90", "all, ms"], rows,
                 ["Host time, after a warm-up: of the call that records, plans and launches once "
                  "(coppice), of the capture and the making of its graph (PyTorch)."],
                 timed=True) if rows else None


STALLS = {"idle_us": "nothing is recorded", "beside_us": "beside recording",
          "control_us": "beside host work without CUDA"}


def stall(measured):
    rows = []
    for side in SIDES:
        found = measured.report("buckets", side).get("stall") or {}
        rounds = found.get("rounds") or {}
        rows += [[SIDE_NAMES[side], what, number(rounds.get(key.removesuffix("_us"))),
                  number(median(found[key])), number(quantile(found[key], 0.99)),
                  number(max(found[key]))]
                 for key, what in STALLS.items() if found.get(key)]
    return Table("Rounds of a kernel stream on another thread",
                 ["side", "while", "rounds", "median, us", "p99, us", "longest, us"], rows,
                 ["A round launches a tiny kernel and waits for it."], timed=True) \
        if rows else None


def kernels(measured):
    report = measured.report("kernels")
    if not report:
        return None
    rows = [[f"`{each['name']}`", str(each["launches"]), number(each["us"]),
             number(each["launches"] * each["us"])] for each in report["by_name"]]
    total, spread = spread_cells(report["sum_us"])
    return Table("Kernels of one eager decode step at batch 1",
                 ["kernel", "launches", "median, us", "in all, us"],
                 [*rows, ["all", str(report["kernels"]), "", total]],
                 [f"By ncu, over {report['steps']} steps, clocks and caches as they are; the sum "
                  f"is {spread} us (p10..p90). By its own count, a step launches "
                  f"{number(report.get('launched'))} kernels."], timed=True)


def gate(measured):
    rows = []
    for case in measured.decode():
        times = [case.samples(COPPICE, name, "gpu_us") for name in ("eager", "replay")]
        if case.gate and all(times):
            eager, replay = map(median, times)
            rows.append([str(case.size), number(eager), number(replay), number(eager / replay),
                         case.gate])
    return Table("The gate's choice, decode", ["batch", "eager, us", "replay, us",
                                               "eager / replay", "gate"], rows,
                 timed=True) if rows else None


SUSPEND = {(COPPICE, "suspend_us"): "suspend", (COPPICE, "resume_us"): "resume",
           (COPPICE, "first_replay_us"): "first replay of a graph after it",
           (TORCH, "drop_us"): "drop every graph", (TORCH, "recapture_us"): "capture them again"}


def suspend(measured):
    rows = []
    for (side, key), what in SUSPEND.items():
        report = measured.report("suspend", side)
        if report.get(key):
            rows.append([SIDE_NAMES[side], what, str(report["graphs"]),
                         mib(report["bytes"]), mib(report["driver_bytes"]),
                         *spread_cells(report[key], 1e-3)])
    return Table("Giving the memory of graphs back",
                 ["side", "what", "graphs", "given back, MiB", "by the driver, MiB", "median, ms",
                  "p10..p90"], rows, timed=True) if rows else None


def soak(measured):
    report = measured.report("soak")
    if not report:
        return None
    points = report["memory"]
    later = points[len(points) // 4:]
    rows = [["replays", f"{report['replays']:,}"], ["records", f"{report['records']:,}"],
            ["evictions", f"{report['evictions']:,}"],
            ["mismatches", f"{report['mismatches']:,} of {report['checked']:,} checked"],
            ["calls that did not replay though their graph was there",
             number(report.get("strays"))],
            ["memory flat", "yes" if report["flat"] else "**no**"]]
    for key, what in (("own_bytes", "own bytes"), ("driver_free_bytes", "the driver's free bytes"),
                      ("host_rss_bytes", "resident host bytes")):
        values = [point[key] for point in later]
        rows.append([f"{what}, last three quarters",
                     f"{number(min(values) / MIB)}..{number(max(values) / MIB)} MiB"])
    return Table("Soak", ["what", "value"], rows)


def bars_table(measured):
    rows = []
    for bar in bars(measured):
        limit = f"{'>=' if bar.at_least else '<='} {number(bar.limit)} {bar.unit}".strip()
        value, bound = (f"{number(each)} {bar.unit}".strip() if each is not None else NO_VALUE
                        for each in (bar.value, bar.bound))
        verdict = f"**{bar.verdict}**" if bar.verdict == MISSED else bar.verdict
        rows.append([bar.what, limit, value, bound, verdict, bar.note])
    return Table("Bars", ["what", "bar", "measured", "at best", "verdict", "note"], rows,
                 ["At best: if a replay took no longer than the kernels in it."])


def sides_table(measured):
    rows = [[pair.what, pair.unit, number(pair.ours), number(pair.theirs), number(pair.ratio),
             probability(pair.p), f"**{pair.verdict}**" if pair.verdict == MORE else pair.verdict]
            for pair in pairs(measured)]
    return Table("Both sides: where coppice takes less, and where MORE",
                 ["what", "unit", "coppice", "PyTorch", "coppice / PyTorch", "p", "coppice takes"],
                 rows, [f"Even: the medians differ, but by chance (p >= {CHANCE:g}), or the means "
                        "say the contrary."],
                 timed=True) if rows else None


def sections(measured):
    rows = []
    for section, side, part in measured.parts():
        became = next((f"{key}: {part[key]}" for key in ("failed", "skipped") if key in part), "ok")
        rows.append([section, SIDE_NAMES.get(side, side), number(part.get("seconds")),
                     f"`{' '.join(part['command'])}`".replace("|", "\\|")
                     if part.get("command") else NO_VALUE, became.replace("\n", " ")])
    return Table("What was run", ["section", "side", "seconds", "command", "result"], rows)


TABLES = {"bars": bars_table, "sides": sides_table, "steps_host": steps_host,
          "steps_gpu": steps_gpu, "nodes": nodes, "overhead": overhead, "dispatch": dispatch,
          "record": record, "pool": pool, "driver": driver, "recording": recording,
          "stall": stall, "decode_gpu": decode_gpu, "decode_host": decode_host, "gate": gate,
          "kernels": kernels, "suspend": suspend, "soak": soak, "sections": sections}


def text_of(measured, table):
    """What a page quotes: the table, what it means and where it comes from."""
    notes = [*table.notes, f"Source: {measured.source()}; `{measured.name}`."]
    if table.timed and not measured.on_gpu:
        notes.insert(0, EMULATED)
    said = textwrap.fill(" ".join(notes), COLUMNS, break_long_words=False, break_on_hyphens=False)
    return f"**{table.title}**\n\n{table.markdown()}\n\n{said}\n"


def attempt(name, make, measured, problems):
    """What `make` returns; results of another form are a problem of theirs alone."""
    try:
        return make(measured)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        problems.append(f"{name} cannot be made: {type(error).__name__}: {error}")
        return None


def all_tables(measured):
    """The text of each table that the folder has something for by name, and what went wrong."""
    problems = []
    found = {name: attempt(name, make, measured, problems) for name, make in TABLES.items()}
    return {name: text_of(measured, table) for name, table in found.items() if table}, problems
