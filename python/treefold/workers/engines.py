"""Which transport carries the messages of a group, and what has to be installed for it."""

from collections.abc import Callable
from typing import Any

from treefold._core import TreefoldError
from treefold.runtime.driver import Engine
from treefold.workers.group import MakeEngine
from treefold.workers.rendezvous import Rendezvous, launcher

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
    """Return what makes the engine of a transport; None for TCP, which is a group's own.

    Raises:
        TreefoldError: If an extra is missing, with the command that installs it.

    """
    makers: dict[str, Callable[[Rendezvous], MakeEngine]] = {"mpi": _mpi}
    return makers[transport](rendezvous) if transport in makers else None


def _mpi(rendezvous: Rendezvous) -> MakeEngine:
    try:
        from mpi4py import MPI
    except ImportError:
        raise TreefoldError("transport 'mpi' needs mpi4py; install it: pip install 'treefold[mpi]'") from None
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise TreefoldError(f"mpi4py finds no MPI ({reason}); install one: pip install 'treefold[mpi]'") from None
    world: Any = MPI.COMM_WORLD
    if (world.Get_rank(), world.Get_size()) != (rendezvous.rank, rendezvous.size):
        raise TreefoldError(
            f"MPI counts this process as rank {world.Get_rank()} of {world.Get_size()}, the group as rank "
            f"{rendezvous.rank} of {rendezvous.size}; start all with mpiexec, or use another transport"
        )

    def make(worker_of_rank: list[int]) -> Engine:
        from treefold.runtime.mpi import MpiEngine

        return MpiEngine(world, worker_of_rank)

    return make
