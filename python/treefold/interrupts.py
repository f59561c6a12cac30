"""What an interrupt does to a command: it ends with exit code 130, without a traceback, and leaves no process behind.

While modules are imported an exception may be swallowed, or become another one, and nothing is under way that has to be
undone: then the process ends at once. Later an interrupt is a KeyboardInterrupt, as everywhere in Python.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

EXIT_CODE = 130

_AT_ONCE, _UNWIND, _HOLD = "at once", "unwind", "hold"
_PARENT = "TREEFOLD_PARENT"
_PR_SET_PDEATHSIG = 1  # Linux: the signal that a process gets when its parent is gone

_how = _UNWIND
_has_come = False
_children: list[Any] = []


def heed() -> None:
    """Heed interrupts in this process, which from now on ends at once, unless whoever started it has them ignored."""
    global _how
    _how = _AT_ONCE
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _come)
        sys.unraisablehook = _unraisable
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None)
    _end_with_parent()


def _come(*_: Any) -> None:
    global _has_come
    _has_come = True
    if _how == _AT_ONCE:
        end()
    if _how == _UNWIND:
        _kill()
        raise KeyboardInterrupt


def _unraisable(found: Any) -> None:
    """Raise an interrupt again that came where nothing can be raised."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    else:
        sys.__unraisablehook__(found)


def has_come() -> bool:
    """Whether there was an interrupt, whatever has become of it."""
    return _has_come


def end() -> NoReturn:
    """End this process and those that it has started."""
    global _how
    _how = _HOLD
    _kill()
    for child in _children:
        child.wait()
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(EXIT_CODE)  # threads that simulate would be waited for at a normal exit


def _kill() -> None:
    for child in _children:
        child.kill()


@contextmanager
def _heeding(how: str) -> Iterator[None]:
    global _how
    before, _how = _how, how
    try:
        yield
    finally:
        _how = before


def at_once() -> Any:
    """Return a context in which an interrupt ends the process at once: for imports."""
    return _heeding(_AT_ONCE)


def unwinding() -> Any:
    """Return a context in which an interrupt is a KeyboardInterrupt."""
    return _heeding(_UNWIND)


def start(command: list[str], variables: dict[str, str]) -> Any:
    """Start a process that ends with this one, however that ends; it prints nothing."""
    import subprocess

    silent = subprocess.DEVNULL
    variables = variables | {_PARENT: str(os.getpid())}
    with _heeding(_HOLD if _how == _UNWIND else _how):
        # In a session of its own, the terminal's interrupt reaches this process only.
        child = subprocess.Popen(command, env=variables, stdout=silent, stderr=silent, start_new_session=True)
        _children.append(child)
    if _has_come:
        _kill()
        raise KeyboardInterrupt
    return child


def _end_with_parent() -> None:
    """Have a process that `start` has started end as soon as its parent is gone (Linux)."""
    parent = os.environ.pop(_PARENT, None)
    if parent is None:
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent != str(os.getppid()):
        os._exit(EXIT_CODE)
