"""The mapping of workers to ranks of the plan.

A worker is a process or thread of the group, numbered by the rendezvous; a rank is an accelerator of the plan's
network.
Workers are mapped to ranks by name where every worker has a name, else by order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from treefold._core import Topology
from treefold.checks import guess
from treefold.errors import TreefoldError
from treefold.text import some, visible

_MOST_NAMED = 8
"""So many ranks are named that no worker is, and so many pairs."""


@dataclass(frozen=True)
class RankMapping:
    """Says which worker is which rank of the plan."""

    rank_of_worker: list[int]
    """The rank of each worker."""
    names: list[str]
    """The names of the plan's ranks."""
    by_name: bool = False
    """Whether the workers have these names."""

    @property
    def is_in_order(self) -> bool:
        """Tell whether every worker is the rank of the same number."""
        return self.rank_of_worker == sorted(self.rank_of_worker)

    @cached_property
    def worker_of_rank(self) -> list[int]:
        """The worker of each rank."""
        return [self.rank_of_worker.index(rank) for rank in range(len(self.rank_of_worker))]

    def describe(self, rank: int) -> str:
        """Return what errors call a rank of the plan: its worker's number and its name."""
        worker, name = self.worker_of_rank[rank], self.names[rank]
        return f"worker {worker}" if name == str(worker) else f"worker {worker} ({name})"

    def describe_pairs(self, pairs: Iterable[tuple[int, int]]) -> str:
        """Return what errors call pairs of ranks."""
        return some([f"{self.describe(one)} and {self.describe(other)}" for one, other in pairs], _MOST_NAMED)


def map_ranks(names: Sequence[str | None], topology: Topology) -> RankMapping:
    """Return which rank of `topology` each worker is: by name where every worker has one, else by order.

    Args:
        names: The name of each worker; None for a worker without one.
        topology: The plan's network.

    Raises:
        TreefoldError: If there are more or fewer workers than ranks, or their names do not match.

    """
    ranks = topology.rank_names
    if None not in names:
        _check_names(list(map(str, names)), topology)
    if len(names) != len(ranks):
        raise TreefoldError(
            f"{len(names)} workers for {len(ranks)} ranks of network '{topology.name}'; start {len(ranks)} workers, or "
            f"plan for {len(names)} ranks of it"
        )
    if None in names:
        return RankMapping(list(range(len(ranks))), ranks)
    return RankMapping([ranks.index(str(name)) for name in names], ranks, True)


def _check_names(names: Sequence[str], topology: Topology) -> None:
    """Refuse names that several workers share, and names of no rank (if their number differs: of no accelerator)."""
    if repeated := repeated_names(names):
        shared = "; ".join(f"{visible(name)} is that of workers {_workers(names, name)}" for name in repeated)
        called = ", ".join(map(visible, repeated))
        raise TreefoldError(f"several workers are called {called}; give each its own TREEFOLD_NAME ({shared})")
    known = topology.rank_names if len(names) == topology.ranks else topology.accelerator_names
    foreign, absent = sorted(set(names) - set(known)), sorted(set(known) - set(names))
    if foreign:
        meant = "".join(f"; {hint}" for name in foreign if (hint := _meant(names, name, absent)))
        raise TreefoldError(
            f"the workers' names do not match network '{topology.name}': it has no rank "
            f"{', '.join(map(visible, foreign))}, and no worker is called {some(absent, _MOST_NAMED)}; set "
            f"TREEFOLD_NAME to its accelerators' names{meant}"
        )


def _workers(names: Sequence[str], name: str) -> str:
    """Return the numbers of the workers that have a name."""
    return ", ".join(str(worker) for worker, each in enumerate(names) if each == name)


def _meant(names: Sequence[str], foreign: str, absent: Sequence[str]) -> str | None:
    """Return a question whether a worker's name misspells one that no worker has; None if it is similar to none."""
    near = guess(foreign, absent)
    return near and f"worker {_workers(names, foreign)} is called '{visible(foreign)}', did you mean '{near}'?"


def repeated_names(names: Sequence[str | None]) -> list[str]:
    """Return the names that several workers have."""
    return sorted({str(name) for name in names if names.count(name) > 1})
