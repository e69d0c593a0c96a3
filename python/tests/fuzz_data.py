"""What arguments of drawn programs hold. A program that is printed has these functions with it."""

import torch


def drawn(shape, dtype, seed, special=False):
    """Small multiples of 1/4; special: with NaN and -0.0."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randint(-12, 13, shape, generator=random)
    if dtype == torch.bool:
        return values > 0
    if not dtype.is_floating_point:
        return (values.abs() if dtype == torch.uint8 else values).to(dtype)
    numbers = (values / 4).to(dtype)
    if special:
        numbers[values % 5 == 1] = float("nan")
        numbers[values % 5 == 2] = -0.0
    return numbers


def indices(shape, seed, below):
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))
