"""Models of PyTorch's Torchbench list: those of `torchvision` have few channels, and others are
small modules of the same kind."""

import functools

import torch
from torch import nn

from coppice.dashboard import torchbench_modules as kinds
from coppice.dashboard.model import Model
from coppice.dashboard.own_modules import settled

PIXELS, CLASSES = 32, 10
ALEXNET_PIXELS = 64  # It halves them five times.


def vision():
    """{name: function of the module torchvision that makes a small model}."""
    def resnet(models, block, **more):
        return models.resnet.ResNet(block(models.resnet), [1, 1, 1, 1], CLASSES, **more)

    def headless(model, channels):
        """Replaces the classifier of VGG or AlexNet, which is 100 times as large as the rest."""
        model.avgpool, model.classifier = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, CLASSES)
        return model

    bottleneck = {"width_per_group": 8}
    return {
        "alexnet": lambda models: headless(models.AlexNet(), 256),
        "densenet121": lambda models: models.DenseNet(
            8, (2, 2), num_init_features=16, bn_size=2, num_classes=CLASSES),
        "mnasnet1_0": lambda models: models.MNASNet(0.25, CLASSES),
        "mobilenet_v2": lambda models: models.MobileNetV2(CLASSES, 0.25),
        "mobilenet_v3_large": lambda models: models.mobilenet_v3_large(
            width_mult=0.25, num_classes=CLASSES),
        "resnet18": lambda models: resnet(models, lambda known: known.BasicBlock),
        "resnet50": lambda models: resnet(models, lambda known: known.Bottleneck, **bottleneck),
        "resnext50_32x4d": lambda models: resnet(
            models, lambda known: known.Bottleneck, groups=4, width_per_group=4),
        "shufflenet_v2_x1_0": lambda models: models.ShuffleNetV2(
            [2, 2, 2], [8, 16, 32, 64, 64], CLASSES),
        "squeezenet1_1": lambda models: models.squeezenet1_1(num_classes=CLASSES),
        "vgg16": lambda models: headless(models.VGG(models.vgg.make_layers(
            [16, "M", 32, 32, "M", 64, 64, "M"])), 64),
    }


def make_vision(name, full):
    import torchvision

    if full:
        return torchvision.models.get_model(name)
    return settled(vision()[name](torchvision.models), pixels_of(name))


def pixels_of(name):
    return ALEXNET_PIXELS if name == "alexnet" else PIXELS


def draw_images(channels, pixels, size, full):
    return [torch.randn(size.rows, channels, pixels, pixels)]


def draw_vision(name, size, full):
    return draw_images(3, 224 if full else pixels_of(name), size, full)


OWN = {  # {name: (its module, what draws arguments)}
    "BERT_pytorch": (kinds.Bert, kinds.draw_sentences),
    "Background_Matting": (kinds.Matting, kinds.draw_matting),
    "LearningToPaint": (kinds.Painter, functools.partial(draw_images, 9, PIXELS)),
    "dcgan": (kinds.Discriminator, functools.partial(draw_images, 3, PIXELS)),
    "nvidia_deeprecommender": (kinds.Recommender, kinds.draw_ratings),
    "pytorch_unet": (kinds.Unet, functools.partial(draw_images, 3, PIXELS)),
}


def models():
    own = [Model("torchbench", name, lambda full, kind=kind: kind(), draw)
           for name, (kind, draw) in OWN.items()]
    others = [Model("torchbench", name, functools.partial(make_vision, name),
                    functools.partial(draw_vision, name), needs="torchvision")
              for name in vision()]
    return sorted(own + others, key=lambda model: model.name)
