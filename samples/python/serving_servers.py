#!/usr/bin/env python3
"""Small servers that call serving_runner.py as vLLM and SGLang do, on the emulator.

    serving_servers.py
    serving_servers.py --batches 3 1 7 8 5 --sizes 2 4 8

They decode tokens through a cache with one layer of attention: each batch by graphs, and again
without graphs and padding, on caches of its own. Exits with 1 if a bit differs, if a call was no
replay, or if the emulator found something. Needs PyTorch and Triton, and neither of the servers.
"""

import argparse
import bisect
import contextlib
import dataclasses
import enum
import pathlib
import random
import sys
import types

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import coppice
from coppice.running import find_run
from serving_runner import DecodeRunner, GraphWrapper, detached, pad

# ---- A model of one layer, as both servers have it.

SIZE = 32  # Of a hidden row, and of the vocabulary: the last layer hands its rows on.
LENGTH = 16  # Tokens of a request at most.
REQUESTS = 8
SLOTS = 1 + REQUESTS * LENGTH  # Slot 0 is nobody's.


@triton.jit
def embed(tokens, positions, embedding, row, SIZE: tl.constexpr):
    at = tl.load(tokens + row) * SIZE + tl.arange(0, SIZE)
    return tl.load(embedding + at) + 0.01 * tl.load(positions + row)


@triton.jit
def keep_kernel(tokens, positions, slots, embedding, keys, values, SIZE: tl.constexpr):
    row, slot = tl.program_id(0), tl.load(slots + tl.program_id(0))
    x, to = embed(tokens, positions, embedding, row, SIZE), slot * SIZE + tl.arange(0, SIZE)
    tl.store(keys + to, x, mask=slot >= 0)
    tl.store(values + to, 2 * x + 1, mask=slot >= 0)


@triton.jit
def attend_kernel(tokens, positions, table, lengths, embedding, keys, values, y,
                  LENGTH: tl.constexpr, SIZE: tl.constexpr):
    row, at, column = tl.program_id(0), tl.arange(0, LENGTH), tl.arange(0, SIZE)
    x, live = embed(tokens, positions, embedding, row, SIZE), at < tl.load(lengths + row)
    slots = tl.load(table + row * LENGTH + at, mask=live, other=0)[:, None] * SIZE + column
    scores = tl.sum(tl.load(keys + slots, mask=live[:, None], other=0) * x[None, :], 1)
    scores = tl.where(live, scores / SIZE, -1e30)
    weights = tl.where(live, tl.exp(scores - tl.max(scores, 0)), 0.0)
    sums = tl.sum(weights[:, None] * tl.load(values + slots, mask=live[:, None], other=0), 0)
    tl.store(y + row * SIZE + column, sums / tl.maximum(tl.sum(weights, 0), 1e-30))


class Layer:
    """The layer, its weights and its caches. Outside of a recording it runs without graphs."""

    def __init__(self, device, session):
        generator = torch.Generator().manual_seed(0)
        self.embedding = device.upload(torch.randn(SIZE, SIZE, generator=generator))
        self.keys, self.values = (device.upload(torch.zeros(SLOTS, SIZE)) for _ in range(2))
        self.plain = coppice.wrap(self.launch, name="plain", session=session)

    def launch(self, tokens, positions, slots, table, lengths):
        rows = (tokens.shape[0],)
        y = coppice.empty([*rows, SIZE], "f32")
        keep_kernel[rows](tokens, positions, slots, self.embedding, self.keys, self.values, SIZE)
        attend_kernel[rows](tokens, positions, table, lengths, self.embedding, self.keys,
                            self.values, y, LENGTH, SIZE)
        return y

    def __call__(self, *tensors):
        return self.launch(*tensors) if find_run() else detached(self.plain(*tensors))


class Buffer:
    """Memory that stays where it is, for batches of any size."""

    def __init__(self, device, shape):
        self.device, self.memory = device, device.upload(torch.zeros(shape, dtype=torch.int64))

    def write(self, rows):
        source = self.device.upload(rows.contiguous())
        self.device.copy(self.memory.data_ptr(), source.data_ptr(), source.nbytes)
        self.device.synchronize()  # `source` goes.

    def head(self, count):
        return self.device.view(self.memory.data_ptr(), [count, *self.memory.shape[1:]], "i64",
                                owner=self.memory)


# ---- The servers.


@dataclasses.dataclass
class Step:
    """A batch of a decode step, in order of its rows."""

    tokens: torch.Tensor
    positions: torch.Tensor
    requests: torch.Tensor  # Numbers of requests, from 1.

    @property
    def slots(self):
        return 1 + (self.requests - 1) * LENGTH + self.positions

    @property
    def table(self):
        return 1 + (self.requests[:, None] - 1) * LENGTH + torch.arange(LENGTH)


@dataclasses.dataclass(frozen=True)
class BatchDescriptor:
    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False
    has_lora: bool = False
    num_active_loras: int = 0


Mode = enum.Enum("Mode", "NONE PIECEWISE FULL")


class VllmServer:
    """As much of vLLM as a wrapper meets: a forward context, buffers that stay where they are,
    batches padded by the server, slot -1 and length 0 in padded rows."""

    def __init__(self, device, sizes, session, graphs):
        self.sizes, self.context, self.capturing = sorted(sizes), None, True
        self.tokens, self.positions, self.slots, self.lengths = (
            Buffer(device, [REQUESTS]) for _ in range(4))
        self.table = Buffer(device, [REQUESTS, LENGTH])
        self.layer = Layer(device, session)
        self.model = self.forward
        if graphs:
            self.model = GraphWrapper(self.forward, None, runtime_mode=Mode.FULL, server=self)
            for size in reversed(self.sizes):  # Rows that are all padding.
                for mode in (Mode.NONE, Mode.FULL):
                    self.run(Step(*torch.zeros(3, 0, dtype=torch.int64)), size, mode)
        self.capturing = False

    def get_forward_context(self):
        return self.context

    def is_forward_context_available(self):
        return self.context is not None

    def validate_cudagraph_capturing_enabled(self):
        if not self.capturing:
            raise RuntimeError("a graph is recorded after start-up")

    def forward(self, input_ids, positions):
        metadata = self.context.attn_metadata
        return self.layer(input_ids, positions, self.context.slot_mapping, metadata.table,
                          metadata.lengths)

    def run(self, step, size, mode):
        more = size - len(step.tokens)
        self.tokens.write(pad(step.tokens, size, 0))
        self.positions.write(pad(step.positions, size, 0))
        self.slots.write(pad(step.slots, size, -1))
        self.lengths.write(pad(step.positions + 1, size, 0))
        self.table.write(torch.nn.functional.pad(step.table, (0, 0, 0, more)))
        self.context = types.SimpleNamespace(
            cudagraph_runtime_mode=mode, batch_descriptor=BatchDescriptor(size, size, True),
            slot_mapping=self.slots.head(size), attn_metadata=types.SimpleNamespace(
                table=self.table.head(size), lengths=self.lengths.head(size)))
        try:
            return self.model(input_ids=self.tokens.head(size), positions=self.positions.head(size))
        finally:
            self.context = None

    def decode(self, step):
        rows = len(step.tokens)
        if self.model == self.forward:
            return self.run(step, rows, Mode.NONE)
        size = self.sizes[bisect.bisect_left(self.sizes, rows)]
        return self.run(step, size, Mode.FULL)[:rows]

    def graphs(self):
        return self.model.wrapped


@dataclasses.dataclass
class ForwardBatch:
    forward_mode: object
    batch_size: int
    input_ids: torch.Tensor
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    out_cache_loc: torch.Tensor
    seq_lens_sum: int
    seq_lens_cpu: torch.Tensor | None = None
    positions: torch.Tensor | None = None


@dataclasses.dataclass
class LogitsProcessorOutput:
    next_token_logits: object
    hidden_states: object = None


class Backend:
    """As much of an attention backend as a runner meets: it plans into buffers of its own."""

    def __init__(self, device):
        self.device, self.requests = device, torch.zeros(REQUESTS + 1, LENGTH, dtype=torch.int64)
        self.requests[1:] = 1 + torch.arange(REQUESTS * LENGTH).view(REQUESTS, LENGTH)

    def get_cuda_graph_seq_len_fill_value(self):
        return 1

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        self.table, self.lengths = Buffer(self.device, [max_bs, LENGTH]), Buffer(
            self.device, [max_bs])

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        self.table.write(self.requests[forward_batch.req_pool_indices])
        self.lengths.write(forward_batch.seq_lens)

    def init_forward_metadata_in_graph(self, forward_batch):
        """It has nothing to record."""


class SglangServer:
    """As much of SGLang as a runner meets: a model runner with a model, a backend, batches."""

    device = "cpu"  # Of batches.

    def __init__(self, device, sizes, session, graphs):
        self.model_config = types.SimpleNamespace(vocab_size=SIZE)
        self.attn_backend, self.layer = Backend(device), Layer(device, session)
        self.model, self.runner = self, None
        if graphs:
            self.runner = DecodeRunner(self, sizes=sizes, server=self)
        else:
            self.attn_backend.init_cuda_graph_state(REQUESTS, REQUESTS)

    def make_batch(self, batch_size, **tensors):
        mode = types.SimpleNamespace(is_decode=lambda: True)
        return ForwardBatch(mode, batch_size, **tensors)

    def forward_context(self, backend, batch):
        return contextlib.nullcontext()

    def forward(self, input_ids, positions, forward_batch):
        backend, rows = self.attn_backend, forward_batch.batch_size
        return LogitsProcessorOutput(self.layer(
            input_ids, positions, forward_batch.out_cache_loc, backend.table.head(rows),
            backend.lengths.head(rows)))

    def decode(self, step):
        lengths = step.positions + 1
        batch = self.make_batch(
            len(step.tokens), input_ids=step.tokens, positions=step.positions,
            req_pool_indices=step.requests, seq_lens=lengths, out_cache_loc=step.slots,
            seq_lens_sum=int(lengths.sum()), seq_lens_cpu=lengths)
        if self.runner and self.runner.can_run_graph(batch):
            return self.runner.execute(batch).next_token_logits
        self.attn_backend.init_forward_metadata_out_graph(batch)
        return self.forward(step.tokens, step.positions, batch).next_token_logits

    def graphs(self):
        return self.runner.wrapped


# ---- Both, beside themselves without graphs.


def steps_of(batches, seed):
    """Steps of these sizes, of requests that are drawn; a request that is full begins anew."""
    draw, lengths = random.Random(seed), [0] * REQUESTS
    for rows in batches:
        chosen = draw.sample(range(REQUESTS), rows)
        yield Step(torch.tensor([draw.randrange(SIZE) for _ in chosen]),
                   torch.tensor([lengths[one] for one in chosen]),
                   torch.tensor([one + 1 for one in chosen]))
        for one in chosen:
            lengths[one] = (lengths[one] + 1) % LENGTH


def compare(name, server, device, batches, sizes, seed):
    """How many rows differ by a bit from those without graphs and padding."""
    with coppice.Session(device, stance="eager") as session:
        ours = server(device, sizes, session, True)
        plain = server(device, sizes, session, False)
        recorded, wrong = dict(ours.graphs().stats()["runs"]), 0
        for step in steps_of(batches, seed):
            got, expected = ours.decode(step), plain.decode(step)
            wrong += int((got != expected).any(1).sum())
        runs = ours.graphs().stats()["runs"]
        replays = runs.get("replay", 0) - recorded.get("replay", 0)
        print(f"{name}: {len(batches)} batches, {replays} replays of {recorded['record']} graphs; "
              f"{wrong} of {sum(batches)} rows differ from eager")
        ours.graphs().close()
        for one in (ours, plain):
            one.layer.plain.close()
    return wrong + (replays != len(batches))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[3, 1, 7, 8, 5, 2, 6, 4],
                        metavar="ROWS", help=f"each from 1 to {REQUESTS}")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8], metavar="ROWS",
                        help=f"that are recorded; the largest is {REQUESTS}")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for what, given in (("--batches", options.batches), ("--sizes", options.sizes)):
        if not all(1 <= rows <= REQUESTS for rows in given):
            parser.error(f"{what}: give numbers from 1 to {REQUESTS}")
    if max(options.sizes) < max(options.batches):
        parser.error(f"--sizes: the largest batch has {max(options.batches)} rows; give its size")

    device = coppice.device("emulator")
    before = device.finding_count()
    wrong = sum(compare(name, server, device, options.batches, options.sizes, options.seed)
                for name, server in (("vLLM", VllmServer), ("SGLang", SglangServer)))
    found = device.findings(before)
    print("\n".join(found) or "nothing found wrong")
    return 1 if wrong or found else 0


if __name__ == "__main__":
    sys.exit(main())
