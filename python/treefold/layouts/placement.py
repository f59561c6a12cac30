"""The result of each kind of layout, before bends are added."""

from typing import NamedTuple

import numpy as np

from treefold.layouts.graph import Flags, Graph, Reals


class Placement(NamedTuple):
    """Where the nodes of a graph stand, and which links leave the picture."""

    kind: str
    positions: Reals
    wraps: Flags
    stubs: Reals
    guessed: Flags
    has_bends: bool
    """Whether links may run over nodes, and are then to be bent."""


def placed(graph: Graph, kind: str, positions: Reals, has_bends: bool = False) -> Placement:
    """Return a placement without links that leave the picture; flat positions get a z of 0."""
    flat = np.zeros((graph.size, 3))
    flat[:, : positions.shape[1]] = positions
    links = len(graph.sources)
    wraps, stubs = np.zeros(links, bool), np.zeros((links, 3))
    return Placement(kind, flat, wraps, stubs, np.zeros(graph.size, bool), has_bends)
