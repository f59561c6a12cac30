"""Reads what a caller asks of a changed network: other bandwidths, and links and sites that are gone."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from treefold import checks
from treefold._core import Topology, parse_bandwidth
from treefold.checks import guess, shown
from treefold.errors import TreefoldError
from treefold.explaining.cables import Cable, Ends, cable_named
from treefold.explaining.widths import with_shared_bandwidths


class Change(NamedTuple):
    """What is asked of a network: other bandwidths, and what is gone."""

    rates: Mapping[Ends, float | str]
    """The bandwidth of each link from a node to another, by their names."""
    links: Sequence[Ends]
    """The links that are gone, each direction by itself."""
    sites: Sequence[str]
    """The nodes that are gone."""
    shared_Bps: Mapping[str, float] = MappingProxyType({})
    """The bandwidths of shared capacities, by their names."""

    def widened(self, network: Topology) -> Topology:
        """Return the network with the bandwidths that are asked for; nothing is gone.

        Raises:
            TreefoldError: If a bandwidth is none.

        """
        changed = network.with_bandwidths(self.rates, one_way=True) if self.rates else network
        return with_shared_bandwidths(changed, self.shared_Bps) if self.shared_Bps else changed

    def of(self, network: Topology) -> Topology:
        """Return the changed network.

        Raises:
            TreefoldError: If a bandwidth is none, or ranks cannot reach each other any more.

        """
        changed = self.widened(network)
        changed = changed.without_nodes(self.sites) if self.sites else changed
        left = [ends for ends in self.links if not {*ends} & {*self.sites}]
        return changed.without_links(left, one_way=True) if left else changed


def change_asked(network: Topology, upgrade: Mapping[Any, float | str] | None, without: Any) -> Change:
    """Return the change that a caller asks for, with every name checked.

    Args:
        network: The network.
        upgrade: The bandwidths of links, by names as `cable_named` reads them, and of shared capacities.
        without: A name or a list of names, each of a site or of a link.

    Raises:
        TreefoldError: If a name is unknown, or a link gets two bandwidths.

    """
    rates: dict[Ends, float | str] = {}
    if not isinstance(upgrade, Mapping | None):
        raise TreefoldError(f"upgrade {shown(upgrade)} is not a dictionary; write {{'A - B': '10Gbit/s'}}")
    shared_Bps: dict[str, float] = {}
    shared = {each.name for each in network.shared()}
    for name, rate in (upgrade or {}).items():
        if isinstance(name, str) and name.strip() in shared:
            shared_Bps[name.strip()] = checks.quantity("bandwidth_Bps", rate, "bytes per second", parse_bandwidth)
            continue
        cable = _cable_or_other(network, name, shared, "shared capacity")
        if not rates.keys().isdisjoint(cable.directions):
            raise TreefoldError(f"link {cable.name} gets two bandwidths; give it one")
        rates |= dict.fromkeys(cable.directions, rate)
    sites = dict.fromkeys(node.name for node in network.nodes())
    links: list[Ends] = []
    gone: list[str] = []
    is_one = isinstance(without, str) or (isinstance(without, tuple) and _is_pair(network, without))
    for name in [without] if is_one else without:
        if isinstance(name, str) and name.strip() in sites:
            gone.append(name.strip())
        else:
            links += _cable_or_other(network, name, sites, "site").directions
    return Change(rates, list(dict.fromkeys(links)), list(dict.fromkeys(gone)), shared_Bps)


def _is_pair(network: Topology, given: tuple[Any, ...]) -> bool:
    """Tell whether a tuple is one link, and no list of two sites."""
    return len(given) == 2 and any({*given} == {link.source, link.target} for link in network.links())


def _cable_or_other(network: Topology, name: Any, others: Iterable[str], what: str) -> Cable:
    """Return the link of this name; if there is none, the error also suggests something else."""
    try:
        return cable_named(network, name)
    except TreefoldError:
        near = guess(name, others) if isinstance(name, str) else None
        if near is None:
            raise
        raise TreefoldError(f"{network.name} has no {what} or link {shown(name)}; did you mean {near}?") from None
