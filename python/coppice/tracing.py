"""Runs a wrapped callable, and runs it on zeros to find what it returns."""

import re
import threading

from coppice import _core
from coppice.errors import CAPTURE_BROKEN, Aborted, FailedPrecondition, InvalidArgument
from coppice.libraries import running
from coppice.running import Run, bytes_of, this_run
from coppice.sizing import expression_of
from coppice.structure import (flatten, is_tensor, kind_of, layout_of, rebuild, shown,
                               structure_of)

_naming = threading.Lock()  # Held from finding a free name to taking it.


class Arguments:
    """The arguments to call a callable with again: by position and by name, each a structure of
    numbered leaves."""

    def __init__(self, signature, arguments):
        self.args, self.kwargs = [], {}
        self.structure = structure_of(arguments)
        for name, parameter in signature.parameters.items():
            if name not in arguments:
                continue
            value = self.structure[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.args += list(value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.kwargs.update(value)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                self.kwargs[name] = value
            else:
                self.args.append(value)

    def call(self, fn, values, name):
        def value_of(leaf):
            return values[leaf.value]

        args = [rebuild(value, value_of) for value in self.args]
        kwargs = {key: rebuild(value, value_of) for key, value in self.kwargs.items()}
        try:
            return fn(*args, **kwargs)
        except Aborted as error:
            if error.driver_result not in CAPTURE_BROKEN:
                raise
            raise Aborted(
                f"{name}: {error}; while fn is recorded it must not wait for the device or read "
                "from it, because a replay does neither: pass the value as a number, or launch a "
                "kernel that reads it", error.driver_result) from error
        except (TypeError, AttributeError) as error:
            if this_run().device.kind == "emulator" and is_of_tensor(error):
                raise InvalidArgument(
                    f"{name}: {error}; on the emulator fn receives coppice.Tensor objects, which "
                    "Triton accepts; to use PyTorch operators, use torch.compile(fn, "
                    "backend=\"coppice\")"
                    ) from error
            raise


def is_of_tensor(error):
    """Whether an error may come from code that got a coppice.Tensor and needs another tensor: an
    attribute is missing, or the message names the type coppice.Tensor where PyTorch's Tensor is
    expected."""
    if isinstance(error, AttributeError):
        return isinstance(getattr(error, "obj", None), _core.Tensor)
    text = str(error)
    # Of coppice's functions and tensors, which say what to do themselves.
    own = "incompatible function arguments" in text or text.startswith("coppice.")
    return not own and re.search(r"\bTensor\b", text) is not None


class Body:
    """What the session runs: fn on the tensors of the run. It refers to no program and no session,
    because they refer to it."""

    def __init__(self, wrapped, call, symbols):
        self.fn, self.name, self.loaded = wrapped.fn, wrapped.name, wrapped._loaded
        self.arguments = Arguments(wrapped._signature, call.arguments)
        self.kind = wrapped.shown_as(call)
        self.symbols = symbols
        # Of each leaf: its number among the inputs, the symbol that it is, or itself.
        self.values, inputs = [], 0
        for leaf in call.leaves:
            varying = wrapped._dynamic.get(leaf.path)
            if is_tensor(leaf.value):
                self.values.append(("input", inputs))
                inputs += 1
            elif isinstance(varying, str):
                self.values.append(("symbol", symbols.index(varying)))
            else:
                self.values.append(("value", leaf.value))
        self.outputs_at, self.names = {}, []

    def expect(self, outputs):
        self.names = [name for name, _ in outputs]

    def __call__(self, context):
        device = context.device
        kind = "coppice" if device.kind == "emulator" else self.kind
        # As lists, since the addresses of inputs say which outputs are inputs.
        inputs = [context.input(number) for what, number in self.values if what == "input"]
        read = {"input": lambda number: shown(inputs[number], kind),
                "symbol": context.extent, "value": lambda value: value}
        run = Run(device, context.stream, context, self.outputs_at, self.loaded)
        with running(run):
            values = [read[what](of) for what, of in self.values]
            results = flatten(self.arguments.call(self.fn, values, self.name))
            if len(results) != len(self.names):
                raise FailedPrecondition(f"{self.name}: the number of returned tensors is "
                                         f"{len(results)}, but was {len(self.names)} in the trace; "
                                         "return the same number in every call")
            for index, leaf in enumerate(results):
                self.place(run, index, leaf.value, inputs)
            del values, results, leaf

    def place(self, run, index, result, inputs):
        """Makes a result an output, in place or by a copy."""
        context, where = run.context, f"{self.name}: {self.names[index]}"
        if not is_tensor(result):
            raise FailedPrecondition(f"{where} is a {type(result).__name__}, not a tensor")
        check_place(run.device, result, where)
        address = address_of(result)
        if index in run.given and run.given[index].data_ptr() == address:
            return
        given = next((given for given in inputs if given.data_ptr() == address), None)
        if given is not None and layout_of(given) == layout_of(result) and is_dense(result):
            context.alias_output(index, address)
            return
        target = run.output(index)
        if layout_of(target) != layout_of(result):
            raise FailedPrecondition(
                f"{where} is {describe(result)}, but the program expects {describe(target)} at "
                "this bucket: coppice predicts the outputs from traces of fn at other sizes; "
                "if that is wrong, give outputs=")
        kind = kind_of(result)
        if kind == "torch":
            shown(target, "torch").copy_(result)
        elif kind == "cupy":
            shown(target, "cupy")[...] = result
        elif is_dense(result):
            run.device.copy(target.data_ptr(), address, bytes_of(target.shape, target.dtype),
                            run.stream)
        else:
            raise FailedPrecondition(f"{where} has gaps between its rows; return a dense tensor")


def check_place(device, tensor, where):
    """Raises InvalidArgument for a host tensor where one of the emulator is expected, because no
    graph contains its computation."""
    if device.kind == "emulator" and not isinstance(tensor, (_core.Tensor, _core.Output)):
        raise InvalidArgument(f"{where} is a {type(tensor).__name__} on the host; on the emulator "
                              "return a tensor that kernels wrote, such as one from coppice.empty")


def describe(tensor):
    dtype, shape = layout_of(tensor)
    return f"{dtype}[{','.join(map(str, shape))}]"


def address_of(tensor):
    if hasattr(tensor, "data_ptr"):
        return tensor.data_ptr()
    return tensor.data.ptr if kind_of(tensor) == "cupy" else None


def is_dense(tensor):
    strides = getattr(tensor, "strides", None)
    if kind_of(tensor) == "torch":
        return tensor.is_contiguous()
    if kind_of(tensor) == "cupy":
        return tensor.flags.c_contiguous
    step = 1
    for size, stride in zip(reversed(tensor.shape), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


class Traced:
    """Runs a callable outside of the session, on zeros, at a few sizes, to find what it returns,
    and which of its allocations it returns."""

    def __init__(self, wrapped, call, dims, device):
        self.wrapped, self.call, self.device, self.seen = wrapped, call, device, {}
        self.arguments = Arguments(wrapped._signature, call.arguments)
        sizes = {name: call.sizes[name] for name in dims}
        first = self.at(sizes)
        self.structure, outputs = first.structure, []
        for index, (path, dtype) in enumerate(zip(first.names, first.dtypes)):
            shape = [self.size(sizes, dims, index, axis)
                     for axis in range(len(first.shapes[index]))]
            outputs.append((path, (dtype, shape)))
        self.outputs = outputs
        every = [seen.outputs_at for seen in self.seen.values()]
        self.outputs_at = every[0] if all(at == every[0] for at in every) else {}
        self.traces = len(self.seen)

    def size(self, sizes, dims, index, axis):
        def value_at(point):
            seen = self.at(point)
            if len(seen.shapes) <= index or len(seen.shapes[index]) <= axis:
                raise InvalidArgument(f"{self.wrapped.name} returns different outputs at "
                                      f"{point}; wrap another function for these sizes")
            return seen.shapes[index][axis]

        return expression_of(value_at, sizes, dims,
                             f"{self.wrapped.name}: axis {axis} of {self.at(sizes).names[index]}")

    def at(self, point):
        key = tuple(point.items())
        if key not in self.seen:
            self.seen[key] = self.run(point)
        return self.seen[key]

    def run(self, point):
        stream = self.call.stream(self.device) or self.device.stream
        run = Run(self.device, stream, None, (), self.wrapped._loaded)
        with running(run):
            values = [self.value(leaf, key, point)
                      for leaf, key in zip(self.call.leaves, self.call.key)]
            result = self.arguments.call(self.wrapped.fn, values, self.wrapped.name)
            seen = Seen(result, run)
            self.device.synchronize_stream(stream)
        return seen

    def value(self, leaf, key, point):
        varying = self.wrapped._dynamic.get(leaf.path)
        if not is_tensor(leaf.value):
            return point[varying] if isinstance(varying, str) else leaf.value
        static = leaf.path in self.wrapped._static
        if static and leaf.path not in self.wrapped._mutates:
            return leaf.value
        shape = [size if isinstance(size, int) else evaluate(size, point) for size in key[2]]
        return zeros(self.device, self.wrapped.shown_as(self.call), shape, key[1], leaf.value)


class Seen:
    """What a callable returned."""

    def __init__(self, result, run):
        leaves = flatten(result)
        for leaf in leaves:
            if not is_tensor(leaf.value):
                raise InvalidArgument(f"the callable returned a {type(leaf.value).__name__}; it "
                                      "may return only tensors")
            check_place(run.device, leaf.value, "what the callable returned")
        self.structure = structure_of(result)
        self.names = [f"output{'.' if leaf.path else ''}{leaf.path}" for leaf in leaves]
        layouts = [layout_of(leaf.value) for leaf in leaves]
        self.dtypes = [dtype for dtype, _ in layouts]
        self.shapes = [shape for _, shape in layouts]
        places = {id(tensor): number for number, tensor in enumerate(run.asked)}
        self.outputs_at = {places[id(leaf.value)]: index for index, leaf in enumerate(leaves)
                           if id(leaf.value) in places}


def evaluate(text, point):
    names = {"__builtins__": {}, "min": min, "max": max, "ceildiv": lambda a, b: -(-a // b),
             "align": lambda a, b: -(-a // b) * b, **point}
    return eval(text, names)  # The caller's own expression of integers.


def zeros(device, kind, shape, dtype, like):
    """Zeros on the device, as a tensor of the library that the callable uses."""
    if device.kind != "emulator" and kind in ("torch", "cupy") and kind_of(like) == kind:
        if kind == "torch":
            return like.new_zeros(shape)
        import cupy

        return cupy.zeros(shape, like.dtype)
    tensor = device.empty(shape, dtype)
    device.fill(tensor.data_ptr(), bytes_of(shape, dtype))
    return tensor if device.kind == "emulator" else shown(tensor, kind)


def register(session, spec, body):
    """Registers the program; under another variant name if another callable has this one."""
    free, number = spec["variant"], 1
    with _naming:
        while session.find(spec["name"], free) is not None:
            number += 1
            free = f"{spec['variant']} #{number}"
        return session.register_callable({**spec, "variant": free}, body)


def used_symbols(call, wrapped):
    """The Dims that a call's tensors and integers have."""
    used = set(call.sizes)
    missing = used - set(wrapped._dims)
    if missing:
        raise InvalidArgument(f"{wrapped.name}: no coppice.Dim is called "
                              f"{', '.join(sorted(missing))}")
    return used
