#!/usr/bin/env python3
"""Ranks that agree before each call how it runs and in which bucket, as programs with collectives
need it.

    ranks.py                            4 processes on this machine, over gloo, on the emulator
    ranks.py --ranks 2 --calls 1000
    ranks.py --kill 2                   rank 2 ends in the middle; the others say so and end too

Each rank has other sizes: rank r draws up to 16 (r + 1) rows. A vote makes all of them run in the
largest bucket, and record it in the same call. Each prints how its calls ran, and a digest of what
was agreed, which has to be the same of all. Needs PyTorch and NumPy. Exits with 1 if ranks
disagree, a result is wrong, or a rank does not notice that another is gone; with 2 for a wrong
option.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import socket
import sys

import numpy as np
import torch
import torch.distributed

import coppice
from coppice.errors import Aborted
from coppice.running import current_stream, empty_like
from coppice.torch.ranks import vote

TIMEOUT_SECONDS = 30
ABORTED, WRONG = "aborted", "wrong"  # How a rank ended, if not with a digest.


def copied(x):
    """A copy of x; where a collective would be, say an all_gather."""
    y = empty_like(x)
    coppice.device().copy(y.data_ptr(), x.data_ptr(), x.nbytes, current_stream())
    return y


def noting(propose, agreed):
    def noted(*proposal):
        answer = propose(*proposal)
        agreed.update(repr(answer[:2]).encode())
        return answer

    return noted


def rank_main(rank, options, port, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                                         world_size=options.ranks)
    propose, barrier = vote(timeout=TIMEOUT_SECONDS)
    agreed = hashlib.sha256()
    device = coppice.device("emulator", memory_bytes=64 << 20)
    session = coppice.Session(device, vote=noting(propose, agreed), barrier=barrier)
    wrapped = coppice.wrap(copied, {"x": {0: coppice.Dim("rows", max=16 * options.ranks)}},
                           claim="row_independent", session=session)
    draw, wrong = random.Random(rank), 0
    try:
        for call in range(options.calls):
            if rank == options.kill and call == options.calls // 2:
                os._exit(3)
            x = np.full((draw.randint(1, 16 * (rank + 1)), 4), call, np.float32)
            wrong += not np.array_equal(wrapped(x).numpy(), x)
    except Aborted as error:
        say(results, f"rank {rank}: {error}", ABORTED)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(wrapped.stats()["runs"].items()))
    say(results, f"rank {rank}: {kinds}; {wrong} wrong; agreed on {agreed.hexdigest()[:16]}",
        WRONG if wrong else agreed.hexdigest())


def say(results, line, outcome):
    """Ends the process, without waiting for ranks that are gone."""
    results.put((line, outcome))
    results.close()
    results.join_thread()
    os._exit(0)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--kill", type=int, help="a rank that ends half-way")
    options = parser.parse_args()
    if options.ranks < 1 or options.calls < 1:
        parser.error("--ranks and --calls are at least 1")
    if options.kill is not None and not (0 <= options.kill < options.ranks > 1):
        parser.error(f"--kill is one of several ranks: 0 to {options.ranks - 1}")
    return options


def main():
    options = read_options()

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    ranks = [context.Process(target=rank_main, args=(rank, options, port, results))
             for rank in range(options.ranks)]
    for rank in ranks:
        rank.start()
    told = [results.get() for _ in range(options.ranks - (options.kill is not None))]
    for rank in ranks:
        rank.join()
    for line, _ in sorted(told):
        print(line)
    outcomes = {outcome for _, outcome in told}
    if options.kill is not None:
        return 0 if outcomes == {ABORTED} else 1
    return 0 if len(outcomes) == 1 and not outcomes & {ABORTED, WRONG} else 1


if __name__ == "__main__":
    sys.exit(main())
