"""The base of typed results, which turns them into plain dictionaries, rows of tables, and data frames.

A field's metadata may have `key` (its name in dictionaries), `is_hidden` (dictionaries leave it out), `is_optional`
(they leave it out if it is None) or `is_inline` (they have its fields in its place).
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, field, fields
from importlib import import_module
from itertools import chain
from typing import Any, Generic, TypeVar, overload

from treefold import html
from treefold.extras import missing

Row = TypeVar("Row", bound="Record")


def keyed(key: str) -> Any:
    """Declare a field that has another name in dictionaries."""
    return field(metadata={"key": key})


def hidden(default: Any = MISSING) -> Any:
    """Declare a field that dictionaries do not have."""
    return field(default=default, metadata={"is_hidden": True})


def optional() -> Any:
    """Declare a field that is None by default; dictionaries leave it out if it is None."""
    return field(default=None, metadata={"is_optional": True})


def inline() -> Any:
    """Declare an inner record, None by default; dictionaries have its fields beside those of the outer record."""
    return field(default=None, metadata={"is_inline": True})


class Record:
    """A result: a frozen dataclass that becomes a dictionary.

    Example:
        >>> import treefold
        >>> isinstance(treefold.describe("ring:4"), treefold.records.Record)
        True

    """

    def as_dict(self) -> dict[str, Any]:
        """Return a dictionary of plain values, as `--json` prints them.

        Its keys are the names of the fields, with these exceptions: the `simulator` of a prediction or a choice has the
        key `model`, `compute_overhead_s` the key `stolen_s`, and `collectives` the key `messages`; a `BoundReport` has
        keys of its own. The fields of `packets` and `fabric` are beside those of the record itself. Fields that only
        Python needs, such as `timeline`, are left out, and so are `chosen` and `winner` if they are None.

        Example:
            >>> import treefold
            >>> treefold.check(treefold.plan("ring:4")).as_dict()
            {'correct': True, 'reason': ''}

        """
        values: dict[str, Any] = {}
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if each.metadata.get("is_inline"):
                values |= {} if value is None else value.as_dict()
            elif not (each.metadata.get("is_hidden") or (each.metadata.get("is_optional") and value is None)):
                values[each.metadata.get("key", each.name)] = plain(value)
        return values

    def _repr_html_(self) -> str:
        return html.of_record(html.title_of(self), self.as_dict())


def plain(value: Any) -> Any:
    """Return a value as JSON has it: records as dictionaries, tuples as lists."""
    if isinstance(value, Record):
        return value.as_dict()
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def _flat(row: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the columns of a row; those of an inner dictionary have its name in front, as in `packets.flits`."""
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _in_one_cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


class Table(Sequence[Row], Generic[Row]):
    """A sequence of records, which can become dictionaries, comma-separated values or a data frame.

    Example:
        >>> import treefold
        >>> comparison = treefold.compare("ring:4", "ring", sizes_bytes=["1KiB", "1MiB"])
        >>> len(comparison), comparison[0].size_bytes
        (2, 1024)

    """

    def __init__(self, records: Sequence[Row]) -> None:
        self._records = tuple(records)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each record, as `--json` prints them.

        Example:
            >>> import treefold
            >>> [row["algorithm"] for row in treefold.compare("ring:4", "ring", sizes_bytes=["1KiB"]).rows()]
            ['ring']

        """
        return [each.as_dict() for each in self._records]

    def as_dict(self) -> dict[str, Any]:
        """Return the rows under the key `rows`.

        Example:
            >>> import treefold
            >>> list(treefold.compare("ring:4", "ring", sizes_bytes=["1KiB"]).as_dict())
            ['rows']

        """
        return {"rows": self.rows()}

    def to_csv(self) -> str:
        """Return comma-separated values: a line of the columns that `to_pandas` has, and a line for each row.

        Blanks separate the words of a list.

        Example:
            >>> import treefold
            >>> comparison = treefold.compare("ring:4", "ring", sizes_bytes=["1KiB"])
            >>> [line.split(",")[:2] for line in comparison.to_csv().splitlines()]
            [['network', 'algorithm'], ['ring:4', 'ring']]

        """
        rows = [dict(_flat(row)) for row in self.rows()]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(chain.from_iterable(rows))), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _in_one_cell(value) for name, value in row.items()} for row in rows)
        return text.getvalue()

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`; dictionaries inside a row become columns such as `link_utilization.mean`.

        Raises:
            TreefoldError: If pandas is missing: `pip install 'treefold[pandas]'` installs it.

        Example:
            >>> import treefold
            >>> table = treefold.compare("ring:4", "ring", sizes_bytes=["1KiB"]).to_pandas()
            >>> table["algorithm"].tolist()
            ['ring']

        """
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise missing("to_pandas", "pandas") from None
        return pandas.json_normalize(self.rows())

    def _repr_html_(self) -> str:
        return html.of_rows(html.kind_of(self), self.rows())

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, place: int | slice) -> Row | tuple[Row, ...]:
        return self._records[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._records)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._records == other._records

    def __hash__(self) -> int:
        return hash(self._records)
