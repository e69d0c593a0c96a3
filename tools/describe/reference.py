"""Tables of the reference documentation, one file per family."""

import re

import events
import families
import metrics
from c_surface import constant
from headers import INCLUDE, NUMBERS, DescriptionError
from python_surface import default_of
from text import wrapped

FOLDER = "docs/reference/"


def cell(text):
    return text.replace("|", "\\|")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]


def page(title, opening, lines):
    return "\n".join([f"# {title}", "", *wrapped(opening, ""), "", *lines, ""])


def span(field, description):
    if field.type in description.enums:
        return ", ".join(f"`{one.word}`" for one in description.enums[field.type].enumerators)
    if not field.least:
        return ""
    least = f"{description.number(field, field.least):,}"
    return f"{least} to {description.number(field, field.most):,}" if field.most else f"≥ {least}"


def options(description):
    rows = []
    for field in description.structs["SessionOptions"].fields:
        shown = "" if field.type == "std::function" else f"`{default_of(field, description)}`"
        said = f"{field.sentence} {field.detail}".strip()
        rows.append([f"`{field.path}`", f"`{families.flat_name(field.path)}`", shown,
                     span(field, description), field.unit, said])
    return page("Options of a session", (
        "`coppice::SessionOptions` in C++, `coppice_session_options` in C, the keywords of "
        "`coppice.Session` in Python. An option that you leave out has its default. In C and "
        "Python, a number that is 0 also stands for the default. If you need the value 0 itself, "
        "and the default is another number, pass -1."),
        table(["C++", "C, Python", "default", "range", "unit", "what it is"], rows))


def figures(struct, title, opening):
    rows = []
    for field in struct.fields:
        said = f"{field.sentence[:-1]}: by `{field.by}`." if field.by else field.sentence
        rows.append([f"`{field.name}`", field.unit, f"{said} {field.detail}".strip()])
    return page(title, opening, table(["C++, C, Python", "unit", "what it is"], rows))


def enumerators(description, numbers):
    lines = []
    for enum in description.enums.values():
        lines += ["", f"## {enum.name}", "", *wrapped(enum.sentence, ""), ""]
        rows = []
        for one in enum.enumerators:
            row = [f"`{one.word}`", f"`{one.name}`", f"{one.sentence} {one.detail}".strip()]
            if enum.name in families.ENUMS:
                name = constant(enum, one)
                row.insert(2, f"`{name}` = {numbers[enum.name][name]}")
            rows.append(row)
        c = ["C"] if enum.name in families.ENUMS else []
        lines += table(["word", "C++", *c, "what it is"], rows)
    return page("Enumerators", "Python, JSON, traces and reports use the words in column `word`.",
                lines[1:])


def specs(description):
    lines = []
    for struct in description.specs.values():
        rows = []
        for field in struct.fields:
            default = description.enums[field.type].word_of(field.default) \
                if field.type in description.enums else field.default
            if isinstance(default, bool):
                default = str(default).lower()
            shown = "" if default in (None, "", "nullptr") else f"`{default}`"
            said = f"{field.sentence} {field.detail}".strip()
            rows.append([f"`{field.name}`", f"`{field.type}`", shown, said])
        lines += ["", f"## {struct.name}", "", *wrapped(struct.sentence, ""), "",
                  *table(["field", "type", "default", "what it is"], rows)]
    return page("The spec of a program", (
        "`coppice::ProgramSpec` in C++, with the structs that it is made of. C and Python have the "
        "same fields, with names of symbols, inputs and outputs where C++ has an index."),
        lines[1:])


def trace_events(description, read):
    lines = ["", *trace_format(read)[:-1]]
    for struct in description.events:
        rows = []
        for field in struct.fields:
            numeric = field.type in NUMBERS or field.type.endswith("Number")
            least = description.number(field, field.least or "0")
            rows.append([f"`{field.name}`", f"`{field.type}`", f"≥ {least}" if numeric else "",
                         field.unit, f"{field.sentence} {field.detail}".strip()])
        lines += ["", f"## {events.name_of(struct)}", "", *wrapped(struct.sentence, "")]
        if rows:
            lines += ["", *table(["field", "type", "range", "unit", "what it is"], rows)]
    return page("Events of a trace", (
        "A trace has one line per event: `[time_ns, \"name\", lane, field, ...]`. The lane is -1 "
        "if an event concerns the whole session. In C++, the events are the alternatives of "
        "`coppice::TraceEvent`. `coppice prof json` writes them with the names of their fields."),
        lines[1:])


def prose_of(header, first, last):
    """Lines of a header's first comment, from the paragraph that begins with `first` to before the
    one that begins with `last`; indented ones are a block of text."""
    comment = header.partition("\n#pragma")[0]
    paragraphs = re.split(r"\n//\n", comment[comment.index(f"// {first}"):])
    lines = []
    for paragraph in paragraphs:
        if paragraph.startswith(f"// {last}"):
            return lines
        said = [line[3:] for line in paragraph.split("\n")]
        lines += ["```text", *(line[2:] for line in said), "```", ""] if said[0].startswith(" ") \
            else [*wrapped(" ".join(said), ""), ""]
    raise DescriptionError(f"a header has no paragraph that begins with '{last}'")


def trace_format(read):
    """What the lines of a trace's file are."""
    return ["## The file", "", *prose_of(read(INCLUDE + families.EVENTS[1]), "The file is text",
                                         "Units:")]


def metric_page(read, description):
    return page("Metrics of a session", (
        "`Session::MetricsText` in C++, `coppice_session_metrics_text` in C and "
        "`coppice.prof.metrics` in Python write these metrics as text, for Prometheus or as "
        "OpenMetrics. The table has the names of Prometheus' format. A histogram has the samples "
        "`_bucket`, `_sum` and `_count`. `coppice_sticky_error_info` appears only after an error "
        "that the device cannot recover from. A label without values in the table has names of "
        "programs and buckets, versions or codes. [Samples](../samples.md) has a server of "
        "metrics, and a Grafana dashboard for them."),
        table(["name", "type", "labels", "unit", "what it is"],
              metrics.table_rows(read, description)))


def pages(description, numbers, read):
    """The text of each page by its path."""
    made = {
        "session_options.md": options(description),
        "session_stats.md": figures(
            description.structs["SessionStats"], "Figures of a session",
            "`Session::stats()` in C++, `coppice_stats` in C, `Session.stats()` in Python, by the "
            "same names. [Metrics](metrics.md) have them, too, with `coppice_` in front."),
        "memory_usage.md": figures(
            description.structs["MemoryUsage"], "Memory of a session",
            "`Session::memory().usage()` in C++, `coppice_memory` in C, `Session.memory()` in "
            "Python, by the same names."),
        "program_spec.md": specs(description),
        "trace_events.md": trace_events(description, read),
        "metrics.md": metric_page(read, description),
        "enumerators.md": enumerators(description, numbers),
    }
    return {FOLDER + name: text for name, text in made.items()}
