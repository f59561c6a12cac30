"""Chooses the transport that carries the messages of a group, and makes the engine that it needs."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

from treefold import checks
from treefold.errors import TreefoldError
from treefold.extras import missing
from treefold.rendezvous import Rendezvous, validation
from treefold.rendezvous.launchers import launcher
from treefold.rendezvous.meeting import all_or_none, failures_of
from treefold.rendezvous.mpi import import_mpi
from treefold.rendezvous.sockets import listen
from treefold.runtime.connections import DEFAULT
from treefold.runtime.engine import Engine, MakeEngine

BETWEEN_PROCESSES = ("tcp", "mpi", "torch")
"""The names of the transports that join processes."""

TRANSPORTS = (*BETWEEN_PROCESSES, "threads")
"""The names of all transports."""

_WAIT = timedelta(seconds=DEFAULT.silence_s)


def choose_transport(transport: str | None, is_local: bool) -> str:
    """Return the name of a transport; by default threads where all workers are local, and MPI under mpiexec.

    Raises:
        TreefoldError: If no transport has this name, or it does not fit.

    """
    if transport is None:
        return "threads" if is_local else "mpi" if launcher() == "mpiexec" else "tcp"
    if transport not in TRANSPORTS:
        raise TreefoldError(f"transport '{transport}' is unknown; known are {', '.join(TRANSPORTS)}")
    if transport == "threads" and not is_local:
        raise TreefoldError(
            "transport 'threads' joins the threads of one process: start them with runtime.local(NUMBER), or take "
            "another transport"
        )
    if transport == "mpi" and is_local:
        raise TreefoldError(
            "transport 'mpi' joins what mpiexec started: start treefold run by mpiexec -n NUMBER "
            "instead of as workers of this machine alone"
        )
    return transport


def engine_maker(transport: str, meeting: Rendezvous) -> MakeEngine | None:
    """Return what `join` takes as `engine`, so that MPI or torch carries a group's messages.

    All workers call this together. The code `join(meeting, engine=engine_maker("mpi", meeting))` joins the workers that
    mpiexec has started.

    Args:
        transport: `mpi` (mpi4py), `torch` (gloo), or `tcp` (treefold's own connections).
        meeting: The rendezvous of the workers, such as `from_environment()`.

    Returns:
        A function that makes the engine when the group forms; None for `tcp`, which needs no engine.

    Raises:
        TreefoldError: If the transport is unknown, an extra is missing (with the command that installs it), MPI numbers
            the workers in another way, or torch cannot listen or connect.

    Example:
        >>> from treefold import runtime
        >>> [meeting] = runtime.local(1)
        >>> group = runtime.join(meeting, engine=runtime.engine_maker("tcp", meeting))  # "mpi" under mpiexec
        >>> group.size
        1
        >>> group.close()

    """
    makers: dict[str, Callable[[Rendezvous], MakeEngine]] = {"mpi": _mpi, "torch": _torch}
    name = checks.name("transport", transport, BETWEEN_PROCESSES)
    return makers[name](meeting) if name in makers else None


def _mpi(meeting: Rendezvous) -> MakeEngine:
    world = import_mpi("transport 'mpi'").COMM_WORLD
    if (world.Get_rank(), world.Get_size()) != (meeting.rank, meeting.size):
        raise TreefoldError(
            f"MPI counts this process as {world.Get_rank()} of {world.Get_size()}, the group as worker "
            f"{meeting.rank} of {meeting.size}; start all with mpiexec, or use another transport"
        )

    def make(worker_of_rank: list[int]) -> Engine:
        from treefold.runtime.mpi import MpiEngine

        return MpiEngine(world, worker_of_rank)

    return make


def _torch(meeting: Rendezvous) -> MakeEngine:
    distributed, torch_engine, device = all_or_none(meeting, lambda: _torch_parts(meeting))
    store, numbers = _store(distributed, meeting), itertools.count()

    def make(worker_of_rank: list[int]) -> Engine:
        own = distributed.PrefixStore(f"messages/{next(numbers)}", store)
        gloo = torch_engine.gloo_on(device, own, meeting.rank, meeting.size, _WAIT)
        engine: Engine = torch_engine.TorchEngine(gloo, worker_of_rank, own)
        return engine

    return make


def _torch_parts(meeting: Rendezvous) -> tuple[Any, Any, Any]:
    """Return torch.distributed, treefold's engine for it, and a gloo device that listens where the rendezvous does."""
    try:
        # It is imported by its name because treefold.torch imports this package.
        torch_engine = import_module("treefold.torch.engine")
        distributed: Any = import_module("torch.distributed")
    except ImportError:
        raise missing("transport 'torch'", "torch") from None
    with failures_of(f"gloo cannot use {meeting.address}", "choose another interface, or transport='tcp'"):
        return distributed, torch_engine, distributed.ProcessGroupGloo.create_device(hostname=meeting.address)


def _store(distributed: Any, meeting: Rendezvous) -> Any:
    """Return a store of torch at worker 0, which listens where its rendezvous does, and only there."""

    def enter(host: str, port: int, **serving: Any) -> Any:
        with failures_of(f"torch's store at {host} port {port}", "look at worker 0's output, and at firewalls between"):
            return distributed.TCPStore(
                host, port, meeting.size, bool(serving), _WAIT, wait_for_workers=False, **serving
            )

    def serve() -> Any:
        # Without a listener of its own, a store listens on all interfaces, whatever address it is given.
        with listen(meeting.address) as listener:
            return enter(meeting.address, listener.getsockname()[1], master_listen_fd=listener.detach())

    store = all_or_none(meeting, lambda: None if meeting.rank else serve())
    mine = [meeting.address, store.port if store else 0]
    host, port = validation.exchange(meeting.exchange, mine, (str, validation.is_port))[0]
    return all_or_none(meeting, lambda: store or enter(host, port))
