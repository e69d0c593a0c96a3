"""Small modules for the models of PyTorch's Torchbench list that are in no package."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, WORDS, ITEMS = 32, 128, 96


def convolved(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class Bert(nn.Module):
    """tokens, sentences [B, L]: scores for the next sentence, and for the words."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.sentences = nn.Embedding(3, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, 0.0, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.follows, self.masked = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens, sentences):
        at = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(at) + self.sentences(sentences)
        x = self.layers(x)
        return self.follows(x[:, 0]).log_softmax(-1), self.masked(x).log_softmax(-1)


def draw_sentences(size, full):
    tokens = torch.randint(1, WORDS, (size.rows, size.length))
    return [tokens, torch.randint(0, 3, tokens.shape)]


class Matting(nn.Module):
    """An image, its background, and a mask of 32 by 32: the foreground and its opacity."""

    def __init__(self):
        super().__init__()
        self.image, self.back = convolved(3, 16, 2), convolved(3, 16, 2)
        self.mask = convolved(1, 16, 2)
        self.join = nn.Conv2d(48, 16, 1)
        self.middle = nn.Sequential(convolved(16, 16), convolved(16, 16))
        self.opacity, self.front = nn.Conv2d(16, 1, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, image, back, mask):
        x = self.join(torch.cat([self.image(image), self.back(back), self.mask(mask)], 1))
        x = x + self.middle(x)
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        return torch.tanh(self.opacity(x)), self.front(x)


def draw_matting(size, full):
    return [torch.randn(size.rows, channels, 32, 32) for channels in (3, 3, 1)]


class Painter(nn.Module):
    """canvases [B, 9, 32, 32]: the next strokes, from 0 to 1."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(convolved(9, 16, 2), convolved(16, 16), convolved(16, 32, 2))
        self.head = nn.Linear(32, 65)

    def forward(self, canvases):
        return torch.sigmoid(self.head(self.layers(canvases).mean((-1, -2))))


class Discriminator(nn.Module):
    """images [B, 3, 32, 32]: how real they are."""

    def __init__(self):
        super().__init__()
        layers, channels = [nn.Conv2d(3, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)], 8
        for _ in range(2):
            layers += [nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False),
                       nn.BatchNorm2d(2 * channels), nn.LeakyReLU(0.2)]
            channels *= 2
        self.layers = nn.Sequential(*layers, nn.Conv2d(channels, 1, 4, bias=False), nn.Sigmoid())

    def forward(self, images):
        return self.layers(images)


class Recommender(nn.Module):
    """ratings [N, 96]: an autoencoder with a narrow middle."""

    def __init__(self):
        super().__init__()
        widths = (ITEMS, 64, 32)
        self.narrow = nn.ModuleList(nn.Linear(*pair) for pair in zip(widths, widths[1:]))
        self.widen = nn.ModuleList(nn.Linear(*pair) for pair in zip(widths[::-1], widths[-2::-1]))
        self.drop = nn.Dropout(0.8)

    def forward(self, ratings):
        x = ratings
        for layer in self.narrow:
            x = F.selu(layer(x))
        x = self.drop(x)
        for layer in self.widen:
            x = F.selu(layer(x))
        return x


def draw_ratings(size, full):
    return [torch.rand(size.length, ITEMS)]


class Unet(nn.Module):
    """images [B, 3, 32, 32]: two classes for each pixel."""

    def __init__(self):
        super().__init__()
        self.first, self.low = convolved(3, 8), nn.Sequential(nn.MaxPool2d(2), convolved(8, 16))
        self.lowest = nn.Sequential(nn.MaxPool2d(2), convolved(16, 16))
        self.up, self.last = convolved(32, 8), convolved(16, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, images):
        first = self.first(images)
        low = self.low(first)
        x = self.up(torch.cat([low, self.wide(self.lowest(low))], 1))
        return self.head(self.last(torch.cat([first, self.wide(x)], 1)))

    @staticmethod
    def wide(x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
