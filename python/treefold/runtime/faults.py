"""Faults of a group's operations, as errors that name workers."""

from collections.abc import Sequence

from treefold._core import Fault
from treefold.errors import PeerError, TreefoldError
from treefold.runtime.rank_mapping import RankMapping


class RankLostError(PeerError):
    """A worker of a group is gone or does not answer; the others may form a new group with `regroup`.

    Collectives raise it on all workers that are left. It is a `PeerError` and so a `ConnectionError`; catch it first.

    Attributes:
        workers: The numbers of the lost workers in the group (`Group.worker`, torch's ranks), not the plan's ranks.

    Example:
        >>> from treefold import runtime
        >>> lost = runtime.RankLostError("worker 2 is gone", [2])
        >>> (str(lost), lost.workers)
        ('worker 2 is gone', [2])

    """

    def __init__(self, message: str, workers: Sequence[int]) -> None:
        super().__init__(message)
        self.workers = list(workers)


def error_of(fault: Fault, mapping: RankMapping, all_lost: Sequence[int]) -> TreefoldError:
    """Return a fault as an error; `all_lost` are the ranks of the plan that are known to be lost."""
    if fault.rank is None or fault.noticed_by is None:
        return TreefoldError(fault.text)
    rank, noticed_by = mapping.describe(fault.rank), mapping.describe(fault.noticed_by)
    if fault.kind == "cut":
        return lost_error(f"{noticed_by} cannot reach {rank} any more ({fault.text})", [fault.rank], mapping)
    others = [other for other in all_lost if other != fault.rank]
    message = f"{rank} {fault.text}, as {noticed_by} noticed"
    message += f"; gone too: {', '.join(map(mapping.describe, others))}" if others else ""
    return lost_error(message, [fault.rank, *others], mapping)


def lost_error(message: str, ranks: Sequence[int], mapping: RankMapping) -> RankLostError:
    """Return the error that the workers of these ranks of the plan are lost."""
    workers = [mapping.worker_of_rank[rank] for rank in ranks]
    return RankLostError(f"{message}; form a new group of the others, or start it again", workers)


def silent_error(ranks: Sequence[int], mapping: RankMapping, silence_s: float) -> TreefoldError:
    """Return the error that these ranks of the plan did not answer for so many seconds."""
    who = ", ".join(map(mapping.describe, ranks))
    return TreefoldError(f"{who} did not answer for {silence_s:g} s: it hangs, or its machine is cut off")
