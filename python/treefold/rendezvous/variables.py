"""The environment variables with which launchers tell a process its rank, and how they are read."""

from collections.abc import Mapping

from treefold.checks import whole_in
from treefold.errors import TreefoldError
from treefold.rendezvous.meeting import MOST_WORKERS
from treefold.text import visible

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The variables of a worker that is started by hand, or by torchrun."""

MPI_VARIABLES = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
"""The rank and size variables of MPI's launchers."""

MOST_PORT = (1 << 16) - 1


def rank_and_size(variables: Mapping[str, str], rank_name: str, size_name: str) -> tuple[int, int]:
    """Return a worker's rank and the number of workers.

    Raises:
        TreefoldError: If a variable is not a whole number, or the rank does not exist.

    """
    rank, size = (_whole_number(variables, name, MOST_WORKERS) for name in (rank_name, size_name))
    if not rank < size:
        raise TreefoldError(f"{rank_name} {rank} does not exist in a {size_name} of {size}; it counts from 0")
    return rank, size


def master_port(variables: Mapping[str, str]) -> int:
    """Return the port of MASTER_PORT.

    Raises:
        TreefoldError: If it is not a port.

    """
    return _whole_number(variables, "MASTER_PORT", MOST_PORT)


def _whole_number(variables: Mapping[str, str], name: str, most: int) -> int:
    text = variables.get(name, "").strip()
    if (number := whole_in(text, 0, most)) is None:
        shown = visible(text if len(text) <= 20 else f"{text[:20]}...")
        raise TreefoldError(f"{name} '{shown}' is not a whole number from 0 to {most}; set it to one")
    return number
