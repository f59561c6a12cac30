"""Modules that people might train, for `treefold train my_models:NAME`."""

import threading

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


class Attention(nn.Module):
    """Heads without projections."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.last = nn.Linear(128, 128)

    def forward(self, x):
        heads = x.view(1, 64, 8, 16).transpose(1, 2)
        seen = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return self.dropout(self.last(seen.transpose(1, 2).flatten(2)))


def attention():
    return Attention(), torch.zeros(1, 64, 128)


def recurrent():
    return nn.LSTM(32, 64, batch_first=True), torch.zeros(1, 50, 32)


def frozen_below():
    below = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512)).requires_grad_(False)
    return nn.Sequential(*below, nn.Linear(512, 10)), torch.zeros(1, 512)


def upsampled():
    return nn.ConvTranspose2d(8, 16, 2, stride=2), torch.zeros(1, 8, 10, 10)


def square_attention():
    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(16, 16)

        def forward(self, x):
            return self.last(nn.functional.scaled_dot_product_attention(x, x, x))

    return Square(), torch.zeros(1, 8, 16, 16)


class Einsum(nn.Module):
    """A linear layer, written another way."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(64, 32))

    def forward(self, x):
        return torch.einsum("bti,ij->btj", x, self.weight)


def by_einsum():
    return Einsum(), torch.zeros(1, 16, 64)


class LowRank(nn.Module):
    """A frozen layer and a trained correction of low rank."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(64, 64, bias=False).requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.zeros(4, 64)), nn.Parameter(torch.zeros(64, 4))

    def forward(self, x):
        linear = nn.functional.linear
        return linear(x, self.base.weight) + linear(linear(x, self.down), self.up)


def low_rank():
    return LowRank(), torch.zeros(1, 64)


def no_dropout():
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Dropout(0.5).eval()), torch.zeros(1, 4)


class Masked(nn.Module):
    """A mask that is no buffer, and positions that are made on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        with torch.device("cpu"):
            self.mask = torch.ones(4)

    def forward(self, x):
        return self.linear(x * self.mask + torch.arange(4))


def masked():
    return Masked(), torch.zeros(1, 4)


def old_weight_norm():
    return nn.utils.weight_norm(nn.Linear(4, 4)), torch.zeros(1, 4)


def scripted_inside():
    return nn.Sequential(nn.Linear(3, 3), torch.jit.script(nn.Linear(3, 3))), torch.zeros(1, 3)


def lazy():
    return nn.LazyLinear(3), torch.zeros(1, 3)


def locked():
    module = nn.Linear(3, 3)
    module.lock = threading.Lock()
    return module, torch.zeros(1, 3)


class Nested(nn.Linear):
    def forward(self, batch):
        return super().forward(batch["x"])


def nested_batch():
    return Nested(3, 3), ({"x": torch.zeros(8, 3)},)


def normed():
    return nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64)), torch.zeros(1, 64)


def talkative():
    print("hello from build")
    return words()


def scripted():
    return torch.jit.script(nn.Linear(3, 3)), torch.zeros(1, 3)


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
