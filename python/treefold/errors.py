"""The errors that treefold explains; the core raises them, too."""

from treefold.text import shortened, visible


class TreefoldError(ValueError):
    """An error that treefold explains, in one line of printable text that names the thing, the value and the remedy.

    It reports a mistake of the caller, or the failure of something outside treefold: a file, a worker or a connection.
    The subclass `treefold.MisfitError` says that an algorithm, a network, a plan and a machine do not suit each other,
    and `treefold.runtime.RankLostError` which workers are lost.

    Example:
        >>> treefold.plan("ring:4", "rign")
        Traceback (most recent call last):
            ...
        treefold.TreefoldError: algorithm 'rign' is unknown; did you mean ring? ...

    """

    __module__ = "treefold"

    def __init__(self, message: str) -> None:
        super().__init__(visible(shortened(message)))


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
