"""Our own modules. Each is one of the parts that programs consist of.

Docstrings give the sizes of arguments. Sizes in capitals vary from call to call.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

WIDTH, HEADS = 32, 4


def split(x, heads):
    """[B, L, heads * d] as [B, heads, L, d]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def rms_norm(x, scale):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * scale


class ConvNet(nn.Module):
    """images [B, 3, H, 16]."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, stride=2)
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.norm(self.first(images))), 2)
        return self.head(F.relu(self.second(x)).mean((-1, -2)))


class Attention(nn.Module):
    """Self-attention over x [B, L, 32], or cross-attention from x to `other` [B, M, 32]. `kind` is
    the mask: "causal", "full", or "window" (the last four); `groups` heads share keys and
    values."""

    def __init__(self, kind="full", groups=1):
        super().__init__()
        self.kind, self.groups = kind, groups
        shared = WIDTH // groups
        self.q, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, shared), nn.Linear(WIDTH, shared)

    def forward(self, x, other=None):
        seen = x if other is None else other
        q = split(self.q(x), HEADS)
        k, v = (split(layer(seen), HEADS // self.groups) for layer in (self.k, self.v))
        mask = None
        if self.kind == "window":
            at = torch.arange(x.shape[1], device=x.device)
            back = at[:, None] - at[None, :]
            mask = (back >= 0) & (back < 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask,
                                           is_causal=self.kind == "causal",
                                           enable_gqa=self.groups > 1)
        return self.out(merge(y))


class MaskedAttention(nn.Module):
    """x [B, L, 32], lengths [B]: each row attends to its own length, and is zero after it."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x, lengths):
        q, k, v = (split(part, HEADS) for part in self.qkv(x).chunk(3, -1))
        inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~inside[:, None, None, :], -1e30)
        return merge(scores.softmax(-1) @ v) * inside[..., None]


class Flex(nn.Module):
    """q, k, v [B, 2, L, 16]: causal attention whose scores decrease with distance."""

    def forward(self, q, k, v):
        def near(score, batch, head, row, column):
            return torch.where(row >= column, score + 0.1 * (column - row), -1e30)

        return flex_attention(q, k, v, score_mod=near)


class LinearAttention(nn.Module):
    """x [B, L, 32]: a scan with a state of 8 by 8 per head."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = (split(part, HEADS) for part in self.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        states = (k[..., :, None] * v[..., None, :]).cumsum(2)
        total = (q * k.cumsum(2)).sum(-1, keepdim=True)
        return merge((q[..., None, :] @ states)[..., 0, :] / total)


class Rotary(nn.Module):
    """x [B, L, 64]: queries and keys rotated by their positions, and their products."""

    def forward(self, x):
        q, k = (split(part, 2) for part in x.chunk(2, -1))
        at = torch.arange(x.shape[1], device=x.device)
        angles = at[:, None] * 100.0 ** -torch.linspace(0, 1, 8, device=x.device)
        return self.turn(q, angles) @ self.turn(k, angles).transpose(-1, -2)

    @staticmethod
    def turn(x, angles):
        left, right = x.chunk(2, -1)
        cosines, sines = angles.cos(), angles.sin()
        return torch.cat([left * cosines - right * sines, right * cosines + left * sines], -1)


class CachedAttention(nn.Module):
    """A decoder's step: x [B, 32], positions and slots [B]; writes keys and values [8, 24, 32] in
    place, and attends to its slot up to its position."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x, positions, slots, keys, values):
        q, k, v = self.qkv(x).chunk(3, -1)
        keys[slots, positions] = k
        values[slots, positions] = v
        seen = torch.arange(keys.shape[1], device=x.device) <= positions[:, None]
        q, k, v = (split(part, HEADS) for part in (q[:, None], keys[slots], values[slots]))
        return merge(F.scaled_dot_product_attention(q, k, v, seen[:, None, None, :]))[:, 0]


class SwiGlu(nn.Module):
    """x [N, 32]."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))
        self.up = nn.Linear(WIDTH, 128, bias=False)
        self.down = nn.Linear(64, WIDTH, bias=False)

    def forward(self, x):
        gate, up = self.up(rms_norm(x, self.scale)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Experts(nn.Module):
    """x [N, 32]: each of four experts computes all rows; the results of the best two per row are
    summed."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.up = nn.Parameter(torch.randn(4, WIDTH, 48) / math.sqrt(WIDTH))
        self.down = nn.Parameter(torch.randn(4, 48, WIDTH) / math.sqrt(48))

    def forward(self, x):
        shares = self.router(x).softmax(-1)
        best = shares.amax(-1, keepdim=True)
        second = shares.masked_fill(shares == best, 0).amax(-1, keepdim=True)
        shares = torch.where(shares >= second, shares, 0)
        results = torch.bmm(F.gelu(torch.bmm(x.expand(4, -1, -1), self.up)), self.down)
        return torch.einsum("ne,enw->nw", shares / shares.sum(-1, keepdim=True), results)


class Residuals(nn.Module):
    """x [N, 32] through four layers that each add to it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(),
                          nn.Linear(64, WIDTH)) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class UnetBlock(nn.Module):
    """x [B, 8, H, H]: down, up, and a skip connection, with group norms."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.GroupNorm(2, 8), nn.GroupNorm(4, 16)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.up = nn.Conv2d(16, 8, 3, padding=1)
        self.bridge = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        low = F.silu(self.last(self.down(F.silu(self.first(x)))))
        return self.bridge(x) + self.up(F.interpolate(low, scale_factor=2.0, mode="nearest"))


class Paired(nn.Module):
    """x, y [N, 32] with the same N, and weights [N]: the nearest y of each x, and a weighted
    sum."""

    def forward(self, x, y, weights):
        distances = (x[:, None] - y[None]).square().sum(-1)
        return distances.argmin(-1), (weights[:, None] * (x - y)).sum(0)


class Contrast(nn.Module):
    """left, right [N, 24]: a contrastive loss that pulls pairs together."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(24, 16), nn.Linear(24, 16)

    def forward(self, left, right):
        left = F.normalize(self.left(left), dim=-1)
        right = F.normalize(self.right(right), dim=-1)
        scores = left @ right.t() / 0.1
        of = torch.arange(left.shape[0], device=left.device)
        return (F.cross_entropy(scores, of) + F.cross_entropy(scores.t(), of)) / 2


class NextToken(nn.Module):
    """tokens [B, L]: a bigram model and its loss, which ignores tokens of 0."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, WIDTH, padding_idx=0)
        self.head = nn.Linear(WIDTH, 100)

    def forward(self, tokens):
        scores = self.head(torch.tanh(self.table(tokens[:, :-1])))
        return F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)


class Bags(nn.Module):
    """tokens [N, L], weights [N, L]: PyTorch's embedding bag."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(100, WIDTH, mode="sum")
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, tokens, weights):
        return self.head(torch.tanh(self.bag(tokens, per_sample_weights=weights)))


class Segments(nn.Module):
    """tokens [T] of 8 bags one after another, and the bag (owner) of each [T]: scatters their sums
    into the bags."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, WIDTH)

    def forward(self, tokens, owners):
        sums = torch.zeros(8, WIDTH, device=tokens.device).index_add(0, owners, self.table(tokens))
        return F.layer_norm(sums, (WIDTH,))


class Dropped(nn.Module):
    """x [N, 32]: returns the values before dropout, those after it, and a layer's result from the
    latter."""

    SHARE = 0.25

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x):
        before = F.gelu(self.first(x)) + 1  # No zeros but those that dropout makes.
        after = F.dropout(before, self.SHARE, self.training)
        return before, after, self.second(after)


class Spectral(nn.Module):
    """x [B, L, 32]: mixed by a Fourier transform, which has complex numbers."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.head(torch.fft.fft2(x).real)


class BestExperts(nn.Module):
    """x [N, 32]: looks up the weights of the best two of eight experts for each row."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 8, bias=False)
        self.experts = nn.Parameter(torch.randn(8, WIDTH, WIDTH) / math.sqrt(WIDTH))

    def forward(self, x):
        shares, best = self.router(x).softmax(-1).topk(2)
        results = torch.einsum("nw,nkwv->nkv", x, self.experts[best])
        return (shares[..., None] * results).sum(1)


class Picks(nn.Module):
    """x [N, 32]: the number of rows in the middle depends on the data."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 8)

    def forward(self, x):
        y = torch.tanh(self.first(x))
        return self.second(y[y[:, 0] > y[:, 1]] * 2)


class Forked(nn.Module):
    """x [N, 32]: a branch on a value that the host reads, so there are two graphs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x):
        y = F.relu(self.first(x))
        if y.sum().item() < 0:
            return self.second(-y)
        return self.second(y)


class Scanned(nn.Module):
    """x [B, L, 32]: a state whose decay depends on the input, computed in logarithms."""

    def __init__(self):
        super().__init__()
        self.decay, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        decays = F.logsigmoid(self.decay(x) + 3).cumsum(1)
        return decays.exp() * (self.value(x) * (-decays).exp()).cumsum(1)


class Mlp(nn.Sequential):
    """x [N, 32]."""

    def __init__(self, *between):
        super().__init__(nn.Linear(WIDTH, 64), nn.GELU(), *between, nn.Linear(64, 16))


class Block(nn.Module):
    """x [B, L, 32]: a transformer layer with dropout in three places."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Dropout(0.1),
                                  nn.Linear(64, WIDTH))

    def forward(self, x):
        q, k, v = (split(part, HEADS) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + F.dropout(self.out(merge(mixed)), 0.1)
        x = x + self.feed(self.second(x))
        return self.head(x.mean(1))


class Convolved(nn.Module):
    """images [B, 3, 8, 8]: batch norms with moving statistics, and dropout of whole channels."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 16, 3)
        self.norm, self.drop = nn.BatchNorm2d(8), nn.Dropout2d(0.2)
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        x = self.drop(F.relu(self.norm(self.first(images))))
        return self.head(F.relu(self.second(x)).mean((-1, -2)))


class Recurrent(nn.Module):
    """x [B, 4, 24]: four steps of an LSTM cell, with dropout on its state between steps."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(24, WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, x):
        hidden = cells = x.new_zeros(x.shape[0], WIDTH)
        for step in range(4):
            hidden, cells = self.cell(x[:, step], (F.dropout(hidden, 0.2), cells))
        return self.head(hidden)


class Masked(nn.Module):
    """x [N, 256]: squares, with a quarter of them dropped."""

    def forward(self, x):
        return F.dropout(x.square(), Dropped.SHARE)


def settled(model, pixels, channels=3):
    """A model whose batch norms know the mean and variance of random images."""
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(8, channels, pixels, pixels))
    for layer, momentum in zip(norms, momenta):
        layer.momentum = momentum
    return model
