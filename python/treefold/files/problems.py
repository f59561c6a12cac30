"""Errors and warnings of the readers of files; each is one line and names the file."""

import warnings

from treefold.checks import LONGEST_SHOWN
from treefold.errors import TreefoldError
from treefold.text import message


class TopologyWarning(UserWarning):
    """Something in a network's file was dropped, ignored or filled in."""


def fail(where: str, problem: str) -> TreefoldError:
    """Return the error `where: problem` on one line."""
    return TreefoldError(message(where, problem))


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
