"""`auto` plans with every algorithm that fits, and the simulator of the request picks the fastest plan.

The planners of the core compete there (`auto.rs`); those that need a solver compete with the winner here.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from treefold import _core, planning
from treefold._core import Plan, Topology
from treefold.bounds import least_seconds
from treefold.errors import MisfitError
from treefold.planning.request import Request, limits, owners, planners_within, without_foreign
from treefold.results import Candidate, Choice


def algorithms() -> dict[str, str]:
    """Return the name and a summary of every algorithm.

    Example:
        >>> "multitree" in treefold.algorithms()
        True

    """
    of_core = {each.name: each.summary for each in planning.CORE.values()}
    return of_core | {name: each.summary for name, each in planning.PLANNERS.items()}


def names() -> list[str]:
    """Return the names that a caller may give: `auto`, and those of all algorithms."""
    return ["auto", *algorithms()]


def choose(request: Request) -> tuple[Plan, Choice]:
    """Return the fastest plan of all algorithms that keep the limits, and the reason for the choice.

    Raises:
        MisfitError: If no algorithm fits.

    """
    able = planners_within(request.options)
    if able is not None and not able:
        given = limits(request.options)
        who = ", ".join(f"{owners(name).removesuffix('it')}{name}" for name in given)
        raise MisfitError(f"no algorithm keeps {' and '.join(given)} at once: {who}")
    if able is None:
        best, candidates = _best_of_core(request)
        best, candidates = _race(list(planning.PLANNERS), request, best, candidates)
    else:
        best, candidates = _race([name for name in algorithms() if name in able], request, None, [])
    return best, Choice(simulator=request.simulator, size_bytes=request.size_bytes, candidates=tuple(candidates))


def _best_of_core(request: Request) -> tuple[Plan, list[Candidate]]:
    """Return the fastest plan of the core's planners, and all candidates."""
    asked = (request.collective, request.root, request.size_bytes, request.options)
    chosen = _core.choose(request.simulator, request.network, *asked)
    candidates = [Candidate(each.algorithm, each.time_s, each.latency_s, each.reason) for each in chosen.candidates]
    return chosen.plan, candidates


def _race(
    names: Sequence[str], request: Request, best: Plan | None, candidates: list[Candidate]
) -> tuple[Plan, list[Candidate]]:
    """Let the named planners compete with the best plan so far; return the winner and all candidates."""
    least = min((each.time_s for each in candidates if each.time_s is not None), default=math.inf)
    for name in names:
        reason = None if best is None else _why_not(request, name, best, least)
        if reason is None:
            planned, candidate = _attempt(name, request, best, least)
        else:
            planned, candidate = None, Candidate(name, None, None, reason)
        candidates.append(candidate)
        if planned is not None and candidate.time_s is not None and candidate.time_s < least:
            best, least = planned, candidate.time_s
    if best is None:
        reasons = {each.algorithm: each.reason or "" for each in candidates}
        raise MisfitError(reasons.get("packing", candidates[0].reason or ""))
    return best, candidates


def _attempt(name: str, request: Request, best: Plan | None, least: float) -> tuple[Plan | None, Candidate]:
    """Plan with one algorithm and time its plan; the candidate says why if it does not fit or cannot be the fastest."""
    try:
        asked = replace(request, algorithm=name, options=without_foreign(request.options, name))
        plan = planning.plan(asked).plan
    except MisfitError as error:
        return None, Candidate(name, None, None, str(error))
    if request.simulator == "flow" and best is not None:
        slower = _core.why_slower(plan, request.size_bytes, least, best.algorithm)
        if slower is not None:
            return None, Candidate(name, None, None, slower)
    time_s, latency_s = (_time(plan, size, request.simulator) for size in (request.size_bytes, 1))
    return plan, Candidate(name, time_s, min(time_s, latency_s), None)


def _why_not(request: Request, name: str, best: Plan, time_s: float) -> str | None:
    """Return the reason not to try a planner; None if it should be tried."""
    network: Topology = request.network
    if not planning.is_quick(network, name):
        return f"takes long with {network.ranks} ranks and {network.num_links} links: not tried unless it is named"
    if time_s <= 1.01 * least_seconds(network, request.collective, request.root, request.size_bytes):
        return f"not tried: {best.algorithm} is within 1 % of the bound"
    return None


def _time(plan: Plan, size_bytes: int, simulator: str) -> float:
    if simulator == "flow":
        return _core.simulate_flow(plan, size_bytes, False).time_s
    return _core.simulate_analytic(plan, size_bytes).time_s
