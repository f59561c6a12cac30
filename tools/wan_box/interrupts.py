"""Has signals that would end the process take the box down first."""

import contextlib
import signal
import sys
from collections.abc import Iterator

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def ends_cleanly() -> Iterator[None]:
    """Turn signals that end the process into an exit that cleans up, where this is the main thread."""
    try:
        before = {number: signal.signal(number, _exit) for number in _ENDING}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _: object) -> None:
    sys.exit(128 + number)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Have an interrupt, or a signal that ends the process, wait until this is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *_ENDING})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
