"""Networks of workers: the one without a file, and networks whose ranks, rates or links have changed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from treefold import verbs
from treefold._core import Topology
from treefold.errors import TreefoldError

Pair = tuple[int, int]
"""The ranks at the two ends of a link."""


def bandwidths(network: Topology) -> dict[Pair, float]:
    """Return the bytes a second between ranks that are joined directly; parallel links add up."""
    total: dict[Pair, float] = {}
    for source, target, rate in zip(*(column.tolist() for column in network.link_columns()), strict=True):
        total[source, target] = total.get((source, target), 0.0) + rate
    return total


def joined_directly(names: Sequence[str | None]) -> Topology:
    """Return a network that joins all workers directly; its ranks have the workers' names where every worker has one.

    Args:
        names: The name of each worker; None for a worker without one.

    """
    network = verbs.topology(f"full:{len(names)}" if len(names) > 1 else "line:1")
    if None in names or len(set(names)) < len(names):
        return network
    document = json.loads(network.to_json())
    name = dict(zip(network.rank_names, names, strict=True))
    document["nodes"] = [node | {"name": name[node["name"]]} for node in document["nodes"]]
    ends = ("source", "target")
    document["links"] = [link | {end: name[link[end]] for end in ends} for link in document["links"]]
    return Topology.from_json(json.dumps(document))


def with_named_ranks(network: Topology, names: Sequence[str | None]) -> Topology:
    """Return the network with the accelerators of these names as its ranks, in the network's order."""
    return network.with_ranks(sorted(network.accelerator_names.index(str(name)) for name in names))


def with_only(network: Topology, ranks: Sequence[int]) -> Topology:
    """Return the network with only these of its ranks, in this order; the other accelerators relay."""
    return network.with_ranks([network.accelerator_names.index(network.rank_names[rank]) for rank in ranks])


def with_rates(network: Topology, factors: Mapping[Pair, float]) -> Topology:
    """Return the network with its bandwidths between pairs of ranks multiplied by `factors`."""
    document, rank = _document(network)
    for link in document["links"]:
        pair = (rank.get(link["source"], -1), rank.get(link["target"], -1))
        link["bandwidth_Bps"] *= factors.get(pair, 1.0)
    return Topology.from_json(json.dumps(document))


def without_links(network: Topology, pairs: Sequence[Pair]) -> Topology:
    """Return the network without the links between these pairs of ranks, whose connections are cut.

    Raises:
        TreefoldError: If no link joins a pair, or the network falls into parts without them.

    """
    document, rank = _document(network)
    names, cut = network.rank_names, {frozenset(pair) for pair in pairs}
    ends = [frozenset((rank.get(link["source"]), rank.get(link["target"]))) for link in document["links"]]
    where = " and ".join(f"between {names[one]} and {names[other]}" for one, other in pairs)
    if not cut or not cut <= set(ends):
        raise TreefoldError(f"the connection {where} is cut, which no link of the network joins; look at the network")
    kept = [link for link, pair in zip(document["links"], ends, strict=True) if pair not in cut]
    document.pop("shape", None)  # a grid that lacks a link is none
    try:
        return Topology.from_json(json.dumps(document | {"links": kept}))
    except TreefoldError as error:
        raise TreefoldError(f"the connection {where} is cut, and there is no other route: {error}") from None


def _document(network: Topology) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a network's document, and the rank of each name."""
    return json.loads(network.to_json()), {name: rank for rank, name in enumerate(network.rank_names)}
