"""Finds which ranks of a process group are at the same site, and what a plan for sites means for the group.

A network's file may name sites where it names accelerators: each site's ranks then share its name, or have names that
begin with it and a `/` or `:`. Their traffic inside the site is not planned. A group with one rank at each site runs
plans between sites. A group with equally many at each runs as many plans at once, one for each place at the sites.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from treefold.checks import guess
from treefold.errors import TreefoldError
from treefold.rendezvous.tls import site_in
from treefold.text import some, visible

_MOST_NAMED = 8


class Sites(NamedTuple):
    """The sites of the ranks of a process group."""

    of_rank: Sequence[str]
    """The site of each rank."""

    @property
    def names(self) -> list[str]:
        """The sites, in the order of their first ranks."""
        return list(dict.fromkeys(self.of_rank))

    @property
    def is_across(self) -> bool:
        """Tell whether no two ranks are at one site."""
        return len(self.names) == len(self.of_rank)

    @property
    def why_nothing(self) -> str:
        """The reason why nothing is planned; empty if something is."""
        counts = {site: self.of_rank.count(site) for site in self.names}
        if len(counts) == 1 < len(self.of_rank):
            return f"all ranks are at one site, '{visible(self.names[0])}'"
        if len(set(counts.values())) > 1:
            each = some([f"{visible(site)} has {count}" for site, count in counts.items()], _MOST_NAMED)
            return (
                f"sites have different numbers of ranks ({each}); start equally many at each, make groups of one rank "
                "at each site, or give all ranks different names (TREEFOLD_NAME)"
            )
        return ""

    @property
    def places(self) -> list[tuple[int, int]]:
        """The number of each rank's site in `names`, and its place there."""
        numbers, seen = {site: number for number, site in enumerate(self.names)}, Counter[str]()
        found = []
        for site in self.of_rank:
            found.append((numbers[site], seen[site]))
            seen[site] += 1
        return found

    def inside(self, rank: int) -> list[int]:
        """Return the ranks at the site of a rank."""
        return [other for other, site in enumerate(self.of_rank) if site == self.of_rank[rank]]

    def across(self, rank: int) -> list[int]:
        """Return the ranks that have the same place at their sites as this one, in the order of `names`."""
        place = self.inside(rank).index(rank)
        return [self.inside(self.of_rank.index(site))[place] for site in self.names]

    def at_once(self, world: "Sites | None") -> int:
        """Return how many groups run between these sites at once: one for each rank at a site.

        Args:
            world: The sites of all ranks of the job, of which these are some, if they are known.

        """
        counted = self if world is None else world
        return max([1, *(list(counted.of_rank).count(site) for site in self.names)])


def sites_of(names: Sequence[str | None], known: Collection[str] | None) -> Sites | None:
    """Return the sites of ranks with these names; None if not all ranks have names, which then do not count.

    Args:
        names: The name of each rank; None for a rank without one.
        known: The accelerators of the network, which may be sites; None if nobody has described it yet.

    Raises:
        TreefoldError: If ranks share sites but some have no name, or the name of no accelerator.

    """
    sites = [None if name is None else site_of(name, known) for name in names]
    given = [site for site in sites if site is not None]
    if len(given) < len(sites):
        if len(set(given)) < len(given):
            without = some([str(rank) for rank, site in enumerate(sites) if site is None], _MOST_NAMED)
            raise TreefoldError(
                f"rank {without} has no site, and others are at {some(sorted(set(map(visible, given))), _MOST_NAMED)}; "
                "set TREEFOLD_NAME to its site on each rank"
            )
        return None
    if known is not None and len(set(given)) < len(given):
        _check_known(given, known)
    return Sites(given)


def site_of(name: str, known: Collection[str] | None) -> str:
    """Return the site of a rank's name: the name itself, or what stands before its `/` or `:`."""
    if known is not None and name in known:
        return name
    first = site_in(name)
    return first if known is None or first in known else name


def _check_known(sites: Sequence[str], known: Collection[str]) -> None:
    for rank, site in enumerate(sites):
        if site not in known:
            near = guess(site, sorted(known))
            hint = f"did you mean '{visible(near)}'?" if near else f"it has {some(sorted(known), _MOST_NAMED)}"
            raise TreefoldError(
                f"rank {rank} is at '{visible(site)}' (TREEFOLD_NAME), which the network does not have; {hint}"
            )
