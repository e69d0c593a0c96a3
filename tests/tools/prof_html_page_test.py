#!/usr/bin/env python3
"""Looks at the pages of `coppice prof html` and `coppice prof diff --html` in a browser.

  prof_html_page_test.py COPPICE [FOLDER]    the command to run; where screenshots go

Method: reports of a run of the decoder and of larger traces (eventful_trace.py), whose names try to
be HTML, are opened from their files in headless Chromium with the network off: nothing may be asked
for, the console has to be silent, and every view has to be there. Where axe-core is (PyPI
axe-core-python), it looks for what people who do not see or point would miss. Without Chromium all
is skipped.
"""

import base64
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "support"))

import headless_browser
from eventful_trace import HOSTILE, SIZES, write_trace

COPPICE = sys.argv.pop(1)
FOLDER = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
BROWSER = headless_browser.find_browser()
DRAWN = "document.documentElement.dataset.drawn === 'all'"
CHARTS = ("memory", "map", "plan", "why", "timeline", "times", "requests")


def axe_source():
    """The text of axe-core, or None where it is not installed."""
    found = importlib.util.find_spec("axe_core_python")
    if found is None:
        return None
    return next(pathlib.Path(found.submodule_search_locations[0]).rglob("axe.min.js")).read_text()


@unittest.skipIf(BROWSER is None, "no Chromium here; apt-get install chromium")
class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        run = cls.folder / "run.trace"
        subprocess.run([COPPICE, "run", "--requests", "60", "--verify", "none", "--quiet",
                        "--trace-out", run], check=True, stdout=subprocess.DEVNULL)
        write_trace(cls.folder / "large.trace", 60_000)
        write_trace(cls.folder / "small.trace", 300, lanes=1)
        (cls.folder / "empty.trace").write_text(
            (cls.folder / "small.trace").read_text().partition("\n")[0] + "\n")
        cls.pages = {}
        for name in ("run", "large", "small", "empty"):
            page = cls.folder / f"{name}.html"
            subprocess.run([COPPICE, "prof", "html", cls.folder / f"{name}.trace", "-o", page],
                           check=True)
            cls.pages[name] = page
        cls.pages["whatif"] = cls.folder / "whatif.html"
        subprocess.run([COPPICE, "prof", "html", run, "--what-if", "-o", cls.pages["whatif"]],
                       check=True)
        for name, before, after in (("changed", "small", "run"), ("same", "small", "small")):
            page = cls.folder / f"{name}.html"
            subprocess.run([COPPICE, "prof", "diff", cls.folder / f"{before}.trace",
                            cls.folder / f"{after}.trace", "--html", page], check=True)
            cls.pages[name] = page
        cls.browser = cls.enterClassContext(headless_browser.Browser(BROWSER))
        cls.browser.call("Network.emulateNetworkConditions", offline=True, latency=0,
                         downloadThroughput=-1, uploadThroughput=-1)

    def open(self, name, **how):
        self.browser.show(**how)
        self.browser.open(self.pages[name].as_uri(), DRAWN)

    def value(self, expression):
        return self.browser.evaluate(expression)

    def colours_of(self, png):
        """How many colours a picture has, of 4 bits each, as the browser reads it."""
        data = base64.b64encode(png).decode()
        return self.value(f"""(async () => {{
            const image = await createImageBitmap(
              new Blob([Uint8Array.from(atob("{data}"), (c) => c.charCodeAt(0))]));
            const canvas = new OffscreenCanvas(image.width, image.height);
            const context = canvas.getContext("2d");
            context.drawImage(image, 0, 0);
            const pixels = context.getImageData(0, 0, image.width, image.height).data;
            const seen = new Set();
            for (let i = 0; i < pixels.length; i += 4)
              seen.add((pixels[i] >> 4) << 8 | (pixels[i + 1] >> 4) << 4 | pixels[i + 2] >> 4);
            return seen.size; }})()""")

    def picture_of(self, selector):
        box = self.value(f"""(() => {{
            const box = document.querySelector("{selector}").getBoundingClientRect();
            return {{x: box.x + scrollX, y: box.y + scrollY, width: box.width,
                     height: box.height}}; }})()""")
        return self.browser.screenshot(clip={**box, "scale": 1}, captureBeyondViewport=True)

    def is_drawn(self, selector, colours=6):
        """Whether a chart has more colours than so many. A picture beyond the view may resize the
        page, at which charts are drawn anew in the next frame: one that comes in between is taken
        again."""
        return any(self.colours_of(self.picture_of(selector)) > colours for _ in range(5))

    def key(self, key):
        code = {"ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key=key,
                              code=key if code else "", windowsVirtualKeyCode=code)

    def text_with(self, place, word):
        """Waits until the text of the element `place` has `word` in it, and returns it."""
        return self.value(f"""new Promise((done) => {{
            const look = () => {{
              const text = document.getElementById("{place}").textContent;
              if (text.includes("{word}")) done(text); else setTimeout(look, 10); }};
            look(); }})""")

    def said(self, word):
        """The same of what is said to who does not see."""
        return self.text_with("said", word)

    def test_page_asks_for_nothing_and_reports_no_error(self):
        for name, page in self.pages.items():
            self.open(name)
            self.assertEqual([], self.browser.errors(), name)
            self.assertEqual([page.as_uri()], self.browser.requests(), name)

    def test_every_view_is_drawn(self):
        for name in ("run", "large", "small"):
            self.open(name)
            for view in CHARTS:
                self.assertTrue(self.is_drawn(f"#{view}-chart"), f"{name}: {view} is blank")
            self.assertGreater(self.value("document.querySelectorAll('.findings li').length"), 0)
            self.assertGreater(
                self.value("document.querySelectorAll('#buckets-table tbody tr').length"), 2)
            self.assertGreater(
                self.value("document.querySelectorAll('#why-causes tbody tr').length"), 0)
            self.assertNotEqual("", self.value("document.getElementById('paths-tree').innerText"))
            if name != "run":  # Its calls read nothing in place.
                self.assertGreater(
                    self.value("document.querySelectorAll('#paths-tree details').length"), 2)

    def test_views_of_a_difference_are_drawn(self):
        self.open("changed")
        self.assertTrue(self.is_drawn("#kinds-chart", colours=4), "it is blank")
        self.assertNotEqual("What changed",
                            self.value("document.getElementById('headline').textContent"))
        for rows in ("#overview-findings li", "#kinds-table tbody tr", "#changes-table tbody tr",
                     "#reasons-table tbody tr"):
            self.assertGreater(self.value(f"document.querySelectorAll('{rows}').length"), 1, rows)
        self.open("same")
        self.assertEqual("Nothing changed",
                         self.value("document.getElementById('headline').textContent"))
        for view in ("changes", "reasons"):
            self.assertEqual(1, self.value(
                f"document.querySelectorAll('#{view}-table .empty').length"), view)

    def test_changes_sort_and_narrow(self):
        self.open("changed")
        subjects = ("[...document.querySelectorAll('#changes-table tbody th')]"
                    ".map((one) => one.innerText)")
        sort = ("[...document.querySelectorAll('#changes-table thead button')]"
                ".find((one) => one.textContent === 'Of what').click()")
        self.value(sort)
        everything = self.value(subjects)
        self.value(sort)
        self.assertEqual(everything[0], self.value(subjects)[-1])
        self.value("""(() => {
            const choice = document.querySelector("#changes-controls select");
            choice.value = "gone";
            choice.dispatchEvent(new Event("change")); })()""")
        vanished = self.value(subjects)
        self.assertLess(0, len(vanished))
        self.assertLess(len(vanished), len(everything))
        self.assertIn(f"prefill {SIZES[0]}", vanished)

    def test_views_without_anything_say_so(self):
        self.open("empty")
        for view in CHARTS:
            self.assertEqual(1, self.value(
                f"document.querySelectorAll('#{view}-chart .empty').length"), view)

    def test_page_is_as_wide_as_its_window_light_and_dark(self):
        for name in ("run", "large", "changed", "whatif"):
            for width, dark in ((1280, False), (1280, True), (400, False)):
                self.open(name, width=width, dark=dark)
                self.assertEqual(width, self.value("document.documentElement.scrollWidth"))
                if FOLDER:
                    height = self.value("document.documentElement.scrollHeight")
                    self.browser.show(width=width, height=min(height, 12000), dark=dark)
                    kind = "dark" if dark else f"light-{width}"
                    (FOLDER / f"{name}-{kind}.png").write_bytes(self.browser.screenshot())

    def test_charts_follow_the_colours_of_the_system(self):
        self.open("run")
        light = self.picture_of("#memory-chart")
        self.browser.show(dark=True)
        self.assertNotEqual(light, self.picture_of("#memory-chart"))

    def test_page_prints_all_views(self):
        self.open("run", dark=True)
        pdf = base64.b64decode(self.browser.call("Page.printToPDF", printBackground=True)["data"])
        self.assertGreater(pdf.count(b"/Type /Page\n"), 2)
        if FOLDER:
            (FOLDER / "run.pdf").write_bytes(pdf)

    def test_names_of_a_trace_are_text(self):
        self.open("large")
        self.assertEqual(0, self.value("document.querySelectorAll('img').length"))
        self.assertIn(HOSTILE, self.value("document.body.innerText"))

    def test_keys_walk_over_boxes_and_pin_one(self):
        self.open("large")
        for view in ("map", "plan"):
            self.value(f"document.querySelector('#{view}-chart canvas').focus()")
            self.key("ArrowRight")
            self.assertIn(" at ", self.said(" at "))
            self.key("Enter")
            self.assertFalse(self.value(f"document.getElementById('{view}-pinned').hidden"))
            self.key("Escape")
            self.assertTrue(self.value(f"document.getElementById('{view}-pinned').hidden"))

    def test_a_click_pins_a_buffer_with_who_shares_its_bytes(self):
        self.open("large")
        at = self.value("""(() => {
            const canvas = document.querySelector("#plan-chart canvas");
            canvas.scrollIntoView({block: "center"});
            const chart = Chart.getChart(canvas);
            const centre = chart.getDatasetMeta(0).data[0].getCenterPoint();
            const box = canvas.getBoundingClientRect();
            return {x: box.x + centre.x, y: box.y + centre.y}; })()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.browser.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1,
                              **at)
        pinned = self.text_with("plan-pinned", "lives for steps [")
        self.assertIn("shared with ", pinned)

    def test_headings_of_buckets_sort(self):
        self.open("large")
        first = ("document.querySelector('#buckets-table tbody td:nth-child(6)').innerText"
                 ".trim()")
        self.value("[...document.querySelectorAll('#buckets-table thead button')]"
                   ".find((one) => one.textContent === 'Plan height').click()")
        largest = self.value(first)
        self.assertEqual("descending", self.value(
            "document.querySelector('#buckets-table th[aria-sort]').getAttribute('aria-sort')"))
        self.value("document.querySelector('#buckets-table th[aria-sort] button').click()")
        self.assertNotEqual(largest, self.value(first))

    def test_timeline_zooms_to_single_calls(self):
        self.open("large")
        self.value("document.querySelector('#timeline-chart canvas').focus()")
        for _ in range(9):
            self.key("+")
        self.key("ArrowRight")
        self.assertIn("Call ", self.said("Call "))
        self.key("0")
        self.assertIn("60,000 calls", self.said("60,000 calls"))

    def test_a_picked_call_lists_the_kernels_of_its_graph(self):
        self.open("small")
        self.value("document.querySelector('#timeline-chart canvas').focus()")
        self.key("ArrowRight")  # The first call ran without a graph ...
        self.key("Enter")
        self.assertIn("without a graph", self.text_with("timeline-pinned", "no kernels"))
        self.key("End")  # ... and the last box is a recording.
        self.key("Enter")
        pinned = self.text_with("timeline-pinned", "2 kernels")
        self.assertIn("Attend<128>", pinned)
        self.assertIn(HOSTILE, pinned)
        self.assertIn("2 KiB", pinned)

    def test_buffers_have_the_names_that_programs_give_them(self):
        self.open("small")
        self.assertIn("layer.1", self.value("document.getElementById('plan-table').textContent"))
        self.value("document.querySelector('#plan-chart canvas').focus()")
        self.key("Home")
        self.assertIn(HOSTILE, self.said("output 0"))

    def test_durations_have_percentiles(self):
        self.open("small")
        for view, rows in (("times", 2), ("requests", 2)):
            self.assertEqual(rows, self.value(
                f"document.querySelectorAll('#{view}-table tbody tr').length"), view)

    def choose_ladder(self, kind):
        self.value(f"""(() => {{
            const choice = document.querySelector("#what-if-controls select");
            choice.value = String(kit.report.what_if.ladders.findIndex(
              (one) => one.kind === "{kind}"));
            choice.dispatchEvent(new Event("change"));
            document.getElementById("what-if-step").focus(); }})()""")

    def test_a_slider_moves_by_keys_through_what_changes_come_to(self):
        self.open("whatif")
        self.assertTrue(self.is_drawn("#what-if-chart"), "it is blank")
        text = "document.getElementById('what-if-words').textContent"
        table = "document.getElementById('what-if-table').innerText"
        spoken = "document.getElementById('what-if-step').getAttribute('aria-valuetext')"
        for kind in ("policy", "budget", "drop", "outputs"):
            self.choose_ladder(kind)
            self.assertIn("Nothing is changed", self.value(text), kind)
            before = self.value(table)
            self.assertEqual("as it is", self.value(spoken))
            self.key("ArrowRight")
            self.assertIn("(2 of ", self.value(
                "document.getElementById('what-if-label').textContent"), kind)
            self.assertNotEqual("as it is", self.value(spoken))
            self.assertNotIn("Nothing is changed", self.value(text), kind)
            self.key("End")
            self.assertTrue(self.value(table) != before or "cannot be" in self.value(text), kind)
            self.key("Home")
            self.assertEqual(before, self.value(table))
        self.assertEqual([], self.browser.errors())

    def test_what_if_has_figures_of_the_document(self):
        self.open("whatif")
        self.choose_ladder("policy")
        self.key("ArrowRight")
        said = self.value("""(() => {
            const {ladders, outcomes} = kit.report.what_if;
            const steps = ladders.find((one) => one.kind === "policy").steps;
            const figures = outcomes[steps[1].outcome].figures;
            const row = [...document.querySelectorAll("#what-if-table tbody tr")].find(
              (one) => one.cells[0].textContent === "most mapped");
            return [row.cells[2].textContent, kit.bytes(figures.total_peak_bytes)]; })()""")
        self.assertEqual(said[0], said[1])

    def test_a_change_that_failed_shows_its_error(self):
        self.open("whatif")
        self.value("""(() => {
            const {ladders, outcomes} = kit.report.what_if;
            const steps = ladders.find((one) => one.kind === "budget").steps;
            outcomes[steps.at(-1).outcome] = {error: "--budget 1: no <b>room</b>"}; })()""")
        self.choose_ladder("budget")
        self.key("End")
        self.assertIn("cannot be: --budget 1: no <b>room</b>",
                      self.value("document.getElementById('what-if-words').textContent"))
        self.assertTrue(self.value("document.getElementById('what-if-table').hidden"))
        self.key("Home")
        self.assertFalse(self.value("document.getElementById('what-if-table').hidden"))
        self.assertEqual([], self.browser.errors())

    def test_without_it_there_is_no_what_if(self):
        self.open("run")
        self.assertIsNone(self.value("document.getElementById('what-if')"))
        self.assertIn("--what-if", self.value(
            "document.getElementById('overview-what-if').textContent"))

    def test_what_was_left_out_is_said(self):
        self.open("large")
        self.assertIn("a sample", self.value("document.getElementById('limits').innerText"))

    @unittest.skipIf(axe_source() is None, "no axe-core here; pip install axe-core-python")
    def test_axe_finds_nothing_serious(self):
        # It takes minutes where there is much to look at.
        for name, dark in (("run", False), ("small", False), ("small", True), ("changed", False),
                           ("changed", True), ("whatif", False), ("whatif", True)):
            self.open(name, dark=dark)
            if name == "small":
                self.value("document.querySelectorAll('details').forEach((one) => "
                           "{ one.open = true; })")
            self.value(axe_source() + "; true")
            found = self.value(
                "axe.run({resultTypes: ['violations'], preload: false}).then((result) => "
                "result.violations.map((one) => [one.impact, one.id, one.nodes.length, "
                "one.nodes[0].html.slice(0, 200), one.nodes[0].failureSummary]))")
            serious = [one for one in found if one[0] in ("serious", "critical")]
            self.assertEqual([], serious, f"{name}, dark {dark}")


if __name__ == "__main__":
    unittest.main()
