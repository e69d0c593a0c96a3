"""Holds a package's manifest to what runtime/package/FORMAT.md says of its form.

It is written from that page and shares nothing with what writes manifests. `findings` returns a
text with a JSON pointer for each thing that is wrong.
"""

import hashlib
import json
import re
import zipfile

import expression

ROLES = {
    "input": ({"dtype", "shape"}, {"strides", "align", "mutated", "static", "fill"}),
    "output": ({"dtype", "shape"}, {"strides", "alias"}),
    "temporary": (set(), {"bytes", "dtype", "shape"}),
    "constant": ({"constant"}, set()),
    "seed": ({"words"}, set()),
}
STEPS = {
    "kernel": ({"kernel", "grid", "args"}, {"assumes"}),
    "memset": ({"to", "value", "width", "count"}, set()),
    "memcpy": ({"to", "from", "bytes"}, set()),
    "call": ({"function", "inputs", "outputs"}, {"options"}),
}
BYTES = {"i8": 1, "u8": 1, "bool": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4,
         "f32": 4, "i64": 8, "u64": 8, "f64": 8, "buffer": 8, "null": 8, "scratch": 8, "real": 8}
TARGET = ({"module", "symbol", "block"},
          {"shared_bytes", "cluster", "cooperative", "programmatic", "scratch", "values",
           "variant"})


def findings(path):
    with zipfile.ZipFile(path) as archive:
        raw = archive.read("manifest.json")
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(raw)
    checker = Checker(manifest)
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    checker.expect(canonical == raw, "", "is no canonical JSON")
    unsigned = {**manifest, "integrity": {"manifest_sha256": None}}
    digest = json.dumps(unsigned, sort_keys=True, separators=(",", ":")).encode()
    checker.expect(hashlib.sha256(digest).hexdigest() == manifest["integrity"]["manifest_sha256"],
                   "/integrity", "is another digest")
    named = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
             for name, data in files.items() if name != "manifest.json"}
    checker.expect(named == manifest["files"], "/files", "are others")
    checker.check()
    return checker.found


class Checker:
    def __init__(self, manifest):
        self.manifest, self.found, self.program = manifest, [], None

    def expect(self, good, where, what):
        if not good:
            self.found.append(f"{where}: {what}")
        return good

    def fields(self, value, where, required, optional):
        keys = {key for key in value if not key.startswith("x-")}
        self.expect(required <= keys, where, f"misses {sorted(required - keys)}")
        self.expect(keys <= required | optional, where, f"has {sorted(keys - required - optional)}")

    def check(self):
        m = self.manifest
        self.fields(m, "", {"schema", "schema_version", "producer", "integrity", "entry", "files",
                            "modules", "kernels", "constants", "programs"}, {"requires"})
        self.expect(m["entry"] in m["programs"], "/entry", "is no program")
        for name, module in m["modules"].items():
            self.fields(module, f"/modules/{name}", {"file", "format", "arch"}, set())
            self.expect(module["file"] in m["files"], f"/modules/{name}", "has no file")
            self.expect(re.fullmatch(r"sm_\d+[af]?", module["arch"]), f"/modules/{name}", "arch")
        for name, kernel in m["kernels"].items():
            self.kernel(kernel, f"/kernels/{name}")
        for name, constant in m["constants"].items():
            self.fields(constant, f"/constants/{name}", {"dtype", "shape"}, {"strides", "data"})
        for name, program in m["programs"].items():
            self.check_program(program, f"/programs/{name}")

    def kernel(self, kernel, where):
        self.fields(kernel, where, {"parameters", "targets"}, {"source"})
        self.expect(kernel["targets"], where, "has no target")
        names = {tuple(sorted(target.get("values", {}))) for target in kernel["targets"]}
        self.expect(len(names) == 1, where, "has targets of other values")
        for index, target in enumerate(kernel["targets"]):
            self.fields(target, f"{where}/targets/{index}", *TARGET)
            self.expect(target["module"] in self.manifest["modules"], where, "has no module")

    def check_program(self, program, where):
        self.program = program
        self.fields(program, where, {"symbols", "inputs", "outputs", "buffers", "steps"},
                    {"scalars", "guards"})
        for name, symbol in program["symbols"].items():
            self.fields(symbol, f"{where}/symbols/{name}", set(),
                        {"min", "max", "multiple_of", "exclude_01", "from", "hint", "claim",
                         "buckets"})
            axes = [size for given in program["inputs"]
                    for size in program["buffers"][given]["shape"]]
            self.expect("from" in symbol or name in axes, f"{where}/symbols/{name}", "has no axis")
        for index, guard in enumerate(program.get("guards", ())):
            self.reads(guard, f"{where}/guards/{index}")
        for role in ("input", "output"):
            named = {name for name, buffer in program["buffers"].items() if buffer["role"] == role}
            self.expect(sorted(program[role + "s"]) == sorted(named), f"{where}/{role}s", "others")
        for name, buffer in program["buffers"].items():
            self.buffer(buffer, f"{where}/buffers/{name}")
        for index, step in enumerate(program["steps"]):
            self.step(step, f"{where}/steps/{index}")
        self.order(program, where)

    def reads(self, value, where, values=()):
        known = set(self.program["symbols"]) | set(values) | {
            name for name, scalar in self.program.get("scalars", {}).items()
            if scalar["bind"] == "key"}
        try:
            unknown = expression.names(value) - known
        except (SyntaxError, ValueError) as error:
            unknown = {str(error)}
        self.expect(not unknown, where, f"reads {sorted(unknown)}")

    def buffer(self, buffer, where):
        required, optional = ROLES[buffer["role"]]
        self.fields(buffer, where, required | {"role"}, optional)
        if buffer["role"] == "constant":
            self.expect(buffer["constant"] in self.manifest["constants"], where, "no constant")
        if buffer.get("static"):
            self.expect(all(isinstance(size, int) for size in buffer["shape"]), where, "varies")
        for field in ("shape", "strides"):
            for size in buffer.get(field, ()):
                self.reads(size, f"{where}/{field}")

    def step(self, step, where):
        required, optional = STEPS[step["op"]]
        self.fields(step, where, required | {"op"}, optional | {"if"})
        if step["op"] != "kernel":
            return
        kernel = self.manifest["kernels"][step["kernel"]]
        values = kernel["targets"][0].get("values", {})
        sizes = [BYTES[next(key for key in argument if key in BYTES)] for argument in step["args"]]
        self.expect(sizes == kernel["parameters"], where, f"passes {sizes} bytes")
        for value in step["grid"]:
            self.reads(value, f"{where}/grid", values)
        for index, argument in enumerate(step["args"]):
            for key, value in argument.items():
                if key == "offset" or (key in BYTES and key[0] in "iu"):
                    self.reads(value, f"{where}/args/{index}", values)

    def order(self, program, where):
        """Nothing reads a temporary or output that nothing wrote; what is written may be."""
        written = set()
        for index, step in enumerate(program["steps"]):
            reads, writes = accesses(step)
            for name in reads - written:
                buffer = program["buffers"][name]
                self.expect(buffer["role"] not in ("temporary", "output"),
                            f"{where}/steps/{index}", f"reads {name}, which nothing wrote")
            for name in writes:
                buffer = program["buffers"][name]
                self.expect(buffer["role"] != "input" or buffer.get("mutated"),
                            f"{where}/steps/{index}", f"writes the input {name}")
            written |= writes
        for name in program["outputs"]:
            self.expect(name in written or "alias" in program["buffers"][name], where,
                        f"nothing writes {name}")


def accesses(step):
    if step["op"] == "kernel":
        buffers = [argument for argument in step["args"] if "buffer" in argument]
        return ({argument["buffer"] for argument in buffers if argument.get("access") != "w"},
                {argument["buffer"] for argument in buffers if argument.get("access") != "r"})
    if step["op"] == "call":
        return ({view["buffer"] for view in step["inputs"]},
                {view["buffer"] for view in step["outputs"]})
    return {step["from"]["buffer"]} if "from" in step else set(), {step["to"]["buffer"]}
