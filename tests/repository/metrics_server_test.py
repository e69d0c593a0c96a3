#!/usr/bin/env python3
"""Goal: samples/metrics_server serves what Prometheus scrapes, and samples/grafana_dashboard.json
asks for nothing else.
Method: the server runs on a port of its own choice and is scraped as Prometheus does it; pages are
parsed by prometheus_client where it is installed. Nothing is waited for but answers.

    metrics_server_test.py PROGRAM [unittest's options]

Exits with 77, for CTest, where there is no such program because cpp-httplib is missing.
"""

import importlib.util
import json
import pathlib
import re
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

PROGRAM = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path("metrics_server")
DASHBOARD = pathlib.Path(__file__).resolve().parents[2] / "samples" / "grafana_dashboard.json"
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
SECONDS_MAX = 60
COLUMNS = 24  # Of Grafana's grid.
needs_parser = unittest.skipUnless(importlib.util.find_spec("prometheus_client"),
                                   "prometheus_client is not installed")


def samples_of(page):
    """Values by name and labels, as the page has them."""
    return dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))


def is_counter(sample):
    return sample.split("{")[0].endswith(("_total", "_bucket", "_count", "_sum"))


class Server:
    """A run of the program, which ends with the scope if it has not by itself."""

    def __init__(self, *options):
        self.options = options

    def __enter__(self):
        self.process = subprocess.Popen([PROGRAM, "--port", "0", "--seconds", str(SECONDS_MAX),
                                         *self.options], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.printed, _ = self.process.communicate(timeout=SECONDS_MAX)

    def get(self, path="/metrics", accept="*/*"):
        request = urllib.request.Request(self.url.removesuffix("/metrics") + path,
                                         headers={"Accept": accept, "Connection": "close"})
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
            return answer.read().decode(), answer.headers["Content-Type"]


    def page_with_replays(self):
        """A page of once there are graphs."""
        while True:
            page, _ = self.get()
            if "\ncoppice_replays_total{" in page:
                return page


class MetricsServerTest(unittest.TestCase):
    def test_formats_are_as_the_client_accepts_them(self):
        with Server() as server:
            self.assertRegex(server.url, r"^http://127\.0\.0\.1:\d+/metrics$")
            page, kind = server.get()
            self.assertEqual("text/plain; version=0.0.4; charset=utf-8", kind)
            self.assertNotIn("# EOF", page)
            page, kind = server.get(accept=OPEN_METRICS)
            self.assertEqual("application/openmetrics-text; version=1.0.0; charset=utf-8", kind)
            self.assertTrue(page.endswith("\n# EOF\n"))
            self.assertEqual(("ok\n", "text/plain"), server.get("/healthz"))
            with self.assertRaisesRegex(urllib.error.HTTPError, "404"):
                server.get("/other")
        self.assertEqual(0, server.process.returncode)
        self.assertRegex(server.printed, r"^\d+ calls\n$")

    def test_counters_are_monotone_while_threads_call(self):
        with Server() as server:
            first = before = samples_of(server.get()[0])
            # Until threads have called that had not before.
            for _ in range(100000):
                after = samples_of(server.get()[0])
                for name, value in before.items():
                    if is_counter(name):
                        self.assertGreaterEqual(float(after[name]), float(value), name)
                before = after
                if float(after['coppice_runs_total{path="replay"}']) > 20:
                    break
        self.assertGreater(sum(float(before[name]) for name in before if "_runs_total" in name),
                           sum(float(first[name]) for name in first if "_runs_total" in name))

    def test_it_ends_after_as_many_scrapes(self):
        with Server("--scrapes", "2") as server:
            server.get()
            server.get("/healthz")
            server.get()
            self.assertEqual(0, server.process.wait(timeout=SECONDS_MAX))

    def test_it_ends_after_as_many_seconds(self):
        with Server("--seconds", "1") as server:
            self.assertEqual(0, server.process.wait(timeout=SECONDS_MAX))

    def test_arguments_that_are_none_and_ports_in_use_are_errors(self):
        for arguments in (["--port"], ["--port", "65536"], ["--port", "x"], ["--seconds", "-1"],
                          ["--what", "1"]):
            done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True,
                                  check=False, timeout=SECONDS_MAX)
            self.assertEqual(1, done.returncode)
            self.assertIn("metrics_server: ", done.stderr)
        with Server() as server:
            port = server.url.split(":")[2].split("/")[0]
            done = subprocess.run([PROGRAM, "--port", port], capture_output=True, text=True,
                                  check=False, timeout=SECONDS_MAX)
            self.assertEqual(1, done.returncode)
            self.assertIn(f"port {port} ", done.stderr)

    @needs_parser
    def test_prometheus_reads_both_formats(self):
        from prometheus_client import parser as plain
        from prometheus_client.openmetrics import parser as openmetrics

        with Server() as server:
            for accept, reader in (("*/*", plain), (OPEN_METRICS, openmetrics)):
                page, _ = server.get(accept=accept)
                families = list(reader.text_string_to_metric_families(page))
                self.assertGreater(len(families), 25)
                self.assertEqual(len(samples_of(page)),
                                 sum(len(family.samples) for family in families))


class DashboardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dashboard = json.loads(DASHBOARD.read_text())
        cls.panels = cls.dashboard["panels"]

    def queries(self):
        for panel in self.panels:
            for target in panel.get("targets", []):
                yield panel["title"], target["expr"]
        for variable in self.dashboard["templating"]["list"]:
            if variable["type"] == "query":
                yield variable["name"], variable["definition"]

    def test_it_asks_for_metrics_that_there_are(self):
        with Server() as server:
            served = {name.split("{")[0] for name in samples_of(server.page_with_replays())}
        for title, query in self.queries():
            names = re.findall(r"coppice_\w+", query)
            self.assertTrue(names, title)
            for name in names:
                self.assertIn(name, served, f"'{title}' asks for what is not served: {query}")

    def test_each_metric_is_on_it(self):
        with Server() as server:
            families = {name.split("{")[0] for name in samples_of(server.page_with_replays())}
        asked = " ".join(query for _, query in self.queries())
        for name in sorted(families):
            if not name.endswith(("_sum", "_count", "_peak_bytes")):
                self.assertRegex(asked, rf"\b{name}\b")

    def test_labels_are_those_that_there_are(self):
        with Server() as server:
            page = server.page_with_replays()
        for title, query in self.queries():
            by = re.findall(r"by \(([^)]*)\)", query)
            for label in {name.strip() for names in by for name in names.split(",")}:
                self.assertRegex(page, rf'[{{,]{label}="', f"'{title}' groups by {label}")
            for label, value in re.findall(r'(\w+)="(\w+)"', query):
                self.assertIn(f'{label}="{value}"', page, title)

    def test_panels_have_ids_of_their_own_and_titles(self):
        ids = [panel["id"] for panel in self.panels]
        self.assertEqual(len(ids), len(set(ids)))
        titles = [panel["title"] for panel in self.panels]
        self.assertEqual(len(titles), len(set(titles)))
        self.assertTrue(all(titles))

    def test_panels_lie_on_the_grid_and_do_not_overlap(self):
        taken = {}
        for panel in self.panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], COLUMNS, panel["title"])
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), taken, f"{panel['title']} on {taken.get((x, y))}")
                    taken[x, y] = panel["title"]

    def test_brackets_of_expressions_match(self):
        for title, query in self.queries():
            for opening, closing in ("()", "{}", "[]"):
                self.assertEqual(query.count(opening), query.count(closing), title)

    def test_panels_say_what_they_show(self):
        for panel in self.panels:
            if panel["type"] != "row":
                self.assertTrue(panel["description"], panel["title"])
                self.assertEqual({"type": "prometheus", "uid": "${datasource}"},
                                 panel["datasource"])


if __name__ == "__main__":
    if not PROGRAM.exists():
        print(f"metrics_server_test.py: skipped, because there is no {PROGRAM}: it needs "
              "cpp-httplib")
        sys.exit(77)
    unittest.main()
