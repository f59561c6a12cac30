"""Replicas that torchft trains, each a process: one may be killed in mid-step, and a new one may come.

All numbers are whole multiples of one small power of two, however many replicas share in an average, so that sums are
exact in any order and a replay in one process must give the same bits.
"""

import hashlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
import torchft
from torch import nn
from torchft.local_sgd import DiLoCo, LocalSGD
from torchft.process_group import ProcessGroupGloo

import treefold.torch
import treefold.torchft

SHAPE = (64, 512)
SYNC_EVERY = 2
RATE, OUTER_RATE = 0.125, 0.5
TIMEOUT = timedelta(seconds=20)
PAUSE_S = 0.02


@dataclass(frozen=True)
class Job:
    """What a replica trains."""

    way: str
    """`ddp`, `local_sgd` or `diloco`."""
    backend: str
    """`treefold` or `gloo`."""
    site: str
    lighthouse: str
    topology: str = ""


class Halves(nn.Module):
    """A loss that is linear in two large parameters, so that their gradients are what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Parameter(torch.zeros(SHAPE)), nn.Parameter(torch.ones(SHAPE))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return (self.one * given).sum() + (self.other * (given + 6)).sum()


def given_to(site: str, step: int, inner: int = 0) -> torch.Tensor:
    """Return what a site's model is given: multiples of 6, which divide by two and by three."""
    chosen = torch.Generator().manual_seed(1000 * step + 100 * inner + sum(map(ord, site)))
    return 6.0 * torch.randint(-8, 9, SHAPE, generator=chosen)


def digest(module: nn.Module) -> str:
    """Return what tells the bits of a model's parameters from others."""
    bits = b"".join(each.detach().numpy().tobytes() for each in module.parameters())
    return hashlib.sha256(bits).hexdigest()[:16]


def _state(module: nn.Module, optimizer: Any) -> dict[str, Any]:
    parts = {"model": module, "optimizer": optimizer}
    return {
        "load_state_dict": lambda state: [parts[name].load_state_dict(state[name]) for name in parts],
        "state_dict": lambda: {name: part.state_dict() for name, part in parts.items()},
    }


def _group(job: Job) -> Any:
    if job.backend == "gloo":
        return ProcessGroupGloo(TIMEOUT)
    options = treefold.torch.Options(topology=job.topology) if job.topology else None
    return treefold.torchft.ProcessGroupTreefold(TIMEOUT, options)


@contextmanager
def _manager(job: Job, group: Any, state: dict[str, Any]) -> Iterator[torchft.Manager]:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = torchft.Manager(
        group,
        **state,
        min_replica_size=2,
        init_sync=False,
        use_async_quorum=job.way == "ddp",
        timeout=TIMEOUT,
        quorum_timeout=TIMEOUT,
        connect_timeout=TIMEOUT,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=job.lighthouse,
        replica_id=job.site,
        hostname="127.0.0.1",
    )
    try:
        yield manager
    finally:
        manager.shutdown(wait=False)
        group.shutdown()


class Orders:
    """What a replica is told while it trains: to end after a step, or to die in the middle of one, or between two."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.last_step = 1 << 30
        self._place, self._calls = "", 0

    def tell(self, what: dict[str, Any]) -> None:
        """Tell the parent."""
        self._pipe.send(what)

    def read(self) -> None:
        """Read what has come, between two steps."""
        while self._pipe.poll():
            order, value = self._pipe.recv()
            if order == "end":
                self.last_step = value
            else:
                self._place, self._calls = value, 0
        if self._place == "between":
            self._die()

    def counts(self, manager: torchft.Manager) -> None:
        """Die at the second all-reduce of a step, if that is the order: the first one is done on all replicas."""
        reduce = manager.allreduce

        def all_reduce(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            if self._place == "middle" and self._calls == 2:
                self._die()
            return reduce(*args, **kwargs)

        manager.allreduce = all_reduce

    def _die(self) -> None:
        self.tell({"killed": time.monotonic()})
        os.kill(os.getpid(), signal.SIGKILL)


def train(job: Job, orders: Orders) -> None:
    """Train as one replica."""
    torch.set_num_threads(1)
    module, group = Halves(), _group(job)
    inner = torch.optim.SGD(module.parameters(), RATE)
    with _manager(job, group, _state(module, inner)) as manager:
        orders.counts(manager)
        way = _train_ddp if job.way == "ddp" else _train_locally
        way(job, manager, module, inner, orders)
        orders.tell({"status": str(group.status()) if job.backend == "treefold" else ""})


def _train_ddp(job: Job, manager: torchft.Manager, module: Any, inner: Any, orders: Orders) -> None:
    # A bucket for each parameter.
    model = torchft.DistributedDataParallel(manager, module, bucket_cap_mb=0.01)
    optimizer = torchft.Optimizer(manager, inner)
    while (step := manager.current_step()) < orders.last_step:
        optimizer.zero_grad()
        model(given_to(job.site, step)).backward()
        optimizer.step()
        _tell_step(manager, module, step, orders)


def _train_locally(job: Job, manager: torchft.Manager, module: Any, inner: Any, orders: Orders) -> None:
    if job.way == "local_sgd":
        way: Any = LocalSGD(manager, module, inner, SYNC_EVERY)
    else:
        way = DiLoCo(manager, [module], inner, torch.optim.SGD(module.parameters(), OUTER_RATE), SYNC_EVERY)
    with way:
        while (step := manager.current_step()) < orders.last_step:
            for at in range(SYNC_EVERY):
                inner.zero_grad()
                module(given_to(job.site, step, at)).backward()
                inner.step()
            _tell_step(manager, module, step, orders)


def _tell_step(manager: torchft.Manager, module: nn.Module, began: int, orders: Orders) -> None:
    """Tell the step that was tried: `began` is what the replica took for its number before it had a quorum."""
    committed = manager._commit_failures == 0
    told = {"began": began, "step": manager.current_step() - committed, "committed": committed, "at": time.monotonic()}
    orders.tell(told | {"took_part": manager.is_participating(), "digest": digest(module)})
    time.sleep(PAUSE_S)
    orders.read()


def _serve(pipe: Connection, job: Job) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    train(job, Orders(pipe))


class Replica:
    """A replica's process, and what it has told."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch._dynamo", "treefold.torchft", "torchft.local_sgd"])
        self.job, self.told = job, list[dict[str, Any]]()
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        self.process.start()
        theirs.close()

    def order(self, order: str, value: Any) -> None:
        """Give the replica an order."""
        self._pipe.send((order, value))

    def listen(self) -> None:
        """Take in what the replica has told."""
        with suppress(EOFError, ConnectionResetError):
            while self._pipe.poll():
                self.told.append(self._pipe.recv())

    @property
    def tries(self) -> list[dict[str, Any]]:
        """The steps that the replica has tried."""
        return [each for each in self.told if "step" in each]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps that the replica has committed."""
        return [each for each in self.tries if each["committed"]]

    def last(self, key: str) -> Any:
        """Return what the replica has told last under a key; None if nothing."""
        return next((each[key] for each in reversed(self.told) if key in each), None)

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self._pipe.close()
