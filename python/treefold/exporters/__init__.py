"""Writes a topology document to a file: treefold's own JSON, GraphML or DOT, by the file's extension."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from treefold.errors import TreefoldError
from treefold.exporters.atomic import check_writable, is_stream, write_bytes_atomically, write_text_atomically
from treefold.text import message

__all__ = [
    "check_document_writable",
    "check_writable",
    "is_stream",
    "write",
    "write_bytes_atomically",
    "write_text_atomically",
]

_WRITERS = {".json": "own", ".graphml": "graphml", ".dot": "dot", ".gv": "dot"}


def write(document: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write `document` to `path`, whole or not at all; reading the file gives an equal document.

    Args:
        document: A topology document; what has a default may be absent.
        path: A .json, .graphml, .dot or .gv file; /dev/stdout and pipes without extension get treefold's own JSON.

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
    """Refuse before long work what `write` would refuse after it, whatever the document; raises as that does."""
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
