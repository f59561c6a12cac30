"""Limits what a node sends and receives over all its links together, by a switch in front of the node."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from treefold._core import Topology, parse_bandwidth
from treefold.checks import guess, shown
from treefold.errors import TreefoldError
from treefold.files.problems import fail, warn
from treefold.files.reading import Row, form_of, parse_csv, parse_json, read_bytes
from treefold.importers.document import Document, make_link, make_node
from treefold.importers.values import Quantity, measure
from treefold.text import some

_MARK = "/cap"
"""What a node's name is followed by in that of its cap's switch; a number behind it makes the name free."""
NO_CAPS = "none"
"""The value of `node_cap` that removes the caps of a network."""


class Cap(NamedTuple):
    """The most that a node sends and receives, in bytes per second."""

    egress: float
    ingress: float


def apply_node_cap(document: Document, node_cap: str | os.PathLike[str]) -> Document:
    """Return the document with caps on its nodes; see `cap_nodes`.

    Args:
        document: A complete document, which is not changed.
        node_cap: A bandwidth such as `5Gbit/s` for every accelerator, the path of a JSON or CSV file of caps, or
            `none` to remove the caps that the document has.

    Raises:
        TreefoldError: If `node_cap` is neither a bandwidth nor a file, or the file is malformed or names unknown nodes.

    """
    if node_cap == NO_CAPS:
        return uncap_nodes(document)
    return cap_nodes(document, _caps(document, os.fspath(node_cap)))


def cap_nodes(document: Document, caps: Mapping[str, Cap]) -> Document:
    """Return the document with caps on the nodes that `caps` names.

    Each capped node X gets a switch `X/cap`. The links of X move to the switch, and two links without latency join X to
    it: one with the bandwidth of the egress, one with that of the ingress. The result has no shape, as the document's
    shape does not describe such a network.
    """
    if not caps:
        return document
    switches = _switch_names(document, caps)
    links = [_moved(link, switches) for link in document["links"]]
    for name, cap in caps.items():
        links.append(make_link(name, switches[name], bandwidth_Bps=cap.egress, latency_s=0.0))
        links.append(make_link(switches[name], name, bandwidth_Bps=cap.ingress, latency_s=0.0))
    nodes = document["nodes"] + [make_node(switch, "switch") for switch in switches.values()]
    return {key: value for key, value in document.items() if key != "shape"} | {"nodes": nodes, "links": links}


def uncap_nodes(document: Document) -> Document:
    """Return the document without the caps that `cap_nodes` gave to its nodes."""
    nodes = {node["name"]: node["kind"] == "switch" for node in document["nodes"]}
    capped = _capped(nodes, [(link["source"], link["target"]) for link in document["links"]])
    owners = {switch: node for node, switch in capped.items()}
    moved = [_moved(link, owners) for link in document["links"]]
    return document | {
        "nodes": [node for node in document["nodes"] if node["name"] not in owners],
        "links": [link for link in moved if link["source"] != link["target"]],
    }


def capped_nodes(network: Topology) -> dict[str, str]:
    """Return the switch of each node that has a cap, by the node's name."""
    switches = {node.name: node.is_switch for node in network.nodes()}
    return _capped(switches, [(link.source, link.target) for link in network.links()])


def _capped(nodes: Mapping[str, bool], links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the switch of each capped node: all links of the node go there, and its name says so.

    Args:
        nodes: Whether each node is a switch, by name.
        links: The names of the ends of each link.

    """
    neighbors: dict[str, set[str]] = {name: set() for name in nodes}
    for source, target in links:
        neighbors[source].add(target)
        neighbors[target].add(source)
    only = {name: next(iter(near)) for name, near in neighbors.items() if len(near) == 1}
    return {
        name: switch
        for name, switch in only.items()
        if not nodes[name] and nodes[switch] and re.fullmatch(re.escape(name + _MARK) + "[0-9]*", switch)
    }


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


def _switch_names(document: Document, caps: Mapping[str, Cap]) -> dict[str, str]:
    taken = {node["name"] for node in document["nodes"]}
    switches = {}
    for name in caps:
        switch, count = f"{name}{_MARK}", 1
        while switch in taken:
            count += 1
            switch = f"{name}{_MARK}{count}"
        taken.add(switch)
        switches[name] = switch
    return switches


def _moved(link: dict[str, Any], switches: dict[str, str]) -> dict[str, Any]:
    source, target = link["source"], link["target"]
    return link | {"source": switches.get(source, source), "target": switches.get(target, target)}
