"""Makes documents of graphs, whose nodes and edges have attributes: GraphML, GML, DOT and node-link JSON."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from treefold.checks import guess, shown
from treefold.files.problems import fail, one_line, warn
from treefold.files.reading import check_links, loads, stem
from treefold.importers.document import KINDS, Document, make_document, make_link, make_node
from treefold.importers.own import TESTED, explicit_routes, shared_capacities
from treefold.importers.positions import position_of
from treefold.importers.shares import Share, read_shares, shared_of
from treefold.importers.values import guess_word, link_values, measure, quantity_of, truth

Attributes = dict[str, Any]

_NODE_KEYS = ("name", "label", "kind", "reduces", "multicasts", "latency_s", "latitude", "longitude")
_EDGE_KEYS = ("streams", "shares")
_MOST_GUESSES = 100


class Edge(NamedTuple):
    """An edge between the ids of two nodes; an undirected edge goes both ways."""

    source: str
    target: str
    attributes: Attributes
    both_ways: bool


class Graph(NamedTuple):
    """The graph of a file: its own attributes, its nodes by id, and its edges in the file's order."""

    attributes: Attributes
    nodes: dict[str, Attributes]
    edges: list[Edge]


def graph_document(graph: Graph, where: str) -> Document:
    """Return the document of a graph.

    A node's name is its attribute `name` or `label`, or else its id; a label of several nodes becomes `label (id)`.
    Nodes may have kind, reduces, multicasts, latency_s, latitude and longitude. Edges may have bandwidth_Bps, a
    bandwidth or capacity with a unit, latency_s, a latency with a unit, overhead_s, streams, shares, and what Topology
    Zoo writes; the graph may have ranks, shape, shared and routes as JSON text.

    Raises:
        TreefoldError: If an edge ends at an unknown node, or an attribute has an impossible value.

    """
    check_links(max(len(graph.nodes), len(graph.edges)), where)
    _check_ends(graph, where)
    names = node_names(graph.nodes)
    nodes = [_node(names[id_], attributes, where) for id_, attributes in graph.nodes.items()]
    shares = [_shares(edge, names, where) for edge in graph.edges]
    links = [_link(edge, names, own, where) for edge, own in zip(graph.edges, shares, strict=True)]
    shared = shared_of([share for own in shares for share in own], _listed(graph.attributes, where))
    _warn_of_weights(graph.edges, links, where)
    _warn_of_misspelt(graph, where)
    return make_document(_graph_name(graph.attributes, where), nodes, links, shared) | _extras(graph.attributes, where)


def _check_ends(graph: Graph, where: str) -> None:
    for place, edge in enumerate(graph.edges):
        for end in (edge.source, edge.target):
            if end not in graph.nodes:
                raise fail(where, f"link {place}: node {shown(end)} is unknown; add it to the nodes")


def _warn_of_weights(edges: list[Edge], links: list[dict[str, Any]], where: str) -> None:
    """Warn of `weight`, the usual attribute of networkx, if no edge has a bandwidth."""
    if any("weight" in edge.attributes for edge in edges) and not any("bandwidth_Bps" in link for link in links):
        read = "bandwidth or capacity with a unit (10Gbit/s), or bandwidth_Bps (a number)"
        warn(where, f"the edges' attribute 'weight' is ignored; a link's bandwidth is read from {read}")


def _warn_of_misspelt(graph: Graph, where: str) -> None:
    """Warn of each ignored attribute whose name is similar to that of a missing one."""
    on_nodes = _keys(graph.nodes.values())
    missing = [key for key in _NODE_KEYS if key not in map(str.lower, on_nodes)]
    guesses = {f"the nodes' attribute {shown(key)}": guess(key, missing) for key in on_nodes if key not in _NODE_KEYS}
    on_edges = [key for key in _keys(edge.attributes for edge in graph.edges) if key not in ("source", "target")]
    given = {found.field for key in on_edges if (found := quantity_of(key))}
    lacking = [key for key in _EDGE_KEYS if key not in on_edges]
    for key in on_edges:
        known = key in _EDGE_KEYS or quantity_of(key)
        guesses[f"the edges' attribute {shown(key)}"] = None if known else guess_word(key, given) or guess(key, lacking)
    for what, near in guesses.items():
        if near:
            warn(where, f"{what} is ignored; did you mean {near}?")


def _keys(attributes: Iterable[Attributes]) -> list[str]:
    """Return the names of the first hundred attributes, which is more than any file needs."""
    seen = dict.fromkeys(key for each in attributes for key in each)
    return [*islice(seen, _MOST_GUESSES)]


def node_names(nodes: dict[str, Attributes]) -> dict[str, str]:
    """Return the name of each node by its id; all names differ."""
    labels = {id_: _label(attributes) or one_line(id_) for id_, attributes in nodes.items()}
    bearers = Counter(labels.values())
    names = {id_: label if bearers[label] == 1 else f"{label} ({one_line(id_)})" for id_, label in labels.items()}
    return names if len(set(names.values())) == len(names) else {id_: one_line(id_) for id_ in nodes}


def _label(attributes: Attributes) -> str:
    """Return the name among the attributes on one line; empty if there is none."""
    given = (attributes.get(key) for key in ("name", "label"))
    texts = (one_line(str(value)) for value in given if isinstance(value, str | int | float))
    return next((text for text in texts if text), "")


def _graph_name(attributes: Attributes, where: str) -> str:
    return _label(attributes) or stem(where)


def _node(name: str, attributes: Attributes, where: str) -> dict[str, Any]:
    where = f"{where}: node {shown(name)}"
    kind = attributes.get("kind") or "accelerator"
    if kind not in KINDS:
        raise fail(where, f"kind {shown(kind)} is unknown; write {' or '.join(KINDS)}")
    flags = {key: truth(attributes.get(key) or False, where, key) for key in ("reduces", "multicasts")}
    latency = quantity_of("latency_s")
    latency_s = measure(attributes.get("latency_s"), latency, where) if latency else None
    return make_node(name, kind, **flags, latency_s=latency_s or 0.0, position=position_of(attributes, where))


def _shares(edge: Edge, names: dict[str, str], where: str) -> list[Share]:
    return read_shares(edge.attributes.get("shares"), _place(edge, names, where))


def _link(edge: Edge, names: dict[str, str], shares: list[Share], where: str) -> dict[str, Any]:
    values = link_values(edge.attributes, _place(edge, names, where))
    ends = names[edge.source], names[edge.target]
    return make_link(*ends, **values, shares=[share.name for share in shares], both_ways=edge.both_ways)


def _place(edge: Edge, names: dict[str, str], where: str) -> str:
    return f"{where}: link {shown(names[edge.source])} -> {shown(names[edge.target])}"


def _listed(attributes: Attributes, where: str) -> list[dict[str, Any]]:
    """Return the shared capacities that the graph lists."""
    if not attributes.get("shared"):
        return []
    shared = _decoded(attributes["shared"])
    if not isinstance(shared, list):
        example = '[{"name": "conduit", "bandwidth": "10Gbit/s"}]'
        raise fail(where, f"'shared' must be a JSON list such as {example}, got {shown(attributes['shared'])}")
    return shared_capacities({"shared": shared}, where)


def _extras(attributes: Attributes, where: str) -> dict[str, Any]:
    """Return routes, ranks, shape and `tested`, which treefold writes as JSON text into a graph's attributes."""
    found: dict[str, Any] = {}
    if attributes.get("routes") not in (None, ""):
        routes = _decoded(attributes["routes"])
        if not isinstance(routes, list):
            example = '[{"source": "a", "target": "c", "via": ["b"]}]'
            raise fail(where, f"'routes' must be a JSON list such as {example}, got {shown(attributes['routes'])}")
        found["routes"] = explicit_routes({"routes": routes}, where)
    if attributes.get("ranks"):
        ranks = _decoded(attributes["ranks"])
        if not isinstance(ranks, list) or not all(isinstance(rank, str) for rank in ranks):
            raise fail(where, f"'ranks' must be a JSON list of node names, got {shown(attributes['ranks'])}")
        found["ranks"] = ranks
    shape = _decoded(attributes.get("shape"))
    found |= {"shape": shape} if isinstance(shape, dict) else {}
    tested = _decoded(attributes.get("tested"))
    return found | ({"tested": tested} if tested in TESTED else {})


def _decoded(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return loads(value)
    except (ValueError, RecursionError):
        return None
