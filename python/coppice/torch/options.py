"""The options of `torch.compile(f, backend="coppice", options={...})`.

    device           "auto" (where a function's tensors are: on CUDA, or on the emulator for those
                     of the CPU), "cuda", "emulator"
    policy           buckets of sizes that vary: "pow2", ("linear:16", 256) for buckets up to 256,
                     or anything that coppice.Dim takes ("learn", a list, "vllm", JSON).
                     {"x:0": "pow2"} is for axis 0 of the argument x alone.
                     {("x:0", "x:1"): "1x512,4x128"} is for two sizes that are padded together:
                     such pairs, two ladders such as "pow2/linear:64", or JSON that `coppice tune
                     --column A --column B` wrote.
                     Sizes with a claim and without a policy are padded to powers of two at first;
                     their buckets are learned again from the calls, like those of "learn". "pow2"
                     never changes, and with "exact" each size is a bucket. If a maximum, or a
                     bucket of a list, is above the largest size that torch allows, it is replaced
                     by that size. Calls with a size above the maximum run without a graph. The
                     maximum is 65,536 if neither policy nor torch gives one
    claim            what padding may hold, in the words of coppice.claims; without a claim nothing
                     is padded: "any" (bits), "row_independent", "finite" or "fill"; ("finite",
                     absolute, relative) if live outputs may differ by that much. {"x:0": ...} is
                     for single sizes, and {"*": ...} for others. A claim about all sizes holds for
                     sizes that are marked (torch._dynamo.mark_dynamic) or named in claim or policy,
                     which is the caller's promise. It also holds for sizes that the graph itself
                     proves independent: nothing sums, sorts or reverses along them, or asks how
                     large they are. Other sizes are not padded, and the report says so.
                     {"cache": "written"} is about a tensor: its rows are written by an index, or up
                     to a size, and nobody reads the rows that padding writes. Integers that are
                     indices hold their fill even if the claim is "any". Claims apply to calls
                     without gradients and to forward graphs. Backward graphs sum over sizes, and
                     are never padded
    fills            {"slots": value}: what the padding of a tensor holds if it is filled: a number,
                     or a word of FillKind, such as "zero" (the default) or "sentinel". Padded rows
                     have an index, too. If a call writes rows by an index, the fill must be the
                     index of a row that nobody reads, because padding is written there. Without
                     such a fill, and without "written", these sizes are not padded
    poison           values that tests put into padding, so that a wrong claim changes results:
                     "nan", "pattern" or "noise". It is the worst content that the claim allows:
                     "fill" allows nothing but the fill
    exact            whether replays compute at the exact sizes of their call, with one executable
                     for all buckets that have the same kernels, so that padding costs nothing:
                     "never", "auto" (if the call before it had the same sizes) or "always"
    strict           whether these are errors: a graph or operator that cannot be lifted, a graph
                     break, a name of a policy that no size has, and a size that is named or marked
                     and cannot be padded. Code that Dynamo leaves entirely to Python, for example
                     after its recompilation limit, never reaches coppice; fullgraph=True makes it
                     an error
    fallback_random  whether PyTorch's operators draw random numbers on the CPU, so that the numbers
                     are those of eager runs. Sizes that decide how many numbers are drawn are not
                     padded
    session          options of the session, as in coppice.Session. All callables of a device share
                     the session, so that only the first function compiled may give them:
                     {"budget_bytes": 1 << 30}
    trace            path of the session's trace
    inductor         Inductor's own options, on top of what lifting needs. Kernels check no indices
                     unless {"assert_indirect_indexing": True} is given. On a GPU, an index out of
                     range silently reads or writes other memory. On the emulator it is an error if
                     it leaves the tensor, but not if it hits other bytes of the same tensor

Names of sizes are those in report(): "x:0", "self.cache:1", "args[0]:1". Sizes that are always
equal have one policy, under any of their names. A tensor's name has no axis: "x". If no graph of a
function has a name, the log lists the existing names, the report has it in `ignored`, and it is an
error under strict. PyTorch compiles sizes 0 and 1 separately: they have graphs of their own and are
never padded.
"""

import dataclasses
import json

from coppice import _core, words
from coppice.claims import FORMS, claim_of
from coppice.dims import apart, joint_policy_of, policy_of
from coppice.errors import InvalidArgument, NotFound, Unimplemented
from coppice.learning import LEARN, LIMIT, START_UNASKED, started

DEVICES = ("auto", "cuda", "emulator")
POISONS = tuple(word for word in words.POISONS if word != "off")
EXACT = words.EXACT_REPLAYS
FILLS = tuple(word for word in words.FILL_KINDS if word != "value")
WRITTEN = "written"  # What is claimed of a tensor whose rows padding may write.
POLICY_MAX = LIMIT  # Of sizes that a policy without a maximum pads.
ALL = "*"  # The name of a policy or a claim that all sizes have.
UNASKED = (None, 0)  # The policy of sizes that have a claim alone.


@dataclasses.dataclass(frozen=True)
class Fill:
    given: object  # A word of FILLS, or a number.

    @property
    def row(self):
        """The fill as the index of a row. None if it is not an index, or differs between axes."""
        if self.given == "zero":
            return 0
        return self.given if isinstance(self.given, int) else None

    def in_package(self):
        """The fill in the form of a manifest."""
        word = isinstance(self.given, str)
        return self.given if word else {"value": repr(float(self.given))}


@dataclasses.dataclass(frozen=True)
class Options:
    device: str = "auto"
    policy: dict = dataclasses.field(default_factory=dict)  # {name: (text, maximum)}; 0: none.
    joint: dict = dataclasses.field(default_factory=dict)  # {(name, name): policy as it was given}
    claim: dict = dataclasses.field(default_factory=dict)  # {name: (padding, absolute, relative)}
    written: frozenset = frozenset()  # Names of tensors whose rows padding may write.
    fills: dict = dataclasses.field(default_factory=dict)  # {name of a tensor: Fill}
    poison: str | None = None
    exact: str = "never"
    strict: bool = False
    fallback_random: bool = False
    session: dict = dataclasses.field(default_factory=dict)
    trace: str = ""
    inductor: dict = dataclasses.field(default_factory=dict)

    def names(self):
        """The names of sizes in these options."""
        joint = (name for pair in self.joint for name in pair)
        return sorted({*self.policy, *joint, *self.claim} - {ALL})

    def tensors(self):
        """The names of tensors in these options."""
        return sorted({*self.fills, *self.written})

    def policy_of(self, names):
        """The policy of a size by its names."""
        return first_of(self.policy, names) or UNASKED

    def claim_of(self, names):
        return first_of(self.claim, names)

    def session_options(self):
        return {**self.session, **({"trace_path": self.trace} if self.trace else {})}


def parse(options, mode=None):
    """Options of torch.compile, checked. Errors: ValueError, which lists the valid options."""
    if mode is not None:
        raise ValueError(f"coppice: mode={mode!r} is Inductor's; give options={{...}} instead")
    given = dict(options or {})
    known = {field.name for field in dataclasses.fields(Options)} - {"joint", "written"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"coppice: no option is called {', '.join(unknown)}; the options are "
                         f"{', '.join(sorted(known))}")
    for name, allowed in (("device", DEVICES), ("exact", EXACT)):
        if name in given and given[name] not in allowed:
            raise ValueError(f"coppice: {name} is {given[name]!r}, not one of "
                             f"{', '.join(allowed)}")
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
        raise ValueError(f"coppice: trace is {given['trace']!r}, not a path as a string")
    alone, given["joint"] = told_apart(given.get("policy"))
    given["policy"] = by_name(alone, read_policy)
    given["claim"], given["written"] = claims_apart(given.get("claim"))
    given["fills"] = read_fills(given.get("fills"))
    for name in (*given["policy"], *(name for pair in given["joint"] for name in pair)):
        if given["claim"].get(name, given["claim"].get(ALL)) is None:
            whose = "all sizes" if name == ALL else name
            raise ValueError(f"coppice: a policy for {whose} pads nothing without a claim; add "
                             f"claim={FORMS}")
    for name in ("poison", "fills"):
        if given.get(name) and not any(given["claim"].values()):
            raise ValueError(f"coppice: {name} says what padding holds, but nothing is padded "
                             "without a claim")
    return Options(**given)


def told_apart(policy):
    """The policy of all sizes, or policies by name, and policies of two sizes, which are checked
    here with arbitrary maxima."""
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
    """Whether a value is a dict by names. A dict with a version is a policy."""
    return isinstance(value, dict) and "version" not in value


def first_of(known, names):
    return next((known[name] for name in (*names, ALL) if name in known), None)


def by_name(value, read):
    """{name: read(value)} for one value for all names, or for a dict by name."""
    if value is None:
        return {}
    return {name: read(name, one)
            for name, one in (value if named(value) else {ALL: value}).items()}


def read_policy(name, value):
    whose = f"coppice: policy of {'all sizes' if name == ALL else name}"
    try:
        text, maximum = policy_of(value)
        if maximum is not None and maximum < 0:
            raise InvalidArgument(f"{maximum} is not a valid maximum")
        _core.policy_buckets(bounded((text, maximum or 0)), 0)
    except (InvalidArgument, NotFound, Unimplemented) as error:
        raise ValueError(f"{whose}: {error}") from error
    return text, maximum or 0


def bounded(policy, limit=None):
    """The policy in the library's form. Buckets end at `limit`, the largest size (None:
    unknown)."""
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
    """A policy in which `limit` replaces all buckets and maxima above it. A ladder in words is
    unchanged: its maximum is not in the text."""
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
    """Whether a policy is learned again while calls run."""
    return policy == UNASKED or policy[0] == LEARN


def claims_apart(claim):
    """Claims of sizes, {name: ...}, and the names of tensors that padding may write to."""
    claims = by_name(claim, lambda name, value: value if value == WRITTEN and is_tensor(name)
                     else read_claim(name, value))
    written = frozenset(name for name, value in claims.items() if value == WRITTEN)
    return {name: value for name, value in claims.items() if name not in written}, written


def is_tensor(name):
    """Whether a name can be that of a tensor, and not of a size."""
    return name != ALL and ":" not in name


def read_fills(fills):
    if fills is not None and not isinstance(fills, dict):
        raise ValueError(f"coppice: fills is {fills!r}, not a dict from tensor names to fills")
    for name, value in (fills or {}).items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number and value not in FILLS:
            raise ValueError(f"coppice: the fill of {name} is {value!r}, not a number or one of "
                             f"{', '.join(FILLS)}")
        if not is_tensor(name):
            raise ValueError(f"coppice: fills has {name!r}, which is a size; give the name of "
                             f"the tensor, {name.partition(':')[0]!r}")
    return {name: Fill(value) for name, value in (fills or {}).items()}


def read_claim(name, value):
    return claim_of(value, f"coppice: claim of {'all sizes' if name == ALL else name}")
