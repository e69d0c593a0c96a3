#!/usr/bin/env python3
"""Goal: pictures in docs/ are what the commands make.

  pictures_test.py COPPICE    the command to run

Method: tools/pictures.py makes all pictures anew. Drawings are compared byte for byte; screenshots,
which hold times, by size, by how far they are from one another where they are made small, and by
their words without times.
"""

import base64
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "support"), str(ROOT / "tools")]

import drawings
import headless_browser

COPPICE = str(pathlib.Path(sys.argv.pop(1)).resolve())
BROWSER = headless_browser.find_browser()
PICTURES = ROOT / "docs" / "pictures"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
AGAIN = "run tools/pictures.py build/release/tools/coppice, and look at what it made"
BYTES_MAX = 200 * 1024
SHRINK = 8           # Screenshots are compared at an eighth of their width.
DIFFERENCE_MAX = 6   # Of 255, on average.

DRAWINGS = sorted(["buckets.svg", "idea.svg", "map.svg", "plan.svg",
                   *(f"{name}.svg" for name in drawings.DRAWINGS)])

DISTANCE = """(async () => {
  const small = async (data) => {
    const image = await createImageBitmap(
      new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))]));
    const [width, height] = [image.width / SHRINK, image.height / SHRINK].map(Math.ceil);
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height);
    return {size: [image.width, image.height],
            pixels: context.getImageData(0, 0, width, height).data};
  };
  const [a, b] = [await small("BEFORE"), await small("AFTER")];
  let sum = 0;
  a.pixels.forEach((value, i) => { sum += Math.abs(value - b.pixels[i]); });
  return [a.size, b.size, sum / a.pixels.length];
})()"""


def pictures_script():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class PicturesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        subprocess.run([sys.executable, "-B", ROOT / "tools" / "pictures.py", COPPICE, cls.folder],
                       check=True, stderr=subprocess.DEVNULL)

    def test_drawings_are_what_the_command_makes(self):
        made = sorted(one.name for one in self.folder.glob("*.svg"))
        self.assertEqual(DRAWINGS, made)
        for name in made:
            self.assertTrue((PICTURES / name).read_bytes() == (self.folder / name).read_bytes(),
                            f"{name} differs; {AGAIN}")

    @unittest.skipIf(BROWSER is None, "no Chromium here; apt-get install chromium")
    def test_screenshots_are_close_to_what_the_command_makes(self):
        with headless_browser.Browser(BROWSER) as browser:
            for picture in sorted(self.folder.glob("*.png")):
                before, after = (base64.b64encode(path.read_bytes()).decode()
                                 for path in (PICTURES / picture.name, picture))
                expression = (DISTANCE.replace("SHRINK", str(SHRINK)).replace("BEFORE", before)
                              .replace("AFTER", after))
                size, wanted, distance = browser.evaluate(expression)
                self.assertEqual(size, wanted, f"{picture.name}; {AGAIN}")
                self.assertLess(distance, DIFFERENCE_MAX, f"{picture.name}; {AGAIN}")

    @unittest.skipIf(BROWSER is None, "no Chromium here; apt-get install chromium")
    def test_words_of_screenshots_are_those_of_the_report(self):
        words, made = (json.loads((folder / pictures_script().WORDS).read_text())
                       for folder in (PICTURES, self.folder))
        self.assertGreater(sum(map(len, made.values())), 200)
        self.assertEqual(words, made, AGAIN)

    def test_pictures_are_small_and_are_those_that_pages_show(self):
        views = [f"{name}.png" for name in pictures_script().VIEWS]
        shown = set()
        for page in PAGES:
            for path in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text()):
                self.assertTrue((page.parent / path).is_file(), f"{page.name}: {path}")
                shown.add(pathlib.Path(path).name)
        made = {one.name for one in PICTURES.iterdir()} - {pictures_script().WORDS}
        self.assertEqual(made, shown)
        self.assertEqual(made, {*DRAWINGS, *views})
        for picture in PICTURES.iterdir():
            self.assertLess(picture.stat().st_size, BYTES_MAX, picture.name)


if __name__ == "__main__":
    unittest.main()
