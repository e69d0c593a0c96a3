"""Runs PyTorch's operators for `call` steps: on tensors of the CPU that are an emulator's memory,
or on tensors of a CUDA device, whose launches are captured.

What a step's `options` mean is said by the operator's schema: integers and JSON, in which tensors
of a list are "input:3", and names of types, devices and layouts (coppice/export/lift.py);
"output:0" is the shape of the first output.
"""

import json

import torch


def operator_of(name):
    """The overload that a step calls: "aten.sort.default". Errors: LookupError."""
    namespace, operator, overload = name.split(".")
    known = getattr(torch.ops, namespace)
    if not hasattr(known, operator) or overload not in getattr(known, operator).overloads():
        raise LookupError(f"PyTorch has no operator {name}")
    return getattr(getattr(known, operator), overload)


def function_of(name):
    """What coppice calls for steps of that name: fn(inputs, outputs, options, stream)."""
    target = operator_of(name)

    def run(inputs, outputs, options, stream):
        with torch.no_grad():
            given = [torch.from_dlpack(tensor) for tensor in inputs]
            written = [torch.from_dlpack(tensor) for tensor in outputs]
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


def bound(target, tensors, written, options):
    """Arguments by position and by name, and of how many tensors the operator changes them."""
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
        if argument.name in options:
            value = read(options[argument.name], str(argument.real_type), tensors, written)
        elif takes_tensor(argument):
            value = next(single, None)
            changed += bool(argument.alias_info and argument.alias_info.is_write)
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
    if text == "output:0":
        return list(written[0].shape)
    if "Device" in kind and text != "null":
        return written[0].device
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
