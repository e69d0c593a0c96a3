"""Exports PyTorch programs: modules, functions, methods of modules and ExportedPrograms.

    package = export(model, (x,), dynamic={"x": {0: (2, 64)}}, archs=["80", "90a"])
    package.write("model.zip")

torch.export traces the program, and Inductor compiles it for a device that the machine need not
have. Weights become constants with the names that the state dict has. A tensor argument becomes an
input with its name, an integer argument a scalar. Sizes that `dynamic` names are symbols. Programs
that a package cannot hold raise ExportError, which names the node and the line of the model.
"""

import contextlib
import inspect
from unittest import mock

import torch
from torch.export import Dim, ExportedProgram
from torch.nn.attention import flex_attention
from torch.utils._pytree import tree_map

from coppice.export import kernels
from coppice.export.inductor import compile_graph, first_line, sizes_of_one
from coppice.export.lift import Lifter, returned_values
from coppice.export.manifest import VERSION, ExportError, Package
from coppice.export.sizes import (
    INT64_MAX,
    finite,
    guards_of,
    identifier,
    limits_as_guards,
    size_of,
)
from coppice.export.tensors import DTYPES

__all__ = ["add_program", "export", "new_package", "save_weights"]

SYMBOL_FIELDS = ("min", "max", "name", "buckets", "claim", "hint")


def export(model, args=(), **options):
    """A package of one program, named `main` unless `name` says otherwise; see add_program."""
    package = new_package()
    add_program(package, options.pop("name", "main"), model, args, **options)
    return package


def new_package():
    """A package without programs, whose producer is this exporter."""
    import triton

    return Package("coppice.export.torch", VERSION, torch=torch.__version__.split("+")[0],
                   triton=triton.__version__)


def add_program(package, name, model, args=(), *, dynamic=None, archs=("80", "90a"), outputs=None,
                static=(), fills=None, weights=False, configurations=1, options=None):
    """Compiles a program into a package; programs share kernels and constants.

    model           an nn.Module, a method of one, a function, or an ExportedProgram (whose
                    arguments and dynamic axes are its own)
    args            example arguments: tensors, on the CPU, and integers
    dynamic         {argument: {axis: how}} of tensors, {argument: how} of integers; `how` is
                    (min, max), (name, min, max), or a dict of min, max and, if wanted, name,
                    buckets and claim. Axes of one name have one size in a call. PyTorch compiles
                    sizes below 2 separately, so a min of 1 is an error if the compiled code needs
                    at least 2.
    archs           "80" (as PTX), "90a" (as a cubin), "86:cubin"; Inductor compiles for the first
    outputs         names; else "output", or "output_0" and so on
    static          inputs that stay at their address; inputs without dynamic axes that the program
                    writes are static as well
    fills           {input: fill}: what its padding holds, if not zeros
    weights         whether parameters and buffers of the state dict go into the package; otherwise
                    a caller binds them by name (see save_weights)
    configurations  how many configurations of each kernel that Inductor would time become variants
    of the kernel
    options         Inductor's, on top of what an export needs
    """
    architectures = kernels.parse_architectures(archs)
    dynamic = {argument: normalized(argument, how) for argument, how in (dynamic or {}).items()}
    capability = min(architecture.capability for architecture in architectures)
    ones = any(how.get("min", 2) < 2 for axes in dynamic.values() for how in axes.values())
    with sizes_of_one() if ones else contextlib.nullcontext():
        exported = model
        if not isinstance(model, ExportedProgram):
            exported = trace(model, args, dynamic)
        module = exported.graph_module
        specs = exported.graph_signature.input_specs
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        shape_env = shape_env_of(placeholders)
        returned = [node.meta["val"] if isinstance(node, torch.fx.Node) else node
                    for node in returned_values(module.graph.output_node())]
        cubins = any(architecture == kernels.Architecture(capability, "cubin")
                     for architecture in architectures)
        wrapper = compile_graph(module, capability, configurations, options, cubins)
    program = Program(package, exported, wrapper, specs, dynamic, shape_env, architectures)
    package.add_program(name, program.build(named(returned, outputs), static, fills or {}))
    add_data(package, exported, program.constants, weights)


def normalized(argument, how):
    """{axis: {"min", "max", ...}} for a tensor, {None: ...} for an integer."""
    axes = how if isinstance(how, dict) and all(isinstance(axis, int) for axis in how) else {
        None: how}
    result = {}
    for axis, value in axes.items():
        if isinstance(value, (tuple, list)) and len(value) in (2, 3):
            value = dict(zip(("name", "min", "max")[3 - len(value):], value))
        if not isinstance(value, dict) or not set(value) <= set(SYMBOL_FIELDS):
            raise ExportError(f"dynamic[{argument!r}][{axis}] is {value!r}, not (min, max), "
                              f"(name, min, max) or a dict of {', '.join(SYMBOL_FIELDS)}")
        result[axis] = value
    return result


def trace(model, args, dynamic):
    """The program that torch.export makes from a model. Errors: ExportError."""
    if isinstance(model, torch.nn.Module):
        module, forward = model, model.forward
    elif isinstance(getattr(model, "__self__", None), torch.nn.Module):
        module, forward = model.__self__, model
    else:
        module, forward = torch.nn.Module(), model
    parameters = list(inspect.signature(forward).parameters)
    unknown = sorted(set(dynamic) - set(parameters))
    if unknown:
        raise ExportError(f"`dynamic` contains {', '.join(unknown)}, but the arguments are "
                          f"{', '.join(parameters)}")
    dims = {}
    shapes = {name: dynamic_shape(name, value, dynamic.get(name, {}), dims)
              for name, value in zip(parameters, args)}
    with torch.no_grad(), mock.patch.object(module, "forward", forward, create=True), \
            attention_as_one_node():
        try:
            return torch.export.export(module, distinct(args), dynamic_shapes=shapes,
                                       strict=False)
        except Exception as error:
            raise ExportError(f"torch.export: {first_line(error)}") from error


def attention_as_one_node():
    """Inside the scope, FlexAttention is traced as one node. Outside of torch.compile it would
    compile itself, for the example's sizes only."""
    return mock.patch.object(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


def distinct(args):
    """The arguments, in which a tensor that occurs twice is replaced by another: torch.export
    treats both as one input."""
    seen = set()

    def own(value):
        if not isinstance(value, torch.Tensor):
            return value
        known = id(value) in seen
        seen.add(id(value))
        return value.clone() if known else value

    return tree_map(own, tuple(args))


def dynamic_shape(name, value, axes, dims):
    """The argument of torch.export.export for one argument of the model."""
    if not axes:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return Dim.DYNAMIC
    if not isinstance(value, torch.Tensor):
        raise ExportError(f"{name} is a {type(value).__name__}; only tensors and integers can "
                          "be dynamic")
    result = {}
    for axis, how in axes.items():
        if axis is None or not -value.dim() <= axis < value.dim():
            raise ExportError(f"{name} has no axis {axis}; its rank is {value.dim()}")
        limits = {key: how[key] for key in ("min", "max") if key in how}
        if value.shape[axis] < 2:
            raise ExportError(f"the example {name} has size {value.shape[axis]} along the dynamic "
                              f"axis {axis}; give an example with size 2 or more")
        if "name" in how:
            result[axis] = dims.setdefault(how["name"], Dim(how["name"], **limits))
        else:
            result[axis] = Dim.DYNAMIC(**limits)
    return result


def shape_env_of(placeholders):
    for node in placeholders:
        value = node.meta.get("val")
        mode = getattr(value, "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            return mode.shape_env
    raise ExportError("the program has no tensor among its inputs")


class Program:
    """The program of one lowered graph: names for its symbols, the parts that Lifter reads, and
    guards."""

    def __init__(self, package, exported, wrapper, specs, dynamic, shape_env, architectures):
        self.package, self.exported, self.wrapper = package, exported, wrapper
        self.specs, self.dynamic, self.shape_env = specs, dynamic, shape_env
        self.architectures = architectures
        self.names, self.symbols, self.scalars, self.constants = {}, {}, {}, {}
        self.limits = []  # Of scalars, as guards.

    def build(self, results, static, fills):
        graph = self.wrapper.graph
        nodes = [node for node in graph.nodes if node.op == "placeholder"]
        if len(nodes) != len(self.specs):
            raise ExportError(f"Inductor has {len(nodes)} inputs, but torch.export has "
                              f"{len(self.specs)}")
        roles = {node: self.role(node, spec) for node, spec in zip(nodes, self.specs)}
        for node, (kind, name) in roles.items():
            if kind == "input":
                self.name_axes(name, node.meta["val"])
        lifter = Lifter(self.package, graph, roles, self.shape_env, self.names,
                        self.architectures)
        lifter.run(results)
        unknown = sorted(set(static) | set(fills))
        for name in unknown:
            if name not in lifter.inputs:
                raise ExportError(f"{name} is not an input; the inputs are "
                                  f"{', '.join(lifter.inputs)}")
        for name in lifter.inputs:
            buffer = lifter.buffers[name]
            fixed = all(isinstance(size, int) for size in buffer["shape"])
            if name in static or (buffer.get("mutated") and fixed):
                buffer["static"] = True
            if name in fills:
                buffer["fill"] = fills[name]
        result = {"symbols": self.symbols, "inputs": lifter.inputs, "outputs": lifter.outputs,
                  "buffers": lifter.buffers, "steps": lifter.steps}
        guards = self.limits + guards_of(self.shape_env, self.names)
        if guards:
            result["guards"] = list(dict.fromkeys(guards))
        if self.scalars:
            result["scalars"] = self.scalars
        return result

    def role(self, node, spec):
        """The role of a placeholder. Declares constants and scalars."""
        kind = spec.kind.name
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            value = node.meta.get("val")
            if value is None:
                return "scalar", None  # Nothing reads it.
            shape = [int(size) for size in value.shape]
            constant = {"dtype": DTYPES[value.dtype], "shape": shape}
            if not value.is_contiguous():
                constant["strides"] = [int(stride) for stride in value.stride()]
            self.constants[spec.target] = self.package.constants.get(spec.target, constant)
            return "constant", self.package.add_constant(spec.target, constant)
        if kind != "USER_INPUT":
            raise ExportError(f"an input of kind {kind} ({spec.target}) cannot be exported")
        name, value = spec.arg.name, node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return "input", name
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            self.name_scalar(name, value.node.expr)
            return "scalar", value.node.expr.name
        if value is None or isinstance(value, (int, torch.SymInt)) and size_of(value).is_Integer:
            return "scalar", None
        raise ExportError(f"the argument {name} is {value}; only tensors and integers can be "
                          "exported")

    def name_scalar(self, name, symbol):
        """Names an integer argument. One with limits is a size, which may be padded."""
        how = self.dynamic.get(name, {}).get(None, {})
        if "max" in how:
            self.scalars[name] = {"bind": "parameter"}
            self.add_symbol(symbol, how.get("name", f"{name}_size"), how, {"scalar": name})
        else:
            self.scalars[name] = {"bind": "key"}
            self.names[symbol.name] = name
            limits = self.shape_env.var_to_range[symbol]
            low = max(finite(limits.lower, 0), how.get("min", 0))
            self.limits += limits_as_guards(name, low, finite(limits.upper, INT64_MAX))

    def name_axes(self, name, value):
        axes = self.dynamic.get(name, {})
        for axis, size in enumerate(value.shape):
            expression = self.shape_env.replace(size_of(size))
            how = axes.get(axis, axes.get(axis - value.dim(), {}))
            if expression.is_Integer and how:
                raise ExportError(f"axis {axis} of {name} is dynamic, but PyTorch compiles it for "
                                  f"{expression} only; leave it out of dynamic, or change the "
                                  f"model ({self.places_of(size_of(size))})")
            if not expression.is_Symbol or expression.name in self.names:
                continue
            free = how.get("name", f"{identifier(name)}_{axis}")
            self.add_symbol(expression, free, how)

    def places_of(self, expression):
        """The places in the source where PyTorch decided something about a size."""
        places = [str(guard.sloc) for guard in self.shape_env.guards
                  if guard.expr.free_symbols & expression.free_symbols]
        return "; ".join(places[:2]) or "PyTorch does not say where"

    def add_symbol(self, symbol, name, how, origin=None):
        limits = self.shape_env.var_to_range[symbol]
        low = max(finite(limits.lower, 0), how.get("min", 0))
        asked = how.get("min", low)
        if asked < limits.lower:
            places = [str(guard.sloc) for guard in self.shape_env.guards
                      if symbol in guard.expr.free_symbols and guard.expr.is_Relational
                      and not guard.expr.is_Equality]
            raise ExportError(f"{name} cannot be {asked}: PyTorch compiles for {limits.lower} or "
                              f"more ({'; '.join(places[:2])}); ask for min={limits.lower}")
        high = min(finite(limits.upper, INT64_MAX), how.get("max", INT64_MAX))
        hint = how.get("hint")
        result = {"min": low}
        if high < INT64_MAX:
            result["max"] = high
        if origin:
            result["from"] = origin
        if hint is not None:
            result["hint"] = hint
        result.update({key: how[key] for key in ("buckets", "claim") if key in how})
        self.names[symbol.name] = name
        self.symbols[name] = result


def named(returned, names):
    """The tensors that a program returns, by the names of its outputs. Errors: ExportError."""
    if names is None:
        names = ["output"] if len(returned) == 1 else [
            f"output_{index}" for index in range(len(returned))]
    if len(set(names)) != len(returned):
        raise ExportError(f"the number of outputs is {len(returned)}, but the names are "
                          f"{', '.join(names)}; give each output a name of its own")
    return dict(zip(names, returned))


# Data.


def tensors_of(exported):
    """Everything that an exported program holds, by name."""
    return {**exported.constants, **exported.state_dict}


def add_data(package, exported, constants, weights):
    """Puts constants that are in no state dict into the package, and the others if `weights`."""
    import safetensors.torch

    known = tensors_of(exported)
    held = {name: known[name].detach().contiguous() for name in sorted(constants)
            if "data" not in constants[name] and (weights or name not in exported.state_dict)}
    if not held:
        return
    name = package.add_file("data", "safetensors", safetensors.torch.save(held))
    for tensor in held:
        package.constants[tensor]["data"] = {"file": name, "tensor": tensor}


def state_of(model):
    """The state dict of anything that add_program takes; empty for a plain function."""
    owner = model if hasattr(model, "state_dict") else getattr(model, "__self__", None)
    state = getattr(owner, "state_dict", dict)
    return state() if callable(state) else state


def save_weights(path, state_dict):
    """Writes a state dict as safetensors, to bind the constants of a package without weights."""
    import safetensors.torch

    safetensors.torch.save_file({name: tensor.detach().contiguous().clone()
                                 for name, tensor in state_dict.items()}, path)
