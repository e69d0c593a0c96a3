"""Comments and docstrings as Markdown: paragraphs, drawings and code, lists of errors, links.

What is indented is shown as it stands. A name that the reference has becomes a link to it, other
names become code, and everything else is text, whatever it means in Markdown.
"""

import re
import textwrap

LABEL = re.compile(r"(?<![\w`])(Requires|Errors|Cost|Threads|Units|Lifetime|Raises|Returns):")
TOKEN = re.compile(
    r"(?P<ticked>``?[^`]+``?)"
    r"|(?P<quoted>\"[^\"\n]*\")"
    r"|(?P<file>\b(?:coppice/)?(?:\w+/)*\w+\.(?:h|inc)\b)"
    r"|(?P<name>(?:(?<![\w.])(?:[A-Za-z]\w*(?:::|\.(?=[A-Za-z_])))+~?[A-Za-z_]\w*"
    r"|\b[A-Za-z]\w*_\w+|\bk[A-Z]\w*|\b[a-z]\w*(?=\(\))|\b[A-Z][a-z0-9]+[A-Z]\w*)"
    r"(?:\([^()\s]*\)|\.{3})?)")
ERROR = re.compile(r"(k[A-Z]\w+|otherwise)\b *(.*)")
ESCAPED = str.maketrans({"\\": "\\\\", "*": "\\*", "_": "\\_", "[": "\\[", "]": "\\]",
                         "|": "&#124;", "{": "&#123;", "<": "&lt;", ">": "&gt;", "&": "&amp;",
                         "`": "\\`"})


def code(text):
    """A span of code, in a table as well."""
    mark = "``" if "`" in text else "`"
    return f"{mark}{text}{mark}"


def inline(text, find):
    """A paragraph. `find` gives the address of a name, or None."""
    parts, end = [], 0
    for found in TOKEN.finditer(text):
        parts.append(plain(text[end:found.start()]))
        end = found.end()
        shown = found["ticked"] or found[0]
        if found["quoted"] or re.fullmatch(r"`[a-z]+`", shown):  # As likely an argument's name.
            parts.append(shown if found["ticked"] else plain(shown))
            continue
        bare = re.sub(r"\(.*\)$", "", shown.strip("`"))
        address = find(bare)
        if address is None and not found["ticked"] and is_word(shown):
            parts.append(plain(shown))
            continue
        spanned = shown if found["ticked"] else code(shown)
        parts.append(f"[{spanned}]({address})" if address else spanned)
    return "".join(parts) + plain(text[end:])


def is_word(text):
    """Whether it is as likely a word or a name of others: PyTorch, NumPy, e.g."""
    return not re.search(r"_|::|\(|^k[A-Z]|\.h$|\.inc$|^[a-z]+\.[A-Za-z]", text) or "e.g" in text


def plain(text):
    text = re.sub(r"\\\*(\w[\w ]*)\\\*", r"*\1*", text.translate(ESCAPED))
    return LABEL.sub(r"**\1:**", text)


def errors(lines, find):
    """A list of errors in columns, as a list."""
    items = []
    for line in lines:
        found = ERROR.match(line)
        if found:
            items.append([found[1], found[2]])
        else:
            items[-1][1] += " " + line
    said = [f"* {inline(name, find)} {inline(what.strip(), find)}" for name, what in items]
    return ["", *said, ""]


def shown(lines, language):
    """Lines as they stand; None if they are bullets."""
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    if re.match(r"\* ", text):
        return None
    is_code = re.search(r"[(=]" if language == "python" else r"[;{]\s*(//.*)?$", text, re.M)
    language = language if is_code else "text"
    return ["", f"```{language}", *text.split("\n"), "```", ""]


def bullets(lines, find):
    items = []
    for line in textwrap.dedent("\n".join(lines)).split("\n"):
        if line.startswith("* "):
            items.append(line[2:].strip())
        else:
            items[-1] += " " + line.strip()
    return ["", *(f"* {inline(item, find)}" for item in items), ""]


def columns(lines):
    """Names with what they are, in columns, as docstrings list parameters: [[name, text]], and the
    lines behind them; None if the lines do not begin such a list."""
    first = re.match(r"\S+(?:, \S+)* {2,}(?=\S)", lines[0])
    if not first:
        return None
    at, rows = first.end(), []
    for i, line in enumerate(lines):
        long = re.match(rf"(\S.{{{at - 2},}}?) {{2,}}(?=\S)", line)
        if line.startswith(" " * at):
            rows[-1][1] += " " + line.strip()
        elif re.match(rf"\S.{{{at - 1}}}(?<= )\S", line):
            rows.append([line[:at].strip(), line[at:]])
        elif long:
            rows.append([long[1], line[long.end():]])
        else:
            return rows, lines[i:]
    return rows, []


def table(rows, find):
    return ["", "| name | what it is |", "|---|---|",
            *(f"| {code(name)} | {inline(text, find)} |" for name, text in rows), ""]


def definitions(lines):
    """Options with their defaults, and below each, indented, what it is: [[option, text]]."""
    rows = []
    for line in lines:
        if re.match(r"\w+(=\S*|\([\w, ]*\).*)$", line):
            rows.append([line, ""])
        elif line.startswith("    ") and rows:
            rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
        else:
            return None
    return (rows, []) if rows and all(said for _, said in rows) else None


def markdown(text, find, language="cpp"):
    """Lines of Markdown. `language` is that of code in it."""
    made = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        lines = paragraph.split("\n")
        rows, lines = columns(lines) or definitions(lines) or ([], lines)
        made += table(rows, find) if rows else []
        while lines:
            indented = lines[0].startswith("  ")
            count = next((i for i, line in enumerate(lines) if line.startswith("  ") != indented),
                         len(lines))
            run, lines = lines[:count], lines[count:]
            rows = language == "python" and indented and columns(
                textwrap.dedent("\n".join(run)).split("\n"))
            if rows and not rows[1] and all(re.fullmatch(r"[\w, ]+", name) for name, _ in rows[0]):
                made += table(rows[0], find)
            elif indented:
                made += shown(run, language) or bullets(run, find)
            elif lines and run[-1].startswith("Errors: ") and ERROR.match(run[-1][8:]):
                count = next((i for i, line in enumerate(lines) if not line.startswith("  ")),
                             len(lines))
                if lines[count:] and lines[count][0].islower():  # The last one.
                    lines[count:] = ["  otherwise " + " ".join(lines[count:])]
                    count += 1
                listed, lines = [run[-1][8:], *lines[:count]], lines[count:]
                made += ["", inline(" ".join([*run[:-1], "Errors:"]), find)]
                made += errors([line.strip() for line in listed], find)
            else:
                made += ["", inline(" ".join(run), find), ""]
    return made
