"""Reads a network from a file into a topology document, the dictionary that treefold's own JSON holds.

`read` chooses the reader by the file's extension and content. Every reader returns a document in which values may be
missing; the steps that all formats share (dropping self-loops, filling in missing values, capping nodes) happen here.
Readers and steps are imported when they are needed, so that commands start fast.
"""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from treefold.files.problems import TopologyWarning, fail
from treefold.files.reading import form_of, read_bytes
from treefold.importers.document import Document

__all__ = ["EXTENSIONS", "Document", "TopologyWarning", "complete", "read"]

_READERS = {
    ".json": "json_forms",
    ".graphml": "graphml",
    ".gml": "gml",
    ".dot": "dot",
    ".gv": "dot",
    ".csv": "csv_forms",
}
EXTENSIONS = tuple(_READERS)
"""The extensions of the files that can be read."""


def read(
    path: str | os.PathLike[str],
    *,
    bandwidth_Bps: float | None = None,
    latency_s: float | None = None,
    node_cap: str | None = None,
) -> Document:
    """Read the network in a file; every link of the result has a bandwidth and a latency.

    Args:
        path: A file with one of `EXTENSIONS`; or /dev/stdin, whose content tells its format.
        bandwidth_Bps: The bandwidth of links that have none in the file, in bytes per second.
        latency_s: The latency of links that have none in the file, in seconds; by default that of light in a straight
            fibre if the file has the coordinates of both ends, else the median of the others, or 0 if none has one.
        node_cap: The most that each accelerator sends, and the most that it receives: one value for all, for example
            `5Gbit/s`, or the path of a file of caps by name. The value `none` leaves out the caps that a file has.

    Returns:
        The topology document with all defaults. `treefold.topology` checks the rest: that links name known nodes, that
        no node is there twice, and that the network is in one piece; and it makes links of explicit routes.

    Raises:
        TreefoldError: If the file cannot be read or is malformed, or a value is neither in the file nor given.

    Warns:
        TopologyWarning: If self-loops were dropped, and once if values were filled in.

    Example:
        >>> import treefold
        >>> from treefold import importers
        >>> treefold.save(treefold.topology("ring:4"), "ring.json")
        >>> document = importers.read("ring.json")
        >>> [node["name"] for node in document["nodes"]], document["links"][0]["bandwidth_Bps"]
        (['GPU0', 'GPU1', 'GPU2', 'GPU3'], 16000000000.0)

    """
    where = os.fspath(path)
    return _complete(_parsed(where), where, bandwidth_Bps, latency_s, node_cap)


def complete(
    content: Mapping[str, Any],
    *,
    bandwidth_Bps: float | None = None,
    latency_s: float | None = None,
    node_cap: str | None = None,
) -> Document:
    """Complete a topology document as `read` does with that of a file.

    Args:
        content: A topology document, in which values may be missing.
        bandwidth_Bps: As in `read`.
        latency_s: As in `read`.
        node_cap: As in `read`.

    Returns:
        The topology document with all defaults.

    Raises:
        TreefoldError: If the document is malformed, or a value is neither in it nor given.

    Warns:
        TopologyWarning: If self-loops were dropped, and once if values were filled in.

    Example:
        >>> from treefold import importers
        >>> nodes = [{"name": "paris"}, {"name": "london"}]
        >>> link = {"source": "paris", "target": "london", "bandwidth_Bps": 1.25e9, "latency_s": 0.004}
        >>> content = {"format": "treefold-topology", "version": 1, "name": "mine", "nodes": nodes, "links": [link]}
        >>> document = importers.complete(content)
        >>> document["nodes"][0]["kind"], document["links"][0]["both_ways"]
        ('accelerator', False)

    """
    from treefold.importers.own import parse

    where = str(content.get("name", "topology"))
    return _complete(parse(dict(content), where), where, bandwidth_Bps, latency_s, node_cap)


def _complete(
    document: Document, where: str, bandwidth_Bps: float | None, latency_s: float | None, node_cap: str | None
) -> Document:
    from treefold.importers.fill import drop_self_loops, fill_missing

    if not document["nodes"]:
        raise fail(where, "the network has no nodes; list at least one")
    document = drop_self_loops(document, where)
    document = fill_missing(document, where, bandwidth_Bps, latency_s)
    if node_cap is None:
        return document
    from treefold.importers.caps import apply_node_cap

    return apply_node_cap(document, node_cap)


def _parsed(where: str) -> Document:
    content = read_bytes(where)
    parse = _parser(form_of(where, content), where)
    try:
        return parse(content, where)
    except RecursionError:
        raise fail(where, "is nested too deeply; flatten it") from None


def _parser(extension: str, where: str) -> Callable[[bytearray, str], Document]:
    if extension not in _READERS:
        problem = f"its extension '{extension}' is unknown" if extension else "it has no extension"
        raise fail(where, f"{problem}; use one of {', '.join(EXTENSIONS)}")
    parse: Callable[[bytearray, str], Document] = import_module(f"treefold.importers.{_READERS[extension]}").parse
    return parse
