#!/usr/bin/env python3
"""Shows every rule of tools/tidy.py a tree that breaks it, and a tree that breaks none.

A case is a tree with one defect; the rule must report it at its file and line, and nothing else.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
sys.dont_write_bytecode = True
import tidy  # noqa: E402

HEADER = "// Pools.\n//\n// Units: bytes. Threads: any.\n\n#pragma once\n"
CLEAN = {
    "README.md": "# Title\n\n```cpp\nRun();\n```\n\nRead `session.h`.\n",
    "graphs/CMakeLists.txt": "add_library(graphs session.cc kernels/staging.cu)\n",
    "graphs/session.cc": '// The session.\n\n#include "coppice/graphs/session.h"\n',
    "graphs/kernels/staging.cu": "// Staging.\n",
    "include/coppice/graphs/session.h": HEADER + '\n#include "coppice/allocator/pool.h"\n',
    "include/coppice/allocator/pool.h": HEADER,
    "tests/CMakeLists.txt": "coppice_test(graphs/session_test)\ncoppice_test(allocator/pool_test)\n",
    "tests/graphs/session_test.cc": "// The contract of session.h.\n",
    "tests/allocator/pool_test.cc": "// The contract of pool.h.\n",
    "samples/CMakeLists.txt": "add_executable(hello_graph hello_graph.cc)\n",
    "samples/hello_graph.cc": "// Hello.\nint main() {\n  Run();\n}\n",
}


def findings_with(path, text):
    return tidy.check({**CLEAN, path: text})


class TidyTest(unittest.TestCase):
    def expect(self, path, text, line, part):
        """Expects exactly one finding in CLEAN with `path` replaced by `text`."""
        findings = findings_with(path, text)
        self.assertEqual([(path, line)], [finding[:2] for finding in findings], findings)
        self.assertIn(part, findings[0][2])

    def expect_source(self, line_of_code, part):
        self.expect("graphs/session.cc", f"// The session.\n{line_of_code}\n", 2, part)

    def test_clean_tree_has_no_finding(self):
        self.assertEqual([], tidy.check(CLEAN))

    def test_circles_of_sources_and_headers(self):
        tree = {
            **CLEAN,
            "graphs/CMakeLists.txt": "add_library(graphs session.cc call/run.cc kernels/staging.cu)\n",
            "graphs/call/run.h": "// Runs.\n",
            "graphs/call/run.cc": '// Runs.\n#include "coppice/graphs/session.h"\n',
        }
        self.assertEqual([], tidy.check(tree))
        tree["graphs/session.cc"] += '#include "graphs/call/run.h"\n'
        self.assertEqual(
            ["graphs/call/run.cc", "graphs/session.cc"], [path for path, _, _ in tidy.check(tree)]
        )

    def test_circles_of_modules(self):
        tree = {
            **CLEAN,
            "python/coppice/a.py": '"""A."""\n\nfrom coppice import b\n',
            "python/coppice/b.py": '"""B."""\n',
            "python/coppice/c/d.py": '"""D."""\n\nfrom coppice.a import (x,\n    y)\n',
        }
        self.assertEqual([], tidy.check(tree))
        tree["python/coppice/b.py"] += "\n\ndef late():\n    from coppice.c import d\n"
        self.assertEqual(
            [f"python/coppice/{name}.py" for name in ("a", "b", "c/d")],
            [path for path, _, _ in tidy.check(tree)],
        )

    def test_columns(self):
        self.expect_source("// " + "x" * 98, "101 columns")
        self.assertEqual([], findings_with("graphs/session.cc", "// Session.\n// " + "é" * 97))

    def test_trailing_space(self):
        self.expect_source("int x; ", "trailing space")

    def test_a_table_row_of_a_document_may_be_long(self):
        self.assertEqual([], findings_with("ARCHITECTURE.md", "| " + "x" * 200 + " |\n"))

    def test_words(self):
        self.expect_source("// FIXME: slow.", "TODO(owner)")
        self.expect_source("// TODO: measure.", "TODO(owner)")
        self.expect_source("// This is enough for now.", "for now")
        self.expect_source("// Stub.", "the code")
        self.expect_source('const char* kPath = "/root/x";', "relative to the repository")
        for side in ("<<<<<<< HEAD", "||||||| base", ">>>>>>> theirs"):
            self.expect("docs/x.md", f"# X\n\n{side}\n", 3, "merge")
        self.assertEqual(
            [], findings_with("graphs/session.cc", "// TODO(maria): measure it on a GPU.\n")
        )

    def test_words_in_documents(self):
        self.expect("CONTRIBUTING.md", "# Rules\n\nSee /work/main.\n", 3, "relative")

    def test_file_length(self):
        code = "// The session.\n" + "int x;\n" * 500
        self.expect("graphs/session.cc", code, 501, "a library source has at most 500")
        header = HEADER + "int x;\n" * 500
        self.expect("include/coppice/allocator/pool.h", header, 505, "at most 500")
        test = "// The contract of session.h.\n" + "int x;\n" * 699
        self.assertEqual([], findings_with("tests/graphs/session_test.cc", test))
        self.expect("tests/graphs/session_test.cc", test + "int x;\n", 701, "at most 700")

    def test_opening_comment(self):
        self.expect("graphs/session.cc", "int x;\n", 1, "what the file is")
        self.expect("tools/run.sh", "#!/usr/bin/env bash\nset -e\n", 1, "what the file is")
        self.expect("tools/draw.py", "import os\n", 1, "what the file is")
        self.expect("cmake/X.cmake", "set(x 1)\n", 1, "what the file is")

    def test_banned_code(self):
        for code in (
            "std::shared_ptr<int> x;",
            "absl::string_view x;",
            "absl::Mutex mutex;",
            "assert(x);",
            "int x = rand();",
            "std::this_thread::sleep_for(x);",
            "using namespace std;",
            "} catch (...) {",
            'throw Error("x");',
            "std::cout << x;",
        ):
            with self.subTest(code):
                self.expect_source(code, "; ")

    def test_banned_names_may_appear_in_comments_strings_and_longer_names(self):
        code = '// rand() and throw.\nstatic_assert(true, "no assert(x)");\nint Strand(int);\n'
        self.assertEqual([], findings_with("graphs/session.cc", code))

    def test_tests_read_no_clock(self):
        code = "// The contract.\nauto t = std::chrono::steady_clock::now();\n"
        self.expect("tests/graphs/session_test.cc", code, 2, "clock")

    def test_one_door(self):
        self.expect_source('void* x = dlopen("libcuda.so.1", 0);', "dlopen")
        self.expect_source("#include <cuda.h>", "cuda_abi.h")

    def test_layers(self):
        path = "include/coppice/allocator/pool.h"
        self.expect(path, HEADER + '#include "coppice/graphs/session.h"\n', 6, "layer 2")
        self.expect_source('#include "allocator/pool_state.h"', "private to allocator")
        self.expect_source('#include "tests/support/test_device.h"', "only tests")
        sample = CLEAN["samples/hello_graph.cc"] + '#include "tools/model/decoder.h"\n'
        self.expect("samples/hello_graph.cc", sample, 5, "public API")

    def test_the_library_does_not_know_the_emulator(self):
        part = "only programs do"
        self.expect_source('#include "coppice/runtime/emulator.h"', "graphs may not include")
        self.expect_source('#include "coppice/runtime/emulator.h"', part)
        self.expect_source('#include "runtime/emulator/state.h"', "private to emulator")
        tree = {
            **CLEAN,
            "runtime/CMakeLists.txt": "add_library(runtime driver.cc)\n",
            "runtime/driver.cc": '// D.\n#include "coppice/runtime/emulator.h"\n'
            '#include "runtime/emulator/state.h"\n',
        }
        self.assertEqual(
            [
                ("runtime/driver.cc", 2, f"runtime may not include coppice/runtime/emulator.h: {part}"),
                ("runtime/driver.cc", 3, "runtime/emulator/state.h is private to emulator"),
            ],
            tidy.check(tree),
        )
        test = CLEAN["tests/graphs/session_test.cc"] + '#include "coppice/runtime/emulator.h"\n'
        self.assertEqual([], findings_with("tests/graphs/session_test.cc", test))

    def test_the_executor_of_ptx_opens_two_of_its_headers(self):
        text = '// K.\n#include "runtime/emulator/ptx/launch.h"\n'
        build = {**CLEAN, "tools/CMakeLists.txt": "add_library(t ptx/kernel.cc)\n"}
        self.assertEqual([], tidy.check({**build, "tools/ptx/kernel.cc": text}))
        self.assertEqual(
            [("tools/ptx/kernel.cc", 2, "runtime/emulator/ptx/warp.h is private to ptx")],
            tidy.check({**build, "tools/ptx/kernel.cc": text.replace("launch", "warp")}),
        )
        self.assertEqual(
            [("tools/ptx/kernel.cc", 2, "runtime/emulator/state.h is private to emulator")],
            tidy.check({**build, "tools/ptx/kernel.cc": text.replace("ptx/launch", "state")}),
        )

    def test_the_emulated_library_sees_the_inside_of_the_emulator(self):
        text = '// K.\n#include "coppice/runtime/emulator.h"\n#include "runtime/emulator/state.h"\n'
        build = {**CLEAN, "runtime/emulated_cuda/CMakeLists.txt": "add_library(t start.cc)\n"}
        self.assertEqual([], tidy.check({**build, "runtime/emulated_cuda/start.cc": text}))
        self.assertEqual(
            [("runtime/emulated_cuda/start.cc", 2,
              "emulated_cuda (layer 3) may not include coppice/graphs/session.h")],
            tidy.check({**build, "runtime/emulated_cuda/start.cc":
                        '// K.\n#include "coppice/graphs/session.h"\n'}),
        )

    def test_the_emulator_sees_what_is_below_it(self):
        tree = {
            **CLEAN,
            "runtime/emulator/CMakeLists.txt": "add_library(emulator state.cc)\n",
            "runtime/emulator/state.cc": '// S.\n#include "coppice/runtime/driver.h"\n'
            '#include "runtime/emulator/state.h"\n#include "coppice/allocator/pool.h"\n'
            '#include "runtime/stream_pool.h"\n',
        }
        self.assertEqual(
            [
                (4, "emulator (layer 2) may not include coppice/allocator/pool.h"),
                (5, "runtime/stream_pool.h is private to runtime"),
            ],
            [finding[1:] for finding in tidy.check(tree)],
        )

    def test_includes_begin_at_the_root(self):
        self.expect_source('#include "lane.h"', "from the root")
        sample = CLEAN["samples/hello_graph.cc"] + '#include "layer.h"\n'
        self.assertEqual([], findings_with("samples/hello_graph.cc", sample))

    def test_pure_files_see_no_driver(self):
        tree = {
            **CLEAN,
            "allocator/CMakeLists.txt": "add_library(allocator plan.cc)\n",
            "allocator/plan.cc": '// Plans.\n#include "coppice/runtime/driver.h"\n',
        }
        self.assertEqual(
            [("allocator/plan.cc", 2, "a pure file may not include coppice/runtime/driver.h")],
            tidy.check(tree),
        )

    def test_function_length(self):
        body = "  x();\n" * 69
        findings = findings_with("graphs/session.cc", "// S.\nvoid F(int a) {\n" + body + "}\n")
        self.assertEqual([("graphs/session.cc", 2, "function of 71 lines; at most 70")], findings)

    def test_function_length_counts_bodies_only(self):
        text = (
            "// S.\nnamespace a {\nclass B : public C {\n  void F() {\n    if (x) {\n    }\n  }\n};\n"
            "#define M(x) do { \\\n  } while (0)\nint G(int a) {\n  return [] { return 1; }();\n}\n}\n"
        )
        self.assertEqual([(4, 4), (11, 3)], list(tidy.functions(text)))

    def test_public_header_states_units_or_threads(self):
        path = "include/coppice/allocator/pool.h"
        self.expect(path, "// Pools.\n\n#pragma once\n", 1, "Units or Threads")
        self.expect(path, "// Pools.\n//\n// Threads: any.\n", 1, "#pragma once")

    def test_sources_are_built(self):
        self.expect("graphs/lease.cc", "// Leases.\n", 1, "no CMakeLists.txt")
        tree = dict(CLEAN)
        tree["graphs/CMakeLists.txt"] = "add_library(g kernels/staging.cu)  # session.cc\n"
        self.assertEqual([("graphs/session.cc", 1, "named in no CMakeLists.txt")], tidy.check(tree))

    def test_headers_are_mirrored_by_tests(self):
        self.expect("include/coppice/graphs/lease.h", HEADER, 1, "tests/graphs/lease_test.cc")

    def test_examples_of_pages_are_code_of_a_sample(self):
        for page in ("README.md", "docs/start/cpp.md"):
            self.expect(page, "# T\n\n```cpp\nStop();\n```\n", 3, "not in a sample")

    def test_documents_name_files_that_exist(self):
        for page in ("README.md", "docs/start/cpp.md"):
            self.expect(page, "# T\n\nRead `tree.h`.\n", 3, "tree.h does not exist")

    def test_the_version_is_that_of_cmake(self):
        readme = CLEAN["README.md"] + "\nThis is version 0.2.0.\n"
        copies = {"CMakeLists.txt": "project(coppice VERSION 0.2.0)\n",
                  "README.md": readme, "CHANGELOG.md": "# Changes\n\n## [Unreleased]\n\n## [0.2.0]\n",
                  "python/coppice/export/manifest.py": '"""M."""\n\nVERSION = "0.2.0"\n',
                  "tests/capi/coppice_test.cc": '// C.\nEXPECT_STREQ(coppice_version(), "0.2.0");\n',
                  "tests/CMakeLists.txt": CLEAN["tests/CMakeLists.txt"] + "coppice_test(capi/coppice_test)\n"}
        self.assertEqual([], tidy.check({**CLEAN, **copies}))
        for path in ("README.md", "CHANGELOG.md", "python/coppice/export/manifest.py",
                     "tests/capi/coppice_test.cc"):
            with self.subTest(path):
                old = copies[path].replace("0.2.0", "0.1.0")
                ((found, _, what),) = tidy.check({**CLEAN, **copies, path: old})
                self.assertEqual((path, True), (found, "0.2.0" in what))

    def test_data_of_a_folder_beyond_some_lines_is_in_an_archive(self):
        tree = {**CLEAN, "tests/ptx/a.ptx": "ret;\n" * 600, "tests/ptx/b.tsv": "1\n" * 400}
        self.assertEqual([], tidy.check(tree))
        tree["tests/ptx/b.tsv"] += "1\n"
        data = "1001 lines of data; beyond 1000 in an archive"
        self.assertEqual([("tests/ptx", 1001, data)], tidy.check(tree))
        dashboard = {"samples/grafana_dashboard.json": "{\n" * 1001}
        self.assertEqual([], tidy.check({**CLEAN, **dashboard}))


if __name__ == "__main__":
    unittest.main()
