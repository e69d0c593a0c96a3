"""Exports Triton kernels: by explicit signatures, or by recording the code that launches them.

By signatures, without PyTorch and without a driver:

    package = Package()
    twice = add_kernel(package, kernel, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": 1024})
    program = Program({"n": {"min": 1, "max": 1 << 20}})
    program.buffer("x", "input", "f32", ["n"])
    program.buffer("y", "output", "f32", ["n"])
    program.launch(twice, ["ceildiv(n, BLOCK)"], x="x", y="y", n="n")
    package.add_program("main", program.build())

By recording, which needs PyTorch: coppice.export.triton_recording.
"""

from coppice.export import kernels
from coppice.export.manifest import ExportError, Package
from coppice.export.ttir import accesses_of

__all__ = ["Kernel", "Package", "Program", "add_kernel"]


class Kernel:
    """A kernel of a package, and the parameters of its launches."""

    def __init__(self, name, parameters, multiples, accesses, trailing):
        self.name, self.parameters = name, parameters  # Pairs of name and Triton's type.
        self.multiples, self.accesses, self.trailing = multiples, accesses, trailing


def add_kernel(package, function, signature, constexprs=None, *, divisible=(),
               archs=("80", "90a"), variants=None, name=None, **options):
    """Compiles a @triton.jit function for every architecture into a package.

    signature     {parameter: "*fp32", "i32", ...}, without constexprs
    constexprs    {parameter: value}; integers of them may be used in grids by name
    divisible     parameters that are multiples of 16 in every launch
    variants      [(constexprs, options), ...] on top of those given: configurations to choose from
    options       Triton's: num_warps, num_stages, enable_fp_fusion, ...
    Returns a Kernel. Errors: ExportError."""
    function = bare(function)
    sources = []
    for more, tuned in variants or [({}, {})]:
        values = {**(constexprs or {}), **more}
        missing = [parameter for parameter in function.arg_names
                   if parameter not in signature and parameter not in values]
        if missing:
            raise ExportError(f"{function.__name__}: the signature and the constexprs lack "
                              f"{', '.join(missing)}")
        sources.append((make_source(function, signature, values, divisible), {**options, **tuned}))
    return add_sources(package, name or function.__name__, sources, archs)


def add_sources(package, name, sources, archs):
    """Compiles one kernel's ASTSource for every architecture. Each of several sources, [(source,
    options), ...], is a variant. Returns a Kernel. Errors: ExportError."""
    architectures = kernels.parse_architectures(archs)
    chosen = []
    for index, (source, options) in enumerate(sources):
        settings = {"enable_fp_fusion": True, **options}
        try:
            compiled = kernels.compile_source(source, architectures[0].capability, settings)
        except Exception as error:
            raise ExportError(f"{source.fn.__name__}: {type(error).__name__}: "
                              f"{str(error).strip().splitlines()[0]}") from error
        numbers = {source.fn.arg_names[path[0]]: value for path, value in source.constants.items()
                   if type(value) is int and len(path) == 1}
        chosen.append(("" if len(sources) == 1 else str(index), compiled, numbers))
    known, parameters = kernels.add_kernel(package, name, chosen, architectures)
    accesses = accesses_of(chosen[0][1].asm["ttir"], [parameter for parameter, _ in parameters])
    return Kernel(known, parameters, kernels.divisibility(chosen[0][1].src), accesses,
                  kernels.trailing_arguments(package, known))


def bare(function):
    """The JITFunction inside @autotune and @heuristics."""
    while not hasattr(function, "arg_names") or hasattr(function, "configs") or \
            hasattr(function, "values"):
        function = function.fn
    return function


def make_source(function, signature, constexprs, divisible):
    from triton.compiler import ASTSource

    whole = {parameter: signature.get(parameter, "constexpr") for parameter in function.arg_names}
    attributes = {(function.arg_names.index(parameter),): [["tt.divisibility", 16]]
                  for parameter in divisible}
    return ASTSource(fn=function, signature=whole, constexprs=dict(constexprs), attrs=attributes)


class Program:
    """A program written by hand, with the names of the format page."""

    def __init__(self, symbols=None, scalars=None, guards=()):
        self.value = {"symbols": dict(symbols or {}), "inputs": [], "outputs": [], "buffers": {},
                      "steps": []}
        if scalars:
            self.value["scalars"] = dict(scalars)
        if guards:
            self.value["guards"] = list(guards)
        self.written = set()

    def buffer(self, name, role, dtype=None, shape=None, **more):
        """Declares a buffer; inputs and outputs keep their order. Returns the name."""
        if name in self.value["buffers"]:
            raise ExportError(f"two buffers are called {name}")
        given = {"dtype": dtype, "shape": None if shape is None else list(shape), **more}
        self.value["buffers"][name] = {
            "role": role, **{key: value for key, value in given.items() if value is not None}}
        if role in ("input", "output"):
            self.value[role + "s"].append(name)
        return name

    def launch(self, kernel, grid, access=None, **arguments):
        """Launches a Kernel. Arguments for pointers are names of buffers, or (name, offset in
        bytes). Arguments for scalars are integers, fractions or expressions. `access` overrides the
        access that was found for a parameter."""
        grid = [*grid, 1, 1][:3]
        values = []
        for parameter, kind in kernel.parameters:
            if parameter not in arguments:
                raise ExportError(f"{kernel.name}: the argument {parameter} is missing")
            value = arguments.pop(parameter)
            multiple = kernel.multiples.get(parameter)
            if kind.startswith("*"):
                found = (access or {}).get(parameter, kernel.accesses[parameter] or "r")
                values.append({**self.pointer(value, found),
                               **({"divisible_by": multiple} if multiple else {})})
            else:
                values.append(kernels.number_argument(parameter, kind, value, multiple))
        if arguments:
            raise ExportError(f"{kernel.name} has no parameter {', '.join(arguments)}")
        self.value["steps"].append({"op": "kernel", "kernel": kernel.name, "grid": grid,
                                    "args": values + kernel.trailing})

    def pointer(self, value, access):
        if value is None:
            return {"null": True}
        name, offset = value if isinstance(value, tuple) else (value, 0)
        buffer = self.value["buffers"].get(name)
        if buffer is None:
            raise ExportError(f"there is no buffer {name}")
        if "w" in access:
            # What was there may stay where this kernel does not write.
            access = "rw" if buffer["role"] == "input" or name in self.written else access
            self.written.add(name)
            if buffer["role"] == "input":
                buffer["mutated"] = True
        return {"buffer": name, "access": access, **({"offset": offset} if offset != 0 else {})}

    def step(self, step):
        """Adds any other step, in the form of the format page."""
        self.value["steps"].append(step)

    def build(self):
        for name in self.value["inputs"]:
            buffer = self.value["buffers"][name]
            if buffer.get("mutated") and all(isinstance(size, int) for size in buffer["shape"]):
                buffer["static"] = True
        return self.value
