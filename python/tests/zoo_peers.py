"""Models of torchvision and transformers in the zoo, as small as their constructors allow, with
random weights. Sizes in the docstrings are of arguments; those in capitals vary.
"""

import functools

import torch
from torch import nn

try:
    import torchvision
    import transformers
except ImportError:  # Their models can be listed all the same.
    torchvision = transformers = None

VOCABULARY, WIDTH, HEADS, LENGTH_MAX = 100, 32, 4, 64


# torchvision


def settled(model):
    """A model whose batch norms know the mean and variance of random images."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(16, 3, 16, 16))
    return model


def make_regnet():
    """images [B, 3, 16, 16]: a residual block of each of two widths, in groups of channels."""
    known = torchvision.models.regnet
    blocks = known.BlockParams([1, 1], [8, 16], [4, 8], [1.0, 1.0], [2, 2], se_ratio=0.25)
    return settled(known.RegNet(blocks, num_classes=10, stem_width=8))


def make_densenet():
    """images [B, 3, 16, 16]: two layers that each see all before them, twice."""
    known = torchvision.models.densenet
    return settled(known.DenseNet(4, (2, 2), num_init_features=8, bn_size=2, num_classes=10))


def make_mobilenet():
    """images [B, 3, 16, 16]: two inverted residuals, with and without squeezing."""
    known = torchvision.models.mobilenetv3
    layer = functools.partial(known.InvertedResidualConfig, width_mult=1.0)
    layers = [layer(16, 3, 16, 16, True, "RE", 2, 1), layer(16, 5, 32, 24, False, "HS", 2, 1)]
    return settled(known.MobileNetV3(layers, last_channel=64, num_classes=10))


class SwinBlocks(nn.Module):
    """x [B, 8, 8, 32]: attention in windows of 4 by 4, then in windows that are shifted by 2."""

    def __init__(self):
        super().__init__()
        block = functools.partial(torchvision.models.swin_transformer.SwinTransformerBlock,
                                  WIDTH, 2, [4, 4])
        self.blocks = nn.Sequential(block([0, 0]), block([2, 2]))

    def forward(self, x):
        return self.blocks(x)


def make_vision_encoder():
    """x [B, 17, 32]: torchvision's vision transformer behind its patches."""
    return torchvision.models.vision_transformer.Encoder(17, 2, HEADS, WIDTH, 64, 0.1, 0.1)


def make_squeeze():
    """x [B, 16, H, 8]."""
    return torchvision.ops.SqueezeExcitation(16, 4)


class DetectionLoss(nn.Module):
    """scores, targets [N, 6], boxes and right boxes [N, 4]: what a detector is trained for."""

    def forward(self, scores, targets, boxes, right):
        focal = torchvision.ops.sigmoid_focal_loss(scores, targets, reduction="mean")
        overlap = torchvision.ops.generalized_box_iou_loss(boxes, right, reduction="mean")
        return focal + overlap


# transformers


class Encoder(nn.Module):
    """tokens [B, L], and lengths [B] if it masks: the last hidden states."""

    def __init__(self, model, masked=False):
        super().__init__()
        self.model, self.masked = model, masked

    def forward(self, tokens, lengths=None):
        mask = None
        if self.masked:
            at = torch.arange(tokens.shape[1], device=tokens.device)
            mask = (at < lengths[:, None]).long()
        return self.model(tokens, attention_mask=mask)[0]


class Decoder(nn.Module):
    """tokens [B, L]: scores of the tokens that follow."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, use_cache=False).logits


class Images(nn.Module):
    """images [B, 3, 16, 16]: scores of classes."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(images).logits


def small(config, **more):
    """A configuration of the size that all of them have; weights are larger than a training begins
    with, so that attention is not uniform."""
    return config(**{"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64,
                     "num_hidden_layers": 2, "num_attention_heads": HEADS,
                     "max_position_embeddings": LENGTH_MAX, "initializer_range": 0.2,
                     "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **more})


def make_bert():
    return Encoder(transformers.BertModel(small(transformers.BertConfig)), masked=True)


def make_distilbert():
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY, dim=WIDTH, hidden_dim=64, n_layers=2, n_heads=HEADS,
        max_position_embeddings=LENGTH_MAX, initializer_range=0.2)
    return Encoder(transformers.DistilBertModel(config))


def make_t5_encoder():
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=64,
                                   num_layers=2, num_heads=HEADS, relative_attention_num_buckets=8)
    return Encoder(transformers.T5EncoderModel(config), masked=True)


def make_clip_text():
    return Encoder(transformers.CLIPTextModel(small(transformers.CLIPTextConfig)))


def make_gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH_MAX, n_embd=WIDTH, n_layer=2, n_head=HEADS,
        initializer_range=0.2, bos_token_id=1, eos_token_id=2)
    return Decoder(transformers.GPT2LMHeadModel(config))


def make_llama():
    config = small(transformers.LlamaConfig, num_key_value_heads=2)
    return Decoder(transformers.LlamaForCausalLM(config))


def make_qwen3():
    config = small(transformers.Qwen3Config, num_key_value_heads=2, head_dim=16,
                   tie_word_embeddings=True)
    return Decoder(transformers.Qwen3ForCausalLM(config))


def make_mistral():
    """Sees the last five tokens only, by the attention that is written out."""
    config = small(transformers.MistralConfig, num_key_value_heads=2, sliding_window=5,
                   attn_implementation="eager")
    return Decoder(transformers.MistralForCausalLM(config))


def make_gpt_neox():
    config = small(transformers.GPTNeoXConfig, rotary_pct=0.5)
    return Decoder(transformers.GPTNeoXForCausalLM(config))


def make_gemma():
    config = small(transformers.GemmaConfig, num_key_value_heads=1, head_dim=8)
    return Decoder(transformers.GemmaForCausalLM(config))


def make_vit():
    config = transformers.ViTConfig(
        image_size=16, patch_size=4, hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=HEADS, num_labels=10, initializer_range=0.2)
    return Images(transformers.ViTForImageClassification(config))
