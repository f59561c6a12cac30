"""CSV in both its forms: an edge list (its header has source and target) and a matrix of measured pairs."""

from typing import Any, NamedTuple

from treefold.importers import matrix_csv
from treefold.importers.document import Document, fail, make_document, make_link, make_node, shown, warn
from treefold.importers.files import Row, read_csv, stem
from treefold.importers.values import link_values, quantity_of, truth

_ENDS = ("source", "target")
_REMEDY = "write source,target,bandwidth,latency for a list of links, or the nodes' names for a matrix"


class _Column(NamedTuple):
    label: str
    what: str


def read(where: str) -> Document:
    """Return the document of the CSV file `where`.

    Raises:
        TreefoldError: If the file cannot be read or is neither form, with the line of what is wrong.

    """
    rows = read_csv(where)
    header = next(row for row in rows if not row.is_blank)
    labels = [cell.lower() for cell in header.cells]
    if all(end in labels for end in _ENDS):
        return _edge_list(rows[rows.index(header) :], where)
    if any(end in labels for end in _ENDS) or len(labels) < 2:
        raise fail(header.where, f"header {shown(','.join(header.cells))} is unknown; {_REMEDY}")
    return matrix_csv.parse(rows, where)


def _edge_list(rows: list[Row], where: str) -> Document:
    header, *body = [row for row in rows if not row.is_blank]
    columns = _columns(header)
    links = [_link(row, columns) for row in body]
    names = dict.fromkeys(link[end] for link in links for end in _ENDS)
    return make_document(stem(where), [make_node(name) for name in names], links)


def _columns(header: Row) -> list[_Column]:
    columns = [_column(label, header.where) for label in header.cells]
    kinds = [column.what for column in columns if column.what != "ignored"]
    twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
    if twice:
        raise fail(header.where, f"two columns give {twice}; keep one")
    return columns


def _column(label: str, where: str) -> _Column:
    word, found = label.lower(), quantity_of(label)
    if word in (*_ENDS, "one_way"):
        return _Column(label, word)
    if found:
        return _Column(label, found.field)
    if word.partition("_")[0] in ("bandwidth", "latency", "overhead", "rtt"):
        raise fail(where, f"column {shown(label)} has an unknown unit; write bandwidth_Gbit/s or latency_ms, say")
    warn(where, f"column {shown(label)} is unknown and ignored")
    return _Column(label, "ignored")


def _link(row: Row, columns: list[_Column]) -> dict[str, Any]:
    if len(row.cells) != len(columns):
        raise fail(row.where, f"{len(row.cells)} cells where the header has {len(columns)}; fill the row up")
    cells = {column.what: cell for column, cell in zip(columns, row.cells, strict=True)}
    for end in _ENDS:
        if not cells[end]:
            raise fail(row.where, f"{end} is empty; write a node's name")
    measured = {column.label: cell for column, cell in zip(columns, row.cells, strict=True) if column.what != "ignored"}
    values: dict[str, Any] = dict(link_values(measured, row.where))
    one_way = truth(cells.get("one_way") or "false", row.where, "one_way")
    return make_link(cells["source"], cells["target"], **values, both_ways=not one_way)
