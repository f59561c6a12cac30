"""GML, through networkx."""

import re
import warnings
from typing import Any

from treefold.importers.document import Document, fail, reason
from treefold.importers.files import read_text
from treefold.importers.graphs import Edge, Graph, graph_document

_GRAPH = re.compile(r"^\s*graph\s*\[", re.MULTILINE)


def read(where: str) -> Document:
    """Return the document of the GML file `where`; parallel edges are kept whether or not the file says `multigraph`.

    Raises:
        TreefoldError: If the file cannot be read or is not valid GML.

    """
    text = read_text(where)
    if not re.search(r"^\s*multigraph\s", text, re.MULTILINE):
        text = _GRAPH.sub("graph [\n multigraph 1", text, count=1)
    decoded = _decode(text, where)
    nodes = {str(id_): _named(data) for id_, data in decoded.nodes(data=True)}
    both_ways = not decoded.is_directed()
    edges = [Edge(str(source), str(target), data, both_ways) for source, target, data in decoded.edges(data=True)]
    return graph_document(Graph(_named(decoded.graph), nodes, edges), where)


def _decode(text: str, where: str) -> Any:
    import networkx

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return networkx.parse_gml(text, label="id")
        except Exception as error:
            raise fail(where, f"not valid GML: {reason(error)}; is the file complete?") from None


def _named(data: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes as text and numbers: GML may nest lists, which no attribute of ours is."""
    return {key: value for key, value in data.items() if isinstance(value, str | int | float)}
