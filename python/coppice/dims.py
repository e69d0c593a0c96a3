"""Sizes that vary between calls of a wrapped callable."""

import dataclasses
import json
import operator
import os
import pathlib
import re

from coppice import _core
from coppice.claims import claim_of
from coppice.errors import Error, InvalidArgument, NotFound
from coppice.learning import LEARN, LIMIT, START_UNASKED, learns_unasked, started

PAIRS = re.compile(r"(ordered:)?\d+x\d+(,\d+x\d+)*(/budget:\d+)?")  # Of two sizes together.
PROBES, FAR = 6, (37, 101)  # Sizes to try near a size, and steps to those far away.
STEPPED = {"linear": "linear:16", "geometric": "geometric:1.25:8", "ramp": "ramp:4:16"}
KINDS = ("auto", "dynamic", "maybe_dynamic", "static")


@dataclasses.dataclass(frozen=True)
class Dim:
    """A size with a name. Axes whose Dims have the same name have the same size in each call.

    name         of the symbol; expressions of outputs and guards use it
    min, max     bounds, in elements. A call outside them is refused, and so is a policy that is a
                 list of sizes and ends beyond `max`. None: no bound
    policy       the buckets that sizes are padded to: a ladder in words up to `max` ("pow2",
                 "linear:16", "geometric:1.25:8", "exact", or that of another system: "vllm"), a
                 list of sizes, the result of coppice.learn, or the path of a JSON file, such as
                 {"version": 1, "ladder": "pow2", "maximum": 64} or
                 {"version": 1, "buckets": [1, 2]}. "learn": each bucket is a quarter larger than
                 the one before at first; every 2,000 calls the buckets are learned again from the
                 calls, on the thread of a call, which then records up to 4 new buckets on zeros.
                 None: "exact" if no claim allows padding, or there is no `max`; otherwise powers of
                 two up to `max`, which are learned again like those of "learn" if `max` is at most
                 65,536 and fn mutates no static argument. "pow2" never changes
    multiple_of  every size is a multiple of this
    kind         "dynamic"; "auto": dynamic from its second size on; "maybe_dynamic" or "static": as
                 in SymbolKind
    exclude_01   sizes 0 and 1 are never padded, and nothing is padded to them
    claim        the promise that holds if this size is padded, in the words of coppice.claims:
                 "any", "row_independent", "finite", "fill", ("finite", absolute, relative), or
                 "exact": it is not padded. None: what the callable claims

    Raises InvalidArgument for values that can never be right."""

    name: str
    min: int | None = None
    max: int | None = None
    policy: object = None
    multiple_of: int | None = None
    kind: str = "dynamic"
    exclude_01: bool = False
    claim: str | tuple | None = None

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise InvalidArgument(f"Dim: {self.name!r} is not a name; use letters, digits and _")
        if self.kind not in KINDS:
            raise InvalidArgument(
                f"Dim {self.name}: {self.kind!r} is not one of {', '.join(KINDS)}")
        for bound in (self.min, self.max, self.multiple_of):
            if bound is not None and not isinstance(bound, int):
                raise InvalidArgument(f"Dim {self.name}: {bound!r} is not a number of elements")
        if self.multiple_of is not None and self.multiple_of < 1:
            raise InvalidArgument(f"Dim {self.name}: multiple_of is {self.multiple_of}; give 1 or "
                                  "more")
        if self.claim is not None and self._own_claim() is None and self.policy not in (
                None, "exact"):
            raise InvalidArgument(f"Dim {self.name}: its claim is exact, so its policy pads "
                                  "nothing; leave out the claim or the policy")
        low, high = self.min or 0, self.max
        if low < 0 or (high is not None and high < max(low, 1)):
            raise InvalidArgument(f"Dim {self.name}: no size lies between {low} and {high}")
        self.buckets(most=0)
        self._check_end()

    def _check_end(self):
        """Raises InvalidArgument for a policy that has a maximum or a bucket above `max`."""
        text, end = policy_of(self.policy) or ("", None)
        if text.startswith("{"):
            document = json.loads(text)
            end = max(document.get("maximum", 0), *document.get("buckets", ()), end or 0)
        if self.max is not None and end is not None and end > self.max:
            raise InvalidArgument(f"Dim {self.name}: its policy has a bucket {end}, beyond max "
                                  f"{self.max}; end the policy there, or give a larger max")

    def buckets(self, most=4096):
        """The first `most` buckets of this Dim, if it is padded. With "exact" every size is a
        bucket. Raises InvalidArgument for an unknown policy, Unimplemented for another version."""
        try:
            policy = self.symbol(pads=True).get("policy", "exact")
            return _core.policy_buckets(policy, most)[1]
        except Error as error:
            raise type(error)(f"Dim {self.name}: {error}") from error

    def learns(self, pads):
        """Whether its buckets are learned from calls. `pads` is that of symbol()."""
        if self.policy is None:
            return self._may_pad(pads) and learns_unasked(self.max)
        return is_learned(self.policy)

    def symbol(self, pads, learns=False):
        """The symbol's fields as Session.register_callable takes them. `pads`: whether the
        callable claims anything about padding; `learns`: whether its calls are counted."""
        if self.policy is not None:
            policy = policy_of(self.policy)
            if policy == (LEARN, None) and self.max is None:
                raise InvalidArgument("buckets are learned up to `max`; give a `max`")
            policy = ended(policy, self.max)
        elif self._may_pad(pads) and self.max is not None:
            policy = started(self.max, START_UNASKED) if learns else (START_UNASKED, self.max)
        else:
            policy = None
        fields = {"name": self.name, "kind": self.kind, "policy": policy, "min": self.min,
                  "max": self.max, "multiple_of": self.multiple_of, "claim": self._own_claim(),
                  "exclude_01": self.exclude_01 or None}
        return {name: value for name, value in fields.items() if value is not None}

    def claimed(self, claim):
        """This Dim with a claim, unless it has one of its own."""
        return self if self.claim is not None else dataclasses.replace(self, claim=claim)

    def _own_claim(self):
        return claim_of(self.claim, f"Dim {self.name}: claim")

    def _may_pad(self, pads):
        claims = pads if self.claim is None else self._own_claim() is not None
        return claims and self.kind != "static"

    def allows(self, size):
        """Whether a size is within the bounds."""
        return ((self.min or 0) <= size <= (size if self.max is None else self.max)
                and size % (self.multiple_of or 1) == 0)

    def probes(self, size):
        """Other sizes that the bounds allow, to try what depends on the size. The nearest ones come
        first. Empty if there is no other size."""
        step = self.multiple_of or 1
        low = max(self.min or 0, min(2, size))
        below = list(range(size - step, low - 1, -step))
        above = [other for other in range(size + step, size + (PROBES + 1) * step, step)
                 if self.max is None or other <= self.max]
        near = (above + below)[:PROBES]
        away = [size + steps * step for steps in FAR
                if self.max is None or size + steps * step <= self.max]
        away = away or below[len(near):][-1:]
        return near + away


def dim_of(given):
    """The Dim itself, or a Dim with the given name."""
    if isinstance(given, str):
        return Dim(given)
    if isinstance(given, Dim):
        return given
    raise InvalidArgument(f"dynamic: {given!r} is neither a coppice.Dim nor the name of one")


def policy_of(policy):
    """A policy of one size, given in any form, as (text, maximum). The text is words ("pow2",
    "learn") or JSON. If a path is given, its JSON is read. The maximum is the one given with the
    policy, or None. None means no policy. Raises NotFound for a file that does not exist,
    InvalidArgument for anything that is not a policy."""
    if policy is None:
        return None
    if isinstance(policy, dict):
        return json.dumps(policy), None
    if is_path(policy):
        return json_of(policy), None
    if isinstance(policy, str):
        sizes = policy.split(",")
        if not all(word.strip().isdigit() for word in sizes):
            return policy.strip(), None
        return listed(map(int, sizes)), None
    if isinstance(policy, (tuple, list)) and len(policy) == 2 and isinstance(policy[0], (
            str, os.PathLike)) and isinstance(policy[1], int):
        text = policy[0].strip() if isinstance(policy[0], str) else policy[0]
        if text in STEPPED:
            raise InvalidArgument(f"{policy!r}: {policy[1]} is the largest bucket, and '{text}' "
                                  f"lacks a step; give a step, as in \"{STEPPED[text]}\"")
        return (json_of(text) if is_path(text) else text), policy[1]
    try:
        return listed(map(operator.index, policy)), None
    except TypeError:
        raise InvalidArgument(
            f"{policy!r} is not a policy; give a word such as \"pow2\" or \"learn\", a pair such "
            "as (\"linear:16\", 256), a list of sizes, the result of coppice.learn, or the path of "
            "a JSON file") from None


def listed(sizes):
    return json.dumps({"version": 1, "buckets": sorted(sizes)})


def ended(policy, maximum):
    """The policy that policy_of read, in the form that the library takes, for a size of at most
    `maximum` (None: unknown)."""
    text, end = policy
    if text == LEARN:
        return started(min(size for size in (end, maximum, LIMIT) if size is not None))
    if end is None and not text.startswith("{") and text != "exact":
        end = maximum
    return text if end is None else (text, end)


def is_learned(policy):
    """Whether a policy is learned from calls while they run."""
    read = policy_of(policy)
    return read is not None and read[0] == LEARN


def is_path(policy):
    return isinstance(policy, os.PathLike) or (
        isinstance(policy, str) and policy.endswith(".json"))


def json_of(policy):
    """The JSON text in a file."""
    path = pathlib.Path(policy)
    if not path.is_file():
        raise NotFound(f"{path}: no such policy file")
    text = path.read_text()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidArgument(f"{path}: not JSON ({error}); write "
                              '{"version": 1, "buckets": [1, 2, 4]}') from error
    return text.strip()


def apart(policies, where):
    """Separates policies of one size, {name: policy}, from policies of two sizes, {(name, name):
    policy}. Raises InvalidArgument for a key that is neither, and for a size that has two
    policies."""
    alone, joint, seen = {}, {}, set()
    for key, policy in policies.items():
        names = (key,) if isinstance(key, str) else key
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names) or (
                len(names) != 2 and key is names):
            raise InvalidArgument(f"{where}: {key!r} is neither the name of a size nor a pair of "
                                  "names")
        for name in names:
            if name in seen:
                raise InvalidArgument(f"{where}: {name} is in two policies; give only one")
            seen.add(name)
        (alone if isinstance(key, str) else joint)[key] = policy
    return alone, joint


def joint_policy_of(policy, names, where, maxima=(None, None)):
    """A policy of two sizes together, in the form that the library takes. The policy is checked.
    Pairs ("1x512,4x128" or [(1, 512), (4, 128)]) end at the largest of each size. Two ladders
    ("pow2/linear:64") end at `maxima`. Both end at given maxima if there are any: ("pow2/pow2", (4,
    512)). JSON, or the file at a path, has its maxima in it. Raises NotFound for a file that does
    not exist, InvalidArgument for anything that is not such a policy, Unimplemented for another
    version."""
    whose = f"{where}: policy of {names[0]} and {names[1]}: "
    if isinstance(policy, str) and policy == LEARN:
        raise InvalidArgument(f"{whose}a policy for two sizes can only be learned from a log, with "
                              "`coppice tune --column A --column B -o joint.json`; give the path "
                              "of joint.json")
    try:
        read = read_joint(policy, maxima)
        _core.joint_policy_buckets(read, 0)
    except (Error, TypeError) as error:
        kind = InvalidArgument if isinstance(error, TypeError) else type(error)
        raise kind(f"{whose}{error}") from error
    return read


def read_joint(policy, maxima):
    if isinstance(policy, dict):
        return json.dumps(policy)
    if is_path(policy):
        return json_of(policy)
    if is_pairs(policy):
        policy = ",".join(f"{a}x{b}" for a, b in policy)
    if not isinstance(policy, str) or policy.startswith("{"):
        return policy
    if PAIRS.fullmatch(policy):
        pairs = [pair.split("x") for pair in re.findall(r"\d+x\d+", policy)]
        maxima = [max(int(size) for size in sizes) for sizes in zip(*pairs)]
    return policy, tuple(maximum or 0 for maximum in maxima)


def is_pairs(policy):
    return isinstance(policy, (list, tuple)) and bool(policy) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2
        and all(isinstance(size, int) for size in pair) for pair in policy)
