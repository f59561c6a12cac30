"""Which transport carries the messages of a group, and what has to be installed for it."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

from treefold.errors import TreefoldError
from treefold.runtime.driver import Engine
from treefold.workers import said
from treefold.workers.group import PATIENCE, MakeEngine
from treefold.workers.rendezvous import Rendezvous, all_or_none, failures_of, launcher, mpi
from treefold.workers.sockets import listen

TRANSPORTS = ("tcp", "mpi", "torch", "threads")


def choose(transport: str | None, is_local: bool) -> str:
    """Return the name of a transport; by default threads where all ranks are local, and MPI under mpiexec.

    Raises:
        TreefoldError: If there is none of this name, or it does not fit.

    """
    if transport is None:
        return "threads" if is_local else "mpi" if launcher() == "mpiexec" else "tcp"
    if transport not in TRANSPORTS:
        raise TreefoldError(f"transport '{transport}' is unknown; known are {', '.join(TRANSPORTS)}")
    if transport == "threads" and not is_local:
        raise TreefoldError("transport 'threads' joins ranks of one process: write --local 4, or another transport")
    if transport == "mpi" and is_local:
        raise TreefoldError(
            "transport 'mpi' joins what mpiexec started: write mpiexec -n 4 treefold run instead of --local 4"
        )
    return transport


def engine(transport: str, rendezvous: Rendezvous) -> MakeEngine | None:
    """Return what makes the engine of a transport; None for TCP, which is a group's own. All call this together.

    Raises:
        TreefoldError: If an extra is missing, with the command that installs it, or torch cannot listen or connect.

    """
    makers: dict[str, Callable[[Rendezvous], MakeEngine]] = {"mpi": _mpi, "torch": _torch}
    return makers[transport](rendezvous) if transport in makers else None


def _mpi(rendezvous: Rendezvous) -> MakeEngine:
    world = mpi("transport 'mpi'").COMM_WORLD
    if (world.Get_rank(), world.Get_size()) != (rendezvous.rank, rendezvous.size):
        raise TreefoldError(
            f"MPI counts this process as rank {world.Get_rank()} of {world.Get_size()}, the group as rank "
            f"{rendezvous.rank} of {rendezvous.size}; start all with mpiexec, or use another transport"
        )

    def make(worker_of_rank: list[int]) -> Engine:
        from treefold.runtime.mpi import MpiEngine

        return MpiEngine(world, worker_of_rank)

    return make


def _torch(rendezvous: Rendezvous) -> MakeEngine:
    distributed, messages, device = all_or_none(rendezvous, lambda: _torch_parts(rendezvous))
    store, made = _store(distributed, rendezvous), itertools.count()

    def make(worker_of_rank: list[int]) -> Engine:
        own = distributed.PrefixStore(f"messages/{next(made)}", store)
        gloo = messages.gloo_on(device, own, rendezvous.rank, rendezvous.size, _WAIT)
        engine: Engine = messages.TorchEngine(gloo, worker_of_rank, own)
        return engine

    return make


_WAIT = timedelta(seconds=PATIENCE.silence_s)


def _torch_parts(rendezvous: Rendezvous) -> tuple[Any, Any, Any]:
    """Return torch.distributed, our engine, and gloo's device, which listens where the rendezvous does."""
    try:
        # By its name, because PyTorch's part stands on this one.
        messages = import_module("treefold.torch.engine")
        distributed: Any = import_module("torch.distributed")
    except ImportError:
        raise TreefoldError("transport 'torch' needs PyTorch; install it: pip install 'treefold[torch]'") from None
    with failures_of(f"gloo cannot use {rendezvous.address}", "choose another --interface, or --transport tcp"):
        return distributed, messages, distributed.ProcessGroupGloo.create_device(hostname=rendezvous.address)


def _store(distributed: Any, rendezvous: Rendezvous) -> Any:
    """Return a store of torch at rank 0, which listens where its rendezvous does, and only there."""

    def enter(host: str, port: int, **serving: Any) -> Any:
        with failures_of(f"torch's store at {host} port {port}", "look at rank 0's output, and at firewalls between"):
            return distributed.TCPStore(
                host, port, rendezvous.size, bool(serving), _WAIT, wait_for_workers=False, **serving
            )

    def serve() -> Any:
        # By itself a store listens on all interfaces, whatever address it is given.
        with listen(rendezvous.address) as listener:
            return enter(rendezvous.address, listener.getsockname()[1], master_listen_fd=listener.detach())

    store = all_or_none(rendezvous, lambda: None if rendezvous.rank else serve())
    mine = [rendezvous.address, store.port if store else 0]
    host, port = said.exchange(rendezvous.exchange, mine, (str, said.is_port))[0]
    return all_or_none(rendezvous, lambda: store or enter(host, port))
