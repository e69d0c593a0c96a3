"""The description: enums and structs of public C++ headers, with what their comments say.

A comment stands above a declaration or behind it. Its first sentence is what all surfaces say; a
last one such as `>= 1.` or `1 to kLanesMax.` is a range; what lies between is detail, for the C++
header and the reference. A first sentence `"nodes" by name.` gives an enumerator another word than
its own name. Whatever is written in another way than the house writes it is an error here, never
left out.
"""

import dataclasses
import re

INCLUDE = "include/coppice/"
NUMBERS = {"int", "int32_t", "int64_t"}
UNITS = ("bytes", "ns", "elements")
NO_LIMIT = "std::numeric_limits<int64_t>::max()"  # A default of what has none.

LINE = re.compile(r"(?P<code>(?:[^/\"]|\"[^\"]*\"|/(?!/))*?)\s*(?P<comment>//.*)?$")
METHOD = re.compile(r"([^=]*\w|.*operator\S+)\(")
ENUMERATOR = re.compile(r"k(\w+)$")
FIELD = re.compile(r"(?P<type>[\w:]+(?:<.*>)?\*?) (?P<name>\w+)(?: = (?P<default>[^;{}]+)|\{\})?$")
RANGE = re.compile(r"(?:(?P<bound>>=) (?P<least>-?[\w^]+)|(?P<from>\w+) to (?P<most>[\w^]+))\.$")
WORD = re.compile(r"\"(\w+)\" by name\.$")


class DescriptionError(Exception):
    """A header says something that cannot be read."""


@dataclasses.dataclass
class Enumerator:
    name: str  # kReplayOnly
    word: str  # replay_only
    sentence: str
    detail: str


@dataclasses.dataclass
class Enum:
    name: str
    sentence: str
    enumerators: list

    def word_of(self, name):
        return next(one.word for one in self.enumerators if one.name == name)


@dataclasses.dataclass
class Field:
    header: str
    path: str  # Members from the outermost struct on: limits.on_limit
    type: str  # A number's, bool, std::string, an enum's name, std::function, or a struct's name.
    by: str  # The enum that an array has an element for each of, or "".
    default: object  # As C++ writes an enumerator; else a value of Python's. None: there is none.
    sentence: str
    detail: str
    least: str  # As the header writes it; "" if the comment has no range.
    most: str
    unit: str

    @property
    def name(self):
        return self.path.rpartition(".")[2]


@dataclasses.dataclass
class Struct:
    name: str
    header: str
    sentence: str
    fields: list


def sentences_of(comment):
    return re.split(r"(?<=[a-z0-9`\")]\.)\s+(?=\S)", comment) if comment else []


def declarations(body):
    """Yields (code, comment) of each declaration of a struct or enum, one after the other; `code`
    has no line breaks. Ends at the first method."""
    above, code, comment, column = [], "", [], 0
    lines = [LINE.match(line) for line in body.split("\n")] + [None]
    for line in lines:
        text = line and line["code"].strip()
        mark = line and line["comment"]
        if line and not text and mark and line.start("comment") == column and code:
            comment.append(mark[2:].strip())  # Goes on behind the declaration.
            continue
        if code and code[-1] in ",;":
            yield code[:-1], " ".join(above + comment)
            above, code, comment, column = [], "", [], 0
        if line is None:
            break
        if not text:
            above = above + [mark[2:].strip()] if mark else []
            continue
        if METHOD.match(text) and "std::function" not in text + code:
            return
        code = (code + " " + text).strip()
        if mark:
            comment, column = [mark[2:].strip()], line.start("comment")
    if code:
        yield code, " ".join(above + comment)


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Headers:
    """Enums and structs by name, read from the headers that families name."""

    def __init__(self, read):
        self.read = read  # From a path below include/coppice to its text.
        self.enums, self.headers = {}, {}  # By an enum's name; the latter to where it is declared.

    def block(self, header, kind, name):
        """The comment above a struct or enum, and what is between its braces."""
        found = re.search(
            rf"((?://[^\n]*\n)*){kind} {name}(?: : \w+)? \{{(?:\n(.*?)^)?\}};\n",
            self.read(header), re.S | re.M)
        if not found:
            raise DescriptionError(f"{header}: has no {kind} {name}")
        comment = " ".join(line[2:].strip() for line in found[1].split("\n") if line)
        sentences = sentences_of(comment)
        if not sentences:
            raise DescriptionError(f"{header}: {name} has no comment")
        return sentences[0], found[2] or ""

    def enum(self, header, name):
        sentence, body = self.block(header, "enum class", name)
        enumerators = []
        for code, comment in declarations(body):
            found = ENUMERATOR.match(code)
            said = sentences_of(comment)
            if not found or not said:
                raise DescriptionError(f"{header}: {name}: {code} has no comment that can be read")
            named = WORD.match(said[0])
            said = said[1:] if named else said
            enumerators.append(Enumerator(code, named[1] if named else snake(found[1]), said[0],
                                          " ".join(said[1:])))
        self.enums[name], self.headers[name] = Enum(name, sentence, enumerators), header
        count = re.search(rf"k{name}Count = (\d+);", self.read(header))
        if count and int(count[1]) != len(enumerators):
            raise DescriptionError(f"{header}: k{name}Count is {count[1]}; there are "
                                   f"{len(enumerators)} enumerators")
        return self.enums[name]

    def alternatives(self, header, name):
        """The types of a variant."""
        found = re.search(rf"^using {name} = std::variant<(.*?)>;", self.read(header), re.S | re.M)
        return re.findall(r"\w+", found[1])

    def struct(self, header, name, path="", headers=None):
        """A struct; of a field that is a struct the fields of that, from `headers` by its name."""
        sentence, body = self.block(header, "struct", name)
        fields = []
        for code, comment in declarations(body):
            field = self.field(header, name, path, code, comment)
            if headers and field.type in headers:
                inner = self.struct(headers[field.type], field.type, field.path + ".", headers)
                fields += inner.fields
            elif not field.sentence:
                raise DescriptionError(f"{header}: {name}::{field.name} has no comment")
            else:
                fields.append(field)
        return Struct(name, header, sentence, fields)

    def field(self, header, struct, path, code, comment):
        found = FIELD.match(code)
        if not found:
            raise DescriptionError(f"{header}: {struct}: '{code}' is no field that can be read")
        said = sentences_of(comment)
        span = RANGE.match(said[-1]) if said else None
        said = said[:-1] if span else said
        of, by = found["type"], ""
        if of.startswith("std::array<int64_t, k"):
            of, by = "int64_t", re.search(r"k(\w+)Count", of)[1]
        if of.startswith("std::function"):
            of = "std::function"
        return Field(header, path + found["name"], of, by, self.default(of, found["default"]),
                     said[0] if said else "", " ".join(said[1:]),
                     (span["least"] or span["from"]) if span else "",
                     (span["most"] or "") if span else "", self.unit(header, of, found["name"]))

    def default(self, of, text):
        if of in NUMBERS:
            plain = (text or "0").replace("'", "")
            return None if plain == NO_LIMIT else int(plain)
        if of == "double":
            return float(text or "0")
        if of == "bool":
            return text == "true"
        if of == "std::string":
            return ""
        return text.rpartition("::")[2] if text else None

    def unit(self, header, of, name):
        if of not in NUMBERS:
            return ""
        last = name.rpartition("_")[2]
        if last in UNITS:
            return last
        only = re.search(r"Units: (\w+)\. ", self.read(header))  # One for all.
        return only[1] if only else ""

    def number(self, field, text):
        """The value of a bound: a number, a power, or a constant of the field's header."""
        if text.lstrip("-").isdigit():
            return int(text)
        if "^" in text:
            base, power = text.split("^")
            return int(base) ** int(power)
        found = re.search(rf"\b{text} = (\d+);", self.read(field.header))
        if not found:
            raise DescriptionError(f"{field.header}: {text} is no number")
        return int(found[1])
