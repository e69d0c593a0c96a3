"""The decode step of tools/model/decoder.h in plain PyTorch, float32.

The architecture and the shapes are the same; weights are drawn with the same deviations from
another generator. Everything that a call mutates is a buffer, so that torch.compile's graphs take
it where it lies. Attention reads the whole context of a slot under a mask, since a graph has one
shape whatever the positions are.

Row i of a batch has slot i, so that attention reads the cache in place.
"""

import math

import torch
from torch.nn import functional


def parameter(*sizes, deviation, mean=0.0):
    """Uniform around `mean` with a standard deviation."""
    half_width = deviation * math.sqrt(3)
    return torch.nn.Parameter(
        torch.empty(sizes).uniform_(mean - half_width, mean + half_width), requires_grad=False)


def projection(depth, width):
    """[width, depth]; its deviation keeps a unit input at unit size."""
    return parameter(width, depth, deviation=1 / math.sqrt(depth))


def norm_weight(width):
    return parameter(width, deviation=0.1, mean=1.0)


def rotary_tables(config):
    """[max_context, head_dim / 2]: cos and sin of position / theta^(2 i / head_dim), by double."""
    half = config["head_dim"] // 2
    frequencies = config["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(config["max_context"], dtype=torch.float64)[:, None] * frequencies
    return angles.cos().float(), angles.sin().float()


class Layer(torch.nn.Module):
    """Attention over a cache and a gated feed-forward, each added to what it reads."""

    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config[key] for key in ("heads", "kv_heads", "head_dim"))
        self.epsilon = config["rms_eps"]
        width, queries = config["d_model"], self.heads * self.head_dim
        self.attention_norm = norm_weight(width)
        self.qkv = projection(width, queries + 2 * self.kv_heads * self.head_dim)
        self.attention_out = projection(queries, width)
        self.ffn_norm = norm_weight(width)
        self.gate_up = projection(width, 2 * config["ffn"])
        self.down = projection(config["ffn"], width)
        cache = (config["slots"], config["max_context"], self.kv_heads, self.head_dim)
        self.register_buffer("keys", torch.zeros(cache), persistent=False)
        self.register_buffer("values", torch.zeros(cache), persistent=False)

    def norm(self, x, weight):
        return functional.rms_norm(x, weight.shape, weight, self.epsilon)

    def attend(self, x, slots, positions, cosines, sines, mask):
        batch = x.shape[0]
        qkv = functional.linear(self.norm(x, self.attention_norm), self.qkv)
        qkv = qkv.view(batch, self.heads + 2 * self.kv_heads, self.head_dim)
        rotated, values = qkv.split((self.heads + self.kv_heads, self.kv_heads), dim=1)
        low, high = rotated.chunk(2, dim=-1)
        rotated = torch.cat((low * cosines - high * sines, high * cosines + low * sines), dim=-1)
        queries, keys = rotated.split((self.heads, self.kv_heads), dim=1)
        self.keys.index_put_((slots, positions), keys)
        self.values.index_put_((slots, positions), values)
        # The heads that share keys are rows of one attention, so nothing expands the cache.
        queries = queries.reshape(batch, self.kv_heads, -1, self.head_dim)
        attended = functional.scaled_dot_product_attention(
            queries, self.keys[:batch].transpose(1, 2), self.values[:batch].transpose(1, 2),
            attn_mask=mask)
        return functional.linear(attended.reshape(batch, -1), self.attention_out)

    def feed_forward(self, x):
        gate, up = functional.linear(self.norm(x, self.ffn_norm), self.gate_up).chunk(2, dim=-1)
        return functional.linear(functional.silu(gate) * up, self.down)

    def forward(self, x, *attention):
        x = x + self.attend(x, *attention)
        return x + self.feed_forward(x)


class Decoder(torch.nn.Module):
    """decode(tokens, positions, slots) -> logits [batch, vocab], next tokens [batch]."""

    def __init__(self, config, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        self.epsilon = config["rms_eps"]
        self.embedding = parameter(config["vocab"], config["d_model"], deviation=1)
        self.final_norm = norm_weight(config["d_model"])
        self.vocabulary = projection(config["d_model"], config["vocab"])
        cosines, sines = rotary_tables(config)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        self.register_buffer("context", torch.arange(config["max_context"]), persistent=False)
        self.layers = torch.nn.ModuleList(Layer(config) for _ in range(config["layers"]))

    def forward(self, tokens, positions, slots):
        cosines, sines = self.cosines[positions][:, None], self.sines[positions][:, None]
        hidden = self.context > positions[:, None]
        mask = torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, -math.inf)
        x = functional.embedding(tokens, self.embedding)
        for layer in self.layers:
            x = layer(x, slots, positions, cosines, sines, mask[:, None, None])
        x = functional.rms_norm(x, self.final_norm.shape, self.final_norm, self.epsilon)
        logits = functional.linear(x, self.vocabulary)
        return logits, logits.argmax(dim=-1)
