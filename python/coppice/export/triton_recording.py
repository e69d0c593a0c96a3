"""Records code that launches Triton kernels: it runs once, on tensors without data.

    package = record(launch, {"x": torch.empty(8, 128)}, dynamic={"x": {0: ("rows", 1, 4096)}})

All sizes that the code computes are symbolic, so that grids and arguments become expressions. A
branch on a size becomes a guard. @heuristics works as it is. @autotune contributes its first
configuration, or several as variants. The code may allocate, view and return tensors. Anything else
that PyTorch computes is an error, because no kernel of a package would compute it.
"""

import contextlib
import inspect
from unittest import mock

import sympy
import torch
import triton
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges
from triton._utils import find_paths_if, get_iterable_path
from triton.compiler import ASTSource
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction, TensorWrapper

from coppice.export import kernels
from coppice.export.expressions import text_of
from coppice.export.inductor import sizes_of_one
from coppice.export.manifest import DTYPE_BYTES, ExportError, Package
from coppice.export.pretending import pretended_device
from coppice.export.sizes import (
    INT64_MAX,
    finite,
    follows_from_limits,
    is_dense,
    limits_as_guards,
    size_of,
    span,
)
from coppice.export.tensors import DTYPES
from coppice.export.torch import normalized
from coppice.export.triton import Program, add_sources

__all__ = ["record"]

ALLOCATES = ("empty", "empty_permuted", "empty_strided", "empty_like", "new_empty",
             "new_empty_strided")
VIEWS = ("view", "_unsafe_view", "as_strided", "select", "slice", "transpose", "permute", "t",
         "unsqueeze", "squeeze", "expand", "alias", "detach", "reshape", "_reshape_alias", "split",
         "unbind", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset")
INT32_MAX = (1 << 31) - 1
SIZE_MAX = (1 << 62) - 1


def record(launch, inputs, *, dynamic=None, name="main", package=None, archs=("80", "90a"),
           outputs=None, variants=1):
    """A package with the kernels that `launch(**inputs)` launches as a program. If `package` is
    given, the program is added to it.

    inputs     {name: example tensor, or an integer}
    dynamic    which sizes vary, as in coppice.export.torch
    outputs    names of what is returned
    variants   configurations of each autotuned kernel

    Errors: ExportError."""
    package = package or Package("coppice.export.triton", triton=triton.__version__)
    recorder = Recorder(package, archs, variants)
    capability = kernels.parse_architectures(archs)[0].capability
    with pretended_device(capability), sizes_of_one(), recorder.listening():
        given = recorder.make_inputs(inputs, dynamic or {})
        with recorder.watch:
            recorder.watch.strict = True
            returned = launch(**given)
    package.add_program(name, recorder.finish(returned, outputs))
    return package


class Watch(FakeTensorMode):
    """Fake tensors that may be allocated and viewed, and nothing else."""

    def dispatch(self, func, types, args=(), kwargs=None):
        word = func.overloadpacket.__name__
        allowed = func.namespace == "prim" or word in ALLOCATES + VIEWS
        if self.strict and not allowed:
            raise ExportError(f"the launch code runs {func}; packages record only "
                              "launches, allocations and views")
        return super().dispatch(func, types, args, kwargs)

    strict = False


class Recorder:
    def __init__(self, package, archs, variants):
        self.package, self.archs, self.variants = package, archs, variants
        self.env = ShapeEnv()
        self.watch = Watch(shape_env=self.env, allow_non_fake_inputs=False)
        self.program, self.names, self.storages, self.kept = Program(), {}, {}, []
        self.values = {}  # Symbols that stand for a kernel's constants in its grid.

    # Inputs.

    def symbol(self, name, example, how):
        """A size with a name."""
        source = ConstantSource(name)
        symbol = self.env.create_unspecified_symbol(
            example, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        low, high = how.get("min", 0), how.get("max", SIZE_MAX)
        self.env.var_to_range[symbol] = ValueRanges(sympy.Integer(low), sympy.Integer(high))
        return self.env.create_symintnode(symbol, hint=example, source=source)

    def make_inputs(self, inputs, dynamic):
        result, sizes = {}, {}
        for name, value in inputs.items():
            axes = normalized(name, dynamic[name]) if name in dynamic else {}
            if isinstance(value, int):
                result[name] = self.make_scalar(name, value, axes)
                continue
            if not isinstance(value, torch.Tensor):
                raise ExportError(f"{name} is a {type(value).__name__}; inputs must be tensors or "
                                  "integers")
            shape = list(value.shape)
            for axis, how in axes.items():
                known = how.get("name", f"{name}_{axis}")
                if known not in sizes:
                    sizes[known] = self.symbol(known, shape[axis], how)
                    self.names[sizes[known].node.expr.name] = known
                    self.program.value["symbols"][known] = {
                        key: item for key, item in how.items() if key in ("buckets", "claim")}
                shape[axis] = sizes[known]
            with self.watch:
                tensor = torch.empty(shape, dtype=value.dtype, device="cuda")
            result[name] = tensor
            self.adopt(tensor, name)
            self.program.buffer(name, "input", DTYPES[value.dtype], self.texts(tensor.shape))
        return result

    def make_scalar(self, name, value, axes):
        if not axes:
            return value
        known = self.symbol(name, value, axes[None])
        self.names[known.node.expr.name] = name
        self.program.value.setdefault("scalars", {})[name] = {"bind": "key"}
        return known

    def adopt(self, tensor, name):
        self.storages[tensor.untyped_storage()._cdata] = name
        self.kept.append(tensor)  # So that no other storage gets its number.

    # Sizes.

    def text(self, value):
        expression = self.env.replace(size_of(value)) if not isinstance(
            value, sympy.Basic) else value
        names = {**self.names, **self.values}
        unknown = sorted(symbol.name for symbol in expression.free_symbols
                         if symbol.name not in names)
        if unknown:
            raise ExportError(f"PyTorch cannot determine the size {expression} without running the "
                              f"code: it depends on {', '.join(unknown)}, and not only on sizes of "
                              "inputs")
        return text_of(expression, names)

    def texts(self, values):
        return [self.text(value) for value in values]

    def is_multiple(self, value, of):
        """Whether a size is a multiple of `of` for all sizes of a call."""
        expression = size_of(value)
        known = self.env._maybe_evaluate_static(
            sympy.Eq(torch.utils._sympy.functions.Mod(expression, of), 0))
        return known is not None and bool(known)

    # Launches.

    @contextlib.contextmanager
    def listening(self):
        recorder = self

        def run(function, *args, grid, warmup, **options):
            recorder.launched(function, args, grid, [options])

        def tune(tuner, *args, **options):
            tuner.nargs = dict(zip(tuner.arg_names, args))
            configs = tuner.prune_configs(options)[:recorder.variants]
            inner, heuristics = tuner.fn, []
            while not isinstance(inner, JITFunction):
                heuristics.append(inner)
                inner = inner.fn
            runs = []
            for config in configs:
                given = {**options, **config.all_kwargs()}
                for one in heuristics:
                    for name, find in one.values.items():
                        given[name] = find({**tuner.nargs, **given})
                runs.append(given)
            grid = runs[0].pop("grid")
            for given in runs:
                given.pop("grid", None)
                given.pop("warmup", None)
            recorder.launched(inner, args, grid, runs)

        with mock.patch.object(JITFunction, "run", run), mock.patch.object(Autotuner, "run", tune):
            yield

    def launched(self, function, args, grid, runs):
        """Records one launch. `runs` are the keyword arguments of each configuration."""
        where = f"the launch of {function.__name__}"
        names = [param.name for param in function.params]
        bound, sources = [], []
        for given in runs:
            known = function.signature.bind(
                *args, **{key: value for key, value in given.items() if key in names})
            known.apply_defaults()
            options = {key: value for key, value in given.items()
                       if key not in names and value is not None}
            bound.append(dict(known.arguments))
            sources.append((self.source(function, known, where), options))
        kernel = add_sources(self.package, function.__name__, sources, archs=self.archs)
        signature = sources[0][0].signature
        for name in names:
            first = bound[0][name]
            if signature[name] != "constexpr" and any(
                    other[name] is not first and other[name] != first for other in bound):
                raise ExportError(f"{where}: configurations give {name} different values; make it "
                                  "a tl.constexpr, or record one variant")
        blocks = self.grid(grid, bound, [name for name, kind in signature.items()
                                         if kind == "constexpr"])
        arguments = {}
        for name, kind in signature.items():
            for part, kind_of_part, value in kernels.passed(name, kind, bound[0][name]):
                arguments[part] = self.argument(kind_of_part, value, f"{where}: {part}")
        self.program.launch(kernel, blocks, **arguments)

    def argument(self, kind, value, where):
        if isinstance(value, TensorWrapper):
            value = value.base
        if kind.startswith("*"):
            return None if value is None else self.pointer(value, where)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise ExportError(f"{where} is a {type(value).__name__} that varies; pass integers")
        return value if isinstance(value, (float, int)) else self.text(value)

    def source(self, function, bound, where):
        """The source that Triton would compile for these arguments, except that it assumes nothing
        about a size that varies."""
        shown = inspect.BoundArguments(function.signature, {
            param.name: self.checked_constant(value, f"{where}: the constexpr {param.name}")
            if param.is_constexpr else mapped(self.stand_in, value)
            for param, value in zip(function.params, bound.arguments.values())})
        *_, backend, specialize = function.create_binder()
        try:
            _, kinds, _ = specialize(*shown.args, **shown.kwargs)
        except TypeError as error:
            raise ExportError(f"{where}: {error}") from error
        signature = {param.name: kind for param, (kind, _) in zip(function.params, kinds)}
        values = list(bound.arguments.values())
        constants = {path: unwrap(get_iterable_path(values, path)) for path in find_paths_if(
            list(signature.values()), lambda _, kind: kind == "constexpr")}
        keys = ["" if kind == "constexpr" else key for kind, key in kinds]
        attributes = {path: backend.parse_attr(get_iterable_path(keys, path))
                      for path in find_paths_if(keys, lambda _, key: isinstance(key, str))}
        return ASTSource(function, signature, constants, attributes)

    @staticmethod
    def checked_constant(value, where):
        def check(part):
            if isinstance(part, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise ExportError(f"{where} is a size that varies between calls")
            return part

        return mapped(check, value)

    def stand_in(self, value):
        """A value that Triton specialises in the same way as one that is not known yet."""
        if isinstance(value, torch.Tensor):
            return Address(value.dtype, 16 if self.is_multiple(self.offset(value), 16) else 1)
        if isinstance(value, TensorWrapper):
            return Address(value.dtype, self.stand_in(value.base).address)
        if hasattr(value, "data_ptr"):
            raise ExportError(f"a {type(value).__name__} is passed; packages take only PyTorch "
                              "tensors")
        if isinstance(value, torch.SymInt):
            return (0 if self.fits_32_bits(value) else 1 << 40) + (
                16 if self.is_multiple(value, 16) else 3)
        if isinstance(value, torch.SymFloat):
            return 0.5
        return False if isinstance(value, torch.SymBool) else value

    def fits_32_bits(self, value):
        if isinstance(value, int):
            return -INT32_MAX - 1 <= value <= INT32_MAX
        limits = self.env.bound_sympy(value.node.expr)
        return bool(limits.upper <= INT32_MAX and limits.lower >= -INT32_MAX - 1)

    def grid(self, grid, bound, fixed):
        """The grid. If the code gives a function of the kernel's constants, the grid is an
        expression with their names, so that one expression is right for all configurations."""
        constants = {name: value for name, value in bound[0].items()
                     if name in fixed and type(value) is int and value > 1}
        if not callable(grid):
            return self.texts(grid)
        symbolic = dict(bound[0])
        for name, value in constants.items():
            known = self.symbol(f"{name}_", value, {"min": 1})
            symbolic[name], self.values[known.node.expr.name] = known, name
        before = len(self.env.guards)
        blocks = self.texts(grid(symbolic))
        assumed = [guard for guard in self.env.guards[before:]
                   if {symbol.name for symbol in guard.expr.free_symbols} & set(self.values)]
        plain = [self.texts(grid(values)) for values in bound]
        if assumed and any(other != plain[0] for other in plain):
            raise ExportError("the form of the grid depends on the configuration; record "
                              "one variant")
        return plain[0] if assumed else blocks

    def offset(self, tensor):
        return tensor.storage_offset() * tensor.element_size()

    def pointer(self, tensor, where):
        key = tensor.untyped_storage()._cdata
        if key not in self.storages:
            self.allocate(tensor)
        return self.storages[key], self.text(self.offset(tensor))

    def allocate(self, tensor):
        """Declares a temporary that the launch code made, with the bytes of its storage."""
        name = f"buffer_{len(self.storages)}"
        self.adopt(tensor, name)
        size = tensor.untyped_storage().nbytes()
        self.program.buffer(name, "temporary", bytes=self.text(size))

    # Results.

    def finish(self, returned, names):
        returned = returned if isinstance(returned, (tuple, list)) else [returned]
        names = names or (["output"] if len(returned) == 1 else
                          [f"output_{index}" for index in range(len(returned))])
        if len(names) != len(returned):
            raise ExportError(f"the number of returned tensors is {len(returned)}, but the number "
                              f"of names is {len(names)}; give one name for each tensor")
        for name, tensor in zip(names, returned):
            if not isinstance(tensor, torch.Tensor):
                raise ExportError(f"the output {name} is a {type(tensor).__name__}, not a "
                                  "tensor")
            self.return_tensor(name, tensor)
        guards = self.note_limits() + self.guards()
        if guards:
            self.program.value["guards"] = guards
        return self.program.build()

    def return_tensor(self, name, tensor):
        key = tensor.untyped_storage()._cdata
        buffers = self.program.value["buffers"]
        if key not in self.storages:
            raise ExportError(f"no kernel writes the output {name}")
        root, offset = self.storages[key], self.text(self.offset(tensor))
        shape = tuple(size_of(size) for size in tensor.shape)
        strides = tuple(size_of(stride) for stride in tensor.stride())
        layout = {"dtype": DTYPES[tensor.dtype], "shape": self.texts(tensor.shape)}
        if not is_dense(shape, strides):
            layout["strides"] = self.texts(tensor.stride())
        size = self.text(span(shape, strides) * DTYPE_BYTES[layout["dtype"]])
        if buffers[root]["role"] == "temporary" and offset == 0 and buffers[root]["bytes"] == size:
            del buffers[root]
            self.storages[key] = name
            for step in self.program.value["steps"]:
                for argument in step["args"]:
                    if argument.get("buffer") == root:
                        argument["buffer"] = name
            self.program.buffer(name, "output", **layout)
        elif buffers[root]["role"] == "temporary":
            self.program.buffer(name, "output", **layout)
            source = {"buffer": root, **({"offset": offset} if offset != 0 else {})}
            self.program.step({"op": "memcpy", "to": {"buffer": name}, "from": source,
                               "bytes": size})
        else:
            alias = {"buffer": root, **({"offset": offset} if offset != 0 else {})}
            self.program.buffer(name, "output", **layout, alias=alias)

    def note_limits(self):
        """Stores the limits of sizes, to which comparisons with numbers have been added. Limits of
        scalars become guards."""
        result = []
        for symbol, limits in self.env.var_to_range.items():
            name = self.names.get(symbol.name)
            low, high = finite(limits.lower, 0), finite(limits.upper, INT64_MAX)
            if name in self.program.value["symbols"]:
                known = {"min": low, **({"max": high} if high < SIZE_MAX else {})}
                self.program.value["symbols"][name].update(known)
            elif name is not None:
                result += limits_as_guards(name, low, high)
        return result

    def guards(self):
        result = []
        for guard in self.env.guards:
            condition = self.env.replace(guard.expr)
            if follows_from_limits(condition, self.env.var_to_range):
                continue
            if {symbol.name for symbol in condition.free_symbols} & set(self.values):
                continue  # Of a grid that was not taken in this form.
            text = text_of(condition, self.names)
            if text not in result:
                result.append(text)
        return result


class Address:
    """A pointer; only its alignment is known."""

    def __init__(self, dtype, address):
        self.dtype, self.address = dtype, address

    def data_ptr(self):
        return self.address


def mapped(change, value):
    """The value, or a tuple of the same kind, with each member changed."""
    if not isinstance(value, tuple):
        return change(value)
    members = [mapped(change, member) for member in value]
    return type(value)(*members) if hasattr(value, "_fields") else tuple(members)


def unwrap(value):
    return value.value if isinstance(value, triton.language.constexpr) else value
