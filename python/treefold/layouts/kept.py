"""Keeps places: a network that is another without some nodes or links is laid out as that one is."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from treefold._core import Topology
from treefold.layouts.graph import Numbers
from treefold.layouts.place import Layout, layout

_LEAST_KEPT = 0.5
"""The least share that must be left of the links between the nodes that both networks have."""

Ends = tuple[str, str]


def layouts(networks: Sequence[Topology]) -> list[tuple[Layout, int]]:
    """Return the layouts of networks that are seen together, and which network each one is laid out as.

    What is left of a network keeps its places, so that one sees what is gone. That a network is left of another is
    known by names: all its nodes and links are there, and so are most of the other's links between them; a ring is not
    laid out as the complete network that it lies in.

    Args:
        networks: The networks.

    Example:
        >>> from treefold.layouts import layouts
        >>> whole = treefold.topology("ring:8")
        >>> (one, _), (other, place) = layouts([whole, whole.without_nodes(["GPU3"])])
        >>> place, bool((other.positions[3] == one.positions[4]).all())
        (0, True)

    """
    order = sorted(range(len(networks)), key=lambda at: (-len(networks[at].nodes()), -networks[at].num_links))
    found: dict[int, tuple[Layout, int]] = {}
    for at in order:
        origins = (before for before, (_, own) in found.items() if before == own)
        origin = next((before for before in origins if _is_left_of(networks[at], networks[before])), at)
        placed = layout(networks[at]) if origin == at else _kept(networks[at], networks[origin], found[origin][0])
        found[at] = placed, origin
    return [found[at] for at in range(len(networks))]


def _is_left_of(network: Topology, whole: Topology) -> bool:
    """Tell whether a network is another without some nodes or links."""
    names = {node.name for node in network.nodes()}
    if not names <= {node.name for node in whole.nodes()}:
        return False
    links, before = Counter(_ends(network)), Counter(_ends(whole))
    between = sum(count for ends, count in before.items() if names.issuperset(ends))
    return links <= before and links.total() >= _LEAST_KEPT * between


def _ends(network: Topology) -> list[Ends]:
    return [(link.source, link.target) for link in network.links()]


def _kept(network: Topology, whole: Topology, placed: Layout) -> Layout:
    """Return the layout of what is left of a network: the places, bends and stubs that it had."""
    place_of = {node.name: place for place, node in enumerate(whole.nodes())}
    nodes = np.array([place_of[node.name] for node in network.nodes()], int)
    links = _links_kept(network, whole)
    by_link = (placed.wraps[links], placed.stubs[links], placed.bends[links])
    return Layout(placed.kind, placed.positions[nodes], *by_link, placed.guessed[nodes])


def _links_kept(network: Topology, whole: Topology) -> Numbers:
    """Return for each link its number in the whole network; parallel links are taken in their order."""
    numbers: dict[Ends, list[int]] = {}
    for number, ends in reversed([*enumerate(_ends(whole))]):
        numbers.setdefault(ends, []).append(number)
    return np.array([numbers[ends].pop() for ends in _ends(network)], int)
