"""What `torch.compile(f, backend="coppice", options={...})` takes.

    device           "auto" (CUDA if torch has it), "cuda", "emulator"
    policy           buckets of sizes that vary: "pow2", ("linear:16", 256) up to 256, whatever
                     coppice.Dim takes ("learn", a list, "vllm", JSON), or {"x:0": "pow2"} for
                     axis 0 of the argument x alone, {("x:0", "x:1"): "1x512,4x128"} for two sizes
                     that are padded together: such pairs, two ladders as "pow2/linear:64", or JSON
                     that `coppice tune --column A --column B` wrote.
                     Sizes with a claim and without a policy are padded to powers of two at first,
                     and learned again from the calls as those of "learn"; "pow2" stays what it is,
                     and with "exact" each is a bucket. A maximum beyond the largest size that
                     torch allows is that size, and so are buckets of a list. Larger ones than a
                     maximum, which is 65,536 if neither policy nor torch says another, run without
                     a graph
    claim            what padding may hold, without which nothing is padded: "any" (bits), "finite"
                     or "fill"; ("finite", absolute, relative) where live outputs are only that
                     close; or {"x:0": ...}. It is of calls without gradients and of forward
                     graphs: backward graphs, which sum over sizes, are never padded
    poison           what is put into padding instead, so that a wrong claim shows in results, in
                     tests: "nan", "pattern" or "noise", as bad as the claim allows ("fill" allows
                     nothing else) and no worse
    strict           whether what cannot be lifted is an error, and a graph break, and a name of
                     a policy that no size has. What Dynamo leaves to Python as a whole, as behind
                     its limit of recompilations, never comes here: fullgraph=True makes it an
                     error
    fallback_random  whether random numbers are drawn by PyTorch's operators on the CPU, so that
                     they are those of eager
    session          options of the session, as coppice.Session has them. All callables of a
                     device share it, so that only the first function compiled may say:
                     {"budget_bytes": 1 << 30}
    trace            path of the session's trace
    inductor         Inductor's own options, on top of what lifting needs. Kernels check no indices
                     unless {"assert_indirect_indexing": True} says so: those out of range read and
                     write other bytes of the pool, as silently as on a GPU

Names of sizes are those that report() has: "x:0", "self.cache:1", "args[0]:1"; sizes that are
always equal have one policy, by the name of either. A name that none of a function's graphs has is
told in the log with those that there are, is `ignored` in its report, and is an error under strict.
PyTorch compiles sizes 0 and 1 apart: they make graphs of their own, and are never padded.
"""

import dataclasses
import json

from coppice import _core
from coppice.dims import apart, joint_policy_of, policy_of
from coppice.errors import InvalidArgument, NotFound, Unimplemented
from coppice.learning import LEARN, LIMIT, START_UNASKED, started

DEVICES = ("auto", "cuda", "emulator")
PADDINGS = ("any", "finite", "fill")
POISONS = ("nan", "pattern", "noise")
POLICY_MAX = LIMIT  # Of sizes that a policy without a maximum pads.
ALL = "*"  # The name of a policy or a claim that all sizes have.
UNASKED = (None, 0)  # The policy of sizes that have a claim alone.


@dataclasses.dataclass(frozen=True)
class Options:
    device: str = "auto"
    policy: dict = dataclasses.field(default_factory=dict)  # {name: (text, maximum)}; 0: none.
    joint: dict = dataclasses.field(default_factory=dict)  # {(name, name): policy as it was given}
    claim: dict = dataclasses.field(default_factory=dict)  # {name: (padding, absolute, relative)}
    poison: str | None = None
    strict: bool = False
    fallback_random: bool = False
    session: dict = dataclasses.field(default_factory=dict)
    trace: str = ""
    inductor: dict = dataclasses.field(default_factory=dict)

    def names(self):
        """The names of sizes that it has."""
        joint = (name for pair in self.joint for name in pair)
        return sorted({*self.policy, *joint, *self.claim} - {ALL})

    def policy_of(self, names):
        """The policy of a size by its names."""
        return first_of(self.policy, names) or UNASKED

    def claim_of(self, names):
        return first_of(self.claim, names)

    def session_options(self):
        return {**self.session, **({"trace_path": self.trace} if self.trace else {})}


def parse(options, mode=None):
    """Options of torch.compile, checked. Errors: ValueError, which says what there is."""
    if mode is not None:
        raise ValueError(f"coppice: mode={mode!r} is Inductor's; give options={{...}} instead")
    given = dict(options or {})
    known = {field.name for field in dataclasses.fields(Options)} - {"joint"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"coppice: no option is called {', '.join(unknown)}; they are "
                         f"{', '.join(sorted(known))}")
    if given.get("device", "auto") not in DEVICES:
        raise ValueError(f"coppice: device is {given['device']!r}, not one of "
                         f"{', '.join(DEVICES)}")
    if given.get("poison") not in (None, *POISONS):
        raise ValueError(f"coppice: poison is {given['poison']!r}, not one of "
                         f"{', '.join(POISONS)}")
    for name in ("strict", "fallback_random"):
        if not isinstance(given.get(name, False), bool):
            raise ValueError(f"coppice: {name} is {given[name]!r}, not True or False")
    for name in ("session", "inductor"):
        if not isinstance(given.get(name, {}), dict):
            raise ValueError(f"coppice: {name} is {given[name]!r}, not a dict of options")
    if not isinstance(given.get("trace", ""), str):
        raise ValueError(f"coppice: trace is {given['trace']!r}, not a path as text")
    alone, given["joint"] = told_apart(given.get("policy"))
    given["policy"] = by_name(alone, read_policy)
    given["claim"] = by_name(given.get("claim"), read_claim)
    for name in (*given["policy"], *(name for pair in given["joint"] for name in pair)):
        if name not in given["claim"] and ALL not in given["claim"]:
            whose = "all sizes" if name == ALL else name
            raise ValueError(f"coppice: a policy of {whose} pads nothing without a claim; add "
                             'claim="any", "finite" or "fill"')
    if given.get("poison") and not given["claim"]:
        raise ValueError("coppice: poison fills the padding, of which there is none without a "
                         "claim")
    return Options(**given)


def told_apart(policy):
    """A policy of all sizes, or those by name; and those of two sizes, which are tried here with
    any maxima."""
    if not named(policy):
        return policy, {}
    try:
        alone, joint = apart(policy, "coppice: policy")
        for names, one in joint.items():
            joint_policy_of(one, names, "coppice", (POLICY_MAX, POLICY_MAX))
    except (InvalidArgument, NotFound, Unimplemented) as error:
        raise ValueError(str(error)) from error
    return alone, joint


def named(value):
    """Whether it is a dict by names; one with a version is a policy."""
    return isinstance(value, dict) and "version" not in value


def first_of(known, names):
    return next((known[name] for name in (*names, ALL) if name in known), None)


def by_name(value, read):
    """{name: what read makes of it}, of one value for all or of a dict by name."""
    if value is None:
        return {}
    return {name: read(name, one)
            for name, one in (value if named(value) else {ALL: value}).items()}


def read_policy(name, value):
    value = policy_of(value)
    text, maximum = value if isinstance(value, (tuple, list)) and len(value) == 2 else (value, 0)
    if not isinstance(text, str) or not isinstance(maximum, int) or maximum < 0:
        raise ValueError(f"coppice: policy of {name} is {value!r}, not a text such as \"pow2\" or "
                         "(\"linear:16\", 256)")
    try:
        _core.policy_buckets(bounded((text, maximum)), 0)
    except (InvalidArgument, Unimplemented) as error:
        whose = "all sizes" if name == ALL else name
        raise ValueError(f"coppice: policy of {whose}: {error}") from error
    return text, maximum


def bounded(policy, limit=None):
    """As the library takes it: buckets end where the size does, at `limit`; None: nobody knows."""
    text, maximum = policy
    if policy != UNASKED and text.startswith("{") and not maximum:
        return text if limit is None else cut(text, limit)
    end = maximum or POLICY_MAX
    if limit is not None and limit < end:
        end, text = limit, text and cut(text, limit)
    if policy == UNASKED:
        return started(end, START_UNASKED)
    return started(end) if text == LEARN else (text, end)


def cut(text, limit):
    """A policy whose buckets beyond `limit` are one, `limit` itself; a ladder in words ends at the
    maximum beside it."""
    if not text.startswith("{"):
        sizes = text.split(",")
        if not all(size.strip().isdigit() for size in sizes):
            return text
        return ",".join(map(str, sorted({min(int(size), limit) for size in sizes})))
    document = json.loads(text)
    if "buckets" in document:
        document["buckets"] = sorted({min(size, limit) for size in document["buckets"]})
    if "ladder" in document:
        document["ladder"] = cut(document["ladder"], limit)
    if "maximum" in document:
        document["maximum"] = min(document["maximum"], limit)
    return json.dumps(document)


def learns(policy):
    """Whether it is learned again while calls go on."""
    return policy == UNASKED or policy[0] == LEARN


def read_claim(name, value):
    parts = (value,) if isinstance(value, str) else tuple(value) if isinstance(
        value, (tuple, list)) else ()
    numbers = parts[1:]
    if not 1 <= len(parts) <= 3 or parts[0] not in PADDINGS or any(
            not isinstance(number, (int, float)) or number < 0 for number in numbers):
        raise ValueError(f"coppice: claim of {name} is {value!r}, not one of "
                         f"{', '.join(PADDINGS)} or (\"finite\", absolute, relative)")
    return (parts[0], *map(float, (*numbers, 0, 0)[:2]))
