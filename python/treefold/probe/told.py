"""Keeps what a file of links tells of shared capacities, which a probe of these links does not measure.

The caps of nodes are measured anew. A capacity is no less than what its links carried, alone or at once; one that is
not told, or does not limit what was measured, is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from treefold.importers import Document
from treefold.importers.caps import EGRESS, INGRESS, limits, uncap_nodes
from treefold.importers.document import make_shared
from treefold.probe.links import UNKNOWN_BPS
from treefold.probe.results import Measurements, Pair

_DIGITS = 4
"""A measurement is worth so many digits."""
_NO_CAP = " (as told)"
"""What follows the name of a capacity that has the name of a node's cap and is none."""


def with_shared(found: Document, told: Document, measured: Measurements, names: Sequence[str]) -> Document:
    """Return the document of measured links with the shared capacities that a file told of them.

    Args:
        found: The document of the measured links.
        told: The document of the file.
        measured: The measurements.
        names: The name of each worker in the documents.

    """
    told = uncap_nodes(told)
    pairs_of = _members(told, measured, names)
    kept = {
        each["name"]: width_Bps
        for each in told.get("shared", [])
        if each["bandwidth_Bps"] > UNKNOWN_BPS and (width_Bps := _width_Bps(each, pairs_of, measured)) is not None
    }
    if not kept:
        return found
    of_caps = {node + mark for node in names for mark in (EGRESS, INGRESS)}
    new = {name: name + _NO_CAP if name in of_caps else name for name in kept}
    names_of: dict[Pair, list[str]] = {}
    for name in kept:
        for pair in pairs_of[name]:
            names_of.setdefault(pair, []).append(new[name])
    by_name = {(names[source], names[target]): own for (source, target), own in names_of.items()}
    links = [_sharing(link, by_name.get((link["source"], link["target"]), [])) for link in found["links"]]
    return found | {"links": links, "shared": [make_shared(new[name], width_Bps) for name, width_Bps in kept.items()]}


def _members(told: Document, measured: Measurements, names: Sequence[str]) -> dict[str, list[Pair]]:
    """Return the measured pairs that use each shared capacity."""
    ranks = {name: rank for rank, name in enumerate(names)}
    pairs_of: dict[str, list[Pair]] = {}
    for link in told["links"]:
        pair = ranks[link["source"]], ranks[link["target"]]
        for each in (pair, pair[::-1])[: 1 + link["both_ways"]]:
            for name in link.get("shares", []) if each in measured.rates else []:
                pairs_of.setdefault(name, []).append(each)
    return pairs_of


def _width_Bps(
    shared: Mapping[str, Any], pairs_of: Mapping[str, Sequence[Pair]], measured: Measurements
) -> float | None:
    """Return what pairs carry together at most; None if that limits nothing."""
    pairs = pairs_of.get(shared["name"], [])
    alone_Bps = [measured.rates[pair] for pair in pairs]
    at_once_Bps = [sum(rates.get(pair, 0.0) for pair in pairs) for rates in measured.at_once]
    measured_Bps = float(f"{max([0.0, *alone_Bps, *at_once_Bps]):.{_DIGITS}g}")
    width_Bps = max(float(shared["bandwidth_Bps"]), measured_Bps)
    return width_Bps if limits(width_Bps, sum(alone_Bps)) else None


def _sharing(link: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return link | {"shares": [*link.get("shares", []), *names]} if names else link
