"""Finds the launcher that started this process as a worker, and joins the rendezvous that it offers."""

import os

from treefold import environment
from treefold.errors import TreefoldError
from treefold.rendezvous.master import from_master
from treefold.rendezvous.meeting import Rendezvous
from treefold.rendezvous.mpi import from_mpi
from treefold.rendezvous.store import from_torchrun
from treefold.rendezvous.variables import MPI_VARIABLES, VARIABLES, master_port, rank_and_size


def from_environment(
    timeout_s: float = 60, interface: str | None = None, own_port: int | str | None = None
) -> Rendezvous:
    """Meet the other workers of this job; return once all have arrived.

    torchrun and mpiexec tell a process its number and how many there are; without either, set RANK, WORLD_SIZE,
    MASTER_ADDR and MASTER_PORT.

    Args:
        timeout_s: How many seconds to wait for the others, here and in each exchange.
        interface: The name or address of the interface on which to listen; by default TREEFOLD_INTERFACE, else the one
            with which this worker reaches MASTER_ADDR.
        own_port: The port on which this worker listens for other workers, or `none` if it does not listen; by default
            TREEFOLD_PORT, else one that the system chooses.

    Raises:
        TreefoldError: If nothing tells this process its number, a worker is missing, two workers have the same number,
            or workers disagree.

    Example:
        The environment has RANK=0, WORLD_SIZE=1, MASTER_ADDR and MASTER_PORT before Python starts.

        >>> from treefold import runtime
        >>> meeting = runtime.from_environment()
        >>> meeting.rank, meeting.size
        (0, 1)
        >>> meeting.close()

    """
    environment.warn_of_unknown_variables()
    variables = os.environ
    started_by = launcher()
    if started_by == "torchrun":
        return from_torchrun(variables, timeout_s, interface, own_port)
    if started_by == "mpiexec":
        return from_mpi(timeout_s, interface, own_port)
    missing = [name for name in VARIABLES if not variables.get(name)]
    if missing:
        raise TreefoldError(
            f"this process is not a worker of a group: {', '.join(missing)} not set; start it with torchrun or "
            "mpiexec, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (on this machine alone, "
            "runtime.local(4) will do)"
        )
    rank, size = rank_and_size(variables, "RANK", "WORLD_SIZE")
    port = master_port(variables)
    return from_master(rank, size, variables["MASTER_ADDR"], port, timeout_s, interface, own_port=own_port)


def launcher() -> str | None:
    """Return what started this process as a worker, as its environment tells: `torchrun`, `mpiexec` or None."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return "torchrun"
    by_mpi = any(rank in os.environ for rank, _ in MPI_VARIABLES)
    return "mpiexec" if by_mpi and not all(name in os.environ for name in VARIABLES) else None
