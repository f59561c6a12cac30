"""DOT (Graphviz), parsed by pydot; nothing is executed and Graphviz itself is not needed.

What the file means is worked out here rather than by networkx, which skips subgraphs and default attributes.
"""

import contextlib
import io
import re
import warnings
from typing import Any

from treefold.importers.document import Document, fail, reason
from treefold.importers.files import read_text
from treefold.importers.graphs import Attributes, Edge, Graph, graph_document

_ID = re.compile(r'"(?:[^"\\]|\\.)*"|<.*>|[^:]+', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def read(where: str) -> Document:
    """Return the document of the DOT file `where`, subgraphs and default attributes included.

    An edge of a `graph` goes both ways, one of a `digraph` one way unless it says `dir=both`, `none` or `back`.

    Raises:
        TreefoldError: If the file cannot be read or is not one valid DOT graph.

    """
    graph = _parse(read_text(where), where)
    walk = _Walk(directed=graph.get_type() == "digraph")
    walk.statements(graph, {}, {})
    edges = list({_pair(edge): edge for edge in walk.edges}.values()) if graph.get_strict() else walk.edges
    attributes = _plain(graph.get_attributes())
    name = _unquoted(graph.get_name() or "")
    return graph_document(Graph(attributes | ({"name": name} if name else {}), walk.nodes, edges), where)


def _parse(text: str, where: str) -> Any:
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stdout(complaint), contextlib.redirect_stderr(complaint), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import pydot

            graphs = pydot.graph_from_dot_data(text)
    except Exception as error:
        raise fail(where, f"not valid DOT: {reason(error)}") from None
    if not graphs:
        lines = complaint.getvalue().strip().splitlines() or ["it cannot be parsed"]
        raise fail(where, f"not valid DOT: {lines[-1]}; is the file complete?")
    if len(graphs) > 1:
        raise fail(where, f"holds {len(graphs)} graphs; keep one")
    return graphs[0]


class _Walk:
    """Visits the statements of a graph in order and collects nodes and edges."""

    def __init__(self, *, directed: bool) -> None:
        self.directed = directed
        self.nodes: dict[str, Attributes] = {}
        self.edges: list[Edge] = []

    def statements(self, graph: Any, node_default: Attributes, edge_default: Attributes) -> list[str]:
        """Visits one graph or subgraph and returns the ids of the nodes in it."""
        node_default, edge_default = dict(node_default), dict(edge_default)
        inside: list[str] = []
        parts = [*graph.get_node_list(), *graph.get_edge_list(), *graph.get_subgraph_list()]
        for part in sorted(parts, key=lambda part: part.get_sequence() or 0):
            kind, attributes = part.obj_dict["type"], _plain(part.get_attributes())
            if kind == "edge":
                inside += self._edge(part, node_default, edge_default | attributes)
            elif kind != "node":
                inside += self.statements(part, node_default, edge_default)
            elif part.get_name() in ("node", "edge", "graph"):
                {"node": node_default, "edge": edge_default}.get(part.get_name(), {}).update(attributes)
            else:
                inside.append(self._node(_unquoted(part.get_name()), node_default, attributes))
        return inside

    def _node(self, id_: str, default: Attributes, attributes: Attributes) -> str:
        self.nodes[id_] = self.nodes.get(id_, default) | attributes
        return id_

    def _edge(self, edge: Any, node_default: Attributes, attributes: Attributes) -> list[str]:
        sources = self._ends(edge.get_source(), node_default)
        targets = self._ends(edge.get_destination(), node_default)
        style = str(attributes.get("dir", "forward")) if self.directed else "both"
        if style == "back":
            sources, targets = targets, sources
        both_ways = style in ("both", "none")
        self.edges += [Edge(source, target, attributes, both_ways) for source in sources for target in targets]
        return sources + targets

    def _ends(self, end: Any, node_default: Attributes) -> list[str]:
        """Return the nodes that one end of an edge stands for: a node, or all nodes of a subgraph."""
        if isinstance(end, str):
            return [self._node(_unquoted(end), node_default, {})]
        import pydot

        inside = self.statements(pydot.Subgraph(obj_dict=end), node_default, {})
        return list(dict.fromkeys(inside))


def _pair(edge: Edge) -> tuple[str, str]:
    """Return what a `strict` graph allows once."""
    ends = (edge.source, edge.target)
    return (min(ends), max(ends)) if edge.both_ways else ends


def _plain(attributes: Any) -> Attributes:
    """Attributes as text; labels in HTML and labels that stand for the node's own id are left out."""
    return {
        str(key): _unquoted(str(value))
        for key, value in attributes.items()
        if not str(value).startswith("<") and str(value) != r'"\N"'
    }


def _unquoted(text: str) -> str:
    """Return an identifier without port and quotes."""
    found = _ID.match(text)
    text = found.group() if found else text
    return _ESCAPE.sub(_unescaped, text[1:-1]) if text.startswith('"') else text


def _unescaped(escape: re.Match[str]) -> str:
    """Return what an escape means: a line break in a label is a space in a name."""
    return " " if escape[1] in "nlr" else escape[1]
