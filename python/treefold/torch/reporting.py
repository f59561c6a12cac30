"""Tells users which plan runs, or why nothing is planned: each report once in a process.

Reports go to the logger `treefold.torch`, in a way that is seen where logging is not configured.
"""

import logging
from typing import NamedTuple

from treefold._core import format_size

LOG = logging.getLogger("treefold.torch")
_reported: set[str] = set()


class Status(NamedTuple):
    """Says which operations of a process group run by a plan; `str` makes a sentence of it.

    Attributes:
        algorithm: The algorithm of the plan; None if nothing is planned.
        network: The name of the plan's network; None if nothing is planned.
        ranks: How many ranks the process group has.
        least_bytes: The size in bytes below which tensors are passed on.
        transport: The transport that carries the plan's messages.
        wraps: The backends to which everything else is passed on.
        reason: The reason why nothing is planned; empty if something is.
        adapt: Whether the plan follows links that change: False, True (with its own algorithm) or `auto`.
        wire: The type in which sums of float32 and bfloat16 cross lines; None if they cross as they are.
        error_feedback: Whether what this takes from tensors is kept.

    Example:
        >>> from treefold.torch import Status
        >>> print(Status("ring", "ring:4", ranks=4, least_bytes=4096, transport="tcp", wraps="gloo", reason=""))
        treefold plans CPU tensors of 4KiB or more with ring on network 'ring:4' (4 ranks), over tcp; ...

    """

    algorithm: str | None
    network: str | None
    ranks: int
    least_bytes: int
    transport: str
    wraps: str
    reason: str
    adapt: bool | str = False
    wire: str | None = None
    error_feedback: bool = False

    def __str__(self) -> str:
        if self.algorithm is None:
            return f"treefold plans nothing, all goes to {self.wraps}: {self.reason}"
        follows = {True: ", following links that change", "auto": ", following links that change by any algorithm"}
        crosses = "" if self.wire is None else f", sums across lines as {self.wire}"
        crosses += " with error feedback" if self.error_feedback else ""
        return (
            f"treefold plans CPU tensors of {format_size(self.least_bytes)} or more with {self.algorithm} on network "
            f"'{self.network}' ({self.ranks} ranks), over {self.transport}{follows.get(self.adapt, '')}{crosses}; all "
            f"else goes to {self.wraps}"
        )


def report_once(kind: str, text: str, is_reporter: bool, is_good: bool = False) -> None:
    """Log a report of a kind that this process has not had yet.

    Args:
        kind: Reports of one kind are logged once.
        text: The report.
        is_reporter: Whether this is the rank that logs it; the other ranks only remember its kind.
        is_good: Whether it is not a warning. Where the level INFO is not shown, it is logged as a warning all the same.

    """
    if kind not in _reported:
        _reported.add(kind)
        if is_reporter:
            shows_good = LOG.isEnabledFor(logging.INFO) and LOG.hasHandlers()
            LOG.log(logging.INFO if is_good and shows_good else logging.WARNING, "%s", text)
