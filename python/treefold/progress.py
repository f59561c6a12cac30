"""Carries reports of progress from long work to a listener, such as the command line's progress bar.

`working_on` can be nested: a comparison reports the size and the algorithm, and inside them the planner its round.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The task at hand, and the fraction of all work that is done: from 0 to 1, None if it is unknown."""

    task: str
    done: float | None = None


_listener: ContextVar[Callable[[Progress], None]] = ContextVar("_listener", default=lambda _: None)


@contextmanager
def reported_to(listener: Callable[[Progress], None]) -> Iterator[None]:
    """Send all reports from inside this context to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(task: str) -> None:
    """Report the task at hand to the listener."""
    _listener.get()(Progress(task))


@contextmanager
def working_on(task: str, done: float | None = None) -> Iterator[None]:
    """Report a task, and put its name before all reports from inside this context."""
    outer = _listener.get()
    outer(Progress(task, done))
    with reported_to(lambda inner: outer(Progress(f"{task}: {inner.task}", inner.done if done is None else done))):
        yield
