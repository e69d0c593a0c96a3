#!/usr/bin/env python3
"""Goal: a Llama of bfloat16 is lifted as a whole, serves and trains.
Method: transformers' own model, of one small layer, is compiled and compared with itself in eager
PyTorch, at several lengths: logits, losses and all gradients, with PyTorch's attention, and with
FlashAttention as a GPU has it, by a stand-in (attention_kernels.py).

    backend_llama_test.py [unittest's options]

Without torch, transformers or the extension, all is skipped.
"""

import copy
import os
import unittest

try:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    import attention_kernels
    import coppice.torch
    from models import TOLERANCES_OF_ONE
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch, transformers and the extension: {error}") from error

WORDS = 64
FLASH = "aten._scaled_dot_product_flash_attention"
IN_CI = os.environ.get("COPPICE_TEST_SHARE") == "ci"  # One kind of attention for each test.


def flash(module, query, key, value, mask, scaling=None, **_):
    """Causal attention, as transformers calls it, by the operator that PyTorch has on a GPU."""
    key, value = (one.repeat_interleave(module.num_key_value_groups, 1) for one in (key, value))
    made, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, 0.0, True, scale=scaling)
    return made.transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register("of_a_gpu", flash)


class LlamaTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(4)

    @staticmethod
    def some(*kinds):
        return kinds[:1] if IN_CI else kinds

    @staticmethod
    def models(attention):
        """A model, and the same compiled."""
        config = LlamaConfig(
            vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
            attn_implementation=attention, use_cache=False)
        model = LlamaForCausalLM(config).to(torch.bfloat16)
        ours = copy.deepcopy(model)
        return model, ours, torch.compile(ours, backend=coppice.torch.backend, dynamic=True)

    def compare(self, got, right, what):
        got, right = got.detach(), right.detach()
        self.assertEqual((right.dtype, right.shape), (got.dtype, got.shape))
        scale = float(right.abs().max())
        self.assertGreater(scale, 0, what)
        self.assertLess(float((got - right).abs().max()), TOLERANCES_OF_ONE["bf16"] * scale, what)

    def lifted(self, compiled, calls):
        """Holds graphs to being lifted, with no calls of PyTorch but these, by kind."""
        found = {report.kind: report for report in coppice.torch.report(compiled)}
        self.assertEqual({*calls}, {*found})
        for kind, report in found.items():
            self.assertEqual((True, 0, calls[kind], ""), (
                report.lifted, report.refused, report.calls, report.graph_break), report.reasons)
            self.assertGreater(report.kernels, 10)

    def test_it_serves(self):
        for attention, calls in self.some(("of_a_gpu", [FLASH + ".default"]), ("sdpa", [])):
            with self.subTest(attention), attention_kernels.installed(), torch.no_grad():
                torch._dynamo.reset()
                model, _, compiled = self.models(attention)
                for length in (5, 7, 5):
                    words = torch.randint(0, WORDS, (2, length))
                    self.compare(compiled(input_ids=words).logits, model(input_ids=words).logits,
                                 f"logits of {length} words")
                self.lifted(compiled, {"inference": calls})

    def test_it_trains(self):
        for attention, calls in self.some(("sdpa", ([], [])), ("of_a_gpu", (
                [FLASH + ".default"], [FLASH + "_backward.default"]))):
            with self.subTest(attention), attention_kernels.installed():
                torch._dynamo.reset()
                model, ours, compiled = self.models(attention)
                both = [torch.optim.SGD(one.parameters(), 0.1) for one in (model, ours)]
                for length in (6, 9):
                    words = torch.randint(0, WORDS, (2, length))
                    losses = [one(input_ids=words, labels=words).loss for one in (compiled, model)]
                    self.compare(*losses, "loss")
                    for loss in losses:
                        loss.backward()
                    for (name, one), other in zip(ours.named_parameters(), model.parameters()):
                        self.compare(one.grad, other.grad, f"gradient of {name}")
                    for optimizer in both:
                        optimizer.step()
                        optimizer.zero_grad()
                self.lifted(compiled, {"forward": calls[0], "backward": calls[1]})


if __name__ == "__main__":
    unittest.main()
