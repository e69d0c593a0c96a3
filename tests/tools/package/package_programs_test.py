#!/usr/bin/env python3
"""Goal: `coppice package run` computes what numpy does, at every size, and says how; `coppice
package claim` finds what padding a program stands; each mistake is one line and its exit code.
Method: packages of four PTX kernels, written by package_files.py from the format's page, run by the
command in folders of this test. Called as `package_programs_test.py COPPICE`.
"""

import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np

import package_files as files

COPPICE = ""
SIGNABLE = pathlib.Path(__file__).parents[3] / "samples" / "triton_kernels.zip"
SECONDS_MAX = 120


class PackageTests(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def path(self, name):
        return str(self.folder / name)

    def package(self, steps=None, buffers=None, constants=None, contents=None, **more):
        steps = steps or [files.kernel_step("Scale", "x", "y", "2")]
        described = files.manifest({"main": files.program(steps, buffers, **more)}, constants)
        return files.write(self.folder / "package", described, contents)

    def command(self, *arguments):
        return subprocess.run([COPPICE, "package", *arguments], capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False)

    def run_json(self, *arguments, code=0):
        done = self.command(*arguments, "--json")
        self.assertEqual(code, done.returncode, done.stderr + done.stdout)
        self.assertEqual("", done.stderr)
        return json.loads(done.stdout)

    def refuse(self, *arguments, code=2, says=()):
        """The one line of a command that is refused."""
        done = self.command(*arguments)
        self.assertEqual(code, done.returncode, done.stderr + done.stdout)
        self.assertEqual("", done.stdout)
        self.assertEqual(1, done.stderr.count("\n"), done.stderr)
        for text in (says,) if isinstance(says, str) else says:
            self.assertIn(text, done.stderr)

    def save(self, name, values):
        path = self.folder / f"{name}.npy"
        path.parent.mkdir(exist_ok=True)
        np.save(path, values)
        return f"{pathlib.PurePath(name).name}=@{path}"

    def load(self, name):
        return np.load(self.folder / f"{name}.npy")


class RunTest(PackageTests):
    def test_an_output_is_what_numpy_computes(self):
        x = np.linspace(-3, 5, 200, dtype="f4")
        report = self.run_json("run", self.package(), "--input", self.save("x", x),
                               "--output-dir", self.path("out"))
        np.testing.assert_array_equal(2 * x, self.load("out/y"))
        self.assertEqual([self.path("out/y.npy")], report["files"])

    def test_the_first_call_records_and_others_replay(self):
        report = self.run_json("run", self.package(), "--input", "x=random:1", "--extent", "n=33",
                               "--calls", "3")
        self.assertEqual([("record", "new_bucket"), ("replay", "none"), ("replay", "none")],
                         [(call["kind"], call["reason"]) for call in report["calls"]])
        self.assertEqual([{"n": 64}] * 3, [call["bucket"] for call in report["calls"]])
        self.assertEqual([3], [graph["replays"] + (graph["replays"] == 2)
                               for graph in report["graphs"]])

    def test_several_sizes_go_through_one_session(self):
        report = self.run_json("run", self.package(), "--input", "x=random:1", "--extent",
                               "n=5,40,6", "--calls", "1", "--output-dir", self.path("out"))
        self.assertEqual(["record", "record", "replay"], [c["kind"] for c in report["calls"]])
        self.assertEqual([(5,), (40,), (6,)], [self.load(f"out/{i}/y").shape for i in (1, 2, 3)])
        self.assertEqual([8, 64], sorted(graph["bucket"]["n"] for graph in report["graphs"]))

    def test_each_folder_of_inputs_is_a_set(self):
        for name, count in (("a", 3), ("b", 70)):
            self.save(f"{name}/x", np.full(count, count, "f4"))
        self.run_json("run", self.package(), "--inputs", self.path("a"), "--inputs",
                      self.path("b"), "--output-dir", self.path("out"))
        np.testing.assert_array_equal(np.full(3, 6, "f4"), self.load("out/1/y"))
        np.testing.assert_array_equal(np.full(70, 140, "f4"), self.load("out/2/y"))

    def test_a_policy_takes_the_place_of_the_packages_buckets(self):
        for policy, bucket in (("n=linear:10:50", 40), ("n=1,33,99", 33), ("n=pow2:36", 36),
                               ("n=geometric:1.5:8:64", 40)):
            report = self.run_json("run", self.package(), "--input", "x=random:1", "--extent",
                                   "n=33", "--policy", policy)
            self.assertEqual({"n": bucket}, report["calls"][0]["bucket"], policy)

    def buckets_of(self, symbol, sizes, *options):
        """What sizes are padded to if the program's symbol is this."""
        report = self.run_json("run", self.package(symbols={"n": symbol}), "--input", "x=random:1",
                               "--extent", f"n={','.join(map(str, sizes))}", "--verify", *options)
        return [call["bucket"]["n"] for call in report["calls"] if call["call"] == 1]

    def test_what_is_claimed_is_padded_to_powers_of_two_without_buckets(self):
        """As coppice.load begins."""
        claim = files.symbol()["claim"]
        sizes, padded = (5, 7, 33, 60), [8, 8, 60, 60]
        for symbol, options, expected in (
                ({"min": 1, "max": 60, "claim": claim}, (), padded),
                ({"min": 1, "max": 60}, (), list(sizes)),
                ({"min": 1, "max": 60}, ("--claim", "n=any"), padded),
                ({"min": 1, "max": 60}, ("--claim", "n=finite:1e-5:1e-4"), padded),
                ({"min": 1, "max": 60, "claim": claim}, ("--claim", "n=exact"), list(sizes)),
                ({"min": 1, "max": 60, "claim": claim}, ("--policy", "n=exact"), list(sizes)),
                ({"min": 1, "max": 60, "claim": claim, "buckets": [40, 60]}, (), [40, 40, 40, 60]),
                ({"min": 1, "max": 65536, "claim": claim}, (), [8, 8, 64, 64]),
                ({"min": 1, "max": 65537, "claim": claim}, (), list(sizes)),
                ({"min": 1, "claim": claim}, (), list(sizes))):
            with self.subTest(symbol=symbol, options=options):
                self.assertEqual(expected, self.buckets_of(symbol, sizes, *options))
        self.assertEqual([5], self.buckets_of(
            {"min": 1, "max": 60, "multiple_of": 5, "claim": claim}, (5,)))

    def test_what_is_no_claim_is_refused_with_the_words_that_there_are(self):
        for claim, says in (("n=some", "row_independent"), ("n=any:x", "row_independent"),
                            ("m=any", "its symbols: n"), ("any", "NAME=any")):
            self.refuse("run", self.package(), "--input", "x=zeros", "--extent", "n=4", "--claim",
                        claim, says=(claim, says))

    def test_over_the_largest_bucket_a_call_runs_without_a_graph(self):
        report = self.run_json("run", self.package(), "--input", "x=random:1", "--extent", "n=33",
                               "--policy", "n=pow2:32", "--verify")
        self.assertEqual(("eager", "over_largest_bucket", None),
                         tuple(report["calls"][0][key] for key in ("kind", "reason", "bucket")))

    def test_a_scalar_gives_a_size(self):
        package = self.package(
            symbols={"n": files.symbol(**{"from": {"scalar": "count"}})},
            scalars={"count": {"bind": "key"}})
        self.run_json("run", package, "--input", "x=random:1", "--input", "count=5,9",
                      "--output-dir", self.path("out"))
        self.assertEqual([(5,), (9,)], [self.load(f"out/{i}/y").shape for i in (1, 2)])

    def test_a_mutated_static_input_keeps_what_was_written_and_begins_as_given(self):
        package = self.package(
            [files.kernel_step("Scale", "kv", "kv", "2", "8"),
             files.kernel_step("Scale", "x", "y", "1")],
            {"kv": files.array("input", (8,), static=True, mutated=True)}, inputs=["x", "kv"])
        kv = np.arange(8, dtype="f4")
        self.run_json("run", package, "--input", "x=zeros", "--extent", "n=4", "--calls", "3",
                      "--static", self.save("kv", kv), "--output-dir", self.path("out"))
        np.testing.assert_array_equal(8 * kv, self.load("out/kv"))
        self.run_json("run", package, "--input", "x=zeros", "--extent", "n=4",
                      "--output-dir", self.path("out"))
        np.testing.assert_array_equal(0 * kv, self.load("out/kv"))

    def test_constants_come_from_a_file(self):
        package = self.package(
            [files.kernel_step("Scale", "w", "y", "1", "4")],
            constants={"w": {"dtype": "f32", "shape": [4]}},
            buffers={"w": {"role": "constant", "constant": "w"}, "y": files.array("output", (4,))})
        w = np.array([1, -2, 3, 0.5], "f4")
        path = self.folder / "w.safetensors"
        path.write_bytes(files.safetensors({"w": w, "other": w}))
        self.run_json("run", package, "--input", "x=zeros", "--extent", "n=4", "--constants",
                      str(path), "--output-dir", self.path("out"))
        np.testing.assert_array_equal(w, self.load("out/y"))

    def test_constants_without_a_file_are_drawn_as_the_manifest_says(self):
        seed, count = (7 << 40) + 5, 1000
        how = {"seed": seed, "mean": "0.5", "deviation": "0.25"}
        package = self.package(
            [files.kernel_step("Scale", "w", "y", "1", str(count))],
            constants={"w": {"dtype": "f32", "shape": [count], "x-random": how}},
            buffers={"w": {"role": "constant", "constant": "w"},
                     "y": files.array("output", (count,))})
        self.run_json("run", package, "--input", "x=zeros", "--extent", "n=4", "--output-dir",
                      self.path("out"))
        drawn = []
        for i in range(count):
            word = (seed + (i + 1) * 0x9E3779B97F4A7C15) % 2**64
            word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
            word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
            drawn.append(((word ^ word >> 31) >> 11) * 2.0**-53 - 0.5)
        expected = np.float32(0.5) + (0.25 * np.sqrt(12) * np.array(drawn)).astype("f4")
        np.testing.assert_array_equal(expected, self.load("out/y"))

    def test_drawn_inputs_repeat_and_keep_to_their_range(self):
        outputs = []
        for name in ("a", "b"):
            self.run_json("run", self.package(), "--input", "x=random:3:10:20", "--extent",
                          "n=500", "--output-dir", self.path(name))
            outputs.append(self.load(f"{name}/y") / 2)
        np.testing.assert_array_equal(*outputs)
        self.assertTrue((outputs[0] >= 10).all() and (outputs[0] < 20).all())
        self.assertGreater(len(np.unique(outputs[0])), 400)

    def test_a_range_may_end_at_an_expression_of_sizes(self):
        self.run_json("run", self.package(), "--input", "x=random:3:0:n//100+1", "--extent",
                      "n=100,900", "--output-dir", self.path("out"))
        for index, high in ((1, 2), (2, 10)):
            x = self.load(f"out/{index}/y") / 2
            self.assertTrue(high / 2 < x.max() < high, x.max())

    def test_verify_finds_a_claim_that_does_not_hold(self):
        package = self.package([files.kernel_step("Shift", "x", "y", "1")])
        report = self.run_json("run", package, "--input", "x=random:1", "--extent", "n=5",
                               "--calls", "1", "--verify", code=1)
        self.assertIn("y[0]", report["mismatches"][0])

    def test_random_numbers_refute_no_claim(self):
        package = self.package(
            [files.kernel_step("Scale", "x", "y", "2"),
             {"op": "memcpy", "to": {"buffer": "words"}, "from": {"buffer": "seed"}, "bytes": 24}],
            buffers={"seed": {"role": "seed", "words": 3},
                     "words": files.array("output", (3,), "i64")}, outputs=["y", "words"])
        found = self.run_json("claim", package, "--pairs", "4")
        self.assertEqual([{"padding": "any", "equal": "bits"}],
                         [each["claim"] for each in found["symbols"]])

    def test_poison_finds_padding_that_reaches_a_result(self):
        package = self.package([files.kernel_step("Total", "x", "y", "1")])
        arguments = ("run", package, "--input", "x=random:1", "--extent", "n=5", "--calls", "1")
        self.assertEqual([], self.run_json(*arguments, "--verify")["mismatches"])
        report = self.run_json(*arguments, "--poison", code=1)
        self.assertEqual(["nan", "pattern", "noise"],
                         [line.split("padding of ")[1].split(":")[0]
                          for line in report["mismatches"]])

    def test_an_access_behind_the_end_is_named_with_its_kernel(self):
        package = self.package([files.kernel_step("Astray", "x", "y", "1")])
        done = self.command("run", package, "--input", "x=zeros", "--extent", "n=5")
        self.assertEqual(3, done.returncode)
        self.assertIn("kernel Astray", done.stderr)

    def test_a_read_of_what_nobody_wrote_is_found_unless_nobody_looks(self):
        package = self.package([files.kernel_step("Scale", "t", "y", "1")],
                               buffers={"t": files.array("temporary")})
        arguments = ("run", package, "--input", "x=zeros", "--extent", "n=8", "--calls", "1")
        self.assertIn("Scale", self.run_json(*arguments, code=3)["findings"][0])
        for checks in ("none", "races,undeclared"):
            self.assertEqual([], self.run_json(*arguments, "--checks", checks)["findings"])

    def test_the_target_that_a_kernel_took_is_told_with_the_reason(self):
        report = self.run_json("run", self.package(), "--input", "x=zeros", "--extent", "n=8")
        self.assertEqual([("Scale", "all", "sm_80", "PTX")],
                         [tuple(kernel[key] for key in ("kernel", "module", "arch", "fit"))
                          for kernel in report["kernels"]])
        self.assertIn("sm_80", report["kernels"][0]["why"])

    def test_people_read_the_same(self):
        done = self.command("run", self.package(), "--input", "x=zeros", "--extent", "n=33")
        self.assertEqual(0, done.returncode, done.stderr)
        for text in ("n=33", "n=64", "record", "replay", "pool height", "0 findings"):
            self.assertIn(text, done.stdout)


class ArrayTest(PackageTests):
    def copied(self, dtype, values):
        """What a program that copies its input returns of these elements."""
        size = values.itemsize if dtype != "c64" else 8
        package = self.package(
            [{"op": "memcpy", "to": {"buffer": "y"}, "from": {"buffer": "x"},
              "bytes": f"{size} * n"}],
            {"x": files.array("input", dtype=dtype), "y": files.array("output", dtype=dtype)})
        self.run_json("run", package, "--input", self.save("x", values), "--output-dir",
                      self.path("out"))
        return self.load("out/y")

    def test_arrays_of_every_dtype_go_through_files_and_back(self):
        numbers = np.arange(-4, 5)
        for dtype, kind in (("f64", "f8"), ("f32", "f4"), ("f16", "f2"), ("bf16", "u2"),
                            ("f8e4m3", "u1"), ("f8e5m2", "u1"), ("bool", "?"), ("i8", "i1"),
                            ("i16", "i2"), ("i32", "i4"), ("i64", "i8"), ("u8", "u1"),
                            ("u16", "u2"), ("u32", "u4"), ("u64", "u8")):
            with self.subTest(dtype):
                values = numbers.astype(kind)
                result = self.copied(dtype, values)
                self.assertEqual(values.dtype, result.dtype)
                np.testing.assert_array_equal(values, result)

    def test_complex_numbers_are_pairs_of_floats(self):
        values = np.arange(10, dtype="f4").reshape(5, 2)
        np.testing.assert_array_equal(values, self.copied("c64", values))

    def test_outputs_with_strides_are_written_as_rows(self):
        package = self.package(
            [files.kernel_step("Scale", "x", "y", "1", "4 * n")],
            {"x": files.array("input", ("n", 4)),
             "y": files.array("output", ("n", 4), strides=[1, "n"])})
        x = np.arange(24, dtype="f4").reshape(6, 4)
        self.run_json("run", package, "--input", self.save("x", x), "--policy", "n=exact",
                      "--output-dir", self.path("out"))
        np.testing.assert_array_equal(x.reshape(-1).reshape(4, 6).T, self.load("out/y"))


class SignatureTest(PackageTests):
    def key(self, name, algorithm="ed25519"):
        private, public = self.path(name + ".pem"), self.path(name + ".pub.pem")
        subprocess.run(["openssl", "genpkey", "-algorithm", algorithm, "-out", private],
                       check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
        return private, public

    def check(self, package, *keys, is_read):
        """What is not read is 2."""
        trusted = [word for key in keys for word in ("--trusted-key", key)]
        size = "rows=4" if package.endswith(".zip") else "n=4"
        for what in (("lint",), ("inspect",), ("run", "--extent", size)):
            code = self.command(*what, package, *trusted).returncode
            (self.assertIn if is_read else self.assertNotIn)(code, (0, 1), (what, keys))

    def test_a_package_is_looked_at_under_keys_that_signed_it_only(self):
        zipped = self.path("kernels.zip")
        shutil.copy(SIGNABLE, zipped)
        (first, first_public), (second, second_public) = self.key("first"), self.key("second")
        for package in (self.package(), zipped):
            with self.subTest(package):
                self.check(package, is_read=True)
                self.check(package, first_public, is_read=False)
                self.assertIn("signed", self.command("sign", package, "--key", first).stdout)
                self.check(package, is_read=True)
                self.check(package, first_public, is_read=True)
                self.check(package, second_public, is_read=False)
                self.check(package, second_public, first_public, is_read=True)
                self.command("sign", package, "--key", second)
                self.check(package, first_public, is_read=False)

    def test_a_file_without_such_a_key_is_named(self):
        package = self.package()
        private, public = self.key("key")
        others = self.key("other", "x25519")
        for path in (public, others[0], self.path("none.pem"), self.path("package")):
            self.refuse("sign", package, "--key", path, says=path)
        for path in (private, others[1], self.path("none.pem")):
            self.refuse("lint", package, "--trusted-key", path, says=path)

    def test_a_package_that_is_damaged_is_not_signed(self):
        package = self.package()
        private, _ = self.key("key")
        (pathlib.Path(package) / "bin" / "all.ptx").write_text("other")
        self.refuse("sign", package, "--key", private, says="all.ptx")
        self.assertFalse((pathlib.Path(package) / "manifest.sig").exists())


class ZipTest(PackageTests):
    def rewritten(self, **options):
        """The sample as another tool writes it."""
        path = self.path("rewritten.zip")
        with zipfile.ZipFile(SIGNABLE) as known, zipfile.ZipFile(path, "w", **options) as made:
            for name in known.namelist():
                made.writestr(name, known.read(name))
        return path

    def test_a_download_that_stopped_is_told_as_one(self):
        whole = SIGNABLE.read_bytes()
        for length in (len(whole) - 1, len(whole) - 200, len(whole) // 2, 100):
            path = pathlib.Path(self.path("cut.zip"))
            path.write_bytes(whole[:length])
            self.refuse("inspect", str(path), says=("cut off", "get the file again"))

    def test_what_another_tool_wrote_is_packed_again(self):
        for options in ({}, {"compression": zipfile.ZIP_DEFLATED}):
            path, folder = self.rewritten(**options), self.path("folder")
            self.refuse("inspect", path, says=("another tool", "coppice package pack FOLDER"))
            with zipfile.ZipFile(path) as file:
                file.extractall(folder)
            mended = self.path("mended.zip")
            for package in (folder, mended):
                if package == mended:
                    self.assertEqual(0, self.command("pack", folder, "-o", mended).returncode)
                self.assertEqual(0, self.command("inspect", package).returncode)
            self.assertEqual(SIGNABLE.read_bytes(), pathlib.Path(mended).read_bytes())

    def test_what_is_no_zip_is_told(self):
        path = pathlib.Path(self.path("model.zip"))
        path.write_text("<html>404</html>" * 10)
        self.refuse("inspect", str(path), says="is not a zip")
        self.refuse("pack", str(path), "-o", self.path("x.zip"), says="is not a zip")

    def test_what_is_no_package_is_not_packed(self):
        self.refuse("pack", str(self.folder), "-o", self.path("x.zip"), says="manifest.json")
        self.refuse("pack", self.package(), "-o", self.path("no/x.zip"), code=4, says="no/x.zip")

    def test_the_samples_lint_clean(self):
        for sample in SIGNABLE.parent.glob("*.zip"):
            done = self.command("lint", str(sample))
            self.assertEqual(0, done.returncode, done.stdout)
            self.assertIn("0 errors, 0 warnings", done.stdout)


class RefusalTest(PackageTests):
    def test_a_package_that_is_cut_off_while_it_is_used_is_one_line(self):
        package, array = self.package(), self.path("array")
        os.mkfifo(array)
        values = io.BytesIO()
        np.save(values, np.ones(4, np.float32))
        with subprocess.Popen([COPPICE, "package", "run", package, "--input", f"x=@{array}"],
                              stderr=subprocess.PIPE, text=True) as process:
            # It opens the array behind the package, and ahead of loading kernels.
            with open(array, "wb") as file:
                os.truncate(pathlib.Path(package) / "bin" / "all.ptx", 0)
                file.write(values.getvalue())
            self.assertIn("a file became shorter", process.stderr.read())
            self.assertEqual(2, process.wait())

    def test_what_does_not_fit_is_one_line_that_names_it(self):
        package = self.package()
        x = ("--input", "x=zeros")
        n = ("--extent", "n=4")
        for arguments, says in (
                ((package, *x), ("symbol 'n'", "--extent n=33")),
                ((package, *x, *x, *n), "given twice"),
                ((package, "--input", "q=zeros", *n), "'q' is neither an input"),
                ((package, "--input", "x=5", *n), "'x' is an array"),
                ((package, "--input", "x", *n), "NAME=@x.npy"),
                ((package, "--input", "x=random:a", *n), "random:SEED"),
                ((package, "--input", "x=random:1:5:5", *n), "random:SEED"),
                ((package, "--input", "x=random:1:5:", *n), "random:SEED"),
                ((package, "--input", "x=random:1:0:m+1", *n), "'m'"),
                ((package, "--input", "x=random:1:0:n//0", *n), ("[0, n//0)", "n = 4")),
                ((package, "--input", "x=random:1:9:n", *n), ("[9, n)", "n = 4")),
                ((package, "--input", "x=@missing.npy", *n), "missing.npy"),
                ((package, *x, "--extent", "m=4"), "'m' is not a symbol"),
                ((package, *x, "--extent", "n=four"), "'four' is not a number"),
                ((package, *x, "--extent", "n=4,-1"), "'n' is -1 in --extent"),
                ((package, *x, "--extent", "n=4,5", "--inputs", self.path("."), "--inputs",
                  self.path("package"), "--inputs", self.path(".")), "3 sets"),
                ((package, *x, "--extent", "n=2000"), "n"),
                ((package, *x, *n, "--inputs", "nowhere"), "not a folder"),
                ((package, *x, *n, "--static", "x=zeros"), "--input"),
                ((package, *x, *n, "--policy", "n=odd"), "n=odd"),
                ((package, *x, *n, "--policy", "m=exact"), "'m' is not a symbol"),
                ((package, *x, *n, "--program", "other"), "its programs: main"),
                ((package, *x, *n, "--constants", "nofile.safetensors"), "nofile.safetensors"),
                ((package, *x, *n, "--checks", "speed"), "speed"),
                ((package, *x, *n, "--device", "tpu"), "tpu"),
                ((package, *x, *n, "--calls", "0"), "'0' is not a count"),
                ((self.path("none.zip"), *x, *n), "none.zip")):
            with self.subTest(says):
                self.refuse("run", *arguments, says=says)

    def test_a_file_of_another_type_or_shape_is_named(self):
        package = self.package()
        self.refuse("run", package, "--input", self.save("x", np.zeros(4, "i4")),
                    says=("x.npy", "i32 [4]", "f32"))
        self.refuse("run", package, "--input", self.save("x", np.zeros((4, 4), "f4")),
                    says=("x.npy", "f32 [4, 4]", "has rank 1"))
        self.refuse("run", package, "--input", self.save("x", np.zeros(4, "f4")), "--extent", "n=5",
                    says=("'n' is 4", "5 elsewhere"))

    def test_a_damaged_file_of_the_package_is_named(self):
        package = self.package()
        ptx = pathlib.Path(package) / "bin/all.ptx"
        ptx.write_bytes(ptx.read_bytes().replace(b"mul.rn", b"add.rn"))
        self.refuse("run", package, "--input", "x=zeros", "--extent", "n=4", says="bin/all.ptx")

    def test_a_constant_without_data_is_named(self):
        package = self.package(
            [files.kernel_step("Scale", "w", "y", "1", "4")],
            constants={"w": {"dtype": "f32", "shape": [4]}},
            buffers={"w": {"role": "constant", "constant": "w"}})
        self.refuse("run", package, "--input", "x=zeros", "--extent", "n=4",
                    says=("constant 'w', f32 [4]", "--constants"))

    def test_all_constants_without_data_are_named_at_once(self):
        constants = {name: {"dtype": "f32", "shape": [4]} for name in "uvw"}
        weights = files.safetensors({"v": np.ones(4, "f4")})
        constants["v"]["data"] = {"file": "data/v.safetensors", "tensor": "v"}
        package = self.package(
            [files.kernel_step("Scale", name, "y", "1", "4") for name in constants],
            constants=constants, contents={"data/v.safetensors": weights},
            buffers={name: {"role": "constant", "constant": name} for name in constants})
        self.refuse("run", package, "--input", "x=zeros", "--extent", "n=4",
                    says=("constant 'u', f32 [4]; constant 'w', f32 [4]", "--constants"))
        lines = self.command("inspect", package).stdout.split("\n")
        roles = {line.split()[0]: line for line in lines if "constant" in line}
        self.assertEqual({"u": True, "v": False, "w": True},
                         {name: "to be given" in roles[name] for name in constants})
        buffers = self.run_json("inspect", package)["programs"][0]["buffers"]
        self.assertEqual({"u", "w"}, {one["name"] for one in buffers if one["to_be_given"]})

    def test_a_policy_without_a_claim_is_refused(self):
        package = self.package(symbols={"n": {"min": 1, "max": 64}})
        self.refuse("run", package, "--input", "x=zeros", "--extent", "n=4", "--policy", "n=pow2",
                    says="claim")

    def test_a_folder_that_cannot_be_made_is_an_output_error(self):
        (self.folder / "file").write_text("")
        self.refuse("run", self.package(), "--input", "x=zeros", "--extent", "n=4", "--output-dir",
                    self.path("file/out"), code=4, says="file/out")


class ClaimTest(PackageTests):
    # Kernel, factor, padding and equality that hold, kinds refuted before.
    KNOWN = (("Scale", "2", "any", "bits"), ("Total", "0", "finite", "bits"),
             ("Total", "1", "fill", "bits"), ("Shift", "1e-09", "any", {"absolute": "1e-05",
                                                                       "relative": "0"}))

    def test_the_strongest_claim_that_holds_is_found(self):
        for kernel, factor, padding, equal in self.KNOWN:
            with self.subTest(kernel=kernel, factor=factor):
                package = self.package([files.kernel_step(kernel, "x", "y", factor)],
                                       symbols={"n": {"min": 1, "max": 1024}})
                found = self.run_json("claim", package, "--pairs", "5")["symbols"][0]
                self.assertEqual({"padding": padding, "equal": equal}, found["claim"])
                self.assertIsNone(found["package_says"])

    def test_any_bits_in_floats_alone_are_a_claim_where_integers_are_padded_too(self):
        # The i32 are added up as if they were floats, and stand their fill alone.
        buffers = {"t": files.array("output"), "i": files.array("input", dtype="i32")}
        for step in ("Scale", "Total"):
            steps = [files.kernel_step("Total", "i", "t", "1"),
                     files.kernel_step(step, "x", "y", "0")]
            package = self.package(steps, buffers, symbols={"n": {"min": 1, "max": 1024}},
                                   inputs=["x", "i"], outputs=["y", "t"])
            found = self.run_json("claim", package, "--pairs", "5")["symbols"][0]
            self.assertEqual("row_independent" if step == "Scale" else "finite",
                             found["claim"]["padding"])
            self.assertEqual(["any", "row_independent", "finite"][:len(found["tried"])],
                             [kind["padding"] for kind in found["tried"]])

    def test_a_program_that_computes_with_its_size_claims_nothing(self):
        package = self.package([files.kernel_step("Shift", "x", "y", "1")],
                               symbols={"n": {"min": 1, "max": 1024}})
        self.assertIsNone(self.run_json("claim", package, "--pairs", "3")["symbols"][0]["claim"])

    def test_a_package_that_claims_too_much_is_a_mismatch(self):
        package = self.package([files.kernel_step("Total", "x", "y", "1")])
        found = self.run_json("claim", package, "--pairs", "3", code=1)["symbols"][0]
        self.assertTrue(found["refuted"])

    def test_the_step_is_named_in_which_padding_first_shows(self):
        package = self.package(
            [files.kernel_step("Scale", "x", "t", "2"), files.kernel_step("Total", "t", "u", "1"),
             files.kernel_step("Scale", "u", "y", "1")],
            {"t": files.array("temporary"), "u": files.array("temporary")},
            symbols={"n": {"min": 1, "max": 1024}})
        tried = self.run_json("claim", package, "--pairs", "3")["symbols"][0]["tried"]
        self.assertEqual(["step 1 (kernel Total), which writes u"] * 2,
                         [kind["step"] for kind in tried if not kind["holds_bits"]])

    def test_sizes_are_those_that_symbols_and_guards_allow(self):
        package = self.package([files.kernel_step("Shift", "x", "y", "1")],
                               symbols={"n": {"min": 6, "max": 60, "multiple_of": 3}},
                               guards=["n % 2 == 0"])
        tried = self.run_json("claim", package, "--pairs", "4")["symbols"][0]["tried"]
        for kind in tried:
            real, padded = (int(text) for text in
                            kind["sizes"].removeprefix("n=").split(" padded to "))
            self.assertTrue(6 <= real < padded <= 60 and real % 6 == 0 == padded % 6, kind)

    def test_what_is_found_can_be_written_and_is_read_again(self):
        package = self.package([files.kernel_step("Total", "x", "y", "0")],
                               symbols={"n": {"min": 1, "max": 1024, "buckets": "pow2"}})
        self.assertTrue(self.run_json("claim", package, "--pairs", "3", "--write")["written"])
        said = self.run_json("claim", package, "--pairs", "3")["symbols"][0]
        self.assertEqual({"padding": "finite", "equal": "bits"}, said["package_says"])
        report = self.run_json("run", package, "--input", "x=random:1", "--extent", "n=5",
                               "--poison")
        self.assertEqual({"n": 8}, report["calls"][0]["bucket"])

    def test_equal_seeds_find_the_same(self):
        package = self.package([files.kernel_step("Shift", "x", "y", "1")])
        first, second = (self.run_json("claim", package, "--pairs", "3", "--seed", "5", code=1)
                         for _ in range(2))
        self.assertEqual(first, second)

    def test_what_does_not_fit_is_one_line_that_names_it(self):
        package = self.package(guards=["n < 1"])
        self.refuse("claim", package, says="--size-max")
        self.refuse("claim", package, "--input", "x=@x.npy", says="no file fits")
        self.refuse("claim", package, "--tolerance", "-1", says="'-1' is not a tolerance")
        self.refuse("claim", package, "--program", "other", says="its programs: main")


SOURCE = """
extern "C" __global__ void Twice(const float* x, float* y, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""


class BuildTest(PackageTests):
    def build(self, described, *more, source=SOURCE):
        (self.folder / "k.cu").write_text(source)
        (self.folder / "m.json").write_text(described if isinstance(described, str)
                                            else json.dumps(described, indent=1))
        return ("build", self.path("k.cu"), self.path("m.json"), "-o", self.path("k.zip"), *more)

    def described(self, **more):
        step = {"op": "kernel", "kernel": "Twice", "grid": ["ceildiv(n, 128)", 1, 1],
                "args": [{"buffer": "x", "access": "r"}, {"buffer": "y", "access": "w"},
                         {"i32": "n"}]}
        return {"kernels": {"Twice": {"targets": [{"block": [128, 1, 1]}], **more}},
                "programs": {"main": files.program([step])}}

    @unittest.skipUnless(shutil.which("nvcc"), "there is no nvcc")
    def test_a_package_of_two_architectures_runs(self):
        report = self.run_json(*self.build(self.described(), "--arch", "80,90a"))
        self.assertEqual(["sm_80", "sm_90a"], [module["arch"] for module in report["modules"]])
        x = np.arange(9, dtype="f4")
        ran = self.run_json("run", self.path("k.zip"), "--input", self.save("x", x), "--output-dir",
                            self.path("out"))
        np.testing.assert_array_equal(2 * x, self.load("out/y"))
        self.assertEqual("sm_80", ran["kernels"][0]["arch"])

    @unittest.skipUnless(shutil.which("nvcc"), "there is no nvcc")
    def test_what_does_not_fit_is_one_line_that_names_it(self):
        wrong = SOURCE.replace("2 * x[i]", "2 * z[i]")
        self.refuse(*self.build(self.described(), source=wrong), says=("k.cu: sm_80", '"z"'))
        mangled = SOURCE.replace('extern "C"', "")
        self.refuse(*self.build(self.described(), source=mangled), says=("Twice", 'extern "C"'))
        self.refuse(*self.build(self.described(targets=[{"block": [128, 1, 1], "module": "m"}])),
                    says="which the build adds")
        self.assertFalse((self.folder / "k.zip").exists())

    def test_what_is_wrong_before_anything_is_compiled_is_one_line(self):
        self.refuse(*self.build("not JSON"), says="not a JSON object")
        self.refuse(*self.build(self.described(), "--arch", "80,fast"), says="'80,fast'")
        self.refuse(*self.build(self.described(), "--nvcc", self.path("none")), says="--nvcc PATH")
        self.refuse("build", self.path("k.cu"), self.path("m.json"), "-o", self.path("m.json"),
                    says="m.json")


class UngivenTest(PackageTests):
    """Inputs that nobody gives."""

    def outputs(self, x):
        package = self.package([files.kernel_step("Scale", "x", "y", "1")],
                               {"x": x, "y": files.array("output", dtype=x["dtype"])})
        self.run_json("run", package, "--extent", "n=50", "--output-dir", self.path("out"))
        return self.load("out/y")

    def test_integers_hold_the_declared_fill(self):
        # A product with 1 leaves the bits of an integer as they are.
        for fill, value in (({"value": "16.0"}, 16), ("zero", 0), ("undefined", 0)):
            x = files.array("input", dtype="i32", fill=fill)
            np.testing.assert_array_equal(np.full(50, value, "i4"), self.outputs(x), str(fill))

    def test_floats_are_drawn_whatever_their_fill(self):
        values = self.outputs(files.array("input", fill={"value": "16.0"}))
        self.assertTrue((np.abs(values) <= 1).all() and np.unique(values).size > 40, values)


class BenchTest(PackageTests):
    def test_lengths_of_the_sample_are_not_0_unless_they_are_given(self):
        sample = pathlib.Path(__file__).resolve().parents[3] / "samples/torch_decoder.zip"
        bench = ("bench", str(sample), "--program", "prefill", "--repetitions", "1", "--policy",
                 "length=exact")
        report = self.run_json(*bench)
        self.assertEqual(1, report["stages"]["replay"]["samples"])
        done = self.command(*bench, "--input", "lengths=zeros")
        self.assertEqual(3, done.returncode, done.stderr)

    def test_every_stage_has_its_samples_and_every_bucket_is_recorded(self):
        report = self.run_json("bench", self.package(), "--repetitions", "3", "--policy",
                               "n=1,2,64")
        self.assertEqual({"open": 3, "verify": 3, "load": 3, "register": 3, "plan": 3,
                          "record": 3 * 3, "first_call": 3, "replay": 3,
                          "host": 3, "host_exact_same": 3, "host_exact_other": 3},
                         {name: stage["samples"] for name, stage in report["stages"].items()})
        self.assertEqual((3, 1), (report["buckets"], report["graph_nodes"]))
        for name, stage in report["stages"].items():
            self.assertGreaterEqual(stage["us"], stage["driver_us"], name)

    def test_what_does_not_fit_is_one_line_that_names_it(self):
        self.refuse("bench", self.package(), "--input", "q=zeros", says="'q' is neither an input")
        self.refuse("bench", self.path("none.zip"), says="none.zip")


if __name__ == "__main__":
    COPPICE = sys.argv.pop(1)
    unittest.main()
