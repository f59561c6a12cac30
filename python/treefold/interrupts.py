"""Handles interrupts: a command ends with exit code 130, without a traceback, and leaves no process behind.

While modules are imported, an exception may be swallowed or replaced by another one, and there is nothing to undo yet:
then an interrupt ends the process at once. Later it raises a KeyboardInterrupt, as everywhere in Python. Interrupts are
handled only once this module is imported, so it imports next to nothing itself.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

EXIT_CODE = 130

_END_AT_ONCE, _RAISE, _WAIT = "end at once", "raise", "wait"
_PARENT = "TREEFOLD_PARENT"
_PR_SET_PDEATHSIG = 1  # Linux: sets the signal that a process gets when its parent ends

_reaction = _RAISE
_was_interrupted = False
_children: list[Any] = []


def install() -> None:
    """Let an interrupt end this process at once, unless the process was started with interrupts ignored."""
    global _reaction
    _reaction = _END_AT_ONCE
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _on_interrupt)
        sys.unraisablehook = _unraisable
        if sys.platform != "win32":
            os.register_at_fork(after_in_child=_restore)
    _end_with_starter()


def _restore() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _on_interrupt(*_: Any) -> None:
    global _was_interrupted
    _was_interrupted = True
    if _reaction == _END_AT_ONCE:
        end()
    if _reaction == _RAISE:
        _kill_children()
        raise KeyboardInterrupt


def _unraisable(caught: Any) -> None:
    """End at once after an interrupt that came where Python can raise nothing."""
    if issubclass(caught.exc_type, KeyboardInterrupt):
        end()
    sys.__unraisablehook__(caught)


def was_interrupted() -> bool:
    """Tell whether there was an interrupt, even if its exception was swallowed."""
    return _was_interrupted


def end() -> NoReturn:
    """End this process and all processes that it has started."""
    global _reaction
    _reaction = _WAIT
    _kill_children()
    for child in _children:
        child.wait()
    try:
        os.write(2, b"interrupted\n")
        # A thread that manages a pool would complain that its processes are gone.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    finally:
        _kill_pools()
        os._exit(EXIT_CODE)  # a normal exit would wait for threads that simulate


def _kill_children() -> None:
    for child in _children:
        child.kill()


def _kill_pools() -> None:
    """End the processes of pools. They end last, because their threads in this process report their end."""
    if pools := sys.modules.get("multiprocessing"):
        for process in pools.active_children():
            process.kill()


class _Reacting:
    """A context with another reaction to interrupts."""

    def __init__(self, reaction: str) -> None:
        self._reaction = reaction

    def __enter__(self) -> None:
        global _reaction
        self._before, _reaction = _reaction, self._reaction

    def __exit__(self, *_: object) -> None:
        global _reaction
        _reaction = self._before


def at_once() -> _Reacting:
    """Return a context in which an interrupt ends the process at once; imports need it."""
    return _Reacting(_END_AT_ONCE)


def unwinding() -> _Reacting:
    """Return a context in which an interrupt raises a KeyboardInterrupt."""
    return _Reacting(_RAISE)


def start(command: list[str], variables: dict[str, str]) -> Any:
    """Start a process that prints nothing, and that ends when this process ends in whatever way."""
    import subprocess

    silent = subprocess.DEVNULL
    variables = variables | {_PARENT: str(os.getpid())}
    with _Reacting(_WAIT):
        # The child gets a session of its own, so that the terminal interrupts this process only.
        child = subprocess.Popen(command, env=variables, stdout=silent, stderr=silent, start_new_session=True)
        _children.append(child)
    if _was_interrupted:
        _kill_children()
        raise KeyboardInterrupt
    return child


def end_with(parent: int) -> None:
    """Let this process end as soon as its parent process ends (on Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_CODE)


def _end_with_starter() -> None:
    """Let this process end with its parent, if `start` has started it."""
    parent = os.environ.pop(_PARENT, None)
    if parent is None:
        return
    if parent != str(os.getppid()):
        os.write(2, f"error: the process {parent!a} that started this one is gone; unset {_PARENT}\n".encode())
        os._exit(EXIT_CODE)
    end_with(os.getppid())
