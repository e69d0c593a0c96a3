"""Runs PyTorch's operators for `call` steps: on CPU tensors that are an emulator's memory, or on
tensors of a CUDA device. On CUDA they run on the stream of the step, which may be captured.

The operator's schema says what a step's `options` mean. They are integers and JSON, in which
tensors of a list are "input:3", and names of types, devices and layouts (coppice/export/lift.py).
"output:0" is the shape of the first output, "input:1:0" is the first size of the second input, and
"complex:1.0:2.0" is a complex number. Two options do not belong to an operator. `complex` lists the
inputs and outputs that are complex numbers as pairs of parts. `order` says that the last output is
not a result: this buffer makes steps run one after another, because they share PyTorch's workspaces
and generators.

An operator is part of the device's work and may not wait for it. If an operator calls a compiled
function, PyTorch runs that function, on the operator's thread or on one that it waits for. Any
other call of coppice by an operator is an error.
"""

import contextlib
import json
import sys
import threading

import torch

INSIDE = ("it is called by an operator that PyTorch runs for coppice, and cannot run inside that "
          "operator")
AWAITED = ("this call would have to wait for an operator that PyTorch runs for coppice, and that "
           "operator waits for another thread, perhaps this one; do not wait for threads or "
           "futures inside an operator")

_thread = threading.local()
_threads = set()  # That run operators, by their numbers.


@contextlib.contextmanager
def within_operator(name):
    """Notes that this thread runs an operator as work of the device."""
    before = running_operator()
    _thread.operator = name
    _threads.add(threading.get_ident())
    try:
        yield
    finally:
        _thread.operator = before
        if before is None:
            _threads.discard(threading.get_ident())


def running_operator():
    """The name of the operator that this thread runs for a `call` step, or None."""
    return getattr(_thread, "operator", None)


def operator_waits():
    """Whether an operator on any thread waits for another thread (for example in Thread.join) or
    for a future."""
    frames = sys._current_frames()
    return any(number in frames and frames[number].f_code.co_filename == threading.__file__
               for number in list(_threads))


def operator_of(name):
    """The overload that a step calls: "aten.sort.default". Errors: LookupError."""
    namespace, operator, overload = name.split(".")
    known = getattr(torch.ops, namespace)
    if not hasattr(known, operator) or overload not in getattr(known, operator).overloads():
        raise LookupError(f"PyTorch has no operator {name}")
    return getattr(getattr(known, operator), overload)


def function_of(name, memory=None):
    """The function that coppice calls for steps of that name: fn(inputs, outputs, options, stream).
    On CUDA it launches on that stream, with the program's StepMemory. On an emulator, PyTorch
    computes on the host when the stream reaches the step."""
    target = operator_of(name)

    def run(inputs, outputs, options, stream):
        launching = memory.running(stream) if memory else contextlib.nullcontext()
        with torch.no_grad(), within_operator(name), launching:
            options = dict(options)
            if options.pop("order", None):
                outputs = outputs[:-1]
            pairs = json.loads(options.pop("complex", "{}"))
            given = tensors_of(inputs, pairs.get("inputs", ()))
            written = tensors_of(outputs, pairs.get("outputs", ()))
            arguments, named, changed = bound(target, given, written, options)
            out = [argument.name for argument in target._schema.arguments if argument.is_out]
            results = target(*arguments, **named, **dict(zip(out, written)))
            if not isinstance(results, (tuple, list)):
                results = [results]
            # What an operator changes comes behind what it makes, and is written already.
            fresh = [] if out else written[:len(written) - changed]
            made = [result for result in results if isinstance(result, torch.Tensor)]
            for tensor, result in zip(fresh, made):
                if tensor.numel():  # Nobody reads the others.
                    tensor.copy_(result)

    return run


def tensors_of(handed, pairs):
    """The tensors of a step as PyTorch's tensors. Those in `pairs` are complex numbers as pairs of
    parts. The step's stream orders them already, so nothing waits for them. A wait would break a
    capture."""
    tensors = [torch.from_dlpack(one.__dlpack__(stream=-1)) for one in handed]
    return [torch.view_as_complex(tensor) if index in pairs else tensor
            for index, tensor in enumerate(tensors)]


def bound(target, tensors, written, options):
    """Arguments by position and by name, and the number of tensors that the operator changes."""
    listed = set()
    for text in options.values():
        if text.startswith("["):
            listed |= {int(part.removeprefix("input:")) for part in json.loads(text)
                       if isinstance(part, str) and part.startswith("input:")}
    single = iter(tensor for index, tensor in enumerate(tensors) if index not in listed)
    arguments, named, changed = [], {}, 0
    for argument in target._schema.arguments:
        if argument.is_out:
            continue
        writes = argument.alias_info is not None and argument.alias_info.is_write
        if argument.name in options:
            value = read(options[argument.name], str(argument.real_type), tensors, written)
            if writes and isinstance(value, list):
                changed += sum(isinstance(member, torch.Tensor) for member in value)
        elif takes_tensor(argument):
            value = next(single, None)
            changed += writes
        elif argument.has_default_value():
            value = argument.default_value
        else:
            value = None
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            arguments.append(value)
    return arguments, named, changed


def takes_tensor(argument):
    return str(argument.type).removeprefix("Optional[").startswith("Tensor")


def read(text, kind, tensors, written):
    """A value of an option."""
    if text.startswith(("output:", "input:")):
        kind, index, *axis = text.split(":")
        shape = list((written if kind == "output" else tensors)[int(index)].shape)
        return shape[int(axis[0])] if axis else shape
    if "Device" in kind and text != "null":
        return written[0].device
    if text.startswith("complex:"):
        return complex(*map(float, text.split(":")[1:]))
    if text.startswith("torch."):
        return getattr(torch, text.removeprefix("torch."))
    if kind.removeprefix("Optional[").startswith("str") and text != "null":
        return text

    def plain(value):
        if isinstance(value, list):
            return [plain(member) for member in value]
        if isinstance(value, str) and value.startswith("input:"):
            return tensors[int(value.removeprefix("input:"))]
        return float(value) if isinstance(value, str) else value

    try:
        return plain(json.loads(text))
    except json.JSONDecodeError:
        return float(text)  # inf and nan.
