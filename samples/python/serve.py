#!/usr/bin/env python3
"""Serves requests by a decoder of PyTorch, with continuous batching, through
`torch.compile(backend="coppice")`.

    serve.py                                    12 requests, drawn; on a GPU, or else the emulator
    serve.py requests.csv --verify              those of a file, held to eager PyTorch
    serve.py --requests 4 --max-batch 2 --stream

The decoder is that of torch_decoder.py. A step is either the prefill of one request, as soon as a
slot is free, or one decode step of all that run; a request leaves with its last token. Requests are
a CSV file, as `coppice run` reads it; further columns are ignored:

    arrival_seconds,input_tokens,output_tokens    (all arrivals empty: a Poisson process)

Two functions are compiled, each with one size that varies and buckets for it. The KV caches lie
where they always lie, and both write them in place. Rows of padding write slot 0, which no request
has, and positions of padding lie behind those of a prompt, where nobody reads before it writes.

On a GPU time is measured, after every size ran once. The emulator is no model of time: there a step
costs 6 ms and 0.0125 ms per row, as in `coppice run`. Nobody waits for arrivals: the clock jumps.
Exits with 1 if tokens differ, with 2 if an option or a file is wrong.
"""

import argparse
import collections
import csv
import dataclasses
import math
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

HEADER = ["arrival_seconds", "input_tokens", "output_tokens"]
ARRIVALS_PER_SECOND = 50
STEP_SECONDS, ROW_SECONDS = 0.006, 0.0000125
SIZE_MIN = 2  # PyTorch compiles sizes 0 and 1 by themselves; a row of padding saves that.
CONTEXT_MIN = 4  # Lengths up to SIZE_MIN would not vary.
BOUND = 1e-3  # Logits nearer than this to the best may win, by sums in another order.


class UsageError(Exception):
    """Where, what, what to do."""


@dataclasses.dataclass(eq=False)
class Request:
    number: int
    arrival: float  # Seconds.
    prompt: int  # Tokens, >= 1.
    answer: int
    slot: int = 0
    fed: list = dataclasses.field(default_factory=list)  # The prompt, then the answer.
    times: list = dataclasses.field(default_factory=list)  # When each token of the answer came.

    @property
    def tokens(self):
        return self.fed[self.prompt:]

    @property
    def done(self):
        return len(self.tokens) == self.answer


# Requests.

def read_requests(path, seed):
    """Requests of a CSV file. Errors: UsageError with the line."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: {error}; give a CSV file of requests") from error
    if not rows or rows[0][:3] != HEADER:
        found = ",".join(rows[0]) if rows else ""
        raise UsageError(f"{path}:1: the header is {found!r}; start the file with the line "
                         f"{','.join(HEADER)!r}")
    if len(rows) == 1:
        raise UsageError(f"{path}:1: a header and no rows; add at least one request")
    random_ = random.Random(seed)
    requests, poisson = [], rows[1][:1] == [""]
    for line, row in enumerate(rows[1:], 2):
        where = f"{path}:{line}"
        if len(row) != len(rows[0]):
            raise UsageError(f"{where}: the row has {len(row)} fields, but the header has "
                             f"{len(rows[0])}; give every row one field per column")
        before = requests[-1].arrival if requests else 0.0
        arrival = before + random_.expovariate(ARRIVALS_PER_SECOND)
        if not poisson or row[0]:
            arrival = number_of(where, "arrival_seconds", row[0], float, 0)
            if poisson or arrival < before:
                raise UsageError(f"{where}: arrival_seconds is {row[0]!r} and of the row above "
                                 f"{rows[line - 2][0]!r}; sort the rows by it, or leave all empty")
        requests.append(Request(line - 2, arrival, *(
            number_of(where, column, text, int, 1) for column, text in zip(HEADER[1:], row[1:]))))
    return requests


def number_of(where, column, text, kind, least):
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not least <= value < 1e9:
        raise UsageError(f"{where}: {column} is {text!r}; give a "
                         f"{'whole number' if kind is int else 'number'} from {least} to 1e9")
    return value


def draw_requests(count, context, seed):
    """Requests that fit the context: most of it prompt."""
    random_, clock, requests = random.Random(seed), 0.0, []
    for number in range(count):
        requests.append(Request(number, clock, random_.randint(1, max(1, context // 2)),
                                random_.randint(1, max(1, context // 4))))
        clock += random_.expovariate(ARRIVALS_PER_SECOND)
    return requests


def fit(requests, context, shrink, vocabulary, seed):
    """Divides lengths, cuts what the context cannot hold, and draws the prompts. The last token of
    an answer is never fed, so that it takes no place. Returns how many were cut."""
    cut = 0
    for request in requests:
        wanted = (-(-request.prompt // shrink), -(-request.answer // shrink))
        request.prompt = min(wanted[0], context)
        request.answer = min(wanted[1], context - request.prompt + 1)
        cut += (request.prompt, request.answer) != wanted
        random_ = random.Random(f"{seed} {request.number}")
        request.fed = [random_.randrange(vocabulary) for _ in range(request.prompt)]
    return cut


# The model.

class Model:
    """The decoder with its caches, compiled. Slots are 1 to slots; 0 is for padding."""

    def __init__(self, options, device):
        import coppice
        import torch
        import torch_decoder

        torch_decoder.LAYERS, torch_decoder.SLOTS = options.layers, options.max_batch
        torch_decoder.MAX_CONTEXT = options.context
        self.torch, self.device = torch, device
        self.kind = "cuda" if device == "cuda" else "emulator"
        self.session = coppice.session(coppice.device(self.kind))  # That of all compiled functions.
        self.vocabulary = torch_decoder.VOCABULARY
        self.decoder = torch_decoder.make_decoder().to(device)
        self.make_caches = lambda: [cache.to(device) for cache in torch_decoder.make_caches()]
        self.caches = self.make_caches()
        for cache in self.caches:
            torch._dynamo.mark_static_address(cache)
            torch._dynamo.mark_static(cache)
        self.slots, self.context = options.max_batch, options.context
        self.prefill = self.compiled(
            self.decoder.prefill, "tokens:1", options.prefill_policy, options.context,
            claim={"keys": "written", "values": "written"})
        self.decode = self.compiled(
            self.decoder.decode, "tokens:0", options.decode_policy,
            max(SIZE_MIN, options.max_batch), fills={"slots": 0})

    def compiled(self, function, size, policy, maximum, claim=(), **options):
        return self.torch.compile(function, backend="coppice", dynamic=True, options={
            "device": self.kind, "policy": {size: (policy, maximum)},
            "claim": {size: "finite", **dict(claim)}, "strict": True, **options})

    def ints(self, values):
        return self.torch.tensor(values, dtype=self.torch.int32, device=self.device)

    def first(self, prompt, slot):
        """Feeds a prompt; the token behind it."""
        padded = prompt + [0] * (SIZE_MIN - len(prompt))
        return self.run(self.prefill, [padded], [len(prompt)], [slot])[0]

    def next(self, tokens, positions, slots):
        """Feeds a token of each request; those behind them."""
        idle = [0] * (SIZE_MIN - len(tokens))
        found = self.run(self.decode, tokens + idle, positions + idle, slots + idle)
        return found[:len(tokens)]

    def run(self, function, *arguments):
        try:
            with self.torch.no_grad():
                return function(*map(self.ints, arguments), *self.caches)[1].tolist()
        except self.torch._dynamo.exc.BackendCompilerFailed as error:
            # As of a policy that is none: under strict nothing falls back.
            raise UsageError(str(error.inner_exception)) from error

    def warm(self, progress):
        """Runs every size once, in slot 0: compiles, and records every bucket."""
        lengths, rows = range(self.context, 0, -1), range(self.slots, 0, -1)
        for done, size in enumerate([*lengths, *rows]):
            if done < len(lengths):
                self.first([0] * size, 0)
            else:
                self.next([0] * size, [0] * size, [0] * size)
            progress("warming up", done + 1, len(lengths) + len(rows))


# Serving.

class Server:
    """Runs requests on a clock that each step moves on by what it took, or costs."""

    def __init__(self, model, measured, told):
        self.model, self.measured, self.told = model, measured, told
        self.clock, self.prefills, self.decodes, self.rows_max = 0.0, 0, 0, 0

    def serve(self, requests):
        waiting, running = collections.deque(requests), []
        free = list(range(self.model.slots, 0, -1))
        while waiting or running:
            if not running:
                self.clock = max(self.clock, waiting[0].arrival)
            if free and waiting and waiting[0].arrival <= self.clock:
                request = waiting.popleft()
                request.slot = free.pop()
                running.append(request)
                self.prefill(request)
            else:
                self.decode(running)
            free += [request.slot for request in running if request.done]
            running = [request for request in running if not request.done]

    def prefill(self, request):
        self.prefills += 1
        self.step([request], request.prompt,
                  lambda: [self.model.first(request.fed, request.slot)])

    def decode(self, running):
        self.decodes += 1
        self.rows_max = max(self.rows_max, len(running))
        self.step(running, len(running), lambda: self.model.next(
            [request.fed[-1] for request in running],
            [len(request.fed) - 1 for request in running],
            [request.slot for request in running]))

    def step(self, requests, rows, run):
        begin = time.perf_counter()
        tokens = run()
        took = time.perf_counter() - begin
        self.clock += took if self.measured else STEP_SECONDS + ROW_SECONDS * rows
        for request, token in zip(requests, tokens):
            request.fed.append(token)
            request.times.append(self.clock)
            self.told(request, token, self.clock)


def verify(model, requests, progress):
    """Repeats each request in eager PyTorch: alone, without padding, on caches of its own. It is
    fed the tokens that were served, so that a difference stays where it is. Returns lines, one per
    token that eager would not have chosen."""
    wrong = []
    for done, request in enumerate(requests, 1):
        caches, slot = model.make_caches(), model.ints([1])
        at = request.prompt
        with model.torch.no_grad():
            logits, _ = model.decoder.prefill(model.ints([request.fed[:at]]), model.ints([at]),
                                              slot, *caches)
            for index, token in enumerate(request.tokens):
                if index:
                    logits, _ = model.decoder.decode(model.ints([request.fed[at - 1]]),
                                                     model.ints([at - 1]), slot, *caches)
                best = int(logits[0].argmax())
                if not float(logits[0, best] - logits[0, token]) <= BOUND:
                    wrong.append(f"request {request.number}, token {index}: {token}, "
                                 f"eager PyTorch has {best}")
                at += 1
        progress("verifying", done, len(requests))
    return wrong


# What it prints.

def progress_on(stream, quiet):
    """A function of what is done, how much of it and how much there is."""
    def progress(what, done, total):
        if quiet:
            return
        if stream.isatty():
            stream.write(f"\r{what} {done} of {total}" + ("\n" if done == total else ""))
        elif done * 10 // total != (done - 1) * 10 // total:
            stream.write(f"{what} {done} of {total}\n")
        stream.flush()

    return progress


def quantiles(seconds):
    """"p50 6.1 ms, p95 9.2 ms" of times."""
    if not seconds:
        return "none"
    cuts = statistics.quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else (
        seconds * 19)
    return f"p50 {1e3 * cuts[9]:.2f} ms, p95 {1e3 * cuts[18]:.2f} ms"


def size_of(count):
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.2f} KiB"


def report(model, server, requests, before):
    """Lines about times, calls and memory; `before` are the session's stats of before."""
    after = model.session.stats()
    runs = {kind: count - before["runs"][kind] for kind, count in after["runs"].items()}
    real, padded = (after[name] - before[name] for name in ("real_elements", "padded_elements"))
    tokens = sum(len(request.tokens) for request in requests)
    steps = server.prefills + server.decodes
    clock = "measured" if server.measured else (
        f"no model of time, so that a step costs {1e3 * STEP_SECONDS:g} ms + "
        f"{1e3 * ROW_SECONDS:g} ms x rows")
    yield "device", f"{model.session.device.name}: {clock}"
    yield "steps", (f"{steps}: {server.prefills} prefill, {server.decodes} decode in batches of "
                    f"up to {server.rows_max}")
    yield "tokens", f"{tokens} in {server.clock:.3f} s, {tokens / server.clock:.1f} a second"
    yield "TTFT", quantiles([request.times[0] - request.arrival for request in requests])
    yield "TPOT", quantiles([(request.times[-1] - request.times[0]) / (len(request.times) - 1)
                             for request in requests if len(request.times) > 1])
    yield "calls", (f"{sum(runs.values())}: {runs['replay']} replays, {runs['record']} records, "
                    f"{runs['eager'] + runs['warm_up']} without a graph")
    yield "padding", f"{100 * (padded - real) / max(padded, 1):.1f} % of the staged elements"
    yield from report_memory(model)


def report_memory(model):
    import coppice.torch

    recorded = [bucket for bucket in model.session.buckets() if bucket["recorded"]]
    parts = []
    for name, function in (("prefill", model.prefill), ("decode", model.decode)):
        programs = {one.program for one in coppice.torch.report(function)}
        sizes = sorted(bucket["bucket"][-1] for bucket in recorded
                       if bucket["program"] in programs)
        parts.append(f"{name} {' '.join(map(str, sizes)) or 'none'}")
    yield "graphs", f"{len(recorded)}, of buckets {', '.join(parts)}"
    yield "pool", (f"{size_of(model.session.memory()['height'])} high; its largest bucket "
                   f"{size_of(max((one['live_bytes'] for one in recorded), default=0))}, "
                   f"a pool per bucket {size_of(sum(one['plan_height'] for one in recorded))}")


# The command.

def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", help="CSV of requests; without one they are drawn")
    parser.add_argument("--device", choices=("auto", "cuda", "emulator"), default="auto")
    parser.add_argument("--requests", type=positive, metavar="N",
                        help="how many to draw (12), or to serve of the file (all)")
    parser.add_argument("--max-batch", type=positive, default=4, metavar="N",
                        help="most requests that run at once (4)")
    parser.add_argument("--shrink", type=positive, default=1, metavar="N",
                        help="divides the lengths of the file by N (1)")
    parser.add_argument("--layers", type=positive, default=2, metavar="N",
                        help="of the decoder (2)")
    parser.add_argument("--context", type=positive, default=64, metavar="N",
                        help="tokens that a slot holds, 4 or more (64)")
    parser.add_argument("--prefill-policy", default="pow2", metavar="P",
                        help="buckets of prompts: exact, pow2, linear:16, 8,24,64 (pow2)")
    parser.add_argument("--decode-policy", default="pow2", metavar="P", help="of batches (pow2)")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="of what is drawn: requests, prompts (1)")
    parser.add_argument("--stream", action="store_true", help="prints tokens as they come")
    parser.add_argument("--verify", action="store_true",
                        help="compares every token with eager PyTorch")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    options = parser.parse_args(arguments)
    if options.context < CONTEXT_MIN:
        parser.error(f"--context {options.context}: give {CONTEXT_MIN} or more")
    return options


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


positive.__name__ = "whole number"  # What argparse calls it in errors.


def load(options):
    """The requests, and a line about them."""
    if options.trace is None:
        requests = draw_requests(options.requests or 12, options.context, options.seed)
        return requests, f"{len(requests)} drawn, seed {options.seed}"
    requests = read_requests(options.trace, options.seed)[:options.requests]
    return requests, f"{len(requests)} of {options.trace}"


def device_of(wanted):
    """Where tensors are: "cuda" or "cpu"."""
    try:
        import torch
        import coppice  # noqa: F401
    except ImportError as error:
        raise UsageError(f"{error}; pip install torch, and coppice from its clone") from error
    if "coppice" not in torch._dynamo.list_backends(exclude_tags=()):
        raise UsageError("torch.compile knows no backend coppice; pip install it from its clone")
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise UsageError("--device cuda: PyTorch finds no CUDA device; give --device emulator")
    return "cuda" if there and wanted != "emulator" else "cpu"


def run(options):
    progress = progress_on(sys.stderr, options.quiet)
    requests, line = load(options)
    device = device_of(options.device)
    model = Model(options, device)
    cut = fit(requests, options.context, options.shrink if options.trace else 1, model.vocabulary,
              options.seed)
    served = 0

    def told(request, token, clock):
        nonlocal served
        if options.stream:
            print(f"{clock:9.4f} s  request {request.number}: {token}", flush=True)
        if request.done:
            served += 1
            progress("served", served, len(requests))

    if device == "cuda":
        model.warm(progress)
    elif not options.quiet:
        print("compiling: the first step of each kind takes some seconds", file=sys.stderr)
    before = model.session.stats()
    server = Server(model, device == "cuda", told)
    server.serve(requests)
    print(f"{'requests':<10}{line}, {cut} cut to fit the context of {options.context} tokens")
    for name, text in report(model, server, requests, before):
        print(f"{name:<10}{text}")
    if not options.verify:
        return 0
    wrong = verify(model, requests, progress)
    total = sum(len(request.tokens) for request in requests)
    print(f"{'verified':<10}{total} tokens, {len(wrong)} of them not eager PyTorch's")
    for text in wrong[:10]:
        print(f"{'':<10}{text}")
    return 1 if wrong else 0


def main(arguments=None):
    try:
        return run(parse(arguments))
    except UsageError as error:
        print(f"serve.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
