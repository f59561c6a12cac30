"""The errors that treefold explains; the core raises them, too."""

from typing import Any

from treefold.text import shortened, visible


class TreefoldError(ValueError):
    """An error that treefold explains, in one line of printable text that names the thing, the value and the remedy.

    It reports a mistake of the caller, unless it is of a subclass: `treefold.MisfitError` says that an algorithm, a
    network, a plan and a machine do not suit each other, and `treefold.OutsideError` that something outside of treefold
    has failed, such as a file, a worker or a connection.

    Example:
        >>> treefold.plan("ring:4", "rign")
        Traceback (most recent call last):
            ...
        treefold.TreefoldError: algorithm 'rign' is unknown; did you mean ring? ...

    """

    __module__ = "treefold"

    def __init__(self, message: str) -> None:
        super().__init__(visible(shortened(message)))


class OutsideError(TreefoldError, OSError):
    """Something outside of treefold has failed: a file, a disk, an address or a socket.

    It is an `OSError`, too, so that code that catches `OSError` catches it. `errno` is not set; the message has the
    system's words.

    Example:
        >>> try:
        ...     treefold.load_plan("no-such-plan.json")
        ... except OSError as error:
        ...     print(error)
        no-such-plan.json: no such file; check the path

    """

    __module__ = "treefold"


class PeerError(OutsideError, ConnectionError):
    """A worker, a server or a connection is gone, or cannot be reached.

    It is a `ConnectionError`, too. The subclass `treefold.runtime.RankLostError` names the workers that a group has
    lost.

    Example:
        >>> issubclass(treefold.PeerError, ConnectionError), issubclass(treefold.PeerError, treefold.TreefoldError)
        (True, True)

    """

    __module__ = "treefold"


class DeadlineError(OutsideError, TimeoutError):
    """A worker, a server or a connection has not answered in time.

    It is a `TimeoutError`, too.

    Example:
        >>> issubclass(treefold.DeadlineError, TimeoutError), issubclass(treefold.DeadlineError, treefold.TreefoldError)
        (True, True)

    """

    __module__ = "treefold"


class MisfitError(TreefoldError):
    """An algorithm, a network, a plan or a machine is valid by itself, but does not fit the others.

    Another algorithm, network or machine may do, so `auto`, `compare` and `train` leave out what does not fit, and go
    on. Any other `TreefoldError` ends them at once.

    Example:
        >>> fitting = []
        >>> for algorithm in treefold.algorithms():
        ...     try:
        ...         fitting.append(treefold.plan("line:4", algorithm).algorithm)
        ...     except treefold.MisfitError:
        ...         pass
        >>> "ring" in fitting, "ring2d" in fitting
        (True, False)

    """

    __module__ = "treefold"


_TOLD = {kind.__name__: kind for kind in (TreefoldError, OutsideError, PeerError, DeadlineError, MisfitError)}
"""The kinds of errors of which workers tell each other."""


def kind_of(error: object) -> str:
    """Return the name of an error's kind, as `of_kind` reads it; a text alone is a mistake."""
    return next((base.__name__ for base in type(error).__mro__ if base.__name__ in _TOLD), TreefoldError.__name__)


def of_kind(kind: Any, message: str) -> TreefoldError:
    """Return an error of which another worker has told; a kind that this worker does not know is a mistake."""
    return _TOLD.get(kind if isinstance(kind, str) else "", TreefoldError)(message)
