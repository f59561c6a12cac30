"""What files of plans and files of traces share: JSON that the core writes and reads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from treefold._core import Plan, Trace
from treefold.errors import TreefoldError
from treefold.files.problems import fail
from treefold.files.reading import decode, read_bytes
from treefold.files.writing import check_writable_as, write_text_atomically

MOST_BYTES = 512 << 20
"""The largest file: four plans of MultiTree on a torus of 64x64, or a trace of about five million transfers."""


@contextmanager
def text_of(path: str | os.PathLike[str]) -> Iterator[str]:
    """Give the text of a file; errors of what reads the text name the file.

    Raises:
        TreefoldError: If the file cannot be read, or the text is not what its reader takes.

    """
    where = os.fspath(path)
    text = decode(read_bytes(where, MOST_BYTES), where)
    try:
        yield text
    except TreefoldError as error:
        raise fail(where, str(error)) from None


def write(value: Plan | Trace, path: str | os.PathLike[str]) -> None:
    """Write a plan or a trace to a `.json` file or a stream, completely or not at all.

    Raises:
        TreefoldError: If the extension is another one, or the file cannot be written.

    """
    check_writable(path, type(value))
    write_text_atomically(path, value.to_json())


def check_writable(path: str | os.PathLike[str], kind: type[Plan] | type[Trace]) -> None:
    """Refuse a path before long work if `write` would refuse it afterwards, with the same error."""
    check_writable_as(path, ".json", "plans" if issubclass(kind, Plan) else "traces")
