"""The launches of compiled kernels: their inputs drawn, run by `coppice ptx run`, compared.

    fixtures = Fixtures(archive, references)
    launch = fixtures.read()["softmax"]
    values = draw(launch, seed)
    run = fixtures.run(coppice, launch, values, scratch)
    fixtures.differences(launch, values, run)      no text if what was computed is right
"""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import tempfile
import zlib

import numpy as np

import number_formats

# What `coppice ptx run` calls them.
TYPES = {"s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64", "e4m3": "u8", "e5m2": "u8"}
SECONDS_MAX = 60


@dataclasses.dataclass
class Run:
    code: int         # Exit code; 3: something was found.
    report: dict      # What --json prints; None if it did not run.
    errors: str       # Standard error, which holds what the kernel prints.
    arrays: dict      # Bits of what was written, by parameter.

    def findings(self):
        return self.report["findings"] if self.report else []


def draw_array(parameter, source):
    shape, (how, *numbers) = parameter["shape"], parameter["draw"]
    if how == "normal":
        values = source.normal(0, numbers[0], shape)
    elif how == "uniform":
        values = source.uniform(*numbers, shape)
    elif how == "integers":
        values = source.integers(*numbers, shape)
    elif how == "nonzero":
        values = source.integers(*numbers, shape)
        values = np.where(values == 0, 1, values)
    elif how == "distinct":
        values = source.permutation(numbers[0])[:int(np.prod(shape))].reshape(shape)
    else:
        assert how == "fill", how
        values = np.full(shape, numbers[0])
    return number_formats.ENCODE[parameter["type"]](values)


def draw(launch, seed):
    """The bits of the arrays that the kernel reads, by name; the same for the same seed."""
    source = np.random.default_rng([seed, zlib.crc32(launch["name"].encode())])
    return {parameter["name"]: draw_array(parameter, source)
            for parameter in launch["parameters"] if "draw" in parameter}


def arguments(launch, drawn, folder):
    """Writes what is read; returns the --arg of every parameter."""
    texts = []
    for parameter in launch["parameters"]:
        name, kind = parameter["name"], parameter["kind"]
        before, after = folder / f"{name}.npy", folder / f"{name}_after.npy"
        if kind in ("in", "inout"):
            np.save(before, drawn[name])
        kind_of = TYPES.get(parameter["type"], parameter["type"])
        shape = "x".join(map(str, parameter.get("shape", ())))
        texts.append({"in": f"in:{before}", "inout": f"inout:{before}:{after}",
                      "out": f"out:{after}:{kind_of}:{shape}", "null": "null",
                      "scalar": f"{kind_of}:{parameter.get('value')}"}[kind])
    return texts


class Fixtures:
    """Those of an archive; `references` computes what each kernel has to write, by its name."""

    def __init__(self, archive, references):
        self.extracted = tempfile.TemporaryDirectory()
        shutil.unpack_archive(archive, self.extracted.name)
        self.folder = pathlib.Path(self.extracted.name)
        self.references = references

    def read_all(self):
        return json.loads((self.folder / "launches.json").read_text())

    def read(self):
        """Launches by name."""
        return {launch["name"]: launch for launch in self.read_all()["launches"]}

    def run(self, coppice, launch, drawn, folder, ptx=None, options=()):
        """Runs the fixture, or the file `ptx` in its place."""
        folder = pathlib.Path(folder)
        command = [coppice, "ptx", "run", ptx or self.folder / launch["file"], launch["entry"],
                   "--json", "--grid", ",".join(map(str, launch["grid"])),
                   "--block", ",".join(map(str, launch["block"])),
                   "--shared", str(launch["shared_bytes"]), *options]
        if launch.get("cooperative"):
            command.append("--cooperative")
        for text in arguments(launch, drawn, folder):
            command += ["--arg", text]
        done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=SECONDS_MAX)
        arrays = {}
        for parameter in launch["parameters"]:
            after = folder / f"{parameter['name']}_after.npy"
            if after.exists():
                arrays[parameter["name"]] = np.load(after)
                after.unlink()
        report = json.loads(done.stdout) if done.returncode in (0, 3) else None
        return Run(done.returncode, report, done.stderr, arrays)

    def expect(self, launch, drawn):
        """What the kernel has to write, by name."""
        given = {}
        for parameter in launch["parameters"]:
            name = parameter["name"]
            if parameter["kind"] == "scalar":
                given[name] = parameter["value"]
            elif name in drawn:
                given[name] = number_formats.DECODE[parameter["type"]](drawn[name])
        return getattr(self.references, launch["kernel"])(**given)

    def differences(self, launch, drawn, done):
        """One text for each array that is not as the reference has it."""
        expected, texts = self.expect(launch, drawn), []
        for parameter in launch["parameters"]:
            name, kind = parameter["name"], parameter["type"]
            if parameter["kind"] not in ("out", "inout"):
                continue
            if name not in done.arrays:
                texts.append(f"{name}: nothing was written")
                continue
            right = np.asarray(number_formats.ROUND[kind](expected[name]), np.float64)
            with np.errstate(invalid="ignore"):  # Of signalling NaNs, where nothing was written.
                got = np.asarray(number_formats.DECODE[kind](done.arrays[name]), np.float64)
            if right.shape != got.shape:
                texts.append(f"{name}: shape {got.shape}, not {right.shape}")
                continue
            # The bits of a whole number beyond 2^53 are compared as such.
            wide = kind == "s64" and not np.array_equal(done.arrays[name], expected[name])
            wrong = ~(np.abs(got - right) <= parameter["atol"] + parameter["rtol"] * np.abs(right))
            if wide or wrong.any():
                worst = np.unravel_index(np.argmax(np.where(wrong, np.abs(got - right), -1)),
                                         got.shape)
                texts.append(f"{name}: {wrong.sum()} of {wrong.size} are wrong; at "
                             f"{tuple(map(int, worst))} {got[worst]}, not {right[worst]}")
        return texts
