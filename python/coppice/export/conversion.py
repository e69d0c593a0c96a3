"""What Inductor's FX converter does otherwise here: sizes are expressions, and copies are nodes;
and what its kernels do: bools have bits, and doubles become floats of 8 bits.

The converter computes a size step by step, by Python functions that it traces; some of them branch,
and others count in fractions. Whoever reads the graph only asks what expression a size is, so a
node has that. A copy that Inductor would write as a line of Python becomes `aten.copy_`.
"""

import contextlib
import dataclasses
from unittest import mock

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen import triton, wrapper, wrapper_fxir
from torch._inductor.utils import convert_to_symint

from coppice.export.manifest import ExportError

FLOATS_OF_8_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)


def size():
    """The target of a node whose value is an expression of sizes. Only graphs in graphs are run."""
    raise ExportError("a subgraph, as of cond or while_loop, is not exported")


def value_of(converter, expression):
    """A proxy of a node that has an expression, each once. The converter's own way stays for what
    is no integer, as conditions are."""
    expression = sympy.sympify(expression)
    if expression in converter.expr_to_proxy:
        return converter.expr_to_proxy[expression]
    if not expression.is_integer:
        return computed(converter, expression)
    with unobserved(converter):
        node = converter.gm.graph.call_function(size)
    node.meta["val"] = convert_to_symint(expression)
    return converter._generate_size_proxy(node, expression)


computed = wrapper_fxir.FxConverter._sympy_interp


def unobserved(converter):
    """Within, nodes are made whose values are known already."""
    return mock.patch.object(converter.gm, "_create_node_hooks", [])


def node_of(converter, size):
    """As FxConverter._generate_sym_node: integers and nodes stay what they are."""
    if isinstance(size, torch.fx.Node):
        return size
    size = sympy.sympify(size)
    return int(size) if size.is_Integer else value_of(converter, size).node


@dataclasses.dataclass
class CopyLine(wrapper.WrapperLine):
    """A copy into a buffer that there is, of another type or device."""

    target: ir.IRNode
    source: ir.IRNode

    def codegen_fx(self, converter):
        def generate(line):
            target, source = (converter._generate_buffer(one) for one in (self.target, self.source))
            with unobserved(converter):
                node = converter.gm.graph.call_function(
                    torch.ops.aten.copy_.default, (target, source))
            node.meta["val"] = target.meta["val"]

        return generate


def copy_in_place(self, writer):
    """As InplaceCopyFallback.codegen."""
    writer.writeline(CopyLine(*self.inputs[:2]))


class Byte(str):
    """The text of an i8 in a kernel."""

    dtype = torch.int8


def cast(value, dtype, src_dtype=None, **named):
    """As TritonOverrides.to_dtype. A double is rounded to a float of 8 bits in two steps, as
    PyTorch does it; Triton cannot."""
    if src_dtype == torch.float64 and dtype in FLOATS_OF_8_BITS:
        value, src_dtype = f"{value}.to(tl.float32)", torch.float32
    return known_cast(value, dtype, src_dtype, **named)


def cast_bits(value, dtype, src_dtype):
    """As TritonOverrides.to_dtype_bitcast. A bool is a bit in Triton's registers, and a byte in
    PyTorch's tensors."""
    if src_dtype == torch.bool:
        value, src_dtype = Byte(f"{value}.to(tl.int8)"), torch.int8
    return known_cast_bits(value, dtype, src_dtype)


known_cast = triton.TritonOverrides.to_dtype
known_cast_bits = triton.TritonOverrides.to_dtype_bitcast


@contextlib.contextmanager
def converting():
    """Within, FX converters and kernels do so."""
    converter, kernels = wrapper_fxir.FxConverter, triton.TritonOverrides
    with mock.patch.object(converter, "_sympy_interp", value_of), \
            mock.patch.object(converter, "_generate_sym_node", node_of), \
            mock.patch.object(converter, "_generate_graph_input_shapes", lambda self: None), \
            mock.patch.object(ir.InplaceCopyFallback, "codegen", copy_in_place), \
            mock.patch.object(kernels, "to_dtype", staticmethod(cast)), \
            mock.patch.object(kernels, "to_dtype_bitcast", staticmethod(cast_bits)):
        yield
