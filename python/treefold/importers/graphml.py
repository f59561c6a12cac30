"""Reads GraphML files with expat; `<key>` elements give attributes their names and defaults.

Values stay texts until a number is needed. Declarations of entities are refused in every encoding.
"""

import xml.parsers.expat as expat
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder

from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.files.problems import fail, reason
from treefold.files.reading import MOST_LEVELS, Budget
from treefold.importers.document import Document
from treefold.importers.graphs import Attributes, Edge, Graph, graph_document


class _Keys(NamedTuple):
    """The declarations of `<key>` elements: names of attributes by id, and defaults by kind of element."""

    names: dict[str | None, str]
    defaults: dict[str, Attributes]


def parse(content: bytearray, where: str) -> Document:
    """Return the document of a GraphML file.

    Raises:
        TreefoldError: If the file is not one flat GraphML graph.

    """
    root = _tree(content, where)
    graph = _only_graph(root, where)
    keys, budget = _keys(root), Budget(where)
    nodes = _nodes(graph, keys, budget, where)
    directed = graph.get("edgedefault", "undirected") == "directed"
    edges = [_edge(edge, directed, _attributes(edge, keys, budget, where)) for edge in graph.findall("edge")]
    return graph_document(Graph(_attributes(graph, keys, budget, where), nodes, edges), where)


def _tree(content: bytearray, where: str) -> Element:
    """Return the elements of an XML text; their names lose their namespaces."""
    builder, budget = TreeBuilder(), Budget(where)
    level = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal level
        level += 1
        budget.spend(1 + len(attributes))
        if level > MOST_LEVELS:
            raise fail(where, f"not valid GraphML: elements are nested more than {MOST_LEVELS} deep")
        builder.start(name.rpartition("}")[2], attributes)

    def end(name: str) -> None:
        nonlocal level
        level -= 1
        builder.end(name.rpartition("}")[2])

    def refuse(*_: Any) -> None:
        raise fail(where, "declares or uses XML entities, which are not read; write the text out")

    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    parser.EntityDeclHandler = parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(content, True)
        return builder.close()
    except TreefoldError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise fail(where, f"not valid XML: {reason(error)}; is the file complete?") from None


def _only_graph(root: Element, where: str) -> Element:
    graphs = list(root.iter("graph"))
    if root.tag != "graphml" or len(graphs) != 1:
        found = f"{len(graphs)} graphs" if root.tag == "graphml" else f"the XML element {shown(root.tag)}"
        raise fail(where, f"holds {found}; write one flat <graph> inside <graphml>")
    if graphs[0].find("hyperedge") is not None:
        raise fail(where, "holds hyperedges, which are not read; write edges between two nodes")
    return graphs[0]


def _keys(root: Element) -> _Keys:
    names: dict[str | None, str] = {}
    defaults: dict[str, Attributes] = {"graph": {}, "node": {}, "edge": {}}
    for key in root.findall("key"):
        name = names[key.get("id")] = key.get("attr.name") or key.get("id") or ""
        default, scope = key.find("default"), key.get("for", "all")
        for holder in defaults if scope == "all" else [scope]:
            if default is not None and holder in defaults:
                defaults[holder][name] = _text(default)
    return _Keys(names, defaults)


def _text(element: Element) -> str:
    return "".join(element.itertext()).strip()


def _nodes(graph: Element, keys: _Keys, budget: Budget, where: str) -> dict[str, Attributes]:
    nodes: dict[str, Attributes] = {}
    for node in graph.findall("node"):
        id_ = node.get("id")
        if id_ is None or id_ in nodes:
            raise fail(where, f"node id {shown(id_)} is missing or stands twice; give each node its own id")
        nodes[id_] = _attributes(node, keys, budget, where)
        label = node.find(".//NodeLabel")  # in drawings by yEd
        if label is not None:
            nodes[id_].setdefault("label", _text(label))
    return nodes


def _edge(edge: Element, directed: bool, attributes: Attributes) -> Edge:
    one_way = edge.get("directed", "true" if directed else "false").lower() in ("true", "1")
    return Edge(edge.get("source", ""), edge.get("target", ""), attributes, not one_way)


def _attributes(element: Element, keys: _Keys, budget: Budget, where: str) -> Attributes:
    """Return the data of an element, with defaults for attributes that it lacks."""
    found = dict(keys.defaults[element.tag])
    budget.spend(len(found))
    for data in element.findall("data"):
        name = keys.names.get(data.get("key"))
        if name is None:
            raise fail(where, f"not valid GraphML: there is no key {shown(data.get('key'))}; declare it with <key>")
        found[name] = _text(data)
    return found
