"""Networks of workers: the one without a file, and networks whose ranks, switches, rates or links are other ones."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treefold._core import Topology
from treefold.errors import TreefoldError
from treefold.networks import topology

Pair = tuple[int, int]
"""The ranks at the two ends of a link."""


def pair_of(one: int, other: int) -> Pair:
    """Return two ranks as a pair, the lower one first."""
    return (one, other) if one < other else (other, one)


class Changes(NamedTuple):
    """How a network differs from what it was when a group began."""

    factors: Mapping[Pair, float]
    """The factors by which the bandwidths from one rank to another are multiplied."""
    added_s: Mapping[Pair, float]
    """The seconds that are added to the latencies between two ranks, both ways."""
    absent: frozenset[Pair]
    """The pairs that no link joins any more, the lower rank first."""


UNCHANGED = Changes({}, {}, frozenset())


def bandwidths(network: Topology) -> dict[Pair, float]:
    """Return the bytes per second between ranks that are joined directly; parallel links add up."""
    total: dict[Pair, float] = {}
    for source, target, rate in zip(*(column.tolist() for column in network.link_columns()), strict=True):
        total[source, target] = total.get((source, target), 0.0) + rate
    return total


def shared_pairs(network: Topology) -> list[tuple[float, set[Pair]]]:
    """Return the bandwidth of each shared capacity, in bytes per second, and the pairs whose links share it."""
    sources, targets, _ = network.link_columns()
    ends = [*zip(sources.tolist(), targets.tolist(), strict=True)]
    return [(shared.bandwidth_Bps, {ends[link] for link in shared.links}) for shared in network.shared()]


def direct_pairs(network: Topology) -> set[Pair]:
    """Return the pairs of ranks that a link joins, the lower rank first."""
    ranks = network.ranks
    return {pair_of(*ends) for ends in bandwidths(network) if max(ends) < ranks and ends[0] != ends[1]}


def joined_directly(names: Sequence[str | None]) -> Topology:
    """Return a network that joins all workers directly; its ranks have the workers' names where every worker has one.

    Args:
        names: The name of each worker; None for a worker without one.

    """
    network = topology(f"full:{len(names)}" if len(names) > 1 else "line:1")
    if None in names or len(set(names)) < len(names):
        return network
    named = {old: str(new) for old, new in zip(network.rank_names, names, strict=True)}
    return network.renamed(nodes=named)


def with_named_ranks(network: Topology, names: Sequence[str | None]) -> Topology:
    """Return the network with the accelerators of these names as its ranks, in the network's order."""
    return network.with_ranks(sorted(network.accelerator_names.index(str(name)) for name in names))


def with_only(network: Topology, ranks: Sequence[int]) -> Topology:
    """Return the network with only these of its ranks, in this order; the other accelerators relay."""
    return network.with_ranks([network.accelerator_names.index(network.rank_names[rank]) for rank in ranks])


def with_rates(network: Topology, factors: Mapping[Pair, float]) -> Topology:
    """Return the network with its bandwidths between pairs of ranks multiplied by `factors`."""
    names = network.rank_names
    named = {(names[one], names[other]): by for (one, other), by in factors.items()}
    return network.with_scaled_bandwidths(named, one_way=True)


def changed(network: Topology, changes: Changes) -> Topology:
    """Return the network with these changes; what they say of links that are absent does not count.

    Raises:
        TreefoldError: If the network falls into parts.

    """
    if changes.absent:
        network = without_links(network, sorted(changes.absent))
    names, joined = network.rank_names, bandwidths(network)
    network = with_rates(network, {pair: by for pair, by in changes.factors.items() if pair in joined})
    added_s = {pair: seconds for pair, seconds in changes.added_s.items() if {pair, pair[::-1]} & joined.keys()}
    return network.with_added_latencies({(names[one], names[other]): by for (one, other), by in added_s.items()})


def without_links(network: Topology, pairs: Sequence[Pair]) -> Topology:
    """Return the network without the links between these pairs of ranks, whose connections are cut.

    Raises:
        TreefoldError: If no link joins a pair, or the network falls into parts without them.

    """
    names = network.rank_names
    where = " and ".join(f"between {names[one]} and {names[other]}" for one, other in pairs)
    joined = {frozenset(pair) for pair in bandwidths(network)}
    if not pairs or not joined.issuperset(map(frozenset, pairs)):
        raise TreefoldError(f"the connection {where} is cut, which no link of the network joins; look at the network")
    try:
        return network.without_links([(names[one], names[other]) for one, other in pairs])
    except TreefoldError as error:
        raise TreefoldError(f"the connection {where} is cut, and there is no other route: {error}") from None
