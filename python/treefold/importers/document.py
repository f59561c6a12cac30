"""Builds the parts of a topology document."""

from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]
"""A network as treefold's own JSON holds it: `format`, `version`, `name`, `nodes` and `links` (docs/files.md)."""

FORMAT = "treefold-topology"
VERSION = 1
KINDS = ("accelerator", "switch")


def make_node(
    name: str,
    kind: str = "accelerator",
    *,
    reduces: bool = False,
    multicasts: bool = False,
    latency_s: float = 0.0,
    position: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Return a node of a document.

    A message spends `latency_s` seconds in the node; `position` is its latitude and longitude in degrees.
    """
    node = {"name": name, "kind": kind, "reduces": reduces, "multicasts": multicasts, "latency_s": latency_s}
    return node if position is None else node | dict(zip(("latitude", "longitude"), position, strict=True))


def make_link(
    source: str,
    target: str,
    *,
    bandwidth_Bps: float | None = None,
    latency_s: float | None = None,
    overhead_s: float | None = None,
    streams: int | None = None,
    shares: Sequence[str] = (),
    both_ways: bool = False,
) -> dict[str, Any]:
    """Return a link of a document; values that are None are absent from it, but the overhead is then 0.

    `shares` has the names of the shared capacities that each direction of the link uses.
    """
    link: dict[str, Any] = {"source": source, "target": target}
    if bandwidth_Bps is not None:
        link["bandwidth_Bps"] = bandwidth_Bps
    if latency_s is not None:
        link["latency_s"] = latency_s
    if streams is not None:
        link["streams"] = streams
    if shares:
        link["shares"] = [*shares]
    return link | {"overhead_s": overhead_s or 0.0, "both_ways": both_ways}


def make_shared(name: str, bandwidth_Bps: float) -> dict[str, Any]:
    """Return a shared capacity of a document: what all links whose `shares` name it carry together at most."""
    return {"name": name, "bandwidth_Bps": bandwidth_Bps}


def make_route(source: str, target: str, via: Sequence[str] = (), *, both_ways: bool = False) -> dict[str, Any]:
    """Return a route of a document: what `source` sends to `target` passes the nodes `via`, in this order."""
    return {"source": source, "target": target, "via": [*via], "both_ways": both_ways}


def make_document(
    name: str, nodes: list[dict[str, Any]], links: list[dict[str, Any]], shared: Sequence[dict[str, Any]] = ()
) -> Document:
    """Return a document of the current version."""
    document = {"format": FORMAT, "version": VERSION, "name": name, "nodes": nodes, "links": links}
    return document | ({"shared": [*shared]} if shared else {})


def direction_count(link: dict[str, Any]) -> int:
    """Return how many directed links an entry describes: 2 if it goes both ways."""
    return 2 if link["both_ways"] else 1
