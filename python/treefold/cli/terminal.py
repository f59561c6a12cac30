"""Prints results, and shows progress on a terminal but not in a pipe."""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer

from treefold import progress
from treefold.cli.wording import in_options
from treefold.errors import TreefoldError
from treefold.files.streams import is_standard_output
from treefold.records import Table
from treefold.text import visible, visible_lines

_Item = TypeVar("_Item")
_Table = TypeVar("_Table", bound="Table[Any]")


def track(items: Sequence[_Item], description: str) -> Iterable[_Item]:
    """Iterate over `items`, and show a progress bar on a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track as bar

    return bar(items, description=description, console=Console(stderr=True), transient=True)


def prepare_streams() -> None:
    """Escape characters that the encoding of an output lacks, so that printing never fails."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def working(task: str) -> Iterator[None]:
    """Show the task at hand and the remaining time on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(task, total=None)

        def listen(reported: progress.Progress) -> None:
            bar.update(line, description=escape(reported.task))
            if reported.done is not None:
                bar.update(line, total=1.0, completed=reported.done)

        with progress.reported_to(listen):
            yield


def show(value: Any, as_json: bool, text: Callable[[], str], written: Path | None = None) -> None:
    """Print a value as JSON or as text; print nothing if a file was `written` to standard output."""
    if written is None or not is_standard_output(written):
        print_lines(json.dumps(value) if as_json else in_options(text()))


def check_alone(output: Path | None, as_json: bool) -> None:
    """Refuse to write a file to standard output if --json prints there, too."""
    if output is not None and as_json and is_standard_output(output):
        raise TreefoldError(f"{output} and --json would both write to standard output; drop one of the two")


def print_lines(text: str) -> None:
    """Print lines on standard output; control characters are escaped."""
    typer.echo(visible_lines(text))


def notify(text: str) -> None:
    """Print one line on standard error; control characters are escaped."""
    print(visible(text), file=sys.stderr, flush=True)


def show_rows(rows: _Table, as_json: bool, table: Callable[[_Table], str], written: Path | None = None) -> None:
    """Print a table of records as `show` does; an empty table is printed as JSON only."""
    if len(rows) or as_json:
        show(rows.rows(), as_json, lambda: table(rows), written)
