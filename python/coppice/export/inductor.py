"""Compiles an exported graph with Inductor for a CUDA device that the machine does not have.

All use of PyTorch's internals is in this module and in pretending.py; it works from 2.10 to 2.15.
The result is what Inductor's FX wrapper writes: a graph of allocations, views, kernel launches,
calls of extern kernels and arithmetic on sizes, in which each launch has the tuner that compiled
its kernel.
"""

import contextlib
import copy
import dataclasses
import inspect
import math
from functools import partial
from unittest import mock

import sympy
import torch
import torch._inductor
import torch._inductor.codegen.simd
import torch._inductor.scheduler
import torch._inductor.utils
import torch.fx.experimental._config
import triton
from torch._higher_order_ops import triton_kernel_wrap
from torch._inductor import ir, select_algorithm
from torch._inductor.codegen import wrapper_fxir
from torch._inductor.runtime import hints, triton_heuristics
from torch._subclasses import fake_impls

from coppice.export.conversion import converting, retyped
from coppice.export.kernels import SCALARS, without_line_information
from coppice.export.manifest import ExportError
from coppice.export.placement import move_to_cuda
from coppice.export.pretending import pretended_device

ELEMENTS_PER_THREAD, WARP = 8, 32
OPTIONS = {
    "fx_wrapper": True,
    "triton.autotune_at_compile_time": False,
    "compile_threads": 1,
    "joint_graph_constant_folding": False,
    "allow_buffer_reuse": False,  # Who reads a package plans its memory.
    "size_asserts": False,
    "alignment_asserts": False,
    "assert_indirect_indexing": False,
    "shape_padding": False,  # Asks a device what is faster.
    # Would time kernels that are not loaded; 2.10 calls it otherwise.
    "benchmark_template_fusion" if hasattr(torch._inductor.config, "benchmark_template_fusion")
    else "benchmark_epilogue_fusion": False,
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "ATEN",
}
OPTIONAL_OPTIONS = {
    "use_static_cuda_launcher": False,
    "use_static_triton_launcher": False,
    "autotune_num_choices_displayed": 0,
    "max_autotune_report_choices_stats": False,
    "strict_output_strides": True,  # Of views, too, of which it kept the order of strides alone.
}


class CompilerError(ExportError):
    """Inductor itself cannot compile something."""


class TemplateError(CompilerError):
    """A template of a matrix product or a convolution makes no kernel. PyTorch's operator works."""


class PrologueError(TemplateError):
    """The same, for a graph in which a template computes its operands itself."""


def closest_tile(choices):
    """The Triton template of a GEMM or a convolution whose tile fits the sizes of the example.

    Nothing is timed, because there is no device. The number of rows comes from the example, so the
    few rows of a decoder get a low tile. Two to four stages fit into the shared memory of every
    architecture."""
    templates = templates_of(choices)
    if len(templates) < 2:  # Or an operator.
        return templates
    sizes = [hint_of(size) for size in templates[0].layout.size]
    rows, columns = sizes[-2:]
    if "conv" in templates[0].name:  # Of batch, channels and space.
        rows, columns = math.prod(sizes) // max(sizes[1], 1), sizes[1]
    wanted = {"BLOCK_M": min(64, max(16, power_above(rows))),
              "BLOCK_N": min(64, max(16, power_above(columns))), "BLOCK_K": 32}

    def distance(choice):
        numbers = dict(part.split("=") for part in choice.description.split(", ") if "=" in part)
        far = sum(abs(math.log2(int(numbers.get(name, "16")) / value))
                  for name, value in wanted.items())
        stages = choice.bmreq.num_stages
        return far, abs(stages - 3), choice.bmreq.num_warps, choice.description

    return [min(templates, key=distance)]


def templates_of(choices):
    """The Triton templates among the choices for a matrix product or a convolution. Inductor times
    them. Returns an operator if there are none."""
    return [choice for choice in choices
            if isinstance(choice, select_algorithm.TritonTemplateCaller)] or choices[:1]


def work_of(tuner, configuration):
    """How far a configuration is from ELEMENTS_PER_THREAD. Inductor would time configurations. Its
    first one gives a block of a reduction one row, so most threads wait."""
    per_thread = elements_of(tuner, configuration) / (WARP * configuration.num_warps)
    return abs(math.log2(per_thread / ELEMENTS_PER_THREAD))


def elements_of(tuner, configuration):
    """The number of different elements of a kernel's block."""
    blocks = {name: size for name, size in configuration.kwargs.items()
              if name.endswith("BLOCK") and isinstance(size, int)}
    if is_one_row(tuner):
        blocks.pop("XBLOCK", None)
    elements = math.prod(blocks.values())
    for axis, size in (tuner.size_hints or {}).items():
        if axis.startswith("r") and f"{axis.upper()}BLOCK" not in blocks:
            elements *= power_above(int(size))  # All of a persistent reduction is in one block.
    return max(elements, 1)


def is_one_row(tuner):
    """Whether a kernel has one element along x. All threads along x then compute it."""
    return (tuner.size_hints or {}).get("x") == 1


def shares_elements(tuner, configuration):
    """Whether several threads have the same element. A late thread may then read what another
    thread has already overwritten."""
    return elements_of(tuner, configuration) < WARP * configuration.num_warps


def fitted(tuner, configuration):
    """The configuration, with no more threads than elements if that is possible."""
    if "XBLOCK" not in configuration.kwargs or not shares_elements(tuner, configuration):
        return configuration
    elements = elements_of(tuner, configuration)
    result = copy.deepcopy(configuration)
    result.num_warps = max(1, elements // WARP)
    if not is_one_row(tuner):
        result.kwargs["XBLOCK"] *= max(1, WARP // elements)
    return result


@contextlib.contextmanager
def separate_results():
    """Inside the scope, a reduction, or a kernel of one element, does not write its result over its
    input: all threads read the input, and one of them writes."""
    node = torch._inductor.scheduler.SchedulerNode
    decide = node.decide_inplace_update

    def decide_for_rows(self):
        kernel = torch._inductor.virtualized.V.kernel
        axes = {axis for axis, size in (getattr(kernel, "numels", None) or {}).items()
                if size != 1}
        if axes and not any(axis.startswith("r") for axis in axes):
            decide(self)

    with mock.patch.object(node, "decide_inplace_update", decide_for_rows):
        yield


def hint_of(size):
    known = torch._inductor.virtualized.V.graph.sizevars
    find = getattr(known, "optimization_hint", None) or known.size_hint
    return int(find(size))


def power_above(number):
    return 1 << max(0, number - 1).bit_length()


def last_node(module):
    return next(iter(reversed(module.graph.nodes)))


def take_annotated_types(tuner):
    """Gives numbers the types that the program's own kernel annotates, as a launch by Triton does
    and Inductor does not. A number that is 1 is then not a constant."""
    signature, constants = tuner.triton_meta["signature"], tuner.triton_meta["constants"]
    for parameter in tuner.fn.params:
        name, kind = parameter.name, parameter.annotation_type
        if kind not in SCALARS or name not in signature:
            continue
        if signature[name] in SCALARS or constants.get(name) == 1:
            signature[name] = kind
            constants.pop(name, None)


def call_own_kernel(converter, line):
    """Writes the launch of one of the program's own Triton kernels. PyTorch's wrapper takes the
    arguments as if they were the whole signature, but constants lie between them."""
    kernel = converter.kernels[line.kernel_name]
    tuner = kernel.tuner
    by_ir = "raw_args" in inspect.signature(converter._lookup_args).parameters
    looked_up = converter._lookup_args(*((line.call_args, line.raw_args) if by_ir
                                         else (line.call_args,)))
    named = dict(zip(line.raw_keys, looked_up))
    extra = tuner.inductor_meta.get("extra_launcher_args") or ()
    launcher = dict(zip(extra, looked_up[len(looked_up) - len(extra):], strict=True))
    (result,) = tuner.compile_results
    grid = triton_heuristics.GridExpr.from_meta(tuner.inductor_meta, result.config).eval_slow(
        launcher)
    grid = [wrapper_fxir.replace_floor_div(size) if isinstance(size, sympy.Expr) else size
            for size in grid]

    def argument(value):
        plain = value is None or isinstance(value, (bool, int, float))
        return value if plain else converter._generate_sym_node(value)

    constants = triton_kernel_wrap.kernel_side_table.add_constant_args({})
    converter.gm.graph.call_function(triton_kernel_wrap.triton_kernel_wrapper_mutation, kwargs={
        "kernel_idx": kernel.wrapped.kernel_idx, "constant_args_idx": constants,
        "grid": [tuple(converter._generate_sym_nodes(grid))], "tma_descriptor_metadata": {},
        "kwargs": {name: argument(value) for name, value in named.items()
                   if name and tuner.triton_meta["signature"][name] != "constexpr"}})


@contextlib.contextmanager
def of_templates(fused):
    """Inside the scope, errors are raised as those of a template. A `fused` template computes its
    operands."""
    try:
        yield
    except Exception as error:
        kind = PrologueError if fused else TemplateError
        raise kind(f"Inductor: {first_line(error)}") from error


@contextlib.contextmanager
def observed(configurations, timed=False):
    """Inside the scope, launches in the wrapper's graph have their tuner as meta["tuner"], and
    calls have their lowered node as meta["kernel"]. A tuner compiles `configurations`
    configurations and loads none, except for templates that Inductor times, if they are `timed` on
    a real device."""
    converter = wrapper_fxir.FxConverter
    reinterpret = converter._generate_reinterpret_helper
    call = converter._generate_triton_call
    extern = converter._generate_extern_kernel_common

    def call_and_attach(self, line):
        tuner = self.kernels[line.kernel_name].tuner
        (call_own_kernel if tuner.custom_kernel else call)(self, line)
        last_node(self.gm).meta["tuner"] = tuner

    def extern_and_attach(self, kernel, *rest):
        # What it writes into is known; to find it out, 2.10 takes sizes for those of the example.
        known = isinstance(kernel, ir.ExternKernelOut)
        hooks = [] if known else self.gm._create_node_hooks
        with mock.patch.object(self.gm, "_create_node_hooks", hooks):
            extern(self, kernel, *rest)
        last_node(self.gm).meta["kernel"] = kernel

    def reinterpret_and_retype(self, source, result, layout):
        """In the wrapper's graph, a view of another type only has other sizes; this adds the
        type."""
        reinterpret(self, source, result, layout)
        dtype = (layout.view.layout if isinstance(layout, ir.NonOwningLayout) else layout).dtype
        if dtype != source.get_dtype():
            name = result.get_name()
            self.buffer_to_node[name] = self.gm.graph.call_function(
                retyped, (self.buffer_to_node[name], dtype))

    def precompile(self, *arguments, **options):
        if not self.compile_results:
            if self.custom_kernel:  # The grid is of one configuration.
                self.configs = self.configs[:1]
                take_annotated_types(self)
            else:
                chosen = sorted(self.configs, key=partial(work_of, self))[:configurations]
                self.configs = [fitted(self, configuration) for configuration in chosen]
            self._precompile_worker()

    def codegen_template(self, node, epilogue, prologue, **named):
        nonlocal fused
        fused = fused or bool(prologue)
        with of_templates(fused):
            return template(self, node, epilogue, prologue, **named)

    def import_kernel(self, *arguments):
        nonlocal launched
        launched = True
        try:
            return load_kernel(self, *arguments)
        finally:
            launched = False

    def precompile_and_tell(self, *arguments, **options):
        is_template = self.heuristic_type == hints.HeuristicType.TEMPLATE
        if is_template and timed and not launched:
            load_and_compile(self, *arguments, **options)
            return
        with of_templates(fused) if is_template else contextlib.nullcontext():
            precompile(self, *arguments, **options)

    fused = launched = False  # Whether a kernel is compiled that the graph launches.
    load_kernel = converter._import_kernel
    scheduling = torch._inductor.codegen.simd.SIMDScheduling
    template = scheduling.codegen_template
    autotuner = triton_heuristics.CachingAutotuner
    load_and_compile = autotuner.precompile
    with mock.patch.object(converter, "_generate_triton_call", call_and_attach), \
            mock.patch.object(converter, "_generate_extern_kernel_common", extern_and_attach), \
            mock.patch.object(converter, "_generate_reinterpret_helper", reinterpret_and_retype), \
            mock.patch.object(converter, "_import_kernel", import_kernel), \
            mock.patch.object(scheduling, "codegen_template", codegen_template), \
            mock.patch.object(autotuner, "precompile", precompile_and_tell):
        select_algorithm.add_preprocessing_fn(templates_of if timed else closest_tile)
        try:
            yield
        finally:
            select_algorithm.clear_preprocessing_fns()


def ordered_strides():
    """Inside the scope, PyTorch does not guard on whether one stride divides another when it asks
    which of them is larger. It could not prove such a guard for sizes that vary, and would refuse
    the program.
    """
    if not hasattr(ir.Layout, "_stride_expr_ge_or_false"):
        return contextlib.nullcontext()

    def not_smaller(left, right):
        known = torch._inductor.virtualized.V.graph.sizevars
        if known.guard_or_false(sympy.Eq(right, 0)):
            return True
        if known.guard_or_false(sympy.Eq(left, 0)):
            return False
        return known.guard_or_false(sympy.Ge(left, right)) or known.statically_known_multiple_of(
            left, right)

    return mock.patch.object(ir.Layout, "_stride_expr_ge_or_false", staticmethod(not_smaller))


@contextlib.contextmanager
def sizes_of_one():
    """Inside the scope, PyTorch does not assume that a size whose example is 2 or more differs from
    1, so the compiled code is also right for 1. Code that has to know adds a guard."""
    compute = getattr(fake_impls, "_compute_stride", None)
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            torch.fx.experimental._config.patch(backed_size_oblivious=True))
        if compute and "size_oblivious" in inspect.signature(compute).parameters:
            def oblivious(old_shape, old_stride, new_shape, size_oblivious=True):
                return compute(old_shape, old_stride, new_shape, True)

            stack.enter_context(mock.patch.object(fake_impls, "_compute_stride", oblivious))
        known, cut = fake_impls.op_implementations_dict, torch.ops.aten.slice.Tensor
        if cut in known:
            stack.enter_context(mock.patch.dict(known, {cut: by_example(known[cut])}))
        yield


def by_example(implementation):
    """Inside sizes_of_one, a slice of a tensor has the sizes of the example, with a guard. PyTorch
    2.10 would give it a new symbol."""
    def decided(*arguments, **named):
        with torch.fx.experimental._config.patch(backed_size_oblivious=False):
            return implementation(*arguments, **named)

    return decided


def settings(options=None):
    """Inductor's configuration for an export, plus the given options."""
    known = torch._inductor.config
    return {**OPTIONS, **{name: value for name, value in OPTIONAL_OPTIONS.items()
                          if hasattr(known, name)}, **(options or {})}


@contextlib.contextmanager
def compiling(capability, configurations=1, cubins=True, pretended=True):
    """Inside the scope, Inductor compiles for a device of that capability, which is pretended or
    real, and keeps what Lifter reads. Errors: CompilerError for any error of Inductor."""
    device = pretended_device(capability, cubins) if pretended else contextlib.nullcontext()
    with device, observed(configurations, timed=not pretended), converting(), ordered_strides(), \
            without_line_information():
        try:
            yield
        except ExportError:
            raise
        except Exception as error:
            kind = next((type(cause) for cause in causes_of(error)
                         if isinstance(cause, ExportError)), CompilerError)
            raise kind(f"Inductor: {first_line(error)}") from error


def compile_graph(module, capability, configurations=1, options=None, cubins=True):
    """The wrapper's graph of an exported graph module, which is changed. Errors: ExportError."""
    with compiling(capability, configurations, cubins):
        move_to_cuda(module)
        values = tuple(node.meta["val"] for node in module.graph.nodes if node.op == "placeholder")
        return torch._inductor.aot_compile(module, values, options=settings(options))


def line_of(node):
    """The line of the model that a node of the wrapper's graph comes from, if it is known.
    """
    kernel = node.meta.get("kernel")
    origins = [node] + sorted(getattr(kernel, "origins", None) or (), key=str)
    for origin in origins:
        lines = [line.strip() for line in (origin.meta.get("stack_trace") or "").splitlines()]
        places = [line for line in lines if line.startswith("File ")]
        if places:
            return f"; from {places[-1]}"
    return ""


def causes_of(error):
    """The error, and what caused it, one after another."""
    while error is not None:
        yield error
        error = error.__cause__ or getattr(error, "inner_exception", None)  # Of Inductor's own.


def first_line(error):
    """The first cause's message, on one line."""
    *_, error = causes_of(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {'; '.join(lines[:4])}"
