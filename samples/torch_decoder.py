#!/usr/bin/env python3
"""A small Llama-style decoder in PyTorch, exported as a kernel package of two programs.

    torch_decoder.py [-o torch_decoder.zip] [--weights weights.safetensors]

    prefill   tokens[batch, length], lengths[batch], slots[batch]    -> logits, next_tokens
    decode    tokens[batch], positions[batch], slots[batch]          -> logits, next_tokens

Both read and write the caches `keys` and `values` [layers, slots + 1, max_context, kv_heads,
head_dim], which lie where they always lie. A request owns a slot; what rows of padding compute goes
to the last one, so that `slots` is padded with its number and all else with zeros.

Weights are constants without data. Each has in `x-random` how it is drawn, on any platform: with
SplitMix64 from the state `seed`, element i of the tensor, row-major, is

    float32(float32(mean) + float32(deviation * sqrt(12) * ((word i >> 11) * 2**-53 - 0.5)))
"""

import argparse
import math
import pathlib
import sys
import zlib

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

LAYERS = 4
HIDDEN = 256
HEADS = 8
KV_HEADS = 2
HEAD_DIM = HIDDEN // HEADS
FFN = 512
VOCABULARY = 512
SLOTS = 16
MAX_CONTEXT = 512
ROPE_THETA = 10000.0
NORM_EPSILON = 1e-5
SEED = 1


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = torch.nn.Parameter(torch.empty(HIDDEN))
        self.qkv = torch.nn.Parameter(torch.empty((HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN))
        self.attention_out = torch.nn.Parameter(torch.empty(HIDDEN, HEADS * HEAD_DIM))
        self.ffn_norm = torch.nn.Parameter(torch.empty(HIDDEN))
        self.gate_up = torch.nn.Parameter(torch.empty(2 * FFN, HIDDEN))
        self.down = torch.nn.Parameter(torch.empty(HIDDEN, FFN))

    def project(self, x, cosines, sines):
        """Queries, keys and values of the rows of x: [..., heads, head_dim] each."""
        rows = F.linear(norm(x, self.attention_norm), self.qkv)
        rows = rows.unflatten(-1, (HEADS + 2 * KV_HEADS, HEAD_DIM))
        queries, keys, values = rows.split([HEADS, KV_HEADS, KV_HEADS], dim=-2)
        return rotate(queries, cosines, sines), rotate(keys, cosines, sines), values

    def finish(self, x, attended):
        x = x + F.linear(attended.flatten(-2), self.attention_out)
        gate, up = F.linear(norm(x, self.ffn_norm), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Parameter(torch.empty(VOCABULARY, HIDDEN))
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.final_norm = torch.nn.Parameter(torch.empty(HIDDEN))
        self.vocabulary = torch.nn.Parameter(torch.empty(VOCABULARY, HIDDEN))
        # Tables, so that no kernel needs the cosine of a large angle.
        half = torch.arange(HEAD_DIM // 2, dtype=torch.float64) / (HEAD_DIM // 2)
        angles = torch.arange(MAX_CONTEXT, dtype=torch.float64)[:, None] / ROPE_THETA**half
        self.register_buffer("cosines", angles.cos().float(), persistent=False)
        self.register_buffer("sines", angles.sin().float(), persistent=False)

    def predict(self, x):
        logits = F.linear(norm(x, self.final_norm), self.vocabulary)
        return logits, logits.argmax(-1).int()

    def prefill(self, tokens, lengths, slots, keys, values):
        """Predicts the token behind each row's first `lengths`; rows start at position 0."""
        batch, length = tokens.shape
        x = self.embedding[tokens.long()]
        at = torch.arange(length, device=tokens.device)
        cosines, sines = self.cosines[:length, None], self.sines[:length, None]
        later = at[None, :] > at[:, None]
        all_keys, all_values = [], []
        for layer in self.layers:
            queries, own_keys, own_values = layer.project(x, cosines, sines)
            all_keys.append(own_keys)
            all_values.append(own_values)
            # [batch, kv_heads, heads of each, length, head_dim]
            queries = queries.unflatten(-2, (KV_HEADS, -1)).permute(0, 2, 3, 1, 4)
            own_keys = own_keys.permute(0, 2, 3, 1).unsqueeze(2)
            own_values = own_values.permute(0, 2, 1, 3).unsqueeze(2)
            scores = (queries @ own_keys) * (1 / math.sqrt(HEAD_DIM))
            shares = scores.masked_fill(later, -math.inf).softmax(-1)
            attended = (shares @ own_values).permute(0, 3, 1, 2, 4)
            x = layer.finish(x, attended.reshape(batch, length, HEADS, HEAD_DIM))
        rows = slots.long()[:, None]
        keys[:, rows, at[None, :]] = torch.stack(all_keys)
        values[:, rows, at[None, :]] = torch.stack(all_values)
        last = lengths.long() - 1
        return self.predict(x.gather(1, last[:, None, None].expand(-1, 1, HIDDEN)).squeeze(1))

    def decode(self, tokens, positions, slots, keys, values):
        """Predicts the token behind each row's one at its position in its slot."""
        rows, at = slots.long(), positions.long()
        x = self.embedding[tokens.long()]
        cosines, sines = self.cosines[at][:, None], self.sines[at][:, None]
        context = torch.arange(MAX_CONTEXT, device=tokens.device)[None, :]
        own = (context == at[:, None])[..., None, None]
        later = (context > at[:, None])[..., None, None]
        all_keys, all_values = [], []
        for index, layer in enumerate(self.layers):
            queries, own_keys, own_values = layer.project(x, cosines, sines)
            all_keys.append(own_keys)
            all_values.append(own_values)
            # [batch, context, kv_heads, heads of each, head_dim]
            queries = queries.unflatten(-2, (KV_HEADS, -1))[:, None]
            past_keys = torch.where(own, own_keys[:, None], keys[index, rows])[..., None, :]
            past_values = torch.where(own, own_values[:, None], values[index, rows])[..., None, :]
            scores = (queries * past_keys).sum(-1) * (1 / math.sqrt(HEAD_DIM))
            shares = scores.masked_fill(later, -math.inf).softmax(1)
            # What a slot held before has no share, and no value either.
            past_values = past_values.masked_fill(later[..., None], 0)
            attended = (shares[..., None] * past_values).sum(1)
            x = layer.finish(x, attended.flatten(1, 2))
        keys[:, rows, at] = torch.stack(all_keys)
        values[:, rows, at] = torch.stack(all_values)
        return self.predict(x)


def norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + NORM_EPSILON) * weight


def rotate(x, cosines, sines):
    """Turns pairs (i, i + half) of each head."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cosines - right * sines, right * cosines + left * sines], dim=-1)


def randomness(name, shape):
    """How a weight is drawn: what `x-random` says of it."""
    is_norm = name.endswith("norm")
    deviation = 0.1 if is_norm else 1.0 if name == "embedding" else 1 / math.sqrt(shape[-1])
    return {"seed": SEED << 32 | zlib.crc32(name.encode()), "mean": repr(1.0 if is_norm else 0.0),
            "deviation": repr(deviation)}


def draw(shape, how):
    """The tensor that the opening of this file describes."""
    with np.errstate(over="ignore"):
        count = np.arange(1, math.prod(shape) + 1, dtype=np.uint64)
        words = np.uint64(how["seed"]) + count * np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words ^= words >> np.uint64(31)
    unit = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
    drawn = (float(how["deviation"]) * math.sqrt(12) * unit).astype(np.float32)
    return torch.from_numpy((np.float32(how["mean"]) + drawn).reshape(tuple(shape)))


def make_decoder():
    decoder = Decoder().requires_grad_(False).eval()
    for name, weight in decoder.named_parameters():
        weight.copy_(draw(weight.shape, randomness(name, weight.shape)))
    return decoder


def make_caches():
    shape = (LAYERS, SLOTS + 1, MAX_CONTEXT, KV_HEADS, HEAD_DIM)
    return torch.zeros(shape), torch.zeros(shape)


def export(decoder, archs=("80", "90a")):
    """The package. Its claims are those that `coppice package claim` finds."""
    from coppice.export import torch as exporter

    package = exporter.new_package()
    rows = {"name": "batch", "min": 1, "max": SLOTS, "buckets": "pow2",
            "claim": {"padding": "finite", "equal": "bits"}}
    columns = {"name": "length", "min": 2, "max": MAX_CONTEXT, "buckets": "pow2",
               "claim": {"padding": "finite", "equal": "bits"}}
    # Rows of padding all write the last slot, and nothing orders them. Their inputs are the fills,
    # so that they compute equal rows and store the bits that are there: whoever stores last, the
    # slot holds the same, which is why the emulator finds no race. No request reads it.
    outputs = ("logits", "next_tokens")
    fills = {"slots": {"value": repr(float(SLOTS))}}
    caches = make_caches()
    some = torch.zeros(4, dtype=torch.int32)
    common = {"outputs": outputs, "fills": fills, "archs": archs}
    exporter.add_program(
        package, "prefill", decoder.prefill,
        (torch.zeros(4, 48, dtype=torch.int32), some + 1, some, *caches),
        dynamic={"tokens": {0: rows, 1: columns}, "lengths": {0: rows}, "slots": {0: rows}},
        **{**common, "fills": {**fills, "lengths": {"value": "1.0"}}})
    exporter.add_program(
        package, "decode", decoder.decode, (some, some, some, *caches),
        dynamic={name: {0: rows} for name in ("tokens", "positions", "slots")}, **common)
    package.entry = "decode"
    for name, weight in decoder.named_parameters():
        package.constants[name]["x-random"] = randomness(name, weight.shape)
    return package


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--output", default="torch_decoder.zip", help="zip or folder")
    parser.add_argument("--weights", help="writes the weights too, as safetensors")
    parser.add_argument("--arch", default="80,90a", help="as python -m coppice.export has it")
    options = parser.parse_args()
    decoder = make_decoder()
    export(decoder, options.arch.split(",")).write(options.output)
    if options.weights:
        from coppice.export.torch import save_weights

        save_weights(options.weights, dict(decoder.named_parameters()))


if __name__ == "__main__":
    main()
