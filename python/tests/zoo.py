"""The zoo: small models of every kind, that `torch.compile(backend="coppice")` is held to.

Each has a function that makes it, one that draws arguments, and the axes whose sizes vary.
zoo_run.py runs them and writes zoo.tsv, zoo_test.py holds that to the promises.
"""

import copy
import dataclasses
import functools
from typing import Callable

import torch
from torch import nn

import models
import zoo_own as own
import zoo_peers as peers

ORIGINS = ("own", "torchvision", "transformers")
# Padded to powers of two, by what padding may hold: each row, and each position of a causal model,
# is computed by itself.
ROWWISE = {"policy": "pow2", "claim": "any"}
CAUSAL = {"policy": "pow2", "claim": "finite"}
FILLED = {"policy": "pow2", "claim": "fill"}
ROWS, LENGTHS = (2, 64), (2, 64)
IMAGES = (2, 15)  # PyTorch chooses among convolutions by how many images there are.


@dataclasses.dataclass
class Model:
    name: str
    origin: str
    make: Callable  # A module, of weights that torch's generator draws.
    draw: Callable  # From a random.Random: arguments.
    axes: dict  # Of arguments, by position: {axis: (min, max)} of those that vary.
    dtype: str = "f32"
    dynamic: bool = None  # torch.compile's; sizes behind the end of a graph need True.
    training: bool = False  # Whether the module is in its mode of training.
    kept: tuple = ()  # Positions of arguments that stay from call to call, and are written to.
    options: dict = dataclasses.field(default_factory=dict)  # Of the backend.
    expected: Callable = None  # From module, arguments, results: right ones; else the module's.
    in_ci: bool = False

    @property
    def tolerances(self):
        """Of all values as a norm, and of one value: sums are of up to some hundred products, in
        another order than eager's. Both types' are those of the exported programs."""
        return models.TOLERANCES[self.dtype], models.TOLERANCES_OF_ONE[self.dtype]

    def modules(self, seed):
        """The module twice, one to be compiled and one to stay as it is."""
        torch.manual_seed(seed)
        module = self.make().to(models.DTYPES[self.dtype]).train(self.training)
        if not self.training:
            module.requires_grad_(False)
        return module, copy.deepcopy(module)

    def mark(self, arguments):
        """Tells PyTorch which sizes vary."""
        for position, axes in self.axes.items():
            for axis, (low, high) in axes.items():
                torch._dynamo.mark_dynamic(arguments[position], axis, min=low, max=high)


def right_dropped(module, arguments, results):
    """What is right for the elements that were dropped; how many they are is in bounds that hold
    for all but one of 10^9 draws."""
    before, after, _ = results
    share, count = own.Dropped.SHARE, after.numel()
    dropped = after == 0
    assert abs(float(dropped.double().mean()) - share) < 6 * (share * (1 - share) / count) ** 0.5
    right = module.first(*arguments)
    right = torch.nn.functional.gelu(right) + 1
    kept = torch.where(dropped, 0, right / (1 - share))
    return right, kept, module.second(kept)


# Arguments.


def floats(*shape, dtype="f32"):
    """A function that draws one tensor; sizes are integers or pairs of limits."""
    def draw(source):
        sizes = [size if isinstance(size, int) else source.randint(*size) for size in shape]
        return (torch.randn(*sizes, dtype=models.DTYPES[dtype]),)

    return draw


def tokens(source, shortest=2):
    return (torch.randint(1, 100, (source.randint(2, 5), source.randint(shortest, 24))),)


def lengths_of(source, rows, longest):
    return torch.tensor([source.randint(1, longest) for _ in range(rows)])


def masked_tokens(source):
    (given,) = tokens(source)
    return given, lengths_of(source, *given.shape)


def masked_floats(source):
    (x,) = floats((2, 5), (2, 24), 32)(source)
    return x, lengths_of(source, *x.shape[:2])


def crossed(source):
    batch = source.randint(2, 5)
    return torch.randn(batch, source.randint(2, 20), 32), torch.randn(batch,
                                                                      source.randint(2, 20), 32)


def heads(source):
    batch, length = source.randint(2, 4), source.randint(2, 24)
    return tuple(torch.randn(batch, 2, length, 16) for _ in range(3))


def cache_step(source):
    batch = source.randint(2, 8)
    slots = torch.tensor(source.sample(range(8), batch))
    positions = torch.tensor([source.randrange(24) for _ in range(batch)])
    return (torch.randn(batch, 32), positions, slots, torch.randn(8, 24, 32),
            torch.randn(8, 24, 32))


def tied(*widths):
    """Tensors of one number of rows; no width is one of a vector."""
    def draw(source):
        rows = source.randint(2, 32)
        return tuple(torch.randn(rows, *(() if width is None else (width,))) for width in widths)

    return draw


def weighted_tokens(source):
    (given,) = tokens(source)
    return given, torch.rand(given.shape)


def segments(source):
    count = source.randint(2, 48)
    return torch.randint(0, 100, (count,)), torch.randint(0, 8, (count,))


def boxes(source):
    rows = source.randint(5, 32)  # Rows as many as corners would be taken for their number.
    starts, sizes = torch.rand(2, rows, 2), torch.rand(2, rows, 2) + 0.1
    corners = (torch.cat([start, start + size], -1) for start, size in zip(starts, sizes))
    return torch.randn(rows, 6), (torch.rand(rows, 6) < 0.3).float(), *corners


# The models.


def own_models():
    model = functools.partial(Model, origin="own")
    rows, sequences = {0: {0: ROWS}}, {0: {0: ROWS, 1: LENGTHS}}
    wide = floats((2, 32), own.WIDTH)
    long = floats((2, 5), (2, 24), own.WIDTH)
    both = {0: {0: ROWS, 1: LENGTHS}, 1: {0: ROWS}}
    return [
        model("mlp", make=own.Mlp, draw=wide, axes=rows, dynamic=True, options=ROWWISE,
              in_ci=True),
        model("dropout_off", make=lambda: own.Mlp(nn.Dropout(0.5)), draw=wide, axes=rows),
        model("dropout", make=own.Dropped, draw=wide, axes=rows, training=True,
              expected=right_dropped, in_ci=True),
        model("residuals", make=own.Residuals, draw=wide, axes=rows, options=ROWWISE),
        model("swiglu_bf16", make=own.SwiGlu, draw=floats((2, 32), own.WIDTH, dtype="bf16"),
              axes=rows, dtype="bf16", options=ROWWISE),
        model("experts", make=own.Experts, draw=wide, axes=rows),
        model("best_experts", make=own.BestExperts, draw=wide, axes=rows),
        model("spectral", make=own.Spectral, draw=long, axes=sequences),
        model("lstm_cell", make=lambda: nn.LSTMCell(24, own.WIDTH), draw=floats((2, 16), 24),
              axes=rows, options=ROWWISE),
        model("gru_cell", make=lambda: nn.GRUCell(24, own.WIDTH), draw=tied(24, 32),
              axes={0: {0: ROWS}, 1: {0: ROWS}}, options=ROWWISE),
        model("attention_causal", make=lambda: own.Attention("causal"), draw=long, axes=sequences,
              dynamic=True, options=CAUSAL),
        model("attention_grouped", make=lambda: own.Attention("causal", 2), draw=long,
              axes=sequences, options=CAUSAL),
        model("attention_window", make=lambda: own.Attention("window"), draw=long, axes=sequences),
        model("attention_cross", make=own.Attention, draw=crossed,
              axes={0: {0: ROWS, 1: LENGTHS}, 1: {0: ROWS, 1: LENGTHS}}),
        model("attention_lengths", make=own.MaskedAttention, draw=masked_floats, axes=both,
              options=FILLED, in_ci=True),
        model("attention_flex", make=own.Flex, draw=heads,
              axes={position: {0: ROWS, 2: LENGTHS} for position in range(3)}),
        model("attention_linear", make=own.LinearAttention, draw=floats((2, 4), (2, 16), 32),
              axes=sequences),
        model("scan", make=own.Scanned, draw=long, axes=sequences),
        model("rotary", make=own.Rotary, draw=floats((2, 5), (2, 24), 64), axes=sequences),
        model("cache", make=own.CachedAttention, draw=cache_step, kept=(3, 4),
              axes={position: {0: (2, 8)} for position in range(3)}, in_ci=True),
        model("paired", make=own.Paired, draw=tied(32, 32, None),
              axes={position: {0: ROWS} for position in range(3)}),
        model("contrast", make=own.Contrast, draw=tied(24, 24),
              axes={0: {0: ROWS}, 1: {0: ROWS}}),
        model("next_token", make=own.NextToken, draw=functools.partial(tokens, shortest=3),
              axes={0: {0: ROWS, 1: (3, 64)}}),
        model("embedding_bag", make=own.Bags, draw=weighted_tokens,
              axes={0: {0: ROWS, 1: LENGTHS}, 1: {0: ROWS, 1: LENGTHS}}),
        model("segments", make=own.Segments, draw=segments, axes={0: {0: ROWS}, 1: {0: ROWS}}),
        model("conv_net", make=own.ConvNet, draw=floats((2, 5), 3, (10, 20), 16),
              axes={0: {0: IMAGES, 2: (10, 32)}}),
        model("unet_block", make=own.UnetBlock, draw=floats((2, 5), 8, 8, 8),
              axes={0: {0: IMAGES}}),
        model("picks", make=own.Picks, dynamic=True, draw=wide, axes=rows),
        model("forked", make=own.Forked, dynamic=True, draw=wide, axes=rows, in_ci=True),
    ]


def torchvision_models():
    model = functools.partial(Model, origin="torchvision", axes={0: {0: IMAGES}})
    images = floats((2, 6), 3, 16, 16)
    return [
        model("regnet", make=peers.make_regnet, draw=images),
        model("densenet", make=peers.make_densenet, draw=images),
        model("mobilenet", make=peers.make_mobilenet, draw=images),
        model("squeeze", make=peers.make_squeeze, draw=floats((2, 6), 16, (4, 12), 8),
              axes={0: {0: IMAGES, 2: (4, 16)}}),
        model("swin_blocks", make=peers.SwinBlocks, draw=floats((2, 6), 8, 8, 32)),
        model("vision_encoder", make=peers.make_vision_encoder, draw=floats((2, 6), 17, 32)),
        model("detection_loss", make=peers.DetectionLoss, dynamic=True, draw=boxes,
              axes={position: {0: ROWS} for position in range(4)}),
    ]


def transformers_models():
    model = functools.partial(Model, origin="transformers", draw=tokens,
                              axes={0: {0: ROWS, 1: LENGTHS}})
    masked = {"draw": masked_tokens, "axes": {0: {0: ROWS, 1: LENGTHS}, 1: {0: ROWS}}}
    return [
        model("bert", make=peers.make_bert, **masked, options=FILLED),
        model("distilbert", make=peers.make_distilbert),
        model("t5_encoder", make=peers.make_t5_encoder, dynamic=True, **masked),
        model("clip_text", make=peers.make_clip_text),
        model("gpt2", make=peers.make_gpt2, dynamic=True, options=FILLED),
        model("llama", make=peers.make_llama, options=FILLED),
        model("qwen3_bf16", make=peers.make_qwen3, dtype="bf16"),
        model("mistral", make=peers.make_mistral),
        model("gpt_neox", make=peers.make_gpt_neox),
        model("gemma", make=peers.make_gemma),
        model("vit", make=peers.make_vit, draw=floats((2, 6), 3, 16, 16), axes={0: {0: IMAGES}}),
    ]


def all_models():
    return own_models() + torchvision_models() + transformers_models()
