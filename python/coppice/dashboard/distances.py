"""How far results are from the right ones.

If two results are not as near to each other as their type allows, both are compared with what the
same module computes in float64, as PyTorch's dashboards do. A result is right if its distance from
that is at most `FARTHER_MAX` times that of eager's result, plus what the type allows.
"""

import torch

# Of the norm of a tensor, and of its largest value: sums of up to some hundred products, in another
# order. Eager bfloat16 rounds more often than a fused kernel.
TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2}
FARTHER_MAX = 3.0  # Times as far from float64 as eager.
SMALL = 1e-3  # Of all gradients together: a parameter's that are less are noise.


class Misshapen(AssertionError):
    """Results that differ in number, size or type."""


def distance(found, right, scale=0.0):
    """The larger of two ratios: the norm of the difference over the norm of `right`, and the
    largest difference over the largest value of `right`. The divisors are at least `scale`. The
    distance is infinite if one has a NaN or an infinity that the other lacks. Errors: Misshapen."""
    if found.shape != right.shape:
        raise Misshapen(f"a result has shape {list(found.shape)} instead of {list(right.shape)}")
    found, right = found.detach(), right.detach()
    if not right.numel():
        return 0.0
    if not right.is_floating_point() and not right.is_complex():
        return 0.0 if torch.equal(found, right) else float("inf")
    wide = torch.complex128 if right.is_complex() else torch.float64
    found, right = found.to(wide), right.to(wide)
    same = (found == right) | (found.isnan() & right.isnan())
    difference = torch.where(same, 0, found - right).abs().nan_to_num(float("inf"), float("inf"))
    size = right.abs().nan_to_num(0.0, 0.0, 0.0)
    if not float(difference.max()):
        return 0.0
    return max(float(difference.norm()) / (max(float(size.norm()), scale) or 1.0),
               float(difference.max()) / (max(float(size.max()), scale) or 1.0))


def farthest(found, right, scale=0.0):
    """The largest distance between two lists of tensors. Errors: Misshapen."""
    if len(found) != len(right):
        raise Misshapen(f"{len(found)} results instead of {len(right)}")
    return max((distance(one, other, scale) for one, other in zip(found, right)), default=0.0)


def scale_of(gradients):
    """The least divisor (`scale`) of the distance between two gradients."""
    squares = sum(float(one.double().square().sum()) for one in gradients)
    return SMALL * squares ** 0.5


class Comparison:
    """The largest distance of all that was compared so far."""

    def __init__(self, dtype):
        self.tolerance, self.error, self.wrong = TOLERANCES[dtype], 0.0, ""

    def add(self, what, found, right, exact, scale=0.0):
        """Compares lists of tensors. `exact` is a function that returns the results in float64; it
        is called only if they are needed. It is None if there are none. Errors: Misshapen."""
        for one, other in zip(found, right):
            if one.dtype != other.dtype:
                raise Misshapen(f"{what}: a result has dtype {one.dtype} instead of {other.dtype}")
        error = farthest(found, right, scale)
        self.error = max(self.error, error)
        if error <= self.tolerance:
            return
        known = exact() if exact is not None else None
        if known is None:
            self.tell(f"{what}: distance {error:.1e} from eager")
            return
        ours, eager = (farthest(one, known, scale) for one in (found, right))
        if not ours <= self.tolerance + FARTHER_MAX * eager:
            self.tell(f"{what}: distance {error:.1e} from eager; distance from float64: coppice "
                      f"{ours:.1e}, eager {eager:.1e}")

    def tell(self, text):
        self.wrong = self.wrong or text
