"""The page: how many models pass in each suite, why the others do not, and a table of all. It is
one HTML file that needs no network. Colours are those of `coppice prof html`."""

import collections
import html
import importlib.resources
import math

from coppice.dashboard import lines

COLUMNS = (
    ("model", "text"), ("mode", "text"), ("dtype", "text"), ("status", "text"), ("lifted", "text"),
    ("graphs", "count"), ("breaks", "count"), ("recompiles", "count"), ("kernels", "count"),
    ("calls", "names"), ("compile_s", "number"), ("inductor_s", "number"), ("first_s", "number"),
    ("call_ms", "number"), ("eager_ms", "number"), ("speedup", "number"), ("error", "number"),
    ("pool_bytes", "bytes"), ("live_bytes", "bytes"), ("apart_bytes", "bytes"),
    ("padding_pct", "number"))
CAUSES_MAX = 60


def totals(found):
    """The totals of a suite's lines."""
    ran = [one for one in found if one["compile_s"] is not None]
    return {
        "models": len({one["model"] for one in found}), "runs": len(found),
        **{status: sum(one["status"] == status for one in found) for status in lines.STATUSES},
        "fully lifted": sum(one["lifted"] == "full" for one in found),
        "compile, s": lines.median(one["compile_s"] for one in ran),
        "beyond Inductor": lines.median(
            one["compile_s"] / one["inductor_s"] - 1 for one in ran if one["inductor_s"]),
        "times eager": lines.median(
            one["call_ms"] / one["eager_ms"] for one in ran if one["eager_ms"]),
        "speedup": geometric(one["speedup"] for one in ran),
        "pool / live": max((one["pool_bytes"] / one["live_bytes"] for one in ran
                            if one["live_bytes"]), default=None),
    }


def geometric(values):
    """The geometric mean; None if there are no values."""
    known = [math.log(value) for value in values if value]
    return math.exp(math.fsum(known) / len(known)) if known else None


def text_of(kind, value):
    if value is None:
        return ""
    if kind == "names":
        return ", ".join(f"{count} {name}" if count > 1 else name
                         for name, count in sorted(value.items()))
    if kind == "bytes":
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def summary(found):
    """A table of the suites as text."""
    rows = [(suite, totals(own)) for suite, own in lines.by_suite(found).items()]
    if not rows:
        return ""
    head = ["suite", *rows[0][1]]
    table = [head] + [[suite, *(text_of("number", value) for value in known.values())]
                      for suite, known in rows]
    widths = [max(len(row[index]) for row in table) for index in range(len(head))]
    return "".join("  ".join(text.rjust(width) if index else text.ljust(width)
                             for index, (text, width) in enumerate(zip(row, widths))).rstrip()
                   + "\n" for row in table)


def page(heading, found):
    suites = lines.by_suite(found)
    right = sum(one["status"] == "right" for one in found)
    body = [f"<p class=lead>{right} of {len(found)} results are right.</p>", overview(suites)]
    body += [causes(found)]
    body += [f"<section id={escaped(suite)}><h2>{escaped(suite)}</h2>{table(own)}</section>"
             for suite, own in suites.items()]
    template = importlib.resources.files("coppice.dashboard").joinpath("page.html").read_text()
    return (template.replace("{{versions}}", versions(heading))
            .replace("{{body}}", "\n".join(body)))


def versions(heading):
    known = " ".join(f"{name} {version}" for name, version in heading.get("versions", {}).items())
    return escaped(f"{heading.get('command', '')} · {known}".strip(" ·"))


def overview(suites):
    """A bar for each suite, and its figures."""
    parts = []
    for suite, own in suites.items():
        known = totals(own)
        shares = "".join(
            f"<span class={status} style='flex:{known[status]}' title='{known[status]} {status}'>"
            "</span>" for status in lines.STATUSES if known[status])
        figures = "".join(f"<div><dt>{escaped(name)}</dt><dd>{text_of('number', value)}</dd></div>"
                          for name, value in known.items() if value is not None)
        parts.append(f"<section><h2><a href='#{escaped(suite)}'>{escaped(suite)}</a></h2>"
                     f"<div class=bar role=img aria-label='{known['right']} of {known['runs']} "
                     f"right'>{shares}</div><dl>{figures}</dl></section>")
    return "\n".join(parts)


def causes(found):
    """The reasons why results are not `right` and `full`."""
    known = lines.causes_of(found)
    if not known:
        return ""
    rows = "".join(f"<tr><td class=number>{len(names)}<td>{escaped(cause)}"
                   f"<td>{escaped(', '.join(names[:6]))}{' …' if len(names) > 6 else ''}"
                   for cause, names in known[:CAUSES_MAX])
    return ("<section><h2>Why runs are not right, or not fully lifted</h2><div class=wide><table>"
            f"<thead><tr><th>runs<th>cause<th>models</thead><tbody>{rows}</tbody></table></div>"
            "</section>")


def table(found):
    head = "".join(f"<th>{escaped(name.replace('_', ' '))}" for name, _ in COLUMNS)
    rows = []
    for one in found:
        cells = "".join(
            f"<td{'' if kind in ('text', 'names') else ' class=number'}>"
            f"{escaped(text_of(kind, one[name]))}" for name, kind in COLUMNS)
        counts = collections.Counter(one["reasons"] or ())
        told = escaped("; ".join(filter(None, (one["why"], *counts))))
        rows.append(f"<tr class={escaped(one['status'])} title=\"{told}\">{cells}")
    return (f"<div class=wide><table><thead><tr>{head}</thead><tbody>{''.join(rows)}</tbody>"
            "</table></div>")


def escaped(value):
    return html.escape(str(value))
