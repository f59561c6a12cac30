"""Places for newcomers: which node of its network a worker is that comes to a running group."""

from typing import NamedTuple

from treefold._core import Topology
from treefold.errors import MisfitError, TreefoldError
from treefold.runtime.networks import joined_directly
from treefold.text import some, visible

_MOST_NAMED = 8


class Places(NamedTuple):
    """The workers of a group as places of its network."""

    nodes: tuple[str, ...]
    """The node of each worker, by the worker's number."""
    by_name: bool
    """Whether the workers have these names."""
    now: Topology
    """The network as the group sees it now."""
    first: Topology
    """The network with which the group formed first, whose ranks are the places."""
    is_assumed: bool
    """Whether nobody gave a network, so that it grows with the group."""

    def with_newcomer(self, name: str | None, rank: int | None) -> "Places":
        """Return these places with one for a newcomer, the last worker.

        Args:
            name: The newcomer's name, if it has one.
            rank: The rank that it says it was, if it says so; it is that again if nobody is.

        Raises:
            MisfitError: If there is no place for it as long as no worker is lost.
            TreefoldError: If there is none in the network.

        """
        if self.by_name:
            return self._with(self._named(name))
        if self.is_assumed:
            return self._with("")
        names = self.first.rank_names
        hint = names[rank] if rank is not None and 0 <= rank < len(names) else None
        free = [node for node in names if node not in self.nodes]
        if not free:
            raise MisfitError(
                f"network '{self.first.name}' has no place for another worker, as a worker is at each of its "
                f"{len(names)} ranks; start the group with a larger network, or without one"
            )
        return self._with(next(node for node in (name, hint, free[0]) if node in free))

    def _with(self, node: str) -> "Places":
        return self._replace(nodes=(*self.nodes, node))

    def _named(self, name: str | None) -> str:
        """Return the name of a newcomer to a group whose workers have names, if it has a place."""
        if name is None:
            raise TreefoldError("the workers of the group have names, and this one has none; set its TREEFOLD_NAME")
        if name in self.nodes:
            raise MisfitError(
                f"the group has a worker {self.nodes.index(name)} called '{visible(name)}' already; give this one "
                "another TREEFOLD_NAME, or wait until the group has lost that worker"
            )
        known = {*self.first.accelerator_names, *self.now.accelerator_names}
        if not self.is_assumed and name not in known:
            absent = sorted(known - set(self.nodes))
            raise TreefoldError(
                f"network '{self.first.name}' of the group has no node '{visible(name)}', and no worker is "
                f"{some(absent, _MOST_NAMED) if absent else 'missing'}; set TREEFOLD_NAME to a node's name"
            )
        return name

    def names(self) -> list[str | None]:
        """Return the name with which each worker joins the new group."""
        return [node if self.by_name else None for node in self.nodes]

    def network(self) -> Topology:
        """Return the network in which all these workers are ranks.

        Raises:
            TreefoldError: If the network cannot have them as ranks.

        """
        if self.is_assumed:
            return joined_directly(self.names())
        network = self.now if set(self.nodes) <= set(self.now.accelerator_names) else self.first
        indices = [network.accelerator_names.index(node) for node in self.nodes]
        return network.with_ranks(sorted(indices) if self.by_name else indices)
