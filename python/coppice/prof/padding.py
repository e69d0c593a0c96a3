"""What the padding of each step cost on a GPU: a table, JSON, and a list of nodes of graphs."""

import collections
import csv
import io

from coppice.prof.symbols import identifier

SCHEMA = "coppice.timeline/1"
HEAD = ("program", "step", "kernel", "launches", "time ms", "share", "padded", "cost ms", "source")
LEFT = (0, 2, 8)  # Columns of texts.
NAME_MAX = 47  # Characters of a kernel's name in a table.
PAIRS = ("graph_id", "graph_node_id", "node", "program", "bucket", "step", "kernel", "source")
NS_PER_MS = 1e6


class Time:
    """GPU time. All is in nanoseconds."""

    def __init__(self):
        self.kernels = 0
        self.total = 0
        self.told = 0  # Of kernels whose padding is known.
        self.cost = 0  # What padding took of that.
        self.sources = {}

    def add(self, kernel):
        self.kernels += 1
        self.total += kernel.lasts
        if kernel.known.padded is not None:
            self.told += kernel.lasts
            self.cost += kernel.lasts * kernel.known.padded
        if kernel.known.source is not None:
            self.sources[kernel.known.source] = True

    def fields(self):
        return {"gpu_ms": milliseconds(self.total),
                "padded_share": round(self.cost / self.told, 6) if self.told else None,
                "padding_ms": milliseconds(self.cost) if self.told else None}


def milliseconds(ns):
    return round(ns / NS_PER_MS, 6)


def report(timeline, joined, trace, package):
    """The document."""
    rows, nodes, whole = collections.defaultdict(Time), collections.defaultdict(Time), Time()
    for kernel in timeline.kernels:
        if known := kernel.known:
            name = known.kernel or kernel.symbol or kernel.name
            for each in (rows[known.programs, known.step, name], whole,
                         nodes[known.nodes, known.label]):
                each.add(kernel)
    ranked = sorted(rows.items(), key=lambda item: rank(*item))
    return {
        "schema": SCHEMA, "trace": str(trace), "timeline": str(timeline.path),
        "format": timeline.format, "package": package and str(package),
        "launches": joined.matched, "launches_not_of_this_trace": joined.others,
        "kernels": len(timeline.kernels), "kernels_of_the_trace": whole.kernels,
        "kernels_left_out": timeline.left_out,
        "timeline_gpu_ms": milliseconds(sum(kernel.lasts for kernel in timeline.kernels)),
        **whole.fields(), "gpu_ms_of_known_padding": milliseconds(whole.told),
        "graph_nodes_of_several_steps": len(joined.conflicts),
        "ambiguous": [{"label": label, "launches": count}
                      for label, count in sorted(joined.ambiguous.items())],
        "nodes": [{"nodes": list(numbers), "label": label, "launches": joined.by_nodes[numbers],
                   "kernels": time.kernels, **time.fields()}
                  for (numbers, label), time in sorted(nodes.items())],
        "rows": [row(key, time, whole) for key, time in ranked]}


def rank(key, time):
    """Rows with the highest cost come first, then those with the longest time."""
    programs, step, name = key
    return -time.cost if time.told else 1, -time.total, programs, -1 if step is None else step, name


def row(key, time, whole):
    programs, step, name = key
    return {"program": programs[0] if len(programs) == 1 else None, "programs": list(programs),
            "step": step, "kernel": name, "launches": time.kernels,
            "share": round(time.total / whole.total, 6) if whole.total else 0.0, **time.fields(),
            "source": next(iter(time.sources)) if len(time.sources) == 1 else None}


def table(document):
    """Rows, and the sums with notes below them, as text."""
    rows = [HEAD]
    for each in document["rows"]:
        rows.append((" or ".join(each["programs"]), unknown(each["step"], "{}"),
                     short(identifier(each["kernel"])), str(each["launches"]),
                     f"{each['gpu_ms']:.3f}", f"{each['share']:.2%}",
                     unknown(each["padded_share"], "{:.2%}"),
                     unknown(each["padding_ms"], "{:.3f}"), unknown(each["source"], "{}")))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(["", *(text.ljust(width) if place in LEFT else text.rjust(width)
                              for place, (text, width) in enumerate(zip(each, widths)))]).rstrip()
             for each in rows]
    return "\n".join(map(printable, [*lines, "", *sums(document), *notes(document)])) + "\n"


def sums(document):
    told, cost = document["gpu_ms"], document["padding_ms"]
    yield (f"  graph launches of this trace: {document['launches']}; not of this trace: "
           f"{document['launches_not_of_this_trace']}")
    yield (f"  GPU time of these launches: {told:.3f} ms, of {document['timeline_gpu_ms']:.3f} ms "
           "of all kernels")
    if cost is None:
        yield "  padding: not known" + (
            "" if document["package"] else
            "; give --package, the package whose programs the trace replayed")
    else:
        share = cost / told if told else 0.0
        yield f"  padding: {cost:.3f} ms, {share:.2%} of that time"


def notes(document):
    told, known = document["gpu_ms"], document["gpu_ms_of_known_padding"]
    if document["padding_ms"] is not None and known < told:
        yield (f"note: the padding of {1 - known / told:.2%} of that time is not known: kernels of "
               "libraries and of coppice, and launches of several graphs")
    for each in document["ambiguous"]:
        yield (f"note: {each['launches']} launches are of {each['label']}, whose graphs have the "
               "same kernels; what differs between them is not told")
    if count := document["graph_nodes_of_several_steps"]:
        yield (f"note: {count} graph nodes ran as several steps; equal kernels of one graph may "
               "have run at the same time, so their steps may be mixed up")
    if count := document["kernels_left_out"]:
        yield f"note: {count} kernels are left out, because their times are not valid"


def unknown(value, format):
    return "?" if value is None else format.format(value)


def short(name):
    """The name without its middle: the ends of long names tell them apart."""
    half = (NAME_MAX - 3) // 2
    return name if len(name) <= NAME_MAX else f"{name[:half]}...{name[-half:]}"


def printable(text):
    return "".join(each if each.isprintable() else "?" for each in text)


def pairs(kernels):
    """CSV: what each node of a graph is, by the ids that CUPTI gives both."""
    found = collections.defaultdict(dict)
    for kernel in kernels:
        if kernel.known and kernel.node:
            name = kernel.known.kernel or kernel.symbol or kernel.name
            facts = found[-1 if kernel.graph is None else kernel.graph, kernel.node]
            facts[id(kernel.known), name] = kernel.known, name
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(PAIRS)
    for (graph, node), facts in sorted(found.items()):
        several = list(facts.values())
        rows.writerow((
            "" if graph < 0 else graph, node,
            together(number for known, _ in several for number in known.nodes),
            together(program for known, _ in several for program in known.programs),
            together(known.label for known, _ in several),
            one(known.step for known, _ in several), one(name for _, name in several),
            one(known.source for known, _ in several)))
    return text.getvalue()


def together(values):
    return " or ".join(printable(str(value)) for value in dict.fromkeys(values))


def one(values):
    """The value, or nothing if there are several."""
    found = dict.fromkeys(values)
    value = next(iter(found))
    return printable(str(value)) if len(found) == 1 and value is not None else ""
