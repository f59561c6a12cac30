"""The one error for mistakes of a caller; the core raises it, too."""

from treefold.text import shortened, visible


class TreefoldError(ValueError):
    """A caller's mistake. The message names the thing, the value and the remedy in one line of printable text."""

    __module__ = "treefold"

    def __init__(self, message: str) -> None:
        super().__init__(visible(shortened(message)))
