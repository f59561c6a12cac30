"""Limits what a node sends and receives over all its links together, by two shared capacities.

Those of a node X are called `X egress`, over all links out of X, and `X ingress`, over all links into it.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from treefold._core import Topology, parse_bandwidth
from treefold.checks import guess, shown
from treefold.errors import TreefoldError
from treefold.files.problems import fail, warn
from treefold.files.reading import Row, form_of, parse_csv, parse_json, read_bytes
from treefold.importers.document import Document, direction_count, make_shared
from treefold.importers.values import Quantity, measure
from treefold.text import some

EGRESS, INGRESS = " egress", " ingress"
"""What a node's name is followed by in those of its caps."""
NO_CAPS = "none"
"""The value of `node_cap` that removes the caps of a network."""
_FULL = 1 - 1e-9
"""A capacity limits nothing if it is at least this part of what its links carry together: the rest is rounding."""


class Cap(NamedTuple):
    """The most that a node sends and receives, in bytes per second."""

    egress: float
    ingress: float


def apply_node_cap(document: Document, node_cap: str | os.PathLike[str]) -> Document:
    """Return the document with caps on its nodes, instead of those that it has; see `cap_nodes`.

    Args:
        document: A complete document, which is not changed.
        node_cap: A bandwidth such as `5Gbit/s` for every accelerator, the path of a JSON or CSV file of caps, or
            `none` to remove the caps that the document has.

    Raises:
        TreefoldError: If `node_cap` is neither a bandwidth nor a file, or the file is malformed or names unknown nodes.

    """
    if node_cap == NO_CAPS:
        return uncap_nodes(document)
    return cap_nodes(uncap_nodes(document), _caps(document, os.fspath(node_cap)))


def cap_nodes(document: Document, caps: Mapping[str, Cap]) -> Document:
    """Return the document with caps on the nodes that `caps` names.

    A link that goes both ways becomes two where its directions share different capacities. A cap as wide as all links
    of its node together limits nothing, and is left out.

    Raises:
        TreefoldError: If another shared capacity has the name of a cap.

    """
    shared = _narrow(document, caps)
    if not shared:
        return document
    taken = {each["name"] for each in document.get("shared", ())}
    if twice := next((cap["name"] for cap in shared if cap["name"] in taken), None):
        raise fail(document["name"], f"shared capacity {shown(twice)} has the name of a node's cap; rename it")
    names = {cap["name"] for cap in shared}
    links = [part for link in document["links"] for part in _capped(link, names)]
    return document | {"links": links, "shared": [*document.get("shared", ()), *shared]}


def uncap_nodes(document: Document) -> Document:
    """Return the document without the caps that `cap_nodes` gave to its nodes."""
    listed = document.get("shared", [])
    caps = _found([each["name"] for each in listed], _uses(document), [node["name"] for node in document["nodes"]])
    if not caps:
        return document
    kept = [each for each in listed if each["name"] not in caps]
    links = [_without(link, caps) for link in document["links"]]
    uncapped = {key: value for key, value in document.items() if key != "shared"} | {"links": links}
    return uncapped | ({"shared": kept} if kept else {})


def node_caps(network: Topology) -> dict[str, str]:
    """Return the name of the node that each shared capacity caps, by the name of the capacity, if it caps one."""
    shared, links = network.shared(), network.links()
    uses = [(each.name, links[link].source, links[link].target) for each in shared for link in each.links]
    return _found([each.name for each in shared], uses, [node.name for node in network.nodes()])


def _found(shared: Iterable[str], uses: Iterable[tuple[str, str, str]], nodes: Iterable[str]) -> dict[str, str]:
    """Return the node of each cap: its name says so, and all its links leave the node, or all end there.

    Args:
        shared: The names of the shared capacities.
        uses: The name of a shared capacity, and the source and target of a link of it, for each link of each.
        nodes: The names of the nodes.

    """
    ends = {node + mark: (node, mark) for node in nodes for mark in (EGRESS, INGRESS)}
    caps = {name: ends[name][0] for name in shared if name in ends}
    for name, source, target in uses:
        if name in caps and (source if ends[name][1] == EGRESS else target) != caps[name]:
            del caps[name]
    return caps


def _uses(document: Document) -> Iterable[tuple[str, str, str]]:
    for link in document["links"]:
        for name in link.get("shares", ()):
            yield name, link["source"], link["target"]
            if link["both_ways"]:
                yield name, link["target"], link["source"]


def limits(width_Bps: float, together_Bps: float) -> bool:
    """Return whether a capacity is less than what all that shares it carries together."""
    return width_Bps < _FULL * together_Bps


def _narrow(document: Document, caps: Mapping[str, Cap]) -> list[dict[str, Any]]:
    """Return the shared capacities of the caps that limit something."""
    carried = dict.fromkeys((name + mark for name in caps for mark in (EGRESS, INGRESS)), 0.0)
    for link in document["links"]:
        ends = (link["source"], link["target"])
        for source, target in (ends, ends[::-1])[: direction_count(link)]:
            for name in (source + EGRESS, target + INGRESS):
                if name in carried:
                    carried[name] += link["bandwidth_Bps"]
    widths_Bps = (width_Bps for cap in caps.values() for width_Bps in cap)
    named = zip(carried, widths_Bps, strict=True)
    return [make_shared(name, width_Bps) for name, width_Bps in named if limits(width_Bps, carried[name])]


def _capped(link: dict[str, Any], caps: set[str]) -> list[dict[str, Any]]:
    """Return a link with the caps of its ends: two links if it goes both ways and has any."""
    source, target = link["source"], link["target"]
    there = [name for name in (source + EGRESS, target + INGRESS) if name in caps]
    back = [name for name in (target + EGRESS, source + INGRESS) if name in caps]
    if not link["both_ways"] or not (there or back):
        return [_sharing(link, there)]
    one_way = link | {"both_ways": False}
    return [_sharing(one_way, there), _sharing(one_way | {"source": target, "target": source}, back)]


def _sharing(link: dict[str, Any], more: list[str]) -> dict[str, Any]:
    return link | {"shares": [*link.get("shares", ()), *more]} if more else link


def _without(link: dict[str, Any], caps: Mapping[str, str]) -> dict[str, Any]:
    if caps.keys().isdisjoint(link.get("shares", ())):
        return link
    kept = [name for name in link["shares"] if name not in caps]
    return {key: value for key, value in link.items() if key != "shares"} | ({"shares": kept} if kept else {})


def _caps(document: Document, node_cap: str) -> dict[str, Cap]:
    """Return the caps by node name, in the document's order."""
    try:
        bandwidth_Bps = parse_bandwidth(node_cap)
    except TreefoldError as error:
        if not os.path.exists(node_cap):
            problem = f"neither a bandwidth such as 5Gbit/s nor an existing file ({error})"
            raise fail(f"node cap {shown(node_cap)}", problem) from None
        return _caps_of_file(document, node_cap)
    cap = Cap(bandwidth_Bps, bandwidth_Bps)
    return {node["name"]: cap for node in document["nodes"] if node["kind"] == "accelerator"}


def _caps_of_file(document: Document, where: str) -> dict[str, Cap]:
    readers = {".json": _json_caps, ".csv": _csv_caps}
    content = read_bytes(where)
    reader = readers.get(form_of(where, content))
    if reader is None:
        raise fail(where, "caps are read from .json and .csv files; rename or convert it")
    caps = reader(content, where)
    names = {node["name"]: None for node in document["nodes"]}
    for name in caps:
        if name not in names:
            near = guess(name, names)
            remedy = f"did you mean {shown(near)}?" if near else f"its nodes are {some(names, 5)}"
            raise fail(where, f"node {shown(name)} is not in the network; {remedy}")
    _warn_of_uncapped(document, caps, where)
    return {name: caps[name] for name in names if name in caps}


def _warn_of_uncapped(document: Document, caps: dict[str, Cap], where: str) -> None:
    accelerators = [node["name"] for node in document["nodes"] if node["kind"] == "accelerator"]
    uncapped = [name for name in accelerators if name not in caps]
    if uncapped:
        count = f"{len(uncapped)} accelerator{'' if len(uncapped) == 1 else 's'} without a cap"
        warn(where, f"{count} ({some(uncapped)}); add {'it' if len(uncapped) == 1 else 'them'} to the file of caps")


def _json_caps(text: bytearray, where: str) -> dict[str, Cap]:
    content = parse_json(text, where)
    if not isinstance(content, dict):
        raise fail(where, 'caps are an object such as {"name": "5Gbit/s"}')
    return {name: _json_cap(value, f"{where}: cap of {shown(name)}") for name, value in content.items()}


def _json_cap(value: Any, where: str) -> Cap:
    if not isinstance(value, dict):
        return _cap(value, None, where)
    unknown = sorted(set(value) - {"egress", "ingress"})
    if unknown:
        raise fail(where, f"unknown key {shown(unknown[0])}; a cap has egress and ingress")
    return _cap(value.get("egress"), value.get("ingress"), where)


def _csv_caps(content: bytearray, where: str) -> dict[str, Cap]:
    header, *rows = [row for row in parse_csv(content, where) if not row.is_blank]
    columns = [cell.lower() for cell in header.cells]
    if columns not in (["name", "egress"], ["name", "egress", "ingress"]):
        raise fail(header.where, f"header {shown(','.join(header.cells))}; write name,egress or name,egress,ingress")
    caps: dict[str, Cap] = {}
    for row in rows:
        name, cap = _csv_cap(row, len(columns))
        if name in caps:
            raise fail(row.where, f"node {shown(name)} has a cap already; keep one")
        caps[name] = cap
    return caps


def _csv_cap(row: Row, columns: int) -> tuple[str, Cap]:
    if not 2 <= len(row.cells) <= columns:
        raise row.misfit(columns)
    return row.cells[0], _cap(row.cells[1], row.cells[2] if len(row.cells) > 2 else None, row.where)


def _cap(egress: object, ingress: object, where: str) -> Cap:
    egress_Bps = measure(egress, Quantity("bandwidth_Bps", "egress", None), where)
    if egress_Bps is None:
        raise fail(where, "has no egress; write a bandwidth such as 5Gbit/s")
    ingress_Bps = measure(ingress, Quantity("bandwidth_Bps", "ingress", None), where)
    return Cap(egress_Bps, egress_Bps if ingress_Bps is None else ingress_Bps)
