"""What takes long says what it works on, and whoever shows it listens.

`working_on` is nested: a comparison names the size, inside it the algorithm, inside that the planner's round.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What is worked on, and which part of all work is done: from 0 to 1, None where that is not known."""

    task: str
    done: float | None = None


_listener: ContextVar[Callable[[Progress], None]] = ContextVar("_listener", default=lambda _: None)


@contextmanager
def reported_to(listener: Callable[[Progress], None]) -> Iterator[None]:
    """Have everything inside report to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(task: str) -> None:
    """Report what is worked on to whoever listens."""
    _listener.get()(Progress(task))


@contextmanager
def working_on(task: str, done: float | None = None) -> Iterator[None]:
    """Report a task; what is reported inside it is reported together with it."""
    outer = _listener.get()
    outer(Progress(task, done))
    with reported_to(lambda inner: outer(Progress(f"{task}: {inner.task}", inner.done if done is None else done))):
        yield
