"""Plans how much memory a model that ran without coppice would need in one pool."""

import json
import pathlib
import tempfile

from coppice.prof import command
from coppice.prof.foreign import PAIRS_MAX

ALIGNMENT = 256  # Of buffers in a plan (coppice/base/units.h).
# So many tries are those of a graph's plan, and always the same.
SEARCH = ("--tries", 4096, "--time-limit", 30)
UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
HEAD = ("device", "events", "allocations", "reserved", "allocated", "plan", "/ bound", "method")


def lifetimes_csv(lifetimes):
    """The lifetimes in the format that `coppice plan` reads."""
    rows = (f"{number},{lower},{upper},{bytes},{ALIGNMENT}\n"
            for number, (lower, upper, bytes) in enumerate(lifetimes.rows))
    return "id,lower,upper,size,alignment\n" + "".join(rows)


def plan(lifetimes):
    """Figures of the device and of its plan. Raises Refused if there is none."""
    if (pairs := lifetimes.pairs()) > PAIRS_MAX:
        raise command.Refused(
            f"{lifetimes.name}: device {lifetimes.device}: {len(lifetimes.rows)} allocations form "
            f"{pairs} pairs that overlap in time, but coppice plans at most {PAIRS_MAX} pairs; "
            "record less")
    planned = {"bound_bytes": 0, "height_bytes": 0, "gap": 1.0, "method": "empty"}
    if lifetimes.rows:
        planned = ask_for_plan(lifetimes)
    return {"device": lifetimes.device, "events": lifetimes.steps,
            "allocations": len(lifetimes.rows), "live_before_the_events": lifetimes.live_before,
            "live_after_the_events": lifetimes.live_after, "requests_refused": lifetimes.refused,
            "allocations_of_no_bytes": lifetimes.empty,
            "reserved_peak_bytes": lifetimes.reserved_peak,
            "allocated_peak_bytes": planned["bound_bytes"],
            **{key: planned[key] for key in ("bound_bytes", "height_bytes", "gap", "method")}}


def ask_for_plan(lifetimes):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lifetimes.csv"
        path.write_text(lifetimes_csv(lifetimes))
        try:
            return json.loads("".join(command.lines("plan", path, "--json", *SEARCH)))["files"][0]
        except command.Refused as error:
            why = str(error).replace(f"{path}: ", "")
            raise command.Refused(f"{lifetimes.name}: device {lifetimes.device}: {why}; give a "
                                  "file whose allocations fit on a device") from error


def bytes_text(bytes):
    for unit, size in UNITS:
        if bytes >= size:
            return f"{bytes / size:.2f} {unit}"
    return f"{bytes} B"


def table(devices):
    """A row per device, and a note on what is not in its plan."""
    rows, notes = [HEAD], ["  reserved and allocated: peaks of the other allocator; allocated is a "
                           "lower bound for the plan"]
    for each in devices:
        reserved = each["reserved_peak_bytes"]
        rows.append((str(each["device"]), str(each["events"]), str(each["allocations"]),
                     "?" if reserved is None else bytes_text(reserved),
                     bytes_text(each["allocated_peak_bytes"]), bytes_text(each["height_bytes"]),
                     f"{each['gap']:.4f}", each["method"]))
        if count := each["live_before_the_events"]:
            notes.append(f"note: device {each['device']}: allocations older than the first event: "
                         f"{count}; they count as allocated from the start")
        if count := each["requests_refused"]:
            notes.append(f"note: device {each['device']}: refused requests: {count}; they are not "
                         "in the plan")
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(["", *map(str.rjust, row[:-1], widths), row[-1]]) for row in rows]
    return "\n".join(lines + notes) + "\n"
