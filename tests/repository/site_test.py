#!/usr/bin/env python3
"""Goal: the documentation builds as a site without a warning, asks for nothing outside, and its
search works on pages that are opened as files.

Method: tools/docs.sh builds it strictly; a Chromium opens pages by file:// and looks for a word.
Without MkDocs all is skipped (exit code 77), without a Chromium what it would look at.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "support"))

import headless_browser

BROWSER = headless_browser.find_browser()
LOOKED_AT = ("index.html", "docs/ideas/claims.html", "docs/help/errors.html",
             "docs/reference/python/coppice.html")
LOADED = re.compile(r'<(?:script|img|iframe)[^>]*\bsrc="?(https?:[^">\s]+)|'
                    r'<link[^>]*rel="?(?:stylesheet|preconnect)[^>]*href="?(https?:[^">\s]+)')
SEARCH = """new Promise((done) => {
  document.querySelector("label[for=__search]").click();
  const field = document.querySelector("input.md-search__input");
  field.focus();
  field.value = "WORD";
  field.dispatchEvent(new Event("keyup", {bubbles: true}));
  field.dispatchEvent(new Event("input", {bubbles: true}));
  const look = (left) => {
    const found = [...document.querySelectorAll(".md-search-result__link")].map((one) => one.href);
    if (found.length || !left) done(found); else setTimeout(look, 50, left - 1);
  };
  look(200);
})"""


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.built = subprocess.run([ROOT / "tools" / "docs.sh", cls.site], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, check=False)
        if cls.built.returncode == 77:
            raise unittest.SkipTest(cls.built.stdout)

    def test_builds_without_a_warning(self):
        self.assertEqual(0, self.built.returncode, self.built.stdout)
        for page in LOOKED_AT:
            self.assertTrue((self.site / page).is_file(), page)

    def test_no_page_loads_what_lies_outside(self):
        for page in self.site.rglob("*.html"):
            self.assertEqual([], LOADED.findall(page.read_text()), page)

    @unittest.skipIf(BROWSER is None, "no Chromium here; apt-get install chromium")
    def test_pages_that_are_opened_as_files_ask_for_files_and_find_words(self):
        with headless_browser.Browser(BROWSER) as browser:
            for page in LOOKED_AT:
                browser.open((self.site / page).as_uri())
                found = browser.evaluate(SEARCH.replace("WORD", "poison"))
                self.assertTrue(any("claims" in one for one in found), (page, found))
                self.assertEqual([], [one for one in browser.requests()
                                      if not one.startswith(("file:", "data:", "about:"))])
                self.assertEqual([], browser.errors())


if __name__ == "__main__":
    program = unittest.main(exit=False)
    skipped = program.result.skipped and not program.result.testsRun
    sys.exit(77 if skipped else not program.result.wasSuccessful())
