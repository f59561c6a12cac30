"""What commands show on a terminal, and keep to themselves in a pipe."""

import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import typer

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


def show(value: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print a value as JSON, or as the text that people read."""
    say(json.dumps(value) if as_json else text())


def say(text: str) -> None:
    """Print lines on standard output; nothing in them moves the cursor."""
    typer.echo(visible_lines(text))


def tell(text: str) -> None:
    """Print one line on standard error; nothing in it moves the cursor."""
    print(visible(text), file=sys.stderr, flush=True)
