"""Policies learned from the sizes of calls, once or repeatedly."""

import collections
import itertools
import json
import operator

from coppice import _core
from coppice.errors import FailedPrecondition

LEARN = "learn"  # The policy of sizes that are learned while calls go on.
START = "geometric:1.25:1"  # What they are padded to at first.
START_UNASKED = "pow2"  # The same of sizes that nobody gave a policy.
HALF_LIFE = 8000  # Calls after which a call counts half as much.
PERIOD = 2000  # Calls before learning again.
LIMIT = 1 << 16  # Of sizes that nobody bounds.


def started(maximum, start=START):
    """The policy that learning begins with, as the library takes it."""
    return start, min(maximum, LIMIT), HALF_LIFE


def learns_unasked(maximum):
    """Whether the buckets of a size that may be padded, and has no policy, are learned. They are if
    the maximum is small enough that each size has a counter of its own."""
    return maximum is not None and 1 <= maximum <= LIMIT


class Learner:
    """Learns the buckets of a program's sizes again after every PERIOD calls, on the thread of a
    call, which then records up to 4 new buckets. Threads: calls of one program take turns. Besides
    the recordings, such a call takes half a millisecond for sizes up to 256, and 40 ms for sizes up
    to 65,536 if each of them occurs."""

    def __init__(self, program, symbols):
        self.program, self.symbols = program, list(symbols)
        self.outcomes = collections.Counter()
        # One item per call, of which the last of PERIOD is true: the shortest way to count.
        self.due = itertools.repeat(0) if not self.symbols else itertools.chain.from_iterable(
            itertools.repeat(bytes(PERIOD - 1) + b"\1"))

    def count_call(self, binding=None):
        if next(self.due):
            self.learn(binding)

    def learn(self, binding=None):
        for symbol in self.symbols:
            try:
                report = self.program.rebucket(symbol, period=0, binding=binding)
            except FailedPrecondition:  # A stance, ranks that vote, or memory that is lent.
                self.outcomes["refused"] += 1
            else:
                self.outcomes[report["outcome"]] += 1


def learn(sizes, buckets=0, *, limit=0, price=0.0, align=1, forced=(), prior=0.05, max_ratio=0.0,
          max_gap=0):
    """The policy that pads these sizes the least, exactly, as `coppice tune` finds it:

        policy = coppice.learn(lengths, 16, limit=4096)
        coppice.Dim("tokens", policy=policy)

    sizes      of calls, in elements: numbers in any order, or {size: calls}
    buckets    at most this many, each of which is a graph; 0: all that save more than their price
    limit      the last bucket; 0: the largest size. Above the largest size, buckets double up to
               the limit; these come on top of `buckets`, because none of the sizes uses them
    price      of a bucket, in elements of padding
    align      buckets are multiples of this, except for the limit and forced ones
    forced     sizes that are always buckets, such as the chunk size of a chunked prefill
    prior      share of the weight that is spread over sizes that no call had, in proportion to 1 /
               size, and less where few calls are that large. 0: none, and buckets do not double
    max_ratio  no call is padded to more than this times its size; 0: no cap
    max_gap    max_ratio does not apply to calls that are padded by at most this many elements

    Returns a dict. json.dump writes it to a file that `Dim(policy="learned.json")` reads; its item
    "learned" says how much padding the same traffic would have. Raises InvalidArgument for values
    that are not sizes, and for options that no policy can meet."""
    calls = sizes if isinstance(sizes, dict) else collections.Counter(sizes)
    return json.loads(_core.learn_policy(
        [operator.index(size) for size in calls], [float(count) for count in calls.values()],
        limit=limit, buckets=buckets, price=price, align=align, forced=list(forced), prior=prior,
        max_ratio=max_ratio, max_gap=max_gap))
