"""How much memory the graphs of a package take on a card, without the card."""

import contextlib
import json
import operator
import os
import pathlib
import tempfile

from coppice import errors
from coppice.prof import command


def fit(package, traffic, *, memory="80GiB", weights=0, kv_bytes_per_token=0, kv_tokens_min=0,
        lanes=1, buckets=64, padding_max=10, replays_min=99, goal="tokens", exact="never",
        at=None, limit=None, compare=(), write=None, plot=None):
    """Chooses buckets for a kernel package, and says how much memory their graphs take on a card
    and what they leave for the cache. Needs no GPU: `coppice fit` records each choice on an
    emulated device that allocates no memory.

        found = coppice.fit("decoder.zip", "requests.csv", memory="80GiB",
                            kv_bytes_per_token=128 << 10, write="chosen")
        found["fits"], found["buckets"], found["pool_bytes"], found["kv_tokens"]

    package             the path of a folder or a zip file
    traffic             the path of a log or a table, or several; or {"decode.batch": sizes}, the
                        sizes of calls by program and symbol
    memory, weights     bytes of the card, and of what else the application keeps there: numbers, or
                        text such as "24GiB"
    kv_bytes_per_token  bytes of the cache per token, to count what is left in tokens
    kv_tokens_min       tokens that have to fit
    lanes, buckets      calls at the same time; most buckets of a program
    padding_max         in %, for the goals "tokens" and "graphs"
    replays_min         the least share of calls that have a bucket, in %
    goal                "tokens" (the most memory is left), "padding" (the least is computed) or
                        "graphs" (the fewest)
    exact               as in coppice.load
    at, limit           {"prefill.batch": 1}: sizes of symbols without traffic; last buckets
    compare             buckets of other systems, such as ["vllm", "pow2"]
    write, plot         a folder for policies and a profile; a file for a picture

    Returns a dict: the chosen buckets and their figures, and `frontier`, a list of all choices.
    If no choice fits, `fits` is False, and the figures of a chosen one are missing. Raises
    coppice.InvalidArgument for a wrong package, traffic or option.
    """
    compare = [compare] if isinstance(compare, str) else compare
    with contextlib.ExitStack() as stack:
        files, columns = traffic, ()
        if isinstance(traffic, dict):
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            files, columns = tables(traffic, folder)
        elif isinstance(traffic, (str, os.PathLike)):
            files = [traffic]
        elif not isinstance(traffic, (list, tuple)):
            raise errors.InvalidArgument("coppice.fit: traffic is not a path, a list of paths or "
                                         'a dict; give "requests.csv" or {"decode.batch": sizes}')
        arguments = ["fit", package, "--json", "--traffic", *files, "--memory", memory, "--lanes",
                     lanes, "--buckets", buckets, "--padding-max", padding_max,
                     "--replays-min", replays_min, "--goal", goal, "--exact", exact]
        for option, value in (("--weights", weights), ("--kv-bytes-per-token", kv_bytes_per_token),
                              ("--kv-tokens-min", kv_tokens_min), ("--write", write),
                              ("--plot", plot)):
            arguments += [option, value] if value else []
        for option, values in (("--size", columns), ("--at", pairs(at)), ("--limit", pairs(limit)),
                               ("--compare", compare)):
            for value in values:
                arguments += [option, value]
        try:
            return json.loads("".join(command.lines(*arguments)))
        except command.Refused as error:
            raise errors.InvalidArgument(f"coppice.fit: {error}") from None


def pairs(given):
    return [f"{name}={value}" for name, value in (given or {}).items()]


def tables(sizes, folder):
    """Writes the sizes as one table, a column for each symbol; returns its path, and the value of
    --size for its columns."""
    rows = max((len(values) for values in sizes.values()), default=0)
    try:
        columns = [[*map(operator.index, values), *[""] * (rows - len(values))]
                   for values in sizes.values()]
    except TypeError as error:
        raise errors.InvalidArgument(f"coppice.fit: a size is not valid: {error}; give whole "
                                     "numbers") from None
    path = folder / "sizes.csv"
    lines = [",".join(sizes), *(",".join(map(str, row)) for row in zip(*columns))]
    path.write_text("\n".join(lines) + "\n")
    return [path], [f"{name}={name}" for name in sizes]
