"""What commands show on a terminal, and keep to themselves in a pipe."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import typer

_Item = TypeVar("_Item")


def track(items: Sequence[_Item], description: str) -> Iterable[_Item]:
    """Show a progress bar over `items` on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track as bar

    return bar(items, description=description, console=Console(stderr=True), transient=True)


def show(value: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print a value as JSON, or as the text that people read."""
    typer.echo(json.dumps(value) if as_json else text())
