"""Ranks that vote: processes over gloo, each with an emulator of its own and other sizes.

Method: processes fork after everything is imported. Each keeps what every vote agreed on; these
have to be equal. COPPICE_TEST_CALLS draws other counts.
"""

import hashlib
import multiprocessing
import os
import random
import socket
import time
import unittest

try:
    import torch
    import torch.distributed
except ImportError as error:
    raise unittest.SkipTest("needs PyTorch") from error

import coppice
import coppice.torch.ranks
from coppice.errors import Aborted, InvalidArgument
from coppice.torch.ranks import AGREED, BARRIER, KINDS, OUT_OF_STEP, decide

RANKS = 4
CALLS = int(os.environ.get("COPPICE_TEST_CALLS", 10000))
TIMEOUT = 30.0


def kind(name):
    return KINDS.index(name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def session_of(rank, vote, barrier):
    """A session whose one program fills its output with ones."""
    device = coppice.Device("emulator", memory_bytes=64 << 20)
    agreed = hashlib.sha256()

    def noted(*proposal):
        answer = vote(*proposal)
        agreed.update(repr(answer[:2]).encode())
        return answer

    session = coppice.Session(device, vote=noted, barrier=barrier, graphs_per_program_max=16)

    def ones(context):
        output = context.output(0)
        device.fill(output.data_ptr(), output.nbytes, 1, context.stream)

    program = session.register_callable(
        {"name": "ones", "claim": "row_independent",
         "symbols": [{"name": "n", "policy": ("pow2", 64), "kind": "dynamic"}],
         "inputs": [{"name": "x", "dtype": "u8", "shape": ["n"]}],
         "outputs": [{"name": "y", "dtype": "u8", "shape": ["n"]}]}, ones)
    return device, program, agreed


def rank_main(rank, port, calls, dies_at, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    device, program, agreed = session_of(rank, *coppice.torch.ranks.vote(timeout=TIMEOUT))
    draw, kinds = random.Random(rank), {}
    try:
        for call in range(calls):
            if rank == 2 and call == dies_at:
                os._exit(3)
            size = draw.randint(1, 16 * (rank + 1))
            lease = program.run([torch.zeros(size, dtype=torch.uint8)])
            kinds[lease.kind] = kinds.get(lease.kind, 0) + 1
            if call % 1000 == 0 and torch.from_dlpack(lease[0]).tolist() != [1] * size:
                results.put((rank, "wrong", None, None))
                return
            del lease
        results.put((rank, "done", agreed.hexdigest(), kinds))
    except coppice.errors.Error as error:
        state = "aborted" if isinstance(error, Aborted) else "failed"
        results.put((rank, state, str(error), None))
    os._exit(0)  # Without waiting for ranks that are gone.


def run_ranks(calls, dies_at=None):
    context = multiprocessing.get_context("fork")
    results, port = context.Queue(), free_port()
    ranks = [context.Process(target=rank_with_queue, args=(rank, port, calls, dies_at, results))
             for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    told = [results.get(timeout=600) for _ in range(RANKS - (dies_at is not None))]
    for rank in ranks:
        rank.join(60)
    return sorted(told), [rank.exitcode for rank in ranks]


def rank_with_queue(rank, port, calls, dies_at, results):
    class Flushed:
        def put(self, item):
            results.put(item)
            results.close()
            results.join_thread()

    rank_main(rank, port, calls, dies_at, Flushed())


class DecideTest(unittest.TestCase):
    def test_the_bucket_is_the_largest_and_the_kind_the_lowest(self):
        answer = decide([[kind("replay"), 2, 4, 16], [kind("warm_up"), 2, 8, 2],
                         [kind("record"), 2, 1, 1]])
        self.assertEqual(answer, [AGREED, kind("warm_up"), 0, 8, 16])

    def test_equal_buckets_are_unanimous_whatever_the_kinds(self):
        self.assertEqual(decide([[kind("replay"), 1, 4], [kind("record"), 1, 4]]),
                         [AGREED, kind("record"), 1, 4])

    def test_every_pair_of_kinds_agrees_on_the_lower_one(self):
        order = ["eager", "warm_up", "record", "replay"]
        for first in order:
            for second in order:
                lower = min(first, second, key=order.index)
                self.assertEqual(decide([[kind(first), 0], [kind(second), 0]])[1], kind(lower))

    def test_a_barrier_beside_a_vote_is_out_of_step(self):
        self.assertEqual(decide([[BARRIER, 0], [kind("replay"), 0]])[0], OUT_OF_STEP)
        self.assertEqual(decide([[BARRIER, 0], [BARRIER, 0]])[0], AGREED)

    def test_programs_of_other_symbols_are_out_of_step(self):
        self.assertEqual(decide([[kind("replay"), 1, 4], [kind("replay"), 2, 4, 4]])[0],
                         OUT_OF_STEP)


class RanksTest(unittest.TestCase):
    def test_a_group_is_needed(self):
        with self.assertRaises(InvalidArgument):
            coppice.torch.ranks.vote()

    def test_ranks_agree_under_skewed_sizes(self):
        told, codes = run_ranks(CALLS)
        self.assertEqual([state for _, state, *_ in told], ["done"] * RANKS, told)
        self.assertEqual(codes, [0] * RANKS)
        self.assertEqual(len({agreed for _, _, agreed, _ in told}), 1)
        kinds = [kinds for *_, kinds in told]
        self.assertTrue(all(other == kinds[0] for other in kinds), kinds)
        self.assertGreater(kinds[0].get("replay", 0), CALLS * 0.9)

    def test_ranks_are_told_when_one_is_killed(self):
        begun = time.monotonic()
        told, codes = run_ranks(200, dies_at=50)
        self.assertEqual([(rank, state) for rank, state, *_ in told],
                         [(0, "aborted"), (1, "aborted"), (3, "aborted")])
        self.assertEqual(codes[2], 3)
        self.assertLess(time.monotonic() - begun, 2 * TIMEOUT + 60)


if __name__ == "__main__":
    unittest.main()
