"""Reading files whole, with every failure as one line that names the file.

What a file may hold is limited here, for all formats: a few bytes of it must not become gigabytes of memory or minutes
of time, whatever they say. Networks of 200,000 links pass in every format.
"""

import csv
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.files.problems import fail, one_line, reason
from treefold.files.streams import open_descriptor
from treefold.text import visible

MOST_BYTES = 128 << 20
"""The largest file of a network; the one place where that is said."""

MOST_VALUES = 3_000_000
"""How many separate values, words or elements a file may hold."""

MOST_LINKS = 250_000
"""How many links or nodes a file may stand for: a few words can mean all pairs of many nodes."""

MOST_LEVELS = 100
"""How deep its parts may be nested."""

_BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
_CHUNK = 1 << 20
_MOST_DIGITS = 1000
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class Row(NamedTuple):
    """A row of a CSV file: where it stands, and its cells without surrounding blanks."""

    file: str
    line: int
    cells: list[str]

    @property
    def where(self) -> str:
        """The file and the line, for messages."""
        return f"{self.file} line {self.line}"

    def misfit(self, columns: int) -> TreefoldError:
        """Return the error that there are more or fewer cells than columns."""
        remedy = "fill the row up" if len(self.cells) < columns else "leave some out, or quote names that hold commas"
        return fail(self.where, f"{len(self.cells)} cells where the header has {columns}; {remedy}")

    @property
    def is_blank(self) -> bool:
        """Whether no cell holds anything."""
        return not any(self.cells)


class Budget:
    """Counts what a file holds, and refuses more than `MOST_VALUES` before it costs memory or time."""

    def __init__(self, where: str) -> None:
        self._where, self._left = where, MOST_VALUES

    def spend(self, values: int) -> None:
        """Count `values` more.

        Raises:
            TreefoldError: If they are too many.

        """
        self._left -= values
        if self._left < 0:
            raise fail(self._where, f"holds more than {MOST_VALUES:,} values; leave out what is no part of the network")


def check_links(count: int, where: str) -> None:
    """Refuse more than `MOST_LINKS` links or nodes before they are made."""
    if count > MOST_LINKS:
        raise fail(where, f"stands for {count:,} links or nodes; treefold reads at most {MOST_LINKS:,}")


def stem(where: str) -> str:
    """Return the file's name without folder and extension: a network's name when the file gives none."""
    return visible(Path(where).stem.strip()) or "unnamed"


def read_bytes(where: str, most_bytes: int = MOST_BYTES) -> bytearray:
    """Return the content of the regular file `where`, or of what is open as /dev/stdin or a shell's `<(command)`.

    Raises:
        TreefoldError: If there is no such file, it is none (a folder, a device, a pipe), it is larger than
            `most_bytes`, or it may not be read.

    """
    content = bytearray()
    try:
        with _opened(where) as file:
            while chunk := file.read(_CHUNK):
                content += chunk
                if len(content) > most_bytes:
                    raise fail(where, f"is larger than {most_bytes >> 20} MiB; leave out what treefold does not read")
    except TreefoldError:
        raise
    except FileNotFoundError:
        raise fail(where, "no such file; check the path") from None
    except (OSError, ValueError) as error:
        raise fail(where, f"cannot be read: {getattr(error, 'strerror', None) or error}; check the path") from None
    return content


def _opened(where: str) -> BinaryIO:
    """Open a file without waiting for anybody: a pipe that nobody writes, or a device, would be read for ever."""
    descriptor = open_descriptor(where)
    if descriptor is not None:
        return os.fdopen(os.dup(descriptor), "rb")
    mode = os.stat(where).st_mode
    if stat.S_ISDIR(mode):
        raise fail(where, "is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise fail(where, f"is {kind}, not a file; copy what comes from it into one, or name /dev/stdin")
    return open(where, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))


def form_of(where: str, content: bytes | bytearray) -> str:
    """Return the extension that tells the form of a file; what is open, and has none, is told by how it begins."""
    extension = Path(where).suffix.lower()
    if extension or open_descriptor(where) is None:
        return extension
    start = content[:4096].decode(_encoding(content), "ignore").lstrip()
    if start[:1] in ("{", "["):
        return ".json"
    if start.startswith("<"):
        return ".graphml"
    if re.search(r"\bgraph\b[^{}\[\]]*\{", start, re.IGNORECASE):
        return ".dot"
    return ".gml" if re.search(r"\bgraph\s*\[", start) else ".csv"


def decode(content: bytes | bytearray, where: str) -> str:
    """Return `content` as text, without a byte order mark: UTF-8, or the UTF-16 or UTF-32 that such a mark announces.

    Raises:
        TreefoldError: If it is no such text.

    """
    encoding = _encoding(content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise fail(where, f"byte {error.start} is not {name} text; save the file as UTF-8") from None
    if "\0" in text:
        raise fail(where, f"character {text.index(chr(0))} is NUL, which no text holds; save the file as UTF-8")
    return text


def _encoding(content: bytes | bytearray) -> str:
    return next((name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8-sig")


def parse_json(content: bytes | bytearray, where: str) -> Any:
    """Return the JSON value in `content`; NaN, infinity and repeated keys are errors.

    Raises:
        TreefoldError: If it is not complete, valid JSON, or holds more than a network needs.

    """
    text = decode(content, where)
    Budget(where).spend(sum(map(text.count, ",[{")))
    try:
        value = loads(text)
        if _HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        problem = f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise fail(where, f"{problem}; is the file complete?") from None
    except RecursionError:
        raise fail(where, "not valid JSON: nested too deeply") from None
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise fail(where, f"not valid JSON: {shown(half)} is half a character; write the whole one") from None
    except ValueError as error:
        raise fail(where, f"not valid JSON: {reason(error)}") from None
    return value


def loads(text: str) -> Any:
    """Return the JSON value in `text`.

    Raises:
        ValueError: If it is not valid JSON, a number is too large, or a key stands twice in one object.
        RecursionError: If it is nested too deeply.

    """
    return json.loads(
        text, parse_constant=_no_constant, parse_int=_whole, parse_float=_finite, object_pairs_hook=_object
    )


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number; leave the value out when it is unknown")


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"{shown(text)} has {len(text)} digits, more than any number needs")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{shown(text)} is larger than any number that treefold reads")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys: set[str] = set()
        twice = next(key for key, _ in pairs if key in keys or keys.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {shown(twice)} stands twice in one object; keep one")
    return result


def parse_csv(content: bytes | bytearray, where: str) -> list[Row]:
    """Return the rows of comma-separated text; of blank rows that follow each other, the first.

    Raises:
        TreefoldError: If quoting is broken, nothing is in it, or it holds more than a network needs.

    """
    text = decode(content, where)
    Budget(where).spend(sum(map(text.count, ",\r\n")))
    reader = csv.reader((line[0] for line in _LINE.finditer(text)), strict=True)
    try:
        rows = list(_rows(reader, where))
    except csv.Error as error:
        raise fail(f"{where} line {reader.line_num}", f"not valid CSV: {reason(error)}") from None
    if all(row.is_blank for row in rows):
        raise fail(where, "the file is empty; it needs a header and rows")
    return rows


def _rows(reader: Any, where: str) -> Iterator[Row]:
    after_blank = False
    for cells in reader:
        row = Row(where, reader.line_num, [one_line(cell) for cell in cells])
        if not (row.is_blank and after_blank):
            yield row
        after_blank = row.is_blank


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the values of a TOML file.

    Raises:
        TreefoldError: If the file cannot be read, or is no TOML; the message names the file.

    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    where = os.fspath(path)
    try:
        return tomllib.loads(decode(read_bytes(where), where))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise fail(where, f"it is no TOML: {one_line(str(error))}") from None
