"""The zoo's models that are trained, with dropout, and the steps that they are trained by.

A module and its compiled twin take the same steps from the same weights. Both draw from torch's
generator, which is set anew before each, so that they drop the same elements. Sizes vary.
"""

import copy
import dataclasses
import random
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn

import zoo
import zoo_own as own
import zoo_peers as peers

STEPS = 20
# How far apart they may be, as norms over all parameters: gradients of a step, of the gradients
# that are right, and weights in the end, of how far these have gone. A float's 24 bits are 1e-7;
# what rounding moves the weights by, AdamW divides by the little that some gradients are.
GRADIENT_TOLERANCE, WEIGHT_TOLERANCE = 1e-5, 1e-4


@dataclasses.dataclass
class Training:
    name: str
    origin: str
    make: Callable  # A module that returns its loss.
    draw: Callable  # From a random.Random: arguments.
    axes: dict
    optimizer: Callable  # From parameters.
    in_ci: bool = False

    mark = zoo.Model.mark

    def modules(self, seed):
        torch.manual_seed(seed)
        module = self.make().train()
        return module, copy.deepcopy(module)


@dataclasses.dataclass
class Distances:
    """Of a compiled twin from its module; 0 is no distance."""

    loss: float = 0.0
    gradients: float = 0.0
    weights: float = 0.0
    buffers: float = 0.0


def train(training, compiled, compiled_module, module, seed, steps=STEPS):
    """Takes the steps, and says how far apart they came. `compiled` is what a compiler made of one
    of two equal modules."""
    source = random.Random(f"{seed} {training.name}")
    torch.manual_seed(source.getrandbits(32))
    batches = [training.draw(source) for _ in range(steps)]
    begin = vector(module.parameters())
    twins = ((compiled, compiled_module), (module, module))
    optimizers = [training.optimizer(owner.parameters()) for _, owner in twins]
    result = Distances()
    for step, arguments in enumerate(batches):
        losses, gradients = [], []
        for (function, owner), optimizer in zip(twins, optimizers):
            own_arguments = [argument.clone() for argument in arguments]
            if function is not module:
                training.mark(own_arguments)
            torch.manual_seed(step)
            optimizer.zero_grad()
            loss = function(*own_arguments)
            loss.backward()
            losses.append(loss.detach().clone())
            gradients.append(vector(value.grad for value in owner.parameters()))
            optimizer.step()
        result.loss = max(result.loss, distance(*losses))
        result.gradients = max(result.gradients, distance(*gradients))
    ends = [vector(owner.parameters()) for _, owner in twins]
    result.weights = distance(ends[0] - begin, ends[1] - begin)
    result.buffers = distance(*(vector(owner.buffers()) for _, owner in twins))
    return result


def check_masks(compiled, seed, calls=4):
    """That gradients went through what a compiled Masked kept: the backward graphs are called in
    the reverse order, when later calls have drawn other masks. Errors: AssertionError."""
    source = random.Random(seed)
    torch.manual_seed(source.getrandbits(32))
    pairs, masks = [], []
    for _ in range(calls):
        x = torch.rand(source.randint(2, 16), 256) + 1
        pairs.append((x.requires_grad_(), compiled(x)))
    for x, y in reversed(pairs):
        slopes = torch.randn_like(y)
        (found,) = torch.autograd.grad(y, x, slopes)
        kept = y != 0
        share, count = own.Dropped.SHARE, kept.numel()
        deviation = (share * (1 - share) / count) ** 0.5
        assert abs(1 - float(kept.double().mean()) - share) < 6 * deviation, kept.double().mean()
        scale = 1 / (1 - share)
        torch.testing.assert_close(y, torch.where(kept, x.square() * scale, 0))
        torch.testing.assert_close(found, torch.where(kept, 2 * x * scale * slopes, 0))
        masks.append(kept[:2])
    same = [float((one == other).double().mean())
            for index, one in enumerate(masks) for other in masks[:index]]
    # Two draws agree by chance in (1 - share)^2 + share^2 of all elements.
    assert max(same) < 0.75, same


class Masked(nn.Module):
    """x [N, 256]: squares, a quarter of them dropped."""

    def forward(self, x):
        return F.dropout(x.square(), own.Dropped.SHARE)


def vector(tensors):
    """All elements; parameters that have no gradient are left out."""
    parts = [value.detach().double().flatten() for value in tensors if value is not None]
    return torch.cat(parts) if parts else torch.zeros(1, dtype=torch.float64)


def distance(found, right):
    """The norm of a difference, of the norm of what is right; infinite if there is a NaN."""
    difference = (found.double() - right.double()).nan_to_num(float("inf"))
    return float(difference.norm()) / (float(right.double().norm()) or 1.0)


# What is trained.


class Classified(nn.Module):
    """Any module behind which classes are told apart: the arguments' last are the right ones."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arguments):
        *given, right = arguments
        return F.cross_entropy(self.module(*given), right)


class Block(nn.Module):
    """x [B, L, 32]: a transformer's layer, with dropout in all of its three places."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(own.WIDTH), nn.LayerNorm(own.WIDTH)
        self.qkv = nn.Linear(own.WIDTH, 3 * own.WIDTH)
        self.out, self.head = nn.Linear(own.WIDTH, own.WIDTH), nn.Linear(own.WIDTH, 10)
        self.feed = nn.Sequential(nn.Linear(own.WIDTH, 64), nn.GELU(), nn.Dropout(0.1),
                                  nn.Linear(64, own.WIDTH))

    def forward(self, x):
        q, k, v = (own.split(part, own.HEADS) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + F.dropout(self.out(own.merge(mixed)), 0.1)
        x = x + self.feed(self.second(x))
        return self.head(x.mean(1))


class Convolved(nn.Module):
    """images [B, 3, 8, 8]: batch norms, whose statistics move, and whole channels dropped."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 16, 3)
        self.norm, self.drop = nn.BatchNorm2d(8), nn.Dropout2d(0.2)
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        x = self.drop(F.relu(self.norm(self.first(images))))
        return self.head(F.relu(self.second(x)).mean((-1, -2)))


class Recurrent(nn.Module):
    """x [B, 4, 24]: four steps of a cell, between which its state is dropped from."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(24, own.WIDTH), nn.Linear(own.WIDTH, 10)

    def forward(self, x):
        hidden = cells = x.new_zeros(x.shape[0], own.WIDTH)
        for step in range(4):
            hidden, cells = self.cell(x[:, step], (F.dropout(hidden, 0.2), cells))
        return self.head(hidden)


class Predicted(nn.Module):
    """tokens [B, L]: a language model's loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        scores = self.model(tokens[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


class Pooled(nn.Module):
    """Classes of the mean over a sequence that a model gives."""

    def __init__(self, model):
        super().__init__()
        self.model, self.head = model, nn.Linear(peers.WIDTH, 10)

    def forward(self, *arguments):
        return self.head(self.model(*arguments).mean(1))


def classified(draw):
    """What another function draws, and a class for each of the first tensor's rows."""
    def drawn(source):
        arguments = draw(source)
        return *arguments, torch.randint(0, 10, arguments[0].shape[:1])

    return drawn


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adam(parameters):
    """Its epsilon is above what rounding leaves of gradients that are zero, such as those of the
    biases of keys; else these parameters would move by the sign of their errors."""
    return torch.optim.AdamW(parameters, lr=2e-3, eps=1e-5)


def all_trainings():
    rows, floats = {0: {0: zoo.ROWS}, 1: {0: zoo.ROWS}}, zoo.floats
    long = {0: {0: zoo.ROWS, 1: zoo.LENGTHS}, 1: {0: zoo.ROWS}}
    return [
        Training("mlp", "own", lambda: Classified(nn.Sequential(own.Mlp(nn.Dropout(0.25)),
                                                                nn.ReLU(), nn.Linear(16, 10))),
                 classified(floats((2, 16), own.WIDTH)), rows, momentum, in_ci=True),
        Training("block", "own", lambda: Classified(Block()),
                 classified(floats((2, 5), (2, 12), own.WIDTH)), long, adam),
        Training("convolved", "own", lambda: Classified(Convolved()),
                 classified(floats((2, 6), 3, 8, 8)),
                 {0: {0: zoo.IMAGES}, 1: {0: zoo.IMAGES}}, momentum),
        Training("recurrent", "own", lambda: Classified(Recurrent()),
                 classified(floats((2, 8), 4, 24)), rows, adam),
        Training("vision_encoder", "torchvision",
                 lambda: Classified(Pooled(peers.make_vision_encoder())),
                 classified(floats((2, 4), 17, 32)), rows, adam),
        Training("gpt2", "transformers", lambda: Predicted(peers.make_gpt2()),
                 lambda source: zoo.tokens(source, shortest=3),
                 {0: {0: zoo.ROWS, 1: (3, 64)}}, adam),
        Training("distilbert", "transformers",
                 lambda: Classified(Pooled(peers.make_distilbert())), classified(zoo.tokens),
                 long, momentum),
    ]
