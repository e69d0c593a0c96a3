"""Programs of the kinds that are exported, small enough to be executed from their PTX.

Each case has a module, example arguments, dynamic axes with what their padding may hold, and a
function that draws other arguments.
"""

import dataclasses
import math
import pathlib
import sys
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import flex_attention

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "samples"))

import torch_decoder

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# How far results may be from those of eager PyTorch in the same type: of all values, as a norm, and
# of one value, of the largest. Eager bfloat16 rounds more often, and is further from f32 itself.
TOLERANCES = {"f32": 1e-5, "bf16": 2e-2}
TOLERANCES_OF_ONE = {"f32": 1e-5, "bf16": 4e-2}


@dataclasses.dataclass
class Case:
    name: str
    dtype: str
    model: Any  # A module, or a method of one.
    args: tuple
    dynamic: dict
    draw: Callable  # From a random.Random: arguments.
    options: dict = dataclasses.field(default_factory=dict)
    calls: tuple = ()  # Functions that steps call.
    # Of static inputs: functions of one and the calls' arguments, that give what counts of it.
    written: dict = dataclasses.field(default_factory=dict)
    picks: dict = dataclasses.field(default_factory=dict)  # Outputs that are an argmax of others.
    large: bool = False  # Too large for executor.py.

    @property
    def key(self):
        return f"{self.name}_{self.dtype}"

    @property
    def calls_torch(self):
        """Whether it has calls of PyTorch's operators, which the command does not know."""
        return bool(set(self.calls) - {"gemm"})


class Block(torch.nn.Module):
    """A transformer's layer: rope, causal attention that sees a length per row, SiLU."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(2 * width, width)
        self.scale = torch.nn.Parameter(torch.ones(width))

    def norm(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale

    def forward(self, x, lengths):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, -1))
        at = torch.arange(length, device=x.device)
        angles = at[:, None] * 100.0 ** -torch.linspace(0, 1, q.shape[-1] // 2, device=x.device)
        q, k = self.rotate(q, angles), self.rotate(k, angles)
        seen = (at[None, :] <= at[:, None]) & (at < lengths[:, None, None, None])
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        mixed = scores.masked_fill(~seen, -1e30).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.up(self.norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

    @staticmethod
    def rotate(x, angles):
        left, right = x.chunk(2, -1)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.cat([left * cosines - right * sines, right * cosines + left * sines], -1)


class Vision(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 16, 3, stride=2, bias=False)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, images):
        x = F.relu(self.norm(self.first(images)))
        return self.head(F.gelu(self.second(x)).mean((-1, -2)))


class Encoder(torch.nn.Module):
    """Embeddings of bags of tokens that lie behind each other, `ends` says where each ends."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(100, 32)
        self.mix = torch.nn.Linear(32, 32)

    def forward(self, tokens, ends):
        x = torch.tanh(self.mix(self.table(tokens)))
        at = torch.arange(tokens.shape[0], device=tokens.device)
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        inside = ((at[None, :] >= starts[:, None]) & (at[None, :] < ends[:, None])).to(x.dtype)
        return (inside @ x) / (ends - starts)[:, None]


class Cached(torch.nn.Module):
    """Writes rows into a cache whose last one is for padding."""

    def __init__(self):
        super().__init__()
        self.lift = torch.nn.Linear(16, 32)
        self.register_buffer("shift", torch.linspace(-1, 1, 32), persistent=False)

    def forward(self, x, cache, positions):
        y = self.lift(x) + self.shift
        cache[positions] = y
        return y.sum(-1), cache[:-1].mean(0)


class Scaled(torch.nn.Module):
    def forward(self, x, times: int):
        return (x * times).cumsum(-1) + times


class Flex(torch.nn.Module):
    """Causal attention whose scores fall with the distance."""

    def forward(self, q, k, v):
        def near(score, batch, head, row, column):
            return torch.where(row >= column, score + 0.1 * (column - row), -1e30)

        return flex_attention(q, k, v, score_mod=near)


class Dropped(torch.nn.Module):
    """Drops a quarter of what it is given, as in training."""

    SHARE = 0.25

    def forward(self, x):
        return F.dropout(x, self.SHARE, training=True)


class Products(torch.nn.Module):
    """GEMMs of all forms; transposed, batched and with something added."""

    def forward(self, x, y, bias):
        left = torch.addmm(bias, x, y.t(), beta=0.5, alpha=2.0)
        many = torch.bmm(x[None].expand(3, -1, -1), y.t()[None].expand(3, -1, -1))
        return left @ y + many.sum(0) @ y


def symbol(name, low, high, padding="any", equal="bits"):
    return {"name": name, "min": low, "max": high, "buckets": "pow2",
            "claim": {"padding": padding, "equal": equal}}


def cases(dtype):
    """All of them, of floats of one type: "f32" or "bf16"."""
    torch.manual_seed(3)
    return small_cases(dtype) + decoder_cases(dtype)


def small_cases(dtype):
    rows, columns = symbol("batch", 2, 16), symbol("length", 2, 64, "finite")
    near = {"absolute": str(TOLERANCES[dtype])}

    def drawn(*shape):
        return torch.randn(*shape, dtype=DTYPES[dtype])

    def case(name, model, *rest, **more):
        return Case(name, dtype, model.to(DTYPES[dtype]), *rest, **more)

    def block(source):
        batch, length = source.randint(2, 5), source.randint(2, 40)
        lengths = torch.tensor([source.randint(1, length) for _ in range(batch)])
        return drawn(batch, length, 64), lengths

    def encoder(source):
        lengths = torch.tensor([source.randint(1, 9) for _ in range(source.randint(3, 6))])
        ends = lengths.cumsum(0)
        return torch.randint(0, 100, (int(ends[-1]),)), ends

    def cached(source):
        batch = source.randint(2, 16)
        return drawn(batch, 16), drawn(41, 32), torch.randperm(40)[:batch]

    def attention(source):
        batch, length = source.randint(2, 5), source.randint(2, 40)
        return tuple(drawn(batch, 2, length, 16) for _ in range(3))

    return [
        case("block", Block(), (drawn(3, 10, 64), torch.tensor([3, 10, 7])),
             {"x": {0: rows, 1: columns}, "lengths": {0: rows}}, block),
        case("vision", Vision(), (drawn(4, 3, 12, 16),), {"images": {0: rows, 2: (8, 32)}},
             lambda source: (drawn(source.randint(2, 5), 3, source.randint(8, 20), 16),),
             calls=("aten.convolution.default",)),
        case("encoder", Encoder(), (torch.randint(0, 100, (20,)), torch.tensor([4, 9, 20])),
             {"tokens": {0: symbol("total", 2, 256, "fill", near)},
              "ends": {0: symbol("bags", 3, 16)}}, encoder),
        case("cached", Cached(), (drawn(3, 16), drawn(41, 32), torch.tensor([1, 5, 2])),
             {name: {0: symbol("batch", 2, 16, "fill")} for name in ("x", "positions")}, cached,
             {"outputs": ("sums", "mean"), "fills": {"positions": {"value": "40.0"}}},
             written={"cache": lambda cache, sets: cache[:-1]}),
        case("scaled", Scaled(), (drawn(4, 48), 7), {"x": {0: rows}, "times": {"min": 2}},
             lambda source: (drawn(source.randint(2, 16), 48), source.randint(2, 9))),
        case("products", Products(), (drawn(5, 32), drawn(24, 32), drawn(24)),
             {"x": {0: symbol("rows", 2, 64)}},
             lambda source: (drawn(source.randint(2, 40), 32), drawn(24, 32), drawn(24)),
             {"options": {"max_autotune_gemm": False}}, calls=("gemm",)),
        case("flex", Flex(), (drawn(3, 2, 10, 16), drawn(3, 2, 10, 16), drawn(3, 2, 10, 16)),
             {name: {0: rows, 2: symbol("length", 2, 64, "finite", near)} for name in "qkv"},
             attention),
    ]


def decoder_cases(dtype):
    """The sample's two programs, with its weights."""
    sample = torch_decoder
    decoder = sample.make_decoder().to(DTYPES[dtype])
    caches = tuple(cache.to(DTYPES[dtype]) for cache in sample.make_caches())
    rows = symbol("batch", 1, sample.SLOTS, "fill")
    columns = symbol("length", 2, sample.MAX_CONTEXT, "fill", {"absolute": str(TOLERANCES[dtype])})
    slots = {"slots": {"value": f"{sample.SLOTS}.0"}}
    common = {"picks": {"next_tokens": "logits"}, "large": True}
    some = torch.zeros(4, dtype=torch.int32)

    def numbers(source, count, high):
        return torch.tensor([source.randrange(high) for _ in range(count)], dtype=torch.int32)

    def own_slots(source, batch):
        return torch.tensor(source.sample(range(sample.SLOTS), batch), dtype=torch.int32)

    def prefill(source):
        batch, length = source.randint(1, 4), source.randint(2, 12)
        tokens = numbers(source, batch * length, sample.VOCABULARY).reshape(batch, length)
        return tokens, numbers(source, batch, length) + 1, own_slots(source, batch), *caches

    def filled(cache, sets):
        """Positions that the last prefill of a slot was given; padding lies behind them."""
        counts = torch.zeros(cache.shape[1:3], dtype=torch.bool)
        for tokens, _, used, *_ in sets:
            for slot in used.tolist():
                counts[slot] = torch.arange(cache.shape[2]) < tokens.shape[1]
        return cache[:, counts]

    def decode(source):
        batch = source.randint(1, 5)
        return (numbers(source, batch, sample.VOCABULARY),
                numbers(source, batch, sample.MAX_CONTEXT), own_slots(source, batch),
                *(torch.randn_like(cache) for cache in caches))

    outputs = {"outputs": ("logits", "next_tokens")}
    return [
        Case("prefill", dtype, decoder.prefill,
             (torch.zeros(4, 48, dtype=torch.int32), some + 1, some, *caches),
             {"tokens": {0: rows, 1: columns}, "lengths": {0: rows}, "slots": {0: rows}}, prefill,
             {**outputs, "fills": {**slots, "lengths": {"value": "1.0"}}},
             written={"keys": filled, "values": filled}, **common),
        Case("decode", dtype, decoder.decode, (some, some, some, *caches),
             {name: {0: rows} for name in ("tokens", "positions", "slots")}, decode,
             {**outputs, "fills": slots},
             written=dict.fromkeys(("keys", "values"), lambda cache, sets: cache[:, :-1]),
             **common),
    ]
