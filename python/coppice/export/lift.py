"""Turns the graph that Inductor's wrapper writes into a program of a package.

    node of the graph                    becomes
    placeholder                          an input, a constant, or a scalar
    empty_strided                        a temporary, or the output that it is returned as
    as_strided                           the same buffer at another offset
    operator whose result is a view      the same buffer, perhaps as another type
    launch of a Triton kernel            a kernel step
    mm, bmm, addmm, baddbmm              a `gemm` call
    any other operator                   a call `aten.<operator>.<overload>`; its option `complex`
                                         says which tensors are pairs of parts of complex numbers
    copy_                                a copy of bytes, or a call that converts
    arithmetic on sizes                  expressions
"""

import dataclasses
import json
import operator
import re

import sympy
import torch
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)

from coppice.export import kernels
from coppice.export.conversion import is_view_of, retyped
from coppice.export.expressions import text_of
from coppice.export.inductor import line_of, shares_elements
from coppice.export.manifest import ExportError, fraction, walk
from coppice.export.oracle import check_output, hints_of
from coppice.export.sizes import in_whole_chunks, is_dense, overlaps, size_of, span
from coppice.export.tensors import (COMPLEX, DTYPES, ELEMENT_BYTES, PARTS, Tensor, broadcast,
                                     in_pairs)
from coppice.export.ttir import accesses_of_any

aten = torch.ops.aten
FACTORS = ("f32", "f16", "bf16", "f64")  # What a `gemm` step multiplies.
# Of each GEMM: which arguments are added, left and right.
GEMMS = {aten.mm: (None, 0, 1), aten.bmm: (None, 0, 1), aten.addmm: (0, 1, 2),
         aten.baddbmm: (0, 1, 2)}
SIZE_OPERATORS = ("sym_size", "sym_stride", "sym_numel", "sym_storage_offset")
RANDOM_SEEDS = (aten.randint.low_out, aten.randint.low, aten.randint.out)
GRID_AXES = {"Grid1D": "x", "Grid2D": "xy", "Grid3D": "xyz"}


class Lifter:
    """Reads a graph node by node. `roles` says what each placeholder is: ("input", name),
    ("constant", name) or ("scalar", symbol's SymPy name or None)."""

    takes_complex = False  # Whether who calls the program makes pairs of complex numbers.

    def __init__(self, package, graph, roles, shape_env, names, architectures):
        self.package, self.graph, self.roles = package, graph, roles
        self.shape_env, self.names, self.architectures = shape_env, names, architectures
        self.values, self.buffers, self.steps, self.simplified = {}, {}, [], {}
        self.inputs, self.outputs, self.written = [], [], set()
        self.layouts = {}  # Of temporaries: dtype, shape, strides.

    def run(self, results):
        """Fills buffers, steps, inputs and outputs. `results` are the fake tensors that the graph
        returns, by the name that each is to have. Errors: ExportError with the node's name and the
        line of the model that it comes from, if it is known."""
        for node in self.graph.nodes:
            try:
                self.lift(node, results)
            except ExportError as error:
                raise ExportError(f"{node.name} ({node.target}): {error}{line_of(node)}") from error
        used = {part["buffer"] for part in walk([self.steps, list(self.buffers.values())])
                if "buffer" in part}
        self.buffers = {name: buffer for name, buffer in self.buffers.items()
                        if buffer["role"] not in ("temporary", "seed") or name in used}

    def lift(self, node, results):
        if node.op == "placeholder":
            self.lift_placeholder(node)
        elif node.op == "output":
            self.lift_outputs(node, results)
        elif node.op == "get_attr":
            self.lift_attribute(node)
        elif node.target is torch.empty_strided:
            self.allocate(node.name, node.meta["val"])
            self.values[node] = self.whole(node.name)
        elif node.target in (torch.as_strided, retyped):
            lift = self.view if node.target is torch.as_strided else self.retyped
            self.values[node] = lift(*node.args)
        elif node.target is triton_kernel_wrapper_mutation:
            self.lift_launch(node)
        elif node.target is operator.getitem and isinstance(self.values.get(node.args[0]), tuple):
            self.values[node] = self.values[node.args[0]][node.args[1]]
        elif isinstance(node.meta.get("val"), (int, torch.SymInt)) and self.is_arithmetic(node):
            self.values[node] = self.simplify(size_of(node.meta["val"]))
        elif isinstance(node.target, torch._ops.OpOverload):
            self.lift_call(node)
        else:
            raise ExportError("packages have no step for this operation")

    @staticmethod
    def is_arithmetic(node):
        if not isinstance(node.target, torch._ops.OpOverload):
            return True
        return node.target.overloadpacket.__name__ in SIZE_OPERATORS

    def simplify(self, expression):
        if expression.is_Integer:
            return expression
        if expression not in self.simplified:
            self.simplified[expression] = in_whole_chunks(self.shape_env.replace(expression))
        return self.simplified[expression]

    def text(self, expression):
        """An integer or expression with the names of the program. Errors: ExportError if its value
        is known only at run time."""
        expression = self.simplify(sympy.sympify(expression))
        unknown = sorted(symbol.name for symbol in expression.free_symbols
                         if symbol.name not in self.names)
        if unknown:
            raise ExportError(f"the size {expression} depends on {', '.join(unknown)}, and not "
                              "only on sizes of inputs; either this size depends on data, or an "
                              "axis must be dynamic")
        return text_of(expression, self.names)

    def texts(self, expressions):
        return [self.text(expression) for expression in expressions]

    def dtype(self, dtype):
        if self.takes_complex and dtype in COMPLEX:
            return COMPLEX[dtype]
        if dtype not in DTYPES:
            raise ExportError(f"packages do not support the dtype {dtype}")
        return DTYPES[dtype]

    def tensor_of(self, buffer, value, offset=0):
        """The view of a buffer that a fake tensor describes."""
        return Tensor(buffer, sympy.sympify(offset), self.dtype(value.dtype),
                      tuple(self.simplify(size_of(size)) for size in value.shape),
                      tuple(self.simplify(size_of(stride)) for stride in value.stride()))

    def whole(self, name):
        return self.layouts[name]

    # Buffers.

    def lift_placeholder(self, node):
        kind, name = self.roles[node]
        value = node.meta.get("val")
        if kind == "scalar":
            self.values[node] = None if name is None else self.simplify(size_of(value))
            return
        tensor = self.values[node] = self.tensor_of(name, value)
        self.layouts[name] = tensor
        if kind == "constant":
            self.buffers[name] = {"role": "constant", "constant": name}
        else:
            self.inputs.append(name)
            self.buffers[name] = {"role": "input", **self.layout(tensor)}

    def lift_attribute(self, node):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            raise ExportError("operators with subgraphs, such as cond and while_loop, cannot be "
                              "exported")
        raise ExportError("Inductor made a constant tensor, which has no data without a device")

    def layout(self, tensor):
        tensor = in_pairs(tensor)
        result = {"dtype": tensor.dtype, "shape": self.texts(tensor.shape)}
        if not is_dense(tensor.shape, tensor.strides):
            result["strides"] = self.texts(tensor.strides)
        return result

    def allocate(self, name, value):
        tensor = self.layouts[name] = self.tensor_of(name, value)
        if is_dense(tensor.shape, tensor.strides):
            self.buffers[name] = {"role": "temporary", **self.layout(tensor)}
        else:
            bytes_ = span(tensor.shape, tensor.strides) * ELEMENT_BYTES[tensor.dtype]
            self.buffers[name] = {"role": "temporary", "bytes": self.text(bytes_)}

    def view(self, source, shape, strides, offset=0):
        """as_strided counts its offset from the beginning of the tensor that Inductor treats as a
        buffer."""
        base = self.values[source]
        begin = base.offset + self.number(offset) * ELEMENT_BYTES[base.dtype]
        shape, strides = (tuple(self.number(size) for size in sizes) for sizes in (shape, strides))
        return Tensor(base.buffer, begin, base.dtype, shape, strides)

    def retyped(self, source, dtype):
        return dataclasses.replace(self.values[source], dtype=self.dtype(dtype))

    def lift_view(self, node):
        """Lifts a result that is a view of what the operator reads. Inductor treats it as a
        separate buffer. Returns whether the node has such a result."""
        source, value = node.args[0] if node.args else None, node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not is_view_of(value, source) or (
                node.target._schema.is_mutable):
            return False
        given, base = source.meta["val"], self.values[source]
        if (value.is_conj(), value.is_neg()) != (given.is_conj(), given.is_neg()):
            return False
        offset = base.offset + self.simplify(
            size_of(value.storage_offset()) * value.itemsize -
            size_of(given.storage_offset()) * given.itemsize)
        self.values[node] = self.tensor_of(base.buffer, value, offset)
        return True

    def number(self, value):
        """A size in a node's arguments."""
        if isinstance(value, torch.fx.Node):
            return self.values[value]
        return sympy.sympify(value)

    def operand(self, tensor):
        result = {"buffer": tensor.buffer}
        if tensor.offset != 0:
            result["offset"] = self.text(tensor.offset)
        return result

    def full_view(self, tensor):
        return {**self.operand(tensor), **self.layout(tensor)}

    def lift_outputs(self, node, results):
        values = returned_values(node)
        if len(results) != len(values):
            raise ExportError(f"Inductor lowered only {len(values)} of {len(results)} outputs: "
                              f"{', '.join(results)}")
        for (name, expected), value in zip(results.items(), values):
            tensor = self.values.get(value) if value is not None else None
            if not isinstance(tensor, Tensor):
                raise ExportError(f"the output {name} is not a tensor")
            check_output(f"the output {name}", tensor, expected, self.dtype(expected.dtype),
                         self.shape_env)
            hints = hints_of(self.shape_env)
            if overlaps(*([int(sympy.sympify(size).xreplace(hints)) for size in part]
                          for part in (tensor.shape, tensor.strides))):
                raise ExportError(f"elements of the output {name} share memory, as after "
                                  "expand or unfold; return a copy made with .contiguous()")
            self.return_tensor(name, tensor)

    def return_tensor(self, name, tensor):
        """Returns the buffer itself if nothing else refers to it, a view of its bytes if their
        owner stays alive, and a copy otherwise."""
        if name in self.buffers:
            raise ExportError(f"the output {name} has the same name as another buffer; rename the "
                              "output")
        root = self.buffers[tensor.buffer]
        layout = {"role": "output", **self.layout(tensor)}
        self.outputs.append(name)
        if root["role"] == "temporary" and self.is_all(tensor):
            self.rename(tensor.buffer, name, layout)
        elif root["role"] in ("input", "constant", "output") and "alias" not in root:
            self.buffers[name] = {**layout, "alias": self.operand(tensor)}
        else:
            self.buffers[name] = layout
            size = span(tensor.shape, tensor.strides) * ELEMENT_BYTES[tensor.dtype]
            self.steps.append({"op": "memcpy", "to": {"buffer": name},
                               "from": self.operand(tensor), "bytes": self.text(size)})

    def is_all(self, tensor):
        """Whether a tensor has all bytes of its buffer, in any shape."""
        root = self.layouts[tensor.buffer]
        missing = span(root.shape, root.strides) - span(tensor.shape, tensor.strides)
        return (tensor.dtype, tensor.offset) == (root.dtype, 0) and sympy.expand(missing) == 0

    def rename(self, old, new, buffer):
        """A temporary becomes an output."""
        del self.buffers[old]
        self.buffers[new] = buffer
        self.layouts[new] = dataclasses.replace(self.layouts[old], buffer=new)
        for node, value in self.values.items():
            if isinstance(value, Tensor) and value.buffer == old:
                self.values[node] = dataclasses.replace(value, buffer=new)
        for part in walk(self.steps):
            if part.get("buffer") == old:
                part["buffer"] = new

    # Launches.

    def lift_launch(self, node):
        tuner = node.meta["tuner"]
        arguments = {**node.kwargs["kwargs"],
                     **kernel_side_table.get_constant_args(node.kwargs["constant_args_idx"])}
        compiled = [(result.kernel, result.config) for result in tuner.compile_results]
        if node.kwargs.get("tma_descriptor_metadata"):
            raise ExportError("TMA descriptors made on the host cannot be exported")
        name = tuner.inductor_meta.get("kernel_name") or tuner.fn.__name__
        grid_type = tuner.inductor_meta.get("grid_type")
        blocks = [{key: value for key, value in config.kwargs.items()
                   if key.endswith("BLOCK") and isinstance(value, int)} for _, config in compiled]
        named = grid_type in GRID_AXES
        variants = [("" if len(compiled) == 1 else str(index), kernel, block if named else None)
                    for index, ((kernel, _), block) in enumerate(zip(compiled, blocks))]
        kernel, parameters = kernels.add_kernel(self.package, name, variants, self.architectures)
        (grid,) = node.kwargs["grid"]
        grid = [self.number(blocks_) for blocks_ in grid]
        if named:
            grid = self.named_grid(GRID_AXES[grid_type], arguments, blocks[0], grid)
        step = {"op": "kernel", "kernel": kernel,
                "grid": [size if isinstance(size, str) else self.text(size) for size in grid]}
        multiples = kernels.divisibility(compiled[0][0].src)
        found = accesses_of_any([image.asm["ttir"] for image, _ in compiled],
                                [name for name, _ in parameters])
        step["args"] = [self.argument(parameter, kind, arguments[parameter],
                                      multiples.get(parameter), found[parameter])
                        for parameter, kind in parameters]
        step["args"] += kernels.trailing_arguments(self.package, kernel)
        if grid_type in GRID_AXES:
            shared = any(shares_elements(tuner, config) for _, config in compiled)
            self.keep_what_is_read(step, arguments, shared)
        self.steps.append(step)
        self.note_writes(step["args"])

    def keep_what_is_read(self, step, arguments, shared):
        """Lets a kernel read a copy of a buffer if it reads the buffer by one parameter and writes
        it by another, and several threads may compute the same element (all elements are `shared`,
        or those of a row in a reduction). Otherwise a late thread would read what another has
        written."""
        rows = self.number(arguments["xnumel"]) if "xnumel" in arguments else 1
        reduces = any(re.fullmatch(r"r\d*_?numel", name) for name in arguments)
        written = {argument["buffer"] for argument in step["args"]
                   if argument.get("access") in ("w", "rw")}
        for argument in step["args"]:
            name = argument.get("buffer")
            if argument.get("access") != "r" or name not in written:
                continue
            layout = self.layouts[name]
            count = span(layout.shape, layout.strides)
            row = count == 1 or reduces and sympy.expand(count - rows) == 0
            if not shared and not row:
                continue
            copy = f"{name}_read_{len(self.steps)}"
            bytes_ = self.text(count * ELEMENT_BYTES[layout.dtype])
            self.buffers[copy] = {"role": "temporary", "bytes": bytes_}
            self.layouts[copy] = dataclasses.replace(layout, buffer=copy)
            self.steps.append({"op": "memcpy", "to": {"buffer": copy}, "from": {"buffer": name},
                               "bytes": bytes_})
            argument["buffer"] = copy

    def named_grid(self, axes, arguments, blocks, plain):
        """The grid as an expression of the kernel's block sizes, if that gives the same grid."""
        result = list(plain)
        for index, axis in enumerate(axes):
            block = f"{axis.upper()}BLOCK"
            elements = self.number(arguments[f"{axis}numel"]) if f"{axis}numel" in arguments else 0
            if block in blocks and elements != 0:
                known = self.text(elements)
                result[index] = f"ceildiv({known}, {block})"
        return result

    def argument(self, parameter, kind, value, multiple, found):
        compiled_for = {"divisible_by": multiple} if multiple else {}
        if kind.startswith("*"):
            if value is None or not found:
                return {"null": True}
            tensor = self.values[value]
            return {**self.operand(tensor), "access": self.access(found, tensor),
                    **compiled_for}
        if not isinstance(value, (int, float)):
            known = self.number(value)
            if known is None:
                raise ExportError(f"{parameter} varies between calls and is not an integer: pass "
                                  "it as a tensor")
            value = known if known.is_number else self.text(known)
        return kernels.number_argument(parameter, kind, value, multiple)

    def access(self, found, tensor):
        """The access of a parameter. If something wrote a buffer before, part of that may remain,
        so a kernel that only writes the buffer may not write all of it."""
        fresh = self.buffers[tensor.buffer]["role"] == "temporary"
        return found if found != "w" or (fresh and tensor.buffer not in self.written) else "rw"

    def note_writes(self, arguments):
        for argument in arguments:
            if argument.get("access") in ("w", "rw"):
                self.mark_written(argument["buffer"])

    def mark_written(self, name):
        self.written.add(name)
        buffer = self.buffers[name]
        if buffer["role"] == "constant":
            raise ExportError(f"writes to the constant {name}; make the constant an input")
        if buffer["role"] == "input":
            buffer["mutated"] = True

    # Calls.

    def lift_call(self, node):
        if node.target in RANDOM_SEEDS and self.lift_seeds(node):
            return
        packet = node.target.overloadpacket
        if packet in GEMMS and self.are_factors(node):
            self.lift_gemm(node, *GEMMS[packet])
            return
        if self.lift_view(node):
            return
        if node.target is aten.copy_.default:
            self.lift_copy(node)
            return
        inputs, outputs, options, changed = self.call_arguments(node)
        if outputs:
            self.values[node] = outputs[0]
        elif changed and not makes_tensors(node.target):
            self.values[node] = changed[0]
        else:
            outputs = self.allocate_results(node)
        self.add_call(str(node.target), inputs, outputs + changed, options)

    def are_factors(self, node):
        """Whether a `gemm` step takes the tensors of a product. PyTorch multiplies others."""
        return all(known.dtype in FACTORS for part in node.all_input_nodes
                   if isinstance(known := self.values.get(part), Tensor))

    def lift_copy(self, node):
        """Lifts a copy: as a copy of bytes, or as PyTorch's operator if types or layouts differ."""
        target, source = (self.values[part] for part in node.args[:2])
        self.values[node] = target
        if dataclasses.replace(source, buffer=target.buffer, offset=target.offset) == target:
            size = span(target.shape, target.strides) * ELEMENT_BYTES[target.dtype]
            if is_dense(target.shape, target.strides):
                self.steps.append({"op": "memcpy", "to": self.operand(target),
                                   "from": self.operand(source), "bytes": self.text(size)})
                self.mark_written(target.buffer)
                return
        dtype = str(node.args[0].meta["val"].dtype)
        self.add_call("aten._to_copy.default", [source], [target], {"dtype": dtype})

    def call_arguments(self, node):
        """Tensors that are read, tensors of `out`, options (all other arguments), and tensors that
        are changed in place."""
        inputs, outputs, options, changed = [], [], {}, []
        given = dict(zip((argument.name for argument in node.target._schema.arguments), node.args))
        given.update(node.kwargs)
        for argument in node.target._schema.arguments:
            if argument.name not in given:
                continue
            value = given[argument.name]
            if argument.is_out:
                outputs.append(self.values[value])
            elif isinstance(value, torch.fx.Node) and isinstance(self.values[value], Tensor):
                inputs.append(self.values[value])
                if argument.alias_info is not None and argument.alias_info.is_write:
                    changed.append(self.values[value])
            else:
                before = len(inputs)
                options[argument.name] = self.option(argument.name, value, inputs)
                if argument.alias_info is not None and argument.alias_info.is_write:
                    changed += inputs[before:]
        return inputs, outputs, options, changed

    def option(self, name, value, inputs):
        """An option: an integer, or JSON. Tensors in a list are added to the inputs, and the list
        has "input:3" in their place."""
        def plain(part):
            if isinstance(part, (list, tuple)):
                return [plain(member) for member in part]
            if isinstance(part, torch.fx.Node):
                known = self.values[part]
                if isinstance(known, Tensor):
                    inputs.append(known)
                    return f"input:{len(inputs) - 1}"
                if not known.is_Integer:
                    raise ExportError(f"the option {name} = {known} varies between calls")
                return int(known)
            if isinstance(part, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise ExportError(f"the option {name} = {part} varies between calls")
            if isinstance(part, float):
                return fraction(part)
            if isinstance(part, complex):
                return f"complex:{part.real!r}:{part.imag!r}"
            return part if part is None or isinstance(part, (bool, int, str)) else str(part)

        known = plain(value)
        if type(known) is int:
            return known
        return known if isinstance(known, str) else json.dumps(known, separators=(",", ":"))

    def allocate_results(self, node):
        """Buffers for the results that the operator would allocate itself. If there are several,
        some may be left out, and some are sizes, such as those that attention returns for its
        backward pass."""
        value = node.meta.get("val")
        many = isinstance(value, (tuple, list))
        results = []
        for index, one in enumerate(value if many else [value]):
            if many and (one is None or isinstance(one, (int, torch.SymInt))):
                results.append(None if one is None else self.simplify(size_of(one)))
                continue
            if not isinstance(one, torch.Tensor):
                raise ExportError("returns a value that is not a tensor: the value depends on "
                                  "data, or a package cannot hold it")
            name = f"{node.name}_{index}" if many else node.name
            self.allocate(name, one)
            results.append(self.whole(name))
        self.values[node] = tuple(results) if many else results[0]
        return [result for result in results if isinstance(result, Tensor)]

    def lift_gemm(self, node, added, left, right):
        arguments = list(node.args)
        out = node.kwargs.get("out")
        result = self.values[out] if out is not None else self.allocate_results(node)[0]
        inputs = [self.values[arguments[left]], self.values[arguments[right]]]
        options = {}
        if added is not None:
            inputs.append(broadcast(self.values[arguments[added]], result.shape))
            factors = {name: self.factor(node, name) for name in ("alpha", "beta")}
            options = {name: fraction(value) for name, value in factors.items() if value != 1}
        self.values[node] = result
        self.add_call("gemm", inputs, [result], options)

    def factor(self, node, name):
        """A factor of a product. Errors: ExportError if it varies."""
        value = node.kwargs.get(name, 1)
        known = self.values[value] if isinstance(value, torch.fx.Node) else value
        if getattr(known, "is_number", isinstance(known, (int, float))):
            return float(known)
        raise ExportError(f"the option {name} = {known} varies between calls")

    def add_call(self, function, inputs, outputs, options):
        step = {"op": "call", "function": function,
                "inputs": [self.full_view(tensor) for tensor in inputs],
                "outputs": [self.full_view(tensor) for tensor in outputs]}
        pairs = {kind: [index for index, tensor in enumerate(tensors) if tensor.dtype in PARTS]
                 for kind, tensors in (("inputs", inputs), ("outputs", outputs))}
        if any(pairs.values()):
            options = {**options, "complex": json.dumps(pairs, separators=(",", ":"))}
        if options:
            step["options"] = options
        self.steps.append(step)
        for tensor in outputs:
            self.mark_written(tensor.buffer)

    def lift_seeds(self, node):
        """Lifts seeds of random numbers. They are words that the reader draws again in each
        call."""
        out = node.kwargs.get("out")
        origin = node.meta.get("kernel")
        if out is None or origin is None or "inductor_seeds" not in str(
                getattr(origin, "python_kernel_name", "")) + str(list(origin.origins or ())):
            return False
        tensor = self.values[out]
        self.buffers[tensor.buffer] = {"role": "seed", "words": self.text(tensor.shape[0])}
        self.values[node] = tensor
        return True


def returned_values(output):
    """The values that an output node returns, nodes or not."""
    values = output.args[0]
    return [values] if isinstance(values, torch.fx.Node) else list(values)


def makes_tensors(target):
    """Whether an operator returns tensors other than those that it changes."""
    return any(result.alias_info is None for result in target._schema.returns)
