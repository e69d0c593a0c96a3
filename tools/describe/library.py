"""The library itself: names of enumerators, sums of figures, ranges of options."""

import re

import families
from headers import NUMBERS
from text import call, c_string, filled


def names(enum, description):
    """NameOf, of an enum whose header declares it."""
    lines = [f"const char* NameOf({enum.name} {argument_of(enum, description)}) {{",
             f"  switch ({argument_of(enum, description)}) {{"]
    for one in enum.enumerators:
        lines += [f"    case {enum.name}::{one.name}:", f'      return "{one.word}";']
    return [*lines, "  }", '  return "?";', "}"]


def argument_of(enum, description):
    text = description.read(description.headers[enum.name])
    found = re.search(rf"^const char\* NameOf\({enum.name} (\w+)\);", text, re.M)
    return found and found[1]


def sums(struct):
    lines = [f"{struct.name}& {struct.name}::operator+=(const {struct.name}& other) {{"]
    for field in struct.fields:
        if field.by:
            lines += [f"  for (size_t i = 0; i < {field.name}.size(); ++i)",
                      f"    {field.name}[i] += other.{field.name}[i];"]
        else:
            lines.append(f"  {field.name} += other.{field.name};")
    return [*lines, "  return *this;", "}"]


def ranges(struct, description):
    lines = ["absl::Status ValidateOptions(const SessionOptions& options) {"]
    for field in struct.fields:
        if field.type not in NUMBERS or field.path in families.CHECKED_ELSEWHERE:
            continue
        bounds = ", ".join(str(description.number(field, bound)) if "^" in bound else bound
                           for bound in (field.least, field.most) if bound)
        lines += call("COPPICE_RETURN_IF_ERROR(",
                      [f'CheckRange("{families.flat_name(field.path)}", options.{field.path}, '
                       f'{bounds})'])
    return [*lines, "  return absl::OkStatus();", "}"]


SOURCE = """\
// Names, sums and ranges of what sessions are told and tell. Written by tools/describe.

#include <cstddef>

@include coppice/base/status.h
@headers

@include graphs/parts/check_range.h

namespace coppice {

using internal::CheckRange;

@functions

}  // namespace coppice
"""

SOURCE_HEADER = """\
// Figures of a session, one by one. Private to graphs/. Written by tools/describe.
//
// Threads: a pure function.

#pragma once

@include coppice/graphs/session_stats.h

namespace coppice::internal {

// Calls `visit` with the name of each that is one number, what it is, and how much.
template <typename Visit>
void VisitFigures(const SessionStats& stats, Visit&& visit) {
@visits
}

}  // namespace coppice::internal
"""


def source(description):
    """graphs/described/session_fields.cc."""
    named = [description.enums[name] for name, (header, _) in families.ENUMS.items()
             if header not in families.SPECS.values() and
             argument_of(description.enums[name], description)]
    parts = [*(names(enum, description) for enum in named),
             sums(description.structs["SessionStats"]),
             ranges(description.structs["SessionOptions"], description)]
    headers = {families.ENUMS[enum.name][0] for enum in named} | \
        {families.STRUCTS[name][0] for name in ("SessionStats", "SessionOptions")}
    return filled(SOURCE, headers=[f'#include "coppice/{header}"' for header in sorted(headers)],
                  functions=[line for part in parts for line in ["", *part]][1:])


def header(description):
    """graphs/described/session_fields.h."""
    figures = [field for field in description.structs["SessionStats"].fields if not field.by]
    return filled(SOURCE_HEADER, visits=[
        line for field in figures
        for line in call("visit(", [f'"{field.name}"', c_string(field.sentence),
                                    f"stats.{field.name}"])])
