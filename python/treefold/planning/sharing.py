"""Tells of plans that are limited by what links share, and whose algorithms do not plan around it."""

import warnings
from collections.abc import Mapping

from treefold._core import Plan
from treefold.planning import PLANNERS
from treefold.text import some


def limiting(plan: Plan) -> str | None:
    """Return the name of a shared capacity that limits a plan which was not made around it; None if there is none."""
    planner = PLANNERS.get(plan.algorithm)
    shared = {each.name for each in plan.topology.shared()}
    if not shared or planner is None or planner.keeps_shared:
        return None
    return next((name for name in plan.busiest_links if name in shared), None)


def warn_of_shared(found: Mapping[str, str | None], stacklevel: int) -> None:
    """Warn of the algorithms of which `limiting` has found a shared capacity, in one line for all of them."""
    limited = {name: capacity for name, capacity in found.items() if capacity is not None}
    if not limited:
        return
    *others, last = (each.name for each in PLANNERS.values() if each.keeps_shared and not each.in_network)
    warnings.warn(
        f"{some(limited)}: planned without regard to what links share, such as '{next(iter(limited.values()))}', "
        f"which is the limit here; {', '.join(others)} and {last} plan around it",
        stacklevel=stacklevel + 1,
    )
