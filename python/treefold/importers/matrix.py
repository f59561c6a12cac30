"""Turns a matrix of measured pairs into a mesh of one-way links, and reads matrices in JSON."""

from typing import Any

from treefold.checks import shown
from treefold.files.problems import fail, one_line
from treefold.files.reading import check_links, stem
from treefold.importers.document import Document, make_document, make_link, make_node
from treefold.importers.values import Quantity, measure, number, quantity_of

Pairs = dict[tuple[str, str], float]

NAMES_KEYS = ("names", "nodes", "regions")
VALUES_KEYS = (
    "bandwidth_Bps",
    "bandwidth_mbps",
    "throughput_mbps",
    "bandwidth_gbps",
    "latency_s",
    "latency_ms",
    "rtt_s",
    "rtt_ms",
)


def matrix_document(names: list[str], measured: dict[str, Pairs], name: str, where: str) -> Document:
    """Return the mesh of `names`; `measured` has the links' values by field (bandwidth_Bps, latency_s) and pair.

    If any bandwidth is known, only pairs with a bandwidth get a link; if none is known, all pairs do.
    """
    check_links(len(names) ** 2, where)
    bandwidths, latencies = measured.get("bandwidth_Bps", {}), measured.get("latency_s", {})
    pairs = [(source, target) for source in names for target in names]
    linked = [pair for pair in pairs if (pair in bandwidths if bandwidths else pair[0] != pair[1])]
    links = [make_link(*pair, bandwidth_Bps=bandwidths.get(pair), latency_s=latencies.get(pair)) for pair in linked]
    return make_document(name, [make_node(name) for name in names], links)


def cell(value: object, quantity: Quantity, source: str, target: str, where: str) -> float | None:
    """Return a pair's value in bytes per second or seconds; None if it was not measured, or is 0 on the diagonal.

    Raises:
        TreefoldError: If the value is impossible.

    """
    if source == target and number(value) == 0:
        return None
    if quantity.field == "bandwidth_Bps" and number(value) == 0:
        raise fail(where, f"{quantity.word} must be positive, got {value}; leave it empty when it was not measured")
    return measure(value, quantity, where)


def is_matrix(content: dict[str, Any]) -> bool:
    """Tell whether a JSON object has a key that only matrices have."""
    return any(key in content for key in VALUES_KEYS)


def parse_json(content: dict[str, Any], where: str) -> Document:
    """Return the document of a JSON file with names and square matrices of bandwidths, latencies or both.

    Raises:
        TreefoldError: If names are missing or repeated, a matrix is not square, or a value is impossible.

    """
    names = _names(content, where)
    measured: dict[str, Pairs] = {}
    for key in VALUES_KEYS:
        quantity = quantity_of(key) if key in content else None
        if quantity is None:
            continue
        if quantity.field in measured:
            raise fail(where, f"'{key}' gives {quantity.field} a second time; keep one matrix of each")
        measured[quantity.field] = _pairs(content[key], quantity, names, f"{where}: {key}")
    return matrix_document(names, measured, one_line(str(content.get("name") or stem(where))), where)


def check_names(names: list[str], where: str) -> None:
    """Refuse names that are empty or repeated."""
    seen: set[str] = set()
    for name in names:
        if not name or name in seen:
            raise fail(where, f"name {shown(name)} is empty or stands twice; give each node its own name")
        seen.add(name)


def _names(content: dict[str, Any], where: str) -> list[str]:
    found = next((content[key] for key in NAMES_KEYS if key in content), None)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise fail(where, f"a matrix needs the list of its nodes' names under {' or '.join(NAMES_KEYS)}")
    names = [one_line(name) for name in found]
    check_names(names, where)
    return names


def _pairs(matrix: object, quantity: Quantity, names: list[str], where: str) -> Pairs:
    if not isinstance(matrix, list) or len(matrix) != len(names):
        count = f"{len(matrix)} rows" if isinstance(matrix, list) else shown(matrix)
        raise fail(where, f"must have one row for each of the {len(names)} names, got {count}")
    pairs: Pairs = {}
    for source, row in zip(names, matrix, strict=True):
        if not isinstance(row, list) or len(row) != len(names):
            count = f"{len(row)} values" if isinstance(row, list) else shown(row)
            raise fail(f"{where} row {shown(source)}", f"must have {len(names)} values, got {count}")
        for target, value in zip(names, row, strict=True):
            found = _json_cell(value, quantity, source, target, where)
            if found is not None:
                pairs[source, target] = found
    return pairs


def _json_cell(value: object, quantity: Quantity, source: str, target: str, where: str) -> float | None:
    where = f"{where} {shown(source)} -> {shown(target)}"
    if isinstance(value, str):
        raise fail(where, f"must be a number or null, got {shown(value)}")
    return cell(value, quantity, source, target, where)
