"""What a page knows of a network: its nodes, its links, what these share, and where they stand."""

import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treefold._core import Node, Topology
from treefold.layouts import Layout
from treefold.viewing.built import asset

TURN = (0.55, 0.42)
"""How layouts of three dimensions are turned at first, about the vertical and towards the eye, in radians."""


def network_document(
    network: Topology, placed: Layout, frame: Layout
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the document of a network, and its columns; `viewer/src/data/format.ts` explains both.

    Args:
        network: The network.
        placed: Where it stands.
        frame: The layout that fills the picture: its own, or that of the network of which it is left.

    """
    listed = network.nodes()
    order = sorted(range(len(listed)), key=lambda place: listed[place].number)  # columns count nodes by their numbers
    nodes = [listed[place] for place in order]
    document = {
        "name": network.name,
        "layout": placed.kind,
        "turn": TURN,
        "coasts": _coasts() if placed.kind == "map" else [],
        "nodes": [node.name for node in nodes],
        "ranks": [-1 if node.rank is None else node.rank for node in nodes],
        "kinds": [_kind(node) for node in nodes],
        "guessed": np.flatnonzero(placed.guessed[order]).tolist(),
        "shared": [
            {"name": each.name, "bandwidth_Bps": each.bandwidth_Bps, "links": each.links} for each in network.shared()
        ],
    }
    others = np.zeros(0) if frame is placed else frame.positions
    return document, {**_columns(network, placed, order), "frame": others.astype(np.float32).reshape(-1)}


def _kind(node: Node) -> str:
    if not node.is_switch:
        return "accelerator"
    return "reducing switch" if node.reduces else "switch"


def _columns(network: Topology, placed: Layout, order: list[int]) -> dict[str, NDArray[Any]]:
    source, target, bandwidth = network.link_columns()
    stubs = np.where(placed.wraps[:, None], placed.stubs, 0.0)
    return {
        "positions": placed.positions[order].astype(np.float32).reshape(-1),
        "source": source,
        "target": target,
        "bandwidth_Bps": bandwidth,
        "latency_s": np.array([link.latency_s for link in network.links()]),
        "stub": stubs.astype(np.float32).reshape(-1),
        "bend": placed.bends.astype(np.float32),
    }


@cache
def _coasts() -> list[list[float]]:
    """Return the coasts of the world, each as longitudes and latitudes in turn."""
    lines = json.loads(asset("coasts.json"))
    return [[degrees for point in line for degrees in point] for line in lines]
