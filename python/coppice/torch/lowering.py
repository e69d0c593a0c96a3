"""Lowers one graph that AOTAutograd made to a program of a package in memory.

    graph of aten operators ──► Inductor, for CUDA ──► the wrapper's graph ──► Lifter ──► Lowered

What a program takes is less than what the graph is called with, and what the graph returns more
than what a program gives back: integers, arguments as they came, views of either. Lowered says how
one becomes the other.
"""

import contextlib
import dataclasses
import keyword
import operator
import re
from unittest import mock

import sympy
import torch
from torch._inductor import compile_fx, lowering
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_leaves

from coppice.export import inductor
from coppice.export.expressions import text_of
from coppice.export.kernels import Architecture
from coppice.export.lift import Lifter, Tensor, returned_values
from coppice.export.manifest import DTYPE_BYTES, VERSION, ExportError, Package
from coppice.export.sizes import INT64_MAX, identifier, limits_of, open_conditions, size_of
from coppice.torch.frames import spelled

# What expressions mean something else by.
RESERVED = {"and", "or", "not", "ceildiv", "align", "min", "max", "select", *keyword.kwlist}
EXTENT_BITS_MAX, ELEMENTS_MAX = 24, 1 << 59
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


@dataclasses.dataclass
class Output:
    """An output of the program, by its index."""

    index: int


@dataclasses.dataclass
class Size:
    text: object  # An integer or an expression of sizes.


@dataclasses.dataclass
class View:
    """A view of an argument or of another output, which has no memory of its own."""

    position: int  # Of an argument; -1: of the output `index`.
    index: int
    whole: bool  # The argument as it came.
    shape: list  # Texts; strides and offset count elements.
    strides: list
    offset: object


@dataclasses.dataclass
class Lowered:
    package: Package
    program: dict
    inputs: list  # Of Input, in the program's order.
    scalars: dict  # {name: position}, in the program's order.
    sizes: dict  # {name: (position, axis)}, or (position, None) of an integer.
    sources: dict  # {symbol: names that report() and options call it by; tied sizes have several}
    returned: list  # None, Output, Size or View, of each result of the graph.
    strides: list  # Of each result, for AOTAutograd; None of what is no tensor.
    constants: list  # Tensors behind the arguments.

    def calls(self):
        """Functions that steps call, but for gemm."""
        return sorted({step["function"] for step in self.program["steps"]
                       if step["op"] == "call"} - {"gemm"})

    def launches(self):
        return sum(step["op"] == "kernel" for step in self.program["steps"])

    def seeded(self):
        return any(buffer["role"] == "seed" for buffer in self.program["buffers"].values())


def lower(module, inputs, statics, capability, options, cuda, patches, flags):
    """Lowers a graph module, which is changed, for its fake inputs. `statics` are names of
    placeholders that lie where they always lie; `cuda` says that the device is there; `patches` of
    Inductor's configuration are below what the options say; `flags` are what Inductor passes on.
    Errors: ExportError, CompilerError."""
    mode = fake_mode_of(module)
    constants = lift_constants(module, mode)
    inputs = [*inputs, *(node.meta["val"] for node in constants)]
    patches = inductor.settings({**CONFIGURATION, **patches, **options.inductor,
                                 "fallback_random": options.fallback_random})
    with inductor.compiling(capability, cubins=cuda, pretended=not cuda), \
            torch._inductor.config.patch(patches), V.set_aot_compilation(True), \
            inductor.separate_results(), patched_lowerings():
        if not cuda:
            inductor.move_to_cuda(module)
            inputs = [inductor.on_cuda(value) for value in inputs]
        wrapper = compile_fx.compile_fx_inner(
            module, inputs, fx_wrapper=True, cpp_wrapper=False, cudagraphs=None, **flags)
    image = "cubin" if cuda else "ptx"
    lifted = GraphLifter(wrapper.filename.graph, statics | {node.name for node in constants},
                         mode.shape_env, [Architecture(capability, image)])
    return lifted.lowered([node.meta["data"] for node in constants])


def evaluator(names, texts):
    """A function of sizes, in the order of `names`, that computes expressions of them."""
    body = ", ".join(str(text) for text in texts)
    return eval(f"lambda {', '.join(names)}: ({body}{',' if texts else ''})",
                {"__builtins__": {}, **FUNCTIONS})


@contextlib.contextmanager
def patched_lowerings():
    """Within, variances take two steps, and random bits are an operator's own result, which the
    wrapper's graph can hold, in place of lines of Python."""
    drawn = torch.ops.aten.bernoulli.p
    with mock.patch.object(lowering, "use_two_step_variance", lambda *_, **__: True), \
            mock.patch.dict(lowering.lowerings, {
                drawn: lowering.fallback_handler(drawn, add_to_fallback_set=False)}):
        yield


def fake_mode_of(module):
    """What makes the tensors that stand for those of a graph."""
    for node in module.graph.nodes:
        for value in tree_leaves(node.meta.get("val")):
            if isinstance(value, torch._subclasses.FakeTensor):
                return value.fake_mode
    raise ExportError("it has no tensor")


def lift_constants(module, mode):
    """Makes tensors that the graph holds inputs of it, which come last; what they hold is in
    meta["data"] of their nodes. Scalars become numbers."""
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


class GraphLifter(Lifter):
    """A Lifter of a graph whose results need not be tensors of its own."""

    def __init__(self, graph, statics, shape_env, architectures):
        import triton

        package = Package("coppice.torch", VERSION, torch=torch.__version__.split("+")[0],
                          triton=triton.__version__)
        super().__init__(package, graph, {}, shape_env, {}, architectures)
        self.placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self.given, self.returned, self.scalars, self.sizes = {}, [], {}, {}
        self.symbols, self.sources, self.called = {}, {}, None
        for position, node in enumerate(self.placeholders):
            self.roles[node] = self.role(position, node, statics)
        for given in self.given.values():
            if not given.static:
                self.name_axes(given, self.placeholders[given.position].meta["val"])
        for position, node in enumerate(self.placeholders):
            self.name_integer(position, node)

    def role(self, position, node, statics):
        """An input; what is only returned, or read by nothing, is none."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            named = isinstance(value, torch.SymInt)
            return "scalar", node.name if named else None
        if all(user.op == "output" for user in node.users):
            return "passed", node.name
        fixed = all(isinstance(size, int) for size in (*value.shape, *value.stride()))
        expanded = tuple(axis for axis, stride in enumerate(value.stride())
                         if isinstance(stride, int) and stride == 0 and value.shape[axis] != 1)
        self.given[node.name] = Input(position, node.name, fixed and node.name in statics,
                                      expanded=expanded)
        return "input", node.name

    # Sizes.

    def simplify(self, expression):
        """With what Dynamo specialises on for the time of this compilation, which PyTorch's own
        cache of simplified sizes has not heard of."""
        return super().simplify(expression).xreplace(self.shape_env.replacements)

    def name_axes(self, given, value):
        for axis, size in enumerate(value.shape):
            expression = self.simplify(size_of(size))
            if not expression.is_Symbol or axis in given.expanded:
                continue
            self.sizes.setdefault(expression.name, (given.position, axis))
            if expression.name in self.names:
                continue
            sources = self.sources_of(expression) or [f"{given.name}:{axis}"]
            name = self.name(expression, sources[0])
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
        self.scalars[self.name(expression, sources[0])] = position

    def name(self, symbol, source):
        """A name in the program of its own."""
        free = base = re.sub("_+", "_", identifier(source)).strip("_") or symbol.name
        number = 1
        while free in self.names.values() or free in RESERVED or not free.isidentifier():
            number += 1
            free = f"{base}_{number}" if base[0].isalpha() else f"size_{number}"
        self.names[symbol.name] = free
        return free

    def sources_of(self, symbol):
        """"x:0" of axis 0 of the argument x, "n" of an integer; of all that have this size. Empty
        if Dynamo does not say."""
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
        if kind == "passed":
            return
        given = self.given[name]
        shown = [(1 if axis in given.expanded else size) for axis, size in enumerate(tensor.shape)]
        shown = dataclasses.replace(tensor, shape=tuple(map(self.number, shown)))
        self.inputs.append(name)
        self.buffers[name] = {"role": "input", **self.layout(shown),
                              **({"static": True} if given.static else {})}

    def lift_call(self, node):
        """Calls that draw random numbers come one after another, as in eager: each seems to write
        one buffer."""
        before, self.called = len(self.steps), node
        super().lift_call(node)
        if torch.Tag.nondeterministic_seeded not in node.target.tags:
            return
        for step in self.steps[before:]:
            if step["op"] == "call":
                self.buffers["random_order"] = {"role": "temporary", "dtype": "i64", "shape": [1]}
                step["outputs"].append({"buffer": "random_order", "dtype": "i64", "shape": [1]})

    def option(self, name, value, inputs):
        """A list of sizes that is the result's own shape may vary: a call takes it from there."""
        result = self.called.meta.get("val")
        if name == "size" and isinstance(result, torch.Tensor):
            sizes = [self.number(size) if isinstance(size, torch.fx.Node) else size_of(size)
                     for size in value]
            shape = [size_of(size) for size in result.shape]
            if [self.simplify(size) for size in sizes] == [self.simplify(size) for size in shape]:
                return "output:0"
        return super().option(name, value, inputs)

    def allocate_results(self, node):
        """Of several results those that nobody reads have no elements, as PyTorch may give them
        other sizes on the CPU."""
        results = super().allocate_results(node)
        known = self.values[node]
        if not isinstance(known, tuple):
            return results
        read = {user.args[1] for user in node.users if user.target is operator.getitem}
        nothing = sympy.Integer(0)
        return [dataclasses.replace(one, shape=(nothing,), strides=(sympy.Integer(1),))
                if index not in read else one for index, one in enumerate(known) if one is not None]

    def lift_outputs(self, node, names):
        for value in returned_values(node):
            self.returned.append(self.result(value))

    def result(self, value):
        known = self.values.get(value) if isinstance(value, torch.fx.Node) else value
        if known is None:
            return None
        if not isinstance(known, Tensor):
            return Size(self.text(known))
        position = next((index for index, node in enumerate(self.placeholders)
                         if self.roles[node][1] == known.buffer
                         and self.roles[node][0] != "scalar"), -1)
        if position >= 0 or known.buffer in self.outputs:
            return self.view_of(known, position)
        name = f"output_{len(self.outputs)}"
        while name in self.buffers:
            name += "_"
        root = self.layouts[known.buffer]
        if self.is_all(known) or known.dtype != root.dtype:
            self.return_tensor(name, known)
            return Output(len(self.outputs) - 1)
        self.return_tensor(name, root)  # Results that are parts of it share its bytes.
        return self.view_of(self.values[value], position)

    def view_of(self, tensor, position):
        root = self.layouts[tensor.buffer]
        if tensor.dtype != root.dtype:
            raise ExportError("returns a view of another type")
        return View(position, self.outputs.index(tensor.buffer) if position < 0 else -1,
                    tensor == root, self.texts(tensor.shape), self.texts(tensor.strides),
                    self.text(tensor.offset / DTYPE_BYTES[tensor.dtype]))

    def guards(self):
        """Those that read sizes of this program; Dynamo checks them all."""
        result, known = [], {*self.symbols, *self.scalars}
        for condition in open_conditions(self.shape_env):
            if any(self.names.get(symbol.name) not in known for symbol in condition.free_symbols):
                continue
            try:
                result.append(text_of(condition, self.names))
            except ExportError:
                continue  # Of what the language has not.
        return [guard for guard in dict.fromkeys(result) if guard != 1]

    def limit(self):
        """Gives sizes without a maximum one, so that a reader can say how large tensors get: the
        largest power of two with which none has more than ELEMENTS_MAX."""
        free = [name for name, symbol in self.symbols.items() if "max" not in symbol]
        shapes = [buffer["shape"] for buffer in self.buffers.values() if "shape" in buffer]
        elements = evaluator(self.symbols | self.scalars,
                             [" * ".join(f"({size})" for size in [1, *shape]) for shape in shapes])
        for bits in range(EXTENT_BITS_MAX, 0, -1):
            known = {name: min(symbol.get("max", 1 << bits), 1 << bits)
                     for name, symbol in self.symbols.items()}
            if max(elements(**known, **dict.fromkeys(self.scalars, 1)), default=0) < ELEMENTS_MAX:
                break
        if bits < EXTENT_BITS_MAX:
            for name in free:
                self.symbols[name]["max"] = 1 << bits

    def lowered(self, constants):
        self.run(None)
        self.limit()
        for name in self.inputs:
            self.given[name].mutated = self.buffers[name].get("mutated", False)
        program = {"symbols": self.symbols, "inputs": self.inputs, "outputs": self.outputs,
                   "buffers": self.buffers, "steps": self.steps}
        read = set(re.findall(r"\w+", str([self.buffers, self.steps])))
        self.scalars = {name: at for name, at in self.scalars.items() if name in read}
        guards = self.guards()
        if guards:
            program["guards"] = guards
        if self.scalars:
            program["scalars"] = {name: {"bind": "key"} for name in sorted(self.scalars)}
        self.package.add_program("main", program)
        (output,) = self.graph.find_nodes(op="output")
        strides = [tuple(value.meta["val"].stride())
                   if isinstance(value, torch.fx.Node)
                   and isinstance(value.meta.get("val"), torch.Tensor) else None
                   for value in returned_values(output)]
        return Lowered(self.package, program, [self.given[name] for name in self.inputs],
                       {name: self.scalars[name] for name in sorted(self.scalars)},
                       {self.names[symbol]: place for symbol, place in self.sizes.items()
                        if symbol in self.names},
                       self.sources, self.returned, strides, constants)
