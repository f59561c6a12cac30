"""Reads JSON files: treefold's own, node-link graphs, edge lists, and matrices of measured pairs."""

from typing import Any

from treefold.checks import guess, shown
from treefold.files.problems import fail, one_line
from treefold.files.reading import check_links, parse_json, stem
from treefold.importers import matrix, own
from treefold.importers.document import FORMAT, Document, make_document, make_link, make_node
from treefold.importers.graphs import Attributes, Edge, Graph, graph_document
from treefold.text import some

_FORMS = (
    f'a treefold topology ("format": "{FORMAT}"), node-link JSON ("nodes" and "links" or "edges"), '
    'an edge list ("nodes" and "edges": [[0, 1], ...]) or a matrix ("names" and "bandwidth_mbps" or "rtt_ms")'
)

_MOST_GUESSES = 100


def parse(text: bytearray, where: str) -> Document:
    """Return the document of a JSON file; its keys tell its form.

    Raises:
        TreefoldError: If the form is unknown, or the content is malformed.

    """
    content = parse_json(text, where)
    if not isinstance(content, dict):
        raise fail(where, f"holds {shown(content)}, not an object; write {_FORMS}")
    if "format" in content:
        return _own(content, where)
    if "routes" in content:
        problem = "'routes' is not read here"
        raise fail(where, f"{problem}; write treefold's own JSON, or node-link JSON with 'routes' in its 'graph'")
    if matrix.is_matrix(content):
        return matrix.parse_json(content, where)
    edges = content.get("edges", content.get("links"))
    if not isinstance(edges, list) or "nodes" not in content:
        raise fail(where, f"is in no known form; {_guess(content)}write {_FORMS}")
    if (edges and all(isinstance(edge, list) for edge in edges)) or isinstance(content["nodes"], int):
        return _edge_list(content, edges, where)
    return graph_document(_node_link(content, edges, where), where)


def _guess(content: dict[str, Any]) -> str:
    """Return the question whether a key is misspelt; empty if no known key is similar."""
    known = ("format", "nodes", "edges", "links", *matrix.NAMES_KEYS, *matrix.VALUES_KEYS)
    for key in [*content][:_MOST_GUESSES]:
        near = None if key in known else guess(key, known)
        if near:
            return f"did you mean {near} by {shown(key)}? If not, "
    return ""


def _own(content: dict[str, Any], where: str) -> Document:
    if content["format"] != FORMAT:
        problem = f'format {shown(content["format"])} is not a topology; expected "{FORMAT}"'
        is_plan = content["format"] == "treefold-plan"
        hint = " (it is a plan: check, simulate and run take plans)"
        raise fail(where, problem + hint if is_plan else problem)
    return own.parse(content, where)


def _edge_list(content: dict[str, Any], edges: list[Any], where: str) -> Document:
    check_links(len(edges), where)
    names = _edge_list_names(content["nodes"], where)
    both_ways = content.get("bidirectional", True)
    if not isinstance(both_ways, bool):
        raise fail(where, f"'bidirectional' must be true or false, got {shown(both_ways)}")
    known = dict.fromkeys(names)
    pairs = [_pair(edge, known, f"{where}: edge {place}") for place, edge in enumerate(edges)]
    links = [make_link(source, target, both_ways=both_ways) for source, target in pairs]
    return make_document(one_line(str(content.get("name") or stem(where))), [make_node(name) for name in names], links)


def _edge_list_names(nodes: object, where: str) -> list[str]:
    if isinstance(nodes, int) and not isinstance(nodes, bool) and nodes > 0:
        check_links(nodes, where)
        return [str(number) for number in range(nodes)]
    if isinstance(nodes, list) and all(_is_id(node) for node in nodes):
        return [one_line(str(node)) for node in nodes]
    raise fail(where, f"'nodes' must be a positive count or a list of names, got {shown(nodes)}")


def _pair(edge: Any, names: dict[str, None], where: str) -> tuple[str, str]:
    if not isinstance(edge, list) or len(edge) != 2:
        raise fail(where, f"must be a pair such as [0, 1], got {shown(edge)}")
    for end in edge:
        if not _is_id(end) or one_line(str(end)) not in names:
            raise fail(where, f"node {shown(end)} is unknown; there are {len(names)}: {some(names)}")
    return one_line(str(edge[0])), one_line(str(edge[1]))


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _node_link(content: dict[str, Any], edges: list[Any], where: str) -> Graph:
    """Return the graph of networkx's node-link JSON. networkx itself would merge parallel links of a plain graph."""
    directed = content.get("directed", False)
    if not isinstance(directed, bool) or not isinstance(content["nodes"], list):
        raise fail(where, "'directed' must be true or false and 'nodes' a list of objects with an id")
    nodes: dict[str, Attributes] = {}
    for place, node in enumerate(content["nodes"]):
        id_ = _node_id(node, f"{where}: node {place}")
        if id_ in nodes:
            raise fail(where, f"node id {shown(id_)} stands twice; give each node its own id")
        nodes[id_] = {key: value for key, value in node.items() if key != "id"}
    links = [_edge(edge, not directed, f"{where}: link {place}") for place, edge in enumerate(edges)]
    attributes = content.get("graph")
    return Graph(attributes if isinstance(attributes, dict) else {}, nodes, links)


def _node_id(node: object, where: str) -> str:
    if not isinstance(node, dict) or node.get("id") is None:
        hint = f'give it an "id", or add "format": "{FORMAT}" and "version": 1 if this is a treefold topology'
        raise fail(where, f"{shown(node)} has no id; {hint}")
    return _id_text(node["id"])


def _edge(edge: object, both_ways: bool, where: str) -> Edge:
    if not isinstance(edge, dict):
        raise fail(where, f"must be an object with source and target, got {shown(edge)}")
    return Edge(_id_text(edge.get("source")), _id_text(edge.get("target")), edge, both_ways)


def _id_text(id_: object) -> str:
    """Return an id as text; networkx writes a tuple, such as (0, 1) in a grid, as a list."""
    return str(tuple(id_)) if isinstance(id_, list) else str(id_)
