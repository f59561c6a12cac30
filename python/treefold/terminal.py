"""What commands show on a terminal, and keep to themselves in a pipe."""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer

from treefold import planning
from treefold.errors import TreefoldError
from treefold.files.streams import is_standard_output
from treefold.text import visible, visible_lines

_Item = TypeVar("_Item")


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
def status(what: str) -> Iterator[None]:
    """Show on a terminal what is worked on, as planners and comparisons tell it; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(what) as line, planning.telling(lambda told: line.update(escape(told))):
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


def show_rows(
    rows: Sequence[_Item], as_json: bool, table: Callable[[Sequence[_Item]], str], written: Path | None = None
) -> None:
    """Print rows as JSON or as a table, as `show` does; no table where there are none."""
    if rows or as_json:
        show(rows, as_json, lambda: table(rows), written)
