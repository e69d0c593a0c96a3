"""The C surface: structs and enums of coppice.h, and what reads and fills them in.

Of coppice.h a struct keeps its fields in their order, and an enumerator its number, because
compiled callers rely on them: what the description has more is put behind them.
"""

import re

import families
from headers import NUMBERS, DescriptionError
from text import c_comment, call, filled, with_comments

HEADER = "include/coppice/coppice.h"
TYPES = {"int": "int32_t", "int32_t": "int32_t", "int64_t": "int64_t", "bool": "int32_t",
         "std::string": "const char*"}


def constant(enum, enumerator):
    return f"{families.ENUMS[enum.name][1]}_{enumerator.word.upper()}"


def constants_of(description, name):
    """How a comment speaks of an enum's constants."""
    prefix = families.ENUMS[name][1]
    if prefix != "COPPICE":
        return f"{prefix}_..."
    names = [constant(description.enums[name], one) for one in description.enums[name].enumerators]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def is_limit(field, description):
    """Whether 0, which stands for the default in C, is another value that may be meant."""
    return field.type in NUMBERS and field.default and \
        description.number(field, field.least or "1") == 0


def comment_of(field, description):
    """What C says of a field: the first sentence, its constants, and what 0 is."""
    said = field.sentence
    more = []
    if field.type in description.enums:
        more.append(constants_of(description, field.type))
        if field.type in families.WITH_DEFAULT:
            word = description.enums[field.type].word_of(field.default)
            more.append(f"0: {word.replace('_', ' ')}")
        return f"{said[:-1]}: {'; '.join(more)}{'' if more[-1].endswith('...') else '.'}"
    if field.by:
        return f"{said[:-1]}: {constants_of(description, field.by)}"
    if field.type == "std::string":
        return said.replace("; empty:", "; null or empty:")
    if field.type in NUMBERS and field.default:
        if field.most:
            more.append(f"{description.number(field, field.least):,} to "
                        f"{description.number(field, field.most):,}")
        none = ", -1: none" if is_limit(field, description) else ""
        more.append(f"0: {field.default:,}{none}")
        return f"{said} {'; '.join(more)}."
    return said


class Header:
    """coppice.h, whose described parts are replaced one after the other."""

    def __init__(self, text, description):
        self.text, self.description = text, description

    def replace(self, start, end, lines):
        self.text = self.text[:start] + "\n".join(lines) + "\n" + self.text[end:]

    def write_enum(self, enum):
        """Returns the number of each constant."""
        names = {constant(enum, one): one for one in enum.enumerators}
        for block in re.finditer(r"^(?:/\*(?:[^*]|\*(?!/))*\*/\n)?enum \{(.*?)\};\n", self.text,
                                 re.S | re.M):
            code = re.sub(r"/\*.*?\*/", "", block[1], flags=re.S)
            found = dict(re.findall(r"(\w+) = (\d+)", code))
            if names.keys() & found.keys():
                break
        else:
            raise DescriptionError(f"{HEADER}: has no enum with {next(iter(names))}; begin one")
        gone = [name for name in found if name not in names and not name.endswith("_DEFAULT")]
        if gone:
            raise DescriptionError(f"{HEADER}: {gone[0]} is in no C++ enum any more")
        numbers = {name: int(number) for name, number in found.items()}
        for name in names:
            numbers.setdefault(name, max(numbers.values()) + 1)
        declared = [(f"{name} = {number},", names[name].sentence if name in names else
                     "Each field says its default.")
                    for name, number in sorted(numbers.items(), key=lambda item: item[1])]
        self.replace(block.start(), block.end(), [*c_comment(enum.sentence, ""), "enum {",
                                                  *with_comments(declared), "};"])
        return numbers

    def write_struct(self, struct, c_name):
        """Returns the names of its fields in their order."""
        block = re.search(rf"^typedef struct {c_name} \{{\n(.*?)^\}} {c_name};\n", self.text,
                          re.S | re.M)
        if not block:
            raise DescriptionError(f"{HEADER}: has no struct {c_name}; begin one")
        fields = {families.flat_name(field.path): field for field in struct.fields}
        declared, present = [], []
        for code, name, comment in c_fields(block[1]):
            present.append(name)
            if name in fields:
                self.check_type(c_name, code, name, fields[name])
                comment = comment_of(fields[name], self.description)
            elif name != "struct_size" and name not in families.C_ALONE[c_name]:
                raise DescriptionError(f"{HEADER}: {c_name}.{name} is in no C++ struct any more")
            declared.append((code, comment))
        for name, field in fields.items():
            if name not in present:
                declared.append((f"{self.type_of(field, name)};",
                                 comment_of(field, self.description)))
        self.replace(block.start(), block.end(),
                     [f"typedef struct {c_name} {{", *with_comments(declared), f"}} {c_name};"])
        return [*present, *(name for name in fields if name not in present)]

    def type_of(self, field, name):
        if field.type == "std::function" or field.by:
            raise DescriptionError(f"{HEADER}: declare {name} at the end of its struct")
        return f"{TYPES.get(field.type, 'int32_t')} {name}"

    def check_type(self, struct, code, name, field):
        """A field that is there has the type that it would get."""
        if field.by:
            room = re.fullmatch(rf"int64_t {name}\[(\d+)\];", code)
            if not room or int(room[1]) < len(self.description.enums[field.by].enumerators):
                raise DescriptionError(f"{HEADER}: {struct}.{name} has no room for {field.by}")
        elif field.type != "std::function" and code != f"{self.type_of(field, name)};":
            raise DescriptionError(f"{HEADER}: {struct}.{name} is no {field.type}")


def c_fields(body):
    """Code, name and comment of each field of a struct of C; comments are lines."""
    pattern = re.compile(r"(?P<above>(?:  /\*(?:[^*]|\*(?!/))*\*/\n)*)  (?P<code>[^/;]+;)"
                         r"(?: +/\* (?P<behind>(?:[^*]|\*(?!/))*?) \*/)?\n")
    at = 0
    while at < len(body):
        found = pattern.match(body, at)
        if not found:
            raise DescriptionError(f"{HEADER}: cannot read '{body[at:at + 60]}'")
        name = re.search(r"\(\*(\w+)\)|(\w+)(?:\[\d+\])?;$", found["code"])
        behind = " ".join((found["behind"] or "").replace("\n", " ").replace(" * ", " ").split())
        above = found["above"].rstrip("\n").split("\n") if found["above"] else behind
        yield found["code"], name[1] or name[2], above
        at = found.end()


def setter(field, description):
    """Lines of the statement that sets a member of C++ from the field of C."""
    name = families.flat_name(field.path)
    given, member = f"given.{name}", f"options.{field.path}"
    if field.type in description.enums:
        how = "SetEnumOr" if field.type in families.WITH_DEFAULT else "SetEnum"
        return call("COPPICE_RETURN_IF_ERROR(", [f'{how}({given}, "{name}", {member})'])
    how = "SetLimit" if is_limit(field, description) else "Set"
    return call(f"{how}(", [given, member])


def reader(struct, c_name, description):
    lines = ["absl::Status ReadFields(const " + c_name + "& given, " + struct.name + "& options) {"]
    lines += [line for field in struct.fields if field.type != "std::function"
              for line in setter(field, description)]
    return [*lines, "  return absl::OkStatus();", "}"]


def teller(struct, c_name):
    lines = [f"{c_name} StructOf(const {struct.name}& from) {{", f"  {c_name} told{{}};"]
    for field in struct.fields:
        lines.append(f"  CopyInto(from.{field.name}, told.{field.name});" if field.by else
                     f"  told.{field.name} = from.{field.name};")
    return [*lines, "  return told;", "}"]


SOURCE = """\
// What a session is told and tells, field by field. Written by tools/describe.

@include capi/described/session_fields.h

@include coppice/base/status.h

@include capi/fields.h

namespace coppice::capi {

@checks

@functions

}  // namespace coppice::capi
"""

SOURCE_HEADER = """\
// What a session is told and tells, field by field between C and C++. Private to capi/. Written by
// tools/describe.
//
// Threads: pure functions.

#pragma once

@include absl/status/status.h

@headers

@include capi/structs.h

namespace coppice::capi {

@counts

// All but functions. Errors: kInvalidArgument an enumerator; Session::Create finds the rest.
absl::Status ReadFields(const coppice_session_options& given, SessionOptions& options);
@told

}  // namespace coppice::capi
"""


def checks(description, numbers):
    """That numbers of C are those of C++, of all enums but those that are read by hand."""
    lines = []
    for name in families.ENUMS:
        if name in families.OTHER_NUMBERS:
            continue
        enum = description.enums[name]
        first = 1 if name in families.WITH_DEFAULT else 0
        for number, one in enumerate(enum.enumerators, first):
            if numbers[name][constant(enum, one)] != number:
                raise DescriptionError(f"{HEADER}: {constant(enum, one)} is "
                                       f"{numbers[name][constant(enum, one)]}, and {name}::"
                                       f"{one.name} is not; add enumerators at the end")
        lines += [f"static_assert({constant(enum, one)} == "
                  f"{'1 + ' if first else ''}static_cast<int>({name}::{one.name}));"
                  for one in (enum.enumerators[0], enum.enumerators[-1])]
    return lines


def source(description, numbers):
    """capi/described/session_fields.cc."""
    functions = []
    for name, (_, c_name) in families.STRUCTS.items():
        struct = description.structs[name]
        functions += ["", *(reader(struct, c_name, description) if name in families.OPTIONS else
                            teller(struct, c_name))]
    return filled(SOURCE, checks=checks(description, numbers), functions=functions[1:])


def header(description):
    """capi/described/session_fields.h."""
    named = [*families.ENUMS.values(), *families.STRUCTS.values()]
    counts = [f"template <>\ninline constexpr int kCountOf<{name}> = "
              f"{len(description.enums[name].enumerators)};" for name in families.ENUMS]
    told = [f"{c_name} StructOf(const {name}& from);"
            for name, (_, c_name) in families.STRUCTS.items() if name not in families.OPTIONS]
    return filled(SOURCE_HEADER, counts=counts, told=told,
                  headers=[f'#include "coppice/{of}"'
                           for of in sorted({"coppice.h", *(of for of, _ in named)})])
