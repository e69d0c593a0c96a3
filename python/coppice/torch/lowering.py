"""Lowers one graph that AOTAutograd made to a program of a package in memory.

    graph of aten operators ──► Inductor, for CUDA ──► the wrapper's graph ──► Lifter ──► Lowered

A program takes fewer arguments than the graph, and returns fewer results: the graph also has
integers, unchanged arguments, and views. Lowered says how to convert between the two.
"""

import dataclasses
import keyword
import operator
import re

import sympy
import torch
from torch._inductor import compile_fx
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_leaves

from coppice.export import inductor
from coppice.export.expressions import text_of
from coppice.export.kernels import Architecture
from coppice.export.lift import Lifter, returned_values
from coppice.export.manifest import VERSION, ExportError, Package
from coppice.export.oracle import check_output
from coppice.export.placement import move_to_cuda, on_cuda
from coppice.export.sizes import (INT64_MAX, identifier, limits_of, open_conditions, size_of,
                                   span)
from coppice.export.tensors import Tensor
from coppice.torch.frames import spelled
from coppice.torch.limits import limits_of_program
from coppice.torch.operators import lowered_as_in_eager
from coppice.torch.results import Meta, Output, Results, Size, View, complete, overlaps
from coppice.torch.strided import count_from_arguments

# What expressions mean something else by.
RESERVED = {"and", "or", "not", "ceildiv", "align", "min", "max", "select", *keyword.kwlist}
FUNCTIONS = {"min": min, "max": max, "ceildiv": lambda a, b: -(-a // b),
             "align": lambda a, b: -(-a // b) * b, "select": lambda c, a, b: a if c else b}
CONFIGURATION = {
    # A template where one is right, else the operator.
    "max_autotune_conv_backends": "TRITON,ATEN",
    "max_autotune_gemm_backends": "TRITON,ATEN",
    "fx_graph_cache": False,  # It would skip the lifting.
    # What threads combine to one result has to be the same bits for each of them, or which of them
    # stores decides it; online softmax and Welford's variance depend on whose part comes first.
    "online_softmax": False,
}


@dataclasses.dataclass
class Input:
    """A tensor that the program takes."""

    position: int  # Among the arguments, behind which the graph's own constants lie.
    name: str
    static: bool = False
    mutated: bool = False
    expanded: tuple = ()  # Axes of stride 0, of which the program is shown one element.
    flat: bool = False  # Its elements overlap: the program is shown the row of memory they lie in.
    fixed: bool = False  # No size of it varies.
    called: str = ""  # What the caller calls it, if it is a tensor of his as it came.


@dataclasses.dataclass
class Layout:
    """The layout of a tensor, as texts of sizes. Strides and the offset count elements."""

    dtype: object
    shape: list
    strides: list
    offset: object = 0


@dataclasses.dataclass
class Lowered:
    package: Package
    program: dict
    inputs: list  # Of Input, in the program's order.
    scalars: dict  # As sizes, in the program's order.
    sizes: dict  # {name: (position, axis)}, or (position, None) of an integer.
    sources: dict  # {symbol: names that report() and options call it by; tied sizes have several}
    outputs: list  # Layout of each output of the program.
    returned: list  # (what results.py says of it, Layout, text or None), of each result.
    strides: list  # Of each result, for AOTAutograd; None of what is no tensor.
    constants: list  # Tensors behind the arguments.
    limits: dict  # {symbol: the maximum that it was given so that all of it fits 64 bits}
    symbol_names: dict  # {symbol: what PyTorch calls it}

    def calls(self):
        """Functions that steps call, except gemm."""
        return sorted({step["function"] for step in self.program["steps"]
                       if step["op"] == "call"} - {"gemm"})

    def launches(self):
        return sum(step["op"] == "kernel" for step in self.program["steps"])

    def seeded(self):
        return any(buffer["role"] == "seed" for buffer in self.program["buffers"].values())


def lower(module, inputs, statics, capability, options, cuda, patches, flags):
    """Lowers a graph module for its fake inputs. The module is changed. `statics` are names of
    placeholders that stay at their address. `cuda` says that the device exists. `patches` change
    Inductor's configuration; options override them. `flags` are those that Inductor passes on.
    Errors: ExportError, CompilerError."""
    mode = fake_mode_of(module)
    constants = lift_constants(module, mode)
    inputs = [*inputs, *(node.meta["val"] for node in constants)]
    positions = join_sizes(module)
    inputs = [inputs[position] for position in positions]
    flags = {**flags, "static_input_idxs": [
        positions.index(position) for position in flags["static_input_idxs"]
        if position in positions]}
    complete(module, mode)
    results = Results(module, "cuda" if cuda else "cpu")
    count_from_arguments(module.graph)
    patches = inductor.settings({**CONFIGURATION, **patches, **options.inductor,
                                 "fallback_random": options.fallback_random})
    with inductor.compiling(capability, cubins=cuda, pretended=not cuda), \
            torch._inductor.config.patch(patches), V.set_aot_compilation(True), \
            inductor.separate_results(), lowered_as_in_eager():
        if not cuda:
            move_to_cuda(module)
            inputs = [on_cuda(value) for value in inputs]
        wrapper = compile_fx.compile_fx_inner(
            module, inputs, fx_wrapper=True, cpp_wrapper=False, cudagraphs=None, **flags)
    image = "cubin" if cuda else "ptx"
    lifted = GraphLifter(wrapper.filename.graph, statics | {node.name for node in constants},
                         mode.shape_env, [Architecture(capability, image)], positions, results)
    return lifted.lowered([node.meta["data"] for node in constants])


def evaluator(names, texts):
    """A function that takes sizes in the order of `names`, and computes expressions of them."""
    body = ", ".join(str(text) for text in texts)
    return eval(f"lambda {', '.join(names)}: ({body}{',' if texts else ''})",
                {"__builtins__": {}, **FUNCTIONS})


def fake_mode_of(module):
    """The FakeTensorMode of a graph."""
    for node in module.graph.nodes:
        for value in tree_leaves(node.meta.get("val")):
            if isinstance(value, torch._subclasses.FakeTensor):
                return value.fake_mode
    mode = torch._guards.detect_fake_mode()
    if mode is None:
        raise ExportError("it has no tensor")
    return mode


def lift_constants(module, mode):
    """Turns tensors that the graph holds into inputs, which come last. The meta["data"] of their
    nodes has their values. Scalars become numbers."""
    graph, nodes = module.graph, []
    for node in graph.find_nodes(op="get_attr"):
        value = getattr(module, node.target, None) if "." not in node.target else None
        if not isinstance(value, torch.Tensor) or isinstance(value, torch._subclasses.FakeTensor):
            continue
        last = list(graph.find_nodes(op="placeholder"))[-1:]
        with graph.inserting_after(last[0]) if last else graph.inserting_before():
            if value.dim() == 0:
                with torch._subclasses.fake_tensor.unset_fake_temporarily():
                    number = value.item()
                made = graph.call_function(
                    torch.ops.aten.full.default, ([], number),
                    {"dtype": value.dtype, "device": value.device, "pin_memory": False})
            else:
                made = graph.placeholder(identifier(f"constant_{node.name}"))
                made.meta["data"] = value
                nodes.append(made)
        made.meta["val"] = mode.from_tensor(value, static_shapes=True)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    module.recompile()
    return nodes


def join_sizes(module):
    """If several integer arguments are always the same size, keeps only one: Inductor's wrapper
    would give them the same name. Returns the positions of the arguments that stay."""
    known, positions = {}, []
    for position, node in enumerate(module.graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            first = known.setdefault(value.node.expr, node)
            if first is not node:
                node.replace_all_uses_with(first)
                module.graph.erase_node(node)
                continue
        positions.append(position)
    module.recompile()
    return positions


class GraphLifter(Lifter):
    """A Lifter of a graph that returns `results`. `positions` are those of its placeholders among
    the arguments of the call."""

    takes_complex = True

    def __init__(self, graph, statics, shape_env, architectures, positions, results):
        import triton

        package = Package("coppice.torch", VERSION, torch=torch.__version__.split("+")[0],
                          triton=triton.__version__)
        super().__init__(package, graph, {}, shape_env, {}, architectures)
        self.positions, self.results = positions, results
        self.given, self.scalars, self.sizes = {}, {}, {}
        self.symbols, self.sources, self.called = {}, {}, None
        arguments = dict(zip(positions, graph.find_nodes(op="placeholder"), strict=True))
        for position, node in arguments.items():
            self.roles[node] = self.role(position, node, statics)
        for given in sorted(self.given.values(), key=lambda given: not given.flat):
            if not given.static:
                self.name_axes(given, arguments[given.position].meta["val"])
        for position, node in arguments.items():
            self.name_integer(position, node)

    def role(self, position, node, statics):
        """The role of a placeholder: an input, or nothing if nothing reads or returns it."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            named = isinstance(value, torch.SymInt)
            return "scalar", node.name if named else None
        if not node.users:
            return "unused", node.name
        fixed = all(isinstance(size, int) for size in (*value.shape, *value.stride()))
        expanded = tuple(axis for axis, stride in enumerate(value.stride())
                         if isinstance(stride, int) and stride == 0
                         and value.shape[axis] not in (0, 1))
        self.given[node.name] = Input(
            position, node.name, fixed and node.name in statics, expanded=expanded,
            flat=overlaps(value, expanded), fixed=fixed)
        return "input", node.name

    # Sizes.

    def simplify(self, expression):
        """Simplifies an expression, also by the values that Dynamo specialises on during this
        compilation. PyTorch's own cache of simplified sizes does not include these."""
        return super().simplify(expression).xreplace(self.shape_env.replacements)

    def name_axes(self, given, value):
        """Names the sizes of an input. They are symbols, which may be padded. For a flat input, in
        which strides locate the elements, they are scalars."""
        for axis, size in enumerate(value.shape):
            expression = self.simplify(size_of(size))
            if not expression.is_Symbol or axis in given.expanded:
                continue
            self.sizes.setdefault(expression.name, (given.position, axis))
            if expression.name in self.names:
                continue
            sources = self.sources_of(expression) or [f"{given.name}:{axis}"]
            name = self.name(expression, sources[0])
            if given.flat:
                self.scalars[name] = (given.position, axis)
                continue
            low, high = limits_of(self.shape_env, expression)
            self.symbols[name] = {"min": low, **({"max": high} if high < INT64_MAX >> 1 else {})}
            self.sources[name] = sources

    def name_integer(self, position, node):
        """An integer argument is a scalar, unless it is the size of an axis."""
        value = node.meta.get("val")
        if not isinstance(value, torch.SymInt):
            return
        expression = self.simplify(size_of(value))
        if not expression.is_Symbol:
            return
        self.sizes[expression.name] = (position, None)
        if expression.name in self.names:
            return
        sources = self.sources_of(expression) or [node.name]
        self.scalars[self.name(expression, sources[0])] = (position, None)

    def name(self, symbol, source):
        """A unique name in the program."""
        free = base = re.sub("_+", "_", identifier(source)).strip("_") or symbol.name
        number = 1
        while free in self.names.values() or free in RESERVED or not free.isidentifier():
            number += 1
            free = f"{base}_{number}" if base[0].isalpha() else f"size_{number}"
        self.names[symbol.name] = free
        return free

    def sources_of(self, symbol):
        """The names of all arguments and axes that have this size: "x:0" for axis 0 of the argument
        x, "n" for an integer. Empty if Dynamo does not know them."""
        result = []
        for known, sources in self.shape_env.var_to_sources.items():
            if known != symbol and self.simplify(known) != symbol:
                continue
            for source in sources:
                result.append(spelled(source))
        return sorted(set(result))

    # Inputs and results.

    def lift_placeholder(self, node):
        kind, name = self.roles[node]
        if kind == "scalar":
            value = node.meta.get("val")
            self.values[node] = None if name is None else self.simplify(size_of(value))
            return
        tensor = self.values[node] = self.layouts[name] = self.tensor_of(name, node.meta["val"])
        if kind == "unused":
            return
        given = self.given[name]
        sizes = tuple(sympy.Integer(1) if axis in given.expanded else size
                      for axis, size in enumerate(tensor.shape))
        seen = dataclasses.replace(tensor, shape=sizes)
        if given.flat:
            seen = dataclasses.replace(tensor, shape=(span(sizes, tensor.strides),),
                                       strides=(sympy.Integer(1),))
        self.inputs.append(name)
        self.buffers[name] = {"role": "input", **self.layout(seen),
                              **({"static": True} if given.static else {})}

    def lift_call(self, node):
        """Calls that PyTorch runs come one after another, as in eager. For that, each is declared
        to write the same buffer."""
        before, self.called = len(self.steps), node
        super().lift_call(node)
        for step in self.steps[before:]:
            if step["op"] == "call" and step["function"] != "gemm":
                layout = {"dtype": "i64", "shape": [1]}
                self.buffers["order_of_calls"] = {"role": "temporary", **layout}
                step["outputs"].append({"buffer": "order_of_calls", **layout})
                step["options"] = {**step.get("options", {}), "order": 1}

    def option(self, name, value, inputs):
        """An option that is a list of sizes may vary if it is the shape of the result. A size may
        vary if it is that of an axis of the result, or of an earlier input. The call takes the
        sizes from these tensors."""
        result = self.called.meta.get("val")
        shape = list(result.shape) if isinstance(result, torch.Tensor) else []
        shape = [self.simplify(size_of(size)) for size in shape]
        if name == "size" and shape and isinstance(value, (list, tuple)):
            sizes = [self.simplify(self.number_of(size)) for size in value]
            if sizes == shape:
                return "output:0"
        if isinstance(value, (torch.SymInt, torch.fx.Node)) and not isinstance(
                size := self.number_of(value), (Tensor, sympy.Integer)):
            for kind, axes in (("output:0", shape), *(
                    (f"input:{index}", one.shape) for index, one in enumerate(inputs))):
                if self.simplify(size) in axes:
                    return f"{kind}:{list(axes).index(self.simplify(size))}"
        return super().option(name, value, inputs)

    def number_of(self, value):
        return self.values[value] if isinstance(value, torch.fx.Node) else size_of(value)

    def allocate_results(self, node):
        """If there are several results, those that nobody reads get no elements, because PyTorch
        may give them other sizes on the CPU."""
        results = super().allocate_results(node)
        known = self.values[node]
        if not isinstance(known, tuple):
            return results
        read = {user.args[1] for user in node.users if user.target is operator.getitem}
        nothing = sympy.Integer(0)
        return [dataclasses.replace(one, shape=(nothing,), strides=(sympy.Integer(1),))
                if index not in read else one for index, one in enumerate(known)
                if isinstance(one, Tensor)]

    def lift_outputs(self, node, results):
        self.lifted_outputs = []
        for output, value in zip(self.results.outputs, returned_values(node), strict=True):
            known = self.values.get(value)
            if not isinstance(known, Tensor):
                raise ExportError(f"output {output.index} is not a tensor")
            check_output(f"output {output.index}", known, output.value,
                         self.dtype(output.value.dtype), self.shape_env, output.exact)
            self.lifted_outputs.append((known, value))
            name = f"output_{output.index}"
            while name in self.buffers:
                name += "_"
            self.return_tensor(name, known)

    def layout_of(self, value, base=None, within=False):
        """The layout of a fake tensor. The offset is from the beginning of `base`, or of the
        storage. Errors: ExportError if the tensor is `within` base, but begins before it."""
        offset = size_of(value.storage_offset())
        if base is not None:
            offset -= size_of(base.storage_offset()) * base.itemsize / value.itemsize
            if within and offset.is_negative:
                raise ExportError("a result begins before the tensor that it is a view of")
        return Layout(value.dtype, self.texts(map(size_of, value.shape)),
                      self.texts(map(size_of, value.stride())), self.text(offset))

    def returned(self):
        """Each result, with its layout or text."""
        result = []
        for one in self.results.returned:
            if isinstance(one, View):
                position = one.position if one.position < 0 else self.positions[one.position]
                result.append((dataclasses.replace(one, position=position, value=None, base=None),
                               self.layout_of(one.value, one.base, within=position < 0)))
            elif isinstance(one, Meta):
                result.append((Meta(), self.layout_of(one.value)))
            elif isinstance(one, Size):
                result.append((Size(), self.text(size_of(one.value))))
            elif isinstance(one, Output):
                result.append((Output(one.index), None))
            else:
                result.append((one, None))
        return result

    def output_layouts(self):
        """The layout of each output of the program."""
        return [self.layout_of(output.value, output.base, within=True) if output.exact else
                dataclasses.replace(self.layout_of(output.value),
                                    strides=self.texts(known.strides), offset=0)
                for output, (known, _) in zip(self.results.outputs, self.lifted_outputs)]

    def strides(self):
        """The strides of each result, in the form that AOTAutograd takes."""
        result = []
        for one in self.results.returned:
            value = getattr(one, "value", None)
            if isinstance(one, Output) and not one.exact:
                value = self.lifted_outputs[one.index][1].meta["val"]
            result.append(tuple(value.stride()) if isinstance(value, torch.Tensor) else None)
        return result

    def guards(self):
        """The guards that read sizes of this program. Dynamo checks all guards."""
        result, known = [], {*self.symbols, *self.scalars}
        for condition in open_conditions(self.shape_env):
            if any(self.names.get(symbol.name) not in known for symbol in condition.free_symbols):
                continue
            try:
                result.append(text_of(condition, self.names))
            except ExportError:
                continue  # Of what the language has not.
        return [guard for guard in dict.fromkeys(result) if guard != 1]

    def lowered(self, constants):
        self.run(None)
        for name in self.inputs:
            self.given[name].mutated = self.buffers[name].get("mutated", False)
        program = {"symbols": self.symbols, "inputs": self.inputs, "outputs": self.outputs,
                   "buffers": self.buffers, "steps": self.steps}
        read = set(re.findall(r"\w+", str([self.buffers, self.steps])))
        self.scalars = {name: at for name, at in self.scalars.items() if name in read}
        limits = limits_of_program(program)
        for name, limit in limits.items():
            self.symbols[name]["max"] = max(limit, self.symbols[name]["min"])
        guards = self.guards()
        if guards:
            program["guards"] = guards
        if self.scalars:
            program["scalars"] = {name: {"bind": "key"} for name in sorted(self.scalars)}
        self.package.add_program("main", program)
        return Lowered(self.package, program, [self.given[name] for name in self.inputs],
                       {name: self.scalars[name] for name in sorted(self.scalars)},
                       {self.names[symbol]: place for symbol, place in self.sizes.items()
                        if symbol in self.names},
                       self.sources, self.output_layouts(), self.returned(), self.strides(),
                       constants, limits,
                       {name: symbol for symbol, name in self.names.items()})
