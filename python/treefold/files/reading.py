"""Reads whole files; every failure is an error of one line that names the file.

The limits on files of all formats are here: a few bytes of a file must not cost gigabytes of memory or minutes of time.
Networks of 200,000 links stay within the limits in every format.
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
from treefold.files.problems import fail, fail_outside, one_line, reason
from treefold.files.streams import open_descriptor
from treefold.text import visible

MOST_BYTES = 128 << 20
"""The largest file of a network."""

MOST_VALUES = 3_000_000
"""How many separate values, words or elements a file may hold."""

MOST_LINKS = 250_000
"""How many links or nodes a file may describe; a few words can describe links between all pairs of many nodes."""

MOST_LEVELS = 100
"""How deep the parts of a file may be nested."""

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
    """A row of a CSV file: its file, its line, and its cells without surrounding blanks."""

    file: str
    line: int
    cells: list[str]

    @property
    def where(self) -> str:
        """The file and the line, as errors and warnings name them."""
        return f"{self.file} line {self.line}"

    def misfit(self, columns: int) -> TreefoldError:
        """Return an error about the number of cells, which differs from the number of columns."""
        remedy = "fill the row up" if len(self.cells) < columns else "leave some out, or quote names that hold commas"
        return fail(self.where, f"{len(self.cells)} cells where the header has {columns}; {remedy}")

    @property
    def is_blank(self) -> bool:
        """Tell whether all cells are empty."""
        return not any(self.cells)


class Budget:
    """Counts the values of a file, and refuses more than `MOST_VALUES` before they cost memory or time."""

    def __init__(self, where: str) -> None:
        self._where, self._left = where, MOST_VALUES

    def spend(self, values: int) -> None:
        """Add `values` to the count.

        Raises:
            TreefoldError: If the file has too many values.

        """
        self._left -= values
        if self._left < 0:
            raise fail(self._where, f"holds more than {MOST_VALUES:,} values; leave out what is not part of it")


def check_links(count: int, where: str) -> None:
    """Refuse more than `MOST_LINKS` links or nodes, before they are made."""
    if count > MOST_LINKS:
        raise fail(where, f"describes {count:,} links or nodes; treefold reads at most {MOST_LINKS:,}")


def stem(where: str) -> str:
    """Return the file's name without folder and extension; it names a network whose file gives no name."""
    return visible(Path(where).stem.strip()) or "unnamed"


def read_bytes(where: str, most_bytes: int = MOST_BYTES) -> bytearray:
    """Return the content of the regular file `where`, or of an open stream such as /dev/stdin.

    Raises:
        OutsideError: If the file does not exist, is a folder, a device or a pipe, or cannot be read.
        TreefoldError: If it is larger than `most_bytes`.

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
        raise fail_outside(where, "no such file; check the path") from None
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}; check the path"
        raise fail_outside(where, problem) from None
    return content


def _opened(where: str) -> BinaryIO:
    """Open a regular file or an open stream; reading a device, or a pipe without a writer, would never end."""
    descriptor = open_descriptor(where)
    if descriptor is not None:
        return os.fdopen(os.dup(descriptor), "rb")
    mode = os.stat(where).st_mode
    if stat.S_ISDIR(mode):
        raise fail_outside(where, "is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise fail_outside(where, f"is {kind}, not a file; copy its content into a file, or name /dev/stdin")
    return open(where, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))


def form_of(where: str, content: bytes | bytearray) -> str:
    """Return the extension that tells a file's format; the beginning of the content tells that of an open stream."""
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
    """Decode `content`, which is UTF-8, or the UTF-16 or UTF-32 that its byte order mark announces.

    Raises:
        TreefoldError: If the content is not such text.

    """
    encoding = _encoding(content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise fail(where, f"byte {error.start} is not {name} text; save the file as UTF-8") from None
    if "\0" in text:
        raise fail(where, f"character {text.index(chr(0))} is NUL, which texts do not hold; save the file as UTF-8")
    return text


def _encoding(content: bytes | bytearray) -> str:
    return next((name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8-sig")


def parse_json(content: bytes | bytearray, where: str) -> Any:
    """Return the JSON value in `content`; NaN, infinity and repeated keys are errors.

    Raises:
        TreefoldError: If the content is not valid JSON, or has too many values.

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
        raise fail(where, f"not valid JSON: {shown(half)} is half a character; write the whole character") from None
    except ValueError as error:
        raise fail(where, f"not valid JSON: {reason(error)}") from None
    return value


def loads(text: str) -> Any:
    """Return the JSON value in `text`.

    Raises:
        ValueError: If the text is not valid JSON, a number is too large, or an object has a key twice.
        RecursionError: If the value is nested too deeply.

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
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {shown(key)} stands twice in one object; keep one")
            seen.add(key)
    return result


def parse_csv(content: bytes | bytearray, where: str) -> list[Row]:
    """Return the rows of comma-separated text, with one blank row where several follow each other.

    Raises:
        TreefoldError: If quoting is broken, or the file is empty or has too many values.

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
        TreefoldError: If the file cannot be read or is not TOML; the error names the file.

    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    where = os.fspath(path)
    try:
        return tomllib.loads(decode(read_bytes(where), where))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise fail(where, f"not valid TOML: {one_line(str(error))}") from None


def says_format(source: str, name: str) -> bool:
    """Tell whether `source` is a file whose first bytes say that it has a format of ours, as we write it."""
    if not os.path.isfile(source):
        return False
    try:
        with open(source, "rb") as file:
            return re.search(rb'"format"\s*:\s*"%b"' % re.escape(name).encode(), file.read(4096)) is not None
    except OSError:
        return False
