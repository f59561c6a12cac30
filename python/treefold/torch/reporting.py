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
        encrypted: Whether the plan's messages are encrypted (TREEFOLD_TLS); what is passed on never is.
        sites: How many sites the group has if several of its ranks are at each; else None.
        at_once: How many groups between the same sites run at once, each with its part of their links.

    Example:
        >>> from treefold.torch import Status
        >>> print(Status("ring", "ring:4", ranks=4, least_bytes=4096, transport="tcp", wraps="gloo", reason=""))
        treefold plans tensors of 4KiB or more with ring on network 'ring:4' (4 ranks), over tcp; ...

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
    encrypted: bool = False
    sites: int | None = None
    at_once: int = 1

    def __str__(self) -> str:
        if self.algorithm is None:
            return f"treefold plans nothing, all goes to {self.wraps}: {self.reason}"
        follows = {True: ", following links that change", "auto": ", following links that change by any algorithm"}
        crosses = "" if self.wire is None else f", sums across lines as {self.wire}"
        crosses += " with error feedback" if self.error_feedback else ""
        sizes = f"{format_size(self.least_bytes)} or more" if self.least_bytes > 1 else "any size"
        ranks = f"{self.ranks} ranks" if self.sites is None else f"{self.sites} sites of {self.at_once} ranks"
        if self.sites is None and self.at_once > 1:
            ranks += f", one of {self.at_once} groups at once"
        over, clear = (f"{self.transport} with TLS", ", unencrypted") if self.encrypted else (self.transport, "")
        return (
            f"treefold plans tensors of {sizes} with {self.algorithm} on network '{self.network}' "
            f"({ranks}), over {over}{follows.get(self.adapt, '')}{crosses}; all else goes to "
            f"{self.wraps}{clear}"
        )


def clear_text(status: Status, is_hook: bool, has_all: bool) -> str:
    """Return the warning that some messages of ranks with certificates leave a machine unencrypted.

    Args:
        status: What is planned.
        is_hook: Whether only the gradients of DDP's communication hook can be planned.
        has_all: Whether the plan has trees for more than all-reduces.

    """
    tunnel = "join the machines by a tunnel, such as WireGuard"
    if not status.encrypted:
        return (
            f"treefold: TREEFOLD_TLS is set, but nothing is planned, and {status.wraps} encrypts nothing of what "
            f"leaves a machine; set TREEFOLD_TOPOLOGY, or {tunnel}"
        )
    if is_hook or not has_all:
        only, remedy = "gradients of the communication hook", "name the backend treefold"
        if not is_hook and status.sites is not None:
            only, remedy = "all_reduce and broadcast between sites", "make groups of one rank at each site"
        elif not is_hook:
            only, remedy = f"all_reduce and barrier in plans of {status.algorithm}", "plan with another algorithm"
        return (
            f"treefold: TREEFOLD_TLS encrypts only {only}; {status.wraps} carries all else in clear text, broadcasts "
            f"of weights, too: {remedy}, or {tunnel}"
        )
    return (
        f"treefold: TREEFOLD_TLS does not encrypt what {status.wraps} carries: send, recv, gather, scatter, "
        f"reduce_scatter and all_to_all with lists, and what is not on a CPU or a CUDA device; nor torch's store. DDP "
        f"and FSDP need only the store. If you send more, {tunnel}"
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
