"""Our own models. Each has one of the parts that programs consist of, with padding, caches or
dropout."""

import functools

import torch
import torch.nn.functional as F
from torch import nn

from coppice.dashboard import own_modules as own
from coppice.dashboard.model import Model

# Padded to powers of two, by what padding may hold: each row, and each position of a causal model,
# is computed by itself.
ROWWISE = {"policy": "pow2", "claim": "any"}
CAUSAL = {"policy": "pow2", "claim": "finite"}
FILLED = {"policy": "pow2", "claim": "fill"}
ROWS, LENGTHS = (2, 64), (2, 64)
IMAGES = (2, 15)  # PyTorch chooses among convolutions by how many images there are.
CACHE_ROWS = (2, 8)


def right_dropped(module, arguments, results):
    """The right results for the elements that were dropped. Their number must be within bounds that
    all but one of 10^9 draws satisfy. Errors: AssertionError if it is not."""
    before, after, _ = results
    share, count = own.Dropped.SHARE, after.numel()
    dropped = after == 0
    deviation = (share * (1 - share) / count) ** 0.5
    if not abs(float(dropped.double().mean()) - share) < 6 * deviation:
        raise AssertionError(f"the share of dropped elements is {dropped.double().mean()} "
                             f"instead of {share}")
    right = F.gelu(module.first(*arguments)) + 1
    kept = torch.where(dropped, 0, right / (1 - share))
    return right, kept, module.second(kept)


# Arguments, of a Size each.


def wide(size, full):
    return [torch.randn(size.length, own.WIDTH)]


def long(size, full):
    return [torch.randn(size.rows, size.length, own.WIDTH)]


def tokens(size, full):
    return [torch.randint(1, 100, (size.rows, size.length))]


def tied(*widths):
    """Tensors with the same number of rows. A width of None makes a vector."""
    return lambda size, full: [
        torch.randn(size.length, *(() if width is None else (width,))) for width in widths]


def masked_floats(size, full):
    return [*long(size, full), torch.randint(1, size.length + 1, (size.rows,))]


def crossed(size, full):
    return [torch.randn(size.rows, length, own.WIDTH)
            for length in (size.length, size.length // 2 + 1)]


def heads(size, full):
    return [torch.randn(size.rows, 2, size.length, 16) for _ in range(3)]


def cache_step(size, full):
    return [torch.randn(size.rows, own.WIDTH), torch.randint(0, 24, (size.rows,)),
            torch.randperm(8)[:size.rows], torch.randn(8, 24, own.WIDTH),
            torch.randn(8, 24, own.WIDTH)]


def weighted_tokens(size, full):
    (given,) = tokens(size, full)
    return [given, torch.rand(given.shape)]


def segments(size, full):
    return [torch.randint(0, 100, (size.length,)), torch.randint(0, 8, (size.length,))]


def tall_images(size, full):
    return [torch.randn(size.rows, 3, size.length + 8, 16)]


def images(size, full):
    return [torch.randn(size.rows, 3, 8, 8)]


def planes(size, full):
    return [torch.randn(size.rows, 8, 8, 8)]


def inferring():
    """Models that are used for inference only, or have nothing to train."""
    model = functools.partial(Model, "own", modes=("inference",), dtypes=("float32",), dynamic=None)
    rows, sequences = {0: {0: ROWS}}, {0: {0: ROWS, 1: LENGTHS}}
    both = {0: {0: ROWS, 1: LENGTHS}, 1: {0: ROWS}}
    return [
        model("dropout", lambda full: own.Dropped(), wide, rows, drops=True,
              expected=right_dropped),
        model("dropout_off", lambda full: own.Mlp(nn.Dropout(0.5)), wide, rows),
        model("residuals", lambda full: own.Residuals(), wide, rows, options=ROWWISE),
        model("swiglu", lambda full: own.SwiGlu(), wide, rows, options=ROWWISE,
              dtypes=("bfloat16",)),
        model("experts", lambda full: own.Experts(), wide, rows),
        model("best_experts", lambda full: own.BestExperts(), wide, rows),
        model("spectral", lambda full: own.Spectral(), long, sequences),
        model("lstm_cell", lambda full: nn.LSTMCell(24, own.WIDTH), tied(24), rows,
              options=ROWWISE),
        model("gru_cell", lambda full: nn.GRUCell(24, own.WIDTH), tied(24, own.WIDTH),
              {0: {0: ROWS}, 1: {0: ROWS}}, options=ROWWISE),
        model("attention_causal", lambda full: own.Attention("causal"), long, sequences,
              dynamic=True, options=CAUSAL),
        model("attention_grouped", lambda full: own.Attention("causal", 2), long, sequences,
              options=CAUSAL),
        model("attention_window", lambda full: own.Attention("window"), long, sequences),
        model("attention_cross", lambda full: own.Attention(), crossed,
              {0: {0: ROWS, 1: LENGTHS}, 1: {0: ROWS, 1: LENGTHS}}),
        model("attention_lengths", lambda full: own.MaskedAttention(), masked_floats, both,
              options=FILLED),
        model("attention_flex", lambda full: own.Flex(), heads,
              {position: {0: ROWS, 2: LENGTHS} for position in range(3)}),
        model("attention_linear", lambda full: own.LinearAttention(), long, sequences),
        model("scan", lambda full: own.Scanned(), long, sequences),
        model("rotary", lambda full: own.Rotary(),
              lambda size, full: [torch.randn(size.rows, size.length, 64)], sequences),
        model("cache", lambda full: own.CachedAttention(), cache_step,
              {position: {0: CACHE_ROWS} for position in range(3)}, kept=(3, 4)),
        model("paired", lambda full: own.Paired(), tied(32, 32, None),
              {position: {0: ROWS} for position in range(3)}),
        model("contrast", lambda full: own.Contrast(), tied(24, 24),
              {0: {0: ROWS}, 1: {0: ROWS}}),
        model("next_token", lambda full: own.NextToken(), tokens, {0: {0: ROWS, 1: (3, 64)}}),
        model("embedding_bag", lambda full: own.Bags(), weighted_tokens,
              {0: {0: ROWS, 1: LENGTHS}, 1: {0: ROWS, 1: LENGTHS}}),
        model("segments", lambda full: own.Segments(), segments, {0: {0: ROWS}, 1: {0: ROWS}}),
        model("conv_net", lambda full: own.ConvNet(), tall_images,
              {0: {0: IMAGES, 2: (10, 32)}}),
        model("unet_block", lambda full: own.UnetBlock(), planes, {0: {0: IMAGES}}),
        model("picks", lambda full: own.Picks(), wide, rows, dynamic=True),
        model("forked", lambda full: own.Forked(), wide, rows, dynamic=True),
    ]


def training():
    """Models that also train, with dropout where training usually has it. Their random numbers come
    from PyTorch's generator, so gradients are equal to those of eager."""
    model = functools.partial(Model, "own", dtypes=("float32",), dynamic=None, drops=True,
                              modes=("training",))
    rows = {0: {0: ROWS}}
    return [
        model("mlp", lambda full: own.Mlp(), wide, rows, dynamic=True, drops=False,
              options=ROWWISE, modes=("inference", "training")),
        model("mlp_dropped", lambda full: own.Mlp(nn.Dropout(0.25)), wide, rows),
        model("block", lambda full: own.Block(), long, {0: {0: ROWS, 1: LENGTHS}}),
        model("convolved", lambda full: own.Convolved(), images, {0: {0: IMAGES}}),
        model("recurrent", lambda full: own.Recurrent(),
              lambda size, full: [torch.randn(size.length, 4, 24)], rows),
    ]


def models():
    return [*inferring(), *training()]
