"""The numbers that `treefold run` reduces: they differ by rank and position, and every result is exact in every type.

A rank's vector repeats a table of its own. Each iteration begins at another place of the table, so that old values of a
broken transfer are noticed. Results repeat a table, too, which NumPy computes from the tables of all ranks.
"""

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treefold.collectives import COLLECTIVES
from treefold.runtime.threads import Array

if TYPE_CHECKING:
    from treefold.blocks import Blocks

TABLE = 16381
"""How many elements a table has: a prime, so that no cut of a vector falls on its repetition."""

_EXACT = {"bfloat16": 1 << 8, "float16": 1 << 11}
"""Up to which whole number a type is exact."""
_MOST = 100
_FACTORS = 6
"""How many ranks have a factor of two at any one place."""

_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
_ROUNDED = ("float32", "bfloat16")
"""The types whose numbers may cross lines in fewer bytes."""
_ERRORS = {"bfloat16": 2**-8, "float16": 2**-11, "float8": 2**-4, "int8": 1 / 253}
"""How much a wire type rounds a number at most, as a part of the largest one; with bfloat16 vectors twice as much."""
_FOR_BOOL = {"sum": "max", "prod": "min"}
"""The operators that stand for sums and products of truth values."""


class Part(NamedTuple):
    """A part of a vector, and the table that it repeats."""

    elements: slice
    table: Array
    first: int
    """The index in the table, modulo its length, of the part's first element."""


def storage(number: str) -> np.dtype[Any]:
    """Return NumPy's type for a number type; where NumPy has none, a type of the same length."""
    return np.dtype(np.uint16 if number == "bfloat16" else number)


class Tables:
    """The tables of all ranks for one number type and operator, and of their reduction."""

    def __init__(self, ranks: int, number: str, operator: str) -> None:
        values = [_values(rank, ranks, number, operator) for rank in range(ranks)]
        combine = _COMBINE[_FOR_BOOL.get(operator, operator) if number == "bool" else operator]
        self._is_short = number == "bfloat16"
        self._peak = float(np.sum(np.abs(values), axis=0).max()) if number in _ROUNDED else 0.0
        self.of_rank = [_stored(each, number) for each in values]
        self.reduced = _stored(combine.reduce(values), number)
        if number in _ROUNDED:
            self._peak = max(self._peak, float(np.abs(combine.reduce(values)).max()))

    def tolerance(self, wire: str | None) -> float:
        """Return by how much results may differ whose numbers cross lines in a type, at most once a rank."""
        if wire is None:
            return 0.0
        # The sum of two bfloat16 numbers is rounded, too.
        error = 2 * _ERRORS[wire] + _ERRORS["bfloat16"] if self._is_short else _ERRORS[wire]
        return len(self.of_rank) * self._peak * error


def _values(rank: int, ranks: int, number: str, operator: str) -> Array:
    """Return a rank's table in a type that rounds nothing."""
    draw = np.random.default_rng([rank, ranks])
    values: Array
    if number == "bool":
        return draw.integers(0, 2, TABLE)
    if operator == "prod":
        return _factors(draw, rank, ranks, number)
    most = min(_MOST, _EXACT.get(number, 1 << 24) // ranks) if operator == "sum" else _MOST
    if most == 0:  # more ranks than the type counts to
        return np.full(TABLE, int(rank < _EXACT[number]))
    least = 0 if number.startswith("uint") else -most
    values = draw.integers(least, most + 1, TABLE)
    return values + 1j * draw.integers(least, most + 1, TABLE) if number.startswith("complex") else values


def _factors(draw: np.random.Generator, rank: int, ranks: int, number: str) -> Array:
    """Return factors among which few are twos at any one place, so that no product is large."""
    turns = (rank + np.arange(TABLE)) % ranks
    twos = np.where(turns < _FACTORS, 2, 1)
    if number.startswith("uint"):
        return np.asarray(twos)
    units: Array = np.array([1, -1, 1j, -1j] if number.startswith("complex") else [1, -1])
    return np.asarray(twos * draw.choice(units, TABLE))


def _stored(values: Array, number: str) -> Array:
    if number == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(storage(number))


def fill(vector: Array, parts: list[Part], shift: int) -> None:
    """Write parts into a vector, with their tables moved on by `shift` elements."""
    for whole, rest, table in _tiled(vector, parts, shift):
        whole.reshape(-1, TABLE)[:] = table
        rest[:] = table[: rest.size]


def count_wrong(vector: Array, parts: list[Part], shift: int, tolerance: float = 0.0) -> int:
    """Return how many elements differ from what `fill` would write; numbers may differ by a tolerance."""
    count = 0
    for whole, rest, table in _tiled(vector, parts, shift):
        for found, wanted in ((whole.reshape(-1, TABLE), table), (rest, table[: rest.size])):
            differs = found != wanted
            if tolerance:
                differs = ~(np.abs(_floats(found) - _floats(wanted)) <= tolerance)
            count += int(np.count_nonzero(differs))
    return count


def _floats(values: Array) -> Array:
    """Return float32 numbers; those of bfloat16 are stored as integers."""
    return (values.astype(np.uint32) << 16).view(np.float32) if values.dtype == np.uint16 else values


def _tiled(vector: Array, parts: list[Part], shift: int) -> list[tuple[Array, Array, Array]]:
    """Return for each part its whole repetitions of the table, the rest, and the table as it is shifted."""
    tiled = []
    for elements, table, first in parts:
        part = vector[elements]
        end = part.size - part.size % TABLE
        tiled.append((part[:end], part[end:], np.roll(table, -(first + shift))))
    return tiled


class Cut:
    """Where blocks stand in the vectors of all ranks, the longest of which has so many elements."""

    def __init__(self, elements: int, ranks: int, blocks: "Blocks | None" = None) -> None:
        self._elements, self._ranks = elements, ranks
        rows = [] if blocks is None else blocks.tolist()
        self._before = [[0, *itertools.accumulate(row)] for row in rows]
        self._largest = max((row[-1] for row in self._before), default=ranks)

    def block(self, giver: int, receiver: int) -> slice:
        """Return the elements, in the vector of `giver`, of its block for `receiver`."""
        return slice(self._end(giver, receiver), self._end(giver, receiver + 1))

    def vector(self, rank: int) -> int:
        """Return how many elements the vector of a rank has."""
        return self._end(rank, self._ranks)

    def _end(self, giver: int, blocks: int) -> int:
        """Return where the first blocks of a vector end."""
        shares = self._before[giver][blocks] if self._before else blocks
        return self._elements * shares // self._largest


def inputs(tables: Tables, collective: str, cut: Cut, rank: int) -> list[Part]:
    """Return what a rank's vector holds before an operation."""
    before = COLLECTIVES[collective].before
    own = cut.block(rank, rank) if before == "block" else slice(0, cut.vector(rank))
    return [Part(own, tables.of_rank[rank], own.start)]


def results(tables: Tables, collective: str, cut: Cut, rank: int, root: int) -> list[Part]:
    """Return what a rank's result holds: the vector, the rank's own block of it, or blocks one after the other."""
    meaning = COLLECTIVES[collective]
    if meaning.after == "at-root" and rank != root:
        return []
    if meaning.reduces:
        own = cut.block(rank, rank) if meaning.after == "block" else slice(0, cut.vector(rank))
        return [Part(own, tables.reduced, own.start)]
    parts: list[Part] = []
    end = 0
    for giver in [root] if meaning.before == "at-root" else range(len(tables.of_rank)):
        part = _given(meaning, cut, giver, rank)
        first, end = end, end + part.stop - part.start
        parts.append(Part(slice(first, end), tables.of_rank[giver], part.start))
    return parts


def _given(meaning: Any, cut: Cut, giver: int, receiver: int) -> slice:
    """Return the elements of a rank's vector that another one has at the end, where nothing is reduced."""
    if meaning.before == "block":
        return cut.block(giver, giver)
    return cut.block(giver, receiver) if meaning.after == "block" else slice(0, cut.vector(giver))
