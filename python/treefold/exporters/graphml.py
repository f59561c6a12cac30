"""Writes GraphML: nodes n0, n1, ... with labels, links with all their values, and lists as JSON text."""

import json
import xml.etree.ElementTree as ElementTree
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from treefold.errors import TreefoldError
from treefold.exporters.names import EXTRAS, check_printable, is_undirected

_KEYS = {
    "graph": dict.fromkeys(("name", *EXTRAS), "string"),
    "node": {
        "label": "string",
        "kind": "string",
        "reduces": "boolean",
        "multicasts": "boolean",
        "latency_s": "double",
        "latitude": "double",
        "longitude": "double",
    },
    "edge": {
        "bandwidth_Bps": "double",
        "latency_s": "double",
        "overhead_s": "double",
        "streams": "int",
        "shares": "string",
    },
}


def text(document: dict[str, Any]) -> str:
    """Return the document as GraphML; if only some links go both ways, each of them is marked.

    Raises:
        TreefoldError: If a name holds control characters or a link refers to an unknown node.

    """
    check_printable(document)
    root = Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for scope, keys in _KEYS.items():
        for key, kind in keys.items():
            SubElement(root, "key", {"id": f"{scope}_{key}", "for": scope, "attr.name": key, "attr.type": kind})
    undirected = is_undirected(document)
    graph = SubElement(root, "graph", edgedefault="undirected" if undirected else "directed")
    _graph_data(graph, document)
    ids = _nodes(graph, document["nodes"])
    for link in document["links"]:
        _edge(graph, link, ids, undirected)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _graph_data(graph: Element, document: dict[str, Any]) -> None:
    values = {"name": document["name"]}
    values |= {key: json.dumps(document[key]) for key in EXTRAS if document.get(key)}
    _data(graph, "graph", values)


def _nodes(graph: Element, nodes: list[dict[str, Any]]) -> dict[str, str]:
    """Add the nodes, and return their ids by name."""
    ids = {node["name"]: f"n{place}" for place, node in enumerate(nodes)}
    for node in nodes:
        _data(SubElement(graph, "node", id=ids[node["name"]]), "node", node | {"label": node["name"]})
    return ids


def _edge(graph: Element, link: dict[str, Any], ids: dict[str, str], undirected: bool) -> None:
    for end in ("source", "target"):
        if link[end] not in ids:
            raise TreefoldError(f"link {link['source']} -> {link['target']}: node {link[end]!r} is unknown; add it")
    edge = SubElement(graph, "edge", source=ids[link["source"]], target=ids[link["target"]])
    if link.get("both_ways", False) and not undirected:
        edge.set("directed", "false")
    _data(edge, "edge", link | ({"shares": json.dumps(link["shares"])} if link.get("shares") else {"shares": None}))


def _data(element: Element, scope: str, values: dict[str, Any]) -> None:
    for key in _KEYS[scope]:
        if values.get(key) is not None:
            value = values[key]
            SubElement(element, "data", key=f"{scope}_{key}").text = (
                str(value).lower() if isinstance(value, bool) else str(value)
            )
