"""Writes networks, plans and traces to files; the extension chooses treefold's own JSON, GraphML or DOT."""

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from treefold._core import Plan, Topology, Trace
from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.files.plans import save_plan
from treefold.files.traces import save_trace
from treefold.files.writing import check_writable, is_stream, write_text_atomically
from treefold.text import message

_WRITERS = {".json": "own", ".graphml": "graphml", ".dot": "dot", ".gv": "dot"}


def save(value: Topology | Plan | Trace, path: str | os.PathLike[str]) -> None:
    """Write a network, a plan or a trace to a file, completely or not at all.

    `treefold.topology` reads a network back, `treefold.load_plan` a plan, and `treefold.load_trace` a trace.

    Args:
        value: The network, the plan or the trace.
        path: The path of the file: .json for a plan or a trace; .json, .graphml, .dot or .gv for a network.

    Raises:
        TreefoldError: If the extension is another one, the format cannot hold a name, or the file cannot be written.

    Example:
        >>> import treefold
        >>> treefold.save(treefold.topology("ring:4"), "ring.graphml")
        >>> treefold.topology("ring.graphml") == treefold.topology("ring:4")
        True

    """
    if isinstance(value, Plan):
        save_plan(value, path)
    elif isinstance(value, Topology):
        write(json.loads(value.to_json()), path)
    elif isinstance(value, Trace):
        save_trace(value, path)
    else:
        raise TreefoldError(f"{shown(value)} is neither a network nor a plan nor a trace; give one of these")


def write(document: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a topology document to a file, completely or not at all; reading the file gives an equal document.

    Args:
        document: The document; keys with defaults may be absent.
        path: A .json, .graphml, .dot or .gv file; /dev/stdout and pipes without an extension get treefold's own JSON.

    Raises:
        TreefoldError: If the extension is unknown, the format cannot hold a name, or the file cannot be written.

    """
    writer = _writer(path)
    try:
        text: str = import_module(f"treefold.exporters.{writer}").text(document)
    except TreefoldError as error:
        raise TreefoldError(message(os.fspath(path), str(error))) from None
    write_text_atomically(path, text)


def check_document_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path before long work if `write` would refuse it afterwards, with the same error."""
    _writer(path)
    check_writable(path)


def _writer(path: str | os.PathLike[str]) -> str:
    extension = Path(path).suffix.lower()
    if not extension and is_stream(path):
        return "own"
    if extension not in _WRITERS:
        problem = f"cannot write the extension '{extension}'" if extension else "has no extension"
        raise TreefoldError(message(os.fspath(path), f"{problem}; use one of {', '.join(_WRITERS)}"))
    return _WRITERS[extension]
