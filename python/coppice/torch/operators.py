"""Operators that Inductor lowers to something that a wrapper's graph cannot hold, or whose results
would differ from those of eager PyTorch.

    variances            take two steps
    bernoulli            is an operator, in place of lines of Python
    a @ b + c @ d        is two products and a sum
    any() of bytes       is a byte
    searches of floats   are run by PyTorch, so that they find NaNs at the same place as eager
"""

import contextlib
from unittest import mock

import torch
from torch._inductor import lowering

aten = torch.ops.aten


@contextlib.contextmanager
def lowered_as_in_eager():
    """Inside the scope, Inductor lowers these operators in that way."""
    known = lowering.lowerings
    others = {aten.bernoulli.p: called(aten.bernoulli.p)}
    for target in (aten.any.default, aten.any.dim, aten.any.dims):
        others[target] = any_of(known[target])
    for target in (aten.searchsorted.Tensor, aten.bucketize.Tensor):
        others[target] = among_integers(known[target], called(target))
    with mock.patch.object(lowering, "use_two_step_variance", lambda *_, **__: True), \
            mock.patch.object(torch._inductor.kernel.mm_plus_mm, "tuned_mm_plus_mm",
                              sum_of_products), mock.patch.dict(known, others):
        yield


def called(target):
    """Makes PyTorch run an operator."""
    return lowering.fallback_handler(target, add_to_fallback_set=False)


def any_of(known):
    def lowered(x, *arguments, **named):
        found = known(x, *arguments, **named)
        return lowering.to_dtype(found, torch.uint8) if x.get_dtype() == torch.uint8 else found

    return lowered


def among_integers(known, called):
    def lowered(first, second, *arguments, **named):
        floats = any(one.get_dtype().is_floating_point for one in (first, second))
        return (called if floats else known)(first, second, *arguments, **named)

    return lowered


def sum_of_products(first, second, third, fourth, **_):
    product, total = (lowering.lowerings[one] for one in (aten.mm, aten.add))
    return total(product(first, second), product(third, fourth))
