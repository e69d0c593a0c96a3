"""The figures of a folder of results: an SVG for each table that a picture says more than.

Colours are those of Okabe and Ito, which colour-blind people tell apart; no two series differ by
colour alone. Bars of error reach from the 10th to the 90th percentile.
"""

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: E402

from measured import (COPPICE, EAGER, MIB, SIDES, TORCH, Spread, exec_bytes_per_node,  # noqa: E402
                      median, pool_bytes)
from tables import SIDE_NAMES, SUSPEND, attempt, number  # noqa: E402
from verdicts import (LESS, MET, MISSED, MORE, OVERHEAD_NS, POOL_RATIO, UNKNOWN,  # noqa: E402
                      bars, overhead_pairs, pairs)

BLACK, GREY, SKY, GREEN = "#222222", "#8a8a8a", "#56B4E9", "#009E73"
BLUE, ORANGE, RED, PINK = "#0072B2", "#E69F00", "#D55E00", "#CC79A7"
SIDE_COLOURS = {COPPICE: BLUE, TORCH: RED}
# Colour, marker and line of each way: whole lines are coppice's.
WAYS = {(COPPICE, "run"): (BLUE, "o", "-"), (COPPICE, "replay"): (BLUE, "o", "-"),
        (COPPICE, "launch"): (SKY, "^", "-"), (COPPICE, "run_staged"): (GREEN, "s", "-"),
        (COPPICE, "run_staged_calls"): (GREY, "D", "-"), (COPPICE, EAGER): (BLACK, "v", "-"),
        (TORCH, "reduce_overhead"): (RED, "o", "--"),
        (TORCH, "reduce_overhead_static"): (RED, "s", ":"),
        (TORCH, "cuda_graph"): (ORANGE, "^", "--"), (TORCH, EAGER): (PINK, "v", "--")}
OTHER_WAY = (GREY, "x", ":")
TAIL_POINTS = 400

STYLE = {"svg.hashsalt": "coppice", "svg.fonttype": "path", "font.size": 9, "axes.titlesize": 11,
         "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlepad": 10,
         "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#555555",
         "axes.axisbelow": True, "axes.grid": True, "grid.color": "#e2e2e2",
         "grid.linewidth": 0.7, "legend.frameon": False, "legend.fontsize": 8.5,
         "lines.markersize": 5, "lines.linewidth": 1.4, "xtick.color": "#333333",
         "ytick.color": "#333333", "figure.constrained_layout.use": True}


def plain(value, _=None):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def log_axis(axis, ticks=None):
    """Labels a logarithmic axis with numbers as people write them."""
    if ticks:
        axis.set_ticks(ticks, labels=[plain(tick) for tick in ticks])
    else:
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1,) if high > 200 * low else (1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_locator(NullLocator())


def error_bars(axes, xs, samples, style, label):
    """A line through medians, from p10 to p90 each."""
    colour, marker, line = style
    spreads = [Spread.of(values) for values in samples]
    middles = [spread.median for spread in spreads]
    around = [[spread.median - spread.p10 for spread in spreads],
              [spread.p90 - spread.median for spread in spreads]]
    axes.errorbar(xs, middles, yerr=around, color=colour, marker=marker, linestyle=line,
                  label=label, capsize=2.5, elinewidth=1, markerfacecolor="white",
                  markeredgewidth=1.3)
    return middles[-1]


def ways_figure(cases, quantity, title, label, unit="microseconds per call"):
    """Times of every way over the size of the work, both logarithmic."""
    names = list(dict.fromkeys(key for case in cases for key in case.ways
                               if case.samples(*key, quantity)))
    if not names:
        return None
    figure, axes = plt.subplots(figsize=(8.2, 4.4))
    last = {}
    for at, key in enumerate(names):
        found = [(case.size, case.samples(*key, quantity)) for case in cases
                 if case.samples(*key, quantity)]
        shift = 1.02 ** (at - (len(names) - 1) / 2)  # Bars of equal ways stand side by side.
        last[key] = error_bars(axes, [size * shift for size, _ in found],
                               [values for _, values in found], WAYS.get(key, OTHER_WAY),
                               f"{SIDE_NAMES[key[0]]} {key[1]}")
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel=unit, title=title)
    log_axis(axes.xaxis, [case.size for case in cases])
    log_axis(axes.yaxis)
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: -last[names[i]])
    axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="center left",
                bbox_to_anchor=(1.01, 0.5))
    return figure


def steps_host(measured):
    return ways_figure(measured.steps(), "host_us", "Host time of a step of small kernels",
                       "kernels in the step", "host microseconds per call")


def steps_gpu(measured):
    return ways_figure(measured.steps(), "gpu_us", "Time of a step of small kernels on the device",
                       "kernels in the step")


def decode_gpu(measured):
    cases = measured.decode()
    figure = ways_figure(cases, "gpu_us", "Time of a decode step on the device", "batch size",
                         "microseconds per step")
    sums = measured.report("kernels").get("sum_us")
    if figure and sums:
        axes = figure.axes[0]
        axes.plot([cases[0].size / 1.15, cases[0].size * 1.15], [median(sums)] * 2, color=GREEN,
                  linewidth=3, label="sum of kernel times, batch 1")
        handles, labels = axes.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda i: labels[i].startswith("sum"))
        axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="center left",
                    bbox_to_anchor=(1.01, 0.5))
    return figure


def decode_host(measured):
    return ways_figure(measured.decode(), "host_us", "Host time of a decode step", "batch size",
                       "host microseconds per step")


def limit_line(axes, limit, label, vertical=True):
    draw = axes.axvline if vertical else axes.axhline
    draw(limit, color=BLACK, linewidth=1.1, linestyle=(0, (4, 2)), label=label)


def intervals(rows, title, label, limit=None):
    """A row per (name, median, p10, p90, colour, marker), on a linear axis from 0."""
    figure, axes = plt.subplots(figsize=(7.6, 1.5 + 0.4 * len(rows)))
    for at, (name, middle, low, high, colour, marker) in enumerate(rows):
        axes.plot([low, high], [at, at], color=colour, linewidth=2, solid_capstyle="butt")
        axes.plot([middle], [at], color=colour, marker=marker, markerfacecolor="white",
                  markeredgewidth=1.6, markersize=6.5)
        axes.annotate(number(middle), (middle, at), (0, 6), ha="center", va="bottom",
                      textcoords="offset points", fontsize=8.5, color="#333333",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
    if limit:
        limit_line(axes, *limit)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    axes.set_yticks(range(len(rows)), labels=[row[0] for row in rows])
    axes.set(xlabel=label, title=title, ylim=(len(rows) - 0.5, -0.8))
    axes.grid(axis="y", visible=False)
    axes.set_xlim(min(0, *(row[2] for row in rows)) * 1.05,
                  1.12 * max([row[3] for row in rows] + ([limit[0]] if limit else [])))
    return figure


def dispatch(measured):
    rows = [(case["name"], case["overhead_ns_p50"], case["overhead_ns_p10"],
             case["overhead_ns_p90"], BLUE, "o")
            for case in measured.report("dispatch").get("cases", [])]
    return intervals(rows, "Session::Run beyond its driver calls, no device",
                     "host nanoseconds per call", (OVERHEAD_NS, f"bar, {OVERHEAD_NS} ns")) \
        if rows else None


def overhead(measured):
    rows = []
    for case in measured.steps():
        for name, values in overhead_pairs(case).items():
            spread = Spread.of([1000 * value for value in values])
            colour, marker, _ = WAYS[COPPICE, name]
            rows.append((f"{name}, {case.size:,} kernels", spread.median, spread.p10, spread.p90,
                         colour, marker))
    return intervals(rows, "Session::Run beyond the same driver calls, on the device",
                     "host nanoseconds per call", (OVERHEAD_NS, f"bar, {OVERHEAD_NS} ns")) \
        if rows else None


def grouped_bars(axes, groups, series, text=None):
    """Bars of `series`, a dict from a name to (values by group, colour, hatch), side by side."""
    width = 0.8 / len(series)
    for at, (name, (values, colour, hatch)) in enumerate(series.items()):
        xs = [i + (at - (len(series) - 1) / 2) * width for i in range(len(groups))]
        shown = [(x, values[group]) for x, group in zip(xs, groups)
                 if values.get(group) is not None]
        drawn = axes.bar([x for x, _ in shown], [value for _, value in shown], width * 0.92,
                         label=name, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
        if text:
            axes.bar_label(drawn, [text(value) for _, value in shown], fontsize=7.5, padding=2)
    axes.set_xticks(range(len(groups)), labels=groups)
    axes.grid(axis="x", visible=False)


def bucket_series(measured, value_of):
    """Series and groups of what `value_of` says of each recording of the buckets."""
    series, orders = {}, {}
    for side in SIDES:
        for case in measured.pools(side):
            held = case["outputs"] == "held"
            name = f"{SIDE_NAMES[side]}, outputs {case['outputs']}"
            colour = SIDE_COLOURS[side]
            values, _, _ = series.setdefault(name, ({}, colour, "////" if held else ""))
            values[case["order"]] = value_of(side, case)
            orders[case["order"]] = None
    return list(orders), series


def bucket_figure(measured, value_of, title, label, text):
    groups, series = bucket_series(measured, value_of)
    if not any(value for values, _, _ in series.values() for value in values.values()):
        return None
    figure, axes = plt.subplots(figsize=(8.2, 3.9))
    grouped_bars(axes, groups, series, text)
    axes.set(title=title, ylabel=label, xlabel="order of recording")
    axes.margins(y=0.1)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def pool(measured):
    bases = {side: measured.largest(side) for side in SIDES}
    figure = bucket_figure(
        measured, lambda side, case: pool_bytes(case) / pool_bytes(bases[side])
        if bases[side] and pool_bytes(bases[side]) else None,
        "One pool for every bucket, over the largest bucket alone",
        "mapped bytes / those of the largest alone", lambda value: f"{value:.2f}")
    if figure:
        limit_line(figure.axes[0], POOL_RATIO, f"bar, {POOL_RATIO} (outputs dropped)", False)
        figure.axes[0].legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def driver(measured):
    def kib_per_node(_, case):
        per_node = exec_bytes_per_node(case)
        return None if per_node is None else per_node / 1024

    return bucket_figure(measured, kib_per_node,
                         "What executable graphs take, by the driver's free memory",
                         "KiB beyond the pool, per node", number)


def recording(measured):
    figure, axes = plt.subplots(figsize=(7.6, 4))
    for side in SIDES:
        for case in measured.pools(side):
            if case["order"] == "asc":
                held = case["outputs"] == "held"
                axes.plot(case["recorded"], case["record_ms"], linewidth=0.8,
                          color=SIDE_COLOURS[side], markersize=3.5,
                          marker="s" if side == TORCH else "o",
                          linestyle=":" if held else "-", alpha=0.9,
                          markerfacecolor="white" if held else SIDE_COLOURS[side],
                          label=f"{SIDE_NAMES[side]}, outputs {case['outputs']}")
    if not axes.lines:
        plt.close(figure)
        return None
    axes.set(yscale="log", xlabel="batch size of the bucket", ylabel="milliseconds to record",
             title="Time to record each bucket, in ascending order")
    log_axis(axes.yaxis)
    axes.legend(loc="upper left", bbox_to_anchor=(0, 1), ncols=2)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.25)
    return figure


STALL_LINES = {"idle_us": (":", "nothing recorded"), "beside_us": ("-", "beside recording"),
               "control_us": ("--", "beside host work")}


def tail(values, rounds):
    """The share of rounds that take at least so long, at evenly spaced points of a log axis.

    `values` are as many of the ranked rounds, evenly spaced, as were kept.
    """
    ranked, last = sorted(values, reverse=True), TAIL_POINTS - 1
    counts = sorted({round(len(ranked) ** (i / last)) for i in range(TAIL_POINTS)})
    step = (rounds - 1) / max(len(ranked) - 1, 1)
    return ([ranked[count - 1] for count in counts],
            [(1 + (count - 1) * step) / rounds for count in counts])


def stall(measured):
    figure, axes = plt.subplots(figsize=(7.6, 4))
    for side in SIDES:
        found = measured.report("buckets", side).get("stall") or {}
        for key, (line, name) in STALL_LINES.items():
            if found.get(key):
                rounds = (found.get("rounds") or {}).get(key.removesuffix("_us"), len(found[key]))
                axes.plot(*tail(found[key], rounds), color=SIDE_COLOURS[side], linestyle=line,
                          label=f"{SIDE_NAMES[side]}, {name}")
                axes.plot([max(found[key])], [1 / rounds], color=SIDE_COLOURS[side],
                          marker="o" if side == COPPICE else "s", markersize=4)
    if not axes.lines:
        plt.close(figure)
        return None
    axes.set(xscale="log", yscale="log", xlabel="microseconds of a round",
             ylabel="share of rounds that take as long",
             title="Rounds of a kernel stream on another thread")
    log_axis(axes.xaxis)
    log_axis(axes.yaxis)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def kernels(measured):
    found = measured.report("kernels").get("by_name")
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(7, 1.3 + 0.32 * len(found)))
    ranked = sorted(found, key=lambda each: each["launches"] * each["us"])
    drawn = axes.barh([f"{each['name']}, {each['launches']}x" for each in ranked],
                      [each["launches"] * each["us"] for each in ranked], color=BLUE, height=0.66)
    axes.bar_label(drawn, [number(each["launches"] * each["us"]) for each in ranked], padding=3,
                   fontsize=8.5)
    axes.set(xlabel="microseconds in one step", title="Kernels of a decode step at batch 1")
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.1)
    return figure


def suspend(measured):
    rows = [(side, what, Spread.of([us / 1000 for us in measured.report("suspend", side)[key]]))
            for (side, key), what in SUSPEND.items() if measured.report("suspend", side).get(key)]
    if not rows:
        return None
    figure, axes = plt.subplots(figsize=(7.6, 1.4 + 0.4 * len(rows)))
    for at, (side, _, spread) in enumerate(rows):
        axes.errorbar([spread.median], [at], fmt="o" if side == COPPICE else "s", capsize=3,
                      xerr=[[spread.median - spread.p10], [spread.p90 - spread.median]],
                      color=SIDE_COLOURS[side], markersize=6)
        axes.annotate(number(spread.median), (spread.p90, at), (7, 0), va="center",
                      textcoords="offset points", fontsize=8.5)
    axes.set_yticks(range(len(rows)), labels=[f"{SIDE_NAMES[side]}: {what}"
                                              for side, what, _ in rows])
    axes.set(xscale="log", xlabel="milliseconds", ylim=(len(rows) - 0.4, -0.6),
             title="Memory of 64 graphs: given back, and had again")
    log_axis(axes.xaxis)
    axes.margins(x=0.12)
    return figure


def soak(measured):
    points = measured.report("soak").get("memory")
    if not points:
        return None
    figure, axes = plt.subplots(figsize=(7.6, 3.6))
    series = {"own_bytes": ("own bytes", BLUE, "o", 1), "host_rss_bytes": (
        "resident host memory", GREEN, "s", 1), "driver_free_bytes": (
            "taken from the driver", RED, "^", -1)}
    for key, (name, colour, marker, sign) in series.items():
        values = [sign * (point[key] - points[0][key]) / MIB for point in points]
        shares = [100 * i / max(len(points) - 1, 1) for i in range(len(points))]
        axes.plot(shares, values, color=colour, marker=marker, markerfacecolor="white", label=name)
    report = measured.report("soak")
    axes.set(xlabel=f"% of the work: {report['replays']:,} replays, {report['records']:,} records",
             ylabel="MiB more than at the first point", title="Memory over a soak")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def bars_figure(measured):
    found = bars(measured)
    figure, axes = plt.subplots(figsize=(10.5, 1.4 + 0.36 * len(found)))
    looks = {MET: (BLUE, "o"), MISSED: (RED, "X"), UNKNOWN: (GREY, "|")}
    for at, bar in enumerate(found):
        # Beyond these it is off the axis.
        share = 1 if bar.verdict == UNKNOWN else min(max(bar.share, 0.01), 100)
        colour, marker = looks[bar.verdict]
        axes.plot([1, share], [at, at], color=colour, linewidth=2.2)
        axes.plot([share], [at], color=colour, marker=marker, markersize=8)
        value = bar.verdict if bar.value is None else f"{number(bar.value)} {bar.unit}".strip()
        left = share <= 1 and bar.value is not None
        axes.annotate(value, (share, at), (-9 if left else 9, 0), textcoords="offset points",
                      va="center", ha="right" if left else "left", fontsize=8.5,
                      color=GREY if bar.value is None else BLACK)
    labels = [f"{bar.what}, {'>=' if bar.at_least else '<='} {number(bar.limit)} {bar.unit}".strip()
              for bar in found]
    axes.set_yticks(range(len(found)), labels=labels)
    axes.axvline(1, color=BLACK, linewidth=1.1, linestyle=(0, (4, 2)))
    axes.set(xscale="log", xlim=(0.004, 250), ylim=(len(found) - 0.4, -0.6),
             xlabel="share of the bar used up: left of 1 is met, right of it missed",
             title="Bars")
    log_axis(axes.xaxis, [0.01, 0.1, 1, 10, 100])
    axes.grid(axis="y", visible=False)
    return figure


def sides_figure(measured):
    found = pairs(measured)
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(9.4, 1.3 + 0.235 * len(found)))
    looks = {LESS: (BLUE, "o"), MORE: (RED, "X")}
    for at, pair in enumerate(found):
        colour, marker = looks.get(pair.verdict, (GREY, "D"))
        axes.plot([1, pair.ratio], [at, at], color=colour, linewidth=1.6)
        axes.plot([pair.ratio], [at], color=colour, marker=marker, markersize=6)
        axes.annotate(number(pair.ratio), (pair.ratio, at), (-7 if pair.ratio <= 1 else 7, 0),
                      textcoords="offset points", va="center",
                      ha="right" if pair.ratio <= 1 else "left", fontsize=7.5)
    axes.axvline(1, color=BLACK, linewidth=1.1)
    axes.set_yticks(range(len(found)), labels=[pair.what for pair in found], fontsize=8)
    axes.set(xscale="log", ylim=(len(found) - 0.4, -0.6), title="coppice over PyTorch",
             xlabel="coppice / PyTorch; circle: less, cross: MORE, diamond: even")
    log_axis(axes.xaxis)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    return figure


FIGURES = {"bars": bars_figure, "sides": sides_figure, "steps_host": steps_host,
           "steps_gpu": steps_gpu, "overhead": overhead, "dispatch": dispatch, "pool": pool,
           "driver": driver, "recording": recording, "stall": stall, "decode_gpu": decode_gpu,
           "decode_host": decode_host, "kernels": kernels, "suspend": suspend, "soak": soak}
WITHOUT_GPU = ("bars", "dispatch", "soak")  # What an emulator says something by.


def draw(measured, folder, suffix="svg"):
    """Writes a figure for each table that has one; returns their names, and what went wrong.

    Of an emulator's times there is none.
    """
    drawn, problems = [], []
    with plt.rc_context(STYLE):
        for name, make in FIGURES.items():
            if not measured.on_gpu and name not in WITHOUT_GPU:
                continue
            figure = attempt(f"{name}.{suffix}", make, measured, problems)
            if figure is None:
                continue
            source = f"{measured.source()}; {measured.name}"
            figure.supxlabel(source, x=0.01, ha="left", fontsize=7, color="#666666")
            figure.savefig(folder / f"{name}.{suffix}", dpi=110, facecolor="white",
                           metadata={"Date": None} if suffix == "svg" else None)
            plt.close(figure)
            drawn.append(name)
        plt.close("all")  # What a failed one has left.
    return drawn, problems
