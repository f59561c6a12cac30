"""Reads the sizes of the blocks of an all-to-all: a matrix, or a file with one, with a row for each rank."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treefold import checks
from treefold._core import check_blocks
from treefold.errors import TreefoldError
from treefold.files.problems import fail
from treefold.files.reading import form_of, parse_csv, parse_json, read_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Blocks = NDArray[np.uint64]


def matrix(given: "ArrayLike | str | os.PathLike[str]", ranks: int | None = None) -> "Blocks":
    """Return the sizes of blocks: row s has those that rank s sends, and column d those that rank d receives.

    Args:
        given: A matrix of whole numbers of bytes, or of texts such as `4MiB`; or the path of a .csv or .json file with
            one. A comment in a CSV file begins with `#`.
        ranks: How many ranks there are; by default as many as the matrix has rows.

    Raises:
        TreefoldError: If there is not a row and a column for each rank, or a size is none.

    Example:
        >>> from treefold import blocks
        >>> blocks.matrix([["0", "4KiB"], [1024, 0]], ranks=2).tolist()
        [[0, 4096], [1024, 0]]

    """
    if not isinstance(given, str | os.PathLike):
        return _sizes(given, ranks)
    where = os.fspath(given)
    rows = _read(where)
    try:
        return _sizes(rows, ranks)
    except TreefoldError as error:
        raise fail(where, str(error)) from None


def read(given: "ArrayLike | str | os.PathLike[str] | None", collective: str, ranks: int) -> "Blocks | None":
    """Return the sizes of blocks for a collective; None if none are given.

    Raises:
        TreefoldError: If the collective is no all-to-all, and the errors of `matrix`.

    """
    if given is None:
        return None
    if collective != "all-to-all":
        raise TreefoldError(f"blocks have sizes in an all-to-all only; {collective} needs none, so drop them")
    return matrix(given, ranks)


def size_or_default(given: int | str | None, blocks: "Blocks | None") -> int:
    """Return the size that is given, in bytes; by default that of the largest vector, or 64 MiB without blocks."""
    if given is not None:
        return checks.size(given)
    return checks.DEFAULT_SIZE_BYTES if blocks is None else int(blocks.sum(axis=1).max())


def _read(where: str) -> Any:
    """Return the rows of a file."""
    content = read_bytes(where)
    form = form_of(where, content)
    if form == ".json":
        return parse_json(content, where)
    if form != ".csv":
        raise fail(where, "is no file of blocks; write a matrix as .csv or .json, with a row for each rank")
    if not content.strip():
        raise fail(where, "is empty; write a row of sizes for each rank, one for each rank that receives")
    rows = parse_csv(content, where)
    return [row.cells for row in rows if not row.is_blank and not row.cells[0].startswith("#")]


def _sizes(given: "ArrayLike", ranks: int | None) -> "Blocks":
    """Return the sizes that a matrix has; the core refuses those with which no plan can be made."""
    sizes = _numbers(given, ranks)
    check_blocks(sizes)
    return sizes


def _numbers(given: "ArrayLike", ranks: int | None) -> "Blocks":
    """Return the numbers of a matrix, for as many ranks as it has rows if their number is None."""
    import numpy as np  # it takes a tenth of a second, and most commands need none

    if isinstance(given, np.ndarray) and given.dtype.kind in "iu" and given.shape == (ranks or len(given),) * 2:
        if given.min(initial=0) < 0:
            raise TreefoldError(f"blocks: size {given.min()} is negative; give whole numbers of bytes from 0 on")
        return given.astype(np.uint64)
    rows: Any = given.tolist() if isinstance(given, np.ndarray) else given
    if _is_list(rows):
        rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    if not _is_list(rows) or not all(map(_is_list, rows)):
        raise TreefoldError(f"blocks {checks.shown(given)} are no matrix; give a row of sizes for each rank")
    ranks = len(rows) if ranks is None else ranks
    if len(rows) != ranks:
        raise TreefoldError(f"blocks have {len(rows)} rows, but there are {ranks} ranks; give a row for each")
    for rank, row in enumerate(rows):
        if len(row) != ranks:
            raise TreefoldError(
                f"blocks: row {rank} has {len(row)} sizes, but there are {ranks} ranks; give a size for each"
            )
    return np.array([[_size(row, rank, other) for other in range(ranks)] for rank, row in enumerate(rows)], np.uint64)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _size(row: Sequence[Any], rank: int, other: int) -> int:
    """Return the size of the block of a rank for another one."""
    try:
        return checks.size(row[other])
    except TreefoldError as error:
        raise TreefoldError(f"blocks, from rank {rank} to {other}: {error}") from None
