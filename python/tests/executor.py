"""Runs programs of kernel packages from their manifest alone, on the CPU: an oracle for exporters.

Kernels are run from their PTX by `coppice ptx run`, with everything that it checks; calls by the
functions below. Temporaries and outputs hold NaNs (all bits set) before. It shares no code with
what writes packages, nor with the library that loads them; it knows what the tests need.
"""

import json
import pathlib
import subprocess
import tempfile
import zipfile

import numpy as np

import expression

# Bits stand for bfloat16, which NumPy has not.
DTYPES = {"f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "i64": "i8", "i32": "i4",
          "i16": "i2", "i8": "i1", "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bool": "?"}
POISON = 0xFF
SECONDS_MAX = 600


class Package:
    """A package in memory, and its files in a folder, since `ptx run` reads files."""

    def __init__(self, path, coppice):
        self.coppice, self.scratch = coppice, tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(self.folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_bytes())
        self.launches, self.instructions = 0, 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.scratch.cleanup()

    def constants(self, given):
        """Arrays of all constants: those that the package holds, and those given by name."""
        result = dict(given)
        for name, constant in self.manifest["constants"].items():
            if "data" in constant:
                data = (self.folder / constant["data"]["file"]).read_bytes()
                begin = 8 + int.from_bytes(data[:8], "little")
                first, last = json.loads(data[8:begin])[constant["data"]["tensor"]]["data_offsets"]
                result[name] = np.frombuffer(data[begin + first:begin + last], np.uint8)
        return result

    def run(self, name, inputs, scalars=None, constants=None, seed=1):
        """Outputs as arrays by name. Mutated inputs are written in place."""
        return Run(self, self.manifest["programs"][name], inputs, scalars or {},
                   self.constants(constants or {}), seed).run()


class Run:
    def __init__(self, package, program, inputs, scalars, constants, seed):
        self.package, self.program, self.seed = package, program, seed
        self.inputs, self.constants, self.memory = inputs, constants, {}
        self.names = {name: scalars[name] for name in program.get("scalars", {})}
        self.scalars = scalars

    def at(self, value, more=None):
        return expression.evaluate(value, {**self.names, **(more or {})})

    def run(self):
        self.bind_symbols()
        for guard in self.program.get("guards", ()):
            assert self.at(guard), f"the guard {guard} fails at {self.names}"
        for name, buffer in self.program["buffers"].items():
            self.allocate(name, buffer)
        for step in self.program["steps"]:
            if not self.at(step.get("if", 1)):
                continue
            getattr(self, "step_" + step["op"])(step)
        for name, buffer in self.program["buffers"].items():
            if buffer.get("mutated"):
                self.inputs[name].reshape(-1).view(np.uint8)[:] = self.memory[name]
        return {name: self.view({"buffer": name, **self.program["buffers"][name]}).copy()
                for name in self.program["outputs"]}

    def bind_symbols(self):
        for name, symbol in self.program["symbols"].items():
            sizes = set()
            if "from" in symbol:
                sizes.add(self.scalars[symbol["from"]["scalar"]])
            for given in self.program["inputs"]:
                shape = self.program["buffers"][given]["shape"]
                assert len(shape) == self.inputs[given].ndim, given
                sizes |= {size for size, text in zip(self.inputs[given].shape, shape)
                          if text == name}
            assert len(sizes) == 1, f"{name} is {sizes}"
            (self.names[name],) = sizes
            assert symbol.get("min", 0) <= self.names[name] <= symbol.get("max", 1 << 62), name
        for given in self.program["inputs"]:
            buffer = self.program["buffers"][given]
            shape = tuple(self.at(size) for size in buffer["shape"])
            assert shape == self.inputs[given].shape, (given, shape, self.inputs[given].shape)

    def allocate(self, name, buffer):
        role = buffer["role"]
        if role in ("input", "constant"):
            array = self.inputs[name] if role == "input" else self.constants[buffer["constant"]]
            self.memory[name] = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
        elif role == "seed":
            self.memory[name] = seed_words(self.seed, self.at(buffer["words"])).view(np.uint8)
        elif "alias" not in buffer:
            self.memory[name] = np.full(self.bytes_of(buffer), POISON, np.uint8)

    def bytes_of(self, buffer):
        if "bytes" in buffer:
            return self.at(buffer["bytes"])
        shape = [self.at(size) for size in buffer["shape"]]
        strides = [self.at(stride) for stride in buffer.get("strides", row_major(shape))]
        last = sum((size - 1) * stride for size, stride in zip(shape, strides))
        return (last + 1 if 0 not in shape else 0) * np.dtype(DTYPES[buffer["dtype"]]).itemsize

    def root(self, operand):
        """Memory from an operand on."""
        buffer, offset = operand["buffer"], self.at(operand.get("offset", 0))
        alias = self.program["buffers"][buffer].get("alias")
        if alias:
            return self.root(alias)[offset:]
        return self.memory[buffer][offset:]

    def view(self, view):
        """An array over the memory of a view."""
        shape = [self.at(size) for size in view["shape"]]
        strides = [self.at(stride) for stride in view.get("strides", row_major(shape))]
        dtype = np.dtype(DTYPES[view["dtype"]])
        memory = self.root({key: view[key] for key in ("buffer", "offset") if key in view})
        memory = memory[:len(memory) // dtype.itemsize * dtype.itemsize].view(dtype)
        return np.lib.stride_tricks.as_strided(
            memory, shape, [stride * dtype.itemsize for stride in strides])

    # Steps.

    def step_kernel(self, step):
        kernel = self.package.manifest["kernels"][step["kernel"]]
        target = next(target for target in kernel["targets"]
                      if self.module(target)["format"] == "ptx")
        values = target.get("values", {})
        grid = [self.at(size, values) for size in step["grid"]]
        if 0 in grid:
            return
        assert all(0 < size <= 65535 or axis == 0 for axis, size in enumerate(grid)), grid
        with tempfile.TemporaryDirectory() as scratch:
            folder, arrays = pathlib.Path(scratch), {}
            texts = [self.argument(folder, index, argument, values, arrays)
                     for index, argument in enumerate(step["args"])]
            command = [self.package.coppice, "ptx", "run",
                       self.package.folder / self.module(target)["file"], target["symbol"],
                       "--json", "--grid", ",".join(map(str, grid)),
                       "--block", ",".join(map(str, target["block"])),
                       "--shared", str(target.get("shared_bytes", 0)), "--seed", str(self.seed)]
            command += ["--cooperative"] if target.get("cooperative") else []
            for text in texts:
                command += ["--arg", text]
            done = subprocess.run(command, check=False, text=True, capture_output=True,
                                  timeout=SECONDS_MAX)
            assert done.returncode == 0, f"{step}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            report = json.loads(done.stdout)
            self.package.launches += 1
            self.package.instructions += report["lane_instructions"]
            for index, (memory, before) in arrays.items():
                self.take(step, index, report["arguments"][index], memory, before, folder)

    def module(self, target):
        return self.package.manifest["modules"][target["module"]]

    def argument(self, folder, index, argument, values, arrays):
        """The text of --arg. Whatever is written is shown what was there before, so that what the
        kernel leaves alone stays."""
        if "buffer" in argument:
            memory = self.root(argument)
            words = memory.view(np.uint8)
            offset = self.at(argument.get("offset", 0))
            assert offset % argument.get("divisible_by", 1) == 0, argument
            before = folder / f"{index}.npy"
            np.save(before, words)
            if argument.get("access", "rw") != "r":
                arrays[index] = (memory, words.copy())
                return f"inout:{before}:{folder / f'{index}_after.npy'}"
            return f"in:{before}"
        if "null" in argument:
            return "null"
        ((kind, value),) = [item for item in argument.items() if item[0] != "divisible_by"]
        if kind in ("f32", "f64"):
            return f"{kind}:{float(value)}"
        if kind in ("f16", "bf16"):
            half = np.float16 if kind == "f16" else np.float32
            return f"i16:{np.array([float(value)], half).view(np.int16)[-1]}"
        number = self.at(value, values)
        assert number % argument.get("divisible_by", 1) == 0, (argument, number)
        return f"{'i8' if kind == 'bool' else kind}:{number}"

    def take(self, step, index, report, memory, before, folder):
        """Keeps what a kernel wrote, and holds it to the access that the step says."""
        access = step["args"][index].get("access", "rw")
        assert access != "w" or report["read_bytes"] == 0, f"{step}: reads argument {index}"
        after = np.load(folder / f"{index}_after.npy")
        changed = after != before
        memory[changed] = after[changed]

    def step_memset(self, step):
        width, count = step["width"], self.at(step["count"])
        word = np.dtype(f"u{width}").type(step["value"])
        self.root(step["to"])[:width * count].view(word.dtype)[:] = word

    def step_memcpy(self, step):
        size = self.at(step["bytes"])
        self.root(step["to"])[:size] = self.root(step["from"])[:size]

    def step_call(self, step):
        inputs = [widened(self.view(view), view["dtype"]) for view in step["inputs"]]
        outputs = [self.view(view) for view in step["outputs"]]
        options = step.get("options", {})
        if step["function"] == "gemm":
            left, right, *added = (array.astype(np.float64) for array in inputs)
            result = float(options.get("alpha", 1)) * (left @ right)
            if added:
                result = result + float(options.get("beta", 1)) * added[0]
            results = [result]
        else:
            results = call_torch(step["function"], inputs, options)
        for view, output, result in zip(step["outputs"], outputs, results):
            output[...] = narrowed(result, view["dtype"])


def seed_words(seed, count):
    """What the words of a seed hold, in every call with this seed."""
    return np.random.default_rng(seed).integers(-(1 << 63), (1 << 63) - 1, count)


def widened(array, dtype):
    """Numbers that NumPy has: bfloat16 as the floats of its bits."""
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else array


def narrowed(array, dtype):
    """The bits of the nearest bfloat16, the even one of two; any other type as it is."""
    if dtype != "bf16":
        return array
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def call_torch(function, inputs, options):
    """What PyTorch's operator computes on the CPU, with the arguments that its schema names."""
    import torch

    namespace, operator, overload = function.split(".")
    target = getattr(getattr(getattr(torch.ops, namespace), operator), overload)
    tensors, arguments, named = [torch.from_numpy(array.copy()) for array in inputs], [], {}
    given = iter(tensors)
    listed = {int(text.removeprefix("input:")) for value in options.values()
              for text in (json.loads(value) if str(value).startswith("[") else ())
              if str(text).startswith("input:")}
    given = iter(tensor for index, tensor in enumerate(tensors) if index not in listed)

    def plain(value):
        if isinstance(value, list):
            return [plain(member) for member in value]
        if isinstance(value, str) and value.startswith("input:"):
            return tensors[int(value.removeprefix("input:"))]
        return value

    for argument in target._schema.arguments:
        if argument.is_out:
            continue
        if argument.name in options:
            value = options[argument.name]
            value = plain(json.loads(value)) if isinstance(value, str) else value
        else:
            value = next(given, None)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            arguments.append(value)
    results = target(*arguments, **named)
    results = results if isinstance(results, (list, tuple)) else [results]
    return [result.numpy() for result in results]


def row_major(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return strides
