"""What a header of C or C++ declares, with its comments, as this repository writes headers.

A comment stands above a declaration or behind it. Declarations that follow each other without a
blank line or a comment between them share the comment above: they are one group. A comment with a
blank line behind it is a remark, and the first of a file is what the file is. What a reader of the
contract does not need is left out: bodies, what is private, what is `internal`, forward
declarations, and branches of the preprocessor that only nvcc takes.
"""

import dataclasses
import re

STRING = re.compile(r"""\"(?:\\.|[^\"\\])*\"|(?<!\w)'(?:\\.|[^'\\])'""")
CODE = re.compile(rf"""((?:{STRING.pattern}|[^/"]|/(?!/))*)(//.*)?$""")
ANGLES = re.compile(r"<[^<>()]*(?:\([^<>()]*\)[^<>()]*)*>")
KIND = re.compile(r"(?:typedef )?(struct|class|union|enum class|enum)\b"
                  r"(?: \[\[nodiscard\]\]| alignas\(\d+\))? ?(\w*)")
LABEL = re.compile(r"\s*(public|private|protected):$")
SECTION = re.compile(r"---- (.*?) -{8,}$")
# Branches that are not read, up to their #else or #endif.
SKIPPED = ("#ifdef __CUDACC__", "#ifdef __cplusplus", "#if defined(_WIN32)")


@dataclasses.dataclass
class Declaration:
    kind: str  # struct, class, enum, function, field, macro, type
    name: str  # "" for an enum of C.
    code: str  # Without a body, as the header has it.
    beside: str = ""  # The comment behind it.
    above: str = ""  # One of a member's own.
    members: list = dataclasses.field(default_factory=list)  # Groups, or an enum's Declarations.


@dataclasses.dataclass
class Group:
    comment: str
    declarations: list


@dataclasses.dataclass
class Remark:
    """A comment between declarations; of C, with a title, the beginning of a section."""

    comment: str
    title: str = ""


def as_cxx(text):
    """Comments of C as those of C++, at the same columns."""
    def lines_of(match):
        column = match.start() - text.rfind("\n", 0, match.start()) - 1
        first, *rest = match[0].removesuffix("*/").rstrip().split("\n")
        rest = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in rest]
        lines = ["//" + first[2:].rstrip(), *(f"{' ' * column}// {line}".rstrip() for line in rest)]
        return "\n".join(lines)
    text = re.sub(r"/\* clang-format o\w+ \*/\n", "", text)
    return re.sub(r"/\*.*?\*/", lines_of, text, flags=re.S)


def split(line):
    """The code and the comment of a line, and where the comment begins."""
    found = CODE.match(line)
    comment = found[2] and found[2][2:].removeprefix(" ")
    if comment and comment.startswith("NOLINT"):
        comment = None if found[1].strip() else ""
    return found[1].rstrip(), comment, found.start(2)


def depth_of(code):
    bare = STRING.sub('""', code)
    return sum(map(bare.count, "({[")) - sum(map(bare.count, ")}]"))


def is_whole(code):
    """Whether a declaration ends here: by a semicolon, or by the end of a function's body."""
    if depth_of(code):
        return False
    return code.endswith(";") or (
        code.endswith("}") and not KIND.match(code)
        and not code.partition("{")[0].endswith(" = "))


def cut_body(code):
    """A declaration without the body of its function, and without what initialises members."""
    depth = 0
    for i, character in enumerate(code):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and (character == "{" or re.match(r"\s:\s", code[i - 1:i + 2])):
            return code[:i].rstrip() + ";"
    return code


def bare_of(code):
    """Code without templates' brackets and their contents."""
    code = re.sub(r"^template\s*", "", code.replace("operator<", "operatorless"))
    while ANGLES.search(code):
        code = ANGLES.sub("", code)
    return code


def name_of(code):
    """The kind and name of what is no struct, class or enum; None of what is for the compiler."""
    code = re.sub(r"\s+", " ", bare_of(STRING.sub('""', code))).strip()
    code = re.sub(r"^alignas\(\d+\) ", "", code)
    if code.endswith("= delete;"):
        return None
    if re.match(r"static_assert|friend |using \w+::|(struct|class) \w+;|[^(]*\w::\w+\(", code):
        return None
    found = re.match(r"using (\w+) =|concept (\w+)|typedef .*\(\*(\w+)\)|typedef .*?(\w+);", code)
    if found:
        return "type", next(filter(None, found.groups()))
    pointer = re.match(r"[^(]*\(\*(\w+)\)\(", code)
    if pointer:
        return "field", pointer[1]
    head = code.partition(" = ")[0] if not re.search(r"operator\W", code) else code
    found = re.search(r"(~?\b\w+|operator ?\S+?) ?\(", head)
    if found:
        return "function", found[1]
    found = re.search(r"(\w+)(?:\[\w*\])?(?:\{.*\})?;?$", head.rstrip("; "))
    return ("field", found[1]) if found else None


class Reader:
    """Reads the declarations of one scope."""

    def __init__(self, lines, hidden=False):
        self.lines, self.at, self.hidden = lines, 0, hidden
        self.items, self.above, self.column = [], [], -1
        self.open = False  # Whether the last group may go on.

    def note(self):
        """Ends the comment that nothing followed."""
        if self.above and not self.hidden:
            first, *rest = self.above
            section = SECTION.match(first)
            comment = "\n".join(rest if section else self.above)
            self.items.append(Remark(comment.strip("\n"), section[1] if section else ""))
        self.above, self.open = [], False

    def add(self, declaration):
        self.column = -1
        if declaration is None or self.hidden:
            self.above, self.open = [], False
        elif self.open and not self.above:
            self.items[-1].declarations.append(declaration)
        else:
            self.items.append(Group("\n".join(self.above), [declaration]))
            self.above, self.open = [], True

    def last(self):
        return self.items[-1].declarations[-1]

    def skip_branch(self):
        depth = 1
        while depth and self.at < len(self.lines):
            line = self.lines[self.at].strip()
            depth += line.startswith("#if") - line.startswith("#endif")
            self.at += 1
            if depth == 1 and line.startswith("#else"):
                return

    def preprocess(self, code):
        whole = code
        while whole.endswith("\\"):
            whole = whole[:-1] + self.lines[self.at].strip()
            self.at += 1
        if code.startswith(SKIPPED):
            self.skip_branch()
        elif code.startswith("#else"):  # Of a branch that was read.
            self.skip_branch()
        found = re.match(r"#define (\w+)(\([\w, .]*\))?(.*)", code)
        if found and not re.match(r"X$|COPPICE_(INTERNAL|MEMBER|API$|\w+_H_$)", found[1]):
            value = "" if found[2] or code.endswith("\\") else found[3].split("//")[0].rstrip()
            self.add(Declaration("macro", found[1], f"#define {found[1]}{found[2] or ''}{value}"))

    def read(self):
        """All groups and remarks of the scope."""
        scopes = []  # Whether each namespace that is open is hidden.
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            code, comment, column = split(line)
            bare = code.strip()
            if not bare and comment is None:
                self.note()
            elif not bare and column == self.column and self.open:
                self.last().beside += " " + comment
            elif not bare:
                self.above.append(comment)
            elif bare.startswith("#"):
                self.preprocess(bare)
            elif LABEL.match(code):
                self.note()
                self.hidden = LABEL.match(code)[1] != "public"
            elif re.match(r'(namespace|extern "C").*\{$', bare):
                self.note()
                scopes.append(self.hidden)
                self.hidden = self.hidden or bool(re.search(r"\binternal\b|namespace \{", bare))
            elif bare == "}" and scopes:
                self.hidden = scopes.pop()
                self.above = []
            else:
                self.declare(line, code, comment, column)
        self.note()
        return self.items

    def declare(self, line, code, comment, column):
        """Reads one declaration, which begins in this line."""
        begin = self.at - 1
        while not is_whole(code.strip()) and self.at < len(self.lines):
            more, behind, at = split(self.lines[self.at])
            code, self.at = code + "\n" + more, self.at + 1
            comment, column = (behind, at) if behind is not None else (comment, column)
        indent = len(code) - len(code.lstrip())
        text = re.sub(rf"^ {{0,{indent}}}", "", code, flags=re.M).strip()
        text = re.sub(r"^#.*\n?", "", text, flags=re.M).removeprefix("COPPICE_API ")
        text = text.removeprefix("COPPICE_DEVICE ").replace("\nCOPPICE_DEVICE ", "\n")
        head = KIND.match(re.sub(r"^template.*\n", "", text))
        if head and "{" in text:
            raw = self.lines[begin:self.at]
            self.add(self.compound(head, text, raw))
            return
        named = name_of(text)
        if named is None:
            self.add(None)
            return
        kind, name = named
        text = cut_body(text) if kind == "function" else text
        self.add(Declaration(kind, name, text, (comment or "") if code.count("\n") == 0 or
                             is_whole(text) and kind == "field" else ""))
        self.column = column if comment is not None else -1

    def compound(self, head, text, raw):
        kind, name = head[1].split()[0], head[2]
        opening = text[:text.index("{")].rstrip()
        close = re.search(r"\} (\w+);$", text)
        name = close[1] if close else name
        if kind == "enum":
            return Declaration(kind, name, opening, members=enumerators(raw))
        begin = next(i for i, line in enumerate(raw) if "{" in split(line)[0])
        inside = raw[begin + 1:-1]
        members = Reader(inside, hidden=kind == "class").read()
        return Declaration(kind, name, opening, members=members)


def enumerators(raw):
    """Of an enum, in its lines."""
    text = "\n".join(raw)
    body = text[text.index("{") + 1:text.rindex("}")]
    found, above, column = [], [], -1
    for line in body.split("\n"):
        code, comment, at = split(line)
        if not code.strip():
            if comment is not None and at == column and found:
                found[-1].beside += " " + comment
            elif comment is not None:
                above.append(comment)
            continue
        for one in filter(None, (part.strip() for part in code.split(","))):
            found.append(Declaration("enumerator", one.split(" ")[0], one, comment or "",
                                     " ".join(above)))
            above = []
        column = at if comment is not None else -1
    return found


def read(text):
    """(what the file is, its groups and remarks) of a header's text."""
    items = Reader(as_cxx(text).split("\n")).read()
    opening = items.pop(0).comment if isinstance(items[0], Remark) else ""
    return opening, items


def names(items, scope=""):
    """All names that groups declare, with their scope: "Session::Run"."""
    for item in items:
        for one in getattr(item, "declarations", ()):
            if one.name:
                yield scope + one.name
            if one.kind == "enum":
                yield from (f"{scope}{one.name}::{each.name}" if one.name else each.name
                            for each in one.members)
            else:
                yield from names(one.members, f"{scope}{one.name}::")
