"""Reads CSV files: edge lists, whose header has source and target, and matrices of measured pairs."""

from typing import Any, NamedTuple

from treefold.checks import guess, shown
from treefold.files.problems import fail, one_line, warn
from treefold.files.reading import Budget, Row, check_links, parse_csv, stem
from treefold.importers import matrix_csv
from treefold.importers.document import Document, make_document, make_link, make_node, make_route
from treefold.importers.shares import KEY, Share, listed, read_shares, shared_of
from treefold.importers.values import ALIASES, Quantity, measure, quantity_of, streams, truth
from treefold.text import some

_ENDS = ("source", "target")
_ALIASES = ALIASES | {"from": "source", "src": "source", "to": "target", "dst": "target"}
_QUANTITIES = ("bandwidth", "throughput", "capacity", "latency", "rtt", "overhead")
_FLAGS = ("one_way", "streams", KEY, "via")
_WORDS = (*_ENDS, *_FLAGS, *_QUANTITIES, *_ALIASES)
_MOST_SHOWN = 3
_FORMS = "an edge list (source,target,bandwidth,latency) nor a matrix (names, with 'bandwidth Gbit/s' in the corner)"


class _Column(NamedTuple):
    """A column of an edge list."""

    key: str
    """The end, flag or field that its cells give; empty if the column is ignored."""
    quantity: Quantity | None = None
    """The quantity of its cells, if they are measured."""


def parse(content: bytearray, where: str) -> Document:
    """Return the document of a CSV file.

    Raises:
        TreefoldError: If the file has neither form; the error names the line.

    """
    rows = parse_csv(content, where)
    header, *body = [row for row in rows if not row.is_blank]
    words = [_word(label) for label in header.cells]
    if header.cells[0] and all(end in words for end in _ENDS):
        return _edge_list(header, body, where)
    if not _is_matrix(header, body, words):
        raise fail(header.where, f"header {shown(','.join(header.cells))} is neither {_FORMS}{_guess_end(header)}")
    return matrix_csv.parse(rows, where)


def _guess_end(header: Row) -> str:
    """Return what the header was to say: commas, or a source or target that is misspelt; empty if nothing is near."""
    if len(header.cells) == 1 and (other := next((sign for sign in ";\t|" if sign in header.cells[0]), None)):
        return f"; separate the columns by commas instead of {shown(other)}"
    for label in header.cells[: len(_WORDS)]:
        near = None if _word(label) in _WORDS else guess(label, _ENDS)
        if near:
            return f"; did you mean {near} by {shown(label)}?"
    return ""


def _word(label: str) -> str:
    """Return the meaning of a column's label: an end, one_way, streams, shares, via, or a quantity's usual word."""
    label = label.lower()
    found = _ALIASES.get(label, label)
    if found in (*_ENDS, *_FLAGS):
        return found
    word = label.partition("_")[0]
    word = _ALIASES.get(word, word)
    return word if word in _QUANTITIES else label


def _is_matrix(header: Row, body: list[Row], words: list[str]) -> bool:
    """Tell whether the corner is that of a matrix, or the first row has one of the header's names."""
    names = header.cells[1:]
    if not names or (body and body[0].cells[0] in names):
        return bool(names)
    corner_words = header.cells[0].lower().replace("_", " ").split() or [""]
    return corner_words[0] in ("", *_QUANTITIES) and not any(end in words for end in _ENDS)


def _edge_list(header: Row, body: list[Row], where: str) -> Document:
    columns = _columns(header)
    check_links(len(body), where)
    links, shares, routes, budget = [], [], [], Budget(where)
    for row in body:
        cells = _cells(row, columns)
        if cells.get("via"):
            budget.spend(cells["via"].count(";"))
            routes.append(_route(row, cells))
            continue
        link, own = _link(row, columns, cells)
        links.append(link)
        shares += own
    if not any(column.key == "one_way" for column in columns):
        links, routes = _settle_directions(links, where), _settle_directions(routes, where)
    names = dict.fromkeys(link[end] for link in links for end in _ENDS)
    document = make_document(stem(where), [make_node(name) for name in names], links, shared_of(shares, []))
    return document | ({"routes": routes} if routes else {})


def _settle_directions(links: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """Make links one-way if every pair is listed in both orders; warn if only some pairs are."""
    pairs = dict.fromkeys((link["source"], link["target"]) for link in links if link["source"] != link["target"])
    twice = [pair for pair in pairs if pair[::-1] in pairs]
    if not twice:
        return links
    if len(twice) == len(pairs):
        return [link | {"both_ways": False} for link in links]
    source, target = twice[0]
    problem = f"{shown(source)} -> {shown(target)} and {shown(target)} -> {shown(source)} are both listed"
    warn(where, f"{problem}, and each row means both directions; add a column one_way (true, false) to change that")
    return links


def _columns(header: Row) -> list[_Column]:
    columns = [_column(label, header.where) for label in header.cells]
    _warn_of_ignored([label for label, column in zip(header.cells, columns, strict=True) if not column.key], header)
    kinds = [column.key for column in columns if column.key]
    twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
    if twice:
        raise fail(header.where, f"two columns give {twice}; keep one of them")
    return columns


def _column(label: str, where: str) -> _Column:
    own, _, unit = label.partition("_")
    word = _word(label)
    if word in (*_ENDS, *_FLAGS):
        return _Column(word)
    found = quantity_of(label if own.lower() == word else f"{word}_{unit}".rstrip("_"), "column")
    if found:
        return _Column(found.field, found._replace(word=own.lower()) if own != "LinkSpeedRaw" else found)
    if word in _QUANTITIES:
        raise fail(where, f"column {shown(label)} has an unknown unit; write bandwidth_Gbit/s or latency_ms, say")
    return _Column("")


def _warn_of_ignored(labels: list[str], header: Row) -> None:
    if labels:
        near = ((label, guess(label.partition("_")[0], _WORDS)) for label in labels[: _MOST_SHOWN + 1])
        named = some((shown(label) + (f" (did you mean {word}?)" if word else "") for label, word in near), _MOST_SHOWN)
        verb = "column {} is" if len(labels) == 1 else "columns {} are"
        warn(header.where, f"{verb.format(named)} unknown and ignored")


def _cells(row: Row, columns: list[_Column]) -> dict[str, str]:
    """Return the cells of a row by the keys of their columns."""
    if len(row.cells) != len(columns):
        raise row.misfit(len(columns))
    cells = {column.key: cell for column, cell in zip(columns, row.cells, strict=True)}
    for end in _ENDS:
        if not cells[end]:
            raise fail(row.where, f"{end} is empty; write a node's name")
    return cells


def _route(row: Row, cells: dict[str, str]) -> dict[str, Any]:
    """Return the route of a row, which has the nodes on the way instead of what a link has."""
    own = next((key for key, cell in cells.items() if cell and key not in (*_ENDS, "via", "one_way", "")), None)
    if own:
        word = own.partition("_")[0]
        raise fail(row.where, f"a row with 'via' is a route over other rows' links; leave its {word} empty")
    via = listed(cells["via"]) or [one_line(name) for name in cells["via"].split(";")]
    both_ways = not truth(cells.get("one_way") or "false", row.where, "one_way")
    return make_route(cells["source"], cells["target"], via, both_ways=both_ways)


def _link(row: Row, columns: list[_Column], cells: dict[str, str]) -> tuple[dict[str, Any], list[Share]]:
    """Return the link of a row, and what it shares."""
    measured = [(column, cell) for column, cell in zip(columns, row.cells, strict=True) if column.quantity]
    values: dict[str, Any] = {
        column.key: measure(cell, column.quantity, row.where) for column, cell in measured if column.quantity
    }
    values["streams"] = streams(cells.get("streams"), row.where)
    one_way = truth(cells.get("one_way") or "false", row.where, "one_way")
    shares = read_shares(cells.get(KEY), row.where)
    names = [share.name for share in shares]
    return make_link(cells["source"], cells["target"], **values, shares=names, both_ways=not one_way), shares
