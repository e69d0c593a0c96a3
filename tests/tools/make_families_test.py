#!/usr/bin/env python3
"""Goal: tools/plan/make_families.py writes the programs that its models say, packed and as CSV.
Method: a tape and families small enough to say every number; that the large ones are the published
ones, bit for bit, is what program_families_test.cc asks of the packed file.
"""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "plan"
sys.path.insert(0, str(TOOL))
sys.dont_write_bytecode = True
import make_families  # noqa: E402
import program_models  # noqa: E402

# The second bucket has other sizes, the third other lifetimes.
FAMILY = {"b1": [[0, 4, 10], [1, 3, 20], [2, 4, 10]], "b2": [[0, 4, 11], [1, 3, 21], [2, 4, 11]],
          "b4": [[0, 1, 12]]}
LARGE = [[5, 9, 512], [2, 9, 512]]
PACKED = """family small
shape 0 4 0 1 2 1 1 2 0
sizes 10 20
sizes 11 21
shape 0 1 0
sizes 12
program big
shape 5 4 0 -3 7 0
sizes 512
"""


class MakeFamiliesTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def make(self, *arguments):
        """Runs the script on two small families; returns its exit code and what it says."""
        errors = io.StringIO()
        with unittest.mock.patch.object(make_families, "families",
                                        lambda: [("small", FAMILY)]), \
                unittest.mock.patch.object(make_families, "large_programs",
                                           lambda: [("random", "big", LARGE)]), \
                contextlib.redirect_stderr(errors):
            return make_families.main([*map(str, arguments)]), errors.getvalue()

    def test_every_request_and_release_is_a_step_and_what_stays_lives_to_the_end(self):
        tape = program_models.Tape()
        first, second = tape.new(100), tape.new(0)
        tape.free(first, None)
        self.assertNotEqual(first, second)
        self.assertEqual([[0, 2, 100], [1, 4, 1]], tape.finish())

    def test_packed_programs_share_lifetimes_and_sizes(self):
        path = self.folder / "packed.txt"
        self.assertEqual((0, ""), self.make(path))
        self.assertEqual(PACKED, path.read_text())

    def test_two_buffers_share_a_size_only_if_they_do_in_every_bucket(self):
        programs = [[[0, 1, 7], [1, 2, 7]], [[0, 1, 7], [1, 2, 8]]]
        self.assertEqual(["family f", "shape 0 1 0 1 1 1", "sizes 7 7", "sizes 7 8"],
                         [*make_families.packed("family", "f", programs)])

    def test_csv_has_a_folder_per_family_and_a_file_per_bucket_in_order(self):
        self.assertEqual((0, ""), self.make("--csv", self.folder / "out"))
        files = {path.relative_to(self.folder / "out").as_posix(): path.read_text()
                 for path in (self.folder / "out").rglob("*.csv")}
        self.assertEqual({"small/000_b1.csv", "small/001_b2.csv", "small/002_b4.csv",
                          "random/big.csv"}, set(files))
        self.assertEqual("id,lower,upper,size\n0,0,4,11\n1,1,3,21\n2,2,4,11\n",
                         files["small/001_b2.csv"])
        self.assertEqual("id,lower,upper,size\n0,5,9,512\n1,2,9,512\n", files["random/big.csv"])

    def test_what_cannot_be_written_is_one_line_and_wrong_arguments_end_with_2(self):
        (self.folder / "file").write_text("")
        for arguments in ([self.folder / "absent" / "file"], ["--csv", self.folder / "file"]):
            code, errors = self.make(*arguments)
            self.assertEqual(1, code, arguments)
            self.assertRegex(errors, f"^make_families.py: {self.folder}.*: .*\n$")
        for arguments in ([], ["a", "--csv", "b"], ["a", "b"]):
            done = subprocess.run([sys.executable, TOOL / "make_families.py", *arguments],
                                  check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((2, b""), (done.returncode, done.stdout), arguments)


if __name__ == "__main__":
    unittest.main()
