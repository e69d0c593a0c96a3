"""Reads what `nsys export --type sqlite` writes of Nsight Systems' reports."""

import contextlib
import pathlib
import sqlite3

from coppice.prof.command import Refused
from coppice.prof.timelines import FORMATS, Kernel, Timeline, extents, number, time
from coppice.prof.traced import told

# Tables.
KERNELS, GRAPHS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NAMES = "StringIds"
GRID, BLOCK = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")
NEEDED = ("start", "end", "correlationId", *GRID, *BLOCK)
# The first that a row has is its name; others are there in some versions only.
TITLES = ("demangledName", "shortName", "mangledName")
OTHERS = ("deviceId", "streamId", "globalPid", "graphNodeId", "graphId")


def read(path):
    """Reads the file, and writes nothing beside it. Raises Refused: it is no such export."""
    address = f"{pathlib.Path(path).resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as base:
            base.text_factory = lambda text: text.decode("utf-8", "replace")
            base.execute("PRAGMA trusted_schema = OFF")
            return take(path, base)
    except (sqlite3.Error, ValueError, OverflowError) as error:
        why = " ".join(str(error).split())[:200]
        raise Refused(f"{path}: SQLite cannot read it: {why}; {FORMATS}") from error


def take(path, base):
    timeline = Timeline(path, "nsys")
    tables = {name for name, text in base.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table'")
              if isinstance(text, str) and text.upper().startswith("CREATE TABLE")}
    timeline.whole_graphs = GRAPHS in tables
    if KERNELS not in tables:
        return timeline
    columns = columns_of(base, KERNELS)
    titles = [name for name in TITLES if name in columns]
    lacking = [name for name in NEEDED if name not in columns]
    if not titles:
        lacking.append(TITLES[0])
    if lacking:
        raise Refused(f"{path}: the table {KERNELS} has no column {', '.join(lacking)}; export the "
                      "report again with a newer nsys")
    if NAMES not in tables or not {"id", "value"} <= columns_of(base, NAMES):
        raise Refused(f"{path}: there is no table {NAMES} with names of kernels; export the whole "
                      "report")
    names = names_of(base, titles)
    chosen = [*NEEDED, *titles, *(name for name in OTHERS if name in columns)]
    total, = base.execute(f'SELECT count(*) FROM "{KERNELS}"').fetchone()
    rows = base.execute(f"SELECT {quoted(chosen)} FROM \"{KERNELS}\"")
    for row in told(rows, total):
        add(timeline, dict(zip(chosen, row)), names)
    return timeline


def columns_of(base, table):
    return {row[1] for row in base.execute(f'PRAGMA table_info("{table}")')}


def quoted(columns):
    return ", ".join(f'"{column}"' for column in columns)


def names_of(base, titles):
    """The texts that the columns name, by their numbers."""
    used = " UNION ".join(f'SELECT "{column}" FROM "{KERNELS}"' for column in titles)
    return {key: value for key, value in base.execute(
        f'SELECT "id", "value" FROM "{NAMES}" WHERE "id" IN ({used})')
            if type(key) is int and isinstance(value, str)}


def add(timeline, row, names):
    start, end = row["start"], row["end"]
    if not time(start) or not time(end) or end < start:
        timeline.left_out += 1
        return
    found = {title: names.get(row.get(title)) for title in TITLES}
    kernel = Kernel(next(filter(None, found.values()), ""), start, end - start)
    kernel.symbol = found["mangledName"] or None
    kernel.grid, kernel.block = (extents([row[axis] for axis in axes]) for axes in (GRID, BLOCK))
    kernel.place(*(number(row.get(name)) for name in ("globalPid", "deviceId", "streamId")),
                 number(row["correlationId"]) or None)
    # Empty if the kernel is in no graph.
    kernel.node, kernel.graph = (unsigned(row[name]) or 0 if name in row else None
                                 for name in ("graphNodeId", "graphId"))
    timeline.kernels.append(kernel)


def unsigned(value):
    """The id of which SQLite has the 64 bits, with a sign."""
    return number(value % (1 << 64)) if type(value) is int else None
