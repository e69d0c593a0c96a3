#!/usr/bin/env python3
"""Repository rules that no compiler checks.

Prints `file:line: rule` for every finding and exits with 1 if there is one. CONTRIBUTING.md gives
the reasons; tests/repository/tidy_test.py shows each rule a file that breaks it.
"""

import collections
import itertools
import os
import pathlib
import re
import sys

LAYERS = {"base": 0, "padding": 1, "runtime": 1, "ptx": 1, "allocator": 2, "emulator": 2,
          "emulated_cuda": 3, "graphs": 3, "capi": 4}
PROGRAMS_ONLY = {"ptx", "emulator"}  # Stand on their layers, and no layer on them but these two:
ON_PROGRAMS_ONLY = {"capi", "emulated_cuda"}
INSIDERS = {"emulated_cuda": "emulator"}  # What a layer is another form of: it sees its inside.
C_HEADER = "include/coppice/coppice.h"  # One file of C, with C's comments and guard.
VENDORED = "include/dlpack/"  # As its project publishes it.
# Of a layer's private headers, those that layers above it and tools may include.
OPEN_HEADERS = {"base/json_document.h", "base/json_fields.h", "runtime/device_image.h",
                "runtime/package/cubin.h",
                "runtime/emulator/ptx/executor.h", "runtime/emulator/ptx/launch.h",
                "runtime/emulator/ptx/program.h", "runtime/emulator/ptx/taint.h",
                "runtime/emulator/ptx/tensor_map.h",
                "runtime/package/container.h",
                "runtime/package/digest.h", "runtime/package/mapped_file.h",
                "runtime/package/zip_writer.h"}
PURE = {"plan", "planner", "range_allocator", "gate", "guards", "dynamic_axes"}
DLOPEN_FILES = {"runtime/cuda_loader.cc", "runtime/matmul_library.cc",
                "tests/runtime/fake_cublas_lt.cc", "tests/runtime/matmul_library_test.cc"}
CUDA_HEADER_FILES = {"tests/runtime/cuda_abi_test.cc"}
# These two files spell out what the others may not contain.
RULE_FILES = {"tools/tidy.py", "tests/repository/tidy_test.py"}

COLUMNS_MAX = 100
LIBRARY_LINES_MAX = 500
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
DATA_LINES_MAX = 1000  # Of all data that a folder has as text.

CXX = (".h", ".cc", ".cu", ".inc")
TEXT = CXX + (".c", ".py", ".sh", ".md", ".txt", ".cmake", ".in", "run")

# Mostly made by scripts, and read by none but programs.
DATA = (".abi", ".csv", ".json", ".jsonl", ".log", ".ptx", ".svg", ".tsv", ".xml")
DATA_FOR_READERS = {"samples/grafana_dashboard.json"}  # Users import it.

# What has the version of CMakeLists.txt as well, and what stands before it.
VERSION_COPIES = {
    "python/coppice/export/manifest.py": r'^VERSION = "([\d.]+)"',  # Runs without the extension.
    "README.md": r"\bversion ([\d.]+\d)",
    "CHANGELOG.md": r"^## \[(\d[\d.]*)\]",
    "tests/capi/coppice_test.cc": r'coppice_version\(\), "([\d.]+)"',
}

# Pattern in code, what to use, and the files it is allowed in.
BANNED = [
    (r"\bshared_ptr\b", "unique_ptr or a move-only value", set()),
    (r"\babsl::string_view\b", "std::string or const char*", {"include/coppice/base/status.h"}),
    (r"\babsl::Mutex\b", "std::mutex", set()),
    (r"\bassert\s*\(", "COPPICE_CHECK", {"tests/ptx/cuda/messages.cu"}),
    (r"\bs?rand\s*\(", "a seeded generator from <random>", set()),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(", "an event or a virtual clock", set()),
    (r"\busing\s+namespace\b", "using declarations", set()),
    # A callable that throws in the background has no caller to hear of it, nor has C.
    (r"\bcatch\s*\(\s*\.\.\.\s*\)", "absl::Status", {"graphs/call/record.cc", "capi/failure.h"}),
    # An operator new has no other way, nor has an error on its way to Python.
    (r"\bthrow\b(?! std::bad_alloc)", "absl::Status", {"python/core/status.cc"}),
]
WORDS = [
    (r"\bFIXME\b|\bXXX\b|\bHACK\b", "TODO(owner): sentence"),
    (r"\bTODO\b(?!\(\w+\): \S)", "TODO(owner): sentence"),
    (r"(?i)\bfor now\b", "what is, or an issue"),
    (r"(?i)//\s*stub\b", "the code"),
    (r"(?<![\w.])/(work|root|home)/", "a path relative to the repository"),
    (r"(?m)^(?:<{7}|>{7}|\|{7}) .*", "what the merge was to give"),
]

LITERAL = re.compile(
    r'R"(\w*)\((?s:.*?)\)\1"|//[^\n]*|/\*(?s:.*?)\*/|"(?:\\.|[^"\\\n])*"|'
    r"(?<!\w)'(?:\\[^'\n]+|[^'\\\n])'"
)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def blank(text, pattern):
    """Returns `text` with matches of `pattern` turned into spaces; lines stay where they are."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def code_of(text):
    """C++ without comments, strings and characters."""
    return blank(text, LITERAL)


def line_at(text, position):
    return text.count("\n", 0, position) + 1


def layer_of(path):
    """The layer that `path` belongs to, or None for tests, tools and samples."""
    public = path.startswith("include/coppice/")
    inside = path.removeprefix("include/coppice/")
    if inside.startswith("runtime/emulated_cuda/"):
        return "emulated_cuda"
    if inside.startswith("runtime/emulator/ptx/"):
        return "ptx"
    if inside.startswith("runtime/emulator" + (".h" if public else "/")):
        return "emulator"
    if inside.startswith("graphs/padding/"):
        return "padding"
    name, *rest = inside.split("/")
    return name if name in LAYERS and rest else None


def layer_of_included(included):
    """The layer of what an #include names, and whether that is public."""
    public = included.startswith("coppice/")
    return layer_of("include/" + included if public else included), public


def check_columns(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if path.endswith(".inc") or (path.endswith(".md") and line.startswith("|")):
            continue  # One entry, one row: one line.
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns; at most {COLUMNS_MAX}"
        if line != line.rstrip():
            yield number, "trailing space"


def check_words(path, text):
    for pattern, instead in WORDS:
        for match in re.finditer(pattern, text):
            yield line_at(text, match.start()), f"'{match.group().strip()}'; write {instead}"


def check_length(path, text):
    """Sources of the library are shorter than what programs and tests may be."""
    lines = text.count("\n")
    library = layer_of(path) is not None and path.endswith(CXX)
    most = LIBRARY_LINES_MAX if library else FILE_LINES_MAX
    if lines > most and path != C_HEADER:
        yield lines, f"{lines} lines; {'a library source' if library else 'a file'} has at most {most}"


def check_opening(path, text):
    """Every source says first what it is."""
    if path.endswith(".c") or path == C_HEADER:
        good = text.startswith("/* ")
    elif path.endswith(CXX):
        good = text.startswith("// ")
    elif path.endswith(".py"):
        good = re.match(r'(#!.*\n)?"""\S', text)
    elif path.endswith((".sh", "run")):
        good = re.match(r"#!.*\n# \S", text)
    elif path.endswith((".cmake", ".in")):
        good = text.startswith("# ")
    else:
        return
    if not good:
        yield 1, "starts with a comment that says what the file is"


def check_banned(path, text):
    if not path.endswith(CXX):
        return
    code = code_of(text)
    for pattern, instead, allowed in BANNED:
        for match in re.finditer(pattern, code):
            if path not in allowed:
                yield line_at(code, match.start()), f"'{match.group()}'; use {instead}"
    library = layer_of(path) is not None
    for match in re.finditer(r"\bstd::(cout|cerr|clog)\b", code) if library else ():
        yield line_at(code, match.start()), f"'{match.group()}' in a library; return a status"
    for match in re.finditer(r"_clock::now\b", code) if path.startswith("tests/") else ():
        yield line_at(code, match.start()), "a clock in a test; tests depend on no time"


def check_one_door(path, text):
    """One file loads libraries; nothing but the ABI test sees NVIDIA's header."""
    if not path.endswith(CXX):
        return
    code = code_of(text)
    for match in re.finditer(r"\bdlopen\s*\(", code):
        if path not in DLOPEN_FILES:
            yield line_at(code, match.start()), "dlopen outside of the loaders of libraries"
    for match in re.finditer(r"^\s*#\s*include <(cuda|cudaTypedefs|cuda_runtime\w*)\.h>", text, re.M):
        if path not in CUDA_HEADER_FILES:
            yield line_at(text, match.start()), "CUDA header; use coppice/runtime/cuda_abi.h"


def check_layers(path, text):
    """A layer includes only layers below it and private headers of its own; pure files no driver.
    Paths begin at the root."""
    layer = layer_of(path)
    stem = pathlib.PurePath(path).stem
    for match in re.finditer(r'^\s*#\s*include "([^"]+)"', text, re.M):
        included, number = match.group(1), line_at(text, match.start(1))
        below, public = layer_of_included(included)
        if "/" not in included and not path.startswith("samples/"):
            yield number, f"{included}: write the path from the root"
        if included.startswith("tests/") and not path.startswith("tests/"):
            yield number, f"{included}: only tests include tests"
        private = not public and included not in OPEN_HEADERS
        own = (None, layer, INSIDERS.get(layer))
        if private and below not in own and not path.startswith("tests/"):
            yield number, f"{included} is private to {below}"
        if path.startswith("samples/") and included.startswith("tools/"):
            yield number, f"{included}: samples use the public API only"
        if layer is None or not public or below == layer or included == "coppice/coppice.h":
            continue  # Which is capi's, and nobody below has it: check_c_header.
        if below in PROGRAMS_ONLY and layer not in ON_PROGRAMS_ONLY:
            yield number, f"{layer} may not include {included}: only programs do"
        elif LAYERS.get(below, len(LAYERS)) >= LAYERS[layer]:
            yield number, f"{layer} (layer {LAYERS[layer]}) may not include {included}"
        if below == "runtime" and (layer in ("base", "padding") or stem in PURE):
            yield number, f"a pure file may not include {included}"


def functions(text):
    """Yields (first line, line count) of every function body, by matching braces."""
    code = blank(code_of(text), PREPROCESSOR)
    kinds, opened, head = [], [], 0
    for match in re.finditer(r"[{};]", code):
        position = match.start()
        if match.group() == "{":
            before = code[head:position]
            scope = re.search(r"\b(namespace|extern|class|struct|union|enum)\b[^()]*$", before)
            inside = "function" in kinds
            kind = "scope" if scope else "function" if "(" in before and not inside else "block"
            kinds.append(kind)
            opened.append(position)
        elif match.group() == "}" and kinds:
            kind, start = kinds.pop(), opened.pop()
            if kind == "function":
                yield line_at(code, start), code.count("\n", start, position) + 1
        head = position + 1


def check_functions(path, text):
    if not path.endswith((".h", ".cc", ".cu")) or path.startswith("tests/"):
        return  # GoogleTest's macros create functions; a long test is a table.
    for number, count in functions(text):
        if count > FUNCTION_LINES_MAX:
            yield number, f"function of {count} lines; at most {FUNCTION_LINES_MAX}"


def check_public_header(path, text):
    if not (path.startswith("include/") and path.endswith(".h")) or path == C_HEADER:
        return
    opening = re.match(r"(//[^\n]*\n)*", text).group()
    if not re.search(r"\b(Units|Threads):", opening):
        yield 1, "the opening comment of a public header states Units or Threads"
    if "#pragma once" not in text:
        yield 1, "no #pragma once"


FILE_CHECKS = [
    check_columns,
    check_words,
    check_length,
    check_opening,
    check_banned,
    check_one_door,
    check_layers,
    check_functions,
    check_public_header,
]


def check_built(tree):
    """Every source is named in a CMakeLists.txt at or above it, outside comments."""
    for path in tree:
        if not path.endswith((".c", ".cc", ".cu")):
            continue
        folders = [parent.as_posix() for parent in pathlib.PurePath(path).parents]
        for folder in folders:
            build = tree.get((folder + "/" if folder != "." else "") + "CMakeLists.txt", "")
            build = re.sub(r"#[^\n]*", "", build)
            name = os.path.relpath(path, folder)
            test = r"coppice_test\(" + re.escape(name.removesuffix(".cc")) + r"[\s)]"
            if re.search(r"(?<![\w./])" + re.escape(name) + r"(?![\w.])|" + test, build):
                break
        else:
            yield path, 1, "named in no CMakeLists.txt"


def check_mirrored(tree):
    """include/coppice/<layer>/x.h has tests/<layer>/x_test.cc."""
    for path in tree:
        match = re.fullmatch(r"include/coppice/(\w+/\w+)\.h", path)
        if match and f"tests/{match.group(1)}_test.cc" not in tree:
            yield path, 1, f"has no tests/{match.group(1)}_test.cc"


def dedent(block):
    return [line.strip() for line in block.strip().split("\n")]


def check_documents(tree):
    """C and C++ in the README and docs/ is code of a sample; files that documents name exist."""
    samples = [
        dedent(text) for path, text in tree.items() if re.fullmatch(r"samples/\w+\.cc?", path)
    ]
    known = {path.split("/", skip)[-1] for path in tree for skip in range(path.count("/") + 1)}
    for path in tree:
        if not path.endswith(".md") or ("/" in path and not path.startswith("docs/")):
            continue
        for match in re.finditer(r"^```(?:cpp|c)\n(.*?)^```", tree[path], re.S | re.M):
            block = dedent(match.group(1))
            if not any(
                sample[start : start + len(block)] == block
                for sample in samples
                for start in range(len(sample) - len(block) + 1)
            ):
                yield path, line_at(tree[path], match.start()), "not in a sample as is"
        for match in re.finditer(r"`([\w./-]+\.(?:h|cc|cu|py|sh|md|cmake|inc|json))`", tree[path]):
            if match.group(1).removeprefix("./") not in known:
                number = line_at(tree[path], match.start())
                yield path, number, f"{match.group(1)} does not exist"


def check_circles(tree):
    """No unit uses itself through others: of a layer (between layers, check_layers finds whoever
    includes upward), and of the modules of Python."""
    uses = {}
    sites = itertools.chain(sites_of_includes(tree), sites_of_imports(tree))
    where = {(unit, used): place for unit, used, place in sites if unit != used}
    for unit, used in where:
        uses.setdefault(unit, set()).add(used)
    reached = {}

    def reach(unit):
        if unit not in reached:
            reached[unit] = set()
            pending = list(uses.get(unit, ()))
            while pending:
                used = pending.pop()
                if used not in reached[unit]:
                    reached[unit].add(used)
                    pending += uses.get(used, ())
        return reached[unit]

    for (unit, used), (path, number) in where.items():
        if unit in reach(used):
            yield path, number, f"a circle: {used} uses {unit}, perhaps through others"


def sites_of_includes(tree):
    """Which unit includes which of the same layer, and where. A header and the source of its name
    are one unit."""
    units = {}  # Of each file: the path of its private header or source, without its ending.
    for path in tree:
        if layer_of(path) is None or not path.endswith(CXX):
            continue
        unit = path.rsplit(".", 1)[0]
        if path.startswith("include/"):
            layer, name = unit.split("/")[2:4] if unit.count("/") > 2 else ("", unit)
            sources = [
                other.removesuffix(".cc")
                for other in tree
                if other.startswith(layer + "/") and other.endswith(f"/{name}.cc")
            ]
            lone = [source for source in sources if source + ".h" not in tree]
            unit = lone[0] if lone else unit
        units[path] = unit
    for path, unit in units.items():
        for match in re.finditer(r'^\s*#\s*include "([^"]+)"', tree[path], re.M):
            for included in ("include/" + match.group(1), match.group(1)):
                if included in units and layer_of(path) == layer_of(included):
                    yield unit, units[included], (path, line_at(tree[path], match.start(1)))


def sites_of_imports(tree):
    """Which module of coppice's Python imports which, at its top or later, and where. What a
    package imports for others to find is no use of it."""
    modules = {path for path in tree if re.fullmatch(r"python/coppice/[\w/]+\.py", path)}
    for path in sorted(modules):
        if path.endswith("__init__.py"):
            continue
        for match in re.finditer(r"^ *from (coppice[\w.]*) import (\([^)]*\)|.*)", tree[path], re.M):
            package = "python/" + match.group(1).replace(".", "/")
            names = re.findall(r"\w+", match.group(2))
            for used in [package + ".py", *(f"{package}/{name}.py" for name in names)]:
                if used in modules:
                    yield path, used, (path, line_at(tree[path], match.start(1)))


def check_data(tree):
    """Data that a folder has much of is in an archive, which what makes it writes."""
    lines = collections.Counter()
    for path in tree:
        if path.endswith(DATA) and path not in DATA_FOR_READERS:
            lines[os.path.dirname(path)] += tree[path].count("\n")
    for folder, count in lines.items():
        if count > DATA_LINES_MAX:
            yield folder, count, f"{count} lines of data; beyond {DATA_LINES_MAX} in an archive"


def check_version(tree):
    """What has to have the version by itself has that of CMakeLists.txt."""
    version = re.search(r"^project\(coppice VERSION ([\d.]+)", tree.get("CMakeLists.txt", ""), re.M)
    for path, pattern in VERSION_COPIES.items() if version else ():
        found = re.search(pattern, tree.get(path, ""), re.M)
        if found is None or found[1] != version[1]:
            number = line_at(tree[path], found.start()) if found else 1
            yield path, number, f"not of version {version[1]}, as CMakeLists.txt has it"


TREE_CHECKS = [check_built, check_mirrored, check_documents, check_circles, check_data,
               check_version]


def check(tree):
    """Returns the findings in `tree`, a dict from path to text, as sorted (path, line, rule)."""
    findings = []
    for path, text in tree.items():
        if path in RULE_FILES or path.endswith(DATA):
            continue
        for rule in FILE_CHECKS:
            findings += [(path, number, what) for number, what in rule(path, text)]
    for rule in TREE_CHECKS:
        findings += rule(tree)
    return sorted(findings)


def read_tree(root):
    """The texts below `root`, without build folders and hidden ones but .ci."""
    tree = {}
    for folder, folders, names in os.walk(root):
        hidden = {name for name in folders if name.startswith(".") and name != ".ci"}
        folders[:] = sorted(set(folders) - hidden - {"build", "out", "results", "__pycache__"})
        for name in names:
            path = pathlib.Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if name.endswith(TEXT + DATA) and not relative.startswith(VENDORED):
                tree[relative] = path.read_text(encoding="utf-8")
    return tree


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    tree = read_tree(root)
    findings = check(tree)
    for path, number, what in findings:
        print(f"{path}:{number}: {what}")
    print(f"tidy.py: {len(findings)} findings in {len(tree)} files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
