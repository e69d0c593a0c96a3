"""Lets ranks agree, before each call, on how it runs and in which bucket. They use
torch.distributed.

    vote, barrier = coppice.torch.vote(group, timeout=30)
    session = coppice.Session(device, vote=vote, barrier=barrier)

Programs that launch collectives must run alike on all ranks: if two ranks run different buckets,
both wait for ever. For each call, each rank sends a message to the first rank and gets one back, on
the host, so the group must use gloo.

Units: seconds. Threads: calls of a session that votes come one after another, in the same order on
all ranks.
"""

import datetime
import threading

import torch
import torch.distributed

from coppice.errors import Aborted, InvalidArgument

# Lowest first, as RankVote has it: agreed is the least of what ranks can do.
KINDS = ("eager", "warm_up", "record", "replay")
BARRIER = len(KINDS)
BUCKET_MAX = 8  # Symbols of a program.
AGREED, LOST, OUT_OF_STEP = range(3)
WHY = {LOST: "another rank is gone, or did not answer in time",
       OUT_OF_STEP: "ranks call different programs"}


def vote(process_group=None, timeout=60.0):
    """Functions (vote, barrier) for coppice.Session, over a process group of the CPU.

    process_group  None: the default group. If the default group has no CPU backend, all ranks make
                   a new gloo group here
    timeout        how long a rank waits for the others, in seconds

    If a rank dies or does not answer, the others raise Aborted; from then on every vote raises it.
    Raises InvalidArgument if torch.distributed is not initialised."""
    if not torch.distributed.is_initialized():
        raise InvalidArgument("coppice.torch.vote: call torch.distributed.init_process_group first")
    ranks = Ranks(host_group(process_group, timeout), timeout)
    return ranks.vote, ranks.barrier


def host_group(group, timeout):
    known = group or torch.distributed.group.WORLD
    if "gloo" in str(torch.distributed.get_backend_config(known)):
        return known
    if group is not None:
        raise InvalidArgument("coppice.torch.vote: the group has no CPU backend; make a group "
                              'with torch.distributed.new_group(backend="gloo")')
    return torch.distributed.new_group(backend="gloo", timeout=datetime.timedelta(seconds=timeout))


class Ranks:
    """One rank. The first rank gathers all proposals and sends the result back. That takes two
    hops, while a collective of gloo would take six for four ranks."""

    def __init__(self, group, timeout):
        self.group, self.timeout = group, datetime.timedelta(seconds=timeout)
        self.rank = torch.distributed.get_rank(group)
        self.others = range(1, torch.distributed.get_world_size(group))
        self.failed, self.lock = None, threading.Lock()
        self.proposed = [torch.zeros(2 + BUCKET_MAX, dtype=torch.int64)
                         for _ in range(len(self.others) + 1)]
        self.agreed = torch.zeros(3 + BUCKET_MAX, dtype=torch.int64)

    def vote(self, bucket, kind, unanimous=True):
        """Returns the bucket that is the maximum over ranks, the lowest kind, and whether all ranks
        proposed this bucket."""
        _, lowest, same, *sizes = self.exchange([KINDS.index(kind), len(bucket), *bucket])
        return sizes[:len(bucket)], KINDS[lowest], bool(same)

    def barrier(self):
        self.exchange([BARRIER, 0])

    def exchange(self, proposal):
        with self.lock:
            if self.failed is not None:
                raise Aborted(self.failed)
            own = self.proposed[0]
            own.zero_()
            own[:len(proposal)] = torch.tensor(proposal)
            try:
                if self.rank == 0:
                    self.lead()
                else:
                    self.send(own, 0).wait(self.timeout)
                    self.receive(self.agreed, 0).wait(self.timeout)
            except RuntimeError as error:
                self.fail(f"{WHY[LOST]} ({str(error).splitlines()[0].split('. ')[0]})")
            answer = self.agreed.tolist()
            if answer[0] != AGREED:
                self.fail(WHY[answer[0]])
            return answer

    def lead(self):
        """Rank 0 gathers the proposals, decides, and informs all ranks. If it fails, it informs
        them, too."""
        answer = [LOST, 0, 0]
        try:
            pending = [self.receive(self.proposed[rank], rank) for rank in self.others]
            for work in pending:
                work.wait(self.timeout)
            answer = decide([proposed.tolist() for proposed in self.proposed])
        finally:
            self.agreed.zero_()
            self.agreed[:len(answer)] = torch.tensor(answer)
            for rank in self.others:
                self.tell(rank, needed=answer[0] == AGREED)

    def tell(self, rank, needed):
        try:
            self.send(self.agreed, rank).wait(self.timeout)
        except RuntimeError:
            if needed:  # One that is gone need not be told that it is over.
                raise

    def send(self, tensor, rank):
        return torch.distributed.isend(tensor, group=self.group, group_dst=rank)

    def receive(self, tensor, rank):
        return torch.distributed.irecv(tensor, group=self.group, group_src=rank)

    def fail(self, why):
        """Called when ranks are out of step: every later vote fails."""
        self.failed = f"rank {self.rank}: {why}; end all ranks and start again"
        raise Aborted(self.failed)


def decide(proposals):
    """The answer to the proposals of all ranks: whether they agree, the lowest kind, whether all
    buckets are equal, and the largest bucket."""
    kinds = [kind for kind, *_ in proposals]
    counts = {count for _, count, *_ in proposals}
    if len(counts) > 1 or (BARRIER in kinds and set(kinds) != {BARRIER}):
        return [OUT_OF_STEP, 0, 0]
    buckets = [bucket for _, _, *bucket in proposals]
    largest = [max(sizes) for sizes in zip(*buckets)]
    return [AGREED, min(kinds), int(all(bucket == buckets[0] for bucket in buckets)), *largest]
