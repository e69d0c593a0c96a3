"""The command: exports a PyTorch program from a file of Python."""

import argparse
import importlib.util
import pathlib
import re
import sys

from coppice.export.manifest import ExportError

DESCRIPTION = "Compile a PyTorch program into a kernel package, without a GPU"
EXAMPLES = """\
Give the arguments of the program in order, with one --input for each. Without --input, the file's
own function example_inputs(NAME) returns them as a tuple.

  --input x=f32:4x128      a tensor, by its type and an example of its shape
  --input n=5              an integer
  --dynamic x:0=2..64      axis 0 of x varies in that range
  --dynamic x:0=batch:2..64   the same, with a name; axes with the same name have one size
  --dynamic n=2..512       an integer that is a size

Types: f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool

Examples:
  python -m coppice.export model.py:block --input x=f32:4x32x256 \\
      --dynamic x:0=2..64 --dynamic x:1=2..2048 --arch 80,90a -o block.zip

Exit codes: 0 success; 2 a wrong option or file, or a program that cannot be exported
"""


class UsageError(Exception):
    """A wrong option, in one line."""


def parser():
    result = argparse.ArgumentParser(
        prog="python -m coppice.export", description=DESCRIPTION, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("program", metavar="FILE.py:NAME",
                        help="a module, a module class, a function or an ExportedProgram")
    result.add_argument("--input", action="append", default=[], metavar="NAME=TYPE:SHAPE",
                        help="an example argument")
    result.add_argument("--dynamic", action="append", default=[], metavar="NAME:AXIS=MIN..MAX",
                        help="a size that varies between calls")
    result.add_argument("--arch", default="80,90a",
                        help="architectures: 80 gives PTX; 90a and 86:cubin each give a cubin "
                             "(default: %(default)s)")
    result.add_argument("--name", default="main", help="name of the program (default: %(default)s)")
    result.add_argument("--outputs", help="names of the outputs, such as logits,state")
    result.add_argument("--static", action="append", default=[], metavar="NAME",
                        help="an input that stays at its address")
    result.add_argument("--weights", action="store_true",
                        help="put parameters and buffers into the package")
    result.add_argument("--save-weights", metavar="FILE.safetensors",
                        help="write parameters and buffers to a file")
    result.add_argument("--variants", type=int, default=1, metavar="N",
                        help="number of configurations of each kernel (default: %(default)s)")
    result.add_argument("-o", "--output", required=True, metavar="PKG",
                        help="the package: a zip if it ends in .zip, else a folder")
    return result


def load(text):
    """The object named by FILE.py:NAME, and its module."""
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name.replace(".", "_").isidentifier():
        raise UsageError(f"{text!r} is not FILE.py:NAME")
    path = pathlib.Path(file)
    if not path.is_file():
        raise UsageError(f"{file}: no such file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{file} has no {name}")
        found = getattr(found, part)
    return found, module, name


def parse_input(text):
    """NAME=TYPE:SHAPE as a name and a tensor, NAME=5 as a name and an integer."""
    import torch

    from coppice.export.tensors import DTYPES

    types = {word: dtype for dtype, word in DTYPES.items()}
    match = re.fullmatch(r"(\w+)=(?:(-?\d+)|(\w+):(\d+(?:x\d+)*)?)", text)
    if not match or (match[3] and match[3] not in types):
        raise UsageError(f"--input {text!r} is not NAME=TYPE:SHAPE, such as x=f32:4x128, or NAME=5")
    if match[2]:
        return match[1], int(match[2])
    shape = [int(size) for size in match[4].split("x")] if match[4] else []
    return match[1], torch.zeros(shape, dtype=types[match[3]])


def parse_dynamic(texts):
    result = {}
    for text in texts:
        match = re.fullmatch(r"(\w+)(?::(-?\d+))?=(?:([A-Za-z_]\w*):)?(\d+)\.\.(\d+)", text)
        if not match:
            raise UsageError(f"--dynamic {text!r} is not NAME:AXIS=MIN..MAX, such as x:0=2..64")
        how = {"min": int(match[4]), "max": int(match[5])}
        if match[3]:
            how["name"] = match[3]
        if how["min"] > how["max"]:
            raise UsageError(f"--dynamic {text!r}: the minimum {how['min']} is more than the "
                             f"maximum {how['max']}")
        if match[2] is None:
            result[match[1]] = how
        else:
            result.setdefault(match[1], {})[int(match[2])] = how
    return result


def run(options):
    from coppice.export import torch as exporter

    model, module, name = load(options.program)
    dynamic = parse_dynamic(options.dynamic)
    if isinstance(model, type):
        model = model().eval()
    if options.input:
        args = tuple(value for _, value in map(parse_input, options.input))
    elif isinstance(model, exporter.ExportedProgram):
        args = ()
    elif hasattr(module, "example_inputs"):
        args = tuple(module.example_inputs(name))
    else:
        raise UsageError("no arguments: give --input, or define example_inputs(NAME) in the file "
                         f"of {options.program}")
    package = exporter.export(
        model, args, name=options.name, dynamic=dynamic, archs=options.arch.split(","),
        outputs=options.outputs.split(",") if options.outputs else None, static=options.static,
        weights=options.weights, configurations=options.variants)
    package.write(options.output)
    if options.save_weights:
        exporter.save_weights(options.save_weights, exporter.state_of(model))
    program = package.programs[options.name]
    print(f"{options.output}: {len(program['steps'])} steps, {len(package.kernels)} kernels, "
          f"symbols {', '.join(program['symbols']) or 'none'}")


def main():
    options = parser().parse_args()
    try:
        run(options)
    except ImportError as error:
        print(f"coppice.export: {error}; install coppice[torch]", file=sys.stderr)
        return 2
    except (UsageError, ExportError, OSError) as error:
        print(f"coppice.export: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
