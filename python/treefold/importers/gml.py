"""Reads GML files, which are lists of keys and values: texts, numbers, or lists in brackets.

Numbers stay texts until a value is needed, and an id is its text. Libraries would read numbers of any length, and
disagree whether 1 and 1.0 are the same node.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

from treefold.checks import shown
from treefold.files.problems import fail
from treefold.files.reading import MOST_LEVELS, Budget, decode
from treefold.importers.document import Document
from treefold.importers.graphs import Attributes, Edge, Graph, graph_document

_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#[^\n]*)|(?P<bracket>[\[\]])|"(?P<text>[^"]*)"|(?P<word>[^\s\[\]"\#]+)|(?P<end>\Z)|")"""
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_KEY = re.compile(r"[A-Za-z_]\w*")
_Token = tuple[str, str, int]
_List = list[tuple[str, Any]]


def parse(content: bytearray, where: str) -> Document:
    """Return the document of a GML file; it keeps parallel edges, even without `multigraph`.

    Raises:
        TreefoldError: If the file is not valid GML, or has not exactly one graph.

    """
    text = decode(content, where)
    graphs = [value for key, value in _Reader(text, where).read() if key == "graph" and isinstance(value, list)]
    if len(graphs) != 1:
        raise fail(where, f"not valid GML: it holds {len(graphs)} graphs; write one: graph [ ... ]")
    [parts] = graphs
    attributes = _attributes(parts)
    both_ways = attributes.get("directed", "0") in ("0", "")
    edges = [_edge(each, place, both_ways, where) for place, each in enumerate(_lists(parts, "edge"))]
    return graph_document(Graph(attributes, _nodes(_lists(parts, "node"), where), edges), where)


class _Reader:
    """Turns a text into nested lists of keys and values."""

    def __init__(self, text: str, where: str) -> None:
        self._text, self._where, self._budget = text, where, Budget(where)
        self._tokens = self._tokenize()

    def read(self) -> _List:
        """Return the keys and values of the whole text."""
        return self._list(0)

    def _tokenize(self) -> Iterator[_Token]:
        for found in _TOKEN.finditer(self._text):
            self._budget.spend(1)
            kind = found.lastgroup
            if kind is None:
                raise self._error(found.end(), "this quoted text never ends; is the file complete?")
            if kind != "comment":
                yield kind, found[kind], found.start(kind)
            if kind == "end":
                return

    def _list(self, level: int) -> _List:
        """Return the keys and values up to the bracket that ends the list, or up to the end of the text."""
        parts: _List = []
        for kind, key, place in self._tokens:
            if kind == "end" or (kind, key) == ("bracket", "]"):
                self._check_end(key, place, level)
                return parts
            if kind != "word" or not _KEY.fullmatch(key):
                raise self._error(place, f"{shown(key)} stands where a key is expected")
            parts.append((key, self._value(level)))
        return parts

    def _check_end(self, token: str, place: int, level: int) -> None:
        if token == "" and level:
            raise self._error(place, "the file ends where ']' is expected; is it complete?")
        if token == "]" and not level:
            raise self._error(place, "']' closes nothing")

    def _value(self, level: int) -> Any:
        kind, text, place = next(self._tokens)
        if kind == "text":
            self._budget.spend(text.count("&"))
            return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
        if kind == "word":
            return text
        if text != "[":
            raise self._error(place, "a key has no value; is the file complete?")
        if level == MOST_LEVELS:
            raise self._error(place, f"lists are nested more than {MOST_LEVELS} deep")
        return self._list(level + 1)

    def _error(self, place: int, problem: str) -> Exception:
        line = self._text.count("\n", 0, place) + 1
        return fail(self._where, f"not valid GML at line {line}: {problem}")


def _lists(parts: _List, wanted: str) -> list[_List]:
    return [value for key, value in parts if key == wanted and isinstance(value, list)]


def _attributes(parts: _List) -> Attributes:
    """Return the texts and numbers of a list by key; a repeated key gets a list, which is never a valid value."""
    found: Attributes = {}
    for key, value in parts:
        if isinstance(value, str):
            found.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def _nodes(lists: list[_List], where: str) -> dict[str, Attributes]:
    nodes: dict[str, Attributes] = {}
    for place, parts in enumerate(lists):
        attributes = _attributes(parts)
        id_ = attributes.pop("id", None)
        if not isinstance(id_, str) or id_ in nodes:
            problem = "has no id" if id_ is None else f"has the id {shown(id_)}, which stands twice"
            raise fail(where, f"not valid GML: node {place} {problem}; give each node its own id")
        nodes[id_] = attributes
    return nodes


def _edge(parts: _List, place: int, both_ways: bool, where: str) -> Edge:
    attributes = _attributes(parts)
    ends = [attributes.pop(end, None) for end in ("source", "target")]
    if not all(isinstance(end, str) for end in ends):
        raise fail(where, f"not valid GML: edge {place} needs one source and one target, got {shown(ends)}")
    return Edge(ends[0], ends[1], attributes, both_ways)
