"""The Python surface: keyword arguments of a session, words of enums, and figures."""

import re

import families
from c_surface import is_limit
from text import call, c_string, c_text, filled, wrapped

TYPES = {"int": "int", "int32_t": "int", "int64_t": "int", "bool": "bool", "std::string": "str",
         "std::function": "object"}


def list_name(enum):
    """kStances: an enum's words in the order of C's numbers."""
    return f"k{enum.name}" + ("" if enum.name.endswith("s") else "s")


def words(enum, numbers):
    """The words of an enum by C's numbers."""
    prefix = families.ENUMS[enum.name][1] + "_"
    ordered = sorted(numbers[enum.name].items(), key=lambda item: item[1])
    return [name.removeprefix(prefix).lower() for name, _ in ordered]


def choice(enum):
    quoted = [f'"{one.word}"' for one in enum.enumerators]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def default_of(field, description):
    if field.type in description.enums:
        return f'"{description.enums[field.type].word_of(field.default)}"'
    return '""' if field.type == "std::string" else repr(field.default)


def sentence_of(field, description):
    """What Python says of an option: the first sentence, its words, and what is possible."""
    said = field.sentence.replace("null:", "None:")
    if field.type in description.enums:
        return f"{said[:-1]}: {choice(description.enums[field.type])}."
    if field.type == "std::function":
        return said + families.CALLBACK_NOTES.get(field.name, "")
    if field.most:
        said += (f" {description.number(field, field.least):,} to "
                 f"{description.number(field, field.most):,}.")
    return said + (" -1: none." if is_limit(field, description) else "")


def docstring(fields, description):
    """Lines of what help() says of a session's options."""
    lines = ["Makes a session on a device. Its options are given by name, with these defaults. An",
             "option that is None or the number 0 has its default.", ""]
    for field in fields:
        name = families.flat_name(field.path)
        head = families.CALLBACKS[name] if field.type == "std::function" else \
            f"{name}={default_of(field, description)}"
        lines += [head, *wrapped(sentence_of(field, description), "    ", columns=88)]
    return lines


def signature(fields, description):
    """The stub's of __init__."""
    parts = []
    for field in fields:
        name = families.flat_name(field.path)
        kind = "str" if field.type in description.enums else TYPES[field.type]
        default = default_of(field, description).replace('"', "'")
        parts.append(f"{name}: {kind} | None = {default}")
    return f"def __init__(self, device: Device, *, {', '.join(parts)}) -> None"


def reading(field, description):
    name = families.flat_name(field.path)
    if field.type in description.enums:
        return f'given.Word("{name}", {list_name(description.enums[field.type])}, options.{name});'
    how = {"bool": "Flag", "std::string": "Text"}.get(field.type, "Number")
    return f'given.{how}("{name}", options.{name});'


def figures(struct, c_name, description):
    lines = [f"nb::object FiguresOf(const {c_name}& told) {{", "  nb::dict figures;"]
    for field in struct.fields:
        name = field.name
        zeros = ", Zeros::kLeftOut" if name in families.SPARSE else ""
        value = f"ByWord(told.{name}, {list_name(description.enums[field.by])}{zeros})" \
            if field.by else f"told.{name}"
        lines.append(f'  figures["{name}"] = {value};')
    return [*lines, f'  return nb::module_::import_("coppice.figures").attr("{struct.name}")'
                    "(figures);", "}"]


SOURCE_HEADER = """\
// Options, words and figures of sessions. Written by tools/describe.
//
// Threads: the GIL is held.

#pragma once

#include <vector>

@include python/core/fields.h

namespace coppice::python {

// Words by the numbers of coppice.h.
@lists

// The stub's signature of Session, and its help.
extern const char* const kSessionSignature;
extern const char* const kSessionDoc;

// All options but functions. Texts live as long as `given`.
coppice_session_options SessionOptionsOf(Fields& given);
// Of coppice/figures.py.
@figures

}  // namespace coppice::python
"""

SOURCE = """\
// Options and figures of sessions, one by one. Written by tools/describe.

@include python/core/described/session_fields.h

namespace coppice::python {

const char* const kSessionSignature =
@signature

const char* const kSessionDoc =
@doc

coppice_session_options SessionOptionsOf(Fields& given) {
  coppice_session_options options{};
  options.struct_size = sizeof options;
@readings
  return options;
}

@figures

}  // namespace coppice::python
"""

FIGURES = '''\
"""Figures of sessions: dicts whose items are attributes as well. Written by tools/describe."""


class Figure:
    \"\"\"An item of a dict, as an attribute.\"\"\"

    def __init__(self, what):
        self.__doc__ = what

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, figures, owner=None):
        return self if figures is None else figures[self.name]
@classes
'''


WORDS = '''\
"""Words of enums, in the order of coppice.h's numbers. Written by tools/describe."""

@words
'''


def figure_structs():
    return [(name, c_name) for name, (_, c_name) in families.STRUCTS.items()
            if name not in families.OPTIONS]


def word_list(enum, numbers):
    prefix = families.ENUMS[enum.name][1]
    entries = [(f'    "{word}",', f"{prefix}_{word.upper()}") for word in words(enum, numbers)]
    column = 2 + max(len(entry) for entry, _ in entries)
    return [f"inline const std::vector<const char*> {list_name(enum)} = {{",
            *(f"{entry:{column}}// {name}" for entry, name in entries), "};"]


def header(description, numbers):
    """python/core/described/session_fields.h."""
    return filled(SOURCE_HEADER,
                  lists=[line for name in families.ENUMS
                         for line in word_list(description.enums[name], numbers)],
                  figures=[f"nb::object FiguresOf(const {c_name}& told);"
                           for _, c_name in figure_structs()])


def source(description, fields):
    """python/core/described/session_fields.cc. `fields` are the options in the order of C."""
    tables = [line for name, c_name in figure_structs()
              for line in ["", *figures(description.structs[name], c_name, description)]]
    return filled(SOURCE, signature=c_text([signature(fields, description)], "    "),
                  doc=c_text(docstring(fields, description), "    "),
                  readings=[f"  {reading(field, description)}" for field in fields
                            if field.type != "std::function"],
                  figures=tables[1:])


def figure_classes(description):
    """python/coppice/figures.py."""
    lines = []
    for name, _ in figure_structs():
        struct = description.structs[name]
        lines += ["", "", f"class {name}(dict):", f'    """{struct.sentence}"""', "",
                  "    __slots__ = ()", ""]
        for field in struct.fields:
            kind = "dict" if field.by else TYPES[field.type]
            lines += call(f"{field.name}: {kind} = Figure(", [c_string(field.sentence)], "    ", "")
    return filled(FIGURES, classes=lines)


def word_tuples(description, numbers):
    """python/coppice/words.py."""
    lines = []
    for name in families.PYTHON_WORDS:
        head = re.sub(r"(?<=[a-z])(?=[A-Z])", "_",
                      list_name(description.enums[name])[1:]).upper() + " = ("
        quoted = [f'"{word}"' for word in words(description.enums[name], numbers)]
        lines += wrapped(f"{head}{', '.join(quoted)})", "", " " * len(head))
    return filled(WORDS, words=lines)
