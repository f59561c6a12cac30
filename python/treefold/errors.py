"""The one error for what a caller got wrong. The core raises it, too."""

from treefold.text import shortened, visible


class TreefoldError(ValueError):
    """A caller's mistake: the thing, the value, the remedy; one line of printable text, whatever it quotes."""

    __module__ = "treefold"

    def __init__(self, message: str) -> None:
        super().__init__(visible(shortened(message)))
