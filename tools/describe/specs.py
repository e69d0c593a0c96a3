"""What a program is told, field by field, and the options of a session likewise."""

import families
from library import argument_of, names
from text import call, filled

HEADER = """\
// What a session and its programs are made of, field by field. Private to graphs/. Written by
// tools/describe.
//
// Threads: pure functions.

#pragma once

#include <concepts>
#include <type_traits>

@headers

namespace coppice::internal {

// A struct, const or not.
template <typename Of, typename Struct>
concept Either = std::same_as<std::remove_const_t<Of>, Struct>;

@visits

}  // namespace coppice::internal
"""

SOURCE = """\
// Words of what programs are made of. Written by tools/describe.

@headers

namespace coppice {

@names

}  // namespace coppice
"""

ABOVE = """\
// Calls `visit` with the name of each field that says what a program takes, gives and promises, and
// with the field."""
OPTIONS_ABOVE = """\
// The same of options, but for functions and the trace."""


def visit(struct, fields):
    lines = [f"template <Either<{struct}> Of, typename Visit>",
             "void VisitFields(Of& of, Visit&& visit) {"]
    for name, path in fields:
        lines += call("visit(", [f'"{name}"', f"of.{path}"])
    return [*lines, "}"]


def header(description):
    """graphs/described/spec_fields.h."""
    parts = []
    for struct in description.specs.values():
        apart = families.NOT_THE_PROGRAM.get(struct.name, ())
        parts.append(visit(struct.name, [(field.name, field.path) for field in struct.fields
                                         if field.name not in apart]))
    parts[0] = [*ABOVE.split("\n"), *parts[0]]
    options = [(families.flat_name(field.path), field.path)
               for field in description.structs["SessionOptions"].fields
               if field.type != "std::function" and not field.path.startswith("trace.")]
    parts.append([*OPTIONS_ABOVE.split("\n"), *visit("SessionOptions", options)])
    headers = {*families.SPECS.values(), families.STRUCTS["SessionOptions"][0]}
    return filled(HEADER, headers=[f'#include "coppice/{name}"' for name in sorted(headers)],
                  visits=[line for part in parts for line in ["", *part]][1:])


def source(description):
    """graphs/described/spec_fields.cc."""
    spoken = {*families.SPECS.values(), *families.SPEC_ENUMS.values()}
    named = [enum for name, enum in description.enums.items()
             if description.headers[name] in spoken and argument_of(enum, description)]
    headers = {description.headers[enum.name] for enum in named}
    return filled(SOURCE, headers=[f'#include "coppice/{name}"' for name in sorted(headers)],
                  names=[line for enum in named
                         for line in ["", *names(enum, description)]][1:])
