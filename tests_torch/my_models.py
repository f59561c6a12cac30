"""Modules that people might train, for `treefold train my_models:NAME`."""

import torch
from torch import nn


class Words(nn.Module):
    """An encoder whose vocabulary's weights are used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2, enable_nested_tensor=False
        )
        self.vocabulary = nn.Linear(64, 1000, bias=False)
        self.vocabulary.weight = self.embedding.weight

    def forward(self, tokens):
        return self.vocabulary(self.encoder(self.embedding(tokens)))


class Images(nn.Module):
    """Convolutions, one of them in groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(64)
        self.second = nn.Conv2d(64, 128, 3, padding=1, groups=4)
        self.frozen = nn.Linear(128, 128).requires_grad_(False)
        self.last = nn.Linear(128, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        return self.last(self.frozen(self.second(x).mean((2, 3))))


def words():
    return Words(), (torch.zeros(1, 16, dtype=torch.int64),)


def words_by_name():
    return Words(), {"tokens": torch.zeros(1, 16, dtype=torch.int64)}


def words_in_a_batch():
    return Words(), torch.zeros(8, 16, dtype=torch.int64)


def images():
    return Images()


def frozen():
    return nn.Linear(3, 3).requires_grad_(False), torch.zeros(1, 3)


def number():
    return 3


def broken():
    raise RuntimeError("no such luck")


def too_narrow():
    return nn.Linear(32, 64), torch.zeros(1, 31)


not_a_function = 7
