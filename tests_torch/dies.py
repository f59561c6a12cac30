"""Trains with DDP on three ranks, of which rank 1 is killed; prints what the others are told, a JSON line a rank.

    python tests_torch/dies.py BACKEND [hook]

torch is imported once, and the ranks are forks.
"""

import json
import multiprocessing
import os
import signal
import sys

import torch
import torch._dynamo.utils  # what DDP imports, too
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import treefold.torch
from treefold.rendezvous.sockets import free_port

SIZE, DIES = 3, 1


def train(rank: int, backend: str, hooked: bool) -> None:
    os.environ["RANK"] = str(rank)
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    layers = torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64)
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.05)
    if hooked:
        model.register_comm_hook(None, treefold.torch.comm_hook)
    told: dict[str, object] = {"rank": rank}
    for step in range(5):
        if rank == DIES and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            model(torch.randn(8, 64)).square().mean().backward()
        except treefold.torch.RankLostError as lost:
            told |= {"error": str(lost), "ranks": lost.workers}
            break
    sys.stdout.write(json.dumps(told) + "\n")  # at once, so that lines of two ranks do not mix
    sys.stdout.flush()
    dist.destroy_process_group()


def main(backend: str, *hook: str) -> None:
    os.environ.update(GLOO_SOCKET_IFNAME="lo", TREEFOLD_TOPOLOGY=f"ring:{SIZE}", TREEFOLD_LEAST_SIZE="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port("127.0.0.1")), WORLD_SIZE=str(SIZE))
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=train, args=(rank, backend, bool(hook))) for rank in range(SIZE)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    assert [each.exitcode for each in ranks] == [0, -signal.SIGKILL, 0]


if __name__ == "__main__":
    main(*sys.argv[1:])
