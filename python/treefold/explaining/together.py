"""Finds the cables that must get more bandwidth together where more of a single one gains nothing.

The bound is the least of many: several cuts, or the links of several ranks, are equally tight. So the links of a tight
one gain 10 %, then those of one that is still tight, and so on, until the bound rises. Then each cable that is not
needed is left out again.

Cost: a bound for each cut that is tight, and one for each cable that was found.
"""

from collections.abc import Sequence

from treefold import progress
from treefold.explaining.cables import Cable, cables_of, split_link
from treefold.explaining.what_if import Task, fraction
from treefold.explanation_results import Outcome, Together

_MOST_ROUNDS = 64
_MOST_CABLES = 256
"""So many cables are looked through for those that are not needed."""


def together(task: Task, now: Outcome, growth: float) -> Together | None:
    """Return the cables whose growth raises the bound; None if none were found.

    Args:
        task: What is explained.
        now: What is reached now.
        growth: The bandwidth then, as a multiple of that now.

    """
    cables = {ends: cable for cable in cables_of(task.network) for ends in cable.directions}
    nodes = {node.name for node in task.network.nodes()}
    grown: dict[Cable, None] = {}
    limiting: Sequence[str] = now.links
    for _ in range(_MOST_ROUNDS):
        more = {cables[split_link(link, nodes)]: None for link in limiting}
        if more.keys() <= grown.keys():
            return None
        grown |= more
        progress.report(f"{len(grown)} links together")
        gain, limiting = _gain(task, now, [*grown], growth)
        if gain > 0:
            return _needed(task, now, [*grown], growth, gain)
    return None


def _gain(task: Task, now: Outcome, grown: list[Cable], growth: float) -> tuple[float, list[str]]:
    """Return the part by which the bound rises if these cables grow, and the links that limit it then."""
    rates = {ends: growth for cable in grown for ends in cable.directions}
    found = task.bounds_on(task.network.with_scaled_bandwidths(rates, one_way=True))
    return (fraction(task, now, found.rate.rate_Bps) or 1.0) - 1, found.limit_of_rate().links


def _needed(task: Task, now: Outcome, grown: list[Cable], growth: float, gain: float) -> Together:
    """Return the cables without which the bound would not rise by `gain`."""
    kept = grown
    for cable in grown if len(grown) <= _MOST_CABLES else ():
        fewer = [each for each in kept if each is not cable]
        if _gain(task, now, fewer, growth)[0] >= gain * 0.999:
            kept = fewer
    return Together(links=tuple(cable.name for cable in kept), gain_fraction=gain)
