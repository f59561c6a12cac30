"""What the backend tells its users: which plan runs, or why nothing is planned. Each kind of news once a process.

It goes through the logger `treefold.torch`, in a way that is seen where nobody has configured logging.
"""

import logging
from typing import NamedTuple

from treefold._core import format_size

LOG = logging.getLogger("treefold.torch")
_told: set[str] = set()


class Status(NamedTuple):
    """What a process group runs by plans; as text, a sentence."""

    algorithm: str | None
    """Of the plan; None: nothing is planned."""
    network: str | None
    ranks: int
    least_bytes: int
    """Smaller tensors are passed on."""
    transport: str
    wraps: str
    """Where everything else is passed on to."""
    reason: str
    """Why nothing is planned; empty where something is."""

    def __str__(self) -> str:
        if self.algorithm is None:
            return f"treefold plans nothing, all goes to {self.wraps}: {self.reason}"
        return (
            f"treefold plans CPU tensors of {format_size(self.least_bytes)} or more with {self.algorithm} on network "
            f"'{self.network}' ({self.ranks} ranks), over {self.transport}; all else goes to {self.wraps}"
        )


def news(kind: str, text: str, is_teller: bool, is_good: bool = False) -> None:
    """Tell something of a kind that this process has not heard of yet; others that hear of it are silent.

    Args:
        kind: What makes it the same news.
        text: What to say.
        is_teller: Whether this is the rank that says it.
        is_good: Whether it is no warning. Where the level INFO is not shown, it is told as a warning all the same.

    """
    if kind not in _told:
        _told.add(kind)
        if is_teller:
            shows_good = LOG.isEnabledFor(logging.INFO) and LOG.hasHandlers()
            LOG.log(logging.INFO if is_good and shows_good else logging.WARNING, "%s", text)
