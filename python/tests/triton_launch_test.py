#!/usr/bin/env python3
"""Goal: a kernel gets the arguments that Triton's own launcher passes, whatever they are.
Method: signatures with arguments of every kind are drawn and launched twice, by coppice.triton and
by Triton's launcher for CUDA over a driver that notes what it gets; the bytes have to be the same.
Kernels that store all they got are compiled and run, and held to what was asked.

    triton_launch_test.py [unittest's options]

COPPICE_TEST_SEED repeats a run, COPPICE_TEST_SIGNATURES draws more signatures. Without Triton, the
extension or a C compiler what needs them is skipped.
"""

import collections
import dataclasses
import importlib.util
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import torch
    import triton
    from triton._utils import type_canonicalisation_dict

    import coppice
    import coppice.triton
    from coppice.triton.driver import Driver, image_of
    from coppice.triton.figures import CAPABILITY
    from coppice.triton.scope import DTYPES
except ImportError as error:
    raise unittest.SkipTest(f"needs Triton, PyTorch and the extension: {error}") from error

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import triton_launcher

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
SIGNATURES = int(os.environ.get("COPPICE_TEST_SIGNATURES") or 600)
KERNELS = 24  # That store what they get.
BATCH = 50  # Signatures of one file.
HEAD = "import triton\nimport triton.language as tl\n\n"
POINTED = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
           "bf16": torch.bfloat16, "i64": torch.int64, "i8": torch.int8, "u8": torch.uint8,
           "bool": torch.bool}
INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16,
            "uint32": 32, "uint64": 64}
FLOATS = ("float16", "bfloat16", "float32", "float64")

Pair = collections.namedtuple("Pair", "left right")
Three = collections.namedtuple("Three", "x y z")


class Pointer:
    """What has data_ptr() and dtype, as an object of any library may."""

    def __init__(self, address, dtype="float32"):
        self.address, self.dtype = address, dtype

    def data_ptr(self):
        return self.address


class TensorOnDevice(torch.Tensor):
    """A subclass whose data lies elsewhere."""

    address = 0

    def data_ptr(self):
        return self.address


@triton.jit
def called(x):
    return x


@dataclasses.dataclass
class Signature:
    """A kernel's parameters, as text, and what it is launched with."""

    parameters: list = dataclasses.field(default_factory=list)
    options: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(list))
    positional: list = dataclasses.field(default_factory=list)
    named: dict = dataclasses.field(default_factory=dict)

    def source(self, name):
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return (f"@triton.jit{f'({options})' if options else ''}\n"
                f"def {name}({', '.join(self.parameters)}):\n    pass\n\n\n")


class Source:
    """Draws signatures."""

    def __init__(self, draw, device):
        self.draw, self.device = draw, device
        self.memory = device.empty([1 << 12], "u8")

    def integer(self):
        draw = self.draw
        edge = draw.choice([0, 1, -1, 1 << 31, -1 << 31, (1 << 63) - 1, -1 << 63, (1 << 64) - 1])
        return draw.choice([1, edge, edge - 1 if edge > 0 else edge + 1, 16 * draw.randrange(1000),
                            draw.randrange(-100, 100), draw.randrange(-1 << 63, 1 << 63)])

    def fraction(self):
        return self.draw.choice([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e300, -1e-310,
                                 65504.0, self.draw.random(), self.draw.gauss(0, 1e6)])

    def pointer(self):
        draw = self.draw
        address = self.memory.data_ptr() + draw.randrange(1 << 12)
        dtype = draw.choice(list(POINTED))
        which = draw.randrange(6)
        if which == 0:
            return self.device.view(address // 8 * 8, [1], dtype, owner=self.memory)
        if which in (1, 2):
            made = torch.empty(2, dtype=POINTED[dtype]).as_subclass(TensorOnDevice)
            made.address = address
            return made if which == 1 else triton.reinterpret(made, triton.language.int8)
        if which == 3:
            return Pointer(0)
        return Pointer(address, str(POINTED[dtype]))

    def constant(self, depth=2):
        """A value that is compiled in."""
        draw = self.draw
        plain = [None, True, False, 1, 3, 0.5, "text", triton.language.float32, called, (), 1 << 40]
        if depth == 0 or draw.random() < 0.5:
            return draw.choice(plain)
        return self.group([self.constant(depth - 1) for _ in range(draw.randrange(4))])

    def group(self, values):
        """A tuple, or a named one."""
        named = {2: Pair, 3: Three}.get(len(values))
        return named(*values) if named and self.draw.random() < 0.5 else tuple(values)

    def value(self, depth=3):
        """A value of a parameter of which nothing is said."""
        draw = self.draw
        kind = draw.randrange(10 if depth else 8)
        if kind < 2:
            return self.integer()
        if kind < 3:
            return self.fraction()
        if kind < 5:
            return self.pointer()
        if kind < 8:
            return draw.choice([True, False, None, called, triton.language.constexpr(7)])
        return self.group([self.value(depth - 1) for _ in range(draw.randrange(5))])

    def annotated(self):
        """A type, and a value for it that may be too large."""
        draw = self.draw
        name = draw.choice([*INTEGERS, *FLOATS, "int1", "pointer"])
        if name == "pointer":
            text = draw.choice(["tl.const", "'*fp32'", "'*k_i8'", "tl.pointer_type(tl.float16)"])
            return text, draw.choice([self.pointer(), self.memory.data_ptr() + 16])
        if name in FLOATS:
            return f"tl.{name}", draw.choice([self.fraction(), self.integer(), True])
        if name == "int1":
            return "tl.int1", draw.choice([True, False, 0, 1])
        bits = INTEGERS[name]
        low = 0 if name[0] == "u" else -1 << (bits - 1)
        return f"tl.{name}", draw.choice([low + draw.randrange(1 << bits), self.integer(), True, 1])

    def parameter(self, name):
        """A parameter, a value for it, and one that it may have by default."""
        kind = self.draw.randrange(8)
        if kind < 2:
            default = self.draw.choice(["(4, 4)", "1", "'s'"])
            return f"{name}: tl.constexpr", self.constant(), default
        if kind < 4:
            type_, value = self.annotated()
            return f"{name}: {type_}", value, "1"
        return name, self.value(), self.draw.choice(["None", "1", "48", "2.5", "True"])

    def signature(self):
        """One to eight parameters. Those from `first_named` on are passed by name, those behind
        `star` have to be; from `first_default` on they have values by default."""
        draw, made = self.draw, Signature()
        count = draw.randrange(1, 9)
        star = draw.choice([count, count, draw.randrange(count + 1)])
        first_named = draw.randrange(star + 1) if star < count or draw.random() < 0.5 else count
        first_default = draw.choice([star, draw.randrange(star + 1)])
        for index in range(count):
            name = f"p{index}"
            text, value, default = self.parameter(name)
            for option in ("do_not_specialize", "do_not_specialize_on_alignment"):
                if draw.random() < 0.15:
                    made.options[option].append(draw.choice([name, index]))
            has_default = index >= first_default if index < star else draw.random() < 0.3
            made.parameters += ["*"] * (index == star)
            made.parameters.append(f"{text}={default}" if has_default else text)
            if index < first_named:
                made.positional.append(value)
            elif not has_default or draw.random() < 0.5:
                made.named[name] = value
        if first_named == star == count and draw.random() < 0.2:
            made.parameters.append("*rest")
            made.positional += [self.value() for _ in range(draw.randrange(4))]
        made.named = dict(draw.sample(list(made.named.items()), len(made.named)))
        return made


class StoringSource(Source):
    """Draws kernels that store all they get, and what that is."""

    def integer(self):
        return self.draw.choice([1, super().integer() % (1 << 63)])

    def fraction(self):
        """What each type has."""
        return self.draw.randrange(-100, 100) / 4

    def constant(self, depth=2):
        value = super().constant(depth)
        return 3 if value is called else value

    def annotated(self):
        type_, value = super().annotated()
        name = type_.removeprefix("tl.")
        if name in FLOATS:
            return type_, self.draw.choice([self.fraction(), 3, True])
        return type_, int(value) % (1 << (INTEGERS[name] - 1)) if name in INTEGERS else value

    def kernel(self, name):
        """Its text, arguments, and what it stores: integers, then fractions."""
        lines, parameters, arguments, stored = [], ["integers", "fractions"], [], []
        for index in range(self.draw.randrange(4, 10)):
            text, value, _ = self.parameter(f"p{index}")
            parameters.append(text)
            arguments.append(value)
            for part, member in members_of(f"p{index}", value):
                lines += self.statement(part, member, text, stored)
        body = "\n    ".join(lines or ["pass"])
        return (f"@triton.jit\ndef {name}({', '.join(parameters)}):\n    {body}\n\n\n", arguments,
                stored)

    def statement(self, part, value, parameter, stored):
        if isinstance(value, triton.language.constexpr):
            value = value.value
        if value is None:
            return [f"tl.static_assert({part} is None)"]
        if isinstance(value, (str, triton.language.dtype)):
            known = repr(value) if isinstance(value, str) else "tl.float32"
            return [f"tl.static_assert({part} == {known})"]
        index = len(stored)
        if value is called:
            stored.append(("integers", index))
            return [f"tl.store(integers + {index}, {part}({index}))"]
        if isinstance(value, float) or parameter.endswith(tuple(f": tl.{name}" for name in FLOATS)):
            stored.append(("fractions", float(value)))
            return [f"tl.store(fractions + {index}, tl.cast({part}, tl.float64))"]
        number = value if isinstance(value, int) else value.data_ptr()
        stored.append(("integers", number - (1 << 64) * (number >= 1 << 63)))
        return [f"tl.store(integers + {index}, tl.cast({part}, tl.int64))"]


def members_of(name, value):
    """Of tuples each member, with its text."""
    if not isinstance(value, tuple):
        yield name, value
        return
    for index, member in enumerate(value):
        yield from members_of(f"{name}[{index}]", member)


def outcome(launch):
    """What a launch did, or the kind of error that it raised."""
    try:
        return launch()
    except (OverflowError, TypeError, ValueError) as error:
        return next(kind for kind in (OverflowError, TypeError, ValueError)
                    if isinstance(error, kind))


def functions(folder, texts):
    """@triton.jit functions, by their names, of {name: text}."""
    path = folder / f"kernels_{len(list(folder.iterdir()))}.py"
    path.write_text(HEAD + "".join(texts.values()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [getattr(module, name) for name in texts]


class LaunchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.device = coppice.device("emulator")


@unittest.skipUnless(shutil.which("cc"), "Triton's launcher needs a C compiler")
class PackingTest(LaunchTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = triton_launcher.TritonDriver(cls.folder, CAPABILITY)

    def launch_by_coppice(self, launch, **metadata):
        noting = triton_launcher.NotingDevice(self.device)
        with triton_launcher.uncompiled(lambda: image_of("kernel", b""),
                                        **metadata), \
                mock.patch.object(Driver, "kernel", lambda self, image: image), \
                coppice.triton.launching(noting):
            launch()
        return noting.launches[0] if noting.launches else None

    def assert_same(self, launch, said, **metadata):
        with mock.patch.dict(type_canonicalisation_dict, DTYPES):
            right = outcome(lambda: triton_launcher.launch_by_triton(self.driver, launch,
                                                                     **metadata))
        got = outcome(lambda: self.launch_by_coppice(launch, **metadata))
        self.assertEqual(right, got, said)
        return right

    def test_drawn_signatures_are_packed_as_triton_packs_them(self):
        source = Source(random.Random(SEED), self.device)
        draw, launched, parameters = source.draw, 0, 0
        for start in range(0, SIGNATURES, BATCH):
            signatures = [source.signature() for _ in range(min(BATCH, SIGNATURES - start))]
            texts = {f"kernel_{index}": signature.source(f"kernel_{index}")
                     for index, signature in enumerate(signatures)}
            for signature, function in zip(signatures, functions(self.folder, texts)):
                grid = tuple(draw.choice([0, 1, 2, 700]) for _ in range(draw.randrange(1, 4)))
                metadata = {"num_warps": draw.choice([1, 4, 8]), "num_ctas": draw.choice([1, 1, 2]),
                            "shared": draw.choice([0, 1 << 14]),
                            "launch_cooperative_grid": draw.random() < 0.2,
                            "launch_pdl": draw.random() < 0.2}
                right = self.assert_same(
                    lambda: function[grid](*signature.positional, **signature.named),
                    f"seed {SEED}: {signature}", **metadata)
                if isinstance(right, triton_launcher.Launch):
                    launched += 1
                    parameters += len(right.values) - 2
        self.assertGreater(launched, SIGNATURES / 4)
        self.assertGreater(parameters, 2 * launched)

    def test_memory_of_the_host_is_refused_as_triton_refuses_it(self):
        function, = functions(self.folder, {
            "kernel": Signature(["x", "shape: tl.constexpr", "pair"]).source("kernel")})
        memory = torch.zeros(4)
        x = Pointer(memory.data_ptr())
        self.driver.set_host(x.address, 16)
        self.addCleanup(self.driver.set_host, 0, 0)
        for arguments in ((x, (2, 2), (1, 2)), (None, (2, 2), (5, x))):
            right = self.assert_same(lambda: function[(1,)](*arguments), arguments)
            self.assertEqual(ValueError, right)


class ScopeTest(LaunchTest):
    def test_scratch_memory_is_there_without_a_wrapped_callable(self):
        function, = functions(self.folder, {"kernel": Signature(["x"]).source("kernel")})
        noting, image = triton_launcher.NotingDevice(self.device), image_of("k", b"")
        with triton_launcher.uncompiled(lambda: image, global_scratch_size=1 << 10, num_ctas=2,
                                        global_scratch_align=128), \
                mock.patch.object(Driver, "kernel", lambda self, image: image), \
                coppice.triton.launching(noting) as driver:
            for blocks in (3, 5, 4):
                function[(blocks,)](7)
                address = int.from_bytes(noting.launches[-1].values[1], "little")
                self.assertEqual(0, address % 128)
                for last in (address, address + 2 * blocks * (1 << 10) - 1):
                    self.assertTrue(self.device.holds(last))
            self.assertEqual(2, len(driver.scratch))

    def test_a_process_may_end_within(self):
        head = "import sys, coppice, coppice.triton\ndevice = coppice.Device('emulator')\n"
        opened = "scope = coppice.triton.launching(device)\nscope.__enter__()\n"
        for code, body in ((0, opened), (1, opened + "raise ValueError\n"),
                           (0, opened + "sys.kept = scope\n"),
                           (0, opened + "try:\n  1 / 0\nexcept Exception as e:\n  kept = e\n"),
                           (3, "with coppice.triton.launching(device):\n  sys.exit(3)\n")):
            done = subprocess.run([sys.executable, "-c", head + body], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(code, done.returncode, f"{body}{done.stderr}")


class ValuesTest(LaunchTest):
    def test_kernels_get_what_was_asked(self):
        source = StoringSource(random.Random(SEED), self.device)
        drawn = {f"kernel_{index}": source.kernel(f"kernel_{index}") for index in range(KERNELS)}
        made = functions(self.folder, {name: text for name, (text, _, _) in drawn.items()})
        for function, (text, arguments, stored) in zip(made, drawn.values()):
            integers = self.device.upload(torch.zeros(64, dtype=torch.int64))
            fractions = self.device.upload(torch.zeros(64, dtype=torch.float64))
            with coppice.triton.launching(self.device):
                function[(1,)](integers, fractions, *arguments)
            got = {"integers": integers.numpy(), "fractions": fractions.numpy()}
            self.assertEqual(stored, [(kind, got[kind][index].item())
                                      for index, (kind, _) in enumerate(stored)],
                             f"seed {SEED}: {text}{arguments}")


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
