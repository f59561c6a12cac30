"""What commands show on a terminal, and keep to themselves in a pipe."""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer

from treefold import progress
from treefold.errors import TreefoldError
from treefold.files.streams import is_standard_output
from treefold.records import Table
from treefold.text import visible, visible_lines

_Item = TypeVar("_Item")
_Table = TypeVar("_Table", bound="Table[Any]")


def track(items: Sequence[_Item], description: str) -> Iterable[_Item]:
    """Show a progress bar over `items` on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track as bar

    return bar(items, description=description, console=Console(stderr=True), transient=True)


def prepare_streams() -> None:
    """Let nothing that is printed fail: what an output's encoding lacks is written as its escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def working(task: str) -> Iterator[None]:
    """Show on a terminal what is worked on and how long it will take; nothing in a pipe."""
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

        def listen(report: progress.Progress) -> None:
            bar.update(line, description=escape(report.task))
            if report.done is not None:
                bar.update(line, total=1.0, completed=report.done)

        with progress.reported_to(listen):
            yield


def show(value: Any, as_json: bool, text: Callable[[], str], written: Path | None = None) -> None:
    """Print a value as JSON, or as the text that people read; nothing where a file was `written` to standard output."""
    if written is None or not is_standard_output(written):
        say(json.dumps(value) if as_json else text())


def check_alone(output: Path | None, as_json: bool) -> None:
    """Refuse a file on standard output beside the JSON that is printed there."""
    if output is not None and as_json and is_standard_output(output):
        raise TreefoldError(f"{output}: --json prints there, too; drop one of the two")


def say(text: str) -> None:
    """Print lines on standard output; nothing in them moves the cursor."""
    typer.echo(visible_lines(text))


def tell(text: str) -> None:
    """Print one line on standard error; nothing in it moves the cursor."""
    print(visible(text), file=sys.stderr, flush=True)


def show_rows(rows: _Table, as_json: bool, table: Callable[[_Table], str], written: Path | None = None) -> None:
    """Print a table of records as JSON or for people, as `show` does; no table where there are no rows."""
    if len(rows) or as_json:
        show(rows.rows(), as_json, lambda: table(rows), written)
