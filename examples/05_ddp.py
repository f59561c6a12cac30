"""DDP on four processes whose network is a ring: nothing but the backend's name differs from a script for gloo.

`torchrun --standalone --nproc-per-node 4 examples/05_ddp.py`, with treefold[torch] installed.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import treefold.torch

STEPS, SAMPLES = 60, 64


def data(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a rank's own samples of a function that the model learns."""
    inputs = torch.rand(SAMPLES, 2, generator=torch.Generator().manual_seed(rank)) * 4 - 2
    return inputs, inputs[:, :1].sin() * inputs[:, 1:].cos()


def main() -> None:
    """Train, and let rank 0 print the losses and what crossed the network."""
    treefold.torch.configure(topology="ring:4")  # or TREEFOLD_TOPOLOGY, a file, or discover
    dist.init_process_group("treefold")
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 256), nn.Tanh(), nn.Linear(256, 1)))
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    inputs, targets = data(dist.get_rank())
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach(), dist.ReduceOp.AVG)
        if dist.get_rank() == 0 and step % 10 == 9:
            print(f"step {step + 1}: loss {mean.item():.4f}")
    if dist.get_rank() == 0:
        print(treefold.torch.status())
        [group] = treefold.torch.statistics()
        sums = next(each for each in group.calls if each.call == "all_reduce")
        print(f"{sums.calls} all-reduces of gradients by plan, with {sums.bytes} bytes")
        print(f"{sums.passed_on} all-reduces of losses passed on, with {sums.passed_on_bytes} bytes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
