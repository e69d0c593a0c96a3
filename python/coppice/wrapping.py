"""Makes programs of any callable that launches on the current stream. There is one program per set
of types. It is warmed up, recorded per bucket, and replayed.

    softmax = coppice.wrap(launch_softmax, dynamic={"x": {0: coppice.Dim("rows", max=64)}},
                           claim="row_independent")
    y = softmax(x)               # a coppice.Output; numpy.from_dlpack(y), torch.from_dlpack(y)

A replay does not run the callable. If the callable does anything besides launching, it happens only
when it is recorded.

Threads: any; calls of one lane take turns. Outputs are read in place. So threads that share a lane
must lock each call together with the read of its output, or use a lane each:
coppice.session(lanes=4) before anything else, then run(x, options={"lane": 1}).
"""

import collections
import dataclasses
import inspect
import logging
import sys
import threading

from coppice import _core
from coppice.claims import claim_of
from coppice.constants import Constant, pack
from coppice.devices import device as shared_device
from coppice.devices import follow
from coppice.devices import session as shared_session
from coppice.dims import Dim, apart, dim_of, joint_policy_of
from coppice.errors import FailedPrecondition, InvalidArgument, after_faults
from coppice.learning import Learner
from coppice.libraries import library_stream
from coppice.sharing import Shared
from coppice.staging import run_staged
from coppice.structure import (Leaf, flatten, is_tensor, kind_of, layout_of, nesting_of,
                               rebuild)
from coppice.tracing import Body, Traced, address_of, register, used_symbols

NAMES_MAX = 16  # Of arguments, in a message.
VARIANTS_MAX = 256  # Of one wrapped callable; the oldest end.
PREPARED_MAX = 4096  # Combinations of types and sizes that need not be read again.
CONSTANTS = (int, bool, str, type(None))

log = logging.getLogger("coppice")


def wrap(fn, dynamic=None, *, policies=None, claim="exact", name=None, static=(), mutates=(),
         outputs=None, fills=None, guards=(), session=None, device="auto", one_stream=False,
         thread_safe=False):
    """Returns a callable that runs `fn` to record a graph per bucket of sizes, and then replays the
    graphs.

    fn       launches kernels on the current stream: with PyTorch (eager or compiled), Triton or
             CuPy, which use that stream by themselves, or on coppice.current_stream(). On CUDA, fn
             gets tensors of the caller's library; on the emulator it gets coppice.Tensor, which
             Triton and Device.launch take. Memory that fn allocates is planned into the pool. It
             allocates with torch.empty and the like on CUDA, and with coppice.empty and
             coppice.empty_like anywhere. fn returns tensors, or tuples, lists and dicts of them
    dynamic  which sizes vary: {argument: {axis: Dim}}; for an integer {argument: Dim}. A name in
             place of a Dim is a Dim without bounds; any other text is an expression of the Dims:
             "2*n". Members of a tuple or dict are "cache.0", "cache.key"
    policies {Dim's name: policy} replaces the policy of a Dim. {("batch", "length"): policy} is for
             two Dims that are padded together: "1x512,4x128", a list of such pairs,
             "pow2/linear:64" up to the `max` of both, or the path of JSON that `coppice tune
             --column A --column B` wrote
    claim    the promise that holds if a size is padded, in the words of coppice.claims: "any",
             "row_independent", "finite", "fill", ("finite", absolute, relative), or "exact":
             nothing is padded. A Dim may have a claim of its own
    static   arguments that stay at their address, such as weights and caches. They are never
             copied. On the emulator they are coppice.Tensor (Device.upload)
    mutates  arguments that fn writes to. For those that are not static, fn gets copies, which are
             copied back after fn, on the stream. On the emulator they are copied back before the
             call returns. The caller's tensors may then be coppice.Tensor, PyTorch's CPU tensors,
             NumPy arrays, or views of these; other host memory is refused
    outputs  {name: (dtype, shape)} of what fn returns, in order, with sizes as numbers and
             expressions: {"y": ("f32", ["rows", 128])}. None: before its first recording, fn runs
             on zeros at a few sizes, two per Dim and one more, to find them. Where buckets are
             learned, fn runs on zeros at each bucket that is recorded; see coppice.Dim
    fills    {argument: what its padding holds}: a number, or a word of FillKind, such as "zero"
             (the default) or "sentinel"
    guards   conditions on the Dims that must hold: "rows % 2 == 0"
    session  a coppice.Session; None: the shared session of `device`
    one_stream, thread_safe  as in ProgramSpec

    Calls that differ in anything but these sizes are separate variants: in types, other sizes,
    numbers (compared bit by bit), strings, or the nesting of tuples, lists and dicts. stats()
    counts the variants. Raises InvalidArgument for options that do not fit fn's parameters; the
    first call raises it for members that its arguments do not have."""
    on = shared_session(shared_device(device)) if session is None else session
    claim = claim_of(claim, f"{name or name_of(fn)}: claim")
    options = {"claim": claim, "fills": dict(fills or {}), "guards": list(guards),
               "one_stream": one_stream, "thread_safe": thread_safe}
    made = Wrapped(fn, on, dynamic or {}, policies or {}, name or name_of(fn), names_in(static),
                   names_in(mutates), outputs, options)
    if session is None:
        follow(made)
    return made


def names_in(given):
    return (given,) if isinstance(given, str) else tuple(given)


def name_of(fn):
    return getattr(fn, "__name__", None) or type(fn).__name__


class Wrapped(Shared):
    """What wrap returns. It ends with close(), or when nothing refers to it any more."""

    def __init__(self, fn, session, dynamic, policies, name, static, mutates, outputs, options):
        self.fn, self.session, self.name = fn, session, name
        self._signature = signature_of(fn)
        self._plain = plain_names(self._signature)
        self._dynamic, self._dims = read_dynamic(dynamic, self._signature)
        if options["claim"] is not None:
            self._dims = {symbol: dim.claimed(options["claim"])
                          for symbol, dim in self._dims.items()}
        self._joint = read_policies(policies, self._dims, name)
        self._static, self._mutates, self._outputs = static, mutates, outputs
        self._options, self._loaded = options, {}
        self._variants, self._prepared, self._lock = {}, {}, threading.RLock()
        self._making = False  # By the thread that has the lock.
        self._runs, self._reasons = collections.Counter(), collections.Counter()
        self._traces = self._ended = 0
        self._told_ended = False
        self._shown_as = None
        check_arguments(name, self._signature, static, mutates, options["fills"])

    # Calls.

    def __call__(self, *args, **kwargs):
        lease, variant = self._run(args, kwargs, {})
        return variant.results(lease)

    def run(self, *args, options=None, **kwargs):
        """Like a call, but returns the coppice.Lease. `options` are those of Program.run, such as
        {"lane": 1}."""
        return self._run(args, kwargs, dict(options or {}))[0]

    def _run(self, args, kwargs, options):
        key = None if kwargs or self._plain is None else shallow_key(args)
        known = self._prepared.get(key) if key is not None else None
        if known is None:
            variant, values, extents, library = self._prepare(args, kwargs, key)
        else:
            variant, defaults, extents, library = known
            values = args + defaults
        lease = self._run_on_stream(variant, values, extents, library, options)
        variant.learner.count_call(variant.bound)
        kind = lease.kind
        self._runs[kind] += 1
        if kind != "replay":
            self._reasons[lease.reason] += 1
        return lease, variant

    def _prepare(self, args, kwargs, key):
        """The slow way. Its result is reused by later calls with equal types and sizes."""
        call = self._read(args, kwargs)
        variant = self._variants.get(call.variant) or self._make(call)
        extents, library = variant.extents(call), call.library(self.session.device)
        if key is not None:
            if len(self._prepared) >= PREPARED_MAX:
                self._prepared.clear()
            with self._lock:
                if self._variants.get(call.key) is variant:
                    self._prepared[key] = (variant, call.values()[len(args):], extents, library)
        return variant, call.values(), extents, library

    def _run_on_stream(self, variant, values, extents, library, options):
        if library is None or "stream" in options:
            return variant.run(values, extents, options)
        stream = library_stream(library, self.session.device.ordinal)
        return variant.run(values, extents, {**options, "stream": stream})

    def explain(self, *args, **kwargs):
        """What a call would do, in words."""
        call = self._read(args, kwargs)
        variant = self._variants.get(call.variant)
        if variant is None:
            return (f"{self.name}: a new variant, {text_of(call.key)}: coppice finds the outputs, "
                    "then the call runs without a graph, as its warm-up")
        return variant.explain(call)

    def warm(self, buckets, *args, progress=False, scratch=None, **kwargs):
        """Records buckets ahead of traffic.

        buckets   the sizes of each bucket: a dict by Dim, or numbers in the order of `symbols`; a
                  plain number if there is one Dim
        progress  True: prints progress to stderr; or a function progress(done, total)
        scratch   {argument: tensor} in place of all static arguments, for runs on zeros: needed if
                  fn mutates one of them
        The other arguments are an example call, which selects the variant. Without them, the only
        variant is taken; FailedPrecondition is raised if there is none, or several."""
        variant = self._variant_for(args, kwargs)
        rows = [variant.row(bucket) for bucket in buckets]
        variant.program.warm(rows, binding=variant.bound, progress=told(self.name, progress),
                             scratch=variant.scratch(scratch, self.name))

    def _variant_for(self, args, kwargs):
        if args or kwargs:
            call = self._read(args, kwargs)
            variant = self._variants.get(call.variant) or self._make(call)
            variant.bind(call.values())
            return variant
        if len(self._variants) != 1:
            raise FailedPrecondition(f"{self.name}: {len(self._variants)} variants are known; give "
                                     "the arguments of an example call")
        return next(iter(self._variants.values()))

    # What is known.

    @property
    def symbols(self):
        """Names of the Dims, in the order of buckets."""
        return list(self._dims)

    def stats(self):
        """Counts so far: calls, how they ran, why they did not replay, present and ended variants,
        runs that only looked for outputs, and the outcomes of learning buckets again in the present
        variants."""
        learned = sum((variant.learner.outcomes for variant in self._variants.values()),
                      collections.Counter())
        return {"calls": sum(self._runs.values()), "runs": dict(self._runs),
                "reasons": dict(self._reasons), "variants": len(self._variants),
                "variants_ended": self._ended, "traces": self._traces, "learned": dict(learned)}

    def variants(self):
        """The differences between the variants, as text."""
        return [variant.program.variant for variant in self._variants.values()]

    def buckets(self):
        """For each bucket: variant, bucket, replays, plan_height in bytes and more."""
        known = {(variant.program.name, variant.program.variant)
                 for variant in self._variants.values()}
        return [bucket for bucket in self.session.buckets()
                if (bucket["program"], bucket["variant"]) in known]

    def move_to(self, session):
        """Moves the programs to another session, until the function that this returns is called;
        see coppice.devices.follow."""
        with self._lock:
            kept = self.session, self._variants, self._prepared
            self.session, self._variants, self._prepared = session, {}, {}

        def move_back():
            with self._lock:
                there = self._variants
                self.session, self._variants, self._prepared = kept
            for variant in there.values():
                variant.end()

        return move_back

    def close(self):
        """Ends the programs and drops their graphs. Waits for their calls. Leased outputs may be
        read until a later call of the session writes over them, or the session is closed."""
        with self._lock:
            for variant in self._variants.values():
                variant.end()
            self._variants.clear()
            self._prepared.clear()
            self._loaded.clear()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        if getattr(self, "_variants", None) and not sys.is_finalizing():
            with after_faults():
                self.close()

    # Variants.

    def _read(self, args, kwargs):
        if not kwargs and self._plain is not None and len(args) == len(self._plain):
            return Call(zip(self._plain, args), self._dynamic)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return Call(bound.arguments.items(), self._dynamic)

    def _make(self, call):
        with self._lock:
            known = self._variants.get(call.variant)
            if known is not None:
                return known
            if self._making:
                raise FailedPrecondition(f"{self.name}: fn calls its own wrapper; call the "
                                         "function itself there")
            if len(self._variants) >= VARIANTS_MAX:
                self._tell_ended(call.key)
                self._variants.pop(next(iter(self._variants))).end()
                self._prepared.clear()
                self._ended += 1
            self._making = True
            try:
                made = Variant(self, call)
            finally:
                self._making = False
            self._traces += made.traces
            self._variants[call.variant] = made
            return made

    def _tell_ended(self, key):
        """Logs, once, which arguments make a variant per call."""
        if self._told_ended:
            return
        self._told_ended = True
        last = set(next(reversed(self._variants))[0])
        names = ", ".join(dict.fromkeys(entry[0] for entry in key if entry not in last))
        log.warning("%s: has %d variants; each further variant ends the oldest; different from "
                    "call to call: %s; make a size a Dim, and pass any other value in a tensor",
                    self.name, VARIANTS_MAX, names or "the set of arguments")

    def shown_as(self, call):
        """The library whose tensors fn gets on CUDA."""
        kinds = [kind_of(leaf.value) for leaf in call.tensors if kind_of(leaf.value) != "coppice"]
        if kinds:
            self._shown_as = kinds[0]
        return self._shown_as or ("torch" if "torch" in sys.modules else "coppice")


def signature_of(fn):
    try:
        return inspect.signature(getattr(fn, "forward", None) or fn)
    except (TypeError, ValueError):
        return inspect.signature(lambda *args, **kwargs: None)


def plain_names(signature):
    """Names of parameters if all are plain, so that positional arguments need no binding."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    plain = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return list(signature.parameters) if kinds <= plain else None


def read_dynamic(dynamic, signature):
    """{path: {axis: expression}}, or {path: symbol} for integers; and the Dims by name."""
    sizes, dims = {}, {}

    def text(given, where):
        if isinstance(given, str) and not given.isidentifier():
            return given
        dim = dim_of(given)
        if dims.setdefault(dim.name, dim) != dim:
            if given == dim.name:
                return dim.name
            if dims[dim.name] != Dim(dim.name):
                raise InvalidArgument(f"dynamic: {where}: two different Dims are called "
                                      f"{dim.name}")
            dims[dim.name] = dim
        return dim.name

    for path, axes in dynamic.items():
        check_path("dynamic", path, signature)
        if isinstance(axes, dict):
            sizes[path] = {int(axis): text(given, f"{path}:{axis}")
                           for axis, given in axes.items()}
        else:
            sizes[path] = text(axes, path)
    return sizes, dims


def read_policies(policies, dims, name):
    """Gives each Dim its own policy, and returns the policies that are for two Dims."""
    alone, joint = apart(policies, f"{name}: policies")
    for known in (*alone, *(one for names in joint for one in names)):
        if known not in dims:
            raise InvalidArgument(f"{name}: policies: there is no Dim {known}; valid names: "
                                  f"{', '.join(dims) or 'none'}")
    for one, policy in alone.items():
        dims[one] = dataclasses.replace(dims[one], policy=policy)
    for names in joint:
        for one in names:
            if dims[one].policy is not None:
                raise InvalidArgument(f"{name}: policies: Dim {one} has its own policy, and is "
                                      f"also in the policy of {names[0]} and {names[1]}; give only "
                                      "one")
    return {names: joint_policy_of(policy, names, name, [dims[one].max for one in names])
            for names, policy in joint.items()}


def check_arguments(name, signature, static, mutates, fills):
    for what, paths in (("static", static), ("mutates", mutates), ("fills", fills)):
        for path in paths:
            check_path(f"{name}: {what}", path, signature)


def check_path(where, path, signature):
    if path.split(".")[0] not in signature.parameters:
        raise InvalidArgument(f"{where}: there is no parameter {path}; valid names: "
                              f"{', '.join(signature.parameters) or 'none'}")


def check_members(wrapped, call):
    """Raises InvalidArgument for a path that no leaf of the call has. A leaf may be missing if its
    parent is None or empty, or if it belongs to *args or **kwargs, because a call may have fewer of
    them."""
    paths = [leaf.path for leaf in call.leaves]
    several = {name for name, parameter in wrapped._signature.parameters.items()
               if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)}
    for what, given in (("dynamic", wrapped._dynamic), ("static", wrapped._static),
                        ("mutates", wrapped._mutates), ("fills", wrapped._options["fills"])):
        for path in given:
            name, dot, _ = path.partition(".")
            if path in paths or (dot and name in several) or is_left_out(path, call.arguments):
                continue
            check_no_list(wrapped.name, path, call.arguments)
            known = ", ".join(paths[:NAMES_MAX]) + (", ..." if len(paths) > NAMES_MAX else "")
            raise InvalidArgument(f"{wrapped.name}: {what}: the call has no argument {path}; it "
                                  f"has {known or 'none'}")


def check_no_list(where, path, arguments):
    """Raises InvalidArgument if the path of a tensor leads to a list of numbers."""
    value = arguments.get(path)
    inner = value
    while isinstance(inner, (list, tuple)) and inner:
        inner = inner[0]
    if inner is not value and isinstance(inner, (int, float)):
        raise InvalidArgument(f"{where}: {path} is a {type(value).__name__} of numbers, but a "
                              "tensor is needed; give numpy.asarray(..., numpy.float32) or a "
                              "PyTorch tensor, with the element type that fn takes")


def is_left_out(path, arguments):
    """Whether a path leads to None, or to a missing member, in these arguments."""
    value = arguments
    for part in path.split("."):
        if isinstance(value, dict):
            members = {str(key): member for key, member in value.items()}
        elif isinstance(value, (tuple, list)):
            members = {str(index): member for index, member in enumerate(value)}
        else:
            return value is None
        if part not in members:
            return not members
        value = members[part]
    return isinstance(value, (dict, tuple, list)) and not value


def told(name, progress):
    if progress is not True:
        return progress or None
    return lambda done, total: print(f"{name}: {done} of {total} buckets", file=sys.stderr)


def text_of(key):
    """A variant's key as text, for people and for profiles: "f32[n,4] 3"."""
    words = []
    for path, *parts in key:
        if len(parts) == 1:
            words.append(f"{path}={parts[0]}")
        else:
            dtype, shape = parts
            words.append(f"{dtype}[{','.join(str(size) for size in shape)}]")
    return " ".join(words)


class Call:
    """The arguments of one call: its leaves, and the key of its variant."""

    __slots__ = ("arguments", "leaves", "tensors", "key", "variant", "sizes")

    def __init__(self, arguments, dynamic):
        self.arguments = dict(arguments)
        self.leaves, self.tensors, self.sizes, key = flatten(self.arguments), [], {}, []
        for leaf in self.leaves:
            varying = dynamic.get(leaf.path)
            if is_tensor(leaf.value):
                dtype, shape = layout_of(leaf.value)
                self.tensors.append(leaf)
                if varying:
                    shape = self.vary(leaf, shape, varying)
                key.append((leaf.path, dtype, shape))
            elif isinstance(varying, str):
                self.sizes.setdefault(varying, int(leaf.value))
                if self.sizes[varying] != leaf.value:
                    raise InvalidArgument(f"{leaf.path} is {leaf.value}, but {varying} is "
                                          f"{self.sizes[varying]} elsewhere in the call")
                key.append((leaf.path, varying))
            else:
                key.append((leaf.path, Constant(leaf.path, leaf.value)))
        self.key = tuple(key)
        self.variant = (self.key, nesting_of(self.arguments))

    def values(self):
        """The values of all leaves."""
        return tuple(leaf.value for leaf in self.leaves)

    def vary(self, leaf, shape, varying):
        shape = list(shape)
        if not isinstance(varying, dict):
            raise InvalidArgument(f"dynamic: {leaf.path} is a tensor; give the axes that vary, as "
                                  f"{{axis: {varying!r}}}")
        beyond = [axis for axis in varying if not 0 <= axis < len(shape)]
        if beyond:
            raise InvalidArgument(f"dynamic: {leaf.path} has rank {len(shape)}, but axis "
                                  f"{beyond[0]} is given; count axes from 0")
        for axis, text in varying.items():
            if text.isidentifier():
                self.sizes.setdefault(text, shape[axis])
            shape[axis] = text
        return tuple(shape)

    def library(self, device):
        """The library whose current stream orders the call; None if there is none."""
        if device.kind == "emulator":
            return None
        kinds = (kind_of(leaf.value) for leaf in self.tensors)
        return next((kind for kind in kinds if kind in ("torch", "cupy")), None)

    def stream(self, device):
        """The stream that the caller's library works on; 0: the device's own."""
        return library_stream(self.library(device), device.ordinal)


def check_static(device, path, tensor):
    """Raises InvalidArgument for a tensor of the host, which the emulator's kernels cannot read."""
    if device.kind == "emulator" and not isinstance(tensor, (_core.Tensor, _core.Output)):
        raise InvalidArgument(f"{path} is a static input, but is in host memory; on the emulator "
                              "pass the result of Device.upload(tensor)")


def shallow_key(args):
    """Types and sizes of a call by position; None if an argument is neither a tensor nor a plain
    value."""
    key = []
    for arg in args:
        of = type(arg)
        if of in CONSTANTS:
            key.append((of, arg))
        elif of is float:
            key.append((of, pack(arg)))
        elif is_tensor(arg) and hasattr(arg, "shape"):
            key.append((of, arg.dtype, arg.shape))
        else:
            return None
    return tuple(key)


class Variant:
    """A program of a wrapped callable, for one set of types and fixed sizes."""

    def __init__(self, wrapped, call):
        check_members(wrapped, call)
        session = wrapped.session
        statics = [leaf.path for leaf in call.tensors
                   if leaf.path in wrapped._static]
        self.copied = [index for index, leaf in enumerate(call.leaves)
                       if is_tensor(leaf.value) and leaf.path not in statics]
        self.statics = [index for index, leaf in enumerate(call.leaves) if leaf.path in statics]
        for index in self.statics:
            check_static(session.device, call.leaves[index].path, call.leaves[index].value)
        self.static_names = [call.leaves[index].path for index in self.statics]
        names = [call.leaves[index].path for index in self.copied]
        # By number among the inputs of a call.
        self.written = {number: name for number, name in enumerate(names)
                        if name in wrapped._mutates and session.device.kind == "emulator"}
        self.paths = [leaf.path for leaf in call.leaves]
        self.symbols = [name for name in wrapped._dims if name in used_symbols(call, wrapped)]
        sized = {text for leaf in call.tensors
                 for text in (wrapped._dynamic.get(leaf.path) or {}).values()}
        self.given = [name for name in self.symbols if name not in sized]
        dims = {name: wrapped._dims[name] for name in self.symbols}
        self.joint = {names: policy for names, policy in wrapped._joint.items()
                      if all(name in dims for name in names)}
        self.learned = self.learned_of(wrapped, dims)
        self.bindings, self.bound = {}, None
        body = Body(wrapped, call, self.symbols)
        if wrapped._outputs is None:
            found = Traced(wrapped, call, dims, session.device)
            self.traces, outputs = found.traces, found.outputs
            self.structure, body.outputs_at = found.structure, found.outputs_at
        else:
            self.traces, outputs = 0, list(wrapped._outputs.items())
            self.structure = tuple(Leaf(name, index) for index, (name, _) in enumerate(outputs))
            self.structure = self.structure[0] if len(outputs) == 1 else self.structure
        body.expect(outputs)
        spec = self.spec(wrapped, call, dims, outputs)
        self.program = register(session, spec, body)
        self.learner = Learner(self.program, self.learned)

    def learned_of(self, wrapped, dims):
        """The Dims that are learned. Raises InvalidArgument if one should be, and cannot."""
        pads = wrapped._options["claim"] is not None
        learned = [name for name, dim in dims.items() if dim.learns(pads)
                   and not any(name in names for names in self.joint)]
        written = [path for path in self.static_names if path in wrapped._mutates]
        if not written:
            return learned
        if any(dims[name].policy is not None for name in learned):
            raise InvalidArgument(
                f"{wrapped.name}: a learned policy records new buckets by running them on inputs "
                f"of zeros, and those runs would write to {written[0]}; give another policy")
        return []

    def symbol(self, name, dim, pads):
        fields = dim.symbol(pads, name in self.learned)
        if any(name in names for names in self.joint):
            fields.pop("policy", None)
        return {**fields, **({"given": True} if name in self.given else {})}

    def spec(self, wrapped, call, dims, outputs):
        options = wrapped._options
        pads = options["claim"] is not None
        symbols = [self.symbol(name, dims[name], pads) for name in self.symbols]
        inputs = []
        for path, dtype, shape in (key for leaf, key in zip(call.leaves, call.key)
                                   if is_tensor(leaf.value)):
            entry = {"name": path, "dtype": dtype, "shape": list(shape),
                     "static": path in wrapped._static, "mutated": path in wrapped._mutates}
            if path in options["fills"]:
                entry["fill"] = options["fills"][path]
            inputs.append(entry)
        return {"name": wrapped.name, "variant": text_of(call.key),
                "symbols": symbols, "joint": self.joint, "inputs": inputs,
                "guards": options["guards"],
                "outputs": [{"name": name, "dtype": dtype, "shape": list(shape)}
                            for name, (dtype, shape) in outputs],
                "one_stream": options["one_stream"], "thread_safe": options["thread_safe"]}

    def extents(self, call):
        """The extents of symbols that are in no tensor."""
        return [call.sizes[name] for name in self.given]

    def run(self, values, extents, options):
        """Runs a call. `values` are those of all leaves."""
        inputs = [values[index] for index in self.copied]
        binding = self.bind(values) if self.statics else None
        if self.written:
            return run_staged(self.program, inputs, self.written,
                              {**options, "extents": extents, "binding": binding})
        return self.program.run(inputs, extents=extents, binding=binding, **options)

    def explain(self, call):
        values = call.values()
        return self.program.explain([values[index] for index in self.copied],
                                    extents=self.extents(call), binding=self.bind(values))

    def bind(self, values):
        """The binding of a call's static arguments, made once for each set of addresses."""
        if not self.statics:
            return None
        tensors = [values[index] for index in self.statics]
        for index, tensor in zip(self.statics, tensors):
            check_static(self.program.session.device, self.paths[index], tensor)
        place = tuple(address_of(tensor) for tensor in tensors)
        if place not in self.bindings:
            self.bindings[place] = self.program.bind(tensors)
        self.bound = self.bindings[place]
        return self.bound

    def scratch(self, tensors, name):
        """A binding of memory that no call uses, for runs on zeros."""
        if tensors is None:
            return None
        if set(tensors) != set(self.static_names):
            raise InvalidArgument(f"{name}.warm: scratch has {', '.join(tensors) or 'nothing'}; "
                                  f"it needs {', '.join(self.static_names) or 'nothing'}")
        return self.program.bind([tensors[path] for path in self.static_names])

    def row(self, bucket):
        """Padded extents in the order of symbols."""
        if isinstance(bucket, int):
            bucket = [bucket]
        if isinstance(bucket, dict):
            if set(bucket) != set(self.symbols):
                raise InvalidArgument(f"warm: a bucket has the sizes "
                                      f"{', '.join(map(str, bucket))}; it needs "
                                      f"{', '.join(self.symbols) or 'none'}")
            bucket = [bucket[name] for name in self.symbols]
        return list(bucket)

    def results(self, lease):
        if type(self.structure) is Leaf:
            return lease[0]
        return rebuild(self.structure, lambda leaf: lease[leaf.value])

    def end(self):
        if self.program.session.closed:
            return
        for binding in self.bindings.values():
            self.program.unbind(binding)
        self.bindings.clear()
        self.program.unregister()
