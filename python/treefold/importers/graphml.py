"""GraphML, through networkx.

networkx decodes keys, types and defaults. Three things it would lose are settled before: edges whose `directed`
differs from the graph's default (networkx refuses a mix), the order of edges, and parallel edges with equal ids.
"""

import warnings
import xml.etree.ElementTree as ElementTree
from typing import Any
from xml.etree.ElementTree import Element

from treefold.importers.document import Document, fail, reason, shown
from treefold.importers.files import read_bytes
from treefold.importers.graphs import Edge, Graph, graph_document

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"


def read(where: str) -> Document:
    """Return the document of the GraphML file `where`.

    Raises:
        TreefoldError: If the file cannot be read or is not one flat GraphML graph.

    """
    root = _parse(read_bytes(where), where)
    graph = _only_graph(root, where)
    both_ways = _number_edges(graph, where)
    decoded = _decode(root, where)
    return graph_document(_graph(decoded, both_ways), where)


def _parse(content: bytes, where: str) -> Element:
    if b"<!ENTITY" in content:
        raise fail(where, "declares XML entities, which are not read; write the text out")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise fail(where, f"not valid XML: {reason(error)}; is the file complete?") from None
    for element in root.iter():
        if isinstance(element.tag, str) and not element.tag.startswith("{"):
            element.tag = f"{{{_NAMESPACE}}}{element.tag}"
    return root


def _only_graph(root: Element, where: str) -> Element:
    graphs = list(root.iter(_tag("graph")))
    if root.tag != _tag("graphml") or len(graphs) != 1:
        found = f"{len(graphs)} graphs" if root.tag == _tag("graphml") else f"the XML element {shown(root.tag)}"
        raise fail(where, f"holds {found}; write one flat <graph> inside <graphml>")
    return graphs[0]


def _number_edges(graph: Element, where: str) -> list[bool]:
    """Give each edge its place as id, makes all of them directed, and returns which go both ways."""
    ids = [node.get("id") for node in graph.findall(_tag("node"))]
    if len(set(ids)) != len(ids) or None in ids:
        twice = next((id_ for place, id_ in enumerate(ids) if id_ is None or id_ in ids[:place]), None)
        raise fail(where, f"node id {shown(twice)} is missing or stands twice; give each node its own id")
    default, known = graph.get("edgedefault", "undirected"), set(ids)
    both_ways = []
    for place, edge in enumerate(graph.findall(_tag("edge"))):
        for end in ("source", "target"):
            if edge.get(end) not in known:
                raise fail(where, f"edge {place} has the unknown {end} {shown(edge.get(end))}; add that node")
        directed = edge.attrib.pop("directed", "true" if default == "directed" else "false")
        both_ways.append(directed.lower() not in ("true", "1"))
        edge.set("id", str(place))
    graph.set("edgedefault", "directed")
    return both_ways


def _decode(root: Element, where: str) -> Any:
    import networkx

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return networkx.parse_graphml(ElementTree.tostring(root, encoding="unicode"), force_multigraph=True)
        except Exception as error:
            raise fail(where, f"not valid GraphML: {reason(error)}") from None


def _graph(decoded: Any, both_ways: list[bool]) -> Graph:
    attributes = dict(decoded.graph)
    node_default, edge_default = attributes.pop("node_default", {}), attributes.pop("edge_default", {})
    nodes = {id_: node_default | data for id_, data in decoded.nodes(data=True)}
    edges = sorted(decoded.edges(keys=True, data=True), key=lambda edge: int(edge[2]))
    return Graph(
        attributes,
        nodes,
        [Edge(source, target, edge_default | data, both_ways[key]) for source, target, key, data in edges],
    )


def _tag(name: str) -> str:
    return f"{{{_NAMESPACE}}}{name}"
