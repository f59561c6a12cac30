"""HSDP on two sites with two ranks each: parameters are sharded inside a site, and gradients cross between sites.

`torchrun --standalone --nproc-per-node 4 examples/06_hsdp.py`, with treefold[torch] installed. Here all four processes
are on one machine. On machines of two sites, start torchrun with TREEFOLD_NAME=paris at one and TREEFOLD_NAME=oslo at
the other, and with "cuda" in the place of "cpu": then NCCL works inside the sites.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import treefold
import treefold.torch

SITES, RANKS = ["paris", "oslo"], 2
STEPS, WIDTH = 5, 128


def network() -> treefold.Topology:
    """Return the network between the sites, which a file would describe, or TREEFOLD_TOPOLOGY=discover measure."""
    line = treefold.topology("line:2", bandwidth_Bps="1Gbit/s", latency_s="9ms")
    return line.renamed("wan", nodes=dict(zip(line.rank_names, SITES, strict=True)))


def model() -> nn.Module:
    """Return a model whose layers are sharded one by one."""
    torch.manual_seed(1)
    mesh = init_device_mesh("cpu", (len(SITES), RANKS), mesh_dim_names=("replicate", "shard"))
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(4)]
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    whole = nn.Sequential(*layers)
    fully_shard(whole, mesh=mesh)
    return whole


def main() -> None:
    """Train, and let rank 0 print the losses, and what its groups have done."""
    os.environ.setdefault("TREEFOLD_NAME", SITES[int(os.environ["RANK"]) // RANKS])
    treefold.torch.configure(topology=network())
    dist.init_process_group("treefold")
    trained = model()
    optimizer = torch.optim.AdamW(trained.parameters(), 1e-2)
    batch = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = (trained(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach(), dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"step {step}: loss {mean.item():.4f}")
    if dist.get_rank() == 0:
        for group in treefold.torch.statistics():
            for each in group.calls:
                how = f"{each.calls} by plan" if each.calls else f"{each.passed_on} passed on"
                print(f"ranks {group.ranks} at {' and '.join(group.sites)}: {each.call}, {how}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
