"""Programs of the kinds that are exported, small enough to be executed from their PTX.

Each case has a module, example arguments, dynamic axes, and a function that draws other arguments.
"""

import dataclasses
import math
from typing import Any, Callable

import torch
import torch.nn.functional as F


@dataclasses.dataclass
class Case:
    name: str
    model: Any  # A module, or a method of one.
    args: tuple
    dynamic: dict
    draw: Callable  # From a random.Random: arguments.
    options: dict = dataclasses.field(default_factory=dict)
    tolerance: float = 1e-5
    calls: tuple = ()  # Functions that steps call.


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
        return torch.cat([left * angles.cos() - right * angles.sin(),
                          right * angles.cos() + left * angles.sin()], -1)


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
        inside = ((at[None, :] >= starts[:, None]) & (at[None, :] < ends[:, None])).float()
        return (inside @ x) / (ends - starts)[:, None]


class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = torch.nn.Linear(16, 32)
        self.register_buffer("shift", torch.linspace(-1, 1, 32), persistent=False)

    def forward(self, x, cache, positions):
        y = self.lift(x) + self.shift
        cache[positions] = y
        return y.sum(-1), cache.mean(0)


class Scaled(torch.nn.Module):
    def forward(self, x, times: int):
        return (x * times).cumsum(-1) + times


class Noisy(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class Products(torch.nn.Module):
    """GEMMs of all forms; transposed, batched and with something added."""

    def forward(self, x, y, bias):
        left = torch.addmm(bias, x, y.t(), beta=0.5, alpha=2.0)
        many = torch.bmm(x[None].expand(3, -1, -1), y.t()[None].expand(3, -1, -1))
        return left @ y + many.sum(0) @ y


def cases():
    torch.manual_seed(3)
    drawn = torch.randn
    rows, columns = ("batch", 2, 16), ("length", 2, 64)

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
        return drawn(batch, 16), drawn(40, 32), torch.randperm(40)[:batch]

    def images(source):
        return (drawn(source.randint(2, 5), 3, source.randint(8, 20), 16),)

    def products(source):
        return drawn(source.randint(2, 40), 32), drawn(24, 32), drawn(24)

    return [
        Case("block", Block(), (drawn(3, 10, 64), torch.tensor([3, 10, 7])),
             {"x": {0: rows, 1: columns}, "lengths": {0: rows}}, block),
        Case("vision", Vision(), (drawn(4, 3, 12, 16),), {"images": {0: rows, 2: (8, 32)}}, images,
             calls=("aten.convolution.default",)),
        Case("encoder", Encoder(), (torch.randint(0, 100, (20,)), torch.tensor([4, 9, 20])),
             {"tokens": {0: ("total", 2, 256)}, "ends": {0: ("bags", 3, 16)}}, encoder),
        Case("cached", Cached(), (drawn(3, 16), drawn(40, 32), torch.tensor([1, 5, 2])),
             {"x": {0: rows}, "positions": {0: rows}}, cached, {"outputs": ("sums", "mean")}),
        Case("scaled", Scaled(), (drawn(4, 48), 7), {"x": {0: rows}, "times": {"min": 2}},
             lambda source: (drawn(source.randint(2, 16), 48), source.randint(2, 9))),
        Case("products", Products(), (drawn(5, 32), drawn(24, 32), drawn(24)),
             {"x": {0: ("rows", 2, 64)}}, products,
             {"options": {"max_autotune_gemm": False}}, calls=("gemm",)),
    ]
