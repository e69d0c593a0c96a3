"""What a folder of results holds, and the statistics that tables and figures say of it.

A *sample* is one value of a list; a *way* is one way to do the work of a case, on one side. What a
section lacks because its process failed is missing here too, and never an error.
"""

import dataclasses
import hashlib
import json
import math
import pathlib

RESULT = "compare.json"
COPPICE, TORCH = "coppice", "torch"
SIDES = (COPPICE, TORCH)
EAGER, REDUCE_OVERHEAD = "eager", "reduce_overhead"
MIB = 1 << 20


def quantile(values, probability):
    """The value below which that share lies, interpolated (R type 7); NaN if there are none."""
    if not values:
        return math.nan
    ranked = sorted(values)
    rank = probability * (len(ranked) - 1)
    lower = math.floor(rank)
    upper = min(lower + 1, len(ranked) - 1)
    return ranked[lower] + (ranked[upper] - ranked[lower]) * (rank - lower)


def median(values):
    return quantile(values, 0.5)


@dataclasses.dataclass(frozen=True)
class Spread:
    """The median of samples and what 80 % of them lie between."""

    median: float
    p10: float
    p90: float

    @staticmethod
    def of(values):
        return Spread(*(quantile(values, share) for share in (0.5, 0.1, 0.9)))


def welch(values, others):
    """The p-value of Welch's t-test that the two have one mean; None where it is undefined."""
    if min(len(values), len(others)) < 2 or len({*values}) == 1 == len({*others}):
        return None
    from scipy import stats  # What needs no p-value needs no scipy.
    return float(stats.ttest_ind(values, others, equal_var=False).pvalue)


@dataclasses.dataclass
class Case:
    """The ways of both sides at one size of the work."""

    size: int
    ways: dict = dataclasses.field(default_factory=dict)   # (side, name) -> way.
    nodes: dict = dataclasses.field(default_factory=dict)  # (side, name) -> nodes of its graph.
    copied: dict = dataclasses.field(default_factory=dict)  # (side, name) -> inputs it copies.
    gate: str = ""
    gate_failed: str = ""      # Why there is no choice of the gate.
    tokens_equal: bool = True  # Whether every way of coppice computes the same.

    def samples(self, side, name, quantity):
        """Its `host_us` or `gpu_us`; empty if it is missing or was skipped."""
        return self.ways.get((side, name), {}).get(quantity) or []

    def differences(self, side, name, bare, quantity="host_us"):
        """What `name` takes beyond `bare`, sample by sample: they were measured in turns."""
        return [ours - theirs for ours, theirs in zip(self.samples(side, name, quantity),
                                                      self.samples(side, bare, quantity))]


class Measured:
    """The results of one folder.

    OSError, ValueError: there is no compare.json, or it is not one.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        data = (self.folder / RESULT).read_bytes()
        self.digest = hashlib.sha256(data).hexdigest()
        try:
            self.result = json.loads(data)
        except ValueError as error:
            raise ValueError(f"{self.folder / RESULT} is no JSON ({error}); fetch it again, or "
                             "measure again") from error
        if not isinstance(self.result, dict) or "sections" not in self.result:
            raise ValueError(f"{self.folder / RESULT} has no sections; measure again")
        self.on_gpu = self.result["mode"] == "cuda"

    @property
    def name(self):
        return self.folder.resolve().name

    def parts(self):
        """Section, side and what became of it, of all that was run."""
        for section, sides in self.result["sections"].items():
            for side, part in sides.items():
                yield section, side, part

    def report(self, section, side=COPPICE):
        """What the process printed; empty if there is nothing."""
        return self.result["sections"].get(section, {}).get(side, {}).get("report") or {}

    def cases(self, section, key):
        """The cases of `steps` or `decode` by size, `key` of both sides."""
        cases = {}
        for side in SIDES:
            for found in self.report(section, side).get("cases", []):
                case = cases.setdefault(found[key], Case(found[key]))
                case.ways.update({(side, way["name"]): way for way in found.get("ways", [])})
                case.nodes.update({(side, name): count
                                   for name, count in (found.get("nodes") or {}).items()})
                case.copied.update({(side, name): count for name, count in
                                    (found.get("copied_inputs") or {}).items()})
                case.gate = found.get("gate") or case.gate
                case.gate_failed = found.get("gate_failed") or case.gate_failed
                case.tokens_equal = case.tokens_equal and found.get("tokens_equal", True)
        return [cases[size] for size in sorted(cases)]

    def steps(self):
        return self.cases("steps", "kernels")

    def decode(self):
        return self.cases("decode", "batch")

    def pools(self, side):
        """The recordings of many buckets into one pool, without the largest one alone."""
        return [case for case in self.report("buckets", side).get("cases", [])
                if case["order"] != "largest" and not case.get("skipped")]

    def largest(self, side):
        """The largest bucket in a pool of its own, or None."""
        return next((case for case in self.report("buckets", side).get("cases", [])
                     if case["order"] == "largest" and not case.get("skipped")), None)

    def source(self):
        """Where the figures come from, in a line."""
        device = self.report("info").get("device") or "unknown device"
        smi = self.report("info", "smi")
        torch = self.report("info", TORCH)
        driver = smi.get("driver_version") or self.report("info").get("driver_version")
        about = [device, f"driver {driver}" if self.on_gpu else "",
                 f"PyTorch {torch['torch']}" if torch else "",
                 self.report("info", "host").get("cpu", ""), self.result.get("date", "")]
        return ", ".join(filter(None, about))


def pool_bytes(case):
    """Mapped bytes of the pool that the graphs of a case share, and of the outputs that are held.

    coppice tells them by kind; PyTorch's private pool is nothing else.
    """
    usage = case.get("usage")
    return usage["nodes"] + usage["copy_out"] if usage else case["own_bytes"]


def mapped_bytes(case):
    """All bytes by a side's own accounting but those of executable graphs, which it estimates."""
    return case["own_bytes"] - (case.get("usage") or {}).get("graphs", 0)


def exec_bytes_per_node(case):
    """What the driver gave beyond the mapped bytes, per node; None where it is not known."""
    if not case or not case.get("nodes") or case.get("driver_bytes") is None:
        return None
    return (case["driver_bytes"] - mapped_bytes(case)) / case["nodes"]
