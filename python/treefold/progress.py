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


Listener = Callable[[Progress], None]
_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Send all reports from inside this context to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def is_heard() -> bool:
    """Tell whether there is a listener, so that a report is worth some work."""
    return _listener.get() is not None


def report(task: str, done: float | None = None) -> None:
    """Report the task at hand to the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(Progress(task, done))


@contextmanager
def working_on(task: str, done: float | None = None, part: float = 0.0) -> Iterator[None]:
    """Report a task, and put its name before all reports from inside this context.

    Args:
        task: The name of the task.
        done: The fraction of all work that is done before it.
        part: The fraction of all work that the task is.

    """
    outer = _listener.get()
    if outer is None:
        yield
        return
    outer(Progress(task, done))

    def listen(inner: Progress) -> None:
        total = inner.done if done is None else done + part * (inner.done or 0.0)
        outer(Progress(f"{task}: {inner.task}", total))

    with reported_to(listen):
        yield
