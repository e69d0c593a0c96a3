"""What Triton compiled, as modules and kernels of a package.

A source is compiled once per architecture. The kernel's targets have what the compiler reports of
the result (shared memory, scratch, launch attributes). Its parameters are read from the PTX, and
must be those that the front end passes.
"""

import contextlib
import ctypes
import dataclasses
import functools
import math
import operator
import os
import re
import struct
from unittest import mock

from coppice.export.manifest import ExportError, fraction

# Triton's scalar types: what an argument is called in a manifest.
SCALARS = {"i1": "bool", "u1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
           "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64", "fp16": "f16", "bf16": "bf16",
           "fp32": "f32", "f32": "f32", "fp64": "f64"}
SCALAR_BYTES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4,
                "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}
FRACTIONS = ("f16", "bf16", "f32", "f64")
TRAILING_POINTERS = 2  # Global and profile scratch, behind the source's parameters.
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "debug",
           "sanitize_overflow", "launch_cooperative_grid", "launch_pdl", "enable_reflect_ftz")


# Compute capabilities that Triton 3.9 compiles for; at others its LLVM ends the process.
CAPABILITIES = (70, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)


@dataclasses.dataclass(frozen=True)
class Architecture:
    capability: int  # 90 of sm_90a.
    image_format: str  # "cubin" or "ptx".


def parse_architectures(texts):
    """["80", "90a", "86:cubin"]: PTX below 90 and cubins from 90 on, unless the text names the
    form. Errors: ExportError."""
    result = []
    for text in texts:
        match = re.fullmatch(r"(?:sm_)?(\d{2,3})[af]?(?::(cubin|ptx))?", str(text))
        if not match:
            raise ExportError(f"the architecture {text!r} is not valid; give one such as 80, 90a "
                              "or 86:cubin")
        capability = int(match[1])
        if capability not in CAPABILITIES:
            raise ExportError(f"Triton does not support the architecture {text!r}; "
                              f"give one of {', '.join(map(str, CAPABILITIES))}")
        image_format = match[2] or ("cubin" if capability >= 90 else "ptx")
        result.append(Architecture(capability, image_format))
    if not result or len(set(result)) != len(result):
        raise ExportError(f"the architectures are {list(texts)}; give at least one, and each only "
                          "once")
    return result


@contextlib.contextmanager
def without_line_information():
    """Inside the scope, images contain no file names of this machine, so equal sources give equal
    bytes."""
    with mock.patch.dict(os.environ, TRITON_DISABLE_LINE_INFO="1"):
        yield


@functools.lru_cache
def up_to_ptx(compiler):
    """A Triton compiler that stops at PTX and returns it in place of a cubin. Its cached results
    are separate from those of other compilers."""
    class Compiler(compiler):
        def make_cubin(self, src, metadata, opt, capability):
            return src.encode()

        def hash(self):
            return f"coppice-ptx-{self.target.arch}"

    return Compiler


def compile_source(source, capability, options):
    """Compiles an ASTSource for one architecture. Needs no driver."""
    import triton
    from triton.backends.compiler import GPUTarget

    with without_line_information():
        return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def options_of(compiled):
    """The options that a kernel was compiled with, to compile it in the same way again."""
    known = compiled.metadata
    return {name: getattr(known, name) for name in OPTIONS if hasattr(known, name)}


def parameters_of(ptx, symbol):
    """Bytes of each parameter that PTX declares for an entry. Errors: ExportError."""
    match = re.search(r"\.entry\s+" + re.escape(symbol) + r"\s*\(([^)]*)\)", ptx)
    if not match:
        raise ExportError(f"the PTX has no entry {symbol}")
    sizes = []
    for declaration in filter(None, (line.strip() for line in match[1].split(","))):
        found = re.match(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z])(\d+)\b", declaration)
        many = re.search(r"\[(\d+)\]", declaration)
        if not found:
            raise ExportError(f"{symbol}: coppice cannot read the PTX parameter {declaration!r}")
        sizes.append(int(found[2]) // 8 * (int(many[1]) if many else 1))
    return sizes


def passed(name, kind, value):
    """Name, type and value of each parameter that a kernel gets for one argument. A tuple gives one
    for each of its members, with Triton's names. A constant is compiled in, and gives none."""
    if isinstance(kind, tuple):
        fields = getattr(kind, "_fields", range(len(kind)))
        for field, member, part in zip(fields, kind, value, strict=True):
            yield from passed(f"{name}.{field}", member, part)
    elif kind != "constexpr":
        yield name, kind, value


def packed(kind, number):
    """The bytes of a number as Triton's launcher for CUDA passes it. A number that is too large for
    the annotated type of its parameter is truncated, or becomes infinite; bf16 is truncated, too.
    Errors: TypeError, OverflowError, as Triton raises them."""
    word = SCALARS[kind]
    size = SCALAR_BYTES[word]
    if word not in FRACTIONS:
        return operator.index(number).to_bytes(8, "little", signed=kind[0] == "i")[:size]
    if word in ("f32", "bf16"):
        return bytes(ctypes.c_float(number))[-size:]
    return struct.pack("d" if word == "f64" else "e", float(number))


def number_argument(parameter, kind, value, multiple=None):
    """A number, or the text of an expression, as an argument of a step. The kernel gets the same as
    from a launch by Triton. Errors: ExportError."""
    word = SCALARS[kind]
    if word in FRACTIONS:
        try:
            number = float(value)
        except ValueError as error:
            raise ExportError(f"{parameter} is a floating-point number that varies: pass it as a "
                              "tensor") from error
        return {word: fraction(rounded(parameter, kind, number))}
    if not isinstance(value, str):
        value = int.from_bytes(held(parameter, kind, value), "little", signed=kind[0] == "i")
    return {word: value, **({"divisible_by": multiple} if multiple else {})}


def rounded(parameter, kind, number):
    """The number that a package has for a fraction. It is the number itself, whose text is short,
    except where the parameter holds another one: truncated for bf16, infinite if f32 is too
    small for it."""
    bytes_ = held(parameter, kind, number)
    if SCALARS[kind] not in ("f32", "bf16"):
        return number
    (known,) = struct.unpack("f", bytes_.rjust(4, b"\0"))
    return known if SCALARS[kind] == "bf16" or math.isinf(known) else number


def held(parameter, kind, number):
    try:
        return packed(kind, number)
    except OverflowError as error:
        raise ExportError(f"{parameter}: {error}") from error


def source_parameters(source):
    """Names and types of the arguments that an ASTSource takes at a launch, in order."""
    named = list(source.fn.arg_names)
    paths = [name if isinstance(name, tuple) else (name,) for name in source.constants]
    fixed = {named[path[0]] if isinstance(path[0], int) else path[0]
             for path in paths if len(path) == 1}
    return [(part, kind) for name, known in source.signature.items() if name not in fixed
            for part, kind, _ in passed(name, known, known)]


def divisibility(source):
    """{parameter: number} for each parameter of an ASTSource that was compiled as a multiple of a
    number."""
    known = {}
    for path, attributes in (source.attrs or {}).items():
        for attribute, value in attributes:
            if attribute == "tt.divisibility":
                known[parameter_at(source, path)] = value
    return known


def parameter_at(source, path):
    """The name of a parameter, or of a member of one, as in `passed`."""
    name = source.fn.arg_names[path[0]]
    kind = source.signature[name]
    for index in path[1:]:
        name = f"{name}.{getattr(kind, '_fields', range(len(kind)))[index]}"
        kind = kind[index]
    return name


def bytes_of_type(kind, where):
    if kind.startswith("*"):
        return 8
    if kind in SCALARS:
        return SCALAR_BYTES[SCALARS[kind]]
    raise ExportError(f"{where}: a parameter of type {kind} cannot be exported")


def add_kernel(package, name, variants, architectures, values=None):
    """Adds a kernel with a target per architecture and variant.

    `variants` are (variant's name, compiled kernel, its values). For other architectures, the
    source of each is compiled again. Returns the kernel's name in the package and its parameters as
    source_parameters. Errors: ExportError."""
    first = variants[0][1]
    parameters = source_parameters(first.src)
    expected = [bytes_of_type(kind, name) for _, kind in parameters] + [8] * TRAILING_POINTERS
    targets = []
    for variant, compiled, numbers in variants:
        for architecture in architectures:
            image = compiled
            if compiled.metadata.target.arch != architecture.capability:
                options = options_of(compiled)
                image = compile_source(compiled.src, architecture.capability, options)
            targets.append(target_of(package, name, image, architecture, expected))
            if numbers:
                targets[-1]["values"] = numbers
            if variant:
                targets[-1]["variant"] = variant
    if any("scratch" in target for target in targets):
        for target in targets:
            target.setdefault("scratch", [{"bytes_per_block": 0, "align": 1}])
    kernel = {"parameters": expected, "targets": targets,
              "source": {"front_end": "triton", "name": first.metadata.name}}
    return package.add_kernel(name, kernel), parameters


def target_of(package, name, compiled, architecture, expected):
    """A kernel's target for one architecture; its image goes into the package."""
    metadata = compiled.metadata
    ptx = compiled.asm["ptx"]
    sizes = parameters_of(ptx, metadata.name)
    if sizes != expected:
        raise ExportError(f"{name}: the PTX has parameters of {sizes} bytes, but {expected} "
                          "are expected")
    if metadata.num_ctas != 1:
        raise ExportError(f"{name}: clusters of {metadata.num_ctas} blocks cannot be exported; "
                          "compile with num_ctas=1")
    arch = re.search(r"^\.target\s+(sm_\w+)", ptx, re.M)[1]
    data = ptx.encode() if architecture.image_format == "ptx" else compiled.asm["cubin"]
    module = package.add_module(f"{name}_{arch.removeprefix('sm_')}", data,
                                architecture.image_format, arch)
    target = {"module": module, "symbol": metadata.name,
              "block": [32 * metadata.num_warps, 1, 1]}
    if metadata.shared:
        target["shared_bytes"] = metadata.shared
    if getattr(metadata, "launch_cooperative_grid", False):
        target["cooperative"] = True
    if getattr(metadata, "launch_pdl", False):
        target["programmatic"] = True
    if getattr(metadata, "profile_scratch_size", 0):
        raise ExportError(f"{name}: it was compiled for profiling; compile it without profiling")
    if metadata.global_scratch_size:
        target["scratch"] = [{"bytes_per_block": metadata.global_scratch_size,
                              "align": metadata.global_scratch_align}]
    return target


def trailing_arguments(package, kernel):
    """Arguments for the scratch pointers, which follow those of the source."""
    scratch = "scratch" in package.kernels[kernel]["targets"][0]
    return [{"scratch": 0} if scratch else {"null": True}, {"null": True}]
