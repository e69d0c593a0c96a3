"""Code and comments, laid out as clang-format 14 leaves them."""

import textwrap

COLUMNS = 100


def wrapped(text, first, rest=None, columns=COLUMNS):
    """Lines of at most `columns`; `first` and `rest` are what they begin with."""
    return textwrap.wrap(text, columns, initial_indent=first,
                         subsequent_indent=first if rest is None else rest,
                         break_long_words=False, break_on_hyphens=False)


def filled(template, **parts):
    """A template whose lines `@name` are replaced by the lines of that part, and `@include` by the
    line of C++."""
    lines = []
    for line in template.split("\n"):
        if line.startswith("@include "):
            lines.append(f'#include "{line.removeprefix("@include ")}"')
        else:
            lines += parts[line[1:]] if line.startswith("@") else [line]
    return "\n".join(lines)


def c_comment(text, indent):
    """A comment of C in lines of its own."""
    lines = wrapped(text, f"{indent}/* ", f"{indent} * ", COLUMNS)
    if len(lines[-1]) + 3 > COLUMNS:
        lines = wrapped(text, f"{indent}/* ", f"{indent} * ", COLUMNS - 3)
    return lines[:-1] + [lines[-1] + " */"]


def with_comments(declared, indent="  "):
    """Lines of declarations, each with its comment: behind it, in one column with those around it
    that have room there, or else above it. `declared` has pairs of code and comment; a comment
    that is a list has lines as they are."""
    behind = [isinstance(comment, str) and bool(comment) for _, comment in declared]
    while True:
        columns = columns_of([code for code, _ in declared], behind, indent)
        over = [i for i, (_, comment) in enumerate(declared)
                if behind[i] and columns[i] + len(f"/* {comment} */") > COLUMNS]
        if not over:
            break
        longest = max(over, key=lambda i: len(declared[i][1]))
        behind[longest] = False
    lines = []
    for (code, comment), column, beside in zip(declared, columns, behind):
        if beside:
            lines.append(f"{indent}{code}".ljust(column) + f"/* {comment} */")
        else:
            above = comment if isinstance(comment, list) else \
                c_comment(comment, indent) if comment else []
            lines += [*above, f"{indent}{code}"]
    return lines


def columns_of(codes, behind, indent):
    """Where the comment of each declaration begins: declarations that follow each other with a
    comment behind have it in one column."""
    columns, start = [0] * len(codes), 0
    for end in range(len(codes) + 1):
        if end < len(codes) and behind[end]:
            continue
        for i in range(start, end):
            columns[i] = len(indent) + 1 + max(len(code) for code in codes[start:end])
        start = end + 1
    return columns


def call(head, arguments, indent="  ", tail=";"):
    """Lines of a call, `head` with its parenthesis, filled as far as they reach."""
    whole = f"{indent}{head}{', '.join(arguments)}){tail}"
    if len(whole) <= COLUMNS:
        return [whole]
    if head.isupper() or "::" in head or "= " in head:  # One argument: on a line of its own.
        return [f"{indent}{head}", f"{indent}    {', '.join(arguments)}){tail}"]
    lines, line = [], indent + head
    for i, argument in enumerate(arguments):
        piece = argument + ("," if i + 1 < len(arguments) else ")" + tail)
        if len(line) + len(piece) + 1 > COLUMNS and line.strip() != head:
            lines.append(line.rstrip())
            line = " " * len(indent + head)
        line += piece + " "
    return [*lines, line.rstrip()]


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def c_text(lines, indent):
    """A text of several lines as literals of C++ under each other, with the semicolon."""
    literals = []
    for i, line in enumerate(lines):
        rest = line + ("\n" if i + 1 < len(lines) else "")
        while len(indent + c_string(rest)) + 1 > COLUMNS:
            cut = rest.rfind(" ", 0, COLUMNS - len(indent) - 4) + 1
            literals.append(rest[:cut])
            rest = rest[cut:]
        literals.append(rest)
    quoted = [indent + c_string(part) for part in literals]
    return [*quoted[:-1], quoted[-1] + ";"]
