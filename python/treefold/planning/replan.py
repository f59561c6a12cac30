"""When a network changes: what did, whether the old plan still serves, and a new plan that keeps what is good of it.

Trees of the old plan that still stand compete with those of a new packing; each of them is worth a little more than a
new one, so that they stay wherever they cost nothing, and workers have less to set up anew. That packing, one made for
the size and the wishes, and the old plan as it was are compared by predicted time.
"""

import json
from typing import Any, NamedTuple

import numpy as np

from treefold import planning
from treefold._core import Forest, Plan, Topology, simulate_analytic
from treefold.errors import TreefoldError
from treefold.planning import Wishes, packing, programs

_WORTH = 1e-3
"""Old trees may cost so much of the rate."""
_WORTH_STAYING = 0.01
"""A plan that only consists of old trees may take so much longer."""


class Replanned(NamedTuple):
    """What became of a plan."""

    changes: list[str]
    """What is different about the network, a line each; empty when nothing is."""
    old: Plan | None
    """The old plan on the new network; None when it cannot run there."""
    new: Plan
    kept: int
    """How many trees of the new plan are the old plan's."""


def replan(plan: Plan, network: Topology, wishes: Wishes) -> Replanned:
    """Plan anew for `network`, an all-reduce that keeps the trees of `plan` that are still good.

    Raises:
        TreefoldError: If the plan is another collective, or a wish cannot be met.

    """
    if plan.collective != "all-reduce":
        raise TreefoldError(
            f"the plan is a {plan.collective}; only an all-reduce is planned anew: derive from it again"
        )
    old = _moved(plan, network)
    forest = Forest(network)
    survivors = len(forest.add_surviving(plan))
    candidates = [(planning.plan("packing", network, wishes).plan, 0)]
    if network.ranks > 1:
        candidates += _keeping(forest, survivors, network, wishes)
    if old is not None and old.trees == survivors and planning.keepers(wishes) is None:
        candidates.append((old, survivors))

    def loss(candidate: tuple[Plan, int]) -> float:
        time_s = simulate_analytic(candidate[0], [wishes.size_bytes])[0][0]
        return time_s * (1 - _WORTH_STAYING * candidate[1] / max(candidate[0].trees, 1))

    new, kept = min(candidates, key=loss)
    return Replanned(changes(plan.topology, network), old, new, kept)


def _keeping(forest: Forest, survivors: int, network: Topology, wishes: Wishes) -> list[tuple[Plan, int]]:
    """Return the plan of the best packing in which old trees stay where they can, unless it breaks the wishes."""
    forest.join(packing.pack(network.to_json()).forest)
    bonus = np.where(np.arange(len(forest)) < survivors, _WORTH, 0.0)
    rates = programs.prefer(forest.usage(), np.asarray(forest.capacity), bonus)
    if not packing.keeps(forest, rates, wishes):
        return []
    return [(forest.plan("packing", list(rates), wishes.pipeline), int(np.count_nonzero(rates[:survivors])))]


def _moved(plan: Plan, network: Topology) -> Plan | None:
    """Return the same plan on `network`, where all ranks, and all links that it needs, are still there."""
    document, ours = json.loads(plan.to_json()), json.loads(network.to_json())
    theirs = document["topology"]
    if _ranks(theirs) != _ranks(ours):
        return None
    place = {node["name"]: number for number, node in enumerate(ours["nodes"])}
    node = [place.get(each["name"]) for each in theirs["nodes"]]
    number = {key: index for index, key in enumerate(_links(ours))}
    link = [number.get(key) for key in _links(theirs)]
    for lane in document["lanes"]:
        if "links" in lane:  # else it is routed, and will be again
            lane["links"] = [link[each] for each in lane["links"]]
        lane["source"], lane["target"] = node[lane["source"]], node[lane["target"]]
        if None in (*lane.get("links", ()), lane["source"], lane["target"]):
            return None
    for tree in (tree for phase in document["phases"] for tree in phase["trees"]):
        tree["root"] = node[tree["root"]]
    try:
        return Plan.from_json(json.dumps(document | {"topology": ours}))
    except TreefoldError:
        return None


def _ranks(topology: dict[str, Any]) -> list[str]:
    """Return the names of the ranks, in their order."""
    names = [node["name"] for node in topology["nodes"] if node.get("kind", "accelerator") == "accelerator"]
    return list(topology.get("ranks", names))


def changes(old: Topology, new: Topology) -> list[str]:
    """Return what is different between two states of a network, a line each."""
    before, after = (json.loads(network.to_json()) for network in (old, new))
    nodes = [{node["name"] for node in topology["nodes"]} for topology in (before, after)]
    lines = [f"node {name} is gone" for name in sorted(nodes[0] - nodes[1])]
    lines += [f"node {name} is new" for name in sorted(nodes[1] - nodes[0])]
    ranks = [set(_ranks(topology)) for topology in (before, after)]
    lines += [f"{name} is no rank any more" for name in sorted((ranks[0] - ranks[1]) & nodes[1])]
    lines += [f"{name} is a rank now" for name in sorted((ranks[1] - ranks[0]) & nodes[0])]
    links = [_links(topology) for topology in (before, after)]
    for key in sorted(links[0].keys() | links[1].keys()):
        name = f"link {key[0]} -> {key[1]}"
        if key not in links[1]:
            lines += [f"{name} is gone"]
        elif key not in links[0]:
            lines += [f"{name} is new"]
        else:
            lines += _differences(name, links[0][key], links[1][key])
    return lines


def _links(topology: dict[str, Any]) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return links by the names of their ends and their number among parallel ones."""
    links: dict[tuple[str, str, int], dict[str, Any]] = {}
    for link in topology["links"]:
        number = 0
        while (link["source"], link["target"], number) in links:
            number += 1
        links[link["source"], link["target"], number] = link
    return links


def _differences(name: str, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    keys = ("bandwidth_Bps", "latency_s", "overhead_s")
    changed = [key for key in keys if before.get(key, 0.0) != after.get(key, 0.0)]
    return [f"{name}: {key} {before.get(key, 0.0):g}, now {after.get(key, 0.0):g}" for key in changed]
