"""What an interrupt does to a command: it ends with exit code 130, without a traceback, and leaves no process behind.

While modules are imported an exception may be swallowed, or become another one, and nothing is under way that has to be
undone: then the process ends at once. Later an interrupt is a KeyboardInterrupt, as everywhere in Python. Until this
module is imported nothing is heeded, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    _obey_parent()


def _come(*_: Any) -> None:
    global _has_come
    _has_come = True
    if _how == _AT_ONCE:
        end()
    if _how == _UNWIND:
        _kill()
        raise KeyboardInterrupt


def _unraisable(found: Any) -> None:
    """End at once if an interrupt came where nothing can be raised."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        end()
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
    try:
        os.write(2, b"interrupted\n")
    finally:
        _kill_pools()
        os._exit(EXIT_CODE)  # threads that simulate would be waited for at a normal exit


def _kill() -> None:
    for child in _children:
        child.kill()


def _kill_pools() -> None:
    """End the processes of pools, last of all: their threads here would tell that they are gone."""
    if pools := sys.modules.get("multiprocessing"):
        for process in pools.active_children():
            process.kill()


class _Heeding:
    """A context in which interrupts are heeded in another way."""

    def __init__(self, how: str) -> None:
        self._how = how

    def __enter__(self) -> None:
        global _how
        self._before, _how = _how, self._how

    def __exit__(self, *_: object) -> None:
        global _how
        _how = self._before


def at_once() -> _Heeding:
    """Return a context in which an interrupt ends the process at once: for imports."""
    return _Heeding(_AT_ONCE)


def unwinding() -> _Heeding:
    """Return a context in which an interrupt is a KeyboardInterrupt."""
    return _Heeding(_UNWIND)


def start(command: list[str], variables: dict[str, str]) -> Any:
    """Start a process that ends with this one, however that ends; it prints nothing."""
    import subprocess

    silent = subprocess.DEVNULL
    variables = variables | {_PARENT: str(os.getpid())}
    with _Heeding(_HOLD):
        # In a session of its own, the terminal's interrupt reaches this process only.
        child = subprocess.Popen(command, env=variables, stdout=silent, stderr=silent, start_new_session=True)
        _children.append(child)
    if _has_come:
        _kill()
        raise KeyboardInterrupt
    return child


def end_with(parent: int) -> None:
    """Have this process end as soon as `parent`, the process that has started it, is gone (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_CODE)


def _obey_parent() -> None:
    """In a process that `start` has started: end with its parent."""
    parent = os.environ.pop(_PARENT, None)
    if parent is None:
        return
    if parent != str(os.getppid()):
        os.write(2, f"error: the process {parent!a} that has started this one is gone; unset {_PARENT}\n".encode())
        os._exit(EXIT_CODE)
    end_with(os.getppid())
