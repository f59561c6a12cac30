"""Chooses the plan for a network that has changed, and says what changed and whether the old plan still runs.

The caller has planned afresh, with the algorithm and the options of the old plan unless others were asked for. That
plan competes with the old one if that still runs, no limit (trees, height, least rate, steps) was asked for, and the
same algorithm or `auto` is wanted. If the new plan is a packing, it also competes with a packing in which trees of
the old plan are worth a little more than new ones, so that they stay wherever they cost nothing, and workers have less
to set up. The caller predicts the times.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from treefold import _core, progress
from treefold._core import Link, Plan, Topology, format_bandwidth, format_time
from treefold.planning.request import Request, limits
from treefold.results import Prediction

_WRITTEN = {"bandwidth_Bps": format_bandwidth, "latency_s": format_time, "overhead_s": format_time}
"""How the report of changes writes each quantity of a link."""
_WORTH_STAYING = 0.01
"""The part by which a plan of old trees only may be slower."""


class Candidate(NamedTuple):
    """A plan for the changed network, how many trees of the old plan it keeps, and what is predicted of it."""

    plan: Plan
    kept: int
    prediction: Prediction


def choose(
    plan: Plan, fresh: Plan, request: Request, predict: Callable[[Plan], Prediction]
) -> tuple[Candidate, Prediction | None]:
    """Choose the plan for the network of `request`; return it, and what is predicted of the old plan if it still runs.

    Args:
        plan: The plan for the network as it was.
        fresh: The plan that the planner of the request has made.
        request: What the new plan is for.
        predict: Predicts the time of a plan.

    """
    old = _on(request.network, plan)
    plans = _core.successors(plan, fresh, request.options, progress.report)
    # A limit may count in another unit on this network, so only a fresh plan is known to keep it.
    competes = request.algorithm in (plan.algorithm, "auto") and not limits(request.options)
    candidates = [Candidate(each, kept, predict(each)) for each, kept in plans]
    if old is None:
        return min(candidates, key=_loss), None
    stays = Candidate(old, old.num_trees, predict(old))
    return min([*candidates, stays] if competes else candidates, key=_loss), stays.prediction


def _loss(candidate: Candidate) -> float:
    """Return the predicted time, less what the old trees that are kept are worth."""
    return candidate.prediction.time_s * (1 - _WORTH_STAYING * candidate.kept / max(candidate.plan.num_trees, 1))


def _on(network: Topology, plan: Plan) -> Plan | None:
    """Return the plan on a changed network; None if a link or node is missing, or the plan is wrong there."""
    moved = plan.moved_to(network)
    return None if moved is None or moved.check() is not None else moved


def changes(old: Topology, new: Topology, *, by_cable: bool = False) -> list[str]:
    """Return the differences between two states of a network, one line each.

    Args:
        old: The network as it was.
        new: The network as it is now.
        by_cable: Whether two directions that have changed alike share a line.

    """
    nodes = [{node.name for node in network.nodes()} for network in (old, new)]
    ranks = [set(network.rank_names) for network in (old, new)]
    lines = [f"node {name} is gone" for name in sorted(nodes[0] - nodes[1])]
    lines += [f"node {name} is new" for name in sorted(nodes[1] - nodes[0])]
    lines += [f"{name} is not a rank any more" for name in sorted((ranks[0] - ranks[1]) & nodes[1])]
    lines += [f"{name} is a rank now" for name in sorted((ranks[1] - ranks[0]) & nodes[0])]
    before, after = _links(old), _links(new)
    found = {key: list(_differences(before.get(key), after.get(key))) for key in sorted(before.keys() | after.keys())}
    for (source, target, number), differences in found.items():
        back = found.get((target, source, number)) if by_cable else None
        if back == differences and target < source:
            continue  # the other direction has said it
        lines += [f"link {source} {'-' if back == differences else '->'} {target}{each}" for each in differences]
    return [*lines, *_shared_changes(old, new)]


def _shared_changes(old: Topology, new: Topology) -> Iterator[str]:
    """Yield how shared capacities differ, a line each; of one that is gone because links of it are, those tell."""
    before, after = ({shared.name: shared for shared in network.shared()} for network in (old, new))
    links, left = old.links(), {(link.source, link.target) for link in new.links()}
    for name, was in before.items():
        now = after.get(name)
        if now is not None and now.bandwidth_Bps != was.bandwidth_Bps:
            both = f"{format_bandwidth(was.bandwidth_Bps)}, now {format_bandwidth(now.bandwidth_Bps)}"
            yield f"shared capacity {name}: bandwidth {both}"
        elif now is None and all((links[each].source, links[each].target) in left for each in was.links):
            yield f"shared capacity {name} limits nothing any more"
    yield from (f"shared capacity {name} is new" for name in after if name not in before)


def _links(network: Topology) -> Mapping[tuple[str, str, int], Link]:
    """Return the links by the names of their ends and their number among parallel links."""
    links: dict[tuple[str, str, int], Link] = {}
    counts: dict[tuple[str, str], int] = {}
    for link in network.links():
        ends = link.source, link.target
        number = counts[ends] = counts.get(ends, -1) + 1
        links[(*ends, number)] = link
    return links


def _differences(before: Link | None, after: Link | None) -> Iterator[str]:
    """Yield how a link differs, each as the end of a sentence that begins with its name."""
    if before is None or after is None:
        yield f" is {'gone' if after is None else 'new'}"
        return
    for key, written in _WRITTEN.items():
        was, now = getattr(before, key), getattr(after, key)
        if was != now:
            yield f": {key.rpartition('_')[0]} {written(was)}, now {written(now)}"
