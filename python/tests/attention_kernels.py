"""PyTorch's attention by FlashAttention and cuDNN, of which a machine without a GPU has no kernels:
stand-ins on the CPU that take and give back what those do, sizes and tensors that are undefined
included.
"""

import contextlib
import math

import torch


def weights(query, key, causal, scale):
    """Of each key for each query, and the logarithm of their sum before."""
    scores = query.float() @ key.float().mT * (scale or 1 / math.sqrt(query.shape[-1]))
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(-1), scores.logsumexp(-1)


def forward(query, key, value, causal, scale):
    shares, sums = weights(query, key, causal, scale)
    return (shares @ value.float()).to(query.dtype), sums


def backward(grad, query, key, value, causal, scale):
    shares, _ = weights(query, key, causal, scale)
    wanted = grad.float() @ value.float().mT
    scores = shares * (wanted - (wanted * shares).sum(-1, keepdim=True))
    scores = scores * (scale or 1 / math.sqrt(query.shape[-1]))
    return tuple(one.to(query.dtype) for one in (
        scores @ key.float(), scores.mT @ query.float(), shares.mT @ grad.float()))


def flash(query, key, value, dropout_p=0.0, is_causal=False, mask=False, *, scale=None):
    made, sums = forward(query, key, value, is_causal, scale)
    return (made, sums, None, None, query.shape[2], key.shape[2],
            torch.zeros(2, dtype=torch.uint64), torch.zeros((), dtype=torch.uint64),
            query.new_empty(0))


def flash_backward(grad, query, key, value, made, sums, rows, columns, queries, keys, dropout_p,
                   is_causal, seed, offset, *, scale=None):
    assert (rows, columns, queries, keys) == (None, None, query.shape[2], key.shape[2])
    return backward(grad, query, key, value, is_causal, scale)


def cudnn(query, key, value, bias, with_sums, dropout_p=0.0, is_causal=False, mask=False, *,
          scale=None):
    made, sums = forward(query, key, value, is_causal, scale)
    return (made, sums[..., None], None, None, query.shape[2], key.shape[2],
            torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64), None)


def cudnn_backward(grad, query, key, value, made, sums, seed, offset, bias, rows, columns, queries,
                   keys, dropout_p, is_causal, *, scale=None):
    assert (rows, columns, queries, keys) == (None, None, query.shape[2], key.shape[2])
    return backward(grad, query, key, value, is_causal, scale)


@contextlib.contextmanager
def installed():
    """Within, the CPU has these operators."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        for kind, run, run_backward in (("flash", flash, flash_backward),
                                        ("cudnn", cudnn, cudnn_backward)):
            library.impl(f"_scaled_dot_product_{kind}_attention", run, "CPU")
            library.impl(f"_scaled_dot_product_{kind}_attention_backward", run_backward, "CPU")
        yield
