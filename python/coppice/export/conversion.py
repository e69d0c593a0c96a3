"""Changes to Inductor. Its FX converter writes sizes as expressions, and copies as nodes. Its
kernels handle bools as bits, and convert doubles to floats of 8 bits. It does not write in place
through a view of another type, or where the same kernel reads in another order.

Without the changes, the converter computes a size step by step, with Python functions that it
traces; some of them branch, and others use fractions. The reader of the graph needs only the
expression of a size, so each size becomes one node that has it. A copy that Inductor would write as
a line of Python becomes `aten.copy_`.
"""

import contextlib
import dataclasses
from unittest import mock

import sympy
import torch
from torch._inductor import dependencies, ir, lowering, scheduler
from torch._inductor.codegen import triton, wrapper, wrapper_fxir
from torch._inductor.fx_passes import reinplace
from torch._inductor.utils import convert_to_symint
from torch.utils._pytree import tree_leaves

from coppice.export.manifest import ExportError

FLOATS_OF_8_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)


def size():
    """The target of a node whose value is an expression of sizes. Called only if a subgraph is
    run."""
    raise ExportError("operators with subgraphs, such as cond and while_loop, cannot be exported")


def retyped(tensor, dtype):
    """The target of a node that is a view of another type with the same width."""
    return tensor.view(dtype)


def value_of(converter, expression):
    """A proxy of the node that computes an expression. Each expression has one node. Expressions
    that are not integers, such as conditions, are still converted by the converter's own code."""
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
    """Inside the scope, the values of new nodes are not computed, because they are known."""
    return mock.patch.object(converter.gm, "_create_node_hooks", [])


def node_of(converter, size):
    """As FxConverter._generate_sym_node: integers and nodes are returned unchanged."""
    if isinstance(size, torch.fx.Node):
        return size
    size = sympy.sympify(size)
    return int(size) if size.is_Integer else value_of(converter, size).node


@dataclasses.dataclass
class CopyLine(wrapper.WrapperLine):
    """A copy into an existing buffer of another type or device."""

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


def has_one_type(node):
    """Whether a tensor, and all that it is a view of, have one type."""
    value = node.meta["val"]
    while node.args and is_view_of(value, node.args[0]):
        node = node.args[0]
        if node.meta["val"].dtype != value.dtype:
            return False
    return True


def is_view_of(value, node):
    """Whether a fake tensor shares its storage with the value of a node."""
    base = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return isinstance(base, torch.Tensor) and base.layout == value.layout == torch.strided and (
        base.untyped_storage()._cdata == value.untyped_storage()._cdata)


def in_place_of_one_type(known):
    """Restricts an in-place pass of Inductor to tensors that are not views of another type: kernels
    would store numbers in the type of the storage, and a view of another width may be a copy."""
    positions = known.mutated_arg
    positions = positions if isinstance(positions, tuple) else (positions,)

    def check(node):
        written = tree_leaves([node.args[position] for position in positions])
        return all(map(has_one_type, written)) and known.extra_check(node)

    return dataclasses.replace(known, extra_check=check)


def write_one_type(layout, target):
    """As MutationLayoutSHOULDREMOVE.__init__."""
    known_write(layout, target)
    if target.get_dtype() != layout.get_buffer().get_dtype():
        raise ExportError(f"a buffer has the dtype {layout.get_buffer().get_dtype()}, but the "
                          f"values written to it have the dtype {target.get_dtype()}")


known_write = ir.MutationLayoutSHOULDREMOVE.__init__


def write_what_is_computed(changed, value, *arguments, **named):
    """As lowering.mutate_to. A value that is written through a view, and is computed from the bytes
    that it overwrites, is computed first. Otherwise a thread could read what another thread has
    written."""
    data = value.data if isinstance(value, ir.TensorBox) else value
    if isinstance(data, ir.BaseView) and changed.maybe_get_name() in data.get_read_names():
        data.realize()
    return known_copy(changed, value, *arguments, **named)


def is_overwritten_where_read(self, late, first, second):
    """As Scheduler.fusable_weak_dep: whether each element that `first` reads and `second`
    overwrites is read and written by the same thread. This is known only if both run their loops in
    the same order. If `second` reads in another order than `first` computes, the loops of one of
    them have yet to be reordered."""
    computed = [write for write in first.read_writes.writes
                if isinstance(write, dependencies.MemoryDep)]
    reads = [read.rename(self.mutation_renames) for read in second.unmet_dependencies
             if not isinstance(read, dependencies.WeakDep)]
    return known_order(self, late, first, second) and all(
        any(self.fusable_read_and_write(read, write) for write in computed)
        for read in reads if read.name in first.get_buffer_names())


known_copy = lowering.mutate_to
known_order = scheduler.Scheduler.fusable_weak_dep


@contextlib.contextmanager
def converting():
    """Inside the scope, the changes of this module apply to FX converters, kernels and passes."""
    converter, kernels = wrapper_fxir.FxConverter, triton.TritonOverrides
    in_place = {target: in_place_of_one_type(known)
                for target, known in reinplace.inplaceable_ops.items()}
    with mock.patch.object(converter, "_sympy_interp", value_of), \
            mock.patch.object(converter, "_generate_sym_node", node_of), \
            mock.patch.object(converter, "_generate_graph_input_shapes", lambda self: None), \
            mock.patch.object(ir.InplaceCopyFallback, "codegen", copy_in_place), \
            mock.patch.object(ir.MutationLayoutSHOULDREMOVE, "__init__", write_one_type), \
            mock.patch.dict(reinplace.inplaceable_ops, in_place), \
            mock.patch.object(lowering, "mutate_to", write_what_is_computed), \
            mock.patch.object(scheduler.Scheduler, "fusable_weak_dep",
                              is_overwritten_where_read), \
            mock.patch.object(kernels, "to_dtype", staticmethod(cast)), \
            mock.patch.object(kernels, "to_dtype_bitcast", staticmethod(cast_bits)):
        yield
