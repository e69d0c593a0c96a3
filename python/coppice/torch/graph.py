"""A lifted graph, called as AOTAutograd calls what it compiled: with one list of integers and
tensors, for a list of results.

On an emulator tensors are on the CPU: those that lie where they always lie are mirrored
(session.py), others copied in, and outputs copied out into tensors of the promised strides. On CUDA
everything is read and written where it lies.
"""

import itertools
import weakref

import torch

from coppice.dims import joint_policy_of
from coppice.errors import (FailedPrecondition, InvalidArgument, OutOfRange, ResourceExhausted,
                            StaleOutput)
from coppice.export.lift import DTYPES
from coppice.learning import Learner
from coppice.running import library_stream, ordered
from coppice.torch import calls, reports
from coppice.torch.lowering import Output, Size, View, evaluator
from coppice.torch.options import POLICY_MAX, bounded, learns
from coppice.torch.session import Kept

SEED_END = (1 << 63) - 1
numbers = itertools.count(1)  # Of programs, so that each has a name of its own.
BINDINGS_MAX = 16  # Of one graph; the oldest goes.


class Layouts:
    """Shapes and strides of tensors, as sizes of a call say them."""

    def __init__(self):
        self.texts, self.spans = [], []

    def add(self, shape, strides, offset=0):
        """Returns the number of the tensor."""
        begin = len(self.texts)
        self.texts += [*shape, *strides, offset]
        self.spans.append((begin, len(shape)))
        return len(self.spans) - 1

    def read(self, values, number):
        begin, rank = self.spans[number]
        end = begin + 2 * rank
        return values[begin:begin + rank], values[begin + rank:end], values[end]


class LiftedGraph:
    def __init__(self, lowered, shared, options, report, fallback):
        self._boxed_call = True  # It is given one list, which it empties.
        self.shared, self.report, self.strict = shared, report, options.strict
        self.poison = options.poison
        self.fallback = fallback  # Runs calls that the program does not take.
        self.inputs, self.constants = lowered.inputs, lowered.constants
        self.scalars, self.returned = list(lowered.scalars.values()), lowered.returned
        self.seeded = lowered.seeded()
        self.places = list(lowered.sizes.values())
        self.names = [lowered.sources.get(name, [name])[0] for name in lowered.sizes]
        self.bindings = {}  # By the addresses of what lies where it always lies.
        self.lay_out(lowered)
        self.program = None
        if lowered.program["steps"] or lowered.program["outputs"]:
            self.register(lowered, options)

    def register(self, lowered, options):
        shared, report = self.shared, self.report
        package = shared.device.load_package(lowered.package.to_bytes(), allow_ptx=True)
        policies, claims, learned = {}, {}, []
        if report.kind != "backward":
            policies, claims, learned = self.policies_of(lowered, options)
            symbols = {name for sources in lowered.sources.values() for name in sources}
            report.ignored = [name for name in options.names() if name not in symbols]
        report.program = f"{report.function} {report.kind} {next(numbers)}"
        self.program = shared.session.register_package(
            package, "main", name=report.program,
            policies=policies, claims=claims,
            functions={name: calls.function_of(name) for name in lowered.calls()})
        self.learner = Learner(self.program, learned)
        report.learned = self.learner.outcomes
        self.end = weakref.finalize(self, shared.end, self.program, self.bindings)

    def policies_of(self, lowered, options):
        """Policies and claims by symbol, policies also by two, and which symbols are learned."""
        symbols, learned = lowered.program["symbols"], []
        policies = {pair: joint_policy_of(policy, names, "coppice",
                                          [limit_of(symbols[name]) for name in pair])
                    for names, policy in options.joint.items()
                    if (pair := self.pair_of(names, lowered.sources)) is not None}
        paired = {name for pair in policies for name in pair}
        claims = {name: claim for name, sources in lowered.sources.items()
                  if (claim := options.claim_of(sources))}
        for name in claims:
            policy = options.policy_of(lowered.sources[name])
            if name not in paired:
                policies[name] = bounded(policy, symbols[name].get("max"))
                learned += [name] if learns(policy) else []
        return policies, claims, learned

    def pair_of(self, names, sources_of):
        """The two symbols of these names; None if the graph has not both, or if they are one."""
        known = {source: name for name, sources in sources_of.items() for source in sources}
        pair = tuple(known.get(name) for name in names)
        if None in pair:
            return None
        if pair[0] == pair[1]:
            reports.tell(self.report, f"{names[0]} and {names[1]} are one size, which no policy of "
                         "two can be of", self.strict, "ignores the policy")
            return None
        return pair

    def lay_out(self, lowered):
        """Numbers the layouts of outputs, then of views, and keeps what computes them."""
        layouts = self.layouts = Layouts()
        buffers = [lowered.program["buffers"][name] for name in lowered.program["outputs"]]
        words = {word: dtype for dtype, word in DTYPES.items()}
        self.dtypes = [words[buffer["dtype"]] for buffer in buffers]
        for buffer in buffers:
            strides = buffer.get("strides")
            layouts.add(buffer["shape"], strides or row_major(buffer["shape"]))
        self.views = {id(one): layouts.add(one.shape, one.strides, one.offset)
                      for one in self.returned if isinstance(one, View)}
        texts = layouts.texts
        self.counted = len(texts)
        texts = texts + [one.text for one in self.returned if isinstance(one, Size)]
        names = list(lowered.sizes)
        self.evaluate = evaluator(names, texts)

    def __call__(self, arguments):
        given = [*arguments, *self.constants]
        arguments.clear()
        self.report.runs += 1
        sizes = [given[position] if axis is None else given[position].shape[axis]
                 for position, axis in self.places]
        values = self.evaluate(*sizes)
        scalars = [int(given[position]) for position in self.scalars]
        try:
            outputs = self.run(given, scalars, values) if self.program else []
        except StaleOutput:
            raise
        except FailedPrecondition as error:  # A stance that forbids what the call would do.
            if not sizes:
                raise
            known = ", ".join(f"{name} = {size}" for name, size in zip(self.names, sizes))
            raise FailedPrecondition(f"{error}; its sizes are {known}") from error
        except (OutOfRange, InvalidArgument, ResourceExhausted) as error:
            # Refused before anything ran: larger than its limits, or put together strangely. What
            # an emulator had no room for has left the tensors of the CPU as they were.
            if isinstance(error, ResourceExhausted) and not self.shared.emulated:
                raise
            self.report.refused += 1
            reports.tell(self.report, str(error), self.strict)
            return self.fallback(given[:len(given) - len(self.constants)])
        return self.results(given, outputs, values)

    def results(self, given, outputs, values):
        numbers = iter(values[self.counted:])
        return [self.result(one, given, outputs, values, numbers) for one in self.returned]

    def result(self, one, given, outputs, values, numbers):
        if one is None:
            return None
        if isinstance(one, Size):
            return int(next(numbers))
        if isinstance(one, Output):
            return outputs[one.index]
        base = outputs[one.index] if one.position < 0 else given[one.position]
        if one.whole:
            return base
        shape, strides, offset = self.layouts.read(values, self.views[id(one)])
        return torch.as_strided(base, shape, strides, base.storage_offset() + offset)

    def run(self, given, scalars, values):
        shared = self.shared
        with shared.lock:
            shared.busy = True
            try:
                run = self.run_emulated if shared.emulated else self.run_on_cuda
                return run(given, scalars, values)
            finally:
                shared.busy = False
                shared.bury()

    def bound(self, key, tensors):
        """The binding of what lies where it always lies, by its addresses; None of nothing.
        `tensors` makes what is bound if these addresses are new."""
        if not key:
            return None
        if key not in self.bindings:
            if len(self.bindings) >= BINDINGS_MAX:
                self.program.unbind(self.bindings.pop(next(iter(self.bindings))))
            self.bindings[key] = self.program.bind(tensors())
        return self.bindings[key]

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
            tensor = shown(given[one.position].detach(), one)
            if one.mutated:
                copy = shared.device.upload(tensor)
                written.append((tensor, copy))
                inputs.append(copy)
            else:
                inputs.append(tensor)
        lease = self.run_program(inputs, scalars, binding)
        outputs = [self.copied_out(lease[index], values, index)
                   for index in range(len(self.dtypes))]
        for tensor, copy in written:
            tensor.copy_(torch.from_dlpack(copy.to_host()))
        for mirror, storage in mirrored:
            mirror.download(storage)
        shared.device.synchronize()
        shared.check()
        if self.report.kind == "forward":
            self.keep(outputs, lease)
        return outputs

    def keep(self, outputs, lease):
        """Lets the backward graph read outputs where they are. Those that nobody saves go with
        their copies."""
        for index, (tensor, part) in enumerate(zip(outputs, lease.split())):
            if tensor.numel():
                self.shared.kept[tensor.data_ptr()] = Kept(tensor, part[index], part)

    def bind_mirrors(self, given):
        """The binding of what lies where it always lies, which is brought up to date; and the
        mirrors that the program writes, with their storages."""
        key, tensors, mirrored = [], [], {}
        for one in self.inputs:
            if not one.static:
                continue
            tensor = shown(given[one.position], one)
            mirror = self.shared.mirror(tensor)
            tensors.append((mirror, tensor))
            key.append((mirror.memory.data_ptr(), tensor.storage_offset()))
            if one.mutated:
                mirror.written = True
                mirrored[mirror.address] = (mirror, tensor.untyped_storage())
        device = self.shared.device
        binding = self.bound(tuple(key), lambda: [mirror.view(device, tensor)
                                                  for mirror, tensor in tensors])
        return binding, list(mirrored.values())

    def run_program(self, inputs, scalars, binding):
        """Runs with what earlier calls kept in place of its copies, as far as it still lies
        there."""
        self.learner.count_call(binding)
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
        return known if known is not None and known.serves(tensor) else None

    def copied_out(self, output, values, index):
        """An output as a tensor of the CPU, of the strides that were promised."""
        tensor = torch.from_dlpack(output.to_host())
        shape, strides, _ = self.layouts.read(values, index)
        if tensor.stride() != tuple(strides):
            own = torch.empty_strided(shape, strides, dtype=tensor.dtype)
            tensor = own.copy_(tensor)
        return tensor

    # On CUDA.

    def run_on_cuda(self, given, scalars, values):
        stream = library_stream("torch")
        statics = [shown(given[one.position].detach(), one) for one in self.inputs if one.static]
        inputs = [shown(given[one.position].detach(), one)
                  for one in self.inputs if not one.static]
        binding = self.bound(tuple(tensor.data_ptr() for tensor in statics), lambda: statics)
        self.draw_seed()
        targets = []
        for index, dtype in enumerate(self.dtypes):
            shape, strides, _ = self.layouts.read(values, index)
            targets.append(torch.empty_strided(shape, strides, dtype=dtype, device="cuda"))
        self.learner.count_call(binding)
        with ordered(self.shared.device, None if stream else "torch"):
            self.program.run(inputs, scalars, binding=binding, stream=stream, poison=self.poison,
                             output_mode="write_into", targets=targets).release()
        return targets


def limit_of(symbol):
    """Where the buckets of a size end that no policy ends."""
    return min(symbol.get("max", POLICY_MAX), POLICY_MAX)


def shown(tensor, given):
    """What the program is shown of a tensor: one element along axes of stride 0."""
    for axis in given.expanded:
        tensor = tensor.narrow(axis, 0, 1)
    return tensor


def row_major(shape):
    """Strides of a tensor without gaps, of sizes that may be texts."""
    strides, step = [], "1"
    for size in reversed(shape):
        strides.insert(0, step)
        step = f"{step} * ({size})"
    return strides
