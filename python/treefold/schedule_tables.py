"""The schedule tables of the MultiTree paper, which network interfaces execute: the result of `treefold.tables`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from treefold.records import Record, plain


class TableEntry(NamedTuple):
    """An entry of a schedule table (MultiTree paper, Fig. 5).

    Attributes:
        op: The kind of the entry: `Reduce`, `Gather`, or `NOP`, which lets a step pass in which the rank sends nothing.
        flow: The number of the tree, counted from 0.
        parent: The next node towards the root: a `Reduce` sends to it, a `Gather` receives from it. It is None at a
            root. Nodes have the numbers of `Node.number`; those that are no ranks' numbers are switches'.
        children: The next nodes away from the root: a `Reduce` waits for them, a `Gather` sends to them.
        step: The step in which the entry is executed, counted from 1.
        start: The start of its part of the vector, in bytes.
        size: The size of its part of the vector, in bytes.

    Example:
        >>> tables = treefold.tables(treefold.plan("torus:4x4", "multitree"), size_bytes="64KiB")
        >>> entry = tables.tables[0][0]
        >>> entry.op, entry.step, entry.size
        ('Reduce', 1, 4096)

    """

    op: str
    flow: int
    parent: int | None
    children: list[int]
    step: int
    start: int
    size: int


@dataclass(frozen=True, kw_only=True, repr=False)
class ScheduleTables(Record):
    """The schedule tables that network interfaces execute, and how much memory they take there.

    Tables and figures with numbers are those of the MultiTree paper.

    Attributes:
        tables: The entries of each rank's schedule table, rank 0 first.
        names: The names of the ranks, rank 0 first.
        entries: The number of entries of the longest schedule table.
        entry_bits: The number of bits of an entry.
        bytes: The memory that a network interface needs for the longest schedule table, in bytes.
        flit_types: The codes of the types of flits (Table II), by the name of the type.
        flit_formats: The fields of each kind of flit, each with its number of bits (Fig. 8).

    Example:
        >>> tables = treefold.tables(treefold.plan("torus:4x4", "multitree"), size_bytes="64KiB")
        >>> tables.entries, tables.entry_bits, tables.bytes
        (25, 200, 625)

    """

    tables: Sequence[Sequence[TableEntry]]
    names: tuple[str, ...]
    entries: int
    entry_bits: int
    bytes: int
    flit_types: dict[str, int]
    flit_formats: dict[str, list[tuple[str, int]]]

    def as_dict(self) -> dict[str, Any]:
        """Return what `treefold plan --tables --json` prints under the key `schedule_tables`.

        Example:
            >>> treefold.tables(treefold.plan("ring:2", "ring"), size_bytes="64KiB").as_dict()["names"]
            ['GPU0', 'GPU1']

        """
        listed = [[entry._asdict() for entry in table] for table in self.tables]
        others = ("names", "entries", "entry_bits", "bytes", "flit_types", "flit_formats")
        return {"tables": listed, **{name: plain(getattr(self, name)) for name in others}}

    def __repr__(self) -> str:
        return f"ScheduleTables({len(self.tables)} ranks, {self.entries} entries of {self.entry_bits} bits at most)"
