"""Kernel packages as callables: `model = load("model.zip"); y = model(x, lengths)`."""

import itertools
import json
import os
import pathlib

from coppice import _core
from coppice.claims import FORMS, claim_of
from coppice.devices import device as shared_device
from coppice.devices import follow
from coppice.devices import session as shared_session
from coppice.dims import apart, ended, is_learned, joint_policy_of, policy_of
from coppice.errors import Error, InvalidArgument, NotFound, after_faults
from coppice.learning import START_UNASKED, Learner, learns_unasked, started
from coppice.libraries import library_stream
from coppice.sharing import Shared
from coppice.staging import run_staged
from coppice.structure import kind_of


NO_CLAIM = ("exact", 0.0, 0.0)  # As the library takes it.
_numbers = itertools.count(1)  # Of what was loaded.


def load(package, device="auto", *, session=None, constants=None, functions=None, policies=None,
         claims=None, exact="never", trusted_keys=(), allow_ptx=False):
    """Loads a kernel package (a path, or a zip file's bytes) and returns its programs.

    device        "auto", "cuda", "emulator", or a coppice.Device
    session       a coppice.Session of that device; None: the shared session
    constants     values for constants whose data is not in the package, by name, such as the
                  weights of an export without `--weights`: tensors, such as a state dict, or the
                  path of a safetensors file. On the emulator, tensors of the CPU are copied to it
                  once. On CUDA, tensors are read in place, and must stay there as long as the
                  session
    functions     the functions of `call` steps, by name: fn(inputs, outputs, options, stream)
                  launches on the stream, or computes on tensors of the CPU on the emulator.
                  "torch": PyTorch's own operators, for steps named aten.*
    policies      {symbol: policy} replaces the package's own buckets: "pow2" up to the symbol's
                  maximum, ("pow2", 64), a list of sizes, "learn", or the path of JSON; see
                  coppice.Dim. {("batch", "length"): policy} is for two symbols that are padded
                  together, in programs that have both: "1x512,4x128", a list of such pairs,
                  "pow2/linear:64", ("pow2/linear:64", (4, 512)), or the path of JSON that
                  `coppice tune --column A --column B` wrote. A symbol with a claim, but with
                  neither policy nor buckets, has powers of two up to its maximum, which are learned
                  again like those of "learn". If it has no maximum, has one above 65,536, or may
                  only be a multiple of some number, each size is a bucket, as with "exact"
    claims        {symbol: claim} replaces the package's claims, in the words of coppice.claims:
                  "any", "row_independent", "finite", "fill", ("finite", absolute, relative), or
                  "exact": it is not padded
    exact         whether replays compute at the exact sizes of their call, with one executable for
                  all buckets that have the same kernels: "never" (at the sizes of the bucket),
                  "auto" (if the call before it had the same sizes) or "always". Programs with a
                  size that the device decides take only "never"
    trusted_keys  Ed25519 keys of 32 bytes; one of them must have signed the package
    allow_ptx     whether a GPU may compile PTX, which takes seconds

    Raises InvalidArgument for a package that is damaged or does not fit the device, NotFound for a
    file that does not exist, PermissionDenied for a package that no trusted key signed."""
    on = device if isinstance(device, _core.Device) else shared_device(device)
    made = Loaded(on.load_package(package, allow_ptx=allow_ptx, trusted_keys=list(trusted_keys)),
                  session or shared_session(on), constants or {}, functions or {}, policies or {},
                  claims or {}, exact)
    if session is None:
        follow(made)
    return made


class Loaded(Shared):
    """The programs of a package. Calling it calls the entry program; loaded["decode"] is another
    program. The programs end with close(), or when nothing refers to this object any more."""

    def __init__(self, package, session, constants, functions, policies, claims, exact):
        self.session, self.package = session, package
        self.manifest = json.loads(package.manifest)
        self._constants = place_constants(session.device, constants, self.manifest["constants"])
        self._programs, self._entry = {}, None
        self._process = os.getpid()  # A forked child has nothing to end.
        # A package may be loaded twice; what traces and metrics call it is the same in every run.
        self._registrations, number = {}, str(next(_numbers))
        alone, joint = apart(policies, "load")
        claims = {symbol: claim_of(claim, f"load: claim of {symbol}")
                  for symbol, claim in claims.items()}
        for name, program in self.manifest["programs"].items():
            symbols = program["symbols"]
            given, learned = policies_of(symbols, alone, joint, claims)
            options = {"variant": number, "exact": exact, "constants": self._constants,
                       "functions": functions_of(functions, program), "policies": given,
                       "claims": {symbol: claim or NO_CLAIM for symbol, claim in claims.items()
                                  if symbol in symbols}}
            self._registrations[name] = options, learned
            self._programs[name] = LoadedProgram(*self._register(name), program)
        self._entry = self._programs[self.manifest["entry"]]
        named = {*alone, *(name for names in joint for name in names), *claims}
        unknown = sorted(named - {
            symbol for program in self.manifest["programs"].values()
            for symbol in program["symbols"]})
        if unknown:
            self.close()
            raise InvalidArgument(f"load: no program has a symbol {', '.join(unknown)}")

    def _register(self, name):
        options, learned = self._registrations[name]
        registered = self.session.register_package(self.package, name, **options)
        return registered, Learner(registered, learned)

    def move_to(self, session):
        """Moves the programs to another session, until the function that this returns is called;
        see coppice.devices.follow."""
        before, self.session = self.session, session
        programs = dict(self._programs)
        moved = [program.move_to(*self._register(name)) for name, program in programs.items()]

        def move_back():
            self.session = before
            for back in moved:
                back()
            if not self._programs:  # It was closed in between.
                for program in programs.values():
                    program.end()

        return move_back

    @property
    def entry(self):
        """The program that calling the package calls."""
        return self._entry

    def __getitem__(self, name):
        if name not in self._programs:
            raise NotFound(f"the package has no program {name!r}; it has "
                           f"{', '.join(sorted(self._programs)) or 'none: it is closed'}")
        return self._programs[name]

    def __iter__(self):
        return iter(self._programs)

    def __len__(self):
        return len(self._programs)

    def __call__(self, *inputs, **named):
        return self._entry(*inputs, **named)

    def run(self, *inputs, **options):
        """Like a call, but returns the coppice.Lease. `options` are those of LoadedProgram.run:
        model.run(x, poison="nan")."""
        return self._entry.run(*inputs, **options)

    def close(self):
        """Ends the programs and drops their graphs. Waits for their calls."""
        for program in self._programs.values():
            program.end()
        self._programs.clear()
        self._constants.clear()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        if getattr(self, "_programs", None) and self._process == os.getpid():
            with after_faults():
                self.close()


def policies_of(symbols, alone, joint, claims):
    """The policies of a program with these symbols, {symbol or pair: policy}, and which of them are
    learned. A symbol that must be a multiple of some number is not learned, because learning begins
    with powers of two."""
    given = {names: joint_policy_of(policy, names, "load",
                                    [symbols[name].get("max") for name in names])
             for names, policy in joint.items() if all(name in symbols for name in names)}
    learned, paired = [], {name for names in given for name in names}
    for name, symbol in symbols.items():
        policy, maximum = alone.get(name), symbol.get("max")
        claimed = claims.get(name, symbol.get("claim")) is not None
        pads = policy is not None and not (isinstance(policy, str) and policy == "exact")
        if pads and not claimed:
            raise InvalidArgument(f"load: a policy for {name} pads nothing without a claim, and "
                                  f"the package has none; find a claim with `coppice package "
                                  f"claim`, and give claims={{{name!r}: ...}}: {FORMS}")
        if policy is not None:
            given[name] = policy_for(policy, name, maximum)
            learned += [name] if is_learned(policy) else []
        elif name not in paired and "buckets" not in symbol and learns_unasked(maximum) and (
                claimed) and symbol.get("multiple_of", 1) == 1:
            given[name] = started(maximum, START_UNASKED)
            learned.append(name)
    return given, learned


def policy_for(policy, name, maximum):
    """The policy of a symbol in the form that the library takes. Its last bucket is the symbol's
    maximum. Raises InvalidArgument for anything that is not a policy, and for a policy without an
    end."""
    try:
        given = ended(policy_of(policy), maximum)
        _core.policy_buckets(given, 0)
    except Error as error:
        remedy = "" if maximum else (f"; the package gives {name} no maximum: if the policy has "
                                     f"none either, give a pair such as ({policy!r}, 4096)")
        raise type(error)(f"load: policy of {name}: {error}{remedy}") from error
    return given


class LoadedProgram(Shared):
    """One program of a package, as a callable. Inputs are given in the order of `inputs` or by
    name, scalars by name. It returns its output as coppice.Output, or a tuple of several. What it
    writes to an input reaches the caller's tensor; see `mutates` of coppice.wrap."""

    def __init__(self, program, learner, manifest):
        self._run_as(program, learner, None)
        self._manifest, self._bound = manifest, {}
        buffers = manifest["buffers"]
        self.inputs = [name for name in manifest["inputs"] if not buffers[name].get("static")]
        self.statics = [name for name in manifest["inputs"] if buffers[name].get("static")]
        self.scalars = sorted(manifest.get("scalars", {}))
        self.outputs = list(manifest["outputs"])
        self.symbols = sorted(manifest["symbols"])
        self._emulated = program.session.device.kind == "emulator"
        self._written = {number: name for number, name in enumerate(self.inputs)
                         if buffers[name].get("mutated") and self._emulated}
        # How many inputs a call has that goes the shortest way; -1: none does.
        short = self._emulated and not self.scalars and not self._written
        self._shortest = len(self.inputs) if short else -1

    def move_to(self, program, learner):
        """Runs as another registration of the program, until the function that this returns is
        called."""
        before, bound = (self.program, self.learner, self._binding), self._bound
        binding = program.bind([bound[name] for name in self.statics]) if bound else None
        self._run_as(program, learner, binding)

        def move_back():
            self._run_as(*before)
            if self._bound is not bound:  # By a call in between.
                self.bind(**self._bound)

        return move_back

    def _run_as(self, program, learner, binding):
        self.program, self.learner, self._binding = program, learner, binding
        self._due = learner.due

    @property
    def name(self):
        return self.program.name

    def bind(self, **statics):
        """Binds the static inputs by name, for all later calls; on the emulator a CPU tensor is
        copied to the device, and bound() has the tensor that calls read and write. Returns self.
        Raises InvalidArgument if one is missing, or a name is unknown."""
        check_names(f"{self.name}.bind", statics, self.statics, self.statics)
        on = self.program.session.device
        bound = {name: placed(on, tensor) for name, tensor in statics.items()}
        self._unbind()
        self._binding = self.program.bind([bound[name] for name in self.statics])
        self._bound = bound
        return self

    def bound(self):
        """The static inputs that are bound, by name."""
        return dict(self._bound)

    def run(self, *inputs, stream=0, poison=None, donated=(), lane=0, **named):
        """Like a call, but returns the coppice.Lease. It runs on `stream`; 0: the current stream of
        the framework of the first input, or the device's own stream."""
        arguments = self._arguments(inputs, named)
        options = {"binding": self._binding, "poison": poison, "donated": donated, "lane": lane}
        self.learner.count_call(self._binding)
        if self._written:
            options.update(scalars=arguments[1], stream=stream)
            return run_staged(self.program, arguments[0], self._written, options)
        if self._emulated or stream:
            return self.program.run(*arguments, stream=stream, **options)
        kinds = [kind_of(tensor) for tensor in arguments[0]]
        kind = next((kind for kind in kinds if kind != "coppice"), None)
        current = library_stream(kind, self.program.session.device.ordinal)
        return self.program.run(*arguments, stream=current, **options)

    def __call__(self, *inputs, **named):
        if len(inputs) == self._shortest and not named:
            if next(self._due):
                self.learner.learn(self._binding)
            return self.program(inputs, self._binding)
        lease = self.run(*inputs, **named)
        outputs = tuple(lease[index] for index in range(len(self.outputs)))
        return outputs if len(outputs) > 1 else outputs[0]

    def explain(self, *inputs, **named):
        """What a call would do, in words."""
        return self.program.explain(*self._arguments(inputs, named), binding=self._binding)

    def warm(self, buckets, progress=None):
        """Records buckets ahead of traffic. A bucket is a size per symbol, in the order of
        `symbols`, or a plain number if there is one symbol. progress(done, total) is called after
        each."""
        rows = [[bucket] if isinstance(bucket, int) else list(bucket) for bucket in buckets]
        self.program.warm(rows, binding=self._binding, progress=progress)

    def plan(self, buckets):
        """The memory that buckets need in the pool, without running or mapping anything. For each
        bucket: a dict of plan_height and live_bytes, in bytes, and plan_method."""
        return self.program.plan([[bucket] if isinstance(bucket, int) else list(bucket)
                                  for bucket in buckets])

    def buckets(self):
        """For each bucket that was recorded: bucket, replays, plan_height, live_bytes and more."""
        return [bucket for bucket in self.program.session.buckets()
                if (bucket["program"], bucket["variant"]) == (self.name, self.program.variant)]

    def end(self):
        """Ends the program, and waits for its calls. A closed session has ended it already."""
        if not self.program.session.closed:
            self._unbind()
            self.program.unregister()

    def _unbind(self):
        if self._binding is not None:
            self.program.unbind(self._binding)
            self._binding, self._bound = None, {}

    def _arguments(self, inputs, named):
        """Tensors and scalars in the order of the spec."""
        if len(inputs) == len(self.inputs) and not named and not self.scalars:
            return inputs, ()
        if len(inputs) > len(self.inputs):
            raise InvalidArgument(f"{self.name}: the number of inputs must be {len(self.inputs)} "
                                  f"({', '.join(self.inputs)}), not {len(inputs)}")
        given = {**dict(zip(self.inputs, inputs)), **named}
        check_names(self.name, given, self.inputs + self.scalars, self.inputs + self.scalars)
        if len(given) < len(inputs) + len(named):
            raise InvalidArgument(f"{self.name}: an input is given twice")
        return ([given[name] for name in self.inputs], [int(given[name]) for name in self.scalars])


def check_names(where, given, known, needed):
    """Raises InvalidArgument for names that are missing or unknown."""
    unknown = [name for name in given if name not in known]
    missing = [name for name in needed if name not in given]
    if unknown or missing:
        parts = ([f"there is no {', '.join(unknown)}"] if unknown else []) + (
            [f"{', '.join(missing)} is missing"] if missing else [])
        raise InvalidArgument(f"{where}: {'; '.join(parts)}; valid names: "
                              f"{', '.join(known) or 'none'}")


def placed(device, tensor):
    """The tensor itself if the device can read it, else a copy on the device."""
    if isinstance(tensor, (_core.Tensor, _core.Output)):
        return tensor
    if device.kind == "emulator":
        return device.upload(tensor.detach() if hasattr(tensor, "detach") else tensor)
    return tensor


def place_constants(device, constants, declared):
    """The constants that the package needs, in memory that the device can read."""
    if isinstance(constants, (str, pathlib.Path)):
        constants = tensors_of_file(constants)
    return {name: placed(device, tensor) for name, tensor in constants.items() if name in declared}


def tensors_of_file(path):
    """Tensors of a safetensors file, by name. They are PyTorch's if it is installed, because it has
    all types."""
    try:
        from safetensors.torch import load_file
    except ImportError:
        from safetensors.numpy import load_file
    if not pathlib.Path(path).is_file():
        raise NotFound(f"{path}: no such file of constants")
    return load_file(path)


def functions_of(functions, program):
    """Functions of a program's `call` steps, except those that the library has itself."""
    called = {step["function"] for step in program["steps"] if step["op"] == "call"} - {"gemm"}
    if functions == "torch":
        from coppice.torch.calls import function_of

        return {name: function_of(name) for name in sorted(called)}
    return {name: fn for name, fn in functions.items() if name in called}
