"""Your own PyTorch model: what a faster all-reduce would be worth to it, without weights, data or a GPU.

`python examples/03_your_model.py`, with treefold[torch] installed.
"""

import torch
from torch import nn

import treefold
from treefold.report import train_table
from treefold.training import GPUS


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self, width: int = 768, heads: int = 12, blocks: int = 12, classes: int = 1000) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 16, stride=16)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Classify an image of any size that patches of 16 x 16 cover."""
        patches = self.embed(image).flatten(2).transpose(1, 2)
        return self.head(self.blocks(patches).mean(1))


def build() -> tuple[nn.Module, torch.Tensor]:
    """Return the model and an image: `treefold train 03_your_model:build NETWORK` calls this."""
    return Patches(), torch.empty(1, 3, 224, 224)


if __name__ == "__main__":
    model = treefold.training.load("03_your_model:build")
    print(f"{model.parameters:,} parameters, {2 * sum(layer.macs for layer in model.layers) / 1e9:.1f} GFLOP an image")
    # Four servers of eight GPUs, each with its own NIC of 400 Gbit/s.
    network = treefold.topology("cluster:nodes=4,gpus=8,rails=8")
    report = treefold.train(
        model, network, "ring,dbtree,multitree", accelerator=GPUS["a100"], batch=32, overlap="bucket", simulator="flow"
    )
    print(train_table(report))
