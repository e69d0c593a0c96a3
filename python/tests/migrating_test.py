#!/usr/bin/env python3
"""Goal: what MIGRATING.md shows on its right-hand side runs, and prints what it says.
Method: blocks are told apart by the word behind "python". Those of `emulator` run on it, those of a
section as one module, behind the block of `setup`; those of `fake_cuda` run by themselves, against
fake_cuda.py, with what each says that it is given. What is printed has to be in comments, in order.
Blocks without a word, which show what people have today, need what nobody installs here: they have
to be Python.

    migrating_test.py [unittest's options]

Without torch, Triton or the extension, what runs is skipped.
"""

import ast
import contextlib
import importlib.util
import io
import pathlib
import re
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
PAGE = HERE.parent / "MIGRATING.md"
BLOCK = re.compile(r"^```python *(\w*)\n(.*?)^```$", re.M | re.S)
KINDS = {"", "setup", "emulator", "fake_cuda"}
PEERS = {"reduce-overhead": "`torch.compile(mode=\"reduce-overhead\")`",
         "torch.cuda.CUDAGraph": "`torch.cuda.graph`",
         "make_graphed_callables": "`torch.cuda.make_graphed_callables`",
         "CUDAGraphWrapper": "vLLM's `CUDAGraphWrapper`",
         "capture_bs": "SGLang's CUDA graph runner"}

try:
    import torch
    import triton  # noqa: F401

    import coppice.torch
    import fake_cuda
    from coppice.torch import graphs, partitions  # noqa: F401

    if "coppice" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(coppice.torch.backend, name="coppice")
except ImportError:
    torch = None


def sections():
    """{title: its text}; the part above the first title has none."""
    first, *others = re.split(r"^## ", PAGE.read_text(), flags=re.M)
    return {"": first, **{text.partition("\n")[0]: text for text in others}}


def blocks(text, *kinds):
    """The code of the text's blocks that are of these kinds."""
    return [code for kind, code in BLOCK.findall(text) if kind in kinds]


def expected(code):
    """What comments say that a block prints: behind a print, or on lines of their own below it."""
    lines, printing = [], False
    for line in code.splitlines():
        found = re.match(r"(.*?)(?:^|  )# (.*)$", line)
        printing = "print(" in line or (printing and line.startswith("#"))
        if found and printing:
            lines.append(found[2])
    return lines


class MigratingTest(unittest.TestCase):
    def test_shows_each_peer_beside_coppice(self):
        known = sections()
        for word, title in PEERS.items():
            with self.subTest(title):
                today, ours = re.search(r"<td>(.*?)</td><td>(.*?)</td>", known[title],
                                        re.S).groups()
                self.assertIn(word, today)
                self.assertTrue(blocks(ours, "emulator"))
                self.assertRegex(known[title], r"(?s)</table>.*^\* |\n\* ")

    def test_has_blocks_of_known_kinds_that_are_python(self):
        for title, text in sections().items():
            for kind, code in BLOCK.findall(text):
                self.assertIn(kind, KINDS, title)
                ast.parse(code, title)

    @unittest.skipUnless(torch, "torch, Triton or the extension is not there")
    def test_blocks_run_on_the_emulator_and_print_what_they_say(self):
        known = sections()
        (setup,) = blocks(known[""], "setup")
        for title, text in known.items():
            with self.subTest(title):
                self.check(setup, "\n".join(blocks(text, "emulator")))
        self.assertEqual([], coppice.device("emulator").findings())

    def check(self, setup, code):
        torch._dynamo.reset()
        torch.manual_seed(0)
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            # A file, because Triton reads the source of its kernels.
            path = pathlib.Path(folder) / "snippet.py"
            path.write_text(f"{setup}\n{code}")
            spec = importlib.util.spec_from_file_location("snippet", path)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        self.assertEqual(expected(code), out.getvalue().splitlines())

    @unittest.skipUnless(torch, "torch, Triton or the extension is not there")
    def test_blocks_run_against_a_fake_of_cuda_and_print_what_they_say(self):
        device, count = coppice.device("emulator"), 0
        for title, text in sections().items():
            for code in blocks(text, "fake_cuda"):
                count += 1
                with self.subTest(title), faked(device), contextlib.redirect_stdout(
                        io.StringIO()) as out:
                    exec(compile(code, title, "exec"), {
                        "coppice": coppice, "torch": torch, "model": None,
                        "x": Block(device, 32), "y": Block(device, 32),
                        "rows": lambda size: torch.randn(size, 32)})
                    self.assertEqual(expected(code), out.getvalue().splitlines())
        self.assertEqual(2, count)
        self.assertEqual([], device.findings())


class Block:
    """As much of a tensor on CUDA as a block shows: copy_, on the current stream."""

    def __init__(self, device, count):
        self.device, self.memory = device, device.upload(torch.zeros(count))

    def copy_(self, other):
        self.device.copy(self.memory.data_ptr(), other.memory.data_ptr(), other.memory.nbytes,
                         torch.cuda.current_stream().cuda_stream)


@contextlib.contextmanager
def faked(device):
    """Within, torch.cuda is the fake, what asks for CUDA gets the emulator, and torch.compile makes
    two partitions that copy, wrapped as Inductor has them wrapped."""
    def copied(arguments):
        x = arguments.pop()
        y = coppice.running.empty_like(x)
        device.copy(y.data_ptr(), x.data_ptr(), x.nbytes, coppice.running.current_stream())
        return (y,)

    def compiled(model, dynamic):
        wrapper = torch._inductor.utils._unstable_customized_partition_wrapper.wrapper
        parts = [wrapper(copied, types.SimpleNamespace(partition_index=index, num_partitions=2))
                 for index in range(2)]
        return lambda x: parts[1](list(parts[0]([x])))

    with fake_cuda.installed(device), contextlib.ExitStack() as stack:
        for name in ("graphs", "partitions"):
            stack.enter_context(mock.patch.object(
                sys.modules[f"coppice.torch.{name}"], "shared_device", lambda kind: device))
        stack.enter_context(mock.patch.object(torch, "compile", compiled))
        yield


if __name__ == "__main__":
    unittest.main()
