#!/usr/bin/env python3
"""Makes the pictures of README.md and docs/ from a run of the decoder on the emulator.

  tools/pictures.py COPPICE [FOLDER]    default FOLDER: docs/pictures

Drawings are SVG and depend on nothing but what coppice does, so that they are equal byte for byte
wherever they are made: the same requests, the same buckets, the same plans. Those of drawings.py
explain an idea. Screenshots of the report are PNG and need a Chromium; figures in them that are
times differ from run to run. report.json has their words, without times. Without a Chromium
drawings are made all the same, and it is said that screenshots are not.
"""

import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "support"))

import drawings  # pylint: disable=wrong-import-position
import headless_browser  # pylint: disable=wrong-import-position

REQUESTS = 200
PROGRAM = "prefill"  # Whose lengths are learned from, and whose largest plan is drawn.
BUCKETS = 12
LENGTH_MAX = 1024

# The picture of the idea, in pixels.
IDEA_WIDTH, IDEA_MARGIN, IDEA_TOP, IDEA_ROW = 960, 24, 66, 10
IDEA_COLOURS = ("#f28e2b", "#4e79a7")  # Of other programs, and of PROGRAM.

# Screenshots: the views of the report, from the top of the first to the end of the last.
VIEWS = {"report": ("overview", "overview"), "report_map": ("map", "map"),
         "report_buckets": ("buckets", "buckets")}
WIDTH = 1280
WORDS = "report.json"
TIME = re.compile(r"\b[\d,.]+ (?:ns|µs|ms|s|min|h)\b")
DRAWN = "document.documentElement.dataset.drawn === 'all'"


def run(coppice, *arguments):
    subprocess.run([coppice, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def make_trace(coppice, folder):
    trace = folder / "demo.trace"
    run(coppice, "run", "--requests", REQUESTS, "--verify", "none", "--quiet", "--device", "host",
        "--trace-out", trace)
    return trace


def definitions_of(trace):
    with open(trace, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.startswith("{")]


def lengths_of(trace):
    """The real lengths of the program's calls, in the order of the trace."""
    program = next(one["program"] for one in definitions_of(trace)
                   if "symbols" in one and one["name"] == PROGRAM)
    with open(trace, encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines if line.startswith("[")]
    return [event[11][0] for event in events if event[1] == "call" and event[10] == program]


def write_lifetimes(trace, path):
    """The buffers of the highest plan there is, as `coppice plan` reads them."""
    node = max((one for one in definitions_of(trace) if "node" in one),
               key=lambda one: one["height"])
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["id", "lower", "upper", "size"])
        for place, (_, size, output, steps, *label) in enumerate(node["buffers"]):
            name = label[0] if label and label[0] else f"output {output}" if output >= 0 else "temp"
            rows.writerow([f"{name} {place}", steps[0], steps[-1], size])


def draw_idea(trace, path):
    """The heights of all graphs: one behind the other, and on top of each other in one pool."""
    known = definitions_of(trace)
    names = {one["program"]: one["name"] for one in known if "symbols" in one}
    buckets = {one["bucket"]: f"{names[one['program']]} {'x'.join(map(str, one['extents']))}"
               for one in known if "extents" in one}
    bars = sorted(((one["height"], buckets[one["bucket"]]) for one in known if "node" in one),
                  reverse=True)
    total, highest = sum(height for height, _ in bars), bars[0][0]
    scale = (IDEA_WIDTH - 3 * IDEA_MARGIN) / (total + highest)  # Pixels per byte.
    right = 2 * IDEA_MARGIN + total * scale
    bottom = IDEA_TOP + len(bars) * IDEA_ROW
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{IDEA_WIDTH}" height="{bottom + 16}" '
             f'viewBox="0 0 {IDEA_WIDTH} {bottom + 16}" font-family="sans-serif">',
             '<rect width="100%" height="100%" style="fill:#fff"/>',
             f"<title>{len(bars)} graphs: {mib(total)} apart, {mib(highest)} in one pool</title>"]

    def text(x, y, size, words):
        parts.append(f'<text x="{x:.2f}" y="{y}" font-size="{size}">{words}</text>')

    text(IDEA_MARGIN, 28, 18, f"A pool per graph: {mib(total)}")
    text(IDEA_MARGIN, 48, 12, f"{len(bars)} buckets of a decoder, a graph each; {PROGRAM} is blue, "
                              "decode orange; a bar is as wide as its memory")
    text(right, 28, 18, f"One pool: {mib(highest)}")
    text(right, 48, 12, "the same graphs")
    at = 0
    for row, (height, label) in enumerate(bars):
        colour = IDEA_COLOURS[label.split()[0] == PROGRAM]
        y = IDEA_TOP + row * IDEA_ROW
        for x in (IDEA_MARGIN + at * scale, right):
            parts.append(f'<rect x="{x:.2f}" y="{y}" width="{max(height * scale, 1):.2f}" '
                         f'height="{IDEA_ROW - 3}" style="fill:{colour}"><title>{label}: '
                         f"{mib(height)}</title></rect>")
        at += height
    for x in (IDEA_MARGIN + total * scale, right + highest * scale):
        parts.append(f'<path d="M{x:.2f} {IDEA_TOP - 6}V{bottom + 4}" '
                     'style="stroke:#c00;stroke-width:2"/>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def mib(count):
    return f"{count / 2**20:.2f} MiB"


def make_drawings(coppice, trace, folder, scratch):
    drawings.make(folder)
    run(coppice, "prof", "map", trace, "-o", folder / "map.svg")
    draw_idea(trace, folder / "idea.svg")
    lengths = scratch / "lengths.csv"
    lengths.write_text("length\n" + "".join(f"{one}\n" for one in lengths_of(trace)))
    run(coppice, "tune", lengths, "--column", "length", "--buckets", BUCKETS, "--limit", LENGTH_MAX,
        "--plot", folder / "buckets.svg")
    lifetimes = scratch / "decoder.csv"
    write_lifetimes(trace, lifetimes)
    run(coppice, "plan", lifetimes, "--svg", folder / "plan.svg")


def take_screenshots(coppice, trace, folder, scratch):
    browser = headless_browser.find_browser()
    if browser is None:
        print("no Chromium here: drawings only; tools/setup.sh chromium installs one",
              file=sys.stderr)
        return
    page = scratch / "report.html"
    run(coppice, "prof", "html", trace, "-o", page)
    with headless_browser.Browser(browser) as window:
        window.show(width=WIDTH)
        window.open(page.as_uri(), DRAWN)
        for name, (first, last) in VIEWS.items():
            (folder / f"{name}.png").write_bytes(picture_of(window, first, last))
        words = {name: words_of(window, view) for name, (view, _) in VIEWS.items()}
        (folder / WORDS).write_text(json.dumps(words, ensure_ascii=False) + "\n",
                                    encoding="utf-8")


def words_of(window, view):
    """Lines of a view's text, without times."""
    text = window.evaluate(f'document.getElementById("{view}").innerText')
    lines = (" ".join(TIME.sub("TIME", line).split()) for line in text.split("\n"))
    return [line for line in lines if line]


def picture_of(window, first, last):
    box = window.evaluate(f"""(() => {{
        const top = document.getElementById("{first}").getBoundingClientRect();
        const end = document.getElementById("{last}").getBoundingClientRect();
        return {{x: top.x - 12, y: top.y + scrollY - 12, width: top.width + 24,
                 height: end.bottom - top.top + 24, scale: 1}}; }})()""")
    return window.screenshot(clip=box, captureBeyondViewport=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coppice", help="the command to run")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--drawings", action="store_true", help="no screenshots")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        trace = make_trace(arguments.coppice, scratch)
        make_drawings(arguments.coppice, trace, arguments.folder, scratch)
        if not arguments.drawings:
            take_screenshots(arguments.coppice, trace, arguments.folder, scratch)


if __name__ == "__main__":
    main()
