"""Writes what process groups do: as lines of JSON to the file TREEFOLD_LOG, and as a summary (TREEFOLD_SUMMARY).

One thread of the process writes a line for each group that has had calls since its last line, every ten seconds and
when the program ends. Ranks of one machine may share the file: a line is written at once.
"""

import atexit
import json
import sys
import threading
import time
import weakref

from treefold._core import format_size, format_time
from treefold.environment import switch, value
from treefold.errors import TreefoldError
from treefold.text import message, some
from treefold.torch.counting import Counters
from treefold.torch.statistics import CallStatistics, GroupStatistics, all_counters, statistics_of

_EVERY_S = 10.0
_MOST_NAMED = 8
_begun = threading.Lock()
_over = threading.Event()
_told: "weakref.WeakKeyDictionary[Counters, list[CallStatistics]]" = weakref.WeakKeyDictionary()
"""What the last line of each group said of its calls."""


def check() -> None:
    """Refuse values of the variables that cannot be used.

    Raises:
        TreefoldError: If the file cannot be written, or the switch is neither yes nor no.

    """
    summary = value("TREEFOLD_SUMMARY")
    if summary and switch(summary) is None:
        raise TreefoldError(f"TREEFOLD_SUMMARY: '{summary}' is unknown; it is yes (1, true, on) or no (0, false, off)")
    if file := value("TREEFOLD_LOG"):
        try:
            with open(file, "a", encoding="utf-8"):
                pass
        except OSError as error:
            raise TreefoldError(message("TREEFOLD_LOG", f"'{file}' cannot be written: {error.strerror}")) from None


def begin(rank: int) -> None:
    """Begin to write, if a variable asks for it; only the first call in a process counts.

    Args:
        rank: The process's number among all ranks.

    """
    asks = value("TREEFOLD_LOG") or switch(value("TREEFOLD_SUMMARY"))
    if not asks or not _begun.acquire(blocking=False):
        return
    writer = threading.Thread(target=_write_often, args=(rank,), name="treefold-log", daemon=True)
    writer.start()
    atexit.register(_end, rank, writer, time.monotonic())


def _write_often(rank: int) -> None:
    while not _over.wait(_EVERY_S):
        _write(rank)


def _end(rank: int, writer: threading.Thread, since_s: float) -> None:
    _over.set()
    writer.join()
    _write(rank)
    told = [found for each in all_counters() if (found := statistics_of(each)).calls]
    if rank == 0 and switch(value("TREEFOLD_SUMMARY")) and told:
        print(summary(told, rank, time.monotonic() - since_s), file=sys.stderr)


def _write(rank: int) -> None:
    """Write a line for each group that has had calls since its last line."""
    if not (file := value("TREEFOLD_LOG")):
        return
    lines = []
    for counters in all_counters():
        found = statistics_of(counters)
        if found.calls and _told.get(counters) != found.calls:
            _told[counters] = found.calls
            lines.append(json.dumps({"time": time.time(), "rank": rank, **found.document()}) + "\n")
    try:
        with open(file, "a", encoding="utf-8", buffering=1 << 20) as target:
            target.write("".join(lines))
    except OSError as error:
        print(f"treefold: TREEFOLD_LOG: '{file}' cannot be written: {error.strerror}", file=sys.stderr)


def summary(groups: list[GroupStatistics], rank: int, seconds: float) -> str:
    """Return a text for people that says what process groups did in so many seconds.

    Args:
        groups: What they did, on this rank.
        rank: This rank.
        seconds: For how long there have been groups.

    """
    rows: list[tuple[str, ...]] = [("ranks", "call", "by plan", "bytes", "time", "of bound", "passed on")]
    notes = []
    for group in groups:
        name = some(map(str, group.ranks), _MOST_NAMED)
        rows += [_row(name, each) for each in group.calls]
        notes += _notes(name, group)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    title = f"treefold: what rank {rank} did in {format_time(seconds)}"
    return "\n".join([title, *(f"  {line}" for line in [*table, *notes])])


def _row(name: str, call: CallStatistics) -> tuple[str, ...]:
    part = "" if call.part_of_bound is None else f"{call.part_of_bound:.0%}"
    planned = ("", "", "") if call.calls == 0 else (str(call.calls), format_size(call.bytes), format_time(call.seconds))
    others = f"{call.passed_on} of {format_size(call.passed_on_bytes)}" if call.passed_on else ""
    return (name, call.call, *planned, part, others)


def _notes(name: str, group: GroupStatistics) -> list[str]:
    """Return what is to be said of a group beside its calls."""
    notes = []
    if group.algorithm is not None:
        sent = "" if group.bytes_between is None else f"; sent {format_size(group.bytes_between)} by plans"
        inside = f", and {format_size(group.bytes_inside)} of tensors inside sites" if group.bytes_inside else ""
        notes.append(f"ranks {name}: {group.algorithm} on network '{group.network}'{sent}{inside}")
    if group.bytes_unplanned:
        notes.append(f"ranks {name}: {format_size(group.bytes_unplanned)} of tensors were passed on between sites")
    notes += [f"ranks {name}: planned anew: {line}" for line in group.replans]
    notes += [f"ranks {name}: {link} carried {part:.0%} of its rate" for link, part in group.short_links.items()]
    return notes
