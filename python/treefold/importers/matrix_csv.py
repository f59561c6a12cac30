"""Reads CSV matrices of measured pairs: a block of bandwidths, a block of latencies, or both."""

import re

from treefold.checks import shown
from treefold.files.problems import fail
from treefold.files.reading import Row, stem
from treefold.importers.document import Document
from treefold.importers.matrix import Pairs, cell, check_names, matrix_document
from treefold.importers.values import Quantity, quantity

_CORNER = re.compile(r"([A-Za-z]+)(?:[\s_]+|\s*(?=[(\[]))?[(\[]?([^)\]]*)[)\]]?")


def parse(rows: list[Row], where: str) -> Document:
    """Return the document of a CSV matrix; the corner of a block names its quantity, such as `bandwidth Mbit/s`.

    Raises:
        TreefoldError: If a corner is unknown, names do not agree, or a value is impossible; the error names the line.

    """
    measured: dict[str, Pairs] = {}
    names: list[str] = []
    for header, *body in _blocks(rows):
        found = _quantity(header)
        if found.field in measured:
            raise fail(header.where, f"a second block of {found.word}; keep one of bandwidths and one of latencies")
        if names and sorted(header.cells[1:]) != sorted(names):
            raise fail(header.where, "this block has other names than the first; use the same in both")
        names = names or header.cells[1:]
        check_names(names, header.where)
        measured[found.field] = _pairs(header, body, found)
    return matrix_document(names, measured, stem(where), where)


def _blocks(rows: list[Row]) -> list[list[Row]]:
    """Split rows at blank ones, which spreadsheets write as rows of commas."""
    blocks: list[list[Row]] = [[]]
    for row in rows:
        if row.is_blank:
            blocks.append([])
        else:
            blocks[-1].append(row)
    return [block for block in blocks if block]


def _quantity(header: Row) -> Quantity:
    corner = header.cells[0]
    if not corner:
        return Quantity("bandwidth_Bps", "bandwidth", None, place="corner")
    match = _CORNER.fullmatch(corner)
    word, unit = match.groups() if match else (corner, "")
    found = quantity(word.lower(), unit.strip() or None, "corner")
    if found is None or found.field == "overhead_s":
        forms = "bandwidth Mbit/s, latency ms or rtt ms; an edge list begins with source,target,bandwidth,latency"
        raise fail(header.where, f"corner {shown(corner)} is unknown; write {forms}")
    return found


def _pairs(header: Row, body: list[Row], quantity: Quantity) -> Pairs:
    names = header.cells[1:]
    absent = dict.fromkeys(names)
    for row in body:
        if row.cells[0] not in absent:
            raise fail(
                row.where, f"row {shown(row.cells[0])} is not in the header, or stands twice; list each name once"
            )
        del absent[row.cells[0]]
    if absent:
        raise fail(header.where, f"{shown(next(iter(absent)))} is in the header but has no row; add one")
    return {pair: value for row in body for pair, value in _row(row, names, quantity).items()}


def _row(row: Row, names: list[str], quantity: Quantity) -> Pairs:
    if len(row.cells) != len(names) + 1:
        raise row.misfit(len(names) + 1)
    source, *values = row.cells
    found = {
        (source, target): cell(value, quantity, source, target, f"{row.where}, {shown(source)} -> {shown(target)}")
        for target, value in zip(names, values, strict=True)
    }
    return {pair: value for pair, value in found.items() if value is not None}
