"""Explains a network: what limits it, what each cable is worth, what failures cost, and what limits on trees cost.

The bound of a collective is a linear program or a cut, so each link has a dual price: the most by which the rate rises
for each byte a second that the link gains. One set of optimal prices is enough to prove that a link whose price is 0
gains nothing alone; the bound of every other cable is computed anew with 10 % more bandwidth. For each failure the
bound is computed, and a plan is made.

Cost: a bound and a plan for each cable and each node. So that this takes seconds, the plans are made by one of the
planners that take milliseconds, the one that is fastest on the whole network; the others are tried where it does not
fit, or where its plan is further from the bound than on the whole network. A question needs two plans only, which
`auto` chooses on networks that are not large.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from treefold import checks, planning, progress
from treefold._core import Topology, parse_collective
from treefold.auto import names
from treefold.checks import DEFAULT_SIZE_BYTES
from treefold.errors import MisfitError
from treefold.explaining.cables import Cable, bandwidth_of, cables_of
from treefold.explaining.limits import limits
from treefold.explaining.questions import Change, change_asked
from treefold.explaining.sharing import shared_worths
from treefold.explaining.together import together
from treefold.explaining.what_if import Task, after, by_worth, factor, fraction, growth_of, outcome, planned
from treefold.explanation_results import Answer, Explanation, Failure, LinkWorth, Outcome
from treefold.networks import as_network
from treefold.planning.replan import changes

QUICK = ("mtree", "multitree", "innet-push", "nccl", "direct", "dbtree", "ring")
"""The planners that take milliseconds, of which the fastest plan is taken unless an algorithm is named."""
BETTER = ("packing", "forest")
"""Slower planners that are tried, too, on small networks where the quick ones are far above the bound."""
_FAR = 1.1
_AS_GOOD = 0.95
"""A plan after a failure should be this near to the bound, as a part of how near the plan now is."""
_MOST_BETTER_WORK = 1 << 14
"""The most failures times ranks times links for that, which takes some seconds."""
_MOST_AUTO_WORK = 1 << 15
"""The most ranks times links for which `auto` plans for a question, which takes some ten seconds."""
MOST_WORK = 1 << 25
"""The most failures times ranks times links for which everything is explained, which takes about a minute."""
GROWTH = 1.1
"""The bandwidth of a cable with 10 % more, as a multiple of what it has."""


def explain(
    network: Topology | str,
    algorithm: str | None = None,
    *,
    size_bytes: int | str | None = None,
    collective: str = "all-reduce",
    root: int = 0,
    upgrade: Mapping[Any, float | str] | None = None,
    without: Sequence[Any] | str = (),
    is_whole: bool = False,
) -> Explanation:
    """Explain what limits a network, what more bandwidth and what failures would change, and what few trees cost.

    A cable is all that joins two nodes: parallel links, and both directions. For each cable the bound is computed with
    10 % more bandwidth. For each failure of a cable or a node, the bound is computed and a new plan is made. With
    `upgrade` or `without` only that question is answered, all changes at once.

    Args:
        network: A `Topology`, a spec, or the path of a file.
        algorithm: The algorithm of all plans: one of `treefold.algorithms()`, or `auto` for the fastest in each case,
            which takes long. By default the fastest of some that take milliseconds, or for a question that of all;
            `Outcome.algorithm` names it.
        size_bytes: The size of the vector, in bytes or as a text with a unit such as `1MiB`; by default 64 MiB.
        collective: `all-reduce`, `reduce-scatter`, `all-gather`, `broadcast`, `reduce` or `all-to-all`.
        root: The rank that broadcasts or receives; other collectives ignore it, but it must be a rank.
        upgrade: The bandwidth that each link of a cable would have, in bytes per second or as a text such as
            `10Gbit/s`, by the name of the cable: `A - B` for both directions, `A -> B` for one, or a pair of names. By
            its name, that of a shared capacity.
        without: The names of what would be gone: nodes (with their links), and cables or directions as in `upgrade`.
        is_whole: Whether to explain networks for which that takes more than about a minute, and to do so beside a
            question. By default only the bound, the plan and the question are dealt with there.

    Raises:
        MisfitError: If the named algorithm does not fit the network.
        TreefoldError: If an argument is unknown or not possible.

    Example:
        >>> found = treefold.explain("b4", upgrade={"site0 - site1": "50MB/s"})
        >>> found.now.rate_Bps, found.answer.then.rate_Bps
        (37500000.0, 43750000.0)

    """
    network = as_network(network)
    checks.root(root, network.ranks)
    change = change_asked(network, upgrade, without)
    size = DEFAULT_SIZE_BYTES if size_bytes is None else checks.size(size_bytes)
    is_asked = any(change)
    if algorithm is None and is_asked and not is_whole and network.ranks * network.num_links <= _MOST_AUTO_WORK:
        algorithm = "auto"
    task = _task(network, algorithm, parse_collective(collective), network.rank_names[root], size)
    now = outcome(task, network)
    if now.time_s and now.bound_s:
        task = task._replace(share=_AS_GOOD * now.bound_s / now.time_s)
    answer = _answer(task, now, change) if is_asked else None
    return _explanation(task, now, answer, _left_out(task, now, is_asked, is_whole))


def _explanation(task: Task, now: Outcome, answer: Answer | None, left_out: str) -> Explanation:
    """Return the explanation; what `left_out` gives a reason against is left out."""
    parts: dict[str, Any] = (
        {"links": (), "shared": (), "together": None, "failures": (), "limits": ()} if left_out else _parts(task, now)
    )
    return Explanation(
        network=task.network.name,
        collective=task.collective,
        simulator="analytic",
        size_bytes=task.size_bytes,
        now=now,
        answer=answer,
        left_out=left_out,
        **parts,
    )


def _task(network: Topology, algorithm: str | None, collective: str, root: str, size_bytes: int) -> Task:
    """Return the task, with the planners that make its plans."""
    named = () if algorithm is None else (checks.name("algorithm", algorithm, names()),)
    task = Task(network, collective, root, size_bytes, named)
    if named:
        planned(task, network)
        return task
    with progress.working_on("choosing a planner"):
        times = _times(task, QUICK)
        far_s = _FAR * task.bounds_on(network).seconds(size_bytes)
        if min(times.values()) > far_s and _cases(network) * network.ranks * network.num_links <= _MOST_BETTER_WORK:
            times |= _times(task, BETTER)
    return task._replace(algorithms=tuple(sorted(times, key=lambda name: times[name])))


def _times(task: Task, algorithms: Sequence[str]) -> dict[str, float]:
    """Return the times of the plans of those algorithms that fit."""
    fitting = [name for name in algorithms if planning.is_quick(task.network, name)]
    times = {name: _time_of(task, task.network, name) for name in fitting}
    return {name: time_s for name, time_s in times.items() if time_s is not None}


def _cases(network: Topology) -> int:
    """Return how many failures of one cable or one site there are."""
    return len(cables_of(network)) + len(network.nodes())


def _time_of(task: Task, network: Topology, algorithm: str) -> float | None:
    """Return the time of an algorithm's plan; None if it does not fit."""
    try:
        return planned(task._replace(algorithms=(algorithm,)), network)[1]
    except MisfitError:
        return None


def _answer(task: Task, now: Outcome, change: Change) -> Answer:
    """Return the answer to a question."""
    # A rate that is none is the caller's mistake; a network that is cut is an answer.
    wider = change.widened(task.network)
    told = changes(task.network, wider, by_cable=True)
    told += [f"node {name} is gone" for name in change.sites]
    told += [f"link {name} is gone" for name in _names_of(change.links)]
    with progress.working_on("answering"):
        then = after(task, change)
    return Answer(
        changes=tuple(told),
        then=then,
        rate_fraction=fraction(task, now, then.rate_Bps),
        time_factor=factor(then.time_s, now.time_s),
    )


def _names_of(links: Sequence[tuple[str, str]]) -> list[str]:
    """Return the names of the cables, and of the single directions, of these links."""
    names = [Cable(*ends, ends[::-1] in links) for ends in links]
    return [each.name for each in names if not (each.has_both and links.index(each[1::-1]) < links.index(each[:2]))]


def _left_out(task: Task, now: Outcome, is_asked: bool, is_whole: bool) -> str:
    """Return why only the bound, the plan and the question are dealt with; an empty text if all is."""
    if now.rate_Bps is None:
        return now.problem
    if is_whole:
        return ""
    if is_asked:
        return "only the question is answered; is_whole=True explains the network as it is, too"
    network = task.network
    if _cases(network) * network.ranks * network.num_links <= MOST_WORK:
        return ""
    size = f"with {network.ranks} ranks and {network.num_links} links"
    return f"each cable and each failure by itself would take long {size}; is_whole=True explains them all"


def _parts(task: Task, now: Outcome) -> dict[str, Any]:
    """Return the worth of all cables, the cost of all failures, and that of limits on trees."""
    with progress.working_on("failures", 0.0, 0.7):
        failures = _failures(task, now)
    with progress.working_on("links", 0.7, 0.2):
        links = _worths(task, now, {each.name for each in failures if each.kind == "link" and each.rate_fraction == 1})
        shared = shared_worths(task, now, GROWTH)
        gains = any(each.gain_fraction > 0 for each in links) or any(each.gain_fraction > 0 for each in shared)
        several = None if gains else together(task, now, GROWTH)
    with progress.working_on("limits on trees", 0.9, 0.1):
        return {
            "links": links,
            "shared": shared,
            "together": several,
            "failures": failures,
            "limits": limits(task, now),
        }


def _failures(task: Task, now: Outcome) -> tuple[Failure, ...]:
    """Return the cost of the failure of each cable and each site, the worst first."""
    cases = [("link", each.name, Change({}, each.directions, ())) for each in cables_of(task.network)]
    cases += [("site", node.name, Change({}, (), [node.name])) for node in task.network.nodes()]
    found = []
    for place, (kind, name, change) in enumerate(cases):
        with progress.working_on(name, place / len(cases), 1 / len(cases)):
            found.append(_failure(task, now, kind, name, after(task, change)))
    return tuple(sorted(found, key=_badness))


def _failure(task: Task, now: Outcome, kind: str, name: str, then: Outcome) -> Failure:
    """Return the cost of a failure."""
    return Failure(
        kind=kind,
        name=name,
        ranks=then.ranks,
        rate_Bps=then.rate_Bps,
        rate_fraction=fraction(task, now, then.rate_Bps),
        algorithm=then.algorithm,
        time_s=then.time_s,
        time_factor=factor(then.time_s, now.time_s),
        problem=then.problem,
    )


def _badness(failure: Failure) -> tuple[float, float]:
    """Return a key that puts what cuts the network first, then what makes plans slowest."""
    if failure.rate_fraction is None:
        return 0.0, 0.0
    return (1.0, failure.rate_fraction) if failure.time_factor is None else (2.0, -failure.time_factor)


def _worths(task: Task, now: Outcome, harmless: set[str]) -> tuple[LinkWorth, ...]:
    """Return the worth of each cable, the most valuable first; the loss of those in `harmless` costs nothing."""
    network, limiting = task.network, {*now.links}
    rate_Bps = now.rate_Bps or 0.0
    ceilings = _ceilings(task)
    cables = cables_of(network)
    found = []
    for place, (cable, links) in enumerate(cables.items()):
        progress.report(cable.name, place / len(cables))
        more = dict.fromkeys(cable.directions, GROWTH)
        wider = partial(network.with_scaled_bandwidths, more, one_way=True)
        growth = growth_of(task, now, ceilings[cable], wider)
        found.append(
            LinkWorth(
                link=cable.name,
                source=cable.source,
                target=cable.target,
                bandwidth_Bps=bandwidth_of(cable, links),
                is_limiting=any(f"{source} -> {target}" in limiting for source, target in cable.directions),
                rate_Bps=rate_Bps * growth,
                gain_fraction=growth - 1,
                is_spare=growth == 1 and cable.name in harmless,
            )
        )
    return by_worth(found)


def _ceilings(task: Task) -> dict[Cable, float]:
    """Return for each cable the most by which the rate rises with 10 % more of it, by the dual prices of the bound."""
    network = task.network
    prices = task.bounds_on(network).prices()[: network.num_links]
    gains: dict[tuple[str, str], float] = {}
    for link, price in zip(network.links(), prices.tolist(), strict=True):
        ends = link.source, link.target
        gains[ends] = gains.get(ends, 0.0) + (GROWTH - 1) * link.bandwidth_Bps * price
    return {cable: sum(gains[ends] for ends in cable.directions) for cable in cables_of(network)}
