"""When a network changes: what did, whether the old plan still serves, and a new plan that keeps what is good of it.

Trees of the old plan that still stand compete with those of a new packing; each of them is worth a little more than a
new one, so that they stay wherever they cost nothing, and workers have less to set up anew.
"""

import json
from typing import Any, NamedTuple

import numpy as np

from treefold._core import Forest, Plan, Topology, TreefoldError
from treefold.planning import programs
from treefold.planning.packing import pack

_WORTH = 1e-3
"""An old tree may cost so much of the rate."""


class Replanned(NamedTuple):
    """What became of a plan."""

    changes: list[str]
    """What is different about the network, a line each; empty when nothing is."""
    old: Plan | None
    """The old plan on the new network; None when it cannot run there."""
    new: Plan
    kept: int
    """How many trees of the new plan are the old plan's."""


def replan(plan: Plan, network: Topology) -> Replanned:
    """Plan anew for `network`, an all-reduce that keeps the trees of `plan` that are still good.

    Raises:
        TreefoldError: If the plan is another collective.

    """
    if plan.collective != "all-reduce":
        raise TreefoldError(
            f"the plan is a {plan.collective}; only an all-reduce is planned anew: derive from it again"
        )
    forest = Forest(network)
    shares = np.array(forest.add_surviving(plan))
    stands = bool(len(shares)) and len(shares) == plan.trees and plan.topology.ranks == network.ranks
    old = _moved(plan, network) or (forest.plan(plan.algorithm, list(shares), True) if stands else None)
    forest.join(pack(network.to_json()).forest)
    bonus = np.where(np.arange(len(forest)) < len(shares), _WORTH, 0.0)
    rates = programs.prefer(forest.usage(), np.asarray(forest.capacity), bonus)
    kept = int(np.count_nonzero(rates[: len(shares)] > 1e-6 * rates.sum()))
    return Replanned(changes(plan.topology, network), old, forest.plan("packing", list(rates), True), kept)


def _moved(plan: Plan, network: Topology) -> Plan | None:
    """Return the same plan on `network` where only numbers changed."""
    document, ours = json.loads(plan.to_json()), json.loads(network.to_json())

    def skeleton(topology: dict[str, Any]) -> Any:
        links = [(link["source"], link["target"]) for link in topology["links"]]
        return [node["name"] for node in topology["nodes"]], links, topology.get("ranks")

    if skeleton(document["topology"]) != skeleton(ours):
        return None
    return Plan.from_json(json.dumps(document | {"topology": ours}))


def changes(old: Topology, new: Topology) -> list[str]:
    """Return what is different between two states of a network, a line each."""
    before, after = (json.loads(network.to_json()) for network in (old, new))
    nodes = [{node["name"] for node in topology["nodes"]} for topology in (before, after)]
    lines = [f"node {name} is gone" for name in sorted(nodes[0] - nodes[1])]
    lines += [f"node {name} is new" for name in sorted(nodes[1] - nodes[0])]
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
