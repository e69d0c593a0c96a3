"""A lifted graph. AOTAutograd calls it as it calls any compiled graph: with one list of integers
and tensors. It returns a list of results.

On an emulator, tensors are on the CPU. Those that stay at their address are mirrored (session.py),
others are copied in, and outputs are copied out into tensors with the promised strides. On CUDA,
tensors that stay are read and written in place (registered.py), and outputs are written into
tensors that PyTorch allocates.
"""

import itertools

import torch

from coppice import devices
from coppice.dims import joint_policy_of
from coppice.errors import (FailedPrecondition, InvalidArgument, OutOfRange, ResourceExhausted,
                            StaleOutput)
from coppice.export.sizes import span
from coppice.libraries import library_stream
from coppice.torch import calls, reports
from coppice.torch.allocator import StepMemory
from coppice.torch.lowering import evaluator
from coppice.torch.options import POLICY_MAX, bounded, learns
from coppice.torch.registered import InPlace, Registered
from coppice.torch.results import Meta, Output, Size, View
from coppice.torch.session import Kept, shared_by

SEED_END = (1 << 63) - 1
numbers = itertools.count(1)  # Of programs, so that each has a name of its own.


class Texts:
    """Expressions of sizes that are computed together. Each user has a slice of the values."""

    def __init__(self):
        self.texts = []

    def add(self, texts):
        begin = len(self.texts)
        self.texts += texts
        return slice(begin, len(self.texts))

    def add_layout(self, layout):
        return (layout.dtype, self.add(layout.shape), self.add(layout.strides),
                self.add([layout.offset]))


class LiftedGraph:
    def __init__(self, lowered, shared, options, report, fallback, padding):
        self._boxed_call = True  # It is given one list, which it empties.
        self.shared, self.report, self.strict = shared, report, options.strict
        self.poison = options.poison
        self.fallback = fallback  # Runs calls that the program does not take.
        self.inputs, self.constants = lowered.inputs, lowered.constants
        self.static = [index for index, one in enumerate(self.inputs) if one.static]
        self.copied = [index for index, one in enumerate(self.inputs) if not one.static]
        self.scalars = list(lowered.scalars.values())
        self.seeded = lowered.seeded()
        self.places = list(lowered.sizes.values())
        self.names = [lowered.sources.get(name, [name])[0] for name in lowered.sizes]
        self.lay_out(lowered)
        self.registered = self.in_place = None
        if lowered.program["steps"] or lowered.program["outputs"]:
            self.register(lowered, options, padding)

    def register(self, lowered, options, padding):
        shared, report = self.shared, self.report
        for name, fill in padding.fills.items():
            lowered.program["buffers"][name]["fill"] = fill.in_package()
        package = shared.device.load_package(lowered.package.to_bytes(), allow_ptx=True)
        policies, learned = self.policies_of(lowered, options, padding.claims)
        if report.kind != "backward":
            symbols = {name for sources in lowered.sources.values() for name in sources}
            report.ignored = [name for name in options.names() if name not in symbols]
            report.ignored += [name for name in options.tensors() if name not in padding.names]
        report.program = f"{report.function} {report.kind} {next(numbers)}"
        names = lowered.calls()
        memory = StepMemory(shared.device.ordinal) if names and not shared.emulated else None
        options = {"name": report.program, "policies": policies, "claims": padding.claims,
                   "exact": options.exact,
                   "functions": {name: calls.function_of(name, memory) for name in names}}
        self.registration = package, learned, options
        self.place_written(lowered)
        self.register_on(shared)
        devices.follow(self)

    def register_on(self, shared):
        self.registered = Registered(self, shared, *self.registration)
        self.report.learned = self.registered.learner.outcomes

    def place_written(self, lowered):
        """On CUDA, inputs of fixed sizes that the program writes become static if they stay at
        their address; see registered.py. An emulator always has copies of them."""
        buffers = lowered.program["buffers"]
        written = {index: one.name for index, one in enumerate(self.inputs)
                   if one.mutated and one.fixed and not (one.static or one.flat or one.expanded)
                   and "fill" not in buffers[one.name]}
        if self.shared.emulated or not written:
            return
        device, package = self.shared.device, lowered.package

        def with_static(names):
            for name in names:
                buffers[name]["static"] = True
            try:
                return device.load_package(package.to_bytes(), allow_ptx=True)
            finally:
                for name in names:
                    del buffers[name]["static"]

        self.in_place = InPlace(written, self.static, with_static)

    def called(self, indices):
        """The caller's names for these inputs of the program."""
        return [self.inputs[index].called or self.inputs[index].name for index in indices]

    @property
    def session(self):
        return self.shared.session

    @property
    def program(self):
        return self.registered and self.registered.program

    def move_to(self, session):
        """Moves the graph to another session, until the function that this returns is called; see
        coppice.devices.follow."""
        before = self.shared, self.registered, self.in_place, self.report.in_place
        with self.shared.lock:
            self.shared = shared_by(session)
            self.register_on(self.shared)
            self.in_place, self.report.in_place = self.in_place and self.in_place.fresh(), []

        def move_back():
            ended, there = [self.registered, self.in_place], self.shared
            with there.lock:
                self.shared, self.registered, self.in_place, self.report.in_place = before
                self.report.learned = self.registered.learner.outcomes
            for one in filter(None, ended):
                one.end()

        return move_back

    def policies_of(self, lowered, options, claims):
        """Policies of symbols that have a claim, and of pairs of them, and which symbols are
        learned."""
        symbols, learned = lowered.program["symbols"], []
        policies = {pair: joint_policy_of(policy, names, "coppice",
                                          [limit_of(symbols[name]) for name in pair])
                    for names, policy in options.joint.items()
                    if (pair := self.pair_of(names, lowered.sources)) is not None
                    and {*pair} <= {*claims}}
        paired = {name for pair in policies for name in pair}
        for name in claims:
            policy = options.policy_of(lowered.sources[name])
            if name not in paired:
                policies[name] = bounded(policy, symbols[name].get("max"))
                learned += [name] if learns(policy) else []
        return policies, learned

    def pair_of(self, names, sources_of):
        """The two symbols with these names. None if the graph does not have both, or if they are
        the same symbol."""
        known = {source: name for name, sources in sources_of.items() for source in sources}
        pair = tuple(known.get(name) for name in names)
        if None in pair:
            return None
        if pair[0] == pair[1]:
            reports.tell(self.report, f"{names[0]} and {names[1]} are always equal, so they cannot "
                         "have a policy for two sizes", self.strict, "ignores the policy")
            return None
        return pair

    def lay_out(self, lowered):
        """Prepares the functions that compute the layouts of outputs and results from the sizes of
        a call."""
        texts = Texts()
        self.outputs = [texts.add_layout(layout) for layout in lowered.outputs]
        self.returned = [
            (one, texts.add([known]) if isinstance(one, Size) else
             texts.add_layout(known) if known is not None else None)
            for one, known in lowered.returned]
        self.evaluate = evaluator(list(lowered.sizes), texts.texts)

    def __call__(self, arguments):
        given = [*arguments, *self.constants]
        arguments.clear()
        self.report.runs += 1
        sizes = [read(place, given) for place in self.places]
        values = self.evaluate(*sizes)
        if calls.running_operator():
            return self.fall_back(given, values, calls.INSIDE)
        if self.shared.session.closed:
            raise FailedPrecondition(
                "the session that this was compiled for is closed, for example by "
                "coppice.reset_device() or at the end of coppice.prof.trace; call "
                "torch._dynamo.reset(), then call the function again")
        scalars = [read(place, given) for place in self.scalars]
        try:
            outputs = self.run(given, scalars, values) if self.registered else []
        except StaleOutput:
            raise
        except FailedPrecondition as error:  # A stance that forbids what the call would do.
            if not sizes:
                raise
            known = ", ".join(f"{name} = {size}" for name, size in zip(self.names, sizes))
            raise FailedPrecondition(f"{error}; the sizes of the call are {known}") from error
        except (OutOfRange, InvalidArgument, ResourceExhausted) as error:
            # Refused before anything ran: larger than its limits, or put together strangely. What
            # an emulator had no room for has left the tensors of the CPU as they were.
            if isinstance(error, ResourceExhausted) and not self.shared.emulated:
                raise
            return self.fall_back(given, values, str(error))
        return [self.result(one, where, given, outputs, values) for one, where in self.returned]

    def fall_back(self, given, values, reason):
        self.report.refuse(reason)
        reports.tell(self.report, reason, self.strict)
        results = self.fallback(given[:len(given) - len(self.constants)])
        moved = {}  # Outputs by number, which lie as AOTAutograd was told that they do.
        for index, (one, _) in enumerate(self.returned):
            if isinstance(one, Output) and one.index not in moved:
                moved[one.index] = laid_out(results[index], self.outputs[one.index], values)
        return [moved[one.index] if isinstance(one, Output) else result
                for (one, _), result in zip(self.returned, results, strict=True)]

    def result(self, one, where, given, outputs, values):
        if isinstance(one, Output):
            return outputs[one.index]
        if isinstance(one, Size):
            return int(values[where][0])
        if not isinstance(one, (View, Meta)):
            return one
        dtype, *parts = where
        shape, strides, (offset,) = (values[part] for part in parts)
        if isinstance(one, Meta):
            return torch.empty_strided(shape, strides, dtype=dtype, device="meta")
        base = outputs[one.index] if one.position < 0 else given[one.position]
        view = view_of(base, dtype, shape, strides, offset)
        view = view.conj() if view.is_conj() != one.conjugated else view
        return torch._neg_view(view) if view.is_neg() != one.negated else view

    def run(self, given, scalars, values):
        shared = self.shared
        with shared.held():
            if shared is not self.shared:  # It moved to another session meanwhile.
                return self.run(given, scalars, values)
            shared.busy = True
            try:
                run = self.run_emulated if shared.emulated else self.run_on_cuda
                return run(given, scalars, values)
            finally:
                shared.busy = False
                shared.bury()

    def draw_seed(self):
        if self.seeded:
            self.shared.session.set_seed(int(torch.randint(SEED_END, ())))

    # On an emulator.

    def run_emulated(self, given, scalars, values):
        shared = self.shared
        binding, mirrored = self.bind_mirrors(given)
        inputs, written = [], []
        for one in self.inputs:
            if one.static:
                continue
            tensor = elements_of(given[one.position].detach(), one)
            shown = in_parts(tensor.resolve_conj().resolve_neg())
            if one.mutated:
                shown = shared.device.upload(shown)
                written.append((tensor, shown))
            inputs.append(shown)
        before = shared.device.finding_count()
        lease = self.run_program(inputs, scalars, binding)
        shared.finish(before)  # Before anything of the caller's is written.
        outputs = [self.copied_out(lease[index], values, index)
                   for index in range(len(self.outputs))]
        for tensor, copy in written:
            result = torch.from_dlpack(copy.to_host())
            tensor.copy_(torch.view_as_complex(result) if tensor.is_complex() else result)
        for mirror, storage in mirrored:
            mirror.download(storage)
        if self.report.kind == "forward":
            self.keep(outputs, lease)
        return outputs

    def keep(self, outputs, lease):
        """Lets the backward graph read outputs in place. Outputs that nobody saves end when their
        copies do."""
        for index, (tensor, part) in enumerate(zip(outputs, lease.split())):
            if tensor.numel():
                self.shared.kept[tensor.data_ptr()] = Kept(tensor, part[index], part)

    def bind_mirrors(self, given):
        """The binding of the tensors that stay at their address, whose mirrors are updated; and the
        mirrors that the program writes, with their storages."""
        key, tensors, mirrored = [], [], {}
        for one in self.inputs:
            if not one.static:
                continue
            tensor = seen(given[one.position], one)
            mirror = self.shared.mirror(tensor)
            tensors.append((mirror, tensor))
            key.append((mirror.memory.data_ptr(), tensor.storage_offset()))
            if one.mutated:
                mirror.written = True
                mirrored[mirror.address] = (mirror, tensor.untyped_storage())
        device = self.shared.device
        binding = self.registered.bound(tuple(key), lambda: [
            mirror.view(device, tensor) for mirror, tensor in tensors])
        return binding, list(mirrored.values())

    def run_program(self, inputs, scalars, binding):
        """Runs the program. Inputs that are copies of outputs that earlier calls kept are read in
        place, if they are still there."""
        self.registered.learner.count_call(binding)
        kept = [self.kept_of(tensor) if self.report.kind == "backward" else None
                for tensor in inputs]
        self.draw_seed()
        used = {id(one): one for one in kept if one}
        if used:
            try:
                lease = self.program.run(
                    [one.output if one else tensor for one, tensor in zip(kept, inputs)], scalars,
                    binding=binding, poison=self.poison,
                    donated=[one.part for one in used.values()])
            except StaleOutput:
                pass  # A later call wrote over it.
            else:
                for address in [key for key, one in self.shared.kept.items() if id(one) in used]:
                    del self.shared.kept[address]
                return lease
        return self.program.run(inputs, scalars, binding=binding, poison=self.poison)

    def kept_of(self, tensor):
        if not isinstance(tensor, torch.Tensor) or not tensor.numel():
            return None
        known = self.shared.kept.get(tensor.data_ptr())
        try:
            return known if known is not None and known.serves(tensor) else None
        except StaleOutput:  # A later call wrote over it.
            return None

    def copied_out(self, output, values, index):
        """An output as a CPU tensor with the promised strides."""
        tensor = torch.from_dlpack(output.to_host())
        dtype, *parts = self.outputs[index]
        shape, strides, (offset,) = (values[part] for part in parts)
        tensor = torch.view_as_complex(tensor) if dtype.is_complex else tensor
        if (tensor.dtype, tuple(tensor.shape)) != (dtype, shape):
            raise RuntimeError(f"coppice: output {index} of {self.report.program} is "
                               f"{tensor.dtype} of {tuple(tensor.shape)}, but must be {dtype} of "
                               f"{shape}")
        if offset or tensor.stride() != strides:
            tensor = made(dtype, shape, strides, offset, "cpu").copy_(tensor)
        return tensor

    # On CUDA.

    def run_on_cuda(self, given, scalars, values):
        device = torch.device("cuda", self.shared.device.ordinal)
        stream = library_stream("torch", device.index)
        tensors = [seen(given[one.position].detach(), one) for one in self.inputs]
        self.draw_seed()
        targets = []
        for dtype, *parts in self.outputs:
            shape, strides, (offset,) = (values[part] for part in parts)
            targets.append(made(dtype, shape, strides, offset, device))

        def run(registered, binding, copied):
            registered.learner.count_call(binding)
            registered.program.run(
                [tensors[index] for index in copied], scalars, binding=binding, stream=stream,
                poison=self.poison, output_mode="write_into",
                targets=[in_parts(target) for target in targets]).release()

        binding = self.in_place.find(self, tensors) if self.in_place else None
        if binding is not None:
            try:
                run(self.in_place.registered, binding, self.in_place.copied)
                return targets
            except FailedPrecondition:  # A stance wants a graph, which the first program may have.
                if self.session.stance == "record":
                    raise
        run(self.registered, self.registered.bound(
            tuple(tensors[index].data_ptr() for index in self.static),
            lambda: [tensors[index] for index in self.static]), self.copied)
        return targets


def limit_of(symbol):
    """The last bucket of a size whose policy has no maximum."""
    return min(symbol.get("max", POLICY_MAX), POLICY_MAX)


def seen(tensor, given):
    """The tensor that the program gets for an argument that it reads and writes in place. Complex
    numbers become pairs of parts. Errors: InvalidArgument if it writes a tensor that is lazily
    negated or conjugated, because the memory has other values."""
    tensor = elements_of(tensor, given)
    if given.mutated and (tensor.is_neg() or tensor.is_conj()):
        raise InvalidArgument("it writes to an argument that is negated or conjugated lazily")
    return in_parts(tensor.resolve_conj().resolve_neg())


def elements_of(tensor, given):
    """The elements of an argument that the program has, each once."""
    for axis in given.expanded:  # Of which there is one element.
        tensor = tensor.narrow(axis, 0, 1)
    if given.flat:
        tensor = torch.as_strided(tensor, (span(tensor.shape, tensor.stride()),), (1,))
    return tensor


def in_parts(tensor):
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def read(place, given):
    """A size: an integer argument, or that of an axis of a tensor."""
    position, axis = place
    return int(given[position]) if axis is None else given[position].shape[axis]


def made(dtype, shape, strides, offset, device):
    """A new tensor with undefined values, at the same offset in its storage as in eager PyTorch."""
    if not offset:
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)
    row = torch.empty(offset + span(shape, strides), dtype=dtype, device=device)
    return lying_in(row, dtype, shape, strides, offset)


def view_of(base, dtype, shape, strides, offset):
    """A view of `base`, perhaps of another type. The offset counts elements of the view from the
    beginning of `base`."""
    if (base.dtype, tuple(base.shape), base.stride(), 0) == (dtype, shape, strides, offset):
        return base
    offset += base.storage_offset() * base.itemsize // dtype.itemsize
    return lying_in(base, dtype, shape, strides, offset)


def laid_out(tensor, layout, values):
    """The tensor if it has the promised strides, otherwise a copy with these strides."""
    dtype, *parts = layout
    shape, strides, (offset,) = (values[part] for part in parts)
    if tensor.stride() == strides or not tensor.numel():
        return tensor
    return made(dtype, shape, strides, offset, tensor.device).copy_(tensor)


def lying_in(tensor, dtype, shape, strides, offset):
    """A tensor in the storage of another. It is not a view for autograd, because AOTAutograd
    decides for each result separately whether it needs gradients."""
    return torch.empty(0, dtype=dtype, device=tensor.device).set_(
        tensor.untyped_storage(), offset, shape, strides)
