"""What a model costs: seconds of compilations and calls, and bytes of the pool."""

import contextlib
import math
import time
from unittest import mock

import torch
from torch._dynamo.callback import callback_handler
from torch._inductor import compile_fx

import coppice
from coppice.torch import compiler

ALTERNATIONS = 100
ENOUGH_S, CALLS_MAX = 0.2, 100  # Of calls of which the mean is taken.
QUANTILE = 1.984  # Student's, of 95 % and as many degrees as samples have.


class Compiling:
    """Inside the scope, counts processor seconds: those of all compilations, and the part of them
    that is coppice's own, without Dynamo, AOTAutograd and Inductor."""

    def __init__(self):
        self.all = self.ours = 0.0
        self.depth, self.begin = 0, 0.0
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        callback_handler.register_start_callback(self.start)
        callback_handler.register_end_callback(self.end)
        self.stack.callback(callback_handler.remove_start_callback, self.start)
        self.stack.callback(callback_handler.remove_end_callback, self.end)
        self.patch(compiler.Compiler, "compile", 1)
        self.patch(compile_fx, "compile_fx_inner", -1)
        return self

    def __exit__(self, *error):
        self.stack.close()

    def start(self, *_):
        if self.depth == 0:
            self.begin = time.process_time()
        self.depth += 1

    def end(self, *_):
        self.depth -= 1
        if self.depth == 0:
            self.all += time.process_time() - self.begin

    def patch(self, owner, name, sign):
        """Adds the time of a function to our time, or subtracts it."""
        inner, whose = getattr(owner, name), self

        def timed(*args, **kwargs):
            begin = time.process_time()
            try:
                return inner(*args, **kwargs)
            finally:
                whose.ours += sign * (time.process_time() - begin)

        self.stack.enter_context(mock.patch.object(owner, name, timed))


class Device:
    """Where the model runs: its clock, and its session."""

    def __init__(self, place):
        self.place = place

    def session(self):
        return coppice.session(coppice.device("cuda" if self.place == "cuda" else "emulator"))

    def timed(self, call):
        """The result of the call, and its seconds: processor time, or wall-clock time on a GPU."""
        clock = time.perf_counter if self.place == "cuda" else time.process_time
        self.wait()
        begin = clock()
        result = call()
        self.wait()
        return result, clock() - begin

    def mean(self, call):
        """The mean time of a call, over enough calls for a coarse clock."""
        spent, count = 0.0, 0
        while spent < ENOUGH_S and count < CALLS_MAX:
            spent, count = spent + self.timed(call)[1], count + 1
        return spent / count

    def wait(self):
        if self.place == "cuda":
            torch.cuda.synchronize()

    def runs(self):
        return dict(self.session().stats()["runs"])

    def only_replayed(self, before):
        """Whether all of the session's runs since `before` were replays. Runs that PyTorch makes
        without coppice are not counted."""
        ran = {kind for kind, count in self.runs().items() if count != before[kind]}
        return ran == {"replay"}

    def memory(self):
        """The fields of a line that are about memory."""
        session = self.session()
        stats, buckets = session.stats(), session.buckets()
        real, all_elements = stats["real_elements"], stats["padded_elements"]
        return {"pool_bytes": session.memory()["height"],
                "live_bytes": max((one["live_bytes"] for one in buckets), default=0),
                "apart_bytes": sum(one["plan_height"] for one in buckets),
                "padding_pct": round(100 * (all_elements - real) / real, 1) if real else 0.0}


def alternate(device, ours, eager):
    """The speedup over eager. Calls of the two alternate."""
    samples = [(device.timed(ours)[1], device.timed(eager)[1]) for _ in range(ALTERNATIONS)]
    return compared(*zip(*samples))


def compared(ours, eager):
    """The ratio of the medians, and the 95 % interval of the ratio of the means, by Welch's test on
    logarithms."""
    logs = [[math.log(value) for value in values] for values in (ours, eager)]
    means = [math.fsum(values) / len(values) for values in logs]
    errors = [math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
              for values, mean in zip(logs, means)]
    width = QUANTILE * math.sqrt(sum(errors))
    middle = [sorted(values)[len(values) // 2] for values in (ours, eager)]
    between = means[1] - means[0]
    return {"speedup": round(middle[1] / middle[0], 4),
            "interval": [round(math.exp(between - width), 4), round(math.exp(between + width), 4)]}
