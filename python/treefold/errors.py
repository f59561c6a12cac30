"""The one error that treefold explains; the core raises it, too."""

from treefold.text import shortened, visible


class TreefoldError(ValueError):
    """An error that treefold explains, in one line of printable text that names the thing, the value and the remedy.

    It is a mistake of the caller, or something in the outer world that has failed: a file, a worker or a connection.
    A subclass, `treefold.runtime.RankLostError`, says which workers are lost.

    Example:
        >>> treefold.plan("ring:4", "rign")
        Traceback (most recent call last):
            ...
        treefold.TreefoldError: algorithm 'rign' is unknown; did you mean ring? ...

    """

    __module__ = "treefold"

    def __init__(self, message: str) -> None:
        super().__init__(visible(shortened(message)))
