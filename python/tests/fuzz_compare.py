"""What a call did beside what eager PyTorch does: results, what was written, gradients, and which
of all of them share storage.
"""

import dataclasses

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fuzz_operators import BITS, VALUE
from fuzz_programs import is_exact

TOLERANCES = {2: 1e-9, 3: 1e-4, 4: 1e-2, 5: 8e-2}  # By level; of the value, and of 1.
NOISE_RUNS, NOISE_TIMES = 4, 20


@dataclasses.dataclass(frozen=True)
class Difference:
    kind: str  # "value", "strides", "alias", and what else compare() has.
    place: str  # "result 0", "x1", "gradient of p0"
    text: str

    def __str__(self):
        return f"{self.kind} of {self.place}: {self.text}"


@dataclasses.dataclass
class Done:
    """What a call left: tensors and other values by place, those that it was given first."""

    given: dict
    results: dict
    gradients: dict

    def tensors(self):
        return {place: value for place, value in {**self.given, **self.results}.items()
                if isinstance(value, torch.Tensor)}

    def copied(self):
        """What its results hold now."""
        return {place: value.detach().clone() for place, value in self.results.items()
                if isinstance(value, torch.Tensor)}

    def changed(self, before):
        """Differences of results from what they held."""
        return [dataclasses.replace(one, kind="kept") for place, value in before.items()
                for one in compare_values("value", place, self.results[place], value, BITS,
                                          Slack())]


@dataclasses.dataclass(frozen=True)
class Slack:
    """What of a Done another run may have otherwise, by place."""

    spread: dict = dataclasses.field(default_factory=dict)  # How far numbers may be off.
    open: dict = dataclasses.field(default_factory=dict)  # Which integers have bits of a NaN.


def compare(got, right, levels, slack=Slack()):
    """Differences of two Done. `levels` by place."""
    found = []
    for place, value in right.results.items():
        found += compare_result(place, got.results[place], value, levels[place], slack)
    for place, value in right.given.items():
        if isinstance(value, torch.Tensor):
            one, other = (tuple(side.given[place].shape) for side in (got, right))
            if one != other:  # As an operator made it that changes a tensor's own shape.
                found.append(Difference("shape", place, f"{one}, not {other}"))
            elif telling(got.given[place]) != telling(value):
                found.append(Difference("strides", place, f"{got.given[place].stride()}, not "
                                        f"{value.stride()}"))
            found += compare_values("written", place, whole(got.given[place]), whole(value),
                                    levels[place], slack)
    for place, value in right.gradients.items():
        found += compare_result(place, got.gradients[place], value, levels[place], slack,
                                strides=False)
    if not found or all(one.kind not in ("count", "type", "shape") for one in found):
        found += compare_aliases(got, right)
    return found


def compare_result(place, got, right, level, slack, strides=True):
    if type(got) is not type(right):
        return [Difference("type", place, f"{type(got).__name__}, not {type(right).__name__}")]
    if not isinstance(right, torch.Tensor):
        return [] if got == right else [Difference("value", place, f"{got}, not {right}")]
    for kind, one, other in (
            ("dtype", got.dtype, right.dtype), ("device", got.device, right.device),
            ("shape", tuple(got.shape), tuple(right.shape)),
            ("requires_grad", got.requires_grad, right.requires_grad)):
        if one != other:
            return [Difference(kind, place, f"{one}, not {other}")]
    found = []
    if strides and telling(got) != telling(right):
        found.append(Difference("strides", place, f"{got.stride()}, not {right.stride()}, of "
                                f"{tuple(right.shape)}"))
    return found + compare_values("value", place, got, right, level, slack)


def telling(tensor):
    """Strides along axes on which there is a second element."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride())
            if size > 1 and tensor.numel()]


def whole(tensor):
    """All that its storage holds, so that what is written beside a view is seen."""
    tensor = tensor.detach()
    bytes_ = tensor.untyped_storage()
    return torch.empty(0, dtype=tensor.dtype).set_(
        bytes_, 0, (bytes_.nbytes() // tensor.element_size(),), (1,))


def compare_values(kind, place, got, right, level, slack):
    got, right = got.detach(), right.detach()
    if got.shape != right.shape:
        return [Difference("shape", place, f"{tuple(got.shape)}, not {tuple(right.shape)}")]
    wrong = unequal(got, right, level, slack.spread.get(place, 0.0))
    if place in slack.open:
        wrong &= ~slack.open[place]
    if not wrong.any():
        return []
    at = tuple(wrong.nonzero()[0].tolist())
    return [Difference(kind, place, f"{int(wrong.sum())} of {wrong.numel()}; at {at} "
                       f"{got[at].item()!r}, not {right[at].item()!r}")]


def unequal(got, right, level, spread):
    """Where two tensors differ by more than the level allows."""
    if right.is_complex():
        parts = unequal(torch.view_as_real(got.resolve_conj()),
                        torch.view_as_real(right.resolve_conj()), level, spread)
        return parts.any(-1)
    if not right.is_floating_point():
        return got != right
    both_nan = got.isnan() & right.isnan()
    if level == BITS:
        return ~both_nan & ((got != right) | (got.signbit() != right.signbit()))
    if level == VALUE:
        return ~both_nan & (got != right)
    one, other = got.double(), right.double()
    allowed = TOLERANCES[level] * (1 + other.abs()) + NOISE_TIMES * spread
    return ~both_nan & (one != other) & ~((one - other).abs() <= allowed)


def compare_aliases(got, right):
    """Which tensors share storage, and where they lie in it."""
    one, other = aliases(got.tensors()), aliases(right.tensors())
    found = []
    for pair in sorted({*one, *other}):
        if one.get(pair) != other.get(pair):
            first, second = pair
            found.append(Difference(
                "alias", second, f"with {first} {described(one.get(pair))}, not "
                f"{described(other.get(pair))}"))
    return found


def described(distance):
    return "shares nothing" if distance is None else f"shares storage, {distance} bytes behind it"


def aliases(tensors):
    """{(place, place): bytes between them} of those in one storage."""
    known, found = {}, {}
    for place, tensor in tensors.items():
        storage = tensor.untyped_storage()
        if not tensor.numel() or not storage.nbytes():
            continue
        begin = tensor.storage_offset() * tensor.element_size()
        for first, start in known.get(storage.data_ptr(), ()):
            found[first, place] = begin - start
        known.setdefault(storage.data_ptr(), []).append((place, begin))
    return found


def slack_of(run, right):
    """The Slack of a Done, if what is rounded is rounded otherwise, and NaNs have other bits. `run`
    gives a Done."""
    with OtherNans():
        other = run()
    open_ = {}
    for part, view in (("given", whole), ("results", torch.Tensor.detach)):
        for place, value in getattr(right, part).items():
            if isinstance(value, torch.Tensor) and not value.is_floating_point():
                open_[place] = view(value) != view(getattr(other, part)[place])
    return Slack(spread_of(run, right), open_)


def spread_of(run, right):
    """How far each place of a Done is off if what is rounded is rounded otherwise."""
    found = {}
    for number in range(NOISE_RUNS):
        with Noise(number):
            noisy = run()
        for part in ("given", "results", "gradients"):
            for place, value in getattr(right, part).items():
                other = getattr(noisy, part)[place]
                if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
                    known, moved = ((whole(value), whole(other)) if part == "given"
                                    else (value.detach(), other.detach()))
                    off = (known.double() - moved.double()).abs().nan_to_num(0.0).max()
                    found[place] = max(found.get(place, 0.0), float(off))
    return found


class OtherNans(TorchDispatchMode):
    """Within, NaNs that operators return or write have other bits: no rule says which they have."""

    BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        schema = function._schema
        if schema.is_mutable:
            named = {**dict(zip((one.name for one in schema.arguments), args)), **(kwargs or {})}
            made = [named[one.name] for one in schema.arguments
                    if one.alias_info is not None and one.alias_info.is_write
                    and one.name in named]
        elif any(one.alias_info is not None for one in schema.returns):
            made = []  # Views.
        else:
            made = result if isinstance(result, (tuple, list)) else [result]
        for value in made:
            if (isinstance(value, torch.Tensor) and value.is_floating_point()
                    and value.element_size() in self.BITS):
                self.change(value)
        return result

    def change(self, value):
        bits = value.view(self.BITS[value.element_size()])
        quiet = round(0.5 / torch.finfo(value.dtype).eps)  # The first of the fraction.
        others = bits ^ (torch.iinfo(bits.dtype).min | (quiet - 1)) | quiet
        bits.copy_(torch.where(value.isnan(), others, bits))


class Noise(TorchDispatchMode):
    """Within, results that are rounded are off by up to two of their last bits."""

    def __init__(self, seed):
        super().__init__()
        self.random = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function._schema.is_mutable or any(
                one.alias_info is not None for one in function._schema.returns):
            return result
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if (isinstance(value, torch.Tensor) and value.dtype in (
                    torch.float64, torch.float32, torch.float16, torch.bfloat16)
                    and value.numel() and not is_exact(value)):
                noise = torch.rand(value.shape, generator=self.random, dtype=torch.float64)
                value.copy_(value.double() * (1 + (4 * noise - 2) * torch.finfo(value.dtype).eps))
        return result
