"""A step of many tiny kernels that a compiler cannot fuse."""

import torch

ELEMENTS = 4096


@torch.library.custom_op("coppice_bench::add_one", mutates_args=())
def add_one(x: torch.Tensor) -> torch.Tensor:
    """One kernel that the compiler cannot look into."""
    return x + 1


@add_one.register_fake
def _(x):
    return torch.empty_like(x)


def plain_chain(x, kernels):
    """`kernels` times x + 1, as anyone writes it."""
    for _ in range(kernels):
        x = x + 1
    return x


# Two functions of the same lines: compiled code belongs to a function, and whether it copies its
# input must not be what the other one was compiled for.
def copied_chain(x, kernels):
    """The same of opaque kernels, for an input that may lie elsewhere in every call."""
    for _ in range(kernels):
        x = add_one(x)
    return x


def static_chain(x, kernels):
    """The same for an input that is marked with mark_static_address."""
    for _ in range(kernels):
        x = add_one(x)
    return x
