"""What happens in a session, event by event and field by field."""

from headers import INCLUDE, snake
from text import call, filled

HEADER = INCLUDE + "graphs/described/trace_fields.h"

TEXT = """\
// Events of a trace by name, and their fields one by one, as its file has them. Written by
// tools/describe.
//
// Threads: pure functions.

#pragma once

#include <concepts>
#include <type_traits>
#include <variant>

@include coppice/graphs/trace_events.h

namespace coppice {

template <typename Event>
inline constexpr const char* kTraceEventName = nullptr;
@names

inline const char* NameOf(const TraceEvent& event) {
  return std::visit([]<typename Event>(const Event&) { return kTraceEventName<Event>; }, event);
}

// Calls `visit` with the name of each field, the field, and the least that a number may be.
@visits

}  // namespace coppice
"""


def name_of(struct):
    """The word of an event: "call" of CallEvent."""
    return snake(struct.name.removesuffix("Event"))


def visit(struct, description):
    of, visit = ("of", " visit") if struct.fields else ("", "")
    lines = ["template <typename Of, typename Visit>",
             f"requires std::same_as<std::remove_const_t<Of>, {struct.name}>",
             f"void VisitFields(Of&{of and ' of'}, Visit&&{visit}) {{"]
    for field in struct.fields:
        least = description.number(field, field.least or "0")
        lines += call("visit(", [f'"{field.path}"', f"of.{field.path}", str(least)])
    return [*lines, "}"] if struct.fields else [*lines[:-1], lines[-1] + "}"]


def header(description):
    names = []
    for struct in description.events:
        names += ["template <>", f"inline constexpr const char* kTraceEventName<{struct.name}> = "
                  f'"{name_of(struct)}";']
    return filled(TEXT, names=names,
                  visits=[line for struct in description.events
                          for line in ["", *visit(struct, description)]][1:])
