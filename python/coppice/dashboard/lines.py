"""Lines of results, one per model, mode and type, and files of them.

A file is JSON lines. The first line may say how the others were made, with `command` and
`versions`. Seconds and milliseconds are processor time, so that other work on the machine does not
count; on a GPU, those of calls are wall-clock time.

    suite model mode dtype   which
    status                   right, wrong, error or timeout
    lifted                   full: coppice runs everything; calls: all graphs are lifted, but
                             PyTorch runs some operators; part: some graphs are lifted; none
    reasons                  why not full
    graphs breaks recompiles of Dynamo, forward and backward
    kernels gemms calls      in one call of each graph; calls are {operator of PyTorch: how many}
    compile_s inductor_s     all compilations, and the part of it in Dynamo, AOTAutograd and
                             Inductor
    first_s                  the first call
    call_ms eager_ms         a call of the last size when it comes again, and eager's
    error                    the largest distance from eager, relative to the results
    why                      for wrong and error: in what
    pool_bytes live_bytes    the shared pool, and the bytes live at once in the largest bucket
    apart_bytes              the same with a pool for each bucket
    padding_pct              elements of padding, in percent of the others
    sizes replayed           how many sizes, and at how many of them the last call only replays
    speedup interval         on a GPU: eager's time over ours, and its 95 % interval
"""

import collections
import json

STATUSES = ("right", "wrong", "error", "timeout")
FIELDS = ("suite", "model", "mode", "dtype", "status", "lifted", "reasons", "graphs", "breaks",
          "recompiles", "kernels", "gemms", "calls", "compile_s", "inductor_s", "first_s",
          "call_ms", "eager_ms", "error", "why", "pool_bytes", "live_bytes", "apart_bytes",
          "padding_pct", "sizes", "replayed", "speedup", "interval")
KEY = FIELDS[:4]


def line(**known):
    """A line with all fields; those that were not measured are None."""
    unknown = set(known) - set(FIELDS)
    if unknown:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    return {name: known.get(name) for name in FIELDS}


def key_of(one):
    return tuple(one[name] for name in KEY)


def read(path):
    """The heading ({} if there is none) and the lines. If several lines have the same key, the last
    one counts.
    Errors: ValueError, which says where."""
    heading, found = {}, {}
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            known = json.loads(text)
            if "versions" in known:
                heading = known
            else:
                found[key_of(known)] = known
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: not a line of a dashboard: {error!r}") from error
    return heading, list(found.values())


def text_of(one):
    return json.dumps(one, separators=(", ", ": ")) + "\n"


def write(path, heading, lines):
    path.write_text("".join(map(text_of, ([heading] if heading else []) + list(lines))))


def by_suite(lines):
    """{suite: its lines}. Suites are in the order in which they first occur."""
    result = collections.defaultdict(list)
    for one in lines:
        result[one["suite"]].append(one)
    return dict(result)


def causes_of(lines):
    """[(cause, names of models)] for all results that are not `right` and `full`. The most frequent
    cause comes first."""
    result = collections.defaultdict(list)
    for one in lines:
        if one["status"] != "right":
            why = f"{one['status']}: {one['why']}" if one["why"] else one["status"]
            result[why].append(name_of(one))
            continue
        for reason in one["reasons"] or ():
            result[reason].append(name_of(one))
    return sorted(result.items(), key=lambda item: (-len(item[1]), item[0]))


def name_of(one):
    return " ".join(one[name] for name in ("model", "mode", "dtype"))


def median(values):
    """The median; None if there are no values."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    middle = len(known) // 2
    return known[middle] if len(known) % 2 else (known[middle - 1] + known[middle]) / 2
