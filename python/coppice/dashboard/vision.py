"""PyTorch's list of TIMM models, from `timm`, with two blocks, few channels, and images of 32 to 64
pixels."""

import functools
import importlib

import torch

from coppice.dashboard.model import Model
from coppice.dashboard.own_modules import settled

CLASSES = 10
TRANSFORMER = {"embed_dim": 32, "depth": 2, "num_heads": 4}
# {name: (pixels, what timm.create_model takes)}.
FIELDS = {
    "adv_inception_v3": (80, {}),
    "beit_base_patch16_224": (64, TRANSFORMER),
    "convnextv2_nano": (32, {"depths": (1, 1, 1, 1), "dims": (8, 16, 32, 32)}),
    "deit_base_distilled_patch16_224": (64, TRANSFORMER),
    "deit_tiny_patch16_224": (64, TRANSFORMER),
    "dm_nfnet_f0": (64, {"depths": (1, 1, 1, 1), "channels": (16, 16, 32, 32), "stem_chs": 16,
                         "group_size": 8}),
    "ghostnet_100": (32, {}),
    "inception_v3": (80, {}),
    "mobilenetv2_100": (32, {}),
    "mobilenetv3_large_100": (32, {}),
    "mobilevit_s": (64, {}),
    "nfnet_l0": (64, {"depths": (1, 1, 1, 1), "channels": (16, 16, 32, 32), "stem_chs": 16,
                      "group_size": 8}),
    "repvgg_a2": (32, {}),
    "swin_base_patch4_window7_224": (
        56, {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4)}),
    "tf_efficientnet_b0": (32, {}),
    "visformer_small": (64, {"embed_dim": 32, "depth": (1, 1, 1), "num_heads": 4}),
    "vit_base_patch14_dinov2": (56, TRANSFORMER),
    "vit_base_patch16_siglip_256": (64, TRANSFORMER),
}
# Whose constructors take no width: what timm makes them by, whose second argument it is.
GENERATED = {
    "ghostnet_100": ("ghostnet", "_create_ghostnet"),
    "mobilenetv2_100": ("efficientnet", "_gen_mobilenet_v2"),
    "mobilenetv3_large_100": ("mobilenetv3", "_gen_mobilenet_v3"),
    "tf_efficientnet_b0": ("efficientnet", "_gen_efficientnet"),
}
WIDTH = 0.25
SIZED = ("beit", "deit", "swin", "visformer", "vit")  # Families that are told how large images are.


def make(name, full):
    import timm

    if full:
        return timm.create_model(name)
    pixels, fields = FIELDS[name]
    if name in GENERATED:
        module, function = GENERATED[name]
        generate = getattr(importlib.import_module(f"timm.models.{module}"), function)
        return settled(generate(name, WIDTH, num_classes=CLASSES), pixels)
    sized = {"img_size": pixels} if name.startswith(SIZED) else {}
    classes = {} if "siglip" in name or "dinov2" in name else {"num_classes": CLASSES}
    return settled(timm.create_model(name, **classes, **sized, **fields), pixels)


def draw(name, size, full):
    pixels = FIELDS[name][0]
    if full:
        import timm

        pixels = timm.get_pretrained_cfg(name).input_size[-1]
    return [torch.randn(size.rows, 3, pixels, pixels)]


def models():
    return [Model("timm", name, functools.partial(make, name), functools.partial(draw, name),
                  needs="timm") for name in FIELDS]
