"""The list of all messages of errors, read from the sources, as tables by subsystem."""

import ast
import dataclasses
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A heading, and the folders or files of it; the first that fits counts.
GROUPS = (
    ("Expressions, JSON and other basics", ("base", "include/coppice/base")),
    ("Buckets and policies", ("graphs/padding", "include/coppice/padding",
                              "include/coppice/graphs/padding")),
    ("Sessions and calls", ("graphs", "include/coppice/graphs")),
    ("Plans and memory", ("allocator", "include/coppice/allocator")),
    ("Packages", ("runtime/package", "include/coppice/runtime/package")),
    ("PTX on the emulator", ("runtime/emulator/ptx",)),
    ("The emulator", ("runtime/emulator", "runtime/emulated_cuda",
                      "include/coppice/runtime/emulator")),
    ("Devices and drivers", ("runtime", "include/coppice/runtime")),
    ("The C interface", ("capi",)),
    ("Python", ("python/core", "python/coppice/torch", "python/coppice/triton")),
    ("Export of packages", ("python/coppice/export",)),
    ("Traces in Python", ("python/coppice/prof",)),
    ("Other modules of Python", ("python/coppice",)),
    ("The command", ("tools",)),
)
LITERAL = r'"(?:\\.|[^"\\\n])*"'
LITERALS = re.compile(rf"(?:{LITERAL}\s*)+")
COMMENT = re.compile(rf"({LITERAL})|//[^\n]*")
CALL = re.compile(r"\b(?:absl::)?(\w*Error|Status|Fail\w*|Refus\w+|Report|Finding|"
                  r"InvalidArgument)\(")
RAISED = re.compile(r"\w*Error|refuse\w*|Refused|Misshapen|error|NotLifted|\w*[wW]arn(?:ing)?")
CODES = {"InvalidArgument", "OutOfRange", "FailedPrecondition", "ResourceExhausted", "NotFound",
         "Unavailable", "Unimplemented", "Aborted", "PermissionDenied", "Internal", "Cancelled",
         "Unknown", "AlreadyExists", "DataLoss", "DeadlineExceeded", "Unauthenticated"}
CODE = re.compile(r"\bk(" + "|".join(sorted(CODES)) + r")\b")
WORDS_MIN = 3  # Words of a text that says something.
DOCUMENTED = ("runtime/package/lint",)  # Findings, which runtime/package/LINT.md has.


@dataclasses.dataclass(frozen=True)
class Message:
    text: str   # With `...` for names and numbers.
    code: str   # Of a status, or Python's class; "" if it depends on the call.
    path: str


def said(text):
    """Whether a text is a message rather than a part of one or a name."""
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= WORDS_MIN


def end_of(text, at):
    """Where the call whose parenthesis is before `at` ends."""
    depth = 1
    for part in re.compile(rf"{LITERAL}|[()]").finditer(text, at):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if not depth:
            return part.start()
    return len(text)


def plain(text):
    """A text of fmt without its fields."""
    text = re.sub(r"\{[^{}]*\}", "...", text.replace("{{", "\1")).replace("}}", "}")
    return re.sub(r"\s+", " ", text.replace("\1", "{")).strip()


def code_of(name, arguments, text):
    """The status code of a call of the function `name`."""
    if found := CODE.search(arguments):
        return f"k{found[1]}"
    if name.removesuffix("Error") in CODES:
        return f"k{name.removesuffix('Error')}"
    return code_of_function(name, text)


@functools.cache
def code_of_function(name, text):
    """The only status code that a function of the source `text` has; "" if there is none."""
    made = re.search(rf"\b{name}\([^;{{}}]*\)(?: const)?(?:\s*:[^{{;]*)? \{{(.{{0,700}}?)\n"
                     r"(?:  )?\}", text, re.S)
    found = set(CODE.findall(made[1])) | \
        {of for of in CODES if re.search(rf"\b{of}(?:Error)?\(", made[1])} if made else ()
    return f"k{next(iter(found))}" if len(found) == 1 else ""


def of_cxx(path, text):
    text = COMMENT.sub(lambda match: match[1] or "", text)
    end = 0
    for call in CALL.finditer(text):
        if call.start() < end:
            continue  # Inside of another.
        arguments = text[call.end():end_of(text, call.end())]
        found = LITERALS.findall(arguments)
        if not found:
            continue
        end = call.end() + len(arguments)
        # What is wrong in a document of JSON (base/json_document.h).
        of_json = call[1] == "Error" and text[call.start() - 1] in ".>"
        code = code_of(call[1], arguments, text) or ("kInvalidArgument" if of_json else "")
        for literal in found:
            joined = "".join(part[1:-1] for part in re.findall(LITERAL, literal))
            joined = plain(re.sub(r'\\(["\\n])', lambda one: one[1].replace("n", " "), joined))
            if said(joined):
                yield Message(joined, code, path)


def text_of(node):
    """What an expression of Python is as a text, as far as it is known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return "..."


def of_python(path, text):
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in CODES and not RAISED.fullmatch(name):
            continue
        for argument in node.args:
            shown = re.sub(r"\s+", " ", text_of(argument)).strip()
            if said(shown):
                yield Message(shown, name if name[0].isupper() else "", path)


@functools.cache
def messages():
    """All of them by heading, in the order of their texts."""
    found = {}
    for heading, places in GROUPS:
        rows = set()
        for place in places:
            for path in sorted((ROOT / place).rglob("*")):
                name = path.relative_to(ROOT).as_posix()
                suffixes = (".cc", ".h") if place == "tools" else (".cc", ".h", ".py")
                if path.suffix not in suffixes or name.startswith(DOCUMENTED) or \
                        is_of_narrower(name, place, heading):
                    continue
                read = of_python if path.suffix == ".py" else of_cxx
                rows.update(read(name, path.read_text(encoding="utf-8")))
        found[heading] = sorted(rows, key=lambda one: (one.text.lower(), one.path))
    return found


def is_of_narrower(name, place, heading):
    """Whether a group of a folder inside of `place` has that file."""
    return any(name.startswith(other + "/") and len(other) > len(place)
               for head, others in GROUPS if head != heading for other in others)


def page_lines():
    """The tables, as lines of a page."""
    lines = []
    for heading, rows in messages().items():
        lines += [f"## {heading}", "", "| text | error | source |", "|---|---|---|"]
        for row in rows:
            quote = "``" if "`" in row.text else "`"
            text = row.text.replace("|", "\\|")
            pad = " " if quote == "``" else ""
            lines.append(f"| {quote}{pad}{text}{pad}{quote} | {row.code and f'`{row.code}`'} | "
                         f"{row.path} |")
        lines.append("")
    return lines
