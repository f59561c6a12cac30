"""Reading files whole, with every failure as one line that names the file."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from treefold.importers.document import fail, reason, shown


class Row(NamedTuple):
    """A row of a CSV file: where it stands, for messages, and its cells without surrounding blanks."""

    where: str
    cells: list[str]

    @property
    def is_blank(self) -> bool:
        """Whether no cell holds anything."""
        return not any(self.cells)


def stem(where: str) -> str:
    """Return the file's name without folder and extension: a network's name when the file gives none."""
    return Path(where).stem


def read_bytes(where: str) -> bytes:
    """Return the content of the file `where`.

    Raises:
        TreefoldError: If there is no such file, it is a folder, or it may not be read.

    """
    try:
        return Path(where).read_bytes()
    except FileNotFoundError:
        raise fail(where, "no such file; check the path") from None
    except IsADirectoryError:
        raise fail(where, "is a folder; name a file in it") from None
    except (OSError, ValueError) as error:
        raise fail(where, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_text(where: str) -> str:
    """Return the content of the UTF-8 file `where`, without a byte order mark.

    Raises:
        TreefoldError: As `read_bytes`, or if the content is not UTF-8.

    """
    try:
        return read_bytes(where).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail(where, f"byte {error.start} is not UTF-8 text; save the file as UTF-8") from None


def read_json(where: str) -> Any:
    """Return the JSON value in the file `where`; NaN, infinity and repeated keys are errors.

    Raises:
        TreefoldError: As `read_text`, or if the content is not complete, valid JSON.

    """
    text = read_text(where)
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise fail(where, f"{problem}; is the file complete?") from None
    except RecursionError:
        raise fail(where, "not valid JSON: nested too deeply") from None
    except ValueError as error:
        raise fail(where, f"not valid JSON: {reason(error)}") from None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number; leave the value out when it is unknown")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key {shown(key)} stands twice in one object; keep one")
        result[key] = value
    return result


def read_csv(where: str) -> list[Row]:
    """Return the rows of the comma-separated file `where`, blank ones included.

    Raises:
        TreefoldError: As `read_text`, or if quoting is broken or nothing is in the file.

    """
    reader = csv.reader(read_text(where).splitlines(keepends=True), strict=True)
    rows: list[Row] = []
    try:
        for cells in reader:
            rows.append(Row(f"{where} line {reader.line_num}", [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise fail(f"{where} line {reader.line_num}", f"not valid CSV: {reason(error)}") from None
    if all(row.is_blank for row in rows):
        raise fail(where, "the file is empty; it needs a header and rows")
    return rows
