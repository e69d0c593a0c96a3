"""The backend: what torch.compile calls with each graph that Dynamo captured.

    Dynamo ──► AOTAutograd ──► per graph (forward, backward, inference): lower ──► LiftedGraph
               on the CPU as the function runs, or on CUDA          or PyTorch, with a reason

Inductor's own passes and AOTAutograd do the same as for Inductor's backend; coppice replaces the
last step, which Inductor calls inner_compile. Without a GPU, functions are traced on the CPU, where
autograd works without a device, and are then moved to a pretended one; operators that exist only on
CPUs are kept out of the trace.
"""

import contextlib
import copy
import functools
import logging

import torch
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import make_boxed_func
from torch._inductor import compile_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves

from coppice.devices import device_of_tensors
from coppice.errors import FAULTS, Error, Unavailable
from coppice.export.inductor import CompilerError, PrologueError, TemplateError
from coppice.export.manifest import ExportError
from coppice.export.pretending import pretended_driver
from coppice.torch import options as settings
from coppice.torch import reports
from coppice.torch.calls import INSIDE, running_operator
from coppice.torch.frames import frame_of, unknown_names
from coppice.torch.graph import LiftedGraph
from coppice.torch.kernels import launch_without_driver, take_kernels
from coppice.torch.lowering import fake_mode_of, lower
from coppice.torch.padding import Padding, names_of, padding_of, sources_by
from coppice.torch.seeds import draw_by_seeds, keep_seeds
from coppice.torch.session import cuda_ordinals, place_of, shared

# Inductor's options to try, one after another, each with the errors that it mends: templates whose
# operands are computed in them may make kernels that do not compile, and so may templates at all.
ATTEMPTS = (({}, ()), ({"prologue_fusion": False}, PrologueError),
            ({"max_autotune_gemm": False, "max_autotune_conv_backends": "ATEN"}, TemplateError))
ALIGNMENT = 16  # Bytes, which kernels are compiled for.
log = logging.getLogger("coppice")
EMULATED = 80  # The architecture whose PTX the emulator executes; 89 is the next.


def backend(module, inputs, *, options=None, mode=None):
    """Compiles a graph of Dynamo's; see options.py. Errors: ValueError for wrong options, NotLifted
    under strict."""
    chosen = settings.parse(options, mode)
    kind, ordinal = place_of(chosen.device, module, inputs)
    compiler = Compiler(module, chosen, kind, ordinal, cuda_ordinals(module, inputs))
    if "specialization" in module.meta:  # Then tensors are real, of which nothing else is known.
        inputs = [node.meta.get("example_value", value) for node, value in zip(
            module.graph.find_nodes(op="placeholder"), inputs)]
    patches = {"fx_graph_cache": False, "fallback_random": chosen.fallback_random,
               "joint_graph_constant_folding": False}  # x + 0 is another tensor, and 0.0 of -0.0.
    with contextlib.ExitStack() as stack:
        stack.enter_context(functorch_config.patch(enable_autograd_cache=False))
        if not compiler.cuda:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(without_libraries())
            stack.enter_context(pretended_driver(EMULATED))
            launch_without_driver()
        return compile_fx.compile_fx(module, inputs, inner_compile=compiler.compile,
                                     config_patches=patches)


take_kernels(backend)


@contextlib.contextmanager
def without_libraries():
    """Inside the scope, no oneDNN operators are traced, and NNPACK adds no limits on sizes."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        with torch.backends.nnpack.flags(enabled=False):
            yield
    finally:
        torch._C._set_mkldnn_enabled(before)


class Compiler:
    """Compiles the graphs that Dynamo captured from one function."""

    def __init__(self, module, options, kind, ordinal, ordinals):
        self.options, self.ordinal, self.cuda = options, ordinal, bool(ordinals)
        self.session, self.unserved = None, why_not(kind, ordinals)
        try:
            if not self.unserved:
                self.session = shared(device_of_tensors(kind, ordinal), options.session_options())
        except Unavailable as error:
            self.unserved = str(error)
            warn_once(self.unserved)
        self.frame = frame_of(module)
        self.ignored = unknown_names(options.names(), self.frame, {
            name for one in reports.reports_of(self.frame.owner) for name in one.sizes},
            options.tensors())
        self.statics = set()  # Of the forward graph: what the backward one may read, too.

    def compile(self, module, inputs, compile_region_name=None, *, static_input_idxs=(),
                is_backward=False, is_inference=False, graph_id=None, **_):
        """As compile_fx_inner."""
        plan_nothing_to_donate()
        kind = "backward" if is_backward else "inference" if is_inference else "forward"
        frame, strict = self.frame, self.options.strict
        report = reports.GraphReport(
            frame.function, kind, sizes=frame.sizes, recompiled=frame.recompiled,
            graph_break=frame.graph_break)
        if not is_backward:
            self.tell_of_frame(report)
        placeholders = module.graph.find_nodes(op="placeholder")
        if not is_backward:
            self.statics |= {placeholders[index].name for index in static_input_idxs
                             if not is_written_between(placeholders[index])}
        with contextlib.suppress(ExportError):  # Without tensors there is nothing to draw.
            inputs = keep_seeds(module, inputs, fake_mode_of(module))
        original = copied(module)
        flags = {"static_input_idxs": static_input_idxs, "is_backward": is_backward,
                 "is_inference": is_inference, "graph_id": graph_id}
        fallback = self.fallback(original, inputs, flags)
        try:
            compiled = self.lift(module, original, inputs, report, flags, fallback)
        except ExportError as error:
            report.reasons.append(str(error))
            reports.tell(report, str(error), strict)
            fallback.make()  # Which tells AOTAutograd how its results lie.
            compiled = counted(fallback, report)
        reports.add(report, frame.owner)
        return compiled

    def tell_of_frame(self, report):
        """Code that is left to Python is an error under strict. A name that no size has is also an
        error under strict, and a line in the log otherwise."""
        strict, frame = self.options.strict, self.frame
        if strict and frame.graph_break:
            reports.tell(report, frame.graph_break, strict, "leaves it to Python")
        if self.ignored:
            reports.tell(report, f"the options name {', '.join(self.ignored)}, but no size has "
                         f"such a name; the sizes are {', '.join(frame.sizes)}", strict,
                         "ignores the name")

    def lift(self, module, original, inputs, report, flags, fallback):
        if running_operator():
            raise ExportError(INSIDE)
        if self.unserved:
            raise ExportError(self.unserved)
        capability = emulated(module)
        if self.cuda:
            major, minor = torch.cuda.get_device_capability(self.ordinal)
            capability = 10 * major + minor
        lowered = self.lower(module, inputs, capability, flags)
        calls = lowered.calls()
        for name in calls:
            reports.tell(report, f"{name} has no Triton kernel", self.options.strict)
        names = names_of(original, self.frame.inputs)
        lowered.sources = sources_by(names, lowered.sources)
        called = {node.name: name for node, name in names.items()}
        for one in lowered.inputs:
            one.called = called.get(one.name, "")
        padding = self.padding(lowered, original, report)
        try:
            compiled = LiftedGraph(lowered, self.session, self.options, report, fallback, padding)
        except Error as error:  # Limits of packages and of sessions.
            if error.driver_result in FAULTS:
                raise
            raise ExportError(str(error)) from error
        report.lifted, report.kernels, report.calls = True, lowered.launches(), calls
        report.reasons += [f"{name} has no Triton kernel" for name in calls]
        report.gemms = sum(step.get("function") == "gemm" for step in lowered.program["steps"])
        report.guards = lowered.program.get("guards", [])
        report.symbols = {
            lowered.sources[name][0]: (symbol["min"], symbol.get("max"))
            for name, symbol in lowered.program["symbols"].items()}
        report.limits = {lowered.sources[name][0]: limit for name, limit in lowered.limits.items()}
        tell_strides(lowered.strides)
        return compiled

    def padding(self, lowered, module, report):
        """Decides which sizes are padded. Reports sizes that are not padded although the caller
        asked for it."""
        if report.kind == "backward" or not self.options.claim:
            return Padding()
        padding = padding_of(lowered, module, self.options, self.frame, report.kind)
        report.padded, report.unpadded = padding.padded, padding.unpadded
        for name, why_not in padding.unpadded.items():
            reports.tell(report, f"does not pad {name}: {why_not}",
                         self.options.strict and name in padding.asked, "does not pad it")
        return padding

    def lower(self, module, inputs, capability, flags):
        """Lowers by the first of ATTEMPTS that Inductor can compile."""
        failed = None
        for patches, mends in ATTEMPTS:
            if failed and not isinstance(failed, mends):
                continue
            try:
                with quiet_compiler():
                    return lower(copied(module), inputs, self.statics, capability, self.options,
                                 self.cuda, patches, flags)
            except CompilerError as error:
                failed = error
        raise failed

    def fallback(self, module, inputs, flags):
        if self.cuda:
            return Fallback(lambda: compile_fx.compile_fx_inner(module, inputs, **flags))
        return Fallback(lambda: make_boxed_func(draw_by_seeds(module).forward))


class Fallback:
    """Runs a graph that is not lifted, and calls that a lifted graph refuses: with Inductor on
    CUDA, and with PyTorch on the CPU. It is compiled at its first call at the latest."""

    def __init__(self, make):
        self._boxed_call = True
        self.make = functools.cache(make)

    def __call__(self, arguments):
        return self.make()(arguments)


def why_not(kind, ordinals):
    """Why a device of this kind cannot be used for tensors on these GPUs; "" if it can."""
    if kind == "emulator":
        return "its tensors are on CUDA, but the device is the emulator" if ordinals else ""
    if not ordinals:
        return "its tensors are not on CUDA"
    named = ", ".join(map(str, sorted(ordinals)))
    return f"its tensors are on several GPUs: {named}" if len(ordinals) > 1 else ""


@functools.cache
def warn_once(reason):
    """Warns once that something is missing for all functions of a device."""
    log.warning("coppice is not used on this device; PyTorch runs every compiled function there: "
                "%s", reason)


def emulated(module):
    """The first emulated architecture that supports all types of a graph."""
    types = {value.dtype for node in module.graph.nodes
             for value in tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)}
    return 89 if torch.float8_e4m3fn in types else EMULATED


def is_written_between(node):
    """Whether the graph writes a tensor whose address is not aligned as kernels expect. Such a
    tensor is not static: it is copied in and out, as Inductor does, too."""
    value = node.meta["val"]
    offset = value.storage_offset() * value.element_size()
    written = any(user.target is torch.ops.aten.copy_.default and user.args[0] is node
                  for user in node.users)
    return written and (not isinstance(offset, int) or offset % ALIGNMENT != 0)


def counted(run, report):
    """The function, with calls that the report counts."""
    def count_and_run(arguments):
        report.runs += 1
        return run(arguments)

    count_and_run._boxed_call = True
    return count_and_run


def copied(module):
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        return copy.deepcopy(module)


@contextlib.contextmanager
def quiet_compiler():
    """Inside the scope, Inductor does not print the source of a kernel that Triton cannot
    compile."""
    log = logging.getLogger("torch._inductor.runtime.triton_heuristics")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def plan_nothing_to_donate():
    """Keeps Inductor from writing over saved tensors. Leases decide which tensors a backward graph
    may write over, and a graph that is retained may need them again."""
    context = torch._guards.TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []


def tell_strides(strides):
    """Gives AOTAutograd the strides of the outputs, with which it compiles the backward graph."""
    context = torch._guards.TracingContext.try_get()
    if context is not None and context.output_strides is not None:
        context.output_strides.extend(strides)
