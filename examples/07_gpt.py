"""A small GPT learns a language that this script makes up: with gloo and with treefold, losses side by side.

`torchrun --standalone --nproc-per-node 4 examples/07_gpt.py`, with treefold[torch] installed. It takes a minute on two
cores. Sums of floating point depend on the order of their terms, so that the losses differ in their last digits.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import treefold.torch

WORDS = ["the tree ", "a link ", "each rank ", "sums ", "sends ", "halves ", "and ", "its part. "]
NEXT = [(3, 4), (3, 5), (4, 5), (1, 7), (0, 7), (1, 7), (2, 0), (0, 6)]
LETTERS = sorted(set("".join(WORDS)))
WIDTH, HEADS, LAYERS, LENGTH, BATCH, STEPS = 64, 4, 2, 32, 16, 60


def text(letters: int, seed: int) -> torch.Tensor:
    """Return so many letters of a text in which each word is followed by one of two others."""
    chance, word, written = torch.Generator().manual_seed(seed), 0, ""
    while len(written) < letters:
        written += WORDS[word]
        word = NEXT[word][int(torch.randint(2, (), generator=chance))]
    return torch.tensor([LETTERS.index(letter) for letter in written[:letters]])


class Gpt(nn.Module):
    """A transformer that says which letter comes next."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        """Return how likely each letter is behind each one of a batch of texts."""
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        at = self.letters(letters) + self.places(torch.arange(LENGTH))
        return self.head(self.blocks(at, mask, is_causal=True))


def train(group: dist.ProcessGroup) -> list[float]:
    """Train a new model over a process group; return the mean loss of all ranks at every tenth step."""
    torch.manual_seed(1)
    model = DistributedDataParallel(Gpt(), process_group=group)
    optimizer, losses = torch.optim.AdamW(model.parameters(), 3e-3), []
    corpus = text(20_000, dist.get_rank())
    chance = torch.Generator().manual_seed(dist.get_rank())
    for step in range(STEPS):
        starts = torch.randint(len(corpus) - LENGTH - 1, (BATCH,), generator=chance)
        batch = torch.stack([corpus[start : start + LENGTH + 1] for start in starts.tolist()])
        optimizer.zero_grad()
        loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach(), dist.ReduceOp.AVG, group=group)
        losses += [mean.item()] if step % 10 == 9 else []
    return losses


def main() -> None:
    """Train twice, and let rank 0 print both columns of losses."""
    torch.set_num_threads(1)
    treefold.torch.configure(topology="ring:4")
    dist.init_process_group("treefold")
    ours, theirs = train(dist.group.WORLD), train(dist.new_group(backend="gloo"))
    if dist.get_rank() == 0:
        print("step  treefold  gloo")
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
            print(f"{10 * number:4}  {mine:8.2f}  {other:.2f}")
        same = all(abs(mine - other) < 1e-3 * other for mine, other in zip(ours, theirs, strict=True))
        print("the losses agree" if same else "the losses differ")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
