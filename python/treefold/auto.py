"""`auto` plans with every algorithm that fits, and the simulator of the request picks the fastest plan."""

from treefold import _core, planning, progress
from treefold._core import Plan
from treefold.planning.request import Request
from treefold.results import Algorithm, Candidate, Choice


def algorithms() -> dict[str, Algorithm]:
    """Return all algorithms by name: what each is, where it comes from, what it fits, plans, keeps and costs.

    Example:
        >>> treefold.algorithms()["multitree"].source
        'Huang et al., MultiTree, ISCA 2021'

    """
    return dict(planning.PLANNERS)


def names() -> list[str]:
    """Return the names that a caller may give: `auto`, and those of all algorithms."""
    return ["auto", *algorithms()]


def choose(request: Request) -> tuple[Plan, Choice]:
    """Return the fastest plan of all algorithms that keep the limits, and the reason for the choice.

    Raises:
        MisfitError: If no algorithm fits.

    """
    chosen = _core.choose(request, progress.report)
    candidates = [Candidate(each.algorithm, each.time_s, each.latency_s, each.reason) for each in chosen.candidates]
    choice = Choice(simulator=request.simulator, size_bytes=request.size_bytes, candidates=tuple(candidates))
    return chosen.plan, choice
