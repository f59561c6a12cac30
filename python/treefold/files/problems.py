"""Errors and warnings of the readers of files; each is one line and names the file."""

import warnings

from treefold.checks import LONGEST_SHOWN
from treefold.errors import OutsideError, TreefoldError
from treefold.text import message


class TopologyWarning(UserWarning):
    """Something in a network's file was dropped, ignored or filled in.

    Example:
        >>> import warnings
        >>> import treefold
        >>> from treefold.importers import TopologyWarning
        >>> nodes = [{"name": "paris"}, {"name": "london"}]
        >>> link = {"source": "paris", "target": "london", "both_ways": True, "bandwidth_Bps": 1.25e9}
        >>> content = {"format": "treefold-topology", "version": 1, "name": "mine", "nodes": nodes, "links": [link]}
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     network = treefold.topology(content)
        >>> issubclass(caught[0].category, TopologyWarning)
        True

    """


def fail(where: str, problem: str) -> TreefoldError:
    """Return the error `where: problem` on one line."""
    return TreefoldError(message(where, problem))


def fail_outside(where: str, problem: str) -> OutsideError:
    """Return the error `where: problem` on one line, if the file itself cannot be had."""
    return OutsideError(message(where, problem))


def warn(where: str, problem: str) -> None:
    """Issue the TopologyWarning `where: problem` on one line."""
    warnings.warn(message(where, problem), TopologyWarning, stacklevel=2)


def one_line(text: str) -> str:
    """Return a name on one line; labels of drawings may have several."""
    return text if text.isalnum() else " ".join(text.split())


def reason(error: BaseException) -> str:
    """Return the message of another library's error on one line; a long one is cut."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 3 * LONGEST_SHOWN else f"{text[: 3 * LONGEST_SHOWN]}..."
