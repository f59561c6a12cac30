"""Reads DOT files without Graphviz, and executes nothing in them.

No library reads them for us: pydot's time is exponential in the depth of nested subgraphs, and networkx skips subgraphs
and default attributes.
"""

import itertools

from treefold.files.problems import fail
from treefold.files.reading import MOST_LEVELS, Budget, check_links, decode
from treefold.importers.document import Document
from treefold.importers.dot_tokens import Token, error_at, tokenize
from treefold.importers.graphs import Attributes, Edge, Graph, graph_document


def parse(content: bytearray, where: str) -> Document:
    """Return the document of a DOT file, with its subgraphs and default attributes.

    An edge of a `graph` goes both ways; an edge of a `digraph` goes one way unless `dir` is `both`, `none` or `back`.

    Raises:
        TreefoldError: If the file is not one valid DOT graph.

    """
    parser = _Parser(decode(content, where), where)
    is_strict, name = parser.read()
    edges = list({_pair(edge): edge for edge in parser.edges}.values()) if is_strict else parser.edges
    attributes = parser.attributes | ({"name": name} if name else {})
    return graph_document(Graph(attributes, parser.nodes, edges), where)


def _pair(edge: Edge) -> tuple[str, str]:
    """Return the ends of an edge, which a `strict` graph has only once."""
    ends = (edge.source, edge.target)
    return (min(ends), max(ends)) if edge.both_ways else ends


class _Parser:
    """Reads the tokens of a text once, and collects nodes, edges and attributes."""

    def __init__(self, text: str, where: str) -> None:
        self.attributes: Attributes = {}
        self.nodes: dict[str, Attributes] = {}
        self.edges: list[Edge] = []
        self._mentioned: list[str] = []
        """The nodes in the order of the text; those of a subgraph, which may be an end of edges, are adjacent."""
        self._text, self._where = text, where
        self._budget = Budget(where)
        self._tokens = tokenize(text, where)
        self._token = next(self._tokens)
        self._directed = False

    def read(self) -> tuple[bool, str]:
        """Read the whole text; return whether the graph is strict, and its name."""
        is_strict = self._accept_word("strict")
        self._directed = self._accept_word("digraph")
        if not self._directed and not self._accept_word("graph"):
            raise self._unexpected("graph or digraph")
        name = "" if self._token.is_sign("{") else self._id()
        self._expect("{")
        self._statements({}, {}, 0)
        if self._token.is_word("strict", "graph", "digraph"):
            raise fail(self._where, "holds more than one graph; keep one of them")
        if self._token.kind != "end":
            raise self._unexpected("the end")
        return is_strict, name

    def _statements(self, node_default: Attributes, edge_default: Attributes, level: int) -> None:
        """Read up to the brace that closes a graph or subgraph."""
        if level > MOST_LEVELS:
            raise error_at(self._text, self._token, self._where, f"subgraphs are nested more than {MOST_LEVELS} deep")
        self._budget.spend(len(node_default) + len(edge_default))
        node_default, edge_default = dict(node_default), dict(edge_default)
        while not self._accept("}"):
            self._statement(node_default, edge_default, level)
            self._accept(";")

    def _statement(self, node_default: Attributes, edge_default: Attributes, level: int) -> None:
        if self._token.is_word("node", "edge", "graph"):
            graph_default = {} if level else self.attributes
            defaults = {"node": node_default, "edge": edge_default, "graph": graph_default}
            defaults[self._next().text.lower()].update(self._attributes())
            return
        first = len(self._mentioned)
        if self._token.is_sign("{") or self._token.is_word("subgraph"):
            self._subgraph(node_default, edge_default, level)
        else:
            id_ = self._id()
            if self._accept("="):
                ({} if level else self.attributes)[id_] = self._id()
                return
            self._port()
            is_end = self._token.is_sign("--", "->")
            self._node(id_, node_default, {} if is_end else self._attributes())
        self._chain(first, node_default, edge_default, level)

    def _chain(self, first: int, node_default: Attributes, edge_default: Attributes, level: int) -> None:
        """Read the rest of a chain of edges, if there is one; its first end is the nodes mentioned since `first`."""
        bounds = [first, len(self._mentioned)]
        while self._accept("--") or self._accept("->"):
            if self._token.is_sign("{") or self._token.is_word("subgraph"):
                self._subgraph(node_default, edge_default, level)
            else:
                self._node(self._id(), node_default, {})
                self._port()
            bounds.append(len(self._mentioned))
        attributes = self._attributes()
        if len(bounds) == 2:
            return
        self._budget.spend(len(edge_default) + bounds[-1] - first)
        attributes = edge_default | attributes
        ends = [list(dict.fromkeys(self._mentioned[start:end])) for start, end in itertools.pairwise(bounds)]
        for sources, targets in itertools.pairwise(ends):
            self._join(sources, targets, attributes)

    def _join(self, sources: list[str], targets: list[str], attributes: Attributes) -> None:
        check_links(len(self.edges) + len(sources) * len(targets), self._where)
        style = str(attributes.get("dir", "forward")) if self._directed else "both"
        if style == "back":
            sources, targets = targets, sources
        both_ways = style in ("both", "none")
        self.edges += [Edge(source, target, attributes, both_ways) for source in sources for target in targets]

    def _subgraph(self, node_default: Attributes, edge_default: Attributes, level: int) -> None:
        if self._accept_word("subgraph") and not self._token.is_sign("{"):
            self._id()
        self._expect("{")
        self._statements(node_default, edge_default, level + 1)

    def _node(self, id_: str, default: Attributes, attributes: Attributes) -> None:
        if id_ not in self.nodes:
            check_links(len(self.nodes) + 1, self._where)
            self._budget.spend(len(default))
            self.nodes[id_] = dict(default)
        self.nodes[id_].update(attributes)
        self._mentioned.append(id_)

    def _attributes(self) -> Attributes:
        """Read lists of attributes, if any, without HTML texts and without labels that repeat a node's id."""
        found: Attributes = {}
        while self._accept("["):
            while not self._accept("]"):
                key = self._id()
                value = self._token if self._accept("=") else None
                text = "true" if value is None else self._id()
                if value is None or not (value.kind == "html" or value.text == r"\N"):
                    found[key] = text
                if not self._accept(","):
                    self._accept(";")
        return found

    def _id(self) -> str:
        """Read a word, or texts that plus signs join."""
        if self._token.kind not in ("word", "text", "html"):
            raise self._unexpected("a name")
        found = self._next().unescaped()
        if not self._token.is_sign("+"):
            return found
        parts = [found]
        while self._accept("+"):
            parts.append(self._next().unescaped())
        return "".join(parts)

    def _port(self) -> None:
        while self._accept(":"):
            self._id()

    def _next(self) -> Token:
        token, self._token = self._token, next(self._tokens)
        return token

    def _accept(self, sign: str) -> bool:
        """Read a sign if it is next, and tell whether it was."""
        token = self._token
        if token.text != sign or token.kind != "sign":
            return False
        self._token = next(self._tokens)
        return True

    def _accept_word(self, word: str) -> bool:
        found = self._token.is_word(word)
        if found:
            self._next()
        return found

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise self._unexpected(f"'{sign}'")

    def _unexpected(self, wanted: str) -> Exception:
        remedy = "; is it complete?" if self._token.kind == "end" else ""
        problem = f"{self._token.shown()} where {wanted} is expected{remedy}"
        return error_at(self._text, self._token, self._where, problem)
