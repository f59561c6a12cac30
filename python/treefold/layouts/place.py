"""Chooses the layout of a network by what the network is."""

from dataclasses import dataclass

import numpy as np

from treefold._core import Topology
from treefold.layouts.bends import bends
from treefold.layouts.circles import complete, dragonfly
from treefold.layouts.geography import geography
from treefold.layouts.graph import Flags, Graph, Reals, declared_sides, graph_of
from treefold.layouts.grids import grid
from treefold.layouts.hamming import hamming
from treefold.layouts.layers import layers
from treefold.layouts.placement import Placement
from treefold.layouts.stress import stress


@dataclass(frozen=True)
class Layout:
    """Where the nodes of a network stand in a picture. Nodes have the order of `Topology.nodes()`."""

    kind: str
    """`line`, `ring` (also complete networks and dragonflies), `grid`, `space` (a grid of three dimensions), `layers`,
    `map` or `force`."""
    positions: Reals
    """x, y and z of each node; z is 0 where the layout is flat. Neighbours in a grid are 1 apart, and links of `force`
    are 1 long in the mean. On a `map`, x is the longitude and y the latitude, in degrees."""
    wraps: Flags
    """For each link, in the order of `Topology.links()`, whether it leaves the picture: a stub is drawn at both ends
    instead."""
    stubs: Reals
    """The stub of each such link, a vector: from the source to source + stub, and from target - stub to the target."""
    bends: Reals
    """How far the middle of each link is moved to the left of its direction, as a share of its length, so that it does
    not run over a node; 0 if it is straight. The control point of a quadratic curve is twice as far out."""
    guessed: Flags
    """For each node of a `map`, whether it has no coordinates and stands near its neighbours."""


def layout(network: Topology) -> Layout:
    """Return where the nodes of a network stand: the same network gives the same layout.

    Grids, rings and switch networks are known by the shape that a spec gives, which files keep, by their name, or by
    their links. Networks with coordinates for most sites are maps. In all others, nodes are as far apart as they are in
    links.

    Args:
        network: The network.

    Example:
        >>> from treefold.layouts import layout
        >>> found = layout(treefold.topology("mesh:2x3"))
        >>> found.kind, found.positions[:4].tolist()
        ('grid', [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, -1.0, 0.0]])

    """
    graph = graph_of(network)
    found = _placed(network, graph)
    has_bends = found.has_bends and graph.size > 2
    bent = bends(graph, found.positions[:, :2]) if has_bends else np.zeros(len(found.wraps))
    # Adding 0 turns -0 into 0.
    return Layout(found.kind, found.positions + 0.0, found.wraps, found.stubs + 0.0, bent + 0.0, found.guessed)


def _placed(network: Topology, graph: Graph) -> Placement:
    sides = [] if graph.is_switch.any() else declared_sides(network)
    return (
        geography(graph)
        or grid(graph, sides)
        or complete(graph)
        or hamming(graph)
        or layers(graph)
        or dragonfly(graph)
        or stress(graph)
    )
