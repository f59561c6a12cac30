"""Turns a network into numbered nodes and links for a layout."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treefold._core import Topology

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Graph:
    """The nodes that a layout places, in the order of the file, and the links between them."""

    name: str
    is_switch: Flags
    sources: Numbers
    """The node where each link starts."""
    targets: Numbers
    bandwidths_Bps: Reals
    degrees: Reals
    """The latitude and the longitude of each node; NaN for those without."""

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.is_switch)

    @cached_property
    def pairs(self) -> Numbers:
        """The pairs of nodes that have a link, each once and with the lower number first, in rising order."""
        low, high = np.minimum(self.sources, self.targets), np.maximum(self.sources, self.targets)
        keys = np.unique((low * self.size + high)[low != high])
        return np.stack([keys // max(self.size, 1), keys % max(self.size, 1)], axis=1)

    @cached_property
    def neighbors(self) -> list[Numbers]:
        """The neighbours of each node, in rising order."""
        starts, others = adjacency(self.pairs, self.size)
        return [others[start:end] for start, end in pairwise(starts)]


def adjacency(pairs: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Return the neighbours of all nodes, one node after the other, and where those of each node start."""
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
    return np.searchsorted(ends[:, 0], np.arange(size + 1)), ends[:, 1]


def graph_of(network: Topology) -> Graph:
    """Return the graph of a network, whose nodes have the order of `Topology.nodes()`."""
    nodes = network.nodes()
    ends, bandwidths_Bps = _ends(network, [node.number for node in nodes])
    return Graph(
        network.name,
        np.array([node.is_switch for node in nodes], bool),
        ends[0],
        ends[1],
        bandwidths_Bps,
        np.array([node.position or (np.nan, np.nan) for node in nodes], float).reshape(-1, 2),
    )


def _ends(network: Topology, numbers: Sequence[int]) -> tuple[Numbers, Reals]:
    """Return the places of the ends of each link, and its bandwidth."""
    sources, targets, bandwidths_Bps = network.link_columns()
    place_of = np.zeros(len(numbers), np.int64)
    place_of[np.asarray(numbers, np.int64)] = np.arange(len(numbers))
    return np.stack([place_of[sources], place_of[targets]]), bandwidths_Bps


def declared_sides(network: Topology) -> list[int]:
    """Return the sides of the grid that a network says it is; none if it says nothing.

    A network's shape has been checked. Its name has not: changes, such as a link that has failed, keep the name and
    drop the shape, and a twisted torus never has one. So the name is only a guess.
    """
    text = network.to_json()
    found = re.match(r'"shape":\{"kind":"grid","dims":\[([0-9,]+)\]', text[text.rfind('"shape":') :])
    if found is not None:
        return [int(side) for side in found[1].split(",")]
    named = re.match(r"(ring|line|torus|mesh|twisted-torus|hypercube):([0-9]+(?:x[0-9]+)*)", network.name)
    if named is None:
        return []
    sides = [int(side) for side in named[2].split("x")]
    return [2] * min(sides[0], 64) if named[1] == "hypercube" else sides
